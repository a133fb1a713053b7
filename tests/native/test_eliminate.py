"""The written-out elimination and the pivoted solver against NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalembert.native import (
    CACHE,
    EXACT,
    NOT_FINITE,
    SINGULAR,
    SOLVED,
    Graph,
    choose_order,
    eliminate,
    evaluate,
    parity,
    pivoted_solver,
)

GROWTH = 1e8


def system(pattern: np.ndarray):
    """A graph with a matrix of inputs at the places of the pattern, and a right-hand side."""
    g = Graph()
    n = len(pattern)
    a = np.where(pattern, g.vector("a", n * n).reshape(n, n), g.zero)
    return g, a, g.vector("b", n).tolist()


def solve(matrix: np.ndarray, sample: np.ndarray, right: np.ndarray, cofactors: bool = False):
    """(solution, check, sign of the determinant) by the elimination whose pivots were chosen at a sample."""
    pattern = sample != 0
    g, a, b = system(pattern)
    order = choose_order(pattern, np.full(pattern.shape, 2), sample[None])
    assert order is not None
    found = eliminate(g, b, a, order, lambda i: 2, GROWTH, cofactors=cofactors)
    inputs = {"a": matrix.ravel(), "b": right}
    values = evaluate(g, [*(found.update[j] for j in range(len(pattern))), found.check, *found.pivots], inputs).astype(float)
    n = len(pattern)
    sign = np.prod(np.sign(values[n + 1 :])) * (-1) ** parity([order])
    return values[:n], values[n], sign


@settings(max_examples=60, deadline=None, derandomize=True)
@given(n=st.integers(1, 8), density=st.floats(0.1, 1.0), seed=st.integers(0, 10_000))
def test_sparse_systems(n, density, seed):
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((n, n)) < density, rng.standard_normal((n, n)), 0.0)
    matrix[np.arange(n), rng.permutation(n)] += 2.0 + rng.random(n)  # a full transversal: not singular by structure
    matrix *= 10.0 ** rng.integers(-6, 6, n)[:, None]  # rows of any size
    if np.linalg.cond(matrix / np.abs(matrix).max(1)[:, None]) > 1e6:
        return
    right = rng.standard_normal(n)
    found, check, sign = solve(matrix, matrix, right)
    expected = np.linalg.solve(matrix, right)
    condition = np.linalg.cond(matrix / np.abs(matrix).max(1)[:, None])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * condition * np.abs(expected).max())
    assert check <= GROWTH
    assert sign == np.linalg.slogdet(matrix)[0]


@pytest.mark.parametrize("seed", range(20))
def test_three_equations_by_cofactors(seed):
    """Of rows of any size; and a determinant that became small, or entries that are not finite, are seen."""
    rng = np.random.default_rng(seed)
    matrix, right = rng.standard_normal((3, 3)) + 3.0 * np.eye(3)[rng.permutation(3)], rng.standard_normal(3)
    matrix[seed % 3, (seed + 1) % 3] = 0.0
    matrix *= 10.0 ** rng.integers(-6, 6, 3)[:, None]
    found, check, sign = solve(matrix, matrix, right, cofactors=True)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-12)
    assert check <= GROWTH
    assert sign == np.linalg.slogdet(matrix)[0]
    flat, size = matrix.copy(), np.abs(matrix).max(1)
    i, j = (seed + 1) % 3, (seed + 2) % 3  # rows without a zero
    flat[i] = size[i] * (flat[j] / size[j] + 1e-9 * flat[i] / size[i])
    bad = matrix.copy()
    bad[0, 0] = np.inf if seed % 2 else np.nan
    for other in (flat, bad):
        assert not solve(other, matrix, right, cofactors=True)[1] <= GROWTH


def test_pivots_that_became_small_are_seen():
    sample = np.array([[1.0, 0.5], [0.4, 1.0]])
    _, check, _ = solve(np.array([[1e-9, 0.5], [0.4, 1e-9]]), sample, np.ones(2))
    assert not check <= GROWTH


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_seen(bad):
    sample = np.array([[1.0, 0.5], [0.4, 1.0]])
    _, check, _ = solve(np.array([[bad, 0.5], [0.4, 1.0]]), sample, np.ones(2))
    assert not check <= GROWTH


def test_a_matrix_that_is_singular_by_structure_has_no_order():
    sample = np.array([[1.0, 1.0, 0.0], [1.0, 2.0, 0.0], [3.0, 1.0, 0.0]])
    assert choose_order(sample != 0, np.zeros((3, 3), int), sample[None]) is None


def test_what_is_constant_is_eliminated_first():
    """An arrow matrix whose last row changes in every iteration: no pivot is taken from that row before the end."""
    n = 6
    sample = np.eye(n) + np.where(np.arange(n)[:, None] == n - 1, 0.5, 0) + np.where(np.arange(n) == n - 1, 0.5, 0)
    levels = np.where(np.arange(n)[:, None] == n - 1, 2, 0) * np.ones((1, n), int)
    order = choose_order(sample != 0, levels, sample[None])
    assert order is not None
    assert order.rows[-1] == n - 1


@pytest.fixture(scope="module")
def pivoted():
    """The compiled pivoted solver, as a function of (matrix, right) → (code, solution, residual, sign)."""
    loaded = CACHE.load(pivoted_solver(), plain=False)
    run = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, *[ctypes.c_void_p] * 3)(loaded.address("pivoted"))

    def call(matrix, right):
        a, b, report = np.array(matrix, float), np.array(right, float), np.zeros(2)
        code = run(len(b), a.ctypes.data, b.ctypes.data, report.ctypes.data)
        return code, b, *report

    return call


def test_pivoted_solver(pivoted):
    rng = np.random.default_rng(3)
    for _ in range(50):
        matrix, right = rng.standard_normal((5, 5)) * 10.0 ** rng.integers(-9, 9, 5)[:, None], rng.standard_normal(5)
        code, x, residual, sign = pivoted(matrix, right)
        scale = np.abs(matrix).max(1)
        condition = np.linalg.cond(matrix / scale[:, None])
        expected = np.linalg.solve(matrix, right)
        assert code == SOLVED
        np.testing.assert_allclose(x, expected, rtol=0, atol=1e-14 * condition * np.abs(expected).max())
        np.testing.assert_allclose(residual, np.max(np.abs(right / scale)), rtol=1e-15)
        assert sign == np.linalg.slogdet(matrix)[0]


def test_pivoted_solver_tells_what_is_wrong(pivoted):
    matrix, right = np.eye(5), np.ones(5)
    matrix[3] = matrix[2]
    assert pivoted(matrix, right)[0] == SINGULAR
    assert pivoted(matrix, 0 * right)[0] == EXACT
    matrix = np.eye(5)
    for bad in (np.nan, np.inf, -np.inf):
        matrix[1, 4] = bad
        assert pivoted(matrix, right)[0] == NOT_FINITE
    assert pivoted(np.eye(5), [1.0, np.nan, 1, 1, 1])[0] == NOT_FINITE
