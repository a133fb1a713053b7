"""A receding horizon on a plant that is not as it is believed to be, and the loop in which controllers run."""

import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import double_integrator

REST, UP = [0.0, 0.0], ([1.0, np.pi], [0.0, 0.0])


@pytest.fixture(scope="module")
def mismatched(swing_up):
    """The swing-up of a pole that is heavier and longer, with a controller for the other one."""
    problem = swing_up[0]
    controller = da.mpc(problem, final=UP, T=2.0, steps=40, bounds={"u": (-14.0, 14.0)})
    real = problem.system.replace(m=0.33, l=0.52)
    return controller, da.closed_loop(real, controller, REST, REST, h=0.0125, steps=240, every=8), real


def test_a_receding_horizon_swings_up_a_plant_that_it_does_not_know(swing_up, mismatched):
    """The plan alone falls. Bounds are kept, and later plans cost fewer iterations than the first."""
    controller, run, real = mismatched
    assert run.outcome is da.Outcome.SUCCESS
    assert np.abs(run.u).max() <= 14.0
    assert np.abs(run.q[-1] - UP[0]).max() < 0.05
    assert np.abs(run.v[-1]).max() < 0.05
    assert {record.outcome for record in controller.records} == {da.Outcome.SUCCESS}
    first, *later = [record.iterations for record in controller.records]
    assert np.median(later) < 0.6 * first
    assert all(record.seconds > 0.0 for record in controller.records)
    deaf = da.feedback(swing_up[0], swing_up[1], final=UP)
    deaf = da.guidance.Feedback(**{**vars(deaf), "K": 0.0 * deaf.K, "after": 0.0 * deaf.after})
    fallen = da.closed_loop(real, deaf, REST, REST, h=0.0125, steps=240, every=2)
    assert np.abs(fallen.q[-1] - UP[0]).max() > 1.0


def test_a_receding_horizon_tends_to_its_law_with_the_time_of_sampling():
    """With order 1: within a sample the controls are those of a plan whose end stays."""
    problem, misses = double_integrator.double_integrator(), []
    for every in (8, 4):
        controller = da.mpc(problem, final=([1.0], [0.0]), T=1.0, steps=20)
        run = da.closed_loop(problem.system, controller, [0.0], [0.0], h=0.0125, steps=80, every=every)
        exact = _receding(run.t)
        misses.append(np.abs(run.q[:, 0] - exact).max())
    assert misses[1] / misses[0] == pytest.approx(0.5, abs=0.05)


def _receding(t):
    """q of q̈ = 6 (1 - q) - 4 q̇: u(0) of the cubic from (q, q̇) to (1, 0) in the time 1."""
    w = np.sqrt(2.0)
    return 1.0 - np.exp(-2.0 * t) * (np.cos(w * t) + 2.0 / w * np.sin(w * t))


def test_where_a_problem_is_not_solved_the_last_plan_goes_on(swing_up):
    problem = swing_up[0]
    controller = da.mpc(problem, final=UP, T=2.0, steps=40, max_iterations=20)  # enough for the first plan alone
    controller(0.0, REST, REST)
    plan = controller.plan
    held = controller(0.5, [3.0, -2.0], [5.0, 5.0])
    assert controller.records[-1].outcome is da.Outcome.NOT_CONVERGED
    assert "the iteration did not reach" in controller.records[-1].message
    np.testing.assert_allclose(held, plan.u[10], rtol=1e-12)
    assert controller.begun == 0.0
    outside = da.mpc(double_integrator.double_integrator(), final=([1.0], [0.0]), T=1.0, steps=20, bounds={"q": (-0.1, 1.1)})
    inside = outside(0.0, [0.0], [0.0])
    np.testing.assert_allclose(outside(0.0, [-0.5], [0.0]), inside)
    assert outside.records[-1].outcome is da.Outcome.INFEASIBLE
    assert "bounds" in outside.records[-1].message
    hopeless = da.mpc(problem, final=UP, T=2.0, steps=40, max_iterations=1)
    with pytest.raises(da.SolveError, match="not converged"):
        hopeless(0.0, REST, REST)


def test_a_delay_is_what_it_says(swing_up):
    """Controls act so many steps later, for the same time; none act before the first. A regulator without gains shows it."""
    problem, plan, _ = swing_up
    law = da.feedback(problem, plan, final=UP)
    ahead, late = (
        da.closed_loop(problem.system, law, REST, REST, h=0.0125, steps=40, every=4, delay=delay) for delay in (0, 3)
    )
    np.testing.assert_allclose(late.t_u - ahead.t_u, 3 * 0.0125)
    np.testing.assert_array_equal(late.q[:4], 0.0)
    # ū is asked for where it acts: late by no more than the state
    middle = ahead.t_u + 0.5 * 4 * 0.0125
    np.testing.assert_allclose(ahead.u[0], np.interp(middle[0], plan.t, plan.u[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(late.u[0], np.interp(middle[0] + 3 * 0.0125, plan.t, plan.u[:, 0]), rtol=1e-12)


def test_the_loop_and_simulate_do_the_same(swing_up):
    problem, plan, _ = swing_up
    law = da.feedback(problem, plan, final=UP)
    start = ([0.0, 0.05], REST)
    loop = da.closed_loop(problem.system, law, *start, h=0.0125, steps=80, every=4)
    run = da.simulate(problem.system, *start, h=0.0125, steps=80, feedback=law.sampled(0.0125, 4))
    np.testing.assert_allclose(loop.q, run.q, rtol=0, atol=1e-8)
    np.testing.assert_allclose(loop.u[:, 0], run.feedback[::4, 0], rtol=0, atol=1e-6)


def test_a_plant_that_fails_ends_the_loop():
    """A potential that is no number beyond 1."""
    plant = da.System(lambda q, v: 0.5 * v @ v + np.sqrt(2.0) * (1.0 - q[0]) ** 0.5)
    controller = da.mpc(double_integrator.double_integrator(), final=([3.0], [0.0]), T=1.0, steps=10)
    run = da.closed_loop(plant, controller, [0.0], [0.0], h=0.05, steps=40)
    assert run.outcome.failed
    assert len(run.t) == len(run.q) < 41


def test_wrong_arguments():
    problem = double_integrator.double_integrator()
    with pytest.raises(TypeError, match="problem: found"):
        da.mpc(problem.system, T=1.0, steps=10)
    with pytest.raises(ValueError, match="T: found"):
        da.mpc(problem, T=-1.0, steps=10)
    with pytest.raises(TypeError, match="controller: found"):
        da.closed_loop(problem.system, abs, [0.0], [0.0], h=0.1, steps=1)
    with pytest.raises(ValueError, match="delay: found"):
        da.closed_loop(problem.system, da.mpc(problem, T=1.0, steps=10), [0.0], [0.0], h=0.1, steps=1, delay=-1)
    with pytest.raises(ValueError, match="steps"):
        da.closed_loop(problem.system, da.mpc(problem, T=1.0, steps=0), [0.0], [0.0], h=0.1, steps=1)


@pytest.mark.parametrize("more", [{}, {"u": (-9.0, 9.0)}])
def test_a_speed_limit_holds_alone_and_beside_other_bounds(more):
    point = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)
    controller = da.mpc(point, final=([1.0], [0.0]), T=1.0, steps=20, bounds={"v": (None, 1.2), **more})
    tops = []
    for t, q, v in ((0.0, [0.0], [0.0]), (0.05, [0.02], [0.3])):
        controller(t, q, v)
        assert controller.records[-1].outcome is da.Outcome.SUCCESS
        speeds = np.diff(controller.plan.q[:, 0]) / np.diff(controller.plan.t)
        assert speeds.max() == pytest.approx(1.2, abs=1e-6)
        tops.append(float(np.abs(controller.plan.u).max()))
    assert tops[0] == pytest.approx(9.0 if more else 9.29, abs=1e-2)  # of the first plan: 9 is less than it takes alone
    assert not more or max(tops) <= 9.0


def test_what_is_measured_is_read_by_name(swing_up):
    controller = da.mpc(swing_up[0], final=UP, T=2.0, steps=40)
    with pytest.raises(ValueError, match=r"^t: found"):
        controller(REST, REST, 0.0)
    with pytest.raises(ValueError, match=r"^v: found nan"):
        controller(0.0, REST, [np.nan, 0.0])
    controller(0.0, REST, REST)
    for q, message in (([0.0], "q: found 1 numbers"), ([0.0, 0.0, 0.0], "q: found 3 numbers")):
        with pytest.raises(ValueError, match=message):  # one number was taken for all coordinates, and a plan begun there
            controller(0.1, q, REST)
    assert len(controller.records) == 1
