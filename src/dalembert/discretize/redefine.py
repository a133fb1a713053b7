"""Redefined nodes: the points of TQ that a difference map makes of neighbouring nodes."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from dalembert.discretize.maps import PairMap
from dalembert.path import Path


class Redefined(NamedTuple):
    """(q̃, v) at the times t: (K, n), (K, n), (K,)."""

    t: Float[Array, "K"]
    q: Float[Array, "K n"]
    v: Float[Array, "K n"]


def redefined(path: Path, rho: PairMap, *, first: tuple | None = None, last: tuple | None = None) -> Redefined:
    """(q̃_k, v_k) = ρ(q_{k-1}, q_k), k = 1 … N, from a path of nodes (form "nodes", or a DiscreteSystem).

    N + 1 nodes give N points. first=(q, v): a point put before them at the path's first time, last=(q, v): one behind
    them at its last; a natural choice is the end node itself. On the points of its own distribution map a scheme keeps D
    exactly, on the original nodes it does not. Errors: ValueError for a path whose states are not nodes, or are thinned.
    Source: Jiménez, Scheurle, Definition 5.6, Proposition 5.3, Remarks 5.7, 5.8.
    """
    if path.levels[0] != "mid":
        raise ValueError("path: its states are points (q, v) already; nodes come from the form 'nodes' or a DiscreteSystem")
    if not isinstance(path.t, Tracer) and np.any(np.abs(np.diff(path.t) - path.h) > 1e-6 * np.abs(path.h)):
        raise ValueError("path: neighbouring nodes are needed, and some were left out; simulate with save_every=1")
    d = jnp.diff(path.q, axis=0)
    q, v = jax.vmap(lambda x, y: rho(x, y, path.h))(path.q[:-1], d)
    inner = Redefined(path.t[:-1] + rho.weight * path.h, q, v)
    parts = [part for part in (_point(path.t[:1], first), inner, _point(path.t[-1:], last)) if part is not None]
    return Redefined(*(jnp.concatenate(column) for column in zip(*parts, strict=True)))


def _point(t: Float[Array, "1"], given: tuple | None) -> Redefined | None:
    if given is None:
        return None
    q, v = (jnp.asarray(x, dtype=float)[None] for x in given)
    return Redefined(t, q, v)
