"""Errors before a run, where the proof did not succeed: what is not finite, consistent or regular at its data, by name."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from dalembert.algebra import numerical_rank
from dalembert.algebra.roots import newton_by_values
from dalembert.numbers import as_number, as_state, check_x64, is_traced
from dalembert.systems.compiled.function import LARGEST, SystemFunction
from dalembert.systems.consistency import InconsistentDataError, RankDeficientError, Runs, check_parameters, violation_of
from dalembert.systems.equations import EXACT, first_guess, motion_at
from dalembert.systems.proof import InitialValues, evaluate_start, proven_start
from dalembert.systems.sizes import units_of
from dalembert.systems.system import System, check_shapes, check_system
from dalembert.tracing import seldom


def _at_rest(system: System, q, v, t, z) -> InitialValues:
    return evaluate_start(system, q, v, t, z, jnp.zeros_like(q))


_values, _native_values = seldom(_at_rest), SystemFunction(_at_rest)


class InitialTerms(NamedTuple):
    """Values at the solution z = (a, λ), or at z = 0 where none was found.

    linear: whether the constraints are, in a. equations, matrix: F and F' there. rows: R, (m, n). reduced, jacobian: the
    constraints other than Lyapunov's as equations for a, and their derivative by a. given: what does not depend on z.
    """

    z: np.ndarray
    solved: bool
    linear: bool
    residual: float
    equations: np.ndarray
    matrix: np.ndarray
    rows: np.ndarray
    reduced: np.ndarray
    jacobian: np.ndarray
    given: InitialValues

    def reactions(self, i: int) -> np.ndarray:
        """The rows of the i-th constraint."""
        sizes = [len(x) for x in self.given.values]
        return self.rows[sum(sizes[:i]) : sum(sizes[: i + 1])]


def initial_terms(system: System, q, v, t, m: int) -> InitialTerms | None:
    """Newton's iteration for (a, λ) on one compiled call; None where a function of the system closes over a traced value."""
    n = q.shape[0]
    start = first_guess(n, m)
    native = _native_values.bound(system, q, v, t, start) if n + m <= LARGEST else None
    given: Any = None if native is None else native(q, v, t, start)
    if native is not None and all(np.all(np.isfinite(x)) for x in jax.tree.leaves(given)):
        at = lambda z: native(q, v, t, z)[:2]  # noqa: E731
    else:  # XLA has to look: something is not finite, or cannot be translated
        again, found = _values.bound(system, q, v, t, start)  # one program, even where every call is traced anew
        if is_traced(found):
            return None
        given = jax.tree.map(np.asarray, found)
        at = lambda z: jax.tree.map(np.asarray, again(system, q, v, t, z)[:2])  # noqa: E731
    z, report = newton_by_values(at, start, EXACT, lambda x: units_of(x, n), given[:2])
    linear, (residual, matrix) = True, report.last
    if not report.solved:
        z = np.zeros(n + m)
        (residual, matrix), (_, beside) = at(z), at(np.where(np.arange(n + m) < n, 1.0, 0.0))
        with np.errstate(invalid="ignore"):  # numbers that are not finite are named later
            linear = bool(np.all(np.abs(beside[n:, :n] - matrix[n:, :n]) <= 1e-9 * (1.0 + np.abs(matrix[n:, :n]))))
    controls = [c.is_control for c in system.constraints]
    plain = n + np.flatnonzero(~np.repeat(np.array(controls, bool), [len(x) for x in given.values]))
    rows = -matrix[:n, n:].T  # the equations of motion contain -Rᵀλ
    parts = residual, matrix, rows, residual[plain], matrix[plain, :n]
    return InitialTerms(z, report.solved, linear, report.residual, *parts, given)


def in_units(found: InitialTerms) -> InitialTerms:
    """The matrices whose ranks are looked at, in units of the unknowns that the inertia and the reactions give."""
    if not np.all(np.isfinite(found.matrix)):
        return found
    n = found.rows.shape[1]
    units = units_of(found.matrix, n)
    own = units[:n]
    return found._replace(matrix=found.matrix * units, rows=found.rows * own, jacobian=found.jacobian * own)


class Start(NamedTuple):
    """The beginning of a motion. units: of (a, λ); None where values are traced. sizes: how many equations each constraint
    has."""

    q: Any  # of NumPy, where they are proven
    v: Any
    a: Any  # of NumPy, except where values are traced
    multipliers: Any
    units: np.ndarray | None
    sizes: list[int]


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
    return jnp.asarray(proven.q), jnp.asarray(proven.v)


def check_data(system: System, q0, v0, t0: float | Array, time: float | Array | None) -> tuple[Array, Array]:
    """`check_initial_data` of data that `proven_start` has not proven: it is asked once in a call."""
    found, _ = _check_all(system, q0, v0, t0, time)
    return found.q, found.v


def solve_start(system: System, q0, v0, t0: float | Array, time: float | Array | None) -> Start:
    """The beginning of a motion from data that are checked: proven in machine code, or looked at by name."""
    proven = proven_start(system, q0, v0, t0)
    if proven is not None:
        return Start(*proven[:-1])
    given, found = _check_all(system, q0, v0, t0, time)
    q, v, t, sizes = given
    if found is None:
        return Start(q, v, *motion_at(system, q, v, t)[:2], None, sizes)
    n = q.shape[0]
    return Start(q, v, found.z[:n], found.z[n:], units_of(found.matrix, n), sizes)


class InitialData(NamedTuple):
    """Initial data as arrays, and how many equations each constraint has."""

    q: Array
    v: Array
    t: Array
    sizes: list[int]


def examine_start(system: System, q0, v0, t0, time) -> tuple[InitialData, InitialTerms | None]:
    """The data, consistent with the constraints, and what is known of the system there, whatever its ranks: nothing, under
    tracing."""
    check_x64()
    q, v = as_state(q0, v0, system.coordinates)
    t = jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)
    given = InitialData(q, v, t, check_shapes(system, q, v, t))
    if is_traced(q, v, t, system.parameters):
        return given, None
    check_parameters(system)
    found = initial_terms(system, q, v, t, sum(given.sizes))
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
    scaled = in_units(found)
    informative = found.solved or found.linear  # else the rank at a = 0 says nothing about that at the solution
    if informative:
        _check_constraints(system, scaled)
    _check_reactions(system, scaled)
    if informative:
        _check_regular(system, scaled)
    if not found.solved:
        raise InconsistentDataError(
            f"q0, v0: no acceleration that satisfies the constraints was found from a = 0 (Newton's residual is "
            f"{found.residual:.3g}); the constraint on accelerations may have no real solution at this state"
        )
    return given, found


def check_many(system: System, given: dict, axes: dict, t0, time: float) -> None:
    """Initial data of many runs: InconsistentDataError where the constraints do not hold, naming the first such run.

    given: q0, v0 and parameters, arrays with an axis of runs where `axes` has 0; time: as for one run.
    """
    chosen = {name: given[name] for name in ("q0", "v0", "parameters")}
    found = violation_of(Runs(system, chosen, {name: axes[name] for name in chosen}, t0), time)
    if found is not None:
        first = int(np.argmax(found.runs))
        raise InconsistentDataError(
            f"q0, v0: {found.name} is {found.residuals[first]} in run {first} and not 0 "
            f"({np.count_nonzero(found.runs)} of {len(found.runs)} runs). dalembert.project(system, q0, v0) finds the "
            "nearest consistent data"
        )


def _check_values(system: System, found: InitialTerms, q, v) -> None:
    given = found.given
    if not np.isfinite(given.lagrangian):
        raise ValueError(f"lagrangian: is {float(given.lagrangian)} at q0, v0; it must be finite there")
    if not np.all(np.isfinite(given.forces)):
        raise ValueError(f"forces: is {given.forces} at q0 = {np.asarray(q)}, v0 = {np.asarray(v)}; it must be finite there")
    for i, c in enumerate(system.constraints):
        for what, result in (("phi", given.values[i]), ("reactions", found.reactions(i))):
            if not np.all(np.isfinite(result)):
                raise ValueError(
                    f"constraints[{i}] ({type(c).__name__}) {what}: is {result} at q0 = {np.asarray(q)}, "
                    f"v0 = {np.asarray(v)}; it must be finite there (is the system at rest where a speed is divided by?)"
                )


def _check_consistent(system: System, found: InitialTerms, q, v, t, time) -> None:
    known = jax.tree.map(lambda x: x[None], found.given.restrictions)
    if not all(np.all(np.isfinite(x)) for x in jax.tree.leaves(known)):
        return  # what is not finite is named later
    violated = violation_of(Runs.one(system, q, v, t), None if time is None else float(time), known)
    if violated is not None:
        raise InconsistentDataError(
            f"q0, v0: {violated.name} is {violated.residuals[0]} and not 0. dalembert.project(system, q0, v0) finds the "
            "nearest consistent data and says how far it moved them"
        )


def _check_reactions(system: System, found: InitialTerms) -> None:
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
            f"needed, one for each equation (dependent: {_owners(system, found, rank.dependent_rows)})"
        )


def _check_constraints(system: System, found: InitialTerms) -> None:
    rank = numerical_rank(found.jacobian)
    if rank.full:
        return
    dependent = list(rank.dependent_rows)
    kept = [i for i in range(found.jacobian.shape[0]) if i not in dependent]
    weights = np.linalg.lstsq(found.jacobian[kept].T, found.jacobian[dependent].T, rcond=None)[0]
    gap = np.max(np.abs(found.reduced[dependent] - weights.T @ found.reduced[kept]))
    contradictory = gap > 1e-8 * (1 + np.max(np.abs(found.reduced)))
    raise RankDeficientError(
        f"constraints: {found.jacobian.shape[0]} equations have rank {rank.rank} in the accelerations at q0, v0; they are "
        f"{'contradictory' if contradictory else 'redundant'} (dependent: "
        f"{_owners(system, found, rank.dependent_rows, skip_controls=True)}). "
        + (
            "No motion satisfies all of them"
            if contradictory
            else "Remove those that depend on the others, or let "
            "dalembert.systems.independent(system, q0, v0) choose those that are needed"
        )
    )


def _check_regular(system: System, found: InitialTerms) -> None:
    if not (np.all(np.isfinite(found.matrix)) and np.all(np.isfinite(found.equations))):
        raise ValueError(
            "lagrangian: its derivatives are not finite at q0, v0, or those of a constraint, a force or a control are not "
            "(a norm or a square root at zero? write v @ v and not jnp.linalg.norm(v) ** 2)"
        )
    rank = numerical_rank(found.matrix)
    if rank.full:
        return
    n = found.matrix.shape[0] - found.rows.shape[0]
    undetermined = numerical_rank(found.matrix[:, :n].T)
    if undetermined.full:
        raise RankDeficientError(
            "reactions: the constraint forces cannot enforce the constraints: the matrix of (a, λ) has rank "
            f"{rank.rank} of {found.matrix.shape[0]} at q0, v0, although the mass is regular on the motions that are left. "
            "A force along R must change the value of its constraint"
        )
    missing = n - undetermined.rank
    directions = np.linalg.svd(found.matrix[:, :n])[2][-missing:]
    raise RankDeficientError(
        "lagrangian: the mass matrix ∂²L/∂v² is degenerate on the motions that the constraints leave free: the matrix of "
        f"(a, λ) has rank {rank.rank} of {found.matrix.shape[0]} at q0, v0; undetermined acceleration along "
        f"{' and '.join(str(_with_positive_sign(d).round(6) + 0.0) for d in directions)}"
    )


def _with_positive_sign(direction: np.ndarray) -> np.ndarray:
    """The direction with a positive largest entry, so that messages do not depend on the factorization."""
    return direction * np.sign(direction[np.argmax(np.abs(direction).round(9))])


def _owners(system: System, found: InitialTerms, rows: tuple[int, ...], skip_controls: bool = False) -> str:
    """Which constraint each of the stacked rows belongs to."""
    names = []
    for i, c in enumerate(system.constraints):
        if not (skip_controls and c.is_control):
            m = len(found.given.values[i])
            names += [f"constraints[{i}] ({type(c).__name__})" + (f" row {j}" if m > 1 else "") for j in range(m)]
    return ", ".join(names[i] for i in rows)
