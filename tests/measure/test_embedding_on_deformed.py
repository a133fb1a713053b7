"""Remark 6.1: a map that keeps a deformed constraint is a perturbed flow on D_δ, with the order and size planted in it."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import nonholonomic_particle

DELTA, KAPPA = 0.2, 0.7
BENT = da.systems.deformed(
    nonholonomic_particle.nonholonomic_particle(0.0), lambda q, v, p: q[1] ** 2, DELTA
)  # ż = y ẋ - δ y²
Q = np.array([0.1, 0.4, -0.2])
V = np.array([1.0, 0.5, 0.4 - DELTA * 0.16])


def flow(h, q, v):
    """By hand: √(1+y²) v_x - δ(y√(1+y²) - asinh y) and v_y are constant; x and z are their integrals over y."""
    root, arc = (lambda y: jnp.sqrt(1 + y * y)), jnp.arcsinh
    first, w = q[1], v[1]
    y = first + w * h
    c = root(first) * v[0] - DELTA * (first * root(first) - arc(first))
    x_of = lambda s: c * arc(s) + DELTA * (s * s - arc(s) ** 2) / 2  # noqa: E731
    z_of = lambda s: c * root(s) + DELTA * (s - root(s) * arc(s))  # noqa: E731
    vx = (c + DELTA * (y * root(y) - arc(y))) / root(y)
    place = jnp.stack([q[0] + (x_of(y) - x_of(first)) / w, y, q[2] + (z_of(y) - z_of(first)) / w])
    return place, jnp.stack([vx, w, y * vx - DELTA * y * y])


def planted(h, q, v):
    """Of order 2 exactly, and on D_δ, which does not restrict v_y."""
    q, v = flow(h, q, v)
    return q, v.at[1].add(KAPPA * h**3)


def test_a_planted_order_and_size_are_found_on_the_deformed_set():
    """The perturbation is χ₀′/ε κε³ in v_y: sup|g| → κ π/2."""
    found = da.measure.embedding(BENT, Q, V, h=[0.1, 0.05], step=planted)
    assert found.order == 2
    assert found.exponent == pytest.approx(2.0, abs=0.01)
    np.testing.assert_allclose(found.sup_g, KAPPA * np.pi / 2, rtol=2e-3)
