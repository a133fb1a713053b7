"""Symmetries: affine vector fields ξ = A q + b that leave a system as it is, given by the user or found."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import DiscreteSystem
from dalembert.measure.nodes import check_direction
from dalembert.notebook import Described
from dalembert.numbers import as_choice, as_function, as_numbers, as_tolerance, check_class, described
from dalembert.symmetry.conditions import (
    Conditions,
    Directions,
    LeftSides,
    Samples,
    affine_directions,
    affine_units,
    conditions,
    equilibrate,
    jets_of,
    place_of_search,
    relative,
    sample,
    total_derivative,
)
from dalembert.systems import System, VariationalProblem, check_x64
from dalembert.systems.pickling import made
from dalembert.systems.system import LocalSystem, at_origin, group_space
from dalembert.tracing import over_rows


@dataclasses.dataclass(frozen=True, eq=False)
class Symmetry(Described):
    """A vector field ξ on Q, a candidate for a symmetry, with the residual of each condition at the samples.

    Attributes:
        name: as given, or a formula, such as "-y ∂x + x ∂y + ∂θ".
        generator: ξ(q) as a function, for `measure.momentum` and the argument `symmetries` of `verdict`.
        matrix: (n, n) A of ξ = A q + b; None if a function was given.
        shift: (n,) b; None if a function was given.
        residuals: for "action", "constraints", "forces" and "reactions": the largest change along ξ, relative to the
            sizes of its terms.
        work: the largest of R ξ and f·ξ, relative to the sizes of their terms: what changes the momentum. For a
            VariationalProblem, whose constraints are part of the action, the residual of the constraints.
        tolerance: largest residual that counts as zero.
        order: k of a VariationalProblem; None for a System.
    """

    name: str
    generator: Callable
    matrix: Float[np.ndarray, "n n"] | None
    shift: Float[np.ndarray, "n"] | None
    residuals: dict[str, float]
    work: float
    tolerance: float
    order: int | None

    @property
    def residual(self) -> float:
        """The largest residual."""
        return max(self.residuals.values(), default=0.0)

    @property
    def is_symmetry(self) -> bool:
        """True if L, the constraints, the forces and the space of reactions do not change along ξ: its flow maps
        motions to motions."""
        return self.residual <= self.tolerance

    @property
    def conserved(self) -> bool:
        """True if the momentum is conserved: L does not change along ξ, and neither forces nor reactions act along it.

        The constraints may change: p_θ of a knife edge is constant although ∂θ is not a symmetry of it. The constraints
        of a VariationalProblem are part of the action, and must not change.
        """
        return max(self.residuals["action"], self.work) <= self.tolerance

    @property
    def theorem(self) -> str:
        """The theorem about the momentum, in words."""
        if self.conserved and self.order is not None:
            return f"J = Θ·ξ of order {self.order} is kept"
        if self.conserved:
            return "J = p·ξ is kept (Noether)" if self.is_symmetry else "J = p·ξ is kept (Noether), but ξ is not a symmetry"
        if self.residuals["action"] > self.tolerance:
            return f"no symmetry: L changes by {self.residuals['action']:.1g} of its terms"
        if self.order is not None:
            return f"no symmetry: the constraints in the action change by {self.work:.1g} of their terms"
        return "dJ/dt = (f + Rᵀλ)·ξ (momentum equation)"

    def describe(self) -> str:
        """Name, theorem and residual in one line."""
        missed = [f"{name} {size:.1g}" for name, size in self.residuals.items() if size > self.tolerance]
        found = f"residual {self.residual:.1g}" if not missed else f"changed: {', '.join(missed)}"
        return f"{self.name}: {self.theorem}; {found}"


@dataclasses.dataclass(frozen=True, eq=False)
class Symmetries(Described):
    """The fields that were found or given; those whose momentum is conserved come first. It has a length, and can be
    indexed and looped over.

    Attributes:
        found: the fields, each a Symmetry.
        accepted: the largest singular value of the conditions that counted as zero; 0 if there is no symmetry, nan if
            generators were given.
        rejected: the smallest singular value that did not; inf if every field is a symmetry, nan if generators were
            given.
        samples: number of states at which the conditions were evaluated.
    """

    found: tuple[Symmetry, ...]
    accepted: float
    rejected: float
    samples: int

    @property
    def gap(self) -> float:
        """rejected/accepted: near 1 the number of symmetries is uncertain; 1e8 and more is certain."""
        return self.rejected / max(self.accepted, float(np.finfo(float).eps))

    @property
    def generators(self) -> dict[str, Callable]:
        """name → ξ(q) for the fields along which L does not change: for the argument `symmetries` of `verdict`."""
        return {one.name: one.generator for one in self.found if one.residuals["action"] <= one.tolerance}

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Symmetry]:
        return iter(self.found)

    def __getitem__(self, key: int | str) -> Symmetry:
        """By number, or by name."""
        if not isinstance(key, str):
            return self.found[key]
        for one in self.found:
            if one.name == key:
                return one
        raise KeyError(f"{key!r}: no field has this name; there are {', '.join(repr(one.name) for one in self.found)}")

    def describe(self) -> str:
        """One line for each field, and the gap of the search."""
        lines = [one.describe() for one in self.found] or ["no symmetry found"]
        if not np.isnan(self.accepted):
            lines.append(
                f"singular values: {self.accepted:.1e} counted as zero, {self.rejected:.1e} not; {self.samples} states"
            )
        return "\n".join(lines)


PIVOT = 1e-6  # of the largest entry in units of the coordinates: what is smaller does not lead a row
SHOWN = 1e-9  # relative: a number is written as the fraction that it is up to this
LARGEST_DENOMINATOR = 12


@made
def affine(matrix: Any, shift: Any) -> Callable:
    """q ↦ A q + b, called as a user's generator is, with t and p or without."""
    by, ahead = np.asarray(matrix, dtype=float), np.asarray(shift, dtype=float)
    return lambda q, *_: jnp.asarray(by) @ q + jnp.asarray(ahead)


def as_generator(value: Any, name: str, n: int) -> tuple[Callable, tuple | None]:
    """A function ξ(q), or a pair (A, b), as a function; with the pair where it was one."""
    if callable(value):
        return as_function(value, name, "of q that returns a direction (n,)"), None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name}: found {described(value)}; give a function ξ(q), or a pair (A, b) for ξ = A q + b")
    matrix, shift = (as_numbers(x, f"{name}[{i}]") for i, x in enumerate(value))
    if matrix.shape != (n, n) or shift.shape != (n,):
        raise ValueError(f"{name}: found shapes {matrix.shape} and {shift.shape}; A is ({n}, {n}) and b ({n},)")
    return affine(matrix.tolist(), shift.tolist()), (matrix, shift)


def read_generators(generators: Any, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(A, b) of one Symmetry, or of several of these and of pairs."""
    given = [generators] if isinstance(generators, Symmetry) else generators
    if not isinstance(given, list | tuple | Symmetries) or not given:
        raise TypeError(
            f"generators: found {described(generators)}; give a Symmetry, or a list of these and of pairs (A, b)"
        )
    pairs = []
    for i, one in enumerate(given):
        value = (one.matrix, one.shift) if isinstance(one, Symmetry) and one.matrix is not None else one
        if callable(value) or isinstance(value, Symmetry):
            raise ValueError(
                f"generators[{i}]: is a function; only of affine fields the flow is known, give (A, b) of A q + b"
            )
        pairs.append(as_generator(value, f"generators[{i}]", n)[1])
    return pairs


def readable(
    space: Float[np.ndarray, "r p"], units: Float[np.ndarray, "p"], order: Sequence[int], zero: float
) -> np.ndarray:
    """Reduced rows that span the same space, in the user's units, with small fractions where there are some.

    space: rows in units of the coordinates; units: what one of each entry is in the user's. order: which entry leads. zero:
    relative, what is taken for rounding; with 0 rows are reduced and nothing else.
    """
    rows, at = np.array(space, dtype=float), 0
    for column in order:
        if at == len(rows):
            break
        lead = at + int(np.argmax(np.abs(rows[at:, column])))
        if abs(rows[lead, column]) <= PIVOT * np.max(np.abs(rows[at:]), initial=0.0):
            continue
        rows[[at, lead]] = rows[[lead, at]]
        rows[at] /= rows[at, column]
        others = np.arange(len(rows)) != at
        rows[others] -= np.outer(rows[others, column], rows[at])
        at += 1
    rows = np.where(np.abs(rows) <= zero * np.max(np.abs(rows), axis=1, initial=0.0, keepdims=True), 0.0, rows) * units
    rows = _sparser(rows, zero) if zero else rows
    return np.array([_simplest(row, order, zero) for row in rows]).reshape(rows.shape)


def _sparser(rows: np.ndarray, zero: float) -> np.ndarray:
    """Multiples of one row are taken from another as long as that leaves fewer entries: three masses turn as one body."""
    rows = np.array(rows)
    changed = True
    while changed:
        changed = False
        for i, j in itertools.permutations(range(len(rows)), 2):
            both = (rows[i] != 0.0) & (rows[j] != 0.0)
            for ratio in np.unique(rows[i, both] / rows[j, both]):
                left = rows[i] - ratio * rows[j]
                left[np.abs(left) <= zero * (np.abs(rows[i]) + np.abs(ratio * rows[j]))] = 0.0
                if np.count_nonzero(left) < np.count_nonzero(rows[i]):
                    rows[i], changed = left, True
                    break
    return rows


def _simplest(row: np.ndarray, order: Sequence[int], zero: float) -> np.ndarray:
    """The row with that entry made 1, in this order, which makes most entries 1 or -1: x - 2 and not x/2 - 1."""
    candidates = [np.array([_round(x / row[c], zero) for x in row]) for c in order if row[c] != 0.0]
    return max(candidates, key=lambda x: int(np.sum(np.abs(x) == 1.0)), default=row)


def _round(x: float, zero: float) -> float:
    """The fraction with a small denominator that x is up to rounding; x itself otherwise."""
    if not math.isfinite(x):
        return x
    near = float(Fraction(x).limit_denominator(LARGEST_DENOMINATOR))
    return near if abs(near - x) <= zero * abs(x) else x


def reading_order(n: int) -> list[int]:
    """Of the entries (A, b): shifts first, then A below the diagonal, so that x ∂y - y ∂x leads with 1; then the rest."""
    pairs = [(i, j) for i in range(n) for j in range(n)]
    below, above = ([i * n + j for i, j in pairs if (i > j) is kind and i != j] for kind in (True, False))
    return [*range(n * n, n * n + n), *below, *above, *(i * (n + 1) for i in range(n))]


def in_words(matrix: np.ndarray, shift: np.ndarray, names: Sequence[str]) -> str:
    """-y ∂x + x ∂y + ∂θ."""
    parts = []
    for i, name in enumerate(names):
        terms = [(matrix[i, j], other) for j, other in enumerate(names) if matrix[i, j]] + [(shift[i], "")] * bool(shift[i])
        if not terms:
            continue
        inner = _sum([_term(x, what) for x, what in terms])
        parts.append(f"({inner}) ∂{name}" if len(terms) > 1 else f"{_term(*terms[0], last=f'∂{name}')}")
    return _sum(parts) or "0"


def _sum(terms: Sequence[str]) -> str:
    return " + ".join(terms).replace("+ -", "- ")


def _term(x: float, what: str, last: str = "") -> str:
    words = " ".join(part for part in (what, last) if part)
    size = Fraction(abs(x)).limit_denominator(LARGEST_DENOMINATOR)
    number = str(size) if abs(float(size) - abs(x)) <= SHOWN * abs(x) and size else f"{abs(x):.12g}"
    sign = "-" if x < 0 else ""
    return f"{sign}{words}" if number == "1" and words else f"{sign}{number} {words}".rstrip()


Kind = Literal["affine", "linear", "translations"]
KINDS = ("affine", "linear", "translations")
ENOUGH = 1.5  # samples for each unknown
LEAST = 60
SHARP = 0.01  # times the tolerance: entries are rounded as long as the residual stays below
AT_ONE = 10.0  # times the tolerance: singular values are means over the states, residuals the largest
ROUNDINGS = (1e-9, 1e-12, 0.0)  # how much of an entry is taken for rounding, as long as the field stays what it was
SMALL = 1e-6  # of the largest entry of a field: it is tried whether such an entry is rounding
LARGEST = 4e7  # numbers in the lifted fields at all samples


class AffineSearch(NamedTuple):
    """Data of a search for affine symmetries: the problem, the samples, and the tolerance up to which a residual is none."""

    problem: Any
    samples: Samples
    tolerance: float

    def conditions(self, along: Directions) -> Conditions:
        return conditions(self.samples.facts, along, self.samples.sizes)


def symmetries(
    system: System | VariationalProblem | DiscreteSystem,
    q0,
    v0,
    *,
    generators: Mapping[str, Any] | None = None,
    kind: Kind = "affine",
    t0: float = 0.0,
    size=None,
    tolerance: float = 1e-10,
) -> Symmetries:
    """Find the symmetries of a system.

    dL(q, v)·(ξ, Dξ v) = 0, dφ·(ξ, Dξ v, …) = 0 where φ = 0, and the forces are carried along: all vector fields ξ =
    A q + b with these properties.

    The conditions are linear in (A, b). They are evaluated at random states around (q0, v0) that satisfy the
    constraints, a quarter of them at rest, each condition relative to the sizes of its terms. The fields are the null
    space of all these rows; the basis is taken in reduced row echelon form, so that its entries are mostly zeros and
    simple fractions. Fields whose momentum is conserved come first. They are followed by fields that leave L and their
    momentum unchanged but not the constraints, such as ∂θ of a knife edge.

    On groups the fields are turns and shifts of space and of the body, with affine fields of the parts that are Rⁿ; their
    directions are in the axes of the velocities, and a Symmetry has no matrix.

    Symmetries up to a total derivative, L → L + dF/dt (Galilean boosts), are not found; nor are those that hold only at
    the states of one motion.

    Args:
        system: a System, a VariationalProblem, or a DiscreteSystem.
        q0: (n,) positions around which states are drawn; for a DiscreteSystem, the node of its reactions.
        v0: (n,) velocities; for a DiscreteSystem, the difference q₁ - q₀ of neighbouring nodes.
        generators: name → ξ(q[, t][, p]), or name → (A, b): these fields are checked, and none are searched for.
        kind: the fields that are searched for: "affine" A q + b, "linear" A q, "translations" b.
        t0: time around which times are drawn.
        size: (n,) how far from q0 states are drawn in each coordinate; by default |q0|, or if q0 = 0 the distance that
            v0 covers in one unit of time, and for each coordinate at least what has the same kinetic energy.
        tolerance: singular values up to this count as zero, and so do relative residuals at one state up to ten times
            this.

    Returns:
        Symmetries.

    Raises:
        ValueError: an argument has the wrong shape, kind is unknown, or too few states are on the constraints and in
            the domain of the functions.
        TypeError: an argument is of the wrong type, or traced.

    Source: Noether's theorem; with constraints Bloch, Krishnaprasad, Marsden, Murray, Nonholonomic mechanical systems
    with symmetry, Section 3; of order k Colombo, Martín de Diego, Zuccalli, Remark 3.5. What differs: the symmetries
    are found, not given.

    Example:
        >>> found = da.symmetries(sphere, [0.6, 0.0, -0.8], [0.0, 1.0, 0.0])
        >>> [one.name for one in found], found[0].theorem
        (['-q1 ∂q0 + q0 ∂q1'], 'J = p·ξ is kept (Noether)')
    """
    check_x64()
    jets_of(system)  # refuses what has none
    problem, y0, w0 = at_origin(system, q0, v0)
    jets, place = jets_of(problem), place_of_search("symmetries", problem, y0, w0, t0, size)
    n = len(place.q0)
    as_choice(kind, "kind", KINDS, "kinds")
    small = as_tolerance(tolerance)
    jets.check_data(place.q0, place.v0, place.t0)
    family = None if problem is system else Fields(system.space, kind)
    unknowns = len(family.names) if family else n if kind == "translations" else n**2 + n
    given = None if generators is None else _read_generators(system, generators, n)
    count = LEAST if given is not None else max(LEAST, int(ENOUGH * unknowns))
    if given is None and 4.0 * count * n * unknowns > LARGEST:
        raise ValueError(
            f"kind: {unknowns} unknowns for {n} coordinates are too many; search for kind='translations', or give generators"
        )
    search = AffineSearch(problem, sample(problem, place, count), small)
    if given is not None:
        return Symmetries(tuple(_judge(search, *one) for one in given), np.nan, np.nan, len(search.samples.jets))
    return _search_affine(search, kind) if family is None else _search_family(search, family, kind)


def _read_generators(problem, generators: Any, n: int) -> list[tuple[str, Callable, tuple | None]]:
    """(name, ξ, (A, b) or None) of each."""
    check_class(generators, Mapping, "generators", "name → ξ(q) or (A, b), such as {'turn': turn}")
    out = []
    for name, value in generators.items():
        if group_space(problem) is not None:
            as_function(value, f"generators: {name}", "of q that returns a direction (n,)")
        function, pair = as_generator(value, f"generators: {name}", n)
        check_direction(problem, function, n, f"generators: {name}")
        out.append((str(name), function, pair))
    return out


def _judge(
    search: AffineSearch, name: str, function: Callable, pair: tuple | None, along: Directions | None = None
) -> Symmetry:
    """The residuals of one field. along: its directions, where they are known."""
    problem, samples, _ = search
    if along is None:
        along = Directions(*map(np.asarray, over_rows(_directions, (samples.jets, samples.times), problem, function)))
    largest = {key: relative(x) for key, x in search.conditions(along)._asdict().items()}
    work = largest.pop("work")
    if (order := jets_of(problem).order) is not None:
        work = largest["constraints"]
    matrix, shift = (None, None) if pair is None else pair
    return Symmetry(name, function, matrix, shift, largest, work, AT_ONE * search.tolerance, order)


def _directions(problem, function: Callable, jet, t):
    """ξ, and its derivatives by time along a jet: ξ⁽ʲ⁾ = d/dt ξ⁽ʲ⁻¹⁾ with q⁽ʲ⁾ of the jet; and Dξ."""
    xi = lambda q, s: _in_coordinates(problem, q, jnp.asarray(problem.call(function, q, t=s), dtype=float))  # noqa: E731
    lifts, of = [], lambda x, s: xi(x[0], s)
    for _ in jet:
        lifts.append(of(jet, t))
        of = total_derivative(of)
    lifted, slope = jnp.stack(lifts), jax.jacfwd(lambda q: xi(q, t))(jet[0])
    several = lifted.ndim == 3
    return (lifted, jnp.moveaxis(slope, 1, -1)) if several else (lifted[..., None], slope[..., None])


def _in_coordinates(problem: Any, y, direction):
    """Directions (n,) or (n, p), on a group as those of the coordinates of a LocalSystem."""
    return jnp.linalg.solve(problem.to_velocity(y), direction) if isinstance(problem, LocalSystem) else direction


class Fields:
    """On groups: turns and shifts of space and of the body, and affine fields of the parts that are Rⁿ, q ↦ (n, p)."""

    def __init__(self, space: Any, kind: Kind):
        self.space = space
        axes, columns = list(space.axes), dict(zip(space.columns, range(space.size), strict=True))
        own = [x in columns for x in axes]  # of Rⁿ: there a velocity has the name of its coordinate
        shifts = [(i, None) for i in range(space.n)] if kind != "linear" else []
        pairs = [(i, j) for i in range(space.n) for j in range(space.n) if own[i] and own[j] and kind != "translations"]
        commutes = [g.commutes for g in space.parts for _ in range(g.n)]
        turned = [(i, "body") for i in range(space.n) if not commutes[i] and kind != "linear"]
        self.fields = [*shifts, *pairs, *turned]
        self.places = [columns.get(x) for x in axes]
        ending = lambda i: "" if commutes[i] else " in space"  # noqa: E731
        self.names = [f"∂{axes[i]}{ending(i)}" for i, _ in shifts] + [f"{axes[j]} ∂{axes[i]}" for i, j in pairs]
        self.names += [f"∂{axes[i]} in the body" for i, _ in turned]

    def __call__(self, q, *_):
        x, unit = jnp.asarray(q), jnp.eye(self.space.n)
        columns = []
        for i, other in self.fields:
            if other is None:
                columns.append(self.space.to_body(x, unit[i]))
            else:
                columns.append(unit[i] if other == "body" else x[self.places[other]] * unit[i])
        return jnp.stack(columns, axis=1)


@made
def combine_fields(space: Any, kind: Kind, weights: Any) -> Callable:
    """q ↦ Σ c_k ξ_k(q) of these fields, called as a user's generator is."""
    family, c = Fields(space, kind), np.asarray(weights, dtype=float)
    return lambda q, *_: family(q) @ jnp.asarray(c)


def _search_family(search: AffineSearch, family: Fields, kind: Kind) -> Symmetries:
    """`_search_affine` on groups."""
    samples = search.samples
    along = Directions(*map(np.asarray, over_rows(_directions, (samples.jets, samples.times), search.problem, family)))
    rows, p = search.conditions(along), len(family.names)
    every, units = [*rows[:4]], 1.0 / np.maximum(np.max(np.abs(along.lifted[:, 0]), axis=(0, 1)), SMALL)
    null = lambda blocks: _null_space(blocks, units, search.tolerance)  # noqa: E731
    space, accepted, rejected = null(every)
    kept, horizontal = null([*every, rows.work])[0], null([rows.action, rows.work])[0]
    basis = lambda x: readable(x, np.ones(p), range(p), SHOWN)  # noqa: E731
    found = basis(kept)
    for one in (space, horizontal):
        found = _complete(found, basis(one), len(one) - len(kept), _of_length_one)

    def judge(row: np.ndarray) -> Symmetry:
        name = _sum([_term(c, x) for c, x in zip(row, family.names, strict=True) if c])
        combined = Directions(*(x @ row[:, None] for x in along))  # a program for each would be traced for seconds
        return _judge(search, name, combine_fields(family.space, kind, row.tolist()), None, combined)

    return Symmetries(tuple(map(judge, found)), accepted, rejected, len(samples.jets))


def _of_length_one(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _search_affine(search: AffineSearch, kind: Kind) -> Symmetries:
    """Null spaces of the conditions: with those of the momentum, without them, and without those of the constraints."""
    jets, sizes, centre = search.samples.jets, search.samples.sizes, search.samples.centre
    n = len(sizes)
    chosen = {"affine": slice(0, n * n + n), "linear": slice(0, n * n), "translations": slice(n * n, n * n + n)}[kind]
    if kind == "linear":
        centre = np.zeros(n)
        search = search._replace(samples=search.samples._replace(centre=centre))
    rows = search.conditions(affine_directions(jets, sizes, centre))
    cut = Conditions(*(LeftSides(*(x[:, chosen] for x in pair)) for pair in rows))
    every, momentum, units = [*cut[:4]], [cut.action, cut.work], affine_units(search.samples.scales)[chosen]
    null = lambda blocks: _null_space(blocks, units, search.tolerance)  # noqa: E731
    space, accepted, rejected = null(every)
    if jets_of(search.problem).order is None:
        kept, horizontal = null([*every, cut.work])[0], null(momentum)[0]
    else:
        kept, horizontal = space, space
    found: tuple[Symmetry, ...] = ()
    for zero in ROUNDINGS:
        rows = _basis(search, kept, chosen, centre, zero)
        for one in (space, horizontal):
            more = _basis(search, one, chosen, centre, zero)
            rows = _complete(rows, more, len(one) - len(kept), lambda x: _in_units(x, sizes, centre))
        found = tuple(_name_field(search, row) for row in rows)
        missed = [x.residual for x in found[: len(space)]]
        missed += [max(x.residuals["action"], x.work) for x in (*found[: len(kept)], *found[len(space) :])]
        if max(missed, default=0.0) <= SHARP * search.tolerance:
            break
    return Symmetries(found, accepted, rejected, len(jets))


def _complete(rows: np.ndarray, more: np.ndarray, count: int, scaled: Callable) -> np.ndarray:
    """The rows, and `count` of the others, which are the furthest from their span, in turn.

    How many are independent is known from the null spaces: seen from a far origin all rotations look like translations.
    """
    from scipy.linalg import qr

    if not count:
        return rows
    known, others = (scaled(x) for x in (rows, more))
    spanned = np.linalg.qr(known.T)[0]
    left = others - (others @ spanned) @ spanned.T
    found: Any = qr(left.T, mode="r", pivoting=True)
    return np.concatenate([rows, more[sorted(found[1][:count])]])


def _in_units(rows: np.ndarray, sizes: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """(A, b) in units of the coordinates and about the centre of the samples, of length 1."""
    n = len(sizes)
    matrix, shift = rows[:, : n * n].reshape(-1, n, n), rows[:, n * n :]
    linear = (matrix * sizes / sizes[:, None]).reshape(-1, n * n)
    scaled = np.concatenate([linear, (shift + matrix @ centre) / sizes], axis=1)
    return _of_length_one(scaled)


def _null_space(blocks: list[LeftSides], units: np.ndarray, tolerance: float) -> tuple[np.ndarray, float, float]:
    """Rows that span the fields with all conditions, the largest singular value that counts as zero, the smallest not."""
    matrix, units = equilibrate(blocks, units)
    width = matrix.shape[1]
    _, values, basis = np.linalg.svd(np.vstack([matrix, np.zeros((width, width))]), full_matrices=False)
    small = values <= tolerance
    accepted = float(np.max(values[small], initial=0.0))
    return basis[small] * units, accepted, float(np.min(values[~small], initial=np.inf))


def _basis(search: AffineSearch, space: np.ndarray, chosen: slice, centre: np.ndarray, zero: float) -> np.ndarray:
    """(A, b) of a readable basis, in the user's units and about the user's origin, as rows (r, n² + n)."""
    sizes, n = search.samples.sizes, len(centre)
    full = np.zeros((len(space), n * n + n))
    full[:, chosen] = space
    linear = full[:, : n * n].reshape(-1, n, n)
    full[:, n * n :] -= linear @ (centre / sizes)
    units = np.concatenate([np.outer(sizes, 1.0 / sizes).ravel(), sizes])
    return readable(full, units, reading_order(n), zero)


def _name_field(search: AffineSearch, row: np.ndarray) -> Symmetry:
    """With entries that are small set to zero where the field stays what it was: they are rounding of large ones."""
    sizes, centre = search.samples.sizes, search.samples.centre
    units = np.concatenate([np.outer(sizes, 1.0 / sizes).ravel(), np.maximum(sizes, np.abs(centre))])
    scaled = np.abs(row / units)
    found, plain = (_affine(search, x) for x in (row, np.where(scaled <= SMALL * np.max(scaled), 0.0, row)))
    same = (plain.is_symmetry, plain.conserved) == (found.is_symmetry, found.conserved)
    return plain if same and plain.residual <= max(found.residual, SHARP * search.tolerance) else found


def _affine(search: AffineSearch, row: np.ndarray) -> Symmetry:
    n = len(search.samples.sizes)
    matrix, shift = row[: n * n].reshape(n, n), row[n * n :]
    names = search.problem.coordinates or tuple(f"q{i}" for i in range(n))
    return _judge(search, in_words(matrix, shift, names), affine(matrix.tolist(), shift.tolist()), (matrix, shift))
