"""Extremals of the swing-up of `cartpole.py` as N → ∞, by Pontryagin's principle and solve_bvp.

    H = F² + p·(v, a),   m(q) a + c(q, v) = (F, 0),   ẏ = H_p,   ṗ = -H_y,   2F + (m⁻¹p_v)_x = 0,   y = (q, v) in R⁴

from rest to rest; a ninth equation sums the cost. The guess is an extremal of the discrete problem: with its multipliers κ
of the equations m a + c = (F, 0), which are 2F for x and those of the constraints for θ, p_v = -m κ, and p_q is minus the
derivative of p_v. Derivatives of H are JAX's. No equation of the discrete problem is used, only its solution as a guess.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.boundary import cartpole
from benchmarks.boundary.cartpole import CART, GRAVITY, LENGTH, POLE, T
from scipy.integrate import solve_bvp

jax.config.update("jax_enable_x64", True)


def _mass(angle):
    bend = POLE * LENGTH * jnp.cos(angle)
    return jnp.array([[CART + POLE, bend], [bend, POLE * LENGTH**2]])


def _force(y, p):
    """The F that makes H stationary."""
    return -jnp.linalg.solve(_mass(y[1]), p[2:])[0] / 2


def _hamiltonian(y, p, force):
    angle, turn = y[1], y[3]
    pull = jnp.array([force + POLE * LENGTH * turn**2 * jnp.sin(angle), -POLE * GRAVITY * LENGTH * jnp.sin(angle)])
    return force**2 + p[:2] @ y[2:] + p[2:] @ jnp.linalg.solve(_mass(angle), pull)


def _slope(z):
    y, p = z[:4], z[4:8]
    force = _force(y, p)
    by_y, by_p = jax.grad(_hamiltonian, (0, 1))(y, p, force)
    return jnp.concatenate([by_p, -by_y, jnp.array([force**2])])


_slopes = jax.jit(jax.vmap(_slope, in_axes=1, out_axes=1))


def slopes(t: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(9, m) → (9, m); in blocks of a power of two, so that few sizes are compiled."""
    columns = z.shape[1]
    padded = np.repeat(z[:, :1], 1 << (columns - 1).bit_length(), axis=1)
    padded[:, :columns] = z
    return np.asarray(_slopes(padded))[:, :columns]


def ends(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    rest = np.zeros(2)
    begin, end = np.concatenate([cartpole.START, rest]), np.concatenate([cartpole.END, rest])
    return np.concatenate([first[:4] - begin, last[:4] - end, first[8:]])


def guess(path: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    """(9, N+1) from a discrete extremal (N+1, 2) and the multipliers of its constraints on θ (N+1,)."""
    t = np.linspace(0.0, T, len(path))
    force = cartpole.forces(path)[0]
    kappa = np.stack([2 * force, multipliers])
    by_v = -np.stack([np.asarray(_mass(angle)) @ each for angle, each in zip(path[:, 1], kappa.T, strict=True)]).T
    cost = np.concatenate([[0.0], np.cumsum((force[1:] ** 2 + force[:-1] ** 2) * T / (len(path) - 1) / 2)])
    return np.concatenate([path.T, np.gradient(path, t, axis=0).T, -np.gradient(by_v, t, axis=1), by_v, cost[None]])


def cost(path: np.ndarray, multipliers: np.ndarray, tolerance: float = 1e-8) -> float:
    """Of the extremal near a discrete one; raises RuntimeError where solve_bvp gives up."""
    t = np.linspace(0.0, T, len(path))
    found = solve_bvp(slopes, ends, t, guess(path, multipliers), tol=tolerance, max_nodes=50_000)
    if not found.success:
        raise RuntimeError(found.message)
    return float(found.y[8, -1])
