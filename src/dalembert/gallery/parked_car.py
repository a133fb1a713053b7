"""A car with a trailer parks sideways: the force of the engine and the torque on the steering, |φ| ≤ 0.6, min ∫|u|² dt.

The plant is `car_with_trailers` without its steering spring: no side slip at three axles. From rest to rest one and a half
wheelbases to the side, trailer straight behind.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.control import OptimalControl
from dalembert.gallery.car_with_trailers import car_with_trailers
from dalembert.gallery.entry import BoundaryEntry

TIME, ASIDE, STEERING = 10.0, 1.5, 0.6


def engine_and_steering(q, p):
    """Forces along the car at its rear axle, and on φ."""
    drive = jnp.zeros(q.size).at[0].set(jnp.cos(q[2])).at[1].set(jnp.sin(q[2]))
    return jnp.stack([drive, jnp.zeros(q.size).at[3].set(1.0)], axis=1)


def effort(q, v, u, p):
    return u @ u


def parked_car(trailers: int = 1) -> OptimalControl:
    return OptimalControl(car_with_trailers(trailers).replace(k=0.0), cost=effort, actuated=engine_and_steering)


def guess(t):
    """Ahead and back again, to the side on the way."""
    s = np.asarray(t, dtype=float) / TIME
    x, y = 3.0 * np.sin(np.pi * s) ** 2, ASIDE * (s - np.sin(2 * np.pi * s) / (2 * np.pi))
    turn = 0.3 * np.sin(2 * np.pi * s) * np.cos(np.pi * s)
    return np.stack([x, y, turn, np.zeros_like(s), turn], axis=-1)


REST = (0.0,) * 5

entry = BoundaryEntry(
    name="parked_car",
    title="Car with a trailer, parked sideways",
    formula="no side slip at three axles,  min ∫|u|² dt,  |φ| ≤ 0.6",
    source="Murray, Sastry, IEEE Trans. Automat. Control 38 (1993), for the plant",
    problem=parked_car(),
    boundary={
        "initial": (REST, REST), "final": ((0.0, ASIDE, 0.0, 0.0, 0.0), REST), "T": TIME,
        "bounds": {"q": {"φ": (-STEERING, STEERING)}},
    },
    steps=120,
    guess=guess,
)  # fmt: skip
