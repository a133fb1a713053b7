"""The printed formulas and corrected ones, evaluated with NumPy and apart from the library, on two systems.

The nonholonomic particle, by hand. And `Simple`, L = ½vᵀMv - V(q) with μ = (A(q), 1), n = 4, m = 2: a mass matrix that is
not diagonal, and a connection A that depends on all coordinates, so that no term of a formula vanishes by chance.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from numpy.linalg import inv, norm, solve
from scipy.integrate import solve_ivp

from papers.convergence import fitted_slope

# --- the particle, z' = y x' ---------------------------------------------------------------------------------------


def particle_field(_, s):
    """Eq. (90)."""
    y, vx, vy = s[1], s[3], s[4]
    λ = vx * vy / (1 + y**2)
    return np.array([*s[3:], -y * λ, 0.0, λ])


def particle_multiplier(s):
    return s[3] * s[4] / (1 + s[1] ** 2)


def implicit_step(s, h: float, drift: str = "mean"):
    """(95, 96) with q̃' = q̃ + h (v + v')/2, or as printed, drift="new": q̃' = q̃ + h v'. Returns the state and λ."""
    y, vx, vy = s[1], s[3], s[4]
    half = y + 0.5 * h * vy
    λ = vx * vy / (1 + (y + h * vy) * half)
    v = s[3:] + h * λ * np.array([-half, 0.0, 1.0])
    return np.concatenate([s[:3] + h * (v if drift == "new" else 0.5 * (s[3:] + v)), v]), λ


def split_step(s, h: float, place: str):
    """(86) in the split form: z̃' = z̃_½ - (h/2) A v_x' with A = -y at q̃_½ as printed, place="half", or at q̃', "end"."""
    found, _ = implicit_step(s, h)
    y = s[1] + 0.5 * h * s[4] if place == "half" else found[1]
    found[2] = s[2] + 0.5 * h * s[1] * s[3] + 0.5 * h * y * found[3]
    return found


def original_step(s, h: float):
    """(97) from any data: v' on the deformed constraint. On D_ε it is (99)."""
    y, vx, vy, vz = s[1], *s[3:]
    half = y + 0.5 * h * vy
    λ = (half * vx - vz) / (h * (1 + y * half))
    v = s[3:] + h * λ * np.array([-y, 0.0, 1.0])
    return np.concatenate([s[:3] + h * v, v]), λ


def closed_step(s, h: float):
    """(99) as a formula, whatever the data."""
    y, vx, vy = s[1], s[3], s[4]
    λ = vx * vy / (1 + y * (y + 0.5 * h * vy))
    v = s[3:] + h * λ * np.array([-y, 0.0, 1.0])
    return np.concatenate([s[:3] + h * v, v]), λ


def particle_state(seed: int = 0):
    """A point of D."""
    x, y, z, vx, vy = np.random.default_rng(seed).uniform(0.4, 1.2, 5)
    return np.array([x, y, z, vx, vy, y * vx])


def exact(field, s, t: float):
    return solve_ivp(field, (0.0, t), s, method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]


# --- L = ½vᵀMv - V(q), μ = (A(q), 1) ------------------------------------------------------------------------------------

M = np.array([[2.0, 0.3, 0.1, 0.0], [0.3, 1.5, 0.0, 0.2], [0.1, 0.0, 1.0, 0.1], [0.0, 0.2, 0.1, 1.2]])
W = inv(M)


def form(q):
    """μ (2, 4) = (A, 1)."""
    x, y, z, w = q
    rows = [[y + 0.5 * jnp.sin(z), 0.3 * w + 0.2 * x], [x * w, jnp.cos(y) + 0.5 * z]]
    return jnp.concatenate([jnp.array(rows), jnp.eye(2)], axis=1)


def _gradient(q):
    return q + 0.4 * q**3


@functools.cache
def _compiled():
    return jax.jit(form), jax.jit(jax.jacfwd(form)), jax.jit(jax.jacfwd(jax.jacfwd(form)))


def μ(q):
    return np.asarray(_compiled()[0](q))


def dμ(q):
    """∂μ^α_i/∂q^j, (2, 4, 4)."""
    return np.asarray(_compiled()[1](q))


def ddμ(q):
    return np.asarray(_compiled()[2](q))


def C(q):
    """C_αβ, the inverse of μ M⁻¹ μᵀ."""
    return inv(μ(q) @ W @ μ(q).T)


def quadratic(d, v, w):
    """∂μ^α_i/∂q^j v^i w^j, (2,): v along the form, w along the derivative."""
    return np.einsum("aij,i,j->a", d, v, w)


def multiplier(q, v, force: float = 1.0):
    """Eq. (77); force=0 without V."""
    return -C(q) @ (quadratic(dμ(q), v, v) - force * μ(q) @ W @ _gradient(q))


def split_multiplier(q, v, force: float = 1.0):
    """The display after (78): -C(v^b ∂A_b/∂q^a v^a - v^b ∂A_b/∂q^γ A^γ_a v^a - A_a M^{aj}∇V - M^{βj}∇V)."""
    a, d, slope = μ(q)[:, :2], dμ(q), W @ _gradient(q)
    first = np.einsum("ABa,B,a->A", d[:, :2, :2], v[:2], v[:2])
    second = np.einsum("ABg,B,ga,a->A", d[:, :2, 2:], v[:2], a, v[:2])
    return -C(q) @ (first - second - force * (a @ slope[:2] + slope[2:]))


def field(force: float = 1.0):
    """Eq. (76) as a vector field on (q, v)."""

    def rate(_, s):
        q, v = s[:4], s[4:]
        return np.concatenate([v, W @ (μ(q).T @ multiplier(q, v, force) - force * _gradient(q))])

    return rate


def simple_state(seed: int = 0):
    random = np.random.default_rng(seed)
    q, w = random.uniform(-0.8, 0.8, 4), random.uniform(0.4, 1.2, 2)
    return np.concatenate([q, w, -μ(q)[:, :2] @ w])


def explicit_multiplier(q, v, h: float):
    """(82) at q̃' = q̃ + h v."""
    new = q + h * v
    return -C(new) @ μ(new) @ (v - h * W @ _gradient(new)) / h


def simple_implicit(q, v, h: float):
    """(86) without V, Newton's method for λ: q̃', v', λ."""
    half, λ = q + 0.5 * h * v, multiplier(q, v, 0.0)
    for _ in range(30):
        new = v + h * W @ μ(half).T @ λ
        end = half + 0.5 * h * new
        value = μ(end) @ new / h
        slope = (μ(end) + 0.5 * h * np.einsum("aij,i->aj", dμ(end), new)) @ W @ μ(half).T
        λ = λ - solve(slope, value)
        if norm(value) < 1e-15 * norm(new) / h:
            break
    new = v + h * W @ μ(half).T @ λ
    return half + 0.5 * h * new, new, λ


def exponent(error, steps=(0.04, 0.02, 0.01, 0.005)) -> float:
    """Slope of error(h), a number or a vector, against h."""
    return fitted_slope(steps, [norm(np.atleast_1d(error(h))) for h in steps])


def order(step, state, field, time: float = 2.0, steps=(0.05, 0.025, 0.0125)) -> float:
    """Global order of step(s, h) → s at the given time."""
    end, errors = exact(field, state, time), []
    for h in steps:
        s = state
        for _ in range(round(time / h)):
            s = step(s, h)
        errors.append(norm(s - end))
    return fitted_slope(steps, errors)
