"""Which pivots a KKT system is eliminated by: chosen once for all systems of its kind and sizes, or for each on its own."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import math
from collections.abc import Iterator

import numpy as np

from dalembert.algebra.pivots import Pivots, choose_pivots
from dalembert.boundary.kkt.assembly import CompiledAssembly
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.tracing import Remembered, Walk

SAMPLES = 6  # blocks from which pivots are chosen


def pivots_of(kkt: KKTSystem, z: np.ndarray) -> Pivots | None:
    """The pivots of the system's blocks, chosen near z when one of its kind and of its sizes is met first: entries of
    multipliers fall as 1/N², and pivots of another N would make what a path comes to depend on what was solved before."""
    if not isinstance(kkt.assembly, CompiledAssembly):
        return None
    if _OWN.get():
        return _pivots(kkt, z)
    walk = Walk()
    sizes = kkt.blocks, np.frexp(kkt.units[kkt.blocks // 2])[1].tobytes(), math.frexp(kkt.curvature)[1]
    key = walk.of(kkt.assembly.key), sizes
    known = _PIVOTS.get(key) if walk.lasting else None
    return (known or _PIVOTS.put(key, (_pivots(kkt, z),)))[0]


_PIVOTS: Remembered[tuple[Pivots | None]] = Remembered(256)
_OWN = contextvars.ContextVar("own", default=False)


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
    """From the matrices of some blocks that are far from what is fixed; None where there are none, or too few unknowns.

    Directions of constraints turn along a path: what is a pivot at one point only is told by points at random.
    """
    special = np.flatnonzero(np.r_[True, kkt.fixed.any(axis=1), True])
    near = kkt.near
    inside = [i for a, e in itertools.pairwise(special.tolist()) for i in range(a + near, e - 1 - near)]
    if not inside:
        return None
    chosen = [inside[round(f * (len(inside) - 1))] for f in np.linspace(0.0, 1.0, SAMPLES)]
    random = np.random.default_rng(0)
    samples, couplings = [], []
    for spread in (0.0, 1.0):
        band = kkt.matrix(z + spread * random.standard_normal(z.shape) * kkt.units) / kkt.curvature
        for i in chosen:
            own, later = _block(kkt, band, i, near)
            samples.append(own)
            couplings.append(later)
    if not np.all(np.isfinite(samples)):
        return None
    return choose_pivots(np.array(samples), np.array(couplings))


def _block(kkt: KKTSystem, band: np.ndarray, i: int, near: int) -> tuple[np.ndarray, np.ndarray]:
    """Of block i: its own matrix (b, b), and that to the blocks that follow (b, near·b), in the order of the components."""
    b, rows = kkt.size, np.zeros((kkt.size, (near + 1) * kkt.size))
    for r in range(b):
        columns = np.arange(rows.shape[1])
        place = kkt.lower + columns - r
        kept = (place >= 0) & (place <= 2 * kkt.lower)
        rows[r, columns[kept]] = band[i * b + r, place[kept]]
    order = kkt.position
    rows = rows[order].reshape(b, near + 1, b)[:, :, order]
    return rows[:, 0], rows[:, 1:].reshape(b, -1)
