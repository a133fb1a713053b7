"""Jiménez, Scheurle: orders and pairs against closed forms, the deformed constraint, the drift of the energy, corrections.

The fast run is made once; what is measured afterwards uses the programs that it compiled.
"""

import re

import numpy as np
import pytest

from dalembert import measure
from papers import PAPERS
from papers.correction import numbers
from papers.jimenez_scheurle import checks, consistency, long_runs, orders
from papers.jimenez_scheurle.integrators import (
    COMPOSED,
    EXPLICIT,
    FOUR,
    IMPLICIT,
    LAST,
    ORIGINAL,
    PARTICLE,
    POTENTIAL,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    PAPERS["jimenez-scheurle"].run(folder, fast=True)
    return folder


def test_the_report_has_figures_tables_and_every_finding(written):
    assert {x.name for x in written.iterdir()} == {
        "orders.png", "constraint.png", "energy.png", "work.png", "perturbation.png", "table.csv", "report.md",
    }  # fmt: skip
    report = (written / "report.md").read_text(encoding="utf-8")
    assert not re.search(r"\bnan\b", report)
    assert "| (95, 96) | q̃_{k+1} = q̃_k + εv_{k+1} |" in report
    assert re.search(r"β = ½, implicit \(86\) \| 2 \| 1\.97", report), "of the perturbation"
    assert "global order: printed 1.00, corrected 2.00" in report
    assert len((written / "table.csv").read_text(encoding="utf-8").splitlines()) == 1 + len(FOUR) * 5 * 3


ORDERS = {  # q, v, λ at its own time, λ at the end of the step, λ(q, v)
    EXPLICIT: (1, 1, 1, 1, 1),
    IMPLICIT: (2, 2, 2, 1, 2),
    LAST: (1, 1, 1, 1, 1),
    ORIGINAL: (1, 1, 1, 1, 1),
    COMPOSED[0]: (4, 4, 4, 4, 4),
}


@pytest.mark.parametrize("method", ORDERS, ids=lambda method: method.name)
def test_global_orders(method, written):
    """Of the particle with potential, against its closed form."""
    found = orders.measured(POTENTIAL, method)
    assert [found.order(x) for x in orders.QUANTITIES] == pytest.approx(ORDERS[method], abs=0.06)


PAIRS = {EXPLICIT: (1, 0), IMPLICIT: (2, 0), LAST: (1, 0), ORIGINAL: (0, -1)}


@pytest.mark.parametrize("method", PAIRS, ids=lambda method: method.name)
def test_the_pair_of_definition_4_2(method, written):
    """(p, s) as printed from data on D, and (0, -1) at the original nodes."""
    found = consistency.pair(PARTICLE, method)
    assert (found.p, found.s) == pytest.approx(PAIRS[method], abs=0.06)
    assert found.ratio[-1] == pytest.approx(0.5 if method is ORIGINAL else 1.0, abs=0.006)


def test_the_pair_is_as_printed_from_data_on_the_deformed_constraint(written):
    found = consistency.pair(PARTICLE, ORIGINAL, deformed=True)
    assert (found.p, found.s) == pytest.approx((1, 0), abs=0.06)


def test_the_pair_as_measured_from_the_reduced_flow(written):
    """Another way to the exact solution: the reduced equation in coordinates on D, integrated numerically."""
    points = PARTICLE.points(consistency.POINTS)
    q, v = (np.array(x) for x in zip(*points, strict=True))
    other = measure.consistency(PARTICLE.system, q, v, h=consistency.STEPS, scheme=IMPLICIT.scheme)
    found = consistency.pair(PARTICLE, IMPLICIT)
    for name, error in (("q", other.q.error), ("v", other.v.error), ("end", other.multipliers.error)):
        np.testing.assert_allclose(found.error[name].max(axis=1), error, rtol=1e-4)


def test_where_the_constraint_holds(written):
    """Rounding at the redefined nodes; at the original ones (98) to rounding and D as far away as ε/2 · v_y v_x."""
    for case in (PARTICLE, POTENTIAL):
        for method in (EXPLICIT, IMPLICIT):
            assert long_runs.constraint(case, method, time=20.0).largest < 2e-15
        found = long_runs.constraint(case, ORIGINAL, time=20.0)
        assert np.max(np.abs(found.deformed)) < 2e-15
        assert found.largest > 0.01


def test_the_deviation_oscillates_with_a_potential_and_not_for_the_free_particle(written):
    free, bound = (long_runs.constraint(case, ORIGINAL, time=40.0) for case in (PARTICLE, POTENTIAL))
    assert free.changes == 0
    assert free.on_d.max() < 0
    assert bound.changes > 10
    assert abs(bound.mean) < 0.05 * bound.largest


@pytest.mark.parametrize(("method", "power"), [(EXPLICIT, 1), (LAST, -1)], ids=["explicit", "last"])
def test_one_step_turns_the_momentum(method, power, written):
    """Free particle, θ = arctan y, p = √(1+y²) ẋ: p' = p cos(θ'-θ) for β = 0, p' = p / cos(θ'-θ) for β = 1."""
    path = method.simulate(PARTICLE.system, *PARTICLE.start, 0.1, 4.0)
    y, vx = np.asarray(path.q)[:, 1], np.asarray(path.v)[:, 0]
    p, θ = np.sqrt(1 + y**2) * vx, np.arctan(y)
    np.testing.assert_allclose(p[1:], p[:-1] * np.cos(np.diff(θ)) ** power, rtol=1e-13)


@pytest.mark.parametrize("method", [EXPLICIT, LAST], ids=["explicit", "last"])
def test_the_energy_of_x_drifts_at_the_predicted_rate(method, written):
    found = long_runs.energy(method, 0.05, long_runs.PART_TIME, 1)
    assert found.rate == pytest.approx(found.predicted, rel=0.03)


EXPONENTS = {  # what is left with the printed and with the corrected formula, in the order of the function's numbers
    checks.equations_95_96: (1, 2),
    checks.split_of_86: (1, 2),
    checks.split_multiplier_of_86: (1, 2),
    checks.split_of_81: (1, 2),
    checks.multipliers_of_81: (1, 1, 2),
    checks.equation_87: (2, 1, 1),
}


@pytest.mark.parametrize("check", EXPONENTS, ids=lambda check: check.__name__)
def test_corrected_formulas_gain_an_order(check):
    assert list(numbers(check).values()) == pytest.approx(EXPONENTS[check], abs=0.15)


def test_other_corrections():
    assert numbers(checks.lemma_4_4) == pytest.approx({"rank": 1, "rank of m": 3, "distance": 1})
    assert numbers(checks.equation_69)["ratio"] == pytest.approx(-1, abs=1e-12)
    derivative = numbers(checks.equation_84)
    assert derivative["along q"] == pytest.approx(2)
    assert derivative["both"] < 1e-9
    halves = numbers(checks.equation_86c)
    assert halves["0.05"] / halves["0.025"] == pytest.approx(2, abs=0.05)
    assert numbers(checks.explicit_without_v)["simple"] > 1e-4
    assert numbers(checks.explicit_without_v)["particle"] < 1e-15
    assert numbers(checks.multiplier_before_88)["ratio"] == pytest.approx(-1, abs=1e-4)
    first = numbers(checks.equation_99)
    assert list(first.values())[:4] == pytest.approx([1, 2, 2, 0.5], abs=0.02)
    assert first["(99) off (98)"] > 1e-3
    right = numbers(checks.found_right)
    assert right["(78)"] < 1e-14
    assert right["before (84)"] == pytest.approx(2, abs=0.1)
    assert right["(86), one step"] == pytest.approx(3, abs=0.1)
