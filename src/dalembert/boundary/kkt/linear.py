"""Linear systems with the KKT matrix of a chain: fronts with pivots chosen once, or banded LU with partial pivoting."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np

from dalembert.algebra import banded as lapack
from dalembert.algebra.pivots import Pivots, choose_pivots
from dalembert.boundary.kkt.assembly import Machine
from dalembert.boundary.kkt.system import Chain
from dalembert.boundary.newton.descent import Descent
from dalembert.native import Bound, Unsupported
from dalembert.native.band import banded as machine
from dalembert.tracing import Remembered, Walk

SHORTEST = 150  # blocks; a shorter chain is solved before the elimination is compiled
SAMPLES = 6  # blocks from which pivots are chosen
EXACT = 1e-3  # relative correction below which a solution needs no other
CONTRACTION = 0.1  # relative correction above which fronts are not used
CORRECTIONS = 6
PROBES, SOUND = 2, 1e-2  # solutions, and their largest relative correction, that show that signs of pivots are right
NUDGE = 1e-8  # of a diagonal entry, in the scaling in which rows are of size 1
REFUSALS = 3  # after which fronts are not tried again for the same problem


class Banded:
    """U K U = PLU, U: the units, in the order of the band."""

    def __init__(self, linear: Linear, z: np.ndarray, shift: float, relax: float, plain: bool):
        self.linear = linear
        self.factors = linear.banded.factor(linear.chain.matrix(z, shift, relax, plain))
        self.singular = bool(self.factors.singular[0] >= 0)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """K⁻¹ right, (blocks, b)."""
        chain = self.linear.chain
        return chain.units * chain.from_rows(self.linear.banded.solve(self.factors, chain.to_rows(chain.units * right)))


class Frontal:
    """K = LDLᵀ with an order of pivots that is the same for all blocks; banded LU takes over where that is not accurate."""

    def __init__(self, linear: Linear, fronts: Bound, z: np.ndarray, shift: float, relax: float):
        self.linear, self.fronts, self.at = linear, fronts, (z, shift, relax)
        self.diagonal = linear.chain.diagonal(shift, relax)
        self.record: np.ndarray | None = None  # made with the first solution
        self.other: Banded | None = None

    @property
    def singular(self) -> bool:
        return self.other is not None and self.other.singular

    def solve(self, right: np.ndarray) -> np.ndarray:
        """K⁻¹ right, (blocks, b), corrected until a correction is small against what it corrects."""
        if self.other is None:
            x = self._corrected(right)
            if x is None and not self.linear.nudged:
                self.linear.nudged, self.record = True, None
                x = self._corrected(right)
            if x is not None:
                return x
            self.other = Banded(self.linear, *self.at, plain=False)
            self.linear.refusals += 1
        return self.other.solve(right)

    def _corrected(self, right: np.ndarray) -> np.ndarray | None:
        """K⁻¹ right with iterative refinement; None where that does not converge."""
        x = self._solve(right)
        if self.linear.trusted:
            return x
        chain = self.linear.chain
        for i in range(CORRECTIONS):
            correction = self._solve(right - self.product(x))
            size, change = chain.extent(x), chain.extent(correction)
            x += correction
            if change <= EXACT * size:
                self.linear.trusted = i == 0
                return x
            if not change <= CONTRACTION * size:
                return None
        return None

    def product(self, x: np.ndarray) -> np.ndarray:
        """K x."""
        chain: Any = self.linear.chain
        return chain.sums.product(self.at[0], x) * chain.free + self.diagonal * x

    def change(self, right: np.ndarray) -> float:
        """The largest relative change of a component of K⁻¹ right by its first correction."""
        x = self._solve(right)
        correction = np.abs(self._solve(right - self.product(x)))
        return float(np.max(correction.max(axis=0) / np.abs(x).max(axis=0), where=np.abs(x).max(axis=0) > 0, initial=0.0))

    def negative(self) -> int:
        """How many pivots are negative."""
        return 0 if self.record is None else self.fronts.negative(self.record)

    def _solve(self, right: np.ndarray) -> np.ndarray:
        if self.record is not None:
            return self.fronts.solve(self.record, right)
        diagonal = None if self.diagonal is self.linear.chain.unit else self.diagonal
        if self.linear.nudged:
            diagonal = self.diagonal + self.linear.nudge
        self.record, x = self.fronts.factor(self.at[0], diagonal, right)
        return x


class Linear:
    """Factorizations of the KKT matrix of a chain; z: a path, near which pivots are chosen.

    trusted: solutions by fronts need no correction near the present path; nudged: they need a nudge; refusals: how often
    they failed. `fresh` gives the same without this history.
    """

    def __init__(self, chain: Chain, z: np.ndarray):
        self.chain, self.trusted, self.nudged, self.refusals = chain, False, False, 0
        self.fronts: Bound | None = None
        self.descent: Descent | None = None
        pivots = _pivots_of(chain, z)
        if pivots is not None:
            sums: Any = chain.sums
            fronts = sums.fronts(pivots.groups)
            self.fronts, self.nudge, self.descent = fronts, _nudge(chain, pivots.sizes), Descent(chain, fronts)
        self.banded: Any
        try:
            self.banded = machine.banded(chain.lower, chain.lower)
        except Unsupported:
            self.banded = lapack.banded(chain.lower, chain.lower)

    def fresh(self) -> Linear:
        """For another iteration."""
        new = copy.copy(self)
        new.trusted, new.nudged, new.refusals = False, False, 0
        return new

    def factor(self, z: np.ndarray, shift: float = 0.0, relax: float = 0.0, plain: bool = False) -> Banded | Frontal:
        """The matrix at z as `Chain.matrix` gives it, factorized."""
        fronts = None if plain or self.refusals >= REFUSALS else self.fronts
        return Banded(self, z, shift, relax, plain) if fronts is None else Frontal(self, fronts, z, shift, relax)

    def negative(self, z: np.ndarray) -> int | None:
        """How many eigenvalues of the matrix at z are negative; None where fronts cannot tell.

        The pivots are those of K + E with E from rounding. Where |K⁻¹E| < 1 no K + tE, 0 ≤ t ≤ 1, is singular, and K has as
        many; K⁻¹E is what the first correction of a solution measures, here of random ones.
        """
        factors = self.factor(z)
        if not isinstance(factors, Frontal):
            return None
        random = np.random.default_rng(0)
        for _ in range(PROBES):
            path = random.standard_normal(z.shape) * self.chain.units * self.chain.free
            if not factors.change(factors.product(path)) <= SOUND:
                return None
        return factors.negative()

    def condition(self, matrix: np.ndarray) -> float:
        """Estimate of the 1-norm condition of the equilibrated matrix, which is overwritten."""
        norm = self.banded.norm(matrix)
        return float(self.banded.condition(self.banded.factor(matrix), norm)[0])


def _pivots_of(chain: Chain, z: np.ndarray) -> Pivots | None:
    """The pivots of the chain's blocks, chosen near z when a chain of its kind is met first."""
    if chain.blocks < SHORTEST or not isinstance(chain.sums, Machine):
        return None
    walk = Walk()
    key = walk.of(chain.sums.key)
    known = _PIVOTS.get(key) if walk.lasting else None
    return (known or _PIVOTS.put(key, (_pivots(chain, z),)))[0]


_PIVOTS: Remembered[tuple[Pivots | None]] = Remembered(256)


def _nudge(chain: Chain, sizes: np.ndarray) -> np.ndarray:
    """What is added to the diagonal of blocks where a component is fixed, and at the ends, (blocks, b).

    There a multiplier may be eliminated before the unknowns of its constraint, so that its pivot vanishes. With a little of
    the right sign it does not (R. J. Vanderbei, Symmetric quasidefinite matrices, 1995); the corrections remove the effect.
    """
    special = chain.fixed.any(axis=1)
    special[: chain.near] = special[-chain.near :] = True
    sign = np.where(chain.primal, 1.0, -1.0)
    return np.where(chain.fixed | ~special[:, None], 0.0, NUDGE * sign * sizes * chain.weights)


def _pivots(chain: Chain, z: np.ndarray) -> Pivots | None:
    """From the matrices of some blocks that are far from what is fixed; None where there are none, or too few unknowns.

    Directions of constraints turn along a path: what is a pivot at one point only is told by points at random.
    """
    held = np.flatnonzero(np.r_[True, chain.fixed.any(axis=1), True])
    near = chain.near
    inside = [i for a, e in itertools.pairwise(held.tolist()) for i in range(a + near, e - 1 - near)]
    if not inside:
        return None
    chosen = [inside[round(f * (len(inside) - 1))] for f in np.linspace(0.0, 1.0, SAMPLES)]
    random = np.random.default_rng(0)
    samples, couplings = [], []
    for spread in (0.0, 1.0):
        band = chain.matrix(z + spread * random.standard_normal(z.shape) * chain.units)[0] / chain.curvature
        for i in chosen:
            own, later = _block(chain, band, i, near)
            samples.append(own)
            couplings.append(later)
    if not np.all(np.isfinite(samples)):
        return None
    return choose_pivots(np.array(samples), np.array(couplings))


def _block(chain: Chain, band: np.ndarray, i: int, near: int) -> tuple[np.ndarray, np.ndarray]:
    """Of block i: its own matrix (b, b), and that to the blocks that follow (b, near·b), in the order of the components."""
    b, rows = chain.size, np.zeros((chain.size, (near + 1) * chain.size))
    for r in range(b):
        columns = np.arange(rows.shape[1])
        place = chain.lower + columns - r
        kept = (place >= 0) & (place <= 2 * chain.lower)
        rows[r, columns[kept]] = band[i * b + r, place[kept]]
    order = chain.position
    rows = rows[order].reshape(b, near + 1, b)[:, :, order]
    return rows[:, 0], rows[:, 1:].reshape(b, -1)
