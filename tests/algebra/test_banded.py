"""Banded factorizations, in machine code and by LAPACK, against dense linear algebra."""

import numpy as np
import pytest

from dalembert.algebra import banded as lapack
from dalembert.native.band import banded as native

BANDS = ((0, 0), (0, 2), (3, 0), (1, 1), (5, 9), (8, 8))
LENGTHS = (1, 2, 3, 4, 5, 11, 40)


@pytest.fixture(params=(lapack, native), ids=("lapack", "native"))
def backend(request):
    return request.param.banded


def places(n, lower, upper):
    """Column of each stored entry, and which of them belong to the matrix."""
    column = np.arange(n)[:, None] - lower + np.arange(2 * lower + upper + 1)
    return column, (column >= 0) & (column < n) & (np.arange(column.shape[1]) <= lower + upper)


def random_bands(rng, batch, n, lower, upper):
    _, inside = places(n, lower, upper)
    return rng.standard_normal((batch, n, 2 * lower + upper + 1)) * inside


def dense(matrix, lower, upper):
    n = matrix.shape[1]
    column, inside = places(n, lower, upper)
    full = np.zeros((len(matrix), n, n))
    full[:, np.nonzero(inside)[0], column[inside]] = matrix[:, inside]
    return full


def backward_error(full, x, b):
    """Largest row of |A x − b| by |A| |x| + |b|, the latter with the norm of x: rows are scaled, columns are not."""
    size = np.abs(full).sum(axis=2) * np.abs(x).max(axis=1, keepdims=True) + np.abs(b)
    return np.max(np.abs(np.einsum("bij,bj->bi", full, x) - b) / size)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(("lower", "upper"), BANDS)
def test_solutions_of_badly_scaled_matrices(backend, lower, upper, n):
    """Rows in different units; without a diagonal where there are others, so that rows must be exchanged."""
    rng = np.random.default_rng(n)
    matrix = random_bands(rng, 3, n, lower, upper) * 10.0 ** rng.integers(-9, 9, (3, n, 1))
    if lower and upper and n > 1:
        matrix[1, 1::2, lower] = 0.0
    if not lower or not upper:
        matrix[..., lower] = 2 * np.abs(matrix).max(axis=2)
    full, b, several = dense(matrix, lower, upper), rng.standard_normal((3, n)), rng.standard_normal((3, n, 6))
    band = backend(lower, upper)
    factors = band.factor(matrix)
    assert factors.singular.tolist() == [-1, -1, -1]
    assert backward_error(full, band.solve(factors, b.copy()), b) < 1e-14
    x = band.solve(factors, several.copy())
    assert max(backward_error(full, x[..., i], several[..., i]) for i in range(6)) < 1e-14
    # Columns of the transposed matrix have the units of the rows: compare with the solution, in these units.
    unit = np.abs(full).max(axis=2)
    turned = np.swapaxes(full / unit[:, :, None], 1, 2)
    assert backward_error(turned, band.solve(factors, b.copy(), transposed=True) * unit, b) < 1e-14
    x = band.solve(factors, several.copy(), transposed=True) * unit[..., None]
    assert max(backward_error(turned, x[..., i], several[..., i]) for i in range(6)) < 1e-14


def test_pivots_and_scales(backend):
    """Upper triangular: the pivots are the scaled diagonal."""
    matrix = np.zeros((1, 5, 4))
    matrix[0, :, 1] = [3.0, 4.0, -6.0, 0.75, 10.0]
    matrix[0, :4, 2] = [1.0, 16.0, 1.0, 1.0]
    factors = backend(1, 1).factor(matrix)
    assert factors.scales[0, :5].tolist() == [0.5, 1 / 16, 0.25, 1.0, 0.125]
    assert factors.pivots.tolist() == [0.25 / 1.5]


@pytest.mark.parametrize(("lower", "upper"), [(1, 1), (8, 8)])
def test_singular_and_damaged_matrices_among_sound_ones(backend, lower, upper):
    rng = np.random.default_rng(1)
    matrix, b = random_bands(rng, 5, 30, lower, upper), rng.standard_normal((5, 30))
    column, _ = places(30, lower, upper)
    matrix[1][column == 17] = 0.0
    matrix[2, 13] = 0.0
    matrix[3, 20, lower] = np.nan
    full, alone, band = dense(matrix, lower, upper), matrix[4:].copy(), backend(lower, upper)
    norm = band.norm(matrix)
    factors = band.factor(matrix)
    assert factors.singular[[0, 4]].tolist() == [-1, -1]
    assert factors.singular[1] == 17
    assert np.all(factors.singular[[2, 3]] >= 0)
    assert np.all(factors.pivots[1:4] == 0)
    assert np.all(np.isinf(band.condition(factors, norm)[1:4]))
    x = band.solve(factors, b.copy())
    assert np.all(np.isnan(x[1:4]))
    assert backward_error(full[[0, 4]], x[[0, 4]], b[[0, 4]]) < 1e-14
    assert np.array_equal(band.solve(band.factor(alone), b[4:].copy()), x[4:])


@pytest.mark.parametrize("scale", [0.0, 8.0])
def test_condition_numbers(backend, scale):
    """The estimate is a lower bound and, for these matrices, near the condition number; so is the norm."""
    rng = np.random.default_rng(2)
    matrix = random_bands(rng, 6, 50, 5, 9) * 10.0 ** rng.uniform(-scale, 0, (6, 50, 1))
    full, band = dense(matrix, 5, 9), backend(5, 9)
    norm = band.norm(matrix)
    assert norm == pytest.approx(np.abs(full).sum(axis=1).max(axis=1), rel=1e-14)
    exact = np.linalg.cond(full, 1)
    found = band.condition(band.factor(matrix), norm)
    assert np.all(found < exact * (1 + 1e-6))
    assert np.all(found > exact / 3)
