"""Derivatives of constraints along a curve that is given by its jet."""

from __future__ import annotations

from math import factorial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.systems.higher.variational import (
    VariationalProblem,
    constraints_of_order,
    holonomic_constraints,
)


def holonomic_derivatives(problem: VariationalProblem, jet: Float[Array, "k n"], t) -> Float[Array, "k mh"]:
    """φ, dφ/dt, …, of the curve with these derivatives at t."""

    return _rates(lambda s: holonomic_constraints(problem, _on_curve(jet, s), t + s), jet.shape[0])


def constraint_derivatives(problem: VariationalProblem, order: int, jet: Float[Array, "k n"], t) -> Float[Array, "k-r m"]:
    """φ, dφ/dt, …, of the constraints of order r, as far as the curve's derivatives at t go."""

    def constraints(s):
        return constraints_of_order(problem, order, [_on_curve(jet[l:], s) for l in range(order + 1)], t + s)

    return _rates(constraints, jet.shape[0] - order)


def _rates(function, number: int) -> Float[Array, "number m"]:
    """function, its derivative, …, at 0."""

    def derivative(j: int, s):
        return function(s) if j == 0 else jax.jacfwd(lambda r: derivative(j - 1, r))(s)

    return jnp.stack([derivative(j, 0.0) for j in range(number)])


def _on_curve(jet: Float[Array, "k n"], s) -> Float[Array, "n"]:
    """Σ_l jet[l] sˡ/l!."""
    return jnp.asarray(sum(jet[l] * s**l / factorial(l) for l in range(jet.shape[0])))
