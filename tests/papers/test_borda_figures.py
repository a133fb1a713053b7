"""Figures 2, 3, 5 and 6 of Borda, Fernández, Grillo as they are drawn, and equation (10), against the theory."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import dalembert as da
from dalembert.gallery import inertia_wheel_pendulum
from dalembert.measure import node_view
from papers.borda_fernandez_grillo import one_equation, particle, particle_figures, pendulum, pendulum_figures
from papers.convergence import ONE_STEP, PRINTED
from papers.drawing import panels

P = inertia_wheel_pendulum.PARAMETERS

SCHEME = da.Scheme.borda_fernandez_grillo()


@pytest.fixture(scope="module")
def circle():
    return particle.run(PRINTED, 0.1, 500.0)


@pytest.fixture(scope="module")
def swing():
    return pendulum.run(PRINTED, 0.1, 2000.0)


def on_the_circle(t):
    """x of the particle, whose curvature is 1 and whose speed √2."""
    return np.cos(np.sqrt(2) * t - np.pi / 4) - np.sqrt(2) / 2


@pytest.fixture(scope="module")
def swinging():
    """(θ, ψ, p₁, p₂) of the pendulum at times of the first 60, by SciPy."""
    h_c, g_c, _ = inertia_wheel_pendulum.gains(P)

    def rate(_, y):
        speed, torque = (y[2] - y[3]) / P["I"], P["M"] * np.sin(y[0])
        k = torque * (g_c - P["e"] / P["I"]) / h_c - P["chi"] / (P["I"] * P["J"]) * np.sin(y[1] - P["n"] * y[0])
        return [speed, y[3] / P["J"] - speed, torque, -P["rho"] * np.tanh(g_c * y[2] + h_c * y[3]) - k]

    begin = [0.5, 0, 0.5 * P["J"], 0.5 * P["J"]]
    return solve_ivp(rate, (0, 60), begin, "DOP853", rtol=1e-10, atol=1e-10, dense_output=True).sol


def drawn(draw, *arguments):
    """The curves of a figure: name of the panel by its labels, and its lines' data."""
    import matplotlib.pyplot as plt

    figures = {}
    draw(lambda name, figure: figures.update({name: figure}), *arguments)
    ((name, figure),) = figures.items()
    lines = [[np.asarray(line.get_xydata()) for line in axes.lines] for axes in figure.axes]
    titles = [axes.get_title() for axes in figure.axes]
    plt.close(figure)
    return name, lines, titles


def test_figure_2(circle):
    """Equal sides that turn by α at every node, 2 sin(α/2) = k s cos²(α/2); nearly half a turn late at the end."""
    name, panels, _ = drawn(particle_figures.figure_2, SimpleNamespace(path=circle))
    assert name == "figure_2"
    plane, x0, x1 = panels[0][0], panels[1], panels[2]
    sides = np.diff(plane, axis=0)
    np.testing.assert_allclose(np.linalg.norm(sides, axis=1), 0.1 * np.sqrt(2), rtol=1e-11)
    direction = np.unwrap(np.arctan2(sides[:, 1], sides[:, 0]))
    turn = brentq(lambda a: 2 * np.sin(a / 2) - 0.1 * np.sqrt(2) * np.cos(a / 2) ** 2, 0.0, 1.0, xtol=1e-15)
    np.testing.assert_allclose(np.diff(direction), turn, rtol=0, atol=1e-11)
    late = np.sqrt(2) * 500.0 - (direction[-1] - direction[0] + turn)
    assert late == pytest.approx(2.919, abs=1e-3)
    for exact, points in (x0, x1):  # the closed form, and the nodes of ten time units
        np.testing.assert_allclose(exact[:, 1], on_the_circle(exact[:, 0]), rtol=0, atol=1e-12)
        assert len(points) >= 100
    (early,), (last,) = (np.abs(np.interp(p[:, 0], e[:, 0], e[:, 1]) - p[:, 1]).max(keepdims=True) for e, p in (x0, x1))
    assert early == pytest.approx(0.155, abs=0.01)
    assert 1.9 < last < 2.1


def test_figure_3():
    """Every point is the largest distance from the closed form, and the line is fitted to all of them."""
    errors = []
    for h in particle.STEPS:
        path = particle.run(PRINTED, h, particle.TIME)
        errors.append(np.abs(path.q[:, 0] - on_the_circle(np.asarray(path.t))).max())
    slope, title = points_on_their_line(particle_figures.figure_3, particle.convergence(PRINTED, particle.TIME), errors)
    assert f"{slope:.2f} (printed: 1.6)" in title


def test_figure_6(swinging):
    """The same over the first 60 time units of 2000, against SciPy; test_borda_fernandez_grillo has the errors of all."""
    times = pendulum.STEPS[-1] * np.arange(4801)
    exact = SimpleNamespace(t=times, q=swinging(times)[:2].T)
    paths = [pendulum.run(PRINTED, h, 60.0) for h in pendulum.STEPS]
    errors = [np.abs(path.q[:, 0] - swinging(np.asarray(path.t))[0]).max() for path in paths]
    found = pendulum.convergence(PRINTED, 60.0, exact, pendulum.STEPS)[0]
    slope, title = points_on_their_line(pendulum_figures.figure_6, found, errors)
    assert f"{slope:.2f} (printed: 1.3)" in title


def points_on_their_line(figure, found, errors):
    """The slope of the drawn line, and the title, of a figure whose points are these errors."""
    name, ((points, fitted),), (title,) = drawn(figure, found)
    assert name == figure.__name__
    np.testing.assert_allclose(points, np.column_stack([found.h, errors]), rtol=1e-8)
    slope = np.ptp(np.log(fitted[:, 1])) / np.ptp(np.log(fitted[:, 0]))
    assert slope == pytest.approx(np.polyfit(np.log(found.h), np.log(errors), 1)[0], rel=1e-6)
    return slope, title


def test_figure_5(swing, swinging):
    """θ dies out, ψ stops and V falls, by the motion of (p₁, p₂) integrated by SciPy over the first 60 time units."""
    name, panels, _ = drawn(pendulum_figures.figure_5, SimpleNamespace(path=swing))
    theta, psi, value = (lines[0] for lines in panels)
    assert name == "figure_5"
    assert np.abs(theta[theta[:, 0] > 1000.0, 1]).max() == pytest.approx(0.01066, abs=1e-5)
    assert [value[round(10 * t) - 1, 1] for t in (500, 1000)] == pytest.approx([262.2, 200.1], abs=0.1)
    exact = swinging(theta[:599, 0])
    speeds = np.stack([(exact[2] - exact[3]) / P["I"], exact[3] / P["J"] - (exact[2] - exact[3]) / P["I"]])
    values = [
        float(inertia_wheel_pendulum.lyapunov(q, v, P)) for q, v in zip(exact[:2].T[::50], speeds.T[::50], strict=True)
    ]
    assert np.abs(theta[:599, 1] - exact[0]).max() < 0.15  # of the printed start
    assert np.abs(psi[:599, 1] - exact[1]).max() < 0.15 * np.ptp(psi[:, 1])
    assert np.abs(value[:599:50, 1] - values).max() < 0.01 * 14770.0  # on the scale of the figure


def test_the_end_of_v_has_no_pole():
    """While the oscillation still lasts V is above 2χ, and the phase alone does not describe it."""
    path = ONE_STEP.simulate(
        pendulum.ENTRY.system, pendulum.ENTRY.q0, pendulum.ENTRY.v0, 0.1, 4000.0, save=da.Save(every=100)
    )
    ((values, crept),) = drawn(draw_late, path)[1]
    assert values[0, 1] > 1e4
    assert crept[0, 0] == pytest.approx(1710.0)
    np.testing.assert_allclose(crept, values[-len(crept) :], rtol=2e-4)
    with pytest.raises(ValueError, match="between 0 and 2χ"):
        pendulum.creeping(np.arange(3.0), 2.01 * P["chi"])


def draw_late(save, path):
    figure, axes = panels(size=(4, 3))
    pendulum_figures.late_values(axes[0, 0], SimpleNamespace(late=path))
    save("late", figure)


def test_the_orders_of_figure_6_are_those_of_small_steps():
    """Slopes over four steps or more, between which they no longer change, also with the fast setting."""
    measured = pendulum.measure(fast=True)
    for result, order in zip(measured.long + measured.short, (1, 2, 1, 2), strict=True):
        assert result.asymptotic_slope() == pytest.approx(order, abs=0.02)
        assert result.error.min() > 1e-6  # the reference is right to 3e-9
    assert np.isnan(measured.long[0].first(6).asymptotic_slope()), "three steps are not enough"
    figures = {}
    pendulum_figures.figure_6_corrected(lambda name, figure: figures.update({name: figure}), measured)
    legends = [[x.get_text() for x in axes.get_legend().get_texts()] for axes in figures["figure_6_corrected"].axes]
    assert legends == [["printed start: 1.00", "one step form: 2.00"], ["printed start: 0.99", "one step form: 2.00"]]


def test_equation_10_is_the_step(swing):
    """A as printed; the run's θ₂ are roots, and so is u = 0; its derivative is the determinant of (8) and (9)."""
    equation, theta = one_equation.along(swing)
    h, u, (h_c, _, _) = 0.1, equation.factor(theta), inertia_wheel_pendulum.gains(P)
    printed = -P["d"] * P["I"] ** 2 * (P["I"] + (P["n"] + 1) * P["J"]) / (2 * h**3)
    assert float(equation.A) == pytest.approx(printed, rel=1e-13)
    size = equation.A * np.sum(np.abs([swing.q[i : len(theta) + i, 0] for i in range(3)]), axis=0) ** 2
    assert np.max(np.abs(equation.left(theta)) / size) < 1e-12
    assert np.max(np.abs(equation.left(-equation.E / equation.D)) / size) < 1e-12
    physical = -u * (P["I"] / h**2 + P["rho"] * h_c * P["I"] / (2 * h) / np.cosh(np.minimum(np.abs(u), 300.0)) ** 2)
    np.testing.assert_allclose(equation.derivative(theta), physical, rtol=1e-6, atol=1e-9 * np.abs(physical).max())
    assert np.count_nonzero(np.diff(np.sign(equation.derivative(theta)))) == int(swing.statistics.crossings) == 1337
    view, q = node_view(pendulum.ENTRY.system, SCHEME, h, 2), jnp.asarray(swing.q)
    for i in (3, 280, 5000):
        equations = lambda x, i=i: view.equations(q[i], q[i + 1], x, jnp.zeros(1), i * h)  # noqa: E731
        free, _, kinematic = np.asarray(jax.jacfwd(equations)(q[i + 2]))  # (9), times -h
        determinant = np.linalg.det(np.stack([kinematic, -free / h]))
        assert determinant == pytest.approx(equation.derivative(theta)[i] * P["J"] / h**2, rel=1e-7)


def test_the_flow_is_regular_as_far_as_the_determinant_says(swing):
    """Theorem 5.1: the smallest singular value falls with u, where the roots cross, and is far from zero elsewhere."""
    equation, theta = one_equation.along(swing)
    i = int(np.argmin(np.abs(equation.factor(theta))))
    near, far = (da.measure.regularity(pendulum.ENTRY.system, swing.q[k : k + 3], h=0.1, scheme=SCHEME) for k in (i, 0))
    assert near.forward.smallest[0] < 1e-4 * far.forward.smallest[0]
    assert far.regular
