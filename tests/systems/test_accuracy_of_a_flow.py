"""The errors of the flow, and walls that error estimates do not see, against closed forms, symmetry and SciPy."""

from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.native import Accuracy, FlowFunctions, ImplicitPart, choose_order, compile_flow, definite_parts

KEPLER = da.System(lambda q, v: 0.5 * v @ v + 1.0 / jnp.sqrt(q @ q))


def flow_of(field, size: int):
    return compile_flow(FlowFunctions(field, lambda y, t: y[:1]), np.zeros(size))


@pytest.mark.parametrize("eccentricity", [0.3, 0.9])
def test_errors_are_in_proportion_to_the_tolerance(eccentricity):
    """Kepler's orbit, also between the steps, by Kepler's equation; at last rounding errors as SciPy's DOP853 has them."""
    a, t = 1.0 / (1.0 + eccentricity), np.linspace(0.0, 8.0, 41)
    mean, e = t / a**1.5 + np.pi, eccentricity
    angle = mean.copy()
    for _ in range(60):
        angle -= (angle - e * np.sin(angle) - mean) / (1.0 - e * np.cos(angle))
    truth = a * np.stack([-(np.cos(angle) - e), -np.sqrt(1 - e * e) * np.sin(angle)], axis=1)
    start = [1.0, 0.0], [0.0, np.sqrt(1.0 - e)]
    errors = {}
    for tolerance in (1e-5, 1e-7, 1e-9, 1e-11, 1e-14):
        found = da.reference(KEPLER, *start, t, tolerance=tolerance)
        errors[tolerance] = np.abs(found.q - truth).max()
    gravity = lambda _, y: [*y[2:], *(-y[:2] / np.hypot(*y[:2]) ** 3)]  # noqa: E731
    other = solve_ivp(gravity, (0.0, 8.0), np.concatenate(start), "DOP853", t, rtol=2.3e-14, atol=1e-14)
    assert errors[1e-14] < 3.0 * np.abs(other.y[:2].T - truth).max()
    for tolerance in (1e-5, 1e-7, 1e-9, 1e-11):
        assert errors[tolerance] < (1e2 if eccentricity > 0.5 else 3.0) * tolerance
    assert 1e3 < errors[1e-5] / errors[1e-9] < 1e6


def test_forwards_and_backwards_with_a_force_in_time():
    """q̈ + q = sin(2t), both ways from t = 1.5."""
    system = da.System(lambda q, v, t: 0.5 * v @ v - 0.5 * q @ q + q[0] * jnp.sin(2.0 * t), time_dependent=True)
    exact = lambda t: np.cos(t) + 0.4 * np.sin(t) - np.sin(2.0 * t) / 3.0  # noqa: E731
    rate = -np.sin(1.5) + 0.4 * np.cos(1.5) - 2.0 * np.cos(3.0) / 3.0
    for end in (9.0, -6.0):
        t = np.linspace(1.5, end, 19)
        found = da.reference(system, [exact(1.5)], [rate], t, tolerance=1e-12)
        np.testing.assert_allclose(found.q[:, 0], exact(t), rtol=0, atol=1e-11)


def test_where_the_elimination_does_not_hold_the_pivoted_solver_goes_on():
    """ẏ = z₁, s z₁ + 2 z₂ = 1, 2 z₁ + s z₂ = 0, s = t - 1: a step ends where the pivot s is 0; y = ½ log(4 - s²)."""
    matrix = lambda t: jnp.array([[t - 1.0, 2.0], [2.0, t - 1.0]])  # noqa: E731
    equations = lambda z, y, t: matrix(t) @ z - jnp.array([1.0, 0.0])  # noqa: E731
    part = ImplicitPart(equations, np.zeros(2), lambda m: jnp.ones(2), 1e-11, 50)
    first, one = lambda z, y, t: z[:1], lambda z, y, t: jnp.ones(())
    flow = compile_flow(FlowFunctions(first, first, part, watch=one), np.zeros(1))
    exact = lambda t: 0.5 * np.log(4.0 - (t - 1.0) ** 2)  # noqa: E731
    for start in (0.0, 1.0):
        t = np.linspace(start, 2.0, 3)
        found = flow.run(np.array([exact(start)]), t, flow.over(()), Accuracy(1e-10, 10**4, clipped=True))
        assert found.reached
        np.testing.assert_allclose(found.rows[:, 0], exact(t), rtol=0, atol=1e-9)


@pytest.mark.parametrize("steepness", [30.0, 100.0, 300.0])
def test_a_wall_that_no_slope_shows_is_not_passed(steepness):
    """V = 10 tanh(s (q - 1)) is flat to rounding where the motion begins, and turns it round: by symmetry, v = -1 then."""
    system = da.System(lambda q, v: 0.5 * v @ v - 10.0 * jnp.tanh(steepness * (q[0] - 1.0)))
    found = da.reference(system, [0.0], [1.0], [0.0, 2.0, 10.0], tolerance=1e-9)
    np.testing.assert_allclose(found.v[1:, 0], -1.0, rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [1e-1, 1e-3, 1e-9])
def test_a_narrow_barrier_is_not_leapt_over(width):
    """V = 10 exp(-((q - 1) / w)²) is flat to rounding but for a few w around q = 1; v = -1 behind it, by symmetry, to what
    rounding of q is in units of w."""
    system = da.System(lambda q, v: 0.5 * v @ v - 10.0 * jnp.exp(-(((q[0] - 1.0) / width) ** 2)))
    found = da.reference(system, [0.0], [1.0], [0.0, 10.0], tolerance=1e-9)
    np.testing.assert_allclose(found.v[-1, 0], -1.0, rtol=0, atol=1e-6 + 1e-14 / width)


def test_threads_that_share_a_flow_have_the_same_bits():
    field = lambda y, t: jnp.stack([y[1], -jnp.sin(y[0]) / (1.0 + y[1] ** 2)])  # noqa: E731
    flow, start, t = flow_of(field, 2), np.array([1.0, 0.0]), np.array([0.0, 3.0])
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: flow.run(start, t, flow.over(()), Accuracy(1e-10, 1000)), range(12)))
    assert len({x.rows.tobytes() for x in found}) == 1


def test_a_run_that_ends_in_infinite_numbers_leaves_nothing_to_the_next():
    """In the same arrays: the same bits as before."""
    flow, t = flow_of(lambda y, t: jnp.stack([y[1], 6.0 * y[0] ** 2]), 2), np.array([0.0, 0.3])
    arrays = flow.over(())
    runs = [flow.run(np.array([1.0, v]), t, arrays, Accuracy(1e-10, 1000)) for v in (2.0, np.inf, 2.0)]
    before, failed, after = runs
    assert not failed.reached
    np.testing.assert_array_equal(after.rows, before.rows)


def test_a_chart_is_left_where_it_is_worn():
    """Few times are asked for, and steps are as long as they can be: a worn chart is seen at the next time all the same."""
    blade = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1]))
    t = np.linspace(0.0, 2.9, 8)
    found = da.systems.adapted_reference(blade, [0.0, 0.0, 0.0], [1.0, 0.0, 2.0], t)
    assert [(c.before, c.after) for c in found.changes] == [((1,), (0,)), ((0,), (1,)), ((1,), (0,))]
    np.testing.assert_allclose(found.q, np.stack([np.sin(2 * t) / 2, (1 - np.cos(2 * t)) / 2, 2 * t], 1), rtol=0, atol=1e-10)
    assert found.residual.max() < 1e-15


def test_pivots_of_a_definite_system_are_on_its_diagonal():
    """[[M, -Rᵀ], [R, 0]]: those of M first; M indefinite, or rows of R that depend on each other, go by the other rule."""
    noise = np.random.default_rng(3)
    half, rows = noise.standard_normal((4, 4)), noise.standard_normal((2, 4))
    mass = half @ half.T + np.eye(4)
    whole = lambda m, r: np.block([[m, -r.T], [r, np.zeros((2, 2))]])  # noqa: E731
    samples = np.stack([whole(mass, rows), whole(2.0 * mass, rows[::-1])])
    parts = definite_parts(samples)
    np.testing.assert_array_equal(parts, [0, 0, 0, 0, 1, 1])
    order = choose_order(samples[0] != 0, np.ones((6, 6), int), samples, parts)
    assert order is not None
    assert order.rows == order.columns
    assert set(order.rows[:4]) == {0, 1, 2, 3}
    for bad in (whole(mass - 5.0 * np.diag([1.0, 0, 0, 0]) * mass[0, 0], rows), whole(mass, rows[[0, 0]])):
        assert definite_parts(np.stack([samples[0], bad])) is None
    assert definite_parts(samples + np.triu(np.ones((6, 6)), 3) * (samples != 0)) is None
