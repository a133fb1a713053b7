"""Matchings and cycles of a Jacobian's structure against SciPy's graphs."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from dalembert.native import cycles, matching


def test_augmenting_paths_may_be_long():
    """A chain of a thousand links, each coordinate beside its multiplier: paths go through all of them."""
    chain, links = np.eye(1000, dtype=bool), np.eye(1000, dtype=bool) | np.eye(1000, k=1, dtype=bool)
    pattern = np.block([[chain, links.T], [links, np.zeros_like(chain)]])
    found = matching(pattern)
    assert found is not None
    assert sorted(found) == list(range(2000))
    assert np.all(pattern[found, np.arange(2000)])


def test_matchings_and_cycles_of_random_structures():
    random, singular = np.random.default_rng(0), 0
    for n in random.integers(1, 14, 400):
        pattern = random.random((n, n)) < random.choice([0.15, 0.3, 0.5])
        found = matching(pattern)
        singular += found is None
        assert (found is None) == bool(np.any(maximum_bipartite_matching(csr_array(pattern), perm_type="row") < 0))
        assert found is None or (sorted(found) == list(range(n)) and all(pattern[found, range(n)]))
        (count, block), (number, wanted) = cycles(pattern), connected_components(csr_array(pattern), connection="strong")
        assert count == number
        assert np.array_equal(block[:, None] == block, wanted[:, None] == wanted)
    assert 100 < singular < 300
