"""Whether the continuous flow of a constrained system is symplectic on its constraints, and by how much it is not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.algebra.newton import implicit
from dalembert.algebra.ode import integrate
from dalembert.measure.symplectic import (
    SymplecticDefect,
    Vector,
    exterior_derivative,
    restricted,
    tangent_basis,
    twice,
)
from dalembert.numbers import as_number, as_positive, as_tolerance, whole_number
from dalembert.systems import (
    System,
    acceleration,
    check_initial_data,
    check_x64,
    is_traced,
    momentum,
)
from dalembert.systems.consistency import velocity_residuals
from dalembert.systems.equations import all_reactions, force, kkt_residual
from dalembert.tracing import Jitted


def flow_symplectic_defect(
    system: System,
    q0,
    v0,
    t: float,
    *,
    t0: float = 0.0,
    tolerance: float = 1e-11,
    max_steps: int = 100_000,
) -> SymplecticDefect:
    """(Fᵗ)*Ω_L - Ω_L = dν, ν(δq,δv) = -∫₀ᵗ (f + Rᵀλ)·δq(s) ds, Ω_L = -d(L_v·dq), for the continuous flow over the time
    t.

    The flow is that of the index-reduced equations for (a, λ); with constraints of order 0 or 1 the variations are
    those tangent to the constraints. One integration (Dormand-Prince 8(7), local `tolerance`) carries the derivative M
    = ∂Fᵗ/∂(q,v), the integrals of (f + Rᵀλ)·δq and of its exterior derivative d(f + Rᵀλ) ∧ dq.

    Args:
        system: a System.
        q0: (n,) consistent positions.
        v0: (n,) consistent velocities.
        t: duration of the flow.
        t0: initial time.
        tolerance: relative and absolute tolerance on the local error.
        max_steps: the largest number of steps of the integrator.

    Returns:
        A SymplecticDefect.

    Raises:
        ValueError: as `reference` for bad data.
        TypeError: as `reference`.
        RuntimeError: the integration fails.

    Source: Borda, Fernández, Grillo, Theorem 2.4, with D_EL L = L_q - d/dt L_v replaced by the force -(f + Rᵀλ), to
    which it is equal on trajectories. With D_EL L itself the theorem would hold for any second order equation.

    Example:
        >>> bool(da.measure.flow_symplectic_defect(pendulum, [1.0], [0.0], 0.5).size < 1e-8)
        True
    """
    check_x64()
    duration = jnp.asarray(as_positive(t, "t", "a positive, finite time"), dtype=float)
    begin = jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)
    accuracy, most = as_tolerance(tolerance), whole_number(max_steps, "max_steps")
    q, v = check_initial_data(system, q0, v0, begin, t)
    result = _continuous_defect(system, q, v, (begin, begin + duration), accuracy, most)
    if not is_traced(result) and not bool(result.solved):
        raise RuntimeError("flow_symplectic_defect: the integration failed; shorten t, or raise max_steps or the tolerance")
    return result


@Jitted
def _continuous_defect(system: System, q, v, span, tolerance: float, max_steps: int) -> SymplecticDefect:
    n, y0, (t0, t) = q.shape[0], jnp.concatenate([q, v]), span
    theta = lambda y, s: jnp.concatenate([momentum(system, y[:n], y[n:], s), jnp.zeros(n)])  # noqa: E731

    def field(s, carry, args: System):
        y, slope = carry["y"], carry["slope"]
        (rates, gradient), (rate, forces) = jax.jacfwd(lambda x: twice(motion_and_force(args, x, s)), has_aux=True)(y)
        turned = (gradient @ slope).T @ slope[:n]
        return {"y": rate, "slope": rates @ slope, "form": -forces @ slope[:n], "exterior": turned.T - turned}

    start = {"y": y0, "slope": jnp.eye(2 * n), "form": jnp.zeros(2 * n), "exterior": jnp.zeros((2 * n, 2 * n))}
    found = integrate(field, system, span, start, tolerance, max_steps=max_steps)
    last = jax.tree.map(lambda x: x[-1], found.y)
    before = -exterior_derivative(lambda y: theta(y, t0), y0)
    after = -exterior_derivative(lambda y: theta(y, t), last["y"])
    basis = tangent_basis(lambda y: _restrictions(system, y[:n], y[n:], t0), y0)
    pulled = last["slope"].T @ after @ last["slope"]
    left = _restrictions(system, last["y"][:n], last["y"][n:], t)
    rest = {"form": last["form"], "end": last["y"], "residual": left, "solved": found.reached}
    return restricted(basis, before, pulled, last["exterior"], **rest)


def motion_and_force(system: System, y: Float[Array, "two_n"], t) -> tuple[Float[Array, "two_n"], Vector]:
    """(v, a) and f + Rᵀλ at y = (q, v)."""
    n = y.shape[0] // 2
    q, v = y[:n], y[n:]
    found = acceleration(system, *jax.lax.stop_gradient((q, v)), t)
    z = implicit(lambda z, x, w: kkt_residual(system, x, w, t, z), jnp.concatenate(found[:2]), q, v)
    a, multipliers = z[:n], z[n:]
    return jnp.concatenate([v, a]), force(system, q, v, t) + all_reactions(system, q, v, a, t).T @ multipliers


def _restrictions(system: System, q: Vector, v: Vector, t) -> Float[Array, "k"]:
    return jnp.concatenate([jnp.zeros(0), *velocity_residuals(system, q, v, t).values()])
