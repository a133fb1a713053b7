"""Many optimal control problems at once, and many guesses of one: closed forms, single solutions, reference values."""

import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import PROBLEMS
from dalembert.outcome import Outcome

MOVE = PROBLEMS["double_integrator"].problem
CART = PROBLEMS["cart_pole"].problem
SWING_UP = {name: PROBLEMS["cart_pole"].boundary[name] for name in ("initial", "final", "T")}
UP = np.array([[0.9, np.pi], [1.1, np.pi], [1.0, np.pi]])


@pytest.mark.parametrize("continued", [False, True])
def test_every_entry_has_the_discrete_closed_form(continued):
    """12 m²d²/(1 + 2h²), of motions of very different lengths, one of them none, far from 0."""
    d, h = np.array([1.0, -2.0, 0.0, 1e-3, 3.0]), 0.05
    start = {"q": np.full(5, 1e3)}, {"q": np.zeros(5)}
    found = da.solve_batch(
        MOVE, initial=start, final=(1e3 + d[:, None], np.zeros((5, 1))), T=1.0, steps=20, continued=continued
    )
    assert all(s.outcome is Outcome.SUCCESS for s in found)
    moved = 1e3 + d - 1e3  # what is left of d
    np.testing.assert_allclose([float(s.cost) for s in found], 12.0 * moved**2 / (1.0 + 2.0 * h**2), rtol=1e-7, atol=1e-18)


@pytest.fixture(scope="module")
def singly():
    bounds = {"u": (-20.0, 20.0)}
    return [da.solve(CART, **SWING_UP | {"final": (q, [0.0, 0.0])}, steps=50, bounds=bounds) for q in UP]


@pytest.mark.parametrize("continued", [False, True])
def test_a_batch_is_what_single_solutions_are(singly, continued):
    rest, bounds = np.zeros((3, 2)), {"u": (-20.0, 20.0)}
    found = da.solve_batch(
        CART, initial=(rest, rest), final=(UP, rest), T=2.0, steps=50, bounds=bounds, continued=continued, certify=True
    )
    for one, other in zip(found, singly, strict=True):
        assert one.kind == "minimum"
        assert float(one.cost) == pytest.approx(float(other.cost), rel=1e-9)
        for name in ("q", "u", "costates_initial", "costates_final"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), rtol=0, atol=1e-6 * np.abs(getattr(other, name)).max()
            )
        np.testing.assert_array_equal(one.bounds["u"].active, other.bounds["u"].active)
    if continued:  # the middle one first, the others from it
        assert sum(int(s.statistics.iterations) for s in found) < sum(int(s.statistics.iterations) for s in singly)


def test_parameters_of_every_entry():
    """12 m²d²/(1 + 2h²)."""
    m = np.array([1.0, 0.5, 3.0])
    found = da.solve_batch(MOVE, final=([[1.0]] * 3, [[0.0]] * 3), initial=([[0.0]] * 3, [[0.0]] * 3), parameters={"m": m},
                           T=1.0, steps=20)  # fmt: skip
    np.testing.assert_allclose([float(s.cost) for s in found], 12.0 * m**2 / (1.0 + 2.0 / 400), rtol=1e-9)


def test_final_times_and_points_of_every_entry():
    """Least time with |u| ≤ 1: T = 2√d. Through points: what a single solution is."""
    fast = da.OptimalControl(MOVE.system, cost=lambda q, v, u, p: 1.0, actuated=0)
    d = np.array([[0.5], [1.0], [2.0]])
    given = {"initial": (0 * d, 0 * d), "final": (d, 0 * d)}
    for continued in (False, True):
        found = da.solve_batch(fast, **given, T=da.Free(1.5), steps=20, bounds={"u": (-1.0, 1.0)}, continued=continued)
        np.testing.assert_allclose([s.t[-1] for s in found], 2.0 * np.sqrt(d[:, 0]), rtol=1e-7)
    ends = {"T": 1.0, "steps": 20}
    passed = da.solve_batch(MOVE, **given, through={0.3: 0.7 * d}, continued=True, **ends)
    one = da.solve(MOVE, initial=([0.0], [0.0]), final=(d[2], [0.0]), through={0.3: 0.7 * d[2]}, **ends)
    assert float(passed[2].cost) == pytest.approx(float(one.cost), rel=1e-9)


def test_multistart_finds_both_extremals_of_the_swing_up():
    """Reference 57.971370049559 and 59.191476639082 with |F| ≤ 12; 60 steps have an error of half a percent."""
    found = da.multistart(CART, 10, seed=1, spread=0.7, steps=60, bounds={"u": (-12.0, 12.0)}, **SWING_UP)
    costs = [float(s.cost) for s in found.solutions]
    assert costs == sorted(costs)
    assert costs[:2] == pytest.approx([57.971370049559, 59.191476639082], rel=5e-3)
    assert all(s.kind == "minimum" for s in found.solutions)
    assert sum(found.hits) + found.failed == 10
    assert found.failed == sum(found.outcomes.values())


def test_a_seed_draws_the_same_and_failures_are_counted():
    weak = {"steps": 30, "bounds": {"u": (-5.0, 5.0)}, "solver": da.Solver(max_iterations=15)}
    one, two = (da.multistart(CART, 2, seed=3, **weak, **SWING_UP) for _ in range(2))
    assert one == two
    assert one.failed == 2
    assert not one.solutions
    assert set(one.outcomes) <= {Outcome.NOT_CONVERGED, Outcome.INFEASIBLE}


def test_entries_that_do_not_fit_are_named():
    zero, ends = np.zeros((2, 1)), {"T": 1.0, "steps": 10}
    with pytest.raises(ValueError, match="leading axes"):
        da.solve_batch(MOVE, initial=(zero, zero), final=(np.ones((3, 1)), np.ones((3, 1))), **ends)
    with pytest.raises(ValueError, match=r"^initial\[0\]\['q'\]|^initial\[0\]"):
        da.solve_batch(MOVE, initial=({"q": np.zeros((2, 1))}, zero), **ends)
    with pytest.raises(ValueError, match=r"^continued"):
        da.solve_batch(
            da.VariationalProblem(lambda q, v: 0.5 * v @ v), initial=(zero,), final=(zero,), continued=True, **ends
        )
    with pytest.raises(ValueError, match=r"^bounds\['q'\]"):
        da.solve_batch(MOVE, initial=(zero, zero), final=(np.array([[0.5], [2.0]]), zero), bounds={"q": (None, 1.0)}, **ends)
    still, aside = np.zeros((2, 3)), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # the second across the blade
    with pytest.raises(ValueError, match=r"^final"):
        da.solve_batch(PROBLEMS["knife_edge"].problem, initial=(still, still), final=(still, aside), **ends)
