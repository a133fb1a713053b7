"""Two systems with rolling constraints, reduced by hand in two ways: formulas as in formulas.py.

slope: the smallest ordinary differential equation, some velocities eliminated by the constraints, so that it cannot drift
off them. full: the equation of (q, v) with the multipliers solved for, as a program derives it; its solutions drift.
"""

from __future__ import annotations

import numpy as np

from dalembert.gallery import car_with_trailers

PARAMETERS = car_with_trailers.PARAMETERS


def is_zero(x) -> bool:
    return isinstance(x, float) and x == 0.0


def dot(a, b):
    """Σ aᵢbᵢ without the terms that are zero whatever the state."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        if not (is_zero(x) or is_zero(y)):
            total = total + x * y
    return total


def solved(matrix, right):
    """x of a symmetric positive definite matrix, by elimination without pivoting."""
    a, b, n = [list(row) for row in matrix], list(right), len(right)
    for k in range(n):
        for i in range(k + 1, n):
            if is_zero(a[i][k]):
                continue
            factor = a[i][k] / a[k][k]
            for j in range(k + 1, n):
                if not is_zero(a[k][j]):
                    a[i][j] = a[i][j] - factor * a[k][j]
            b[i] = b[i] - factor * b[k]
    for k in range(n - 1, -1, -1):
        b[k] = (b[k] - dot(a[k][k + 1 :], b[k + 1 :])) / a[k][k]
    return b


class Contact:
    """ẋ + yż = 0, V = ½|q|²: y = (y, ẏ, x, z, ż) with ż' = (yx - z - yẏż)/(1+y²) and ẋ = -yż."""

    @staticmethod
    def slope(u, f):
        y, vy, x, z, w = u
        return [vy, -y, -y * w, w, (y * (x - vy * w) - z) / (1.0 + y * y)]

    @staticmethod
    def state(u: np.ndarray) -> np.ndarray:
        """(q, v), (samples, 6), from the reduced unknowns."""
        y, vy, x, z, w = u.T
        return np.stack([x, y, z, -y * w, vy, w], axis=1)

    @staticmethod
    def differential(x, z, f):
        return [x[3], x[4], x[5], z[0] - x[0], -x[1], z[0] * x[1] - x[2]]

    @staticmethod
    def full(x, f):
        return Contact.differential(x, [(x[0] + x[1] * x[2] - x[4] * x[5]) / (1.0 + x[1] * x[1])], f)

    @staticmethod
    def acceleration(x, z, f):
        return [z[0] * (1.0 + x[1] * x[1]) - x[0] - x[1] * x[2] + x[4] * x[5]]

    @staticmethod
    def velocity(x, f):
        return [x[3] + x[1] * x[5]]


class Car:
    """The car with trailers. Reduced: (q, s, w), w = θ̇ + φ̇ and s = √A u with the speed u of the rear axle,

    A(q)u² = M(1 + b²κ²)u² + Iκ²u² + Σ(m uᵢ² + K θ̇ᵢ²), κ = tan φ/l; ẇ = -k(φ-φ₀)/J from virtual displacements ∂/∂φ, and
    ṡ = k(φ-φ₀)κ/√A from the energy ½s² + ½Jw² + ½k(φ-φ₀)², which needs no derivative of A.
    """

    SIZE, WHEELS = 4 + car_with_trailers.TRAILERS, 2 + car_with_trailers.TRAILERS

    @staticmethod
    def rates(q, f):
        """κ, θ̇ᵢ/u and A for the speed u = 1."""
        p = PARAMETERS
        kappa = f.sin(q[3]) / f.cos(q[3]) * (1 / p["l"])
        total = p["M"] + (p["M"] * p["b"] ** 2 + p["I"]) * (kappa * kappa)
        heading, turning, speed, turns = q[2], kappa, 1.0, []
        for angle in q[4:]:
            cos, sin = f.cos(heading - angle), f.sin(heading - angle)
            turn = (speed * sin - p["c"] * (turning * cos)) * (1 / p["d"])
            speed = speed * cos + p["c"] * (turning * sin)
            total = total + p["m"] * (speed * speed) + p["K"] * (turn * turn)
            heading, turning = angle, turn
            turns.append(turn)
        return kappa, turns, total

    @staticmethod
    def slope(y, f):
        p, q, s, w = PARAMETERS, y[: Car.SIZE], y[-2], y[-1]
        kappa, turns, total = Car.rates(q, f)
        root, spring = f.sqrt(total), p["k"] * (q[3] - p["phi0"])
        u = s / root
        turning = u * kappa
        return [u * f.cos(q[2]), u * f.sin(q[2]), turning, w - turning, *[u * turn for turn in turns],
                spring * kappa / root, (-1 / p["J"]) * spring]  # fmt: skip

    @staticmethod
    def state(y: np.ndarray) -> np.ndarray:
        q = y[:, : Car.SIZE]
        return np.concatenate([q, np.stack([np.array(Car.slope(list(row), np)[: Car.SIZE]) for row in y])], axis=1)

    @staticmethod
    def start(q, v) -> np.ndarray:
        _, _, total = Car.rates(list(q), np)
        return np.array([*q, np.hypot(v[0], v[1]) * np.sqrt(total), v[2] + v[3]])

    @staticmethod
    def axles(q, v, f):
        """Of every axle: directions along and across, velocity, its derivatives by v, and its acceleration for v̇ = 0."""
        p = PARAMETERS
        along = {i: (f.cos(q[i]), f.sin(q[i])) for i in (2, *range(4, Car.SIZE))}
        jacobian = [[0.0] * Car.SIZE for _ in range(2)]
        jacobian[0][0] = jacobian[1][1] = 1.0
        velocity, extra, found, before = [v[0], v[1]], [0.0, 0.0], [], 2
        for i in (2, *range(4, Car.SIZE)):
            if i > 2:
                jacobian = [list(row) for row in jacobian]
                for j, arm in ((before, p["c"]), (i, p["d"])):
                    across = (-along[j][1], along[j][0])
                    for k in range(2):
                        velocity[k] = velocity[k] - arm * (v[j] * across[k])
                        extra[k] = extra[k] + arm * (v[j] * v[j] * along[j][k])
                        jacobian[k][j] = jacobian[k][j] - arm * across[k]
                before = i
            found.append((i, along[i], (-along[i][1], along[i][0]), list(velocity), jacobian, list(extra)))
        return found

    @staticmethod
    def dynamics(q, v, f):
        """Mass matrix and right-hand side of m v̇ = f + μᵀλ; μ and the rest r of the constraints' derivative μv̇ + r = 0."""
        p, n = PARAMETERS, Car.SIZE
        mass, right = [[0.0] * n for _ in range(n)], [0.0] * n
        right[3] = -p["k"] * (q[3] - p["phi0"])
        for i, j, value in ((2, 2, p["I"] + p["J"]), (2, 3, p["J"]), (3, 2, p["J"]), (3, 3, p["J"])):
            mass[i][j] = mass[i][j] + value
        mu, rest = [], []
        for i, along, across, velocity, jacobian, extra in Car.axles(q, v, f):
            weight, inertia = (p["m"], p["K"]) if i > 2 else (p["M"], 0.0)
            columns, acceleration = jacobian, extra
            if i == 2:  # the centre of mass is in front of the axle
                columns = [list(row) for row in jacobian]
                for k in range(2):
                    columns[k][2] = columns[k][2] + p["b"] * across[k]
                acceleration = [extra[k] - p["b"] * (v[2] * v[2] * along[k]) for k in range(2)]
            used = [0, 1, 2, *range(4, i + 1)] if i > 2 else [0, 1, 2]
            for a in used:
                for b in used:
                    mass[a][b] = mass[a][b] + weight * dot([row[a] for row in columns], [row[b] for row in columns])
                right[a] = right[a] - weight * dot([row[a] for row in columns], acceleration)
            mass[i][i] = mass[i][i] + inertia
            mu.append([dot(across, [row[k] for row in jacobian]) for k in range(n)])
            rest.append(dot(across, extra) - v[i] * dot(along, velocity))
            if i == 2:
                Car.front(q, v, f, mu, rest)
        return mass, right, mu, rest

    @staticmethod
    def front(q, v, f, mu, rest) -> None:
        """(ṙ₀ + lθ̇e⊥(θ))·e⊥(θ+φ) = 0 and its derivative."""
        length, angle = PARAMETERS["l"], q[2] + q[3]
        cos, sin = f.cos(angle), f.sin(angle)
        mu.append([-sin, cos, length * f.cos(q[3]), *[0.0] * (Car.SIZE - 3)])
        rest.append(-(v[2] + v[3]) * (cos * v[0] + sin * v[1]) - length * (v[2] * v[3]) * f.sin(q[3]))

    @staticmethod
    def differential(x, z, f):
        v = x[Car.SIZE :]
        mass, right, mu, _ = Car.dynamics(x[: Car.SIZE], v, f)
        forces = [right[i] + dot([row[i] for row in mu], z) for i in range(Car.SIZE)]
        return [*v, *solved(mass, forces)]

    @staticmethod
    def acceleration(x, z, f):
        q, v = x[: Car.SIZE], x[Car.SIZE :]
        _, _, mu, rest = Car.dynamics(q, v, f)
        a = Car.differential(x, z, f)[Car.SIZE :]
        return [dot(row, a) + r for row, r in zip(mu, rest, strict=True)]

    @staticmethod
    def velocity(x, f):
        v = x[Car.SIZE :]
        _, _, mu, _ = Car.dynamics(x[: Car.SIZE], v, f)
        return [dot(row, v) for row in mu]

    @staticmethod
    def full(x, f):
        v = x[Car.SIZE :]
        mass, right, mu, rest = Car.dynamics(x[: Car.SIZE], v, f)
        free, columns = solved(mass, right), [solved(mass, row) for row in mu]
        matrix = [[dot(row, column) for column in columns] for row in mu]
        z = solved(matrix, [-(dot(row, free) + r) for row, r in zip(mu, rest, strict=True)])
        return [*v, *[free[i] + dot([column[i] for column in columns], z) for i in range(Car.SIZE)]]
