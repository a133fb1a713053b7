"""What it means that a vector field leaves a Lagrangian, constraints and forces as they are: derivatives at sampled points.

A sample is a jet (q, v, a) of a System, (q, q̇, …, q⁽ᵏ⁾) of a VariationalProblem, as one array (slots, n). ξ moves it along
(ξ, Dξ v, Dξ a + D²ξ(v, v), …). Every condition is linear in ξ.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.systems import System, VariationalProblem
from dalembert.systems.constraints import WithForces
from dalembert.systems.equations import all_reactions, first_derivative, force, reactions, value
from dalembert.systems.higher.variational import density, differential_constraints, holonomic_constraints
from dalembert.tracing import seldom

Jet = Float[Array, "slots n"]
NOISE = 1e-13  # of the largest terms of a condition: what is smaller is rounding, and is not made larger


def slots_of(problem: System | VariationalProblem) -> int:
    """How many derivatives a sample has, q among them."""
    return 3 if isinstance(problem, System) else problem.derivatives + 1


def action(problem: System | VariationalProblem, jet: Jet, t) -> Float[Array, ""]:
    """L."""
    if isinstance(problem, System):
        return problem.call(problem.lagrangian, jet[0], jet[1], t=t)
    return density(problem, list(jet), t)


def equations(problem: System | VariationalProblem, jet: Jet, t) -> Float[Array, "m"]:
    """φ of every constraint, at its own order."""
    if isinstance(problem, System):
        rows = [value(problem, c, *jet, t) for c in problem.constraints]
        return jnp.concatenate([jnp.zeros(0), *rows])
    return jnp.concatenate([holonomic_constraints(problem, jet[0], t), differential_constraints(problem, list(jet), t)])


def restrictions(problem: System | VariationalProblem, jet: Jet, t) -> Float[Array, "r"]:
    """`equations`, and what holonomic constraints demand of the derivatives: zero on the samples."""
    if isinstance(problem, System):
        rates = [first_derivative(problem, c, jet[0], jet[1], t) for c in problem.constraints if c.order == 0]
        return jnp.concatenate([equations(problem, jet, t), *rates])
    found, of = [equations(problem, jet, t)], lambda x, s: holonomic_constraints(problem, x[0], s)
    for _ in range(problem.derivatives):
        of = _total_derivative(of)
        found.append(of(jnp.concatenate([jet, jnp.zeros_like(jet[:1])]), t))
    return jnp.concatenate(found)


def _total_derivative(function):
    """Σ_j ∂f/∂q⁽ʲ⁾ q⁽ʲ⁺¹⁾ + ∂f/∂t."""

    def rate(jet, t):
        now = jnp.asarray(t, dtype=float)
        ahead = jnp.concatenate([jet[1:], jnp.zeros_like(jet[:1])])
        return jax.jvp(function, (jet, now), (ahead, jnp.ones_like(now)))[1]

    return rate


class Facts(NamedTuple):
    """What enters the conditions at K samples; "slot" stands for q, v, a, …

    action: L by each slot (K, slots, n). force: f (K, n), and by slots (K, n, slots, n). equations: φ by slots (K, m, slots,
    n). rows: R (K, m, n). given: rows that the user wrote (K, g, n), and by slots (K, g, n, slots, n).
    """

    action: np.ndarray
    force: np.ndarray
    force_by: np.ndarray
    equations: np.ndarray
    rows: np.ndarray
    given: np.ndarray
    given_by: np.ndarray


@seldom
def _facts(problem: System | VariationalProblem, jets, times) -> Facts:
    def one(jet, t):
        own = isinstance(problem, System)
        pushed = lambda x: force(problem, x[0], x[1], t) if own else jnp.zeros_like(x[0])  # noqa: E731
        given = lambda x: _given_rows(problem, x, t)  # noqa: E731
        rows = all_reactions(problem, *jet, t) if own else jnp.zeros((0, jet.shape[1]))
        return Facts(
            jax.grad(lambda x: action(problem, x, t))(jet), pushed(jet), jax.jacfwd(pushed)(jet),
            jax.jacfwd(lambda x: equations(problem, x, t))(jet), rows, given(jet), jax.jacfwd(given)(jet),
        )  # fmt: skip

    return jax.vmap(one)(jets, times)


def _given_rows(problem: System | VariationalProblem, jet: Jet, t) -> Float[Array, "g n"]:
    """R of constraints whose forces the user wrote, or an actuator's; those of Chetaev go with φ."""
    none = jnp.zeros((0, jet.shape[1]))
    if not isinstance(problem, System):
        return none
    chosen = [
        c for c in problem.constraints if not (isinstance(c, WithForces) and c.reactions is None and c.virtual is None)
    ]
    return jnp.concatenate([none, *(reactions(problem, c, *jet, t) for c in chosen)])


def facts_at(problem: System | VariationalProblem, jets: np.ndarray, times: np.ndarray) -> Facts:
    """At samples (K, slots, n)."""
    return Facts(*map(np.asarray, _facts(problem, jets, times)))


class Directions(NamedTuple):
    """p vector fields at K samples: ξ lifted to each slot (K, slots, n, p), and its slope Dξ (K, n, n, p)."""

    lifted: np.ndarray
    slope: np.ndarray


def affine_directions(jets: np.ndarray, sizes: np.ndarray, centre: np.ndarray) -> Directions:
    """ξ = A(q - centre) + b, in units of s: the p = n² + n fields s_i (q_j - c_j)/s_j ∂_i and s_i ∂_i."""
    (count, slots, n), each = jets.shape, np.diag(sizes)
    relative = jets / sizes
    relative[:, 0] -= centre / sizes
    linear = np.einsum("ia,ksj->ksiaj", each, relative).reshape(count, slots, n, n * n)
    constant = np.zeros((count, slots, n, n))
    constant[:, 0] = each
    slope = np.einsum("ia,lj->ilaj", each, np.diag(1.0 / sizes)).reshape(n, n, n * n)
    slope = np.concatenate([slope, np.zeros((n, n, n))], axis=2)
    return Directions(np.concatenate([linear, constant], axis=3), np.broadcast_to(slope, (count, *slope.shape)))


class Conditions(NamedTuple):
    """Left sides (rows, p), zero where a field satisfies them, each relative to the terms it is the sum of.

    action: ξL. constraints: ξφ where φ = 0. forces: the change of f. reactions: of the space of reactions. work: R ξ and
    f·ξ, what enters the balance of the momentum.
    """

    action: np.ndarray
    constraints: np.ndarray
    forces: np.ndarray
    reactions: np.ndarray
    work: np.ndarray


def conditions(facts: Facts, along: Directions, jets: np.ndarray, sizes: np.ndarray, centre: np.ndarray) -> Conditions:
    """The conditions on p fields. sizes: (n,) of the coordinates; fields are taken to be as large as these."""
    reach = np.abs(jets / sizes)
    reach[:, 0] = np.abs((jets[:, 0] - centre) / sizes)
    reach = np.max(reach, axis=2)
    reach[:, 0] = np.maximum(reach[:, 0], 1.0)
    weight = reach[:, :, None] * sizes  # (K, slots, n), how large a field is in each slot
    xi = along.lifted[:, 0]
    changed = lambda by: np.einsum("k...sn,ksnp->k...p", by, along.lifted)  # noqa: E731
    compared = lambda by: np.einsum("k...sn,ksn->k...", np.abs(by), weight)  # noqa: E731
    action = _relative(changed(facts.action), compared(facts.action))
    held = _relative(changed(facts.equations), compared(facts.equations))
    pulled = changed(facts.force_by) + np.einsum("kn,knip->kip", facts.force, along.slope)
    size = np.abs(facts.force) * reach[:, :1] + compared(facts.force_by)
    forces = _relative(sizes[:, None] * pulled, sizes * size)
    turned = changed(facts.given_by) + np.einsum("kgn,knip->kgip", facts.given, along.slope)
    scaled = facts.rows * sizes
    size = np.sum((np.abs(facts.given) + compared(facts.given_by)) * sizes, axis=2)
    inside = np.einsum("kgip,kid->kgdp", sizes[:, None] * turned, _kernels(scaled))
    reactions = _relative(inside, np.broadcast_to(size[:, :, None], inside.shape[:3]))
    pushed = _relative(np.einsum("kmn,knp->kmp", facts.rows, xi), np.einsum("kmn,kn->km", np.abs(facts.rows), weight[:, 0]))
    driven = _relative(np.einsum("kn,knp->kp", facts.force, xi), np.einsum("kn,kn->k", np.abs(facts.force), weight[:, 0]))
    return Conditions(action, held, forces, reactions, np.concatenate([pushed, driven]))


def _kernels(rows: np.ndarray) -> np.ndarray:
    """Orthonormal bases of ker R, (K, n, n - m)."""
    count, m, n = rows.shape
    return np.linalg.svd(rows, full_matrices=True)[2][:, m:].transpose(0, 2, 1) if m else np.broadcast_to(np.eye(n), (count, n, n))


def _relative(sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Each of the (…, p) sums over the size of its terms, as (rows, p); those without terms are left out."""
    flat, size = sums.reshape(-1, sums.shape[-1]), sizes.reshape(-1)
    least = NOISE * np.max(size, initial=0.0)
    there = size > 0.0
    return flat[there] / np.maximum(size[there], least)[:, None]


@seldom
def _restricted(problem: System | VariationalProblem, jets, times):
    of = lambda x, t: restrictions(problem, x, t)  # noqa: E731
    return jax.vmap(of)(jets, times), jax.vmap(jax.jacfwd(of))(jets, times)


def restricted(problem: System | VariationalProblem, jets, times) -> tuple[np.ndarray, np.ndarray]:
    """`restrictions` (K, r) and their derivatives (K, r, slots, n)."""
    found, slopes = _restricted(problem, jets, times)
    return np.asarray(found), np.asarray(slopes)
