"""The shortest solution of a few linear equations, against SVD, with rows of very different units."""

import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.algebra import inverse, least_norm


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_least_norm_is_that_of_the_pseudoinverse(rows):
    random = np.random.default_rng(rows)
    j, f = random.standard_normal((rows, 5)), random.standard_normal(rows)
    np.testing.assert_allclose(least_norm(jnp.asarray(j), jnp.asarray(f)), np.linalg.pinv(j) @ f, rtol=1e-12)


@pytest.mark.parametrize("rows", [2, 3])
def test_rows_of_different_units(rows):
    """Multiplying an equation by a number changes nothing."""
    random = np.random.default_rng(rows)
    j, f = random.standard_normal((rows, 4)), random.standard_normal(rows)
    units = np.array([1e9, 1.0, 1e-9])[:rows]
    found = least_norm(jnp.asarray(units[:, None] * j), jnp.asarray(units * f))
    np.testing.assert_allclose(found, np.linalg.pinv(j) @ f, rtol=1e-9)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_inverse_of_a_matrix_that_is_not_symmetric(rows):
    a = np.random.default_rng(rows).standard_normal((rows, rows))
    np.testing.assert_allclose(inverse(jnp.asarray(a)) @ a, np.eye(rows), rtol=0, atol=1e-12)
