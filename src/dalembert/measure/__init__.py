"""Measurements on a path or a scheme: they say whether the theory's promises hold on a system, and steer nothing."""

from dalembert.measure.invariants import Invariant, Residual, constraint_residual, energy, momentum
from dalembert.measure.multipliers import Multipliers, multipliers
from dalembert.measure.order import Convergence, Order, order
from dalembert.measure.regularity import Condition, Regularity, regularity
from dalembert.measure.symplectic import SymplecticDefect, flow_symplectic_defect, symplectic_defect

__all__ = [
    "Condition",
    "Convergence",
    "Invariant",
    "Multipliers",
    "Order",
    "Regularity",
    "Residual",
    "SymplecticDefect",
    "constraint_residual",
    "energy",
    "flow_symplectic_defect",
    "momentum",
    "multipliers",
    "order",
    "regularity",
    "symplectic_defect",
]
