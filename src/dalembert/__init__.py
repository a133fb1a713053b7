"""dalembert: discrete Lagrange-d'Alembert mechanics on JAX.

Importing the package turns JAX's 64 bit mode on: second differences in single precision are noise.
"""

import jax

jax.config.update("jax_enable_x64", True)

from dalembert.discretize import Beta, Central, DiscreteSystem, PairMap, Scheme, TripleMap  # noqa: E402
from dalembert.path import Outcome, Path, Statistics, StepError  # noqa: E402
from dalembert.step import Avoid, Least, Nearest, SampledFeedback, simulate  # noqa: E402
from dalembert.systems import (  # noqa: E402
    Holonomic,
    InconsistentDataError,
    Lyapunov,
    Nonholonomic,
    RankDeficientError,
    SecondOrder,
    System,
    acceleration,
    project,
    reference,
)

__version__ = "0.1.0"
