"""The kind of critical point: the inertia of the KKT matrix."""

from __future__ import annotations

import numpy as np

from dalembert.algebra import inertia
from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.system import KKTSystem

FLAT = 1e-12  # |eigenvalue| of the scaled KKT matrix that counts as zero: long paths have small ones, N⁻² and less


def inertia_of(
    kkt: KKTSystem, linear: LinearSolver, z: np.ndarray, band: np.ndarray, added: np.ndarray | None = None
) -> tuple[int, int]:
    """(negative, flat) directions of dxᵀH dx on A dx = 0, z being a critical point and band
    its KKT matrix (rows, width) with unit rows for what is fixed; added: (blocks, b), what is added to its diagonal.

    In [[H, Aᵀ], [A, 0]] with independent rows of A every constraint brings one positive and one negative eigenvalue: what is
    negative beyond the number of constraints is so on the kernel of A.
    """
    constraints = int(np.sum(~kkt.fixed & ~kkt.primal))
    negative = linear.negative(z, added)
    if negative is not None:
        return negative - constraints, 0
    found = inertia(band, kkt.lower, FLAT)
    return found.negative - constraints, found.zero


def inertia_with_held(kkt: KKTSystem, z: np.ndarray, held: np.ndarray) -> tuple[int, int]:
    """The same on directions in which what is held, (blocks, b), does not vary at all."""
    found = inertia(kkt.with_held(kkt.matrix(z), held | kkt.fixed), kkt.lower, FLAT)
    return found.negative - int(np.sum(~kkt.fixed & ~kkt.primal)), found.zero
