"""λ = -S⁻¹φ, continued through states where S is singular and φ vanishes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dalembert.algebra import agree
from dalembert.laws.affine import Affine
from dalembert.numbers import EPSILON
from dalembert.tracing import traced_once

TRUSTED = 1e-12  # relative error of the acceleration up to which the quotient of two small numbers is used as it is
VANISHES = 1e-9  # numerator at the zero of the determinant, relative to its terms
USABLE = 1e-3  # the same, beyond which a quotient that has no limit is no number
# Newton's method to that zero, two turns, for its distance is below 1e-4 of typical sizes, the root of TRUSTED/EPSILON; then
# Gauss's two nodes between, enough for that distance; then the zero itself.
PLACES, SHARES = (1.0, 1.0, 0.5 - 12**-0.5, 0.5 + 12**-0.5, 1.0), (0.0, 0.0, 0.5, 0.5, 0.0)


class Continued(NamedTuple):
    """λ; extended: S is singular there up to rounding, and λ the limit; defined: not so, or there is a limit."""

    u: Float[Array, "m"]
    extended: Bool[Array, ""]
    defined: Bool[Array, ""]


def continued(function: Callable[[Array], Affine], x: Float[Array, "2n"]) -> Continued:
    """λ_i = N_i/d by Cramer's rule, d = det S; near d = 0 it is ⟨N_i′⟩/⟨d′⟩, with mean values along x + s ∂d/∂x over
    [s*, 0], where d(s*) = 0: no cancellation. x = (q, v). Where N(s*) ≠ 0 the law has a pole.
    """
    function = traced_once(function)
    w, here = jax.grad(lambda y: (_cramer(found := function(y))[0], found), has_aux=True)(x)
    quotient, wrong = _quotient(here, EPSILON * jnp.abs(w) @ jnp.abs(x))
    trusted = wrong <= TRUSTED
    steep = jnp.max(jnp.abs(w)) > 0.0
    w = jnp.where(steep, w, 1.0)  # the other side of a choice must not be NaN: derivatives would be

    def terms(s):
        d, over = _cramer(function(x + s * w))
        return jnp.concatenate([d[None], over])

    def near(_):
        def look(s, at):
            place, share = at
            (value, slope), towards = jax.jvp(terms, (s * place,), (jnp.asarray(1.0),)), share == 0.0
            step = value[0] / jnp.where(slope[0] == 0.0, 1.0, slope[0])
            return s - jnp.where(towards & (place == 1.0), step, 0.0), (value, slope * share)

        # One loop over all places, so that the constraints are compiled once.
        _, (values, slopes) = jax.lax.scan(look, jnp.asarray(0.0), (jnp.asarray(PLACES), jnp.asarray(SHARES)))
        means, left = jnp.sum(slopes, axis=0), values[-1]
        zero = jnp.all(jnp.abs(left[1:]) <= VANISHES * _sizes(here)) & steep & (means[0] != 0.0)
        limit = means[1:] / jnp.where(means[0] == 0.0, 1.0, means[0])
        known = wrong <= USABLE
        otherwise = jnp.where(known, quotient, jnp.inf)
        return Continued(jnp.where(agree(zero), limit, otherwise), zero, zero | known)

    def far(_):
        return Continued(quotient, jnp.asarray(False), jnp.asarray(True))

    return jax.lax.cond(agree(trusted), far, near, None)


def _cramer(a: Affine) -> tuple[Float[Array, ""], Float[Array, "m"]]:
    """det S, and det S with -φ in the place of each column."""
    m = a.phi.shape[0]
    if m == 1:
        return a.S[0, 0], -a.phi
    replaced = [a.S.at[:, i].set(-a.phi) for i in range(m)]
    return _det(a.S), jnp.stack([_det(x) for x in replaced])


def _det(a: Float[Array, "m m"]) -> Float[Array, ""]:
    """By the first row: its derivative exists where the matrix is singular, which that by LU does not."""
    if a.shape[0] == 1:
        return a[0, 0]
    rest = [_det(jnp.asarray(a[1:][:, np.delete(np.arange(a.shape[0]), i)])) for i in range(a.shape[0])]
    signs = (-1.0) ** np.arange(a.shape[0])
    return jnp.sum(signs * a[0] * jnp.stack(rest))


def _sizes(a: Affine) -> Float[Array, ""]:
    """A bound of the terms of the numerators."""
    if a.phi.shape[0] == 1:
        return a.size_phi[0]
    lengths = jnp.sum(a.size_S, axis=1)
    others = [jnp.prod(jnp.asarray(jnp.delete(lengths, i))) for i in range(lengths.shape[0])]
    return a.size_phi @ jnp.stack(others)


def _quotient(a: Affine, blur: Float[Array, ""]) -> tuple[Float[Array, "m"], Float[Array, ""]]:
    """-S⁻¹φ and how far rounding in φ and S changes the acceleration, relatively; infinite at det S = 0.

    blur: of the determinant, by rounding of the state.
    """
    d = _cramer(a)[0]
    regular = d != 0.0
    S = jnp.where(regular, a.S, jnp.eye(a.phi.shape[0]))  # the other side of a choice must not be NaN
    inverse = 1.0 / S if a.phi.shape[0] == 1 else jnp.linalg.inv(S)
    u = -inverse @ a.phi
    wrong = jnp.linalg.norm(jnp.abs(a.responses @ inverse) @ (EPSILON * (a.size_phi + a.size_S @ jnp.abs(u))))
    size = jnp.linalg.norm(a.drift) + jnp.linalg.norm(a.responses @ u)
    ratio = jnp.where(wrong == 0.0, 0.0, wrong / jnp.where(size > 0.0, size, EPSILON * wrong))
    ratio = jnp.maximum(ratio, jnp.where(jnp.any(a.phi != 0.0), blur / jnp.abs(jnp.where(regular, d, 1.0)), 0.0))
    finite = regular & jnp.isfinite(ratio)
    return u, jax.lax.stop_gradient(jnp.where(finite, ratio, jnp.inf))
