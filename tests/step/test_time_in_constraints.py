"""Constraints of order 2 that contain the time, in a DiscreteSystem and in a VariationalProblem, against motions by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad_vec, solve_ivp

import dalembert as da

START = 0.7  # t0: a clock that starts at 0 would not tell one time from another


def curvature(t, xp=jnp):
    return 1.0 + 0.5 * xp.sin(3.0 * t)


def curve(h, begin=0.0, **options):
    """|v|²/2 and (ẋÿ - ẍẏ)/|v|³ = κ(t), by central differences at the second of three points; forces across the velocity."""

    def lagrangian(q0, q1, t):
        return 0.5 * (q1 - q0) @ (q1 - q0) / h

    def kinematic(q0, q1, q2, t):
        v, a = (q2 - q0) / (2 * h), (q2 - 2 * q1 + q0) / h**2
        return (v[0] * a[1] - v[1] * a[0]) / (v @ v) ** 1.5 - curvature(t + h - begin)

    def virtual(q0, q1, q2, t):
        return (q2 - q0) / (2 * h)

    return da.DiscreteSystem(lagrangian, kinematic, virtual=virtual, time_dependent=True, **options)


def place(t):
    """Speed √2 and heading π/4 + √2∫κ."""
    heading = lambda s: np.pi / 4 + np.sqrt(2) * ((s - START) - (np.cos(3 * s) - np.cos(3 * START)) / 6)  # noqa: E731
    rate = lambda s: np.sqrt(2) * np.array([np.cos(heading(s)), np.sin(heading(s))])  # noqa: E731
    return quad_vec(rate, START, t, epsabs=1e-13)[0]


def test_a_discrete_system_against_the_closed_form():
    errors = []
    for steps in (40, 80):
        h = 2.0 / steps
        nodes = [place(START), place(START + h)]
        path = da.simulate(curve(h), start=da.Start(nodes=nodes), h=h, steps=steps, t0=START)
        errors.append(np.abs(path.q[-1] - place(START + 2.0)).max())
        left = da.measure.constraint_residual(curve(h), path)[0]
        assert left.largest < 1e-9
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
    assert errors[1] < 3e-3


def test_a_discrete_system_against_a_system():
    """The same equations, assembled from continuous ones by other code; both back-ends; a clock that is set back."""
    h = 0.05
    system = da.System(
        lambda q, v, t: 0.5 * v @ v,
        da.SecondOrder(
            lambda q, v, a, t: (v[0] * a[1] - v[1] * a[0]) / (v @ v) ** 1.5 - curvature(t),
            virtual=lambda q, v, a, t: v,
        ),
        time_dependent=True,
    )
    scheme = da.Scheme.borda_fernandez_grillo()
    path = da.simulate(
        system, [0.0, 0.0], [1.0, 1.0], h=h, steps=20, t0=START, scheme=scheme, start=da.Start(starter="first_order")
    )
    for backend in ("native", "jax"):
        direct = da.simulate(
            curve(h), start=da.Start(nodes=path.q[:2]), h=h, steps=20, t0=START, solver=da.Solver(backend=backend)
        )
        np.testing.assert_allclose(direct.q, path.q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(direct.multipliers, path.multipliers, rtol=0, atol=1e-9)
    later = da.simulate(curve(h, begin=5.0), start=da.Start(nodes=path.q[:2]), h=h, steps=20, t0=START + 5.0)
    np.testing.assert_allclose(later.q, path.q, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"time_dependent: found True; .* to DiscreteSystem itself"):
        da.DiscreteSystem.holonomic(lambda a, b, t: 0.0, lambda q, t: q @ q - t, time_dependent=True)


# δ∫ ½|a|² - ½c|v|² + λ(ẏ-acceleration constraint): ÿ = κ(t) cos x fixes y by x, and the variation gives, with λ,
#   x⁗ + c ẍ = λ κ sin x  (from -λκcos x),   d²/dt²(ÿ + λ) + c ÿ = 0.
C = 0.8
BENT = da.VariationalProblem(
    lambda q, v, a, t: 0.5 * a @ a - 0.5 * C * v @ v,
    da.SecondOrder(lambda q, v, a, t: a[1] - curvature(t) * jnp.cos(q[0])),
    derivatives=2,
    time_dependent=True,
)


def bent():
    """(x, ẋ, ẍ, x⃛, y, ẏ, λ, λ̇)(t): with s = κ cos x = ÿ and λ̈ = -s̈ - cs."""

    def rates(t, z):
        x, v, a, j, _, w, free, slope = z
        k, k1, k2 = curvature(t, np), 1.5 * np.cos(3 * t), -4.5 * np.sin(3 * t)
        second = k2 * np.cos(x) - 2 * k1 * np.sin(x) * v - k * (np.cos(x) * v**2 + np.sin(x) * a)
        return [v, a, j, -C * a - free * k * np.sin(x), w, k * np.cos(x), slope, -second - C * k * np.cos(x)]

    begin = [0.3, 0.5, 0.2, -0.4, 0.1, -0.3, 0.6, -0.2]
    return begin, solve_ivp(rates, (START, START + 1.0), begin, "DOP853", rtol=1e-12, atol=1e-13, dense_output=True).sol


def test_a_variational_problem_of_order_2():
    begin, exact = bent()
    x, v, a, j, y, w, free, slope = begin
    t, k, k1 = START, curvature(START, np), 1.5 * np.cos(3 * START)
    jets = [[x, y], [v, w], [a, k * np.cos(x)], [j, k1 * np.cos(x) - k * np.sin(x) * v]]
    given = {"start": da.Start(jets=jets, multipliers=[[free], [slope]]), "t0": t}
    flow = da.systems.ostrogradsky(BENT, jets, [t, t + 0.5, t + 1.0], multipliers=given["start"].multipliers)
    np.testing.assert_allclose(flow.q, exact(np.asarray(flow.t))[[0, 4]].T, rtol=0, atol=1e-9)
    np.testing.assert_allclose(flow.multipliers[:, 0], exact(np.asarray(flow.t))[6], rtol=0, atol=1e-8)
    errors = []
    for steps in (40, 80):
        path = da.simulate(BENT, h=1.0 / steps, steps=steps, **given)
        off = np.abs(path.q - exact(np.asarray(path.t))[[0, 4]].T).max()
        errors.append([off, np.abs(path.multipliers[:, 0] - exact(np.asarray(path.t_multipliers))[6]).max()])
    np.testing.assert_allclose(np.log2(np.array(errors[0]) / errors[1]), 2.0, rtol=0, atol=0.15)
