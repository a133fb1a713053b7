"""Bryson and Denham: L = ½v², min ½∫u² dt from (x, v) = (0, 1) to (0, -1) in one second, with x ≤ l.

For l ≤ 1/6 the mass lies on the bound between t = 3l and 1 - 3l: x = l(1 - (1 - t/3l)³) before, and the cost is 4/(9l).
Source: A. E. Bryson, Y.-C. Ho, Applied Optimal Control (1975), section 3.11.
"""

import numpy as np

from dalembert.control import OptimalControl
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System

LIMIT = 1.0 / 9.0


def lagrangian(q, v):
    return 0.5 * v[0] ** 2


def effort(q, v, u):
    return 0.5 * u @ u


def bryson_denham() -> OptimalControl:
    """A mass on a line."""
    return OptimalControl(System(lagrangian, coordinates=("x",)), cost=effort, actuated=0)


def exact(t):
    """x: two cubics and the bound between them."""
    s = np.minimum(t, 1.0 - np.asarray(t, dtype=float))[..., None]
    return LIMIT * (1.0 - np.maximum(1.0 - s / (3.0 * LIMIT), 0.0) ** 3)


entry = BoundaryEntry(
    name="bryson_denham",
    title="A mass turned back before a wall",
    formula="L = ½ẋ²,  min ½∫u² dt, u on x,  x ≤ 1/9",
    source="Bryson, Ho 1975; closed form",
    problem=bryson_denham(),
    boundary={
        "initial": ((0.0,), (1.0,)), "final": ((0.0,), (-1.0,)), "T": 1.0, "bounds": {"q": {"x": (None, LIMIT)}},
    },
    steps=180,
    exact=exact,
    cost=4.0,
)  # fmt: skip
