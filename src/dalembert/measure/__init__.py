"""Measurements on a path or a scheme: they say whether the theory's promises hold on a system, and steer nothing."""

from dalembert.measure.backward.equation import Modified, modified
from dalembert.measure.backward.formulas import ModifiedFormulas, modified_formulas
from dalembert.measure.backward.geometry import EnergyDrift, Helmholtz, KeptEnergy, energy_drift, helmholtz, kept_energy
from dalembert.measure.backward.path_error import ErrorBound, error_bound
from dalembert.measure.convergence import Convergence, Order, order
from dalembert.measure.cotangent import (
    Balance,
    LegendreMaps,
    MomentumBalance,
    PhasePoint,
    balance,
    legendre,
    momentum_balance,
    phase_step,
)
from dalembert.measure.event_times import Events, events
from dalembert.measure.exact import DiscreteConsistency, ExactPair, discrete_consistency, exact_discrete
from dalembert.measure.higher import PoincareCartan, euler_lagrange_operator, poincare_cartan
from dalembert.measure.invariants import Invariant, Multipliers, Residual, constraint_residual, energy, momentum, multipliers
from dalembert.measure.nodes import NodeView, check_neighbours, node_view
from dalembert.measure.one_step import Consistency, Embedding, consistency, embedding
from dalembert.measure.perturbed_flow import Perturbation, perturbation, projected_perturbation
from dalembert.measure.ranks import Condition, FlowRegularity, Regularity, regularity
from dalembert.measure.symplectic import SymplecticDefect, flow_symplectic_defect, symplectic_defect

__all__ = [
    "Balance",
    "Condition",
    "Consistency",
    "Convergence",
    "DiscreteConsistency",
    "Embedding",
    "EnergyDrift",
    "ErrorBound",
    "Events",
    "ExactPair",
    "FlowRegularity",
    "Helmholtz",
    "Invariant",
    "KeptEnergy",
    "LegendreMaps",
    "Modified",
    "ModifiedFormulas",
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
    "energy_drift",
    "error_bound",
    "euler_lagrange_operator",
    "events",
    "exact_discrete",
    "flow_symplectic_defect",
    "helmholtz",
    "kept_energy",
    "legendre",
    "modified",
    "modified_formulas",
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
