"""Remark 3.4 of Borda, Fernández, Grillo: the projection of D_d to its first factor is a submersion at the start."""

import jax.numpy as jnp
import pytest

import dalembert as da


def action(q0, q1):
    return 0.5 * (q1 - q0) @ (q1 - q0)


def roll(q0, q1):
    """z moves with y dx: solvable for q₁ near every q₀."""
    return (q1 - q0)[2] - 0.5 * (q0 + q1)[1] * (q1 - q0)[0]


def squared(q0, q1):
    """The same set where it is passed, with a derivative by q₁ that vanishes on it."""
    return roll(q0, q1) ** 2


def forces(q):
    return jnp.array([-q[1], 0.0, 1.0])


NODES = [[0.0, 0.0, 0.0], [0.1, 0.2, 0.01]]


def test_pairs_that_start_nowhere_nearby_are_refused():
    bad = da.DiscreteSystem(
        action,
        lambda a, b, c: roll(b, c),
        reactions=lambda a, b, c: forces(b),
        initial=lambda a, b: jnp.stack([a[0], squared(a, b)]),
    )
    with pytest.raises(da.RankDeficientError, match=r"initial: of its equations, 1 read q1 and have rank 0 .*\[1\]"):
        da.simulate(bad, start=da.Start(nodes=NODES), steps=3)


def test_a_leaf_is_no_obstacle():
    """D_d = N × N: the equation of q₀ alone restricts to the leaf, on which the projection is a submersion."""
    sphere = da.DiscreteSystem.holonomic(action, lambda q: q @ q - 1.0)
    nodes = [[1.0, 0.0, 0.0], [jnp.cos(0.1), jnp.sin(0.1), 0.0]]
    assert da.simulate(sphere, start=da.Start(nodes=nodes), steps=3).outcome is da.Outcome.SUCCESS
