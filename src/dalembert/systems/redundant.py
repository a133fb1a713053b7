"""All constraints along a path of some of them: residuals, rank and multipliers of least norm."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.algebra import numerical_rank
from dalembert.notebook import described_by_fields
from dalembert.numbers import is_traced
from dalembert.path import Path, check_path
from dalembert.systems.checks import examine_start
from dalembert.systems.consistency import InconsistentDataError, RankDeficientError, Restriction, as_numpy, restrictions
from dalembert.systems.sizes import CONSISTENT, ROUNDING, residual_limit, units_of, with_inertia
from dalembert.systems.system import System, check_flat, check_shapes, equation_names, label
from dalembert.tracing import over_rows


def unit_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (…, m, n) at unit length, and their lengths, 1 for rows of zeros."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    return rows / lengths, lengths


def reactions_at(system: System, q, v, t):
    """R of all equations of order 0 and 1, (M, n)."""
    return jnp.concatenate([c.force_rows(system, q, v, jnp.zeros_like(q), t) for c in system.constraints if c.order < 2])


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


def check_nodes(found: Independent, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> None:
    """All constraints of order 0 and 1 at all nodes, and their rank there."""
    at = as_numpy(over_rows(restrictions, (q, v, t), found.whole))
    inertia = found.units**-2.0
    sizes = with_inertia(np.max(np.abs(q - q[0]), axis=0), inertia), with_inertia(np.max(np.abs(v), axis=0), inertia)
    for name, r in at.items():
        limit = (
            residual_limit(r.by_q, sizes[0], q)
            + residual_limit(r.by_v, sizes[1], v)
            + ROUNDING * np.abs(r.by_t * t[:, None])
        )
        bad = ~(np.abs(r.value) <= limit)
        if np.any(bad):
            k = int(np.argmax(np.any(bad, axis=1)))
            _refuse(found, name, np.flatnonzero(bad[k]), r.value[k], f"t = {t[k]:g}, step {k}")
    _check_rank(found, at, t)


def _refuse(found: Independent, name: str, rows: np.ndarray, residual: np.ndarray, when: str) -> None:
    """InconsistentDataError where the rows do not follow from the others, ValueError where one of them was kept itself."""
    what, own = name.rsplit(" at ", 1)[0], name.removeprefix("d/dt of ").rsplit(" at ", 1)[0]
    labels = [own + (f" row {j}" if len(residual) > 1 else "") for j in rows]
    if not set(labels) <= set(found.left_out):
        raise ValueError(
            f"path: {what} is {residual} and not 0 at {when}, where the kept rows should hold: give a path of .system, "
            "under a scheme whose states satisfy the constraints (the default ones do)"
        )
    raise InconsistentDataError(
        f"path: {what} is {residual} and not 0 at {when}. {', '.join(labels)} left out at the start as dependent, "
        "but not implied by the rows that are kept: the constraints contradict each other, or the kept ones become dependent"
    )


def _check_rank(found: Independent, at: dict[str, Restriction], t: np.ndarray) -> None:
    rows = [r.by_v for name, r in at.items() if not name.endswith(" at q0")]  # φ_q of dφ/dt, φ_v
    if not rows or not found.left_out:
        return
    stacked = np.concatenate(rows, axis=1) * found.units
    rank = stacked.shape[1] - len(found.left_out)
    values = np.linalg.svd(unit_rows(stacked)[0], compute_uv=False)
    if values.shape[1] > rank and np.any(beyond := values[:, rank] > CONSISTENT):
        k = int(np.argmax(beyond))
        raise RankDeficientError(
            f"path: the constraints have rank {rank} at the start and more at t = {t[k]:g}, step {k} (singular value "
            f"{values[k, rank]:.3g} of rows of unit length): what was left out restricts the motion there"
        )


DEPENDENT = 1e-10  # of a row, what is left of it beside the others, and counts as nothing
NEARLY = 0.1  # of the largest such part: the row that was written first is preferred


@described_by_fields
class Independent(NamedTuple):
    """A system with the constraints that are independent of each other.

    φ_i = 0 for the rows i that are kept: a system with independent constraints, and the way back to all rows.

    Attributes:
        system: the System with the kept rows only.
        whole: the given System, with all M rows.
        kept: indices of the kept rows among the M equations of all constraints, in their order.
        left_out: names of the other rows.
        units: (n,), sizes of the accelerations, by which ranks are scaled.

    Example:
        >>> twice = da.Holonomic(lambda q: jnp.array([q @ q - 1.0, 3.0 * (q @ q - 1.0)]))
        >>> found = da.systems.independent(da.System(lambda q, v: 0.5 * v @ v, twice), [1.0, 0.0], [0.0, 1.0])
        >>> found.kept, found.left_out
        ((0,), ('constraints[0] (Holonomic) row 1',))
        >>> path = da.simulate(found.system, [1.0, 0.0], [0.0, 1.0], h=0.1, steps=10)
        >>> path.multipliers.shape, found.complete(path).multipliers.shape
        ((10, 1), (10, 2))
    """

    system: System
    whole: System
    kept: tuple[int, ...]
    left_out: tuple[str, ...]
    units: Float[np.ndarray, "n"]

    def complete(self, path: Path) -> Path:
        """The path with the multipliers of all M rows: Rᵀλ = R_keptᵀμ with least |λ|. All rows are checked at all
        nodes.

        λ = QQᵀμ̂, where μ̂ is μ with zeros for the rows that were left out, and Q, with QᵀQ = 1, has the column space
        of R at the time of μ, on the line between the two states of the step. This is accurate to second order if the
        relation between the rows changes along the path. Positions, velocities and constraint forces are not changed.

        Args:
            path: a path of `system` from simulate, with every node saved, and with a scheme whose states satisfy the
                constraints, as those of the default schemes do.

        Returns:
            The Path, with multipliers (N, M).

        Raises:
            InconsistentDataError: a row is not satisfied at some node; the message has its name, the time and the
                residual.
            RankDeficientError: the rank of all rows is not the same as at the start.
            ValueError: the path belongs to another system, is a batch, does not have every node, or its states are off
                the constraints.
            TypeError: path is not a Path, or is traced.
        """
        _check_path(self, path)
        t, q, v = (np.asarray(x) for x in (path.t, path.q, path.v))
        check_nodes(self, t, q, v)
        known, times = np.asarray(path.multipliers), np.asarray(path.t_multipliers)
        between = [((times - t[:-1]) / np.diff(t))[:, None] * (x[1:] - x[:-1]) + x[:-1] for x in (q, v)]
        multipliers = np.zeros((len(known), len(self.kept) + len(self.left_out)))
        multipliers[:, list(self.kept)] = known
        low = _low_rows(self.whole, q[0], v[0], t[0])
        if len(known) and self.left_out:
            rows = np.asarray(over_rows(reactions_at, (*between, times), self.whole)) * self.units
            multipliers[:, low] = shortest(rows, multipliers[:, low], len(low) - len(self.left_out))
        return dataclasses.replace(path, multipliers=multipliers)


def independent(system: System, q0, v0, t0: float = 0.0) -> Independent:
    """Keep the constraints of a system that are independent of each other.

    rank ∂(φ, ψ)/∂(q, v) = r < m at (q₀, v₀): r of the equations φ(q) = 0 and ψ(q, v) = 0 from which the others
    follow.

    For closed kinematic loops and for constraints that are written twice: the motion is determined, but the multipliers
    are not. Holonomic rows are preferred, since they hold positions exactly; then rows that come first, unless later
    ones are ten times less dependent. Rows are compared at unit length, so that units do not matter. Constraints on
    accelerations are not changed.

    The choice is fixed. If the kept rows become dependent during a run, the run is singular there, or violates the
    others: put rows that stay independent first, or choose again from an earlier state. The rows that are left out hold
    only as far as they follow from the others; `complete` checks this along a path.

    Args:
        system: a System.
        q0: (n,) positions that satisfy all constraints; it is enough that the constraints are redundant there.
        v0: (n,) velocities that satisfy all constraints.
        t0: the time at which they hold.

    Returns:
        An Independent. Its `system` is for simulate, ensemble, reference, project and everything else; `complete` adds
        to a path of simulate the multipliers of all rows, those of least norm.

    Raises:
        InconsistentDataError: a constraint does not hold at (q0, v0), for example because two constraints contradict
            each other.
        RankDeficientError: the reactions do not depend on each other in the same way as the constraints.
        ValueError: an argument has the wrong shape or value, or only some rows of a constraint with virtual= would be
            kept.
        TypeError: an argument is of the wrong type, or traced.

    Example:
        >>> rod = lambda q: q @ q - 1.0
        >>> doubled = da.System(lambda q, v: 0.5 * v @ v - q[1], [da.Holonomic(rod), da.Holonomic(lambda q: 2.0 * rod(q))])
        >>> found = da.systems.independent(doubled, [0.0, -1.0], [1.0, 0.0])
        >>> path = found.complete(da.simulate(found.system, [0.0, -1.0], [1.0, 0.0], h=0.1, steps=10))
        >>> np.allclose(path.multipliers[:, 1], 2.0 * path.multipliers[:, 0])  # least norm: as the rows
        True
    """
    check_flat(system, "independent")
    given, found = examine_start(system, q0, v0, t0, None)
    sizes = given.sizes
    if found is None:
        raise TypeError("independent: works on numbers and not under jit, vmap or grad; choose first, then trace the run")
    orders = np.repeat([c.order for c in system.constraints], sizes).astype(int)
    low, n = np.flatnonzero(orders < 2), given.q.shape[0]
    at = np.concatenate([np.arange(n), n + low])
    matrix = found.given.matrix[np.ix_(at, at)]
    if not np.all(np.isfinite(matrix)):
        raise ValueError("system: the derivatives of the Lagrangian, of a force or of a constraint are not finite at q0, v0")
    units = units_of(matrix, n)[:n]
    chosen = _choose(matrix[n:, :n] * units, orders[low])
    _check_forces(-matrix[:n, n:].T * units, chosen)
    dependent = set(low) - set(low[chosen])
    kept = tuple(i for i in range(len(orders)) if i not in dependent)
    names = equation_names(system, sizes)
    return Independent(_restrict(system, sizes, kept), system, kept, tuple(names[i] for i in sorted(dependent)), units)


def _choose(rows: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Indices of independent rows that span all of them, of low order first: again and again the first one written of which
    nearly as much is new as of any. Not the one of which most is new: then the user could not say what to keep."""
    left, chosen = unit_rows(rows)[0], []
    for order in (0, 1):
        group = np.flatnonzero(orders == order)
        while len(group) and (new := np.linalg.norm(left[group], axis=1)).max() > DEPENDENT * max(rows.shape):
            best = group[np.argmax(new >= NEARLY * new.max())]
            direction = left[best] / np.linalg.norm(left[best])
            left = left - np.outer(left @ direction, direction)
            chosen.append(best)
    return np.array(sorted(chosen), dtype=int)


def _check_forces(rows: np.ndarray, chosen: np.ndarray) -> None:
    """The reactions depend on each other as the constraints do: those of the kept rows give every constraint force."""
    every, own = numerical_rank(rows).rank, numerical_rank(rows[chosen]).rank
    if not every == own == len(chosen):
        raise RankDeficientError(
            f"reactions: all rows span {every} directions at q0, v0 and those of the {len(chosen)} independent constraints "
            f"{own}; both must be {len(chosen)}. Reactions of constraints that depend on each other depend in the same way"
        )


def _restrict(system: System, sizes: list[int], kept: tuple[int, ...]) -> System:
    """The system with these equations alone."""
    parts, at = [], 0
    for i, (c, m) in enumerate(zip(system.constraints, sizes, strict=True)):
        rows = tuple(k - at for k in kept if at <= k < at + m)
        if rows:
            parts.append(c if len(rows) == m else c.part(rows, label(i, c)))
        at += m
    return system.with_constraints(parts)


def _check_path(found: Independent, path: Path) -> None:
    check_path(path)
    if is_traced(path):
        raise TypeError("path: is traced; complete works on numbers and not under jit, vmap or grad")
    if np.ndim(path.code):
        raise ValueError("path: is a batch; complete its lanes one by one, complete(path.lane(i))")
    n, m = len(found.units), len(found.kept)
    shapes = (path.q.shape[1], path.multipliers.shape[1])
    if shapes != (n, m):
        raise ValueError(f"path: has {shapes[0]} coordinates and {shapes[1]} multipliers; one of .system has {n} and {m}")
    if path.levels[0] != "node":
        raise ValueError(
            f"path: its states are at levels {path.levels}, where the constraints do not hold together; use the default "
            "scheme"
        )
    if len(path.t) != path.steps + 1:
        raise ValueError(f"path: has {len(path.t)} of {path.steps + 1} nodes; all are needed, save=Save(every=1)")


def _low_rows(system: System, q, v, t) -> np.ndarray:
    """Indices of the equations of order 0 and 1."""
    sizes = check_shapes(system, jnp.asarray(q), jnp.asarray(v), jnp.asarray(t))
    return np.flatnonzero(np.repeat([c.order for c in system.constraints], sizes) < 2)
