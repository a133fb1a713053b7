"""The state of Newton's iteration, and how it ends."""

from __future__ import annotations

import dataclasses
import enum

import numpy as np

from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.system import Evaluation, KKTSystem


class Termination(enum.IntEnum):
    """How the iteration ended."""

    CONVERGED = 0
    SINGULAR = 1
    NOT_CONVERGED = 2
    NOT_FINITE = 3
    INFEASIBLE = 4
    ALTERNATING = 5
    INTERRUPTED = 6
    UNBOUNDED = 7


@dataclasses.dataclass(frozen=True)
class Settings:
    """tolerance: on Newton's update and on the constraints, relative to the path. minimum: seek one, or any extremal.
    method: "dalembert", or "ipopt"."""

    tolerance: float = 1e-9
    max_iterations: int = 200
    minimum: bool = True
    method: str = "dalembert"


@dataclasses.dataclass
class Iterate:
    """The state of the iteration. z: the path, at: its evaluation. sizes: (n,), s, typical of its coordinates; update: the
    last change of the path, relative to its reach; linear: what solves for it, with the history of this iteration."""

    kkt: KKTSystem
    linear: LinearSolver
    z: np.ndarray
    at: Evaluation
    sizes: np.ndarray
    penalty: float
    shift: float = 0.0
    iterations: int = 0
    restorations: int = 0
    factorizations: int = 0
    update: float = np.inf
    end: Termination = Termination.NOT_CONVERGED
    method: str = "dalembert"
    _reach: np.ndarray | None = None  # computed where it is asked for

    def move(self, z: np.ndarray, at: Evaluation) -> None:
        self.z, self.at, self._reach = z, at, None

    @property
    def reach(self) -> np.ndarray:
        """s + max|q| of the present path, (n,)."""
        if self._reach is None:
            self._reach = self.sizes + self.kkt.max_norms(self.z)
        return self._reach

    def change(self, step: np.ndarray) -> float:
        """The largest change of a position, relative to what it reaches."""
        return float(np.max(self.kkt.max_norms(step) / self.reach))

    @property
    def violation(self) -> float:
        """That of the constraints, relative to what they are where positions are as large as those of the path."""
        return self.at.violation / float(np.max(self.reach / self.kkt.positions)) if self.at.violation else 0.0
