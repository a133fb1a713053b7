"""Constraints that depend on each other: the motion of those written by hand, and the multipliers of the pseudoinverse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

LENGTHS = np.array([1.0, 2.2, 1.6, 2.0])  # crank, coupler, rocker, ground


def bars(q, v, p=None):
    inertia = 0.5 * v @ (jnp.array([1.0, 0.5, 0.8]) * v) + 0.2 * jnp.cos(q[0] - q[1]) * v[0] * v[1]
    return inertia - jnp.sin(q[0]) - 0.5 * jnp.sin(q[1])


def closure(q):
    a, b, c, d = LENGTHS
    return jnp.array([a * jnp.cos(q[0]) + b * jnp.cos(q[1]) - c * jnp.cos(q[2]) - d,
                      a * jnp.sin(q[0]) + b * jnp.sin(q[1]) - c * jnp.sin(q[2])])  # fmt: skip


def coupler(q):
    """The distance of the two joints: it follows from the closure, and its gradient from those of the closure only there."""
    a, b, c, d = LENGTHS
    return (a * jnp.cos(q[0]) - c * jnp.cos(q[2]) - d) ** 2 + (a * jnp.sin(q[0]) - c * jnp.sin(q[2])) ** 2 - b**2


def car(q, v):
    return 0.5 * (v[0] ** 2 + v[1] ** 2 + 0.4 * v[2] ** 2 + 0.1 * v[3] ** 2) - 0.3 * q[0] + 0.2 * jnp.cos(q[3]) - 0.1 * q[1]


def sideways(q, v):
    """Velocities of the middle of the rear axle in the car's frame: ahead, to the left."""
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    return c * v[0] + s * v[1], -s * v[0] + c * v[1]


def two_wheels(q, v):
    ahead, left = sideways(q, v)
    return jnp.array([left, jnp.cos(q[3]) * (left + v[2]) - jnp.sin(q[3]) * ahead])


def four_wheels(q, v):
    """No wheel slips sideways; the front ones are steered so that all axes meet in one point. Both rear ones say the same."""
    (ahead, left), rows = sideways(q, v), []
    for y in (0.4, -0.4):
        along, across = jnp.cos(q[3]) - y * jnp.sin(q[3]), jnp.sin(q[3])
        rows.append(along * (left + v[2]) - across * (ahead - y * v[2]))
    return jnp.stack([left, left, *rows])


def rod(q):
    return q @ q - 1.0


def hanging(q, v):
    return 0.5 * v @ v - q[1] - 0.2 * q[0] * q[1]


FOUR_BAR = da.System(bars, [da.Holonomic(closure), da.Holonomic(coupler)])
CAR = da.System(car, da.Nonholonomic(four_wheels), forces=lambda q, v: jnp.array([0.0, 0.0, 0.0, jnp.sin(q[0])]))
TWICE = da.System(hanging, [da.Holonomic(rod), da.Holonomic(lambda q: 1e6 * rod(q))])
CASES = {
    "four-bar": (FOUR_BAR, da.System(bars, da.Holonomic(closure)), [1.0, 0.2, 1.4], [1.0, 0.0, 0.0]),
    "car": (CAR, da.System(car, da.Nonholonomic(two_wheels), forces=CAR.forces), [0.0, 0.0, 0.1, 0.3], [1.0, 0.0, 0.0, 0.2]),
    "pendulum": (TWICE, da.System(hanging, da.Holonomic(rod)), [0.6, -0.8], [0.0, 1.0]),
}


def start(name):
    _, by_hand, q, v = CASES[name]
    return da.project(by_hand, q, v)[:2]
