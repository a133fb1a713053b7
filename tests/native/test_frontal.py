"""The frontal factorization against dense algebra."""

import numpy as np
import pytest

from dalembert.algebra import choose_pivots
from dalembert.native import FrontalFactorization, Places, Summand, Windowed, symbolic_plan

SIZE, BLOCKS = 3, 12
WORDS = (0, 1, 2, 3, 4, 5)  # a window reads its block and the next
ENTRIES = tuple((r, c) for r in WORDS for c in WORDS if r <= c)


def second(z, scale, shared):
    """A symmetric matrix that depends on all that a window reads."""
    a = np.arange(36.0).reshape(6, 6) % 5
    k = (a + a.T) * shared[0] + scale[0] * (z[:, None] * z[None, :])
    return (k + np.diag([3.0, -2.0, 0.5, 3.0, -2.0, 0.5]))[tuple(zip(*ENTRIES, strict=True))]


def dense(z, scales, shared, diagonal, free, start):
    found = np.zeros((BLOCKS * SIZE, BLOCKS * SIZE))
    for i, scale in enumerate(scales):
        at = (start + i) * SIZE
        values = second(z.ravel()[at : at + 6], scale, shared)
        for (r, c), value in zip(ENTRIES, values, strict=True):
            found[at + r, at + c] += value
            if r != c:
                found[at + c, at + r] += value
    flat = free.ravel()
    return found * flat[:, None] * flat[None, :] + np.diag(diagonal.ravel())


@pytest.fixture(scope="module", params=[((0,), (1,), (2,)), ((2,), (0, 1)), ((0, 2), (1,))])
def made(request):
    windowed = Windowed(second, (Places(WORDS, SIZE),), ((1,),), ((1,),))
    return FrontalFactorization([Summand(windowed, ENTRIES)] * 2, symbolic_plan(ENTRIES, SIZE, request.param))


@pytest.mark.parametrize("held", [(), (4, 5, 17, 35)])
def test_solutions_and_signs_are_those_of_the_dense_matrix(made, held):
    """Two sums, one of them over a part of the path; some components fixed."""
    random = np.random.default_rng(0)
    z, right = random.standard_normal((2, BLOCKS, SIZE))
    free = np.ones((BLOCKS, SIZE))
    free.ravel()[list(held)] = 0.0
    diagonal = np.where(free == 0, 1.0, 0.1 * random.standard_normal((BLOCKS, SIZE)))
    right *= free
    scales, shared = random.standard_normal((BLOCKS - 1, 1)), np.array([0.3])
    few = random.standard_normal((4, 1))
    ranges = [np.array([0, BLOCKS - 1]), np.array([3, 4])]
    bound = made.bind(free, ranges, [scales, few], shared)
    record, x = bound.factor(z, diagonal, right)
    k = dense(z, scales, shared, diagonal, free, 0) + dense(z, few, shared, 0 * diagonal, free, 3)
    expected = np.linalg.solve(k, right.ravel())
    assert np.abs(x.ravel() - expected).max() < 1e-10 * np.abs(expected).max()
    again = bound.solve(record, 2.0 * right)
    assert np.abs(again.ravel() - 2.0 * expected).max() < 1e-10 * np.abs(expected).max()
    assert bound.negative(record) == np.count_nonzero(np.linalg.eigvalsh(k) < 0)


def test_pivots_avoid_what_vanishes_somewhere():
    """[0 g; g 0] is a pivot where g is not zero; the entry that is never small is preferred."""
    samples = np.zeros((5, 3, 3))
    for s, turned in zip(samples, (1.0, 0.5, 0.01, -0.6, -1.0), strict=True):
        s[0, 1] = s[1, 0] = 1.0
        s[0, 2] = s[2, 0] = turned
        s[2, 2] = -1e-3
    groups = choose_pivots(samples, np.zeros((5, 3, 1))).groups
    assert groups[0] == (0, 1)
    assert sorted(i for g in groups for i in g) == [0, 1, 2]
