"""When a step of Newton's method is taken: its merit, its penalty and its acceptance, for Python and for machine code alike.

    M(z) = Σf + ρ|c|₁,   M(z + t dx) ≤ M(z) + ηt (∇f·dx - ρ|c|₁) + noise   (Armijo's condition)

Every function takes numbers, JAX's where the tracer turns it into machine code, or floats. A point has an objective Σf, a
violation |c|₁ and a norm |∇L̃|.
Source: J. Nocedal, S. J. Wright, Numerical Optimization (2006), section 18.3; P. Deuflhard, Newton Methods for Nonlinear
Problems (2004), section 2.1.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from dalembert.boundary.kkt.linear import accurate
from dalembert.boundary.kkt.system import finite
from dalembert.native import Rules

ARMIJO = 1e-4
NOISE = 1e-13  # of merit and curvature, relative to the objective
CURVATURE = 1e-10  # least dxᵀ(H + δW)dx, relative to dxᵀWdx
FEASIBLE = 1e-14  # |c|₁ that is rounding: no penalty is found from it
DOMINANCE, MARGIN = 0.9, 1.5  # of what the slope of Σf is to be outweighed with, and by how much more the penalty is raised


def noise(objective, other):
    """What rounding can change in a sum of such terms."""
    return NOISE * (abs(objective) + abs(other))


def convex(curvature, metric, update, tolerance):
    """dxᵀ(H + δW)dx > 0, relative to dxᵀWdx; at the end of the iteration it is rounding and is not asked for."""
    return (curvature >= CURVATURE * metric) | (update <= tolerance)


def slope(change, curvature, product):
    """∇f·dx = ∇L̃·dx - νᵀA dx with A dx = -c, from cᵀdν, the curvature -∇L̃ᵀdx + cᵀdν and cᵀν."""
    return change - curvature + product


def raised(penalty, slope, curvature, violation, *, xp: Any = jnp):
    """ρ, raised where the merit would not fall by a part of the violation. xp: NumPy or JAX, as the numbers are."""
    infeasible = violation > FEASIBLE
    wanted = (slope + 0.5 * xp.maximum(curvature, 0.0)) / (DOMINANCE * xp.where(infeasible, violation, 1.0))
    return xp.where(infeasible & (wanted > penalty), MARGIN * wanted, penalty)


def descends(old, new, penalty, slope, length):
    """Armijo's condition on the merit after a step of this length."""
    before, after = (at.objective + penalty * at.violation for at in (old, new))
    bound = before + ARMIJO * length * (slope - penalty * old.violation) + noise(old.objective, before)
    return finite(new) & (after <= bound)


def accepted(old, new, penalty, slope):
    """Whether the whole step is taken: also where it halves the gradient, at the end of the iteration, where merit is
    rounding."""
    return descends(old, new, penalty, slope, 1.0) | (finite(new) & (new.norm <= 0.5 * old.norm))


def small(update, violation, tolerance):
    return (update <= tolerance) & (violation <= tolerance)


def predicted(update, before, tolerance):
    """Newton's updates u satisfy u₊ ≈ u (u/u₋)²: whether the next one will be small."""
    return (before < math.inf) & (update * update * update <= tolerance * before * before)


RULES = Rules(noise, convex, slope, raised, accepted, small, predicted, accurate, finite)
