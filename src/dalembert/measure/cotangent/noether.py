"""The discrete Noether theorem with forces and reactions: what the momentum of a symmetry changes by, step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.algebra.least_norm import inverse
from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.nodes import Interval, legendre_minus, legendre_plus
from dalembert.measure.nodes import NodeView, check_kind, check_neighbours, form_of, node_view, nodes_of
from dalembert.notebook import Described
from dalembert.numbers import as_function
from dalembert.path import Path
from dalembert.systems import System
from dalembert.systems import momentum as momentum_at
from dalembert.systems.equations import force, reactions
from dalembert.systems.shapes import output_shape
from dalembert.systems.system import check_shapes
from dalembert.tracing import seldom


@dataclasses.dataclass(frozen=True, eq=False)
class MomentumBalance(Described):
    """J_{k+1} - J_k = h(f + R_dᵀλ_k)·ξ(q_k): both sides along a path.

    Attributes:
        t: (K,) times of J.
        momentum: (K,) J.
        work: (K-1,) the work of forces and reactions along ξ between these times, h(f + R_dᵀλ)·ξ.
    """

    t: Float[np.ndarray, "K"]
    momentum: Float[np.ndarray, "K"]
    work: Float[np.ndarray, "K-1"]

    @property
    def change(self) -> Float[np.ndarray, "K-1"]:
        """J_{k+1} - J_k."""
        return np.diff(self.momentum)

    @property
    def defect(self) -> float:
        """The largest |J_{k+1} - J_k - h(f + R_dᵀλ)·ξ|: round-off if L_d does not change along ξ."""
        return float(np.max(np.abs(self.change - self.work), initial=0.0))

    def describe(self) -> str:
        """The numbers in one line."""
        largest = np.max(np.abs(self.work), initial=0.0)
        return f"momentum within {np.ptp(self.momentum):.3e}, work up to {largest:.3e} a step, defect {self.defect:.3e}"


def momentum_balance(
    system: System | DiscreteSystem, path: Path, generator: Callable, *, scheme: Scheme | None = None
) -> MomentumBalance:
    """J_{k+1} - J_k = h(f + R_dᵀλ_k)·ξ(q_k),  J_k = D₂L_d(q_{k-1},q_k)·ξ(q_k): Noether's theorem with forces and reactions.

    It is the equation at a node, contracted with ξ(q_k), if L_d does not change along ξ. This is so for a symmetry ξ =
    A q + b of L and the maps Beta(β), since an affine map takes differences of points to differences. If R ξ = 0 and
    f·ξ = 0, the momentum is conserved. In the form kick_drift_kick, J = L_v(q, v)·ξ(q) at the states, and the work is
    the mean of the work at both ends, with the reactions of holonomic constraints as the two kicks need them.

    λ is taken from the path, so that a wrong multiplier shows up as a defect.

    Args:
        system: a System or a DiscreteSystem.
        path: its Path, with every state saved.
        generator: `generator(q[, t][, p])`, ξ, (n,), such as the `generator` of a Symmetry.
        scheme: as it was given to simulate, of order 2.

    Returns:
        A MomentumBalance.

    Raises:
        ValueError: states of the path were left out, or it was made with another scheme, a scheme of higher order, or a
            sampled law.
        TypeError: an argument is of the wrong type. For a VariationalProblem use `measure.momentum`.

    Source: discrete Noether theorem, Marsden, West, Theorem 1.3.3 and Section 3.2.5 with forces; the term of the reactions
    of second order constraints follows from Borda, Fernández, Grillo, eq. (4).

    Example:
        >>> turning = da.simulate(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5], h=0.1, steps=20)
        >>> found = da.measure.momentum_balance(edge, turning, lambda q: jnp.array([0.0, 1.0, 0.0]))  # m ẏ
        >>> bool(abs(found.work).max() > 1e-3), found.defect < 1e-13
        (True, True)
    """
    as_function(generator, "generator", "of q that returns a direction (n,)")
    check_kind(system)
    chosen, form = form_of(path, system, scheme)
    check_neighbours(path)
    if path.feedback is not None:
        raise ValueError(
            "path: was run with a sampled law, whose held forces are not included here; give the law as `forces`"
        )
    if chosen.order > 2:
        raise ValueError(
            f"scheme: a step of order {chosen.order} is made of stages whose multipliers are not kept; use order=2"
        )
    n = path.q.shape[1]
    shape = output_shape(lambda: system.call(generator, np.zeros(n), t=0.0), "generator", "q" + system.trailing)
    if shape != (n,):
        raise ValueError(f"generator: returns shape {shape}; a direction of shape ({n},) is needed")
    if isinstance(system, System) and form == "kick_drift_kick":
        states = tuple(map(jnp.asarray, (path.q, path.v, path.t, path.multipliers)))
        numbers = check_shapes(system, np.zeros(n), np.zeros(n), np.zeros(()))
        found = _of_kicks(system, chosen, tuple(numbers), generator, states, path.h)
        return MomentumBalance(np.asarray(path.t), *map(np.asarray, found))
    own, q, t = nodes_of(path, system, scheme)
    view = node_view(system, None if isinstance(system, DiscreteSystem) else own, path.h, n)
    multipliers = jnp.asarray(path.multipliers)
    if len(multipliers) != len(q) - 2:
        raise ValueError(
            f"path: has {len(multipliers)} multipliers for {len(q) - 2} inner nodes; give a path of this system"
        )
    found = _of_nodes(system, view, generator, q, t, multipliers)
    return MomentumBalance(np.asarray(t)[1:], *map(np.asarray, found))


@seldom
def _of_nodes(system: System | DiscreteSystem, view: NodeView, generator: Callable, q, t, multipliers):
    along = jax.vmap(lambda x, s: system.call(generator, x, t=s))(q[1:], t[1:])
    momenta = jax.vmap(view.momentum)(q[:-1], q[1:], t[:-1])

    def work(before, here, after, s, held, xi):
        pushed = view.reactions(before, here, after, s).T @ held
        return (view.impulse(before, here, after, s) + view.h * pushed) @ xi

    inner = jax.vmap(work)(q[:-2], q[1:-1], q[2:], t[1:-1], multipliers, along[:-1])
    return jnp.sum(momenta * along, axis=1), inner


@seldom
def _of_kicks(system: System, scheme: Scheme, numbers: tuple, generator: Callable, states, h):
    """J = L_v·ξ at states, and the work ½h(f + Rᵀλ)·ξ of the two kicks of a step."""
    q, v, t, multipliers = states
    along = jax.vmap(lambda x, s: system.call(generator, x, t=s))(q, t)
    momenta = jax.vmap(lambda *x: momentum_at(system, *x))(q, v, t)

    def work(before, after, held):
        (q0, v0, s, xi0), (q1, v1, _, xi1) = before, after
        interval = Interval(q0, q1 - q0, s, h)
        left = -momentum_at(system, q0, v0, s) - legendre_minus(scheme, system, interval)
        right = momentum_at(system, q1, v1, s + h) - legendre_plus(scheme, system, interval)
        middle = (q0 + 0.5 * (q1 - q0), (q1 - q0) / h, (v1 - v0) / h, s + 0.5 * h)
        ends = ((q0, v0, s, xi0, left), (q1, v1, s + h, xi1, right))
        return sum(_kick(system, numbers, held, end, middle, h) for end in ends)

    left, right = (tuple(x[cut] for x in (q, v, t, along)) for cut in (slice(None, -1), slice(1, None)))
    return jnp.sum(momenta * along, axis=1), jax.vmap(work)(left, right, multipliers)


def _kick(system: System, numbers: tuple, held, end, middle, h):
    """½h(f + Rᵀλ)·ξ at one end. λ of holonomic constraints is what the rest of the impulse is made by."""
    q, v, t, xi, impulse = end
    rest = 0.5 * h * force(system, q, v, t)
    found, rows, at = rest @ xi, [], 0
    for c, m in zip(system.constraints, numbers, strict=True):
        own = reactions(system, c, *middle) if c.order == 2 else reactions(system, c, q, v, middle[2], t)
        if c.order == 0:
            rows.append(own)
        else:
            pushed = 0.5 * h * own.T @ held[at : at + m]
            rest, found = rest + pushed, found + pushed @ xi
        at += m
    if not rows:
        return found
    spanned = jnp.concatenate(rows)
    return found + (inverse(spanned @ spanned.T) @ spanned @ (impulse - rest)) @ (spanned @ xi)
