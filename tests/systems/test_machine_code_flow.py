"""The flow in machine code against SciPy's DOP853, closed forms, diffrax, and the theory of its coefficients."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import DOP853, solve_ivp

import dalembert as da
from dalembert.gallery import ENTRIES, inertia_wheel_pendulum
from dalembert.native import DENSE, ERROR_3, ERROR_5, NODES, STAGES, Accuracy, FlowFunctions, ImplicitPart, compile_flow
from dalembert.native.trace import place
from dalembert.systems import reduced_flow

PARTICLE = ENTRIES["nonholonomic_particle"]
T = np.linspace(0.0, 5.0, 23)


def dense(rows, width=16) -> np.ndarray:
    return np.array([[row.get(j, 0.0) for j in range(width)] for row in rows])


def particle(_, x):
    """The free particle with ż = yẋ, by hand: λ = v_x v_y/(1 + y²)."""
    y, v = x[1], x[3:]
    return np.concatenate([v, v[0] * v[1] / (1 + y**2) * np.array([-y, 0.0, 1.0])])


def test_the_coefficients_satisfy_the_order_conditions():
    """Row sums, quadrature of order 8 at the end of a step, and of order 7 all along the interpolant; then SciPy's table."""
    a, c, d = dense(STAGES), np.array(NODES), dense(DENSE)
    np.testing.assert_allclose(a.sum(axis=1), c, rtol=0, atol=2e-14)
    b = a[12]
    for k in range(8):
        np.testing.assert_allclose(b @ c**k, 1 / (k + 1), rtol=1e-13)
    np.testing.assert_allclose(b @ (a @ c**6), 1 / 56, rtol=1e-12)
    ones = dense([ERROR_5, ERROR_3])
    np.testing.assert_allclose(ones.sum(axis=1), 0.0, atol=1e-14)
    for s in (0.2, 0.7):  # ∫₀ˢ τᵏ dτ, with y(0) = 0, y(1) = 1/(k+1), and slopes 0ᵏ and 1
        for k in range(7):
            change, first, last = 1 / (k + 1), float(k == 0), 1.0
            terms = [change, first - change, 2 * change - first - last, *(d @ c**k)]
            value = 0.0
            for i in reversed(range(7)):
                value = (s if i % 2 == 0 else 1 - s) * (value + terms[i])
            np.testing.assert_allclose(value, s ** (k + 1) / (k + 1), rtol=1e-11)
    np.testing.assert_array_equal(a[:12, :12], DOP853.A)
    np.testing.assert_array_equal(a[12, :12], DOP853.B)
    np.testing.assert_array_equal(a[13:], DOP853.A_EXTRA)
    np.testing.assert_array_equal(d, DOP853.D)
    np.testing.assert_array_equal(ones[:, :13], [DOP853.E5, DOP853.E3])


@pytest.mark.parametrize("tolerance", [1e-4, 1e-8, 1e-12, 1e-14])
def test_errors_are_those_of_scipy_at_the_same_tolerance(tolerance):
    """Between the steps, too, on a nonlinear motion in closed form; down to where rounding errors are all."""
    found = da.reference(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, T, tolerance=tolerance)
    exact = np.concatenate(PARTICLE.exact(T), axis=1)
    y0 = np.concatenate([PARTICLE.q0, PARTICLE.v0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy raises a tolerance below 100 ε
        other = solve_ivp(particle, (0.0, 5.0), y0, "DOP853", T, rtol=tolerance, atol=tolerance)
    own = np.abs(np.concatenate([found.q, found.v], axis=1) - exact).max()
    theirs = np.abs(other.y.T - exact).max()
    assert bool(found.succeeded)
    assert found.method == "Runge-Kutta"
    assert own < 3 * theirs
    assert own < max(1e2 * tolerance, 1e-13)
    assert int(found.integrator_steps) < 1.6 * other.nfev / 12 + 1  # with 0.03 of the tolerance in every step
    np.testing.assert_allclose(found.drift, np.abs(found.v[:, 2] - found.q[:, 1] * found.v[:, 0]), rtol=0, atol=1e-15)


def test_steps_that_end_at_the_times_and_a_watch_that_ends_them():
    """ÿ = -y: rows are as accurate as steps, and the flow ends with the first step beyond y = 0."""
    field = lambda y, t: jnp.stack([y[1], -y[0]])  # noqa: E731
    flow = compile_flow(FlowFunctions(field, lambda y, t: y[:1] * t, watch=lambda y, t: y[0]), np.zeros(2))
    times = np.linspace(0.0, 10.0, 41)
    found = flow.run(np.array([1.0, 0.0]), times, flow.over(()), Accuracy(1e-10, 1000, clipped=True))
    assert found.watched
    assert not found.reached
    assert times[found.saved - 1] <= found.t < times[found.saved]
    assert np.pi / 2 < found.t < np.pi / 2 + 0.25  # the first of the times beyond the zero, at the latest
    kept = times[: found.saved]
    np.testing.assert_allclose(found.rows[: found.saved, 0], np.cos(kept), rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.outputs[: found.saved, 0], kept * np.cos(kept), rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.end, found.t * np.cos(found.t), rtol=0, atol=1e-9)


def test_unknowns_are_those_of_the_same_root_at_every_state():
    """ẏ = z with z³ + z = y + t, nonlinear in z: against Newton's iteration in NumPy inside SciPy's integration."""
    part = ImplicitPart(lambda z, y, t: z**3 + z - y - t, np.zeros(1), lambda m: jnp.ones(1), 1e-11, 50)
    flow = compile_flow(FlowFunctions(lambda z, y, t: z, lambda z, y, t: z, part), np.zeros(1))
    assert not flow.equations.affine

    def slope(t, y):
        return [np.roots([1.0, 0.0, 1.0, -(y[0] + t)])[2].real]

    found = flow.run(np.array([0.3]), np.array([0.0, 0.5, 2.0]), flow.over(()), Accuracy(1e-12, 1000))
    truth = solve_ivp(slope, (0.0, 2.0), [0.3], "DOP853", rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.rows[-1], truth.y[:, -1], rtol=1e-10)
    np.testing.assert_allclose(found.outputs[-1] ** 3 + found.outputs[-1], found.rows[-1] + 2.0, rtol=1e-14)


def test_a_solution_that_ceases_to_exist_is_told_at_its_end():
    """q̈ = 6q² with q = 1/(1 - t)², infinite at t = 1: no step is left there, without ten million of them."""
    system, t = da.System(lambda q, v: 0.5 * v @ v + 2.0 * q[0] ** 3), np.array([0.0, 0.5, 0.9, 1.5])
    with pytest.raises(RuntimeError, match=r"reference: the integration failed after t = 0\.9 .*cease to exist"):
        da.reference(system, [1.0], [2.0], t)
    kept = da.reference(system, [1.0], [2.0], t, throw=False)
    assert not bool(kept.succeeded)
    assert int(kept.integrator_steps) < 10_000
    np.testing.assert_allclose(kept.q[:3, 0], (1 - t[:3]) ** -2, rtol=1e-8)
    assert not np.any(np.isfinite(kept.q[3:]))


def test_a_field_that_ends_is_told_too():
    """q̈ = -1 - √q as far as q = 0 is reached from above: beyond it the force is not a number."""
    system = da.System(lambda q, v: 0.5 * v @ v - q[0] - 2.0 / 3.0 * q[0] ** 1.5)
    kept = da.reference(system, [0.5], [0.0], np.linspace(0.0, 2.0, 21), throw=False)
    assert not bool(kept.succeeded)
    assert np.all(np.asarray(kept.q)[np.isfinite(kept.q)] > 0.0)


def test_under_jit_diffrax_integrates():
    """Two methods of order 8, which share nothing but the equations of motion."""
    system = da.System(lambda q, v, p: 0.5 * v @ v + p["g"] * jnp.cos(q[0]), parameters={"g": 1.0})
    end = lambda g: da.reference(system.replace(g=g), [1.0], [0.0], np.array([0.0, 1.0])).q[-1, 0]  # noqa: E731
    np.testing.assert_allclose(jax.jit(end)(1.3), end(1.3), rtol=1e-10)


def test_what_cannot_be_translated_is_left_to_diffrax_with_one_warning(monkeypatch):
    monkeypatch.setattr(place, "TOLD", set())
    system = da.System(lambda q, v: 0.5 * v @ v + jnp.sort(jnp.cos(q))[0])
    with pytest.warns(UserWarning, match=r"backend: .*`jnp.sort\(jnp.cos\(q\)\)`.* in lagrangian") as found:
        q = da.reference(system, [1.0], [0.0], [0.0, 1.0]).q
    assert len(found) == 1
    np.testing.assert_allclose(q, da.reference(ENTRIES["pendulum"].system, [1.0], [0.0], [0.0, 1.0]).q, rtol=1e-10)


def test_a_change_of_numbers_compiles_nothing_and_is_seen():
    """Parameters and captured arrays are arguments of the machine code; a change of text is another program."""
    weights = np.array([2.0, 3.0])
    system = da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * p["k"] * q @ (weights * q), parameters={"k": 1.0})
    run = lambda k: da.reference(system.replace(k=k), [1.0, 1.0], [0.0, 0.0], [0.0, 1.0]).q[-1]  # noqa: E731
    np.testing.assert_allclose(run(1.0), np.cos(np.sqrt(weights)), rtol=1e-10)
    np.testing.assert_allclose(run(2.0), np.cos(np.sqrt(2.0 * weights)), rtol=1e-10)
    weights[:] = 5.0
    np.testing.assert_allclose(run(2.0), np.cos(np.sqrt([10.0, 10.0])), rtol=1e-10)


def test_the_choice_of_a_backend_is_checked():
    with pytest.raises(ValueError, match="backend: found 'jax'"):
        da.reference(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, T, backend="jax")
    import diffrax

    with pytest.raises(ValueError, match="solver, backend: a solver of diffrax"):
        da.reference(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, T, backend="native", solver=diffrax.Tsit5())


def test_charts_change_before_they_end():
    """A blade that turns: ẏ follows from ẋ by tan θ, and the other way round, each as long as its quality is good."""
    blade = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1]))
    t = np.linspace(0.0, 2.9, 30)
    found = da.systems.adapted_reference(blade, [0.0, 0.0, 0.0], [1.0, 0.0, 2.0], t, backend="native")
    assert [(c.before, c.after) for c in found.changes] == [((1,), (0,)), ((0,), (1,)), ((1,), (0,))]
    for change in found.changes:
        angle = 2 * change.t - (np.pi / 2 if change.before == (0,) else 0.0)
        np.testing.assert_allclose(change.worn, abs(np.cos(angle)), rtol=0, atol=1e-10)
        assert change.worn < 0.5 / np.sqrt(3) < change.fresh
    circle = np.stack([np.sin(2 * t) / 2, (1 - np.cos(2 * t)) / 2, 2 * t], axis=1)
    np.testing.assert_allclose(found.q, circle, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.multipliers[:, 0], -2.0, rtol=0, atol=1e-9)  # the force across: speed times turning
    assert found.residual.max() < 1e-15


def test_where_the_written_elimination_does_not_hold_the_pivoted_solver_does():
    """M = [[x, 1], [1, y]] with x = 0 at the start, where the pivots of the sample are 0 or small; against SciPy."""
    system = da.System(lambda q, v: 0.5 * q[0] * v[0] ** 2 + v[0] * v[1] + 0.5 * q[1] * v[1] ** 2 - 0.5 * q @ q)

    def slope(_, s):
        x, y, u, w = s
        return np.concatenate([[u, w], np.linalg.solve([[x, 1.0], [1.0, y]], [-0.5 * u * u - x, -0.5 * w * w - y])])

    for start in ([0.0, 0.0, 0.4, 0.1], [0.0, 0.3, -0.2, 0.5], [1e-9, 0.0, 0.3, 0.0]):
        truth = solve_ivp(slope, (0.0, 1.0), start, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
        found = da.reference(system, start[:2], start[2:], [0.0, 1.0], tolerance=1e-12)
        np.testing.assert_allclose(np.concatenate([found.q[-1], found.v[-1]]), truth, rtol=0, atol=2e-11)


def test_the_written_field_is_the_solved_one():
    """At states that no sample had; and for a regular system it is used."""
    for name in ("car_with_trailers", "inertia_wheel_pendulum"):
        entry = ENTRIES[name]
        n, m = len(entry.q0), len(da.acceleration(entry.system, entry.q0, entry.v0)[1])
        flow = reduced_flow(entry.system, n, m)
        equations = flow.code.equations
        assert equations is not None
        assert set(equations.written) == {"field", "outputs"}
        plain = dataclasses.replace(flow.code, equations=dataclasses.replace(equations, written={}))
        rows = np.concatenate([entry.q0, entry.v0]) + 0.1 * np.random.default_rng(1).standard_normal((20, 2 * n))
        ways = [code.along(rows, np.zeros(20), code.over(flow.leaves)) for code in (flow.code, plain)]
        for one, other in zip(*ways, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        written = equations.written["field"]
        given = np.concatenate([rows[0], np.zeros(1), *map(np.ravel, flow.leaves), written.captured])
        result = np.empty(2 * n + 1)
        written.run(given, result)
        assert result[-1] == 1.0
        np.testing.assert_allclose(result[:-1], ways[1][0][0], rtol=1e-10, atol=1e-10)


def test_the_law_of_a_lyapunov_constraint_is_divided():
    """The wheel pendulum against SciPy with the law divided by hand, beyond many zeros of its denominator."""
    entry, p = ENTRIES["inertia_wheel_pendulum"], inertia_wheel_pendulum.PARAMETERS
    t = np.linspace(0.0, 5.0, 6)
    found = da.reference(entry.system, entry.q0, entry.v0, t, tolerance=1e-12)
    a, b, c = 1 / p["I"], -1 / p["I"], 1 / p["I"] + 1 / p["J"]
    h_c, g_c, _ = (float(x) for x in inertia_wheel_pendulum.gains(p))

    def slope(_, y):
        angle, wheel, p1, p2 = y
        law = -(g_c / h_c + p["e"] * b / (p["d"] * h_c)) * p["M"] * np.sin(angle)
        law += p["chi"] / p["d"] * (a * c - b * b) * np.sin(wheel - p["n"] * angle) - p["rho"] * np.tanh(g_c * p1 + h_c * p2)
        return [a * p1 + b * p2, b * p1 + c * p2, p["M"] * np.sin(angle), law]

    start = [*entry.q0, *inertia_wheel_pendulum.momenta(np.array(entry.v0), p)]
    truth = solve_ivp(slope, (0.0, 5.0), start, "DOP853", t, rtol=3e-14, atol=1e-13).y[:2].T
    np.testing.assert_allclose(found.q, truth, rtol=0, atol=1e-9)
