"""The conditions of a symmetry are read at jets: what a jet of each kind of problem is, and the functions of it.

A jet is (q, v, a) of a System, (q, q̇, …, q⁽ᵏ⁾) of a VariationalProblem, as one array (slots, n). Of a DiscreteSystem it is a
node, that of the reactions, and the differences of the others from it, which an affine ξ moves as it moves velocities.
"""

from __future__ import annotations

import abc
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import DiscreteSystem
from dalembert.discretize.discrete import node_reactions
from dalembert.numbers import described
from dalembert.step.start.prepare import check_discrete
from dalembert.systems import System, VariationalProblem
from dalembert.systems.equations import all_reactions, first_derivative, force, reactions, value
from dalembert.systems.higher.variational import (
    constraint_numbers,
    density,
    differential_constraints,
    holonomic_constraints,
)
from dalembert.systems.system import check_shapes

Jet = Float[Array, "slots n"]


@functools.singledispatch
def jets_of(problem: Any) -> JetSpace:
    """The jets of a problem, by its kind; TypeError where it has none."""
    raise TypeError(f"system: found {described(problem)}; give a System, a VariationalProblem or a DiscreteSystem")


class JetSpace(abc.ABC):
    """Functions of a jet at a time t.

    Attributes:
        slots: how many derivatives a jet has, q among them; how many nodes.
        fastest: the slot of the highest derivative in L; of the difference in L_d.
        order: of the momentum, where constraints act through the action and do no work; None where forces act.
        timed: whether the slots are derivatives by time.
    """

    slots: int
    fastest: int
    order: int | None = None
    timed: ClassVar[bool] = True

    def __init__(self, problem: Any):
        self.problem = problem

    @abc.abstractmethod
    def check(self, q0: np.ndarray, v0: np.ndarray, t0: float) -> None:
        """Errors in what the functions return, and in what is not supported."""

    @abc.abstractmethod
    def action(self, jet: Jet, t) -> Float[Array, ""]:
        """L, or L_d."""

    @abc.abstractmethod
    def equations(self, jet: Jet, t) -> Float[Array, "m"]:
        """φ of every constraint, at its own order."""

    def restrictions(self, jet: Jet, t) -> Float[Array, "r"]:
        """`equations`, and what holonomic constraints demand of the derivatives: zero on the samples."""
        return self.equations(jet, t)

    def force(self, jet: Jet, t) -> Float[Array, "n"]:
        """f."""
        return jnp.zeros_like(jet[0])

    def rows(self, jet: Jet, t) -> Float[Array, "m n"]:
        """R."""
        return jnp.zeros((0, jet.shape[1]))

    def given_rows(self, jet: Jet, t) -> Float[Array, "g n"]:
        """R of constraints whose forces the user wrote, or an actuator's; those of Chetaev go with φ."""
        return jnp.zeros((0, jet.shape[1]))

    def first(self, q0: np.ndarray, v0: np.ndarray) -> np.ndarray:
        """The jet with this state, (slots, n), the higher derivatives 0."""
        return np.concatenate([[q0, v0], np.zeros((self.slots, len(q0)))])[: self.slots]


@jets_of.register(System)
class SystemJets(JetSpace):
    """(q, v, a)."""

    slots, fastest = 3, 1

    def check(self, q0, v0, t0):
        check_shapes(self.problem, q0, v0, np.asarray(t0))

    def action(self, jet, t):
        return self.problem.call(self.problem.lagrangian, jet[0], jet[1], t=t)

    def equations(self, jet, t):
        rows = [value(self.problem, c, jet[0], jet[1], jet[2], t) for c in self.problem.constraints]
        return jnp.concatenate([jnp.zeros(0), *rows])

    def restrictions(self, jet, t):
        holonomic = [c for c in self.problem.constraints if c.order == 0]
        rates = [first_derivative(self.problem, c, jet[0], jet[1], t) for c in holonomic]
        return jnp.concatenate([self.equations(jet, t), *rates])

    def force(self, jet, t):
        return force(self.problem, jet[0], jet[1], t)

    def rows(self, jet, t):
        return all_reactions(self.problem, jet[0], jet[1], jet[2], t)

    def given_rows(self, jet, t):
        chosen = [c for c in self.problem.constraints if not c.chetaev]
        none = jnp.zeros((0, jet.shape[1]))
        return jnp.concatenate([none, *(reactions(self.problem, c, jet[0], jet[1], jet[2], t) for c in chosen)])


@jets_of.register(VariationalProblem)
class HigherJets(JetSpace):
    """(q, q̇, …, q⁽ᵏ⁾)."""

    def __init__(self, problem: VariationalProblem):
        super().__init__(problem)
        self.slots, self.fastest, self.order = problem.derivatives + 1, problem.derivatives, problem.derivatives

    def check(self, q0, v0, t0):
        constraint_numbers(self.problem, len(q0))

    def action(self, jet, t):
        return density(self.problem, list(jet), t)

    def equations(self, jet, t):
        differential = differential_constraints(self.problem, list(jet), t)
        return jnp.concatenate([holonomic_constraints(self.problem, jet[0], t), differential])

    def restrictions(self, jet, t):
        found, of = [self.equations(jet, t)], lambda x, s: holonomic_constraints(self.problem, x[0], s)
        for _ in range(self.fastest):
            of = total_derivative(of)
            found.append(of(jnp.concatenate([jet, jnp.zeros_like(jet[:1])]), t))
        return jnp.concatenate(found)


@jets_of.register(DiscreteSystem)
class NodeJets(JetSpace):
    """A node of the window, and the differences of the others from it. here: which node it is."""

    timed: ClassVar[bool] = False

    def __init__(self, problem: DiscreteSystem):
        super().__init__(problem)
        self.here = 0 if problem.kinematic is None else problem.factor - 1
        self.slots = 2 if problem.kinematic is None else problem.order + 1
        self.fastest = max(self.here, 1)

    def check(self, q0, v0, t0):
        check_discrete(self.problem, np.stack([q0, q0 + v0]))
        if self.problem.forces is not None:
            raise ValueError("system: has forces, impulses at both ends of an interval, which are not supported here")

    def _window(self, jet):
        others = [jet[0] + x for x in jet[1:]]
        return [*others[: self.here], jet[0], *others[self.here :]]

    def action(self, jet, t):
        at = max(self.here - 1, 0)
        return self.problem.call(self.problem.lagrangian, *self._window(jet)[at : at + 2], t=t)

    def equations(self, jet, t):
        if self.problem.kinematic is None:
            return jnp.zeros(0)
        return jnp.atleast_1d(self.problem.call(self.problem.kinematic, *self._window(jet), t=t))

    def rows(self, jet, t):
        none = self.problem.kinematic is None
        return jnp.zeros((0, jet.shape[1])) if none else node_reactions(self.problem, self._window(jet), t)

    def given_rows(self, jet, t):
        return self.rows(jet, t)

    def first(self, q0, v0):
        each = np.arange(self.slots)
        return np.concatenate([[q0], (each[each != self.here] - self.here)[:, None] * v0])


def total_derivative(function):
    """Σ_j ∂f/∂q⁽ʲ⁾ q⁽ʲ⁺¹⁾ + ∂f/∂t."""

    def rate(jet, t):
        now = jnp.asarray(t, dtype=float)
        ahead = jnp.concatenate([jet[1:], jnp.zeros_like(jet[:1])])
        return jax.jvp(function, (jet, now), (ahead, jnp.ones_like(now)))[1]

    return rate
