"""Symmetric compositions of a self-adjoint step: the weights, and whether the maps of a scheme are self-adjoint."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.discretize.maps import PairMap, TripleMap
from dalembert.systems import is_traced

ORDERS = (2, 4, 6, 8)

# The first half of each palindrome; the middle weight is 1 - 2·(their sum).
_HALF = {
    2: (),
    4: (0.28, 0.62546642846767004501),
    6: (0.39216144400731413928, 0.33259913678935943860, -0.70624617255763935981, 0.08221359629355080023),
    8: (
        0.74167036435061295345, -0.40910082580003159400, 0.19075471029623837995, -0.57386247111608226666,
        0.29906418130365592384, 0.33462491824529818378, 0.31529309239676659663,
    ),
}  # fmt: skip


def composition(order: int) -> tuple[float, ...]:
    """γ₁, …, γ_s with Φ_h = φ_{γ_s h} ∘ … ∘ φ_{γ₁ h} of this order, for every self-adjoint φ of order 2.

    Order 4: McLachlan's five stages; 6: nine stages of Kahan and Li; 8: fifteen of Suzuki, Umeno and McLachlan.
    Source: Hairer, Lubich, Wanner, Geometric Numerical Integration, Section V.3.2. Σγ = 1, Σγ³ = 0 and the other
    conditions of the order hold to round-off (tested).
    """
    half = _HALF[order]
    return (*half, 1.0 - 2.0 * sum(half), *half[::-1])


def not_self_adjoint(
    action: Sequence[PairMap] | None, kinematic: TripleMap, variational: TripleMap, distribution: PairMap, state: PairMap
) -> str | None:
    """Why the step with these maps is not its own adjoint; None if it is, to round-off on a few random points.

    Adjoint of ρ: ρ*(q₀, q₁; h) = ρ(q₁, q₀; -h), of φ likewise; the list of the action is reversed as well. The state has to
    be that of its own adjoint too, or the step would end at another point of the interval than it begins at.
    """
    with jax.ensure_compile_time_eval():  # a scheme may be made inside a traced function
        return _asymmetry(action, kinematic, variational, distribution, state)


def _asymmetry(action, kinematic, variational, distribution, state) -> str | None:
    pairs = [("action", rho, sigma) for rho, sigma in zip(action or (), (action or ())[::-1], strict=True)]
    pairs += [("distribution", distribution, distribution), ("state", state, state)]
    for name, rho, sigma in pairs:
        if not _same(_pair(rho, False), _pair(sigma, True)):
            return f"{name}: {rho!r} is not symmetric, ρ(q₁, q₀; -h) ≠ ρ(q₀, q₁; h)"
    for name, phi in (("kinematic", kinematic), ("variational", variational)):
        if not _same(_triple(phi, False), _triple(phi, True)):
            return f"{name}: {phi!r} is not symmetric, φ(q₂, q₁, q₀; -h) ≠ φ(q₀, q₁, q₂; h)"
    return None


_POINTS = np.random.default_rng(0).standard_normal((3, 4))


def _pair(rho: PairMap, reverse: bool) -> list:
    q, d, h = _POINTS[0], 0.1 * _POINTS[1], 0.1
    weight = 1.0 - rho.weight if reverse else rho.weight
    return [*(rho(jnp.asarray(q + d), jnp.asarray(-d), -h) if reverse else rho(jnp.asarray(q), jnp.asarray(d), h)), weight]


def _triple(phi: TripleMap, reverse: bool) -> list:
    q, d0, d1 = (jnp.asarray(x) for x in (_POINTS[0], 0.1 * _POINTS[1], 0.1 * _POINTS[2]))
    return list(phi(q, -d1, -d0, -0.1) if reverse else phi(q, d0, d1, 0.1))


def _same(one: list, other: list) -> bool:
    if is_traced(one, other):  # maps with parameters of their own, which are not known yet
        return True
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(one, other, strict=True))
