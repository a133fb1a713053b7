"""Programs that NumPy evaluates for their first calls: the same numbers as XLA's, and nothing that could be seen otherwise.

The primitives one by one are compared in tests/native/test_many_functions.py, with the programs that are compiled there.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dalembert.tracing import seldom
from dalembert.tracing.evaluation import program as evaluation
from dalembert.tracing.evaluation.program import LARGEST, UnevaluableError, program

X = np.array([[0.3, -0.8, 1.4], [2.0, 0.7, -0.2], [0.1, 0.9, 0.4]])
RIGHT = np.array([0.5, -1.5, 2.5])


def spd(x):
    return x @ x.T + jnp.eye(3)


def newton(x):
    """√x² by Newton's method, of every entry as long as it needs: a loop of many under one condition each."""
    return jax.vmap(
        lambda a: lax.while_loop(lambda y: jnp.abs(y * y - a * a) > 1e-12, lambda y: 0.5 * (y + a * a / y), 2.0)
    )(x.ravel())


FUNCTIONS = {
    "decompositions": lambda x: (
        jnp.linalg.svd(x, compute_uv=False), jnp.linalg.pinv(x), jnp.linalg.eigh(spd(x))[0], jnp.abs(jnp.linalg.qr(x)[1]),
        jnp.linalg.det(x), jnp.linalg.cholesky(spd(x)),
    ),
    "many matrices": lambda x: (
        jax.vmap(lambda s: jnp.linalg.solve(spd(s * x), RIGHT))(jnp.arange(1.0, 4.0)),
        jax.vmap(lambda s: lax.linalg.triangular_solve(x, s * x, left_side=False, lower=True, transpose_a=True))(RIGHT),
    ),
    "derivatives": lambda x: (
        jax.hessian(lambda y: jnp.linalg.norm(jnp.linalg.solve(spd(y), RIGHT)))(x),
        jax.jacfwd(jax.grad(lambda y: lax.cond(y[0, 0] > 0, jnp.sin, jnp.cos, y).prod()))(x),
    ),
    "loops": lambda x: (
        newton(x), lax.scan(lambda c, y: (c @ x, c + y), x, x, reverse=True), lax.fori_loop(0, 3, lambda i, y: y * x + i, x),
    ),
    "orders": lambda x: (jnp.sort(x, axis=0), jnp.argsort(x), jnp.median(x, axis=1), lax.sort((x, -x), num_keys=1)),
    "types": lambda x: (x > 0, jnp.sum(x > 0), (10 * x).astype(jnp.int32) // 3, jnp.argmax(x, axis=1)),
}  # fmt: skip


@pytest.fixture(scope="module")
def traced():
    return jax.jit(lambda x: [f(x) for f in FUNCTIONS.values()]).trace(X)


def test_a_program_of_all_agrees_with_xla(traced):
    with np.errstate(all="ignore"):
        found = program(traced.jaxpr)(X)
    expected = jax.tree.leaves(traced.lower().compile()(X))
    for a, b in zip(found, expected, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.fixture
def counted():
    """A program that is called seldom, and how many programs XLA has compiled of it."""

    def cube_of_the_test(x, shift):
        return {"cube": x**3 + shift, "same": x}

    compiled: list[str] = []

    def listen(event, duration, **known):
        if "backend_compile" in event and "cube_of_the_test" in str(known.get("fun_name")):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seldom(cube_of_the_test), compiled
    jax.monitoring.unregister_event_duration_listener(listen)


def test_xla_compiles_from_when_it_pays(counted):
    cube, compiled = counted
    for k in range(evaluation.FEW):
        np.testing.assert_allclose(cube(X + k, 1.0)["cube"], (X + k) ** 3 + 1.0, rtol=1e-15)
    assert not compiled
    np.testing.assert_allclose(cube(X, 1.0)["cube"], X**3 + 1.0, rtol=1e-15)
    assert len(compiled) == 1


def test_results_are_arrays_of_jax_that_nobody_changes(counted):
    cube, _ = counted
    given = X.copy()
    found = cube(given, 1.0)
    given[:] = 0.0
    assert all(isinstance(x, jax.Array) for x in found.values())
    np.testing.assert_array_equal(found["same"], X)


def test_under_jit_and_vmap_it_is_a_part_of_the_program(counted):
    cube, _ = counted
    cube(X[0], 1.0)
    slopes = jax.jit(jax.vmap(jax.grad(lambda x: cube(x, 1.0)["cube"].sum())))(X)
    np.testing.assert_allclose(slopes, 3 * X**2, rtol=1e-14)
    known = cube(X[0], 1.0)["cube"]
    assert jax.jit(lambda: cube(X[0], 1.0)["cube"])() == pytest.approx(np.asarray(known))


def test_what_would_take_long_is_left_to_xla():
    many = jax.make_jaxpr(lambda x: jnp.outer(x, x))(jnp.zeros(1 + int(LARGEST**0.5)))
    with pytest.raises(UnevaluableError):
        program(many)
    long = program(jax.make_jaxpr(lambda x: lax.while_loop(lambda y: y < 1e6, lambda y: y + 1.0, x))(0.0))
    with pytest.raises(UnevaluableError):
        long(np.asarray(0.0))
    assert float(seldom(lambda x: lax.while_loop(lambda y: y < 1e5, lambda y: y + 1.0, x))(jnp.zeros(()))) == 1e5


def test_loops_within_loops_and_all_calls_are_counted_together():
    """Each inner loop of 200 turns is short, 2000 of them are not; nor is one that is called 2000 times."""
    inner = lambda y: lax.fori_loop(0, 200, lambda _, z: z + 1.0, y)  # noqa: E731
    nested = program(jax.make_jaxpr(lambda x: lax.while_loop(lambda y: y < 4e5, inner, x))(0.0))
    with pytest.raises(UnevaluableError):
        nested(np.asarray(0.0))
    again = program(jax.make_jaxpr(inner)(0.0))
    assert float(again(np.asarray(0.0))[0]) == 200.0
    with pytest.raises(UnevaluableError):
        np.vectorize(again)(np.zeros(2000))


def test_a_value_that_changes_between_calls_is_seen():
    """A function is an argument, as a user's are: what it reads belongs to the program."""
    size = np.array([1.0])
    call = seldom(lambda function, x: function(x))
    function = lambda x: size[0] * x  # noqa: E731
    for value in (1.0, 5.0, 1.0):
        size[0] = value
        assert float(call(function, jnp.asarray(2.0))) == 2.0 * value
