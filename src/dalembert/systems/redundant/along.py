"""All constraints along a path of some of them: residuals, rank and multipliers of least norm."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.systems.checks import InconsistentDataError, RankDeficientError
from dalembert.systems.consistency import Restriction, restrictions
from dalembert.systems.equations import reactions
from dalembert.systems.sizes import CONSISTENT, ROUNDING, allowed, with_inertia
from dalembert.systems.system import System
from dalembert.tracing import seldom


class AllRows(NamedTuple):
    """The system with all rows, the names of those left out, and (n,) sizes of accelerations in which ranks are told."""

    system: System
    left_out: tuple[str, ...]
    units: Float[np.ndarray, "n"]


def unit_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (…, m, n) at unit length, and their lengths, 1 for rows of zeros."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    return rows / lengths, lengths


@seldom
def reactions_along(system: System, t, q, v):
    """R of all equations of order 0 and 1 at many states, (B, M, n)."""

    def one(t, q, v):
        rows = [reactions(system, c, q, v, jnp.zeros_like(q), t) for c in system.constraints if c.order < 2]
        return jnp.concatenate(rows)

    return jax.vmap(one)(t, q, v)


@seldom
def _restrictions(system: System, t, q, v):
    return jax.vmap(lambda t, q, v: restrictions(system, q, v, t))(t, q, v)


def shortest(rows: np.ndarray, multipliers: np.ndarray, rank: int) -> np.ndarray:
    """QQᵀλ, (B, M), Q the span of the columns of R, (B, M, n), from the r largest singular vectors of rows of unit length.

    Not λ - NNᵀλ with the left null space N: of copies in very different units that leaves rounding of the largest λ.
    """
    unit, lengths = unit_rows(rows)
    span = np.linalg.svd(unit, full_matrices=False)[0][..., :rank] * lengths
    falling = np.argsort(-lengths, axis=1)  # reflections keep small rows to their own digits only below the large ones
    span = np.linalg.qr(np.take_along_axis(span, falling, axis=1))[0]
    span = np.take_along_axis(span, np.argsort(falling, axis=1), axis=1)
    return np.einsum("bir,bkr,bk->bi", span, span, multipliers)


def check_nodes(every: AllRows, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> None:
    """All constraints of order 0 and 1 at all nodes, and their rank there."""
    at = jax.tree.map(np.asarray, _restrictions(every.system, t, q, v))
    inertia = every.units**-2.0
    sizes = with_inertia(np.max(np.abs(q - q[0]), axis=0), inertia), with_inertia(np.max(np.abs(v), axis=0), inertia)
    for name, r in at.items():
        limit = allowed(r.by_q, sizes[0], q) + allowed(r.by_v, sizes[1], v) + ROUNDING * np.abs(r.by_t * t[:, None])
        bad = ~(np.abs(r.value) <= limit)
        if np.any(bad):
            k = int(np.argmax(np.any(bad, axis=1)))
            _refuse(every, name, np.flatnonzero(bad[k]), r.value[k], f"t = {t[k]:g}, step {k}")
    _check_rank(every, at, t)


def _refuse(every: AllRows, name: str, rows: np.ndarray, residual: np.ndarray, when: str) -> None:
    """InconsistentDataError where the rows do not follow from the others, ValueError where one of them was kept itself."""
    what, own = name.rsplit(" at ", 1)[0], name.removeprefix("d/dt of ").rsplit(" at ", 1)[0]
    labels = [own + (f" row {j}" if len(residual) > 1 else "") for j in rows]
    if not set(labels) <= set(every.left_out):
        raise ValueError(
            f"path: {what} is {residual} and not 0 at {when}, where the kept rows should hold: give a path of .system, "
            "under a scheme whose states satisfy the constraints (the default ones do)"
        )
    raise InconsistentDataError(
        f"path: {what} is {residual} and not 0 at {when}. {', '.join(labels)} left out at the start as dependent, "
        "but not implied by the rows that are kept: the constraints contradict each other, or the kept ones become dependent"
    )


def _check_rank(every: AllRows, at: dict[str, Restriction], t: np.ndarray) -> None:
    rows = [r.by_v for name, r in at.items() if not name.endswith(" at q0")]  # φ_q of dφ/dt, φ_v
    if not rows or not every.left_out:
        return
    stacked = np.concatenate(rows, axis=1) * every.units
    rank = stacked.shape[1] - len(every.left_out)
    values = np.linalg.svd(unit_rows(stacked)[0], compute_uv=False)
    if values.shape[1] > rank and np.any(beyond := values[:, rank] > CONSISTENT):
        k = int(np.argmax(beyond))
        raise RankDeficientError(
            f"path: the constraints have rank {rank} at the start and more at t = {t[k]:g}, step {k} (singular value "
            f"{values[k, rank]:.3g} of rows of unit length): what was left out restricts the motion there"
        )
