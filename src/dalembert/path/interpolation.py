"""Between the nodes of a path: polynomials through the positions and velocities of neighbouring nodes."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

MOST = 11  # order, of six nodes
SHORT = 0.2  # of the step before: a last step that is shorter leaves its polynomial no digits, and is not taken into it


def nodes_for(order: int) -> int:
    """2m nodes give q the order 4m and v the order 4m - 1: the fewest for both."""
    return 2 * -(-(order + 1) // 4)


@jax.jit
def two_nodes(t: Float[Array, "nodes"], q, v, times: Float[Array, "..."]):
    """(q, v) at times, from q and v (nodes, n) at t; without v from the slopes of q. One program for its many operations."""
    v = _slopes(t, q) if v is None else v
    k = _cells(t, times)
    width = t[k + 1] - t[k]
    s = ((times - t[k]) / width)[..., None]
    q0, q1, d0, d1 = q[k], q[k + 1], v[k] * width[..., None], v[k + 1] * width[..., None]
    jump = q1 - q0
    at = q0 + s * (d0 + s * (3 * jump - 2 * d0 - d1 + s * (d0 + d1 - 2 * jump)))
    return at, (d0 + s * (2 * (3 * jump - 2 * d0 - d1) + 3 * s * (d0 + d1 - 2 * jump))) / width[..., None]


@functools.partial(jax.jit, static_argnames="number")
def several_nodes(t: Float[Array, "nodes"], q, v, times: Float[Array, "..."], number: int):
    """(q, v) at times, by the polynomials through q and v at so many nodes around each; near the ends through the last ones.

    p(t) = q_k + Σ_j l_j² ((1 - 2 (t - t_j) l_j′(t_j)) (q_j - q_k) + (t - t_j) v_j), l_j of Lagrange, and its derivative.
    """
    widths, count = jnp.abs(jnp.diff(t)), t.shape[0]
    last = jnp.where(widths[-1] < SHORT * widths[-2], count - 1, count) if count > number else count
    k = _cells(t, times)
    first = jnp.clip(k - (number // 2 - 1), 0, last - number)
    others = jnp.array([[i for i in range(number) if i != j] for j in range(number)])

    def one(time, k, first):
        at = first + jnp.arange(number)
        x, jumps, slopes = t[at] - t[k], q[at] - q[k], v[at]
        apart = x[:, None] - x[others]

        def polynomial(time):
            base = jnp.prod((time - x[others]) / apart, axis=1) ** 2
            ahead = time - x
            return (base * (1.0 - 2.0 * ahead * jnp.sum(1.0 / apart, axis=1))) @ jumps + (base * ahead) @ slopes

        found, rate = jax.jvp(polynomial, (time - t[k],), (jnp.ones_like(time),))
        return q[k] + found, rate

    at, rate = jax.vmap(one)(*map(jnp.ravel, (times, k, first)))
    end = (jnp.ravel(times) == t[-1])[:, None]
    shape = (*times.shape, q.shape[1])
    return jnp.where(end, q[-1], at).reshape(shape), jnp.where(end, v[-1], rate).reshape(shape)


def _cells(t: Float[Array, "nodes"], times):
    """The number of the node before each time; backwards in time the nodes decrease."""
    clock = jnp.sign(t[-1] - t[0])
    return jnp.clip(jnp.searchsorted(clock * t, clock * times, side="right") - 1, 0, t.shape[0] - 2)


def _slopes(t: Float[Array, "nodes"], q: Float[Array, "nodes n"]) -> Float[Array, "nodes n"]:
    """Derivatives at the nodes of the parabolas through three neighbouring nodes: second order, at both ends too."""
    width = jnp.diff(t)[:, None]
    chord = jnp.diff(q, axis=0) / width
    bend = jnp.diff(chord, axis=0) / (width[:-1] + width[1:])
    inner = chord[:-1] + width[:-1] * bend
    return jnp.concatenate([(chord[0] - width[0] * bend[0])[None], inner, (chord[-1] + width[-1] * bend[-1])[None]])
