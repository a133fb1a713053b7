"""Refined meshes against closed forms and reference values: smooth problems, bounds, free final time, points to pass."""

import numpy as np
import pytest
from benchmarks.boundary.switches import drawn
from scipy.interpolate import CubicSpline

import dalembert as da
from dalembert.control.refinement import limit_of
from dalembert.gallery import PROBLEMS

MOVE = PROBLEMS["double_integrator"].problem
REST = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}


def solved_and_refined(problem, steps, T, tolerance, **given):
    first = da.solve(problem, T=T, steps=steps, **given)
    return da.refine(problem, first, T=T if isinstance(T, da.Free) else None, tolerance=tolerance, **given)


def check(found, exact, within):
    """The cost, and that the estimated error is one; on four meshes that halve each other."""
    told = found.refinement
    assert told.reached
    assert abs(float(told.cost) - exact) < min(within, float(told.error) + 1e-11 * abs(exact))
    assert float(told.costs[-4]) == float(found.cost)
    assert found.kind == "minimum"
    assert len(found.t) - 1 == told.steps[-4] == 2 * told.steps[-3] == 4 * told.steps[-2] == 8 * told.steps[-1]


def test_a_smooth_problem_to_eight_digits():
    entry = PROBLEMS["cart_pole"]
    given = {name: entry.boundary[name] for name in ("initial", "final")}
    found = solved_and_refined(entry.problem, 280, entry.boundary["T"], 1e-8, **given)
    check(found, entry.cost, 1e-8 * entry.cost)
    told = found.refinement
    assert float(told.order) == pytest.approx(2.0, abs=0.02)
    assert float(told.limit_order) == pytest.approx(4.0, abs=0.5)
    assert float(told.error) < 10.0 * abs(float(told.cost) - entry.cost)  # and not some hundred times as large
    assert "order 2.00 measured" in found.describe()


H = 0.1 * 0.5 ** np.arange(4)


@pytest.mark.parametrize(
    ("costs", "orders", "within"),
    [
        (1.0 + 2.0 * H**2 - 3.0 * H**4, (2.0, 4.0), 6.0),  # regular: the estimate is no more than some times the error
        (1.0 + 2.0 * H, (1.0, 1.0), 3.0),  # of order 1: the limit is wrong, and the error says how much
        (1.0 + 2.0 * H**1.4, (1.4, 1.4), 20.0),
        (1.0 + 2.0 * H**2 + 1e-3 * np.array([1.0, -1.0, 1.0, -1.0]), (np.nan, np.nan), np.inf),  # kinks, now here, now there
        (1.0 + 1e-12 * H, (np.nan, np.nan), np.inf),  # rounding
    ],
    ids=["regular", "first", "between", "irregular", "rounding"],
)
def test_what_four_costs_tell(costs, orders, within):
    """The finest first. J = 1."""
    found = limit_of(costs[::-1].tolist(), 1e-10)
    np.testing.assert_allclose([found.order, found.limit_order], orders, rtol=0, atol=0.1)
    assert abs(found.cost - 1.0) < found.error <= within * abs(found.cost - 1.0)
    three = limit_of(costs[:0:-1].tolist(), 1e-10)
    assert np.isnan(three.limit_order)
    assert abs(three.cost - 1.0) < 0.9 * three.error  # more than by the noise: costs of order 1 have to be seen


def test_bounds_to_six_digits_with_fewer_steps_than_equal_ones_need():
    """|u| ≤ 5, which is left and reached at ½ ∓ √0.15."""
    exact, bounds = 12.090055512642, {"u": (-5.0, 5.0)}
    found = solved_and_refined(MOVE, 24, 1.0, 1e-7, bounds=bounds, **REST)
    check(found, exact, 1e-7 * exact)
    np.testing.assert_allclose(found.switches("u")[0], 0.5 + np.array([-1.0, 1.0]) * np.sqrt(0.15), rtol=0, atol=1e-3)
    assert len(found.t) <= 210
    equal = [[float(da.solve(MOVE, T=1.0, steps=n, bounds=bounds, certify=False, **REST).cost) for n in (m, 2 * m)]
             for m in (100, 102, 104)]  # fmt: skip
    errors = [abs((4.0 * fine - coarse) / 3.0 - exact) for coarse, fine in equal]
    assert max(errors) > 10.0 * abs(float(found.refinement.cost) - exact)


def test_a_bound_on_a_position_to_six_digits():
    """Bryson and Denham: on the bound from 1/3 to 2/3, ∫u² = 8."""
    given = {"initial": ([0.0], [1.0]), "final": ([0.0], [-1.0]), "bounds": {"q": (None, 1.0 / 9.0)}}
    check(solved_and_refined(MOVE, 40, 1.0, 1e-6, **given), 8.0, 1e-6)


def test_least_time_with_a_switch_between_nodes():
    """From rest to (1, ½) with |u| ≤ 1: v grows to √(9/8) and falls to ½."""
    fast = da.OptimalControl(MOVE.system, cost=lambda q, v, u, p: 1.0, actuated=0)
    given = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.5]), "bounds": {"u": (-1.0, 1.0)}}
    found = solved_and_refined(fast, 20, da.Free(1.3), 1e-7, **given)
    check(found, 2.0 * np.sqrt(1.125) - 0.5, 1e-6)
    assert np.abs(found.t - np.sqrt(1.125)).min() < 1e-4


def test_points_to_pass_stay_nodes():
    """∫u² of the clamped cubic spline through the points, which are no nodes of the first mesh's quarter."""
    knots = np.array([0.0, 0.3, 0.7, 1.0])
    spline = CubicSpline(knots, [0.0, 0.8, 0.5, 1.0], bc_type="clamped")
    bends = spline(knots, 2)  # linear between
    exact = np.diff(knots) @ (bends[1:] ** 2 + bends[1:] * bends[:-1] + bends[:-1] ** 2) / 3.0
    found = solved_and_refined(MOVE, 20, 1.0, 1e-5, through={0.7: [0.5], 0.3: [0.8]}, **REST)
    check(found, exact, 1e-5 * exact)
    assert found.interpolate([0.3, 0.7])[:, 0] == pytest.approx([0.8, 0.5], abs=1e-12)
    assert np.abs(found.t[:, None] - [0.3, 0.7]).min(axis=0).max() < 1e-12


def test_too_few_steps_are_told(tmp_path):
    """Nothing is thrown; and a file keeps what is known."""
    first = da.solve(MOVE, T=1.0, steps=20, **REST)
    found = da.refine(MOVE, first, tolerance=1e-12, most_steps=50, **REST)
    told = found.refinement
    assert not told.reached
    assert told.steps.max() <= 50
    assert 1e-2 > told.error > abs(told.cost - 12.0)
    assert "not the 1.2e-11 asked for" in found.describe()
    da.save(found, tmp_path / "found.nc")
    again = da.load(tmp_path / "found.nc")
    for name in ("tolerance", "size", "steps", "costs", "cost", "error", "order", "limit_order"):
        np.testing.assert_array_equal(getattr(again.refinement, name), getattr(told, name))
    nothing = da.refine(MOVE, da.solve(MOVE, T=1.0, steps=80, **REST), most_steps=16, **REST).refinement
    assert nothing.error == np.inf
    assert not nothing.reached


def test_arguments_that_do_not_fit_are_named():
    plan = da.solve(MOVE, T=1.0, steps=20, **REST)
    with pytest.raises(ValueError, match=r"^bounds\['u'\]: found a row for each node"):
        da.refine(MOVE, plan, bounds={"u": (np.full((21, 1), -9.0), 9.0)}, **REST)
    with pytest.raises(ValueError, match=r"^T: found Free"):
        da.refine(MOVE, plan, T=da.Free(1.0), **REST)
    with pytest.raises(TypeError, match=r"^solution: found"):
        da.refine(MOVE, 3.0, **REST)


def test_a_switch_that_halves_of_a_mesh_share_is_seen():
    """Least times with closed forms: errors of 2e-5 stood beside a stated 1e-9 (python -m benchmarks.boundary.switches)."""
    for one in drawn(10):
        assert one.reached
        assert one.error <= one.stated <= 1e-6 * one.exact
