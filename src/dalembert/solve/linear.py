"""Banded linear systems for the KKT equations: machine code where it can be had, LAPACK elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.algebra import banded as lapack
from dalembert.native import Unsupported
from dalembert.native import banded as machine


class Linear:
    """factor and solve matrices of one band width (batch, rows, 3·lower + 1)."""

    def __init__(self, lower: int):
        self.banded: Any
        try:
            self.banded = machine.banded(lower, lower)
        except Unsupported:
            self.banded = lapack.banded(lower, lower)

    def factor(self, matrix: np.ndarray):
        """LU with partial pivoting of the equilibrated rows; the matrix is overwritten."""
        return self.banded.factor(matrix)

    def solve(self, factors, right: np.ndarray) -> np.ndarray:
        """The solutions, in place of the right-hand sides (batch, rows)."""
        return self.banded.solve(factors, right)

    def condition(self, matrix: np.ndarray) -> float:
        """Estimate of the 1-norm condition of the equilibrated matrix, which is overwritten."""
        norm = self.banded.norm(matrix)
        return float(self.banded.condition(self.banded.factor(matrix), norm)[0])
