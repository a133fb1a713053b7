"""Holonomic and differential constraints together: a knife edge on a sphere, vakonomic, against the stacked equations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import dalembert as da

STEPS, h = 6, 1 / 6


def lagrangian(q, v):
    return 0.5 * v @ v - 0.5 * q[2] * jnp.sin(q[0]) + 0.1 * q[1]


def on_sphere(q):
    """A place x and a direction d = (q₃, q₄, q₅): |x| = |d| = 1, x·d = 0."""
    return jnp.array([q[:3] @ q[:3] - 1, q[3:] @ q[3:] - 1, q[:3] @ q[3:]])


def knife(q, v):
    """No motion across the edge: ẋ·(x × d) = 0."""
    return v[:3] @ jnp.cross(q[:3], q[3:])


@pytest.fixture(scope="module")
def problem():
    return da.VariationalProblem(lagrangian, [da.Holonomic(on_sphere), da.Nonholonomic(knife)])


@pytest.fixture(scope="module")
def turn(problem):
    angle = np.linspace(0.0, np.pi / 2, STEPS + 1)
    c, s = np.cos(angle), np.sin(angle)
    guess = np.stack([c, s, 0 * c, -s * c, c * c, s], axis=1)
    return da.solve(problem, initial=(guess[0],), final=(guess[-1],), T=1.0, steps=STEPS, guess=guess)


def test_a_knife_edge_on_a_sphere_satisfies_the_stacked_equations(turn):
    ends, free = np.asarray(turn.q)[[0, -1]], 6 * (STEPS - 1)

    def augmented(x, edge, place):
        q = jnp.concatenate([ends[:1], x.reshape(-1, 6), ends[1:]])
        middle, v = 0.5 * (q[1:] + q[:-1]), jnp.diff(q, axis=0) / h
        one = lambda y, u, l: h * (lagrangian(y, u) + l * knife(y, u))  # noqa: E731
        return jnp.sum(jax.vmap(one)(middle, v, edge)) + h * jnp.sum(place * jax.vmap(on_sphere)(q[1:-1]))

    split = lambda z: (z[:free], z[free : free + STEPS], z[free + STEPS :].reshape(-1, 3))  # noqa: E731
    equations = jax.jit(jax.grad(lambda z: augmented(*split(z))))
    matrix = jax.jit(jax.hessian(lambda z: augmented(*split(z))))
    start = np.zeros(free + STEPS + 3 * (STEPS - 1))
    start[:free] = np.asarray(turn.q)[1:-1].ravel() + 1e-3 * np.random.default_rng(0).standard_normal(free)
    found = least_squares(
        lambda z: np.asarray(equations(z)), start, lambda z: np.asarray(matrix(z)), xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    assert np.abs(found.fun).max() < 1e-13
    x, edge, place = split(found.x)
    np.testing.assert_allclose(turn.q[1:-1], x.reshape(-1, 6), rtol=0, atol=1e-13)
    np.testing.assert_allclose(turn.multipliers[:, 0], edge, rtol=0, atol=1e-12)
    np.testing.assert_allclose(turn.holonomic_multipliers[1:-1], place, rtol=0, atol=1e-12)
    assert np.abs(edge).min() > 1.0
    assert np.abs(place).min() > 0.1


def test_the_flow_follows_the_same_path_and_says_which_multipliers_it_has(problem, turn):
    path = da.simulate(problem, start=da.Start(nodes=turn.q[:2], multipliers=turn.multipliers[:1]), h=h, steps=STEPS)
    np.testing.assert_allclose(path.q, turn.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.multipliers, turn.multipliers[1:], rtol=0, atol=1e-11)
    assert np.isnan(path.constraint_forces).all()
    ends = {"initial": da.Nodes(path.q[:1]), "final": da.Nodes(path.q[-1:])}
    again = da.solve(problem, **ends, T=1.0, steps=STEPS, guess=path.q, seek="extremal")
    np.testing.assert_allclose(again.holonomic_multipliers, turn.holonomic_multipliers, rtol=0, atol=1e-10)
