"""Guidance of plants on groups: against Riccati's recursion on differences of steps, solving again, and in a loop."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import dalembert as da
from dalembert.groups import SE2, SO3

REST, ONE = {"R": [0.0, 0.0, 0.0]}, {"R": np.eye(3)}
BODY = da.System(lambda q, v, p: 0.5 * v.R @ (p["I"] * v.R), coordinates={"R": SO3}, parameters={"I": [1.0, 2.0, 3.0]})
SATELLITE = da.OptimalControl(BODY, cost=lambda q, v, u, p: 0.5 * u @ u, actuated=["R.1", "R.2"])
EXACT = da.Solver(tolerance=1e-13)


def turned(*vector):
    return {"R": Rotation.from_rotvec(vector).as_matrix()}


TURN = {
    "initial": (ONE, {"R": [0.2, -0.4, 0.3]}), "final": (turned(1.0, 0.5, 0.5), {"R": [0.2, 0.1, -0.3]}), "T": 2.0,
    "steps": 12,
}  # fmt: skip


@pytest.fixture(scope="module")
def turn():
    return da.solve(SATELLITE, **TURN, solver=EXACT)


FLIGHT = {"initial": (ONE | {"x": [0, 0, 0]}, {}), "final": (ONE | {"x": [1, 0.5, 0.3]}, {}), "T": 2.0}


@pytest.fixture(scope="module")
def flight(quadrotor):
    return da.solve(quadrotor, **FLIGHT, steps=40)


def riccati_gains(problem, plan, mass, columns, weights):
    """K of the nodes with respect to (η, v): steps of `simulate` between kicks, differences of them, and the recursion."""
    space, (Q, R, Q_T) = problem.system.space, weights
    n, r, nodes = space.n, plan.u.shape[1], len(plan.t)
    h = float(plan.t[1] - plan.t[0])
    shares = np.full(nodes, h)
    shares[[0, -1]] = h / 2

    def step(q, v, u, share):
        """(q, v before the next kick, velocity of the step, v after this kick) of many states."""
        kicked = v + np.linalg.solve(mass, np.einsum("k,kij,kj->ki", share, columns(q), u)[..., None])[..., 0]
        found = da.ensemble(problem.system, q, kicked, h=h, steps=1, scheme=da.Scheme(form="kick_drift_kick"), solver=EXACT)
        last = np.asarray(found.q)[:, -1]
        return last, np.asarray(found.v)[:, -1], space.differences(q, last) / h, kicked

    q, v = [plan.q[:1]], [plan.v[:1]]
    for i in range(nodes - 1):
        after = step(q[-1], v[-1], plan.u[i : i + 1], shares[i : i + 1])
        q.append(after[0])
        v.append(after[1])
    q, v = np.concatenate(q), np.concatenate(v)
    assert_allclose(space.differences(q[-1], plan.q[-1]), 0.0, rtol=0, atol=1e-13)  # the plan is such a motion

    def difference(d):
        """∂(η, v, V, v after the kick)/∂(η, v, u) of all nodes at once."""
        change = np.concatenate([d * np.eye(2 * n + r), -d * np.eye(2 * n + r)])
        every = np.tile(change, (nodes, 1))
        rows = [np.repeat(x, len(change), axis=0) for x in (q, v, plan.u, shares)]
        moved = np.asarray(space.along(rows[0], every[:, :n]))
        last, before, velocity, kicked = step(moved, rows[1] + every[:, n : 2 * n], rows[2] + every[:, 2 * n :], rows[3])
        near = np.repeat(np.concatenate([q[1:], last[-1:]]), len(change), axis=0)
        found = np.concatenate([space.differences(near, last), before, velocity, kicked], axis=1)
        found = found.reshape(nodes, 2, 2 * n + r, -1)
        return np.swapaxes(found[:, 0] - found[:, 1], 1, 2) / (2 * d)

    slopes = (4 * difference(1e-3) - difference(2e-3)) / 3
    here, controls = np.eye(n, 2 * n + r), np.eye(2 * n + r)[2 * n :]

    def minimised(hessian):
        law = np.linalg.solve(hessian[2 * n :, 2 * n :], hessian[2 * n :, : 2 * n])
        return hessian[: 2 * n, : 2 * n] - hessian[: 2 * n, 2 * n :] @ law, law

    end = np.concatenate([here, slopes[-1, 3 * n :]])
    tail, law = minimised(end.T @ Q_T @ end + shares[-1] * controls.T @ R @ controls)
    laws = [law]
    for i in reversed(range(nodes - 1)):
        after, velocity = slopes[i, : 2 * n], slopes[i, 2 * n : 3 * n]
        both = [np.concatenate([x, velocity]) for x in (here, after[:n])]
        running = h / 2 * sum(x.T @ Q @ x for x in both) + shares[i] * controls.T @ R @ controls
        tail, law = minimised(running + after.T @ tail @ after)
        laws.insert(0, law)
    found = []
    for i, law in enumerate(laws):
        closed = np.concatenate([np.eye(2 * n), -law])
        if i == 0:
            v_of = np.eye(2 * n)[n:]
        elif i == nodes - 1:
            v_of = slopes[i, 3 * n :] @ closed
        else:  # the mean of the steps before and after
            back = np.linalg.inv(slopes[i - 1, : 2 * n, : 2 * n])
            v_of = 0.5 * (slopes[i - 1, 2 * n : 3 * n, : 2 * n] @ back + slopes[i, 2 * n : 3 * n] @ closed)
        found.append(law @ np.linalg.inv(np.concatenate([np.eye(n, 2 * n), v_of])))
    return np.array(found)


def weights_of(n, r):
    own = np.random.default_rng(0).standard_normal((2 * n, 2 * n))
    return own @ own.T / n + np.eye(2 * n), 0.1 * np.eye(r), 3.0 * np.eye(2 * n)


def test_gains_of_a_regulator_are_those_of_riccati_s_recursion_on_differences_of_steps(quadrotor, turn):
    """Kick by B(q)u, step of the library, kick: with a weight that couples all of η and v."""
    short = da.solve(quadrotor, **FLIGHT, steps=6, certify=False, solver=EXACT)
    turns = lambda q: np.asarray(quadrotor.system.space.elements("R", q))  # noqa: E731
    cases = (
        (SATELLITE, turn, np.diag([1.0, 2.0, 3.0]), lambda q: np.tile(np.eye(3)[:, :2], (len(q), 1, 1))),
        (
            quadrotor, short, np.diag([0.1, 0.12, 0.2, 1, 1, 1]),
            lambda q: np.concatenate([
                np.pad(turns(q)[:, :, 2], ((0, 0), (3, 0)))[..., None], np.tile(np.eye(6)[:, :3], (len(q), 1, 1))
            ], axis=2),
        ),
    )  # fmt: skip
    for problem, plan, mass, columns in cases:
        weights = weights_of(problem.system.space.n, plan.u.shape[1])
        law = da.feedback(problem, plan, **dict(zip(("Q", "R", "Q_T"), weights, strict=True)))
        exact = riccati_gains(problem, plan, mass, columns, weights)
        assert_allclose(law.K, exact, rtol=0, atol=1e-8 * np.abs(exact).max())


def again(plan, distance):
    """The problem solved again from a state beside the plan: changes (η, v) and of u at the nodes."""
    q, v = np.array([1.0, -2.0, 0.5]), np.array([0.3, 1.0, -2.0])
    start = turned(*(distance * q)), {"R": np.add(TURN["initial"][1]["R"], distance * v)}
    other = da.solve(SATELLITE, **(TURN | {"initial": start}), guess=plan, solver=EXACT)
    x = np.concatenate([BODY.space.differences(plan.q, other.q), other.v - plan.v], axis=1)
    return x, other.u - plan.u


def test_neighbouring_extremals_are_what_solving_again_finds(turn):
    law = da.feedback(SATELLITE, turn, final=TURN["final"], hold=0.2)
    misses = []
    for distance in (1e-3, 5e-4):
        x, u = again(turn, distance)
        misses.append(np.abs(u + np.einsum("krx,kx->kr", law.K, x))[:10].max() / np.abs(u).max())
    assert misses[0] < 0.02
    assert misses[0] / misses[1] == pytest.approx(2.0, abs=0.1)  # relative to a change of first order


def test_gains_keep_rates_at_their_bounds():
    """Neighbours that are solved again have the same steps at their bounds."""
    ends = TURN | {"final": (turned(0.9, 0.5, 0.5), REST), "initial": (ONE, REST)}
    free = da.solve(SATELLITE, **ends)
    most = 0.95 * np.abs(free.v).max(axis=0)
    bounded = {"bounds": {"v": (-most, most)}, "solver": da.Solver(tolerance=1e-10)}
    plan = da.solve(SATELLITE, **ends, **bounded, guess=free)
    assert np.count_nonzero(plan.bounds["v"].active) > 2
    law = da.feedback(SATELLITE, plan, final=ends["final"], hold=0.2)
    other = da.solve(SATELLITE, **(ends | {"initial": (turned(1e-4, -2e-4, 5e-5), REST)}), **bounded, guess=plan)
    x = np.concatenate([BODY.space.differences(plan.q, other.q), other.v - plan.v], axis=1)
    u = other.u - plan.u
    assert np.abs(u + np.einsum("krx,kx->kr", law.K, x))[:10].max() < 0.02 * np.abs(u).max()


def test_sensitivities_are_differences(turn):
    found = da.sensitivity(SATELLITE, turn, initial=TURN["initial"], final=TURN["final"])
    q, v = (BODY.space.read_position(TURN["final"][0], "q"), np.array(TURN["final"][1]["R"]))
    d = 1e-4
    for level, axis in ((0, 1), (1, 2)):
        change, near = d * np.eye(3)[axis], []
        for side in (1.0, -1.0):
            end = BODY.space.retract(q, side * change * (level == 0)), v + side * change * (level == 1)
            near.append(da.solve(SATELLITE, **(TURN | {"final": end}), guess=turn, solver=EXACT))
        a, b = near
        way = (BODY.space.differences(turn.q, a.q) - BODY.space.differences(turn.q, b.q)) / (2 * d)
        for own, other in (
            (found.final.q, way), (found.final.v, (a.v - b.v) / (2 * d)), (found.final.u, (a.u - b.u) / (2 * d))
        ):  # fmt: skip
            assert_allclose(own[:, :, level, axis], other, rtol=0, atol=1e-6 * np.abs(other).max())
        assert found.final.cost[level, axis] == pytest.approx((a.cost - b.cost) / (2 * d), rel=1e-6)
    inertia = np.array([1.0, 2.0, 3.0])
    a, b = (da.solve(SATELLITE.replace(I=inertia + s * np.eye(3)[1]), **TURN, guess=turn, solver=EXACT) for s in (d, -d))
    assert_allclose(found.parameters["I"].u[:, :, 1], (a.u - b.u) / (2 * d), rtol=0, atol=1e-5)
    assert found.parameters["I"].cost[1] == pytest.approx((a.cost - b.cost) / (2 * d), rel=1e-5)


def spinning(problem, w):
    """Dimension of what is reached along a motion with constant ω about a principal axis."""
    ends = {"initial": (ONE, {"R": w}), "final": (None, {"R": w}), "T": 1.0, "steps": 8}
    plan = da.solve(problem, **ends, certify=False)
    found = da.guidance.controllability(problem, plan)
    return int(np.sum(found.singular_values > 1e-8 * found.singular_values[0])), found.controllable


def test_what_two_torques_reach():
    """δω₃' = (I₁ - I₂)/I₃ (ω₁ δω₂ + ω₂ δω₁): at rest and about the third axis nothing of it, about the first one if I₁ ≠ I₂;
    otherwise η₃ is still turned from η₂."""
    assert spinning(SATELLITE, [0.0, 0.0, 0.0]) == (4, False)
    assert spinning(SATELLITE, [0.0, 0.0, 0.7]) == (4, False)
    assert spinning(SATELLITE, [0.7, 0.0, 0.0]) == (6, True)
    assert spinning(SATELLITE.replace(I=[1.0, 1.0, 3.0]), [0.7, 0.0, 0.0]) == (5, False)


WINDY = {"R": Rotation.from_rotvec([0.2, -0.15, 0.3]).as_matrix(), "x": [0.05, -0.1, 0.05]}
LOOP = {"h": 0.05, "steps": 80}


def away(run):
    """How far the end of a run is from that of the flight."""
    return np.linalg.norm(run["x"][-1] - FLIGHT["final"][0]["x"]) + Rotation.from_matrix(run["R"][-1]).magnitude()


def test_a_quadrotor_is_held_to_its_plan(quadrotor, flight, tmp_path):
    """Begun beside the plan it falls without feedback, and arrives with it; sampled by `simulate`, in the same way."""
    hover = da.solve(quadrotor, initial=FLIGHT["final"], final=FLIGHT["final"], T=4.0, steps=40)
    weights = {"Q": np.diag([10.0] * 6 + [1.0] * 6), "R": np.eye(4), "Q_T": 10 * np.eye(12)}
    law = da.feedback(quadrotor, flight, **weights).then(da.feedback(quadrotor, hover, **weights))
    assert_allclose(law.rest, [9.81, 0, 0, 0], rtol=0, atol=1e-6)
    deaf = da.guidance.Feedback(**{**vars(law), "K": 0.0 * law.K, "after": 0.0 * law.after})
    lost = da.closed_loop(quadrotor.system, deaf, WINDY, {}, **LOOP)
    run = da.closed_loop(quadrotor.system, law, WINDY, {}, **LOOP, disturbance=[0, 0, 0, 0.02, 0, 0])
    assert away(lost) > 1.0
    assert away(run) < 0.05
    assert "R.1" in law.describe()
    sampled = da.simulate(quadrotor.system, WINDY, {}, **LOOP, feedback=law.sampled(0.05))
    calm = da.closed_loop(quadrotor.system, law, WINDY, {}, **LOOP)
    apart = quadrotor.system.space.differences(sampled.q[:40], calm.q[:40])  # at the end one takes over a sample later
    assert_allclose(apart, 0.0, rtol=0, atol=1e-3)
    assert run.q.shape == run.planned.shape == (81, 7)
    assert run.disturbance.shape == (80, 6)
    assert_allclose(np.linalg.norm(run.planned[:, :4], axis=1), 1.0, rtol=0, atol=1e-14)
    assert_allclose(run["x"][:, 2].max(), run.planned[:, 6].max(), rtol=0, atol=0.2)
    da.save(run, tmp_path / "run.nc")
    again = da.load(tmp_path / "run.nc")
    assert isinstance(again, da.guidance.ClosedLoop)
    assert_allclose(again.planned, run.planned, rtol=0, atol=0)
    da.page(run, tmp_path / "run.html")
    da.plot(run)


def test_a_law_is_given_states_of_every_form(quadrotor, flight):
    law = da.feedback(quadrotor, flight, final=FLIGHT["final"])
    quaternion = Rotation.from_matrix(WINDY["R"]).as_quat(scalar_first=True)
    stored = np.concatenate([quaternion, WINDY["x"]])
    u = law(0.3, WINDY, {"x": [0.1, 0, 0]})
    for sign in (1.0, -1.0):
        other = np.concatenate([sign * quaternion, WINDY["x"]])
        assert_allclose(law(0.3, other, [0, 0, 0, 0.1, 0, 0]), u, rtol=1e-12)
    for q, v, error, message in (
        (2 * stored, np.zeros(6), ValueError, "length"),
        (stored, np.zeros(7), ValueError, "v: .*6 numbers"),
        (stored[None], np.zeros(6), ValueError, "q: found shape"),
        (None, np.zeros(6), TypeError, "q: is missing"),
        ({"R": np.eye(3)}, np.zeros(6), ValueError, "x is missing"),
    ):
        with pytest.raises(error, match=message):
            law(0.3, q, v)


def test_a_receding_horizon_keeps_its_bounds(quadrotor, flight):
    """Of a quadrotor that is heavier than the controller believes, measured with errors."""
    final, most = FLIGHT["final"], 15.0
    controller = da.mpc(quadrotor, final=final, T=2.0, steps=15, bounds={"u": (-most, most)})
    real, random = quadrotor.system.replace(J=[0.12, 0.1, 0.25]), np.random.default_rng(0)
    run = da.closed_loop(
        real, controller, WINDY, {}, h=0.05, steps=70, every=2, noise=lambda t: 1e-3 * random.standard_normal(12)
    )  # fmt: skip
    assert {record.outcome for record in controller.records} == {da.Outcome.SUCCESS}
    assert np.abs(run.u).max() <= most
    assert away(run) < 0.1
    assert run.noise.shape == (35, 12)
    first, *later = [record.iterations for record in controller.records]
    assert np.median(later) < first
    plan = controller.plan
    assert_allclose(plan["x"][-1], final[0]["x"], rtol=0, atol=1e-9)
    assert np.min(np.sum(plan.q[1:, :4] * plan.q[:-1, :4], axis=1)) > 0.0  # no quaternion jumps to its negative
    controller.deadline = 1e-6
    held = controller(plan.t[2], plan.q[2], plan.v[2])
    assert controller.records[-1].outcome is da.Outcome.INTERRUPTED
    assert_allclose(held, plan.u[2], rtol=0, atol=1e-9)  # the last plan goes on
    controller.deadline = None
    same = plan.q[0] * np.where(np.arange(7) < 4, -1, 1)  # -q and q are one rotation
    assert_allclose(controller(plan.t[0], same, plan.v[0]), plan.u[0], rtol=0, atol=1e-4)


DRAG = np.array([0.2, 0.1, 0.4])


def test_a_receding_horizon_is_a_problem_solved_by_hand():
    """On SE(2), at times that also go back: the control there, that in the middle of a hold, and that of a changed plant."""
    hover = da.System(
        lambda q, v: 0.65 * (v.g[1] ** 2 + 1.4 * v.g[2] ** 2) + 0.1 * v.g[0] ** 2,
        forces=lambda q, v: {"g": -DRAG * v.g},
        coordinates={"g": SE2},
    )
    stern = np.array([[0.0, -0.3], [1.0, 0.0], [0.0, 1.0]])
    task = da.OptimalControl(hover, cost=lambda q, v, u: u @ u + 0.1 * v.g @ v.g, actuated=stern)
    berth = {"final": ({"g": (np.array([[0.0, -1.0], [1.0, 0.0]]), [1.0, 0.5])}, {}), "T": 2.0, "steps": 20}
    controller = da.mpc(task, **berth)
    run = da.closed_loop(hover, controller, {"g": (np.eye(2), [0.0, 0.0])}, {"g": [0.1, 0.2, 0.0]}, h=0.05, steps=6, every=2)
    for i, t in enumerate(run.t_u):
        q, v = run.q[2 * i], run.v[2 * i]
        plan = da.solve(task, initial=(q, v), **berth)
        assert_allclose(run.u[i], 0.5 * (plan.u[0] + plan.u[1]), rtol=0, atol=1e-9)  # the hold is one step of the plan
        assert_allclose(controller(t, q, v), plan.u[0], rtol=0, atol=1e-9)
    before = DRAG.copy()
    try:
        DRAG[:] = [1.0, 2.0, 3.0]
        dragged = da.solve(task, initial=(q, v), **berth)
        assert np.abs(dragged.u[0] - plan.u[0]).max() > 0.1
        assert_allclose(controller(t, q, v), dragged.u[0], rtol=0, atol=1e-9)
    finally:
        DRAG[:] = before


def test_what_does_not_belong_to_a_plan_is_refused(turn):
    weights = {"R": np.eye(2), "Q_T": np.eye(6)}
    for door, error, message in (
        (lambda: da.feedback(SATELLITE, turn, final=(turned(1.0, 0.5, 0.6), REST)), ValueError, "final"),
        (lambda: da.feedback(SATELLITE, turn), ValueError, "costate"),
        (lambda: da.feedback(SATELLITE, turn, final={"R": np.eye(3)}), TypeError, "tuple"),
        (lambda: da.feedback(SATELLITE, turn, final=TURN["final"], through=[1.0]), TypeError, "through"),
        (lambda: da.feedback(SATELLITE, turn, Q=np.eye(7), **weights), ValueError, "Q: found shape"),
        (lambda: da.mpc(SATELLITE, final=da.Periodic(), T=2.0, steps=10), TypeError, "final"),
        (lambda: da.mpc(SATELLITE, final=TURN["final"], T=2.0, steps=10, bounds={"q": (-1, 1)}), ValueError, "bounds"),
        (lambda: da.closed_loop(BODY, 3, ONE, REST, h=0.1, steps=2), TypeError, "controller"),
    ):
        with pytest.raises(error, match=message):
            door()


def test_a_law_in_simulate_and_in_closed_loop_agree_to_the_order_of_the_step(turn):
    """On groups the two hold the force at other places of a step; on Rⁿ there is no difference."""
    law, apart = da.feedback(SATELLITE, turn, Q=np.eye(6), R=np.eye(2), Q_T=np.eye(6)), []
    for every in (8, 16):
        h = 2.0 / 12 / every
        looped = da.closed_loop(BODY, law, turned(0.2, 0.0, 0.1), REST, h=h, steps=11 * every, every=every)
        run = da.simulate(BODY, turned(0.2, 0.0, 0.1), REST, h=h, steps=11 * every, feedback=law.sampled(h, every))
        apart.append(np.abs(looped.v - run.v).max())
    assert_allclose(apart[0] / apart[1], 4.0, rtol=0.03)


def test_the_law_of_a_damper_is_known_where_its_constraint_says_nothing():
    """V = E and F = cω₁² make u = -cω₁; at ω₁ = 0 the constraint has no u in it, and the law is the limit."""
    swing = lambda q, v, p: 0.5 * v.R @ (p["I"] * v.R) + q.R[2, 2]  # noqa: E731
    energy = lambda q, v, p: 0.5 * v.R @ (p["I"] * v.R) - q.R[2, 2]  # noqa: E731
    damper = da.Lyapunov(energy, lambda q, v, p: 0.3 * v.R[0] ** 2, actuated=lambda q, p: {"R": jnp.array([1.0, 0, 0])})
    system = da.System(swing, damper, coordinates={"R": SO3}, parameters={"I": [1.0, 2.0, 3.0]})
    law, q0 = da.control_law(system), turned(1.0, 0.3, 0.0)
    assert_allclose(law(q0, {"R": [0.3, -0.4, 0.2]}), [-0.09], rtol=1e-13)
    across = law.at(q0, {"R": [0.0, -0.4, 0.2]})
    assert across.extended
    assert across.defined
    assert_allclose(across.u, [0.0], rtol=0, atol=1e-14)
    assert_allclose(law(q0, {"R": [1e-9, -0.4, 0.2]}), [-3e-10], rtol=1e-6)
    path = da.simulate(system, q0, {"R": [0.3, -0.4, 0.2]}, h=0.04, steps=100)
    assert path.v[:, 0].min() < -0.1 < 0.1 < path.v[:, 0].max()
    assert_allclose(path.multipliers[:, 0], -0.15 * (path.v[1:, 0] + path.v[:-1, 0]), rtol=0, atol=1e-13)


def test_the_law_of_a_servo_constraint_moves_the_plant_as_the_constraint_does():
    """A wheel brakes the body about its third axis; the law acts at every instant, and held over the steps."""
    carrier = lambda q, v, p: 0.5 * v.R @ (p["I"] * v.R) + 0.1 * (v.s[0] + v.R[2]) ** 2 - q.R[2, 0] * q.s[0]  # noqa: E731
    brake = da.SecondOrder(
        lambda q, v, a, p: a.R[2] + 0.6 * v.R[2] - 0.3 * q.R[2, 0], reactions=lambda q, v, a, p: {"s": jnp.ones((1, 1))}
    )
    system = da.System(carrier, brake, coordinates={"R": SO3, "s": 1}, parameters={"I": [1.0, 1.6, 2.1]})
    q0, v0 = turned(0.3, 0.5, -0.2) | {"s": [0.2]}, {"R": [0.4, -0.5, 1.1], "s": [3.0]}
    law = da.control_law(system)
    assert_allclose(law(q0, v0), da.acceleration(system, q0, v0)[1], rtol=1e-13)
    errors = []
    for h, steps in ((0.02, 25), (0.01, 50)):
        path = da.simulate(system, q0, v0, h=h, steps=steps)
        errors.append(np.abs(da.simulate(law.closed, q0, v0, h=h, steps=steps).q[-1] - path.q[-1]).max())
    assert errors[1] == pytest.approx(errors[0] / 4.0, rel=0.05)
    held = da.simulate(law.plant, q0, v0, h=0.01, steps=50, feedback=law.sampled())
    assert_allclose(da.closed_loop(law.plant, law, q0, v0, h=0.01, steps=50).q, held.q, rtol=0, atol=1e-13)
    assert_allclose(held.q[-1], path.q[-1], rtol=0, atol=0.02)
    assert_allclose(law(-path.q[-1] * np.array([1, 1, 1, 1, -1]), path.v[-1]), law(path.q[-1], path.v[-1]), rtol=1e-12)
