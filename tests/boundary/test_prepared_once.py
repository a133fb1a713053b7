"""A problem that is solved again is not prepared again, unless something that it reads has changed."""

import numpy as np
import pytest

import dalembert as da
from dalembert.boundary import KKTSystem, kinds

STIFFNESS = {"k": 1.0}


def lagrangian(q, v, p):
    return 0.5 * v @ v + 0.5 * STIFFNESS["k"] * p["c"] * q @ q


def effort(q, v, u, p):
    return u @ u + STIFFNESS["k"] * q @ q


STRING = da.VariationalProblem(lagrangian, parameters={"c": np.array(1.0)})
MOVE = da.OptimalControl(da.System(lagrangian, parameters={"c": np.array(1.0)}), cost=effort, actuated=0)
CASES = {"variational": (STRING, 1), "control": (MOVE, 2)}


@pytest.fixture
def systems(monkeypatch):
    """The KKT systems that are made."""
    made, real = [], KKTSystem.__init__
    monkeypatch.setattr(KKTSystem, "__init__", lambda self, *x, **y: (made.append(self), real(self, *x, **y))[1])
    kinds._READY.clear()
    return made


def ends(levels, final=1.0):
    return {
        "initial": ([0.0], [0.0])[:levels], "final": (np.array([final]), [0.0])[:levels], "T": 1.0, "steps": 20,
    }  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_same_call_is_prepared_once_and_solved_alike(name, systems):
    problem, levels = CASES[name]
    first, again = (da.solve(problem, **ends(levels)) for _ in range(2))
    assert len(systems) == 1
    assert np.array_equal(first.q, again.q)
    assert first.describe() == again.describe()


@pytest.mark.parametrize("name", CASES)
def test_what_a_solution_holds_is_its_own(name, systems):
    problem, levels = CASES[name]
    first = da.solve(problem, **ends(levels), bounds={"q": (-1.0, 2.0)})
    kept = first.t.copy()
    for array in (first.t, first.q, first.bounds["q"].lower, first.bounds["q"].t):
        array[:] = 7.0
    again = da.solve(problem, **ends(levels), bounds={"q": (-1.0, 2.0)})
    assert np.array_equal(again.t, kept)
    assert np.all(again.bounds["q"].lower == -1.0)
    assert len(systems) == 1


@pytest.mark.parametrize("name", CASES)
def test_what_functions_read_may_change(name, systems, monkeypatch):
    problem, levels = CASES[name]
    before = da.solve(problem, **ends(levels))
    monkeypatch.setitem(STIFFNESS, "k", 30.0)
    after = da.solve(problem, **ends(levels))
    assert abs(after.q[10, 0] - before.q[10, 0]) > 1e-3
    monkeypatch.setitem(STIFFNESS, "k", 1.0)
    assert np.array_equal(da.solve(problem, **ends(levels)).q, before.q)


@pytest.mark.parametrize("name", CASES)
def test_arrays_may_change_in_place(name, systems):
    """The caller's, once they were given: they are not those of what is kept."""
    problem, levels = CASES[name]
    given = ends(levels)
    before = da.solve(problem, **given)
    given["final"][0][:] = 2.0
    assert da.solve(problem, **given).q[-1, 0] == pytest.approx(2.0)
    assert np.array_equal(da.solve(problem, **ends(levels)).q, before.q)
    assert len(systems) == 2


def test_other_methods_tolerances_and_guesses_are_other_problems(systems):
    path = np.linspace(0.0, 1.0, 21)[:, None] ** 2
    for given in (
        {},
        {"solver": da.Solver(tolerance=1e-6)},
        {"guess": path},
        {"guess": path + 0.1 * path * (1 - path)},
        {"seek": "extremal"},
    ):
        da.solve(STRING, **ends(1), **given)
    assert len(systems) == 5


def test_many_steps_are_not_kept(systems, monkeypatch):
    monkeypatch.setattr(kinds, "MOST_KEPT", 10)
    da.solve(MOVE, **ends(2))
    da.solve(MOVE, **ends(2))
    assert len(systems) == 2


def test_sets_at_ends_are_read_anew(systems):
    """A set is a function, and what it reads may change as well."""
    line = {"at": 1.0}
    on = da.On(lambda q, p: q[0] - line["at"])
    ends = [da.solve(STRING, initial=([0.0],), final=on, T=1.0, steps=10).q[-1, 0] for line["at"] in (1.0, 2.0, 1.0)]
    np.testing.assert_allclose(ends, [1.0, 2.0, 1.0], rtol=1e-12)
