"""Newton's method against roots known in closed form, and what it says where there is none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.algebra import Newton, newton, root


def one(z):
    return 1.0 + abs(z)


def kepler(e, m):
    """E - e sin E = m beside a second unknown that is its cosine; E = 2 at m = 2 - e sin 2."""
    return lambda z: jnp.array([z[0] - e * jnp.sin(z[0]) - m, z[1] - jnp.cos(z[0])])


def flags(report):
    """How many of the three ways to fail it names."""
    return sum(bool(flag) for flag in (report.singular, report.not_finite, report.not_converged))


def test_it_ends_at_the_root_with_the_square_of_its_tolerance():
    z, report = newton(kepler(0.6, 2.0 - 0.6 * np.sin(2.0)), jnp.array([1.0, 0.0]), one, Newton(1e-5))
    np.testing.assert_allclose(z, [2.0, np.cos(2.0)], rtol=0, atol=1e-9)
    assert flags(report) == 0
    determinant = 1.0 - 0.6 * np.cos(2.0)
    np.testing.assert_allclose(report.determinant_sign * report.determinant, determinant, rtol=1e-4)


@pytest.mark.parametrize(
    ("function", "start"),
    [
        (lambda z: z * z + 1.0, [0.5]),  # no real root
        (lambda z: jnp.arctan(z), [2.0]),  # beyond 1.39 the iteration runs away
        (lambda z: jnp.array([z[0] + z[1], 2 * z[0] + 2 * z[1] - 1.0]), [0.0, 0.0]),  # a singular matrix
        (lambda z: jnp.log(z), [-1.0]),  # no number at the start
    ],
    ids=["no root", "diverging", "singular", "not finite"],
)
def test_no_root_is_no_success(function, start):
    _, report = newton(function, jnp.array(start), one, Newton())
    assert flags(report) == 1


def test_a_zero_residual_is_a_root_where_the_matrix_is_singular():
    _, report = newton(lambda z: z**2, jnp.array([0.0]), one, Newton())
    assert flags(report) == 0


def test_a_root_within_reach_of_a_jump_is_one_where_the_residual_is_small():
    """F = z - 1 above 1 and z - 3 below: from just above 1 the update ends on the far side of the jump, where |F| = 2."""

    def function(z):
        return jnp.where(z > 1.0, z - 1.0, z - 3.0)

    start = [1.0 + 1e-13]
    z, report = newton(function, jnp.array(start), one, Newton())
    assert report.not_converged or np.max(np.abs(function(z))) < 1e-9


def test_columns_in_units_of_their_own_lose_no_digits():
    """Unknowns of 1e-9 and 1e9: with units the pivots are of one size, without them the matrix counts as singular."""
    unit = jnp.array([1e-9, 1e9])

    def function(z):
        x = z / unit
        return jnp.array([x[0] + 0.1 * x[1] ** 2 - 1.1, x[1] + 0.1 * x[0] ** 2 - 1.1])

    z, report = newton(function, jnp.array([0.0, 0.0]), lambda z: unit + abs(z), Newton(), lambda j: 1 / jnp.max(abs(j), 0))
    assert flags(report) == 0
    np.testing.assert_allclose(z / unit, [1.0, 1.0], rtol=1e-12)


def test_the_root_is_differentiable_in_what_the_function_closes_over():
    """E(m): dE/dm = 1/(1 - e cos E) (implicit function theorem), and once more for the second derivative."""

    def anomaly(m):
        return root(kepler(0.6, m), jnp.array([1.0, 0.0]), one, Newton(1e-12))[0][0]

    m = 2.0 - 0.6 * np.sin(2.0)
    slope = 1.0 / (1.0 - 0.6 * np.cos(2.0))
    np.testing.assert_allclose(jax.grad(anomaly)(m), slope, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(jax.grad(anomaly))(m), -0.6 * np.sin(2.0) * slope**3, rtol=1e-10)
