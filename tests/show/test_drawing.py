"""Shapes as data, scenes of them, and what a file keeps of a drawing."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.drawing import scene_of
from dalembert.gallery import ENTRIES, PROBLEMS
from dalembert.show import at_times, results_of, scene_for

PENDULUM = ENTRIES["pendulum"]


@pytest.fixture(scope="module")
def path():
    return da.simulate(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, h=PENDULUM.h, steps=40)


def test_the_rod_of_the_pendulum_is_where_the_closed_form_is():
    t = np.linspace(0.0, 6.0, 13)
    q = PENDULUM.exact(t)[0]
    _, rod, mass = scene_of(PENDULUM.system, t, q).outlines
    end = np.stack([np.sin(q[:, 0]), -np.cos(q[:, 0])], axis=1)
    np.testing.assert_allclose(rod.at[:, 1], end, rtol=0, atol=1e-14)
    np.testing.assert_allclose(mass.at[:, 0], end, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(rod.at[:, 0], 0.0)
    assert mass.trail
    assert (rod.kind, mass.kind) == ("rod", "dots")


def test_what_does_not_move_is_kept_once(path):
    ground, rod, _ = scene_for(results_of(path)[0]).outlines
    assert (ground.fixed, ground.at.shape, rod.fixed, rod.at.shape) == (True, (1, 2, 2), False, (41, 2, 2))


def test_a_wheel_that_rolls_stands_still_where_it_touches():
    """Velocity of the point of contact is zero: the centre moves by the radius times the angle."""
    entry = ENTRIES["vertical_rolling_disk"]
    q, v = (np.asarray(x) for x in entry.exact(np.array([1.3])))

    centre, spoke, quarter = entry.system.draw(jnp.asarray(q[0]), entry.system.parameters)[1].points()
    a, b = np.array([0.0, 0.0, -1.0]) @ np.stack([spoke - centre, quarter - centre], axis=1)  # the lowest point of the disk

    def point(x):
        """It, in the disk at x."""
        centre, spoke, quarter = entry.system.draw(x, entry.system.parameters)[1].points()
        return centre + a * (spoke - centre) + b * (quarter - centre)

    np.testing.assert_allclose(point(jnp.asarray(q[0]))[2], 0.0, atol=1e-14)
    velocity = jax.jvp(point, (jnp.asarray(q[0]),), (jnp.asarray(v[0]),))[1]
    np.testing.assert_allclose(velocity, 0.0, atol=1e-14)


def test_trailers_hang_together():
    """Each axle is behind the hitch by its own length, wherever the car is."""
    entry = ENTRIES["car_with_trailers"]
    p = entry.system.parameters
    rng = np.random.default_rng(1)
    q = rng.normal(size=(5, 6))
    outlines = scene_of(entry.system, np.arange(5.0), q).outlines
    hitches = [o.at for o in outlines if o.kind == "rod"]
    for at in hitches:
        np.testing.assert_allclose(np.linalg.norm(at[:, 1] - at[:, 0], axis=1), float(p["c"]), rtol=1e-14)
        np.testing.assert_allclose(np.linalg.norm(at[:, 2] - at[:, 1], axis=1), float(p["d"]), rtol=1e-14)
    np.testing.assert_array_equal(hitches[1][:, 0], hitches[0][:, 2])


def test_a_box_is_turned_by_its_rotation():
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    corners = np.asarray(da.Body.box([1.0, 2.0, 3.0], [2.0, 4.0, 6.0], rotation=turn).points()) - [1.0, 2.0, 3.0]
    np.testing.assert_allclose(np.abs(corners @ turn), np.broadcast_to([1.0, 2.0, 3.0], corners.shape), rtol=1e-14)
    flat = np.asarray(da.Body.box([0.0, 0.0], [2.0, 1.0], angle=0.5 * np.pi).points())
    np.testing.assert_allclose(flat, [[0.5, -1.0], [0.5, 1.0], [-0.5, 1.0], [-0.5, -1.0]], rtol=0, atol=1e-14)


def test_a_drawing_changes_nothing_of_a_run(path):
    plain = da.System(PENDULUM.system.lagrangian, coordinates=("θ",), parameters={"g_over_l": 1.0})
    other = da.simulate(plain, PENDULUM.q0, PENDULUM.v0, h=PENDULUM.h, steps=40)
    np.testing.assert_array_equal(other.q, path.q)
    assert other.provenance.source_hash == path.provenance.source_hash
    assert results_of(other)[0].problem is plain  # the drawing of one is not taken for that of the other
    assert scene_for(results_of(other)[0]).axes == ("t", "θ")


def test_a_loaded_path_and_a_loaded_solution_still_draw(path, tmp_path):
    da.save(path, tmp_path / "run.nc")
    found = da.load(tmp_path / "run.nc")
    for a, b in zip(scene_for(results_of(found)[0]).outlines, scene_for(results_of(path)[0]).outlines, strict=True):
        np.testing.assert_array_equal(a.at, b.at)
        assert a._replace(at=None) == b._replace(at=None)
    assert found.provenance == path.provenance
    da.save(found, tmp_path / "again.nc")
    assert len(scene_for(results_of(da.load(tmp_path / "again.nc"))[0]).outlines) == 3
    data = da.store.to_xarray(path)
    data.attrs["drawing"] = "[{}]"
    with pytest.raises(ValueError, match="data: the attribute drawing"):
        da.store.from_xarray(data)


def test_a_spline_on_a_sphere_has_the_sphere(tmp_path):
    curve = da.spline(da.manifolds.sphere(2.0), {0.0: [2.0, 0.0, 0.0], 1.0: [0.0, 2.0, 0.0]}, derivatives=1, steps=8)
    ball, dot = scene_for(results_of(curve)[0]).outlines
    assert (ball.kind, ball.fixed, dot.trail) == ("ball", True, True)
    assert np.linalg.norm(ball.at[0, 1] - ball.at[0, 0]) == 2.0
    da.save(curve, tmp_path / "curve.nc")
    assert scene_for(results_of(da.load(tmp_path / "curve.nc"))[0]).outlines[0].kind == "ball"
    assert len(da.plot(curve).axes) == 4  # q, dq/dt, the multipliers of φ, and the sphere


def test_of_an_ensemble_with_lengths_of_their_own_each_is_drawn_with_its_own():
    swing = da.System(
        lambda q, v, p: 0.5 * p["l"] ** 2 * v @ v + p["l"] * jnp.cos(q[0]),
        parameters={"l": 1.0},
        draw=lambda q, p: da.Rod([[0.0, 0.0], [p["l"] * jnp.sin(q[0]), -p["l"] * jnp.cos(q[0])]]),
    )
    runs = da.ensemble(swing, [[0.5], [0.5]], [0.0], h=0.1, steps=4, parameters={"l": [1.0, 3.0]})
    lengths = [np.linalg.norm(scene_for(one).outlines[0].at[:, 1], axis=1) for one in results_of(runs)]
    np.testing.assert_allclose(lengths, [[1.0] * 5, [3.0] * 5], rtol=1e-14)
    assert results_of(runs.lane(1))[0].problem is None  # one lane alone does not say which length it had


def test_between_frames_a_drawing_is_straight(path):
    scene = scene_for(results_of(path)[0])
    half = at_times(scene, np.array([-1.0, 0.5 * PENDULUM.h, 100.0]))
    rod = scene.outlines[1].at
    np.testing.assert_allclose(half.outlines[1].at, [rod[0], 0.5 * (rod[0] + rod[1]), rod[-1]], rtol=0, atol=1e-14)


def test_a_long_fast_motion_is_drawn_as_far_as_frames_resolve_it(path):
    t = np.linspace(0.0, 1000.0, 200_001)
    long = dataclasses.replace(path, t=t, q=np.sin(40.0 * t)[:, None], t_velocity=t, v=40.0 * np.cos(40.0 * t)[:, None])
    scene = scene_for(results_of(long)[0])
    assert len(scene.t) == 600
    assert 2.0 < scene.t[-1] < 100.0
    slow = dataclasses.replace(long, q=np.sin(0.04 * t)[:, None])
    assert scene_for(results_of(slow)[0]).t[-1] == t[-1]


def test_mistakes_are_named(path):
    beside = lambda q: [da.Dots([0.0, 0.0]), da.Dots([0.0, 0.0, 0.0])]  # noqa: E731
    for draw, said in (
        (lambda q: q, "draw: returns"),
        (lambda q: [q], "draw: item 0 is"),
        (beside, "draw: found shapes in the plane"),
    ):
        system = da.System(PENDULUM.system.lagrangian, parameters={"g_over_l": 1.0}, draw=lambda q, p, draw=draw: draw(q))
        with pytest.raises((TypeError, ValueError), match=said):
            da.animate(path, system=system)
    with pytest.raises(ValueError, match="axle: found none"):
        da.Wheel([0.0, 0.0, 0.0], 1.0)
    with pytest.raises(ValueError, match="at: found shape"):
        da.Rod([0.0, 0.0])
    with pytest.raises(TypeError, match="system: found"):
        da.animate(path, system=3)


def test_every_drawing_of_the_gallery_is_made_of_shapes():
    systems = [entry.system for entry in ENTRIES.values()]
    systems += [getattr(entry.problem, "system", entry.problem) for entry in PROBLEMS.values()]
    drawn = [system for system in systems if system.draw is not None and system.coordinates is not None]
    assert len(drawn) >= 12
    for system in drawn:
        scene = scene_of(system, np.zeros(1), np.linspace(0.1, 0.9, len(system.coordinates))[None])
        assert all(np.isfinite(outline.at).all() for outline in scene.outlines)


def test_pictures_stay_behind_when_a_path_is_pickled(path):
    again = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(again.q, path.q)
    assert results_of(again)[0].problem is None


def test_a_ball_that_moves_is_drawn_where_it_is():
    """In matplotlib too: one that stands still is a globe, one that moves a thing."""
    fall = da.System(lambda q, v: 0.5 * v @ v - q[2], coordinates=("x", "y", "z"), draw=lambda q: da.Ball(q, 0.5))
    run = da.simulate(fall, [0.0, 1.0, 3.0], [1.0, 0.0, 0.0], h=0.25, steps=4)
    (axes,) = da.animate(run, fps=10).figure(-1).axes
    points = np.stack(axes.lines[0].get_data_3d(), axis=1)
    np.testing.assert_allclose(np.linalg.norm(points - np.asarray(run.q[-1]), axis=1), 0.5, rtol=0, atol=1e-12)


def test_a_drawing_asks_for_the_time_by_its_name():
    def draw(q, *, t):
        return da.Dots([t, q[0]])

    still = da.System(lambda q, v: 0.5 * v @ v, coordinates=("x",), draw=draw)
    t = np.linspace(0.0, 2.0, 5)
    (dot,) = scene_of(still, t, np.full((5, 1), 3.0)).outlines
    np.testing.assert_array_equal(dot.at[:, 0], np.stack([t, np.full(5, 3.0)], axis=1))
