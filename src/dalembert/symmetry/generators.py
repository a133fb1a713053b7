"""Affine vector fields ξ = A q + b: as functions, in words, and a basis of a space of them that a person can read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.numbers import as_function, as_numbers, described
from dalembert.systems.pickling import made

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
    candidates = [np.array([_rounded(x / row[c], zero) for x in row]) for c in order if row[c] != 0.0]
    return max(candidates, key=lambda x: int(np.sum(np.abs(x) == 1.0)), default=row)


def _rounded(x: float, zero: float) -> float:
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
