"""Exact discrete data against closed forms, as the exact scheme, and what they say of the parts of other schemes."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.measure import discrete_consistency, exact_discrete

W, H = 1.3, 0.4
OSCILLATOR = da.System(lambda q, v: 0.5 * v @ v - 0.5 * W**2 * q @ q)
PARTICLE = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0]))
Y0, VY, C = 0.4, 0.5, 1.1


def particle(t):
    """The free nonholonomic particle, integrated by hand: spec of the closed form."""
    y = Y0 + VY * t
    x = C / VY * (np.arcsinh(y) - np.arcsinh(Y0))
    return np.array([0.1 + x, y, C / VY * (np.sqrt(1 + y**2) - np.sqrt(1 + Y0**2)) - 0.2])


def test_the_harmonic_oscillator_in_closed_form():
    a, b, angle = np.array([0.7, -0.2]), np.array([0.9, 0.1]), W * H
    found = exact_discrete(OSCILLATOR, a, b, h=H)
    action = W / (2 * np.sin(angle)) * ((a @ a + b @ b) * np.cos(angle) - 2 * a @ b)
    assert found.lagrangian == pytest.approx(action, abs=1e-12)
    np.testing.assert_allclose(found.minus, W * (b - a * np.cos(angle)) / np.sin(angle), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.plus, W * (b * np.cos(angle) - a) / np.sin(angle), rtol=0, atol=1e-12)


def test_the_exact_distribution_of_the_nonholonomic_particle():
    """Δz Δasinh y = Δx Δ√(1+y²) is D_d^E, and on it L_d^E = ½h(v_y² + C²); beside it φ_d^E is not zero."""
    q0, q1 = particle(0.0), particle(H)
    found = exact_discrete(PARTICLE, q0, q1, h=H)
    assert found.lagrangian == pytest.approx(0.5 * H * (VY**2 + C**2), abs=1e-13)
    assert abs(found.constraint[0]) < 1e-12
    lifted = q1 + np.array([0.0, 0.0, 0.1])
    beside = exact_discrete(PARTICLE, q0, lifted, h=H).constraint[0]
    dx, _, dz = lifted - q0
    gap = dz - dx * (np.sqrt(1 + q1[1] ** 2) - np.sqrt(1 + q0[1] ** 2)) / (np.arcsinh(q1[1]) - np.arcsinh(q0[1]))
    assert beside == pytest.approx(gap / H, rel=1e-9)  # v_z - y v_x = const: z is linear in it, and nothing else


def test_the_exact_scheme_reproduces_the_motion():
    """p⁺(q₀,q₁) = p⁻(q₁,q₂): along a nonlinear motion with a nonholonomic constraint, a force and time."""
    system = da.System(
        lambda q, v, t: 0.5 * (1 + q[1] ** 2) * v @ v - jnp.cos(q[0]) * (1 + 0.2 * t),
        da.Nonholonomic(lambda q, v, t: v[2] - q[1] * v[0]),
        forces=lambda q, v, t: -0.3 * v,
        time_dependent=True,
    )
    truth = da.reference(system, [0.1, 0.4, 0.0], [1.0, 0.5, 0.4], [0.5, 0.8, 1.1], tolerance=1e-13)
    q, v = np.asarray(truth.q), np.asarray(truth.v)
    first, second = (exact_discrete(system, q[k], q[k + 1], h=0.3, t0=0.5 + 0.3 * k) for k in (0, 1))
    np.testing.assert_allclose(first.plus, second.minus, rtol=0, atol=1e-11)
    np.testing.assert_allclose([first.v0, first.v1, second.v1], v, rtol=0, atol=1e-11)
    assert max(abs(first.constraint[0]), abs(second.constraint[0])) < 1e-11
    back = exact_discrete(system, q[1], q[0], h=-0.3, t0=0.8)
    np.testing.assert_allclose([back.v0, back.v1], v[1::-1], rtol=0, atol=1e-11)
    assert back.lagrangian == pytest.approx(-first.lagrangian, abs=1e-12)


def left_of_the_principle(h, e=1e-3):
    """D₁L_d^E(q₁,q₂) + D₂L_d^E(q₀,q₁) along ∂_y, a direction in D, for the particle, by differences."""
    q0, q1, q2 = (particle(k * h) for k in range(3))
    nodes = (q1 + s * np.eye(3)[1] for s in (e, -e))
    after, before = (sum(exact_discrete(PARTICLE, *x, h=h).lagrangian for x in ((q0, q), (q, q2))) for q in nodes)
    return (after - before) / (2 * e)


def test_exact_data_in_dalemberts_principle_are_of_order_two_only():
    left = [left_of_the_principle(h) for h in (0.4, 0.2)]
    assert left[0] > 1e-3
    assert np.log2(left[0] / left[1]) == pytest.approx(3.0, abs=0.2)


def test_on_a_leaf_they_are_exact():
    """Along the circle L_d^E of the constrained system is that of the pendulum, whose derivatives are the momenta."""
    rod = da.System(lambda q, v: 0.5 * v @ v - q[1], da.Holonomic(lambda q: q @ q - 1.0))
    at = lambda s: np.array([np.sin(s), -np.cos(s)])  # noqa: E731
    pendulum = exact_discrete(da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0])), [0.5], [0.8], h=H)
    found = exact_discrete(rod, at(0.5), at(0.8), h=H)
    assert found.lagrangian == pytest.approx(pendulum.lagrangian, abs=1e-12)
    assert found.plus @ [np.cos(0.8), np.sin(0.8)] == pytest.approx(pendulum.plus[0], abs=1e-11)
    np.testing.assert_allclose(found.constraint, 0.0, atol=1e-11)


def test_points_that_no_motion_joins():
    """After half a period every motion of the oscillator is at -q₀."""
    with pytest.raises(ValueError, match=r"q1: no motion from q0 to q1 in the time 2.4"):
        exact_discrete(OSCILLATOR, [0.7, -0.2], [0.9, 0.1], h=np.pi / W)


STEPS = (0.025, 0.0125)
HEAVY = da.System(lambda q, v: 0.5 * (1 + q[0] ** 2) * v @ v + jnp.cos(q[0]))


def parts(system, q0, v0, scheme=None, **given):
    return discrete_consistency(system, q0, v0, h=STEPS, scheme=scheme, **given)


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_the_action_and_the_distribution_have_the_orders_of_the_paper(beta):
    pulled = dataclasses.replace(PARTICLE, lagrangian=lambda q, v: 0.5 * v @ v - 0.5 * q[0] ** 2)
    scheme = da.Scheme("nodes", action=da.Beta(beta), distribution=da.Beta(beta))
    found = parts(pulled, [0.1, 0.4, -0.2], [1.0, 0.5, 0.4], scheme)
    p = 2 if beta == 0.5 else 1
    assert [found.orders[name] for name in ("L_d", "D_K")] == pytest.approx([p, p], abs=0.2)
    assert found.distance.slope == pytest.approx(p + 1, abs=0.2)
    assert np.isinf(found.orders["D_V"])  # D at the middle node itself
    assert found.order == pytest.approx(p, abs=0.25)
    assert "D_K" in found.limits


def test_a_lagrangian_of_order_one_costs_an_order_where_the_mass_varies_only():
    """Orders 1 and 2 of a run: forward differences with a mass that varies, and Störmer's method."""
    forward = da.Scheme("nodes", action=da.Beta(0.0))
    heavy = parts(HEAVY, [1.0], [0.3], forward)
    light = parts(OSCILLATOR, [0.7, -0.2], [0.3, 0.4], forward)
    assert (heavy.limits, light.limits) == (("L_d", "principle"), ("principle", "start"))
    assert [x.orders["L_d"] for x in (heavy, light)] == pytest.approx([1.0, 1.0], abs=0.05)
    assert light.order == pytest.approx(2.0, abs=0.05)
    assert heavy.order == pytest.approx(1.0, abs=0.05)


class Late(da.TripleMap):
    """(q₂, (q₂-q₁)/h, (q₂-2q₁+q₀)/h²): a step and half a step too late."""

    def __call__(self, q1, d0, d1, h):
        return q1 + d1, d1 / h, (d1 - d0) / (h * h)


def test_what_limits_is_named():
    turn = da.System(
        lambda q, v: 0.5 * v @ v,
        da.SecondOrder(
            lambda q, v, a: (v[0] * a[1] - a[0] * v[1]) / jnp.linalg.norm(v) ** 3 - 1.0 - 0.3 * q[0] * q[1],
            reactions=lambda q, v, a: jnp.array([v[1], -v[0]]),
        ),
    )
    start = turn, [0.1, 0.0], [1.0, 1.0]
    assert parts(*start, starter="first_order").limits == ("start",)
    late = parts(*start, da.Scheme("nodes", variational=Late()))
    assert late.limits == ("D_V", "principle")
    assert late.order == pytest.approx(1.0, abs=0.1)
    assert parts(*start, da.Scheme("nodes", kinematic=Late())).limits == ("D_K",)
    assert "limited by D_V, principle" in str(late)
