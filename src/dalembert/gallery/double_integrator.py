"""Double integrator: L = ½v², a force u moves a mass from rest to rest with the least ∫u² dt.

u = 6(1-2t/T)d/T², q = d s²(3-2s) with s = t/T, and the least cost is 12d²/T³.
"""

import numpy as np

from dalembert.control import OptimalControl
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System


def lagrangian(q, v, p):
    return 0.5 * p["m"] * v[0] ** 2


def effort(q, v, u, p):
    return u @ u


def double_integrator(m: float = 1.0) -> OptimalControl:
    """A mass on a line."""
    return OptimalControl(System(lagrangian, coordinates=("q",), parameters={"m": m}), cost=effort, actuated=0)


def exact(t):
    """q = s²(3-2s), from 0 to 1 in T = 1."""
    s = np.asarray(t, dtype=float)[..., None]
    return s**2 * (3.0 - 2.0 * s)


entry = BoundaryEntry(
    name="double_integrator",
    title="Double integrator from rest to rest",
    formula="L = ½mq̇²,  min ∫u² dt, u on q",
    source="closed form",
    problem=double_integrator(),
    boundary={"initial": ((0.0,), (0.0,)), "final": ((1.0,), (0.0,)), "T": 1.0},
    steps=100,
    exact=exact,
    cost=12.0,
)
