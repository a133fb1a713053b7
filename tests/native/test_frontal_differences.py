"""Components that are eliminated as differences of successive blocks: against dense algebra, and where they are needed."""

import numpy as np
import pytest

from dalembert.native import FrontalFactorization, Places, Summand, Windowed, symbolic_plan

SIZE, BLOCKS = 3, 14
WORDS = (0, 1, 2, 3, 4, 5, 8)  # a block, the next, and the last component of the one after that
ENTRIES = tuple((r, c) for r in range(len(WORDS)) for c in range(len(WORDS)) if r <= c)
PAIRS = tuple((WORDS[r], WORDS[c]) for r, c in ENTRIES)


def second(z, scale, shared):
    """A symmetric matrix that depends on all that a window reads."""
    a = np.arange(49.0).reshape(7, 7) % 5
    k = (a + a.T) * shared[0] + scale[0] * (z[:, None] * z[None, :]) + np.diag([3.0, -2.0, 0.5, 3.0, -2.0, 0.5, 1.0])
    return k[tuple(zip(*ENTRIES, strict=True))]


def dense(z, scales, shared, diagonal, free):
    found = np.zeros((BLOCKS * SIZE, BLOCKS * SIZE))
    for i, scale in enumerate(scales):
        values = second(z.ravel()[i * SIZE + np.array(WORDS)], scale, shared)
        for (r, c), value in zip(PAIRS, values, strict=True):
            found[i * SIZE + r, i * SIZE + c] += value
            found[i * SIZE + c, i * SIZE + r] += value * (r != c)
    flat = free.ravel()
    return found * flat[:, None] * flat[None, :] + np.diag(diagonal.ravel())


@pytest.fixture(scope="module", params=[((0,), (1,), (2,)), ((1,), (0, 2))])
def made(request):
    windowed = Windowed(second, (Places(WORDS, SIZE),), ((1,),), ((1,),))
    plan = symbolic_plan(PAIRS, SIZE, request.param, (2,))
    assert plan.differences == (2,)
    return FrontalFactorization([Summand(windowed, PAIRS)], plan)


@pytest.mark.parametrize("held", [(), (2,), (5, 6, 17, 20, 22, 41)])
def test_solutions_and_signs_are_those_of_the_dense_matrix(made, held):
    """Some components are fixed: differences alone, two of them one after the other, beside others, in the last block."""
    random = np.random.default_rng(0)
    z, right = random.standard_normal((2, BLOCKS, SIZE))
    free = np.ones((BLOCKS, SIZE))
    free.ravel()[list(held)] = 0.0
    diagonal = np.where(free == 0, 1.0, 0.1 * random.standard_normal((BLOCKS, SIZE)))
    scales, shared = random.standard_normal((BLOCKS - 2, 1)), np.array([0.3])
    bound = made.bind(free, [np.array([0, BLOCKS - 2])], [scales], shared)
    record, x = bound.factor(z, diagonal, right)  # what stands in fixed components of the right-hand side is ignored
    k = dense(z, scales, shared, diagonal, free)
    expected = np.linalg.solve(k, (right * free).ravel())
    assert np.abs(x.ravel() - expected).max() < 1e-10 * np.abs(expected).max()
    assert np.all(x[free == 0] == 0.0)
    again = bound.solve(record, 2.0 * right)
    assert np.abs(again.ravel() - 2.0 * expected).max() < 1e-10 * np.abs(expected).max()
    assert bound.negative(record) == np.count_nonzero(np.linalg.eigvalsh(k) < 0)


def test_only_two_successive_blocks_become_a_difference():
    """Of one block there is none; of three it would be a second one, which is left as it is."""
    assert symbolic_plan(((0, 1), (1, 3)), 2, ((0,), (1,)), (1,)).differences == ()
    three = tuple((r, c) for r in range(7) for c in range(r, 7) if c % 2 == 0 or r == 0)
    assert symbolic_plan(three, 2, ((0,), (1,)), (0,)).differences == ()
