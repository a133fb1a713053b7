"""Rows of the truth table that are no System: flows of variational problems, and systems given on nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES, PROBLEMS, chaplygin_ball, heisenberg, riemannian_cubic
from dalembert.systems import lift

STEPS = 200
WINDOWS: dict[str, Any] = {"Interpolated()": da.Interpolated(), "Averaged()": da.Averaged()}
GIVEN = {"on nodes": None}


class Flow(NamedTuple):
    """A problem with the data of a run, as `verdict` takes them (nodes by a function), and the columns: schemes by name."""

    title: str
    formula: str
    problem: Any
    h: float
    data: dict[str, Any]
    columns: dict[str, Any] = WINDOWS


def turn(q):
    """The rotation of the first two coordinates."""
    return jnp.stack([-q[1], q[0], *jnp.zeros_like(q[2:])])


def along(axis: int):
    """The translation along a coordinate."""
    return lambda q: jnp.zeros_like(q).at[axis].set(1.0)


def _of(name: str, h: float, **data) -> Flow:
    """A boundary problem of the gallery as a flow."""
    entry = PROBLEMS[name]
    return Flow(entry.title, entry.formula, entry.problem, h, data)


def _cubic() -> list:
    (q0, v0), (q1, v1) = (np.array(PROBLEMS["minimum_acceleration"].boundary[end]) for end in ("initial", "final"))
    return [q0, v0, 2 * (3 * (q1 - q0) - 2 * v0 - v1), 6 * (v0 + v1 - 2 * (q1 - q0))]


def _on_sphere(latitude: Callable, longitude: Callable) -> list:
    """(q, q̇, q̈, q⃛) at t = 0 of a curve on the unit sphere, given by its angles."""

    def curve(t):
        level = jnp.cos(latitude(t))
        return jnp.stack([level * jnp.cos(longitude(t)), level * jnp.sin(longitude(t)), jnp.sin(latitude(t))])

    return [np.asarray(x) for x in lift(curve, 3)([jnp.asarray(x) for x in (0.0, 1.0, 0.0, 0.0)])]


def flows() -> dict[str, Flow]:
    """Variational problems of the gallery with a regular flow, from derivatives at the start."""
    circle = {"q0": (0.3, -0.2, 0.1), "v0": (1.0, 0.5, -0.2 * 1.0 - 0.3 * 0.5)}
    parallel = _on_sphere(lambda t: 0.25 * np.pi + 0.0 * t, lambda t: riemannian_cubic.OMEGA * t)
    bent = _on_sphere(lambda t: 0.3 + 0.4 * t - 0.2 * t**2, lambda t: t + 0.1 * t**3)
    rod = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.5], [-2.25, -0.5]]
    return {
        "elastic_beam": _of("elastic_beam", 0.005, start=da.Start(jets=[[0.0], [0.0], [-2.0], [12.0]])),
        "elastica": _of(
            "elastica", 0.02, start=da.Start(jets=rod, multipliers=[[-0.625]]),
            symmetries={"x": along(0), "y": along(1), "rotation": turn},
        ),
        "minimum_acceleration": _of("minimum_acceleration", 0.01, start=da.Start(jets=_cubic()),
                                    symmetries={"x": along(0), "y": along(1)}),
        "minimum_jerk": _of("minimum_jerk", 0.005, start=da.Start(jets=[[0.0], [0.0], [0.0], [60.0], [-360.0], [720.0]]),
                            symmetries={"x": along(0)}),
        "riemannian_cubic": _of("riemannian_cubic", 0.01, start=da.Start(jets=parallel), symmetries={"rotation": turn}),
        "sphere_spline": _of("sphere_spline", 0.005, start=da.Start(jets=bent), symmetries={"rotation": turn}),
        "heisenberg, vakonomic": Flow(
            "Heisenberg's system, vakonomic", "L = ½(ẋ²+ẏ²),  ż = yẋ - xẏ, λ in the action",
            heisenberg.heisenberg("vakonomic"), 0.05,
            {**circle, "start": da.Start(multipliers=[[0.7]]), "symmetries": {"z": along(2), "rotation": turn}},
        ),
    }  # fmt: skip


def _start(name: str, h: float) -> da.Start:
    """Two nodes of the gallery's data, by the scheme on nodes."""
    entry = ENTRIES[name]
    path = da.simulate(entry.system, entry.q0, entry.v0, h=h, steps=2, scheme=da.Scheme("nodes"))
    return da.Start(nodes=list(np.asarray(path.q[:2])))


def discrete() -> dict[str, Flow]:
    """Systems of the gallery written on nodes: L_d, D_K and D_V, without any continuous system."""
    h = 0.05
    middle = lambda q0, q1: (0.5 * (q0 + q1), (q1 - q0) / h)  # noqa: E731

    def swing(q0, q1):
        q, v = middle(q0, q1)
        return h * (0.5 * v @ v + jnp.cos(q[0]))

    def inertia(q0, q1):
        return 0.5 * (q1 - q0) @ (q1 - q0) / h

    def weight(q0, q1):
        return inertia(q0, q1) - 0.5 * h * (q0[2] + q1[2])

    def curvature(q0, q1, q2):
        v, a = (q2 - q0) / (2 * h), (q2 - 2 * q1 + q0) / h**2
        return (v[0] * a[1] - v[1] * a[0]) / (v @ v) ** 1.5 - 1.0

    def rolling(q0, q1):
        q, v = middle(q0, q1)
        return v[2] - q[1] * v[0]

    particle = da.DiscreteSystem.nonholonomic(inertia, rolling, lambda q: jnp.array([-q[1], 0.0, 1.0]))
    found = {
        "pendulum": ("L_d = h L at the middle", da.DiscreteSystem(swing), {}),
        "curvature_particle": (
            "(6), (7): central differences", da.DiscreteSystem(inertia, curvature, virtual=lambda a, b, c: c - a), {},
        ),
        "nonholonomic_particle": ("φ_d at the middle, D at the node", particle, {"x": along(0), "z": along(2)}),
        "spherical_pendulum": (
            "φ at every node", da.DiscreteSystem.holonomic(weight, lambda q: q @ q - 1.0), {"rotation": turn},
        ),
    }  # fmt: skip
    return {
        f"{name}, discrete": Flow(
            f"{ENTRIES[name].title}, on nodes", formula, system, h,
            {"start": functools.partial(_start, name, h), "symmetries": symmetries}, GIVEN,
        )
        for name, (formula, system, symmetries) in found.items()
    }  # fmt: skip


def integrable(columns: dict[str, Any]) -> dict[str, Flow]:
    """A constraint on velocities that keeps a function of position. columns: schemes by name."""
    bead = da.System(
        lambda q, v: 0.5 * v @ v - q[1], da.Nonholonomic(lambda q, v: v[1] - jnp.cos(q[0]) * v[0]), coordinates=("x", "y")
    )
    data = {"q0": np.zeros(2), "v0": np.array([1.2, 1.2])}
    return {
        "bead, integrable": Flow(
            "Bead on y = sin x", "L = ½|v|² - y, v_y = cos x v_x: y - sin x is kept", bead, 0.05, data, columns
        )
    }


def on_groups(columns: dict[str, Any]) -> dict[str, Flow]:
    """Chaplygin's ball where the plane is a slope."""
    entry = ENTRIES["chaplygin_ball"]
    slope = Flow(
        "Chaplygin's ball on a slope", entry.formula, chaplygin_ball.chaplygin_ball(pull=0.981), 0.02,
        {"q0": entry.q0, "v0": entry.v0}, columns,
    )  # fmt: skip
    return {"ball on a slope": slope}
