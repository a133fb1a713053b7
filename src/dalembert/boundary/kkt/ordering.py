"""The order of the components of a block in which the matrix has the narrowest band."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from dalembert.boundary.kkt.assembly import Pattern, Term

ORDERS = 5040  # of groups of components that are tried


def narrow_order(terms: tuple[Term, ...], patterns: tuple[Pattern, ...], size: int) -> tuple[np.ndarray, int]:
    """(position of every component in its block, half the band width): the best order of groups that belong together.

    Components that are used alike, such as the entries of q, keep their order; there are few groups, so that all orders are
    tried.
    """
    pairs = set()
    for term, pattern in zip(terms, patterns, strict=True):
        for r, c in zip(*pattern, strict=True):
            pairs.add((term.offsets[c] - term.offsets[r], term.components[r], term.components[c]))
    return _narrow(frozenset(pairs), size)


@functools.lru_cache(maxsize=256)
def _narrow(pairs: frozenset, size: int) -> tuple[np.ndarray, int]:
    apart = np.array(sorted(pairs)).reshape(-1, 3)
    signature = [tuple(sorted((o, a == b) for o, a, b in pairs if a == component)) for component in range(size)]
    groups = [[c for c, _ in group] for _, group in itertools.groupby(enumerate(signature), key=lambda e: e[1])]
    best, position = size * (1 + int(np.max(np.abs(apart[:, 0]), initial=0))), np.arange(size)
    for choice in itertools.islice(itertools.permutations(groups), ORDERS):
        trial = np.argsort(np.concatenate(choice))
        lower = int(np.max(np.abs(apart[:, 0] * size + trial[apart[:, 2]] - trial[apart[:, 1]]), initial=0))
        if lower < best:
            best, position = lower, trial
    return position, best
