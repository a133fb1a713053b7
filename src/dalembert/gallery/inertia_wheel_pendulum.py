"""The inertia wheel pendulum, held upright by a Lyapunov constraint: its multiplier is the control law.

q = (θ, ψ), θ = 0 upright, actuator on the wheel ψ. L = ½Iθ̇² + ½J(θ̇+ψ̇)² - M(1+cos θ), M = mass · length · g.
dV/dt = -F with p₁ = (I+J)θ̇ + Jψ̇, p₂ = J(θ̇+ψ̇), u = g_c p₁ + h_c p₂,
V = ½f p₁² + ½h_c p₂² + g_c p₁p₂ + χ(1 - cos(ψ - nθ)) + (Me/d)(1 - cos θ),  F = ρ u tanh u.
Along the motion dV/dt + F = u (ṗ₂ + ρ tanh u + K), so that every step has the spurious root u = 0 besides the physical one.
Borda, Fernández, Grillo, Section 4.2, eq. (8); Grillo, Marsden, Nair (2011), Section 5.1, for V and F.
"""

import jax.numpy as jnp

from dalembert.drawing import Rod, Wheel
from dalembert.gallery.entry import Entry
from dalembert.systems import Lyapunov, System

PARAMETERS = {"I": 312.5, "J": 2.0772, "M": 37.98, "d": 1.0, "e": 1000.0, "chi": 100.0, "n": -154.0, "rho": 2.0}


def lagrangian(q, v, p):
    return 0.5 * p["I"] * v[0] ** 2 + 0.5 * p["J"] * (v[0] + v[1]) ** 2 - p["M"] * (1 + jnp.cos(q[0]))


def gains(p):
    """h_c, g_c, f of the Lyapunov function."""
    a, b, c = 1 / p["I"], -1 / p["I"], 1 / p["I"] + 1 / p["J"]
    h_c = p["d"] * (p["n"] * b - c) / (a * c - b * b)
    g_c = p["d"] * (p["n"] * a - b) / (a * c - b * b)
    return h_c, g_c, (g_c**2 + p["e"]) / h_c


def momenta(v, p):
    return (p["I"] + p["J"]) * v[0] + p["J"] * v[1], p["J"] * (v[0] + v[1])


def factor(q, v, p):
    """u = g_c p₁ + h_c p₂, the coefficient of the control in dV/dt."""
    h_c, g_c, _ = gains(p)
    p1, p2 = momenta(v, p)
    return g_c * p1 + h_c * p2


def lyapunov(q, v, p):
    h_c, g_c, f = gains(p)
    p1, p2 = momenta(v, p)
    kinetic = 0.5 * f * p1**2 + 0.5 * h_c * p2**2 + g_c * p1 * p2
    return kinetic + p["chi"] * (1 - jnp.cos(q[1] - p["n"] * q[0])) + p["M"] * p["e"] / p["d"] * (1 - jnp.cos(q[0]))


def dissipation(q, v, p):
    u = factor(q, v, p)
    return p["rho"] * jnp.tanh(u) * u


def draw(q, p):
    """A rod of length 1 with the wheel at its end; angles grow clockwise, θ from upright, ψ from the rod."""
    end = jnp.array([jnp.sin(q[0]), jnp.cos(q[0])])
    ground = jnp.array([[-0.3, 0.0], [0.3, 0.0]])
    return [Rod(ground), Rod([[0.0, 0.0], end]), Wheel(end, 0.28, 0.5 * jnp.pi - q[0] - q[1])]


def inertia_wheel_pendulum() -> System:
    return System(
        lagrangian,
        Lyapunov(lyapunov, dissipation, actuated=1),
        coordinates=("θ", "ψ"),
        parameters=PARAMETERS,
        draw=draw,
    )


entry = Entry(
    name="inertia_wheel_pendulum",
    title="Inertia wheel pendulum with a Lyapunov constraint",
    formula="L = ½Iθ̇² + ½J(θ̇+ψ̇)² - M(1+cos θ),  dV/dt = -F,  actuator on ψ",
    source="Borda, Fernández, Grillo, Section 4.2",
    system=inertia_wheel_pendulum(),
    q0=(0.5, 0.0),
    v0=(0.0, 0.5),
    h=0.1,
    time=2000.0,
)
