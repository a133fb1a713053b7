"""A closed loop is a path like any other; disturbances, deadlines, and loops against linear algebra."""

import json

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from scipy.optimize import minimize

import dalembert as da
from dalembert.gallery import double_integrator

POINT = da.System(lambda q, v: 0.5 * v @ v, coordinates=("x",), draw=lambda q: [da.Dots([[q[0], 0.0]])])
MOVE = da.OptimalControl(POINT, cost=lambda q, v, u: u @ u, actuated="x")
FIELDS = ("t", "q", "v", "multipliers", "constraint_forces", "feedback", "t_feedback", "h", "steps_done", "code", "t_u", "u",
          "planned", "plan_codes", "disturbance", "noise")  # fmt: skip


class Own:
    """A user's controller of the one coordinate: u = -K (q, v), and what it was given."""

    problem = MOVE

    def __init__(self, K=(0.0, 0.0)):
        self.K, self.seen = np.array(K), []

    def control(self, t, q, v, ahead):
        self.seen.append(np.concatenate([q, v]))
        return -self.K @ self.seen[-1]


@pytest.fixture(scope="module")
def disturbed():
    controller = da.mpc(MOVE, final=([1.0], [0.0]), T=1.0, steps=20, bounds={"u": (-5.0, 5.0)})
    more = {"disturbance": lambda t: [0.5 * np.sin(9.0 * t)], "noise": [[1e-3, -1e-3]] * 10}
    return da.closed_loop(POINT, controller, [0.0], [0.0], h=0.025, steps=40, every=4, **more)


def same(a, b):
    for name in FIELDS:
        one, other = getattr(a, name), getattr(b, name)
        assert type(one) is type(other), name
        assert one is None or np.array_equal(one, other, equal_nan=True), name
    assert type(a) is type(b)
    assert a.levels == b.levels
    assert a.provenance == b.provenance
    assert a.describe() == b.describe()


def test_it_is_stored_and_read_again(disturbed, tmp_path):
    assert isinstance(disturbed, da.Path)
    da.save(disturbed, tmp_path / "run.nc")
    same(disturbed, da.load(tmp_path / "run.nc"))
    plain = da.closed_loop(POINT, Own((1.0, 1.0)), [1.0], [0.0], h=0.1, steps=10)
    assert plain.planned is plain.plan_codes is plain.disturbance is plain.noise is None
    same(plain, da.store.from_xarray(plain.to_xarray()))
    assert da.matches(plain, POINT)
    data = disturbed.to_xarray()
    np.testing.assert_array_equal(data.u.sel(time_sample=0.1).values, disturbed.u[1])
    with pytest.raises(ValueError, match="data: u is missing"):
        da.store.from_xarray(data.drop_vars("u"))


@pytest.mark.parametrize("ending", ["interrupted", "interrupted at once", "failed"])
def test_a_run_that_ended_early_is_stored_too(ending, tmp_path):
    class Ending(Own):
        def control(self, t, q, v, ahead):
            if ending != "failed" and (ending.endswith("once") or t > 0.35):
                raise KeyboardInterrupt
            return [4.0]

    wall = da.System(lambda q, v: 0.5 * v @ v + (0.5 - q[0]) ** 0.5)
    try:
        run = da.closed_loop(wall if ending == "failed" else POINT, Ending(), [0.0], [0.0], h=0.1, steps=10)
        assert run.statistics.failed_step == run.steps
        assert run.statistics.failed_time == pytest.approx(0.1 * run.steps)
    except da.Interrupted as error:
        run = error.path
    assert run.outcome.failed
    assert len(run.q) == len(run.v) == run.steps + 1 < 11
    da.save(run, tmp_path / "run.nc")
    same(run, da.load(tmp_path / "run.nc"))
    assert run.outcome.name.lower().replace("_", " ") in run.describe()
    if run.steps:
        assert da.plot(run).axes
    da.page(run, tmp_path / "run.html")


def test_it_is_drawn(disturbed, tmp_path):
    figure = da.plot(disturbed, velocities=True)
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert labels == ["x", "velocities", "control u", "disturbance", "noise"]
    assert [line.get_label() for line in figure.axes[0].lines] == ["x", "x, plan"]
    t, u = figure.axes[2].lines[0].get_data()
    np.testing.assert_allclose(u[:4], np.repeat(disturbed.u[:2, 0], 2))
    np.testing.assert_allclose(t[[0, 1, 2, -1]], [0.0, 0.1, 0.1, 1.0])
    da.page({"run": disturbed, "again": disturbed}, tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "control u" in text
    assert "x, plan" in text
    assert da.animate(disturbed, fps=4).frames == 4


def test_it_says_what_it_is(disturbed):
    text = disturbed.describe()
    for line in ("40 steps of h = 0.025", "controller: mpc(T=1, steps=20, bounds on u)", "plans: 10 solved", "10 samples",
                 "disturbance: up to 0.49", "noise: up to 0.001"):  # fmt: skip
        assert line in text
    assert repr(disturbed) == "ClosedLoop(q=(41, 1), u=(10, 1), outcome=SUCCESS)"
    assert "plans" in disturbed._repr_html_()
    assert json.loads(disturbed.provenance.run)["every"] == 4
    controller = da.mpc(MOVE, T=1.0, steps=20, final=([1.0], [0.0]), deadline=10.0)
    assert repr(controller) == "mpc(T=1, steps=20, deadline=10)"
    assert "plans: 0 of 0 solved" in controller.describe()
    controller(0.0, [0.0], [0.0])
    controller(0.1, [0.03], [0.5])
    assert "plans: 2 of 2 solved" in controller.describe()
    plan = controller.plan
    law = da.feedback(MOVE, plan, final=([1.0], [0.0]))
    assert repr(law) == "Feedback(t=0.1 to 1.1, K=(21, 1, 2))"
    assert "held from t = 1" in law.describe()
    assert "bounds on u: none" in law.describe()
    assert "bounds on u" in law._repr_html_()


def test_the_plan_is_that_which_was_made_before(disturbed):
    """At a sample it is off by what the disturbance and the noise have done since the last one."""
    law = da.feedback(
        MOVE, da.solve(MOVE, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=50), final=([1.0], [0.0])
    )
    run = da.closed_loop(POINT, law, [0.2], [0.0], h=0.02, steps=60)
    np.testing.assert_allclose(run.planned[:51], law.q, atol=1e-12, rtol=0)
    np.testing.assert_array_equal(run.planned[51:], np.repeat(law.q[-1:], 10, axis=0))
    off = np.abs(disturbed.planned - disturbed.q)[:, 0]
    assert 1e-4 < off[1:5].max() < 1e-2
    late = da.closed_loop(POINT, law, [0.2], [0.0], h=0.02, steps=10, delay=2)
    assert not np.isnan(late.planned).any()


def test_a_disturbance_is_a_force_and_noise_is_an_error_of_the_measurement():
    given = {"q0": [0.3], "v0": [0.0], "h": 0.1, "steps": 10, "every": 2}
    pushed = [da.closed_loop(POINT, Own(), disturbance=d, **given) for d in ([2.0], np.full((10, 1), 2.0), lambda t: [2.0])]
    for run in pushed:
        np.testing.assert_allclose(run.q[:, 0], 0.3 + run.t**2, atol=1e-12, rtol=0)
        np.testing.assert_array_equal(run.disturbance, np.full((10, 1), 2.0))
        np.testing.assert_array_equal(run.feedback, 0.0)
    ramp = da.closed_loop(POINT, Own(), disturbance=lambda t: [t], **given)
    np.testing.assert_allclose(ramp.disturbance[:, 0], 0.05 + 0.1 * np.arange(10), rtol=1e-12)
    np.testing.assert_allclose(ramp.v[:, 0], 0.5 * ramp.t**2, atol=1e-12, rtol=0)
    own, rows = Own((1.0, 0.5)), np.random.default_rng(1).normal(size=(5, 2))
    noisy = da.closed_loop(POINT, own, noise=rows, **given)
    states = np.concatenate([noisy.q, noisy.v], axis=1)[0:10:2]
    np.testing.assert_allclose(own.seen, states + rows, rtol=1e-12)
    np.testing.assert_allclose(noisy.u[:, 0], -(states + rows) @ [1.0, 0.5], rtol=1e-12)
    np.testing.assert_allclose(noisy.feedback[:, 0], np.repeat(noisy.u[:, 0], 2), rtol=1e-12)
    for name, wrong, message in (
        ("disturbance", np.zeros((3, 1)), r"found shape \(3, 1\); give \(1,\), or a row for each step, \(10, 1\)"),
        ("noise", [0.0], r"give \(2,\), or a row for each sample, \(5, 2\)"),
        ("noise", lambda t: [0.0], r"found shape \(5, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            da.closed_loop(POINT, Own(), **given, **{name: wrong})


def test_a_regulator_runs_as_riccatis_equation_says():
    """x⁺ = (A - B K) x, whose cost is xᵀPx, with A and B of a force that is held."""
    h, Q, R = 0.1, np.diag([1.0, 0.1]), np.array([[0.2]])
    A, B = np.array([[1.0, h], [0.0, 1.0]]), np.array([[0.5 * h**2], [h]])
    P = solve_discrete_are(A, B, Q, R)
    K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    run = da.closed_loop(POINT, Own(K[0]), [1.0], [-0.3], h=h, steps=300)
    x = np.concatenate([run.q, run.v], axis=1)
    exact = np.array([np.linalg.matrix_power(A - B @ K, k) @ x[0] for k in range(301)])
    np.testing.assert_allclose(x, exact, atol=1e-12, rtol=0)
    cost = np.einsum("ki,ij,kj", x[:-1], Q, x[:-1]) + R[0, 0] * (run.u**2).sum()
    assert cost == pytest.approx(x[0] @ P @ x[0], rel=1e-10)


def test_a_receding_horizon_of_a_linear_plant_solves_the_quadratic_programs():
    """Each by SciPy, over the controls alone; several are at their bounds."""
    N, T, limit, h = 12, 1.0, 4.5, 0.05
    controller = da.mpc(MOVE, final=([1.0], [0.0]), T=T, steps=N, bounds={"u": (-limit, limit)}, tolerance=1e-10)
    run = da.closed_loop(POINT, controller, [0.0], [0.2], h=h, steps=16, every=4)
    d = T / N
    weights = np.full(N + 1, d)
    weights[[0, -1]] *= 0.5

    def end(u, q, v):  # of the discrete equations
        v = v + 0.5 * d * u[0]
        for k in range(1, N + 1):
            q = q + d * v
            v = v + (d if k < N else 0.5 * d) * u[k]
        return np.array([q - 1.0, v])

    q, v, at_bounds = 0.0, 0.2, 0
    for j, u in enumerate(run.u[:, 0]):
        found = minimize(
            lambda u: 10 * weights @ u**2, np.zeros(N + 1), jac=lambda u: 20 * weights * u, method="SLSQP",
            bounds=[(-limit, limit)] * (N + 1), options={"ftol": 1e-15, "maxiter": 500},
            constraints={"type": "eq", "fun": end, "args": (q, v)},
        )  # fmt: skip
        assert np.abs(end(found.x, q, v)).max() < 1e-9
        at_bounds += np.count_nonzero(np.abs(found.x) > limit - 1e-9)
        assert u == pytest.approx(np.interp(2 * h, d * np.arange(N + 1), found.x), abs=2e-6)
        assert controller.records[j].cost == pytest.approx(weights @ found.x**2, rel=1e-8)
        q, v = q + 4 * h * v + 8 * h**2 * u, v + 4 * h * u
    assert at_bounds >= 4
    np.testing.assert_allclose([run.q[-1, 0], run.v[-1, 0]], [q, v], atol=1e-12, rtol=0)


def test_after_a_missed_deadline_the_last_plan_goes_on():
    """No time is enough for a plan after the first; any for the other controller."""
    problem = double_integrator.double_integrator()
    given = {"final": ([1.0], [0.0]), "T": 1.0, "steps": 20, "bounds": {"u": (-5.0, 5.0)}}
    hurried, patient = (da.mpc(problem, **given, deadline=x) for x in (1e-9, 1e3))
    start = {"h": 0.025, "steps": 40, "every": 4, "disturbance": [0.3]}
    run, other = (da.closed_loop(problem.system, c, [0.0], [0.0], **start) for c in (hurried, patient))
    assert [r.outcome.name for r in hurried.records] == ["SUCCESS"] + 9 * ["INTERRUPTED"]
    assert "deadline, 1e-09 s, passed" in hurried.records[1].message
    np.testing.assert_array_equal(run.late, run.t_u[1:])
    np.testing.assert_allclose(run.u[:, 0], np.interp(run.t_u + 0.05, hurried.plan.t, hurried.plan.u[:, 0]), rtol=1e-12)
    assert "1 solved, 9 late" in run.describe()
    assert hurried.begun == 0.0
    assert len(other.late) == 0
    free = da.closed_loop(problem.system, da.mpc(problem, **given), [0.0], [0.0], **start)
    np.testing.assert_allclose(free.u, other.u, atol=1e-9, rtol=0)
    assert da.solve(problem, initial=([0.0], [0.0]), **given).outcome is da.Outcome.SUCCESS  # has all the time again


def test_what_cannot_be_run_is_named():
    with pytest.raises(ValueError, match="scheme: its velocities are between the nodes"):
        da.closed_loop(POINT, Own(), [0.0], [0.0], h=0.1, steps=4, scheme=da.Scheme("nodes"))

    class Wrong(Own):
        def control(self, t, q, v, ahead):
            return np.zeros((1, 1))

    with pytest.raises(ValueError, match=r"controller: its control\(\) returned shape \(1, 1\)"):
        da.closed_loop(POINT, Wrong(), [0.0], [0.0], h=0.1, steps=4)
    Wrong.control = lambda self, t, q, v, ahead: [1.0, 2.0]
    with pytest.raises(ValueError, match=r"its control\(\) returned 2 numbers; the plant has 1 controls"):
        da.closed_loop(POINT, Wrong(), [0.0], [0.0], h=0.1, steps=4)
    Wrong.control = lambda self, t, q, v, ahead: [np.nan]
    with pytest.raises(ValueError, match=r"its control\(\) at t = 0: found nan"):
        da.closed_loop(POINT, Wrong(), [0.0], [0.0], h=0.1, steps=4)
    plane = da.System(lambda q, v: 0.5 * v @ v)
    law = da.feedback(
        MOVE, da.solve(MOVE, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=20), final=([1.0], [0.0])
    )
    with pytest.raises(ValueError, match="q: found 2 numbers; the system has n = 1"):
        da.closed_loop(plane, law, [0.0, 0.0], [0.0, 0.0], h=0.1, steps=4)
