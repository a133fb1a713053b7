"""Jacobians formed on the scalar graph, against those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.algebra import left_to_the_reader, value_and_jacobian
from dalembert.native import CACHE, SLOPES, compile_function, directional_derivative, evaluate, translate_function

RULES = {
    "add": lambda z, p: z[0] + z[1], "sub": lambda z, p: p[0] - z[1], "mul": lambda z, p: z[0] * z[1],
    "div": lambda z, p: z[0] / z[1] + 1.0 / z[0] + z[1] / p[0], "neg": lambda z, p: -z[0],
    "abs": lambda z, p: jnp.abs(z[1] - 2), "powers": lambda z, p: (z[0] ** 2 + (-z[0]) ** 2 + (3 * z[0] * z[1]) ** 3) ** -2,
    "power 1": lambda z, p: (z[0] * z[1]) ** 1 + jax.lax.integer_pow(z[0] * z[1], 1), "roots": lambda z, p: (z @ z) ** -1.5,
    "sqrt": lambda z, p: jnp.sqrt(z[0] * z[1]), "cbrt": lambda z, p: jnp.cbrt(z[0]), "sin": lambda z, p: jnp.sin(z @ z),
    "cos": lambda z, p: jnp.cos(z[0]), "tan": lambda z, p: jnp.tan(z[0]), "asin": lambda z, p: jnp.arcsin(z[0]),
    "acos": lambda z, p: jnp.arccos(z[0]), "atan": lambda z, p: jnp.arctan(z[1]), "sinh": lambda z, p: jnp.sinh(z[1]),
    "cosh": lambda z, p: jnp.cosh(z[1]), "tanh": lambda z, p: jnp.tanh(z[0]), "asinh": lambda z, p: jnp.arcsinh(z[1]),
    "acosh": lambda z, p: jnp.arccosh(1.0 + z[1]), "atanh": lambda z, p: jnp.arctanh(z[0]),
    "exp": lambda z, p: jnp.exp(z[0]),
    "exp2": lambda z, p: jnp.exp2(z[0]), "expm1": lambda z, p: jnp.expm1(z[0]), "log": lambda z, p: jnp.log(z[1]),
    "log1p": lambda z, p: jnp.log1p(z[0]), "erf": lambda z, p: jax.lax.erf(z[0]), "erfc": lambda z, p: jax.lax.erfc(z[0]),
    "max": lambda z, p: jnp.maximum(z[0], z[1]), "min": lambda z, p: jnp.minimum(z[0], z[1]),
    "pow": lambda z, p: z[1] ** z[0] + z[0] ** p[0] + p[1] ** z[0], "atan2": lambda z, p: jnp.arctan2(z[0], z[1]),
    "fmod": lambda z, p: jnp.fmod(z[1], z[0]), "floor": lambda z, p: jnp.floor(3 * z[1]) * z[0],
    "select": lambda z, p: jnp.where(z[0] < z[1], z[0] ** 2, z[1]), "clamp": lambda z, p: jnp.clip(z[0], 0.5, 2.0),
    "cond": lambda z, p: jax.lax.cond(p[0] > 0, lambda x: jnp.sin(x[0]) * x[1], lambda x: x[1] ** 3, z),
    "cond on z": lambda z, p: jax.lax.cond(z[0] > 0, lambda x: x[0] * x[1], lambda x: jnp.cos(x[1]), z),
    "scan": lambda z, p: jax.lax.fori_loop(0, 4, lambda i, x: jnp.sin(x) + p[0], z[0]),
    "index": lambda z, p: jnp.stack([z[1], z[0] * z[1], 3.0])[jnp.array([2, 0, 1])],
    "grad": lambda z, p: jax.grad(lambda x: jnp.sin(x[0]) * x[1] ** 2 * p[0])(z),
    "solve": lambda z, p: jnp.linalg.solve(jnp.array([[2.0, 1.0], [0.0, 1.0]]) + jnp.outer(z, z), p),
    "cholesky": lambda z, p: jnp.linalg.cholesky(jnp.eye(2) + jnp.outer(z, z)),
    "stop": lambda z, p: jax.lax.stop_gradient(z[0]) * z[1], "relu": lambda z, p: jax.nn.relu(z[0] - z[1]),
    "nested": lambda z, p: value_and_jacobian(lambda x: jnp.sin(x) * p[0], z)[1] @ z,
    "nested, elsewhere": lambda z, p: value_and_jacobian(lambda x: x**2 * p[0] * z[1], 0.5 * (z + p))[1] @ z,
    "nested, at what it closes over": lambda z, p: value_and_jacobian(lambda x: x * z, z)[1],
    "nested, at numbers": lambda z, p: value_and_jacobian(lambda x: jnp.sin(x * z), jnp.zeros(2))[1],
    "constant": lambda z, p: p,
}  # fmt: skip
POINTS = [((0.6, 1.7), (1.3, 0.4)), ((0.7, 0.7), (-1.2, 2.0)), ((0.3, 2.0), (0.5, 1.1))]


def both(function):
    return lambda z, p: value_and_jacobian(lambda x: function(x, p), z)


@pytest.mark.parametrize("name", RULES)
def test_a_rule(name):
    function = RULES[name]
    made = translate_function(both(function), np.zeros(2), np.zeros(2))
    code, nodes = made.compile(CACHE), made.results[0].ravel().tolist()
    ahead = directional_derivative(made.graph, nodes, *([made.graph.variable(x, i) for i in range(2)] for x in ("x0", "x1")))
    oracle = jax.jit(lambda z, p: (function(z, p), jax.jacfwd(function)(z, p)))
    for z, p in POINTS:
        value, slope = code(np.array(z), np.array(p))
        z, p = jnp.array(z), jnp.array(p)
        wanted = oracle(z, p)
        np.testing.assert_allclose(value, wanted[0], rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(slope, wanted[1], rtol=1e-12, atol=1e-13)
        if not made.tracer.declared:
            found = evaluate(
                made.graph, ahead, {"x0": np.array(z), "x1": np.array(p), "captured": np.array(made.tracer.captured)}
            )
            np.testing.assert_allclose(found, np.ravel(slope @ p), rtol=1e-12, atol=1e-13)


def test_every_operation_with_a_rule_is_compared():
    used = set()
    for function in RULES.values():
        made = translate_function(both(function), np.zeros(2), np.zeros(2))
        used |= {node[0] for node in made.graph.nodes}
    assert set(SLOPES) <= used


@pytest.mark.parametrize(
    ("name", "power", "slope"),
    [("0 to a whole power", 3.0, 0.0), ("0 to a power", 1.5, 0.0)],
)
def test_powers_at_zero(name, power, slope):
    function = lambda z, p: z[0] ** p[0]  # noqa: E731
    code = compile_function(both(function), np.zeros(1), np.zeros(1))
    value, found = code(np.zeros(1), np.array([power]))
    assert np.isfinite(value)
    assert found == slope == jax.jacfwd(lambda z: function(z, jnp.array([power])))(jnp.zeros(1))


def test_only_what_is_solved_or_declared_is_left_to_jax():
    """A derivative that JAX spells out has products with unit vectors, more nodes than the rules make."""
    plain = translate_function(both(RULES["sin"]), np.zeros(2), np.zeros(2))
    assert len(plain.graph.nodes) < 25
    assert not plain.tracer.declared
    assert translate_function(both(RULES["stop"]), np.zeros(2), np.zeros(2)).tracer.declared


def test_the_operation_inside_other_transformations_is_what_jax_makes_of_it():
    """What was traced for a translator and is kept by JAX, such as a jitted function of the user's, may be met elsewhere."""
    inner = lambda z, p: value_and_jacobian(lambda x: jnp.sin(x) * p, z)  # noqa: E731
    z, p = jnp.array([0.3, 0.8]), jnp.array([2.0, -1.0])
    kept = jax.jit(inner)
    with left_to_the_reader():
        assert "jacobian" in str(jax.make_jaxpr(kept)(z, p))
    assert "jacobian" not in str(jax.make_jaxpr(lambda *x: inner(*x))(z, p))
    whole = jnp.stack([z, p, z + p])
    value, slope = jax.vmap(kept, (0, None))(whole, p)
    np.testing.assert_allclose(value, jnp.sin(whole) * p, rtol=1e-15)
    np.testing.assert_allclose(slope, jnp.stack([jnp.diag(jnp.cos(x) * p) for x in whole]), rtol=1e-14)
    second = jax.jacfwd(lambda x: kept(x, p)[1])(z)
    np.testing.assert_allclose(second, -jnp.einsum("ij,jk,i->ijk", jnp.eye(2), jnp.eye(2), jnp.sin(z) * p), rtol=1e-14)
    back = jax.grad(lambda x: kept(z, x)[0].sum())(p)
    np.testing.assert_allclose(back, jnp.sin(z), rtol=1e-15)


FACTOR = np.array([2.0])
SCALED = jax.jit(lambda x: x * FACTOR[0])


@jax.custom_jvp
def declared(x):
    return jnp.sin(x)


declared.defjvp(lambda at, along: (jnp.sin(at[0]), SCALED(along[0])))


def test_a_rule_of_the_users_that_reads_other_data_is_traced_anew():
    """JAX keeps what it has traced of the jitted function inside of the rule."""
    for factor in (2.0, 5.0):
        FACTOR[0] = factor
        code = compile_function(both(lambda x, p: declared(x) + p), np.zeros(1), np.zeros(1))
        assert code(np.array([0.3]), np.zeros(1))[1] == factor
