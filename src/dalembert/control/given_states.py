"""What the constraints of a plant make of what is given at single nodes.

An equation, φ(q) = 0, dφ/dt = 0 or φ(q, v) = 0 of a state, is settled where nothing that is free changes it: it holds there,
or it contradicts what is given. The others are asked for: a velocity that is given where the position is free says something
of the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.data.end_sets import EndFunction, EndSets, EndState, check_rank
from dalembert.boundary.data.ends import Through
from dalembert.control.problem import OptimalControl, counted
from dalembert.systems import InconsistentDataError, check_initial_data
from dalembert.systems.distribution.leaves import Forms, leaf_forms, solved_for
from dalembert.systems.equations import first_derivative, value
from dalembert.systems.sizes import allowed
from dalembert.tracing import seldom

SAMPLES = 3
ON_LEAF = 1e-6  # of a coordinate: how far a given position may be from where the path ends
LEEWAY = 2.0  # times by how much the steps leave their leaf: what is as near is on it, such as the end of a simulated run
SEEN = 50  # steps at which that is looked at
FREE = 1e-9  # of the forms: coordinates that change a function by less do not enter it
STILL = 1e-10  # change by what is free, relative to that by everything


def settled_rows(problem: OptimalControl, at: EndState) -> Bool[np.ndarray, "2 m"]:
    """Which equations of positions, and which of velocities, nothing that is free changes; an error names the end where
    they contradict what is given of it in part."""
    if not problem.system.constraints:
        return np.zeros((2, 0), dtype=bool)
    random, apart = np.random.default_rng(0), at.sizes * at.free
    jets = np.stack([at.jet, *(at.jet + random.standard_normal(at.jet.shape) * apart for _ in range(SAMPLES))])
    values, slopes = (np.asarray(x) for x in _equations(problem, jets, at.t))
    moved = np.abs(slopes) * at.sizes
    settled = (moved * at.free).max(axis=(0, 3, 4)) <= STILL * moved.max(axis=(0, 3, 4))
    rows = slopes[0].reshape(*slopes.shape[1:3], -1)
    near = np.maximum(at.sizes, np.abs(at.jet) * (np.arange(2) == 1)[:, None])
    wrong = settled & ~(np.abs(values[0]) <= allowed(rows, near.ravel(), at.jet.ravel())) & at.free.any()
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
            allowed = ON_LEAF * np.max(1.0 + np.abs(path[k]) / self.scale[:-1]) + LEEWAY * steps
            if np.linalg.norm(self._off(x[[k]], apart[None])) > allowed:
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
            holonomic = np.asarray(_equations(problem, at.jet[None], at.t)[1])[0, 0, :, 0]
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
    equations = counted(problem, path.shape[1])[1]
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
    settles = [len(_unmoved(rows, free[k])) == len(rows) for k, rows in zip((0, -1), forms(x[[0, -1]]), strict=True)]
    for k in [k for k in np.flatnonzero(known.any(axis=1)).tolist() if k and settles[0]]:
        rows = _unmoved(forms(x[[k]])[0], free[k])
        if len(rows) > holonomic:
            name = "final" if k == len(t) - 1 else f"through: the point at t = {t[k]:g}"
            nodes.append(LeafNode(name, k, given[k].copy(), sets.shift[0], solved_for(rows, np.flatnonzero(known[k]))))
    names = problem.coordinates or [f"q[{i}]" for i in range(path.shape[1])]
    return SharedLeaf(forms, scale, nodes, path.copy(), names, settles)


def _unmoved(rows: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Combinations of forms (r, n+1) in which what is free does not occur."""
    _, values, combinations = np.linalg.svd(rows[:, free].T, full_matrices=True)
    return combinations[int(np.sum(values > FREE * np.abs(rows).max())) :] @ rows


def check_states(
    problem: OptimalControl, states: Sequence[EndState], between: Through, time: float
) -> Bool[np.ndarray, "ends 2 m"]:
    """What is given in full has to be a state of the plant: the error names it and says what is wrong with it. Otherwise
    `settled_rows` of both ends. time: between the ends."""
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
def _equations(problem: OptimalControl, jets: Float[np.ndarray, "samples 2 n"], t):
    """φ(q) and dφ/dt of the holonomic, 0 and φ(q, v) of the other constraints, (samples, 2, m), and their slopes."""
    system = problem.system

    def rows(jet):
        q, v = jet
        found = [
            (value(system, c, q, q, q, t), first_derivative(system, c, q, v, t))
            if c.order == 0
            else (0.0 * value(system, c, q, v, v, t), value(system, c, q, v, v, t))
            for c in system.constraints
        ]
        return jnp.stack([jnp.concatenate(each) for each in zip(*found, strict=True)])

    return jax.vmap(lambda jet: (rows(jet), jax.jacfwd(rows)(jet)))(jets)
