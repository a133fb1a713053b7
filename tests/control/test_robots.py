"""Robots that no gallery has, from poor guesses: the kind of the extremal, where it begins, and what is no success."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.outcome import Outcome

T, STEPS = 1.5, 40
BEGIN, END = np.array([0.5, 0.3]), np.array([2.0, -1.0])


def points(q, v):
    """Two links of length 1 with masses 1 at their ends; gravity along -y, angles from the x axis."""
    a, b, turning = q[0], q[0] + q[1], v[0] + v[1]
    elbow = v[0] * jnp.array([-jnp.sin(a), jnp.cos(a)])
    hand = elbow + turning * jnp.array([-jnp.sin(b), jnp.cos(b)])
    return 0.5 * elbow @ elbow + 0.5 * hand @ hand - 9.81 * (2.0 * jnp.sin(a) + jnp.sin(b))


def rods(q, v):
    """Two uniform rods of mass and length 1, hanging; angles from below."""
    a, b, turning = q[0], q[0] + q[1], v[0] + v[1]
    elbow = v[0] * jnp.array([jnp.cos(a), jnp.sin(a)])
    middle = elbow + 0.5 * turning * jnp.array([jnp.cos(b), jnp.sin(b)])
    kinetic = v[0] ** 2 / 6.0 + 0.5 * middle @ middle + turning**2 / 24.0
    return kinetic + 9.81 * (1.5 * jnp.cos(a) + 0.5 * jnp.cos(b))


def drone(q, v):
    return 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.005 * v[2] ** 2 - 9.81 * q[1]


def effort(q, v, u):
    return u @ u


def smooth_path():
    s = np.linspace(0.0, 1.0, STEPS + 1)[:, None]
    return BEGIN + (END - BEGIN) * (10.0 * s**3 - 15.0 * s**4 + 6.0 * s**5)


def inverse_dynamics(lagrangian, q):
    v = np.gradient(q, T / STEPS, axis=0, edge_order=2)
    a = np.gradient(v, T / STEPS, axis=0, edge_order=2)

    def force(q, v, a):
        momentum = jax.grad(lagrangian, 1)
        turned = jax.jvp(lambda x, w: momentum(x, w), (q, v), (v, a))[1]
        return turned - jax.grad(lagrangian)(q, v)

    return np.asarray(jax.vmap(force)(q, v, a))


def arm(lagrangian, **options):
    problem = da.OptimalControl(da.System(lagrangian, coordinates=("a", "b")), cost=effort, actuated=("a", "b"))
    ends = {"initial": (BEGIN, [0.0, 0.0]), "final": (END, [0.0, 0.0]), "T": T, "steps": STEPS}
    return da.solve(problem, **ends, **options)


@pytest.mark.parametrize("bound", [None, 200.0])
def test_a_guess_that_is_nearly_a_motion_is_improved(bound):
    """The smooth path with its torques costs 407. Of the minima that are known the cheapest costs 62.6; from a straight line
    IPOPT finds 66.9."""
    q = smooth_path()
    guess = q, inverse_dynamics(rods, q)
    found = arm(rods, guess=guess, bounds=None if bound is None else {"u": (-bound, bound)})
    assert found.kind == "minimum"
    assert float(found.cost) < 70.0
    assert int(found.statistics.iterations) < 100  # 228 and a cost of 459 without multipliers and controls to begin with


def test_a_saddle_is_left_for_something_cheaper():
    """From the cubic the symmetric motion of the arm, a critical point of cost 644, is reached in a few Newton steps."""
    saddle = arm(points, seek="extremal")
    assert saddle.kind.startswith("saddle")
    assert float(saddle.cost) == pytest.approx(644.04, rel=1e-3)
    assert saddle.outcome is Outcome.SUCCESS  # any extremal was asked for
    beside = arm(points, guess=dataclasses.replace(saddle))
    assert beside.kind == "minimum"
    assert float(beside.cost) < 0.9 * float(saddle.cost)


def test_a_straight_guess_that_leads_nowhere_is_bent():
    """A unicycle parks 1.5 m to its side: on the straight way its wheel would slip all the time."""
    rolls = da.Nonholonomic(lambda q, v: jnp.stack([jnp.cos(q[2]) * v[1] - jnp.sin(q[2]) * v[0]]))
    plant = da.System(lambda q, v: v[0] ** 2 + v[1] ** 2 + 0.05 * v[2] ** 2, rolls)
    push = da.OptimalControl(
        plant, cost=effort, actuated=lambda q: jnp.array([[jnp.cos(q[2]), 0.0], [jnp.sin(q[2]), 0.0], [0.0, 1.0]])
    )
    rest, end = np.zeros(3), np.array([0.0, 1.5, 0.0])
    line = np.linspace(0.0, 1.0, STEPS + 1)[:, None] * end
    asked = {"initial": (rest, rest), "final": (end, rest), "T": 3.0, "steps": STEPS}
    asked["bounds"] = {"u": ((-2.0, -0.8), (2.0, 0.8))}
    found = da.solve(push, **asked, guess=line)
    assert found.kind == "minimum"
    assert float(found.cost) == pytest.approx(float(da.solve(push, **asked).cost), rel=1e-6)


def hill(q):
    return 6.0 * jnp.exp(-2.0 * q @ q)


def test_a_saddle_of_a_variational_problem_is_left_on_one_side():
    """The straight way leads over the top of a hill; on either side of it ∫½v² + V is smaller."""
    way = da.VariationalProblem(lambda q, v: 0.5 * v @ v + hill(q))
    ends = {"initial": ([-1.0, 0.0],), "final": ([1.0, 0.0],), "T": 1.0, "steps": 40}
    over = da.solve(way, **ends, seek="extremal")
    assert over.kind.startswith("saddle")
    assert np.abs(over.q[:, 1]).max() < 1e-9
    beside = da.solve(way, **ends)
    assert (beside.outcome, beside.kind) == (Outcome.SUCCESS, "minimum")
    assert float(beside.action) < 0.96 * float(over.action)
    assert np.abs(beside.q[:, 1]).max() > 0.3


def test_entries_of_a_batch_leave_saddles_and_all_searches_are_counted():
    push = da.OptimalControl(
        da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u + 200.0 * hill(q), actuated=(0, 1)
    )
    rest, begin, end = np.zeros((2, 2)), np.array([[-1.0, 0.0], [-1.0, 0.5]]), np.array([[1.0, 0.0], [1.0, 0.5]])
    found = da.solve_batch(push, initial=(begin, rest), final=(end, rest), T=1.0, steps=40, certify=True)
    assert [s.kind for s in found] == ["minimum", "minimum"]
    one = {"initial": (begin[0], rest[0]), "final": (end[0], rest[0]), "T": 1.0, "steps": 40}
    over, beside = da.solve(push, **one, seek="extremal"), da.solve(push, **one)
    assert over.kind.startswith("saddle")
    assert beside.kind == "minimum"
    assert float(beside.cost) < float(over.cost)
    assert float(beside.cost) == pytest.approx(float(found[0].cost), rel=1e-9)
    assert int(beside.statistics.iterations) > int(over.statistics.iterations)


def test_a_saddle_without_anything_beside_it_is_no_success():
    """∫½(v² - q²) over more than half a period has no minimum: the only extremal is a saddle."""
    oscillator = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    ends = {"initial": ([0.1],), "final": ([0.2],), "T": 4.0, "steps": 40}
    any_kind = da.solve(oscillator, **ends, seek="extremal")
    assert any_kind.kind == "saddle, 1 negative direction"
    found = da.solve(oscillator, **ends, guess=any_kind, throw=False)
    assert found.outcome is not Outcome.SUCCESS


def test_a_drone_hovers_at_first():
    """Two thrusts carry the weight from the beginning, so that a move aside is found in a few steps."""
    drives = lambda q: jnp.array([[-jnp.sin(q[2])] * 2, [jnp.cos(q[2])] * 2, [0.1, -0.1]])  # noqa: E731
    excess = lambda q, v, u: ((u - 9.81 / 2.0) ** 2).sum()  # noqa: E731
    problem = da.OptimalControl(da.System(drone, coordinates=("x", "y", "angle")), cost=excess, actuated=drives)
    rest = [0.0, 0.0, 0.0]
    for steps in (40, 100):
        found = da.solve(problem, initial=(rest, rest), final=([3.0, 1.0, 0.0], rest), T=2.5, steps=steps)
        assert found.kind == "minimum"
        assert int(found.statistics.iterations) <= 20
        turned = found.u.sum(axis=1) * np.cos(found.q[:, 2])
        assert np.mean(turned) == pytest.approx(9.81, rel=1e-2)  # from rest to rest at the same height but for 1 m


def test_a_cart_that_rests_at_both_ends_moves_between_them():
    """Sizes follow from inertia: the swing-up of a pole on a cart that returns, or ends 1e-6 off."""
    pole = lambda q, v: (  # noqa: E731
        0.5 * v[0] ** 2
        + 0.15 * (v[0] ** 2 + 0.25 * v[1] ** 2 + v[0] * v[1] * jnp.cos(q[1]))
        + 0.3 * 9.81 * 0.5 * jnp.cos(q[1])
    )
    problem = da.OptimalControl(da.System(pole, coordinates=("x", "angle")), cost=effort, actuated="x")
    costs = []
    for place in (0.0, 1e-6):
        found = da.solve(problem, initial=([0.0, 0.0], [0.0, 0.0]), final=([place, np.pi], [0.0, 0.0]), T=2.0, steps=60)
        assert found.kind == "minimum"
        costs.append(float(found.cost))
    assert costs[1] == pytest.approx(costs[0], rel=1e-4)
