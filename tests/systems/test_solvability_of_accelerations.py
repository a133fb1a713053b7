"""Constraints on accelerations judged at their root, and regular solution sets: known answers, and planted failures."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da


def kinetic(q, v):
    return 0.5 * v @ v


def servo(phi, **reactions) -> da.System:
    return da.System(kinetic, da.SecondOrder(phi, **reactions))


def test_a_nonlinear_constraint_with_reactions_that_depend_on_the_acceleration():
    """a = (1, 0), λ = 1 is a root for every k. There a₁ - λka₁ has the slope 1 - k; m alone calls all of them regular."""
    pushed = da.System(
        lambda q, v, p: kinetic(q, v),
        da.SecondOrder(lambda q, v, a, p: a[0] ** 3 - 1.0, reactions=lambda q, v, a, p: jnp.array([1.0, p["k"] * a[1]])),
        parameters={"k": 0.5},
    )
    for k in (0.5, 3.0):
        found = da.solvability(pushed.replace(k=k), [0.1, 0.2], [0.3, 0.4])
        whole = np.array([[1.0, 0.0, -1.0], [0.0, 1.0 - k, 0.0], [3.0, 0.0, 0.0]])  # of (a, λ) at that root
        assert found.solvable
        assert np.linalg.matrix_rank(whole) == 3
        assert found.free_motion == pytest.approx(abs(1.0 - k), rel=1e-6)
        assert found.frobenius is None
    assert not da.solvability(pushed.replace(k=1.0), [0.1, 0.2], [0.3, 0.4]).solvable


def test_what_fails_is_named():
    say = lambda phi, q=0.0, **given: str(da.solvability(servo(phi, **given), [q, 0.0], [0.2, 0.1]))  # noqa: E731
    assert "not solvable: no acceleration\n" in say(lambda q, v, a: a[0] ** 2 + 1.0)
    turning = say(lambda q, v, a: jnp.sin(q[0]) * a[0] - 1.0)
    assert "dependent constraints" in turning
    assert "∂φ/∂a has rank 0 of 1" in turning
    assert "but 1 at nearby points" in turning
    powerless = say(lambda q, v, a: a[0] - 1.0, reactions=lambda q, v, a: jnp.array([0.0, 1.0]))
    assert "singular equations" in powerless
    assert "a force along R must change" in powerless


def test_orders_combined_and_a_lyapunov_constraint():
    """The manifold is that of what restricts (q, v); the servo is on it. The control of a Lyapunov constraint is a force."""
    both = da.System(
        kinetic, [da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0]), da.SecondOrder(lambda q, v, a: a[1] + q[1])]
    )
    found = da.solvability(both, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0])
    assert found.solvable
    assert (found.wanted, found.rank, found.dimension, found.frobenius.reached) == (2, 2, 5, 4)
    damped = da.System(kinetic, da.Lyapunov(lambda q, v: 0.5 * v @ v, lambda q, v: v @ v, actuated=0))  # λ = -v
    found = da.solvability(damped, [0.5], [0.2])
    assert found.solvable
    assert (found.wanted, found.dimension) == (0, 2)


@pytest.mark.parametrize(
    ("phi", "q", "v", "dimension", "solvable"),
    [
        (lambda q, v: 0.5 * v[0] ** 2 - q[0], [0.0, 0.0], [0.0, 1.0], 3, False),  # ∂φ/∂v = 0 and ∂φ/∂q = -1
        (lambda q, v: 0.5 * v[0] ** 2 - q[0], [0.5, 0.0], [1.0, 1.0], 3, True),
        (lambda q, v: v[0] ** 2 - v[1] ** 2, [0.0, 0.0], [0.0, 0.0], None, False),  # the vertex of a cone
        (lambda q, v: v[0] - q[1], [0.0, 1.0], [0.5, 0.0], None, True),  # a regular set, which the data are not on
    ],
    ids=["fold", "beside the fold", "vertex", "elsewhere"],
)
def test_regular_solution_sets(phi, q, v, dimension, solvable):
    """Theorem 2.3; a nonempty manifold of dimension 2n - m, or none."""
    found = da.solvability(da.System(kinetic, da.Nonholonomic(phi)), q, v)
    assert found.dimension == dimension
    assert (found.full_rank and found.regular) is solvable
    assert ("manifold of dimension 3" in str(found)) is (dimension == 3)
