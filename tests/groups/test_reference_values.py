"""Runs and reference flows on groups against values from hand-written equations, in closed form or of 20 digits.

The rows are: Lagrange top, a top without symmetry, Suslov's and Veselova's problems, Chaplygin's ball on a plane and on a
slope, the sleigh on SE(2), Kirchhoff's body on SE(3), a servo and a law of curvature as constraints of order 2. None of
them was computed with this library: by Jacobi functions, by Gragg-Bulirsch-Stoer in 80 bits, and by DOP853.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import dalembert as da
from dalembert.groups import SE2, SE3, SO3

BALL, MASS, RADIUS = jnp.array([0.3, 0.45, 0.6]), 1.3, 0.7
WHEEL = jnp.array([0.6, 0.0, 0.8])


def turned(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def spin(inertia):
    return lambda q, v: 0.5 * v.R @ (jnp.asarray(inertia) @ v.R)


def rolling(q, v):
    w = q.R @ v.R
    return v.x - RADIUS * jnp.array([w[1], -w[0]])


def ball(q, v):
    return 0.5 * v.R @ (BALL * v.R) + 0.5 * MASS * v.x @ v.x


def on_a_slope(q, v):
    return ball(q, v) + 0.981 * MASS * q.x[0]


def sleigh(q, v):
    return 0.5 * (v.g[1] ** 2 + (v.g[2] + 0.3 * v.g[0]) ** 2) + 0.25 * v.g[0] ** 2


def under_water(q, v):
    w, x = v.g[:3], v.g[3:]
    mass = jnp.array([2.0, 2.6, 3.5])
    return 0.5 * w @ (jnp.array([1.0, 1.4, 2.0]) * w) + 0.5 * x @ (mass * x) + 0.3 * w[0] * x[1]


def with_a_wheel(q, v):
    return 0.5 * v.R @ (jnp.array([1.0, 1.5, 2.2]) * v.R) + 0.05 * (v.psi[0] + WHEEL @ v.R) ** 2


def curving(q, v, a):
    s = jnp.sqrt(v.R[0] ** 2 + v.R[1] ** 2)
    return (v.R[0] * a.R[1] - v.R[1] * a.R[0]) / s**3 + v.R[2] / s - 0.8 * (1.0 + 0.3 * q.R[2, 2])


SERVO = da.SecondOrder(
    lambda q, v, a: WHEEL @ a.R + 0.5 * WHEEL @ v.R - 0.3 * q.R[2, 2], reactions=lambda q, v, a: {"psi": jnp.ones(1)}
)
CURVATURE = da.SecondOrder(curving, reactions=lambda q, v, a: {"R": jnp.array([-v.R[1], v.R[0], 0.0])})
SUSLOV = np.array([[2.0, 0.0, 0.35], [0.0, 1.3, -0.2], [0.35, -0.2, 1.1]])
LEAN = np.array([0.3, -0.2, 0.9])
SPUN = {"R": [1.0, -0.6, 0.8], "x": [-0.42, -0.7]}
ROTATION, PLANE = {"R": SO3}, {"R": SO3, "x": 2}
HERE = {"R": np.eye(3)}
ON_PLANE = {"R": np.eye(3), "x": [0.0, 0.0]}
CASES = {
    "Lagrange top": (
        da.System(lambda q, v: spin(np.diag([1.0, 1.0, 0.4]))(q, v) - 1.2 * q.R[2, 2], coordinates=ROTATION),
        {"R": turned(0.6)}, {"R": [0.2, 0.1, 4.0]}, 10.0,
        lambda R, x, v: (R[2, 2], v[0]), (0.845236679477, 0.018346058862),
    ),
    "top": (
        da.System(lambda q, v: spin(np.diag([1.0, 1.6, 2.1]))(q, v) - 1.5 * q.R[2] @ LEAN, coordinates=ROTATION),
        {"R": turned(1.0)}, {"R": [0.4, -0.5, 1.2]}, 10.0,
        lambda R, x, v: v, (1.478779758695, 0.167105880307, 1.129229923014),
    ),
    "Suslov": (
        da.System(spin(SUSLOV), da.Nonholonomic(lambda q, v: v.R[2]), coordinates=ROTATION),
        HERE, {"R": [0.5, -0.8, 0.0]}, 6.0,
        lambda R, x, v: v, (0.790410839462, 0.251917889127, 0.0),
    ),
    "Veselova": (
        da.System(spin(np.diag([1.0, 2.0, 3.5])), da.Nonholonomic(lambda q, v: q.R[2] @ v.R), coordinates=ROTATION),
        HERE, {"R": [0.9, -0.7, 0.0]}, 10.0,
        lambda R, x, v: v, (0.766348551315, 0.767572573908, -0.083451586421),
    ),
    "Chaplygin ball": (
        da.System(ball, da.Nonholonomic(rolling), coordinates=PLANE), ON_PLANE, SPUN, 10.0,
        lambda R, x, v: (v[0], *x), (0.230707698740, -4.108671559025, -6.067148186688),
    ),
    "ball on a slope": (
        da.System(on_a_slope, da.Nonholonomic(rolling), coordinates=PLANE), ON_PLANE, SPUN, 4.0,
        lambda R, x, v: (v[0], *x), (3.124661819556, 3.405520027889, -2.824109488128),
    ),
    "sleigh": (
        da.System(sleigh, da.Nonholonomic(lambda q, v: v.g[2]), coordinates={"g": SE2}),
        {"g": (np.eye(2), [0.0, 0.0])}, {"g": [1.5, 0.4, 0.0]}, 8.0,
        lambda R, x, v: (np.arctan2(R[1, 0], R[0, 0]), *x, v[1]),
        (3.140766631424, -6.516804389376, 3.104401489307, 1.219570530254),
    ),
    "Kirchhoff": (
        da.System(under_water, coordinates={"g": SE3}),
        {"g": (np.eye(3), [0.0, 0.0, 0.0])}, {"g": [0.4, -0.3, 0.6, 0.5, 0.2, -0.1]}, 10.0,
        lambda R, x, v: x, (4.496145453857, 2.761820828442, -1.347895914255),
    ),
    "servo": (
        da.System(with_a_wheel, SERVO, coordinates={"R": SO3, "psi": 1}),
        {"R": turned(0.5), "psi": 0.0}, {"R": [0.3, -0.2, 0.5], "psi": 4.0}, 10.0,
        lambda R, x, v: v, (0.144915827164, 0.098566857032, 0.148187120063, 12.262182341516),
    ),
    "curvature": (
        da.System(lambda q, v: 0.5 * v.R @ v.R, CURVATURE, coordinates=ROTATION),
        HERE, {"R": [0.8, 0.6, 0.25]}, 10.0,
        lambda R, x, v: v, (0.565897186391, 0.824475817981, 0.25),
    ),
}  # fmt: skip


def look(case, path):
    """The numbers of the row at the end of a path."""
    system, wanted = case[0], case[4]
    if "g" in system.space.names:
        pose = path["g"]
        R, x = pose.R[-1], pose.x[-1]
    else:
        R, x = path["R"][-1], path["x"][-1] if "x" in system.space.names else None
    return np.array(wanted(R, x, path.v[-1]))


@pytest.mark.parametrize("name", CASES)
def test_runs_have_the_order_and_reach_the_value(name):
    case = CASES[name]
    system, q0, v0, time, _, value = case
    errors = []
    for steps in (100, 200):
        path = da.simulate(system, q0, v0, h=time / steps, steps=steps, scheme=da.Scheme(order=6))
        errors.append(np.abs(look(case, path) - value).max())
        assert path.outcome is da.Outcome.SUCCESS
    assert errors[1] < 1e-8
    assert errors[1] < errors[0] / 40 or errors[1] < 2e-12


@pytest.mark.parametrize("name", ["Lagrange top", "Veselova", "Kirchhoff", "servo"])
def test_the_reference_reaches_the_value(name):
    case = CASES[name]
    system, q0, v0, time, wanted, value = case
    found = da.reference(system, q0, v0, [0.0, time])
    q = found.q[-1]
    R, x = np.asarray(da.groups.rotation(q[:4])), q[4:]
    assert_allclose(wanted(R, x, found.v[-1]), value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["Suslov", "Chaplygin ball", "sleigh"])
def test_the_distribution_is_kept_to_rounding(name):
    system, q0, v0, _, _, _ = CASES[name]
    path = da.simulate(system, q0, v0, h=0.05, steps=2000)
    left = [
        np.asarray(system.constraints[0].residual(system, q, v, v, 0.0))
        for q, v in zip(path.q[::50], path.v[::50], strict=True)
    ]
    assert np.abs(left).max() < 2e-15
