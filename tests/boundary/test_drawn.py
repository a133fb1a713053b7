"""Guesses that multistart draws lie on the constraints, those on velocities too, and more of them lead somewhere."""

import importlib

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import dalembert as da
from dalembert.boundary import Asked, Request, TimeGrid, settings, smooth_start
from dalembert.boundary.kinds import SmoothStart
from dalembert.gallery import knife_edge

REST = knife_edge.REST

multistart = importlib.import_module("dalembert.boundary.starts")
SIDEWAYS = {"initial": (REST, REST), "final": ((0.0, 1.0, 0.0), REST), "T": knife_edge.TIME, "steps": 40}


def slip(path, t):
    """-sin θ ẋ + cos θ ẏ half way between the nodes."""
    v, angle = np.diff(path, axis=-2) / np.diff(t)[:, None], 0.5 * (path[..., 1:, 2] + path[..., :-1, 2])
    return -np.sin(angle) * v[..., 0] + np.cos(angle) * v[..., 1]


def guesses_of(monkeypatch, call):
    """What `_draw` draws in a call."""
    seen, drawn = [], multistart._draw
    monkeypatch.setattr(multistart, "_draw", lambda *given: seen.append((given[0].t, drawn(*given))) or seen[-1][1])
    return call(), *seen[0]


def test_guesses_for_a_knife_edge_do_not_slip_and_all_lead_somewhere(monkeypatch):
    found, t, paths = guesses_of(monkeypatch, lambda: da.multistart(knife_edge.knife_edge(), 12, **SIDEWAYS))
    assert np.max(np.abs(slip(paths, t))) < 1e-5
    ends = np.broadcast_to([REST, (0.0, 1.0, 0.0)], (12, 2, 3))
    np.testing.assert_allclose(paths[:, [0, -1]], ends, rtol=0, atol=1e-14)
    assert np.ptp(paths[:, 20], axis=0).min() > 0.1  # and are as different as before
    assert found.failed == 0
    beside = SmoothStart.beside
    monkeypatch.setattr(SmoothStart, "beside", lambda self, ways: beside(self._replace(onto=None), ways))
    before = da.multistart(knife_edge.knife_edge(), 12, **SIDEWAYS)
    np.testing.assert_allclose(found.solutions[0].cost, before.solutions[0].cost, rtol=1e-9)


def test_constraints_of_a_variational_problem_on_velocities_and_positions():
    """A car of least acceleration on a cylinder of radius 1000, in these units: φ(q, v) between the nodes, φ(q) at them."""
    far = 1000.0
    car = da.VariationalProblem(
        lambda q, v, a: 0.5 * a @ a, [
            lambda q, v, a: (-jnp.sin(q[2]) * v[0] + jnp.cos(q[2]) * v[1]) / far,
            da.Holonomic(lambda q: (q[0] ** 2 + q[3] ** 2) / far**2 - 1.0),
        ], derivatives=2,
    )  # fmt: skip
    ends = Request(([0.0, 0.0, 0.0, far],), ([0.5 * far, 0.2 * far, 0.0, np.sqrt(0.75) * far],))
    asked = Asked(ends, TimeGrid(2.0, 20, None), None, None, settings(da.Solver(tolerance=1e-9, max_iterations=10)), False)
    paths, t = multistart._draw(smooth_start(car, asked), 3, 0.5, 0), np.linspace(0.0, 2.0, 21)
    assert np.max(np.abs(slip(paths, t))) < 1e-5 * far
    np.testing.assert_allclose(np.hypot(paths[..., 0], paths[..., 3]), far, rtol=1e-7)


def test_what_cannot_be_met_is_met_as_well_as_it_can():
    """x ẋ = 1 from x = 0 to x = 0 has no path; the sum of squares of the misses falls, and nothing becomes infinite."""
    away = da.VariationalProblem(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: q * v - 1.0))
    options = settings(da.Solver(tolerance=1e-9, max_iterations=10))
    start = smooth_start(away, Asked(Request(([0.0],), ([0.0],)), TimeGrid(1.0, 10, None), None, None, options, False))

    def misses(path):
        return 0.5 * np.diff(path[:, 0] ** 2) / 0.1 - 1.0

    wave = np.sin(np.pi * start.t)[:, None]
    moved = start.beside(wave[None])[0]
    assert np.all(np.isfinite(moved))
    assert np.sum(misses(moved) ** 2) < np.sum(misses(wave) ** 2)
    np.testing.assert_allclose(moved[[0, -1]], 0.0, rtol=0, atol=1e-15)


ELASTICA = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.SecondOrder(lambda q, v, a: v @ a), derivatives=2)
CLAMPED = {"initial": ([0.0, 0.0], [1.0, 0.0]), "final": ([0.6, 0.0], [1.0, 0.0]), "T": 1.0, "steps": 40}


def test_a_clamped_elastica_needs_no_guess():
    """The smooth path is straight, and no straight one has the length 1; a bow is found."""
    t = np.linspace(0.0, 1.0, 41)
    bow = np.stack([0.6 * t, 0.3 * np.sin(np.pi * t)], axis=1)
    expected = da.solve(ELASTICA, **CLAMPED, scheme=da.Hermite(), guess=bow)
    for scale in (1.0, 1e-5):
        ends = {name: tuple(scale * np.array(x) for x in CLAMPED[name]) for name in ("initial", "final")}
        found = da.solve(ELASTICA, **CLAMPED | ends, scheme=da.Hermite())
        assert found.kind == "minimum"
        assert float(found.action) / scale**2 == pytest.approx(float(expected.action), rel=1e-9)
        np.testing.assert_allclose(np.linalg.norm(found.v, axis=1), scale, rtol=1e-9)


def test_draws_for_a_constraint_on_accelerations_keep_it_and_lead_to_elastica(monkeypatch):
    """Some with their mirror images; from draws that did not keep it all 60 starts failed."""
    call = lambda: da.multistart(ELASTICA, 60, spread=1.0, **CLAMPED, scheme=da.Hermite())  # noqa: E731
    found, t, paths = guesses_of(monkeypatch, call)
    ends = Request(CLAMPED["initial"], CLAMPED["final"])
    asked = Asked(
        ends, TimeGrid(1.0, 40, None), da.Hermite(), None, settings(da.Solver(tolerance=1e-9, max_iterations=10)), False
    )
    plain = multistart._draw(smooth_start(ELASTICA, asked)._replace(onto=None), 60, 1.0, 0)
    speeds = [np.linalg.norm(CubicSpline(t, x, axis=1)(t, 1), axis=2) for x in (paths, plain)]
    changes = [np.median(np.ptp(x, axis=1)) for x in speeds]
    assert changes[0] < 0.05 * changes[1]
    np.testing.assert_allclose(paths[:, [0, -1]], np.broadcast_to([[0.0, 0.0], [0.6, 0.0]], (60, 2, 2)), rtol=0, atol=1e-12)
    angles = [np.unwrap(np.arctan2(s.v[:, 1], s.v[:, 0])) for s in found.solutions]
    # What turns by more in a step is no elastica yet: its cubics stretch beside turning.
    resolved = [k for k, x in enumerate(angles) if np.max(np.abs(np.diff(x))) < 0.6]
    actions = np.array([float(found.solutions[k].action) for k in resolved])
    different = actions[np.append(True, np.diff(actions) > 1e-6 * actions[1:])]
    assert len(actions) >= 4
    assert len(different) >= 3
    for s in found.solutions:
        np.testing.assert_allclose(np.linalg.norm(s.v, axis=1), 1.0, rtol=1e-8)
    for k, action in zip(resolved, actions, strict=True):
        curvature = np.gradient(angles[k], t, edge_order=2)
        assert 0.5 * np.trapezoid(curvature**2, t) == pytest.approx(action, rel=0.1)
