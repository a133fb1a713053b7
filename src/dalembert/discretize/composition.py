"""Symmetric compositions of a self-adjoint step: the weights, and whether the maps of a scheme are self-adjoint."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.discretize.maps import PairMap, TripleMap
from dalembert.systems import is_traced
from dalembert.tracing import remembered

ORDERS = (2, 4, 6, 8, 10)

# The first half of each palindrome; the middle weight is 1 - 2·(their sum).
_HALF = {
    2: (),
    4: (0.414490771794375737142354062861, 0.414490771794375737142354062861),
    6: (
        0.131210471763326394868399564162, 0.133788046391470717921589313462, 0.135833997380519320117908351949,
        0.137688104840642888122737407570, -0.350886392417913674673296270517, 0.112337189169936526946704300815,
    ),
    8: (
        0.130202483088890080878817632097, 0.561162981775108384561964407700, -0.389474962644847286408078598235,
        0.158841906555155600896210745707, -0.395903894133237577336231539348, 0.184539640978315707091832541533,
        0.258374387686322047293979109995, 0.295011723609310298870966240218,
    ),
    10: (
        0.078795722521686417294723304044, 0.313096103415108547739673052134, 0.027918383235078096156594934450,
        -0.229592841593907079447786477455, 0.130962061077164822829611839291, -0.269733405654510736282937541915,
        0.074973343155891443191697130520, 0.111993423999810202153341261598, 0.366133449546226733045952037304,
        -0.399105630136035895917720719068, 0.103087398527471139073967899383, 0.411430873955890233324698091584,
        -0.004866360583135268942917091660, -0.392033353708639893993368706833, 0.051942502962447197131167067829,
        0.050665090759928711311191933656, 0.049674370639731457923302276424,
    ),
}  # fmt: skip


def composition(order: int) -> tuple[float, ...]:
    """γ₁, …, γ_s with Φ_h = φ_{γ_s h} ∘ … ∘ φ_{γ₁ h} of this order, for every self-adjoint φ of order 2.

    Order 4: Suzuki's five stages; 8: seventeen of Kahan and Li (Hairer, Lubich, Wanner, Geometric Numerical Integration,
    Section V.3.2); 10: thirty-five of Sofroniou and Spaletta (Optim. Methods Softw. 20, 2005), solved again to 50 digits.
    Order 6: thirteen stages whose leading error has the least norm found by a search of ours: a quarter less work than nine
    stages of Kahan and Li (benchmarks/compositions.py). The conditions of the order hold to round-off.
    """
    half = _HALF[order]
    return (*half, 1.0 - 2.0 * sum(half), *half[::-1])


@remembered(64)
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
