"""Linear systems of more than twelve equations inside a function: pivots from a sample, LAPACK where they do not serve."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import chain
from dalembert.native import LARGEST_DENSE, Graph, GraphFunction, Tracer, Unsupported, evaluate, solve_large

N = 14


def solver(pattern: np.ndarray, sample: np.ndarray | None):
    """A⁻¹b by machine code and by Python's evaluation of the same graph; whether pivots are written out."""
    g, n = Graph(), len(pattern)
    a, b = g.vector("x0", n * n).reshape(n, n), g.vector("x1", n)
    found = solve_large(g, np.where(pattern, a, g.zero), b, None if sample is None else lambda nodes: sample[None])
    code = GraphFunction(g, Tracer(g), (n * n, n), (np.array(found),)).compile()
    in_python = lambda a, b: evaluate(g, found, {"x0": a.ravel(), "x1": b}).astype(float)  # noqa: E731
    in_code = lambda a, b: np.ravel(code(a, b))  # noqa: E731
    return in_code, in_python, g.nodes[found[0]][0] == "pick"


def saddle(rng, turned: float = 0.0) -> np.ndarray:
    """[[M, -Jᵀ], [J, 0]], M diagonal, as of a chain of rods with all but one in one direction; turned: the first of them."""
    rods = N // 2
    angles = 0.7 + 0.1 * rng.random(rods)
    angles[0] += turned
    rows = np.zeros((rods, N))
    for i, angle in enumerate(angles):
        rows[i, 2 * i : 2 * i + 2] = np.cos(angle), np.sin(angle)
        if i:
            rows[i, 2 * i - 2 : 2 * i] = -np.cos(angle), -np.sin(angle)
    return np.block([[np.diag(1.0 + rng.random(N)), -rows.T], [rows, np.zeros((rods, rods))]])


def test_sparse_systems_are_eliminated_by_pivots_of_the_sample():
    rng = np.random.default_rng(1)
    sample = saddle(rng)
    in_code, in_python, written = solver(sample != 0, sample)
    assert written
    for _ in range(5):
        matrix, right = saddle(rng), rng.standard_normal(len(sample))
        for found in (in_code(matrix, right), in_python(matrix, right)):
            np.testing.assert_allclose(matrix @ found, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [0.0, 1e-9, np.nan])
def test_where_the_pivots_of_the_sample_vanish_the_answer_is_lapack_s(size):
    """Every diagonal entry of M that a pivot may have been taken from is small: the elimination loses all digits."""
    rng = np.random.default_rng(2)
    sample = np.diag(1.0 + rng.random(N)) + 0.2 * np.diag(rng.random(N - 1), 1) + 0.2 * np.diag(rng.random(N - 1), -1)
    in_code, in_python, written = solver(sample != 0, sample)
    assert written
    matrix, right = sample.copy(), rng.standard_normal(N)
    matrix[np.arange(N), np.arange(N)] = size  # of even size, without a diagonal: not singular
    for found in (in_code(matrix, right), in_python(matrix, right)):
        np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-11)


def test_dense_systems_are_lapack_s_and_singular_ones_no_number():
    rng = np.random.default_rng(3)
    matrix, right = rng.standard_normal((N, N)), rng.standard_normal(N)
    in_code, in_python, written = solver(np.ones((N, N), bool), matrix)
    assert not written
    for found in (in_code(matrix, right), in_python(matrix, right)):
        np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-11)
    matrix[3] = 0.0
    assert np.all(np.isnan(in_code(matrix, right)))
    assert np.all(np.isnan(in_python(matrix, right)))


def test_no_more_than_a_hundred_equations():
    with pytest.raises(Unsupported):
        solver(np.ones((LARGEST_DENSE + 1,) * 2, bool), None)


MASS = np.eye(12) + 0.3 * np.cos(np.arange(12.0)[:, None] * np.arange(12.0))  # no zeros
MASS = MASS @ MASS.T
AT_REST = np.random.default_rng(4).standard_normal((3, 12))
AT_REST /= np.linalg.norm(AT_REST, axis=1)[:, None]
SPARSE = chain.chain(7), np.stack([chain.placed(np.full(7, angle)) for angle in (0.4, 0.0, 0.5 * np.pi)])
DENSE = da.System(lambda q, v: 0.5 * v @ MASS @ v - jnp.sum(q**3), da.Holonomic(lambda q: q @ q - 1.0)), AT_REST


@pytest.mark.parametrize(("system", "q0"), [SPARSE, DENSE], ids=["sparse", "dense"])
def test_multipliers_of_compositions_are_those_of_the_continuous_equations(system, q0):
    """One by one and in lanes; rods that stand upright and lie level have other pivots than the first."""
    still, options = (
        np.zeros_like(q0),
        {"h": 0.002, "steps": 2, "scheme": da.Scheme(order=4), "solver": da.Solver(backend="native")},
    )
    many = da.ensemble(system, q0, still, **options)
    assert not np.any(many.code)
    for i in range(len(q0)):
        one = da.simulate(system, q0[i], still[i], **options)
        np.testing.assert_allclose(many.multipliers[i], one.multipliers, rtol=1e-11, atol=1e-12)
        expected = da.acceleration(system, one.q[-1], one.v[-1])[1]
        np.testing.assert_allclose(one.multipliers[-1], expected, rtol=1e-9, atol=1e-10)


def test_the_jax_back_end_finds_the_same():
    system, q0 = SPARSE
    native, jax = (
        da.simulate(system, q0[0], 0.0 * q0[0], h=0.02, steps=3, scheme=da.Scheme(order=4), solver=da.Solver(backend=b))
        for b in ("native", "jax")
    )
    np.testing.assert_allclose(native.q, jax.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(native.multipliers, jax.multipliers, rtol=1e-9)
