"""Every primitive, as machine code, against JAX itself."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from dalembert.algebra import value_and_jacobian
from dalembert.native import Graph, Unsupported, compile_function, evaluate, supported

A = np.array([[2.0, 0.3, -0.7, 0.1], [0.4, -1.1, 0.2, 0.5], [-0.3, 0.8, 0.6, 1.7], [1.2, 0.9, -0.4, 0.3]])
X = np.array([0.3, -0.8, 1.4, 0.55])
POSITIVE = np.array([0.2, 0.4, 0.7, 0.9])


def agree(function, *arguments, tolerance=1e-13):
    """The compiled function and JAX's, to a few roundings."""
    expected = [np.asarray(x, float) for x in jax.tree.leaves(jax.jit(function)(*arguments))]
    found = compile_function(function, *arguments)(*arguments)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


ONE_ARGUMENT = {
    **{name: getattr(jnp, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "arcsinh", "exp",
       "expm1", "exp2", "cbrt", "abs", "sign", "floor", "ceil", "square", "negative")},
    "round": jnp.round,
    "lax.round": lambda x: lax.round(x * 2.5),
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "logistic": jax.nn.sigmoid,
    "is_finite": lambda x: jnp.isfinite(x / (x - x[0])),
    "clip": lambda x: jnp.clip(x, -0.5, 0.5),
    "maximum": lambda x: jnp.maximum(x, 0.1) + jnp.minimum(x, x[::-1]),
    "where": lambda x: jnp.where((x > 0) & ~(x > 1) | (x == X[1]), x, -2 * x),
    "xor": lambda x: (x > 0) ^ (x > 1),
    "powers": lambda x: x**3 + x**-2 + jnp.abs(x) ** 2.5 + jnp.abs(x) ** -0.5 + jnp.abs(x) ** 0.3 + 1.7**x,
    "remainder": lambda x: jnp.fmod(x, 0.4) + jnp.remainder(x, 0.4),
    "arctan2": lambda x: jnp.arctan2(x, x[::-1]),
    "reductions": lambda x: jnp.stack([x.sum(), x.prod(), x.max(), x.min(), jnp.linalg.norm(x)]),
    "conditions": lambda x: jnp.stack([jnp.all(x > -2), jnp.any(x > 2)]),
    "cumulative": lambda x: jnp.cumsum(x) + jnp.cumprod(x) + lax.cummax(x) + lax.cummin(x, reverse=True),
    "reshape": lambda x: x.reshape(2, 2).T[:, None, ::-1].squeeze(1).ravel(),
    "slices": lambda x: jnp.concatenate([x[1:3], x[::2], x[jnp.array([3, 0])], x[None, 2]]),
    "stack": lambda x: sum(jnp.unstack(jnp.stack([x, 2 * x], axis=1), axis=1)),
    "pad": lambda x: lax.pad(x, 2.0, [(1, -1, 1)]) [:5],
    "roll": lambda x: jnp.roll(x, 1) + jnp.tile(x[:2], 2) + jnp.repeat(x[:2], 2),
    "updates": lambda x: x.at[1].set(5.0).at[jnp.array([2, 2])].add(x[:2]).at[0].multiply(3.0).at[3].max(2.0),
    "dynamic": lambda x: lax.dynamic_update_slice(x, x[:2] * 3, (1,)) + lax.dynamic_slice(x, (2,), (2,)).sum(),
    "computed index": lambda x: x[jnp.argmax(x)] * x[jnp.argmin(x)],
    "scatter at a computed index": lambda x: jnp.zeros(4).at[jnp.argmax(x)].set(x[0]),
    "products": lambda x: jnp.einsum("i,ij,j", x, A, x) + jnp.dot(A, x) + jnp.outer(x, x) @ x,
    "integers": lambda x: x * jnp.arange(4) // 1 + jnp.arange(4) % 3 + (x > 0).astype(int),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y + jnp.cos(y) * i, x),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))[1],
    "scan": lambda x: lax.scan(lambda c, y: (c * y, c + y), x[0], x)[1],
    "scan back": lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x, reverse=True)[1],
    "branch": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "branches": lambda x: lax.switch(jnp.argmax(x), [jnp.sin, jnp.cos, jnp.exp, jnp.tanh], x),
    "nested branch": lambda x: lax.cond(x[0] > 0, lambda y: lax.cond(y[1] > 0, jnp.sin, jnp.exp, y), jnp.cos, x),
    "derivative of a branch": jax.jacfwd(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x) * x[0]),
    "vmap": lambda x: jax.vmap(lambda a: a * x)(x),
    "jit": jax.jit(lambda x: x + 1),
    "checkpoint": jax.checkpoint(lambda x: jnp.sin(x) * x),
    "custom derivative": jax.grad(lambda x: jax.nn.relu(x).sum() + jax.nn.softplus(x).sum() + jax.nn.silu(x).sum()),
    "hessian": jax.hessian(lambda x: jnp.tanh(x) @ A[0] * jnp.prod(x) / jnp.linalg.norm(x) ** 3),
    "stop gradient": jax.grad(lambda x: (lax.stop_gradient(x) * x).sum()),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_function(name):
    agree(ONE_ARGUMENT[name], X)


@pytest.mark.parametrize("name", ["log", "log1p", "sqrt", "arcsin", "arccos", "arctanh", "arccosh", "reciprocal"])
def test_function_of_positive_numbers(name):
    shift = 1.0 if name == "arccosh" else 0.0
    agree(getattr(jnp, name), POSITIVE + shift)


def test_rsqrt_and_log_gamma():
    agree(lambda x: lax.rsqrt(x) + lax.lgamma(x), POSITIVE)


MATRIX = {
    "solve": lambda a, x: jnp.linalg.solve(a, x),
    "solve for several": lambda a, x: jnp.linalg.solve(a, jnp.stack([x, x**2], 1)),
    "inverse": lambda a, x: jnp.linalg.inv(a),
    "determinant": lambda a, x: jnp.linalg.det(a) + jnp.linalg.det(a[:3, :3]) + jnp.linalg.det(a[:2, :2]),
    "determinants": lambda a, x: jax.vmap(jnp.linalg.det)(jnp.stack([a, a @ a])),
    "derivative of a determinant": lambda a, x: jax.grad(jnp.linalg.det)(a),
    "derivative of a solution": lambda a, x: jax.jacfwd(lambda y: jnp.linalg.solve(a * y[0], y))(x),
    "reverse derivative of a solution": lambda a, x: jax.jacrev(lambda y: jnp.linalg.solve(a * y[0], y))(x),
    "logarithm of a determinant": lambda a, x: jnp.linalg.slogdet(a),
    "cholesky": lambda a, x: jnp.linalg.cholesky(a @ a.T),
    "triangular": lambda a, x: (
        jax.scipy.linalg.solve_triangular(a, x, lower=True) + jax.scipy.linalg.solve_triangular(a, x, trans=1)
    ),
}


@pytest.mark.parametrize("name", MATRIX)
def test_linear_algebra(name):
    agree(MATRIX[name], A, X, tolerance=1e-11)


def test_pivots_inside_a_function_are_chosen_at_run_time():
    solve = compile_function(jnp.linalg.solve, A[:2, :2], X[:2])
    for matrix in ([[0.0, 1.0], [1.0, 0.0]], [[1e-20, 1.0], [1.0, 1.0]], [[3.0, 1.0], [1.0, 0.0]]):
        found = solve(np.array(matrix), X[:2])[0]
        np.testing.assert_allclose(found, np.linalg.solve(matrix, X[:2]), rtol=1e-14)


def test_a_quotient_may_come_before_the_root_of_its_denominator():
    """1/b is (1/√b)² only where √b is known already."""
    agree(lambda x: [x / (1 + x @ x), x / jnp.sqrt(1 + x @ x), x[0] / ((1 + x @ x) * x[1])], X)


def test_nan_passes_through_maxima_and_branches():
    f = compile_function(lambda x: jnp.stack([jnp.maximum(x[0], x[1]), jnp.minimum(x[1], x[0]), jnp.max(x)]), X)
    assert np.isnan(f([np.nan, 1.0, 2.0, 3.0])[0]).all()
    assert np.isnan(f([1.0, np.nan, 2.0, 3.0])[0]).all()


def test_only_the_branch_that_is_taken_is_evaluated():
    """A side that would divide by zero, or call a costly function, does no harm and costs nothing where it is not taken."""
    f = compile_function(lambda x: lax.cond(x[0] > 0, lambda y: 1 / y[0], lambda y: y[1], x), X)
    assert f([0.0, 7.0, 0.0, 0.0])[0] == 7.0
    assert f([4.0, 7.0, 0.0, 0.0])[0] == 0.25


UNSUPPORTED = {
    "pure_callback": lambda x: jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct((4,), jnp.float64), x),
    "sort": jnp.sort,
    "eigh": lambda x: jnp.linalg.eigh(jnp.outer(x, x))[0],
    "while": lambda x: lax.while_loop(lambda y: y[0] < 3, lambda y: 2 * y, x),
    "convert_element_type": lambda x: x.astype(jnp.float32),
}


@pytest.mark.parametrize("primitive", UNSUPPORTED)
def test_what_has_no_translation_is_named(primitive):
    with pytest.raises(Unsupported) as error:
        compile_function(UNSUPPORTED[primitive], X)
    assert error.value.what == primitive


def test_a_huge_captured_array_is_refused():
    big = np.full(200_000, 1.5)
    with pytest.raises(Unsupported, match="200000 numbers"):
        compile_function(lambda x: x + big.sum() + jnp.asarray(big)[0], X)


def test_the_list_of_primitives_is_long_and_sorted():
    assert len(supported()) > 90
    assert supported() == sorted(supported())


UNARY = [jnp.sin, jnp.cos, jnp.tanh, lambda x: x * x, lambda x: jnp.sqrt(1 + x * x), lambda x: 1 / (2 + x * x), jnp.negative]
BINARY = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    lambda x, y: x / (1 + y * y),
    jnp.maximum,
    lambda x, y: jnp.where(x > y, x, 2 * y),
]


@st.composite
def programs(draw):
    """A list of operations on a growing list of numbers."""
    steps, count = [], 3
    for _ in range(draw(st.integers(3, 15))):
        one = draw(st.booleans())
        table = UNARY if one else BINARY
        steps.append(
            (draw(st.integers(0, len(table) - 1)), one, draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1)))
        )
        count += 1
    return steps


@settings(max_examples=15, deadline=None, derandomize=True)
@given(steps=programs(), x=st.lists(st.floats(-2, 2, width=16), min_size=3, max_size=3))
def test_random_programs_and_their_derivatives(steps, x):
    def function(v):
        values = list(v)
        for which, one, i, j in steps:
            values.append(UNARY[which](values[i]) if one else BINARY[which](values[i], values[j]))
        return values[-1]

    point = jnp.array(x)
    both = lambda v: (function(v), jax.jacfwd(function)(v), value_and_jacobian(function, v)[1])  # noqa: E731
    value, slope, own = compile_function(both, point)(x)
    # Where two numbers are equal, the derivative of a maximum is a matter of convention, but the same convention.
    scale = 1.0 + abs(float(value)) + np.max(np.abs(slope), initial=0.0)
    np.testing.assert_allclose(value, jax.jit(function)(point), rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(slope, jax.jit(jax.jacfwd(function))(point), rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(own, slope, rtol=0, atol=1e-10 * scale)  # by the rules of the graph


def test_the_documentation_says_where_the_primitives_are_listed():
    page = (Path(__file__).parents[2] / "docs" / "native.md").read_text(encoding="utf-8")
    assert "`dalembert.native.supported()`" in page
    assert supported.__module__.startswith("dalembert.native")


@pytest.mark.parametrize("x", [0.5, np.nextafter(0.5, 0.0), -0.5, -2.5, 1.5, 2.0**52 + 1, np.nextafter(-0.5, 0.0)])
def test_a_constant_is_rounded_as_a_number(x):
    g = Graph()
    expected = lax.round(jnp.asarray(x))
    assert g.value(g.apply("round", g.constant(x))) == expected
    assert evaluate(g, [g.raw("round", g.constant(x))], {})[0] == expected
