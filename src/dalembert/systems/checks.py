"""Errors before a run, where the proof did not succeed: what is not finite, consistent or regular at its data, by name."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from dalembert.algebra import newton, numerical_rank, value_and_jacobian
from dalembert.numbers import as_array, check_x64, is_traced
from dalembert.systems.consistency import (
    CONSISTENT,
    InconsistentDataError,
    InitialData,
    RankDeficientError,
    as_numpy,
    check_parameters,
    violation_of,
)
from dalembert.systems.equations import EXACT, first_guess, kkt_residual, motion_at
from dalembert.systems.proof import InitialValues, Runs, RunStart, evaluate_start, proven_start, unproven
from dalembert.systems.sizes import units_of
from dalembert.systems.system import System, at_origin, check_system, equation_names, label
from dalembert.tracing import seldom, traced_once


class InitialTerms(NamedTuple):
    """Values at the solution z = (a, λ), or at z = 0 where none was found.

    informative: whether the ranks at z are those at a solution: it was found, or the constraints are linear in a. units: of
    the unknowns, in which ranks are looked at. names: of the equations of constraints; plain: which are not Lyapunov's.
    given: F, F' and the user's functions at z.
    """

    z: np.ndarray
    solved: bool
    informative: bool
    residual: float
    units: np.ndarray
    names: list[str]
    plain: np.ndarray
    given: InitialValues

    @property
    def n(self) -> int:
        return self.given.forces.shape[0]

    @property
    def matrix(self) -> np.ndarray:
        """F', in units."""
        return np.asarray(self.given.matrix) * self.units

    @property
    def rows(self) -> np.ndarray:
        """R, (m, n), in units: the equations of motion contain -Rᵀλ."""
        return -np.asarray(self.given.matrix)[: self.n, self.n :].T * self.units[: self.n]


@seldom
def _solve_terms(system: System, q, v, t, m: int):
    """z, whether it was found, whether the constraints are linear in a, the residual, and the values at z."""
    n = q.shape[0]
    equations = traced_once(lambda x: kkt_residual(system, q, v, t, x))
    units = lambda matrix: units_of(matrix, n, jnp)  # noqa: E731
    z, report = newton(equations, jnp.asarray(first_guess(n, m)), lambda x: 1.0 + jnp.abs(x), EXACT, units)
    here, beside = (value_and_jacobian(equations, jnp.zeros_like(z).at[:n].set(x))[1][n:, :n] for x in (0.0, 1.0))
    linear = jnp.all(jnp.abs(beside - here) <= 1e-9 * (1.0 + jnp.abs(here)))
    z = jnp.where(report.solved, z, 0.0)
    return z, report.solved, linear, report.residual, evaluate_start(system, q, v, t, z, jnp.zeros_like(q))


def initial_terms(system: System, q, v, t, sizes: list[int]) -> InitialTerms | None:
    """The values that the checks look at; None where a function of the system closes over a traced value."""
    found = _solve_terms(system, q, v, t, sum(sizes))
    if isinstance(found[0], Tracer):
        return None
    z, solved, linear, residual, given = as_numpy(found)
    units = units_of(given.matrix, q.shape[0]) if np.all(np.isfinite(given.matrix)) else np.ones(len(z))
    controls = np.repeat(np.array([c.is_control for c in system.constraints], bool), sizes)
    own = equation_names(system, sizes), np.flatnonzero(~controls)
    return InitialTerms(z, bool(solved), bool(solved or linear), float(residual), units, *own, given)


def check_initial_data(system: System, q0, v0, t0: float | Array = 0.0, time: float | Array | None = None):
    """φ(q₀, v₀, t₀) = 0, and (a, λ) is determined: returns (q0, v0) as float arrays after all checks. Traced values are
    checked for their shapes only.

    Args:
        system: a System.
        q0: (n,) positions.
        v0: (n,) velocities.
        t0: the time of (q0, v0).
        time: a time in which the positions change by about their own size; None if unknown.

    Returns:
        q0 and v0, (n,) each, in float64.

    Raises:
        ValueError: an argument has the wrong shape or value.
        TypeError: an argument is of the wrong type.
        InconsistentDataError: the constraints do not hold.
        RankDeficientError: (a, λ) is not determined.
    """
    check_system(system)
    check_x64()
    proven = proven_start(system, q0, v0, t0)
    if proven is None:
        return check_data(system, q0, v0, t0, time)
    return as_array(proven.q, "q0"), as_array(proven.v, "v0")


def check_data(system: System, q0, v0, t0: float | Array, time: float | Array | None) -> tuple[Array, Array]:
    """`check_initial_data` of data that `proven_start` has not proven: it is asked once in a call."""
    found, _ = _check_all(system, q0, v0, t0, time)
    return found.q, found.v


def solve_start(
    system: System, q0, v0, t0: float | Array, time: float | Array | None, motion: Array | None = None
) -> RunStart:
    """The beginning of a motion from data that are checked: proven in machine code, or looked at by name.

    motion: (a, λ), where `check_many` has checked the data and solved them.
    """
    local, y, v = at_origin(system, q0, v0)
    if local is not system:
        return solve_start(local, y, v, t0, time, motion)._replace(q=local.origin)
    if motion is not None:
        q, v, _, sizes = InitialData.of(system, q0, v0, t0)
        a, multipliers = jnp.split(motion, [v.shape[0]])
        return RunStart(q, v, a, multipliers, None, sizes)
    proven = proven_start(system, q0, v0, t0)
    if proven is not None:
        return proven
    given, found = _check_all(system, q0, v0, t0, time)
    q, v, t, sizes = given
    if found is None:
        return RunStart(q, v, *motion_at(system, q, v, t)[:2], None, sizes)
    return RunStart(q, v, found.z[: found.n], found.z[found.n :], found.units, sizes)


def examine_start(system: System, q0, v0, t0, time) -> tuple[InitialData, InitialTerms | None]:
    """The data, consistent with the constraints, and what is known of the system there, whatever its ranks: nothing, under
    tracing."""
    given = InitialData.of(system, q0, v0, t0)
    q, v, t, sizes = given
    if is_traced(q, v, t, system.parameters):
        return given, None
    check_parameters(system)
    found = initial_terms(system, q, v, t, sizes)
    if found is None:  # a function of the system closes over a traced value
        return given, None
    _check_values(system, found, q, v)
    _check_consistent(system, found, q, v, t, None if isinstance(time, Tracer) else time)
    return given, found


def _check_all(system: System, q0, v0, t0, time) -> tuple[InitialData, InitialTerms | None]:
    """`examine_start`, and that (a, λ) is determined."""
    given, found = examine_start(system, q0, v0, t0, time)
    if found is None:
        return given, None
    if found.informative:
        _check_constraints(found)
    _check_reactions(found)
    if found.informative:
        _check_regular(found)
    if not found.solved:
        raise InconsistentDataError(
            f"q0, v0: no acceleration that satisfies the constraints was found from a = 0 (Newton's residual is "
            f"{found.residual:.3g}); the constraint on accelerations may have no real solution at this state"
        )
    return given, found


def check_many(
    system: System, given: dict, axes: dict, number: int, t0: float, time: float
) -> Float[np.ndarray, "B n_plus_m"]:
    """(a, λ) of many runs, from `solve_runs`; InconsistentDataError where constraints do not hold, naming the first run.

    given: q0, v0 and parameters, arrays with an axis of runs where `axes` has 0; time: as for one run.
    """
    runs = Runs(system, given, axes, number)
    violated, motions = [], runs.solve(t0)
    for i in unproven(motions):
        q, v = runs.states[i]
        found = violation_of(runs.system(i), q, v, t0, time)
        violated += [] if found is None else [(i, found)]
    if violated:
        first, violation = violated[0]
        raise InconsistentDataError(
            f"q0, v0: {violation.name} is {violation.residual} in run {first} and not 0 ({len(violated)} of {number} runs). "
            "dalembert.project(system, q0, v0) finds the nearest consistent data"
        )
    return motions


@seldom
def _momentum_above_rest(system: System, q, v, t) -> tuple[Array, Array]:
    """L_v(q, v) - L_v(q, 0), and L_vv(q, 0) v."""
    slope, rest = jax.grad(lambda w: system.call(system.lagrangian, q, w, t=t)), jnp.zeros_like(v)
    return slope(v) - slope(rest), jax.jvp(slope, (rest,), (v,))[1]


def check_quadratic(system: System, q, v, t) -> None:
    """ValueError where L is not quadratic in v, as a velocity beside v shows; nothing is said of what is traced."""
    largest = jnp.max(jnp.abs(v))
    beside = v + jnp.where(largest > 0.0, largest, 1.0) * jnp.cos(1.0 + jnp.arange(v.shape[0]))
    found, wanted = _momentum_above_rest(system, jnp.asarray(q), beside, t)
    if not is_traced(found, wanted) and not np.max(np.abs(found - wanted)) <= CONSISTENT * np.max(np.abs(wanted)):
        raise ValueError(
            f"scheme: discrete_gradient needs L quadratic in v; at v = {beside} ∂L/∂v is {found} more than at rest, and not "
            f"{wanted}, which is ∂²L/∂v² v. Use drift_kick_drift (the default)"
        )


def _check_values(system: System, found: InitialTerms, q, v) -> None:
    given = found.given
    if not np.isfinite(given.lagrangian):
        raise ValueError(f"lagrangian: is {float(given.lagrangian)} at q0, v0; it must be finite there")
    if not np.all(np.isfinite(given.forces)):
        raise ValueError(f"forces: is {given.forces} at q0 = {np.asarray(q)}, v0 = {np.asarray(v)}; it must be finite there")
    reactions = np.split(found.rows, np.cumsum([len(x) for x in given.values])[:-1])
    for i, c in enumerate(system.constraints):
        for what, result in (("phi", given.values[i]), ("reactions", reactions[i])):
            if not np.all(np.isfinite(result)):
                raise ValueError(
                    f"{label(i, c)} {what}: is {result} at q0 = {np.asarray(q)}, "
                    f"v0 = {np.asarray(v)}; it must be finite there (is the system at rest where a speed is divided by?)"
                )


def _check_consistent(system: System, found: InitialTerms, q, v, t, time) -> None:
    known = found.given.restrictions
    if not all(np.all(np.isfinite(x)) for x in jax.tree.leaves(known)):
        return  # what is not finite is named later
    violated = violation_of(system, q, v, t, None if time is None else float(time), known)
    if violated is not None:
        raise InconsistentDataError(
            f"q0, v0: {violated.name} is {violated.residual} and not 0. dalembert.project(system, q0, v0) finds the "
            "nearest consistent data and says how far it moved them"
        )


def _check_reactions(found: InitialTerms) -> None:
    for i, basis in found.given.virtual.items():
        columns = numerical_rank(basis.T)
        if not columns.full:
            raise RankDeficientError(
                f"virtual: the {basis.shape[1]} columns of constraints[{i}] span {columns.rank} directions at q0, v0; "
                f"{basis.shape[1]} independent ones are needed, so that the reactions span the rest"
            )
    rank = numerical_rank(found.rows)
    if rank.rank < found.rows.shape[0]:
        raise RankDeficientError(
            f"reactions: the {found.rows.shape[0]} rows span {rank.rank} directions at q0, v0; {found.rows.shape[0]} are "
            f"needed, one for each equation (dependent: {', '.join(found.names[i] for i in rank.dependent_rows)})"
        )


def _check_constraints(found: InitialTerms) -> None:
    """Of the constraints other than Lyapunov's, as equations for a."""
    places = found.n + found.plain
    residual, jacobian = found.given.residual[places], found.matrix[places, : found.n]
    rank = numerical_rank(jacobian)
    if rank.full:
        return
    dependent = list(rank.dependent_rows)
    kept = [i for i in range(len(jacobian)) if i not in dependent]
    weights = np.linalg.lstsq(jacobian[kept].T, jacobian[dependent].T, rcond=None)[0]
    gap = np.max(np.abs(residual[dependent] - weights.T @ residual[kept]))
    contradictory = gap > 1e-8 * (1 + np.max(np.abs(residual)))
    raise RankDeficientError(
        f"constraints: {len(jacobian)} equations have rank {rank.rank} in the accelerations at q0, v0; they are "
        f"{'contradictory' if contradictory else 'redundant'} (dependent: "
        f"{', '.join(found.names[found.plain[i]] for i in dependent)}). "
        + (
            "No motion satisfies all of them"
            if contradictory
            else "Remove those that depend on the others, or let "
            "dalembert.systems.independent(system, q0, v0) choose those that are needed"
        )
    )


def _check_regular(found: InitialTerms) -> None:
    if not (np.all(np.isfinite(found.matrix)) and np.all(np.isfinite(found.given.residual))):
        raise ValueError(
            "lagrangian: its derivatives are not finite at q0, v0, or those of a constraint, a force or a control are not "
            "(a norm or a square root at zero? write v @ v and not jnp.linalg.norm(v) ** 2)"
        )
    rank = numerical_rank(found.matrix)
    if rank.full:
        return
    accelerations = found.matrix[:, : found.n]
    undetermined = numerical_rank(accelerations.T)
    if undetermined.full:
        raise RankDeficientError(
            "reactions: the constraint forces cannot enforce the constraints: the matrix of (a, λ) has rank "
            f"{rank.rank} of {found.matrix.shape[0]} at q0, v0, although the mass is regular on the motions that are left. "
            "A force along R must change the value of its constraint"
        )
    directions = np.linalg.svd(accelerations)[2][undetermined.rank - found.n :]
    raise RankDeficientError(
        "lagrangian: the mass matrix ∂²L/∂v² is degenerate on the motions that the constraints leave free: the matrix of "
        f"(a, λ) has rank {rank.rank} of {found.matrix.shape[0]} at q0, v0; undetermined acceleration along "
        f"{' and '.join(str(_with_positive_sign(d).round(6) + 0.0) for d in directions)}"
    )


def _with_positive_sign(direction: np.ndarray) -> np.ndarray:
    """The direction with a positive largest entry, so that messages do not depend on the factorization."""
    return direction * np.sign(direction[np.argmax(np.abs(direction).round(9))])
