"""Reduced systems: equal to the full ones to rounding where both are discretized alike, and to their order otherwise."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ball_on_turntable, chaplygin_sleigh, vertical_rolling_disk

disk = vertical_rolling_disk.entry

SLEIGH, BALL = chaplygin_sleigh.entry, ball_on_turntable.entry


def runs(system, start, small, h, steps, scheme=None):
    full = da.simulate(system, *start, h=h, steps=steps, scheme=scheme)
    path = da.simulate(small.system, small.x0, small.w0, h=h, steps=steps, scheme=scheme)
    return full, path, small.reconstruct(path, scheme=scheme)


def several(q, v, p):
    """A cart with a pole, and a mass that turns beside it; x and y are read by nothing."""
    pole = 0.5 * (1 + p["m"]) * v[0] ** 2 + p["m"] * (0.5 * v[1] ** 2 + v[0] * v[1] * jnp.cos(q[1])) + jnp.cos(q[1])
    return pole + 0.5 * (1 + 0.3 * jnp.sin(q[1]) ** 2) * v[2] ** 2 + 0.2 * jnp.sin(q[1]) * v[2] + 0.1 * v[2] * v[0]


def drag(q, v, p):
    return jnp.array([0.0, -0.1 * v[1] * v[2], 0.0])


SEVERAL = da.System(several, forces=drag, coordinates=("x", "θ", "y"), parameters={"m": 0.7})
RING = da.System(
    lambda q, v: 0.5 * v @ v - 0.2 * q[1] + 0.3 * v[2] * v[0] * q[1], da.Holonomic(lambda q: q[0] ** 2 + q[1] ** 2 - 1.0),
    coordinates=("x", "y", "s"),
)  # fmt: skip
IDLE = ([0.3, 1.0, 2.0], [0.5, 0.2, 1.0])  # of SEVERAL
ROUND = ([1.0, 0.0, 0.0], [0.0, 0.5, 1.0])  # of RING
GLIDES = (SLEIGH.q0, SLEIGH.v0)


@pytest.mark.parametrize("scheme", [None, *(da.Scheme(order=p) for p in (4, 6, 8))], ids=["default", "4", "6", "8"])
def test_without_cyclic_coordinates_the_discrete_motion_is_the_same_to_rounding(scheme):
    small = da.routh(SEVERAL, *IDLE, group=("x", "y"))
    assert small.system.coordinates == ("θ",)
    full, path, back = runs(SEVERAL, IDLE, small, 0.1, 40, scheme)
    np.testing.assert_allclose(path.q, full.q[:, [1]], rtol=0, atol=1e-13)
    np.testing.assert_allclose(back.v, full.v, rtol=0, atol=1e-13)
    np.testing.assert_allclose(back.q, full.q, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(small.reconstruct(path).q, back.q)  # the scheme stands in the path's record


def test_a_momentum_that_is_not_linear_in_the_rates_of_the_shape():
    """ġ = μ - ṙ² is no B ṙ + c: the reconstruction takes the velocity itself."""
    kinetic = lambda q, v: 0.5 * v[1] ** 2 + v[1] * v[0] ** 2 + 0.5 * v[0] ** 2 * (2.0 + jnp.cos(q[0]))  # noqa: E731
    system = da.System(lambda q, v: kinetic(q, v) - 0.5 * q[0] ** 2, coordinates=("r", "g"))
    q0, v0, run = [1.0, 0.0], [0.3, 0.5], {"h": 0.01, "steps": 100}
    small = da.routh(system, q0, v0, group="g")
    found = small.reconstruct(da.simulate(small.system, small.x0, small.w0, **run))
    np.testing.assert_allclose(found.q, da.simulate(system, q0, v0, **run).q, rtol=0, atol=1e-13)


def test_holonomic_constraints_stay_on_the_shape():
    small = da.routh(RING, *ROUND, group="s")
    full, path, back = runs(RING, ROUND, small, 0.1, 30)
    np.testing.assert_allclose(back.q, full.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(path.multipliers, full.multipliers, rtol=0, atol=1e-11)
    assert "Routh: 3 coordinates (x, y, s) to 2 (x, y)" in small.describe()


def test_a_chaplygin_sleigh_with_two_coordinates():
    """Its quotient is the full scheme to rounding; `system` is stepped by another one of order 2; both converge."""
    small = da.chaplygin(SLEIGH.system, SLEIGH.q0, SLEIGH.v0, group=("x", "y"))
    assert small.system.coordinates == ("θ", "s")
    apart, errors = [], []
    for h in (0.1, 0.05):
        steps, last = 40, round(2.0 / h) + 1
        full, path, back = runs(SLEIGH.system, GLIDES, small, h, steps)
        apart.append(np.max(np.abs(back.q - full.q)[:last]))
        u, omega, turned = chaplygin_sleigh.rates(path.t)
        wrong = np.stack([path.v[:, 1] - u, path.v[:, 0] - omega, path.q[:, 0] - turned])
        errors.append(np.max(np.abs(wrong[:, :last])))
    assert apart[1] > 1e-5  # other schemes
    np.testing.assert_allclose(np.log2(apart[0] / apart[1]), 2.0, rtol=0, atol=0.1)
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, rtol=0, atol=0.1)
    nodes = da.simulate(small.discrete(0.05), start=da.Start(nodes=small.nodes(0.05)), h=0.05, steps=steps)
    whole = small.reconstruct(nodes)
    expected = np.concatenate([[full.q[0] - 0.025 * full.v[0]], full.q + 0.025 * full.v])
    np.testing.assert_allclose(whole.q, expected[: len(whole.q)], rtol=0, atol=1e-13)
    np.testing.assert_allclose(whole.v, full.v[:-1], rtol=0, atol=3e-13)


def test_a_rolling_disk_with_the_shape_alone():
    small = da.chaplygin(disk.system, disk.q0, disk.v0, group=("x", "y"))
    assert small.system.coordinates == ("θ", "φ")
    full, _, back = runs(disk.system, (disk.q0, disk.v0), small, 0.05, 40)
    np.testing.assert_allclose(
        back.q, full.q, rtol=0, atol=1e-13
    )  # here the gyroscopic force is zero, and both schemes are one
    np.testing.assert_allclose(small.velocity(small.x0, small.w0), disk.v0, rtol=0, atol=1e-14)


def test_a_ball_on_a_turntable_by_a_frame_that_rotations_carry_along():
    frame = (ball_on_turntable.frame, ball_on_turntable.drift)
    small = da.chaplygin(BALL.system, BALL.q0, BALL.v0, group=("e0", "e1", "e2", "e3"), frame=frame)
    assert small.system.coordinates == ("x", "y", "s")
    errors = []
    for h in (0.2, 0.1):
        path = da.simulate(small.system, small.x0, small.w0, h=h, steps=round(4.0 / h))
        errors.append(np.max(np.abs(path.q[:, :2] - ball_on_turntable.centre(path.t))))
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, rtol=0, atol=0.1)
    back = small.reconstruct(path)
    exact = da.reference(BALL.system, BALL.q0, BALL.v0, path.t)
    np.testing.assert_allclose(back.q, exact.q, rtol=0, atol=2e-4)
    np.testing.assert_allclose(np.linalg.norm(back.q[:, 2:], axis=1), 1.0, rtol=0, atol=1e-6)
    np.testing.assert_allclose(path.v[:, 2], ball_on_turntable.SPIN, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="scheme: the discrete quotient is for translations"):
        small.discrete(0.1)
    with pytest.raises(ValueError, match="frame: velocities that satisfy the constraints are no B w"):
        da.chaplygin(BALL.system, BALL.q0, BALL.v0, group=("e0", "e1", "e2", "e3"), frame=ball_on_turntable.frame)


@pytest.mark.parametrize("name", ["frame", "translations"])
def test_the_group_has_the_order_of_a_composed_scheme(name):
    """Against the flow; g of a frame that turns the group, and x, y of the sleigh."""
    frame = (ball_on_turntable.frame, ball_on_turntable.drift)
    system, start, group, more = {
        "frame": (BALL.system, (BALL.q0, BALL.v0), ("e0", "e1", "e2", "e3"), {"frame": frame}),
        "translations": (SLEIGH.system, GLIDES, ("x", "y"), {}),
    }[name]
    small, errors = da.chaplygin(system, *start, group=group, **more), []
    for h in (0.4, 0.2):  # of as many steps, which have the same programs; to t = 4
        path, last = da.simulate(small.system, small.x0, small.w0, h=h, steps=20, scheme=da.Scheme(order=6)), round(4.0 / h)
        exact = da.reference(system, *start, path.t[: last + 1], tolerance=1e-13)
        errors.append(np.max(np.abs(small.reconstruct(path).q[: last + 1] - exact.q)))
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 6.0, rtol=0, atol=0.3)


def test_a_path_of_another_scheme_is_refused():
    small = da.routh(SEVERAL, *IDLE, group=("x", "y"))
    path = da.simulate(small.system, small.x0, small.w0, h=0.1, steps=40, scheme=da.Scheme(order=4))
    first = da.simulate(small.system, small.x0, small.w0, h=0.1, steps=4, scheme=da.Scheme.jimenez_scheurle(0.0))
    unrecorded = dataclasses.replace(path, provenance=None)
    for given, scheme, reason in (
        (path, da.Scheme(order=6), "scheme: the path was made with"), (path, da.Scheme(), "scheme: the path was made with"),
        (first, None, "scheme: the path was made with"), (unrecorded, da.Scheme(order=6), "path: its states are no steps"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=reason):
            small.reconstruct(given, scheme=scheme)


def test_a_moving_blade_with_friction_has_the_accelerations_of_the_full_system():
    """d/dt(Bw + c) with ẇ of the reduced equations is the acceleration of the full ones, at a state and a time."""

    def slip(q, v, t):
        return jnp.sin(q[2] + 0.2 * t) * v[0] - jnp.cos(q[2] + 0.2 * t) * v[1] - 0.1 * jnp.sin(t)

    def moving(q, v, t):
        return 0.5 * (1.0 + 0.3 * jnp.sin(t)) * v @ v + 0.2 * v[2] * v[0] - 0.3 * q[2] * jnp.cos(t)

    system = da.System(moving, da.Nonholonomic(slip), forces=lambda q, v, t: -0.3 * (1 + t) * v, time_dependent=True)
    q, t = jnp.array([0.4, -0.3, 0.7]), 0.5
    v = da.project(system, q, [0.5, 0.4, 0.6], t0=t).v
    small = da.chaplygin(system, q, v, group=(0, 1), t0=t)
    velocity = lambda y, w, s: small.frame.velocity(system, y, w, s)  # noqa: E731

    @jax.jit  # otherwise XLA compiles every operation by itself
    def both(x, w, t):
        rate = da.acceleration(small.system, x, w, t)[0]
        a = jax.jvp(velocity, (q, w, t), (v, rate, jnp.ones(())))[1]
        return a, da.acceleration(system, q, v, t)[0]

    np.testing.assert_allclose(*both(jnp.asarray(small.x0), jnp.asarray(small.w0), t), rtol=0, atol=1e-12)


def test_impulses_of_a_discrete_system():
    """Friction -c v of the mid-point, half at each end, on a harmonic oscillator: the equation of a node written out."""
    h, c = 0.1, 0.3
    action = lambda a, b: 0.5 * (b - a) @ (b - a) / h - 0.125 * h * (a + b) @ (a + b)  # noqa: E731
    impulses = lambda a, b: (-0.5 * c * (b - a),) * 2  # noqa: E731
    system = da.DiscreteSystem(action, forces=impulses)
    q = da.simulate(system, start=da.Start(nodes=[[1.0], [1.0]]), h=h, steps=20).q[:, 0]
    left = -(q[2:] - 2 * q[1:-1] + q[:-2]) / h - 0.25 * h * (q[2:] + 2 * q[1:-1] + q[:-2]) - 0.5 * c * (q[2:] - q[:-2])
    np.testing.assert_allclose(left, 0.0, atol=1e-14)
    found = da.measure.balance(system, q[3:4], q[4:5], q[5:6], h=h)
    np.testing.assert_allclose(found.covector, 0.0, atol=1e-14)
    maps = da.measure.legendre(system, [0.0], [0.1], h=h)
    np.testing.assert_allclose(
        [maps.minus[0], maps.plus[0]], [1.0 + 0.0025 + 0.015, 1.0 - 0.0025 - 0.015], rtol=0, atol=1e-14
    )
    with pytest.raises(ValueError, match=r"forces: returns shape \(2, 2\)"):
        da.simulate(
            da.DiscreteSystem(action, forces=lambda a, b: (jnp.zeros(2),) * 2),
            start=da.Start(nodes=[[1.0], [1.0]]),
            h=h,
            steps=2,
        )


def test_what_cannot_be_reduced_is_said():
    blade, (q0, v0) = SLEIGH.system, GLIDES
    for group, kind, reason in (
        (("θ",), da.RankDeficientError, "group: the constraints have rank 0 of 1"),
        (("x", "z"), ValueError, "group: found str 'z'"), ("x", da.RankDeficientError, "group: the constraints have rank 0"),
        (("x", "y", "θ"), ValueError, "leave one"), (("y", "θ"), ValueError, "group: "), (3.0, TypeError, "group: found"),
    ):  # fmt: skip
        with pytest.raises(kind, match=reason):
            da.chaplygin(blade, q0, v0, group=group)
    with pytest.raises(da.InconsistentDataError, match="v0: "):
        da.chaplygin(blade, q0, [0.0, 1.0, 0.0], group=("x", "y"))
    pushed = da.Nonholonomic(lambda q, v: v[1] - q[2] * v[0], reactions=lambda q, v: jnp.array([0.0, 1.0, 0.0]))
    with pytest.raises(ValueError, match="its reactions do work"):
        da.chaplygin(da.System(lambda q, v: 0.5 * v @ v, pushed), [0.0, 0.0, 0.5], [1.0, 0.5, 0.2], group=(0, 1))
    for lagrangian, phi, start, reason in (
        (lambda q, v: 0.5 * v @ v, lambda q, v: v @ v - 1.25, ([0.0, 0.0], [1.0, 0.5]), "affine in v"),
        (
            lambda q, v: 0.5 * v @ v - q[0] ** 2,
            lambda q, v: v[0] - q[1] * v[1],
            ([0.1, 0.5], [0.5, 1.0]),
            "group: L changes",
        ),
        (lambda q, v: 0.5 * v @ v, lambda q, v: v[0] - q[0] * v[1], ([0.5, 0.1], [0.5, 1.0]), "group: (L|the forces)"),
    ):
        with pytest.raises(ValueError, match=reason):
            da.chaplygin(da.System(lagrangian, da.Nonholonomic(phi)), *start, group=(0,))
    for group, change, reason in (
        ("θ", {}, "L reads a coordinate"), ("x", {"forces": lambda q, v, p: v}, "forces act on it"),
        ("x", {"lagrangian": lambda q, v, p: jnp.sqrt(1 + v @ v)}, "not quadratic"),
        ("x", {"constraints": da.Holonomic(lambda q, p: q[0] - q[1])}, "a constraint reads it"),
        ("x", {"constraints": da.Nonholonomic(lambda q, v, p: v[1])}, "routh takes Holonomic"),
    ):  # fmt: skip
        system = da.System(**{"lagrangian": several, "coordinates": SEVERAL.coordinates, "parameters": {"m": 0.7}, **change})
        with pytest.raises(ValueError, match=reason):
            da.routh(system, [1.0, 1.0, 2.0], [0.2, 0.2, 1.0], group=group)
    small = da.routh(RING, *ROUND, group="s")
    thinned = da.simulate(small.system, small.x0, small.w0, h=0.1, steps=4, save=da.Save(every=2))
    with pytest.raises(ValueError, match="path: saved states are up to"):
        small.reconstruct(thinned)
    with pytest.raises(ValueError, match="path: has 3 coordinates"):
        small.reconstruct(da.simulate(RING, *ROUND, h=0.1, steps=4))
