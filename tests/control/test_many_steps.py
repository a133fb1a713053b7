"""Ten thousand steps: factors as accurate as banded LU, no iteration by other means, nothing left of smaller problems."""

import numpy as np
import pytest

from dalembert.boundary.data.boundary_data import TimeGrid
from dalembert.boundary.kkt import linear
from dalembert.boundary.newton.iterate import Termination
from dalembert.boundary.prepare import Request
from dalembert.boundary.solve import Asked, settings
from dalembert.control.solve import control_search
from dalembert.gallery import PROBLEMS

MANY = 10_000


def ready(steps, force=None):
    entry = PROBLEMS["cart_pole"]
    ends, bounds = (
        Request(entry.boundary["initial"], entry.boundary["final"]),
        None if force is None else {"u": (-force, force)},
    )
    given = TimeGrid(2.0, steps, None), None, None, settings(1e-8, 200, "minimum"), False, bounds
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
