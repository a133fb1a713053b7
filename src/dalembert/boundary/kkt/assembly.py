"""Sums over windows with their derivatives: in machine code, or by JAX where a function cannot be translated."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra import value_and_jacobian
from dalembert.native import (
    Accumulation,
    BoundFactorization,
    Chosen,
    FrontalFactorization,
    Places,
    Summand,
    Unsupported,
    Windowed,
    compile_accumulation,
    symbolic_plan,
    vanishing,
)
from dalembert.tracing import Jitted, Remembered, remember

Pattern = tuple[tuple[int, ...], tuple[int, ...]]
Place = tuple[int, int]  # block, component
Compiled = Callable[[np.ndarray, np.ndarray], Accumulation]

TIME, ROWS = "time", "rows"  # how data of a term change besides by powers of the steps


class Term(NamedTuple):
    """Σ_i f(z_i; data_i) + νᵢᵀc(z_i; data_i), z_i = components of the blocks start+i+offset.

    function(z, data, shared): (f, c); equal functions share their compiled code. offsets, components: (L,), where the
    entries of z are found. multipliers: positions in z of the ν that belong to c. number: of
    windows, the leading axis of the arrays in data.
    """

    function: Callable
    offsets: tuple[int, ...]
    components: tuple[int, ...]
    multipliers: tuple[int, ...]
    start: int
    number: int

    def lagrangian(self, z, data, shared):
        """(f + νᵀc, f) of one window."""
        f, c = self.function(z, data, shared)
        return (f + z[np.asarray(self.multipliers)] @ c if self.multipliers else f), f

    def product(self, z, x, data, shared):
        """The second derivatives of f + νᵀc times x, (L,)."""
        slope = jax.grad(lambda y: self.lagrangian(y, data, shared)[0])
        return jax.jvp(slope, (z,), (x,))[1]

    def derivatives(self, z, data, shared):
        """(f + νᵀc, f) of one window, its gradient and its second derivatives."""
        slope = jax.grad(lambda x: _twice(*self.lagrangian(x, data, shared)), has_aux=True)
        (gradient, values), (second, _) = value_and_jacobian(slope, z)
        return jnp.stack(values), gradient, second

    def flat_offsets(self, size: int) -> tuple[int, ...]:
        """Places of the entries of z in an array of blocks of this size, counted from block start+i."""
        return tuple(o * size + c for o, c in zip(self.offsets, self.components, strict=True))

    def places(self, size: int) -> np.ndarray:
        """(count, L): places of the entries of z of every window in a flat path with blocks of this size."""
        return size * (self.start + np.arange(self.number))[:, None] + np.asarray(self.flat_offsets(size))


def term_of(function: Callable, read: Sequence[Place], own: Sequence[Place], start: int, number: int) -> Term:
    """A sum over windows from block `start` on. read, own: of a window, the places of what its function reads and of its
    multipliers, (block, component)."""
    offsets, components = zip(*read, *own, strict=True)
    return Term(function, offsets, components, tuple(range(len(read), len(read) + len(own))), start, number)


class Elements(NamedTuple):
    """The terms of a sum. data: for each of them a tree of arrays with leading axis count; shared: a tree all are given."""

    terms: tuple[Term, ...]
    data: list
    shared: Any


class CompiledAssembly:
    """The sums as loops of machine code; Unsupported where a function cannot be translated."""

    def __init__(self, elements: Elements, fixed: np.ndarray, units: np.ndarray):
        terms, data, shared = elements
        self.terms, self.size = terms, fixed.shape[1]
        self.free = np.ascontiguousarray(~fixed, dtype=float)
        self.units = self.free * units
        leaves, self.shared_tree = jax.tree.flatten(shared)
        self.shared_shapes = tuple(np.shape(x) for x in leaves)
        self.shared = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(x, float)) for x in leaves)])
        self.rows, self.kinds = [], []
        for term, given in zip(terms, data, strict=True):
            parts, tree = jax.tree.flatten(given)
            arrays = [np.asarray(x, float) for x in parts]
            self.rows.append(np.concatenate([x.reshape(term.number, -1) for x in arrays], axis=1))
            self.kinds.append((tree, tuple(x.shape[1:] for x in arrays), self.shared_tree, self.shared_shapes))
        unplaced = tuple(t._replace(start=0, number=0) for t in terms)
        self.code = _sum_code(unplaced, tuple(self.kinds), self.size)
        self.patterns = self.code.patterns
        self.first = self._bound(self.code.gradients)
        self.entries: dict[bool, list[Accumulation]] = {}
        self.ranges = [np.array([t.start, t.number], dtype=np.int64) for t in terms]

    def _bound(self, compiled: list[Compiled]) -> list[Accumulation]:
        return [code(rows, self.shared) for code, rows in zip(compiled, self.rows, strict=True)]

    def evaluate(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Σf and the gradient of L̃ at the path z (blocks, b)."""
        z = np.ascontiguousarray(z)
        found = np.zeros(z.size + 1)  # the gradient, then the objective
        read, written = z.ctypes.data, found.ctypes.data
        for term, run in zip(self.terms, self.first, strict=True):
            at = 8 * term.start * self.size
            run(term.number, (read + at,), (written + 8 * z.size, written + at))
        return float(found[-1]), found[:-1].reshape(z.shape)

    def values(self, z: np.ndarray) -> list[np.ndarray]:
        """L̃ and f of every window of the terms at the path z (blocks, b), (count, 2) each."""
        z, found = np.ascontiguousarray(z), []
        for term, run in zip(self.terms, self._bound(self.code.values), strict=True):
            both = np.zeros((term.number, 2))
            run(term.number, (z.ctypes.data + 8 * term.start * self.size,), (both.ctypes.data,))
            found.append(both)
        return found

    def add_entries(
        self, z: np.ndarray, band: np.ndarray, position: np.ndarray, lower: int, without: np.ndarray | None
    ) -> None:
        """Second derivatives of L̃, times the units of both components, into a band matrix, zero in rows and columns of what
        is fixed.

        without: components between which they are left out.
        """
        z, whole = np.ascontiguousarray(z), without is None
        if whole not in self.entries:
            self.entries[whole] = self._bound(self.code.entries(position, lower, without))
        for term, run in zip(self.terms, self.entries[whole], strict=True):
            at, into = 8 * term.start * self.size, 8 * term.start * self.size * band.shape[-1]
            run(term.number, (z.ctypes.data + at, self.units.ctypes.data + at), (band.ctypes.data + into,))

    @functools.cached_property
    def products(self) -> list[Accumulation]:
        """The products of `product`."""
        return self._bound(self.code.products)

    def product(self, z: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The second derivatives of L̃ at z times x, both (blocks, b); rows of fixed components are not zero."""
        z, x, found = np.ascontiguousarray(z), np.ascontiguousarray(x), np.zeros(z.shape)
        for term, run in zip(self.terms, self.products, strict=True):
            at = 8 * term.start * self.size
            run(term.number, (z.ctypes.data + at, x.ctypes.data + at), (found.ctypes.data + at,))
        return found

    def frontal(self, pivots: tuple[tuple[int, ...], ...], multipliers: tuple[int, ...] = ()) -> BoundFactorization:
        """The factorizations of the second derivatives with these pivots. multipliers: components with nothing of weight on
        their diagonal, which may become differences, see `SymbolicPlan`."""
        return self.code.frontal(pivots, multipliers).bind(self.free, self.ranges, self.rows, self.shared)


def _twice(whole, f):
    return whole, (whole, f)


def _flat(function: Callable, reads: int, kind) -> Callable:
    """function(*reads, data, shared) with its trees as flat arguments."""
    tree, row, shared_tree, _ = kind

    def flat(*arguments):
        data, common = arguments[reads : reads + len(row)], arguments[reads + len(row) :]
        return function(*arguments[:reads], jax.tree.unflatten(tree, data), jax.tree.unflatten(shared_tree, common))

    return flat


@remember(16)
def _derivatives(term: Term, kind) -> Windowed:
    """Derivatives of a term, traced once, from which all its codes are made."""
    read = Places(tuple(range(len(term.offsets))), 0)
    return Windowed(_flat(term.derivatives, 1, kind), (read,), kind[1], kind[3])


def _window_program(choose: Callable, reads: tuple[Places, ...], term: Term, kind) -> Windowed:
    """choose(formed, read, values, gradient, second) of a term."""
    anywhere = term._replace(offsets=(0,) * len(term.offsets), components=tuple(range(len(term.offsets))))
    return Windowed(Chosen(_derivatives(anywhere, kind), choose), reads, kind[1], kind[3])


class SumCode:
    """The machine code of a sum, which all sums share that differ in their numbers alone."""

    def __init__(self, terms: tuple[Term, ...], kinds: tuple, size: int):
        self.terms, self.kinds, self.size = terms, kinds, size
        self.places = [Places(t.flat_offsets(size), size) for t in terms]
        self.patterns = tuple(map(self._pattern, range(len(terms))))
        self._made: Remembered[Any] = Remembered(16)

    def _window_program(self, k: int, choose: Callable, reads: int = 1) -> Windowed:
        return _window_program(choose, (self.places[k],) * reads, self.terms[k], self.kinds[k])

    def _pattern(self, k: int) -> Pattern:
        """Rows and columns of the second derivatives that are not identically zero."""
        windowed = self._window_program(k, lambda formed, read, values, gradient, second: (second,))
        rows, columns = np.nonzero(~vanishing(windowed)[0])
        return tuple(rows.tolist()), tuple(columns.tolist())

    @functools.cached_property
    def gradients(self) -> list[Compiled]:
        def both(formed, read, values, gradient, second):
            return values[1:], gradient

        objective = Places((0,), 0)
        return [compile_accumulation(self._window_program(k, both), (objective, at)) for k, at in enumerate(self.places)]

    @functools.cached_property
    def values(self) -> list[Compiled]:
        def both(formed, read, values, gradient, second):
            return (values,)

        return [compile_accumulation(self._window_program(k, both), (Places((0, 1), 2),)) for k in range(len(self.terms))]

    @functools.cached_property
    def products(self) -> list[Compiled]:
        return list(map(self._product, range(len(self.terms))))

    def _product(self, k: int) -> Compiled:
        term, kind, place = self.terms[k], self.kinds[k], self.places[k]

        def slope_along(formed, read, values, gradient, second):
            return (formed.directional_derivative(gradient, *read),)

        def product(z, x, data, shared):
            return (term.product(z, x, data, shared),)

        try:
            return compile_accumulation(self._window_program(k, slope_along, 2), (place,))
        except Unsupported:  # JAX knows the derivative, and traces the term another time
            return compile_accumulation(Windowed(_flat(product, 2, kind), (place, place), kind[1], kind[3]), (place,))

    def entries(self, position: np.ndarray, lower: int, without: np.ndarray | None) -> list[Compiled]:
        """See `CompiledAssembly.add_entries`."""
        key = position.tobytes(), lower, None if without is None else without.tobytes()
        every = range(len(self.terms))
        return self._made.of(key, lambda: [self._entries(k, position, lower, without) for k in every])

    def _entries(self, k: int, position: np.ndarray, lower: int, without: np.ndarray | None) -> Compiled:
        term, width = self.terms[k], 2 * lower + 1
        rows, columns = _pattern_without(term, self.patterns[k], without)

        def entries(formed, read, values, gradient, second):
            units = read[1]
            return (formed.times(formed.times(second[rows, columns], units[rows]), units[columns]),)

        at = self.size * np.asarray(term.offsets) + position[np.asarray(term.components)]
        flat = at[rows] * width + lower + at[columns] - at[rows]
        places = Places(tuple(flat.tolist()), self.size * width)
        return compile_accumulation(self._window_program(k, entries, 2), (places,))

    def frontal(self, pivots: tuple[tuple[int, ...], ...], multipliers: tuple[int, ...]) -> FrontalFactorization:
        """See `CompiledAssembly.frontal`."""
        return self._made.of((pivots, multipliers), lambda: self._frontal(pivots, multipliers))

    def _frontal(self, pivots: tuple[tuple[int, ...], ...], multipliers: tuple[int, ...]) -> FrontalFactorization:
        summands = []
        for k, (place, pattern) in enumerate(zip(self.places, self.patterns, strict=True)):
            flat = place.offsets
            kept = [(r, c) for r, c in zip(*pattern, strict=True) if flat[r] <= flat[c]]
            rows, columns = (np.array([pair[i] for pair in kept], dtype=int) for i in (0, 1))

            def entries(formed, read, values, gradient, second, *, rows=rows, columns=columns):
                return (second[rows, columns],)

            summands.append(Summand(self._window_program(k, entries), tuple((flat[r], flat[c]) for r, c in kept)))
        every = [pair for s in summands for pair in s.entries]
        return FrontalFactorization(summands, symbolic_plan(every, self.size, pivots, multipliers))


_sum_code = remember(64)(SumCode)


def _pattern_without(term: Term, pattern: Pattern, without: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a pattern, except where both are among these components."""
    rows, columns = (np.asarray(p, dtype=int) for p in pattern)
    if without is None:
        return rows, columns
    among = without[np.asarray(term.components)]
    kept = ~(among[rows] & among[columns])
    return rows[kept], columns[kept]


class JaxAssembly:
    """The same sums by JAX, one vmapped function per term."""

    def __init__(self, elements: Elements, fixed: np.ndarray, units: np.ndarray, sample: np.ndarray):
        self.terms, self.data, self.shared = elements
        self.size, self.units = fixed.shape[1], (~fixed * units).ravel()
        self.places = [term.places(self.size) for term in self.terms]
        self.patterns = tuple(self._pattern(k, sample) for k in range(len(self.terms)))

    def _windows(self, k: int, z: np.ndarray) -> tuple[Term, np.ndarray, Any, Any]:
        """A term, what its windows read of a path, and their data."""
        return self.terms[k]._replace(start=0, number=0), z.ravel()[self.places[k]], self.data[k], self.shared

    def _pattern(self, k: int, sample: np.ndarray) -> Pattern:
        """Entries of the second derivatives that are not zero at all sample points, or not finite there."""
        second = np.array([_seconds(*self._windows(k, z)) for z in sample])
        rows, columns = np.nonzero(np.any(second != 0.0, axis=(0, 1)))
        return tuple(rows.tolist()), tuple(columns.tolist())

    def evaluate(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Σf and the gradient of L̃ at the path z (blocks, b)."""
        objective, gradient = 0.0, np.zeros(z.size)
        for k, places in enumerate(self.places):
            slopes, f = _gradients(*self._windows(k, z))
            objective += float(np.sum(f))
            np.add.at(gradient, places, np.asarray(slopes))
        return objective, gradient.reshape(z.shape)

    def values(self, z: np.ndarray) -> list[np.ndarray]:
        """L̃ and f of every window of the terms, as `CompiledAssembly.values`."""
        return [np.asarray(_values(*self._windows(k, z))) for k in range(len(self.terms))]

    def add_entries(
        self, z: np.ndarray, band: np.ndarray, position: np.ndarray, lower: int, without: np.ndarray | None
    ) -> None:
        """Second derivatives of L̃ into a band matrix, as `CompiledAssembly.add_entries`."""
        block, own = np.divmod(np.arange(z.size), self.size)
        row = block * self.size + position[own]
        for k, (term, places) in enumerate(zip(self.terms, self.places, strict=True)):
            first, second = _pattern_without(term, self.patterns[k], without)
            rows, columns = places[:, first], places[:, second]
            entries = np.asarray(_seconds(*self._windows(k, z)))[:, first, second] * self.units[rows] * self.units[columns]
            np.add.at(band, (row[rows], lower + row[columns] - row[rows]), entries)


@Jitted
def _gradients(term: Term, z, data, shared):
    """Of L̃ of every window, and f."""
    return jax.vmap(lambda x, d: jax.grad(term.lagrangian, has_aux=True)(x, d, shared))(z, data)


@Jitted
def _seconds(term: Term, z, data, shared):
    """Second derivatives of L̃ of every window."""
    return jax.vmap(lambda x, d: jax.hessian(lambda y: term.lagrangian(y, d, shared)[0])(x))(z, data)


@Jitted
def _values(term: Term, z, data, shared):
    """L̃ and f of every window, (count, 2)."""
    return jax.vmap(lambda x, d: jnp.stack(term.lagrangian(x, d, shared)))(z, data)
