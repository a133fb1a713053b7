"""The contact oscillator against equations reduced by hand, published values, and what it conserves."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import contact_oscillator

entry, exact = contact_oscillator.entry, contact_oscillator.exact

T = np.linspace(0.0, 10.0, 41)


def by_hand(t, epsilon: float):
    """(q, v) at t from the start of the entry: λ(1+y²) = x + εxz² - ẏż + y(z + εx²z), by DOP853 at round-off."""

    def rates(_, state):
        x, y, z, vx, vy, vz = state
        fx, fz = x + epsilon * x * z**2, z + epsilon * x**2 * z
        force = (fx + y * fz - vy * vz) / (1 + y**2)
        return [vx, vy, vz, force - fx, -y, y * force - fz]

    run = solve_ivp(rates, (0.0, t[-1]), [*entry.q0, *entry.v0], "DOP853", t, rtol=3e-14, atol=1e-15)
    return run.y[:3].T, run.y[3:].T


def test_exact_is_the_solution_of_the_equations_by_hand():
    for found, wanted in zip(exact(T), by_hand(T, 0.0), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-13)
    np.testing.assert_allclose(exact(10.0)[0], [0.2191280454049793, np.cos(10.0), 1.386361698528362], rtol=0, atol=1e-14)


def test_exact_keeps_energy_and_constraint_over_long_times_of_any_shape():
    q, v = exact(np.linspace(-50.0, 1000.0, 30).reshape(2, 15))
    assert q.shape == v.shape == (2, 15, 3)
    np.testing.assert_allclose(0.5 * np.sum(q**2 + v**2, axis=-1), 1.5, rtol=1e-12)
    np.testing.assert_allclose(v[..., 0] + q[..., 1] * v[..., 2], 0.0, atol=1e-15)


def test_exact_is_for_epsilon_zero_only():
    with pytest.raises(ValueError, match=r"epsilon: found 0\.1"):
        exact(T, epsilon=0.1)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_order_two_and_invariants(epsilon):
    """y is the mid-point rule's harmonic oscillator, whose ½(y²+ẏ²) is conserved; H is not: it oscillates with 0.3 h²."""
    system, truth, errors = contact_oscillator.contact_oscillator(epsilon), by_hand(T, epsilon)[0], []
    for h in (0.01, 0.005):
        path = da.simulate(system, entry.q0, entry.v0, h=h, steps=round(10 / h), save=da.Save(every=round(0.25 / h)))
        errors.append(np.abs(path.q - truth).max())
        y, w = np.asarray(path.q)[:, 1], np.asarray(path.v)[:, 1]
        np.testing.assert_allclose(0.5 * (y**2 + w**2), 0.5, rtol=1e-13)
        energy = jax.vmap(lambda q, v: da.energy(system, q, v))(path.q, path.v)
        assert 1e-9 < np.abs(energy - energy[0]).max() < 0.5 * h**2
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < 0.05
