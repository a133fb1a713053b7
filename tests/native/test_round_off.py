"""Round-off of a long run of the curvature particle, against the closed form of its discrete solution."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import curvature_particle

entry = curvature_particle.entry

STEPS = 100_000
WALK = np.sqrt(STEPS) * 2.0**-53  # 3.5e-14: of as many roundings of a number of size one, one of which nothing is kept
STARTS = [([0.0, 0.0], [1.0, 1.0]), ([0.3, -0.7], [-0.4, 0.81]), ([0.1, 0.2], [0.63, -0.21]), ([-1.0, 0.4], [-0.92, -1.1])]


def complex_number(x: list[Decimal]) -> complex:
    return complex(float(x[0]), float(x[1]))


def test_the_closed_form_is_that_of_the_scheme():
    path = da.simulate(entry.system, [0.3, -0.7], [-0.4, 0.81], h=0.1, steps=7, solver=da.Solver(backend="native"))
    q, v = curvature_particle.polygon(7, [0.3, -0.7], [-0.4, 0.81], 0.1)
    np.testing.assert_allclose(path.q[-1], np.array(q, float), rtol=0, atol=1e-15)
    np.testing.assert_allclose(path.v[-1], np.array(v, float), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("q0", "v0"), STARTS)
def test_round_off_of_a_hundred_thousand_steps(q0, v0):
    """What is lost in storing a velocity is kept for the next step: without it L_d moves by 3·10⁻¹⁴, with it by 3·10⁻¹⁵."""
    path = da.simulate(
        entry.system, q0, v0, h=entry.h, steps=STEPS, save=da.Save(every=None), solver=da.Solver(backend="native")
    )
    q, v = curvature_particle.polygon(STEPS, q0, v0, entry.h)
    square, before = (sum(Decimal(float(x)) ** 2 for x in w) for w in (path.v[-1], v0))
    assert abs(square / before - 1) < 0.5 * WALK
    error = complex(*path.q[-1]) - complex_number(q)
    direction = complex_number(v)
    assert abs((error * direction.conjugate()).imag / abs(direction)) < 0.5 * WALK  # across the circle
    assert abs(error) < 5e-11  # along it the phase adds up what the speed has lost
