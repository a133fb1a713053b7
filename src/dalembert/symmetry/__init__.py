"""Symmetries of a system, found or given, and systems with fewer coordinates that they lead to. Begin with `search`."""

from dalembert.symmetry.cyclic import TurnedReduction, routh
from dalembert.symmetry.orbits import Quotient, QuotientMotion, QuotientRates, quotient
from dalembert.symmetry.reduced import FullMotion, Reduced, chaplygin
from dalembert.symmetry.search import Symmetries, Symmetry, symmetries

__all__ = [
    "FullMotion",
    "Quotient",
    "QuotientMotion",
    "QuotientRates",
    "Reduced",
    "Symmetries",
    "Symmetry",
    "TurnedReduction",
    "chaplygin",
    "quotient",
    "routh",
    "symmetries",
]
