"""Colombo, Martín de Diego, Zuccalli: examples against closed forms, and the printed formulas against derivatives.

The whole run takes minutes, nearly all of them to compile, and is left to the example. Here every problem is compiled once.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from dalembert.discretize import Averaged
from papers import correction
from papers.colombo_martin_de_diego_zuccalli import (
    beam,
    checks,
    flow,
    forms,
    free_steps,
    heisenberg,
    optimal_control,
    prescribed_steps,
    sphere,
    sphere_equation,
    tables,
)
from papers.colombo_martin_de_diego_zuccalli import corrections as found
from papers.correction import numbers


def test_the_quadrature_gives_the_closed_form():
    t = np.linspace(0.0, 1.0, 9)
    np.testing.assert_allclose(beam.UNIFORM.exact(t)[0], beam.closed_form(t), rtol=1e-12, atol=1e-17)
    ends = np.array(beam.LOADED.exact([0.0, 1.0])[:2])
    np.testing.assert_allclose(ends, 0.0, atol=1e-17)


def test_the_paper_s_windows_are_of_second_order():
    """With μ = 1+t, ρ = cos 3t; between the last two, since the load is averaged over three nodes near the ends."""
    result = beam.measured(beam.LOADED, Averaged(), (20, 40, 80))
    assert np.log2(result.error[-2] / result.error[-1]) == pytest.approx(2, abs=0.05)


@pytest.fixture(scope="module")
def free():
    return [free_steps.measured(free_steps.UNIFORM, n) for n in (10, 20)]


def test_free_steps_keep_the_energy_and_go_where_the_error_density_says(free):
    """E constant to rounding, where equal steps vary it by 4e-5 and more; distances from h³g = constant fall with h."""
    for result in free:
        assert result.outcome == "SUCCESS"
        assert result.spread < 1e-14 < 1e-5 < result.equal_steps
        assert result.negative == len(result.found) - 4  # N - 3 free times, and g < 0
        assert np.ptp(np.diff(result.found)) * (len(result.found) - 1) > 0.4  # far from equal
    assert free[1].moved < 0.5 * free[0].moved < 0.03


def test_the_sign_of_the_error_density():
    """For μ = ρ = 1 on paper: g = -(1-3t+3t²)/72, and for the mean of three points -(1-5t+5t²)/24, zero at t(1-t) = 1/5."""
    t = free_steps.GRID
    for scheme, g in ((free_steps.Interpolated(), -(1 - 3 * t + 3 * t**2) / 72), (Averaged(), -(1 - 5 * t + 5 * t**2) / 24)):
        np.testing.assert_allclose(free_steps.error_density(free_steps.UNIFORM, scheme), g, rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def prescribed():
    return [prescribed_steps.measured(strength, 12) for strength in (0.0, 1.0)]


def test_constant_steps_decouple_and_a_step_function_does_not(prescribed):
    constant, function = prescribed
    assert constant.difference < 1e-13
    assert function.difference > 0.1  # of a deflection of 1
    for result in prescribed:
        assert result.balance < 1e-11  # λⁱ = E_i


@pytest.fixture(scope="module")
def ambient():
    return sphere.spline(sphere.ambient, 40)


def test_the_printed_multiplier_of_the_sphere(ambient):
    """Rounding of the fourth differences, over h⁴ of the multipliers."""
    formula, residual = sphere.formula_error(ambient)
    assert formula < 1e-11
    assert residual < 1e-13


def test_the_polygon_of_the_heisenberg_system():
    """The area of a regular polygon, N tan(π/N) a/T, on the way to π a/T; and d'Alembert's line."""
    for n in (8, 16):
        guess = heisenberg.circle(np.linspace(0.0, heisenberg.TIME, n + 1))
        solution = heisenberg.vakonomic([0.0, 0.0, heisenberg.HEIGHT], n, guess)
        assert float(solution.action) == pytest.approx(heisenberg.discrete_action(n), rel=1e-13)
    assert heisenberg.discrete_action(10**4) == pytest.approx(heisenberg.least_action(), rel=1e-6)
    line = np.asarray(heisenberg.straight(8).q)
    np.testing.assert_allclose(line[:, 1:], line[:, :1] * [0.5, 0.0], rtol=0, atol=1e-14)


def test_an_arc_is_found_to_second_order():
    errors = []
    for n in (16, 32):
        guess = heisenberg.arc(np.linspace(0.0, heisenberg.TIME, n + 1))
        q = np.asarray(heisenberg.vakonomic(heisenberg.END, n, guess).q)
        errors.append(np.max(np.abs(q - guess)))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.05)


PAGE = (Path(__file__).parents[2] / "docs/papers/colombo-martin-de-diego-zuccalli.md").read_text(encoding="utf-8")


def test_the_flow_has_the_numbers_of_the_page():
    """With the two longer steps of three; "the boundary problem between nodes of the path gives the path"."""
    result = flow.measure(fast=True)
    order, energy, momenta, symplectic = re.search(
        r"The order is ([\d.]+)\. The momenta .* vary by (\S+) without drift, the energy\n"
        r"by an amount of order ([\d.]+)\. .* to (\S+)\. The", PAGE,
    ).group(1, 3, 2, 4)  # fmt: skip
    assert result.order == pytest.approx(float(order), abs=0.03)
    assert result.energy_order == pytest.approx(float(energy), abs=0.02)
    assert max(np.ptp(values) for values in result.momenta.values()) < 2 * float(momenta)
    assert result.symplectic < 3 * float(symplectic)
    assert result.boundary < 1e-9
    assert (result.rank, result.smallest > 1e-3) == (3, True)


def test_a_constraint_of_lower_order_on_the_paper_s_windows():
    """λ of the windows over the true one, its growth, and the regular matrix: the sentence of the page."""
    found_here = flow.alternating()
    assert found_here["rank"] == 3
    printed = re.search(r"windows is (\S+) and (\S+) times the true one, and grows (\d+) times", PAGE).groups()
    measured = (found_here["first"], found_here["second"], found_here["growth"])
    for number, text in zip(measured, printed, strict=True):
        assert number == pytest.approx(float(text.replace("−", "-")), rel=0.03)


def test_theorem_3_1_and_what_remark_3_3_leaves_out():
    theorem, remark = numbers(forms.theorem_3_1), numbers(forms.remark_3_3)
    assert theorem["nodes"] < 1e-14
    assert theorem["multipliers"] > 0.01  # Φ_d: the nodes are off the constraint
    assert remark["restricted"] < 1e-14
    assert remark["whole"] > 1e-3


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_printed_equation_of_splines_is_right(k):
    """And the other sign of the curvature is not."""
    by_action, by_equation = sphere_equation.variation(k)
    assert by_equation == pytest.approx(by_action, rel=1e-8)
    assert abs(sphere_equation.variation(k, -1.0)[1] / by_action - 1) > 0.01


def test_the_equations_of_the_beam():
    values = numbers(checks.equations_of_the_beam)
    assert values["q"] < 1e-14
    assert values["corrected"] < 1e-14
    assert abs(values["t"] - 1) > 0.1


def test_the_printed_second_difference():
    """5/6 at the ratio 1.5, and a beam that stays 4 % too soft: Richardson's limit of first order."""
    values = numbers(checks.second_difference)
    assert values["printed"] == pytest.approx(5 / 6)
    assert 2 * values["80"] - values["40"] == pytest.approx(0.04, abs=0.003)


def test_corrections_without_a_boundary_problem():
    assert numbers(checks.regularity) == pytest.approx({"printed": 2, "of the flow": 2, "by q0": 0})
    assert list(numbers(checks.redundant_constraints).values()) == [38, 20, 18]
    assert numbers(checks.holonomic_matrix) == {"printed": 3, "paired": 4}
    assert numbers(checks.equations_of_4_4) == {"unknowns": 136, "equations": 131, "nodes without": 5}


@pytest.mark.parametrize(("measure", "words"), [
    (checks.regularity, "determinant {0:.0f} for an"),
    (checks.holonomic_matrix, "size 4: rank {0:.0f}, so paired {1:.0f}"),
    (checks.index_sets, "{0:.0f} multipliers, {2:.0f} in a node equation, \\(N - k = {1:.0f}\\)"),
    (checks.derivative_by_times, "beam, \\(j = 1\\): {0:.1f}, not {1:.1f}"),
    (checks.weights, "({0:.3f} times the integral"),
    (forms.remark_3_3, "{0:.1e}, where"),
    (optimal_control.printed_control, "\\(u = {1:.0f}\\), \\(h = 0.1\\): {0:.1f} as printed"),
    (optimal_control.controls_and_windows, "{0:.0f} controls, {1:.0f} windows, the first one with \\(u_{2:.0f}\\)"),
    (optimal_control.ends_by_nodes, "12 + {0:.0f}h as printed"),
])  # fmt: skip
def test_the_page_prints_what_is_measured(measure, words):
    text = words.format(*numbers(measure).values())
    assert re.sub(r"e-0(\d)", r"e-\1", text) in PAGE


def test_every_correction_has_its_number(monkeypatch):
    """The format strings, with made-up numbers: nothing is measured."""
    monkeypatch.setattr(correction, "numbers", lambda measure: dict.fromkeys("abcdef", 0.5))
    table = tables.corrections_table()
    assert not re.search(r"\{\d+:", table)  # a field that was not filled in, and neither a set {1, …} nor an index D_{12}
    assert table.count("\n") == 1 + len(found.CORRECTIONS) + len(found.MISPRINTS)
