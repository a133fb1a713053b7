"""Measurements on a path or a scheme: they say whether the theory's promises hold on a system, and steer nothing."""

from dalembert.measure.consistency import Consistency, consistency
from dalembert.measure.embedding import Embedding, embedding
from dalembert.measure.invariants import Invariant, Residual, constraint_residual, energy, momentum
from dalembert.measure.multipliers import Multipliers, multipliers
from dalembert.measure.order import Convergence, Order, order
from dalembert.measure.perturbation import Perturbation, perturbation, projected_perturbation
from dalembert.measure.regularity import Condition, Regularity, regularity
from dalembert.measure.symplectic import SymplecticDefect, flow_symplectic_defect, symplectic_defect

__all__ = [
    "Condition",
    "Consistency",
    "Convergence",
    "Embedding",
    "Invariant",
    "Multipliers",
    "Order",
    "Perturbation",
    "Regularity",
    "Residual",
    "SymplecticDefect",
    "consistency",
    "constraint_residual",
    "embedding",
    "energy",
    "flow_symplectic_defect",
    "momentum",
    "multipliers",
    "order",
    "perturbation",
    "projected_perturbation",
    "regularity",
    "symplectic_defect",
]
