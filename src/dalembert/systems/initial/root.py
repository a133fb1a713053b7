"""(a, λ) at initial data in one call of machine code, with a proof that no check would find anything wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dalembert.native import ROOT_FOUND, CompiledRoot, Unsupported, compile_root
from dalembert.systems.compiled.function import LARGEST
from dalembert.systems.consistency import Restriction
from dalembert.systems.equations import EXACT, first_guess
from dalembert.systems.initial.terms import InitialValues, looked_at
from dalembert.systems.sizes import ROUNDING, units_of
from dalembert.systems.system import Rebuilt, System
from dalembert.tracing import Remembered, refilled, taken_apart

REMEMBERED = 128  # systems whose equations are found again
INDEPENDENT = 1e-12  # the least Gram determinant of rows of unit length that leaves no doubt about their rank
REGULAR = 1e-6  # the least determinant, or singular value, of a matrix with such rows


class InitialRoot(NamedTuple):
    """The compiled equations of one system. start: z where the iteration begins, then room for what is given. leaves:
    how many arrays the system has."""

    code: CompiledRoot
    start: Float[np.ndarray, "given"]
    leaves: int

    def over(self, leaves: Sequence[Any]) -> InitialMotion:
        """With these arrays of the system, in arrays of its own."""
        return InitialMotion(self, leaves)


class InitialMotion:
    """(a, λ) at (q, v, t), call after call in the same arrays: for one thread at a time.

    a, multipliers: of the last call, views of these arrays.
    """

    def __init__(self, root: InitialRoot, leaves: Sequence[Any]):
        k, given = root.code.k, root.start.copy()
        captured = len(root.code.function.captured)
        parts = [np.ravel(np.asarray(x, float)) for x in leaves]
        length = len(given) - captured - sum(map(len, parts)) - k - 1
        n = length // 3
        self._given = given[k + length + 1 : len(given) - captured]
        self._given[:] = np.concatenate([np.zeros(0), *parts])
        self._guess, self._z, self._moving = root.start[:k], given[:k], given[k : k + 2 * n + 1]
        self._q, self._v = self._moving[:n], self._moving[n : 2 * n]
        self.a, self.multipliers = self._z[:n], self._z[n:]
        self._call, self._result, self._report = root.code.over(given, EXACT.tolerance, EXACT.max_iterations)
        self._matrix = self._result[k : k + k * k].reshape(k, k)

    def refill(self, leaves: Float[np.ndarray, "G"]) -> None:
        """Other arrays of the system, flat."""
        self._given[:] = leaves

    def solve(self, q: Float[np.ndarray, "n"], v: Float[np.ndarray, "n"], t: float) -> float:
        """Newton's iteration from near 0: how far the units of the unknowns are apart, their largest ratio; infinity where
        it is not solved, or not proven that no check finds anything."""
        self._z[:] = self._guess
        self._q[:], self._v[:], self._moving[-1] = q, v, t
        proven = self._call() == ROOT_FOUND and self._result[-2] != 0.0 and self._is_regular()
        return float(self._result[-1]) if proven else math.inf

    def _is_regular(self) -> bool:
        """The determinant is known already, but it is small where many rows are at angles to one another."""
        return abs(self._report[2]) >= REGULAR or np.linalg.svd(self._matrix, compute_uv=False)[-1] >= REGULAR


_KNOWN: Remembered[InitialRoot | None] = Remembered(REMEMBERED)


def root_of(key: Any, system: System, n: int, m: int) -> InitialRoot | None:
    """As `initial_root`, made once for all systems of the same key, which differ in numbers alone."""

    def make() -> InitialRoot | None:
        tree, leaves = taken_apart(system)
        return initial_root(refilled(tree, leaves), leaves, n, m)

    return _KNOWN.of((key, n), make)


def initial_root(rebuilt: Rebuilt, leaves: Sequence[Any], n: int, m: int) -> InitialRoot | None:
    """The equations of a system with n coordinates and m equations of constraints; None where they are left to XLA.

    rebuilt: from arrays such as `leaves` → the system.
    """
    if n + m > LARGEST:
        return None

    def function(z, q, v, t, rest, *given):
        values = looked_at(rebuilt(given), q, v, t, z, rest)
        units = units_of(values.matrix, n, jnp)
        matrix = values.matrix * units
        length = jnp.linalg.norm(matrix, axis=1)
        length = jnp.where(length > 0.0, length, 1.0)
        plain = _plain(values, units[:n], q, v, t) & _finite((q, v, t, given))
        return values.residual / length, matrix / length[:, None], units, plain.astype(float), _apart(units, n)

    examples = [np.zeros(n), np.zeros(n), np.zeros(()), np.zeros(n), *(np.zeros(x.shape) for x in leaves)]
    try:
        code = compile_root(function, n + m, examples)
    except Unsupported:
        return None
    length = 3 * n + 1 + sum(x.size for x in leaves)
    return InitialRoot(code, np.concatenate([first_guess(n, m), np.zeros(length), code.function.captured]), len(leaves))


def _finite(trees: Any) -> Bool[Array, ""]:
    return jnp.all(jnp.stack([jnp.asarray(True), *(jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(trees))]))


def _plain(values: InitialValues, own: Float[Array, "n"], q, v, t) -> Bool[Array, ""]:
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
