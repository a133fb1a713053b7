"""How a least cost is found: the filter without bounds, IPOPT as a second opinion, and where an iteration ends."""

import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import PROBLEMS

SWING = PROBLEMS["cart_pole"]
REST = ([0.0], [0.0])
BEAM = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + jnp.cos(q[0]), derivatives=2)
BENT = {"initial": REST, "final": ([0.5], [3.0]), "T": 1.0, "steps": 40}


@pytest.fixture
def ipyopt():
    return pytest.importorskip("ipyopt")


def test_a_flip_is_found_from_the_guess_that_solve_makes():
    """327.304451279918 by indirect methods, less what 40 steps leave; the line search of the merit ends nowhere."""
    still = (0.0, 0.0, 0.0)
    ends = {"initial": (still, still), "final": ((0.0, 0.0, 2 * np.pi), still), "T": 2.0}
    found = da.solve(PROBLEMS["vertical_take_off"].problem, **ends, steps=40)
    assert found.kind == "minimum"
    assert float(found.cost) == pytest.approx(327.304451279918, rel=1e-3)


def test_fine_steps_end_where_rounding_is_all_that_is_left():
    """With 4000 steps the equations of the nodes cannot be solved to the tolerance: u has N² times the rounding of q."""
    found = da.solve(SWING.problem, **SWING.boundary, steps=4000, bounds={"u": (-12.0, 12.0)}, certify=False)
    assert int(found.statistics.iterations) < 40
    assert float(found.cost) == pytest.approx(59.191476639082, rel=2e-6)


@pytest.mark.parametrize("bounds", [None, {"u": (-12.0, 12.0), "q": {"x": (None, 1.3)}}])
def test_ipopt_finds_the_same_solution(ipyopt, bounds):
    own, other = (
        da.solve(SWING.problem, **SWING.boundary, steps=40, bounds=bounds, solver=da.Solver(method=m))
        for m in ("dalembert", "ipopt")
    )
    assert (own.method, other.method) == ("dalembert", "ipopt")
    assert own.kind == other.kind == "minimum"
    for name in ("q", "u", "adjoints", "costates_initial"):
        np.testing.assert_allclose(getattr(own, name), getattr(other, name), rtol=1e-7, atol=1e-8)
    assert own.bounds.keys() == other.bounds.keys()
    for name in own.bounds:
        np.testing.assert_allclose(own.bounds[name].multipliers, other.bounds[name].multipliers, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(own.bounds[name].active, other.bounds[name].active)
    assert "iterations of IPOPT" in other.describe()


def test_ipopt_solves_boundary_problems_inside_bounds(ipyopt):
    own, other = (
        da.solve(BEAM, **BENT, bounds={"q": (-0.1, 0.6)}, solver=da.Solver(method=m)) for m in ("dalembert", "ipopt")
    )
    np.testing.assert_allclose(own.q, other.q, rtol=1e-7, atol=1e-9)
    assert np.any(other.bounds["q"].active)


def test_ipopt_says_that_no_path_meets_the_bounds(ipyopt):
    lost = da.solve(
        SWING.problem,
        **SWING.boundary,
        steps=20,
        bounds={"u": (-2.0, 2.0)},
        solver=da.Solver(method="ipopt"),
        throw=False,
        certify=False,
    )
    assert lost.outcome in (da.Outcome.INFEASIBLE, da.Outcome.NOT_CONVERGED)
    assert lost.method == "ipopt"


def test_a_saved_solution_knows_its_method(tmp_path):
    found = da.solve(BEAM, **BENT)
    da.save(found, tmp_path / "beam.nc")
    assert da.load(tmp_path / "beam.nc").method == "dalembert"


def test_without_ipyopt_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipyopt", None)
    with pytest.raises(ImportError, match=r"pip install 'dalembert\[ipopt\]'"):
        da.solve(BEAM, **BENT, solver=da.Solver(method="ipopt"))


def test_a_wrong_method_is_refused():
    with pytest.raises(ValueError, match="method: found 'simplex'; the methods are dalembert, ipopt"):
        da.solve(BEAM, **BENT, solver=da.Solver(method="simplex"))


def test_ipopt_seeks_no_saddles(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipyopt", types.ModuleType("ipyopt"))
    with pytest.raises(ValueError, match="IPOPT finds minima"):
        da.solve(BEAM, **BENT, solver=da.Solver(method="ipopt"), seek="extremal")
