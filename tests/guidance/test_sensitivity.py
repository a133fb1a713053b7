"""Derivatives of a solution against differences of solutions, and what controls reach against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import double_integrator, knife_edge

REST, UP = [0.0, 0.0], [1.0, np.pi]
TIGHT = {"T": 2.0, "steps": 80, "solver": da.Solver(tolerance=1e-11), "certify": False}
STEP = 2e-4


def differences(solved):
    """Central ones of second order, extrapolated to fourth."""
    found = []
    for e in (STEP, 2.0 * STEP):
        ahead, behind = solved(e), solved(-e)
        for name in ahead.bounds:
            np.testing.assert_array_equal(ahead.bounds[name].active, behind.bounds[name].active)
        found.append([(np.asarray(getattr(ahead, x)) - getattr(behind, x)) / (2.0 * e) for x in ("q", "v", "u", "cost")])
    return [(4.0 * near - far) / 3.0 for near, far in zip(*found, strict=True)]


def compare(found, at, wanted):
    for name, difference in zip(("q", "v", "u"), wanted[:3], strict=True):
        own = getattr(found, name)[(slice(None), slice(None), *at)]
        np.testing.assert_allclose(own, difference, rtol=0, atol=2e-6 * (1.0 + np.abs(difference).max()))
    assert found.cost[at] == pytest.approx(wanted[3], rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("bounds", [None, {"u": (-10.0, 10.0)}])
def test_derivatives_of_the_swing_up_are_those_of_solving_again(swing_up, bounds):
    """By an end, by a beginning and by a parameter, without and with strictly active bounds."""
    problem = swing_up[0]
    plan = da.solve(problem, initial=(REST, REST), final=(UP, REST), bounds=bounds, **TIGHT)
    assert bounds is None or np.any(plan.bounds["u"].active)

    def again(m=0.0, x=0.0, w=0.0):
        other, ends = problem.replace(m=0.3 + m), {"initial": (REST, [0.0, w]), "final": ([1.0 + x, np.pi], REST)}
        return da.solve(other, **ends, bounds=bounds, guess=plan, **TIGHT)

    found = da.sensitivity(problem, plan, initial=(REST, REST), final=(UP, REST))
    compare(found.parameters["m"], (), differences(lambda e: again(m=e)))
    compare(found.final, (0, 0), differences(lambda e: again(x=e)))
    compare(found.initial, (1, 1), differences(lambda e: again(w=e)))
    np.testing.assert_allclose(found.final.cost, plan.costates_final, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.initial.cost, plan.costates_initial, rtol=0, atol=1e-9)


def test_derivatives_where_a_constraint_and_a_free_end_leave_multipliers_that_no_solution_tells():
    """A pendulum on its circle, the end free at a cost of its height, along the motion's parameter g."""
    plane = da.System(
        lambda q, v, p: 0.5 * v @ v - p["g"] * q[1], da.Holonomic(lambda q, p: q @ q - 1.0), parameters={"g": 5.0}
    )
    problem = da.OptimalControl(
        plane,
        cost=lambda q, v, u, p: u @ u,
        actuated=lambda q, p: jnp.array([-q[1], q[0]]),
        terminal=lambda q, v, p: 5.0 * (q[1] - 0.5) ** 2 + v @ v,
    )
    ends = {"initial": ([1.0, 0.0], REST), "T": 1.0, "steps": 20, "solver": da.Solver(tolerance=1e-11)}
    plan = da.solve(problem, **ends)
    found = da.sensitivity(problem, plan, initial=ends["initial"])
    compare(found.parameters["g"], (), differences(lambda e: da.solve(problem.replace(g=5.0 + e), **ends, guess=plan)))
    law = da.feedback(problem, plan)
    miss = []
    for e in (4e-4, 2e-4):
        start = ([np.cos(e), np.sin(e)], [-e * np.sin(e), e * np.cos(e)])
        other = da.solve(problem, **(ends | {"initial": start}), guess=plan)
        x = np.concatenate([other.q - plan.q, other.v - plan.v], axis=1)
        miss.append(np.abs(other.u - plan.u + np.einsum("krx,kx->kr", law.K, x)).max())
    assert np.log2(miss[0] / miss[1]) == pytest.approx(2.0, abs=0.1)


def test_the_gramian_of_the_double_integrator_has_order_2():
    problem, errors = double_integrator.double_integrator(), []
    for steps in (10, 20, 40):
        plan = da.solve(problem, initial=([0.0], [0.0]), final=([1.0], [0.5]), T=2.0, steps=steps)
        found = da.guidance.controllability(problem, plan)
        assert found.controllable
        errors.append(np.abs(found.gramian - [[8.0 / 3.0, 2.0], [2.0, 2.0]]).max())
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, rtol=0, atol=0.05)


def test_the_gramian_is_the_least_effort_to_another_end():
    """δxᵀW⁻¹δx = min ∫|δu|²: a regulator problem of its own, of the pendulum at its lower rest."""
    problem = da.OptimalControl(
        da.System(lambda q, v: 0.5 * v @ v + 3.0 * jnp.cos(q[0])), cost=lambda q, v, u: u @ u, actuated=0
    )
    ends = {"initial": ([0.0], [0.0]), "T": 1.5, "steps": 40}
    plan = da.solve(problem, final=([0.0], [0.0]), **ends)
    W = da.guidance.controllability(problem, plan).gramian
    x = np.array([1e-4, -2e-4])
    cost = float(da.solve(problem, final=(x[:1], x[1:]), **ends).cost)
    assert cost == pytest.approx(x @ np.linalg.solve(W, x), rel=1e-6)


def test_what_no_control_reaches():
    """Of two oscillators the one without a motor; a knife edge at rest, which cannot move sideways, not one that moves."""
    pair = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q), cost=lambda q, v, u: u @ u, actuated=0)
    plan = da.solve(pair, initial=(REST, REST), final=({0: 1.0}, {0: 0.0}), T=1.0, steps=20)
    found = da.guidance.controllability(pair, plan)
    assert not found.controllable
    np.testing.assert_allclose(found.directions[2:, [0, 2]], 0.0, atol=1e-12)
    edge, still = knife_edge.knife_edge(), [0.0, 0.0, 0.0]
    for end, controllable in ((still, False), ([1.0, 0.0, 0.0], True)):
        plan = da.solve(edge, initial=(still, still), final=(end, still), T=1.0, steps=20)
        found = da.guidance.controllability(edge, plan)
        assert len(found.singular_values) == 5
        assert found.controllable is controllable
    plan = da.solve(edge, initial=(still, still), final=(still, still), T=1.0, steps=20)
    np.testing.assert_allclose(
        np.abs(da.guidance.controllability(edge, plan).directions[-1]), [0, 1, 0, 0, 0, 0], rtol=0, atol=1e-9
    )
