"""The car against two equations for speed and steering by hand, concentric circles, and a momentum of its wheels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import car_with_trailers

circle, entry, rolling = car_with_trailers.circle, car_with_trailers.entry, car_with_trailers.rolling

T = np.linspace(0.0, 6.0, 13)
ACCELERATION = jax.jit(da.acceleration)


def by_hand(q0, u0: float, rate0: float, p: dict) -> np.ndarray:
    """q at T, by DOP853, without Lagrangian or multipliers: state (q, u, w = φ̇), κ = tan φ/l, torque N = -k(φ-φ₀).

    On the constraints E = ½Gu² + ½J(κu + w)² + ½k(φ-φ₀)², G = M(1 + b²κ²) + Iκ² + Σ(m gᵢ² + K ηᵢ²), with uᵢ = u gᵢ and
    θ̇ᵢ = u ηᵢ. ∂/∂φ is a virtual displacement: J d/dt(κu + w) = N. Then Ė = 0 reads G u̇ = -½Ġu - Nκ.
    """

    def rates(_, state):
        q, u, w = state[:-2], state[-2], state[-1]
        torque, kappa, dkappa = -p["k"] * (q[3] - p["phi0"]), np.tan(q[3]) / p["l"], w / (p["l"] * np.cos(q[3]) ** 2)
        g, dg, eta, deta, heading = 1.0, 0.0, kappa, dkappa, q[2]
        mass = p["M"] * (1 + (p["b"] * kappa) ** 2) + p["I"] * kappa**2
        dmass = 2 * (p["M"] * p["b"] ** 2 + p["I"]) * kappa * dkappa
        v = [u * np.cos(q[2]), u * np.sin(q[2]), u * kappa, w]
        for angle in q[4:]:
            c, s = np.cos(heading - angle), np.sin(heading - angle)
            after = (g * s - p["c"] * eta * c) / p["d"]
            bend = u * (eta - after)
            dafter = (dg * s + g * c * bend - p["c"] * (deta * c - eta * s * bend)) / p["d"]
            g, dg = g * c + p["c"] * eta * s, dg * c - g * s * bend + p["c"] * (deta * s + eta * c * bend)
            eta, deta, heading = after, dafter, angle
            mass += p["m"] * g**2 + p["K"] * eta**2
            dmass += 2 * (p["m"] * g * dg + p["K"] * eta * deta)
            v.append(u * eta)
        du = (-0.5 * dmass * u - torque * kappa) / mass
        return [*v, du, torque / p["J"] - dkappa * u - kappa * du]

    return solve_ivp(rates, (0.0, T[-1]), [*q0, u0, rate0], "DOP853", T, rtol=1e-13, atol=1e-13).y[:-2].T


@pytest.mark.parametrize(("u", "rate"), [(1.0, 0.0), (0.3, 2.0)])
def test_order_two_against_the_equations_by_hand(u, rate):
    q0, errors = np.array(entry.q0), []
    truth = by_hand(q0, u, rate, car_with_trailers.PARAMETERS)
    for h in (0.01, 0.005):
        v0, steps = rolling(q0, u, rate), round(6 / h)
        path = da.simulate(entry.system, q0, v0, h=h, steps=steps, save=da.Save(every=steps // 12))
        errors.append(np.abs(path.q - truth).max())
    assert errors[1] < 1e-3
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < 0.05


@pytest.mark.parametrize("trailers", [0, 1, 3])
def test_rolling_does_not_slip_with_any_number_of_trailers(trailers):
    q = np.random.default_rng(trailers).uniform(-1, 1, 4 + trailers)
    v = rolling(q, 1.3, 0.4)
    slip = car_with_trailers.side_slip(jnp.asarray(q), jnp.asarray(v), car_with_trailers.PARAMETERS)
    assert slip.shape == (2 + trailers,)
    np.testing.assert_allclose(slip, 0.0, atol=1e-15)
    assert len(car_with_trailers.car_with_trailers(trailers).coordinates) == 4 + trailers


@pytest.mark.parametrize("phi0", [0.3, -0.35])
def test_on_concentric_circles_every_body_turns_alike(phi0):
    """θ̈ = 0 for all, r̈₀ = θ̇ e⊥(θ) u, whatever masses and spring; the constraints hold, and rolling() is that motion."""
    given = {"phi0": phi0, "k": 3.0, "M": 2.0, "m": 0.9, "c": 0.3}
    q, v = circle(0.7, 0.8, **given)
    np.testing.assert_allclose(rolling(q, 0.8, 0.0, **given), v, rtol=0, atol=1e-14)
    a, *_ = ACCELERATION(entry.system.replace(**given), q, v)
    np.testing.assert_allclose(a, [-v[1] * v[2], v[0] * v[2], 0, 0, 0, 0], rtol=0, atol=1e-14)


def test_the_wheels_keep_their_angular_momentum_without_a_spring():
    """J(θ̇ + φ̇) is the momentum of a symmetry that is a virtual displacement: the scheme keeps it exactly."""
    q0 = np.array(entry.q0)
    path = da.simulate(entry.system.replace(k=0.0), q0, rolling(q0, 1.0, 0.5), h=0.01, steps=600)
    turning = np.asarray(path.v[:, 2] + path.v[:, 3])
    assert np.ptp(np.asarray(path.v[:, 3])) > 0.1
    np.testing.assert_allclose(turning, turning[0], rtol=0, atol=1e-13)


def test_bad_input():
    with pytest.raises(ValueError, match="trailers: found -1"):
        car_with_trailers.car_with_trailers(-1)
    with pytest.raises(ValueError, match="parameters: found mass"):
        rolling(entry.q0, 1.0, 0.0, mass=2.0)
    with pytest.raises(ValueError, match=r"phi0: found 0\.9; trailer 2 has no room"):
        circle(0.0, 1.0, phi0=0.9)
    with pytest.raises(ValueError, match="phi0: found 0, straight ahead"):
        circle(0.0, 1.0, phi0=0.0)
