"""Figures and pages of measurements, of verdicts, and of several results in one picture."""

import base64
import dataclasses
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES

PENDULUM = ENTRIES["pendulum"]
SCHEMES = {"midpoint": da.Scheme(), "order 4": da.Scheme(order=4)}
H = [0.2, 0.1, 0.05]


@pytest.fixture(scope="module")
def orders():
    start = PENDULUM.system, PENDULUM.q0, PENDULUM.v0
    return {name: da.measure.order(*start, time=1.0, h=H, scheme=scheme) for name, scheme in SCHEMES.items()}


@pytest.fixture(scope="module")
def paths():
    start = PENDULUM.system, PENDULUM.q0, PENDULUM.v0
    return {name: da.simulate(*start, h=0.1, steps=20, scheme=scheme) for name, scheme in SCHEMES.items()}


@pytest.fixture(scope="module")
def energies(paths):
    return {name: da.measure.energy(PENDULUM.system, path) for name, path in paths.items()}


@pytest.fixture(scope="module")
def verdict():
    return da.verdict(PENDULUM.system, None, PENDULUM.q0, PENDULUM.v0, h=0.1, steps=20)


def curve(ax, label):
    (line,) = [line for line in ax.lines if line.get_label().startswith(label)]
    return line


@pytest.fixture
def axes():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_orders_of_schemes_have_a_diagram_for_each_quantity(orders):
    figure = da.plot(orders, title="Two schemes")
    assert [ax.get_ylabel() for ax in figure.axes] == ["error of q", "error of v"]
    for ax in figure.axes:
        assert ax.get_xscale() == ax.get_yscale() == "log"
    line = curve(figure.axes[0], "midpoint, slope 2.0")
    np.testing.assert_array_equal(line.get_xdata(), H)
    np.testing.assert_array_equal(line.get_ydata(), orders["midpoint"].q.error)
    assert [text.get_text() for text in figure.axes[0].texts] == ["h²", "h⁴"]


def test_a_guide_has_the_slope_that_it_names(orders):
    (ax,) = da.plot(orders["midpoint"]).axes
    (guide,) = [line for line in ax.lines if line.get_linestyle() == "--"]
    slope = np.diff(np.log(guide.get_ydata())) / np.diff(np.log(guide.get_xdata()))
    np.testing.assert_allclose(slope, 2.0, rtol=1e-12)


def test_errors_that_are_not_in_the_fit_are_empty_dots(axes):
    fit = da.measure.Convergence(np.array(H), np.array([0.4, 0.1, 0.0]), np.zeros(3), ("fitted", "no decrease", "floor"))
    da.plot(fit, ax=axes, color="k")
    solid, hollow = axes.lines
    assert hollow.get_markerfacecolor() == "#ffffff"
    np.testing.assert_array_equal(hollow.get_ydata(), [np.nan, 0.1, np.nan])
    assert solid.get_color() == hollow.get_color() == "k"


def test_energies_of_schemes_share_their_axes(energies):
    (ax,) = da.plot(energies, linewidth=2.0).axes
    for name, energy in energies.items():
        np.testing.assert_array_equal(curve(ax, name).get_ydata(), energy.drift)
        assert curve(ax, name).get_linewidth() == 2.0
    both = da.plot({"energy": energies, "momentum": energies})
    assert [ax.get_ylabel() for ax in both.axes] == ["change of energy", "change of momentum"]


def test_a_residual_and_a_balance_are_drawn():
    entry = ENTRIES["nonholonomic_particle"]
    path = da.simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=20)
    (residual,) = da.measure.constraint_residual(entry.system, path)
    (ax,) = da.plot(residual).axes
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), residual.values[:, 0])
    balance = da.measure.momentum_balance(entry.system, path, lambda q, p: [1.0, 0.0, 0.0])
    (ax,) = da.plot(balance).axes
    change, work = (line.get_ydata() for line in ax.lines)
    np.testing.assert_allclose(change, work, rtol=0, atol=1e-12)


def test_a_claim_that_holds_is_left_of_the_line(verdict):
    (ax,) = da.plot(verdict).axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [claim.claim for claim in verdict.claims]
    measured = [claim for claim in verdict.claims if not np.isnan(claim.measured)]
    dots = [float(line.get_xdata()[0]) for line in ax.lines if line.get_marker() == "o"]
    assert len(dots) == len(measured)
    assert max(dots) <= 1.0
    assert verdict.holds


def test_a_claim_that_fails_is_right_of_the_line(verdict):
    worse = [dataclasses.replace(c, measured=10 * c.tolerance, finding=da.claims.Finding.FAILS) for c in verdict.claims[:1]]
    (ax,) = da.plot(dataclasses.replace(verdict, claims=tuple(worse))).axes
    (cross,) = [line for line in ax.lines if line.get_marker() == "X"]
    np.testing.assert_allclose(cross.get_xdata(), 10.0, rtol=1e-12)


def test_paths_share_the_axes_of_each_quantity(paths):
    (ax,) = da.plot(paths).axes
    for name, path in paths.items():
        np.testing.assert_array_equal(curve(ax, name).get_ydata(), path.q[:, 0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(paths)


def test_curves_of_paths_share_one_plane_in_colours_of_their_own():
    entry = ENTRIES["vertical_rolling_disk"]
    paths = [da.simulate(entry.system, entry.q0, entry.v0, h=h, steps=10) for h in (0.1, 0.05)]
    figure = da.plot(paths, coordinates=("x", "y"))
    plane = next(ax for ax in figure.axes if ax.get_xlabel() == "x")
    np.testing.assert_array_equal(curve(plane, "1").get_xdata(), paths[0]["x"])
    assert curve(plane, "1").get_color() != curve(plane, "2").get_color()
    low, high = plane.get_ylim()
    assert all(low < float(y) < high for path in paths for y in path["y"])


def test_a_path_is_drawn_into_the_users_axes(axes):
    entry = ENTRIES["vertical_rolling_disk"]
    path = da.simulate(entry.system, entry.q0, entry.v0, h=0.1, steps=10)
    assert da.plot(path, ax=axes, coordinates=("x", "y"), label="a disk", color="k") is axes.figure
    np.testing.assert_array_equal(curve(axes, "a disk").get_ydata(), path["y"])
    assert curve(axes, "a disk").get_color() == "k"
    assert axes.get_xlabel() == "x"
    axes.clear()
    da.plot(path, ax=axes, coordinates=("x", "y"), curve=False)
    assert axes.get_xlabel() == "t"
    assert [line.get_label() for line in axes.lines] == ["x", "y"]


def test_a_further_plot_into_the_same_axes_has_another_colour(paths, axes):
    for path in paths.values():
        da.plot(path, ax=axes)
    first, second = axes.lines
    assert first.get_color() != second.get_color()


def test_a_solution_and_a_study_are_drawn_into_the_users_axes(axes):
    solution = da.solve(da.VariationalProblem(lambda q, v: 0.5 * v @ v), initial=([0.0],), final=([1.0],), T=1.0, steps=4)
    da.plot(solution, ax=axes, title="straight")
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), solution.q[:, 0])
    assert axes.get_title() == "straight"
    axes.clear()
    study = da.sweep(PENDULUM.system, {"q0": [[0.1], [0.2]]}, {"v0": [0.0], "h": 0.1, "steps": 4})
    da.plot(study, ax=axes, marker="s", value="steps_done")
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [4, 4])
    assert axes.lines[0].get_marker() == "s"


def test_mistakes_are_named(orders, paths, verdict, axes):
    with pytest.raises(TypeError, match=r"path: item 1 is Order; .*of one kind"):
        da.plot([orders["midpoint"], verdict])
    with pytest.raises(ValueError, match="ax: these are 2 diagrams"):
        da.plot(orders, ax=axes)
    with pytest.raises(TypeError, match="ax: found 3; give axes of matplotlib"):
        da.plot(verdict, ax=3)
    with pytest.raises(
        TypeError, match=r"zzz: plot has no such argument; there are ax, .*, the keywords of matplotlib's lines$"
    ):
        da.plot(paths, zzz=1)
    with pytest.raises(TypeError, match="overwrite: page has no such argument; a file of that name is replaced"):
        da.page(paths, "run.html", overwrite=True)
    with pytest.raises(TypeError, match="velocites: plot has no such argument; did you mean velocities="):
        da.plot(paths, velocites=True)
    with pytest.raises(
        ValueError, match="velocities, curve, exact, coordinates: do not belong to the figure of a measurement"
    ):
        da.plot(verdict, velocities=True)
    sphere = ENTRIES["spherical_pendulum"]
    with pytest.raises(ValueError, match="path: item 2 has the coordinates x, y, z"):
        da.plot([paths["midpoint"], da.simulate(sphere.system, sphere.q0, sphere.v0, h=0.1, steps=2)])


def pictures(text):
    found = re.findall(r'(?:src|srcset)="data:image/svg\+xml;base64,([^"]*)"', text)
    return [base64.b64decode(one).decode() for one in found]


def test_a_page_of_a_measurement_is_its_figure_light_and_dark_and_runs_nothing(orders, tmp_path):
    da.page(orders, tmp_path / "orders.html", title="Two schemes")
    text = (tmp_path / "orders.html").read_text(encoding="utf-8")
    dark, light = pictures(text)
    assert light.count("<svg") == dark.count("<svg") == 1
    assert light != dark
    assert "<script" not in text
    assert "slope 2.0" in text or "slope 1.9" in text


def test_a_page_has_paths_beside_measurements(paths, energies, verdict, tmp_path):
    da.page({"run": paths["midpoint"], "energy": energies, "claims": verdict}, tmp_path / "all.html")
    text = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert len(pictures(text)) == 4
    assert '<script type="application/json"' in text


def test_the_page_of_a_study_has_its_figure(tmp_path):
    study = da.sweep(PENDULUM.system, {"q0": [[0.1], [0.2]]}, {"v0": [0.0], "h": 0.1, "steps": 4})
    da.page(study, tmp_path / "study.html")
    assert len(pictures((tmp_path / "study.html").read_text(encoding="utf-8"))) == 2
