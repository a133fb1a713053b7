"""Redefined nodes: the points of TQ that a difference map makes of neighbouring nodes."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from dalembert.discretize.maps import Beta, PairMap
from dalembert.discretize.scheme import check_map
from dalembert.numbers import as_vector, described
from dalembert.path import Path, check_path


class Redefined(NamedTuple):
    """(q̃_k, v_k) = ρ(q_{k-1}, q_k): points of TQ at their times.

    Attributes:
        t: (K,) times.
        q: (K, n) q̃.
        v: (K, n).
    """

    t: Float[Array, "K"]
    q: Float[Array, "K n"]
    v: Float[Array, "K n"]


def redefined(path: Path, rho: PairMap, *, first: tuple | None = None, last: tuple | None = None) -> Redefined:
    """(q̃_k, v_k) = ρ(q_{k-1}, q_k), k = 1 … N, from a path of nodes (form "nodes", or a DiscreteSystem).

    N + 1 nodes give N points. At the points of its own distribution map a scheme satisfies D exactly; at the original
    nodes it does not.

    Args:
        path: a Path whose states are nodes, all of them saved.
        rho: ρ, a PairMap such as Beta(0.5).
        first: (q, v), an additional point in front, at the path's first time; a natural choice for q is the first node.
        last: (q, v), an additional point at the end, at the path's last time.

    Returns:
        A Redefined.

    Raises:
        ValueError: the states of the path are not nodes, or some were not saved.
        TypeError: an argument is of the wrong type.

    Source: Jiménez, Scheurle, Definition 5.6, Proposition 5.3, Remarks 5.7, 5.8.

    Example:
        >>> nodes = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=10, scheme=da.Scheme("nodes"))
        >>> da.redefined(nodes, da.Beta(0.5)).q.shape
        (10, 1)
    """
    check_path(path)
    if not isinstance(rho, PairMap):
        raise TypeError(f"rho: found {described(rho)}; give a PairMap, such as Beta(0.5)")
    if type(rho) is not Beta:
        check_map(rho, "rho", path.q.shape[-1])
    ends = [_point(path, end, name, given) for end, name, given in ((0, "first", first), (-1, "last", last))]
    if path.levels[0] != "mid":
        raise ValueError("path: its states are points (q, v) already; nodes come from the form 'nodes' or a DiscreteSystem")
    if not isinstance(path.t, Tracer) and np.any(np.abs(np.diff(path.t) - path.h) > 1e-6 * np.abs(path.h)):
        raise ValueError("path: neighbouring nodes are needed, and some were left out; simulate with save_every=1")
    d = jnp.diff(path.q, axis=0)
    q, v = jax.vmap(lambda x, y: rho(x, y, path.h))(path.q[:-1], d)
    inner = Redefined(path.t[:-1] + rho.weight * path.h, q, v)
    parts = [part for part in (ends[0], inner, ends[1]) if part is not None]
    return Redefined(*(jnp.concatenate(column) for column in zip(*parts, strict=True)))


def _point(path: Path, end: int, name: str, given: tuple | None) -> Redefined | None:
    """A point (q, v) put before or behind the others, at the first or the last time of the path."""
    if given is None:
        return None
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"{name}: found {described(given)}; give a pair (q, v) of arrays (n,)")
    q, v = (as_vector(x, f"{name}[{i}]", path.q.shape[-1]) for i, x in enumerate(given))
    return Redefined(path.t[end][None], q[None], v[None])
