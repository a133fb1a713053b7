"""The same curves between two states by Ritz's method: polynomials in longitude α and latitude β that minimise ∫L dt.

    (α, β)(t) = cubic of the end values and slopes + Σ_{j=2}^{n+1} c_j b_j(t),   b_j'' = P_j(2t - 1)

b_j and b_j' vanish at both ends as Legendre's P_j has no linear part for j ≥ 2. With the covariant acceleration
(α̈ - 2 tan β α̇β̇, β̈ + sin β cos β α̇²), |Dq̇/dt|² = cos²β (…)² + (…)² and |q̇|² = cos²β α̇² + β̇²: L = ½|Dq̇/dt|² of the Riemannian
cubic or ½(|Dq̇/dt|² + |q̇|⁴) of the acceleration in space. The integral is Gauss's, and Newton's method has its derivatives
from JAX. Neither Euler-Lagrange equations nor an integrator of `sphere_curves.py` are used.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.boundary.sphere import on_sphere
from benchmarks.boundary.sphere_curves import END_ANGLES, END_SPEEDS, START_ANGLES, START_SPEEDS
from numpy.polynomial import legendre

jax.config.update("jax_enable_x64", True)


@dataclasses.dataclass(frozen=True)
class Ritz:
    """coefficients (n, 2); ∫L dt; largest component of its gradient, least eigenvalue of its second derivatives."""

    coefficients: np.ndarray
    cost: float
    gradient: float
    least: float

    def at(self, t: np.ndarray) -> np.ndarray:
        """q (m, 3)."""
        return on_sphere(_cubic(t)[0] + _bubbles(len(self.coefficients), t)[0] @ self.coefficients)


def _bubbles(count: int, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, slopes and second derivatives of b_2 … at times (m,), each (m, count)."""
    s, columns = 2 * np.asarray(t) - 1, np.eye(count + 2)[2:]
    once = [legendre.legint(column, 1, lbnd=-1) for column in columns]
    twice = [legendre.legint(column, 2, lbnd=-1) for column in columns]
    stack = lambda series: np.stack([legendre.legval(s, each) for each in series], axis=-1)  # noqa: E731
    return stack(twice) / 4, stack(once) / 2, stack(columns)


def _cubic(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hermite's, of the angles at both ends, each (m, 2)."""
    t = np.asarray(t)[:, None]
    span, first, last = END_ANGLES - START_ANGLES, _rates(START_ANGLES, START_SPEEDS), _rates(END_ANGLES, END_SPEEDS)
    c2, c3 = 3 * span - 2 * first - last, first + last - 2 * span
    return START_ANGLES + t * (first + t * (c2 + t * c3)), first + t * (2 * c2 + 3 * t * c3), 2 * c2 + 6 * t * c3


def _rates(angles: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """Of longitude and latitude."""
    return speeds / np.array([np.cos(angles[1]), 1.0])


def solve(ambient: bool, count: int = 30, most: int = 30) -> Ritz:
    """Raises RuntimeError where Newton's method does not converge."""
    nodes, weights = legendre.leggauss(4 * count)
    times = (nodes + 1) / 2
    fixed, basis = [jnp.asarray(part) for part in _cubic(times)], [jnp.asarray(part) for part in _bubbles(count, times)]

    def cost(flat):
        c = flat.reshape(count, 2)
        (_, beta), (da, db), (dda, ddb) = ((f + b @ c).T for f, b in zip(fixed, basis, strict=True))
        across = jnp.cos(beta) * dda - 2 * jnp.sin(beta) * da * db
        along = ddb + jnp.sin(beta) * jnp.cos(beta) * da**2
        speed = jnp.cos(beta) ** 2 * da**2 + db**2
        return jnp.asarray(weights) @ (across**2 + along**2 + ambient * speed**2) / 4

    value, gradient, hessian = jax.jit(cost), jax.jit(jax.grad(cost)), jax.jit(jax.hessian(cost))
    c, change = np.zeros(2 * count), np.array(np.inf)
    for _ in range(most):
        change = np.linalg.solve(hessian(c), -np.asarray(gradient(c)))
        c = c + change
        if np.max(np.abs(change)) < 1e-12:
            least = float(np.linalg.eigvalsh(hessian(c))[0])
            return Ritz(c.reshape(count, 2), float(value(c)), float(np.max(np.abs(gradient(c)))), least)
    raise RuntimeError(f"Ritz: last change {np.max(np.abs(change)):.1e}")
