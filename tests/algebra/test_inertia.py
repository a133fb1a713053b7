"""Signs of the eigenvalues of symmetric banded matrices against dense eigenvalues."""

import sys

import numpy as np
import pytest

from dalembert.algebra import inertia

module = sys.modules[inertia.__module__]


def stored(full, lower):
    n = len(full)
    rows = np.zeros((n, 3 * lower + 1))
    for k in range(min(lower, n - 1) + 1):
        rows[k:, lower - k] = np.diagonal(full, -k)
    return rows


def symmetric(rng, n, lower):
    half = np.tril(np.triu(rng.standard_normal((n, n)), -lower))
    return half + half.T


def signs(full):
    values = np.linalg.eigvalsh(full)
    return np.sum(values > 0), np.sum(values < 0)


@pytest.fixture(params=(1, 16, 48), ids=lambda rows: f"blocks of {rows}")
def _blocks(request, monkeypatch):
    """At least 2·lower rows; small ones are seldom regular against the next, so that directions are passed on."""
    monkeypatch.setattr(module, "ROWS", request.param)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("lower", [0, 1, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 5, 40, 150])
def test_random_matrices(n, lower):
    full = symmetric(np.random.default_rng(n + lower), n, lower)
    assert inertia(stored(full, lower), lower) == (*signs(full), 0)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("multipliers", [slice(0, 2), slice(3, 5)], ids=["before", "behind"])
def test_matrices_with_multipliers(multipliers):
    """Nodes of three coordinates and two multipliers, whose own blocks are zero: many leading blocks are singular."""
    full = symmetric(np.random.default_rng(3), 150, 9)
    mine = np.isin(np.arange(150) % 5, np.arange(5)[multipliers])
    full[np.ix_(mine, mine)] = 0.0
    assert inertia(stored(full, 9), 9) == (*signs(full), 0)


@pytest.mark.parametrize("seed", range(6))
def test_singular_leading_blocks(seed, monkeypatch):
    """Every other block of 16 rows is shifted so that the matrix of all rows so far is singular to rounding.

    Its inverse would leave nothing of the blocks that follow.
    """
    monkeypatch.setattr(module, "ROWS", 16)
    full = symmetric(np.random.default_rng(seed), 128, 6)
    for start in range(0, 112, 32):
        block = slice(start, start + 16)
        above = full[block, :start]
        rest = full[block, block] - above @ np.linalg.solve(full[:start, :start], above.T)
        full[block, block] -= np.linalg.eigvalsh(rest)[8] * np.eye(16)
        assert np.abs(np.linalg.eigvalsh(full[: start + 16, : start + 16])).min() < 1e-13
    assert inertia(stored(full, 6), 6, tolerance=0.0) == (*signs(full), 0)


@pytest.mark.usefixtures("_blocks")
def test_ill_scaled_matrices():
    """Congruent with a matrix of order one by a diagonal over twelve decades, which leaves the signs as they are."""
    rng = np.random.default_rng(4)
    full, units = symmetric(rng, 120, 6), 10.0 ** rng.uniform(-6, 6, 120)
    assert inertia(stored(full * units[:, None] * units, 6), 6) == (*signs(full), 0)


@pytest.mark.usefixtures("_blocks")
def test_zero_eigenvalues():
    """B C Bᵀ with B (150, 90): at least 60 zeros, every fifth row among them, and far from the others, as is checked."""
    rng = np.random.default_rng(5)
    tall = np.zeros((150, 90))
    for j in range(90):
        tall[j * 5 // 3 : j * 5 // 3 + 3, j] = rng.standard_normal(min(3, 150 - j * 5 // 3))
    tall[::5] = 0.0
    weights = rng.choice([-1.0, 1.0], 90)
    full = (tall * weights) @ tall.T
    values = np.linalg.eigvalsh(full)
    zero = np.sum(np.abs(values) < 1e-12)
    assert zero >= 60
    assert np.sum(np.abs(values) < 1e-7) == zero
    assert inertia(stored(full, 4), 4) == (np.sum(values > 1e-7), np.sum(values < -1e-7), zero)


def test_a_null_space_of_which_three_rows_see_a_part(monkeypatch):
    """Twelve null vectors of one block, three rows behind it: nine zeros, in a space that eigenvectors do not split."""
    monkeypatch.setattr(module, "ROWS", 30)
    rng, full = np.random.default_rng(6), np.eye(33)
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    full[14:30, 14:30] = turn @ np.diag([0.0] * 12 + [1.0, -1.0, 2.0, -2.0]) @ turn.T
    full[30:, 18:30] = rng.standard_normal((3, 12))
    full[18:30, 30:] = full[30:, 18:30].T
    values = np.linalg.eigvalsh(full)
    assert np.sum(np.abs(values) < 1e-12) == np.sum(np.abs(values) < 1e-4) == 9
    assert inertia(stored(full, 15), 15) == (np.sum(values > 1e-4), np.sum(values < -1e-4), 9)


def test_the_tolerance_decides_what_is_zero():
    """Eigenvalues 2 and 4e-6 of two coupled rows, next to ±1."""
    full = np.diag([1.0, -1.0, 1.0, 1.0])
    full[2, 3] = full[3, 2] = 1 - 4e-6
    assert inertia(stored(full, 1), 1) == (3, 1, 0)
    assert inertia(stored(full, 1), 1, tolerance=1e-5) == (2, 1, 1)


def test_a_matrix_with_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        inertia(np.full((3, 4), np.nan), 1)
