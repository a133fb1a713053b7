"""Banded factorizations against dense linear algebra."""

import numpy as np
import pytest

from dalembert.algebra import BandedLU, condition

BANDS = (0, 1, 3, 8)
LENGTHS = (1, 2, 3, 4, 5, 11, 40)


def banded(rng, n, lower, units):
    """A symmetric matrix, indefinite, without a diagonal in every second row where there is more; rows and columns in
    different units; by rows, with what is not read beside it, and dense."""
    full = np.triu(np.tril(rng.standard_normal((n, n)), lower), -lower)
    full = full + full.T
    if lower and n > 1:
        full[np.arange(1, n, 2), np.arange(1, n, 2)] = 0.0
    scale = 10.0 ** rng.uniform(-units, units, n)
    full = full * scale[:, None] * scale
    column = np.arange(n)[:, None] - lower + np.arange(2 * lower + 1)
    inside = (column >= 0) & (column < n)
    rows = np.where(inside, full[np.arange(n)[:, None], np.clip(column, 0, n - 1)], 0.0)
    return rows, full


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("lower", BANDS)
@pytest.mark.parametrize("units", [0.0, 4.0])
def test_solutions(units, lower, n):
    """The backward error, row by row in the units of the rows: |A x − b| by |A| |x| + |b|."""
    rng = np.random.default_rng(n)
    rows, full = banded(rng, n, lower, units)
    before = rows.copy()
    factors = BandedLU(rows)
    np.testing.assert_array_equal(rows, before)
    size = np.abs(full).max(axis=1)
    for b in (size * rng.standard_normal(n), size[:, None] * rng.standard_normal((n, 6))):
        x = factors.solve(b)
        biggest = np.abs(full).max(axis=1) * np.abs(np.sqrt(np.abs(full).max(axis=1)) * x.T).max() / np.sqrt(size)
        assert np.max(np.abs(full @ x - b).T / (biggest + np.abs(b).T)) < 1e-13 * n


def test_units_change_no_bit():
    """Rows and columns times powers of two, right-hand sides too: the same solution in these units."""
    rng = np.random.default_rng(1)
    (rows, _), b, units = banded(rng, 203, 7, 0.0), rng.standard_normal(203), 2.0 ** rng.integers(-100, 100)
    np.testing.assert_array_equal(BandedLU(rows * units).solve(b * units), BandedLU(rows).solve(b))


@pytest.mark.parametrize("lower", [1, 8])
@pytest.mark.parametrize("fault", ["zero", "not a number"])
def test_singular_and_damaged_matrices(fault, lower):
    rng = np.random.default_rng(1)
    rows, full = banded(rng, 30, lower, 0.0)
    if fault == "zero":
        for i in range(30):
            for j in range(max(0, i - lower), min(30, i + lower + 1)):
                rows[i, j - i + lower] *= i != 17 and j != 17
    else:
        rows[20, lower] = np.nan
    factors = BandedLU(rows)
    assert factors.singular
    assert condition(np.abs(full).sum(axis=0).max(), 30, factors.solve) == np.inf
    assert np.all(np.isnan(factors.solve(rng.standard_normal(30))))


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("units", [0.0, 2.0])
def test_condition_numbers(units, case):
    """The estimate is a lower bound and, for these matrices, near the condition number."""
    rows, full = banded(np.random.default_rng(case), 50, 6, units)
    exact = np.linalg.cond(full, 1)
    found = condition(np.abs(full).sum(axis=0).max(), 50, BandedLU(rows).solve)
    assert exact / 3 < found < exact * (1 + 1e-6)
