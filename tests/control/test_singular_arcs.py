"""Singular arcs, where the motion alone tells the control; costs that determine none are named."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.control.result import flat_controls

MASS = da.System(lambda q, v: 0.5 * v @ v)
SETTLE = da.OptimalControl(MASS, cost=lambda q, v, u: q @ q + v @ v, actuated=0)
ENDS = {"initial": ([1.0], [0.0]), "final": ([0.2], [-0.2]), "T": 2.5, "steps": 50}


def test_a_singular_arc_is_reported_where_it_is():
    """u = -1, an arc, u = -1: on it ∂H/∂u = 0, whose second derivative tells u = q; the switches are its ends."""
    found = da.solve(SETTLE, **ENDS, bounds={"u": (-1.0, 1.0)})
    (arcs,) = da.control.singular_arcs(SETTLE, found)
    begin, end = arcs[-1]
    inside = (found.t > begin + 0.1) & (found.t < end - 0.1)
    assert inside.sum() > 25
    np.testing.assert_allclose(found.u[inside], found.q[inside], rtol=0, atol=1e-6)
    np.testing.assert_allclose([begin, end], found.switches("u")[0][[0, -1]], rtol=0, atol=0.06)
    assert (np.abs(found.u[found.t < begin - 0.06] + 1.0) < 1e-5).all()


def test_controls_without_curvature_are_told_apart():
    """A cost of u_0 alone, one of u_0 + u_1, whose difference is free, and one of all."""
    given = np.array([[[2.0, 0.0], [0.0, 0.0]], [[1e9, 1e9], [1e9, 1e9]], [[1.0, 0.5], [0.5, 1e-6]]])
    assert flat_controls(given).tolist() == [[False, True], [True, True], [False, False]]


@pytest.mark.parametrize("cost", [lambda q, v, u: jnp.abs(u[0]), lambda q, v, u: q @ q + u[0]])
def test_costs_without_curvature_need_bounds(cost):
    """|u| has a corner, and a linear cost has no least value: neither determines a control without bounds."""
    with pytest.raises(ValueError, match=r"cost: is singular: .* along u\[0\], .* bounds on both sides"):
        da.solve(da.OptimalControl(MASS, cost=cost, actuated=0), **ENDS)


def test_bounds_that_exclude_an_end_are_named():
    with pytest.raises(ValueError, match=r"bounds"):
        da.solve(SETTLE, **ENDS, bounds={"u": (-1.0, 1.0), "q": (None, 0.5)})


@pytest.mark.parametrize("given", [{"problem": 3.0}, {"solution": 3.0}])
def test_what_is_no_problem_or_no_solution_is_named(given):
    with pytest.raises(TypeError, match=next(iter(given))):
        da.control.singular_arcs(**{"problem": SETTLE, "solution": None, **given})
