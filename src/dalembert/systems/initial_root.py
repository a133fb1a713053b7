"""(a, λ) at initial data in one call of machine code, with all that the checks look at, and a proof that nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dalembert.algebra.newton import value_and_jacobian
from dalembert.native import ROOT_FOUND, CompiledRoot, Unsupported, compile_root
from dalembert.systems.consistency import Restriction
from dalembert.systems.equations import EXACT, first_guess, kkt_residual
from dalembert.systems.sizes import ROUNDING, units_of
from dalembert.systems.system import System
from dalembert.tracing import Remembered, Walk, split

LARGEST = 24  # unknowns up to which the equations are written out: beyond, XLA compiles loops in less time
REMEMBERED = 128
INDEPENDENT = 1e-12  # the least Gram determinant of rows of unit length that leaves no doubt about their rank
REGULAR = 1e-6  # the least determinant of a matrix with such rows

_ROOTS: Remembered[list] = Remembered(REMEMBERED)


class InitialRoot(NamedTuple):
    """The compiled equations of one system. start: z where the iteration begins; tree: of what is looked at."""

    code: CompiledRoot
    n: int
    start: Float[np.ndarray, "z"]
    tree: Any

    def given(self, q, v, t, leaves: list) -> Float[np.ndarray, "given"]:
        """The array that the machine code reads, with z where the iteration begins."""
        numbers = [np.ravel(x) for x in (q, v, t, *leaves)]
        return np.concatenate([self.start, *numbers, self.code.function.captured]).astype(float, copy=False)

    def solve(self, given: Float[np.ndarray, "given"]) -> Solved:
        """Newton's iteration from the z in `given`."""
        code, result, report = self.code.solve(given, EXACT.tolerance, EXACT.max_iterations)
        k = len(self.start)
        solved, at = code == ROOT_FOUND, k * (k + 2)
        plain = solved and result[at] != 0.0 and abs(report[2]) >= REGULAR
        return Solved(given[:k], solved, plain, float(report[0]), float(result[at + 1]), result)

    def looked_at(self, result: Float[np.ndarray, "result"]) -> Any:
        """The tree of what the checks look at."""
        return jax.tree.unflatten(self.tree, self.code.function.parted(result)[5:])


class Solved(NamedTuple):
    """plain: whether it is solved and proven that no check finds anything. apart: the largest ratio of units, see `_apart`;
    residual: the largest row-scaled |F_i|."""

    z: Float[np.ndarray, "z"]
    solved: bool
    plain: bool
    residual: float
    apart: float
    result: Float[np.ndarray, "result"]


def initial_root(system: System, n: int, m: int, looked: Callable) -> InitialRoot | None:
    """The equations of a system with n coordinates and m equations of constraints; None where they are left to XLA.

    looked: (system, q, v, t, F, F') → what the checks look at, an InitialValues.
    """
    if n + m > LARGEST:
        return None
    walk = Walk()
    key = split(walk, system, []), n, m
    known = _ROOTS.get(key) if walk.lasting else None
    if known is None:
        try:
            known = [_compiled(system, n, m, looked)]
        except Unsupported:
            known = [None]
        if walk.lasting:
            _ROOTS.put(key, known)
    return known[0]


def _compiled(system: System, n: int, m: int, looked: Callable) -> InitialRoot:
    arrays, static = eqx.partition(system, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    types, found = [x.dtype for x in leaves], []

    def function(z, q, v, t, *given):
        typed = [jnp.asarray(x, dtype) for x, dtype in zip(given, types, strict=True)]
        one = eqx.combine(jax.tree.unflatten(tree, typed), static)
        residual, matrix = value_and_jacobian(lambda x: kkt_residual(one, q, v, t, x), z)
        units = units_of(matrix, n, jnp)
        length = jnp.linalg.norm(matrix * units, axis=1)
        length = jnp.where(length > 0.0, length, 1.0)
        values = looked(one, q, v, t, residual, matrix)
        flat, structure = jax.tree.flatten(values)
        found.append(structure)
        plain = _plain(values, units[:n], q, v, t) & _finite(given)
        scaled = residual / length, matrix * units / length[:, None], units
        return (*scaled, plain.astype(float), _apart(units, n), *flat)

    examples = [np.zeros(n), np.zeros(n), np.zeros(()), *(np.zeros(x.shape) for x in leaves)]
    return InitialRoot(compile_root(function, n + m, examples), n, first_guess(n, m), found[0])


def _finite(trees: Any) -> Bool[Array, ""]:
    return jnp.all(jnp.stack([jnp.asarray(True), *(jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(trees))]))


def _plain(values: Any, own: Float[Array, "n"], q, v, t) -> Bool[Array, ""]:
    """Everything is finite, the restrictions hold to rounding, and the rows of the reactions and the columns of virtual
    displacements are far from dependent: for less the checks look on their own."""
    n = own.shape[0]
    rows = -values.matrix[:n, n:].T * own
    exact = [_exact(r, q, v, t) for r in values.restrictions.values()]
    independent = [_independent(x) for x in (rows, *(basis.T for basis in values.virtual.values())) if x.shape[0]]
    return _finite(values) & jnp.all(jnp.stack([jnp.asarray(True), *exact, *independent]))


def _exact(r: Restriction, q, v, t) -> Bool[Array, ""]:
    limit = ROUNDING * (jnp.abs(r.by_q) @ jnp.abs(q) + jnp.abs(r.by_v) @ jnp.abs(v) + jnp.abs(r.by_t * t))
    return jnp.all(jnp.abs(r.value) <= limit)


def _independent(rows: Float[Array, "m n"]) -> Bool[Array, ""]:
    """det(R Rᵀ) of rows of unit length: with Σσ² = m the smallest σ² is at least det / e."""
    unit = rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
    return jnp.prod(jnp.diagonal(jnp.linalg.cholesky(unit @ unit.T))) ** 2 >= INDEPENDENT


def _apart(units: Float[Array, "z"], n: int) -> Float[Array, ""]:
    """How far the units of the unknowns are apart: of accelerations, and of multipliers against them."""
    own = units[:n]
    across = jnp.concatenate([units[n:] / jnp.max(own), jnp.min(own) / units[n:]])
    return jnp.maximum(jnp.max(own) / jnp.min(own), jnp.max(across, initial=0.0))
