"""The kind of an extremal whose active bounds leave almost nothing free: it is judged with them held exactly."""

import numpy as np
from benchmarks.control.robots import ROBOTS

import dalembert as da
from dalembert.control import ControlSearch


def test_an_oscillator_at_rest_after_half_a_period_has_two_equal_ends_to_its_control():
    """Least time, |u| ≤ 1, from (2, 0): u = -1 for half a period. A force at its beginning acts as one at its end does, so
    that on a mesh the two may change without changing T: degenerate, and no saddle."""
    system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    fast = da.OptimalControl(system, cost=lambda q, v, u: 1.0, actuated=0)
    ends = {
        "initial": ([2.0], [0.0]),
        "final": ([0.0], [0.0]),
        "T": da.Free(3.1),
        "steps": 20,
        "solver": da.Solver(tolerance=1e-11),
    }
    found = da.solve(fast, **ends, bounds={"u": (-1.0, 1.0)})
    np.testing.assert_array_equal(np.flatnonzero(found.bounds["u"].active[:, 0] == 0), [0, 20])
    assert found.kind == "degenerate"
    side = np.ones((21, 1))
    side[0] = 0.9
    other = da.solve(fast, **ends, bounds={"u": (-side, side)}, guess=found, certify=False)
    assert abs(float(other.u[0, 0] - found.u[0, 0])) > 1e-3
    np.testing.assert_allclose(other.t[-1], found.t[-1], rtol=1e-12)


def test_discs_that_are_passed_at_a_small_distance_make_no_saddle_of_a_minimum(monkeypatch):
    """Some nodes pass a disc so close that neither slack nor multiplier is clearly positive. What holds the four that touch
    was a large number, whose rounding looked like a direction of descent: SADDLE. A saddle would be left from beside it."""
    # on the discs' other sides two nodes touch, and less is paid
    monkeypatch.setattr(ControlSearch, "pass_other_sides", lambda search, end: end)
    robot, steps = ROBOTS["unicycle"], 300
    problem, asked = robot.problem(), robot.asked(bounded=False)
    found = da.solve(problem, steps=steps, **asked)
    touched = found.bounds["inequalities"]
    assert float(touched.margin) < 1e-3
    assert np.sum(touched.multipliers > 1.0) == 4
    assert found.kind == "minimum"
    waves = np.sin(np.pi * np.linspace(0.0, 1.0, steps + 1)[:, None] * np.arange(1, 6))
    for height in (1e-3, 1e-2, 3e-2):
        beside = found.q + height * waves @ np.random.default_rng(0).standard_normal((5, 3))
        other = da.solve(problem, steps=steps, **asked, guess=(beside, found.u))
        np.testing.assert_allclose(float(other.cost), float(found.cost), rtol=1e-9, atol=0)
