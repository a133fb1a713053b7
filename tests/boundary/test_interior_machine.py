"""Interior steps in machine code against the portable iteration, and the rules by which both judge."""

import inspect
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.boundary.interior import rules
from dalembert.boundary.interior.iteration import InteriorPoint
from dalembert.boundary.interior.machine import InteriorMachine
from dalembert.gallery import PROBLEMS
from dalembert.native import compile_function

ENTRY = PROBLEMS["cart_pole"]
S = np.linspace(0.0, 1.0, 41)
WAVES = np.stack([S + 0.8 * np.sin(9.0 * S) * (1.0 - S) * S, np.pi * S + 4.0 * np.sin(7.0 * S) * (1.0 - S) * S], axis=1)
CASES = {
    "bounded force": {"bounds": {"u": (-12.0, 12.0)}},
    "slacks that stop steps": {"bounds": {"q": {"x": (None, 1.01)}}},
    "a poor guess": {"bounds": {"u": (-15.0, 15.0)}, "guess": WAVES},
    "not enough iterations": {"bounds": {"u": (-12.0, 12.0)}, "solver": da.Solver(max_iterations=5)},
    "no bounds": {"steps": 100},
}


def solved(name) -> Any:
    given = {**ENTRY.boundary, "steps": 40, **CASES[name]}
    return da.solve(ENTRY.problem, **given, throw=False, certify=False)


@pytest.mark.parametrize("name", CASES)
def test_machine_code_takes_the_steps_of_the_iteration(name, monkeypatch):
    """The same number of iterations and factorizations to the same end, and Python is left what is rare alone."""
    left, portable = [], InteriorPoint._iterate

    def counted(self, path):
        left.append(path.newton.iterations)
        return portable(self, path)

    monkeypatch.setattr(InteriorPoint, "_iterate", counted)
    one = solved(name)
    by_hand = len(left)
    monkeypatch.setattr(InteriorMachine, "run", lambda *_: False)
    other = solved(name)
    iterations = int(one.statistics.iterations)
    assert one.outcome is other.outcome
    assert (one.outcome is da.Outcome.SUCCESS) == (name != "not enough iterations")
    assert iterations == int(other.statistics.iterations)
    assert int(one.statistics.factorizations) == int(other.statistics.factorizations)
    assert int(one.statistics.restorations) == int(other.statistics.restorations)
    assert (by_hand > 0) == (name in ("a poor guess", "slacks that stop steps"))  # restoration; whole steps against a filter
    assert by_hand <= 0.2 * iterations
    assert len(left) > by_hand + 4
    assert np.max(np.abs(one.q - other.q)) < 1e-9
    assert np.max(np.abs(one.u - other.u)) < 1e-7
    assert abs(float(one.cost) - float(other.cost)) < 1e-10 * float(other.cost)
    for bound, found in one.bounds.items():
        assert np.max(np.abs(found.multipliers - other.bounds[bound].multipliers)) < 1e-6


GROUPS = {"at": rules.Standing, "new": rules.Standing, "reached": rules.Standing, "errors": rules.BarrierErrors,
          "last": rules.LastStep}  # fmt: skip
NUMBERS = [-2.0, -1e-9, 0.0, 1e-15, 1e-9, 1e-3, 0.7, 1.0, 5.0, 1e7, np.inf]


def test_machine_code_and_python_judge_alike():
    """Every rule at random numbers of all sizes."""
    named = {
        name: rule for name, rule in vars(rules).items() if inspect.isfunction(rule) and rule.__module__ == rules.__name__
    }
    wanted = {name: [p for p in inspect.signature(r).parameters if p != "xp"] for name, r in named.items()}

    def given(name, x):
        groups = [GROUPS.get(p) for p in wanted[name]]
        return [g(*x[3 * i : 3 * i + len(g._fields)]) if g else x[3 * i] for i, g in enumerate(groups)]

    def all_of_them(x):
        return tuple(1.0 * rule(*given(name, x)) for name, rule in named.items())

    width = 3 * max(map(len, wanted.values()))
    compiled, random, seen = compile_function(all_of_them, np.zeros(width)), np.random.default_rng(0), {}
    for _ in range(1000):
        x = random.choice(NUMBERS, width) * np.exp(0.1 * random.standard_normal(width))
        with np.errstate(all="ignore"):
            for (name, rule), found in zip(named.items(), compiled(x), strict=True):
                numpy = {"xp": np} if "xp" in inspect.signature(rule).parameters else {}
                value = 1.0 * rule(*given(name, x), **numpy)
                assert float(found) == pytest.approx(float(value), rel=1e-13, nan_ok=True), name
                seen.setdefault(name, set()).add(float(found))
    assert all(len(values) > 1 for values in seen.values())
