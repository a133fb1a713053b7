"""Path inequalities and bounds on velocities in optimal control: reference values, dense programs, units, warm starts."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import dalembert as da
from dalembert.gallery import PROBLEMS

VAN_DER_POL = PROBLEMS["van_der_pol"]
CART, CART_ENDS = PROBLEMS["cart_pole"].problem, PROBLEMS["cart_pole"].boundary
MOVE, MOVE_ENDS = PROBLEMS["double_integrator"].problem, PROBLEMS["double_integrator"].boundary


@functools.cache
def oscillating(steps):
    return da.solve(VAN_DER_POL.problem, **VAN_DER_POL.boundary, steps=steps)


def test_van_der_pol_with_a_bounded_velocity_has_its_reference_value():
    """3.6151814, the velocity being on its bound from 0.364 to 2.913; of order 2, its limit by fine meshes."""
    costs = np.array([float(oscillating(n).cost) for n in (100, 200, 400, 800, 1600)])
    errors = np.abs(costs - VAN_DER_POL.cost)
    assert np.log2(errors[0] / errors[4]) / 4.0 == pytest.approx(2.0, abs=0.02)
    assert (4.0 * costs[4] - costs[3]) / 3.0 == pytest.approx(VAN_DER_POL.cost, abs=2e-7)
    fine = oscillating(1600)
    assert fine.kind == "minimum"
    np.testing.assert_allclose(fine.switches("v")[0], [0.364, 2.913], rtol=0, atol=0.01)


def test_multipliers_of_a_bounded_velocity_are_smooth():
    """They lie on the steps: with velocities of nodes those of even and odd nodes would differ by their own size."""
    bounds = oscillating(400).bounds["v"]
    on = bounds.multipliers[bounds.active[:, 0] == -1, 0]
    assert np.abs(np.diff(on[1:-1], 2)).max() < 1e-3 * np.abs(on).max()
    assert on.max() < 0.0


def test_multipliers_of_a_bounded_velocity_are_the_gradient_of_the_cost():
    given, bounds = {**VAN_DER_POL.boundary, "bounds": None}, oscillating(100).bounds["v"]
    slope = -10.0 / 100 * float(bounds.multipliers.sum())
    both = [da.solve(VAN_DER_POL.problem, **given | {"bounds": {"v": (-0.25 + d, None)}}, steps=100) for d in (1e-4, -1e-4)]
    assert float(both[0].cost - both[1].cost) / 2e-4 == pytest.approx(slope, rel=1e-3)


def power(q, v, u):
    return u * v - 1.5


def test_an_inequality_of_controls_and_velocities_agrees_with_a_dense_program():
    """A mass moved from rest to rest with a motor of bounded power: u v ≤ 1.5 with the velocities of the nodes."""
    mass = da.System(lambda q, v: 0.5 * v @ v)
    move = da.OptimalControl(mass, cost=lambda q, v, u: u @ u, actuated=0)
    steps = 16
    found = da.solve(move, **MOVE_ENDS, steps=steps, inequalities=power)
    h, w = 1.0 / steps, np.full(steps + 1, 1.0 / steps)
    w[[0, -1]] *= 0.5

    def motion(u):
        """Velocities of the steps and positions, from rest: the impulses w u."""
        rates = np.cumsum(w * u)[:-1]
        return rates, h * np.cumsum(rates)

    def node_velocities(u):
        rates = motion(u)[0]
        return np.concatenate([[0.0], 0.5 * (rates[1:] + rates[:-1]), [0.0]])

    dense = minimize(
        lambda u: w @ u**2, found.u[:, 0] * 0.0 + 6.0 * (1.0 - 2.0 * found.t), jac=lambda u: 2.0 * w * u, method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda u: [w @ u, motion(u)[1][-1] - 1.0]},
            {"type": "ineq", "fun": lambda u: (1.5 - u * node_velocities(u))[1:-1]},
        ],
        options={"ftol": 1e-13, "maxiter": 500},
    )  # fmt: skip
    assert dense.success
    assert float(found.cost) == pytest.approx(dense.fun, rel=1e-7)
    np.testing.assert_allclose(found.u[:, 0], dense.x, rtol=0, atol=1e-3)
    assert found.kind == "minimum"
    bounds = found.bounds["inequalities"]
    np.testing.assert_array_equal(bounds.t, found.t)
    np.testing.assert_allclose(bounds.values[:, 0], found.u[:, 0] * found.v[:, 0] - 1.5, rtol=0, atol=1e-8)
    assert np.count_nonzero(bounds.active) > 2


def in_units(time, mass):
    """The bounded swing-up where a second is `time` and a kilogram `mass` units."""
    force = mass / time**2
    p = {"M": mass, "m": 0.3 * mass, "l": 0.5, "g": 9.81 / time**2}
    bounds = {"u": (-12.0 * force, 12.0 * force), "q": {"x": (None, 1.1)}, "v": {"x": (-2.0 / time, 2.5 / time)}}
    found = da.solve(CART.replace(**p), **{**CART_ENDS, "T": 2.0 * time}, steps=40, bounds=bounds)
    return found, force


@pytest.mark.parametrize(("time", "mass"), [(1e3, 1.0), (1.0, 1e3)])
def test_units_change_nothing(time, mass):
    """Seconds or milliseconds, kilograms or grams: the same motion, forces and cost in the other unit."""
    (plain, _), (found, force) = in_units(1.0, 1.0), in_units(time, mass)
    assert float(found.cost) / (force**2 * time) == pytest.approx(float(plain.cost), rel=1e-7)
    np.testing.assert_allclose(found.u / force, plain.u, rtol=0, atol=1e-5)
    for name in ("u", "q", "v"):
        np.testing.assert_array_equal(found.bounds[name].active, plain.bounds[name].active)


def test_a_solution_with_bounds_is_a_warm_start():
    before = in_units(1.0, 1.0)[0]
    bounds = {"u": (-12.0, 12.0), "q": {"x": (None, 1.1)}, "v": {"x": (-2.0, 2.5)}}
    again = da.solve(CART, **CART_ENDS, steps=40, bounds=bounds, guess=before)
    assert int(again.statistics.iterations) <= 5 < int(before.statistics.iterations)
    assert float(again.cost) == pytest.approx(float(before.cost), rel=1e-9)
    farther = {**CART_ENDS, "final": ((1.01, np.pi), (0.0, 0.0))}
    near, cold = (da.solve(CART, **farther, steps=40, bounds=bounds, guess=g) for g in (before, None))
    assert float(near.cost) == pytest.approx(float(cold.cost), rel=1e-8)
    assert int(near.statistics.iterations) < int(cold.statistics.iterations)


def test_contacts_with_a_bound_slide_to_where_they_cost_less():
    """The first search settles the nodes at which x touches its bound: 60.657, 60.808, 60.972, … where the end is farther
    and farther away, though with 40 steps a motion that does not touch it at all costs 57.6 and less."""
    bounds = {"u": (-12.0, 12.0), "q": {"x": (None, 1.1)}, "v": {"x": (-2.0, 2.5)}}
    costs = []
    for end in (0.97, 0.99, 1.01):
        ends = {**CART_ENDS, "final": ((end, np.pi), (0.0, 0.0))}
        found = da.solve(CART, **ends, steps=40, bounds=bounds)
        first = da.multistart(CART, [found.q], **ends, steps=40, bounds=bounds).solutions[0]
        assert found.kind == first.kind == "minimum"
        assert float(found.cost) <= float(first.cost) * (1.0 + 1e-6)
        costs.append(float(found.cost))
    assert costs[2] < costs[1] < costs[0] < 57.7


PAST, REACH, RADIUS, BELOW = 4.0, 0.9, 0.5, 0.3  # ends, height of the guess, and a disc whose middle is below the line


def round_a_disc(unit, origin, keeps_out, steps=120, T=2.0, cost=lambda q, v, u: u @ u):
    """A mass is moved by two forces from rest to rest past a disc, from a path below it, which is the long way."""
    problem = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=cost, actuated=(0, 1))
    x, y = origin
    s = np.linspace(0.0, 1.0, steps + 1)
    ends = np.array([[x, y], [x + PAST * unit, y]])
    path = np.stack([x + PAST * unit * s, y - REACH * unit * np.sin(np.pi * s)], axis=1)

    def disc(q, v, u):
        return keeps_out(RADIUS * unit, jnp.hypot(q[0] - x - 0.5 * PAST * unit, q[1] - y + BELOW * unit))

    first, last = ((end, np.zeros(2)) for end in ends)
    return da.solve(problem, initial=first, final=last, T=T, steps=steps, inequalities=disc, guess=path)


@pytest.mark.parametrize("keeps_out", [lambda r, d: r**2 - d**2, lambda r, d: r - d])
@pytest.mark.parametrize(("unit", "origin"), [(1.0, (0.0, 0.0)), (1e3, (7e3, -1e5))])
def test_an_obstacle_is_passed_on_the_side_that_costs_less(unit, origin, keeps_out):
    """By symmetry the disc is touched half way, at the height a: ∫|u|² = (12 L² + 192 a²)/T³, from two cubics each."""
    found = round_a_disc(unit, origin, keeps_out)
    assert found.kind == "minimum"
    above, below = (12.0 * PAST**2 + 192.0 * a**2 for a in (RADIUS - BELOW, RADIUS + BELOW))
    np.testing.assert_allclose(float(found.cost) * 2.0**3 / unit**2, above, rtol=3e-4, atol=0)
    assert below > 1.5 * above
    middle = found.q[60] - origin
    np.testing.assert_allclose(middle, [0.5 * PAST * unit, (RADIUS - BELOW) * unit], rtol=0, atol=1e-6 * unit)


def test_an_obstacle_is_passed_on_the_other_side_in_another_time():
    """κT + A/T³ has its minimum at T⁴ = 3A/κ."""
    found = round_a_disc(1.0, (0.0, 0.0), lambda r, d: r - d, T=da.Free(3.0), cost=lambda q, v, u: 20.0 + u @ u)
    a = 12.0 * PAST**2 + 192.0 * (RADIUS - BELOW) ** 2
    np.testing.assert_allclose(found.t[-1], (3.0 * a / 20.0) ** 0.25, rtol=3e-4, atol=0)
    np.testing.assert_allclose(float(found.cost), 80.0 * (3.0 * a / 20.0) ** 0.25 / 3.0, rtol=3e-4, atol=0)


def test_forces_that_are_too_small_are_infeasible_and_say_where():
    with pytest.raises(da.SolveError, match=r"(?s)several guesses.*violated most at t = ") as caught:
        da.solve(CART, **CART_ENDS, steps=80, bounds={"u": (-5.0, 5.0)})
    least = caught.value.solution
    assert least.outcome is da.Outcome.INFEASIBLE
    assert np.abs(least.u).max() <= 5.0


def test_a_guess_that_winds_too_often_is_left_for_a_nearer_one():
    """A pole that turns three times on its way asks for more than 15 N."""
    s = np.linspace(0.0, 1.0, 81)
    guess = np.stack([s, np.pi * s + 6.0 * np.sin(np.pi * s)], axis=1)
    found = da.solve(CART, **CART_ENDS, steps=80, bounds={"u": (-15.0, 15.0)}, guess=guess)
    assert found.kind == "minimum"
    assert np.abs(found.u).max() <= 15.0


def test_the_iterations_of_a_bound_on_positions_do_not_grow_with_the_mesh():
    """A path that touches its bound at a point: the place of contact would move by a node each two iterations."""
    counts = [int(da.solve(CART, **CART_ENDS, steps=n, bounds={"q": {"x": (None, 1.05)}}).statistics.iterations)
              for n in (250, 2000, 4000)]  # fmt: skip
    assert max(counts) < 100
