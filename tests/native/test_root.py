"""Newton's iteration in machine code against roots in closed form, and what it says where there are none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.native import NOT_CONVERGED, NOT_FINITE, ROOT_FOUND, SINGULAR, compile_root

UNITS = np.array([4.0, 0.25])


def equations(z, p):
    """A circle and a hyperbola: z₀² + z₁² = p₀, z₀ z₁ = p₁; |z₀ ± z₁|² = p₀ ± 2 p₁."""
    function = lambda x: jnp.stack([x @ x - p[0], x[0] * x[1] - p[1]])  # noqa: E731
    return function(z), jax.jacfwd(function)(z) * UNITS, jnp.asarray(UNITS), jnp.sum(z)


@pytest.fixture(scope="module")
def root():
    return compile_root(equations, 2, [np.zeros(2)])


def solve(root, z, p, most=50):
    given = np.concatenate([z, p, root.function.captured])
    call, *found = root.over(given, 1e-11, most)
    return given, call(), *found


@pytest.mark.parametrize("p", [(5.0, 2.0), (5e8, -2e8), (5e-8, 2e-8)])
def test_a_root_in_closed_form(root, p):
    total, apart = np.sqrt(p[0] + 2 * p[1]), np.sqrt(p[0] - 2 * p[1])
    wanted = np.array([total + apart, total - apart]) / 2
    given, code, result, report = solve(root, wanted * [1.2, 0.9], p)
    assert code == ROOT_FOUND
    np.testing.assert_allclose(given[:2], wanted, rtol=1e-5)  # the last update, which passes the test, is not made
    np.testing.assert_allclose(result[-1], given[:2].sum(), rtol=1e-14)  # of the same z
    matrix = np.array([[2 * given[0], 2 * given[1]], [given[1], given[0]]]) * UNITS
    np.testing.assert_allclose(result[2:6], matrix.ravel(), rtol=1e-14)
    np.testing.assert_allclose(report[1] * report[2], np.linalg.det(matrix), rtol=1e-12)


@pytest.mark.parametrize(
    ("z", "p", "most", "wanted"),
    [
        ([1.0, 1.0], (2.0, 0.5), 50, SINGULAR),
        ([np.nan, 1.0], (2.0, 0.5), 50, NOT_FINITE),
        ([3.0, 1.0], (5.0, 2.0), 2, NOT_CONVERGED),
        ([2.0, 1.0], (5.0, 2.0), 1, ROOT_FOUND),  # exact
    ],
)
def test_what_it_says(root, z, p, most, wanted):
    assert solve(root, z, p, most)[1] == wanted
