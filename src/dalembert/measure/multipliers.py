"""Multipliers of the continuous equations along a path."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jaxtyping import Array, Float

from dalembert.measure.nodes import states_of
from dalembert.path import Path
from dalembert.systems import System, acceleration
from dalembert.systems.equations import all_reactions


class Multipliers(NamedTuple):
    """d/dt L_v - L_q = f + Rᵀλ: λ and Rᵀλ along a path.

    Attributes:
        t: (K,) times.
        multipliers: (K, m) λ.
        forces: (K, n) Rᵀλ.
    """

    t: Float[Array, "K"]
    multipliers: Float[Array, "K m"]
    forces: Float[Array, "K n"]


def multipliers(system: System, path: Path) -> Multipliers:
    """λ(q, v) with  d/dt L_v - L_q = f + Rᵀλ  and the index-reduced constraints, at the states (q, v) of the path.

    They have the order of (q, v), and the times of the velocities. `path.multipliers` are those of the discrete
    equations: of order 2 at their own times `path.t_multipliers`, and of order 1 as values at the end of the step. (A
    composed scheme has no such discrete multipliers: there the two agree.) The held forces of a sampled law are not
    included. Works under jit. If velocities lie half way between nodes, the position is the mid-point, as in `energy`.

    Args:
        system: a System.
        path: its Path.

    Returns:
        Multipliers.

    Raises:
        TypeError: system is not a System.

    Source: Jiménez, Scheurle, Remark 4.3, eq. (23).

    Example:
        >>> turning = da.simulate(sphere, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], h=0.1, steps=20)
        >>> da.measure.multipliers(sphere, turning).multipliers.shape
        (21, 1)
    """
    q, v, t = states_of(system, path)

    def at(q, v, t):
        a, found, _ = acceleration(system, q, v, t)
        return found, all_reactions(system, q, v, a, t).T @ found

    return Multipliers(t, *jax.vmap(at)(q, v, t))
