"""Linear systems with the KKT matrix: frontal with pivots chosen once, or banded LU with partial pivoting."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dalembert.algebra import BandedLU, EntrySizes, Pivots, choose_pivots, condition, inertia
from dalembert.boundary.kkt.assembly import CompiledAssembly
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.native import BoundFactorization
from dalembert.tracing import Remembered

SAMPLES = 6  # blocks from which pivots are chosen


def pivots_of(kkt: KKTSystem, z: np.ndarray) -> Pivots | None:
    """The pivots of the system's blocks, chosen near z when one of its kind and of its sizes is met first: entries of
    multipliers fall as 1/N², and pivots of another N would make what a path comes to depend on what was solved before."""
    if not isinstance(kkt.assembly, CompiledAssembly):
        return None
    if _OWN.get():
        return _pivots(kkt, z)
    sizes = kkt.blocks, np.frexp(kkt.units[kkt.blocks // 2])[1].tobytes(), math.frexp(kkt.curvature)[1]
    return _PIVOTS.of((kkt.assembly.code, sizes), lambda: _pivots(kkt, z))


_PIVOTS: Remembered[Pivots | None] = Remembered(256)
_OWN = contextvars.ContextVar("own", default=False)


def chooses_own_pivots() -> bool:
    """True inside of `own_pivots`."""
    return _OWN.get()


@contextlib.contextmanager
def own_pivots() -> Iterator[None]:
    """Inside, in this thread, each system has the pivots that are chosen near its own first path: what it comes to does not
    depend, to the bit, on what was solved before."""
    token = _OWN.set(True)
    try:
        yield
    finally:
        _OWN.reset(token)


def _pivots(kkt: KKTSystem, z: np.ndarray) -> Pivots | None:
    """From the matrices of some blocks that are far from what is fixed in a few; None where there are none, or too few
    unknowns. What is fixed in all blocks but those is eliminated last: at an end it may be a multiplier.

    Directions of constraints turn along a path: what is a pivot at one point only is told by points at random.
    """
    near = kkt.near
    idle = kkt.fixed[near:-near].all(axis=0)
    special = np.flatnonzero(np.r_[True, (kkt.fixed != idle).any(axis=1), True])
    inside = [i for a, e in itertools.pairwise(special.tolist()) for i in range(a + near, e - 1 - near)]
    if not inside:
        return None
    chosen = [inside[round(f * (len(inside) - 1))] for f in np.linspace(0.0, 1.0, SAMPLES)]
    random = np.random.default_rng(0)
    samples, couplings, b, own = [], [], kkt.size, np.flatnonzero(~idle)
    for spread in (0.0, 1.0):
        band = kkt.matrix(z + spread * random.standard_normal(z.shape) * kkt.units) / kkt.curvature
        for i in chosen:
            both = kkt.entries(band, i * b + own, i * b + np.flatnonzero(np.tile(~idle, near + 1)))
            samples.append(both[:, : len(own)])
            couplings.append(both[:, len(own) :])
    found = choose_pivots(np.array(samples), np.array(couplings)) if np.all(np.isfinite(samples)) else None
    if found is None:
        return None
    sizes = np.ones(b)
    sizes[own] = found.sizes
    groups = [tuple(int(own[p]) for p in group) for group in found.groups]
    return Pivots((*groups, *((p,) for p in np.flatnonzero(idle).tolist())), sizes)


SHORTEST = 40  # blocks; a shorter one is solved before the elimination is compiled
EXACT = 1e-3  # relative correction below which a solution needs no other
CONTRACTION = 0.25  # relative correction above which a frontal factorization is not used
CORRECTIONS = 6
SOUND = 1e-2  # largest relative error that shows that signs of pivots are right
POWERS = 24  # solutions until it is reached
NUDGE = 1e-8  # of a diagonal entry, in the scaling in which rows are of size 1
NUDGED = 1000  # blocks; solutions change by a nudge times their number, so that more have less of it
REFUSALS = 3  # one after the other, after which it is not tried again for the same problem


def accurate(correction, solution):
    """True if a solution needs no other correction: sizes of both, floats or JAX's numbers."""
    return correction <= EXACT * solution


def converging(correction, solution):
    """True if another correction may make a solution accurate."""
    return correction <= CONTRACTION * solution


Norm = Callable[[np.ndarray], float]


class BandedFactors:
    """U K U = PLU, U: the units, in the order of the band."""

    def __init__(self, linear: LinearSolver, matrix: np.ndarray):
        self.linear = linear
        self.factors = BandedLU(matrix)
        self.singular = self.factors.singular

    def solve(self, right: np.ndarray, norm: Norm | None = None) -> np.ndarray:
        """K⁻¹ right, (blocks, b)."""
        kkt = self.linear.kkt
        return kkt.units * kkt.from_rows(self.factors.solve(kkt.to_rows(kkt.units * right)))


class FrontalFactors:
    """K = LDLᵀ with an order of pivots that is the same for all blocks; banded LU takes over where that is not accurate.

    diagonal: (blocks, b), what is added to that of the sum; matrix: K in a band, made where it is asked for.
    """

    def __init__(
        self,
        linear: LinearSolver,
        frontal: BoundFactorization,
        z: np.ndarray,
        diagonal: np.ndarray,
        matrix: Callable[[], np.ndarray],
    ):
        self.linear, self.frontal, self.z, self.diagonal, self.matrix = linear, frontal, z, diagonal, matrix
        self.stored: np.ndarray | None = None  # made with the first solution
        self._begun: np.ndarray | None = None  # the first solution, not corrected
        self.other: BandedFactors | None = None

    @property
    def singular(self) -> bool:
        return self.other is not None and self.other.singular

    def negative_pivots(self, right: np.ndarray) -> int | None:
        """Number of negative pivots, before `solve` corrects the solution of this right-hand side; None where it is not
        known of the matrix before that its solutions were accurate."""
        if not self.linear.sound or self.linear.nudged:
            return None
        self._begun = self._solve(right)
        return self.negative()

    def solve(self, right: np.ndarray, norm: Norm | None = None) -> np.ndarray:
        """K⁻¹ right, (blocks, b), corrected until a correction is small against what it corrects: in this norm always, in
        that of the positions unless solutions are trusted."""
        if self.other is None:
            x = self._refine(right, norm)
            if x is None and not self.linear.nudged:
                self.linear.nudged, self.stored = True, None
                x = self._refine(right, norm)
            if x is not None:
                self.linear.refusals = 0
                return x
            self.other = BandedFactors(self.linear, self.matrix())
            self.linear.refusals += 1
        return self.other.solve(right)

    def _refine(self, right: np.ndarray, norm: Norm | None) -> np.ndarray | None:
        """K⁻¹ right with iterative refinement; None where that does not converge."""
        x, self._begun = self._solve(right) if self._begun is None else self._begun, None
        if self.linear.trusted and norm is None:
            return x
        norm, self.linear.sound = norm or self.linear.kkt.max_norm, False
        for i in range(CORRECTIONS):
            correction = self._solve(right - self.product(x))
            size, change = norm(x), norm(correction)
            x += correction
            if accurate(change, size):
                self.linear.trusted, self.linear.sound = i == 0 and not self.linear.nudged, True
                return x
            if not converging(change, size):
                return None
        return None

    def product(self, x: np.ndarray) -> np.ndarray:
        """K x."""
        kkt: Any = self.linear.kkt
        return kkt.assembly.product(self.z, x) * kkt.free + self.diagonal * x

    def error(self, path: np.ndarray) -> float:
        """The least |x - path| of x ← x + (K + E)⁻¹K(path - x) from x = 0, the largest part of an unknown; K + E: what is
        factorized. The error is multiplied by (K + E)⁻¹E each time, also in directions that K maps to nothing. None of these
        has multipliers alone, whose rounding is much larger."""
        right, primal = self.product(path), self.linear.kkt.primal
        x, least = self._solve(right), np.inf
        for _ in range(POWERS):
            least = min(least, _largest_ratio((path - x)[:, primal], path[:, primal]))
            if least <= SOUND:
                break
            x = x + self._solve(right - self.product(x))
        return least

    def negative(self) -> int:
        """Number of negative pivots."""
        return 0 if self.stored is None else self.frontal.negative(self.stored)

    def _solve(self, right: np.ndarray) -> np.ndarray:
        if self.stored is not None:
            return self.frontal.solve(self.stored, right)
        diagonal = None if self.diagonal is self.linear.kkt.unit else self.diagonal
        if self.linear.nudged:
            diagonal = self.diagonal + self.linear.nudge
        self.stored, x = self.frontal.factor(self.z, diagonal, right)
        return x


def _largest_ratio(a: np.ndarray, b: np.ndarray) -> float:
    """Of the sizes of a component of two paths (blocks, b)."""
    above, below = np.abs(a).max(axis=0), np.abs(b).max(axis=0)
    return float(np.max(np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)))


class LinearSolver:
    """Factorizations of the KKT matrix; z: a path, near which pivots are chosen; shortest: with fewer blocks it is banded.

    trusted: solutions by frontal factors need no correction near the present path, never where they are nudged: what that
    leaves depends on the right-hand side; sound: those of the last matrix were
    accurate; nudged: they need a nudge; refusals:
    how often they failed one after the other. `fresh` gives the same without this history.
    """

    def __init__(self, kkt: KKTSystem, z: np.ndarray, shortest: int = SHORTEST):
        self.kkt, self.trusted, self.sound, self.nudged, self.refusals = kkt, False, False, False, 0
        self.frontal: BoundFactorization | None = None
        pivots = pivots_of(kkt, z) if kkt.blocks >= shortest else None
        if pivots is not None:
            assembly: Any = kkt.assembly
            self.frontal = assembly.frontal(pivots.groups, tuple(np.flatnonzero(~kkt.primal).tolist()))
            self.nudge = _nudge(kkt, pivots.sizes)

    def fresh(self) -> LinearSolver:
        """For another iteration."""
        new = copy.copy(self)
        new.trusted, new.sound, new.nudged, new.refusals = False, False, False, 0
        return new

    def factor(
        self, z: np.ndarray, shift: float = 0.0, relax: float = 0.0, plain: bool = False, added: np.ndarray | None = None
    ) -> BandedFactors | FrontalFactors:
        """The matrix at z as `KKTSystem.matrix` gives it, factorized."""
        matrix = functools.partial(self.kkt.matrix, z, shift, relax, plain, added)
        frontal = None if plain or self.refusals >= REFUSALS else self.frontal
        if frontal is None:
            return BandedFactors(self, matrix())
        return FrontalFactors(self, frontal, z, self.kkt.diagonal(shift, relax, added), matrix)

    def negative(self, z: np.ndarray, added: np.ndarray | None = None) -> int | None:
        """Number of negative eigenvalues of the matrix at z; None where frontal factors cannot tell.

        The pivots are those of K + E with E from rounding and the nudge. Where no eigenvalue of (K + E)⁻¹E reaches 1 no
        K + tE, 0 ≤ t ≤ 1, is singular, and K has as many: it is the matrix by which the error of a solution follows from
        the one before, here of paths at random. Where rounding spoils them without a nudge they are asked again with one.
        """
        probed, least = self.fresh(), int(np.sum(~self.kkt.fixed & ~self.kkt.primal))
        for nudged in (self.nudged, True)[: 1 if self.nudged else 2]:
            probed.nudged = nudged
            factors = probed.factor(z, added=added)
            if not isinstance(factors, FrontalFactors):
                return None
            if all(factors.error(path) <= SOUND for path in self.kkt.probes) and factors.negative() >= least:
                return factors.negative()
        return None

    def condition(self, z: np.ndarray, added: np.ndarray | None = None) -> float:
        """Estimate of the 1-norm condition of the matrix at z, after rows and columns are scaled alike to entries of about
        1: the large diagonal that holds an active bound, and units, say nothing of the equations."""
        kkt, probed = self.kkt, self.fresh()
        probed.nudged = self.nudged
        factors, sizes = probed.factor(z, added=added), EntrySizes.of(kkt.matrix(z, added=added), kkt.lower)
        scale = sizes.equilibrate()
        largest = float(sizes.sums.max())
        weights = 1.0 / (kkt.from_rows(scale) * kkt.units)

        def norm(x: np.ndarray) -> float:
            return float(np.abs(weights * x).sum())

        def solve(x: np.ndarray) -> np.ndarray:
            right = x.reshape(weights.shape)
            return np.where(kkt.fixed, right, weights * factors.solve(weights * right * kkt.free, norm)).ravel()

        return condition(largest, weights.size, solve)


def _nudge(kkt: KKTSystem, sizes: np.ndarray) -> np.ndarray:
    """Regularisation that is added to the diagonal of blocks where a component is fixed, and at the ends, (blocks, b).

    There a multiplier may be eliminated before the unknowns of its constraint, so that its pivot vanishes. With a little of
    the right sign it does not (R. J. Vanderbei, Symmetric quasidefinite matrices, 1995); the corrections remove the effect.
    """
    ends = np.zeros(kkt.blocks, dtype=bool)
    ends[: kkt.near] = ends[-kkt.near :] = True
    nudge = NUDGE * np.where(ends, min(1.0, NUDGED / kkt.blocks), kkt.fixed.any(axis=1))[:, None]
    sign = np.where(kkt.primal, 1.0, -1.0)
    return np.where(kkt.fixed, 0.0, nudge * sign * sizes * kkt.weights)


HEAVY = 1e3  # weight of the metric, against which the second derivatives of f are small
LARGE = 1e3  # of multipliers, in units: an estimate beyond that is worse than none


def with_least_multipliers(
    kkt: KKTSystem, linear: LinearSolver, z: np.ndarray, added: np.ndarray | float = 0.0
) -> np.ndarray:
    """The path z with the multipliers that make ∇f + g + Aᵀν smallest, or as it is where these are no use; added: g, what
    bounds add to the gradient."""
    bare = np.where(kkt.primal, z, 0.0)
    slope = np.where(kkt.primal, (kkt.evaluate(bare).gradient + added) * kkt.free, 0.0)
    if not np.any(slope):
        return z
    found = linear.factor(bare, HEAVY, 1e-12).solve(-slope)
    sound = bool(np.max(np.abs(found / kkt.units)[:, ~kkt.primal], initial=0.0) <= LARGE)  # False for NaN
    return np.where(kkt.primal, z, found) if sound else z


FLAT = 1e-12  # |eigenvalue| of the scaled KKT matrix that counts as zero: long paths have small ones, N⁻² and less


def inertia_of(kkt: KKTSystem, linear: LinearSolver, z: np.ndarray, added: np.ndarray | None = None) -> tuple[int, int]:
    """(negative, flat) directions of dxᵀH dx on A dx = 0, z being a critical point; added: (blocks, b), what is added to the
    diagonal of the KKT matrix.

    In [[H, Aᵀ], [A, 0]] with independent rows of A every constraint brings one positive and one negative eigenvalue: what is
    negative beyond the number of constraints is so on the kernel of A.
    """
    constraints = int(np.sum(~kkt.fixed & ~kkt.primal))
    negative = linear.negative(z, added)
    if negative is not None:
        return negative - constraints, 0
    found = inertia(kkt.matrix(z, added=added), kkt.lower, FLAT)
    return found.negative - constraints, found.zero


def inertia_with_held(kkt: KKTSystem, z: np.ndarray, held: np.ndarray) -> tuple[int, int]:
    """The same on directions in which what is held, (blocks, b), does not vary at all."""
    found = inertia(kkt.with_held(kkt.matrix(z), held | kkt.fixed), kkt.lower, FLAT)
    return found.negative - int(np.sum(~kkt.fixed & ~kkt.primal)), found.zero
