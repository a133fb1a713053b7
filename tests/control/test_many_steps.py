"""Ten thousand steps: factors as accurate as banded LU, no iteration by other means, nothing left of smaller problems."""

import numpy as np
import pytest

import dalembert as da
from dalembert.boundary import Asked, Request, Termination, TimeGrid, settings
from dalembert.boundary.interior import rules
from dalembert.boundary.kkt import linear
from dalembert.control import control_search
from dalembert.gallery import PROBLEMS

MANY = 10_000


def ready(steps, force=None):
    entry = PROBLEMS["cart_pole"]
    ends, bounds = (
        Request(entry.boundary["initial"], entry.boundary["final"]),
        None if force is None else {"u": (-force, force)},
    )
    given = TimeGrid(2.0, steps, None), None, None, settings(da.Solver(tolerance=1e-8)), False, bounds
    return control_search(entry.problem, Asked(ends, *given))


@pytest.fixture(scope="module")
def many():
    ready(30, 12.0)  # a small problem of the same kind, first
    return ready(MANY, 12.0)


def test_first_solutions_are_accurate(many):
    """Multipliers λ_i, λ_{i+1} have entries of N² in the frontal matrix; as such they left 7e-7 of the first solution."""
    kkt, z = many.kkt, many.start.z
    factors = linear.LinearSolver(kkt, z).factor(z)
    assert isinstance(factors, linear.FrontalFactors)
    right = -kkt.evaluate(z).gradient
    found = factors.linear.frontal.factor(z, factors.diagonal, right)[1]
    exact = found.copy()
    banded = linear.BandedFactors(factors.linear, factors.matrix())
    for _ in range(2):
        exact += banded.solve(right - factors.product(exact))
    assert kkt.max_norm(found - exact) < 1e-9 * kkt.max_norm(exact)


def test_iterations_stay_those_of_machine_code(many):
    """24, as 23 with 1000 steps; two were left to banded LU before."""
    it, _ = many.search(many.start.z, many.sizes, None)
    assert it.end is Termination.CONVERGED
    assert it.linear.refusals == 0
    assert it.iterations <= 26
    assert abs(it.at.objective - 59.191476639082) < 1e-5  # spec 6.4, number 12; the error of order 2 is 6.3e-6


def test_a_nudge_belongs_to_the_number_of_steps(many):
    """Sizes of entries change with N², so that those of the problem that was solved first are of no use."""
    after = linear.LinearSolver(many.kkt, many.start.z).nudge
    linear._PIVOTS.clear()
    alone = linear.LinearSolver(many.kkt, many.start.z).nudge
    np.testing.assert_array_equal(after, alone)


def test_a_matrix_that_frontal_factors_refuse_is_not_taken_for_that_of_a_minimum():
    """The first one of the knife edge has pivots of wrong signs and solutions without digits: the curvature along a step of
    banded LU called it sound, and 108 iterations followed instead of 9."""
    entry = PROBLEMS["knife_edge"]
    guess = entry.guess(np.linspace(0.0, entry.boundary["T"], MANY + 1))
    found = da.solve(entry.problem, **entry.boundary, steps=MANY, guess=guess, certify=False)
    assert found.statistics.iterations <= 12
    assert found.cost == pytest.approx(8.722405864301, rel=1e-7)  # spec 6.4, number 21


def test_rounding_does_not_make_a_minimum_degenerate():
    """Corrections of random solutions end at 1e-3 of the first: they need not be halved for ever to prove the pivots."""
    entry = PROBLEMS["vertical_take_off"]
    assert da.solve(entry.problem, **entry.boundary, steps=2000).kind == "minimum"


def test_a_barrier_falls_where_only_rounding_is_left_of_the_equations():
    """At 10⁵ steps they are violated by 6e-7 in all: a μ of 2.7e-8 was never solved, and the outcome NOT_CONVERGED."""
    errors = rules.BarrierErrors(1e-3, 6e-7, 2e-14)
    still, moving = rules.LastStep(1e-10, 0.0, 1.0), rules.LastStep(1e-8, 0.0, 1.0)
    assert not rules.exceeds_barrier(2.7e-8, errors, still, 1e-9, xp=np)
    assert rules.exceeds_barrier(2.7e-8, errors, moving, 1e-9, xp=np)
