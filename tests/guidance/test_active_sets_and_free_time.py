"""Neighbours of a plan with a free final time and with active inequalities: closed forms, and problems solved again."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

MASS = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v, parameters={"m": 1.0})
BRISK = da.OptimalControl(MASS, cost=lambda q, v, u, p: 1.0 + u @ u, actuated=0)
ENDS = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}
FREE = {"T": da.Free(2.0), "steps": 20, "solver": da.Solver(tolerance=1e-11)}
SHARE = 1.0 / (1.0 + 2.0 / 20**2)  # of 20 steps: ∫u² = 12 d²/T³ times it

ARM = da.System(lambda q, v, p: 0.5 * v @ v + p["g"] * jnp.cos(q[0]), parameters={"g": 3.0})
LIFT = da.OptimalControl(ARM, cost=lambda q, v, u, p: 8.0 + u @ u, actuated=0)
DOWN, UP = ([0.0], [0.0]), ([np.pi], [0.0])


def power(q, v, u, p):
    return u[0] * v[0] - 5.0


@pytest.fixture(scope="module")
def lifted():
    """With a free time, a speed limit and a limit of power, all of them somewhere active, and how it is solved again."""

    def solve(g=3.0, initial=DOWN, final=UP, **other):
        limits = {"bounds": {"v": (None, 1.8)}, "inequalities": power, "solver": da.Solver(tolerance=1e-11)}
        return da.solve(LIFT.replace(g=g), initial=initial, final=final, **({"steps": 30} | limits | other))

    plan = solve(T=da.Free(2.0))
    return plan, lambda **other: solve(guess=plan, certify=False, **({"T": da.Free(2.0)} | other))


def test_least_time_and_effort_has_the_derivatives_of_its_scaling():
    """u/m = ẍ: a way d takes T = √(6md) in the limit, and on any mesh T and J grow as √d and √m."""
    plan = da.solve(BRISK, **ENDS, **FREE)
    found, T, J = da.sensitivity(BRISK, plan, **ENDS), float(plan.t[-1]), float(plan.cost)
    assert pytest.approx((36.0 * SHARE) ** 0.25, rel=1e-9) == T
    for change in (found.parameters["m"], found.final):
        at = (0, 0) if change is found.final else ()
        np.testing.assert_allclose(change.t[(slice(None), *at)], 0.5 * plan.t, rtol=0, atol=1e-9)
        assert change.cost[at] == pytest.approx(0.5 * J, rel=1e-9)
    np.testing.assert_allclose(found.final.q[:, 0, 0, 0], plan.q[:, 0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.final.v[:, 0, 0, 0], 0.5 * plan.v[:, 0], rtol=0, atol=1e-9)

    def last(m, d):
        return da.optimum(BRISK.replace(m=m), initial=ENDS["initial"], final=([d], [0.0]), **FREE).t[-1]

    np.testing.assert_allclose(jax.jit(jax.grad(last, (0, 1)))(1.0, 1.0), 0.5 * T, rtol=1e-9)


def test_derivatives_with_a_free_time_and_active_inequalities_are_those_of_solving_again(lifted):
    """Central differences, whose error falls fourfold where the step is halved."""
    plan, again = lifted
    assert plan.final_time.active == 0
    assert all(np.any(plan.bounds[name].active) for name in ("v", "inequalities"))
    found = da.sensitivity(LIFT, plan, initial=DOWN, final=UP, inequalities=power)
    for own, at, solve in (
        (found.parameters["g"], (), lambda e: again(g=3.0 + e)),
        (found.initial, (1, 0), lambda e: again(initial=([0.0], [e]))),
    ):
        errors = []
        for e in (4e-3, 2e-3):
            ahead, behind = solve(e), solve(-e)
            for name in plan.bounds:
                np.testing.assert_array_equal(ahead.bounds[name].active, behind.bounds[name].active)
            changes = [
                (np.asarray(getattr(ahead, x)) - getattr(behind, x)) / (2.0 * e) for x in ("t", "q", "v", "u", "cost")
            ]
            every = (own.t, own.q, own.v, own.u, own.cost)
            errors.append([np.abs(c - d[(..., *at)]).max() for c, d in zip(changes, every, strict=True)])
            assert all(error < 2e-3 * (1.0 + np.abs(c).max()) for error, c in zip(errors[-1], changes, strict=True))
        np.testing.assert_allclose(np.log2(np.divide(*errors)), 2.0, rtol=0, atol=0.1)


def test_gains_keep_what_is_active_as_neighbours_that_are_solved_again_do(lifted):
    plan, again = lifted
    law, miss, late = da.feedback(LIFT, plan, final=UP, inequalities=power), [], float(plan.t[-1])
    for e in (2e-3, 1e-3):
        other = again(T=late, initial=([0.5 * e], [e]))
        for name in plan.bounds:
            np.testing.assert_array_equal(other.bounds[name].active, plan.bounds[name].active)
        x = np.concatenate([other.q - plan.q, other.v - plan.v], axis=1)
        off = other.u - plan.u + np.einsum("krx,kx->kr", law.K, x)
        miss.append(np.abs(off[plan.t <= law.held]).max())
    assert miss[1] < 1e-3 * np.abs(other.u - plan.u).max()
    assert np.log2(miss[0] / miss[1]) == pytest.approx(2.0, abs=0.1)


def test_what_is_wrong_about_active_inequalities_is_told(lifted):
    plan, _ = lifted
    with pytest.raises(TypeError, match=r"^inequalities: is missing; some are active"):
        da.feedback(LIFT, plan, final=UP)
    with pytest.raises(ValueError, match=r"^inequalities: found values of shape .*the solution has"):
        da.sensitivity(LIFT, plan, initial=DOWN, final=UP, inequalities=lambda q, v, u, p: jnp.array([u[0], v[0]]))
    weights = {"Q": np.eye(2), "R": np.eye(1), "Q_T": np.eye(2)}
    with pytest.raises(ValueError, match=r"^inequalities: found together with Q"):
        da.feedback(LIFT, plan, inequalities=power, **weights)


def test_a_bound_that_is_reached_without_a_force_is_warned_of(lifted):
    plan = eqx.tree_at(lambda s: s.bounds["v"].margin, lifted[0], np.asarray(1e-6))
    with pytest.warns(UserWarning, match=r"^solution: bounds\['v'\] are not strictly complementary, by 1.0e-06"):
        da.feedback(LIFT, plan, final=UP, inequalities=power)
