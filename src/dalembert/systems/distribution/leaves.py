"""Functions of position that constraints on velocities keep: the integrable part of D, and the leaf through a point."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.systems.distribution.integrability import AFFINE, affinity, constraint_forms
from dalembert.systems.system import System
from dalembert.tracing import seldom

WIDTH = 1e-3  # of the coordinates' sizes, of the differences by which forms are differentiated
STENCIL = ((-2.0, 1.0 / 12.0), (-1.0, -2.0 / 3.0), (1.0, 2.0 / 3.0), (2.0, -1.0 / 12.0))  # f' to order 4
CURVED = 1e-3  # dω on D, relative to its terms, below which it is an error of these differences
ROUNDING = 1e-5  # of the forms: what may be left of their slopes where they are constant
SAME = 1e-7  # of the coordinates' sizes: how far two ways along a leaf may end apart
CLOSE = 1e-10  # of the coordinates' sizes: tolerance of the way along a leaf


class Leaves(NamedTuple):
    """The forms W(x) dx = 0, x = (q, t), of the functions that the constraints keep, (r, n+1), and the coordinates (r,) that
    follow from the others on a leaf. Forms are solved for these: W has a unit matrix there."""

    form: Callable[[np.ndarray], np.ndarray]  # x (n+1,) → W
    dependent: tuple[int, ...]


def leaves_of(system: System, q: Float[np.ndarray, "n"], t: float, size: Float[np.ndarray, "n"]) -> Leaves | None:
    """The functions of position that constraints of order 1, affine in v, keep near (q, t); None where they keep none.

    The derived systems I ⊃ I' ⊃ …, I' = {ω ∈ I: dω = 0 on ker I}, end with the largest integrable one (E. Cartan).
    size: of the coordinates.
    """
    lower = tuple(c for c in system.constraints if c.order == 1)
    if not lower or any(c.order == 0 for c in system.constraints):
        return None
    speeds = size * np.random.default_rng(0).standard_normal((2, len(q)))
    if not float(_affinity(system, q, speeds, t)) <= AFFINE:
        return None
    scale = np.append(size, 1.0)
    forms = lambda x: np.asarray(_forms(system, x, speeds[0])) * scale  # noqa: E731, in units of the sizes
    at = np.append(q, t)
    while True:
        rank, columns = _pivots(forms(at))
        if rank == 0 or rank != len(forms(at)):
            return None
        solved = functools.partial(_solved_for, forms, columns)
        kept = _closed(solved, at, scale)
        if len(kept) == rank:
            return Leaves(solved, columns)
        if len(kept) == 0:
            return None
        forms = functools.partial(_derived, solved, scale, len(kept))


def along_leaf(leaves: Leaves, begin: Float[np.ndarray, "n+1"], end: Float[np.ndarray, "n+1"], size) -> np.ndarray | None:
    """Where the leaf through `begin` meets the other coordinates and the time of `end`: the dependent ones there; nan where
    no way gets so far, and None where two ways end apart, so that there is no leaf."""
    scale, ends = np.append(size, 1.0), []
    for bend in (0.0, 0.3 * np.append(size, 0.0) * np.cos(1.0 + np.arange(len(scale)))):
        ends.append(_along(leaves, begin, end, scale, bend))
    if np.all(np.isfinite(ends)) and np.abs(ends[0] - ends[1]).max() > SAME:
        return None
    return ends[0] * scale[list(leaves.dependent)]


def _along(leaves: Leaves, begin: np.ndarray, end: np.ndarray, scale: np.ndarray, bend: Any) -> np.ndarray:
    """The dependent coordinates, in sizes, at the end of x = begin + s(end - begin) + s(1 - s) bend; nan if not reached."""
    from scipy.integrate import solve_ivp  # slow to load

    chosen = list(leaves.dependent)
    others = [i for i in range(len(begin)) if i not in chosen]

    def slope(s, y):
        x = begin + s * (end - begin) + s * (1.0 - s) * bend
        x[chosen] = y * scale[chosen]
        return -leaves.form(x)[:, others] @ ((end - begin + (1.0 - 2.0 * s) * bend) / scale)[others]

    try:
        found = solve_ivp(slope, (0.0, 1.0), begin[chosen] / scale[chosen], "DOP853", rtol=CLOSE, atol=CLOSE)
    except (ValueError, np.linalg.LinAlgError):  # the forms cannot be solved for these coordinates on the way
        return np.full(len(chosen), np.nan)
    return found.y[:, -1] if found.success else np.full(len(chosen), np.nan)


@seldom
def _forms(system: System, x, v):
    return constraint_forms(system, jnp.asarray(x)[: len(v)], jnp.asarray(v), x[len(v)])


@seldom
def _affinity(system: System, q, speeds, t):
    return affinity(system, jnp.asarray(q), jnp.asarray(speeds[0]), jnp.asarray(speeds[1]), t)


def _pivots(forms: np.ndarray) -> tuple[int, tuple[int, ...]]:
    """The rank, and coordinates for which the forms can be solved, the time not among them."""
    from scipy.linalg import qr

    factors: Any = qr(forms[:, :-1], pivoting=True, mode="economic")
    _, upper, order = factors
    values = np.abs(np.diagonal(upper))
    rank = int(np.sum(values > 1e-10 * values[:1].sum()))
    return rank, tuple(sorted(int(i) for i in order[:rank]))


def _solved_for(forms, columns: tuple[int, ...], x) -> np.ndarray:
    found = forms(x)
    return np.linalg.solve(found[:, list(columns)], found)


def _closed(forms, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Combinations c (k, r) of the forms with dω = 0 on their kernel."""
    omega = forms(x)
    steps = WIDTH * np.diag(scale)
    by_one = [sum(weight * forms(x + at * d) for at, weight in STENCIL) / WIDTH for d in steps]
    slopes = np.stack(by_one, axis=2)  # (r, j, i): by x_i
    basis = np.linalg.svd(omega, full_matrices=True)[2][len(omega) :].T
    turns = np.swapaxes(slopes, 1, 2)  # (r, i, j): ∂_i ω_j
    exterior = np.einsum("aij,ik,jl->kla", turns - slopes, basis, basis).reshape(-1, len(omega))
    terms = np.einsum("aij,ik,jl->kla", np.abs(turns) + np.abs(slopes), *(np.abs(basis),) * 2).reshape(-1, len(omega))
    values, rows = np.linalg.svd(exterior / (terms.max(axis=1) + ROUNDING * np.abs(omega).max())[:, None])[1:]
    return rows[int(np.sum(values > CURVED)) :]


def _derived(forms, scale: np.ndarray, count: int, x) -> np.ndarray:
    kept = _closed(forms, x, scale)
    return kept[-count:] @ forms(x)
