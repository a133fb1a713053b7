"""Legendre maps and the step on T*Q against the implicit mid-point rule of Hamilton's equations, and with forces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES

SHIFT = np.array([[0.0, 0.3], [0.3, 0.0]])


def lagrangian(q, v):
    return 0.5 * (1.0 + q[0] ** 2) * v @ v + 0.3 * v[0] * v[1] - jnp.cos(q[0]) - q[0] * q[1] ** 2


def hamiltonian(y):
    mass = (1.0 + y[0] ** 2) * jnp.eye(2) + SHIFT
    return 0.5 * y[2:] @ jnp.linalg.solve(mass, y[2:]) + jnp.cos(y[0]) + y[0] * y[1] ** 2


SYSTEM = da.System(lagrangian)
GRADIENT = jax.jit(jax.grad(hamiltonian))
TURN = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])
START, H = np.array([0.4, 0.1, 0.3, 0.2]), 0.2


def mid_point(y, h):
    """y₁ = y₀ + h J∇H(½(y₀+y₁)), by iteration."""
    after = y
    for _ in range(200):
        after = y + h * TURN @ np.asarray(GRADIENT(0.5 * (y + after)))
    return after


@pytest.mark.parametrize("scheme", [None, da.Scheme("kick_drift_kick"), da.Scheme("nodes")], ids=repr)
def test_a_step_on_the_cotangent_bundle_is_the_implicit_mid_point_rule(scheme):
    found = da.measure.phase_step(SYSTEM, START[:2], START[2:], h=H, scheme=scheme)
    np.testing.assert_allclose(np.concatenate(found), mid_point(START, H), rtol=0, atol=1e-14)
    back = da.measure.phase_step(SYSTEM, found.q, found.p, h=-H, scheme=scheme)
    np.testing.assert_allclose(np.concatenate(back), START, rtol=0, atol=1e-14)


def test_a_composed_step_is_a_composition_of_mid_point_rules():
    """In kick-drift-kick form, whose states are nodes."""
    wanted, scheme = START, da.Scheme("kick_drift_kick", order=4)
    for weight in scheme.weights:
        wanted = mid_point(wanted, weight * H)
    found = da.measure.phase_step(SYSTEM, START[:2], START[2:], h=H, scheme=scheme)
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=0, atol=1e-13)


def test_on_the_sphere_momenta_stay_cotangent_and_agree_with_a_run():
    entry = ENTRIES["spherical_pendulum"]
    p = np.asarray(da.momentum(entry.system, entry.q0, entry.v0))
    after = da.measure.phase_step(entry.system, entry.q0, p, h=0.1)
    path = da.simulate(entry.system, entry.q0, entry.v0, h=0.1, steps=1)
    np.testing.assert_allclose(after.q, path.q[-1], rtol=0, atol=1e-14)
    np.testing.assert_allclose(after.p, da.momentum(entry.system, path.q[-1], path.v[-1]), rtol=0, atol=1e-14)


def test_the_legendre_maps_are_the_derivatives_of_the_action_and_share_the_force():
    mean = lambda a, b: H * lagrangian(0.5 * (a + b), (b - a) / H)  # noqa: E731
    a, b = jnp.array([0.4, 0.1]), jnp.array([0.45, 0.16])
    left, right = jax.grad(mean, (0, 1))(a, b)
    found = da.measure.legendre(SYSTEM, a, b, h=H)
    np.testing.assert_allclose(found.minus, -left, rtol=1e-13)
    np.testing.assert_allclose(found.plus, right, rtol=1e-13)
    pushed = da.System(lagrangian, forces=lambda q, v: jnp.array([1.0, v[0]]))
    forced = da.measure.legendre(pushed, a, b, h=H)
    half = 0.5 * H * np.array([1.0, (b - a)[0] / H])
    np.testing.assert_allclose(np.asarray(forced.plus - found.plus), half, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(forced.minus - found.minus), -half, rtol=1e-12)
    discrete = da.measure.legendre(da.DiscreteSystem(mean), a, b)
    np.testing.assert_allclose(discrete.plus, right, rtol=1e-13)
    np.testing.assert_allclose(discrete.minus, -left, rtol=1e-13)


def test_beta_vanishes_on_trajectories_and_its_covector_is_the_reaction():
    entry = ENTRIES["nonholonomic_particle"]
    path = da.simulate(entry.system, entry.q0, entry.v0, h=0.1, steps=4, scheme=da.Scheme("nodes"))
    found = da.measure.balance(entry.system, *path.q[1:4], h=0.1, t0=0.1)
    assert found.components.shape == (2,)
    np.testing.assert_allclose(found.components, 0.0, atol=1e-13)
    np.testing.assert_allclose(found.covector, -0.1 * path.constraint_forces[1], rtol=0, atol=1e-13)
    assert float(jnp.abs(found.covector).max()) > 1e-3
    beside = da.measure.balance(entry.system, path.q[1], path.q[2], path.q[3] + 0.01, h=0.1)
    assert float(jnp.abs(beside.components).max()) > 1e-2


def test_a_momentum_without_a_velocity_is_refused():
    light = da.System(lambda q, v: 1.0 - jnp.sqrt(1.0 - v @ v))  # p = v/√(1-v²)
    found = da.measure.phase_step(light, [0.0], [3.0], h=0.1)
    assert found.q[0] == pytest.approx(0.1 * 3.0 / np.sqrt(10.0), rel=1e-12)
    tame = da.System(lambda q, v: jnp.sum(jnp.log(jnp.cosh(v))))  # p = tanh v lies below 1
    with pytest.raises(ValueError, match="no velocity"):
        da.measure.phase_step(tame, [0.0], [2.0], h=0.1)
