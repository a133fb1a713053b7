"""Equation (10): a step of the pendulum as one equation for θ₂, A θ₂² + B θ₂ + C = -ρ tanh(D θ₂ + E)(D θ₂ + E).

By (9) p₁ at the node is (I+J)(θ₁-θ₀)/h + J(ψ₁-ψ₀)/h + ½hM sin θ₁, whatever θ₂ is, ṗ₁ = M sin θ₁, p₂ = p₁ - Iθ̇ and
ṗ₂ = ṗ₁ - Iθ̈. So u = Dθ₂ + E, and the left side less the right one is u·w with w = ṗ₂ + ρ tanh u + K: the root u = 0 and
the physical one. Its derivative by θ₂, times J/h², is the determinant of the kinematic equation and (9) with respect to
(θ₂, ψ₂), by which condition 2 of Theorem 5.1 stands or falls. At the physical root it is -u(I/h² + ρh_cI/(2h cosh²u)): it
vanishes with u and nowhere else.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from dalembert.gallery.inertia_wheel_pendulum import PARAMETERS, gains
from dalembert.path import Path


@dataclasses.dataclass(frozen=True)
class OneEquation:
    """A, …, E of equation (10), each for every window (q₀, q₁, q₂)."""

    A: float
    B: Float[np.ndarray, "K"]
    C: Float[np.ndarray, "K"]
    D: float
    E: Float[np.ndarray, "K"]
    rho: float

    def factor(self, theta) -> Float[np.ndarray, "K"]:
        """u = D θ₂ + E."""
        return self.D * theta + self.E

    def left(self, theta) -> Float[np.ndarray, "K"]:
        """A θ₂² + B θ₂ + C + ρ u tanh u, which is dV/dt + F."""
        u = self.factor(theta)
        return (self.A * theta + self.B) * theta + self.C + self.rho * u * np.tanh(u)

    def derivative(self, theta) -> Float[np.ndarray, "K"]:
        """Of `left` by θ₂: zero where the two roots meet."""
        u = self.factor(theta)
        return 2.0 * self.A * theta + self.B + self.rho * self.D * (np.tanh(u) + u / np.cosh(u) ** 2)


def one_equation(q0: Float[np.ndarray, "K 2"], q1: Float[np.ndarray, "K 2"], h: float, p=PARAMETERS) -> OneEquation:
    """(10) for windows that begin with the nodes q₀, q₁, a time h apart."""
    h_c, g_c, f = gains(p)
    inertia, torque = p["I"], p["M"] * np.sin(q1[..., 0])
    step = (q1 - q0) / h
    p1 = (inertia + p["J"]) * step[..., 0] + p["J"] * step[..., 1] + 0.5 * h * torque
    gamma = p["chi"] * np.sin(q1[..., 1] - p["n"] * q1[..., 0])
    # θ̇, p₂, ṗ₂ and ψ̇ = (p₂ - Jθ̇)/J as polynomials in θ₂, lowest first
    rate = np.stack([-0.5 * q0[..., 0] / h, np.full_like(p1, 0.5 / h)])
    last = np.stack([p1, np.zeros_like(p1)]) - inertia * rate
    change = np.stack([torque - inertia * (q0[..., 0] - 2.0 * q1[..., 0]) / h**2, np.full_like(p1, -inertia / h**2)])
    wheel = last / p["J"] - rate
    linear = np.stack([f * p1 * torque, np.zeros_like(p1)])
    linear = linear + g_c * (torque * last + p1 * change) + gamma * (wheel - p["n"] * rate)
    linear = linear + p["M"] * p["e"] / p["d"] * np.sin(q1[..., 0]) * rate
    return OneEquation(
        A=float(h_c * inertia**2 / (2.0 * h**3)),
        B=linear[1] + h_c * (last[0] * change[1] + last[1] * change[0]),
        C=linear[0] + h_c * last[0] * change[0],
        D=float(-h_c * inertia / (2.0 * h)),
        E=(g_c + h_c) * p1 - h_c * inertia * rate[0],
        rho=p["rho"],
    )


def along(path: Path) -> tuple[OneEquation, Float[np.ndarray, "K"]]:
    """(10) at every window of a run on nodes, and the θ₂ that it took."""
    q = np.asarray(path.q)
    return one_equation(q[:-2], q[1:-1], float(path.h)), q[2:, 0]
