"""The flow by Taylor series against mpmath, closed forms, SciPy, and the method of order 8."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.native import Accuracy, FlowFunctions, ImplicitPart, compile_flow
from dalembert.native.flow.taylor import TaylorMethod
from dalembert.native.graph.elimination import choose_order, definite_parts

# name → (by JAX, by mpmath), of u = 0.4 + 0.2 sin t and w = 1.3 - 0.5 t
OPERATIONS = {
    "product": (lambda u, w: u * w, lambda u, w: u * w),
    "square": (lambda u, w: u * u, lambda u, w: u * u),
    "quotient": (lambda u, w: u / (2.0 + w), lambda u, w: u / (2 + w)),
    "of a number": (lambda u, w: 3.0 / u, lambda u, w: 3 / u),
    "sqrt": (lambda u, w: jnp.sqrt(u), lambda u, w: mpmath.sqrt(u)),
    "cbrt": (lambda u, w: jnp.cbrt(u), lambda u, w: mpmath.cbrt(u)),
    "power": (lambda u, w: u**1.7, lambda u, w: u ** mpmath.mpf(1.7)),
    "whole power": (lambda u, w: u**-3, lambda u, w: u**-3),
    "exp": (lambda u, w: jnp.exp(u * w), lambda u, w: mpmath.exp(u * w)),
    "exp2": (lambda u, w: jnp.exp2(u), lambda u, w: 2**u),
    "expm1": (lambda u, w: jnp.expm1(u), lambda u, w: mpmath.expm1(u)),
    "log": (lambda u, w: jnp.log(u), lambda u, w: mpmath.log(u)),
    "log1p": (lambda u, w: jnp.log1p(u), lambda u, w: mpmath.log1p(u)),
    "sin": (lambda u, w: jnp.sin(u * w), lambda u, w: mpmath.sin(u * w)),
    "cos": (lambda u, w: jnp.cos(u - w), lambda u, w: mpmath.cos(u - w)),
    "tan": (lambda u, w: jnp.tan(u), lambda u, w: mpmath.tan(u)),
    "arcsin": (lambda u, w: jnp.arcsin(u), lambda u, w: mpmath.asin(u)),
    "arccos": (lambda u, w: jnp.arccos(u), lambda u, w: mpmath.acos(u)),
    "arctan": (lambda u, w: jnp.arctan(u), lambda u, w: mpmath.atan(u)),
    "arctan2": (lambda u, w: jnp.arctan2(u, w), lambda u, w: mpmath.atan2(u, w)),
    "sinh": (lambda u, w: jnp.sinh(u), lambda u, w: mpmath.sinh(u)),
    "cosh": (lambda u, w: jnp.cosh(u), lambda u, w: mpmath.cosh(u)),
    "tanh": (lambda u, w: jnp.tanh(u), lambda u, w: mpmath.tanh(u)),
    "arcsinh": (lambda u, w: jnp.arcsinh(u), lambda u, w: mpmath.asinh(u)),
    "arccosh": (lambda u, w: jnp.arccosh(2.0 + u), lambda u, w: mpmath.acosh(2 + u)),
    "arctanh": (lambda u, w: jnp.arctanh(u), lambda u, w: mpmath.atanh(u)),
    "erf": (lambda u, w: jax.scipy.special.erf(u), lambda u, w: mpmath.erf(u)),
    "erfc": (lambda u, w: jax.scipy.special.erfc(u), lambda u, w: mpmath.erfc(u)),
    "where": (lambda u, w: jnp.where(u < w, u * w, jnp.log(u - w)), lambda u, w: u * w),
    "cond": (lambda u, w: jax.lax.cond(u > w, lambda: u, lambda: u / w), lambda u, w: u / w),
    "abs": (lambda u, w: jnp.abs(u - w) * jnp.abs(u), lambda u, w: (w - u) * u),
    "maximum": (lambda u, w: jnp.maximum(u, w) * u, lambda u, w: w * u),
    "minimum": (lambda u, w: jnp.minimum(u, w) * u, lambda u, w: u * u),
    "sign": (lambda u, w: jnp.sign(u - w) * u, lambda u, w: -u),
    "floor": (lambda u, w: jnp.floor(5.0 * w) * u + jnp.ceil(u) * w, lambda u, w: 5 * u + w),
    "round": (lambda u, w: jnp.round(5.0 * w) * u, lambda u, w: 6 * u),
    "mod": (lambda u, w: jnp.mod(-7.0 * u, 1.0) * u, lambda u, w: (4 - 7 * u) * u),
    "logical": (lambda u, w: jnp.where((u < w) & ~(u > 1.0) | jnp.isnan(u), u, w), lambda u, w: u),
    "lookup": (lambda u, w: jnp.array([1.0, 2.0, 3.0])[jnp.floor(2.0 * w).astype(int)] * u, lambda u, w: 3 * u),
}
KEPLER = da.System(lambda q, v: 0.5 * v @ v + 1.0 / jnp.sqrt(q @ q))


def flow_of(field, size: int):
    return compile_flow(FlowFunctions(field, lambda y, t: y[:1]), np.zeros(size))


def test_every_operation_has_the_coefficients_of_its_series(monkeypatch):
    """ẏ = f(u(t), w(t)) for all operations at once: y_k = f_{k-1}/k of mpmath's series of f at t = 0.3, to order 19."""
    monkeypatch.setattr(TaylorMethod, "pays", lambda *_: True)
    field = lambda y, t: jnp.stack([f(0.4 + 0.2 * jnp.sin(t), 1.3 - 0.5 * t) for f, _ in OPERATIONS.values()])  # noqa: E731
    flow, at = flow_of(field, len(OPERATIONS)), 0.3
    arrays = flow.over(())
    found = flow.run(np.zeros(len(OPERATIONS)), np.array([at, at + 1e-3]), arrays, Accuracy(1e-12, 1))
    assert found.methods == ("Taylor series",)
    coefficients = arrays._series.parts["rows"].reshape(-1, len(OPERATIONS))[1:20]
    with mpmath.workdps(40):
        u, w = lambda t: 0.4 + 0.2 * mpmath.sin(t), lambda t: 1.3 - 0.5 * t
        for i, (name, (_, f)) in enumerate(OPERATIONS.items()):
            series = mpmath.taylor(lambda t, f=f: f(u(t), w(t)), at, 18)
            expected = np.array([float(x / (k + 1)) for k, x in enumerate(series)])
            size = np.maximum(np.abs(expected), 1e-3 * np.abs(expected).max() * 0.5 ** np.arange(19))
            assert np.max(np.abs(coefficients[:, i] - expected) / size) < 1e-10, name


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
        assert found.method == "Taylor series"
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
        assert found.method == "Taylor series"
        np.testing.assert_allclose(found.q[:, 0], exact(t), rtol=0, atol=1e-11)


def test_what_has_no_series_goes_by_the_method_of_order_8():
    power = da.System(lambda q, v: 0.5 * v @ v - (2.0 + q[0]) ** q[0])  # of an exponent that changes
    assert da.reference(power, [1.0], [0.0], [0.0, 0.1]).method == "Runge-Kutta"
    car = ENTRIES["car_with_trailers"]
    assert da.reference(car.system, car.q0, car.v0, [0.0, 0.1], tolerance=1e-4).method == "Runge-Kutta"  # too long to pay


def test_where_the_elimination_does_not_hold_the_other_method_goes_on():
    """ẏ = z₁, s z₁ + 2 z₂ = 1, 2 z₁ + s z₂ = 0, s = t - 1: a step ends where the pivot s is 0; y = ½ log(4 - s²)."""
    matrix = lambda t: jnp.array([[t - 1.0, 2.0], [2.0, t - 1.0]])  # noqa: E731
    equations = lambda z, y, t: matrix(t) @ z - jnp.array([1.0, 0.0])  # noqa: E731
    part = ImplicitPart(equations, np.zeros(2), lambda m: jnp.ones(2), 1e-11, 50)
    first, one = lambda z, y, t: z[:1], lambda z, y, t: jnp.ones(())
    flow = compile_flow(FlowFunctions(first, first, part, watch=one), np.zeros(1))
    exact = lambda t: 0.5 * np.log(4.0 - (t - 1.0) ** 2)  # noqa: E731
    for start, methods in ((0.0, ("Taylor series", "Runge-Kutta")), (1.0, ("Runge-Kutta",))):
        t = np.linspace(start, 2.0, 3)
        found = flow.run(np.array([exact(start)]), t, flow.over(()), Accuracy(1e-10, 10**4, clipped=True))
        assert found.reached
        assert found.methods == methods
        np.testing.assert_allclose(found.rows[:, 0], exact(t), rtol=0, atol=1e-9)


@pytest.mark.parametrize("steepness", [30.0, 100.0, 300.0])
def test_a_wall_that_no_series_sees_is_not_passed(steepness):
    """V = 10 tanh(s (q - 1)) is flat to rounding where the motion begins, and turns it round: by symmetry, v = -1 then."""
    system = da.System(lambda q, v: 0.5 * v @ v - 10.0 * jnp.tanh(steepness * (q[0] - 1.0)))
    found = da.reference(system, [0.0], [1.0], [0.0, 2.0, 10.0], tolerance=1e-9)
    assert found.method == "Taylor series"
    np.testing.assert_allclose(found.v[1:, 0], -1.0, rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [1e-1, 1e-3, 1e-9])
def test_a_narrow_barrier_is_not_leapt_over(width):
    """V = 10 exp(-((q - 1) / w)²) is flat to rounding but for a few w around q = 1; v = -1 behind it, by symmetry."""
    system = da.System(lambda q, v: 0.5 * v @ v - 10.0 * jnp.exp(-(((q[0] - 1.0) / width) ** 2)))
    found = da.reference(system, [0.0], [1.0], [0.0, 10.0], tolerance=1e-9)
    assert found.method == "Taylor series"
    np.testing.assert_allclose(found.v[-1, 0], -1.0, rtol=0, atol=1e-6)


def test_threads_that_want_the_first_series_at_once_all_have_it():
    field = lambda y, t: jnp.stack([y[1], -jnp.sin(y[0]) / (1.0 + y[1] ** 2)])  # noqa: E731
    flow, start, t = flow_of(field, 2), np.array([1.0, 0.0]), np.array([0.0, 3.0])
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: flow.run(start, t, flow.over(()), Accuracy(1e-10, 1000)), range(12)))
    assert {x.methods for x in found} == {("Taylor series",)}
    assert len({x.rows.tobytes() for x in found}) == 1


def test_a_run_that_ends_in_infinite_numbers_leaves_nothing_to_the_next():
    """In the same arrays: the same bits as before, by the same method."""
    flow, t = flow_of(lambda y, t: jnp.stack([y[1], 6.0 * y[0] ** 2]), 2), np.array([0.0, 0.3])
    arrays = flow.over(())
    runs = [flow.run(np.array([1.0, v]), t, arrays, Accuracy(1e-10, 1000)) for v in (2.0, np.inf, 2.0)]
    before, failed, after = runs
    assert not failed.reached
    assert after.methods == before.methods == ("Taylor series",)
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
