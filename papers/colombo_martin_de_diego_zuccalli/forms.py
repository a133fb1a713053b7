"""Section 3: Θ⁺, Θ⁻ and the operator EL̃_d as printed sums of derivatives in the slots of a window, k = 2."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import Interpolated
from dalembert.measure.higher import node_action
from dalembert.systems import SecondOrder, VariationalProblem

K = 2
CURVATURE = 0.3
STEP = 0.1


def lagrangian(q, v, a):
    return 0.5 * a @ a - 0.5 * v @ v


def curvature(q, v, a):
    """The path bends by κ: v × a = κ|v|³."""
    return v[0] * a[1] - v[1] * a[0] - CURVATURE * (v @ v) ** 1.5


BENT = VariationalProblem(lagrangian, SecondOrder(curvature), derivatives=K, coordinates=("x", "y"))


def augmented(nodes: Float[Array, "3 2"], multiplier: Float[Array, "1"]) -> Float[Array, ""]:
    """L̃_d of one window; its constraint has the weight h of L_d."""
    return node_action(BENT, Interpolated(), nodes, multiplier[None], STEP * jnp.arange(K + 1))


@jax.jit
def action(nodes: Float[Array, "N+1 2"], multipliers: Float[Array, "N-1 1"]) -> Float[Array, ""]:
    """(3.2): Σ_{i=0}^{N-k} L̃_d(q_i, …, q_{i+k}, λⁱ)."""
    windows = jnp.arange(nodes.shape[0] - K)[:, None] + jnp.arange(K + 1)
    return jnp.sum(jax.vmap(augmented)(nodes[windows], multipliers))


@jax.jit
def slots(nodes: Float[Array, "N+1 2"], multipliers: Float[Array, "N-1 1"]) -> Float[Array, "N-1 3 2"]:
    """D_j L̃_d of every window, j = 1 … k+1."""
    windows = jnp.arange(nodes.shape[0] - K)[:, None] + jnp.arange(K + 1)
    return jax.vmap(jax.grad(augmented))(nodes[windows], multipliers)


def node_sums(nodes, multipliers, first: int, last: int) -> np.ndarray:
    """Σ_j D_j L̃_d(q_{i-j+1}, …, q_{i-j+1+k}) over the windows that there are, for i = first … last."""
    d = np.asarray(slots(nodes, multipliers))
    return np.array([sum(d[i - j, j] for j in range(K + 1) if 0 <= i - j < len(d)) for i in range(first, last + 1)])


def theta_minus(nodes: Float[np.ndarray, "4 2"], multipliers: Float[np.ndarray, "2 1"]) -> np.ndarray:
    """-Σ_{i=0}^{k-1} Σ_{j=1}^{i+1} D_j L̃_d dq_i at 2k nodes: the coefficients of dq_0 … dq_{k-1}."""
    return -node_sums(nodes, multipliers, 0, K - 1)


def theta_plus(nodes: Float[np.ndarray, "4 2"], multipliers: Float[np.ndarray, "2 1"]) -> np.ndarray:
    """Σ_{i=k}^{2k-1} Σ_{j=i-k+2}^{k+1} D_j L̃_d dq_i, N = 2k-1 in the printed sum: the coefficients of dq_k … dq_{2k-1}."""
    return node_sums(nodes, multipliers, K, 2 * K - 1)


@functools.cache
def sample(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes near a circle, off the constraint, and multipliers: generic data with a fixed seed."""
    random = np.random.default_rng(3)
    angle = 0.3 + STEP * CURVATURE * np.arange(count)
    circle = np.stack([np.sin(angle), 1 - np.cos(angle)], axis=1) / CURVATURE
    return circle + 0.02 * STEP * random.standard_normal((count, 2)), random.standard_normal((count - K, 1))


def theorem_3_1(steps: int = 7) -> dict[str, float]:
    """Largest coefficient of δq in dÃ_d - (Σ EL̃_d δq + Θ⁺ - Θ⁻), over that in dÃ_d; and of δλ in dÃ_d, which is Φ_d."""
    q, free = sample(steps + 1)
    by_q, by_free = (np.asarray(x) for x in jax.grad(action, (0, 1))(q, free))
    begin, end = (q[: 2 * K], free[:K]), (q[-2 * K :], free[-K:])
    right = np.concatenate([-theta_minus(*begin), node_sums(q, free, K, steps - K), theta_plus(*end)])
    return {
        "nodes": float(np.max(np.abs(by_q - right)) / np.max(np.abs(by_q))),
        "multipliers": float(np.max(np.abs(by_free))),
    }


def remark_3_3() -> dict[str, float]:
    """Largest entry of dΘ⁺ - dΘ⁻ at 2k nodes, k multipliers, over that of dΘ⁺: on the whole space, and on M̃_d × R^{km}."""
    q, free = sample(2 * K)
    count = q.size

    def split(x):
        return x[:count].reshape(2 * K, 2), x[count:].reshape(K, 1)

    def one_form(x, begin, end, sign):
        slopes = jax.grad(lambda y: action(y, split(x)[1]))(split(x)[0])
        return jnp.zeros_like(x).at[begin:end].set(sign * slopes.ravel()[begin:end])

    x = jnp.concatenate([q.ravel(), free.ravel()])
    plus = jax.jacfwd(lambda y: one_form(y, count // 2, count, 1.0))(x)
    minus = jax.jacfwd(lambda y: one_form(y, 0, count // 2, -1.0))(x)
    two_form, gap = plus.T - plus, np.asarray((plus.T - plus) - (minus.T - minus))
    rows = jax.jacfwd(lambda y: jax.grad(lambda f: action(split(y)[0], f))(split(y)[1]).ravel())(x)
    kernel = np.linalg.svd(np.asarray(rows))[2][len(rows) :].T
    scale = float(np.max(np.abs(np.asarray(two_form))))
    return {
        "whole": float(np.max(np.abs(gap))) / scale,
        "restricted": float(np.max(np.abs(kernel.T @ gap @ kernel))) / scale,
    }
