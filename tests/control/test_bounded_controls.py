"""Bounds in optimal control: a closed form of the discrete problem, reference values, multipliers, what cannot be met."""

import functools
import itertools

import jax
import numpy as np
import pytest
from scipy.optimize import brentq, minimize

import dalembert as da
from dalembert.gallery import PROBLEMS

MOVE, MOVE_ENDS = PROBLEMS["double_integrator"].problem, PROBLEMS["double_integrator"].boundary
CART, CART_ENDS = PROBLEMS["cart_pole"].problem, PROBLEMS["cart_pole"].boundary
BACK_AND_FORTH = {"initial": ([0.0], [1.0]), "final": ([0.0], [-1.0]), "T": 1.0}


@functools.cache
def moved(steps, most=5.0):
    return da.solve(MOVE, **MOVE_ENDS, steps=steps, bounds={"u": (-most, most)})


def weights(steps):
    w = np.full(steps + 1, 1.0 / steps)
    w[[0, -1]] *= 0.5
    return w


def saturated(t, w, most):
    """min Σ w u² with Σ wu = 0, Σ w t u = -1, |u| ≤ most: u = clip(b(1 - 2t)) by its convexity; and b."""
    law = lambda b: np.clip(b * (1.0 - 2.0 * t), -most, most)  # noqa: E731
    b = brentq(lambda b: (w * t) @ law(b) + 1.0, 0.0, 1e3, xtol=1e-14)
    return law(b), b


def test_a_bounded_double_integrator_has_the_discrete_closed_form():
    found, w = moved(40), weights(40)
    u, b = saturated(found.t, w, 5.0)
    np.testing.assert_allclose(found.u[:, 0], u, rtol=0, atol=1e-7)
    assert float(found.cost) == pytest.approx(w @ u**2, rel=1e-9)
    assert found.kind == "minimum"
    assert found.bounds["u"].margin > 1e-3
    bounds = found.bounds["u"]
    np.testing.assert_array_equal(bounds.active[:, 0], np.where(np.abs(u) == 5.0, np.sign(u), 0.0))
    np.testing.assert_allclose(bounds.multipliers[:, 0], 2.0 * (b * (1.0 - 2.0 * found.t) - u), rtol=0, atol=1e-5)


def test_a_bounded_double_integrator_agrees_with_a_dense_quadratic_program():
    w, t = weights(20), np.linspace(0.0, 1.0, 21)
    dense = minimize(
        lambda u: w @ u**2, np.zeros(21), jac=lambda u: 2.0 * w * u, method="SLSQP", bounds=[(-5.0, 5.0)] * 21,
        constraints=[{"type": "eq", "fun": lambda u: w @ u}, {"type": "eq", "fun": lambda u: (w * t) @ u + 1.0}],
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert dense.success
    assert float(moved(20).cost) == pytest.approx(dense.fun, rel=1e-8)
    np.testing.assert_allclose(moved(20).u[:, 0], dense.x, rtol=0, atol=1e-4)


def test_the_bounded_double_integrator_converges_to_its_reference_value():
    """It leaves its bound at ½ - √0.15 and comes to the other one at ½ + √0.15."""
    costs = [float(moved(steps).cost) for steps in (400, 800)]
    assert (4.0 * costs[1] - costs[0]) / 3.0 == pytest.approx(12.090055512642, abs=1e-6)
    np.testing.assert_allclose(moved(800).switches("u")[0], 0.5 + np.array([-1.0, 1.0]) * np.sqrt(0.15), rtol=0, atol=1e-5)


def test_multipliers_of_the_bounds_are_the_gradient_of_the_cost():
    found = moved(40)
    slope = -float(weights(40) @ np.abs(found.bounds["u"].multipliers[:, 0]))
    change = float(moved(40, 5.001).cost - moved(40, 4.999).cost) / 2e-3
    assert change == pytest.approx(slope, rel=1e-4)


def test_the_condition_is_that_of_the_equations():
    """What holds an active bound on the diagonal is none of it: 1e20 stood beside solutions of full accuracy."""
    free, bounded = (float(moved(40, bound).statistics.condition) for bound in (100.0, 5.0))
    assert 1.0 < bounded < 1e2 * free < 1e8


def test_bryson_and_denham():
    """∫u² with x ≤ 1/9 costs 8, x being on its bound from 1/3 to 2/3, where no force keeps it: not complementary."""
    found = [da.solve(MOVE, **BACK_AND_FORTH, steps=n, bounds={"q": {0: (None, 1.0 / 9.0)}}) for n in (180, 360)]
    costs = [float(s.cost) for s in found]
    assert (4.0 * costs[1] - costs[0]) / 3.0 == pytest.approx(8.0, abs=1e-6)
    fine = found[1]
    assert fine.kind == "minimum"
    assert fine.q.max() <= 1.0 / 9.0
    np.testing.assert_allclose(fine.q[120:241, 0], 1.0 / 9.0, rtol=0, atol=1e-6)
    exact = np.where(fine.t < 1.0 / 3.0, 18.0 * fine.t - 6.0, np.where(fine.t > 2.0 / 3.0, 12.0 - 18.0 * fine.t, 0.0))
    np.testing.assert_allclose(fine.u[:, 0], exact, rtol=0, atol=0.02)
    assert fine.bounds["q"].margin < 1e-2


def between(switches, multiple):
    """Nodes on the switching times: order 2 is regular then."""
    ends = [0.0, *switches, 2.0]
    parts = [
        np.linspace(a, b, round(c * multiple) + 1)[:-1]
        for (a, b), c in zip(itertools.pairwise(ends), (8, 2, 10), strict=True)
    ]
    return np.append(np.concatenate(parts), 2.0)


def swung(times, guess=None):
    ends = {name: given for name, given in CART_ENDS.items() if name != "T"}
    found = da.solve(CART, **ends, times=times, guess=guess, bounds={"u": (-12.0, 12.0)})
    assert found.kind == "minimum"
    assert np.abs(found.u).max() <= 12.0
    return found


def extrapolated(values):
    rows = [np.asarray(v, dtype=float) for v in values]
    for power in range(1, len(rows)):
        rows = [(4**power * b - a) / (4**power - 1) for a, b in itertools.pairwise(rows)]
    return rows[0]


def test_the_cart_pole_with_bounded_force():
    """Value, costates and switching times of an indirect method."""
    switches = (0.78095968, 0.91985325)
    found = [swung(between(switches, multiple)) for multiple in (10, 20, 40)]
    assert extrapolated([s.cost for s in found]) == pytest.approx(59.191476639082, abs=1e-6)
    wanted = [[4.14479998, -55.15407959], [5.84641829, 4.7743802]]
    np.testing.assert_allclose(extrapolated([s.costates_initial for s in found]), wanted, rtol=1e-5)
    np.testing.assert_allclose(extrapolated([s.switches("u")[0] for s in found]), switches, rtol=0, atol=1e-5)


def test_the_cheaper_extremal_of_the_cart_pole():
    """Found from another guess; nodes are moved to the switching times that come out."""
    s = np.linspace(0.0, 1.0, 161)
    other = np.stack([s, np.pi * s + 2.0 * np.sin(2.0 * np.pi * s)], axis=1)
    found = swung(2.0 * s, other)
    for _ in range(2):
        meshes = [between(found.switches("u")[0], multiple) for multiple in (10, 20, 40)]
        each = [swung(times, found) for times in meshes]
        found = each[-1]
    assert extrapolated([s.cost for s in each]) == pytest.approx(57.971370049559, abs=1e-6)


def test_bounds_are_stored_drawn_and_described(tmp_path):
    found = moved(40)
    da.save(found, tmp_path / "bounded.nc")
    read = da.load(tmp_path / "bounded.nc")
    jax.tree.map(np.testing.assert_array_equal, found, read)
    assert read.describe() == found.describe()
    assert "bounds on u: " in found.describe()
    panel = da.plot(found).axes[2]
    assert sorted({line.get_ydata()[0] for line in panel.lines if line.get_linestyle() == "--"}) == [-5.0, 5.0]


def test_bounds_that_no_motion_meets_are_an_outcome_with_the_least_violation():
    with pytest.raises(da.SolveError, match="inside their bounds") as caught:
        moved(40, 3.0)
    least = caught.value.solution
    assert least.outcome is da.Outcome.INFEASIBLE
    assert least.statistics.violation > 0.1
    np.testing.assert_allclose(least.u[:, 0], 3.0 * np.sign(0.5 - least.t), rtol=0, atol=0.2)


def test_units_change_neither_a_solution_nor_the_way_to_it():
    """Units of mass, length and time that are powers of two of each other, as typical sizes are rounded to these."""
    values, found = CART.system.parameters, []
    for mass, length, time in ((1.0, 1.0, 1.0), (2.0**-10, 2.0**-10, 1.0), (0.5, 0.25, 2.0**-6)):
        force = mass * length / time**2
        units = {"M": mass, "m": mass, "l": length, "g": length / time**2}
        cart = CART.replace(**{name: values[name] / unit for name, unit in units.items()})
        ends = {"initial": ([0.0, 0.0], [0.0, 0.0]), "final": ([1.0 / length, np.pi], [0.0, 0.0])}
        s = da.solve(cart, **ends, T=2.0 / time, steps=40, bounds={"u": (-10.0 / force, 10.0 / force)}, certify=False)
        found.append((int(s.statistics.iterations), float(s.cost) * force**2 * time))
    (iterations, cost), *others = found
    for there, other in others:
        assert there == iterations
        assert other == pytest.approx(cost, rel=1e-10)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"w": (0.0, 1.0)}, "bounds: found 'w'; bounds are on 'q', 'v', 'u'"),
        ({"u": {"force": (0.0, 1.0)}}, r"bounds\['u'\]: found 'force'; there are given by their index, 0 to 0"),
        ({"u": {1: (0.0, 1.0)}}, r"bounds\['u'\]: an index: found 1"),
        ({"q": {"q": (None, 0.5)}}, r"found q = 1 given at t = 1 \(final\)"),
    ],
)
def test_bounds_of_a_control_problem_are_named(bounds, message):
    with pytest.raises(ValueError, match=message):
        da.solve(MOVE, **MOVE_ENDS, steps=20, bounds=bounds)
