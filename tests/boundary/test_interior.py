"""Bounds on the positions of variational problems, against closed forms and convex hulls."""

import numpy as np
import pytest

import dalembert as da

LOAD = 8.0
ROPE = da.VariationalProblem(lambda q, v: 0.5 * v @ v + LOAD * q[0])
STRING = da.VariationalProblem(lambda q, v: 0.5 * v @ v, coordinates=("height",))
BEAM = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
UNSTABLE = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)


def on_the_floor(steps):
    return da.solve(ROPE, initial=([0.25],), final=([1.0],), T=2.0, steps=steps, bounds={"q": (0.0, None)})


def test_a_rope_that_sags_onto_the_floor_lies_on_it_between_two_parabolas():
    """q = ½g(t-a)² up to a = √(2q₀/g), the floor, and the same at the other end; the floor bears the load g."""
    found = on_the_floor(40)  # nodes at a = 1/4 and b = 3/2
    exact = 0.5 * LOAD * (np.maximum(0.25 - found.t, 0.0) ** 2 + np.maximum(found.t - 1.5, 0.0) ** 2)
    np.testing.assert_allclose(found.q[:, 0], exact, rtol=0, atol=1e-9)
    bounds = found.bounds["q"]
    inside = (found.t > 0.3) & (found.t < 1.45)
    np.testing.assert_array_equal(bounds.active[inside], -1)
    np.testing.assert_array_equal(bounds.active[exact > 1e-6], 0)
    np.testing.assert_allclose(bounds.multipliers[inside], -LOAD, rtol=1e-9)
    np.testing.assert_allclose(bounds.multipliers[exact > 1e-6], 0.0, atol=1e-6)
    assert found.kind == "minimum"
    (times,) = found.switches("q")
    np.testing.assert_allclose(times, [0.25, 1.5], rtol=0, atol=2.0 / 40)


def test_the_multipliers_of_bounds_are_the_gradient_of_the_action():
    """Raising the floor by d changes the action by -Σ hμd."""
    at = on_the_floor(40)
    ends = {"initial": ([0.25],), "final": ([1.0],), "T": 2.0, "steps": 40}
    actions = [float(da.solve(ROPE, **ends, bounds={"q": (d, None)}).action) for d in (1e-3, -1e-3)]
    slope = -(2.0 / 40) * float(at.bounds["q"].multipliers.sum())
    assert (actions[0] - actions[1]) / 2e-3 == pytest.approx(slope, rel=2e-3)


def concave_hull(t, y):
    """The least concave function above points (t, y), at t: Andrew's monotone chain."""
    hull = []
    for point in zip(t, y, strict=True):
        while len(hull) > 1:
            (t0, y0), (t1, y1) = hull[-2:]
            if (t1 - t0) * (point[1] - y0) < (y1 - y0) * (point[0] - t0):
                break
            hull.pop()
        hull.append(point)
    return np.interp(t, *np.array(hull).T)


@pytest.mark.parametrize("steps", [20, 60])
def test_a_string_over_an_obstacle_is_its_concave_hull(steps):
    """A bound of its own for each node; straight between the nodes it touches."""
    t = np.linspace(0.0, 2.0, steps + 1)
    obstacle = 0.3 - 0.5 * (t - 1.0) ** 2 + 0.15 * np.cos(7.0 * (t - 1.0))
    found = da.solve(
        STRING, initial=([0.0],), final=([0.0],), T=2.0, steps=steps, bounds={"q": {"height": (obstacle[:, None], np.inf)}}
    )
    points = np.where((t == 0.0) | (t == 2.0), 0.0, obstacle)
    hull = concave_hull(t, points)
    np.testing.assert_allclose(found.q[:, 0], hull, rtol=0, atol=1e-8)
    bends = np.r_[False, np.diff(hull, 2) < -1e-9, False]
    assert found.kind == "minimum"
    assert np.count_nonzero(bends) >= 5
    np.testing.assert_array_equal(found.bounds["q"].active[:, 0], -bends.astype(int))


def test_bryson_and_denham_as_a_spline_with_a_bound():
    """½∫a² with q ≤ 1/9 between velocities 1 and -1 costs 4; the limit of two meshes, as kinks leave order 2 irregular."""
    costs = []
    for steps in (180, 360):
        found = da.solve(
            BEAM, initial=([0.0], [1.0]), final=([0.0], [-1.0]), T=1.0, steps=steps, bounds={"q": (None, 1.0 / 9.0)}
        )
        assert found.q.max() <= 1.0 / 9.0
        assert found.kind == "minimum"
        costs.append(float(found.action))
    assert (4.0 * costs[1] - costs[0]) / 3.0 == pytest.approx(4.0, abs=1e-6)


def test_bounds_make_a_minimum_where_there_is_none_without():
    """∫½(v² - q²) over T = 4 > π has no minimum; with |q| ≤ 1 it is sin t up to the bound, which it follows to its end."""
    ends = {"initial": ([0.0],), "final": ([0.0],), "T": 4.0}
    assert da.solve(UNSTABLE, **ends, steps=40, seek="extremal").kind.startswith("saddle")
    for steps in (40, 80):
        guess = 0.5 * np.sin(np.pi * np.linspace(0.0, 1.0, steps + 1))[:, None]
        found = da.solve(UNSTABLE, **ends, steps=steps, guess=guess, bounds={"q": (-1.0, 1.0)})
        assert found.kind == "minimum"
        exact = np.where(found.t < 2.0, np.sin(np.minimum(found.t, np.pi / 2)), np.sin(np.minimum(4.0 - found.t, np.pi / 2)))
        np.testing.assert_allclose(found.q[:, 0], exact, rtol=0, atol=0.1 * (4.0 / steps) ** 2)
        assert float(found.action) == pytest.approx(-0.5 * (4.0 - np.pi), abs=0.5 / steps)


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        (3.0, TypeError, r'bounds: found 3.0; give a mapping \{"q": \(lower, upper\), "v": \(lower, upper\)\}'),
        ({"u": (0.0, 1.0)}, ValueError, "bounds: found 'u'; bounds are on 'q', 'v'"),
        ({"q": 1.0}, TypeError, r"bounds\['q'\]: found 1.0; give a pair"),
        ({"q": (1.0, -1.0)}, ValueError, r"bounds\['q'\]: found 1 as lower and -1 as upper bound"),
        ({"q": (1.0, 1.0)}, ValueError, r"bounds\['q'\]: found 1 as lower and 1 as upper bound"),
        ({"q": (np.nan, 1.0)}, ValueError, r"bounds\['q'\]\[0\]: found nan"),
        ({"q": (None, [1.0, 2.0])}, ValueError, r"bounds\['q'\]\[1\]: found shape \(2,\)"),
        ({"q": {"depth": (0.0, 1.0)}}, ValueError, r"bounds\['q'\]: found 'depth'; there are height"),
        ({"q": {1: (0.0, 1.0)}}, ValueError, r"bounds\['q'\]: an index: found 1"),
        ({"q": {0: (0.0, 1.0), "height": (0.0, 1.0)}}, ValueError, "found 'height' twice"),
        ({"q": (0.5, None)}, ValueError, r"found height = 0 given at t = 0 \(initial\), outside \[0.5, inf\]"),
        ({"q": (None, 0.5)}, ValueError, r"found height = 1 given at t = 2 \(final\), outside \[-inf, 0.5\]"),
    ],
)
def test_bounds_that_cannot_be_met_or_read_are_named_before_anything_is_solved(bounds, error, message):
    with pytest.raises(error, match=message):
        da.solve(STRING, initial=([0.0],), final=([1.0],), T=2.0, steps=20, bounds=bounds)


def test_no_bounds_are_no_bounds_and_only_minima_have_some():
    ends = {"initial": ([0.0],), "final": ([1.0],), "T": 2.0, "steps": 20}
    for none in (None, {}, {"q": (None, np.inf)}):
        assert da.solve(STRING, **ends, bounds=none).bounds == {}
    with pytest.raises(ValueError, match="seek: found 'extremal' together with bounds"):
        da.solve(STRING, **ends, bounds={"q": (0.0, 1.0)}, seek="extremal")
