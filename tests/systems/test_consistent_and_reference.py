"""Nearest consistent data and the reference flow against closed forms."""

import contextlib
import importlib
from concurrent.futures import ThreadPoolExecutor

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.native import Integration

SPHERE = ENTRIES["spherical_pendulum"].system
PARTICLE = ENTRIES["nonholonomic_particle"].system
SWING = ENTRIES["pendulum"].system
CIRCLE = da.System(lambda q, v, p: 0.5 * v @ v, da.Holonomic(lambda q, p: q @ q - p["square"]), parameters={"square": 1.0})


def test_nearest_point_of_the_sphere():
    """q = q0/|q0|, then v = v0 - (v0·q)q."""
    q0, v0 = np.array([1.0, -2.0, 0.7]), np.array([0.3, 0.4, 0.5])
    q = q0 / np.linalg.norm(q0)
    v = v0 - (v0 @ q) * q
    found = da.project(SPHERE, q0, v0)
    np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.v, v, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.moved_q, np.linalg.norm(q0) - 1, rtol=1e-12)
    np.testing.assert_allclose(found.moved_v, abs(v0 @ q), rtol=1e-12)
    assert str(found) == f"q0 moved by {np.linalg.norm(q0) - 1:.3g}, v0 by {abs(v0 @ q):.3g}"
    again = da.project(SPHERE, found.q, found.v)
    assert again.moved_q < 1e-12
    assert again.moved_v < 1e-12
    da.simulate(SPHERE, found.q, found.v, h=0.05, steps=2)  # the data are consistent for a run


def test_nearest_velocity_of_a_distribution():
    """ż = yẋ: v0 minus its part along (-y, 0, 1); the position stays."""
    v0, y = np.array([1.0, 2.0, 3.0]), 0.5
    normal = np.array([-y, 0.0, 1.0]) / np.sqrt(1 + y**2)
    found = da.project(PARTICLE, [0.0, y, 0.0], v0)
    np.testing.assert_allclose(found.v, v0 - (v0 @ normal) * normal, rtol=0, atol=1e-12)
    assert found.moved_q == 0


@pytest.mark.parametrize("unit", [1.0, 1e-2, 1e6])
@pytest.mark.parametrize("v0", [[1.0, 0.0, 0.3, 0.0, 0.0], [1.0, 0.0, np.tan(0.3), 0.0, 0.0], [1.0, 0.1, 0.3, 0.2, 0.1]])
def test_rows_whose_velocities_all_vanish(v0, unit):
    """Across the axles of a car and of its trailer, straight behind it: ẏ = 0, and with it all of the third row. In units
    of length of their own; the truth is the least square solution of the three linear rows."""

    def across(q, v):
        front = -jnp.sin(0.3) * v[0] + jnp.cos(0.3) * (v[1] + unit * v[2])
        return jnp.array([v[1], front, v[1] - unit * v[4]])

    car = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(across))
    start = np.array(v0) * [unit, unit, 1.0, 1.0, 1.0]
    rows = np.asarray(jax.jacfwd(lambda v: across(None, v))(start))
    found = da.project(car, np.zeros(5), start)
    np.testing.assert_allclose(found.v, start - np.linalg.pinv(rows) @ rows @ start, rtol=0, atol=1e-12 * max(unit, 1.0))


def test_rounding_is_no_excuse_where_rows_are_nearly_parallel():
    """v₀ = 0 and v₀ = ε v₁: what is left of v₁ would be noise of 1e-4 of it at ε = 1e-6; at 1e-2 it is zero."""
    edge = lambda lean: da.System(  # noqa: E731
        lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: jnp.array([v[0], v[0] - lean * v[1]]))
    )
    np.testing.assert_allclose(
        da.project(edge(1e-2), [0.0, 0.0, 0.0], [1e-7, 0.1, 1.0]).v, [0.0, 0.0, 1.0], rtol=0, atol=1e-9
    )
    with contextlib.suppress(da.InconsistentDataError):
        assert abs(da.project(edge(1e-6), [0.0, 0.0, 0.0], [1e-7, 0.1, 1.0]).v[1]) < 1e-9


def test_nothing_to_do_for_constraints_on_accelerations():
    found = da.project(ENTRIES["curvature_particle"].system, [1.0, 2.0], [3.0, 4.0])
    assert (found.moved_q, found.moved_v) == (0, 0)


@pytest.mark.parametrize("q0", [[1.0, 0.0], [0.3, 0.4]])
def test_no_nearby_point(q0):
    """|q|² = -1."""
    with pytest.raises(da.InconsistentDataError, match=r"q0: no nearby consistent point exists: .*residual"):
        da.project(CIRCLE.replace(square=-1.0), q0, [0.0, 0.0])


def test_rank_deficient():
    with pytest.raises(da.RankDeficientError, match=r"q0: the constraints are rank deficient there .rank 0 of 1"):
        da.project(CIRCLE, [0.0, 0.0], [1.0, 0.0])
    twice = da.System(lambda q, v: 0.5 * v @ v, [da.Holonomic(lambda q: q[0] - 1), da.Holonomic(lambda q: 2 * q[0] - 4)])
    with pytest.raises(da.RankDeficientError, match="rank 1 of 2"):
        da.project(twice, [0.0, 0.0], [1.0, 0.0])


def test_bad_arguments():
    with pytest.raises(ValueError, match="v0: found 2 numbers; the system has 3 coordinates, x, y, z"):
        da.project(SPHERE, [1.0, 0.0, 0.0], [0.0, 1.0])
    for times, message in (
        (1.0, r"t: found shape \(\)"), ([0.0], "at least two"), ([0.0, 1.0, 0.5], "increase"), ([0.0, np.inf], "finite"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            da.reference(PARTICLE, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0], times)
    with pytest.raises(ValueError, match="tolerance: found 0"):
        da.reference(PARTICLE, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0], [0.0, 1.0], tolerance=0)
    with pytest.raises(TypeError, match="solver: found str"):
        da.reference(PARTICLE, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0], [0.0, 1.0], solver="dopri")
    with pytest.raises(da.InconsistentDataError, match="project"):
        da.reference(SPHERE, [2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0])


TIMES = np.linspace(0.0, 5.0, 11)
CLOSED = ("pendulum", "curvature_particle", "nonholonomic_particle", "spherical_pendulum")


@pytest.mark.parametrize("name", CLOSED)
def test_reference_against_closed_forms(name):
    """The error follows the tolerance, and the drift of the invariants is reported as it is."""
    entry = ENTRIES[name]
    t = TIMES
    exact_q, exact_v = entry.exact(t)
    errors = []
    for tolerance in (1e-6, 1e-11):
        found = da.reference(entry.system, entry.q0, entry.v0, t, tolerance=tolerance)
        assert bool(found.succeeded)
        errors.append(max(np.max(np.abs(found.q - exact_q)), np.max(np.abs(found.v - exact_v))))
        assert errors[-1] < 1000 * tolerance  # local tolerance; index reduction of the sphere amplifies it most
        if name == "spherical_pendulum":
            drift = [max(abs(q @ q - 1), abs(2 * q @ v)) for q, v in zip(found.q, found.v, strict=True)]
        elif name == "nonholonomic_particle":
            drift = abs(found.v[:, 2] - found.q[:, 1] * found.v[:, 0])
        else:
            drift = np.zeros(11)
        np.testing.assert_allclose(found.drift, drift, rtol=0, atol=1e-15)
    assert errors[1] < errors[0]


def test_multipliers_of_the_reference():
    """The steady cone of angle α: tension 2|λ| = 1/cos α; λ(-y, 0, 1) with λ = v_x v_y/(1+y²); λ = -mk|v|."""
    t = TIMES
    run = lambda name: da.reference(ENTRIES[name].system, ENTRIES[name].q0, ENTRIES[name].v0, t)  # noqa: E731
    np.testing.assert_allclose(run("spherical_pendulum").multipliers, -1.0, rtol=1e-9)
    np.testing.assert_allclose(run("curvature_particle").multipliers, -np.sqrt(2.0), rtol=1e-9)
    _, v = ENTRIES["nonholonomic_particle"].exact(t)
    y = 1 + 0.5 * t
    np.testing.assert_allclose(run("nonholonomic_particle").multipliers[:, 0], v[:, 0] * v[:, 1] / (1 + y**2), rtol=1e-8)


def test_a_system_that_is_known_is_checked_as_a_new_one(monkeypatch):
    """A proof by machine code looks at numbers alone: it gives the bits of the checks, refuses what they refuse, sees what a
    function reads change, and runs in threads."""
    gravity = 1.0
    swing = lambda q, v: 0.5 * v @ v - gravity * q[2]  # noqa: E731
    sphere = da.System(swing, da.Holonomic(lambda q: q @ q - 1.0))
    down, turned, t = [0.0, 0.6, -0.8], [0.5, 0.0, 0.0], [0.0, 0.3, 1.0]
    reference = importlib.import_module("dalembert.systems.continuous")  # the function has its name
    looked, checked = [], reference.check_data
    monkeypatch.setattr(reference, "check_data", lambda *x: looked.append(1) or checked(*x))
    with monkeypatch.context() as unproven:
        unproven.setattr(reference, "proven_start", lambda *x: None)
        first = da.reference(sphere, down, turned, t)
    second, third = (da.reference(sphere, down, turned, t) for _ in range(2))
    assert len(looked) == 1
    for other in (second, third):
        assert all(np.array_equal(getattr(first, name), getattr(other, name)) for name in ("q", "v", "multipliers", "drift"))
    with ThreadPoolExecutor(4) as threads:
        angles = np.linspace(0.1, 1.0, 12)
        starts = [[0.0, np.sin(x), -np.cos(x)] for x in angles]
        beside = list(threads.map(lambda q: np.asarray(da.reference(sphere, q, turned, t).q), starts))
    assert all(np.array_equal(x, da.reference(sphere, q, turned, t).q) for x, q in zip(beside, starts, strict=True))
    assert len(looked) == 1
    for q0, v0, error in (
        ([0.0, 0.6, -0.9], turned, da.InconsistentDataError),
        (down, [0.5, 0.1, 0.0], da.InconsistentDataError),
        ([0.0, 0.0, 0.0], turned, ValueError),
        ([0.0, np.nan, -1.0], turned, ValueError),
        ([0.0, -1.0], [1.0, 0.0], ValueError),
    ):
        with pytest.raises(error):
            da.reference(sphere, q0, v0, t)
    gravity = 4.0
    heavier = da.reference(sphere, down, turned, t)
    fresh = da.System(lambda q, v: 0.5 * v @ v - 4.0 * q[2], da.Holonomic(lambda q: q @ q - 1.0))
    np.testing.assert_allclose(heavier.q, da.reference(fresh, down, turned, t).q, rtol=0, atol=1e-13)
    assert np.max(np.abs(heavier.q - first.q)) > 0.1


@pytest.mark.parametrize("first", [0.0, 1e6, -1e9])
def test_far_from_the_origin_of_time(first):
    """q̈ = t - t₀ + 1 at times counted from 10⁹ on, where double numbers are 1.2·10⁻⁷ apart, as the times are that the force
    reads; and a pendulum, which does not read the time."""
    pushed = da.System(lambda q, v, t: 0.5 * v @ v + q[0] * (t - first + 1.0), time_dependent=True)
    t = first + np.array([0.0, 0.5, 2.0])
    passed = t - first
    np.testing.assert_allclose(
        da.reference(pushed, [0.0], [0.0], t).q[:, 0],
        passed**2 / 2 + passed**3 / 6,
        rtol=0,
        atol=1e-11 + np.spacing(abs(first)),
    )
    near, far = (da.reference(SWING, [2.0], [0.0], start + np.array([0.0, 4.0, 8.0])).q for start in (0.0, first))
    np.testing.assert_allclose(near, far, rtol=0, atol=2e-11)


def test_a_failed_integration_says_how_far_it_came():
    entry = ENTRIES["pendulum"]
    with pytest.raises(RuntimeError, match=r"failed after t = .*max_steps"):
        da.reference(entry.system, entry.q0, entry.v0, [0.0, 100.0], max_steps=10)
    kept = da.reference(entry.system, entry.q0, entry.v0, np.linspace(0, 100, 101), max_steps=10, throw=False,
                        solver=diffrax.Tsit5())  # fmt: skip
    assert not bool(kept.succeeded)
    assert bool(jnp.all(jnp.isfinite(kept.q[0])))


RING = da.System(lambda q, v, p: 0.5 * v @ v, da.Holonomic(lambda q, p: q @ q - p["r"] ** 2), parameters={"r": 1.0})
WAYS = {  # (q, v, succeeded) of a ring of radius r
    "one": lambda system, q, v, t, r: da.reference(system, q, v, t),
    "diffrax": lambda system, q, v, t, r: da.reference(system, q, v, t, backend="diffrax"),
    "traced": lambda system, q, v, t, r: jax.jit(lambda x: da.reference(system, x, v, t, backend="native"))(jnp.asarray(q)),
    "many": lambda system, q, v, t, r: da.references(system, [q] * 3, v, t, parameters={"r": [r] * 3}),
}


@pytest.mark.parametrize("way", WAYS)
def test_tolerances_follow_the_sizes_of_the_motion(way):
    """On circles of any radius and at any speed, relative to the motion."""
    angle = np.linspace(0.0, 10.0, 6)
    for r, rate in ((1e-6, 1.0), (1e-9, 1.0), (1.0, 1e-9), (1e-9, 1e9), (1e-3, 1e-6)):
        found = WAYS[way](RING.replace(r=r), [r, 0.0], [0.0, r * rate], angle / rate, r)
        assert np.all(found.succeeded)
        there = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        bound = 3e-8 if way == "diffrax" else 1e-9  # whose method of order 8 is at 1e-9 where r = 1, without a projection
        across = np.stack([-there[:, 1], there[:, 0]], axis=1)
        for values, size, wanted in ((found.q, r, there), (found.v, r * rate, across)):
            scaled = np.asarray(values) / size
            np.testing.assert_allclose(scaled, np.broadcast_to(wanted, scaled.shape), rtol=0, atol=bound)


def test_a_motion_of_ordinary_sizes_has_the_tolerances_it_had(monkeypatch):
    """To the bit: sizes of 1 and more, and what does not move, are not known more accurately than 1."""
    still = da.System(lambda q, v: 0.5 * v @ v - 0.5 * (q[0] ** 2 - 1.0) ** 2)
    for system, q, v in ((RING, [1.0, 0.0], [0.0, 1.0]), (still, [1.0, 0.0], [0.0, 0.0]), (still, [3.0, 0.5], [0.0, 2.0])):
        before = da.reference(system, q, v, [0.0, 1.0, 3.0])
        with monkeypatch.context() as plain:
            plain.setattr(Integration, "measure", lambda *x: None)
            after = da.reference(system, q, v, [0.0, 1.0, 3.0])
        np.testing.assert_array_equal(before.q, after.q)
        assert bool(before.succeeded)
