"""A moving end: the cubic of the closed form, at the time that SciPy finds to be the cheapest, and what its ψ costs."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import dalembert as da
from dalembert.gallery import rendezvous

entry = rendezvous.entry


def test_the_rendezvous_is_where_meeting_costs_least(tmp_path):
    """With T given the multipliers of ψ are the gradient of 12|x|²/T³ - 12 x·w/T² + 4|w|²/T by the state (x, w)."""
    best = minimize_scalar(
        lambda T: float(rendezvous.cost_of(T)), bounds=(2.0, 6.0), method="bounded", options={"xatol": 1e-12}
    )
    assert entry.cost == pytest.approx(best.fun, abs=1e-10)
    T, (x, w) = best.x, (np.asarray(part) for part in rendezvous.target(best.x))
    slopes = np.concatenate([24.0 * x / T**3 - 12.0 * w / T**2, 8.0 * w / T - 12.0 * x / T**2])
    errors = []
    for steps in (20, 40):
        found = da.solve(entry.problem, **entry.boundary, steps=steps)
        assert found.kind == "minimum"
        nu = found.end_multipliers_final
        off = found.q - entry.exact(found.t), found.t[-1] - T, found.cost - best.fun, nu - slopes
        errors.append([np.abs(part).max() for part in off])
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 2.0, rtol=0, atol=0.02)
    np.testing.assert_allclose(found.costates_final.ravel(), nu, rtol=0, atol=1e-9)
    da.save(found, tmp_path / "found.nc")
    again = da.load(tmp_path / "found.nc")
    np.testing.assert_array_equal(again.end_multipliers_final, nu)
    assert again.end_multipliers_initial is None
