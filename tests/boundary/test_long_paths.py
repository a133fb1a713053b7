"""Very many steps: Newton's iteration does not see the mesh, and the kind of an extremal is counted without its band."""

import numpy as np
import pytest

import dalembert as da
from dalembert.algebra import inertia
from dalembert.boundary.kkt import linear
from dalembert.gallery import PROBLEMS

SPLINE = PROBLEMS["sphere_spline"]


@pytest.fixture(scope="module")
def solutions():
    """Points inside are given, so that the pivots of their blocks need a nudge."""
    return {steps: da.solve(SPLINE.problem, **SPLINE.boundary, steps=steps, certify=True) for steps in (160, 10_000)}


def test_iterations_and_their_updates_do_not_depend_on_the_mesh(solutions):
    """The mesh independence principle (Allgower, Böhmer, Potra, Rheinboldt 1986). Solutions with nudged factors were not
    corrected where one had been accurate: at 10⁴ steps it took an iteration more, and at 10⁵ it did not converge."""
    coarse, fine = (solutions[n].statistics for n in (160, 10_000))
    assert fine.iterations == coarse.iterations
    assert 0.9 < fine.update / coarse.update < 1.1
    assert fine.residual < 1e-8
    q = solutions[10_000].q[:: 10_000 // 16]
    np.testing.assert_allclose(solutions[160].q[::10], q, rtol=0, atol=1e-4)  # of the discretization, h² of 160 steps


def test_the_kind_is_counted_by_the_pivots_of_nudged_factors(solutions, monkeypatch):
    """As by LAPACK's factorization of the blocks of the whole band, which took minutes at 10⁴ steps with busy processors."""
    assert all((s.negative_directions, s.flat_directions) == (0, 0) for s in solutions.values())
    counted, found = [], []
    original = linear.LinearSolver.negative

    def negative(self, z, added=None):
        found.append(original(self, z, added))
        counted.append(inertia(self.kkt.matrix(z), self.kkt.lower, linear.FLAT).negative)
        return found[-1]

    monkeypatch.setattr(linear.LinearSolver, "negative", negative)
    da.solve(SPLINE.problem, **SPLINE.boundary, steps=160, certify=True)
    assert found == counted
    assert None not in found


@pytest.mark.parametrize("initial", [None, ([0.0],)])
def test_flat_directions_of_long_paths_are_seen(initial):
    """∫v² between free ends is 0 on every constant path, and ∫a² with a given first position on every line through it.
    Corrections of solutions cannot see what the matrix maps to nothing: 200 steps were called a minimum."""
    order = 1 if initial is None else 2
    flat = da.VariationalProblem(lambda *jet: 0.5 * jet[-1] @ jet[-1], derivatives=order, coordinates=["x"])
    found = da.solve(flat, initial=initial, T=1.0, steps=200)
    assert found.kind == "degenerate"
