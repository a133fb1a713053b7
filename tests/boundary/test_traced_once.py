"""Structure, gradient and matrix of a window come from one trace of what the user wrote."""

import os

import jax.numpy as jnp
import numpy as np

import dalembert as da

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
