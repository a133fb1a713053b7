"""ν of an end on a set: the costates are Dψᵀν, and what another level of ψ costs."""

import numpy as np
import pytest

import dalembert as da

MASS = da.OptimalControl(
    da.System(lambda q, v, p: 0.5 * v @ v, parameters={"c": 1.0}), cost=lambda q, v, u, p: u @ u, actuated=0
)


def test_multipliers_of_an_end_on_a_set(tmp_path):
    """To the circle q² + v² = c of the phase plane, and from it: by differences of the cost, and as costates."""
    circle = da.On(lambda q, v, p: q @ q + v @ v - p["c"])
    start = ([0.0], [0.0])
    for name, ends in (
        ("final", {"initial": start, "final": circle}),
        ("initial", {"initial": circle, "final": ([3.0], [0.0])}),
    ):
        found, ahead, behind = (
            da.solve(MASS.replace(c=c), **ends, T=1.0, steps=20, tolerance=1e-11) for c in (1.0, 1.001, 0.999)
        )
        nu, node = getattr(found, f"end_multipliers_{name}"), -1 if name == "final" else 0
        assert nu.shape == (1,)
        assert nu[0] == pytest.approx((ahead.cost - behind.cost) / 0.002, rel=1e-5)
        slope = 2.0 * np.array([found.q[node], found.v[node]])
        np.testing.assert_allclose(getattr(found, f"costates_{name}"), slope * nu, atol=1e-8)
    assert found.end_multipliers_final is None
    da.save(found, tmp_path / "found.nc")
    again = da.load(tmp_path / "found.nc")
    np.testing.assert_array_equal(again.end_multipliers_initial, found.end_multipliers_initial)
    assert again.end_multipliers_final is None
