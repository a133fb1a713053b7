"""The KKT system of a sum of functions of neighbouring blocks under constraints: its equations and their matrix.

    min Σ_w f(z_w)  such that  c(z_w) = 0,   z_w: the components of a few neighbouring blocks,   L̃ = Σ f + νᵀc

Unknowns and multipliers of a time node form one block (b,); the path is an array (blocks, b). Derivatives of one
window are vmapped, and only the entries that can differ from zero are kept. Knows no mechanics.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dalembert.algebra import EntrySizes
from dalembert.boundary.kkt.assembly import CompiledAssembly, Elements, JaxAssembly, Pattern, Term
from dalembert.messages import warn
from dalembert.native import Unsupported
from dalembert.systems import name_role

ORDERS = 5040  # of groups of components that are tried
WAVES = 6  # of a smooth path


def narrow_order(terms: tuple[Term, ...], patterns: tuple[Pattern, ...], size: int) -> tuple[np.ndarray, int]:
    """(position of every component in its block, half the band width): the best order of groups that belong together.

    Components that are used alike, such as the entries of q, keep their order; there are few groups, so that all orders are
    tried.
    """
    pairs = set()
    for term, pattern in zip(terms, patterns, strict=True):
        for r, c in zip(*pattern, strict=True):
            pairs.add((term.offsets[c] - term.offsets[r], term.components[r], term.components[c]))
    return _narrow(frozenset(pairs), size)


@functools.lru_cache(maxsize=256)
def _narrow(pairs: frozenset, size: int) -> tuple[np.ndarray, int]:
    apart, rows, columns = np.array(sorted(pairs), dtype=int).reshape(-1, 3).T
    signature = [tuple(sorted((o, a == b) for o, a, b in pairs if a == component)) for component in range(size)]
    lengths = np.array([len(list(group)) for _, group in itertools.groupby(signature)])
    group = np.repeat(np.arange(len(lengths)), lengths)
    within = np.arange(size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    orders = np.array(list(itertools.islice(itertools.permutations(range(len(lengths))), ORDERS)))
    begin = np.cumsum(lengths[orders], axis=1) - lengths[orders]
    positions = np.take_along_axis(begin, np.argsort(orders, axis=1), axis=1).T[group] + within[:, None]
    widths = np.zeros(len(orders), dtype=int)
    for o, r, c in zip(apart * size, rows, columns, strict=True):
        np.maximum(widths, np.abs(o + positions[c] - positions[r]), out=widths)
    best = int(np.argmin(widths))
    return positions[:, best], int(widths[best])


class Evaluation(NamedTuple):
    """Σf, Σ|c| without the linear constraints and relative to the size of c, and the gradient of L̃ (blocks, b), zero where a
    component is fixed, with the Euclidean norm of its components times their units."""

    objective: float
    violation: float
    gradient: np.ndarray
    norm: float

    @property
    def finite(self) -> bool:
        return finite(self)


def finite(at) -> bool:
    """True if objective and norm of a point, floats or JAX's numbers, are finite."""
    return (abs(at.objective) < math.inf) & (abs(at.norm) < math.inf)


class Scales(NamedTuple):
    """Typical sizes. positions: (n,), of the coordinates. units: (blocks, b), of every component of the path, powers of two.
    residuals: (blocks, b), 1 over the sum of a constraint's sizes; action: of Σf's changes."""

    positions: np.ndarray
    units: np.ndarray
    residuals: np.ndarray
    action: float


class Components(NamedTuple):
    """Kinds of the components of a path. fixed: (blocks, b), those that keep their value; primal: (b,), which are unknowns
    and not multipliers; relaxed: (b,), multipliers of constraints that are not linear."""

    fixed: np.ndarray
    primal: np.ndarray
    relaxed: np.ndarray


class Monitored(NamedTuple):
    """Components by which convergence is judged. places: (p, n), of the positions and of the others; spans: (p,), factors
    that turn them into positions."""

    places: np.ndarray
    spans: np.ndarray


class KKTSystem:
    """The KKT system of some elements. scales: typical sizes.

    sample: (points, blocks, b), generic points in these units: where second derivatives cannot be read off a program, those
    that vanish there are taken to vanish. problem: whose functions they are, for a warning.
    """

    def __init__(
        self, elements: Elements, components: Components, monitored: Monitored, scales: Scales, sample: np.ndarray,
        problem: Any, *, recentre: Callable[[np.ndarray], np.ndarray] | None = None,
    ):  # fmt: skip
        self.recentre = recentre
        self.load: np.ndarray | None = None  # taken off the gradient of L̃
        fixed, primal, relaxed = self.fixed, self.primal, self.relaxed = components
        self.blocks, self.size = fixed.shape
        self.free = np.ascontiguousarray(~fixed, dtype=float)
        self.unit = np.ascontiguousarray(fixed, dtype=float)
        self.fixed_places = np.flatnonzero(fixed)
        self.held = np.ravel(~fixed & ~primal).astype(float)  # of the multipliers
        self.monitored, self.spans = (np.ascontiguousarray(x) for x in monitored)
        self.by_coordinate = np.ascontiguousarray(self.monitored.T)  # the largest of a row is found sooner than of a column
        self.nonlinear = np.flatnonzero(np.tile(relaxed, self.blocks))
        self.sign = np.tile(relaxed.astype(float) - primal, self.blocks)
        try:
            self.assembly: CompiledAssembly | JaxAssembly = CompiledAssembly(elements, fixed, scales.units)
        except Unsupported as reason:
            name_role(reason, problem)
            warn(f"{reason}; the boundary problem runs on JAX")
            self.assembly = JaxAssembly(elements, fixed, scales.units, sample)
        self.position, self.lower = narrow_order(elements.terms, self.assembly.patterns, self.size)
        self.ordered = np.argsort(self.position)
        self.rows = (
            np.arange(self.blocks)[:, None] * self.size + self.position
        ).ravel()  # of the matrix, of every component
        self.positions, self.units, self.action = scales.positions, scales.units, scales.action
        self.flat_units = self.units.ravel()
        self.curvature = (
            scales.action / self.blocks
        )  # of a component in its unit, against which second derivatives are shifted
        self.weights = self.curvature / scales.units**2  # the metric of the unknowns
        self.metric = (primal * self.weights).ravel()
        self.shifted, self.relaxing = (self.free * kind * self.weights for kind in (primal, relaxed))
        self.residuals = scales.residuals.ravel()[self.nonlinear]
        self.per_action = self.held * self.flat_units / self.action

    @property
    def width(self) -> int:
        return 2 * self.lower + 1

    @property
    def near(self) -> int:
        """Number of blocks on either side to which a block may be coupled."""
        return self.lower // self.size + 1

    @functools.cached_property
    def probes(self) -> tuple[np.ndarray, np.ndarray]:
        """A path that is random from block to block, and one that is smooth, as flat directions of long paths are."""
        random = np.random.default_rng(0)
        waves = np.cos(np.pi * np.outer(np.linspace(0.0, 1.0, self.blocks), np.arange(WAVES)))
        wild, smooth = random.standard_normal(self.free.shape), waves @ random.standard_normal((WAVES, self.size))
        return wild * self.units * self.free, smooth * self.units * self.free

    def evaluate(self, z: np.ndarray) -> Evaluation:
        """Objective, violation and gradient at a path z (blocks, b)."""
        objective, gradient = self.assembly.evaluate(z)
        flat = gradient.ravel()
        flat[self.fixed_places] = 0.0
        if self.load is not None:
            flat -= self.load
        with np.errstate(over="ignore", invalid="ignore"):  # see `finite`
            scaled = flat * self.flat_units
            violation = float(np.abs(flat.take(self.nonlinear)) @ self.residuals)
            return Evaluation(objective, violation, gradient, math.sqrt(scaled @ scaled))

    def loaded(self, load: np.ndarray) -> KKTSystem:
        """The same system, whose solutions have this gradient of L̃, (rows,)."""
        other = copy.copy(self)
        other.load = load
        return other

    def max_norms(self, z: np.ndarray) -> np.ndarray:
        """(n,): the largest |position| of every coordinate."""
        return (np.abs(z.ravel().take(self.by_coordinate)) * self.spans).max(axis=1, initial=0.0)

    def max_norm(self, z: np.ndarray) -> float:
        """The largest |position|, in typical sizes."""
        return float(np.max(self.max_norms(z) / self.positions))

    def product(self, gradient: np.ndarray, z: np.ndarray) -> float:
        """Σ cᵀν for the multipliers in z, without those of linear constraints."""
        return float(gradient.ravel().take(self.nonlinear) @ z.ravel().take(self.nonlinear))

    def raw_gradient(self, z: np.ndarray) -> np.ndarray:
        """The gradient of L̃ with respect to all components, also those that are fixed."""
        return self.assembly.evaluate(z)[1]

    def matrix(
        self, z: np.ndarray, shift: float = 0.0, relax: float = 0.0, plain: bool = False, added: np.ndarray | None = None
    ) -> np.ndarray:
        """The KKT matrix U K U, U: the units, (rows, width), K with shift·weights added to the unknowns and
        -relax·weights to the multipliers.

        plain: without the second derivatives of L̃, for Gauss-Newton steps. added: (blocks, b), to the diagonal of K as well.
        Fixed components have rows with nothing but a diagonal.
        """
        band = np.zeros((self.blocks * self.size, self.width))
        self.assembly.add_entries(z, band, self.position, self.lower, self.primal if plain else None)
        own = np.where(self.fixed, self.curvature, self.diagonal(shift, relax, added) * self.units**2)
        band.reshape(self.blocks, self.size, self.width)[..., self.lower] += own[:, self.ordered]
        return band

    def entries(self, matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """(…, r, c): entries of a KKT matrix at flat places (…, r) and (…, c) in the path."""
        row, column = self.rows[rows][..., :, None], self.rows[columns][..., None, :]
        at = self.lower + column - row
        inside = (at >= 0) & (at <= 2 * self.lower)
        return np.where(inside, matrix[row, np.where(inside, at, 0)], 0.0)

    def with_held(self, matrix: np.ndarray, held: np.ndarray) -> np.ndarray:
        """A KKT matrix, changed in place, with nothing but a diagonal in rows and columns of what is held, (blocks, b)."""
        at = self.to_rows(held.astype(float)) > 0.0
        lower = self.lower
        matrix[at] = 0.0
        for offset in range(-lower, lower + 1):
            column = np.arange(len(matrix)) + offset
            inside = (column >= 0) & (column < len(matrix))
            matrix[inside, lower + offset] *= ~at[column[inside]]
        matrix[at, lower] = self.curvature
        return matrix

    def residual(self, gradient: np.ndarray, matrix: np.ndarray) -> float:
        """The largest component of a gradient, in its unit and divided by the largest entry of its row of the KKT matrix."""
        rows = self.row_sizes(matrix)
        return float(np.max(np.abs(gradient * self.units) / np.where(rows > 0.0, rows, 1.0)))

    def row_sizes(self, matrix: np.ndarray) -> np.ndarray:
        """(blocks, b): the largest entry of every row of a KKT matrix."""
        return self.from_rows(EntrySizes.of(matrix, self.lower).largest)

    def diagonal(self, shift: float, relax: float, added: np.ndarray | None = None) -> np.ndarray:
        """Terms that are added to the diagonal of K, (blocks, b)."""
        if not shift and not relax and added is None:
            return self.unit
        own = self.unit.copy() if added is None else self.unit + self.free * added
        if shift:
            own += shift * self.shifted
        if relax:
            own -= relax * self.relaxing
        return own

    def to_rows(self, z: np.ndarray) -> np.ndarray:
        """(blocks, b) → (rows,), in the order of the matrix."""
        return z[:, self.ordered].ravel()

    def from_rows(self, x: np.ndarray) -> np.ndarray:
        """The way back."""
        return x.reshape(self.blocks, self.size)[:, self.position]
