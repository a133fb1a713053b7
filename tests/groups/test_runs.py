"""What a run on a group has in common with every other: back-ends, tracing, many runs, stores, files, outcomes, pictures."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation

import dalembert as da
from dalembert.gallery import ENTRIES, free_rigid_body
from dalembert.groups import SE2, SE3, SO2, SO3

angular_velocity = free_rigid_body.angular_velocity
BODY, BALL, SLED = (ENTRIES[name] for name in ("free_rigid_body", "chaplygin_ball", "sled"))
HERE, SPIN = {"R": np.eye(3)}, {"R": [0.1, 1.5, 0.3]}


def run(**options):
    return da.simulate(BODY.system, HERE, SPIN, **{"h": 0.05, "steps": 40, **options})


def test_the_closed_form_is_reached_with_order_ten():
    path = run(h=0.1, steps=100, scheme=da.Scheme(order=10))
    assert_allclose(path.v, angular_velocity(path.t), rtol=0, atol=2e-11)
    assert_allclose(np.linalg.norm(path.q, axis=1), 1.0, rtol=0, atol=5e-16)


@pytest.mark.parametrize(("form", "less"), [("drift_kick_drift", 2.7), ("kick_drift_kick", 5.5)])
def test_exp_has_smaller_errors_than_cayley(form, less):
    errors = {}
    for retraction in ("cayley", "exp"):
        body = da.System(BODY.system.lagrangian, coordinates={"R": SO3(retraction)}, parameters=BODY.system.parameters)
        paths = [da.simulate(body, HERE, SPIN, h=10 / n, steps=n, scheme=da.Scheme(form)) for n in (200, 400)]
        errors[retraction] = [np.max(np.abs(path.v[-1] - angular_velocity(path.t)[-1])) for path in paths]
        assert_allclose(np.log2(errors[retraction][0] / errors[retraction][1]), 2.0, rtol=0, atol=0.02)
    assert errors["cayley"][1] > less * errors["exp"][1]


def test_exp_refuses_half_a_turn_and_agrees_with_jax():
    body = da.System(lambda q, v: 0.5 * v.R @ v.R - q.R[2, 2], coordinates={"R": SO3("exp")})
    native, by_jax = (
        da.simulate(body, HERE, SPIN, h=0.05, steps=40, solver=da.Solver(backend=b)) for b in ("native", "jax")
    )
    assert_allclose(native.q, by_jax.q, rtol=0, atol=1e-13)
    free = da.System(lambda q, v: 0.5 * v.R @ v.R, coordinates={"R": SO3("exp")})
    outcomes = [da.simulate(free, HERE, {"R": [0, 0, x]}, h=1.0, steps=2, throw=False).outcome for x in (3.14, 3.15)]
    assert outcomes == [da.Outcome.SUCCESS, da.Outcome.HALF_TURN]
    with pytest.raises(ValueError, match="retraction: found 'log'; give 'cayley' or 'exp'"):
        SO3("log")


@pytest.mark.parametrize("form", ["drift_kick_drift", "kick_drift_kick"])
def test_both_back_ends_agree(form):
    native, by_jax = (run(scheme=da.Scheme(form), solver=da.Solver(backend=b)) for b in ("native", "jax"))
    for name in ("q", "v"):
        assert_allclose(getattr(native, name), getattr(by_jax, name), rtol=0, atol=1e-13)


@pytest.mark.parametrize("form", ["drift_kick_drift", "kick_drift_kick"])
def test_a_stage_begins_where_its_differences_in_earlier_steps_lead(form):
    """One iteration for each of the five stages once twelve steps are known, by both back-ends and in lanes."""
    few, many = 15, 60
    scheme = da.Scheme(form, order=4)
    paths = {}
    for backend in ("native", "jax"):
        first, whole = (run(steps=n, scheme=scheme, h=0.02, solver=da.Solver(backend=backend)) for n in (few, many))
        assert int(whole.statistics.iterations) - int(first.statistics.iterations) == 5 * (many - few)
        paths[backend] = whole
    lanes = da.ensemble(BODY.system, HERE, np.tile(SPIN["R"], (20, 1)), h=0.02, steps=many, scheme=scheme)
    assert (np.asarray(lanes.statistics.iterations) == int(paths["native"].statistics.iterations)).all()
    for other in (paths["jax"], lanes[7]):
        assert_allclose(other.v, paths["native"].v, rtol=0, atol=1e-13)


TURNS = [lambda q, p, i=i: q.R[i] for i in range(3)]  # Rᵀe_i: turns of space


@pytest.mark.parametrize(("form", "order"), [("kick_drift_kick", 2), ("drift_kick_drift", 2), ("kick_drift_kick", 4)])
def test_momenta_of_left_and_right_symmetries_are_kept(form, order):
    """RIω of the free body; of Lagrange's top e₃·RIω and I₃ω₃. Between the nodes RIω swings."""
    scheme = da.Scheme(form, order=order)
    path = run(steps=2000, scheme=scheme)
    for turn in TURNS:
        assert da.measure.momentum(BODY.system, path, turn, scheme=scheme).range < 2e-12
    entry = ENTRIES["heavy_top"]
    spun = da.simulate(entry.system, entry.q0, entry.v0, h=0.02, steps=2000, scheme=scheme)
    for kept in (TURNS[2], lambda q, p: jnp.array([0.0, 0.0, 1.0])):
        assert da.measure.momentum(entry.system, spun, kept, scheme=scheme).range < 2e-12
    assert da.measure.momentum(entry.system, spun, TURNS[0], scheme=scheme).range > 0.1
    inertia = np.asarray(BODY.system.parameters["I"])
    swings = np.abs(np.einsum("kij,kj->ki", path["R"], path.v * inertia) - inertia * path.v[0]).max()
    assert swings < 2e-12 if form == "kick_drift_kick" else 1e-8 < swings < 1e-2


def test_energy_swings_and_constraints_hold_along_a_path():
    path = da.simulate(BALL.system, BALL.q0, BALL.v0, h=0.05, steps=2000)
    found = da.measure.energy(BALL.system, path)
    assert found.range / abs(found.values[0]) < 1e-3
    first, last = (np.mean(x) for x in np.split(np.asarray(found.values[1:]), [1000]))
    assert abs(first - last) < 0.1 * found.range
    (left,) = da.measure.constraint_residual(BALL.system, path)
    assert left.largest < 2e-15


def test_a_step_back_returns_to_rounding():
    path = run()
    back = da.simulate(BODY.system, path.q[-1], path.v[-1], h=-0.05, steps=40)
    assert_allclose(back.q[-1], path.q[0], rtol=0, atol=1e-14)
    assert_allclose(back.v[-1], path.v[0], rtol=0, atol=1e-13)


def test_rn_by_name_is_rn():
    """A mapping of numbers alone: the same states as with names, to rounding."""
    plain = ENTRIES["spherical_pendulum"]

    def lagrangian(q, v):
        return 0.5 * v.x @ v.x - q.x[2]

    named = da.System(lagrangian, da.Holonomic(lambda q: q.x @ q.x - 1.0), coordinates={"x": 3})
    first, second = (
        da.simulate(plain.system, plain.q0, plain.v0, h=0.05, steps=50),
        da.simulate(named, {"x": plain.q0}, {"x": plain.v0}, h=0.05, steps=50),
    )
    assert_allclose(second["x"], first.q, rtol=0, atol=1e-13)
    assert_allclose(second.constraint_forces, first.constraint_forces, rtol=0, atol=1e-11)


def test_an_angle_as_so2_is_the_angle_as_a_number():
    number = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))
    group = da.System(lambda q, v: 0.5 * v.a @ v.a + q.a[0, 0], coordinates={"a": SO2})
    first = da.simulate(number, [1.0], [0.3], h=0.1, steps=100)
    second = da.simulate(group, {"a": [np.cos(1.0), np.sin(1.0)]}, {"a": 0.3}, h=0.1, steps=100)
    assert_allclose(np.arctan2(second.q[:, 1], second.q[:, 0]), first.q[:, 0], rtol=0, atol=1e-12)
    assert_allclose(second.v, first.v, rtol=0, atol=1e-12)


def test_the_sled_ends_where_that_in_coordinates_does():
    coordinates = da.System(
        lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.3 * v[2] * (-jnp.sin(q[2]) * v[0] + jnp.cos(q[2]) * v[1])
        + 0.5 * (0.5 + 0.09) * v[2] ** 2,
        da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1]),
    )  # fmt: skip
    scheme = da.Scheme(order=8)
    first = da.simulate(coordinates, [0.0, 0.0, 0.0], [0.4, 0.0, 1.5], h=0.05, steps=100, scheme=scheme)
    second = da.simulate(SLED.system, SLED.q0, SLED.v0, h=0.05, steps=100, scheme=scheme)
    assert_allclose(second["g"].x, first.q[:, :2], rtol=0, atol=1e-9)
    assert_allclose(second["g"].R[:, 1, 0], np.sin(first.q[:, 2]), rtol=0, atol=1e-9)


def test_derivatives_under_jit():
    def last(w):
        return da.simulate(BODY.system, HERE, {"R": w}, h=0.1, steps=10).v[-1]

    w, e = jnp.array(SPIN["R"]), 1e-5
    found = jax.jit(jax.jacfwd(last))(w)
    apart = np.stack([(last(w + e * d) - last(w - e * d)) / (2 * e) for d in np.eye(3)], axis=1)
    assert_allclose(found, apart, rtol=0, atol=1e-8)


def test_many_runs():
    rates = np.random.default_rng(0).normal(size=(5, 3))
    batch = da.ensemble(BALL.system, {"R": np.eye(3), "x": np.zeros(2)}, rolling(rates), h=0.05, steps=20)
    for i in (0, 4):
        single = da.simulate(BALL.system, BALL.q0, rolling(rates)[i], h=0.05, steps=20)
        assert_allclose(batch[i].q, single.q, rtol=0, atol=1e-13)
        assert batch[i]["R"].shape == (21, 3, 3)
    with pytest.raises(da.InconsistentDataError, match="run 1"):
        da.ensemble(BALL.system, BALL.q0, rolling(rates) + np.outer(np.arange(5) == 1, np.ones(5)), h=0.05, steps=2)


def rolling(rates):
    """(ω, ẋ) of the ball in its first position."""
    return np.concatenate([rates, 0.7 * np.stack([rates[:, 1], -rates[:, 0]], axis=1)], axis=1)


def test_a_prepared_run_and_a_study():
    ready = da.prepare(BODY.system, h=0.05)
    assert_array_equal(ready(HERE, SPIN, 40).q, run().q)
    study = da.sweep(ready, {"v0": [[0.0, 0.0, 1.0], [0.1, 1.5, 0.3]]}, {"q0": HERE, "steps": 40})
    assert_array_equal(study.sel(v0=1).q, run().q)


@pytest.mark.parametrize("form", ["drift_kick_drift", "kick_drift_kick"])
def test_a_study_in_a_store_has_rows_of_positions_and_of_velocities(tmp_path, form):
    """A position has more numbers than a velocity, or a torque that is held."""
    parameters = {**BODY.system.parameters, "d": 0.1}
    braked = da.System(BODY.system.lagrangian, coordinates={"R": SO3}, parameters=parameters)
    law = da.SampledFeedback(lambda q, v, p: {"R": -p["d"] * v.R})
    given = {"q0": HERE, "v0": SPIN, "h": 0.05, "steps": 40, "scheme": da.Scheme(form), "feedback": law}
    kept, _ = (da.sweep(braked, {"d": [0.1, 0.2, 0.3]}, given, store=store) for store in (None, tmp_path / "study.zarr"))
    path, again = kept.sel(d=0.2), da.load(tmp_path / "study.zarr").sel(d=0.2)
    for name in ("q", "v", "feedback"):
        assert_array_equal(getattr(again, name), getattr(path, name))
    assert again["R"].shape == (41, 3, 3)


def test_steps_that_vary_and_a_law_and_a_stop():
    varied = da.simulate(BODY.system, HERE, SPIN, h=da.Varying(0.05), until=3.0)
    assert varied.t[-1] == 3.0
    assert_allclose(varied.v[-1], angular_velocity(3.0), rtol=0, atol=5e-3)
    braked = run(feedback=da.SampledFeedback(lambda q, v, p: {"R": -0.5 * v.R}))
    assert braked.feedback.shape == (40, 3)
    assert da.energy(BODY.system, braked.q[-1], braked.v[-1]) < 0.5 * da.energy(BODY.system, HERE, SPIN)
    stopped = run(steps=400, stop=lambda q, v, p: q.R[0, 0] < 0.5)
    assert stopped.outcome is da.Outcome.STOPPED
    assert stopped["R"][-1][0, 0] < 0.5 <= stopped["R"][-2][0, 0]


def test_a_run_that_comes_to_its_time_by_itself():
    """Equal steps end at `until` but for rounding: the last node is moved there by v."""
    even = da.Varying(0.05, lambda q, v, p: 1.0 + 0.0 * v.R[0])
    path = da.simulate(BODY.system, HERE, SPIN, h=even, until=2.0)
    assert (path.steps, path.t[-1]) == (40, 2.0)
    assert_allclose(path.q[-1], run().q[-1], rtol=0, atol=1e-13)
    batch = da.ensemble(BODY.system, HERE, [SPIN["R"], [0.0, 0.0, 1.0]], h=even, until=2.0, save=da.Save(every=None))
    assert_allclose(batch[0].q[-1], path.q[-1], rtol=0, atol=1e-13)


def test_a_stored_run_that_is_broken_off_goes_on(tmp_path):
    def press(done, total):
        if done > 1000:
            raise ConnectionError

    whole = run(steps=60_000, save=da.Save(every=1000))
    with pytest.raises(ConnectionError):
        run(steps=60_000, save=da.Save(store=tmp_path / "run.zarr", every=1000), progress=press)
    again = da.resume(tmp_path / "run.zarr", BODY.system)
    assert_array_equal(again.q[-1], whole.q[-1])
    with pytest.raises(ValueError, match="system: its parameters"):
        da.resume(tmp_path / "run.zarr", ENTRIES["heavy_top"].system)


def test_a_lyapunov_constraint_brings_the_body_to_rest():
    """V̇ = -F along the path, with a torque about one axis."""
    upright = da.System(
        lambda q, v: 0.5 * v.R @ v.R,
        da.Lyapunov(lambda q, v: 0.5 * v.R @ v.R + 1.0 - q.R[2, 2], lambda q, v: v.R[0] ** 2, actuated=0),
        coordinates={"R": SO3},
    )
    lean = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, -0.6], [0.0, 0.6, 0.8]])
    path = da.simulate(upright, {"R": lean}, {"R": [0.3, 0.0, 0.0]}, h=0.01, steps=200)
    value = 0.5 * np.sum(path.v**2, axis=1) + 1.0 - path["R"][:, 2, 2]
    lost = np.concatenate([[0.0], np.cumsum(0.5 * 0.01 * (path.v[1:, 0] ** 2 + path.v[:-1, 0] ** 2))])
    assert_allclose(value + lost, value[0], rtol=0, atol=5e-5)


@pytest.mark.parametrize("actuated", ["R.2", 1, [0.0, 1.0, 0.0]])
def test_an_actuated_axis_has_a_name(actuated):
    """ω̇ = -ω of a ball whose energy falls by ω², whatever the axis is called."""
    energy = lambda q, v: 0.5 * v.R @ v.R  # noqa: E731
    slowed = da.Lyapunov(energy, lambda q, v: v.R[1] ** 2, actuated)
    ball = da.System(energy, slowed, coordinates={"R": SO3})
    path = da.simulate(ball, HERE, {"R": [0.1, 1.0, 0.2]}, h=0.01, steps=100)
    assert_allclose(path.v[-1], [0.1, np.exp(-1.0), 0.2], rtol=0, atol=1e-5)
    law = da.control_law(ball)
    assert_allclose(law(HERE, {"R": [0.1, 1.0, 0.2]}), [-1.0], rtol=1e-12)
    wrong = da.System(energy, da.Lyapunov(energy, energy, "R.4"), coordinates={"R": SO3})
    with pytest.raises(TypeError, match=r"actuated: found str 'R\.4'.*of R\.1, R\.2, R\.3"):
        da.simulate(wrong, HERE, SPIN, h=0.05, steps=1)


def test_a_reference_is_read_by_name():
    """Beside the quaternions that it stores, turned by SciPy; of one run, of many, and in a traced program."""
    system = da.System(
        lambda q, v: 0.5 * v.R @ (jnp.array([1.0, 2.0, 3.0]) * v.R) + 0.5 * v.x @ v.x - q.x @ q.x,
        coordinates={"x": 2, "R": SO3},
    )
    start, speed, times = {"x": [1.0, 0.0], "R": np.eye(3)}, {"R": [0.1, 1.0, 0.2]}, [0.0, 1.0, 2.0]
    truth = da.reference(system, start, speed, times)
    assert_allclose(truth["R"], Rotation.from_quat(truth.q[:, 2:], scalar_first=True).as_matrix(), rtol=0, atol=1e-14)
    assert_array_equal(truth["x"], truth.q[:, :2])
    assert_allclose(truth["x"][:, 0], np.cos(np.sqrt(2.0) * np.array(times)), rtol=0, atol=1e-9)
    assert_array_equal(truth["R.w"], truth.q[:, 2])
    many = da.references(system, start | {"x": [[1.0, 0.0], [2.0, 0.0]]}, speed, times)
    assert_allclose(many["R"], np.stack([truth["R"]] * 2), rtol=0, atol=1e-9)
    traced = jax.jit(lambda w: da.reference(system, start, {"R": w}, jnp.array(times))["R"])
    assert_allclose(traced(jnp.array(speed["R"])), truth["R"], rtol=0, atol=1e-9)
    with pytest.raises(KeyError, match="'z'"):
        truth["z"]


def test_between_nodes():
    path = run(h=0.1, steps=30, scheme=da.Scheme(order=8))
    q, v = path.interpolate([1.025, 2.51], order=7)
    truth = da.reference(BODY.system, HERE, SPIN, [0.0, 1.025, 2.51])
    assert_allclose(v, angular_velocity([1.025, 2.51]), rtol=0, atol=1e-9)
    assert_allclose(np.abs(np.sum(q * truth.q[1:], axis=1)), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_half_a_turn_is_an_outcome(backend):
    path = da.simulate(
        BODY.system, HERE, {"R": [0.0, 0.0, 41.0]}, h=0.1, steps=5, throw=False, solver=da.Solver(backend=backend)
    )
    assert (path.outcome, path.steps) == (da.Outcome.HALF_TURN, 0)
    assert "half a turn" in path.describe()


def test_projection_to_the_group_and_to_the_constraint():
    near = da.project(BALL.system, {"R": 1.01 * np.eye(3) + 0.01, "x": [1.0, 2.0]}, {"R": [1.0, -0.6, 0.8]})
    R = np.asarray(da.groups.rotation(near.q[:4]))
    assert_allclose(R, da.groups.nearest_rotation(1.01 * np.eye(3) + 0.01), rtol=0, atol=1e-14)
    assert np.abs(BALL.system.constraints[0].residual(BALL.system, near.q, near.v, near.v, 0.0)).max() < 1e-14
    assert da.solvability(BALL.system, near.q, near.v).solvable


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_half_a_turn_is_an_outcome_of_many_runs(backend):
    given = {"h": 0.1, "steps": 30, "solver": da.Solver(backend=backend)}
    s = da.System(lambda q, v: 0.5 * v.w @ v.w, forces=lambda q, v: {"w": jnp.array([3.0])}, coordinates={"w": SO2})
    many = da.ensemble(s, np.tile([1.0, 0.0], (3, 1)), [[1.0], [28.0], [40.0]], **given)
    assert [(many[i].outcome.name, many[i].steps) for i in range(3)] == [
        ("SUCCESS", 30),
        ("HALF_TURN", 11),
        ("HALF_TURN", 0),
    ]


@pytest.mark.parametrize("away", [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
def test_projection_in_millimetres(away):
    """Positions far larger than the radians beside them: the residual of a consistent state is rounding of what is stored,
    and on the way to the nearest one the constraint is curved by more than Gauss and Newton's steps can take."""
    tip, e1 = jnp.array([0.0, 20.0, 150.0]), jnp.array([1.0, 0.0, 0.0])
    hinge = da.Holonomic(lambda q: q.g.x - q.g.R @ tip - q.s * e1)
    arm = da.System(lambda q, v: v.g @ v.g + v.s @ v.s, hinge, coordinates={"g": SE3, "s": 1})
    R = Rotation.from_rotvec(2.5 / np.sqrt(1.09) * np.array([1.0, 0.0, 0.3])).as_matrix()
    turn = Rotation.from_rotvec(np.linalg.norm(away) * np.array([0.02, -0.03, 0.01])).as_matrix()
    start = arm.space.read_position({"g": (R @ turn, R @ tip + 25.0 * e1 + jnp.array(away)), "s": 25.0}, "q0")
    near = da.project(arm, start, {"g": [0.4, 0.2, -0.3, 0.0, 0.0, 0.0]})
    residual = lambda q: arm.constraints[0].residual(arm, q, near.v, near.v, 0.0)  # noqa: E731
    assert np.abs(residual(near.q)).max() < 5e-11  # rounding of 150 mm by the condition of the slope
    # the way is across what the constraint leaves, in the coordinates around the start in which it is shortest
    y = arm.space.coordinates_around(start, near.q)
    assert near.moved_q == pytest.approx(np.linalg.norm(y), rel=1e-9, abs=1e-12)
    slope = jax.jacfwd(lambda y: residual(arm.space.retract(start, y)))(y)
    assert_allclose(y - np.linalg.pinv(slope) @ (slope @ y), 0.0, rtol=0, atol=1e-9)


def test_files_and_stores(tmp_path):
    path = run()
    da.save(path, tmp_path / "a.nc")
    again = da.load(tmp_path / "a.nc")
    assert_array_equal(again["R"], path["R"])
    assert_array_equal(again.v, path.v)
    data = path.to_xarray()
    assert data.q.sel(coordinate="R.w").shape == (41,)
    assert data.v.dims == ("time", "velocity")
    run(save=da.Save(store=tmp_path / "b.zarr"))
    assert_array_equal(da.load(tmp_path / "b.zarr").q, path.q)


def test_a_body_that_hangs_at_rest_is_consistent_to_the_rounding_of_its_rotation():
    """Its centre at R r: exact to the last digits of R and r, and refused where it is off by more."""
    pin = np.array([0.2, 0.1, 0.8])
    hung = da.System(
        lambda q, v: 0.5 * v.x @ v.x + 0.5 * v.R @ v.R - 9.81 * q.x[2], da.Holonomic(lambda q: q.x - q.R @ pin),
        coordinates={"R": SO3, "x": 3},
    )  # fmt: skip
    down = Rotation.align_vectors([[0.0, 0.0, -1.0]], [pin / np.linalg.norm(pin)])[0]
    for angle in np.linspace(0.0, 6.0, 12):
        turn = (Rotation.from_rotvec([0.0, 0.0, angle]) * down).as_matrix()
        path = da.simulate(hung, {"R": turn, "x": turn @ pin}, {}, h=0.02, steps=3)
        assert_allclose(path.v, 0.0, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match=r"constraints\[0\] \(Holonomic\) at q0 is"):
        da.simulate(hung, {"R": turn, "x": turn @ pin + 1e-7}, {}, h=0.02, steps=3)


def test_what_is_refused_says_what_is_right():
    curve = da.VariationalProblem(lambda q, v: 0.5 * v.R @ v.R, coordinates={"R": SO3})
    cases = [
        (lambda: da.simulate(BODY.system, {"S": np.eye(3)}, SPIN, h=0.1, steps=1), "q0: found S; the coordinates are R"),
        (lambda: da.simulate(BODY.system, np.zeros(3), SPIN, h=0.1, steps=1), "the 4 stored numbers R.w, R.x, R.y, R.z"),
        (lambda: da.simulate(BODY.system, HERE, {"R": [1.0]}, h=0.1, steps=1), "v0['R']: found shape (1,); give 3 numbers"),
        (lambda: run(scheme=da.Scheme("nodes")), "on groups take drift_kick_drift"),
        (lambda: run(scheme=da.Scheme(action=da.Beta(0.3))), "on groups the maps are those of the default"),
        (lambda: da.System(lambda q, v: 0.0, coordinates={"R": "SO3"}), "coordinates['R']: found str 'SO3'"),
        (lambda: da.System(lambda q, v: 0.0, coordinates={}), "empty mapping"),
        (
            lambda: da.measure.helmholtz(da.measure.modified(BODY.system, BODY.q0, BODY.v0, h=0.1, order=2)),
            "helmholtz is there for systems on Rⁿ",
        ),
        (lambda: da.DiscreteSystem(lambda a, b: 0.0, coordinates={"R": SO3()}), "belong to a System"),
        (lambda: da.simulate(curve, HERE, SPIN, h=0.1, steps=2), "flow of a variational problem is there for systems"),
    ]
    for call, message in cases:
        with pytest.raises((ValueError, TypeError), match=re.escape(message)):
            call()


@pytest.mark.parametrize("given", [np.zeros((3, 3)), np.diag([1.0, 1.0, -1.0]), np.zeros(4)])
def test_what_has_no_nearest_rotation_is_not_projected(given):
    with pytest.raises(ValueError, match=r"q0\['R'\]: found .*nearest"):
        da.project(BODY.system, {"R": given}, {})


def test_a_projection_says_how_far_a_matrix_is_from_the_nearest_rotation():
    found = da.project(BALL.system, {"R": 2.0 * np.eye(3), "x": [1.0, 2.0]}, {})
    assert_allclose(found.moved_q, np.sqrt(3.0), rtol=1e-15)


def test_many_states_belong_to_an_ensemble():
    """A coordinate of R¹ takes rows of numbers there, as `path["x"]` gives them."""
    body = da.System(lambda q, v: 0.5 * v.R @ v.R + 0.5 * v.x @ v.x, coordinates={"R": SO3, "x": 1})
    many = {**HERE, "x": [1.0, 2.0, 3.0]}
    for call in (lambda: da.simulate(body, many, {}, h=0.1, steps=2), lambda: da.project(body, many, {})):
        with pytest.raises(ValueError, match="q0: found 3 runs of 5 numbers; give one, or call ensemble"):
            call()
    assert_array_equal(da.ensemble(body, many, {}, h=0.1, steps=2).q[:, -1, 4], many["x"])


def test_a_user_who_reads_a_name_that_is_not_there():
    with pytest.raises(TypeError, match="Q: is no coordinate; found R"):
        da.simulate(da.System(lambda q, v: v.Q @ v.R, coordinates={"R": SO3()}), HERE, SPIN, h=0.1, steps=1)


def test_a_body_is_drawn_by_its_rotation():
    R = np.asarray(da.groups.rotation(jnp.array([0.5, 0.5, 0.5, 0.5])))
    corners = np.asarray(da.Body(R, [1.0, 2.0, 3.0]).points())
    back = (corners - np.array([1.0, 2.0, 3.0])) @ R
    assert_allclose(np.abs(back), np.broadcast_to([0.5, 0.3, 0.15], back.shape), rtol=0, atol=1e-15)
    assert SE2().show(jnp.array([1.0, 0.0, 1.0, 2.0])).x.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="give a rotation"):
        da.Body(np.eye(2), [1.0, 2.0, 3.0])


def test_the_page_and_the_figure_name_the_axes(tmp_path):
    path = da.simulate(BALL.system, BALL.q0, BALL.v0, h=0.05, steps=40)
    da.page(path, tmp_path / "ball.html")
    assert "R.1" in (tmp_path / "ball.html").read_text(encoding="utf-8")
    figure = da.plot(path, velocities=True)
    assert any("R.w" in ax.get_ylabel() for ax in figure.axes)
