"""Plants whose constraints on velocities keep a function of position: against Holonomic, and closed forms."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.systems.distribution.leaves import along_leaf, leaves_of


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
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 2.0, atol=0.1)
    held = float(da.solve(control(HELD), **ENDS, steps=80).cost)
    assert costs[2] == pytest.approx(held, rel=1e-4)
    found = da.solve(control(BEAD), **ENDS, steps=80)
    assert found.kind == "minimum"
    assert float(found.statistics.condition) < 1e6
    assert abs(found.q[-1, 1] - np.sin(0.1)) < 1e-3  # the discrete leaf differs by O(h²)


def test_other_leaves_are_named():
    final = ([0.1, 0.5], on_curve(0.1, 2.0)[1])
    with pytest.raises(da.InconsistentDataError, match=r"final: no motion of the plant leads there.*found 0\.5"):
        da.solve(control(BEAD), **{**ENDS, "final": final}, steps=20)
    with pytest.raises(da.InconsistentDataError, match=r"through: the point at t = 0\.5"):
        da.solve(control(BEAD), **ENDS, through={0.5: [0.05, 0.2]}, steps=20)
    given = {name: ENDS[name] for name in ("initial", "final")}
    fine = da.refine(control(BEAD), da.solve(control(BEAD), **ENDS, steps=20), **given, tolerance=1e-3)
    assert float(fine.cost) == pytest.approx(41.457, rel=2e-3)


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
    with pytest.raises(da.InconsistentDataError, match="no motion of the plant"):
        da.solve(whole, **{**ends, "final": ([*end, 0.7], [*ahead, 1.0])}, T=1.0, steps=40)


def test_leaves_by_closed_forms():
    size = np.ones(4)
    found = leaves_of(MIXED, np.array([0.1, 0.2, 0.3, 0.4]), 0.0, size)
    assert found.dependent == (3,)
    np.testing.assert_allclose(found.form(np.array([0.5, 0.1, -0.3, 0.2, 0.0])), [[-0.5, 0.0, 0.0, 1.0, 0.0]], atol=1e-7)
    end = along_leaf(found, np.array([0.1, 0.2, 0.3, 0.4, 0.0]), np.array([0.9, -0.5, 1.3, 9.0, 1.0]), size)
    np.testing.assert_allclose(end, [0.4 + 0.5 * (0.81 - 0.01)], atol=1e-7)
    moving = da.System(
        lambda q, v, t: 0.5 * v @ v,
        da.Nonholonomic(lambda q, v, t: v[1] - t * v[0] - q[0] + 3 * jnp.cos(t)),
        time_dependent=True,
    )  # d(y - t x + 3 sin t)
    at = leaves_of(moving, np.array([0.4, 0.1]), 0.2, size[:2])
    end = along_leaf(at, np.array([0.4, 0.1, 0.2]), np.array([0.7, 0.0, 0.9]), size[:2])
    level = lambda x, y, t: y - t * x + 3 * np.sin(t)  # noqa: E731
    place = {at.dependent[0]: end[0]}
    assert level(place.get(0, 0.7), place.get(1, 0.0), 0.9) == pytest.approx(level(0.4, 0.1, 0.2), abs=1e-7)


@pytest.mark.parametrize("system", [
    da.System(kinetic, da.Nonholonomic(blade)), da.System(kinetic, da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0])),
    da.System(kinetic, da.Nonholonomic(lambda q, v: jnp.stack([v[2] - q[1] * v[0], v[1] - q[3] * v[0]]))),
    da.System(kinetic, da.Nonholonomic(lambda q, v: v @ v - 1.0)), da.System(kinetic), HELD,
])  # fmt: skip
def test_what_keeps_no_function(system):
    """Knife edge, Heisenberg, Engel (whose derived system is not integrable), nonlinear, and none at all."""
    n = 2 if system is HELD else 4
    assert leaves_of(system, np.array([0.1, 0.2, 0.3, 0.4])[:n], 0.0, np.ones(n)) is None


@pytest.mark.parametrize("reach", [1.0, 1e-3, 1e-6])
def test_small_ways_of_one_coordinate_keep_no_function(reach):
    """A knife edge whose ends have nearly the same angle: in sizes of the way the curvature is as small as the angle's."""
    edge = da.System(kinetic, da.Nonholonomic(blade))
    assert leaves_of(edge, np.array([0.1, 0.2, 0.3]), 0.0, np.array([1.0, 1.0, reach])) is None
    assert leaves_of(BEAD, np.zeros(2), 0.0, reach * np.ones(2)) is not None
