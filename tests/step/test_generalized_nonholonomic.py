"""C_V ≠ D: forces along R(q, v) that are not ∂φ/∂v, against reduced equations derived by hand and integrated by SciPy.

m = 1, forces F = -(x, 0, 0.4z), a = F + λR. For ż = yẋ, of order 1, λ = (ẋẏ - μF)/(μR) with μ = (-y, 0, 1). For
z̈ + 0.2 ẍz̈ = yẋ, of order 2, λ is the smaller root of a quadratic equation.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da


def lagrangian(q, v):
    return 0.5 * v @ v - 0.5 * q[0] ** 2 - 0.2 * q[2] ** 2


def rows(q, v, xp=jnp):
    return xp.stack([0.3 * q[0], 0.5 * v[0], 1.0 + 0.2 * xp.sin(q[1])])


FIRST = da.System(lagrangian, da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0], reactions=rows))
SECOND = da.System(
    lagrangian,
    da.SecondOrder(lambda q, v, a: a[2] + 0.2 * a[0] * a[2] - q[1] * v[0], reactions=lambda q, v, a: rows(q, v)),
)
AT, SPEED = np.array([0.3, 0.5, 0.1]), np.array([1.0, 0.6, 0.5])


def of_first(force, r, q, v):
    normal = np.array([-q[1], 0.0, 1.0])
    return (v[0] * v[1] - normal @ force) / (normal @ r)


def of_second(force, r, q, v):
    x, z = np.array([force[0], r[0]]), np.array([force[2], r[2]])  # F + λR
    product = [x[0] * z[0], x[0] * z[1] + x[1] * z[0], x[1] * z[1]]
    c, b, a = 0.2 * product[0] + z[0] - q[1] * v[0], 0.2 * product[1] + z[1], 0.2 * product[2]
    return -2.0 * c / (b + np.sqrt(b**2 - 4.0 * a * c))


def motion(multiplier):
    """(q, v)(t) and λ(t) over [0, 2]."""

    def parts(y):
        q, v = y[:3], y[3:]
        force, r = np.array([-q[0], 0.0, -0.4 * q[2]]), rows(q, v, np)
        return v, force, r, multiplier(force, r, q, v)

    def rate(_, y):
        v, force, r, free = parts(y)
        return np.concatenate([v, force + free * r])

    state = solve_ivp(rate, (0.0, 2.0), [*AT, *SPEED], "DOP853", rtol=1e-12, atol=1e-13, dense_output=True).sol
    return state, lambda t: np.array([parts(state(s))[3] for s in t])


@pytest.mark.parametrize(
    ("system", "multiplier", "scheme", "order"),
    [
        (FIRST, of_first, da.Scheme(), 2),
        (FIRST, of_first, da.Scheme("kick_drift_kick"), 2),
        (FIRST, of_first, da.Scheme(order=4), 4),
        (SECOND, of_second, da.Scheme(), 2),
        (SECOND, of_second, da.Scheme.borda_fernandez_grillo(), 2),
    ],
    ids=["D", "D, kicks", "D, order 4", "accelerations", "accelerations, the paper's"],
)
def test_orders_of_position_velocity_and_multiplier(system, multiplier, scheme, order):
    state, free = motion(multiplier)
    errors = []
    for steps in (20, 40):
        path = da.simulate(system, AT, SPEED, h=2.0 / steps, steps=steps, scheme=scheme)
        places, speeds = (np.asarray(state(np.asarray(t))).T for t in (path.t, path.t_velocity))
        off = (path.q - places[:, :3], path.v - speeds[:, 3:], path.multipliers[:, 0] - free(path.t_multipliers))
        errors.append([np.abs(x).max() for x in off])
    np.testing.assert_allclose(np.log2(np.array(errors[0]) / errors[1]), order, rtol=0, atol=0.2)
    assert max(errors[1]) < 0.01
    if system is FIRST:  # by a force that is not perpendicular to D: it does work
        work = np.einsum("ij,ij->i", rows(state(path.t)[:3], state(path.t)[3:], np).T, state(path.t)[3:].T)
        assert np.abs(work * free(path.t)).max() > 0.1
