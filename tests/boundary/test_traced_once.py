"""Structure, gradient and matrix of a window come from one trace of what the user wrote."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.boundary import CompiledAssembly, Elements, Term

CALLS = "CALLS_OF_THE_LAGRANGIAN"


def lagrangian(q, v):
    os.environ[CALLS] += "."  # a list would belong to what is read, which changes then
    return 0.5 * v @ v + 9.81 * jnp.cos(q[0])


def test_what_a_window_needs_is_traced_once(monkeypatch):
    monkeypatch.setenv(CALLS, "")
    problem = da.VariationalProblem(lagrangian)
    first = da.solve(problem, initial=([0.0],), final=([1.0],), T=0.7, steps=20)
    before = len(os.environ[CALLS])
    assert before == 4  # of the window, and for shapes, sizes and first values
    again = da.solve(problem, initial=([0.0],), final=([1.0],), T=0.7, steps=20)
    assert len(os.environ[CALLS]) == before
    np.testing.assert_array_equal(first.q, again.q)


def plain(z):
    return jnp.sin(z[0]) * z[1] ** 2


def declared(z):
    return jax.lax.stop_gradient(z[0]) * z[0] * z[1] ** 2


@pytest.mark.parametrize("function", [plain, declared])
def test_products_of_second_derivatives_are_those_of_jax(function):
    """Formed on the graph of the gradient, and traced again where somebody declares a derivative, which no graph shows."""
    both = lambda z, data, shared: (function(z) * data[0], z[:1] * z[2:3] - shared[0])  # noqa: E731
    term, numbers = Term(both, (0, 0, 1, 1), (0, 1, 0, 1), (3,), 0, 3), np.random.default_rng(0)
    data, z, x = numbers.uniform(0.5, 1.0, 3), *numbers.uniform(0.5, 1.0, (2, 4, 2))
    sums = CompiledAssembly(Elements((term,), [(data,)], (np.array(2.0),)), np.zeros((4, 2), dtype=bool), np.ones((4, 2)))
    wanted = np.zeros((4, 2))
    for i in range(3):
        wanted[i : i + 2] += term.product(z[i : i + 2].ravel(), x[i : i + 2].ravel(), (data[i],), (2.0,)).reshape(2, 2)
    np.testing.assert_allclose(sums.product(z, x), wanted, rtol=1e-13)
