"""dalembert: discrete Lagrange-d'Alembert mechanics on JAX.

Importing the package turns JAX's 64 bit mode on: second differences in single precision are noise.
"""

import jax

jax.config.update("jax_enable_x64", True)

from dalembert import measure  # noqa: E402
from dalembert.discretize import Beta, Central, DiscreteSystem, PairMap, Redefined, Scheme, TripleMap, redefined  # noqa: E402
from dalembert.discretize.windows import Averaged, Hermite, Interpolated  # noqa: E402
from dalembert.path import Outcome, Path, Provenance, Statistics, StepError  # noqa: E402
from dalembert.show import plot  # noqa: E402
from dalembert.step import Avoid, Branch, Least, Nearest, Root, SampledFeedback, StepProgram, ensemble, roots, simulate  # noqa: E402
from dalembert.store import from_xarray, load, matches, save, to_xarray  # noqa: E402
from dalembert.systems import (  # noqa: E402
    AdaptedReference,
    Connection,
    Constraint,
    Holonomic,
    InconsistentDataError,
    Interpolant,
    Lyapunov,
    Nonholonomic,
    Ostrogradsky,
    Projection,
    RankDeficientError,
    Reduction,
    Reference,
    SecondOrder,
    Solvability,
    System,
    VariationalProblem,
    acceleration,
    adapted_reference,
    connection,
    deformed,
    energy,
    interpolant,
    momentum,
    ostrogradsky,
    project,
    reduction,
    reference,
    solvability,
)

__version__ = "0.1.0"

__all__ = [
    "AdaptedReference",
    "Averaged",
    "Avoid",
    "Beta",
    "Branch",
    "Central",
    "Connection",
    "Constraint",
    "DiscreteSystem",
    "Hermite",
    "Holonomic",
    "InconsistentDataError",
    "Interpolant",
    "Interpolated",
    "Least",
    "Lyapunov",
    "Nearest",
    "Nonholonomic",
    "Ostrogradsky",
    "Outcome",
    "PairMap",
    "Path",
    "Projection",
    "Provenance",
    "RankDeficientError",
    "Redefined",
    "Reduction",
    "Reference",
    "Root",
    "SampledFeedback",
    "Scheme",
    "SecondOrder",
    "Solvability",
    "Statistics",
    "StepError",
    "StepProgram",
    "System",
    "TripleMap",
    "VariationalProblem",
    "acceleration",
    "adapted_reference",
    "connection",
    "deformed",
    "energy",
    "ensemble",
    "from_xarray",
    "interpolant",
    "load",
    "matches",
    "measure",
    "momentum",
    "ostrogradsky",
    "plot",
    "project",
    "redefined",
    "reduction",
    "reference",
    "roots",
    "save",
    "simulate",
    "solvability",
    "to_xarray",
]
