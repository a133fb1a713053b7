"""Chain: a sum of functions of neighbouring blocks under constraints, its KKT equations and their banded matrix.

    min Σ_w f(z_w)  such that  c(z_w) = 0,   z_w: the components of a few neighbouring blocks,   L̃ = Σ f + νᵀc

Unknowns and multipliers of a time node form one block (b,); the path is an array (blocks, b). Derivatives of one
window are vmapped, and only the entries that can differ from zero are kept. Knows no mechanics.
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np

from dalembert.native import Unsupported
from dalembert.solve.sums import Machine, Portable, narrow_order


class Evaluation(NamedTuple):
    """Σf, Σ|c| without the linear constraints, and the gradient of L̃ (blocks, b), zero where a component is fixed, with its
    Euclidean norm."""

    objective: float
    violation: float
    gradient: np.ndarray
    norm: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.objective) and math.isfinite(self.norm)


class Chain:
    """The KKT system of a list of terms. fixed: (blocks, b), components that keep their value.

    data: for each term, a tree of arrays with leading axis count; shared: a tree all terms are given. primal: (b,), which
    components are unknowns and not multipliers; relaxed: multipliers of constraints that are not linear. path: (b,), the
    components by whose change convergence is judged. weights: (blocks, b), the metric of the unknowns. sample: (points,
    blocks, b), generic points: where second derivatives cannot be read off a program, those that vanish there are taken to
    vanish. role: which of somebody's functions some pieces of code belong to, for a warning.
    """

    def __init__(self, terms, data, shared, fixed, primal, relaxed, path, weights, sample, role=lambda codes: ""):
        self.fixed, self.primal, self.relaxed, self.weights = fixed, primal, relaxed, weights
        self.blocks, self.size = fixed.shape
        self.free = np.ascontiguousarray(~fixed, dtype=float)
        self.unit = np.ascontiguousarray(fixed, dtype=float)
        self.stopped = np.flatnonzero(fixed)
        self.path = np.flatnonzero(np.tile(path, self.blocks))
        self.metric = (primal * weights).ravel()
        self.bent = np.flatnonzero(np.tile(relaxed, self.blocks))
        self.sign = np.tile(relaxed.astype(float) - primal, self.blocks)
        try:
            self.sums: Machine | Portable = Machine(tuple(terms), data, shared, fixed)
        except Unsupported as reason:
            if reason.place is not None:
                reason.role = role(reason.place.codes)
            warnings.warn(f"{reason}; the boundary problem runs on JAX", stacklevel=2)
            self.sums = Portable(tuple(terms), data, shared, fixed, sample)
        self.position, self.lower = narrow_order(tuple(terms), self.sums.patterns, self.size)
        self.ordered = np.argsort(self.position)

    @property
    def width(self) -> int:
        return 3 * self.lower + 1

    @property
    def near(self) -> int:
        """How many blocks on either side a block may be coupled to."""
        return self.lower // self.size + 1

    def evaluate(self, z: np.ndarray) -> Evaluation:
        """Objective, violation and gradient at a path z (blocks, b)."""
        objective, gradient = self.sums.evaluate(z)
        flat = gradient.ravel()
        flat[self.stopped] = 0.0
        return Evaluation(objective, float(np.abs(flat.take(self.bent)).sum()), gradient, math.sqrt(flat @ flat))

    def extent(self, z: np.ndarray) -> float:
        """The largest |component| of the path."""
        return float(np.abs(z.ravel().take(self.path)).max(initial=0.0))

    def held(self, gradient: np.ndarray, z: np.ndarray) -> float:
        """Σ cᵀν for the multipliers in z, without those of linear constraints."""
        return float(gradient.ravel().take(self.bent) @ z.ravel().take(self.bent))

    def raw_gradient(self, z: np.ndarray) -> np.ndarray:
        """The gradient of L̃ with respect to all components, also those that are fixed."""
        return self.sums.evaluate(z)[1]

    def matrix(self, z: np.ndarray, shift: float = 0.0, relax: float = 0.0, plain: bool = False) -> np.ndarray:
        """The KKT matrix with shift·weights added to the unknowns and -relax·weights to the multipliers, (1, rows, width).

        plain: without the second derivatives of L̃, for Gauss-Newton steps. Fixed components have unit rows.
        """
        band = np.zeros((1, self.blocks * self.size, self.width))
        self.sums.add_entries(z, band, self.position, self.lower, self.primal if plain else None)
        band.reshape(self.blocks, self.size, self.width)[..., self.lower] += self.diagonal(shift, relax)[:, self.ordered]
        return band

    def residual(self, gradient: np.ndarray, matrix: np.ndarray) -> float:
        """The largest component of a gradient, divided by the largest entry of its row of the KKT matrix."""
        rows = self.from_rows(np.maximum(matrix.max(axis=2), -matrix.min(axis=2)))
        return float(np.max(np.abs(gradient) / np.where(rows > 0.0, rows, 1.0)))

    def diagonal(self, shift: float, relax: float) -> np.ndarray:
        """What `matrix` adds to the diagonal, (blocks, b)."""
        if not shift and not relax:
            return self.unit
        added = np.where(self.primal, shift, -relax * self.relaxed) * self.weights
        return np.where(self.fixed, 1.0, added)

    def to_rows(self, z: np.ndarray) -> np.ndarray:
        """(blocks, b) → (1, rows), in the order of the matrix."""
        return np.ascontiguousarray(z[:, self.ordered]).reshape(1, -1)

    def from_rows(self, x: np.ndarray) -> np.ndarray:
        """The way back."""
        return x.reshape(self.blocks, self.size)[:, self.position]
