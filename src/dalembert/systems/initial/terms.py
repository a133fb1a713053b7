"""What is known of a system at its initial data: (a, λ), the equations there and F', from one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.algebra.newton import newton_by_values
from dalembert.numbers import is_traced
from dalembert.systems.compiled.function import LARGEST, SystemFunction
from dalembert.systems.consistency import restrictions
from dalembert.systems.equations import EXACT, first_guess, force, kkt_residual, value
from dalembert.systems.sizes import units_of
from dalembert.systems.system import System
from dalembert.tracing import seldom


class InitialValues(NamedTuple):
    """What the checks look at, computed in one compiled call at z = (a, λ). residual, matrix: of `kkt_residual`."""

    residual: Array
    matrix: Array
    lagrangian: Array
    forces: Array
    values: list
    virtual: dict
    restrictions: dict


def looked_at(system: System, q, v, t, z, rest) -> InitialValues:
    """Everything that the checks look at, at one point. rest: zeros (n,), the accelerations at which φ(q, v, a) is read."""
    return InitialValues(
        *value_and_jacobian(lambda x: kkt_residual(system, q, v, t, x), z),
        system.call(system.lagrangian, q, v, t=t),
        force(system, q, v, t),
        [value(system, c, q, v, rest, t) for c in system.constraints],
        {
            i: basis
            for i, c in enumerate(system.constraints)
            if (basis := c.virtual_basis(system, q, v, rest, t)) is not None
        },
        restrictions(system, q, v, t),
    )


def _at_rest(system: System, q, v, t, z) -> InitialValues:
    return looked_at(system, q, v, t, z, jnp.zeros_like(q))


_values = seldom(_at_rest)
_native_values = SystemFunction(_at_rest)


class InitialTerms(NamedTuple):
    """Values at the solution z = (a, λ), or at z = 0 where none was found.

    linear: whether the constraints are, in a. equations, matrix: F and F' there. rows: R, (m, n). reduced, jacobian: the
    constraints other than Lyapunov's as equations for a, and their derivative by a. given: what does not depend on z.
    """

    z: np.ndarray
    solved: bool
    linear: bool
    residual: float
    equations: np.ndarray
    matrix: np.ndarray
    rows: np.ndarray
    reduced: np.ndarray
    jacobian: np.ndarray
    given: InitialValues

    def reactions(self, i: int) -> np.ndarray:
        """The rows of the i-th constraint."""
        sizes = [len(x) for x in self.given.values]
        return self.rows[sum(sizes[:i]) : sum(sizes[: i + 1])]


def initial_terms(system: System, q, v, t, m: int) -> InitialTerms | None:
    """Newton's iteration for (a, λ) on one compiled call; None where a function of the system closes over a traced value."""
    n = q.shape[0]
    start = first_guess(n, m)
    found = _in_machine_code(system, q, v, t, start) or _by_xla(system, q, v, t, start)
    if found is None:
        return None
    at, given = found

    z, report = newton_by_values(at, start, EXACT, lambda x: units_of(x, n), given[:2])
    linear, (residual, matrix) = True, report.last
    if not report.solved:
        z = np.zeros(n + m)
        (residual, matrix), (_, beside) = at(z), at(np.where(np.arange(n + m) < n, 1.0, 0.0))
        with np.errstate(invalid="ignore"):  # numbers that are not finite are named later
            linear = bool(np.all(np.abs(beside[n:, :n] - matrix[n:, :n]) <= 1e-9 * (1.0 + np.abs(matrix[n:, :n]))))
    controls = [c.is_control for c in system.constraints]
    plain = n + np.flatnonzero(~np.repeat(np.array(controls, bool), [len(x) for x in given.values]))
    rows = -matrix[:n, n:].T  # the equations of motion contain -Rᵀλ
    parts = residual, matrix, rows, residual[plain], matrix[plain, :n]
    return InitialTerms(z, report.solved, linear, report.residual, *parts, given)


def _finite(trees: Any) -> bool:
    return all(np.all(np.isfinite(x)) for x in jax.tree.leaves(trees))


At = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def _in_machine_code(system: System, q, v, t, start: np.ndarray) -> tuple[At, Any] | None:
    """(F, F') at any z, and everything at the start; None where XLA has to look: something is not finite, or cannot be
    translated."""
    native = _native_values.bound(system, q, v, t, start) if len(start) <= LARGEST else None
    if native is None:
        return None
    given = native(q, v, t, start)
    return (lambda z: native(q, v, t, z)[:2], given) if _finite(given) else None


def _by_xla(system: System, q, v, t, start: np.ndarray) -> tuple[At, Any] | None:
    """The same; None where a function of the system closes over a traced value."""
    again, given = _values.bound(system, q, v, t, start)  # one program, even where every call is traced anew
    if is_traced(given):
        return None
    return lambda z: jax.tree.map(np.asarray, again(system, q, v, t, z)[:2]), jax.tree.map(np.asarray, given)


def in_units(found: InitialTerms) -> InitialTerms:
    """The matrices whose ranks are looked at, in units of the unknowns that the inertia and the reactions give."""
    if not np.all(np.isfinite(found.matrix)):
        return found
    n = found.rows.shape[1]
    units = units_of(found.matrix, n)
    own = units[:n]
    return found._replace(matrix=found.matrix * units, rows=found.rows * own, jacobian=found.jacobian * own)
