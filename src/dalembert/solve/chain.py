"""Chain: a sum of functions of neighbouring blocks under constraints, its KKT equations and their banded matrix.

    min Σ_w f(z_w)  such that  c(z_w) = 0,   z_w: the components of a few neighbouring blocks,   L̃ = Σ f + νᵀc

Unknowns and multipliers of a time node form one block (b,); the path is an array (blocks, b). Derivatives of one
window are vmapped, and only the entries that can differ from zero are kept. Knows no mechanics.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Term(NamedTuple):
    """Σ_i f(z_i; data_i) + νᵢᵀc(z_i; data_i), z_i = components of the blocks start+i+offset.

    function(z, data, shared): (f, c); equal functions share their compiled code. offsets, components: (L,), where the
    entries of z are found. multipliers: positions in z of the ν that belong to c. data: a tree of arrays with leading axis
    count.
    """

    function: Callable
    offsets: tuple[int, ...]
    components: tuple[int, ...]
    multipliers: tuple[int, ...]
    start: int
    count: int


class Evaluation(NamedTuple):
    """Σf, Σ|c| without the linear constraints, and the gradient of L̃ (blocks, b), zero where a component is fixed."""

    objective: float
    violation: float
    gradient: np.ndarray


class Chain:
    """The KKT system of a list of terms. fixed: (blocks, b), components that keep their value.

    data: for each term, a tree of arrays with leading axis count; shared: a tree all terms are given. primal: (b,), which
    components are unknowns and not multipliers; relaxed: multipliers of constraints that are not linear. weights: (blocks,
    b), the metric of the unknowns. sample: (batch, blocks, b), generic points, at which the second derivatives that vanish
    are found.
    """

    def __init__(self, terms, data, shared, fixed, primal, relaxed, weights, sample):
        self.terms, self.data, self.shared = tuple(terms), data, shared
        self.fixed, self.primal, self.relaxed, self.weights = fixed, primal, relaxed, weights
        self.blocks, self.size = fixed.shape
        self.patterns = tuple(_pattern(i, self.terms, data, shared, sample) for i in range(len(terms)))
        self.position, self.lower = _narrow_order(self.terms, self.patterns, self.size)
        self.ordered = np.argsort(self.position)
        self.free = [_free(term, pattern, fixed) for term, pattern in zip(self.terms, self.patterns, strict=True)]

    @property
    def width(self) -> int:
        return 3 * self.lower + 1

    def evaluate(self, z: np.ndarray) -> Evaluation:
        """Objective, violation and gradient at a path z (blocks, b)."""
        objective, gradient = _evaluate(self.terms, self.data, self.shared, z)
        gradient = np.where(self.fixed, 0.0, gradient)
        return Evaluation(float(objective), float(np.sum(np.abs(gradient[:, self.relaxed]))), gradient)

    def raw_gradient(self, z: np.ndarray) -> np.ndarray:
        """The gradient of L̃ with respect to all components, also those that are fixed."""
        return np.asarray(_evaluate(self.terms, self.data, self.shared, z)[1])

    def matrix(self, z: np.ndarray, shift: float = 0.0, relax: float = 0.0, plain: bool = False) -> np.ndarray:
        """The KKT matrix with shift·weights added to the unknowns and -relax·weights to the multipliers, (1, rows, width).

        plain: without the second derivatives of L̃, for Gauss-Newton steps. Fixed components have unit rows.
        """
        band = np.zeros((self.blocks, self.size, self.width))
        found = _entries(self.terms, self.patterns, self.data, self.shared, z)
        for term, pattern, free, values in zip(self.terms, self.patterns, self.free, found, strict=True):
            for r, c, value in zip(*pattern, np.asarray(values) * free, strict=True):
                if plain and self.primal[term.components[r]] and self.primal[term.components[c]]:
                    continue
                here, there = self.position[term.components[r]], self.position[term.components[c]]
                column = self.lower + (term.offsets[c] - term.offsets[r]) * self.size + there - here
                first = term.start + term.offsets[r]
                band[first : first + term.count, here, column] += value
        added = np.where(self.primal, shift, -relax * self.relaxed) * self.weights
        band[..., self.lower] += np.where(self.fixed, 1.0, added)[:, self.ordered]
        return band.reshape(1, self.blocks * self.size, self.width)

    def to_rows(self, z: np.ndarray) -> np.ndarray:
        """(blocks, b) → (1, rows), in the order of the matrix."""
        return np.ascontiguousarray(z[:, self.ordered]).reshape(1, -1)

    def from_rows(self, x: np.ndarray) -> np.ndarray:
        """The way back."""
        return x.reshape(self.blocks, self.size)[:, self.position]


def _pattern(i: int, terms, data, shared, sample) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and columns of the entries of a term's second derivatives that are not zero at all sample points."""
    second = np.asarray(_seconds(terms[i], data[i], shared, sample))
    if not np.all(np.isfinite(second)):
        second = np.where(np.isfinite(second), second, 1.0)
    rows, columns = np.nonzero(np.any(second != 0.0, axis=(0, 1)))
    return tuple(rows.tolist()), tuple(columns.tolist())


def _narrow_order(terms, patterns, size: int) -> tuple[np.ndarray, int]:
    """(position of every component in its block, half the band width): the best order of the groups that belong together.

    Components that are used alike, such as the entries of q, keep their order; there are few groups, so that all orders are
    tried.
    """
    pairs = set()
    for term, (rows, columns) in zip(terms, patterns, strict=True):
        for r, c in zip(rows, columns, strict=True):
            pairs.add((term.offsets[c] - term.offsets[r], term.components[r], term.components[c]))
    apart = np.array(sorted(pairs)).reshape(-1, 3)
    signature = [tuple(sorted((o, "=" if a == b else "") for o, a, b in pairs if a == comp)) for comp in range(size)]
    groups = [[comp for comp, _ in group] for _, group in itertools.groupby(enumerate(signature), key=lambda e: e[1])]
    best, position = size * (1 + max((abs(o) for o, _, _ in pairs), default=0)), np.arange(size)
    for choice in itertools.islice(itertools.permutations(groups), 5040):
        trial = np.argsort(np.concatenate(choice))
        lower = int(np.max(np.abs(apart[:, 0] * size + trial[apart[:, 2]] - trial[apart[:, 1]]), initial=0))
        if lower < best:
            best, position = lower, trial
    return position, best


def _free(term: Term, pattern, fixed: np.ndarray) -> np.ndarray:
    """(entries, count): 1 where neither the row nor the column is fixed."""
    at = [fixed[term.start + o : term.start + o + term.count, c] for o, c in zip(term.offsets, term.components, strict=True)]
    return np.array([~(at[r] | at[c]) for r, c in zip(*pattern, strict=True)], dtype=float).reshape(-1, term.count)


def _local(term: Term, z):
    """(count, L): the components that each window reads."""
    runs = []
    for _, group in itertools.groupby(
        enumerate(zip(term.offsets, term.components, strict=True)), key=lambda e: (e[1][0], e[1][1] - e[0])
    ):
        run = [pair for _, pair in group]
        first = term.start + run[0][0]
        runs.append(z[first : first + term.count, run[0][1] : run[0][1] + len(run)])
    return jnp.concatenate(runs, axis=1)


def _lagrangian(term: Term, shared):
    def value(z, data):
        f, c = term.function(z, data, shared)
        return f + (z[np.asarray(term.multipliers)] @ c if term.multipliers else 0.0)

    return value


@functools.partial(jax.jit, static_argnums=0)
def _seconds(term: Term, data, shared, sample):
    return jax.vmap(lambda z: jax.vmap(jax.hessian(_lagrangian(term, shared)))(_local(term, z), data))(sample)


@functools.partial(jax.jit, static_argnums=0)
def _evaluate(terms, data, shared, z):
    objective, gradient = 0.0, jnp.zeros_like(z)
    for term, given in zip(terms, data, strict=True):

        def both(x, d, term=term):
            f, c = term.function(x, d, shared)
            return (f + (x[np.asarray(term.multipliers)] @ c if term.multipliers else 0.0)), f

        slope, f = jax.vmap(jax.grad(both, has_aux=True))(_local(term, z), given)
        objective = objective + jnp.sum(f)
        for i, (o, component) in enumerate(zip(term.offsets, term.components, strict=True)):
            first = term.start + o
            gradient = gradient.at[first : first + term.count, component].add(slope[:, i])
    return objective, gradient


@functools.partial(jax.jit, static_argnums=(0, 1))
def _entries(terms, patterns, data, shared, z):
    """Of every term, the second derivatives of L̃ that do not vanish, (entries, count)."""
    values = []
    for term, (rows, columns), given in zip(terms, patterns, data, strict=True):
        second = jax.vmap(jax.hessian(_lagrangian(term, shared)))(_local(term, z), given)
        values.append(second[:, np.asarray(rows, dtype=int), np.asarray(columns, dtype=int)].T)
    return values
