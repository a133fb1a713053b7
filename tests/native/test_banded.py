"""Machine code of banded factorizations against the LAPACK one; tests/algebra/test_banded.py has both against dense ones."""

import numpy as np
import pytest

from dalembert.algebra import banded as lapack
from dalembert.native import Unsupported
from dalembert.native.band.banded import banded


@pytest.fixture(scope="module")
def band():
    return banded(7, 5)


@pytest.fixture(scope="module")
def problem():
    """Symmetric structure, indefinite, diagonally weak: (matrix, rhs)."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((9, 203, 20))
    column = np.arange(203)[:, None] - 7 + np.arange(20)
    matrix[:, (column < 0) | (column >= 203)] = 0.0
    return matrix, rng.standard_normal((9, 203, 5))


def test_the_same_as_lapack(band, problem):
    matrix, b = problem
    other = lapack.banded(7, 5)
    mine, theirs = band.factor(matrix.copy()), other.factor(matrix.copy())
    assert np.array_equal(mine.scales[:, :203], theirs.scales)
    assert mine.pivots == pytest.approx(theirs.pivots, rel=1e-6)  # conditions of about 1e4 times rounding and growth
    for transposed in (False, True):
        x = band.solve(mine, b.copy(), transposed=transposed)
        y = other.solve(theirs, b.copy(), transposed=transposed)
        assert np.abs(x - y).max() < 1e-10 * np.abs(y).max()


def test_room_for_fill_in_is_not_read(band, problem):
    matrix, b = problem
    filled = matrix.copy()
    filled[..., 13:] = np.nan
    assert np.array_equal(band.solve(band.factor(filled), b.copy()), band.solve(band.factor(matrix.copy()), b.copy()))


def test_units_of_rows_change_no_bit(band, problem):
    """Rows times powers of two, right-hand sides too: the same solution."""
    matrix, b = problem
    units = 2.0 ** np.random.default_rng(1).integers(-300, 300, (9, 203, 1))
    x = band.solve(band.factor(matrix.copy()), b.copy())
    assert np.array_equal(band.solve(band.factor(matrix * units), b * units), x)


def test_right_hand_sides_one_by_one_and_together(band, problem):
    """Columns of one array, and each in one piece: the same operations."""
    matrix, b = problem
    factors = band.factor(matrix.copy())
    x = band.solve(factors, b.copy())
    alone = np.stack([band.solve(factors, b[..., i].copy()) for i in range(5)], axis=-1)
    assert np.array_equal(x, alone)


def test_shapes_are_checked(band, problem):
    matrix, b = problem
    with pytest.raises(ValueError, match=r"matrix: expected .* \(batch, n, 20\), got \(9, 203, 19\)"):
        band.factor(matrix[..., :19].copy())
    with pytest.raises(ValueError, match="in one piece"):
        band.factor(matrix[:, ::2])
    with pytest.raises(ValueError, match="rhs: expected"):
        band.solve(band.factor(matrix.copy()), b[:, :100].copy())
    with pytest.raises(ValueError, match="got -1 and 2"):
        banded(-1, 2)
    with pytest.raises(Unsupported, match="bandwidths"):
        banded(300, 300)
