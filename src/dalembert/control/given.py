"""Data of an optimal control problem at its ends and between, and a first path through them.

An equation of the plant's constraints, φ(q) = 0, dφ/dt = 0 or φ(q, v) = 0 of a state, is settled where nothing that is free
changes it: it holds there, or it contradicts what is given. The others are asked for: a velocity that is given where the
position is free says something of the position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary import Nodes, On, Periodic, Request
from dalembert.boundary.data.around import on_path, path_velocities
from dalembert.boundary.data.end_sets import (
    EndFunction,
    EndSets,
    EndState,
    check_ends_agree,
    check_rank,
    coordinate_at,
    onto_set,
    reach_of,
    sets_of,
    state_of,
)
from dalembert.boundary.data.ends import EndData, Through, grid_nodes, read_through, smooth_path
from dalembert.control.problem import OptimalControl, count_equations
from dalembert.control.terms import position_equations, state_constraints, velocity_equations
from dalembert.groups import Product
from dalembert.numbers import as_array, as_number, as_numbers, described
from dalembert.solution import ControlSolution
from dalembert.systems import InconsistentDataError, check_initial_data, leaf_forms
from dalembert.systems.distribution.reduction import Forms, solved_for
from dalembert.systems.sizes import residual_limit
from dalembert.systems.system import LocalSystem
from dalembert.tracing import seldom

LEVELS = ("q", "v")


class PartlyGiven(NamedTuple):
    """Position and velocity at an end, (2, n) each: which of them are given, and their values, 0 where they are not."""

    given: Bool[np.ndarray, "2 n"]
    values: Float[np.ndarray, "2 n"]


Ends = tuple[PartlyGiven, PartlyGiven]


def read_partly(end: Any, name: str, n: int, coordinates: tuple[str, ...] | None) -> PartlyGiven:
    """(q,) or (q, v), each an array (n,), a mapping from coordinates to numbers, or None; a mapping alone is that of q, None
    and a set give nothing."""
    found = PartlyGiven(np.zeros((2, n), dtype=bool), np.zeros((2, n)))
    if end is None or isinstance(end, On | Periodic):
        return found
    end = (end,) if isinstance(end, Mapping) and end else end
    if isinstance(end, Nodes) or not isinstance(end, list | tuple) or not 1 <= len(end) <= 2:
        raise TypeError(
            f"{name}: found {described(end)}; give a tuple (q, v), each an array (n,), a mapping {{coordinate: number}} of "
            "those that are given, or None where it is free; or On(psi), or Periodic() at the end"
        )
    for level, given in enumerate(end):
        place = f"{name}[{level}]"
        if given is None:
            continue
        if _with_gaps(given):
            raise TypeError(
                f"{place}: found {described(given)}; give a mapping {{coordinate: number}} of those that are given, or None "
                "where all are free"
            )
        if isinstance(given, Mapping):
            for coordinate, number in given.items():
                at = coordinate_at(coordinate, place, n, coordinates)
                if found.given[level, at]:
                    raise ValueError(f"{place}: found coordinate {coordinate!r} twice, by name and by index; give it once")
                found.given[level, at] = True
                found.values[level, at] = as_number(number, f"{place}[{coordinate!r}]")
            continue
        row = as_numbers(given, place)
        if row.shape != (n,):
            raise ValueError(
                f"{place}: found shape {row.shape}; give the {LEVELS[level]} of all n = {n} coordinates, shape ({n},), or a "
                "mapping {coordinate: number} of those that are given"
            )
        found.given[level], found.values[level] = True, row
    return found


def _with_gaps(given: Any) -> bool:
    """True if None stands among numbers."""
    return isinstance(given, list | tuple) and any(x is None for x in given)


class EndsAsked(NamedTuple):
    """Conditions at the ends that were asked for: the given values, coordinate by coordinate, and the sets and ties."""

    given: Ends
    sets: EndSets


def read_ends(problem: OptimalControl, initial: Any, final: Any, n: int) -> EndsAsked:
    """With Periodic what is given of the first end is given of the last one, and the rest is tied."""
    check_ends_agree(initial, final)
    first, last = (read_partly(end, name, n, problem.coordinates) for name, end in (("initial", initial), ("final", final)))
    sets = sets_of(problem.system, (initial, final), ~first.given, state_constraints)
    if isinstance(final, Periodic):
        last = PartlyGiven(first.given.copy(), np.where(first.given, first.values + sets.shift, 0.0))
    return EndsAsked((first, last), sets)


def begun_on(problem: OptimalControl, asked: EndsAsked, states: list[EndState]) -> Ends:
    """The ends for a first path: those on a set as states of it near the given ones."""
    found = []
    for end, function, state in zip(asked.given, asked.sets.on, states, strict=True):
        if function is None:
            found.append(end)
        else:
            found.append(PartlyGiven(np.ones_like(end.given), onto_set(function, problem.system, state)))
    return found[0], found[1]


def size_of_end(end: Any, name: str) -> int | None:
    """n, where an end tells it."""
    if isinstance(end, Periodic):
        return len(end.shift) if isinstance(end.shift, np.ndarray) else None
    given = enumerate(end) if isinstance(end, list | tuple) else ()
    whole = [(i, x) for i, x in given if not (x is None or isinstance(x, Mapping) or _with_gaps(x))]
    rows = [as_array(x, f"{name}[{i}]").shape for i, x in whole]
    return rows[0][0] if rows and len(rows[0]) == 1 and rows[0][0] else None


def first_path(t: Float[np.ndarray, "N+1"], ends: Ends, through: Through) -> Float[np.ndarray, "N+1 n"]:
    """Of every coordinate the cubic spline through what is given of it."""
    columns = []
    for j in range(through.points.shape[1]):
        initial, final = (_end_of(end, j) for end in ends)
        points = Through(through.times, through.points[:, [j]])
        columns.append(smooth_path(t, initial, final, points, 1)(t, 0)[:, 0])
    return np.stack(columns, axis=1)


def _end_of(end: PartlyGiven, j: int) -> EndData | None:
    """One coordinate as `smooth_path` takes it; a velocity without a position tells a path nothing."""
    if not end.given[0, j]:
        return None
    return EndData(end.values[:, [j]], False, (True, bool(end.given[1, j])))


SAMPLES = 3
ON_LEAF = 1e-6  # of a coordinate: how far a given position may be from where the path ends
LEEWAY = 2.0  # times by how much the steps leave their leaf: what is as near is on it, such as the end of a simulated run
SEEN = 50  # steps at which that is looked at
FREE = 1e-9  # of the forms: coordinates that change a function by less do not enter it
STILL = 1e-10  # change by what is free, relative to that by everything


def settled_rows(problem: OptimalControl, at: EndState, whole: bool = False) -> Bool[np.ndarray, "2 m"]:
    """Which equations of positions, and which of velocities, nothing that is free changes; an error names the end where
    they contradict what is given of it in part, or with `whole` in full."""
    if not problem.system.constraints:
        return np.zeros((2, 0), dtype=bool)
    random, apart = np.random.default_rng(0), at.sizes * at.free
    jets = np.stack([at.jet, *(at.jet + random.standard_normal(at.jet.shape) * apart for _ in range(SAMPLES))])
    values, slopes = (np.asarray(x) for x in _end_equations(problem, jets, np.float64(at.t)))
    moved = np.abs(slopes) * at.sizes
    settled = (moved * at.free).max(axis=(0, 3, 4)) <= STILL * moved.max(axis=(0, 3, 4))
    rows = slopes[0].reshape(*slopes.shape[1:3], -1)
    near = np.maximum(at.sizes, np.abs(at.jet) * (np.arange(2) == 1)[:, None])
    wrong = settled & ~(np.abs(values[0]) <= residual_limit(rows, near.ravel(), at.jet.ravel())) & (whole or at.free.any())
    if wrong.any():
        level, row = np.argwhere(wrong)[0]
        what = "φ(q)" if level == 0 else "dφ/dt, or φ(q, v),"
        raise InconsistentDataError(
            f"{at.name}: {what} of component {row} of the plant's constraints is {values[0, level, row]:.3g} there, and not "
            "0, and nothing that is free changes it: give a state that meets the constraints, or leave more of it free"
        )
    return settled


class LeafNode(NamedTuple):
    """A node on the leaf of the first one. given: which positions are; the others are free, or those of the first node plus
    `shift`; dependent: those that follow from the rest."""

    name: str
    place: int
    given: Bool[np.ndarray, "n"]
    shift: Float[np.ndarray, "n"]
    dependent: list[int]


class SharedLeaf(NamedTuple):
    """The leaf of the first node, and others whose positions are given: see `shared_leaf`. scale: of (q, t); wanted: a path
    through what is given; names: of the coordinates; settles: whether the first and the last node determine it."""

    forms: Forms
    scale: Float[np.ndarray, "n+1"]
    nodes: list[LeafNode]
    wanted: Float[np.ndarray, "N+1 n"]
    names: Sequence[str]
    settles: list[bool]

    def missed_by(self, path: Float[np.ndarray, "N+1 n"], t: np.ndarray) -> str:
        """Which node of a solution is off the given one, and by which function; "" if none is.

        |W⁺W(q - q̂)| ≤ ON_LEAF + LEEWAY Σ|∫W dx|, over the chords of the steps: W dx = 0 defines the leaves, and by the sum
        the steps themselves leave them.
        """
        x, rows = np.column_stack([path, t]), np.linspace(0, len(t) - 2, min(len(t) - 1, SEEN)).astype(int)
        first, chord = x[rows], np.diff(x, axis=0)[rows]
        simpson = sum(w * self._off(first + s * chord, chord) for s, w in ((0.0, 1.0), (0.5, 4.0), (1.0, 1.0))) / 6.0
        steps = np.linalg.norm(simpson, axis=1).sum() * (len(t) - 1) / len(rows)
        for name, k, given, shift, dependent in self.nodes:
            apart = np.append(path[k] - np.where(given, self.wanted[k], path[0] + shift), 0.0)
            apart[np.setdiff1d(np.arange(len(apart)), dependent)] = 0.0
            limit = ON_LEAF * np.max(1.0 + np.abs(path[k]) / self.scale[:-1]) + LEEWAY * steps
            if np.linalg.norm(self._off(x[[k]], apart[None])) > limit:
                what, y = ", ".join(self.names[i] for i in dependent), path[k][dependent]
                values = (", ".join(f"{number:.9g}" for number in x) for x in (y, y - apart[dependent]))
                return (
                    f"no motion near this path leads to {name}: the plant's constraints on velocities keep a function of "
                    f"position, the {what} that its leaf has at the other coordinates of {name}. Its value is "
                    f"{next(values)} where this path leads and {next(values)} for {name}. Give a position on the leaf of "
                    f"the initial one, leave {what} free, or give a guess that goes another way round"
                )
        return ""

    def check_set(self, function: EndFunction, problem: OptimalControl, at: EndState) -> None:
        """RankDeficientError where ψ of an end depends on the functions that the other end settles."""
        if self.settles[at.name == "initial"]:
            rows = self.forms(np.append(at.jet[0], at.t)[None])[0, :, :-1] / self.scale[:-1]
            holonomic = np.asarray(_end_equations(problem, at.jet[None], np.float64(at.t))[1])[0, 0, :, 0]
            rest = rows - rows @ np.linalg.pinv(holonomic) @ holonomic
            _, values, directions = np.linalg.svd(rest, full_matrices=False)
            rows = directions[values > FREE * np.abs(rows).max()]
            where = "on the leaf that the other end settles"
            check_rank(function, problem.system, at, where, np.concatenate([rows, 0.0 * rows], axis=1))

    def _off(self, x: np.ndarray, apart: np.ndarray) -> np.ndarray:
        """W⁺W dx, in units of scale: (K, n+1)."""
        rows = self.forms(x)
        return np.einsum("kir,krj,kj->ki", np.linalg.pinv(rows), rows, apart / self.scale)


def shared_leaf(
    problem: OptimalControl,
    path: Float[np.ndarray, "N+1 n"],
    t: np.ndarray,
    given: Bool[np.ndarray, "N+1 n"],
    sets: EndSets,
    timed: bool,
) -> SharedLeaf | None:
    """Nodes whose positions follow in part from others because constraints on velocities keep functions of position: to give
    them all would be one equation too many for each function. None where there are none.

    path: a first one, through what is given; sets: what else holds at the ends; timed: whether the final time is free.
    """
    equations = count_equations(problem, path.shape[1])[1]
    holonomic = sum(m for c, m in zip(problem.system.constraints, equations, strict=True) if c.order == 0)
    if holonomic == sum(equations):
        return None
    reach, tied = np.ptp(path, axis=0), sets.tied[0]
    scale = np.append(np.where(reach > 0.0, reach, np.max(reach) or 1.0), np.ptp(t))
    x, known = np.column_stack([path, t]), given.copy()
    known[[0, -1]] |= tied
    forms = leaf_forms(problem.system, x[0], scale) if known[[0, -1]].any() else None
    if forms is None:
        return None
    free, nodes = np.column_stack([~known, timed & (np.arange(len(t)) > 0)]), []
    settles = [
        len(_combinations_without(rows, free[k])) == len(rows) for k, rows in zip((0, -1), forms(x[[0, -1]]), strict=True)
    ]
    for k in [k for k in np.flatnonzero(known.any(axis=1)).tolist() if k and settles[0]]:
        rows = _combinations_without(forms(x[[k]])[0], free[k])
        if len(rows) > holonomic:
            name = "final" if k == len(t) - 1 else f"through: the point at t = {t[k]:g}"
            nodes.append(LeafNode(name, k, given[k].copy(), sets.shift[0], solved_for(rows, np.flatnonzero(known[k]))))
    names = problem.coordinates or [f"q[{i}]" for i in range(path.shape[1])]
    return SharedLeaf(forms, scale, nodes, path.copy(), names, settles)


def _combinations_without(rows: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Combinations of forms (r, n+1) in which what is free does not occur."""
    _, values, combinations = np.linalg.svd(rows[:, free].T, full_matrices=True)
    return combinations[int(np.sum(values > FREE * np.abs(rows).max())) :] @ rows


def check_states(
    problem: OptimalControl, states: Sequence[EndState], between: Through, time: float
) -> Bool[np.ndarray, "ends 2 m"]:
    """Ends that are given in full have to be states of the plant: the error names the end and what is wrong with it.
    Otherwise `settled_rows` of both ends. time: between the ends."""
    for at in states:
        if not at.free.any():
            try:
                check_initial_data(problem.system, *at.jet, t0=at.t, time=time)
            except (ValueError, TypeError) as error:
                raise type(error)(f"{at.name}: {error}") from error
    sizes, free = states[0].sizes, np.array([[False], [True]]) & np.ones_like(states[0].free)
    for t, q in zip(between.times, between.points, strict=True):
        settled_rows(problem, EndState(f"through: the point at t = {t:g}", np.stack([q, 0.0 * q]), free, sizes, float(t)))
    return np.stack([settled_rows(problem, at) for at in states])


@seldom
def _end_equations(problem: OptimalControl, jets: Float[np.ndarray, "samples 2 n"], t):
    """φ(q) and dφ/dt of the holonomic, 0 and φ(q, v) of the other constraints, (samples, 2, m), and their slopes."""
    system = problem.system

    def equations_of_jet(jet):
        (q, v), positions = jet, iter(position_equations(system, jet[0], t))
        rates = velocity_equations(system, q, v, t)
        rows = [next(positions) if c.order == 0 else 0.0 * x for c, x in zip(system.constraints, rates, strict=True)]
        return jnp.stack([jnp.concatenate(rows), jnp.concatenate(rates)])

    return jax.vmap(lambda jet: (equations_of_jet(jet), jax.jacfwd(equations_of_jet)(jet)))(jets)


class GivenPath(NamedTuple):
    """Given data, and a path (N+1, n), on groups (N+1, size), with its velocities that has them. given: which positions of
    the nodes are given; sets: what else holds at the ends; smooth: path and velocities without the guess; settled, leaf: see
    `check_states` and `shared_leaf`."""

    ends: Ends
    sets: EndSets
    given: np.ndarray
    path: np.ndarray
    v: np.ndarray
    smooth: tuple[np.ndarray, np.ndarray]
    settled: np.ndarray
    leaf: SharedLeaf | None

    @property
    def whole_positions(self) -> np.ndarray:
        """Positions that are given in full."""
        return self.path[self.given.all(axis=1)]


def given_path(problem: OptimalControl, request: Request, t: np.ndarray, n: int, timed: bool) -> GivenPath:
    """The data of a request, read and checked, and its first path. timed: whether the final time is free."""
    asked = read_ends(problem, request.initial, request.final, n)
    ends, sets = asked
    between = read_through(request.through, n)
    given = np.zeros((len(t), n), dtype=bool)
    given[0], given[-1] = (end.given[0] for end in ends)
    given[grid_nodes(t, between.times)] = True
    begun, shift = ends, sets.shift[0]
    path = _first_path(t, begun, between, request.guess, shift)
    if any(sets.on):
        begun = begun_on(problem, asked, _states(t, path, _velocities(path, t, ends), ends))
        path = _first_path(t, begun, between, request.guess, shift)
    smooth = path if request.guess is None else _first_path(t, begun, between, None, shift)
    v = _velocities(path, t, begun)
    held_to = lambda held: check_states(problem, _states(t, path, v, held), between, float(np.ptp(t)))  # noqa: E731
    settled = held_to(ends)
    leaf = shared_leaf(problem, path, t, given, sets, timed)
    for function, state in zip(sets.on, _states(t, path, v, ends), strict=True):
        if leaf and function:
            leaf.check_set(function, problem, state)
    for node in leaf.nodes if leaf else ():
        given[node.place, node.dependent] = False
        if node.place == len(t) - 1:
            sets.tied[0, node.dependent] = False
            ends, settled = _without(node.dependent, ends, held_to)
    return GivenPath(ends, sets, given, path, v, (smooth, _velocities(smooth, t, begun)), settled, leaf)


def given_on_group(problem: OptimalControl, space: Product, request: Request, t: np.ndarray) -> GivenPath:
    """The same on groups, where positions are given in full or not at all, and first paths turn the shortest way."""
    guess = request.guess[0] if isinstance(request.guess, tuple) else request.guess
    path, flat = on_path(space, request._replace(guess=guess), t, 2)
    n, v, given, found = space.n, path_velocities(space, t, path), np.zeros((len(t), space.n), dtype=bool), []
    for node, end in ((0, flat.initial), (-1, flat.final)):
        levels = [None, None] if end is None else [*end, None][:2]
        known = np.array([level is not None for level in levels])
        v[node] = v[node] if levels[1] is None else levels[1]
        given[node] = known[0]
        found.append(PartlyGiven(np.tile(known[:, None], (1, n)), np.stack([np.zeros(n), v[node] * known[1]])))
    given[grid_nodes(t, np.array([*(flat.through or ())]))] = True
    ends, settled = (found[0], found[1]), []
    for state, node in zip(_states(t, np.zeros((len(t), n)), v, ends), (0, -1), strict=True):
        settled.append(settled_rows(around_node(problem, path[node]), state, whole=True))
    smooth = path
    if request.guess is not None:
        smooth = on_path(space, request._replace(guess=None), t, 2)[0]
    sets = sets_of(problem.system, (None, None), ~ends[0].given, state_constraints)
    return GivenPath(ends, sets, given, path, v, (smooth, v), np.stack(settled), None)


def around_node(problem: OptimalControl, q: np.ndarray) -> OptimalControl:
    """On groups the problem in coordinates around an element; else as it is."""
    if problem.system.space.flat:
        return problem
    return eqx.tree_at(lambda c: c.system, problem, LocalSystem(problem.system, jnp.asarray(q)))


def _without(following: list[int], ends: Ends, settled: Callable[[Ends], np.ndarray]) -> tuple[Ends, np.ndarray]:
    """The last end without positions that follow from others, and without their velocities where the constraints there read
    these positions; and what is settled then."""
    for levels in (1, 2):
        last = ends[1].given.copy()
        last[:levels, following] = False
        held = ends[0], ends[1]._replace(given=last)
        found = settled(held)
        if found[1, 1].all():
            break
    return held, found


def _states(t: np.ndarray, path: np.ndarray, v: np.ndarray, ends) -> list[EndState]:
    """The ends of a first path, from where those on a set are sought."""
    size = reach_of(path)
    return [state_of(i, np.array([path[i], v[i]]), ~end.given, t, size) for i, end in zip((0, -1), ends, strict=True)]


def _first_path(t, ends, between: Through, guess: Any, shift: np.ndarray) -> np.ndarray:
    """The first path (N+1, n): through all that is given. shift: by which the ends of a periodic one differ."""
    n = between.points.shape[1]
    if guess is None:
        path = first_path(t, ends, between)
        if shift.any():
            path += np.where(ends[0].given[0], 0.0, shift) * ((t - t[0]) / np.ptp(t))[:, None]
    elif isinstance(guess, ControlSolution):
        if guess.q.shape[1] != n:
            raise ValueError(f"guess: found a ControlSolution of {guess.q.shape[1]} coordinates; the system has n = {n}")
        path = guess.interpolate(np.clip(t, float(guess.t[0]), float(guess.t[-1])))
    else:
        path = node_rows(guess[0] if isinstance(guess, tuple) else guess, "guess", (len(t), n))
    for node, end in zip((0, -1), ends, strict=True):
        path[node] = np.where(end.given[0], end.values[0], path[node])
    path[grid_nodes(t, between.times)] = between.points
    return path


def node_rows(given: Any, name: str, shape: tuple[int, int]) -> np.ndarray:
    """One row per node."""
    found = np.array(as_numbers(given, name))
    if found.shape != shape:
        raise ValueError(
            f"{name}: found shape {found.shape}; give one row per node: a path (N+1, n), a tuple (q, u) of path and "
            f"controls, or a ControlSolution; shape {shape} is needed"
        )
    return found


def _velocities(path: np.ndarray, t: np.ndarray, ends) -> np.ndarray:
    v = np.gradient(path, t, axis=0, edge_order=2)
    for node, end in zip((0, -1), ends, strict=True):
        v[node] = np.where(end.given[1], end.values[1], v[node])
    return v
