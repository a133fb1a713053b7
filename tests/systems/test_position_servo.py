"""Holonomic constraints kept by forces of given directions: against a closed form, and the constraint differentiated."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import dalembert as da


def rail(q):
    return q[1] - 0.5 * jnp.sin(q[0])


def along(q):
    return jnp.array([1.0, 1.0])


PULLED = da.System(lambda q, v: 0.5 * v @ v, da.Holonomic(rail, reactions=along))
AT, SPEED = [0.4, 0.5 * np.sin(0.4)], [0.7, 0.35 * np.cos(0.4)]


# A mass that grows with y, a potential, and a force whose direction turns along the rail.
def heavy(q, v):
    return 0.5 * (1.0 + 0.3 * q[1] ** 2) * v @ v + 0.2 * v[0] * v[1] - q[1] - 0.5 * q[0] ** 2


def push(q):
    return jnp.array([0.5 + 0.1 * q[1], 1.0 + 0.2 * q[0]])


HELD = da.System(heavy, da.Holonomic(rail, reactions=push))
TWICE = da.System(
    heavy,
    da.SecondOrder(
        lambda q, v, a: a[1] - 0.5 * jnp.cos(q[0]) * a[0] + 0.5 * jnp.sin(q[0]) * v[0] ** 2,
        reactions=lambda q, v, a: push(q),
    ),
)
START = AT, SPEED


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_a_closed_form(backend):
    """The force (λ, λ) leaves ẋ - ẏ constant, so x - ½ sin x is linear in t, for the scheme too; and φ = 0 at every node."""
    path = da.simulate(PULLED, AT, SPEED, h=0.1, steps=40, solver=da.Solver(backend=backend))
    rate = SPEED[0] - SPEED[1]
    free = lambda x: x - 0.5 * np.sin(x)  # noqa: E731
    exact = [brentq(lambda x, t=t: free(x) - free(AT[0]) - rate * t, -10.0, 10.0, xtol=1e-14) for t in path.t]
    np.testing.assert_allclose(path.q[:, 0], exact, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.q[:, 1], 0.5 * np.sin(exact), rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.constraint_forces[:, 0], path.multipliers[:, 0], rtol=0, atol=0)
    a = da.acceleration(PULLED, AT, SPEED)[1]  # λ = ẍ = f″ẋ²/(1 - f′)
    assert float(a[0]) == pytest.approx(-0.5 * np.sin(0.4) * 0.49 / (1.0 - 0.5 * np.cos(0.4)), abs=1e-13)


def test_order_two_and_four_against_the_constraint_differentiated_twice():
    truth = da.reference(TWICE, *START, [0.0, 1.0])
    for order in (2, 4):
        errors = {"q": [], "λ": []}
        for n in (10, 20):
            path = da.simulate(HELD, *START, h=1.0 / n, steps=n, scheme=da.Scheme(order=order))
            errors["q"].append(abs(path.q[-1] - truth.q[-1]).max())
            if order == 4:
                errors["λ"].append(abs(path.multipliers[-1] - truth.multipliers[-1]).max())
            assert abs(path.q[:, 1] - 0.5 * np.sin(path.q[:, 0])).max() < 1e-12
            assert abs(path.v[:, 1] - 0.5 * np.cos(path.q[:, 0]) * path.v[:, 0]).max() < 1e-11
        for name, (first, second) in ((name, e) for name, e in errors.items() if e):
            assert order - 0.25 < np.log2(first / second) < order + 0.4, (order, name, errors)


def test_multipliers_have_order_two_at_the_middle_of_the_steps():
    middle, errors = 0.55, []
    for n in (10, 30):
        path = da.simulate(HELD, *START, h=1.0 / n, steps=n)
        k = int(np.argmin(abs(path.t_multipliers - middle)))
        truth = da.reference(TWICE, *START, [0.0, middle]).multipliers[-1]
        errors.append(abs(path.multipliers[k] - truth).max())
    assert 1.7 < np.log(errors[0] / errors[1]) / np.log(3.0) < 2.3


def test_its_control_law():
    """The multipliers of the second-order constraint as a function of the state, and the plant without the constraint."""
    law = da.control_law(HELD)
    np.testing.assert_allclose(law(*START), da.acceleration(TWICE, *START)[1], rtol=0, atol=1e-12)
    assert law.plant.constraints == ()


def test_bad_directions_are_named():
    tangent = lambda q: jnp.array([1.0, 0.5 * jnp.cos(q[0])])  # noqa: E731
    with pytest.raises(da.RankDeficientError, match="reactions: the constraint forces cannot enforce the constraints"):
        da.simulate(da.System(PULLED.lagrangian, da.Holonomic(rail, reactions=tangent)), AT, SPEED, h=0.1, steps=1)
    with pytest.raises(ValueError, match=r"constraints\[0\] \(Holonomic\) reactions: returns shape \(3,\)"):
        da.simulate(
            da.System(PULLED.lagrangian, da.Holonomic(rail, reactions=lambda q: jnp.ones(3))), AT, SPEED, h=0.1, steps=1
        )
    with pytest.raises(ValueError, match="constraints: item 0 brings reactions"):
        da.VariationalProblem(lambda q, v: 0.5 * v @ v, da.Holonomic(rail, reactions=along))
