"""DiscreteSystem: discrete data given directly, without any continuous system."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.numbers import as_function, described, whole_number
from dalembert.systems import Problem
from dalembert.systems.constraints import annihilator
from dalembert.systems.higher.variational import dependence
from dalembert.systems.pickling import made
from dalembert.systems.system import names_of

HIGHEST = 64  # nodes before the last one in a window


@dataclasses.dataclass(frozen=True)
class Reading:
    """Which nodes the equations of a step read.

    The newest node is the last one of the window of D_K, and `delay` nodes lie between it and the neighbour of the node
    whose equation is solved. needed: how many nodes before the newest one.
    """

    delay: int
    needed: int

    def stencil(self, system: DiscreteSystem, nodes: Sequence[Any]) -> tuple[tuple[Any, Any, Any], list[Any]]:
        """(q_{i-1}, q_i, q_{i+1}) of the equation at q_i, and the window over whose `factor`-th point D_V lives.

        Nodes behind the newest one are not read.
        """
        last = len(nodes) - 1
        here = last - 1 - self.delay
        window = [nodes[min(here - (system.factor - 1) + i, last)] for i in range(system.order + 1)]
        return (nodes[here - 1], nodes[here], nodes[here + 1]), window


class DiscreteSystem(Problem):
    """A mechanical system that is given by discrete functions, without a continuous one behind them.

    (Q, L_d, D_K, D_V): D₁L_d(q_i,q_{i+1}) + D₂L_d(q_{i-1},q_i) + h R_dᵀλ_i = 0, every window in D_K.

    With forces, f_d⁻(q_i,q_{i+1}) + f_d⁺(q_{i-1},q_i) is added on the left. h is the step given to `simulate`; it is 1
    by default, and the multipliers are then those of the equation without h. With parameters every function takes a
    trailing p.

    Args:
        lagrangian: `lagrangian(q0, q1)`, L_d, a scalar.
        kinematic: `kinematic(q0, …, qk)`, () or (m,), zero on D_K ⊂ Q^{k+1}, k = order.
        reactions: `reactions(q0, …, qk)`, (m, n), or (n,) if m = 1, rows spanning D_V°; give reactions or virtual.
        virtual: `virtual(q0, …, qk)`, (n, n-m), columns spanning D_V.
        initial: `initial(q0, …)`, zero at the first nodes: a further condition on them, such as φ_d(q0, q1) = 0.
        order: k, of the kinematic constraints.
        factor: j in 1 … k+1, the point of the window at which D_V is taken (k by default, the middle point for k = 2).
            For j < k the reactions may depend on nodes after q_{i+1}. The equation at q_i is then solved for the last
            of these nodes, which enters through the reactions alone; as a rule this recursion is unstable.
        forces: `forces(q0, q1)`, the impulses (f_d⁻, f_d⁺) of an interval at its two ends, (n,) each.
        coordinates: the names of q.
        parameters: as for a System.
        time_dependent: whether every function takes a trailing t, before p: the time of the first of its points.

    Raises:
        TypeError: an argument is of the wrong type; the message names it.
        ValueError: D_K is given without D_V, both reactions and virtual are given, or factor is not a point of the
            window.

    Source: Borda, Fernández, Grillo, Definitions 3.1, 3.2, Theorem 3.3; Remark 3.6 for k ≠ 2. Forces: Marsden, West,
    Section 3.2.1.

    Example:
        >>> action = lambda q0, q1: 0.5 * (q1 - q0) @ (q1 - q0) / 0.1 + 0.1 * jnp.cos(q0[0])  # h = 0.1
        >>> da.simulate(da.DiscreteSystem(action), start=da.Start(nodes=[[1.0], [1.0]]), h=0.1, steps=5).q.shape
        (6, 1)
    """

    kinematic: Callable | None = eqx.field(static=True)
    reactions: Callable | None = eqx.field(static=True)
    virtual: Callable | None = eqx.field(static=True)
    initial: Callable | None = eqx.field(static=True)
    forces: Callable | None = eqx.field(static=True)
    order: int = eqx.field(static=True)
    factor: int = eqx.field(static=True)
    h_scales: ClassVar[bool] = True
    why_equal_steps: ClassVar[str] = (
        "L_d of a DiscreteSystem is a function of two nodes for steps of one length, and h only scales time and "
        "multipliers. Give a number; a System varies its steps"
    )

    def __init__(
        self,
        lagrangian: Callable,
        kinematic: Callable | None = None,
        *,
        reactions: Callable | None = None,
        virtual: Callable | None = None,
        initial: Callable | None = None,
        order: int = 2,
        factor: int | None = None,
        forces: Callable | None = None,
        coordinates: Sequence[str] | None = None,
        parameters: Any = None,
        time_dependent: bool = False,
    ):
        for name, function in (("lagrangian", lagrangian), ("kinematic", kinematic), ("reactions", reactions),
                               ("virtual", virtual), ("initial", initial), ("forces", forces)):  # fmt: skip
            if function is not None and not callable(function):
                raise TypeError(f"{name}: found {described(function)}; give a function of the nodes")
        if lagrangian is None:
            raise TypeError("lagrangian: found None; give a function L_d(q0, q1)")
        if (kinematic is None) != (reactions is None and virtual is None):
            raise ValueError("kinematic, reactions, virtual: D_K and D_V have the same number m; give both or neither")
        if reactions is not None and virtual is not None:
            raise ValueError("reactions, virtual: found both; give the constraint forces or the virtual displacements")
        order = whole_number(order, "order", 1, HIGHEST)
        chosen = order if factor is None else whole_number(factor, "factor", 1, order + 1)
        names = None if coordinates is None else names_of(coordinates)
        self.read_arguments(lagrangian, names, parameters, time_dependent)
        self.kinematic, self.reactions, self.virtual, self.initial = kinematic, reactions, virtual, initial
        self.forces, self.order, self.factor = forces, order, chosen

    @classmethod
    def nonholonomic(cls, lagrangian, constraint, reactions, **options) -> DiscreteSystem:
        """From (D, D_d), Remark 3.4: φ_d(q₁, q₂) = 0 at every step, φ_d(q₀, q₁) = 0 at the start, D_V = D at q₁.

        Args:
            lagrangian: `lagrangian(q0, q1)`.
            constraint: `constraint(q0, q1)`, () or (m,).
            reactions: `reactions(q)`, rows spanning D°, (m, n) or (n,).
            **options: coordinates and parameters, as for a DiscreteSystem.

        Returns:
            A DiscreteSystem.
        """
        as_function(constraint, "constraint", "φ_d(q0, q1)")
        as_function(reactions, "reactions", "of q that returns (m, n)")
        _check_timeless(options)
        return cls(
            lagrangian,
            _on_last_pair(constraint),
            reactions=_at_middle(reactions),
            initial=_on_first_pair(constraint),
            **options,
        )

    @classmethod
    def holonomic(cls, lagrangian, constraint, **options) -> DiscreteSystem:
        """D integrable, D_d = ∪ N×N with leaves N = {φ = 0}, Remarks 3.4, 5.2: φ(q₂) = 0, reactions ∂φ/∂q at q₁.

        Args:
            lagrangian: `lagrangian(q0, q1)`.
            constraint: `constraint(q)`, φ, () or (m,).
            **options: coordinates and parameters, as for a DiscreteSystem.

        Returns:
            A DiscreteSystem.
        """
        as_function(constraint, "constraint", "φ(q)")
        _check_timeless(options)
        return cls(
            lagrangian,
            _at_end(constraint),
            reactions=_gradient_at_middle(constraint),
            initial=_at_both(constraint),
            **options,
        )

    def reading(self, n: int) -> Reading:
        """The nodes that the equations of n coordinates depend on: each equation is solved for the last of its nodes.

        With factor j the reactions at q_i have the window q_{i-j+1} … q_{i-j+1+k}. If they depend on no node after
        q_{i+1}, as always for j ≥ k, the last node is q_{i+1}.
        """
        k, j = self.order, self.factor
        delay = max(_last_read(self, n) - j, 0) if self.kinematic is not None and j < k else 0
        return Reading(delay, max(2 + delay, j + delay, k))

    @property
    def functions(self) -> tuple[Callable, ...]:
        return tuple(value for value in vars(self).values() if callable(value))


def _check_timeless(options: dict[str, Any]) -> None:
    """ValueError for functions of one or two points that would be given the time of another one."""
    if options.get("time_dependent"):
        raise ValueError(
            "time_dependent: found True; the time of the last points, at which φ is read, is not known here. Give D_K "
            "and the reactions to DiscreteSystem itself, whose functions take the time of their first point"
        )


@made
def _on_last_pair(constraint: Callable) -> Callable:
    return lambda q0, q1, q2, *p: constraint(q1, q2, *p)


@made
def _on_first_pair(constraint: Callable) -> Callable:
    return lambda q0, q1, *p: constraint(q0, q1, *p)


@made
def _at_middle(reactions: Callable) -> Callable:
    return lambda q0, q1, q2, *p: reactions(q1, *p)


@made
def _at_end(constraint: Callable) -> Callable:
    return lambda q0, q1, q2, *p: constraint(q2, *p)


@made
def _gradient_at_middle(constraint: Callable) -> Callable:
    return lambda q0, q1, q2, *p: jax.jacfwd(lambda x: jnp.atleast_1d(jnp.asarray(constraint(x, *p))))(q1)


@made
def _at_both(constraint: Callable) -> Callable:
    return lambda q0, q1, *p: jnp.concatenate([jnp.atleast_1d(jnp.asarray(constraint(x, *p))) for x in (q0, q1)])


def _last_read(system: DiscreteSystem, n: int) -> int:
    """The place in the window, from 0, of the last node that the reactions depend on, as their graph shows it."""
    k, function = system.order, system.virtual if system.reactions is None else system.reactions
    assert function is not None
    found = dependence(system, function, k + 1, n)
    return k if found is None else int(np.max(np.flatnonzero(found.any(axis=0)), initial=0))


def node_reactions(system: DiscreteSystem, window: Sequence[Float[Array, "n"]], t) -> Float[Array, "m n"]:
    """R_d on the window over whose `factor`-th point D_V lives; t: the time of its first point."""
    n = window[0].shape[0]
    if system.reactions is not None:
        return jnp.atleast_2d(system.call(system.reactions, *window, t=t))
    if system.virtual is not None:
        basis = jnp.asarray(system.call(system.virtual, *window, t=t))
        return annihilator(basis[:, None] if basis.ndim == 1 else basis)
    return jnp.zeros((0, n))


def discrete_impulses(
    system: DiscreteSystem, q0: Float[Array, "n"], q1: Float[Array, "n"], t
) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
    """(f_d⁻, f_d⁺) of the interval (q₀, q₁) that begins at t, zero where there are none."""
    if system.forces is None:
        return jnp.zeros_like(q0), jnp.zeros_like(q1)
    left, right = system.called(system.forces, q0, q1, t=t)
    return jnp.asarray(left), jnp.asarray(right)


def discrete_equations(
    system: DiscreteSystem, read: Reading, nodes: Sequence[Float[Array, "n"]], multipliers: Float[Array, "m"], t, h
) -> Float[Array, "n_plus_m"]:
    """The equations that determine nodes[-1] from the earlier ones: D_V at the node that `read` names, D_K on the last
    window. t: the time of nodes[-2]."""
    (before, here, after), window = read.stencil(system, nodes)
    now, k = t - read.delay * h, system.order
    right = jax.grad(lambda x: system.call(system.lagrangian, x, after, t=now))(here)
    left = jax.grad(lambda x: system.call(system.lagrangian, before, x, t=now - h))(here)
    if system.forces is not None:
        right = right + discrete_impulses(system, here, after, now)[0]
        left = left + discrete_impulses(system, before, here, now - h)[1]
    if system.kinematic is None:
        return right + left
    force = node_reactions(system, window, now - (system.factor - 1) * h).T @ multipliers
    kinematic = jnp.atleast_1d(system.call(system.kinematic, *nodes[len(nodes) - k - 1 :], t=t + (1 - k) * h))
    return jnp.concatenate([right + left + h * force, kinematic])
