"""Kepler's problem on a spiral stair: a particle, drawn to an axis by -1/r, climbs with the slope κ as it goes round.

L = ½|v|² + μ/r,  r² = x² + y²,  ż = κ(xẏ - yẋ)/r, that is ż = κrθ̇: no function of the position. The force of the stair,
λ(κy/r, -κx/r, 1), takes angular momentum away and gives it back, so that no area law holds: d/dt(r²θ̇) = -κr d/dt(κrθ̇) gives

    J = θ̇ r^(1+β),  β = 1/(1+κ²),      E = ½ṙ² + ½(1+κ²)J² r^(-2β) - μ/r,

both constant. Orbits between two distances from the axis turn and climb without end; for κ = 0 they are Kepler's. Motion and
reaction change places only at the nearest point, where all is fast: with steps of one length most of them are wasted.
The reduction is elementary; we know no source for this system.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System

ENDS = (0.1, 1.9)  # nearest and farthest distance: of Kepler's orbits the one of eccentricity 0.9 and period 2π


def lagrangian(q, v, p):
    return 0.5 * (v @ v) + p["mu"] / jnp.sqrt(q[0] ** 2 + q[1] ** 2)


def stair(q, v, p):
    return v[2] - p["kappa"] * (q[0] * v[1] - q[1] * v[0]) / jnp.sqrt(q[0] ** 2 + q[1] ** 2)


def climbing_orbit(kappa: float = 0.5, mu: float = 1.0) -> System:
    return System(lagrangian, Nonholonomic(stair), coordinates=("x", "y", "z"), parameters={"kappa": kappa, "mu": mu})


def farthest(nearest: float = ENDS[0], distance: float = ENDS[1], kappa: float = 0.5, mu: float = 1.0):
    """(q, v), each (3,), at the farthest point of the orbit between two distances, on the x axis and at the height 0."""
    beta = 1.0 / (1.0 + kappa**2)
    depth = mu * (1.0 / nearest - 1.0 / distance) / (nearest ** (-2.0 * beta) - distance ** (-2.0 * beta))
    speed = np.sqrt(2.0 * depth * beta) * distance ** (-beta)  # rθ̇, of ½(1+κ²)J² = depth
    return np.array([distance, 0.0, 0.0]), np.array([0.0, speed, kappa * speed])


def invariants(q, v, kappa: float = 0.5, mu: float = 1.0):
    """(E, J), each (…,), of states (…, 3)."""
    q, v = np.asarray(q), np.asarray(v)
    r = np.hypot(q[..., 0], q[..., 1])
    turning = (q[..., 0] * v[..., 1] - q[..., 1] * v[..., 0]) / r**2
    return 0.5 * (v * v).sum(axis=-1) - mu / r, turning * r ** (1.0 + 1.0 / (1.0 + kappa**2))


Q0, V0 = farthest()

entry = Entry(
    name="climbing_orbit",
    title="Eccentric orbit on a spiral stair",
    formula="L = ½|v|² + μ/r,  ż = κ(xẏ - yẋ)/r",
    source="Kepler's problem with a nonholonomic constraint",
    system=climbing_orbit(),
    q0=tuple(Q0.tolist()),
    v0=tuple(V0.tolist()),
    h=0.002,
    time=40.0,
)
