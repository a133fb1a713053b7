"""Printed formulas of sections 2 and 4 as functions, with what they are compared with."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# ---- The beam's discrete Lagrangian of example 4.1, as printed: the second difference is divided by t_{k+2} - t_{k+1}. ----


def mu(t):
    return 1.0 + t


def rho(t):
    return jnp.cos(3.0 * t)


def second_difference(t, q):
    """(q₂-q₁)/(t₂-t₁)² - (q₁-q₀)/((t₁-t₀)(t₂-t₁)), printed for q̈."""
    return (q[2] - q[1]) / (t[2] - t[1]) ** 2 - (q[1] - q[0]) / ((t[1] - t[0]) * (t[2] - t[1]))


@functools.partial(jax.jit, static_argnames="varying")
def beam_lagrangian(t, q, varying: bool = True):
    """(4.3) as discretized in example 4.1; with μ = ρ = 1 if not varying."""
    m, r = (mu(jnp.mean(t)), rho(jnp.mean(t))) if varying else (1.0, 1.0)
    return 0.5 * m * second_difference(t, q) ** 2 + r * jnp.mean(q)


@functools.partial(jax.jit, static_argnames="varying")
def beam_action(t: Float[Array, "p"], q: Float[Array, "p"], varying: bool = True):
    """(4.1) for k = 2."""
    index = jnp.arange(t.shape[0] - 2)[:, None] + jnp.arange(3)
    return jnp.sum(
        (t[index[:, 2]] - t[index[:, 0]]) * jax.vmap(lambda s, x: beam_lagrangian(s, x, varying))(t[index], q[index])
    )


def _windows(t, q):
    """h_{k-2} … h_{k+1}; the second differences, mean times and mean positions of the windows k-2, k-1, k, for k = 2."""
    h, triples = np.diff(t), [slice(i, i + 3) for i in range(3)]
    return (
        h,
        [second_difference(t[s], q[s]) for s in triples],
        [t[s].mean() for s in triples],
        [q[s].mean() for s in triples],
    )


def position_equation(t: Float[np.ndarray, "5"], q: Float[np.ndarray, "5"]) -> float:
    """The first of the two equations of example 4.1 at node 2 of 5."""
    h, d, s, _ = _windows(t, q)
    m = [float(mu(x)) for x in s]
    load = sum(float(rho(s[i])) * (h[i] + h[i + 1]) for i in range(3)) / 3
    last = m[2] * d[2] * (h[3] + h[2]) / (h[3] * h[2])
    middle = m[1] * d[1] * ((h[2] + h[1]) / h[2] ** 2 + (h[2] + h[1]) / (h[1] * h[2]))
    return float(load + last - middle + m[0] * d[0] * (h[1] + h[0]) / h[1] ** 2)


def time_equation(t: Float[np.ndarray, "5"], q: Float[np.ndarray, "5"]) -> float:
    """The second equation of example 4.1, as printed, for μ = ρ = 1, where all terms with derivatives of μ and ρ vanish."""
    h, d, _, mean = _windows(t, q)
    step = np.diff(q)
    slip = (q[2] - q[3]) / h[1] ** 2 - (q[3] - q[2]) / (h[0] * h[1])
    return float(
        -mean[2] + mean[0] + 0.5 * d[0] ** 2 - 0.5 * slip**2
        - step[2] * (h[3] + h[2]) / (h[2] ** 2 * h[3] ** 2) * d[2]
        + h[2] * d[1] * (2 * step[2] / h[2] ** 3 - step[1] * (h[2] - h[3]) / (h[1] ** 2 * h[2] ** 2))
        - d[0] * (2 * step[1] / h[1] ** 3 - step[0] / (h[0] * h[1] ** 2))
    )  # fmt: skip


def corrected_time_equation(t: Float[np.ndarray, "5"], q: Float[np.ndarray, "5"]) -> float:
    """Σ_l W_l (⅓(½μ'_l D_l² + ρ'_l Q_l) + μ_l D_l ∂D_l/∂t_k) + L_{k-2} - L_k over the windows l = k-2, k-1, k.

    W_l = h_l + h_{l+1}, D_l the second difference, Q_l the mean position, μ_l, ρ_l at the mean time; μ = 1+t, ρ = cos 3t.
    """
    h, d, s, mean = _windows(t, q)
    step, slope = np.diff(q), lambda x: -3.0 * np.sin(3.0 * x)
    by_time = (
        -2 * step[1] / h[1] ** 3 + step[0] / (h[0] * h[1] ** 2),
        2 * step[2] / h[2] ** 3 + step[1] * (h[2] - h[1]) / (h[1] ** 2 * h[2] ** 2),
        -step[2] / (h[2] ** 2 * h[3]),
    )
    total = sum(
        (h[i] + h[i + 1]) * ((0.5 * d[i] ** 2 + slope(s[i]) * mean[i]) / 3 + float(mu(s[i])) * d[i] * by_time[i])
        for i in range(3)
    )
    density = lambda i: 0.5 * float(mu(s[i])) * d[i] ** 2 + float(rho(s[i])) * mean[i]  # noqa: E731
    return float(total + density(0) - density(2))
