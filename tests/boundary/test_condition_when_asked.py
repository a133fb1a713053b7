"""The condition number of a solution is found when it is asked for, once, and is that of its own equations."""

import gc
import pickle
import weakref

import jax
import numpy as np
import pytest

import dalembert as da
from dalembert.boundary import LinearSolver
from dalembert.boundary.result import MOST_UNASKED

BEAM = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
MOVE = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)
ENDS = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "T": 1.0}


@pytest.fixture
def asked(monkeypatch):
    """The conditions that were found, in this order."""
    found, condition = [], LinearSolver.condition

    def count(self, *arguments):
        found.append(condition(self, *arguments))
        return found[-1]

    monkeypatch.setattr(LinearSolver, "condition", count)
    return found


@pytest.mark.parametrize("problem", [BEAM, MOVE])
def test_it_is_found_once_when_it_is_asked_for(asked, problem):
    solution = da.solve(problem, **ENDS, steps=10)
    assert (solution.kind, int(solution.statistics.iterations) > 0, asked) == ("minimum", True, [])
    da.solve(problem, **ENDS, steps=20)  # another problem in between
    assert float(solution.statistics.condition) == float(solution.statistics.condition) == asked[0]
    assert len(asked) == 1
    assert 1.0 < asked[0] < 1e8


@pytest.mark.parametrize("read", [pickle.dumps, jax.tree.leaves, lambda s: s.describe()])
def test_whatever_reads_all_fields_finds_it(asked, read):
    read(da.solve(MOVE, **ENDS, steps=10))
    assert len(asked) == 1


def test_a_copy_has_the_same(asked):
    solution = pickle.loads(pickle.dumps(da.solve(MOVE, **ENDS, steps=10)))
    assert float(solution.statistics.condition) == asked[0]


def test_solutions_that_are_kept_do_not_hold_the_equations_of_all(asked):
    kept = [da.solve(MOVE, **ENDS, steps=10 + k) for k in range(MOST_UNASKED + 3)]
    assert len(asked) == 3
    found = [float(s.statistics.condition) for s in kept]
    assert found[:3] == asked[:3]
    assert len(asked) == len(kept)
    assert np.all(np.diff(found) > 0.0)


def test_it_holds_no_path(asked):
    solution = da.solve(MOVE, **ENDS, steps=10)
    seen = weakref.ref(solution)
    del solution
    gc.collect()
    assert seen() is None
    assert asked == []
