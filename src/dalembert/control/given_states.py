"""What the constraints of a plant make of what is given at single nodes.

An equation, φ(q) = 0, dφ/dt = 0 or φ(q, v) = 0 of a state, is settled where nothing that is free changes it: it holds there,
or it contradicts what is given. The others are asked for: a velocity that is given where the position is free says something
of the position.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.data.boundary_data import Through
from dalembert.boundary.data.end_sets import EndState
from dalembert.control.problem import OptimalControl
from dalembert.systems import InconsistentDataError, check_initial_data
from dalembert.systems.distribution.leaves import along_leaf, leaves_of
from dalembert.systems.equations import first_derivative, value
from dalembert.systems.sizes import allowed
from dalembert.tracing import seldom

SAMPLES = 3
ON_LEAF = 1e-6  # of a coordinate: how far a given position may be from the leaf
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


def on_leaves(
    problem: OptimalControl, initial: Float[np.ndarray, "n"], nodes: Sequence[tuple[str, float, np.ndarray]], t: float
) -> tuple[int, ...]:
    """Coordinates that follow from the others where positions are given in full: integrable constraints keep them on their
    leaf, to the order of the scheme, so that to give them would be one equation too many.

    initial: the position at t; nodes: name, time and position of the others; an error names one on another leaf.
    """
    reach = np.ptp([initial, *(q for _, _, q in nodes)], axis=0)
    size = np.where(reach > 0.0, reach, np.max(reach) or 1.0)
    leaves = leaves_of(problem.system, initial, t, size) if nodes else None
    if leaves is None:
        return ()
    chosen = list(leaves.dependent)
    for name, time, q in nodes:
        met = along_leaf(leaves, np.append(initial, t), np.append(q, time), size)
        if met is None:
            return ()
        if not np.all(np.abs(met - q[chosen]) <= ON_LEAF * (size[chosen] + np.abs(q[chosen]))):
            what = ", ".join((problem.coordinates or tuple(map(str, range(len(q)))))[i] for i in chosen)
            where, found = (", ".join(f"{y:.9g}" for y in x) for x in (met, q[chosen]))
            raise InconsistentDataError(
                f"{name}: no motion of the plant leads there, because its constraints on velocities keep a function of "
                f"position: from the initial position, with the other coordinates of {name}, they lead to {what} = {where}; "
                f"found {found}. Give a position on the same leaf, or leave {what} free"
            )
    return leaves.dependent


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
