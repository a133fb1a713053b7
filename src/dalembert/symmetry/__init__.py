"""Symmetries of a system, found or given, and systems with fewer coordinates that they lead to. Begin with `search`."""

from dalembert.symmetry.chaplygin import chaplygin
from dalembert.symmetry.reduced import FullMotion, Reduced
from dalembert.symmetry.routh import routh
from dalembert.symmetry.search import symmetries
from dalembert.symmetry.symmetry import Symmetries, Symmetry
from dalembert.symmetry.turned import TurnedReduction

__all__ = ["FullMotion", "Reduced", "Symmetries", "Symmetry", "TurnedReduction", "chaplygin", "routh", "symmetries"]
