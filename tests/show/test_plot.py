"""Figures: what is drawn, and that nothing else happens."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.show.panels import envelope

PENDULUM = ENTRIES["pendulum"]


def run(name, steps=30, **choices):
    entry = ENTRIES[name]
    return da.simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=steps, **choices)


def labels(figure) -> list[str]:
    return [ax.get_ylabel() for ax in figure.axes]


def test_coordinates_multipliers_and_forces_at_their_own_times():
    path = run("nonholonomic_particle")
    figure = da.plot(path, velocities=True)
    assert labels(figure)[:6] == ["x", "y", "z", "velocities", "λ", "force Rᵀλ"]
    by_label = {ax.get_ylabel(): ax.lines for ax in figure.axes}
    np.testing.assert_array_equal(by_label["x"][0].get_xdata(), path.t)
    np.testing.assert_array_equal(by_label["λ"][0].get_xdata(), path.t_multipliers)
    np.testing.assert_array_equal(by_label["λ"][0].get_ydata(), path.multipliers[:, 0])
    assert [line.get_label() for line in by_label["force Rᵀλ"]] == ["force on x", "force on z"]


def test_the_control_law_is_one_panel():
    figure = da.plot(run("inertia_wheel_pendulum", steps=20))
    assert labels(figure)[:3] == ["θ", "ψ", "force on ψ (λ)"]


@pytest.mark.parametrize(("name", "curves"), [("pendulum", 0), ("curvature_particle", 1), ("spherical_pendulum", 1)])
def test_a_curve_is_drawn_for_two_and_three_coordinates(name, curves, tmp_path):
    figure = da.plot(run(name), title="A title")
    assert sum(bool(ax.collections) and ax.get_ylabel() == "y" for ax in figure.axes) == curves
    for ending in ("png", "pdf", "svg"):
        figure.savefig(tmp_path / f"figure.{ending}")
        assert (tmp_path / f"figure.{ending}").stat().st_size > 1000


def test_a_failed_run_says_where_and_why():
    path = run("pendulum", stop=da.Stop(domain=lambda q, v, p: q[0] > 0.5), throw=False)
    figure = da.plot(path)
    assert f"left domain in step {path.steps} at t = {float(path.t[-1]):g}" in figure.get_suptitle()
    assert any(np.allclose(line.get_xdata(), path.statistics.failed_time) for line in figure.axes[0].lines)


def test_a_run_without_a_solved_step_can_be_drawn(tmp_path):
    path = run("curvature_particle", stop=da.Stop(domain=lambda q, v, p: q[0] > 9), throw=False)
    assert path.q.shape == (1, 2)
    da.plot(path).savefig(tmp_path / "figure.png")


def test_an_envelope_keeps_the_extremes_of_a_long_series():
    t = np.linspace(0.0, 1.0, 300_001)
    y = np.sin(9000 * t) * (1 - t)
    y[123_456], y[77_777], y[200_000] = 5.0, -7.0, np.nan
    kept = envelope(t, y, columns=500)
    assert kept.size <= 4 * 500 + 1
    assert np.all(np.diff(kept) > 0)
    assert {0, 123_456, 77_777, 200_000, 300_000} <= set(kept.tolist())
    for part in (slice(600 * i, 600 * (i + 1)) for i in (3, 450)):
        inside = kept[(kept >= part.start) & (kept < part.stop)]
        assert y[inside].max() == y[part].max()
        assert y[inside].min() == y[part].min()


def test_a_short_series_is_drawn_as_it_is():
    np.testing.assert_array_equal(envelope(np.arange(9.0), np.ones(9), columns=3), np.arange(9))


def test_a_long_path_of_many_coordinates(tmp_path):
    t, n = np.linspace(0, 900, 200_001), 30
    path = run("pendulum", steps=2)
    leaves = {"t": t, "q": np.sin(t)[:, None] * np.arange(1, n + 1), "t_velocity": t, "v": np.zeros((t.size, n))}
    path = da.Path(**{**vars(path), **leaves, "provenance": None})
    figure = da.plot(path)
    assert labels(figure)[0] == "q₀ q₁"
    assert max(line.get_xdata().size for ax in figure.axes for line in ax.lines) <= 8000
    figure.savefig(tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").stat().st_size < 3e6


def test_a_constant_looks_constant():
    figure = da.plot(run("curvature_particle"))
    low, high = next(ax for ax in figure.axes if ax.get_ylabel() == "λ").get_ylim()
    assert high - low > 0.1


def test_rounding_around_zero_looks_like_zero():
    plane = da.System(lambda q, v: 0.5 * v @ v, coordinates=("x", "y"))
    path = da.simulate(plane, [0.0, 1e-36], [1.0, 1e-36], h=0.1, steps=10)
    figure = da.plot(path)
    assert figure.axes[1].get_ylim() == (-1.0, 1.0)
    tiny = da.simulate(plane, [0.0, 1e-12], [1.0, 1e-12], h=0.1, steps=10)
    assert da.plot(tiny).axes[1].get_ylim()[1] < 1e-11


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="path: found list"):
        da.plot([])
    with pytest.raises(ValueError, match="curve: the path has n = 1"):
        da.plot(run("pendulum"), curve=True)
    lanes = jax.vmap(lambda x: da.simulate(PENDULUM.system, [x], [0.0], h=0.1, steps=2))(jnp.array([0.1, 0.2]))
    with pytest.raises(ValueError, match="plot one lane"):
        da.plot(lanes)
    da.plot(jax.tree.map(lambda x: x[0], lanes))


def test_plotting_leaves_pyplot_and_the_back_end_alone():
    program = (
        "import sys, dalembert as da; from dalembert.gallery.pendulum import entry as e;"
        "da.plot(da.simulate(e.system, e.q0, e.v0, h=0.1, steps=3)); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


def test_a_solution_is_drawn_too():
    beam = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + q[0], lambda q, v, a: v[1] - q[0], derivatives=2)
    solution = da.solve(beam, initial=([0.0, 0.0],), final=([0.0, 1.0],), T=1.0, steps=6)
    figure = da.plot(solution, title="beam", exact=lambda t: np.zeros((*np.shape(t), 2)))
    assert labels(figure) == ["q", "dq/dt", "d²q/dt²", "λ"]
    np.testing.assert_array_equal(figure.axes[0].lines[-1].get_ydata(), solution.q[:, 1])
    np.testing.assert_array_equal(figure.axes[3].lines[0].get_xdata(), solution.t_multipliers)
    with pytest.raises(ValueError, match="velocities, curve: belong to the figure of a Path"):
        da.plot(solution, velocities=True)
    with pytest.raises(ValueError, match="exact: belongs to the figure of a Solution"):
        da.plot(run("pendulum", steps=3), exact=np.sin)
    with pytest.raises(TypeError, match="path: found dict"):
        da.plot({})
