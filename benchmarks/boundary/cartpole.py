"""Swing-up of a pole on a cart as a discrete boundary problem, without a solver: data, equations, guesses.

Minimise ∫F² dt over the motions of L = ½(M+m)ẋ² + m l ẋ θ̇ cos θ + ½ m l² θ̇² + m g l cos θ under a force F on x, from rest at
(0, 0) to rest at (1 m, π) in 2 s. With L_d(q, q') = h L((q+q')/2, (q'-q)/h) the force at a node is what the momenta on its
sides differ by,

    h F_i = -D₂L_d(q_{i-1}, q_i) - D₁L_d(q_i, q_{i+1}),    (h/2) F_0 = -D₁L_d(q_0, q_1) - L_v(q_0, 0),

and its mirror at N. The component of θ is zero at all nodes 0 … N, and the cost is Σ h F_i² with h/2 at both ends. Colombo,
Martín de Diego and Zuccalli, "Higher-order discrete variational problems with constraints", section 4.3, fix (q_0, q_1) and
(q_{N-1}, q_N) instead. Data of Kelly, "An introduction to trajectory optimization", SIAM Review 59 (2017), section 6.
"""

from __future__ import annotations

import numpy as np

CART, POLE, LENGTH, GRAVITY = 1.0, 0.3, 0.5, 9.81
T = 2.0
START, END = np.array([0.0, 0.0]), np.array([1.0, np.pi])
LIMIT = 58.80766746  # cost of the extremal found from the straight line, as N → ∞
SEED = 44
WAVES = 3


def momentum(angle, v, turn, maths):
    """L_v: of x and of θ."""
    bend = POLE * LENGTH * maths.cos(angle)
    return (CART + POLE) * v + bend * turn, bend * v + POLE * LENGTH**2 * turn


def slope(angle, v, turn, maths):
    """The component of θ of L_q; that of x is zero."""
    return -POLE * LENGTH * (v * turn + GRAVITY) * maths.sin(angle)


def jumps(x, angle, h: float, maths, join):
    """Momentum of x and of θ that comes in at every node, each (N+1,), from coordinates (N+1,), numbers or symbols.

    maths has sin and cos; join(a, b) puts arrays one after the other. Divided by h, and by h/2 at the ends, it is the force.
    """
    v, turn, middle = (x[1:] - x[:-1]) / h, (angle[1:] - angle[:-1]) / h, (angle[1:] + angle[:-1]) / 2
    of_x, of_angle = momentum(middle, v, turn, maths)
    pull = h / 2 * slope(middle, v, turn, maths)
    rest = 0 * x[:1]
    return join(of_x, rest) - join(rest, of_x), join(of_angle - pull, rest) - join(rest, of_angle + pull)


def weights(steps: int) -> np.ndarray:
    """(N+1,): h, and h/2 at both ends."""
    h = T / steps
    return np.concatenate([[h / 2], np.full(steps - 1, h), [h / 2]])


def forces(path: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Force on x and on θ at the nodes, each (N+1,), for a path (N+1, 2)."""
    steps = len(path) - 1
    of_x, of_angle = jumps(path[:, 0], path[:, 1], T / steps, np, lambda *parts: np.concatenate(parts))
    return of_x / weights(steps), of_angle / weights(steps)


def straight_line(steps: int) -> np.ndarray:
    """(N+1, 2)."""
    return START + np.linspace(0.0, 1.0, steps + 1)[:, None] * (END - START)


def random_guess(number: int, steps: int) -> np.ndarray:
    """(N+1, 2): the straight line and Σ_{j=1}^{3} (ξ_j/j) sin(jπt/T) in units of 1 m and π.

    ξ (3, 2) are standard normal numbers of NumPy's default generator with the seed [SEED, number]: the same path at every N.
    """
    numbers = np.random.default_rng([SEED, number]).standard_normal((WAVES, 2))
    j = np.arange(1, WAVES + 1)
    waves = np.sin(np.pi * np.linspace(0.0, 1.0, steps + 1)[:, None] * j) / j
    return straight_line(steps) + waves @ numbers * END
