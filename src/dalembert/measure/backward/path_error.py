"""A bound on the error of a run, from the modified equation of its scheme alone: no other run and no reference is needed.

The nodes follow z̃' = f(z̃) + d, d = Σ h^j f_j(z̃). So e = z̃ - z, z the motion, satisfies e' = A e + d - ½f''(e, e) + …,
A = f'(z̃). The estimate ε solves the linear equation. The remainder ρ ≥ |e - ε| grows by what both leave out.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from dalembert.measure.backward.equation import (
    Modified,
    check_modified,
    essentials,
    expand_at,
    in_batches,
    inertial_units,
    motion_field,
)
from dalembert.measure.nodes import check_neighbours, form_of, states_of
from dalembert.notebook import Described
from dalembert.numbers import EPSILON, refuse_traced
from dalembert.path import Path
from dalembert.systems import check_flat
from dalembert.systems.consistency import onto_constraints
from dalembert.tracing import over_many_rows

BLOCKS = 128  # of the run, in which the remainder is summed
AROUND = 1.5  # times f'' on the path is what it is taken for in the neighbourhood
BEYOND = 2.0  # times the first power left out, for all powers left out
DIGITS_LEFT = 30.0  # rounding errors of a step, times this
TAYLOR = 1.0 / 120.0  # of the first power that Kutta's method leaves out
ROUNDS = 30  # of the iteration for ρ at the end of a block
OUTGROWN = 1.0  # sizes of the motion: a larger remainder says nothing
DIFFERENCE = 1e-4  # sizes of the motion, over which A is compared


@dataclasses.dataclass(frozen=True)
class ErrorBound(Described):
    """An estimate and a bound of the error along a run, |q_k - q(t_k)| and |v_k - v(t_k)|.

    Attributes:
        t: (K,) times of the states.
        q_error: (K, n) estimate of q_k - q(t_k), of first order in the modification.
        v_error: (K, n) estimate of v_k - v(t_k).
        q: (K,) bound on the Euclidean norm of q_k - q(t_k); infinite after `until`.
        v: (K,) bound on the Euclidean norm of v_k - v(t_k).
        until: the time up to which the bound holds: the end of the run, or where the remainder outgrows the motion.
    """

    t: Float[np.ndarray, "K"]
    q_error: Float[np.ndarray, "K n"]
    v_error: Float[np.ndarray, "K n"]
    q: Float[np.ndarray, "K"]
    v: Float[np.ndarray, "K"]
    until: float

    @property
    def holds(self) -> bool:
        """True if the bound is finite up to the end of the run."""
        return bool(self.until >= self.t[-1])

    def describe(self) -> str:
        """The largest bounds, and up to which time they hold."""
        inside = self.t <= self.until
        largest = f"|error| of q at most {self.q[inside].max():.3g}, of v at most {self.v[inside].max():.3g}"
        ends = "the end of the run" if self.holds else "where the remainder outgrows the motion; take smaller steps to go on"
        return f"{largest}\nholds until: t = {self.until:g}, {ends}"


def error_bound(made: Modified, path: Path) -> ErrorBound:
    """The error of a run by the modified equation of its scheme: |z_k - z(t_k)| ≤ |ε_k| + ρ_k, ε' = A ε + Σ h^j f_j.

    f'' is read on the path and taken half as large again around it, and the powers left out for twice the first of them:
    the bound is not proven, as one by interval arithmetic would be.

    Args:
        made: a Modified, of the system and the scheme of the run.
        path: a Path with all its states.

    Returns:
        An ErrorBound, which prints up to which time it holds.

    Raises:
        ValueError: the path was made with another scheme, or some of its states were not saved.
        TypeError: an argument is of the wrong type, or traced.

    Source: Jiménez, Scheurle, Section 7; Hairer, Lubich, Wanner, Geometric Numerical Integration, Chapter IX.

    Example:
        >>> run = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=50)
        >>> found = da.measure.error_bound(da.measure.modified(pendulum, [1.0], [0.0], h=0.1), run)
        >>> found.holds, bool(found.q.max() < 0.01)
        (True, True)
    """
    check_modified(made)
    check_flat(made.system, "error_bound")
    refuse_traced("error_bound", path)
    form_of(path, made.system, made.scheme)
    check_neighbours(path)
    q, v, t = (np.asarray(x) for x in states_of(made.system, path))
    h = float(path.h)
    z, n = np.concatenate([q, v], axis=1), q.shape[1]
    parts = h ** made.stencil.powers[:, None] * expand_at(made, z, t).terms
    count, slopes = len(made.powers), in_batches(_slopes, made, z, t, over=over_many_rows)
    defect, beyond = parts[:, :count].sum(axis=1), parts[:, count]
    carried, local, doubt = _over_steps(slopes, defect, h)
    estimate = np.zeros_like(z)
    for k, (matrix, source) in enumerate(zip(carried, local, strict=True)):
        estimate[k + 1] = matrix @ estimate[k] + source
    units = np.asarray(inertial_units(essentials(made)))[:n]
    spans = [max(np.ptp(x, axis=0).max(), EPSILON**0.5 * np.abs(x).max(), 1e-300) for x in (q / units, v / units)]
    sizes = np.concatenate([span * units for span in spans])
    norm = lambda x: np.linalg.norm(x / sizes, axis=1)  # noqa: E731
    rest = BEYOND * norm(beyond) + DIGITS_LEFT * EPSILON / abs(h) * norm(z)
    rest[1:] += norm(doubt) + TAYLOR * np.linalg.norm(
        (carried - np.eye(2 * n)) * sizes / sizes[:, None], axis=(1, 2)
    ) ** 5 / abs(h) * norm(estimate[1:])
    along, last = Remaining(z, t, estimate, abs(h) * norm(defect), rest), len(t) - 1
    ends, remainder = _remainders(made, along, carried, sizes, last)
    while last > BLOCKS and not np.all(finite := np.isfinite(remainder)):  # again, in shorter blocks
        outgrown = int(np.argmin(finite))
        last = max(BLOCKS, int(ends[outgrown] if ends[outgrown] < last else ends[outgrown - 1]))
        ends, remainder = _remainders(made, along, carried, sizes, last)
    ends, remainder = np.append(ends, len(t)), np.append(remainder, remainder[-1] if last == len(t) - 1 else np.inf)
    after = np.searchsorted(ends, np.arange(len(t)))  # at a state the larger of both ends of its block
    larger = np.maximum(remainder[after], remainder[np.maximum(after - 1, 0)])
    finite = np.isfinite(larger)
    until = float(t[-1] if np.all(finite) else t[max(int(np.argmin(finite)) - 1, 0)])
    of_q, of_v = estimate[:, :n], estimate[:, n:]
    bound = lambda x, size: np.linalg.norm(x, axis=1) + size * larger  # noqa: E731
    return ErrorBound(t, of_q, of_v, bound(of_q, sizes[:n].max()), bound(of_v, sizes[n:].max()), until)


class Remaining(NamedTuple):
    """Of each state: z, t, ε, |h d|, and the rate at which ρ grows by itself; the last two in units of the sizes."""

    z: np.ndarray
    t: np.ndarray
    estimate: np.ndarray
    shift: np.ndarray
    rest: np.ndarray


def _slopes(made: Modified, z, t):
    """A at a state."""
    return jax.jacfwd(lambda y: motion_field(made.system, onto_constraints(made.system, y, t), t))(z)


def _over_steps(slopes: np.ndarray, defect: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ψ and ∫Ψ d over each step, by Kutta's method for ε' = Aε + d, and how far d between the states is uncertain."""
    middle, between = _middles(slopes), _middles(defect)
    n = slopes.shape[1]
    start = np.broadcast_to(np.eye(n, n + 1), (len(middle), n, n + 1))
    rate = lambda a, d, x: a @ x + np.pad(d[:, :, None], ((0, 0), (0, 0), (n, 0)))  # noqa: E731
    k1 = rate(slopes[:-1], defect[:-1], start)
    k2 = rate(middle, between, start + 0.5 * h * k1)
    k3 = rate(middle, between, start + 0.5 * h * k2)
    k4 = rate(slopes[1:], defect[1:], start + h * k3)
    whole = start + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return whole[..., :-1], whole[..., -1], between - 0.5 * (defect[:-1] + defect[1:])


def _middles(x: np.ndarray) -> np.ndarray:
    """Between neighbouring rows, by cubics through four."""
    if len(x) < 4:
        return 0.5 * (x[:-1] + x[1:])
    first, last = (5 * y[0] + 15 * y[1] - 5 * y[2] + y[3] for y in (x[:4], x[:-5:-1]))
    return np.concatenate([first[None], 9 * (x[1:-2] + x[2:-1]) - x[:-3] - x[3:], last[None]]) / 16


def _remainders(
    made: Modified, along: Remaining, carried: np.ndarray, sizes: np.ndarray, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Up to the state `last`: ends of the blocks, as numbers of states, and ρ there in units of the sizes; infinite from
    where it outgrows them.

    ρ(t) = ∫ ‖Ψ(t, s)‖ (½|f''(ε, ε)| + |f''(ε, ·)|(ρ + |h d|) + ½|f''|ρ² + rest) ds.
    """
    t, unit = along.t, np.eye(len(sizes))
    ends = np.unique(np.linspace(0, last, min(BLOCKS, last) + 1).astype(int))
    error = along.estimate[ends] / sizes
    bends = np.stack([_bend(made, along, ends, x) * sizes / sizes[:, None] for x in unit * sizes], axis=-1)
    along_error = np.einsum("kabc,kc->kab", bends, error)
    both = 0.5 * np.linalg.norm(np.einsum("kab,kb->ka", along_error, error), axis=1)
    mixed = np.linalg.norm(along_error, ord=2, axis=(1, 2))
    pure = 0.5 * np.sqrt(np.sum(bends**2, axis=(1, 2, 3)))
    remainder, sources, kernels = np.full(len(ends), np.inf), np.zeros(0), np.zeros((0, *unit.shape))
    remainder[0] = 0.0
    for b, (i, j) in enumerate(itertools.pairwise(ends)):
        over = functools.reduce(lambda x, y: y @ x, carried[i:j]) * sizes / sizes[:, None]
        kernels = over @ np.concatenate([kernels, unit[None]])
        gains = np.linalg.norm(kernels, ord=2, axis=(1, 2))
        terms = [AROUND * np.maximum(x[b], x[b + 1]) for x in (both, mixed, pure)]
        shift, rest = along.shift[i : j + 1].max(), along.rest[i : j + 1].max()
        before, source, guess = float(gains[:-1] @ sources), 0.0, 0.0
        for _ in range(ROUNDS):
            rate = terms[0] + terms[1] * (guess + shift) + terms[2] * guess**2 + rest
            source = abs(t[j] - t[i]) * max(1.0, gains[-1]) * rate
            guess = before + source
            if not guess < OUTGROWN:
                return ends, remainder
        sources, remainder[b + 1] = np.append(sources, source), guess
    return ends, remainder


def _bend(made: Modified, along: Remaining, ends: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """f''(direction, ·) at the ends of the blocks, by a difference of A."""
    z, t = along.z[ends], along.t[ends]
    ahead, behind = (in_batches(_slopes, made, z + s * direction, t, over=over_many_rows) for s in (DIFFERENCE, -DIFFERENCE))
    return (ahead - behind) / (2.0 * DIFFERENCE)
