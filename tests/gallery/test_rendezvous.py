"""A moving end: the cubic of the closed form, at the time that SciPy finds to be the cheapest."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import dalembert as da
from dalembert.gallery.rendezvous import cost_of, entry


def test_the_rendezvous_is_where_meeting_costs_least():
    best = minimize_scalar(lambda T: float(cost_of(T)), bounds=(2.0, 6.0), method="bounded", options={"xatol": 1e-12})
    assert entry.cost == pytest.approx(best.fun, abs=1e-10)
    errors = []
    for steps in (20, 40):
        found = da.solve(entry.problem, **entry.boundary, steps=steps)
        assert found.kind == "minimum"
        errors.append([np.abs(found.q - entry.exact(found.t)).max(), found.t[-1] - best.x, found.cost - best.fun])
    np.testing.assert_allclose(np.log2(np.divide(*errors)), 2.0, atol=0.02)
