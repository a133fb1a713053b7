"""Newton's whole steps by machine code: the addresses and numbers of a KKT system, and what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.boundary.kkt.system import Evaluation, KKTSystem
from dalembert.boundary.newton.iterate import Iterate, Settings
from dalembert.boundary.newton.merit import RULES
from dalembert.interrupts import wanted
from dalembert.native import CONVERGED, BoundFactorization, WholeSteps
from dalembert.native.assembly.newton_code import WORDS

WORK = 10**8  # blocks times the third power of their size, in a call of machine code: about a tenth of a second
MOST = WORDS.offset("most")
KEPT = ("fixed_places", "monitored", "spans", "nonlinear", "sign", "metric", "units", "residuals", "positions")


class Descent:
    """Whole steps on one KKT system; `run` may be called by several threads."""

    def __init__(self, kkt: KKTSystem, frontal: BoundFactorization, settings: Settings):
        assembly: Any = kkt.assembly
        self._frontal, self._kkt, self._settings = frontal, kkt, settings
        self._steps = WholeSteps(assembly.elements(), frontal.data, len(kkt.positions), RULES)
        self._kept = {name: np.ascontiguousarray(getattr(kkt, name)) for name in KEPT}
        arrays = self._kept | {"free": kkt.free, "fixed_blocks": frontal.fixed_blocks, "diagonal": kkt.unit}
        self._chunk = max(1, WORK // (kkt.blocks * kkt.size**3))
        tail, n = frontal.factorization.reach * kkt.size, kkt.blocks * kkt.size
        self._words = {name: a.ctypes.data for name, a in arrays.items()} | frontal.factorization.addresses
        self._words |= {
            "fixed_count": len(kkt.fixed_places), "nonlinear_count": len(kkt.nonlinear), "monitored_count": len(kkt.spans),
            "blocks": kkt.blocks, "size": kkt.size, "tail": tail, "most": settings.max_iterations,
        }  # fmt: skip
        sizes = {
            "z": n, "g": n + 1, "new_z": n, "new_g": n + 1, "x": n + tail, "y": n + tail,
            "sizes": len(kkt.positions), "stored": kkt.blocks * frontal.factorization.stored,
        }  # fmt: skip
        self._size = sum(sizes.values())
        self._places = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        # Workspaces that no thread uses, with what the loop is told of them: new ones cost as much as an iteration.
        self._workspaces: list[tuple[np.ndarray, np.ndarray]] = []

    def run(self, it: Iterate) -> bool:
        """Whole steps, as long as they are accepted and nobody wants an end; whether that was all."""
        trusted = float(it.linear.trusted)
        while not wanted():
            before, most = it.iterations, min(self._settings.max_iterations, it.iterations + self._chunk)
            done, trusted = self._steps_to(it, most, trusted)
            if done:
                return True
            if it.iterations < most or most == self._settings.max_iterations or it.iterations == before:
                return False
        return False

    def _steps_to(self, it: Iterate, most: int, trusted: float) -> tuple[bool, float]:
        """No more iterations than `most`: whether that was all, and whether solutions need no more correction."""
        try:
            workspace, job = self._workspaces.pop()
        except IndexError:
            workspace, job = self._new()
        z, gradient, sizes = (self._part(workspace, name) for name in ("z", "g", "sizes"))
        z[:], gradient[:], sizes[:] = it.z.ravel(), it.at.gradient.ravel(), it.sizes
        numbers = {
            "tolerance": self._settings.tolerance, "before": it.update, "update": it.update, "penalty": it.penalty,
            "objective": it.at.objective, "violation": it.at.violation, "norm": it.at.norm,
            "iterations": it.iterations, "trusted": trusted,
        }  # fmt: skip
        job[MOST] = most
        status, found = self._steps(job, numbers)
        at = Evaluation(found["objective"], found["violation"], gradient.reshape(it.z.shape).copy(), found["norm"])
        it.move(z.reshape(it.z.shape).copy(), at)
        it.update, it.penalty = found["update"], found["penalty"]
        it.factorizations += int(found["iterations"]) - it.iterations
        it.iterations = int(found["iterations"])
        self._workspaces.append((workspace, job))
        return status == CONVERGED, found["trusted"]

    def _new(self) -> tuple[np.ndarray, np.ndarray]:
        workspace = np.empty(self._size)
        begin = workspace.ctypes.data
        return workspace, self._steps.job(self._words | {name: begin + 8 * at for name, at in self._places.items()})

    def _part(self, workspace: np.ndarray, name: str) -> np.ndarray:
        start = self._places[name]
        length = len(self._kkt.positions) if name == "sizes" else self._kkt.blocks * self._kkt.size
        return workspace[start : start + length]
