"""Singular arcs, where the motion alone tells the control; costs that determine none are named."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

MASS = da.System(lambda q, v: 0.5 * v @ v)
SETTLE = da.OptimalControl(MASS, cost=lambda q, v, u: q @ q + v @ v, actuated=0)
ENDS = {"initial": ([1.0], [0.0]), "final": ([0.2], [-0.2]), "T": 2.5, "steps": 50}


def test_a_singular_arc_is_reported_where_it_is():
    """u = -1, an arc, u = -1: on it ∂H/∂u = 0, whose second derivative tells u = q; the switches are its ends."""
    found = da.solve(SETTLE, **ENDS, bounds={"u": (-1.0, 1.0)})
    (arcs,) = da.singular_arcs(SETTLE, found)
    begin, end = arcs[-1]
    inside = (found.t > begin + 0.1) & (found.t < end - 0.1)
    assert inside.sum() > 25
    np.testing.assert_allclose(found.u[inside], found.q[inside], atol=1e-6)
    np.testing.assert_allclose([begin, end], found.switches("u")[0][[0, -1]], atol=0.06)
    assert (np.abs(found.u[found.t < begin - 0.06] + 1.0) < 1e-5).all()


def test_a_cost_with_curvature_has_no_singular_arc():
    """Of two controls only the one without a cost has an arc, and a bound in force is none."""
    plane = da.System(lambda q, v: 0.5 * v @ v)
    problem = da.OptimalControl(plane, cost=lambda q, v, u: q @ q + u[0] ** 2, actuated=(0, 1))
    q, u = np.zeros((5, 2)), np.array([[0.0, 1.0], [0.0, 0.5], [0.0, 0.0], [0.0, 0.5], [0.0, -1.0]])
    still = da.solve(
        problem, initial=([0.0, 0.0],) * 2, final=([0.0, 0.0],) * 2, T=1.0, steps=4, guess=(q, u), bounds={"u": (-1.0, 1.0)}
    )
    first, second = da.singular_arcs(problem, still)
    assert not len(first)
    np.testing.assert_allclose(second, [[0.0, 1.0]])


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
        da.singular_arcs(**{"problem": SETTLE, "solution": None, **given})
