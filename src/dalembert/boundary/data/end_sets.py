"""Ends that are not given: on a set ψ(q, q̇, …) = 0 (On), or the same at both (Periodic)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.data.ends import EndData, Nodes
from dalembert.discretize import Windows
from dalembert.numbers import as_function, as_number, as_numbers, described, whole_number
from dalembert.systems import (
    InconsistentDataError,
    Problem,
    RankDeficientError,
    VariationalProblem,
    output_shape,
    run_on_shapes,
    with_parameters,
)
from dalembert.systems.higher.variational import constraint_derivatives
from dalembert.tracing import seldom

STARTS, STEPS, MET = 12, 60, 1e-10
LEAST = 1e-12  # damping, so that equations that depend on each other can be solved
DEPENDENT = 1e-6  # smallest singular value of the gradients of a set, rows as long as beside it are 1


NAMES = "initial", "final"


class On(eqx.Module):
    """An end that may lie anywhere on a set.

    ψ(q, v) = 0: an end anywhere on a set. At the solution the costates are normal to the set (transversality).

    Args:
        psi: `psi(q, v)`, for a VariationalProblem of order k `psi(q, q̇, …)` of k arguments, (n,) each, with the
            trailing t and p of the problem's functions, → () or (m,).

    Raises:
        TypeError: psi is not a function.

    Example:
        >>> mass = da.System(lambda q, v: 0.5 * v @ v)
        >>> move = da.OptimalControl(mass, cost=lambda q, v, u: u @ u, actuated=0)
        >>> line = da.On(lambda q, v: q[0] + v[0] - 1.0)
        >>> found = da.solve(move, initial=([0.0], [0.0]), final=line, T=1.0, steps=100)
        >>> round(float(found.cost), 3), bool(abs(found.costates_final[0, 0] - found.costates_final[1, 0]) < 1e-9)
        (0.429, True)
    """

    psi: Callable = eqx.field(static=True)

    def __init__(self, psi: Callable):
        self.psi = as_function(psi, "psi", "ψ(q, v)")


class Periodic(eqx.Module):
    """The final end of a closed orbit, or of one period of a gait.

    q(T) = q(0) + shift, v(T) = v(0): the final end of a closed orbit, or of one period of a gait. The costates are
    periodic too.

    Args:
        shift: (n,), or a mapping {coordinate: number}, such as 2π for an angle that turns once; 0 if None.

    Raises:
        ValueError: shift is not an array (n,) of finite numbers.
        TypeError: shift is of another type.

    Example:
        >>> mass = da.System(lambda q, v, t: 0.5 * v @ v, time_dependent=True, coordinates=("x",))
        >>> follow = da.OptimalControl(mass, cost=lambda q, v, u, t: u @ u + (q[0] - jnp.cos(t)) ** 2, actuated=0)
        >>> found = da.solve(follow, initial=({"x": 0.5},), final=da.Periodic(), T=2 * np.pi, steps=40)
        >>> bool(abs(found.q[-1, 0] - found.q[0, 0]) + abs(found.v[-1, 0] - found.v[0, 0]) < 1e-9)
        True
    """

    shift: Any = None

    def __init__(self, shift: Any = None):
        if shift is None or isinstance(shift, Mapping):
            self.shift = None if shift is None else {x: as_number(y, f"shift[{x!r}]") for x, y in shift.items()}
        else:
            self.shift = as_numbers(shift, "shift")
            if self.shift.ndim != 1:
                raise ValueError(f"shift: found shape {self.shift.shape}; give an array (n,), or a mapping of coordinates")

    def of(self, n: int, coordinates: Sequence[str] | None) -> Float[np.ndarray, "n"]:
        """The shift of every coordinate."""
        found = np.zeros(n)
        if isinstance(self.shift, dict):
            for key, number in self.shift.items():
                found[coordinate_at(key, "final: shift", n, coordinates)] = number
        elif self.shift is not None:
            if self.shift.shape != (n,):
                raise ValueError(f"final: found a shift of shape {self.shift.shape}; the problem has n = {n} coordinates")
            found = self.shift
        return found


def coordinate_at(key: Any, place: str, n: int, coordinates: Sequence[str] | None) -> int:
    """The index of a coordinate that is named, or told by its index."""
    if isinstance(key, str):
        if key not in (coordinates or ()):
            known = ", ".join(coordinates) if coordinates else f"named by their index, 0 to {n - 1}"
            raise ValueError(f"{place}: found coordinate {key!r}; the coordinates are {known}")
        return list(coordinates or ()).index(key)
    return whole_number(key, f"{place}: a coordinate", 0, n - 1)


class EndSets(NamedTuple):
    """Conditions at the ends besides the given data. on: ψ of the first and of the last end, or None; equations: how many
    they are; tied: (levels, n), components that are free and the same at both ends; shift: (levels, n), their difference."""

    on: tuple[EndFunction | None, EndFunction | None]
    equations: tuple[int, int]
    tied: Bool[np.ndarray, "levels n"]
    shift: Float[np.ndarray, "levels n"]

    @property
    def mask(self) -> Bool[np.ndarray, "2 levels n"]:
        """Components that are neither given nor free: those that are tied, and all of an end that lies on a set."""
        return np.stack([self.tied | (f is not None) for f in self.on])

    @property
    def copies(self) -> int:
        """Number of components that every block carries from the first end to the last."""
        return int(self.tied.sum())

    @property
    def size(self) -> int:
        """Number of components of a block that these conditions take."""
        return 2 * self.copies + max(*self.equations, self.copies)


NO_SETS = EndSets((None, None), (0, 0), np.zeros((0, 0), dtype=bool), np.zeros((0, 0)))


class EndFunction(NamedTuple):
    """ψ of an end. problem: without its parameters, like whose functions ψ is called; implied: (problem, jet, t) → what the
    constraints of the problem make of the same state anyhow."""

    problem: Problem
    psi: Callable
    implied: Callable

    def call(self, problem: Any, jet: Sequence, t) -> Float[Any, "m"]:
        """ψ at a jet, with the parameters of `problem`."""
        return jnp.atleast_1d(problem.call(self.psi, *jet, t=t))


def check_ends_agree(initial: Any, final: Any) -> None:
    """TypeError where Periodic stands at the wrong end, or beside nodes."""
    if isinstance(initial, Periodic):
        raise TypeError("initial: found Periodic, which sets the final end equal to the initial one; give final=Periodic()")
    if isinstance(final, Periodic) and isinstance(initial, Nodes):
        raise TypeError(
            "final: found Periodic together with Nodes at the first end; give derivatives there, ([…],), or nothing"
        )


def equations_of(end: Any, name: str, problem: Problem, levels: int, n: int) -> int:
    """Number of equations of ψ, 0 where the end lies on no set; errors name the end."""
    if not isinstance(end, On):
        return 0
    names = ", ".join(["q", "v", "a", "j", "s"][:levels])

    def checked_size(problem: Problem, q) -> int:
        call = lambda: problem.call(end.psi, *[q] * levels, t=jnp.zeros(()))  # noqa: E731
        shape = output_shape(call, f"{name}: psi", names + problem.trailing)
        if len(shape) > 1:
            raise ValueError(f"{name}: psi returns shape {shape}; give () or (m,)")
        return shape[0] if shape else 1

    return run_on_shapes(checked_size, problem, np.zeros(n))


class EndState(NamedTuple):
    """State of an end that is sought. name: "initial" or "final"; jet: (levels, n); free: which of it is not given; sizes:
    (levels, n)."""

    name: str
    jet: Float[np.ndarray, "levels n"]
    free: Bool[np.ndarray, "levels n"]
    sizes: Float[np.ndarray, "levels n"]
    t: float


def state_of(
    end: int, jet: Float[np.ndarray, "levels n"], free: np.ndarray, t: np.ndarray, positions: Float[np.ndarray, "n"]
) -> EndState:
    """State of the first (0) or the last (-1) end. t: (N+1,); positions: their sizes."""
    sizes = positions / np.ptp(t) ** np.arange(float(len(jet)))[:, None]
    return EndState(NAMES[end], jet, free, sizes, float(t[end]))


def reach_of(path: Float[np.ndarray, "nodes n"]) -> Float[np.ndarray, "n"]:
    """Sizes of positions where nothing else tells: extents of a path, the largest of them where one is 0."""
    extent = np.ptp(path, axis=0)
    return np.where(extent > 0.0, extent, extent.max() or 1.0)


def onto_set(function: EndFunction, problem: Problem, at: EndState) -> Float[np.ndarray, "levels n"]:
    """A state with ψ = 0 and the constraints of the problem near the given one: Levenberg-Marquardt steps in typical sizes.

    Raises:
        InconsistentDataError: none is found, from there nor from states beside it.
        RankDeficientError: the equations depend on each other where they hold.
    """
    random, least = np.random.default_rng(0), np.inf
    for start in range(STARTS):
        apart = random.standard_normal(at.jet.shape) * at.sizes * at.free
        jet, off = _correct(function, problem, at._replace(jet=at.jet + min(start, 3) * apart))
        if off <= MET:
            check_rank(function, problem, at._replace(jet=jet), "near the first path")
            return jet
        least = min(least, off)
    raise InconsistentDataError(
        f"{at.name}: found no state with psi = 0 near the first path, with the constraints of the problem, from {STARTS} "
        f"starts; the least violation is {least:.1e} of its size. Look at psi, or give a guess whose end is near the set"
    )


def _correct(function: EndFunction, problem: Problem, at: EndState) -> tuple[np.ndarray, float]:
    """The end of the steps, and the violation, relative to how much every equation changes over typical sizes."""
    jet, damping, scale = at.jet, 1e-3, at.sizes * at.free
    values, slopes = _conditions(function, problem, jet, at.t)
    for _ in range(STEPS):
        rows = (slopes * scale).reshape(len(values), -1)
        if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(values))):
            return jet, np.inf
        square = rows.T @ rows
        size = np.trace(square) / len(square) or 1.0
        step = -np.linalg.solve(square + damping * size * np.eye(len(square)), rows.T @ values).reshape(jet.shape) * scale
        if not np.any(rows) or np.abs(step / at.sizes).max() < MET * MET:
            break
        new = _conditions(function, problem, jet + step, at.t)
        if np.linalg.norm(new[0]) < np.linalg.norm(values):
            jet, (values, slopes), damping = jet + step, new, max(damping * 1e-2, LEAST)
        else:
            damping *= 10.0
        if _violation(values, slopes, at) <= MET * 1e-3:
            break
    return jet, _violation(values, slopes, at)


def _violation(values: np.ndarray, slopes: np.ndarray, at: EndState) -> float:
    reach = np.maximum(at.sizes, np.abs(at.jet))
    size = np.sqrt(((slopes * reach) ** 2).sum(axis=(1, 2)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(values == 0.0, 0.0, np.abs(values) / size)))


def check_rank(function: EndFunction, problem: Problem, at: EndState, where: str, beside: np.ndarray | None = None) -> None:
    """RankDeficientError where gradients by what is free depend on each other. beside: (m, levels n), those of what holds
    there too."""
    random, apart = np.random.default_rng(0), at.sizes * at.free
    jets = [at.jet + random.standard_normal(at.jet.shape) * apart for _ in range(3)]
    given = np.zeros((0, apart.size)) if beside is None else beside
    gradients = (_conditions(function, problem, x, at.t)[1].reshape(-1, apart.size) for x in (at.jet, *jets))
    rows, *others = (np.concatenate([x, given]) * apart.ravel() for x in gradients)
    lengths = np.max([np.linalg.norm(x, axis=1, keepdims=True) for x in (rows, *others)], axis=0)
    scaled = rows / np.where(lengths > 0.0, lengths, 1.0)
    count = int((np.linalg.svd(scaled, compute_uv=False) > DEPENDENT).sum()) if np.all(np.isfinite(scaled)) else len(rows)
    if count < len(rows):
        raise RankDeficientError(
            f"{at.name}: the {len(rows)} equations of psi, and of what the constraints of the problem make of an end, have "
            f"rank {count} {where}, at {np.array2string(at.jet.ravel(), precision=6)}: no multipliers exist there. Leave "
            "out what follows from the rest, and write a set so that its gradients are independent on it: q[0], not q[0]**2"
        )


def _conditions(function: EndFunction, problem: Problem, jet: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    values, slopes = _value_and_slopes(function, problem, jet, t)
    return np.asarray(values), np.asarray(slopes)


@seldom
def _value_and_slopes(function: EndFunction, problem: Problem, jet, t):
    """ψ and the constraints of the problem at an end, (m,), and their derivatives (m, levels, n)."""

    def condition_values(x):
        levels = [x[i] for i in range(x.shape[0])]
        return jnp.concatenate([function.call(problem, levels, t), function.implied(problem, levels, t)])

    return condition_values(jet), jax.jacfwd(condition_values)(jet)


def sizes_of_set(function: EndFunction, problem: Problem, at: EndState, equations: int) -> Float[np.ndarray, "m"]:
    """Changes of ψ over typical sizes, (m,), 1 where it does not change."""
    _, slopes = _conditions(function, problem, at.jet, at.t)
    found = np.abs(slopes * at.sizes).max(axis=(1, 2))[:equations]
    return np.where(np.isfinite(found) & (found > 0.0), found, 1.0)


def refuse_sets(end: Any, name: str, where: str) -> None:
    """TypeError where an end has to be given."""
    if isinstance(end, On | Periodic):
        raise TypeError(f"{name}: found {described(end)}; {where}")


def plain(end: Any) -> Any:
    """Data given at an end: none where it lies on a set or is periodic."""
    return None if isinstance(end, On | Periodic) else end


def repeat_first_end(
    ends: tuple[EndData | None, EndData | None], final: Any, problem: VariationalProblem, n: int
) -> tuple[EndData | None, EndData | None]:
    """With Periodic what is given of the first end is given of the last one."""
    start = ends[0]
    if not isinstance(final, Periodic) or start is None:
        return ends
    values = start.values.copy()
    values[0] += final.of(n, problem.coordinates)
    return start, start._replace(values=values)


def sets_of(problem: Problem, ends: tuple[Any, Any], free: Bool[np.ndarray, "levels n"], implied: Callable) -> EndSets:
    """ends: as `solve` takes them; free: what is not given of the first one; implied: see `EndFunction`."""
    bare, tied, shift = with_parameters(problem, None), np.zeros_like(free), np.zeros(free.shape)
    first, last = (equations_of(end, name, problem, *free.shape) for end, name in zip(ends, NAMES, strict=True))
    start, end = (EndFunction(bare, end.psi, implied) if isinstance(end, On) else None for end in ends)
    if isinstance(ends[1], Periodic):
        tied, shift[0] = free.copy(), ends[1].of(free.shape[1], problem.coordinates)
    return EndSets((start, end), (first, last), tied, shift)


def holonomic_at_end(problem: VariationalProblem, jet, t):
    """φ and its rates of the holonomic constraints at an end."""
    return constraint_derivatives(problem, 0, jnp.stack(jet), t).ravel() if problem.holonomic else jnp.zeros(0)


def end_slots(w: Windows, end: int) -> np.ndarray:
    """The slots of q, q̇, … of the first (0) or the last (-1) node."""
    return slots_of_node(w, 0 if end == 0 else len(w.t) - 1)


def slots_of_node(w: Windows, node: int) -> np.ndarray:
    """The slots of q, q̇, … of a node."""
    slots = np.flatnonzero(w.owners == node)
    return slots[np.argsort(w.orders[slots])]


def ends_on_sets(
    problem: VariationalProblem, w: Windows, sets: EndSets, fixed: np.ndarray, values: Float[np.ndarray, "slots n"]
) -> Float[np.ndarray, "slots n"]:
    """The first path with ends on their sets; what is free in between goes with them."""
    values = values.copy()
    size, free = reach_of(values[w.nodes]), np.repeat(~fixed[:, None], values.shape[1], axis=1)
    for end, function in zip((0, -1), sets.on, strict=True):
        if function is None:
            continue
        slots = end_slots(w, end)
        at = state_of(end, values[slots], free[slots], w.t, size)
        found = onto_set(function, problem, at)
        share = np.abs(w.t - w.t[-1 - end]) / np.ptp(w.t)
        nodes = w.nodes[~fixed[w.nodes]]
        values[nodes] += (share[:, None] * (found - at.jet)[:1])[~fixed[w.nodes]]
        values[slots] = found
    return values
