"""Gains along a solution: against Riccati's equations, against solving again, and in a closed loop."""

import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import solve_discrete_are

import dalembert as da
from dalembert.gallery import double_integrator, knife_edge, orbit_transfer

UP = ([1.0, np.pi], [0.0, 0.0])
PENDULUM = da.OptimalControl(
    da.System(lambda q, v, p: 0.5 * p["m"] * v @ v + 2.0 * jnp.cos(q[0]), parameters={"m": 1.0}),
    cost=lambda q, v, u, p: u @ u + v @ v,
    actuated=0,
)
LIFT = {"initial": ([0.0], [0.0]), "final": ([2.0], [0.5]), "T": 1.5}


def again(problem, plan, law, start, **ends):
    """Largest of δu + K δx along the problem solved again, but for the last nodes, and the largest δu."""
    other = da.solve(problem, **(ends | {"initial": start}), guess=plan)
    x = np.concatenate([other.q - plan.q, other.v - plan.v], axis=1)
    miss = np.abs(other.u - plan.u + np.einsum("krx,kx->kr", law.K, x)).max(axis=1)
    kept = np.searchsorted(plan.t, law.held)
    return miss[:kept].max(), np.abs(other.u - plan.u).max()


def test_the_gains_of_a_linear_quadratic_problem_are_exact():
    """Also between the first node and the last ones: u of the problem solved again, at every node, to rounding."""
    problem, ends = double_integrator.double_integrator(), {"final": ([1.0], [0.0]), "T": 1.0, "steps": 40}
    plan = da.solve(problem, initial=([0.0], [0.0]), **ends)
    law = da.feedback(problem, plan, final=ends["final"], hold=0.05)
    miss, change = again(problem, plan, law, ([0.3], [-0.2]), **ends)
    assert miss < 1e-8 * change
    left = 1.0 - plan.t[:30]
    np.testing.assert_allclose(law.K[:30, 0], np.stack([6.0 / left**2, 4.0 / left], axis=1), rtol=0.02)
    np.testing.assert_array_equal(law.K[-1], law.K[np.searchsorted(plan.t, 0.95)])


def test_a_regulator_over_a_long_time_is_that_of_the_discrete_algebraic_equation():
    """Double integrator, ∫ 4q² + v² + u²: Σ h u_i² + 4h q_i² + (q_i - q_{i-1})²/h with the states (q_{i-1}, q_i)."""
    problem, h = double_integrator.double_integrator(), 0.1
    plan = da.solve(problem, initial=([0.0], [0.0]), final=([0.0], [0.0]), T=12.0, steps=120)
    law = da.feedback(problem, plan, Q=np.diag([4.0, 1.0]), R=[[1.0]], Q_T=np.eye(2))
    a, b = np.array([[0.0, 1.0], [-1.0, 2.0]]), np.array([[0.0], [h * h]])
    q, r = np.array([[1.0, -1.0], [-1.0, 1.0]]) / h + np.diag([0.0, 4.0 * h]), np.array([[h]])
    p = solve_discrete_are(a, b, q, r)
    own = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)  # by (q_{i-1}, q_i)
    later = (a - b @ own)[1]  # q_{i+1}
    state = np.stack([[0.0, 1.0], (later - [1.0, 0.0]) / (2.0 * h)])  # (q_i, v_i) of (q_{i-1}, q_i)
    np.testing.assert_allclose(law.K[5], own @ np.linalg.inv(state), rtol=1e-7)


def test_a_regulator_along_a_motion_tends_to_riccati_s_equation_with_order_2():
    """A pendulum that is lifted: -Ṗ = AᵀP + PA - PBR⁻¹BᵀP + Q with A at the plan, on the finest one."""
    Q, R, Q_T = np.array([[3.0, 0.5], [0.5, 1.0]]), np.array([[0.5]]), np.diag([2.0, 1.0])
    fine = da.solve(PENDULUM, **LIFT, steps=148, certify=False)

    def slope(t, p):
        p, a = p.reshape(2, 2), np.array([[0.0, 1.0], [-2.0 * np.cos(fine.interpolate(t)[0]), 0.0]])
        return -(a.T @ p + p @ a - p[:, 1:] @ p[1:] / R[0, 0] + Q).ravel()

    exact = solve_ivp(slope, (1.5, 0.0), Q_T.ravel(), rtol=1e-10, atol=1e-10).y[:, -1].reshape(2, 2)[1] / R[0, 0]
    errors = []
    for steps in (16, 32):
        plan = da.solve(PENDULUM, **LIFT, steps=steps, certify=False)
        errors.append(np.abs(da.feedback(PENDULUM, plan, Q=Q, R=R, Q_T=Q_T).K[0, 0] - exact).max())
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, rtol=0, atol=0.15)


def circle(angle, speed):
    return [np.cos(angle), np.sin(angle)], [-speed * np.sin(angle), speed * np.cos(angle)]


def embedded():
    """A pendulum in the plane with a torque."""
    plane = da.System(lambda q, v: 0.5 * v @ v - 5.0 * q[1], da.Holonomic(lambda q: q @ q - 1.0))
    problem = da.OptimalControl(plane, cost=lambda q, v, u: u @ u + 0.1 * v @ v, actuated=lambda q: jnp.array([-q[1], q[0]]))
    angle = np.linspace(-1.5, 1.0, 41)
    ends = {"final": circle(1.0, 0.0), "T": 1.5, "steps": 40}
    return problem, ends, np.stack([np.cos(angle), np.sin(angle)], axis=1), lambda e: circle(-1.5 + e, 0.5 - 2.0 * e)


def edge():
    s = np.linspace(0.0, 1.0, 41)
    turn, zero = np.sin(2.0 * np.pi * s), [0.0, 0.0, 0.0]
    ends = {"final": ([0.0, 1.0, 0.0], zero), "T": 4.0, "steps": 40}
    start = lambda e: ([e, -e, e], [e * np.cos(e), e * np.sin(e), e])  # noqa: E731
    return knife_edge.knife_edge(), ends, np.stack([0.5 * turn, s, 0.8 * turn], axis=1), start


def partly():
    """To another orbit, the angle free."""
    ends = {"final": ({"r": 1.5}, [0.0, 1.5**-1.5]), "T": 6.0, "steps": 40}
    return orbit_transfer.orbit_transfer(), ends, None, lambda e: ([1.0 + e, e], [-e, 1.0 + e])


@pytest.mark.parametrize("plant", [embedded, edge, partly])
def test_solving_again_from_a_neighbouring_start_differs_in_second_order(plant):
    """With a holonomic and a nonholonomic constraint, and with an end that is partly free."""
    problem, ends, guess, start = plant()
    plan = da.solve(problem, initial=start(0.0), **ends, guess=guess)
    law = da.feedback(problem, plan, final=ends["final"])
    (large, change), (small, _) = (again(problem, plan, law, start(e), **ends) for e in (1e-3, 5e-4))
    assert np.log2(large / small) == pytest.approx(2.0, abs=0.1)
    assert large < 0.1 * change


def test_solving_the_swing_up_again_differs_in_second_order(swing_up):
    problem, plan, ends = swing_up
    law = da.feedback(problem, plan, final=UP)
    starts = [([0.0, e], [0.0, -e]) for e in (4e-3, 2e-3)]
    (large, change), (small, _) = (again(problem, plan, law, start, **ends) for start in starts)
    assert np.log2(large / small) == pytest.approx(2.0, abs=0.1)
    assert large < 0.1 * change


def test_gains_of_a_plant_with_constraints_are_those_of_its_own_coordinate():
    """K along the circle; across it nothing."""
    by_angle = da.OptimalControl(
        da.System(lambda q, v: 0.5 * v @ v - 5.0 * jnp.sin(q[0])), cost=lambda q, v, u: u @ u + 0.1 * v @ v, actuated=0
    )
    problem, ends, _, start = embedded()
    errors = []
    for steps in (20, 40):
        angle = da.solve(by_angle, initial=([-1.5], [0.5]), final=([1.0], [0.0]), T=1.5, steps=steps)
        path = np.stack([np.cos(angle.q[:, 0]), np.sin(angle.q[:, 0])], axis=1)
        plane = da.solve(problem, initial=start(0.0), **(ends | {"steps": steps}), guess=path)
        k, own = steps // 2, da.feedback(by_angle, angle, final=([1.0], [0.0])).K[:, 0]
        q, v = (np.asarray(x[k]) for x in (plane.q, plane.v))
        along, turned = np.array([-q[1], q[0]]), np.array([-v[1], v[0]])
        gains = da.feedback(problem, plane, final=ends["final"]).K[k, 0]
        found = gains[:2] @ along + gains[2:] @ turned, gains[2:] @ along
        errors.append(np.abs(np.array(found) - own[k]).max())
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2.0, rtol=0, atol=0.2)


def test_a_control_at_its_bound_stays_there():
    problem, ends = (
        double_integrator.double_integrator(),
        {"final": ([1.0], [0.0]), "T": 1.0, "steps": 40, "bounds": {"u": (-5.0, 5.0)}},
    )
    plan = da.solve(problem, initial=([0.0], [0.0]), **ends)
    law = da.feedback(problem, plan, final=ends["final"], hold=0.0)
    active = plan.bounds["u"].active[:, 0] != 0
    assert active.any()
    assert law.K[10].any()
    assert not law.K[active].any()
    miss = []
    for e in (1e-3, 5e-4):
        other = da.solve(problem, initial=([e], [-e]), **ends)
        x = np.concatenate([other.q - plan.q, other.v - plan.v], axis=1)
        free = (other.u - plan.u)[:, 0] + np.einsum("kx,kx->k", law.K[:, 0], x)
        assert np.array_equal(other.bounds["u"].active, plan.bounds["u"].active)
        miss.append(np.abs(free[~active]).max() / e)
    assert max(miss) < 1e-5
    assert float(law(0.5, [2.0], [2.0])[0]) == -5.0
    assert float(law(0.5, [-1.0], [-1.0])[0]) == 5.0


@pytest.fixture(scope="module")
def regulated(swing_up):
    problem, plan, _ = swing_up
    resting = da.solve(problem, initial=UP, final=UP, T=3.0, steps=60)
    weights = {"Q": np.diag([10.0, 10.0, 1.0, 1.0]), "R": [[0.1]]}
    upright = da.feedback(problem, resting, **weights, Q_T=np.diag([10.0, 10.0, 1.0, 1.0]))
    return da.feedback(problem, plan, **weights, Q_T=100.0 * np.eye(4)).then(upright)


def test_the_swing_up_stays_up_where_without_feedback_it_falls(swing_up, regulated):
    problem, _, _ = swing_up
    for start, pushed in ((0.2, 0.0), (0.0, 0.3)):
        plant = da.System(problem.system.lagrangian, forces=lambda q, v, p, f=pushed: f * jnp.array([1.0, 0.0]) - 0.02 * v,
                          parameters=problem.parameters)  # fmt: skip
        runs = [
            da.simulate(plant, [0.0, start], [0.0, 0.0], h=0.0125, steps=400, feedback=law.sampled(0.0125, 2))
            for law in (regulated, deaf(regulated))
        ]
        assert np.abs(runs[0].feedback).max() <= 25.0
        assert abs(float(runs[0].q[-1, 1]) - np.pi) < 0.05
        assert abs(float(runs[1].q[-1, 1]) - np.pi) > 1.0


def test_both_back_ends_and_the_law_itself_agree(swing_up, regulated):
    """The law is sampled at the nodes; its feedforward half a sample later."""
    problem, plan, _ = swing_up
    arguments = {"h": 0.025, "steps": 90, "feedback": regulated.sampled(0.025)}
    runs = [
        da.simulate(problem.system, [0.0, 0.1], [0.0, 0.0], **arguments, solver=da.Solver(backend=b))
        for b in ("native", "jax")
    ]
    np.testing.assert_allclose(runs[0].q, runs[1].q, rtol=1e-9, atol=1e-9)
    k = 30
    own = regulated(plan.t[k], runs[0].q[k], runs[0].v[k]) + 0.5 * (plan.u[k + 1] - plan.u[k])
    np.testing.assert_allclose(runs[0].feedback[k], [own[0], 0.0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(runs[0].feedback[-1, 0], regulated(2.3, runs[0].q[-2], runs[0].v[-2])[0], rtol=0, atol=1e-9)


def deaf(law):
    """The plan alone."""
    return da.guidance.Feedback(**{**vars(law), "K": 0.0 * law.K, "after": 0.0 * law.after})


def test_sampling_alone_changes_a_plan_to_second_order():
    """A law without gains, sampled every second, fourth and eighth node of its plan."""
    plan = da.solve(PENDULUM, **LIFT, steps=64, certify=False)
    law, h = deaf(da.feedback(PENDULUM, plan, final=LIFT["final"])), 1.5 / 64
    runs = [
        np.asarray(da.simulate(PENDULUM.system, [0.0], [0.0], h=h, steps=64, feedback=law.sampled(h, every)).q)
        for every in (2, 4, 8)
    ]
    assert np.abs(runs[0] - plan.q).max() < 1e-2
    differences = [np.abs(coarse - fine)[::8].max() for fine, coarse in itertools.pairwise(runs)]
    assert differences[1] / differences[0] == pytest.approx(4.0, rel=0.1)


def test_a_law_is_traced_and_pickled(regulated):
    law = pickle.loads(pickle.dumps(regulated))
    q, v = jnp.asarray(law.q[12] + 0.01), jnp.asarray(law.v[12])
    for traced in (jax.jit(lambda *x: law(*x)), jax.jit(law)):
        assert float(traced(0.31, q, v)[0]) == pytest.approx(float(regulated(0.31, q, v)[0]), abs=1e-12)
    with pytest.raises(ValueError, match="q: found 1 numbers"):  # not one number for all coordinates
        law(0.31, q[:1], v)
    slope = jax.grad(lambda x: law(0.3, x, v)[0])(q)
    np.testing.assert_allclose(slope, -law.K[12, 0, :2], rtol=1e-9)


def test_wrong_arguments(swing_up):
    problem, plan, _ = swing_up
    for error, message, arguments in (
        (ValueError, "final: gives nothing for q of coordinate 0, but the solution has a costate", {}),
        (
            ValueError,
            r"final\[0\]: found 2 for coordinate 0; the solution has 1 there",
            {"final": ([2.0, np.pi], [0.0, 0.0])},
        ),
        (TypeError, "R: is missing", {"Q": np.eye(4)}),
        (ValueError, "final: found together with Q", {"final": UP, "Q": np.eye(4), "R": np.eye(1), "Q_T": np.eye(4)}),
        (ValueError, "R: found a matrix with a negative eigenvalue", {"Q": np.eye(4), "R": -np.eye(1), "Q_T": np.eye(4)}),
        (ValueError, r"Q: found shape \(2, 2\)", {"Q": np.eye(2), "R": np.eye(1), "Q_T": np.eye(4)}),
        (ValueError, "hold: found 3", {"final": UP, "hold": 3.0}),
    ):
        with pytest.raises(error, match=message):
            da.feedback(problem, plan, **arguments)
    with pytest.raises(TypeError, match="problem: found"):
        da.feedback(problem.system, plan)
    with pytest.raises(ValueError, match="solution: found 1 controls and 0 constraints; the problem has 1 and 1"):
        da.feedback(embedded()[0], plan)
