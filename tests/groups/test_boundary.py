"""Boundary problems on groups against values of shooting and collocation, closed forms, and the same curves as
quaternions."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import dalembert as da
from dalembert.gallery import PROBLEMS
from dalembert.groups import SE2, SE3, SO3

CUBIC = PROBLEMS["cubic_on_rotations"]
ONE = {"R": np.eye(3)}


def turned(axis, angle):
    axis = np.asarray(axis, float)
    return Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)).as_matrix()


def ratio(found, limit):
    errors = np.abs(np.array(found) - limit)
    return errors[:-1] / errors[1:]


@pytest.fixture(scope="module")
def cubic():
    return da.solve(CUBIC.problem, **CUBIC.boundary, steps=40)


def test_a_cubic_on_rotations_has_the_action_of_shooting(cubic):
    costs = [float(da.solve(CUBIC.problem, **CUBIC.boundary, steps=n).action) for n in (10, 20)] + [float(cubic.action)]
    assert ratio(costs, CUBIC.cost) == pytest.approx([3.95, 3.99], abs=0.01)
    assert costs[-1] - CUBIC.cost == pytest.approx(-1.85e-2, rel=0.01)
    assert cubic.kind == "minimum"
    assert cubic.statistics.iterations <= 4


def test_its_third_rate_follows_from_the_others(cubic):
    """d³ω/dt³ = d²ω/dt² × ω, from differences of the accelerations."""
    h = 1.0 / 160
    fine = da.solve(CUBIC.problem, **CUBIC.boundary, steps=160)
    a, omega = fine.jets[:, 2], fine.jets[:, 1]
    second = (a[2:] - a[:-2]) / (2 * h)
    third = (a[2:] - 2 * a[1:-1] + a[:-2]) / h**2
    assert_allclose(third[5:-5], np.cross(second, omega[1:-1])[5:-5], rtol=0, atol=0.02)


def test_momenta_at_the_ends_are_slopes_of_the_action(cubic):
    """momenta: of the last position, -∂S/∂q, by the body's axes, and of the velocity."""
    (q, v), T, d = CUBIC.boundary["final"], 1.0, 1e-4
    for axis in range(3):
        y = np.eye(3)[axis] * d
        both = []
        for sign in (1, -1):
            end = Rotation.from_quat(q, scalar_first=True) * Rotation.from_rotvec(sign * y)
            last = {"R": end.as_quat(scalar_first=True)}, {"R": v}
            both.append(da.solve(CUBIC.problem, initial=CUBIC.boundary["initial"], final=last, T=T, steps=40).action)
        assert cubic.momenta_final[0, axis] == pytest.approx((both[0] - both[1]) / (2 * d), abs=1e-5)


def test_vakonomic_rotations_without_spin_about_the_third_axis():
    """7π²/8, and a family of solutions: each turned about the third axis."""
    problem = da.VariationalProblem(
        lambda q, v: 0.5 * v.R @ v.R, da.Nonholonomic(lambda q, v: v.R[2]), coordinates={"R": SO3}
    )
    end = ({"R": turned((0, 0, 1), np.pi / 2)},)
    found = [da.solve(problem, initial=(ONE,), final=end, T=1.0, steps=n) for n in (20, 40, 80)]
    assert ratio([float(s.action) for s in found], 7 * np.pi**2 / 8) == pytest.approx([4.0, 4.0], abs=0.05)
    assert {s.kind for s in found} == {"degenerate"}
    assert np.abs(found[-1].v[1:-1, 2]).max() < 0.02


@pytest.mark.parametrize("angle", [0.3, 2.5])
def test_geodesics_turn_evenly_about_one_axis(angle):
    s = da.spline(SO3(), {0.0: np.eye(3), 2.0: turned((1, 2, 3), angle)}, derivatives=1, steps=10)
    assert_allclose(s["g"][5], turned((1, 2, 3), 0.5 * angle), rtol=0, atol=1e-12)
    assert_allclose(s.v, np.broadcast_to(s.v[0], s.v.shape), rtol=0, atol=1e-9)


@pytest.mark.parametrize("inertia", [1.0, [1.0, 2.0, 3.0]])
def test_splines_of_a_metric_tend_to_those_of_quaternions(inertia):
    """The covariant acceleration dω/dt - I⁻¹(Iω × ω), by the embedding of unit quaternions, where it is differentiated."""
    points = {0.0: np.eye(3), 1.0: turned((1, 0, 0), 1.0), 2.0: turned((0, 1, 0), 1.3)}
    stored = {t: Rotation.from_matrix(R).as_quat(scalar_first=True) for t, R in points.items()}
    apart = []
    for steps in (40, 80):
        one = da.spline(da.manifolds.LeftInvariant(SO3(), inertia), points, steps=steps, initial=([0.2, 0.1, 0.0],))
        rest = (np.array([0.0, 0.1, 0.05, 0.0]),)
        other = da.spline(da.manifolds.rotations(inertia), stored, steps=steps, initial=rest)
        apart.append(float(np.abs(one.q - other.q).max()))
        assert one.kind == "minimum"
    assert apart[1] < 1e-4
    assert apart[0] / apart[1] == pytest.approx(4.0, abs=0.05)


def test_a_metric_gives_another_cubic_than_the_bi_invariant_one():
    """9.920893527 of shooting with costates, of the metric diag(1, 2, 3)."""
    metric = da.manifolds.LeftInvariant(SO3(), [1.0, 2.0, 3.0])
    ends = {0.0: np.eye(3), 1.0: turned((1, 2, 2), 1.2)}
    costs = [
        float(da.spline(metric, ends, initial=([0.5, -0.3, 0.2],), final=([-0.2, 0.4, 0.6],), steps=n).action)
        for n in (20, 40, 80)
    ]
    assert ratio(costs, 9.920893527) == pytest.approx([4.0, 4.0], abs=0.03)


def test_on_rigid_motions_the_unit_metric_parts_into_a_turn_and_a_cubic_in_space():
    """Of SE(3) with G = 1, |Dξ/dt|² = |dω/dt|² + |ẍ|²: x is Hermite's cubic, R that on SO(3)."""
    turn, spin = turned((1, 2, 2), 2.0), [0.5, -0.3, 0.2]
    ends = {0.0: (np.eye(3), [0, 0, 0]), 1.0: (turn, [1.0, 0.5, 0.3])}
    speed = [-0.2, 0.4, 0.6], turn.T @ [0.0, 1.0, 0.0]
    found = [
        float(da.spline(SE3(), ends, initial=([*spin, 1.0, 0, 0],), final=([*speed[0], *speed[1]],), steps=n).action)
        for n in (20, 40)
    ]
    rise, one, two = np.array([1.0, 0.5, 0.3]), np.array([1.0, 0, 0]), np.array([0.0, 1.0, 0])
    moved = 2 * (3 * rise @ rise - 3 * rise @ (one + two) + one @ one + one @ two + two @ two)
    limit = (4 * found[1] - found[0]) / 3
    assert limit == pytest.approx(CUBIC.cost + moved, abs=2e-3)


def test_constraints_of_every_order_hold():
    tilt = turned((1, 0, 0), np.arccos(0.6))
    kept = da.VariationalProblem(
        lambda q, v, a: 0.5 * a.R @ a.R, da.Holonomic(lambda q: q.R[2, 2] - 0.6), derivatives=2, coordinates={"R": SO3}
    )
    s = da.solve(kept, initial=({"R": tilt}, {"R": tilt[2]}), final=({"R": turned((0, 0, 1), 1.0) @ tilt},), T=1.0, steps=20)
    assert_allclose(s["R"][:, 2, 2], 0.6, rtol=0, atol=1e-12)
    skate = da.VariationalProblem(
        lambda q, v, a: 0.5 * a.g @ a.g, da.Nonholonomic(lambda q, v: v.g[2]), derivatives=2, coordinates={"g": SE2}
    )
    turn = turned((0, 0, 1), 1.0)[:2, :2]
    s = da.solve(
        skate, initial=({"g": (np.eye(2), [0, 0])}, {"g": [0, 1, 0]}), final=({"g": (turn, [1, 1])},), T=1.0, steps=20
    )
    assert s.kind == "minimum"
    assert np.abs((s["g"].R.transpose(0, 2, 1)[:-1] @ np.diff(s["g"].x, axis=0)[..., None])[:, 1]).max() < 0.01
    wrong = {"R": tilt}, {"R": [1.0, 0, 0]}
    with pytest.raises(da.InconsistentDataError, match="initial"):
        da.solve(kept, initial=wrong, final=({"R": tilt},), T=1.0, steps=20)


def test_products_pass_through_points_and_begin_from_solutions_and_paths(tmp_path):
    problem = da.VariationalProblem(
        lambda q, v, a: 0.5 * a.R @ a.R + 0.5 * a.x @ a.x, derivatives=2, coordinates={"R": SO3, "x": 2}
    )
    first, last = {"R": np.eye(3), "x": [0, 0]}, {"R": turned((0, 1, 0), 1.5), "x": [3.0, 4.0]}
    middle = {"R": turned((1, 0, 0), 1.0), "x": [1e3, 0]}
    ends = {"initial": (first,), "final": (last, None), "through": {0.5: middle}, "T": 1.0}
    s = da.solve(problem, **ends, steps=20)
    assert_allclose(s["R"][10], middle["R"], rtol=0, atol=1e-15)
    flat = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
    plain = da.solve(flat, initial=([0.0, 0.0],), final=([3.0, 4.0],), through={0.5: [1e3, 0.0]}, T=1.0, steps=20)
    assert_allclose(s["x"], plain.q, rtol=0, atol=1e-8)
    assert da.solve(problem, **ends, steps=20, guess=s).statistics.iterations <= 2
    finer = da.solve(problem, **ends, steps=40, guess=s)
    again = da.solve(problem, **ends, steps=20, guess={"R": s["R"], "x": s["x"]})
    assert again.action == pytest.approx(float(s.action), rel=1e-12)
    assert finer.kind == "minimum"
    da.save(s, tmp_path / "s.nc")
    opened = da.load(tmp_path / "s.nc")
    assert_allclose(opened["R"], s["R"], rtol=0, atol=0)
    assert da.store.to_xarray(s).v.dims == ("time", "velocity")
    assert_allclose(np.linalg.norm(s.interpolate([0.13, 0.77])[:, :4], axis=1), 1.0, rtol=0, atol=1e-14)
    da.page(s, tmp_path / "s.html")


def test_other_units_give_the_same_turn():
    one = da.solve(CUBIC.problem, **CUBIC.boundary, steps=20)
    (q0, v0), (q1, v1) = CUBIC.boundary["initial"], CUBIC.boundary["final"]
    slow = 1e5
    problem = da.VariationalProblem(lambda q, v, a: 1e9 * a.R @ a.R, derivatives=2, coordinates={"R": SO3})
    two = da.solve(problem, initial=(q0, np.array(v0) / slow), final=(q1, np.array(v1) / slow), T=slow, steps=20)
    assert_allclose(two.q, one.q, rtol=0, atol=1e-9)
    turn = Rotation.from_rotvec([0.3, -2.0, 0.9])  # the same in other axes of space
    ends = [
        ({"R": turn.as_matrix() @ Rotation.from_quat(q, scalar_first=True).as_matrix()}, v) for q, v in ((q0, v0), (q1, v1))
    ]
    three = da.solve(CUBIC.problem, initial=ends[0], final=ends[1], T=1.0, steps=20)
    assert_allclose(three["R"], turn.as_matrix() @ one["R"], rtol=0, atol=1e-9)


def test_a_free_final_time():
    """∫(1 + ½|a|²)dt from rest to rest: T⁴ = 18θ²."""
    problem = da.VariationalProblem(lambda q, v, a: 1 + 0.5 * a.R @ a.R, derivatives=2, coordinates={"R": SO3})
    rest, last = {"R": [0, 0, 0]}, {"R": turned((1, 0, 0), 1.0)}
    s = da.solve(problem, initial=(ONE, rest), final=(last, rest), T=da.Free(1.5), steps=40)
    assert float(s.t[-1]) == pytest.approx(18**0.25, rel=1e-3)


def test_several_problems_at_once():
    stored = np.stack([Rotation.from_rotvec([0, 0, a]).as_quat(scalar_first=True) for a in (0.5, 1.0)])
    rest, one = np.zeros((2, 3)), np.tile([1.0, 0, 0, 0], (2, 1))
    found = da.solve_batch(CUBIC.problem, initial=(one, rest), final=(stored, rest), T=1.0, steps=20)
    assert [float(s.action) for s in found] == pytest.approx([6 * 0.25, 6.0], rel=0.01)


def test_numbers_at_ends_are_swept_by_the_names_of_positions_and_of_velocities():
    problem = da.VariationalProblem(
        lambda q, v, a: 0.5 * a.R @ a.R + 0.5 * a.x @ a.x, derivatives=2, coordinates={"R": SO3, "x": 2}
    )
    given = {"initial": (ONE | {"x": [0.0, 0.0]}, {}), "T": 1.0, "steps": 6}
    q, v = {"R": turned([1, 2, 2], 1.0), "x": [1.0, 2.0]}, {"R": [0.1, 0.2, 0.3]}
    swept = da.sweep(problem, {"final.x.2": [0.5, 2.0], "final.v.R.3": [0.3, 0.6]}, given | {"final": (q, v)})
    for x, w in ((0.5, 0.3), (2.0, 0.6)):
        end = q | {"x": [1.0, x]}, {"R": [0.1, 0.2, w]}
        alone = da.solve(problem, final=end, **given)
        assert_allclose(swept.sel(final_x_2=x, final_v_R_3=w).q, alone.q, rtol=0, atol=1e-13)
    whole = da.sweep(problem, {"final": [(q, v), (q, {"R": [0.0, 0.0, 0.7], "x": [5.0, 6.0]})]}, given).data
    assert [float(whole[f"final_v_{x}"][1]) for x in ("R.1", "R.2", "R.3", "x.1", "x.2")] == [0.0, 0.0, 0.7, 5.0, 6.0]
    assert float(whole["final_R.w"][0]) == pytest.approx(np.cos(0.5))
    with pytest.raises(ValueError, match=r"a velocity, x being a coordinate of R\.1, R\.2"):
        da.sweep(problem, {"final.v.R.w": [0.5]}, given | {"final": (q, v)})


def test_a_guess_takes_what_a_path_gives_of_one_coordinate():
    problem = da.VariationalProblem(lambda q, v: 0.5 * v.R @ v.R + 0.5 * v.x @ v.x, coordinates={"R": SO3, "x": 1})
    ends = {"initial": ({**ONE, "x": 0.0},), "final": ({"R": turned((1, 1, 0), 1.0), "x": 2.0},)}
    s = da.solve(problem, **ends, T=1.0, steps=6)
    assert s["x"].shape == (7,)
    again = da.solve(problem, **ends, T=1.0, steps=6, guess={"R": s["R"], "x": s["x"]})
    assert_allclose(again.q, s.q, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"initial": ({"R": 2 * np.eye(3)},)}, ValueError, "no rotation"),
        ({"initial": ({"R": np.diag([1.0, 1.0, -1.0])},)}, ValueError, "reflection"),
        ({"initial": ONE}, TypeError, "initial: .*tuple"),
        ({"initial": (ONE, {"R": [1, 0, 0]}, {"R": [0, 0, 0]})}, ValueError, "initial: found 3"),
        ({"final": ({"S": np.eye(3)},)}, ValueError, "coordinates are R"),
        ({"scheme": da.Hermite()}, ValueError, "scheme: .*groups.*more steps"),
        ({"bounds": {"q": (-1, 1)}}, ValueError, "bounds.*groups.*no order; give inequalities="),
        ({"bounds": {"u": (-1, 1)}}, ValueError, "bounds: found 'u'"),
        ({"inequalities": lambda q, v: q.R}, ValueError, r"inequalities: returns shape \(3, 3\)"),
        ({"initial": da.On(lambda q, v: v[0])}, ValueError, "initial: .*groups.*momenta_initial"),
        ({"initial": da.Nodes(np.zeros((2, 4)))}, ValueError, "initial: .*groups"),
        ({"guess": np.zeros((3, 4))}, ValueError, "guess"),
        ({"through": {0.33: ONE}}, ValueError, "through: .*node"),
        ({"steps": 2}, ValueError, "steps"),
        (
            {"guess": Rotation.from_rotvec(np.arange(11)[:, None] * [0, 0, np.pi]).as_quat(scalar_first=True)},
            ValueError,
            "half a turn",
        ),
    ],
)
def test_what_is_wrong_is_named(given, error, message):
    ends = {"initial": (ONE, {"R": [0, 0, 0]}), "final": ({"R": turned((1, 0, 0), 1.0)},), "T": 1.0, "steps": 10}
    with pytest.raises(error, match=message):
        da.solve(CUBIC.problem, **(ends | given))


def test_what_is_not_there_on_groups_is_refused():
    with pytest.raises(ValueError, match="derivatives: found 3"):
        da.VariationalProblem(lambda q, v, a, j: j.R @ j.R, derivatives=3, coordinates={"R": SO3})
    with pytest.raises(ValueError, match="groups"):
        da.simulate(CUBIC.problem, start=da.Start(jets=np.zeros((4, 3))), h=0.1, steps=10)
    with pytest.raises(ValueError, match="metric"):
        da.manifolds.LeftInvariant(SO3(), [1.0, -1.0, 1.0])
    with pytest.raises(TypeError, match="group"):
        da.manifolds.LeftInvariant("SO3")
    with pytest.raises(ValueError, match="ambient"):
        da.spline(SO3(), {0.0: np.eye(3), 1.0: np.eye(3)}, ambient=True)


def test_machine_code_solves_them_as_jax_does(monkeypatch):
    from dalembert.boundary.kkt import system
    from dalembert.native import Unsupported

    def none(*arguments):
        raise Unsupported("pretended", "for a test")

    problem = da.VariationalProblem(
        lambda q, v, a: 0.5 * a.R @ (jnp.array([1.0, 2.0, 3.0]) * a.R), derivatives=2, coordinates={"R": SO3}
    )
    one = da.solve(problem, **CUBIC.boundary, steps=10)
    monkeypatch.setattr(system, "CompiledAssembly", none)
    with pytest.warns(UserWarning, match="runs on JAX"):
        two = da.solve(problem, **{**CUBIC.boundary, "T": np.nextafter(1.0, 2.0)}, steps=10)
    assert_allclose(two.q, one.q, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("away", "steps", "digits"), [(0.0, 2000, 1e-11), (1e3, 80, 1e-10), (1e6, 20, 1e-7)])
def test_a_curve_far_away_or_of_many_steps_is_found(away, steps, digits):
    """In what positions are rounded to, the curve beside the origin: the action does not see where it is."""
    bent = da.VariationalProblem(lambda q, v, a: 0.5 * a.g @ a.g, derivatives=2, coordinates={"g": SE3})
    turned, place = Rotation.from_rotvec([0.3, -0.5, 0.8]).as_matrix(), away * np.array([1.0, -2.0, 1.0])
    ends = {"T": 3.0, "steps": steps}

    def between(place):
        begin = {"g": (np.eye(3), place)}, {"g": [0.1, 0.0, 0.0, 0.2, 0.0, 0.0]}
        return da.solve(bent, initial=begin, final=({"g": (turned, place + np.array([0.4, 0.3, 0.6]))}, {}), **ends)

    found, near = between(place), between(np.zeros(3))
    assert found.kind == "minimum"
    assert_allclose(found.action, near.action, rtol=digits)
    assert_allclose(found.v, near.v, rtol=0, atol=digits)


def test_a_plant_far_away_is_controlled():
    body = da.System(lambda q, v: 0.5 * v.g @ (jnp.array([1.0, 1.4, 2.0, 1.7, 1.7, 1.7]) * v.g), coordinates={"g": SE3})
    push = da.OptimalControl(body, cost=lambda q, v, u: u @ u, actuated=np.eye(6)[:, [0, 1, 2, 5]])
    turned = Rotation.from_rotvec([0.3, -0.5, 0.8]).as_matrix()
    costs = []
    for away in (0.0, 1e4, 1e6, 4e7):  # beyond an orbit about the Earth
        place = away * np.array([1.0, -2.0, 1.0])
        final = {"g": (turned, place + np.array([0.4, 0.3, 0.6]))}, {}
        costs.append(da.solve(push, initial=({"g": (np.eye(3), place)}, {}), final=final, T=3.0, steps=20).cost)
    assert_allclose(costs[:3], costs[0], rtol=1e-8)
    assert_allclose(costs[3], costs[0], rtol=1e-7)
