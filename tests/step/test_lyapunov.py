"""Lyapunov constraints on a system with varying mass, against the control law derived by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.systems import lyapunov_control, lyapunov_factor

# Cart-pole, q = (x, θ), force on the cart only. With E the energy, dE/dt = ẋ λ. So V = E + ½k x², F = c ẋ² gives
# dV/dt + F = ẋ (λ + k x + c ẋ): u = ẋ and λ = -k x - c ẋ.
K, C, G = 3.0, 0.7, 9.81


def kinetic(q, v):
    return 0.5 * (1.3 * v[0] ** 2 + 0.3 * v[0] * v[1] * jnp.cos(q[1]) + 0.3 * 0.25 * v[1] ** 2)


def potential(q):
    return -0.3 * 0.5 * G * jnp.cos(q[1])


def lagrangian(q, v):
    return kinetic(q, v) - potential(q)


CONTROLLED = da.System(
    lagrangian,
    da.Lyapunov(lambda q, v: kinetic(q, v) + potential(q) + 0.5 * K * q[0] ** 2, lambda q, v: C * v[0] ** 2, actuated=0),
)


def law(q, v):
    return -K * q[0] - C * v[0]


def test_factor_and_control_are_found_without_help():
    random = np.random.default_rng(0)
    control = jax.jit(lambda q, v: lyapunov_control(CONTROLLED, q, v)[0])
    factor = jax.jit(lambda q, v: lyapunov_factor(CONTROLLED, q, v))
    for _ in range(20):
        q, v = jnp.array(random.normal(size=2)), jnp.array(random.normal(size=2))
        for speed in (v[0], 1e-4, 1e-9, 0.0):
            at = v.at[0].set(speed)
            assert factor(q, at) == pytest.approx(float(speed), abs=1e-13)
            assert control(q, at) == pytest.approx(float(law(q, at)), rel=1e-9, abs=1e-10)


def test_the_actuated_coordinate_is_given_by_its_name():
    named = da.System(
        lagrangian,
        da.Lyapunov(CONTROLLED.constraints[0].V, CONTROLLED.constraints[0].F, actuated="x"),
        coordinates=("x", "θ"),
    )
    q, v = jnp.array([0.4, 0.9]), jnp.array([0.1, -0.3])
    assert lyapunov_control(named, q, v)[0] == pytest.approx(float(law(q, v)), rel=1e-12)
    start = [0.4, 0.9], [0.1, 0.0]
    paths = [da.simulate(x, *start, h=0.01, steps=50) for x in (named, CONTROLLED)]
    np.testing.assert_array_equal(paths[0].q, paths[1].q)


def test_the_path_converges_to_the_guidance_with_order_two():
    q0, v0, time = [0.4, 0.9], [0.1, 0.0], 6.0
    matrix = lambda q: np.array([[1.3, 0.15 * np.cos(q[1])], [0.15 * np.cos(q[1]), 0.075]])  # noqa: E731

    def field(t, y):
        q, v = y[:2], y[2:]
        side = np.array([law(q, v) + 0.15 * np.sin(q[1]) * v[1] ** 2, -0.15 * G * np.sin(q[1])])
        return np.concatenate([v, np.linalg.solve(matrix(q), side)])

    truth = solve_ivp(field, (0.0, time), [*q0, *v0], method="DOP853", rtol=1e-12, atol=1e-12).y[:2, -1]
    errors = []
    for h in (0.02, 0.01):
        path = da.simulate(CONTROLLED, q0, v0, h=h, steps=round(time / h))
        assert int(path.statistics.crossings) > 3  # the cart turns round: u = ẋ changes its sign
        errors.append(np.abs(path.q[-1] - truth).max())
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < 0.05, errors


def test_together_with_a_holonomic_constraint():
    """The pole in Cartesian coordinates: λ of the Lyapunov constraint is the same law of the cart."""
    system = da.System(
        lambda q, v: 0.5 * v[0] ** 2 + 0.15 * (v[1] ** 2 + v[2] ** 2) - 0.3 * G * q[2],
        (
            da.Holonomic(lambda q: (q[1] - q[0]) ** 2 + q[2] ** 2 - 0.25),
            da.Lyapunov(
                lambda q, v: 0.5 * v[0] ** 2 + 0.15 * (v[1] ** 2 + v[2] ** 2) + 0.3 * G * q[2] + 0.5 * K * q[0] ** 2,
                lambda q, v: C * v[0] ** 2,
                actuated=0,
            ),
        ),
    )
    angle = 0.9
    q0 = [0.4, 0.4 + 0.5 * np.sin(angle), -0.5 * np.cos(angle)]
    gaps = []
    for h in (0.02, 0.01):
        path = da.simulate(system, q0, [0.1, 0.1, 0.0], h=h, steps=round(6.0 / h))
        middle, mean = 0.5 * (path.q[1:] + path.q[:-1]), (path.q[1:] - path.q[:-1]) / h
        assert np.allclose(path.multipliers[:, 1], -K * middle[:, 0] - C * mean[:, 0], rtol=0, atol=1e-8)
        reduced = da.simulate(CONTROLLED, [0.4, angle], [0.1, 0.0], h=h, steps=round(6.0 / h))
        gaps.append(np.abs(path.q[:, 0] - reduced.q[:, 0]).max())
    assert abs(np.log2(gaps[0] / gaps[1]) - 2.0) < 0.05, gaps  # two second order schemes of the same motion
