"""Steps of their own length: the flow of a variational problem on R × Q, where the energy equation gives the next time."""

from __future__ import annotations

import dataclasses
from math import ceil
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from dalembert.algebra import Newton, newton
from dalembert.discretize import Hermite, Interpolated, Points, WindowMap, as_windows, with_time
from dalembert.discretize.higher import forward_differences
from dalembert.numbers import EPSILON, as_flag, as_numbers, whole_number
from dalembert.options import Solver
from dalembert.outcome import Outcome
from dalembert.path import Path, Statistics, StepError
from dalembert.step.options import RunOptions
from dalembert.step.programs.higher import HigherProgram
from dalembert.step.start.higher import Begun, as_multipliers, check_consistent, first_matrix, from_nodes
from dalembert.systems import VariationalProblem, check_x64, common_order, constraint_numbers
from dalembert.systems.higher.ostrogradsky import check_regular
from dalembert.systems.higher.variational import check_problem
from dalembert.systems.sizes import check_resolved
from dalembert.tracing import Jitted, traced_once

# log of the trial steps over the last one, outwards in both directions; finest where a step follows from the last one.
DISTANCES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.55, 0.8, 1.2)
REFINEMENTS = 90  # trials in all, of which 16 at most before there is a bracket
CHUNK = 256  # the program is compiled for numbers of steps up to multiples of this


def simulate_free_steps(
    problem: VariationalProblem,
    nodes: Float[Array, "nodes n"],
    times: Float[Array, "nodes"],
    *,
    steps: int,
    multipliers=None,
    scheme: WindowMap | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 25,
    throw: bool = True,
) -> Path:
    """Run a system whose steps are unknowns, so that it keeps its energy.

    Σ_j D_j L̃_d = 0 in q and in t: E_i - E_{i-1} = -(h_i + … + h_{i+k-1})/k ∂L_d/∂t, the steps h_i unknown.

    The method is symplectic, and it conserves energy and momentum if L does not depend on time. For k = 1 the conserved
    energy is that of the first two nodes. For k > 1 the windows are those of Hermite().

    Each step is the positive root nearest to the step before. The discrete energy of a step differs from the exact one
    by hᵖ g(q, q̇, …), and steps exist as long as g keeps its sign along the motion: hᵖ⁺¹ g is constant on average. If
    no positive next step is found, the outcome is NO_POSITIVE_STEP, with the time; there g has a zero, as near turning
    points. Continue with fixed steps:
    `simulate(problem, nodes=path.interpolate(path.t[-1] - h * np.arange(2 * k)[::-1])[0], h=h, …)`, for k = 1 with the
    nodes `path.q[-2:]` themselves and their h.

    scheme=Interpolated() or Averaged() selects the paper's windows of k+1 nodes, whose energy equation couples 2k-1
    neighbouring steps. For k = 2 and Interpolated() deviations from a smooth mesh satisfy
    (4g + κ/2)(δ_{i-1} + δ_{i+1}) + (10g - κ)δ_i = 0, g = (p q⁗ + 2 L_q̇ q⃛ - d²L/dt²)/12, p = L_q̈,
    κ = ⅔ ṗᵀ(L_q̈q̈)⁻¹ṗ; with constraints L is L + λᵀφ, and p that on the accelerations which φ leaves free. They stay
    bounded where 0 < g < κ. Elsewhere they grow, for κ = 0 and for g < 0 by 2 or more in each step, however small h is:
    after some tens of steps there is no next one. There the same equations are well posed as a boundary problem.

    Args:
        problem: a VariationalProblem of order k.
        nodes: the first two nodes, (2, n), for k = 1; q, …, q⁽ᵏ⁻¹⁾ at two times, (2, k, n), for k > 1; (2k, n) with a
            scheme.
        times: (2,) the times of the nodes, (2k,) with a scheme.
        steps: N, including the steps between the given nodes.
        multipliers: of differential constraints of order r: (r, m), as with nodes in `simulate`. With Hermite windows
            (1, r m): λ at the r points between the first two nodes, one point after the other.
        scheme: Interpolated() or Averaged() for the paper's windows; None for those described above.
        tolerance: on Newton's update, as in `simulate`.
        max_iterations: of Newton's method, in one step.
        throw: raise an error if a step cannot be solved; False returns the partial path.

    Returns:
        A Path whose t are the times that were found, with its provenance. v are difference quotients between nodes, or
        for k > 1 the velocities at the nodes. multipliers are those of the differential constraints for every window,
        in the form of the argument, or without differential constraints those of the nodes.

    Raises:
        ValueError: an argument has the wrong shape or value; the message names it.
        StepError: a step cannot be solved, and throw is true; it carries the partial path.

    Source: Colombo, Martín de Diego, Zuccalli, section 4.1, where the windows consist of nodes only; for k = 1 Kane,
    Marsden, Ortiz (1999).

    Example:
        >>> swing = da.VariationalProblem(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))
        >>> free = da.step.simulate_free_steps(swing, [[0.5], [0.55]], [0.0, 0.1], steps=3)
        >>> free.t.shape
        (4,)
    """
    check_x64()
    check_problem(problem)
    as_flag(throw, "throw")
    scheme = (Interpolated() if problem.derivatives == 1 else Hermite()) if scheme is None else as_windows(scheme)
    hermite = isinstance(scheme, Hermite) and problem.derivatives > 1
    chosen = RunOptions(None, steps, scheme=scheme, solver=Solver(tolerance, whole_number(max_iterations, "max_iterations")))
    x, n = _first_nodes(problem, nodes, times, hermite)
    free = with_time(problem, scheme, forward=False)
    sizes = constraint_numbers(free, x.shape[1])
    given = as_multipliers(multipliers, common_order(free), sizes[0])
    _check_flow(problem, x, n, hermite)
    if any(sizes):
        check_consistent(free, Points(), jnp.asarray(x), False, 1.0, 0.0)
    program = HigherProgram(free, Points(), *sizes, len(x))
    count = steps + 1 - len(x)
    if count < 1:
        raise ValueError(f"steps: found {steps}; the start gives {len(x)} nodes already, those of {len(x) - 1} steps")
    length = CHUNK * ceil(count / CHUNK)
    begun, rows = _run(problem, scheme, jnp.asarray(x), given, chosen.newton, jnp.asarray(count), length=length)
    record = chosen.new_record(problem.subject.under(scheme), nodes=nodes, times=times, multipliers=multipliers)
    path = _path_in_time(x, jax.tree.map(lambda y: np.asarray(y)[:count], rows), program, n, hermite)
    path = dataclasses.replace(path, provenance=record)
    failed = Outcome(int(path.code)).failed
    if failed and path.steps == 0:  # is there a flow at all?
        first_matrix(program, begun.b[0], _start_state(begun), begun.z, 0.0, 1.0)
    if failed and throw:
        raise StepError(path)
    return path


def _first_nodes(problem: VariationalProblem, nodes, times, hermite: bool) -> tuple[Float[np.ndarray, "known x"], int]:
    """The first nodes (t, q) or (t, q, q̇, …), and n."""
    k = problem.derivatives
    q, t = as_numbers(nodes, "nodes"), as_numbers(times, "times")
    known, shape = (2, f"(2, {k}, n)") if hermite else (2 * k, f"({2 * k}, n)")
    if q.ndim != (3 if hermite else 2) or len(q) != known or t.shape != (known,) or (hermite and q.shape[1] != k):
        what = f"q and its first {k - 1} derivatives at two times" if hermite else f"the first {known} nodes"
        raise ValueError(f"nodes, times: found shapes {q.shape} and {t.shape}; give {what}, {shape}, and times ({known},)")
    if not np.all(np.diff(t) > 0):
        raise ValueError(
            f"times: found {t}; they must increase: the next step is the positive root of the equation of the energy. "
            "Backwards in time give the Lagrangian of reversed time, L(q, -v, -t)"
        )
    check_resolved("times", np.abs(t).max(), np.diff(t).min())
    return np.column_stack([t, q.reshape(known, -1)]), q.shape[-1]


def _check_flow(problem: VariationalProblem, x: Float[np.ndarray, "known x"], n: int, hermite: bool) -> None:
    """L determines q⁽ᵏ⁾; the discrete equations may be regular without that, and their solutions mean nothing."""
    k, q = problem.derivatives, x[:, 1:].reshape(-1, n)
    rest = (
        np.concatenate([q[:k], np.zeros((k, n))])
        if hermite
        else forward_differences(jnp.asarray(q), np.diff(x[:, 0]).mean())
    )
    check_regular(problem, jnp.asarray(rest), jnp.zeros(constraint_numbers(problem, n)[0]), jnp.asarray(x[0, 0]))


def _start_state(begun: Begun) -> Float[Array, "s"]:
    return jnp.concatenate([begun.b[1:].ravel(), begun.momenta.ravel()])


@Jitted
def _run(problem, scheme, nodes, multipliers, options: Newton, count, *, length: int):
    """Start of the run, and (node, multipliers, force, code, iterations, residual) of every step, 0 where none is taken."""
    free = with_time(problem, scheme, forward=False)
    begun = from_nodes(free, Points(), nodes, multipliers, 0.0, 1.0)
    program = HigherProgram(free, Points(), *constraint_numbers(free, nodes.shape[1]), nodes.shape[0])

    def next_row(carry):
        q, compensation, s, z = carry
        found = next_step(program, q, s, z, options)
        increment, s = program.advance(found.z, q, s, 0.0, 1.0)
        new = q + (increment - compensation)
        output = program.outputs(found.z, q, carry[2], 0.0, 1.0, jnp.zeros_like(q))
        row = (new, output.multipliers, output.force, found.code, found.iterations, found.residual)
        return (new, (new - q) - (increment - compensation), s, found.z), row

    def step_or_skip(carry, i):
        state, code = carry
        state, row = lax.cond((code == 0) & (i < count), next_row, lambda c: (c, jax.tree.map(jnp.zeros_like, empty)), state)
        return (state, code + row[3]), row

    start = (begun.b[0], jnp.zeros_like(begun.b[0]), _start_state(begun), begun.z)
    empty = jax.eval_shape(lambda c: next_row(c)[1], start)
    return begun, lax.scan(step_or_skip, (start, jnp.asarray(0)), jnp.arange(length))[1]


def _turns(q: Float[np.ndarray, "nodes n"]) -> int:
    """Steps in which the velocity turned by more than a right angle."""
    v = np.diff(q, axis=0)
    return int(np.count_nonzero(np.einsum("ki,ki->k", v[1:], v[:-1]) < 0))


def _path_in_time(x: Float[np.ndarray, "known x"], found, program: HigherProgram, n: int, hermite: bool) -> Path:
    """A path on R × Q as a path on Q."""
    nodes, multipliers, forces, codes, iterations, residuals = found
    failed = np.flatnonzero(codes)
    done = int(failed[0]) if failed.size else len(codes)
    code = int(codes[done]) if failed.size else int(Outcome.SUCCESS)
    x = np.concatenate([x, nodes[:done]])
    t, q = x[:, 0], x[:, 1 : 1 + n]
    place = len(x) - done - 1 + np.arange(done) + program.multiplier_time
    if program.mh and not program.m:  # μ(t) of L + μᵀφ: a node has half of the steps beside it
        index = place.astype(int)
        own = 0.5 * (t[index + 1] - t[np.maximum(index - 1, 0)])[:, None]
        multipliers, forces = multipliers[:done] / own, forces[:done] / own
    known: dict[str, Any] = {
        "t": t, "q": q, "t_velocity": t if hermite else 0.5 * (t[1:] + t[:-1]),
        "v": x[:, 1 + n : 1 + 2 * n] if hermite else np.diff(q, axis=0) / np.diff(t)[:, None],
        "t_multipliers": np.interp(place, np.arange(len(t)), t), "multipliers": multipliers[:done],
        "constraint_forces": forces[:done, 1 : 1 + n], "h": t[1] - t[0], "steps_done": done, "code": code,
    }  # fmt: skip
    worked: dict[str, Any] = {
        "iterations": iterations.sum(), "max_iterations": iterations.max(initial=0),
        "residual": residuals[:done].max(initial=0.0), "crossings": 0, "turns": _turns(q), "leaps": -1,
        "failed_step": len(x) - 1 if code else -1,
        "failed_time": t[-1] if code else np.nan, "failed_residual": residuals[done] if code else np.nan,
    }  # fmt: skip
    path = Path(**known, statistics=Statistics(**worked), levels=("node" if hermite else "mid", program.levels[1]))
    return jax.tree.map(jnp.asarray, path)


class Trial(NamedTuple):
    """A step h, the unknowns z that solve all equations but the energy's, and what is left of that; NaN if they do not."""

    h: Float[Array, ""]
    z: Float[Array, "z"]
    defect: Float[Array, ""]


class Search(NamedTuple):
    """up, down: the outermost trials; a, b: the last two of opposite signs, once there are such; weight: Illinois' of a."""

    trials: Int[Array, ""]
    up: Trial
    down: Trial
    a: Trial
    b: Trial
    weight: Float[Array, ""]
    bracketed: Bool[Array, ""]
    done: Bool[Array, ""]
    iterations: Int[Array, ""]


class Found(NamedTuple):
    z: Float[Array, "z"]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    residual: Float[Array, ""]


def next_step(program: HigherProgram, q, s, z, options: Newton) -> Found:
    """r(h) = 0 for the h > 0 nearest to the last step, in log h; z(h) solves the other equations.

    q = (t, …), z: the unknowns of the window before. At a given h the other equations are those of a fixed step, which are
    regular; r is small, of the size of the discretization error of the energy, so that Newton's method on all equations
    together is led far away by it, also to the root h < 0 which lies opposite. r is therefore bracketed from the last step
    outwards, between the DISTANCES, each trial starting from its neighbour, and refined by regula falsi (Illinois).
    NO_POSITIVE_STEP where r keeps its sign on e^±1.2 times the last step; two roots between neighbouring trials are missed.
    """
    last = s[0]
    rest = program.new_differences(jnp.zeros_like(z), q, s, 1.0)[0][0]
    same = 4 * EPSILON * jnp.abs(program.state(q, s, 1.0).momenta[0, 0])

    def trial(h, near: Trial) -> tuple[Trial, Int[Array, ""]]:
        b = program.new_differences(near.z, q, s, 1.0)[0]
        start = near.z.at[: q.shape[0]].add((h / near.h - 1.0) * b).at[0].set(h - rest)
        full = lambda x: jnp.concatenate([start[:1], x])  # noqa: E731
        residual = traced_once(lambda x: program.residual(full(x), q, s, 0.0, 1.0, jnp.zeros_like(q)))
        size = lambda x: program.scale(full(x), q, s, 1.0)[1:]  # noqa: E731
        x, info = newton(lambda x: residual(x)[1:], start[1:], size, options)
        return Trial(h, full(x), jnp.where(info.solved, residual(x)[0], jnp.nan)), info.iterations

    def attempt(search: Search) -> Search:
        h, near = _next_trial(search, last)
        new, iterations = trial(h, near)
        return _update(search, new, same)._replace(iterations=search.iterations + iterations)

    here = Trial(last, z.at[0].set(last - rest), jnp.asarray(jnp.nan))
    no, zero = jnp.asarray(False), jnp.asarray(0)
    search = lax.while_loop(lambda c: ~c.done, attempt, Search(zero, here, here, here, here, jnp.asarray(1.0), no, no, zero))
    best = _choose(jnp.abs(search.a.defect) < jnp.abs(search.b.defect), search.a, search.b)
    ends = jnp.abs(search.up.defect - search.down.defect)
    root = search.bracketed & (jnp.abs(best.defect) <= ends + same)  # else it changes its sign at a pole
    unsolved = search.bracketed | jnp.isnan(search.b.defect)
    code = jnp.where(unsolved, int(Outcome.NOT_CONVERGED), int(Outcome.NO_POSITIVE_STEP))
    return Found(best.z, jnp.where(root, int(Outcome.SUCCESS), code).astype(int), search.iterations, jnp.abs(best.defect))


def _next_trial(search: Search, last) -> tuple[Float[Array, ""], Trial]:
    """(h, where to start from): the last step, then larger and smaller ones in turn; between a and b once they are known."""
    outwards = jnp.exp(jnp.asarray(DISTANCES))[(search.trials + 1) // 2]
    larger = search.trials % 2 == 1
    near = _choose(larger, search.up, search.down)
    a, b = search.a, search.b
    between = jnp.clip(
        b.h - b.defect * (b.h - a.h) / (b.defect - search.weight * a.defect), jnp.minimum(a.h, b.h), jnp.maximum(a.h, b.h)
    )
    h = jnp.where(search.bracketed, between, jnp.where(larger, last * outwards, last / outwards))
    return h, _choose(search.bracketed, b, near)


def _update(search: Search, new: Trial, same) -> Search:
    """The search after the trial `new`. b is the newest one while a bracket is refined, and the first before,
    to see if it failed."""
    first, larger = search.trials == 0, search.trials % 2 == 1
    before = _choose(search.bracketed, search.b, _choose(larger, search.up, search.down))
    crossed = new.defect * before.defect <= 0.0  # false for NaN
    exact = first & (jnp.abs(new.defect) <= same)
    bracketed = search.bracketed | crossed | exact
    a = _choose(first, new, _choose(crossed, before, search.a))
    weight = jnp.where(crossed, 1.0, 0.5 * search.weight)
    b = _choose(first | bracketed, new, search.b)
    good, searching = ~jnp.isnan(new.defect), ~search.bracketed
    up = _choose(first | (good & searching & larger & ~crossed), new, search.up)
    down = _choose(first | (good & searching & ~larger & ~crossed), new, search.down)
    up, down = (_choose(searching & crossed, x, y) for x, y in ((new, up), (before, down)))  # the bracket, for its size
    narrow = jnp.abs(a.h - b.h) <= 4 * np.finfo(float).eps * b.h
    done = exact | (bracketed & (narrow | (b.defect == 0.0))) | (first & ~good)
    last = jnp.where(bracketed, REFINEMENTS, 2 * len(DISTANCES) - 2)
    return Search(
        search.trials + 1, up, down, a, b, weight, bracketed, done | (search.trials >= last), search.iterations
    )  # fmt: skip


def _choose(condition, a: Trial, b: Trial) -> Trial:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)
