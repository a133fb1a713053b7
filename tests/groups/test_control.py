"""Optimal control of plants on groups against values of shooting and collocation, and the same plants as quaternions."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import dalembert as da
from dalembert.gallery import PROBLEMS
from dalembert.groups import SE2, SO3

REST = {"R": [0.0, 0.0, 0.0]}
ONE = {"R": np.eye(3)}
BODY = da.System(lambda q, v, p: 0.5 * v.R @ (p["I"] * v.R), coordinates={"R": SO3}, parameters={"I": [1.0, 2.0, 3.0]})


def effort(q, v, u, p):
    return 0.5 * u @ u


def turned(axis, angle):
    axis = np.asarray(axis, float)
    return Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)).as_matrix()


def ratios(costs, limit):
    errors = np.abs(np.array([float(x) for x in costs]) - limit)
    return errors[:-1] / errors[1:]


SATELLITE = da.OptimalControl(BODY, cost=effort, actuated=["R.1", "R.2"])
TURN = {"initial": (ONE, REST), "final": ({"R": turned((2, 1, 1), 1.2)}, REST), "T": 2.0}


def test_a_satellite_with_two_torques_turns_about_any_axis():
    found = [da.solve(SATELLITE, **TURN, steps=n) for n in (20, 40, 80)]
    assert ratios([s.cost for s in found], 11.3922424537) == pytest.approx([3.95, 3.99], abs=0.02)
    assert {s.kind for s in found} == {"minimum"}
    assert_allclose(found[0]["R"][-1], TURN["final"][0]["R"], rtol=0, atol=1e-12)
    assert found[0].u.shape == (21, 2)


def test_its_controls_lead_there_by_a_run_of_the_plant():
    """Steps of the same discrete equations, with the controls of the nodes: forces held in the axes of the body."""
    s = da.solve(SATELLITE, **TURN, steps=400)

    def torque(q, v, t, p):
        return jnp.array([jnp.interp(t, s.t, s.u[:, 0]), jnp.interp(t, s.t, s.u[:, 1]), 0.0])

    driven = da.System(
        lambda q, v, t, p: 0.5 * v.R @ (p["I"] * v.R), forces=torque, coordinates={"R": SO3},
        parameters={"I": [1.0, 2.0, 3.0]}, time_dependent=True,
    )  # fmt: skip
    path = da.simulate(driven, ONE, REST, h=0.005, steps=400, solver=da.Solver(backend="jax"))
    assert_allclose(path["R"][-1], TURN["final"][0]["R"], rtol=0, atol=2e-4)


def test_three_torques_cost_what_they_cost_for_the_quaternion():
    entry = PROBLEMS["rigid_body"]
    problem = da.OptimalControl(BODY, cost=effort, actuated=np.eye(3))
    ends = {"initial": (ONE, REST), "final": ({"R": turned((1, 2, 3), 2.5)}, REST), "T": 1.0}
    costs = [da.solve(problem, **ends, steps=n).cost for n in (20, 40, 80)]
    assert ratios(costs, entry.cost) == pytest.approx([3.88, 3.97], abs=0.01)


def test_no_quaternion_jumps_to_its_negative():
    """The last one is given by a matrix, past half a turn, where w changes its sign: interpolation needs it continuous."""
    problem = da.OptimalControl(BODY, cost=effort, actuated=np.eye(3))
    ends = {"initial": ({"R": turned((1, 0, 0), 3.0)}, REST), "final": ({"R": turned((1, 0, 0), 4.0)}, REST), "T": 1.0}
    s = da.solve(problem, **ends, steps=10, certify=False)
    assert np.sum(s.q[1:] * s.q[:-1], axis=1).min() > 0.9
    between = Rotation.from_quat(s.interpolate(np.array([0.95])), scalar_first=True)
    assert between.as_euler("xyz")[0, 0] == pytest.approx(4.0 - 2 * np.pi, abs=0.02)


FLIGHT = {"initial": (ONE | {"x": [0, 0, 0]}, {}), "final": (ONE | {"x": [1, 0.5, 0.3]}, {}), "T": 2.0}


def test_a_quadrotor_flies_from_hover_to_hover(quadrotor):
    found = [da.solve(quadrotor, **FLIGHT, steps=n) for n in (40, 80, 160)]
    assert ratios([s.cost for s in found], 195.7033520183) == pytest.approx([3.74, 3.93], abs=0.02)
    assert {s.kind for s in found} == {"minimum"}


def test_costates_are_slopes_of_the_cost(quadrotor):
    s, d = da.solve(quadrotor, **FLIGHT, steps=20), 1e-4
    for axis in range(3):
        costs = []
        for sign in (1, -1):
            R = Rotation.from_rotvec(sign * d * np.eye(3)[axis]).as_matrix()
            first = {"R": R, "x": [0, 0, 0]}, {}
            costs.append(float(da.solve(quadrotor, **(FLIGHT | {"initial": first}), steps=20).cost))
        assert s.costates_initial[0, axis] == pytest.approx((costs[0] - costs[1]) / (2 * d), rel=1e-4, abs=1e-3)


def test_bounds_on_controls_guesses_and_refinement():
    free = da.solve(SATELLITE, **TURN, steps=40)
    most = 0.8 * np.abs(free.u).max()
    kept = da.solve(SATELLITE, **TURN, steps=40, bounds={"u": (-most, most)}, guess=free)
    assert np.abs(kept.u).max() <= most * (1 + 1e-8)
    assert kept.cost > free.cost
    assert kept.kind == "minimum"
    again = da.solve(SATELLITE, **TURN, steps=40, guess=({"R": free["R"]}, free.u))
    assert float(again.cost) == pytest.approx(float(free.cost), rel=1e-10)
    assert da.solve(SATELLITE, **TURN, steps=40, guess=free).statistics.iterations <= 2
    finer = da.refine(SATELLITE, free, **{k: TURN[k] for k in ("initial", "final")}, tolerance=1e-5)
    assert float(finer.refinement.cost) == pytest.approx(11.3922424537, rel=1e-5)


def test_a_guess_that_turns_too_far_is_left_for_the_shorter_way():
    """One turn more than the torques allow in the time; without bounds the shorter way costs 6."""
    problem, share = da.OptimalControl(BODY, cost=effort, actuated=np.eye(3)), np.linspace(0, 1, 21)
    ends = {"initial": (ONE, REST), "final": ({"R": turned((1, 0, 0), 1.0)}, REST), "T": 1.0, "steps": 20}
    winding = np.outer(share**2 * (3 - 2 * share) * (1 + 2 * np.pi), [1, 0, 0])
    guess = {"R": Rotation.from_rotvec(winding).as_matrix()}
    s = da.solve(problem, **ends, guess=guess, bounds={"u": (-8, 8)})
    assert float(s.cost) == pytest.approx(6.0, rel=0.01)


def test_a_turn_keeps_the_bound_on_its_rate():
    """About one axis: the torque falls to 0 in τ = 3/2 (T - θ/ω) until ω is reached, and rises against it before the end."""
    problem, most = da.OptimalControl(BODY, cost=effort, actuated=np.eye(3)), 1.25
    ends = {"initial": (ONE, REST), "final": ({"R": turned((1, 0, 0), 1.0)}, REST), "T": 1.0}
    bounds = {"v": {"R.1": (-most, most)}}
    found = [da.solve(problem, **ends, steps=n, bounds=bounds) for n in (20, 40)]
    assert ratios([s.cost for s in found], 4 * most**2 / (3 * 1.5 * (1 - 1 / most)))[0] == pytest.approx(3.87, abs=0.03)
    rates = found[1].bounds["v"]
    assert rates.values.max() <= most
    assert rates.active.sum(axis=0).tolist() == [16, 0, 0]


def test_a_rolling_ball_is_moved_by_torques(tmp_path):
    """Nonholonomic, from rest to rest: it rolls straight, (I + m r²)θ̈ = u and the cost 12 (I + m r²)²θ²/T³."""
    ball = da.System(
        lambda q, v: 0.2 * v.R @ v.R + 0.5 * v.x @ v.x,
        da.Nonholonomic(lambda q, v: v.x - 0.5 * jnp.array([(q.R @ v.R)[1], -(q.R @ v.R)[0]])),
        coordinates={"R": SO3, "x": 2},
    )
    torques = lambda q: jnp.concatenate([q.R.T, jnp.zeros((2, 3))])  # noqa: E731  about the axes of space
    roll = da.OptimalControl(ball, cost=lambda q, v, u: u @ u, actuated=torques)
    rest = {"R": [0, 0, 0], "x": [0, 0]}
    straight = {"R": turned((0, 1, 0), 2.0), "x": [1.0, 0.0]}
    found = [da.solve(roll, initial=(ONE | {"x": [0, 0]}, rest), final=(straight, rest), T=1.0, steps=n) for n in (20, 40)]
    inertia = 0.4 + 0.25  # about the point of contact
    limit = 12 * (inertia * 2.0) ** 2
    assert ratios([s.cost for s in found], limit)[0] == pytest.approx(3.83, abs=0.05)
    da.save(found[0], tmp_path / "s.nc")
    assert_allclose(da.load(tmp_path / "s.nc")["R"], found[0]["R"], rtol=0, atol=0)
    da.page(found[0], tmp_path / "s.html")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"initial": ({"R": 2 * np.eye(3)}, REST)}, ValueError, "no rotation"),
        ({"bounds": {"q": (-1, 1)}}, ValueError, "bounds.*groups.*no order"),
        ({"bounds": {"v": {"R.w": (-1, 1)}}}, ValueError, r"R\.w.*R\.1"),
        ({"bounds": {"v": (0.5, 1)}}, ValueError, r"v\[0\] = 0 given"),
        ({"final": da.Periodic()}, ValueError, "final: .*groups"),
        ({"scheme": da.Lobatto()}, ValueError, "Lobatto"),
        ({"guess": (np.zeros((3, 4)), np.zeros((11, 2)))}, ValueError, "guess"),
        ({"steps": 1}, ValueError, "steps"),
    ],
)
def test_what_is_wrong_is_named(given, error, message):
    with pytest.raises(error, match=message):
        da.solve(SATELLITE, **(TURN | {"steps": 10} | given))


def test_what_is_not_there_on_groups_is_refused():
    with pytest.raises(ValueError, match="groups"):
        da.control.eliminate(SATELLITE)
    with pytest.raises(TypeError, match=r"R\.w.*R\.1"):
        da.OptimalControl(BODY, cost=effort, actuated="R.w")


def test_a_skate_is_parked_at_the_cost_of_the_plane():
    """The knife edge in SE(2), with thrust and torque: no angle and no reactions to be written."""
    sled = da.System(lambda q, v: 0.5 * v.g @ v.g, da.Nonholonomic(lambda q, v: v.g[2]), coordinates={"g": SE2})
    park = da.OptimalControl(sled, cost=lambda q, v, u: u @ u, actuated=[0, 1])
    ends = {"initial": ({"g": (np.eye(2), [0, 0])}, {}), "final": ({"g": (np.eye(2), [0, 1])}, {}), "T": 4.0}
    costs = [da.solve(park, **ends, steps=n).cost for n in (40, 80)]
    assert ratios(costs, PROBLEMS["knife_edge"].cost)[0] == pytest.approx(4.0, abs=0.03)
    bounded = da.solve(park, **ends, steps=40, bounds={"u": (-1.5, 1.5)}, guess="homotopy")
    assert np.abs(bounded.u).max() <= 1.5 + 1e-8
    assert bounded.kind == "minimum"


def test_free_times_batches_and_positions_that_are_held():
    """About one axis the cost is that of a mass: T⁴ = 18θ² with a price of time, and 12θ² for ∫|u|² in a second."""
    priced = da.OptimalControl(BODY, cost=lambda q, v, u, p: 1 + 0.5 * u @ u, actuated=np.eye(3))
    last = {"R": turned((1, 0, 0), 1.0)}
    s = da.solve(priced, initial=(ONE, REST), final=(last, REST), T=da.Free(1.5), steps=40)
    assert float(s.t[-1]) == pytest.approx(18**0.25, rel=1e-3)
    rest, one = np.zeros((2, 3)), np.tile([1.0, 0, 0, 0], (2, 1))
    stored = np.stack([Rotation.from_rotvec([a, 0, 0]).as_quat(scalar_first=True) for a in (0.5, 1.0)])
    found = da.solve_batch(priced, initial=(one, rest), final=(stored, rest), T=1.0, steps=20)
    assert [float(s.cost) for s in found] == pytest.approx([1 + 6 * 0.25, 7.0], rel=0.005)
    tilt = turned((1, 0, 0), np.arccos(0.6))
    held = da.System(lambda q, v: 0.5 * v.R @ v.R, da.Holonomic(lambda q: q.R[2, 2] - 0.6), coordinates={"R": SO3})
    turn = da.OptimalControl(held, cost=lambda q, v, u: u @ u, actuated=np.eye(3))
    s = da.solve(turn, initial=({"R": tilt}, REST), final=({"R": turned((0, 0, 1), 1.0) @ tilt}, REST), T=1.0, steps=40)
    assert float(s.cost) == pytest.approx(12.0, rel=2e-3)
    assert_allclose(s["R"][:, 2, 2], 0.6, rtol=0, atol=1e-14)
    with pytest.raises(da.InconsistentDataError, match="initial"):
        da.solve(turn, initial=({"R": tilt}, {"R": [1, 0, 0]}), final=({"R": tilt}, REST), T=1.0, steps=40)
