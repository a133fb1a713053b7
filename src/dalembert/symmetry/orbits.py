"""quotient: the flow of a system on its states modulo a group of symmetries, and the way back.

Affine maps commute with differences of points. So a step of any order goes from orbit to orbit of a group of such maps that
leaves L, the constraints and the space of reactions as they are. A state is carried to a slice across the orbits,
z = g ẑ(x), and g is composed from step to step: no quadrature, and no error of its own.

A state is (q, v) of a System, and a window of nodes of a DiscreteSystem, taken as (q₀, q₁ - q₀, …): a point and vectors.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import DiscreteSystem, Scheme, as_scheme
from dalembert.notebook import Described, described_by_fields
from dalembert.numbers import as_number, as_numbers, as_positive, as_state, as_vector, check_class, described, whole_number
from dalembert.options import Start
from dalembert.step import simulate
from dalembert.symmetry.conditions import jets_of, scales_at
from dalembert.symmetry.reduced import FullMotion
from dalembert.symmetry.search import Symmetry, in_words, read_generators, symmetries
from dalembert.systems import RankDeficientError, System, acceleration, check_flat, check_x64
from dalembert.systems import momentum as momentum_at
from dalembert.systems.equations import all_reactions, force
from dalembert.tracing import Jitted, over_rows, seldom

CLOSED = 1e-9  # relative: by how much brackets of generators may leave their span
FREE = 1e-6  # the least singular value of the fields at a state, each of length 1
EQUAL = 1e-8  # relative, of a step from a moved state and the moved step
TURNS, NEAR = 12, 1e-13  # of Newton's method on the group, and its last correction
HALVED, TERMS = 2, 20  # of the exponential
ASIDE = 0.3  # by how much a state is moved for that comparison, in units of the state

State = Float[Array, "slots n"]
Element = Float[Array, "n_plus_1 n_plus_1"]


@dataclasses.dataclass(frozen=True, eq=False)
class Slice:
    """States z with (z - centre)·W ξ_a(centre) = 0, and the group that carries others there.

    fields: (k, n+1, n+1), ((A, b), (0, 0)), which act on (q, 1) and (v, 0). rows: (k, slots n) the equations of the slice.
    lengths: (k,) of the fields at the centre, in units of the state.
    solved: numbers of the k entries of z that these determine; kept: of the others, x.
    """

    fields: np.ndarray
    centre: np.ndarray
    rows: np.ndarray
    lengths: np.ndarray
    solved: tuple[int, ...]
    kept: tuple[int, ...]

    def section(self, x) -> State:
        """ẑ(x)."""
        kept, solved, centre = np.array(self.kept), np.array(self.solved), self.centre.ravel()
        slopes = -np.linalg.solve(self.rows[:, solved], self.rows[:, kept])
        z = jnp.asarray(centre).at[kept].set(x).at[solved].set(centre[solved] + slopes @ (x - centre[kept]))
        return z.reshape(self.centre.shape)

    def fields_at(self, z: State) -> Float[Array, "k slots n"]:
        """ξ_a, lifted to the state."""
        return jnp.einsum("aij,sj->asi", self.fields[:, :-1], _lift(z))

    def element(self, e) -> Element:
        """exp(Σ e_a ξ_a), by halving the steps and Taylor's series: moves of a state to a slice nearby are small."""
        part = jnp.einsum("a,aij->ij", e, self.fields) / 2**HALVED
        one = jnp.eye(len(part))
        series = jax.lax.fori_loop(0, TERMS, lambda i, x: one + part @ x / (TERMS - i), one)
        return jax.lax.fori_loop(0, HALVED, lambda _, x: x @ x, series)

    def split(self, z: State) -> tuple[Float[Array, "d"], Element]:
        """(x, g) with z = g ẑ(x); NaN where no element near the identity is found."""

        def correct(found):
            count, g, on, _ = found
            away = self.rows @ (on - self.centre).ravel()
            e = jnp.linalg.solve(jnp.einsum("ri,ai->ra", self.rows, self.fields_at(on).reshape(len(self.rows), -1)), away)
            return count + 1, g @ self.element(e), act(self.element(-e), on), jnp.max(jnp.abs(self.lengths * e))

        first = jnp.zeros((), int), jnp.eye(len(z[0]) + 1), z, jnp.asarray(jnp.inf)
        _, g, on, last = jax.lax.while_loop(lambda x: (x[0] < TURNS) & (x[3] > NEAR), correct, first)
        return jnp.where(last <= np.sqrt(NEAR), on.ravel()[np.array(self.kept)], jnp.nan), g


def _lift(z: State):
    """(q, 1), and 0 behind vectors."""
    return jnp.concatenate([z, jnp.eye(len(z), 1)], axis=1)


def act(g: Element, z: State) -> State:
    """g z."""
    return (_lift(z) @ g.T)[:, :-1]


class _OfSystem:
    """The states (q, v) of a System: how they are given, stepped and given back."""

    def __init__(self, system: System):
        self.system = system

    def first(self, q0, v0, nodes) -> np.ndarray:
        """The state from which the motion starts."""
        if nodes is not None or q0 is None or v0 is None:
            raise TypeError("q0, v0, nodes: a System starts from q0 and v0, without nodes")
        return np.stack(as_state(q0, v0, self.system.coordinates, as_numbers))

    def marks(self, slots: int) -> list[str]:
        """What is set behind the name of a coordinate, for each slot."""
        return ["", "\u0307"]

    def scheme(self, given: Scheme | None) -> Scheme | None:
        """The scheme of a step."""
        chosen = as_scheme(given)
        if chosen.form_for(self.system.constraints) == "nodes":
            raise ValueError("scheme: the states of form 'nodes' are no (q, v); take another form, with the same nodes")
        return chosen

    def step(self, z: State, h: Any, scheme: Scheme | None, t) -> State:
        """The state after one step of the full system; NaN where it is not solved."""
        path = simulate(self.system, z[0], z[1], h=h, steps=1, scheme=scheme, t0=t, throw=False)
        return jnp.where(path.outcome == 0, jnp.stack([path.q[1], path.v[1]]), jnp.nan)

    def momentum(self, across: Slice, z: State, t) -> Float[Array, "k"]:
        """p·ξ_a."""
        return jnp.einsum("ai,i->a", across.fields_at(z)[:, 0], momentum_at(self.system, z[0], z[1], t))

    def read_state(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The state with these numbers of a user; ValueError."""
        if v.shape != q.shape:
            raise ValueError(f"v: found shape {v.shape}; give one of shape {q.shape}")
        return np.stack([q, v])

    def motion(self, t: np.ndarray, z: np.ndarray) -> FullMotion:
        """The motion through these states."""
        return FullMotion(t, z[:, 0], t, z[:, 1])

    def rates(self, reduced: Quotient, x: Any, t: Any) -> QuotientRates:
        """The reduced equations of motion."""
        time = jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)
        return _rates(self.system, reduced.slice, as_vector(x, "x", len(reduced.x0)), time)


class _OfNodes:
    """The same of a DiscreteSystem: (q₀, q₁ - q₀, …)."""

    def __init__(self, system: DiscreteSystem):
        self.system = system

    def first(self, q0, v0, nodes):
        if nodes is None or q0 is not None or v0 is not None:
            raise TypeError("system, nodes: a DiscreteSystem starts from its first nodes, (p, n), without q0 and v0")
        first = as_numbers(nodes, "nodes")
        if first.ndim != 2 or len(first) != self.system.reading(first.shape[-1]).needed:
            raise ValueError(f"nodes: found shape {first.shape}; give the first nodes of the system, (p, n)")
        return np.concatenate([first[:1], first[1:] - first[0]])

    def marks(self, slots):
        return ["", *(f"[{j}]" for j in range(1, slots))]

    def scheme(self, given):
        if given is not None:
            raise ValueError("scheme: a DiscreteSystem has none; leave it out")

    def step(self, z, h, scheme, t):
        path = simulate(self.system, start=Start(nodes=self._nodes(z)), h=h, steps=len(z), t0=t, throw=False)
        return jnp.where(path.outcome == 0, jnp.concatenate([path.q[1:2], path.q[2:] - path.q[1]]), jnp.nan)

    def momentum(self, across, z, t):
        last = self._nodes(z)[-2:]
        slope = jax.grad(lambda q: self.system.call(self.system.lagrangian, last[0], q, t=t))(last[1])
        return jnp.einsum("ai,i->a", across.fields_at(last[1:])[:, 0], slope)

    def read_state(self, q, v):
        shape = (self.system.reading(len(q)).needed - 1, len(q))
        if v.shape != shape:
            raise ValueError(f"v: found shape {v.shape}; give one of shape {shape}")
        return np.concatenate([q[None], v - q])

    def motion(self, t, z):
        h, behind = t[1] - t[0], z.shape[1] - 1
        q = np.concatenate([z[:, 0], z[-1, 0] + z[-1, 1:]])
        t = np.concatenate([t, t[-1] + h * np.arange(1, behind + 1)])
        return FullMotion(t, q, 0.5 * (t[1:] + t[:-1]), np.diff(q, axis=0) / h)

    def rates(self, reduced, x, t):
        raise ValueError("rates: a DiscreteSystem has no continuous equations; use simulate")

    def _nodes(self, z: State):
        return jnp.concatenate([z[:1], z[1:] + z[0]])


@functools.singledispatch
def _states(system: Any) -> _OfSystem | _OfNodes:
    raise TypeError(f"system: found {described(system)}; give a System or a DiscreteSystem")


_states.register(System, _OfSystem)
_states.register(DiscreteSystem, _OfNodes)


@described_by_fields
class QuotientMotion(NamedTuple):
    """A motion of the states modulo the group.

    Attributes:
        t: (K,) times of the states.
        x: (K, d) the states on the slice.
        moves: (K-1, n+1, n+1) g_k with z_{k+1} = g_k ẑ(x_{k+1}) one step after ẑ(x_k), as matrices on (q, 1).
        momentum: (K, k) p·ξ of each generator on the slice; of a DiscreteSystem that of the last two nodes.
    """

    t: Float[np.ndarray, "K"]
    x: Float[np.ndarray, "K d"]
    moves: Float[np.ndarray, "K_minus_1 n_plus_1 n_plus_1"]
    momentum: Float[np.ndarray, "K k"]


@described_by_fields
class QuotientRates(NamedTuple):
    """The reduced equations of motion at a state on the slice.

    Attributes:
        x: (d,) ẋ.
        group: (k,) η with ġ = g Σ η_a ξ_a, the equation of reconstruction.
        momentum: (k,) d/dt of p·ξ_a, by the momentum equation (f + Rᵀλ)·ξ_a + Σ η_b p·[ξ_a, ξ_b].
        work: (k,) its first term.
    """

    x: Float[Array, "d"]
    group: Float[Array, "k"]
    momentum: Float[Array, "k"]
    work: Float[Array, "k"]


@dataclasses.dataclass(frozen=True, eq=False)
class Quotient(Described):
    """The flow of a system modulo a group of symmetries.

    Attributes:
        original: the System or DiscreteSystem.
        coordinates: (d,) the names of x, which are those of entries of the state on the slice.
        x0: (d,) x of the given state.
        generators: (k,) the symmetries, as they were checked.
        slice: the slice, with the map x ↦ ẑ(x).
        t0: time of the given state.
    """

    original: System | DiscreteSystem
    coordinates: tuple[str, ...]
    x0: Float[np.ndarray, "d"]
    generators: tuple[Symmetry, ...]
    slice: Slice
    t0: float

    def simulate(self, *, h: float, steps: int, scheme: Scheme | None = None) -> QuotientMotion:
        """Step x: from ẑ(x_k) by a step of the full equations, and back to the slice.

        The unknowns of a step are (x_{k+1}, g_k, λ_k): its equations, written on the slice, are those of the shape, the
        momentum equation along the group, and the kinematic ones.

        Args:
            h: time step; of a DiscreteSystem as in `da.simulate`.
            steps: N; N + 1 states are returned.
            scheme: a Scheme whose state is (q, v), of any order; None for a DiscreteSystem.

        Returns:
            A QuotientMotion.

        Raises:
            ValueError: the scheme is one of nodes, or its maps do not commute with the group, by how much is said.
            RankDeficientError: the group does not act freely at a state that was reached, or a step was not solved.
        """
        step, count = float(as_positive(h, "h")), whole_number(steps, "steps")
        chosen = _states(self.original).scheme(scheme)
        times = self.t0 + step * np.arange(count + 1)
        found = _run(self, jnp.asarray(step), chosen, jnp.asarray(self.x0), jnp.asarray(times[:-1]))
        misses, rest, moves = map(np.asarray, found)
        self._check_equivariance(misses)
        x = np.concatenate([self.x0[None], rest])
        if not np.all(good := np.all(np.isfinite(x), axis=1)):
            last = int(np.argmin(good)) - 1
            free = _freedom(self.slice, x[last])
            raise RankDeficientError(
                f"steps: no state follows x = {x[last]} at t = {times[last]:g}: the step cannot be solved, or leads to "
                f"where the orbit does not cross the slice (least singular value of the fields before it: {free:.2g}); "
                "take a shorter step, or a new quotient from there"
            )
        return QuotientMotion(times, x, moves, np.asarray(over_rows(_momentum, (x, times), self)))

    def reconstruct(self, motion: QuotientMotion) -> FullMotion:
        """z_k = g_0 ⋯ g_{k-1} ẑ(x_k): the motion of all coordinates from the given state, of the order of its steps.

        Args:
            motion: what `simulate` returned.

        Returns:
            A FullMotion. Of a DiscreteSystem q are the nodes, and v their differences over h.

        Raises:
            TypeError: motion is not a QuotientMotion.
            ValueError: it is one of another quotient.
        """
        check_class(motion, QuotientMotion, "motion", "what simulate of this quotient returned")
        if motion.x.shape[1:] != self.x0.shape or motion.moves.shape[1:] != self.slice.fields.shape[1:]:
            raise ValueError(
                f"motion: has states of shape {motion.x.shape[1:]}; those of this quotient have {self.x0.shape}"
            )
        z = np.asarray(_compose(self.slice, motion.x, motion.moves))
        return _states(self.original).motion(motion.t, z)

    def split(self, q, v) -> tuple[Float[np.ndarray, "d"], Float[np.ndarray, "n_plus_1 n_plus_1"]]:
        """(x, g) of a state g ẑ(x), by Newton's method from g = 1.

        Args:
            q: (n,); of a DiscreteSystem its first node.
            v: (n,); of a DiscreteSystem (p - 1, n), the other nodes.

        Returns:
            x and g, a matrix on (q, 1); NaN where no g is found.
        """
        place = as_vector(q, "q", self.slice.centre.shape[1], as_numbers)
        x, g = _split(self.slice, jnp.asarray(_states(self.original).read_state(place, as_numbers(v, "v"))))
        return np.asarray(x), np.asarray(g)

    def rates(self, x, t: float = 0.0) -> QuotientRates:
        """The reduced equations ẋ = X(x), ġ = g η(x) and the momentum equation.

        (v, a) of the equations of motion at ẑ(x) is taken apart into its part along the slice and its part along the group.

        Args:
            x: (d,).
            t: time.

        Returns:
            A QuotientRates.

        Raises:
            ValueError: the system is a DiscreteSystem, or x has the wrong shape.
        """
        return _states(self.original).rates(self, x, t)

    def describe(self) -> str:
        """The states before and after the reduction, and each generator."""
        slots, n = self.slice.centre.shape
        head = f"quotient: states of {slots * n} numbers to {len(self.x0)} ({', '.join(self.coordinates)})"
        return "\n".join([head, *(one.describe() for one in self.generators)])

    def _check_equivariance(self, misses: np.ndarray) -> None:
        """ValueError where a step does not go from orbit to orbit."""
        for one, miss in zip(self.generators, misses, strict=True):  # NaN where there is no step, as the run will say
            if miss > EQUAL:
                raise ValueError(
                    f"scheme: a step from a state that {one.name} has moved misses the moved step by {miss:.2g} of it; the "
                    "maps of the scheme, or the root that it takes, do not commute with the group"
                )


def quotient(
    system: System | DiscreteSystem, q0=None, v0=None, *, generators: Any, nodes=None, t0: float = 0.0, size=None
) -> Quotient:
    """Reduce a system, with constraints of any order, by a group of symmetries that acts freely on its states.

    z = g ẑ(x): ẋ = X(x), ġ = g η(x) and dp·ξ/dt = (f + Rᵀλ)·ξ; of nodes (x_k, x_{k+1}, g_k, λ_k) in place of q_{k+1}.

    The group need not commute, and need not act freely on Q: the rigid motions of the plane do not, and act freely on
    its velocities that are not zero. The reactions may act along it: its momentum is then no constant, as with the
    actuator of a servo. Where no momentum changes, `routh` leaves the coordinates of the group out altogether; where
    constraints of order 1 determine how the group moves, `chaplygin` does.

    A scheme of maps Beta and Central, and each of its compositions, commutes with affine maps. So the reduced motion,
    reconstructed by composing the g_k, is that of the full system at every node, for orders 2 to 10.

    Args:
        system: a System, with any constraints, or a DiscreteSystem.
        q0: (n,) initial positions of a System.
        v0: (n,) initial velocities.
        generators: a Symmetry, what `symmetries` returned, or a list of Symmetries and pairs (A, b) for ξ = A q + b,
            whose brackets are combinations of them.
        nodes: (p, n) for a DiscreteSystem, its first nodes, as for Start(nodes=…).
        t0: time of the state.
        size: (n,) how far from the state others are drawn, as for `symmetries`.

    Returns:
        A Quotient.

    Raises:
        ValueError: a generator is no symmetry, and which condition fails by how much; their brackets leave their span;
            or an argument has the wrong shape.
        RankDeficientError: the group does not act freely at the state.
        TypeError: an argument is of the wrong type, or traced.

    Source: announced in Borda, Fernández, Grillo, Section 6; for discrete nonholonomic systems Fernández, Tori, Zuccalli,
    Lagrangian reduction of nonholonomic discrete mechanical systems. What differs: a slice of the states in place of a
    connection on Q, so that the group may have fixed points there.

    Example:
        >>> from dalembert.gallery import ENTRIES
        >>> bend = ENTRIES["curvature_particle"]  # by the rigid motions of the plane: one number is left, the speed
        >>> turn, still = [[0.0, -1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]
        >>> rigid = [(still, [1.0, 0.0]), (still, [0.0, 1.0]), (turn, [0.0, 0.0])]
        >>> small = da.symmetry.quotient(bend.system, bend.q0, bend.v0, generators=rigid)
        >>> back = small.reconstruct(small.simulate(h=0.1, steps=50, scheme=da.Scheme(order=6)))
        >>> full = da.simulate(bend.system, bend.q0, bend.v0, h=0.1, steps=50, scheme=da.Scheme(order=6))
        >>> len(small.x0), bool(abs(back.q - full.q).max() < 1e-12)
        (1, True)
    """
    check_x64()
    states = _states(system)
    jets_of(system)
    check_flat(system, "quotient")
    centre = states.first(q0, v0, nodes)
    now, n = float(as_number(t0, "t0", "a finite time")), centre.shape[1]
    pairs = read_generators(generators, n)
    names = system.coordinates or tuple(f"q{i}" for i in range(n))
    words = [in_words(*pair, names) for pair in pairs]
    found = symmetries(system, centre[0], centre[1], generators=dict(zip(words, pairs, strict=True)), t0=now, size=size)
    if missed := [one.describe() for one in found if not one.is_symmetry]:
        raise ValueError(f"generators: {'; '.join(missed)}. A quotient needs symmetries; da.symmetries finds them")
    fields = np.stack([np.block([[matrix, shift[:, None]], [np.zeros((1, n + 1))]]) for matrix, shift in pairs])
    _check_closed(fields, words)
    reach = None if size is None else as_vector(size, "size", n, as_numbers)
    scales = scales_at(system, jets_of(system).first(centre[0], centre[1]), now, reach)[:2]
    across = _slice(fields, centre, np.concatenate([scales[:1], np.tile(scales[1:], (len(centre) - 1, 1))]))
    entries = [unicodedata.normalize("NFC", f"{name}{mark}") for mark in states.marks(len(centre)) for name in names]
    x0 = centre.ravel()[list(across.kept)]
    return Quotient(system, tuple(entries[i] for i in across.kept), x0, tuple(found), across, now)


def _check_closed(fields: np.ndarray, words: list[str]) -> None:
    """ValueError where a bracket is no combination of the generators, so that these span no group."""
    flat = fields.reshape(len(fields), -1).T
    for i, one in enumerate(fields):
        for j, other in enumerate(fields[:i]):
            terms = np.abs(one) @ np.abs(other) + np.abs(other) @ np.abs(one)
            bracket = (one @ other - other @ one).ravel()
            left = bracket - flat @ np.linalg.lstsq(flat, bracket, rcond=None)[0]
            if np.max(np.abs(left)) > CLOSED * np.max(terms):
                part = np.max(np.abs(left)) / np.max(np.abs(bracket))
                raise ValueError(
                    f"generators: {part:.2g} of the bracket of {words[j]} and {words[i]} is no combination of the "
                    "generators, which do not span a group; add the bracket"
                )


def _slice(fields: np.ndarray, centre: np.ndarray, scales: np.ndarray) -> Slice:
    """Orthogonal to the orbit in units of the state; RankDeficientError where the fields are dependent there."""
    import scipy.linalg

    lifted = np.concatenate([centre, np.eye(len(centre), 1)], axis=1)
    along = np.einsum("aij,sj->asi", fields[:, :-1], lifted).reshape(len(fields), -1) / scales.ravel()
    values = _singular_values(along)
    if not values[-1] > FREE:
        raise RankDeficientError(
            f"generators: their fields at the state are dependent, with singular values {values}; reduction needs a group "
            "that acts freely there"
        )
    found: Any = scipy.linalg.qr(along, pivoting=True)
    solved = tuple(sorted(int(i) for i in found[2][: len(fields)]))
    kept = tuple(i for i in range(centre.size) if i not in solved)
    if not kept:
        raise ValueError("generators: the group moves a state to every other; nothing is left to reduce to")
    return Slice(fields, centre, along / scales.ravel(), np.linalg.norm(along, axis=1), solved, kept)


def _singular_values(along: np.ndarray) -> np.ndarray:
    """Of rows, each of length 1."""
    sizes = np.linalg.norm(along, axis=1, keepdims=True)
    return np.linalg.svd(along / np.where(sizes > 0.0, sizes, 1.0), compute_uv=False)


def _freedom(across: Slice, x) -> float:
    """The least singular value of the fields at ẑ(x)."""
    return float(_singular_values(np.asarray(across.fields_at(across.section(x))).reshape(len(across.rows), -1))[-1])


@Jitted
def _run(reduced: Quotient, h, scheme: Scheme | None, x0, times):
    """|Φ(g z) - g Φ(z)| for an element along each generator, relative to its terms; (x, g) of every step.

    The steps from the moved states are the first of the loop, so that the step is compiled once.
    """
    across, step = reduced.slice, _states(reduced.original).step
    k, z = len(across.fields), across.section(x0)
    elements = jax.vmap(across.element)(jnp.diag(ASIDE / across.lengths))
    moved = jax.vmap(act, (0, None))(elements, z)

    def advance(x, given):
        number, t = given
        after = step(jnp.where(number < k, moved[number], across.section(x)), h, scheme, t)
        ahead, g = across.split(after)
        return jnp.where(number < k, x, ahead), (after, ahead, g)

    given = jnp.arange(k + len(times)), jnp.concatenate([jnp.broadcast_to(times[0], k), times])
    after, x, moves = jax.lax.scan(advance, x0, given)[1]
    expected = jax.vmap(act, (0, None))(elements, after[k])
    largest = lambda x: jnp.max(jnp.abs(x), axis=(1, 2))  # noqa: E731
    return largest(after[:k] - expected) / (largest(moved) + largest(expected)), x[k:], moves[k:]


@seldom
def _compose(across: Slice, x, moves):
    """g_0 ⋯ g_{k-1} ẑ(x_k)."""
    product = lambda g, each: (g @ each,) * 2  # noqa: E731
    one = jnp.eye(moves.shape[-1])
    every = jnp.concatenate([one[None], jax.lax.scan(product, one, moves)[1]])
    return jax.vmap(lambda g, y: act(g, across.section(y)))(every, x)


_split = seldom(lambda across, z: across.split(z))


def _momentum(reduced: Quotient, x, t):
    return _states(reduced.original).momentum(reduced.slice, reduced.slice.section(x), t)


@seldom
def _rates(system: System, across: Slice, x, t) -> QuotientRates:
    z = across.section(x)
    a, multipliers, _ = acceleration(system, z[0], z[1], t)
    along = across.fields_at(z)
    basis = jnp.concatenate([jax.jacfwd(across.section)(x).reshape(z.size, -1), along.reshape(len(along), -1).T], axis=1)
    rates = jnp.linalg.solve(basis, jnp.concatenate([z[1], a]))
    rest, group = rates[: len(x)], rates[len(x) :]
    pushed = force(system, z[0], z[1], t) + all_reactions(system, z[0], z[1], a, t).T @ multipliers
    work, p = along[:, 0] @ pushed, momentum_at(system, z[0], z[1], t)
    turned = jnp.einsum("i,b,bij,aj->a", p, group, across.fields[:, :-1, :-1], along[:, 0])
    fixed = jnp.einsum("i,aij,bj,b->a", p, across.fields[:, :-1, :-1], along[:, 0], group)
    return QuotientRates(rest, group, work + turned - fixed, work)
