"""Mistakes are named, infeasible problems come back as such, poor guesses are survived."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.options import PLACES, group_options

REST = {"initial": ([0.0, 0.0], [0.0, 0.0]), "final": ([1.0, 1.0], [0.0, 0.0]), "T": 1.0, "steps": 10}


def free(q, v, a):
    return 0.5 * a @ a


FREE = da.VariationalProblem(free, derivatives=2)
SPEED = da.VariationalProblem(free, da.Nonholonomic(lambda q, v: v @ v - 1.0), derivatives=2)
CIRCLE = da.VariationalProblem(free, da.Holonomic(lambda q: q @ q - 1.0), derivatives=2)


@pytest.mark.parametrize(
    ("problem", "changes", "error", "message"),
    [
        (FREE, {"steps": 4}, ValueError, "steps: found N = 4; N > 2k = 4"),
        (FREE, {"initial": ([0.0, 0.0],) * 3}, ValueError, "initial: found 3 arrays"),
        (FREE, {"initial": da.Nodes([[0.0, 0.0]])}, ValueError, "initial: found nodes of shape"),
        (FREE, {"initial": ([0.0, np.nan],)}, ValueError, "initial[0]: found nan at index 1"),
        (FREE, {"initial": [0.0, 0.0, 0.0]}, ValueError, "initial: found a number where an array (n,) belongs"),
        (FREE, {"final": ([1.0],)}, ValueError, "final: found 1 numbers"),
        (FREE, {"through": {0.55: [0.0, 0.0]}}, ValueError, "through: the time 0.55 is not the time of a node"),
        (FREE, {"through": [0.5]}, TypeError, "through: found list"),
        (FREE, {"T": -1.0}, ValueError, "T: found -1.0"),
        (FREE, {"times": [0.0, 1.0]}, ValueError, "times: found with T or steps"),
        (FREE, {"guess": np.zeros((3, 2))}, ValueError, "guess: found shape"),
        (FREE, {"seek": "maximum"}, ValueError, "seek: found 'maximum'"),
        (FREE, {"tolerance": 0.0}, ValueError, "tolerance: found 0.0"),
        (FREE, {"scheme": da.Points()}, ValueError, "needs Nodes at both ends"),
        (SPEED, {}, da.InconsistentDataError, "initial: constraint 0"),
        (CIRCLE, {}, ValueError, "initial: φ"),
        (CIRCLE, {"initial": ([1.0, 0.0], [1.0, 0.0])}, ValueError, "initial: dφ/dt"),
    ],
)  # fmt: skip
def test_mistakes_are_named(problem, changes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        da.solve(problem, **group_options(REST | changes, PLACES))


@pytest.mark.parametrize(
    ("lagrangian", "constraints", "error", "message"),
    [
        (lambda q, v, a: 0.5 * v @ v, (), ValueError, "lagrangian: is singular"),
        (lambda q, v, a: a[0] ** 2 + v[1] ** 2, (), ValueError, r"derivative of q\[1\]"),
        (free, lambda q, v, a: jnp.array([a[0] - v[1], 2 * a[0] - 2 * v[1]]), ValueError, "component 1 is redundant"),
        (free, [lambda q, v, a: a[0] - v[1], lambda q, v, a: a[0] - v[1] - 1], ValueError, "component 1 contradicts"),
        (free, lambda q, v, a: jnp.zeros(()) * q[0] + 1.0, ValueError, "component 0 depends on nothing"),
        (free, lambda q, v, a: jnp.array([a[0], a[1], v[0] - q[1]]), ValueError, "3 with derivatives and 0 holonomic"),
    ],
)
def test_unsuitable_problems_are_named(lagrangian, constraints, error, message):
    with pytest.raises(error, match=message):
        da.solve(da.VariationalProblem(lagrangian, constraints, derivatives=2), **REST)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (
            [da.Holonomic(lambda q: q[0] - q[1]), da.Holonomic(lambda q: q[0] - q[1] - 1.0)],
            "holonomic ones.: component 1 contra",
        ),
        (da.Holonomic(lambda q: jnp.array([q[0] - q[1], 2 * q[0] - 2 * q[1]])), "holonomic ones.: component 1 is redundant"),
        (
            [da.Holonomic(lambda q: q @ q - 1), da.Nonholonomic(lambda q, v: q @ v)],
            "not holonomic.: component 0 is redundant",
        ),
        (
            [da.Holonomic(lambda q: q @ q - 1), da.Nonholonomic(lambda q, v: q @ v - 1)],
            "component 0 contradicts the holonomic",
        ),
    ],
)
def test_constraints_that_depend_on_each_other_are_named_whatever_the_ends(constraints, message):
    """Free ends, so that nothing but the constraints themselves is wrong; a third coordinate leaves room for them."""
    problem = da.VariationalProblem(free, constraints, derivatives=2)
    with pytest.raises(da.RankDeficientError, match=message):
        da.solve(problem, guess=np.linspace(0.4, 1.0, 11)[:, None] * np.ones(3), T=1.0, steps=10)


def test_a_system_is_no_variational_problem():
    with pytest.raises(TypeError, match="problem: found System"):
        da.solve(da.System(lambda q, v: 0.5 * v @ v), **REST)


def test_arguments_of_a_problem_are_checked():
    with pytest.raises(ValueError, match="derivatives: found 5"):
        da.VariationalProblem(free, derivatives=5)
    with pytest.raises(ValueError, match="item 0 brings reactions"):
        da.VariationalProblem(free, da.Nonholonomic(lambda q, v: v[0], reactions=lambda q, v: v), derivatives=2)
    with pytest.raises(ValueError, match="item 0 reads 2 derivatives"):
        da.VariationalProblem(lambda q, v: v @ v, da.SecondOrder(lambda q, v, a: a[0]))


def test_infeasible_ends_return_the_path_of_least_violation():
    """A curve of unit speed cannot go three units in time 1."""
    ends = {"initial": ([0.0, 0.0], [1.0, 0.0]), "final": ([3.0, 0.0], [1.0, 0.0]), "T": 1.0, "steps": 16}
    with pytest.raises(da.SolveError, match="infeasible") as caught:
        da.solve(SPEED, **ends)
    found = caught.value.solution
    assert found.kind == "least violation"
    speed = np.linalg.norm(np.asarray(found.jets[:, 1]), axis=1)
    # Least Σ h (|v|² - 1)² with ∫v given: the same speed almost everywhere.
    assert np.median(speed) == pytest.approx(3.0, rel=0.05)


def test_lagrangian_that_is_not_finite():
    problem = da.VariationalProblem(lambda q, v: 0.5 * v @ v + jnp.log(q[0]))
    found = da.solve(problem, initial=([-1.0],), final=([1.0],), T=1.0, steps=8, throw=False)
    assert found.outcome is da.Outcome.NOT_FINITE
    assert "guess inside its domain" in found.describe()


def force(q, v, a):
    return (1.3 * a[0] + 0.15 * (a[1] * jnp.cos(q[1]) - v[1] ** 2 * jnp.sin(q[1]))) ** 2


def pole(q, v, a):
    return 0.5 * a[1] + a[0] * jnp.cos(q[1]) + 9.81 * jnp.sin(q[1])


SWING_UP = {"initial": ([0.0, 0.0], [0.0, 0.0]), "final": ([1.0, np.pi], [0.0, 0.0]), "T": 2.0, "steps": 40}


def test_multistart_finds_a_cheaper_swing_up():
    """The extremal near the straight line costs 58.81 in the limit of fine meshes; it is a local minimum only."""
    problem = da.VariationalProblem(force, pole, derivatives=2)
    line = da.solve(problem, **SWING_UP)
    found = da.multistart(problem, 24, spread=0.7, seed=1, **SWING_UP)
    assert line.kind == "minimum"
    assert 57.0 < float(line.action) < 59.0
    assert float(found.solutions[0].action) < float(line.action) - 0.5
    assert all(s.kind == "minimum" for s in found.solutions)
    assert sum(found.hits) + found.failed == 24
    assert found.failed <= 2


def test_batch_agrees_with_single_problems():
    problem = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + jnp.sin(q[0]) * q[1], derivatives=2)
    starts = np.array([[0.0, 0.0], [0.3, -0.2], [1.0, 0.5]])
    ends = {"final": (np.ones((3, 2)),), "T": 1.0, "steps": 12}
    batch = da.solve_batch(problem, initial=(starts, 0.1 * starts), through={0.5: 0.5 * starts}, **ends)
    for i, one in enumerate(batch):
        alone = da.solve(
            problem,
            initial=(starts[i], 0.1 * starts[i]),
            through={0.5: 0.5 * starts[i]},
            final=([1.0, 1.0],),
            T=1.0,
            steps=12,
        )
        assert np.max(np.abs(one.q - alone.q)) < 1e-12
    with pytest.raises(ValueError, match="leading axes"):
        da.solve_batch(problem, initial=(starts, starts), final=(np.ones((2, 2)),), T=1.0, steps=12)
