"""Continuous systems: the Lagrangian and its constraints, the equations for (a, λ), consistent data, reference flow.

For constraints on velocities also: the explicit formula for (λ, v̇), solvability, coordinates on D and curves inside it.
"""

from dalembert.numbers import check_x64, is_traced, refuse_traced
from dalembert.systems import manifolds
from dalembert.systems.checks import check_initial_data
from dalembert.systems.compiled import reduced_flow
from dalembert.systems.consistency import InconsistentDataError, Projection, RankDeficientError, project
from dalembert.systems.constraints import Constraint, Holonomic, Nonholonomic, SecondOrder
from dalembert.systems.continuous import Reference, integrate_motion, motion_along, reference, references
from dalembert.systems.distribution.adapted import AdaptedReference, ChartChange, adapted_reference
from dalembert.systems.distribution.charts import Connection, Interpolant, connection, cutoff, interpolant
from dalembert.systems.distribution.reduction import Reduction, deformed, leaf_forms, reduction, velocity_constraints
from dalembert.systems.distribution.solvability import Solvability, solvability
from dalembert.systems.equations import acceleration, energy, momentum
from dalembert.systems.frame import along_constraints
from dalembert.systems.higher.ostrogradsky import Ostrogradsky, ostrogradsky
from dalembert.systems.higher.variational import (
    VariationalProblem,
    common_order,
    constraint_numbers,
    constraint_rates,
    constraints_of_order,
    density,
    differential_constraints,
    holonomic_constraints,
    lift,
    orders_of,
    ostrogradsky_momenta,
    true_orders,
    with_parameters,
)
from dalembert.systems.lyapunov import Lyapunov, deflatable, lyapunov_control, lyapunov_factor
from dalembert.systems.proof import proven_start
from dalembert.systems.redundant import Independent, independent
from dalembert.systems.shapes import output_shape, run_on_shapes
from dalembert.systems.sizes import CONSISTENT, as_step, power_of_two, with_inertia
from dalembert.systems.system import Problem, System, check_flat, check_shapes, check_system, is_flag, name_role

__all__ = [
    "AdaptedReference",
    "ChartChange",
    "Connection",
    "Constraint",
    "Holonomic",
    "InconsistentDataError",
    "Independent",
    "Interpolant",
    "Lyapunov",
    "Nonholonomic",
    "Ostrogradsky",
    "Projection",
    "RankDeficientError",
    "Reduction",
    "Reference",
    "SecondOrder",
    "Solvability",
    "System",
    "VariationalProblem",
    "acceleration",
    "adapted_reference",
    "check_initial_data",
    "check_x64",
    "connection",
    "cutoff",
    "deformed",
    "energy",
    "independent",
    "interpolant",
    "is_traced",
    "lift",
    "manifolds",
    "momentum",
    "ostrogradsky",
    "ostrogradsky_momenta",
    "project",
    "reduction",
    "reference",
    "references",
    "solvability",
]
