"""solve: from a variational problem and what is given at its ends to an extremal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize.windows import Interpolated, Points, WindowMap, Windows, windows
from dalembert.path import Outcome
from dalembert.solution import BoundaryStatistics, Solution, SolveError
from dalembert.solve.certify import inertia_of
from dalembert.solve.checks import check_end_constraints, check_problem
from dalembert.solve.ends import Given, Nodes, fill_slots, grid_nodes, read_end, read_through, read_times
from dalembert.solve.linear import Linear
from dalembert.solve.manifold import check_points, onto_constraints
from dalembert.solve.newton import End, Iterate, Settings, minimise
from dalembert.solve.transcription import Transcription, first_values, slot_jets, transcribe
from dalembert.systems import check_x64
from dalembert.systems.variational import VariationalProblem, constraint_numbers

OUTCOMES = {
    End.CONVERGED: Outcome.SUCCESS, End.SINGULAR: Outcome.SINGULAR, End.NOT_CONVERGED: Outcome.NOT_CONVERGED,
    End.NOT_FINITE: Outcome.NOT_FINITE, End.INFEASIBLE: Outcome.INFEASIBLE,
}  # fmt: skip


def solve(
    problem: VariationalProblem,
    *,
    initial: Sequence | Nodes | None = None,
    final: Sequence | Nodes | None = None,
    through: Mapping[float, Any] | None = None,
    T: float | None = None,
    steps: int | None = None,
    times: Float[Array, "N+1"] | None = None,
    scheme: WindowMap | None = None,
    guess: Float[Array, "N+1 n"] | Solution | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 200,
    seek: Literal["minimum", "extremal"] = "minimum",
    certify: bool = True,
    throw: bool = True,
) -> Solution:
    """Σⱼ Dⱼ L̃_d(q_{i-j+1}, …, q_{i-j+1+k}; λ^{i-j+1}) = 0 and Φ_d = 0 between given ends: the extremals of Σ L_d under
    constraints.

    initial, final: (q,), (q, v), … up to k arrays (n,), the given derivatives at an end, those not given being free (natural
    conditions); or Nodes(array (k, n)), the first (last) k nodes; None: all free. through: {t: q}, points to pass, at times
    of nodes. T and steps: N equal steps from 0 to T; or times (N+1,). scheme: Interpolated() (second order, the default),
    Averaged() (the paper's) or Hermite() (order 2k). guess: a path (N+1, n), or a Solution on any nodes, whose multipliers
    are used too: a warm start or the refinement of a mesh. tolerance: on the last update and on the constraints, relative to
    the size of the path. seek: a minimum, or the extremal of any kind near the guess, as mechanical actions over long times
    have no minimum. certify: count the negative directions of the second variation (Solution.kind).
    Returns a Solution. Where none is found: SolveError with the last path, or the path of least violation where the
    constraints cannot be met; with throw=False that Solution itself, its outcome telling why.
    Errors: TypeError, ValueError, InconsistentDataError, RankDeficientError naming the argument.
    Source: Colombo, Martín de Diego, Zuccalli, eq. (3.4); ends by derivatives are windows with coinciding knots, which the
    paper lacks.
    """
    check_x64()
    scheme = Interpolated() if scheme is None else scheme
    if seek not in ("minimum", "extremal"):
        raise ValueError(f"seek: found {seek!r}; give 'minimum' or 'extremal'")
    start, end = read_end(initial, "initial", problem.derivatives), read_end(final, "final", problem.derivatives)
    n = _dimension(problem, start, end, through, guess)
    constraint_numbers(problem, n)
    k = problem.derivatives
    least, why = (1, "at least one step is needed") if scheme.repeats(k) > 1 else (2 * k + 1, f"N > 2k = {2 * k} is needed")
    t = read_times(T, steps, times, least, why)
    where, points = read_through(through, n)
    if isinstance(scheme, Points) and not all(isinstance(e, Nodes) for e in (initial, final)):
        raise ValueError("initial, final: a discrete Lagrangian given directly (scheme=Points()) needs Nodes at both ends")
    w = windows(scheme, k, t, (start is None or not start.nodes, end is None or not end.nodes))
    given = fill_slots(w, start, end, where, points, n, _guess_nodes(guess, t, n))
    check_end_constraints(problem, start, "initial", t[0])
    check_end_constraints(problem, end, "final", t[-1])
    check_points(problem, w, given, grid_nodes(t, where))
    given = Given(given.fixed, onto_constraints(problem, w, given))
    return solve_slots(
        problem, w, given, scheme, guess, Settings(tolerance, max_iterations, seek == "minimum"), certify, throw
    )


def solve_slots(
    problem, w: Windows, given: Given, scheme, guess, settings: Settings, certify: bool, throw: bool
) -> Solution:
    """The extremal with the given slots fixed."""
    made = transcribe(problem, w, given.values.shape[1], given.fixed, given.values)
    if w.differenced:
        check_problem(problem, slot_jets(w, given.values), w.times.ravel())
    z = first_values(problem, made, given.values)
    if isinstance(guess, Solution):
        _warm_multipliers(made, z, guess)
    linear = Linear(made.chain.lower)
    solution = solution_of(made, minimise(made.chain, z, settings, linear), scheme, linear, certify)
    if throw and solution.outcome is not Outcome.SUCCESS:
        raise SolveError(solution)
    return solution


def solution_of(made: Transcription, it: Iterate, scheme: WindowMap, linear: Linear, certify: bool) -> Solution:
    """The end of an iteration as a Solution."""
    chain, layout, w, z = made.chain, made.layout, made.windows, it.z
    band = chain.matrix(z)
    rows = chain.from_rows(np.max(np.abs(band), axis=2))
    negative, flat = inertia_of(chain, band) if certify and it.end is End.CONVERGED else (-1, -1)
    condition = linear.condition(band)
    slots = z[:, layout.part("slots")].reshape(-1, layout.n)
    raw = chain.raw_gradient(z)[:, layout.part("slots")].reshape(-1, layout.n)
    own, m, holonomic = made.carriers, layout.m, layout.holonomic
    residual = np.max(np.abs(it.at.gradient) / np.where(rows > 0, rows, 1.0))
    counts = (np.asarray(c) for c in (it.iterations, it.factorizations, it.restorations))
    sizes = (np.asarray(x) for x in (it.update, residual, it.at.violation, it.shift, condition))
    statistics = BoundaryStatistics(*counts, *sizes)
    solution = Solution(
        t=w.t, q=slots[w.nodes], v=_velocities(w, slots),
        t_multipliers=w.times.ravel(), jets=made.jets(z),
        multipliers=z[own, layout.part("multipliers")].reshape(w.times.size, m),
        holonomic_multipliers=z[:, layout.part("holonomic")].reshape(len(w.orders), holonomic)[w.nodes],
        momenta_initial=_momenta(w, raw, 0, -1.0, layout.k), momenta_final=_momenta(w, raw, len(w.t) - 1, 1.0, layout.k),
        action=np.asarray(it.at.objective), negative_directions=np.asarray(negative), flat_directions=np.asarray(flat),
        code=np.asarray(int(OUTCOMES[it.end])), statistics=statistics, scheme=scheme.name,
    )  # fmt: skip
    return jax.tree.map(jnp.asarray, solution)


def _momenta(w: Windows, gradient: np.ndarray, node: int, sign: float, k: int):
    """p⁽ʲ⁾ = ∓ ∂(Σ L̃_d)/∂q⁽ʲ⁾ at an end that holds its derivatives."""
    run = np.flatnonzero(w.owners == node)
    return None if len(run) < k else sign * gradient[run[np.argsort(w.orders[run])]]


def _velocities(w: Windows, slots: np.ndarray) -> np.ndarray:
    """Velocities at the nodes: the unknowns where they are unknowns, otherwise second order differences."""
    q = slots[w.nodes]
    v = np.gradient(q, w.t, axis=0, edge_order=2) if len(w.t) > 2 else np.gradient(q, w.t, axis=0)
    held = w.orders == 1
    v[w.owners[held]] = slots[held]
    return v


def _dimension(problem, start, end, through, guess) -> int:
    """n, from whatever was given."""
    if problem.coordinates is not None:
        n = len(problem.coordinates)
    else:
        candidates = [e.values.shape[1] for e in (start, end) if e is not None]
        candidates += [np.size(q) for q in (through or {}).values()] if isinstance(through, Mapping) else []
        candidates += [np.shape(guess.q if isinstance(guess, Solution) else guess)[-1]] if guess is not None else []
        if not candidates:
            raise TypeError("initial: give something at an end, a point between, a guess, or the problem's coordinates=")
        n = int(candidates[0])
    for name, e in (("initial", start), ("final", end)):
        if e is not None and e.values.shape[1] != n:
            raise ValueError(f"{name}: found {e.values.shape[1]} numbers; the problem has n = {n} coordinates")
    return n


def _guess_nodes(guess, t: np.ndarray, n: int):
    if guess is None:
        return None
    if isinstance(guess, Solution):
        inside = np.clip(t, float(guess.t[0]), float(guess.t[-1]))
        return guess.interpolate(inside)
    path = np.asarray(guess, dtype=float)
    if path.shape != (len(t), n):
        raise ValueError(f"guess: found shape {path.shape}; give a path {(len(t), n)}, one row per node")
    if not np.all(np.isfinite(path)):
        raise ValueError("guess: found NaN or infinity; every number must be finite")
    return path


def _warm_multipliers(made: Transcription, z: np.ndarray, guess: Solution) -> None:
    """The multipliers of a known solution, at the times of this one."""
    w, layout = made.windows, made.layout
    for values, known, times, block, part in (
        (guess.multipliers, guess.t_multipliers, w.times, made.carriers, "multipliers"),
        (guess.holonomic_multipliers, guess.t, w.t, made.blocks_of_nodes, "holonomic"),
    ):
        if values.shape[1]:
            new = np.stack([np.interp(times.ravel(), known, column) for column in np.asarray(values).T], axis=1)
            new = new.reshape(len(times), -1)
            begin = layout.part(part).start
            z[block, begin : begin + new.shape[1]] = new
