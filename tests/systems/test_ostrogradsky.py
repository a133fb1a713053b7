"""The continuous flow of order 2 with constraints of lower order, against hand-derived equations and reduced problems."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da

# Elastica of unit speed: θ̈ = -p·n, λ = p·e - θ̇², e = (cos θ, sin θ), n = (-sin θ, cos θ).
TENSION, TURN = np.array([1.0, 0.5]), 1.5
ROD = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Nonholonomic(lambda q, v: 0.5 * (v @ v - 1.0)), derivatives=2)
ROD_JETS = [[0.0, 0.0], [1.0, 0.0], [0.0, TURN], [-(TURN**2), -TENSION[1]]]
TIMES = np.linspace(0.0, 2.0, 5)


def test_elastica_of_unit_speed():
    def rate(_, z):
        c, s = np.cos(z[2]), np.sin(z[2])
        return np.array([c, s, z[3], TENSION @ [s, -c]])

    exact = solve_ivp(rate, (0, 2), [0.0, 0.0, 0.0, TURN], "DOP853", rtol=1e-12, atol=1e-13, t_eval=TIMES).y
    flow = da.systems.ostrogradsky(ROD, ROD_JETS, TIMES, multipliers=[[TENSION[0] - TURN**2]])
    np.testing.assert_allclose(flow.q, exact[:2].T, rtol=0, atol=1e-9)
    along = np.array([np.cos(exact[2]), np.sin(exact[2])])
    np.testing.assert_allclose(flow.multipliers[:, 0], TENSION @ along - exact[3] ** 2, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        flow.momenta[:, 0], np.tile(flow.momenta[0, 0], (5, 1)), rtol=0, atol=1e-9
    )  # of the translations
    np.testing.assert_allclose(flow.energy, flow.energy[0], rtol=0, atol=1e-9)
    assert flow.holonomic_multipliers.shape == (5, 0)
    assert float(flow.drift.max()) < 1e-9


def test_ambient_acceleration_on_a_circle():
    """½|q̈|² = ½(θ̈² + θ̇⁴): θ⁗ = 6θ̇²θ̈; and μ = -½ q·q⁗ for φ = |q|² - 1."""
    circle = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Holonomic(lambda q: q @ q - 1.0), derivatives=2)
    begin = np.array([0.3, 0.7, -0.4, 0.5])

    def rate(_, z):
        return [z[1], z[2], z[3], 6.0 * z[1] ** 2 * z[2]]

    turn, w, a, j = solve_ivp(rate, (0, 2), begin, "DOP853", rtol=1e-12, atol=1e-13, t_eval=TIMES).y
    e, n = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    jets = [x[:, 0] for x in (e, w * n, a * n - w**2 * e, (j - w**3) * n - 3 * w * a * e)]
    flow = da.systems.ostrogradsky(circle, jets, TIMES)
    np.testing.assert_allclose(flow.q, e.T, rtol=0, atol=1e-9)
    along = -(4 * w * j + 3 * a**2 - w**4)  # q·q⁗
    np.testing.assert_allclose(flow.holonomic_multipliers[:, 0], -0.5 * along, rtol=0, atol=1e-7)
    assert float(flow.drift.max()) < 1e-9
    with pytest.raises(da.InconsistentDataError, match="derivatives: φ and its time derivatives must vanish"):
        da.systems.ostrogradsky(circle, [jets[0], jets[1], jets[2], [0.5, 0.5]], TIMES)


def height(x, t, xp=jnp):
    return 0.4 * xp.sin(x) + 0.3 * t**2


def test_a_moving_curve_is_the_reduced_problem():
    """y = f(x, t) put into L leaves one coordinate without a constraint; the clock starts at 0.5."""

    def lagrangian(q, v, a, t):
        return 0.5 * a @ a - 0.5 * (1.0 + 0.2 * t) * v @ v + jnp.cos(q[0] + q[1])

    def reduced(x, v, a, t):
        slope, bend = 0.4 * jnp.cos(x[0]), -0.4 * jnp.sin(x[0])
        w = slope * v[0] + 0.6 * t
        b = slope * a[0] + bend * v[0] ** 2 + 0.6
        return lagrangian(*(jnp.stack(z) for z in ((x[0], height(x[0], t)), (v[0], w), (a[0], b))), t)

    curve = da.Holonomic(lambda q, t: q[1] - height(q[0], t))
    bound = da.VariationalProblem(lagrangian, curve, derivatives=2, time_dependent=True)
    free = da.VariationalProblem(reduced, derivatives=2, time_dependent=True)
    x, v, a, j, t = 0.3, 0.6, -0.2, 0.4, 0.5
    c, s = 0.4 * np.cos(x), -0.4 * np.sin(x)
    y = [height(x, t, np), c * v + 0.6 * t, c * a + s * v**2 + 0.6, c * j + 3 * s * v * a - c * v**3]
    times = [0.5, 1.0, 1.5]
    flow = da.systems.ostrogradsky(bound, np.column_stack([[x, v, a, j], y]), times)
    other = da.systems.ostrogradsky(free, [[x], [v], [a], [j]], times)
    np.testing.assert_allclose(flow.q[:, :1], other.q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(flow.jets[:, 2, :1], other.jets[:, 2], rtol=0, atol=1e-8)
    assert float(flow.drift.max()) < 1e-9


def test_what_is_refused():
    twice = da.VariationalProblem(
        lambda q, v, a: 0.5 * a @ a,
        [da.Nonholonomic(lambda q, v: v[0] - 1.0), da.SecondOrder(lambda q, v, a: a[1] - v[0])],
        derivatives=2,
    )
    with pytest.raises(ValueError, match="some of order 1 and some of order 2"):
        da.systems.ostrogradsky(twice, ROD_JETS, TIMES)
    with pytest.raises(ValueError, match=r"multipliers: found shape \(2, 1\); .* shape \(1, 1\)"):
        da.systems.ostrogradsky(ROD, ROD_JETS, TIMES, multipliers=[[0.1], [0.2]])
    flat = da.VariationalProblem(lambda q, v, a: 0.5 * a[0] ** 2, da.Holonomic(lambda q: q[0]), derivatives=2)
    with pytest.raises(da.RankDeficientError, match="singular Lagrangian"):
        da.systems.ostrogradsky(flat, np.zeros((4, 2)), TIMES)
