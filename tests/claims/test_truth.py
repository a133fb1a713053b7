"""The committed truth table is what the library finds, and its page is made of it."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def truth():
    return importlib.import_module("benchmarks.truth")


@pytest.fixture(scope="module")
def committed():
    return json.loads((ROOT / "docs" / "truth.json").read_text())


def test_every_system_and_every_scheme_stands_in_it(truth, committed):
    assert list(committed) == truth.ROWS
    assert all(list(row) == list(truth.columns_of(name)) for name, row in committed.items())
    assert (ROOT / "docs" / "truth.md").read_text() == truth.page(committed)


@pytest.mark.parametrize(("name", "scheme"), [
    ("pendulum", "default"), ("heisenberg", "order 4"), ("minimum_jerk", "Averaged()"), ("pendulum, discrete", "on nodes"),
    ("elastica, between its ends", "Hermite()"),
])  # fmt: skip
def test_a_part_of_it_is_found_again(truth, committed, name, scheme):
    found, kept = truth.verdict_of(name, scheme), committed[name][scheme]
    assert [(c["claim"], c["finding"]) for c in found["claims"]] == [(c["claim"], c["finding"]) for c in kept["claims"]]
