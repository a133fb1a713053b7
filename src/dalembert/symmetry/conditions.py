"""The conditions on a symmetry: derivatives of Lagrangian, constraints and forces along a vector field, at sampled points.

They are read at jets. A jet is (q, v, a) of a System, (q, q̇, …, q⁽ᵏ⁾) of a VariationalProblem, as one array (slots, n). Of a
DiscreteSystem it is a node, that of the reactions, and the differences of the others from it, which an affine ξ moves as it
moves velocities. ξ moves a jet along (ξ, Dξ v, Dξ a + D²ξ(v, v), …). Every condition is linear in ξ. The points are drawn
from an open neighbourhood of a state, and moved onto the constraints.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import DiscreteSystem
from dalembert.discretize.discrete import discrete_impulses, node_reactions
from dalembert.numbers import as_number, as_numbers, as_state, as_vector, described, refuse_traced
from dalembert.step.start.prepare import check_discrete
from dalembert.systems import (
    CONSISTENT,
    System,
    VariationalProblem,
    check_flat,
    check_shapes,
    constraint_numbers,
    density,
    differential_constraints,
    holonomic_constraints,
    with_inertia,
)
from dalembert.systems.equations import all_reactions, force, reduce_index
from dalembert.tracing import over_rows, seldom

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
    def check_data(self, q0: np.ndarray, v0: np.ndarray, t0: float) -> None:
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

    def reactions(self, jet: Jet, t) -> Float[Array, "m n"]:
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

    def check_data(self, q0, v0, t0):
        check_shapes(self.problem, q0, v0, np.asarray(t0))

    def action(self, jet, t):
        return self.problem.call(self.problem.lagrangian, jet[0], jet[1], t=t)

    def equations(self, jet, t):
        rows = [c.residual(self.problem, jet[0], jet[1], jet[2], t) for c in self.problem.constraints]
        return jnp.concatenate([jnp.zeros(0), *rows])

    def restrictions(self, jet, t):
        holonomic = [c for c in self.problem.constraints if c.order == 0]
        rates = [reduce_index(self.problem, c, jet[0], jet[1], jet[1], t, order=1) for c in holonomic]
        return jnp.concatenate([self.equations(jet, t), *rates])

    def force(self, jet, t):
        return force(self.problem, jet[0], jet[1], t)

    def reactions(self, jet, t):
        return all_reactions(self.problem, jet[0], jet[1], jet[2], t)

    def given_rows(self, jet, t):
        chosen = [c for c in self.problem.constraints if not c.chetaev]
        none = jnp.zeros((0, jet.shape[1]))
        return jnp.concatenate([none, *(c.force_rows(self.problem, jet[0], jet[1], jet[2], t) for c in chosen)])


@jets_of.register(VariationalProblem)
class HigherJets(JetSpace):
    """(q, q̇, …, q⁽ᵏ⁾)."""

    def __init__(self, problem: VariationalProblem):
        super().__init__(problem)
        self.slots, self.fastest, self.order = problem.derivatives + 1, problem.derivatives, problem.derivatives

    def check_data(self, q0, v0, t0):
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
    """A node of the window, and the differences of the others from it. here: which node it is.

    With forces the nodes before and after it belong to the window; behind: how many these add before it.
    """

    timed: ClassVar[bool] = False

    def __init__(self, problem: DiscreteSystem):
        super().__init__(problem)
        here = 0 if problem.kinematic is None else problem.factor - 1
        last = 1 if problem.kinematic is None else problem.order
        pushed = problem.forces is not None
        self.here = max(here, 1) if pushed else here
        self.behind = self.here - here
        self.slots = max(last + self.behind, self.here + 1 if pushed else 0) + 1
        self.fastest = max(self.here, 1)

    def check_data(self, q0, v0, t0):
        check_discrete(self.problem, np.stack([q0, q0 + v0]))

    def _window(self, jet):
        others = [jet[0] + x for x in jet[1:]]
        return [*others[: self.here], jet[0], *others[self.here :]]

    def _constrained(self, jet):
        """The nodes that the constraints read."""
        return self._window(jet)[self.behind : self.behind + self.problem.order + 1]

    def force(self, jet, t):
        """f_d⁻ + f_d⁺ at the node."""
        if self.problem.forces is None:
            return super().force(jet, t)
        before, here, after = self._window(jet)[self.here - 1 : self.here + 2]
        return discrete_impulses(self.problem, here, after, t)[0] + discrete_impulses(self.problem, before, here, t)[1]

    def action(self, jet, t):
        at = max(self.here - 1, 0)
        return self.problem.call(self.problem.lagrangian, *self._window(jet)[at : at + 2], t=t)

    def equations(self, jet, t):
        if self.problem.kinematic is None:
            return jnp.zeros(0)
        return jnp.atleast_1d(self.problem.call(self.problem.kinematic, *self._constrained(jet), t=t))

    def reactions(self, jet, t):
        none = self.problem.kinematic is None
        return jnp.zeros((0, jet.shape[1])) if none else node_reactions(self.problem, self._constrained(jet), t)

    def given_rows(self, jet, t):
        return self.reactions(jet, t)

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


NOISE = 1e-13  # of the largest terms of a condition: what is smaller is rounding, and is not made larger


class Facts(NamedTuple):
    """Values and derivatives that enter the conditions at K samples; "slot" stands for q, v, a, …

    value: L (K,). action: L by each slot (K, slots, n). force: f (K, n), and by slots (K, n, slots, n). equations: φ by
    slots (K, m, slots, n). rows: R (K, m, n). given: rows that the user wrote (K, g, n), and by slots (K, g, n, slots, n).
    """

    value: Any
    action: Any
    force: Any
    force_by: Any
    equations: Any
    rows: Any
    given: Any
    given_by: Any


def _facts(problem: Any, jet, t) -> Facts:
    of = jets_of(problem)
    action, force, equations, given = (lambda x, f=f: f(x, t) for f in (of.action, of.force, of.equations, of.given_rows))
    return Facts(
        *jax.value_and_grad(action)(jet), force(jet), jax.jacfwd(force)(jet), jax.jacfwd(equations)(jet),
        of.reactions(jet, t), given(jet), jax.jacfwd(given)(jet),
    )  # fmt: skip


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


def affine_units(scales: np.ndarray) -> np.ndarray:
    """(n² + n,) with which those fields are at most of the size of the coordinates, and of their rates, in every slot."""
    ratios = scales[:, :, None] / scales[:, None, :]  # (slots, i, j): of q_j ∂_i
    return np.concatenate([(np.min(ratios, axis=0) / ratios[0]).ravel(), np.ones(scales.shape[1])])


class LeftSides(NamedTuple):
    """Left sides (rows, p), zero where a field satisfies them, and the sums of the sizes of their terms."""

    sums: np.ndarray
    terms: np.ndarray


class Conditions(NamedTuple):
    """action: ξL. constraints: ξφ where φ = 0. forces: the change of f. reactions: of the space of reactions. work: R ξ and
    f·ξ, what enters the balance of the momentum.
    """

    action: LeftSides
    constraints: LeftSides
    forces: LeftSides
    reactions: LeftSides
    work: LeftSides


def conditions(facts: Facts, along: Directions, sizes: np.ndarray) -> Conditions:
    """The conditions on p fields. sizes: (n,) of the coordinates."""
    bare = [np.abs(x) for x in facts], [np.abs(x) for x in along]
    sums, terms = _left_sides(facts, along), _left_sides(Facts(*bare[0]), Directions(*bare[1]))
    kernels = _kernels(facts.rows * sizes)
    unit = sizes[:, None]
    found = [
        (sums[0], terms[0]),
        (sums[1], terms[1]),
        (sums[2] * unit, terms[2] * unit),
        (_inside(sums[3] * unit, kernels), _inside(terms[3] * unit, np.abs(kernels))),
        (sums[4], terms[4]),
    ]
    return Conditions(*(LeftSides(*(x.reshape(-1, x.shape[-1]) for x in pair)) for pair in found))


def _left_sides(facts: Facts, along: Directions) -> tuple[np.ndarray, ...]:
    """ξL, ξφ, ξf + Dξᵀf, ξR + R Dξ, and (R ξ, f·ξ)."""
    xi = along.lifted[:, 0]
    changed = lambda by: np.einsum("k...sn,ksnp->k...p", by, along.lifted)  # noqa: E731
    carried = lambda rows: np.einsum("k...n,knip->k...ip", rows, along.slope)  # noqa: E731
    work = np.concatenate([np.einsum("kmn,knp->kmp", facts.rows, xi), np.einsum("kn,knp->kp", facts.force, xi)[:, None]], 1)
    return (
        changed(facts.action), changed(facts.equations), changed(facts.force_by) + carried(facts.force),
        changed(facts.given_by) + carried(facts.given), work,
    )  # fmt: skip


def _kernels(rows: np.ndarray) -> np.ndarray:
    """Orthonormal bases of ker R, (K, n, n - m)."""
    count, m, n = rows.shape
    if not m:
        return np.broadcast_to(np.eye(n), (count, n, n))
    return np.linalg.svd(rows, full_matrices=True)[2][:, m:].transpose(0, 2, 1)


def _inside(turned: np.ndarray, kernels: np.ndarray) -> np.ndarray:
    """The components of (K, g, n, p) covectors on ker R, (K, g, n - m, p)."""
    return np.einsum("kgip,kid->kgdp", turned, kernels)


def equilibrate(blocks: Sequence[LeftSides], units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All rows, each over the largest of its terms, and units (p,) of the fields in which no field is small in all rows.

    units: in which the fields are about as large as each other; from these come the largest terms. Each block is divided
    by the root of its length, so that its rows count as much as one.
    """
    blocks = [x for x in blocks if len(x.sums)]
    lengths = [_lengths(x.terms * units) for x in blocks]
    largest = np.max([np.max(x.terms / size[:, None], axis=0) for x, size in zip(blocks, lengths, strict=True)], axis=0)
    chosen = np.where(largest > 0.0, 1.0 / np.where(largest > 0.0, largest, 1.0), units)
    rows = [x.sums * chosen / size[:, None] / np.sqrt(len(size)) for x, size in zip(blocks, lengths, strict=True)]
    return np.vstack(rows), chosen


def _lengths(terms: np.ndarray) -> np.ndarray:
    """The largest term of each row, and at least what is no rounding of the largest of all; 1 where there is none."""
    largest = np.max(terms, axis=1, initial=0.0)
    found = np.maximum(largest, NOISE * np.max(largest, initial=0.0))
    return np.where(found > 0.0, found, 1.0)


def relative(balance: LeftSides) -> float:
    """The largest left side over its terms."""
    if not balance.sums.size:
        return 0.0
    return float(np.max(np.abs(balance.sums) / _lengths(balance.terms)[:, None]))


def _restrictions(problem: Any, jet, t):
    """Values of the restrictions, which vanish on the samples, (r,), and their derivatives, (r, slots, n)."""
    of = jets_of(problem).restrictions
    return of(jet, t), jax.jacfwd(of)(jet, t)


ITERATIONS = 12  # of Gauss and Newton: a start further away is left out
SEED = 20
SLOW = 0.1  # of the speed at which a coordinate has the energy of the others
ROUNDS = 5  # of drawing points, where some are outside the domain


class Neighbourhood(NamedTuple):
    """Neighbourhood in which samples are drawn: q0 and v0 (n,) at t0, and how far from them, (n,) or None."""

    q0: np.ndarray
    v0: np.ndarray
    t0: float
    size: np.ndarray | None


def place_of_search(door: str, system: Any, q0: Any, v0: Any, t0: Any, size: Any) -> Neighbourhood:
    """The place as it was given to a door, checked."""
    check_flat(system, door)
    q, v = as_state(q0, v0, getattr(system, "coordinates", None), as_numbers)
    now = float(as_number(t0, "t0", "a finite time"))
    reach = None if size is None else as_vector(size, "size", len(q), as_numbers)
    if reach is not None and np.any(reach <= 0.0):
        raise ValueError(f"size: found {reach}; give a positive size for each coordinate")
    refuse_traced(door, system)
    return Neighbourhood(q, v, now, reach)


class Samples(NamedTuple):
    """jets: (K, slots, n) on the constraints, at times (K,). scales: (slots, n) of the jets. centre: (n,) of the samples."""

    jets: np.ndarray
    times: np.ndarray
    facts: Facts
    scales: np.ndarray
    centre: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """(n,) of the coordinates."""
        return self.scales[0]


@seldom
def inertia_at(problem: Any, jet, t):
    """|∂²L/∂x_j²| of the highest derivative that L reads, (n,)."""
    jets = jets_of(problem)
    of = lambda x: jets.action(jet.at[jets.fastest].set(x), t)  # noqa: E731
    return abs(jax.hessian(of)(jet[jets.fastest]).diagonal())


def sample(problem: Any, place: Neighbourhood, count: int) -> Samples:
    """At least `count` jets around (q0, v0), on the constraints, some at rest; ValueError where too few are found.

    More than `count` are drawn where some have to be left out: with fewer conditions than unknowns fields would be found
    that are no symmetries.
    """
    q0, v0, t0, size = place
    start = jets_of(problem).first(q0, v0)
    scales = scales_at(problem, start, t0, size)
    random, kept = np.random.default_rng(SEED), []
    for _ in range(ROUNDS):
        kept.append(_draw_samples(problem, start, t0, scales, count, random))
        if sum(len(jets) for jets, *_ in kept) >= count:
            jets, times = (np.concatenate(x) for x in zip(*(x[:2] for x in kept), strict=True))
            facts = Facts(*map(np.concatenate, zip(*(x[2] for x in kept), strict=True)))
            return Samples(jets, times, facts, scales, np.mean(jets[:, 0], axis=0))
    raise ValueError(
        f"q0, v0, size: of {ROUNDS * count} points drawn around them only {sum(len(x[0]) for x in kept)} lie on the "
        f"constraints with finite derivatives, and {count} are needed; give a state inside the domain, and a size (n,) in "
        "which the functions are smooth"
    )


def scales_at(problem, start: np.ndarray, t0: float, size) -> np.ndarray:
    """The sizes of the neighbourhood, (slots, n)."""
    q0, v0 = start[0], np.abs(start[1])
    inertia = np.asarray(inertia_at(problem, start, t0))
    place = with_inertia(np.abs(q0) if np.any(q0) else np.abs(v0), inertia, 1.0) if size is None else size
    place = np.where(place > 0.0, place, 1.0)
    speed = with_inertia(np.abs(v0), inertia, SLOW) if np.any(v0) else place
    speed = np.where(speed > 0.0, speed, 1.0)
    time = float(np.min(place / speed)) if jets_of(problem).timed else 1.0
    return np.stack([place, *(speed / time**j for j in range(len(start) - 1))])


def _draw_samples(problem, start: np.ndarray, t0: float, scales: np.ndarray, count: int, random) -> tuple:
    """(jets, times, facts) of `count` random points, without those that do not come to lie on the constraints."""
    jets = random.uniform(-1.0, 1.0, (count, *start.shape)) * scales
    jets[: count // 4, 1:] = -start[1:]
    time = float(np.min(scales[0] / scales[1])) if problem.time_dependent else 0.0
    times = t0 + time * random.uniform(-1.0, 1.0, count)
    jets, near = _onto(problem, start + jets, times, scales)
    facts = Facts(*map(np.asarray, over_rows(_facts, (jets, times), problem)))
    finite = near & np.all([np.isfinite(x).reshape(count, -1).all(axis=1) for x in facts], axis=0)
    return jets[finite], times[finite], Facts(*(x[finite] for x in facts))


def _onto(problem, jets: np.ndarray, times: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Newton with steps of least norm in units of `scales`; which of the jets arrived."""
    count, near = len(jets), np.ones(len(jets), dtype=bool)
    for last in range(ITERATIONS + 1):
        values, slopes = map(np.asarray, over_rows(_restrictions, (jets, times), problem))
        if not values.shape[1]:
            break
        scaled = (slopes * scales).reshape(count, values.shape[1], -1)
        near = np.isfinite(scaled).all(axis=(1, 2)) & np.isfinite(values).all(axis=1)
        lengths = np.sum(np.abs(scaled), axis=2)
        near &= np.all(np.abs(values) <= CONSISTENT**2 * 1e3 * lengths, axis=1)  # a last step below squares what is left
        scaled, lengths = (np.where(np.isfinite(x), x, 0.0) for x in (scaled, lengths))
        each = np.where(lengths > 0.0, lengths, 1.0)
        away = np.linalg.pinv(scaled / each[:, :, None], rcond=1e-10) @ np.nan_to_num(values / each)[:, :, None]
        if last == ITERATIONS or near.all():
            break
        jets = jets - away.reshape(jets.shape) * scales
    return jets, near
