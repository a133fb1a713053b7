"""The flow stays on its constraints: against closed forms, equations reduced by hand, and dense least squares."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import ENTRIES, chain
from dalembert.native import Accuracy, FlowFunctions, compile_flow, compile_projection
from dalembert.systems import integrate_motion

SPHERE = ENTRIES["spherical_pendulum"]
ROUNDING = 1e-14  # of terms of up to ten

# Two rods in their angles, and velocities (u cos θ, u sin θ, a u) on the cone v_z² = a²(v_x² + v_y²), each reduced by hand.


def two_rods(_, y):
    (a, b), w, d, g = y[:2], y[2:], y[0] - y[1], 9.81
    matrix = [[2.0, np.cos(d)], [np.cos(d), 1.0]]
    sides = [-(w[1] ** 2) * np.sin(d) - 2 * g * np.sin(a), w[0] ** 2 * np.sin(d) - g * np.sin(b)]
    return [*w, *np.linalg.solve(matrix, sides)]


CONE = 0.7


def on_the_cone(_, y):
    u, angle = y[3:]
    force, along, across = (
        -y[:3] * [1.0, 2.0, 0.6],
        [np.cos(angle), np.sin(angle), CONE],
        [-np.sin(angle), np.cos(angle), 0.0],
    )
    return [*(u * np.array(along)), force @ along / (1 + CONE**2), force @ across / u]


def cone(q, v):
    return jnp.atleast_1d(v[2] ** 2 - CONE**2 * (v[0] ** 2 + v[1] ** 2))


SPRINGS = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ (jnp.array([1.0, 2.0, 0.6]) * q), da.Nonholonomic(cone))
RODS = np.array([0.9, -0.4, 0.0, 0.5])
TIP = np.array([0.2, 0.4, -0.5, 1.5, 0.3])


def problem(name):
    """(system, q0, v0, times, reduced equation, its data, positions from its solutions)."""
    if name == "two rods":
        turn = lambda x, w: np.array([np.cos(x) * w, np.sin(x) * w])  # noqa: E731
        first, second = (turn(RODS[i], RODS[2 + i]) for i in range(2))
        where = lambda y: np.array([chain.placed(x) for x in y[:2].T])  # noqa: E731
        return chain.chain(2), chain.placed(RODS[:2]), np.concatenate([first, first + second]), 5.0, two_rods, RODS, where
    u, angle = TIP[3:]
    v = u * np.array([np.cos(angle), np.sin(angle), CONE])
    return SPRINGS, TIP[:3], v, 1.2, on_the_cone, TIP, lambda y: y[:3].T


@pytest.mark.parametrize("name", ["two rods", "cone"])
def test_errors_are_in_proportion_to_the_tolerance_and_constraints_hold(name):
    """Also between the steps; at last those of SciPy's DOP853 on the equation reduced by hand."""
    system, q, v, end, field, start, positions = problem(name)
    t = np.linspace(0.0, end, 29)
    solve = lambda x: positions(solve_ivp(field, (0.0, end), start, "DOP853", t, rtol=x, atol=x).y)  # noqa: E731
    truth = solve(2.3e-14)
    theirs = np.abs(solve(1e-12) - truth).max()
    errors = {}
    for tolerance in (1e-3, 1e-6, 1e-9, 1e-12, 1e-14):
        found = da.reference(system, q, v, t, tolerance=tolerance)
        assert found.drift.max() < ROUNDING, tolerance
        errors[tolerance] = np.abs(found.q - truth).max()
    assert errors[1e-14] < 4e-13
    assert errors[1e-12] < 3.0 * max(theirs, 1e-12)
    for tolerance in (1e-6, 1e-9, 1e-12):
        assert errors[tolerance] < 1e2 * tolerance, tolerance


def test_ten_thousand_periods_of_a_pendulum_on_its_sphere():
    """Steady rotation: the sphere to rounding, energy and angular momentum to what 10⁵ steps make of them."""
    period = 2 * np.pi * np.sqrt(0.5)
    t = np.linspace(0.0, 1e4 * period, 2001)
    found = da.reference(SPHERE.system, SPHERE.q0, [0.1, SPHERE.v0[1], 0.1 * np.sqrt(3.0)], t)
    q, v = np.asarray(found.q), np.asarray(found.v)
    assert found.drift.max() < ROUNDING
    for kept in (0.5 * np.sum(v * v, axis=1) + q[:, 2], q[:, 0] * v[:, 1] - q[:, 1] * v[:, 0]):
        assert np.abs(kept - kept[0]).max() < 1e-9


def test_a_wire_that_turns_forwards_and_backwards():
    """φ = y cos t - x sin t: r̈ = r on the wire, so r = cosh t; dφ/dt contains ∂φ/∂t."""
    wire = da.Holonomic(lambda q, t: q[1] * jnp.cos(t) - q[0] * jnp.sin(t))
    system = da.System(lambda q, v, t: 0.5 * v @ v, wire, time_dependent=True)
    at = lambda t: np.stack([np.cosh(t) * np.cos(t), np.cosh(t) * np.sin(t)], axis=-1)  # noqa: E731
    rate = lambda t: np.sinh(t) * np.array([np.cos(t), np.sin(t)]) + np.cosh(t) * np.array([-np.sin(t), np.cos(t)])  # noqa: E731
    for end in (2.0, -1.0):
        t = np.linspace(0.5, end, 11)
        found = da.reference(system, at(0.5), rate(0.5), t)
        np.testing.assert_allclose(found.q, at(t), rtol=0, atol=2e-11)
        assert found.drift.max() < ROUNDING


def test_data_off_the_constraints_keep_their_values():
    """φ = φ₀ + φ̇₀ t of the flow that measurements follow; and what `reference` starts from is not moved."""
    t = np.linspace(0.0, 1.0, 5)
    off = integrate_motion(SPHERE.system, (jnp.array([1.1, 0.0, -0.4]), jnp.array([0.1, 0.3, 0.0])), t, 1e-12)
    np.testing.assert_allclose(np.sum(np.asarray(off.q) ** 2, axis=1), 1.37 + 0.22 * t, rtol=0, atol=1e-10)
    near = np.array(SPHERE.q0) * (1 + 1e-10)
    found = da.reference(SPHERE.system, near, SPHERE.v0, t)
    np.testing.assert_array_equal(found.q[0], near)
    assert found.drift[0] > 1e-10
    assert found.drift[1:].max() < ROUNDING


def test_a_coordinate_without_inertia():
    """L = ½ẋ² - ½y² with y = x²: ẍ = -2x³."""
    system = da.System(lambda q, v: 0.5 * v[0] ** 2 - 0.5 * q[1] ** 2, da.Holonomic(lambda q: q[1] - q[0] ** 2))
    t = np.linspace(0.0, 9.0, 10)
    found = da.reference(system, [1.0, 1.0], [0.0, 0.0], t, tolerance=1e-5)
    truth = solve_ivp(lambda _, y: [y[1], -2 * y[0] ** 3], (0.0, 9.0), [1.0, 0.0], "DOP853", t, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.q[:, 0], truth.y[0], rtol=0, atol=1e-4)
    assert found.drift.max() < ROUNDING


def test_where_a_position_passes_through_zero():
    """Round a hinge off the origin, through the origin; 0.7² is less than 0.49 by rounding, which is all that is left of φ
    there."""
    system = da.System(lambda q, v: 0.5 * v @ v, da.Holonomic(lambda q: q[0] ** 2 + (q[1] - 0.7) ** 2 - 0.49))
    t = np.r_[-1.0, -1e-9, 0.0, 1e-6, 1.0]
    at = lambda s: 0.7 * np.stack([np.sin(s), 1 - np.cos(s)], axis=-1)  # noqa: E731
    found = da.reference(system, at(-1.0), 0.7 * np.array([np.cos(1.0), -np.sin(1.0)]), t)
    np.testing.assert_allclose(found.q, at(t), rtol=0, atol=1e-11)
    assert found.drift.max() < ROUNDING


METRICS = {
    "definite": [[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 3.0]],
    "no inertia of one": [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 3e12]],
    "indefinite": [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 3.0]],
}


@pytest.mark.parametrize("unit", [1.0, 1e6])
@pytest.mark.parametrize("name", METRICS)
def test_an_update_is_the_least_one_in_the_metric(name, unit):
    """Of x for r = 0, then of u for s = 0, by dense least squares; the same in another unit of the second coordinate, which
    lends its inertia to none."""
    metric, scale = np.array(METRICS[name]), np.array([1.0, 1.0, unit])
    rows = np.array([[1.0, 2.0, -1.0], [0.3, -1.0, 0.5]])

    def restricted(y, t, metric, scale):
        x, u = y[:3] / scale, y[3:] / scale
        scaled = metric / jnp.outer(scale, scale)
        return scaled, rows / scale, jnp.atleast_1d(rows[0] @ x - 0.4), jnp.stack([rows[0] @ u, rows[1] @ u + x[0]])

    x, u = np.array([0.3, -0.2, 0.9]), np.array([1.0, 0.5, -0.7])
    code = compile_projection(restricted, np.zeros(6), (metric, scale))
    moved, (before, after, rest) = code(np.r_[x * scale, u * scale], 0.0, metric, scale)
    weight = metric if name == "definite" else np.diag([abs(m) or 2.0 for m in np.diag(metric)])
    inverse = np.linalg.inv(weight)
    least = lambda a, r: inverse @ a.T @ np.linalg.solve(a @ inverse @ a.T, r)  # noqa: E731
    first = least(rows[:1], rows[:1] @ x - 0.4)
    second = least(rows, rows @ u + [0.0, (x - first)[0]])
    np.testing.assert_allclose(moved, np.r_[(x - first) * scale, (u - second) * scale], rtol=1e-11)
    terms = [np.abs(rows[0]) @ np.abs(x), *(np.abs(rows) @ np.abs(u) + [0.0, abs(x[0])])]
    residuals = np.array([rows[0] @ x - 0.4, *(rows @ u + [0.0, (x - first)[0]])])
    np.testing.assert_allclose(before, np.max(np.abs(residuals) / terms), rtol=1e-11)
    assert rest <= after < 1e-15


NOWHERE = {
    "no root": (lambda x: 2.0 * x, lambda x, t: x**2 + 1e-2),
    "no slope": (lambda x: jnp.where(x > 5.0, 1.0, 0.0), lambda x, t: 0.0 * x + 1e-6),
    "no value": (lambda x: 1.0 + 0.0 * x, lambda x, t: jnp.sqrt(x - 10.0)),
    "none at a row within a step": (lambda x: 2.0 * x, lambda x, t: jnp.where(jnp.abs(t - 0.5) < 1e-6, x**2 + 1.0, 0.0)),
}


@pytest.mark.parametrize("name", NOWHERE)
def test_where_there_is_nothing_to_project_onto_the_integration_ends(name):
    """And it says so."""
    slope, residual = NOWHERE[name]
    flow = compile_flow(FlowFunctions(lambda y, t: -y, lambda y, t: y), np.ones(1))
    restricted = lambda y, t: (jnp.eye(1), jnp.atleast_2d(slope(y)), residual(y, t))  # noqa: E731
    flow = flow.project_onto(compile_projection(restricted, np.ones(1), ()))
    found = flow.run(np.ones(1), np.array([0.0, 0.5, 1.0]), flow.over(()), Accuracy(1e-8, 1000))
    assert not found.reached
    assert found.saved == 1


def test_coordinates_on_d_with_a_holonomic_constraint():
    """The pendulum on its sphere through several charts, in closed form."""
    t = np.linspace(0.0, 10.0, 21)
    found = da.systems.adapted_reference(SPHERE.system, SPHERE.q0, SPHERE.v0, t)
    q, v = SPHERE.exact(t)
    np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.v, v, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.multipliers, -1.0, rtol=1e-9)
    assert found.residual.max() < ROUNDING
    assert len(found.changes) > 3
    assert found.method == "Runge-Kutta"


def test_coordinates_on_d_with_constraints_of_both_kinds():
    """On x² + y² = 1 with ż = y ẋ: z = (sin 2θ - 2θ)/4 + const, and ½θ̇²(1 + sin⁴θ) does not change."""
    both = da.Holonomic(lambda q: q[:2] @ q[:2] - 1.0), da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0])
    system, t = da.System(lambda q, v: 0.5 * v @ v, both), np.linspace(0.0, 8.0, 33)
    found = da.systems.adapted_reference(system, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], t)
    angle = np.unwrap(np.arctan2(found.q[:, 1], found.q[:, 0]))
    np.testing.assert_allclose(found.q[:, 2], (np.sin(2 * angle) - 2 * angle) / 4, rtol=0, atol=1e-10)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    passed = [x / 2 * weights @ np.sqrt(1 + np.sin(x / 2 * (nodes + 1)) ** 4) for x in angle]
    np.testing.assert_allclose(passed, t, rtol=0, atol=1e-10)
    assert found.residual.max() < ROUNDING
    assert {len(c.after) for c in found.changes} == {2}


def test_constraints_on_accelerations_have_no_d():
    system = da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: a[0] - v[1]))
    with pytest.raises(ValueError, match=r"constraints\[0\] \(SecondOrder\): .*integrated by dalembert.reference"):
        da.systems.adapted_reference(system, [0.0, 1.0], [1.0, 0.0], [0.0, 1.0])
