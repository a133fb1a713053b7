"""Measurements on a path or a scheme: they say whether the theory's promises hold on a system, and steer nothing."""

from dalembert.measure.between.events import Events, events
from dalembert.measure.condition import Condition
from dalembert.measure.consistency import Consistency, consistency
from dalembert.measure.cotangent.legendre import Balance, LegendreMaps, balance, legendre
from dalembert.measure.cotangent.noether import MomentumBalance, momentum_balance
from dalembert.measure.cotangent.phase_step import PhasePoint, phase_step
from dalembert.measure.embedding import Embedding, embedding
from dalembert.measure.exact.pair import ExactPair, exact_discrete
from dalembert.measure.exact.parts import DiscreteConsistency, discrete_consistency
from dalembert.measure.flow_symplectic import flow_symplectic_defect
from dalembert.measure.higher import PoincareCartan, euler_lagrange_operator, poincare_cartan
from dalembert.measure.higher_path import FlowRegularity
from dalembert.measure.invariant import Invariant
from dalembert.measure.invariants import Residual, constraint_residual, energy, momentum
from dalembert.measure.multipliers import Multipliers, multipliers
from dalembert.measure.order import Convergence, Order, order
from dalembert.measure.perturbation import Perturbation, perturbation, projected_perturbation
from dalembert.measure.regularity import Regularity, regularity
from dalembert.measure.symplectic import SymplecticDefect, symplectic_defect

__all__ = [
    "Balance",
    "Condition",
    "Consistency",
    "Convergence",
    "DiscreteConsistency",
    "Embedding",
    "Events",
    "ExactPair",
    "FlowRegularity",
    "Invariant",
    "LegendreMaps",
    "MomentumBalance",
    "Multipliers",
    "Order",
    "Perturbation",
    "PhasePoint",
    "PoincareCartan",
    "Regularity",
    "Residual",
    "SymplecticDefect",
    "balance",
    "consistency",
    "constraint_residual",
    "discrete_consistency",
    "embedding",
    "energy",
    "euler_lagrange_operator",
    "events",
    "exact_discrete",
    "flow_symplectic_defect",
    "legendre",
    "momentum",
    "momentum_balance",
    "multipliers",
    "order",
    "perturbation",
    "phase_step",
    "poincare_cartan",
    "projected_perturbation",
    "regularity",
    "symplectic_defect",
]
