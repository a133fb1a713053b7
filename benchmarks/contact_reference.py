"""The contact oscillator at a time T to more digits than a double holds: Taylor series and Floquet's theorem.

    x' = -y w, z' = w, (1 + y²) w' = y x - z - y y' w,  y = cos t

is linear in (x, z, w) with coefficients of period 2π: with M the fundamental matrix over one period,
u(T) = R(T - 2πk) M^k u(0). M and R come from Taylor series of order 60 in decimal arithmetic with 60 digits.
"""

from __future__ import annotations

from decimal import Decimal, getcontext

import numpy as np

getcontext().prec = 60
ORDER, PIECES = 60, 24
START = (1.224744871391589, 1.0, -(2.0**0.5) / 2, 0.0, 0.0, 0.0)  # q, v: the doubles that every program starts from
Vector = list[Decimal]


def arctan_of_inverse(n: int) -> Decimal:
    total, term, k = Decimal(0), Decimal(1) / n, 0
    while abs(term) > Decimal(10) ** -65:
        total += term / (2 * k + 1) * (-1) ** k
        term, k = term / (n * n), k + 1
    return total


TURN = 8 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))  # 2π, by Machin


def cosine_and_sine(t: Decimal) -> tuple[Decimal, Decimal]:
    t = t % TURN
    sums, term = [Decimal(0), Decimal(0)], Decimal(1)
    for k in range(140):
        sums[k % 2] += term * (-1) ** (k // 2)
        term = term * t / (k + 1)
    return sums[0], sums[1]


def product(a: Vector, b: Vector, k: int) -> Decimal:
    """Coefficient k of the product of two series; b may end earlier."""
    return sum((a[i] * b[k - i] for i in range(k + 1) if k - i < len(b)), Decimal(0))


def advanced(t: Decimal, h: Decimal, columns: list[Vector]) -> list[Vector]:
    """The solutions (x, z, w) at t + h from those at t, by their Taylor series."""
    c, s = cosine_and_sine(t)
    y, factorial = [], Decimal(1)
    for k in range(ORDER + 2):
        factorial *= max(k, 1)
        y.append((c, -s, -c, s)[k % 4] / factorial)
    slope = [(k + 1) * y[k + 1] for k in range(ORDER + 1)]
    mass = [product(y, y, k) + (k == 0) for k in range(ORDER + 1)]
    coupling = [product(y, slope, k) for k in range(ORDER + 1)]
    found = []
    for x0, z0, w0 in columns:
        x, z, w, change = [x0], [z0], [w0], []
        for k in range(ORDER):
            right = product(y, x, k) - z[k] - product(coupling, w, k)
            change.append((right - product(mass, change, k)) / mass[0])
            x.append(-product(y, w, k) / (k + 1))
            z.append(w[k] / (k + 1))
            w.append(change[k] / (k + 1))
        found.append([sum((a * h**k for k, a in enumerate(series)), Decimal(0)) for series in (x, z, w)])
    return found


def flow(T: Decimal, pieces: int, columns: list[Vector]) -> list[Vector]:
    for k in range(pieces):
        columns = advanced(T * k / pieces, T / pieces, columns)
    return columns


def state(T: float, pieces: int = PIECES) -> np.ndarray:
    """(x, y, z, x', y', z') at time T, (6,), rounded once."""
    turns, rest = divmod(Decimal(T), TURN)
    identity = [[Decimal(i == j) for i in range(3)] for j in range(3)]
    matrix = flow(TURN, pieces, identity)
    u = [Decimal(START[0]), Decimal(START[2]), Decimal(START[5])]
    for _ in range(int(turns)):
        u = [sum((matrix[j][i] * u[j] for j in range(3)), Decimal(0)) for i in range(3)]
    ((x, z, w),) = flow(rest, max(2, int(4 * rest)), [u])
    y, minus = cosine_and_sine(Decimal(T))
    return np.array([float(value) for value in (x, y, z, -y * w, -minus, w)])


if __name__ == "__main__":
    print("T = 10:", state(10.0))
    print("T = 1000:", state(1000.0), "with longer steps, difference", np.max(np.abs(state(1000.0) - state(1000.0, 16))))
