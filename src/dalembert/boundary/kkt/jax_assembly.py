"""The same sums over windows by JAX, where a function cannot be translated into machine code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.boundary.kkt.assembly import Elements, Pattern, Term
from dalembert.tracing import Jitted


class JaxAssembly:
    """The same sums by JAX, one vmapped function per term."""

    def __init__(self, elements: Elements, fixed: np.ndarray, units: np.ndarray, sample: np.ndarray):
        terms, data, shared = elements
        self.terms, self.data, self.shared, self.size = terms, data, shared, fixed.shape[1]
        self.patterns = tuple(_pattern(t, d, shared, sample) for t, d in zip(terms, data, strict=True))
        self.units = [_units(t, p, ~fixed * units) for t, p in zip(terms, self.patterns, strict=True)]

    def evaluate(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Σf and the gradient of L̃ at the path z (blocks, b)."""
        objective, gradient = _evaluate(self.terms, self.data, self.shared, z)
        return float(objective), np.array(gradient)

    def values(self, z: np.ndarray) -> list[np.ndarray]:
        """As `CompiledAssembly.values`."""
        return [np.asarray(both) for both in _values(self.terms, self.data, self.shared, z)]

    def add_entries(
        self, z: np.ndarray, band: np.ndarray, position: np.ndarray, lower: int, without: np.ndarray | None
    ) -> None:
        """As `CompiledAssembly.add_entries`."""
        blocks = band.reshape(-1, self.size, band.shape[-1])
        found = _entries(self.terms, self.patterns, self.data, self.shared, z)
        for term, pattern, units, values in zip(self.terms, self.patterns, self.units, found, strict=True):
            for r, c, value in zip(*pattern, np.asarray(values) * units, strict=True):
                if without is not None and without[term.components[r]] and without[term.components[c]]:
                    continue
                here, there = position[term.components[r]], position[term.components[c]]
                column = lower + (term.offsets[c] - term.offsets[r]) * self.size + there - here
                first = term.start + term.offsets[r]
                blocks[first : first + term.number, here, column] += value


def _pattern(term: Term, data, shared, sample: np.ndarray) -> Pattern:
    """Entries of the second derivatives that are not zero at all sample points, or not finite there."""
    second = np.asarray(_seconds(term, data, shared, sample))
    rows, columns = np.nonzero(np.any(second != 0.0, axis=(0, 1)))
    return tuple(rows.tolist()), tuple(columns.tolist())


def _units(term: Term, pattern: Pattern, units: np.ndarray) -> np.ndarray:
    """(entries, count): the product of the units of row and column, 0 where one of them is fixed."""
    places = zip(term.offsets, term.components, strict=True)
    at = [units[term.start + o : term.start + o + term.number, c] for o, c in places]
    return np.array([at[r] * at[c] for r, c in zip(*pattern, strict=True)], dtype=float).reshape(-1, term.number)


def _local(term: Term, z):
    """(count, L): the components that each window reads."""
    places = zip(term.offsets, term.components, strict=True)
    return jnp.stack([z[term.start + o : term.start + o + term.number, c] for o, c in places], axis=1)


@Jitted
def _seconds(term: Term, data, shared, sample):
    return jax.vmap(lambda z: jax.vmap(lambda x, d: term.second(x, d, shared))(_local(term, z), data))(sample)


@Jitted
def _evaluate(terms, data, shared, z):
    objective, gradient = 0.0, jnp.zeros_like(z)
    for term, given in zip(terms, data, strict=True):
        both = jax.vmap(lambda x, d, term=term: jax.grad(term.lagrangian, has_aux=True)(x, d, shared))
        slope, f = both(_local(term, z), given)
        objective = objective + jnp.sum(f)
        for i, (o, component) in enumerate(zip(term.offsets, term.components, strict=True)):
            first = term.start + o
            gradient = gradient.at[first : first + term.number, component].add(slope[:, i])
    return objective, gradient


@Jitted
def _values(terms, data, shared, z):
    """Of every term L̃ and f of its windows, (count, 2)."""
    return [
        jax.vmap(lambda x, d, term=term: jnp.stack(term.lagrangian(x, d, shared)))(_local(term, z), given)
        for term, given in zip(terms, data, strict=True)
    ]


@Jitted
def _entries(terms, patterns, data, shared, z):
    """Of every term, the second derivatives of L̃ that do not vanish, (entries, count)."""
    values = []
    for term, (rows, columns), given in zip(terms, patterns, data, strict=True):
        second = jax.vmap(lambda x, d, term=term: term.second(x, d, shared))(_local(term, z), given)
        values.append(second[:, np.asarray(rows, dtype=int), np.asarray(columns, dtype=int)].T)
    return values
