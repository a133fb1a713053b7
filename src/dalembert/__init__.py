"""dalembert: discrete Lagrange-d'Alembert mechanics on JAX.

Importing the package turns JAX's 64 bit mode on: second differences in single precision are noise.
"""

import jax

jax.config.update("jax_enable_x64", True)

from dalembert import measure  # noqa: E402
from dalembert.discretize import Beta, Central, DiscreteSystem, PairMap, Redefined, Scheme, TripleMap, redefined  # noqa: E402
from dalembert.path import Outcome, Path, Provenance, Statistics, StepError  # noqa: E402
from dalembert.show import plot  # noqa: E402
from dalembert.step import Avoid, Branch, Least, Nearest, Root, SampledFeedback, StepProgram, ensemble, roots, simulate  # noqa: E402
from dalembert.store import from_xarray, load, matches, save, to_xarray  # noqa: E402
from dalembert.systems import (  # noqa: E402
    Constraint,
    Holonomic,
    InconsistentDataError,
    Lyapunov,
    Nonholonomic,
    Projection,
    RankDeficientError,
    Reference,
    SecondOrder,
    System,
    acceleration,
    energy,
    momentum,
    project,
    reference,
)

__version__ = "0.1.0"

__all__ = [
    "Avoid",
    "Beta",
    "Branch",
    "Central",
    "Constraint",
    "DiscreteSystem",
    "Holonomic",
    "InconsistentDataError",
    "Least",
    "Lyapunov",
    "Nearest",
    "Nonholonomic",
    "Outcome",
    "PairMap",
    "Path",
    "Projection",
    "Provenance",
    "RankDeficientError",
    "Redefined",
    "Reference",
    "Root",
    "SampledFeedback",
    "Scheme",
    "SecondOrder",
    "Statistics",
    "StepError",
    "StepProgram",
    "System",
    "TripleMap",
    "acceleration",
    "energy",
    "ensemble",
    "from_xarray",
    "load",
    "matches",
    "measure",
    "momentum",
    "plot",
    "project",
    "redefined",
    "reference",
    "roots",
    "save",
    "simulate",
    "to_xarray",
]
