"""Banded linear systems for the KKT equations: machine code where it can be had, LAPACK elsewhere."""

from __future__ import annotations

import numpy as np

from dalembert import algebra, native


class Linear:
    """factor and solve matrices of one band width (batch, rows, 3·lower + 1)."""

    def __init__(self, lower: int):
        try:
            self.banded = native.banded(lower, lower)
        except native.Unsupported:
            self.banded = algebra.banded(lower, lower)

    def factor(self, matrix: np.ndarray):
        """LU with partial pivoting of the equilibrated rows; the matrix is overwritten."""
        return self.banded.factor(matrix)

    def solve(self, factors, right: np.ndarray) -> np.ndarray:
        """The solutions, in place of the right-hand sides (batch, rows)."""
        return self.banded.solve(factors, right)
