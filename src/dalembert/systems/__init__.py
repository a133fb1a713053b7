"""Continuous systems: the Lagrangian and its constraints, the equations for (a, λ), consistent data, reference flow."""

from dalembert.systems.checks import (
    InconsistentDataError,
    RankDeficientError,
    check_initial_data,
    check_x64,
    is_traced,
)
from dalembert.systems.consistent import Projection, project
from dalembert.systems.constraints import Constraint, Holonomic, Lyapunov, Nonholonomic, SecondOrder
from dalembert.systems.equations import acceleration, energy, momentum
from dalembert.systems.reference import Reference, reference
from dalembert.systems.system import System

__all__ = [
    "Constraint",
    "Holonomic",
    "InconsistentDataError",
    "Lyapunov",
    "Nonholonomic",
    "Projection",
    "RankDeficientError",
    "Reference",
    "SecondOrder",
    "System",
    "acceleration",
    "check_initial_data",
    "check_x64",
    "energy",
    "is_traced",
    "momentum",
    "project",
    "reference",
]
