"""Plants whose constraints on velocities keep a function of position: against Holonomic, and closed forms."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import dalembert as da
from dalembert.systems import leaf_forms


def kinetic(q, v):
    return 0.5 * v @ v


def effort(q, v, u):
    return u @ u


BEAD = da.System(kinetic, da.Nonholonomic(lambda q, v: v[1] - jnp.cos(q[0]) * v[0]))
HELD = da.System(kinetic, da.Holonomic(lambda q: q[1] - jnp.sin(q[0])))


def on_curve(x: float, speed: float) -> tuple[list, list]:
    slope = np.cos(x)
    return [x, np.sin(x)], [speed / np.hypot(1, slope), speed * slope / np.hypot(1, slope)]


ENDS = {"initial": on_curve(0.0, 2.0), "final": on_curve(0.1, 2.0), "T": 1.0}


def control(system: da.System) -> da.OptimalControl:
    return da.OptimalControl(system, cost=effort, actuated=(0, 1))


def test_a_bead_on_a_curve_costs_what_holonomic_costs():
    """68.9 was certified as a minimum where the arc length gives ∫ s̈² dt: 4(a² + ab + b²) with both ends' misses, 41.457."""
    nodes = np.linspace(0.0, 0.1, 20001)
    length = np.trapezoid(np.hypot(1.0, np.cos(nodes)), nodes)
    a = b = 2.0 - length  # Hermite: of s - Lt with L the length, between speeds a and b
    exact = 4.0 * (a * a + a * b + b * b)
    costs = [float(da.solve(control(BEAD), **ENDS, steps=steps).cost) for steps in (20, 40, 80)]
    errors = np.abs(np.array(costs) - exact)
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 2.0, rtol=0, atol=0.1)
    held = float(da.solve(control(HELD), **ENDS, steps=80).cost)
    assert costs[2] == pytest.approx(held, rel=1e-4)
    found = da.solve(control(BEAD), **ENDS, steps=80)
    assert found.kind == "minimum"
    assert float(found.statistics.condition) < 1e6
    assert abs(found.q[-1, 1] - np.sin(0.1)) < 1e-3  # the discrete leaf differs by O(h²)


def test_other_leaves_are_infeasible():
    final = ([0.1, 0.5], on_curve(0.1, 2.0)[1])
    found = da.solve(control(BEAD), **{**ENDS, "final": final}, steps=20, throw=False)
    assert found.outcome is da.Outcome.INFEASIBLE
    assert found.kind == "least violation"
    values = re.search(r"to final: .* the q\[1\] that .* is (\S+) where this path leads and (\S+) for final", found.remark)
    assert values is not None
    np.testing.assert_allclose([float(x) for x in values.groups()], [np.sin(0.1), 0.5], rtol=1e-3)
    with pytest.raises(da.SolveError, match=r"infeasible(.|\n)*no motion near this path leads to final"):
        da.solve(control(BEAD), **{**ENDS, "final": final}, steps=20)
    between = da.solve(control(BEAD), **ENDS, through={0.5: [0.05, 0.2]}, steps=20, throw=False)
    assert between.outcome is da.Outcome.INFEASIBLE
    assert "leads to through: the point at t = 0.5" in between.remark
    given = {name: ENDS[name] for name in ("initial", "final")}
    fine = da.refine(control(BEAD), da.solve(control(BEAD), **ENDS, steps=20), **given, tolerance=1e-3)
    assert float(fine.cost) == pytest.approx(41.457, rel=2e-3)


CIRCLES = da.Nonholonomic(lambda q, v: q[0] * v[0] + q[1] * v[1])


def at_angle(angle: float, speed: float) -> tuple[list, list]:
    return [np.cos(angle), np.sin(angle)], [-speed * np.sin(angle), speed * np.cos(angle)]


def test_a_closed_leaf():
    """Angles 0 and 4 of a circle: on the axes one coordinate or the other cannot be solved for."""
    ends = {"initial": at_angle(0.0, 1.0), "final": at_angle(4.0, 1.0), "T": 2.0, "steps": 40}
    angles = np.linspace(0.0, 4.0, 41)
    guess = np.column_stack([np.cos(angles), np.sin(angles)])
    circle = da.System(kinetic, da.Holonomic(lambda q: q @ q - 1.0))
    for given in (None, guess):
        found, held = (da.solve(control(s), **ends, guess=given) for s in (da.System(kinetic, CIRCLES), circle))
        assert float(found.cost) == pytest.approx(float(held.cost), rel=1e-9)
    larger = da.solve(
        control(da.System(kinetic, CIRCLES)), **{**ends, "final": ([-0.9, -1.1], [1.1, -0.9])}, guess=guess, throw=False
    )
    assert larger.outcome is da.Outcome.INFEASIBLE


@pytest.mark.parametrize("steps", [20, 40, 80])
def test_the_end_of_a_simulated_run(steps):
    """It lies O(h²) off the leaf, 4e-4 at 20 steps."""
    pushed = da.System(kinetic, BEAD.constraints, forces=lambda q, v: jnp.array([0.7, 0.0]))
    run = da.simulate(pushed, *on_curve(0.0, np.sqrt(2.0)), h=2.0 / steps, steps=steps)
    off = abs(float(run.q[-1, 1]) - np.sin(float(run.q[-1, 0])))
    assert off > 0.1 / steps**2
    end, speed = np.asarray(run.q[-1]), 2.0
    ahead = [speed, speed * np.cos(end[0])]
    ends = {"initial": on_curve(0.0, np.sqrt(2.0)), "T": 2.0, "steps": steps}
    found = da.solve(control(BEAD), **ends, final=(end, ahead))
    assert np.abs(found.q[-1] - end).max() < 2.0 * off
    apart = da.solve(control(BEAD), **ends, final=([end[0], end[1] + 100.0 / steps**2 + 10.0 * off], ahead), throw=False)
    assert apart.outcome is da.Outcome.INFEASIBLE


def test_closed_orbits_on_one_leaf():
    """Against the circle of least cost among those that Holonomic gives."""
    options = {"forces": lambda q, v, *p: -0.5 * v}
    cost = lambda q, v, u, *p: u @ u + 4.0 * (q @ q - 1.0) ** 2  # noqa: E731
    heavy = lambda q, v, *p: 0.5 * v @ v - q[1]  # noqa: E731
    circle = da.System(heavy, da.Holonomic(lambda q, p: q @ q - p["r"] ** 2), **options, parameters={"r": 1.0})
    angles = np.linspace(0.0, 2.0 * np.pi, 41)
    guess = np.column_stack([np.cos(angles), np.sin(angles)])
    ends = {"initial": ({1: 0.0}, None), "final": da.Periodic(), "T": 4.0, "steps": 40}

    def least(system: da.System, radius: float) -> float:
        return float(da.solve(da.OptimalControl(system, cost=cost, actuated=(0, 1)), **ends, guess=radius * guess).cost)

    def on_circle(radius: float) -> float:
        return least(circle.replace(r=radius), radius)

    best = minimize_scalar(on_circle, bounds=(0.9, 1.0), method="bounded", options={"xatol": 1e-3})
    assert least(da.System(heavy, CIRCLES, **options), 1.0) == pytest.approx(best.fun, rel=1e-6)


def test_a_set_that_the_leaf_settles():
    """As with Holonomic: what follows from the constraints is no condition."""
    for system in (BEAD, HELD):
        with pytest.raises(da.RankDeficientError, match="final: the 3 equations of psi"):
            da.solve(
                control(system), initial=ENDS["initial"], final=da.On(lambda q, v: q[1] - jnp.sin(q[0])), T=1.0, steps=20
            )
    line = da.On(lambda q, v: q[0] + q[1] - 0.3)
    found, held = (da.solve(control(s), initial=ENDS["initial"], final=line, T=1.0, steps=40) for s in (BEAD, HELD))
    assert float(found.cost) == pytest.approx(float(held.cost), rel=1e-3)


def test_a_holonomic_constraint_besides():
    """A curve on the sphere: z = 0.3 sin 2x as a constraint on velocities, or on positions."""
    sphere = da.Holonomic(lambda q: q @ q - 1.0)
    height = da.Nonholonomic(lambda q, v: v[2] - 0.6 * jnp.cos(2.0 * q[0]) * v[0])
    held = da.Holonomic(lambda q: q[2] - 0.3 * jnp.sin(2.0 * q[0]))

    def place(x: float) -> np.ndarray:
        z = 0.3 * np.sin(2.0 * x)
        return np.array([x, np.sqrt(1.0 - x * x - z * z), z])

    def state(x: float, speed: float) -> tuple:
        rise = 0.6 * np.cos(2.0 * x)
        q = place(x)
        return q, speed * np.array([1.0, -(q[0] + q[2] * rise) / q[1], rise])

    ends = {"initial": state(-0.5, 0.3), "final": state(0.6, 0.5), "T": 2.0}
    for steps in (20, 40):
        costs = [
            float(da.solve(da.OptimalControl(s, cost=effort, actuated=(0, 1, 2)), **ends, steps=steps).cost)
            for s in (da.System(kinetic, (sphere, height)), da.System(kinetic, (sphere, held)))
        ]
        assert abs(costs[0] - costs[1]) < 0.02 / steps**2


def test_a_leaf_that_winds():
    """The helicoid z = θ is one leaf; the other way round the axis it is a whole turn lower."""
    turning = da.System(kinetic, da.Nonholonomic(lambda q, v: (q[:2] @ q[:2]) * v[2] - (q[0] * v[1] - q[1] * v[0])))
    angles = np.linspace(0.0, 5.0, 41)
    guess = np.column_stack([np.cos(angles), np.sin(angles), angles])
    task = da.OptimalControl(turning, cost=effort, actuated=(0, 1, 2))
    (begin, slow), (end, fast) = at_angle(0.0, 1.0), at_angle(5.0, 1.0)
    ends = {"initial": ([*begin, 0.0], [*slow, 1.0]), "final": ([*end, 5.0], [*fast, 1.0]), "T": 5.0, "steps": 40}
    found = da.solve(task, **ends, guess=guess)
    assert abs(found.q[-1, 2] - 5.0) < 0.01
    other = da.solve(task, **ends, throw=False)
    assert other.outcome is da.Outcome.INFEASIBLE
    assert "goes another way round" in other.remark


def test_the_time_may_be_what_is_free():
    """d(y - t x) with a free T: the end settles T, and nothing is redundant."""
    moving = da.System(
        lambda q, v, t: 0.5 * v @ v, da.Nonholonomic(lambda q, v, t: v[1] - t * v[0] - q[0]), time_dependent=True
    )
    task = da.OptimalControl(moving, cost=lambda q, v, u, t: u @ u, actuated=(0, 1))
    ends = {"initial": ([0.5, 0.0], None), "final": ([1.0, 1.3], None), "steps": 40}
    found = da.solve(task, **ends, T=da.Free(1.2))
    assert float(found.t[-1]) == pytest.approx(1.3, abs=2e-3)
    np.testing.assert_allclose(found.q[-1], [1.0, 1.3], rtol=0, atol=1e-9)
    fixed = da.solve(task, **ends, T=1.3)
    assert fixed.kind == "minimum"
    assert abs(fixed.q[-1, 1] - 1.3) + abs(fixed.q[-1, 0] - 1.0) < 2e-3
    assert da.solve(task, **ends, T=1.0, throw=False).outcome is da.Outcome.INFEASIBLE


def test_points_to_pass_and_ends_that_are_free():
    middle = [0.06, np.sin(0.06)]
    found, held = (float(da.solve(control(s), **ENDS, through={0.5: middle}, steps=80).cost) for s in (BEAD, HELD))
    assert found == pytest.approx(held, rel=2e-3)
    free = {**ENDS, "final": ({0: 0.1}, {0: ENDS["final"][1][0]})}
    assert float(da.solve(control(BEAD), **free, steps=40).cost) == pytest.approx(
        float(da.solve(control(BEAD), **ENDS, steps=40).cost), rel=1e-4
    )


def blade(q, v):
    return v[1] * jnp.cos(q[2]) - v[0] * jnp.sin(q[2])


def lift(q, v):
    return v[3] - q[0] * v[0]  # w - x²/2 is kept


MIXED = da.System(
    kinetic,
    da.Nonholonomic(lambda q, v: jnp.stack([blade(q, v) + lift(q, v), 2 * blade(q, v) - jnp.exp(q[1]) * lift(q, v)])),
)
PLAIN = da.System(lambda q, v: 0.5 * (v @ v + (q[0] * v[0]) ** 2), da.Nonholonomic(blade))


def test_a_part_that_is_integrable():
    """A knife edge whose height w is x²/2, in rows that mix the two: as the knife edge with that height's energy."""
    start, end, ahead = [0.0, 0.0, 0.0], [1.0, 0.4, 0.0], [1.0, 0.0, 0.0]
    with_height = lambda q: [*q, 0.5 * q[0] ** 2]  # noqa: E731
    t = np.linspace(0.0, 1.0, 41)[:, None]
    guess = np.hstack([t, 0.4 * (3 * t**2 - 2 * t**3), 0.5 * np.sin(np.pi * t)])
    own = da.OptimalControl(PLAIN, cost=lambda q, v, u: u @ u, actuated=(0, 2))
    whole = da.OptimalControl(MIXED, cost=lambda q, v, u: u @ u, actuated=(0, 2))
    expected = da.solve(own, initial=(start, ahead), final=(end, ahead), T=1.0, steps=40, guess=guess)
    ends = {"initial": (with_height(start), [*ahead, 0.0]), "final": (with_height(end), [*ahead, 1.0])}
    found = da.solve(whole, **ends, T=1.0, steps=40, guess=np.column_stack([guess, 0.5 * guess[:, 0] ** 2]))
    assert float(found.cost) == pytest.approx(float(expected.cost), rel=5e-3)
    off = {**ends, "final": ([*end, 0.7], [*ahead, 1.0])}
    other = da.solve(whole, **off, T=1.0, steps=40, guess=np.column_stack([guess, 0.5 * guess[:, 0] ** 2]), throw=False)
    assert other.outcome is da.Outcome.INFEASIBLE


def test_leaves_by_closed_forms():
    points = np.array([[0.1, 0.2, 0.3, 0.4, 0.0], [0.5, 0.1, -0.3, 0.2, 0.7]])
    rows = leaf_forms(MIXED, points[0], np.ones(5))(points)
    np.testing.assert_allclose(rows / rows[:, :, 3:4], [[[-x, 0.0, 0.0, 1.0, 0.0]] for x in (0.1, 0.5)], rtol=0, atol=1e-7)
    moving = da.System(
        lambda q, v, t: 0.5 * v @ v,
        da.Nonholonomic(lambda q, v, t: v[1] - t * v[0] - q[0] + 3 * jnp.cos(t)),
        time_dependent=True,
    )  # d(y - t x + 3 sin t)
    rows = leaf_forms(moving, np.array([0.4, 0.1, 0.2]), np.ones(3))(np.array([[0.7, 0.3, 0.9]]))
    np.testing.assert_allclose(rows, [[[-0.9, 1.0, 3 * np.cos(0.9) - 0.7]]], rtol=0, atol=1e-9)


@pytest.mark.parametrize("system", [
    da.System(kinetic, da.Nonholonomic(blade)), da.System(kinetic, da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0])),
    da.System(kinetic, da.Nonholonomic(lambda q, v: jnp.stack([v[2] - q[1] * v[0], v[1] - q[3] * v[0]]))),
    da.System(kinetic, da.Nonholonomic(lambda q, v: v[2] - q[1] ** 2 * v[0])),
    da.System(kinetic, da.Nonholonomic(lambda q, v: v @ v - 1.0)), da.System(kinetic),
])  # fmt: skip
def test_what_keeps_no_function(system):
    """Knife edge, Heisenberg, Engel (whose derived system is not integrable), Martinet (flat at y = 0), nonlinear, none."""
    for q in (np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.1, 0.0, 0.3, 0.4])):
        assert leaf_forms(system, np.append(q, 0.0), np.ones(5)) is None


@pytest.mark.parametrize("reach", [1.0, 1e-3, 1e-6])
def test_small_ways_of_one_coordinate_keep_no_function(reach):
    """A knife edge whose ends have nearly the same angle: in sizes of the way the curvature is as small as the angle's."""
    edge = da.System(kinetic, da.Nonholonomic(blade))
    assert leaf_forms(edge, np.array([0.1, 0.2, 0.3, 0.0]), np.array([1.0, 1.0, reach, 1.0])) is None
    assert leaf_forms(BEAD, np.zeros(3), reach * np.ones(3)) is not None
