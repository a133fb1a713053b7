"""The exact discrete Lagrangian, distribution and Legendre maps, of the flow between two points."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.numbers import as_number, as_tolerance, as_vector, is_traced
from dalembert.systems import System, check_x64, momentum
from dalembert.systems.consistency import velocity_residuals
from dalembert.systems.reference import chosen_backend, travelled
from dalembert.systems.sizes import as_step
from dalembert.systems.system import check_shapes, check_system
from dalembert.tracing import seldom

NODES, WEIGHTS = (np.polynomial.legendre.leggauss(16) + np.array([[1.0], [0.0]])) * 0.5  # of ∫L, far below its error
MISSED = 1e-8  # of |q₁ - q₀| + h|v|: a curve that ends further from q₁ was not found


class ExactPair(NamedTuple):
    """L_d^E(q₀,q₁) = ∫L(q, q̇) dt, (v₀, v₁) = (q̇(0), q̇(h)), p⁻ = L_v(q₀,v₀), p⁺ = L_v(q₁,v₁), φ_d^E(q₀,q₁) = φ(q₀,v₀).

    Attributes:
        lagrangian: L_d^E, an action.
        v0: (n,) velocity at q₀: the exact difference map ρ^E(q₀,q₁) = (q₀, v₀).
        v1: (n,) velocity at q₁.
        minus: (n,) p⁻, of the exact F⁻.
        plus: (n,) p⁺, of the exact F⁺.
        constraint: (k,) φ_d^E, zero on D_d^E, the set of pairs that a motion joins; for holonomic constraints φ and
            dφ/dt.
    """

    lagrangian: Float[np.ndarray, ""]
    v0: Float[np.ndarray, "n"]
    v1: Float[np.ndarray, "n"]
    minus: Float[np.ndarray, "n"]
    plus: Float[np.ndarray, "n"]
    constraint: Float[np.ndarray, "k"]


def exact_discrete(system: System, q0, q1, *, h: float, t0: float = 0.0, tolerance: float = 1e-13) -> ExactPair:
    """d/dt L_v - L_q = f + Rᵀλ, φ = const, q(t0) = q₀, q(t0+h) = q₁: the exact discrete Lagrangian L_d^E = ∫L dt, with
    its momenta and constraint.

    The curve solves the reduced equations for (a, λ), which keep the value of φ constant. On D it is the motion; off D
    it extends L_d^E and D_d^E = {φ_d^E = 0}, of dimension 2n - m, to all pairs near the diagonal. Its initial velocity
    v₀ is found by shooting from the straight line. Motions satisfy F⁺(q₀,q₁) = F⁻(q₁,q₂) with φ_d^E(q₀,q₁) = 0: the
    exact scheme.

    Without forces and constraints p⁻ = -D₁L_d^E, p⁺ = D₂L_d^E, with holonomic constraints for variations along the
    leaf; in general p⁻ = -D₁L_d^E - ∫(f + Rᵀλ)·∂q/∂q₀ dt and p⁺ = D₂L_d^E + ∫(f + Rᵀλ)·∂q/∂q₁ dt. The impulses of
    nonholonomic reactions do not vanish on D: the flow of d'Alembert's principle for (L_d^E, D, D_d^E) is therefore not
    exact, but of order 2.

    Args:
        system: a System.
        q0: (n,) position at t0.
        q1: (n,) position at t0 + h, near enough to q0 for a unique motion.
        h: time step.
        t0: time of q0.
        tolerance: relative and absolute tolerance on the local error of the integrator.

    Returns:
        An ExactPair.

    Raises:
        ValueError: an argument has the wrong shape, or no motion from q0 to q1 is found near the straight line.
        TypeError: an argument is of the wrong type, or traced.

    Source: Jiménez, Scheurle, Remark 5.4 (D_d^E); Marsden, West, Sections 1.6 and 3.2.4 (L_d^E, forces).

    Example:
        >>> free = da.System(lambda q, v: 0.5 * v @ v)
        >>> found = da.measure.exact_discrete(free, [0.0], [0.2], h=0.1)
        >>> round(float(found.lagrangian), 12), round(float(found.plus[0]), 12)  # |q₁-q₀|²/2h, (q₁-q₀)/h
        (0.2, 2.0)
    """
    check_x64()
    check_system(system)
    a = as_vector(q0, "q0")
    b = as_vector(q1, "q1", a.shape[0])
    step, begin, accuracy = as_step(h), as_number(t0, "t0", "a finite time"), as_tolerance(tolerance)
    if is_traced(system, a, b, step, begin):
        raise TypeError("exact_discrete: works on numbers and not under jit, vmap or grad")
    check_shapes(system, a, b, jnp.asarray(begin, dtype=float))
    times = float(begin) + float(step) * np.concatenate([[0.0], NODES, [1.0]])
    v0 = _shot(system, np.asarray(a), np.asarray(b), times, accuracy)
    return along(system, *_curve(system, np.asarray(a), v0, times, accuracy), times)


def _curve(system: System, q, v, times, tolerance) -> tuple[np.ndarray, np.ndarray]:
    natively = chosen_backend(None) == "native"
    found = travelled(system, (jnp.asarray(q), jnp.asarray(v)), times, tolerance, natively=natively)
    return np.asarray(found.q), np.asarray(found.v)


def _shot(system: System, q0, q1, times, tolerance) -> np.ndarray:
    """v₀ with q(h) = q₁, from the straight line."""
    from scipy.optimize import root

    ends, h = times[[0, -1]], times[-1] - times[0]

    def missed(v):
        q = _curve(system, q0, v, ends, tolerance)[0][-1]
        return (q - q1) / h if np.all(np.isfinite(q)) else np.full_like(q1, 1e100)

    found = root(missed, (q1 - q0) / h, tol=1e-14).x
    size = np.linalg.norm((q1 - q0) / h) + np.linalg.norm(found)
    if not np.linalg.norm(missed(found)) <= MISSED * (size or 1.0):
        raise ValueError(
            f"q1: no motion from q0 to q1 in the time {h:g} was found near the straight line; give a "
            "nearer point, or a shorter h"
        )
    return found


def along(system: System, q, v, times) -> ExactPair:
    """The discrete data of a curve (q, v) at t0, at the quadrature's nodes after it, and at t0 + h."""
    found = _data(system, jnp.asarray(q), jnp.asarray(v), jnp.asarray(times))
    action = (times[-1] - times[0]) * (WEIGHTS @ np.asarray(found["lagrangian"]))
    ends = (np.asarray(found[name]) for name in ("minus", "plus", "constraint"))
    return ExactPair(np.asarray(action), np.asarray(v[0]), np.asarray(v[-1]), *ends)


@seldom
def _data(system: System, q, v, t) -> dict[str, Any]:
    rows = velocity_residuals(system, q[0], v[0], t[0]).values()
    return {
        "lagrangian": jax.vmap(lambda x, w, s: system.call(system.lagrangian, x, w, t=s))(q[1:-1], v[1:-1], t[1:-1]),
        "minus": momentum(system, q[0], v[0], t[0]),
        "plus": momentum(system, q[-1], v[-1], t[-1]),
        "constraint": jnp.concatenate([jnp.zeros(0), *rows]),
    }
