"""Every result says in words what it is, and as a table in a notebook."""

import importlib
import inspect

import numpy as np
import pytest

import dalembert as da
from dalembert.notebook import Described, described_by_fields

# What users construct, base classes, parts of a scheme and words; formulas say more than fields of SymbolicEquations.
NO_RESULTS = [
    "Constraint",
    "SymbolicEquations",
    "Averaged",
    "Central",
    "Hermite",
    "Interpolated",
    "PairMap",
    "Points",
    "TripleMap",
    "WindowMap",
    "Windows",
    "Branch",
    "Outputs",
    "PreparedRun",
    "StepProgram",
    "Lobatto",
    "Finding",
    "Animation",
    "Condition",
    "FinalTime",
    "System",
    "VariationalProblem",
    "DiscreteSystem",
    "OptimalControl",
    "Outcome",
    "Group",
    "SE2",
    "SE3",
    "SO2",
    "SO3",
    "Pose",
]


def results():
    for room in da.ROOMS:
        module = importlib.import_module(f"dalembert.{room}")
        for name in getattr(module, "__all__", ()):
            cls = getattr(module, name)
            plain = isinstance(cls, type) and not issubclass(cls, BaseException) and name not in NO_RESULTS
            if plain and "Args:" not in (inspect.getdoc(cls) or ""):
                yield pytest.param(cls, id=f"{room}.{name}")


@pytest.mark.parametrize("cls", list(results()))
def test_a_result_has_words_and_a_table(cls):
    assert callable(cls.describe)
    assert callable(cls._repr_html_)


def test_fields_in_words():
    system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    path = da.simulate(system, [1.0], [0.0], h=0.1, steps=20)
    lines = path.statistics.describe().splitlines()
    assert lines[0] == f"iterations: {int(path.statistics.iterations)}"
    found = da.measure.legendre(system, [0.0], [0.1], h=0.1)
    assert found.describe().startswith(f"minus: {float(found.minus[0]):.6g}")
    assert "<strong>LegendreMaps</strong>" in found._repr_html_()
    reference = da.reference(system, [1.0], [0.0], t=np.linspace(0.0, 1.0, 11))
    assert "q: 11 × 1 numbers from 0.540302 to 1" in reference.describe()


def test_a_class_with_words_of_its_own_keeps_them():
    class Told(Described):
        def __str__(self):
            return "so it is"

    assert Told().describe() == "so it is"


def test_a_named_tuple_stays_one():
    found = da.project(da.System(lambda q, v: 0.5 * v @ v), [1.0], [0.0])
    assert isinstance(found, tuple)
    assert described_by_fields(type(found)) is type(found)
