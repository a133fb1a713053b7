"""Limits of sums that the page prints."""

from pathlib import Path

import numpy as np

from papers.colombo_martin_de_diego_zuccalli import sphere

PAGE = (Path(__file__).parents[2] / "docs/papers/colombo-martin-de-diego-zuccalli.md").read_text(encoding="utf-8")


def test_energies_of_the_spline_tend_to_the_limits():
    """Of first order; extrapolated twice from N = 40, 80, 160 they are within a thousandth."""
    limits = 2290.9, 973.1
    sums = np.array([sphere.integrals(np.asarray(s.q)) for s in sphere.splines(sphere.ambient, (40, 80, 160))])
    once = 2 * sums[1:] - sums[:-1]
    np.testing.assert_allclose((4 * once[1] - once[0]) / 3, limits, rtol=1e-3)
    assert np.all(sums[-1] > 1.02 * np.array(limits))
    assert all(f"{x}" in PAGE for x in limits)
