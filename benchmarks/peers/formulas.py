"""The four systems reduced by hand, as every other package gets them: formulas in plain arithmetic, written once.

Each takes lists and a module with sin, cos, sqrt and tanh, and returns a list: floats, JAX tracers, CasADi expressions and
the printer of C code in compiled.py all fit, so that no package is given a better or a worse formula than another.

slope(y): ẏ of the ordinary differential equation. differential(x, z): ẋ of the DAE with algebraic unknowns z.
acceleration(x, z): its constraint at index 1. velocity(x): the same constraint at index 2, where there is one.
"""

from __future__ import annotations

GRAVITY, RODS = 9.81, 4


class Curvature:
    """v̇ = k|v| Jv for the constant curvature k = 1; DAE: v̇ = λ(v_y, -v_x), (v_x a_y - a_x v_y)/|v|³ = k."""

    @staticmethod
    def slope(y, f):
        speed = f.sqrt(y[2] * y[2] + y[3] * y[3])
        return [y[2], y[3], -speed * y[3], speed * y[2]]

    @staticmethod
    def differential(x, z, f):
        return [x[2], x[3], z[0] * x[3], -z[0] * x[2]]

    @staticmethod
    def acceleration(x, z, f):
        square = x[2] * x[2] + x[3] * x[3]
        return [(x[2] * (-z[0] * x[2]) - z[0] * x[3] * x[3]) / (square * f.sqrt(square)) - 1.0]

    velocity = None


class Nonholonomic:
    """ż = yẋ and the potential ½(x²+y²): λ = (ẋẏ - xy)/(1+y²), ẍ = -x - yλ; ż is eliminated from the equation."""

    @staticmethod
    def slope(y, f):
        force = (y[3] * y[4] - y[0] * y[1]) / (1.0 + y[1] * y[1])
        return [y[3], y[4], y[1] * y[3], -y[0] - y[1] * force, -y[1]]

    @staticmethod
    def differential(x, z, f):
        return [x[3], x[4], x[5], -x[0] - x[1] * z[0], -x[1], z[0]]

    @staticmethod
    def acceleration(x, z, f):
        return [z[0] - x[4] * x[3] - x[1] * (-x[0] - x[1] * z[0])]

    @staticmethod
    def velocity(x, f):
        return [x[5] - x[1] * x[3]]


class Chain:
    """Angles θ from the downward vertical; tensions T from a tridiagonal system, so that no mass matrix is factorized.

    e_i·(r̈_i - r̈_{i-1}) = -θ̇_i², t_i·(r̈_i - r̈_{i-1}) = θ̈_i with r̈_i = g - T_i e_i + T_{i+1} e_{i+1}.
    The DAE is in Cartesian coordinates with 4 multipliers.
    """

    @staticmethod
    def slope(y, f):
        angle, rate = y[:RODS], y[RODS:]
        c = [f.cos(angle[i + 1] - angle[i]) for i in range(RODS - 1)]
        s = [f.sin(angle[i + 1] - angle[i]) for i in range(RODS - 1)]
        right = [w * w for w in rate]
        right[0] = right[0] + GRAVITY * f.cos(angle[0])
        diagonal = [1.0]  # elimination of (1, -c), (-c, 2, -c), …
        for i in range(1, RODS):
            ratio = c[i - 1] / diagonal[i - 1]
            diagonal.append(2.0 - ratio * c[i - 1])
            right[i] = right[i] + ratio * right[i - 1]
        tension = [right[-1] / diagonal[-1]]
        for i in range(RODS - 2, -1, -1):
            tension.insert(0, (right[i] + c[i] * tension[0]) / diagonal[i])
        turn = [-GRAVITY * f.sin(angle[0]) + tension[1] * s[0]]
        for i in range(1, RODS):
            pull = -tension[i - 1] * s[i - 1]
            turn.append(pull + tension[i + 1] * s[i] if i + 1 < RODS else pull)
        return [*rate, *turn]

    @staticmethod
    def rods(r):
        """Differences along the chain, the first from the fixed point."""
        return [r[i] - r[i - 2] if i > 1 else r[i] for i in range(2 * RODS)]

    @staticmethod
    def forces(x, z):
        d = Chain.rods(x[: 2 * RODS])
        pull = [2.0 * d[i] * z[i // 2] for i in range(2 * RODS)]
        total = [pull[i] - pull[i + 2] if i + 2 < 2 * RODS else pull[i] for i in range(2 * RODS)]
        return [a - GRAVITY if i % 2 else a for i, a in enumerate(total)]

    @staticmethod
    def differential(x, z, f):
        return [*x[2 * RODS :], *Chain.forces(x, z)]

    @staticmethod
    def acceleration(x, z, f):
        d, w, a = Chain.rods(x[: 2 * RODS]), Chain.rods(x[2 * RODS :]), Chain.rods(Chain.forces(x, z))
        along = [d[i] * a[i] + w[i] * w[i] for i in range(2 * RODS)]
        return [along[2 * i] + along[2 * i + 1] for i in range(RODS)]

    @staticmethod
    def velocity(x, f):
        d, w = Chain.rods(x[: 2 * RODS]), Chain.rods(x[2 * RODS :])
        return [d[2 * i] * w[2 * i] + d[2 * i + 1] * w[2 * i + 1] for i in range(RODS)]


class Wheel:
    """The closed loop in momenta: ṗ₁ = M sin θ, ṗ₂ = λ, with the control law that the Lyapunov constraint stands for.

    dV/dt + F = u(ṗ₂ + ρ tanh u + K) = 0; an integrator of DAEs cannot know which factor is meant, so it is divided by u:
    λ = -(g_c/h_c + eb/(d h_c)) M sin θ + (χ/d)(ac - b²) sin(ψ - nθ) - ρ tanh u.
    """

    INERTIA, WHEEL, M, D, E, CHI, N, RHO = 312.5, 2.0772, 37.98, 1.0, 1000.0, 100.0, -154.0, 2.0
    A, B, C = 1 / INERTIA, -1 / INERTIA, 1 / INERTIA + 1 / WHEEL
    H_C = D * (N * B - C) / (A * C - B * B)
    G_C = D * (N * A - B) / (A * C - B * B)

    @staticmethod
    def law(y, f):
        k = Wheel
        u = k.G_C * y[2] + k.H_C * y[3]
        gravity = -(k.G_C / k.H_C + k.E * k.B / (k.D * k.H_C)) * k.M
        return (
            gravity * f.sin(y[0])
            + k.CHI / k.D * (k.A * k.C - k.B * k.B) * f.sin(y[1] - k.N * y[0])
            - k.RHO * f.tanh(u)
        )  # fmt: skip

    @staticmethod
    def differential(x, z, f):
        turn = (x[2] - x[3]) * Wheel.A
        return [turn, x[3] * (1 / Wheel.WHEEL) - turn, Wheel.M * f.sin(x[0]), z[0]]

    @staticmethod
    def slope(y, f):
        return Wheel.differential(y, [Wheel.law(y, f)], f)

    @staticmethod
    def acceleration(x, z, f):
        return [z[0] - Wheel.law(x, f)]

    velocity = None
