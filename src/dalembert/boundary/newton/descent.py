"""Newton's whole steps by machine code: the addresses and numbers of a KKT system, and what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.boundary.kkt.system import Evaluation, KKTSystem
from dalembert.boundary.newton.iterate import Iterate, Settings
from dalembert.boundary.newton.merit import RULES
from dalembert.native import CONVERGED, BoundFactorization, WholeSteps

KEPT = ("fixed_places", "monitored", "spans", "nonlinear", "sign", "metric", "units", "residuals", "positions")


class Descent:
    """Whole steps on one KKT system; `run` may be called by several threads."""

    def __init__(self, kkt: KKTSystem, frontal: BoundFactorization):
        assembly: Any = kkt.assembly
        self._frontal, self._kkt = frontal, kkt
        self._steps = WholeSteps(assembly.elements(), frontal.data, len(kkt.positions), RULES)
        self._kept = {name: np.ascontiguousarray(getattr(kkt, name)) for name in KEPT}
        arrays = self._kept | {"free": kkt.free, "fixed_blocks": frontal.fixed_blocks, "diagonal": kkt.unit}
        tail, n = frontal.factorization.reach * kkt.size, kkt.blocks * kkt.size
        self._words = {name: a.ctypes.data for name, a in arrays.items()} | frontal.factorization.addresses
        self._words |= {
            "fixed_count": len(kkt.fixed_places), "nonlinear_count": len(kkt.nonlinear), "monitored_count": len(kkt.spans),
            "blocks": kkt.blocks, "size": kkt.size, "tail": tail,
        }  # fmt: skip
        sizes = {
            "z": n, "g": n + 1, "new_z": n, "new_g": n + 1, "x": n + tail, "y": n + tail,
            "sizes": len(kkt.positions), "stored": kkt.blocks * frontal.factorization.stored,
        }  # fmt: skip
        self._size = sum(sizes.values())
        self._places = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        self._workspaces: list[np.ndarray] = []  # that no thread uses: new memory costs as much as an iteration

    def run(self, it: Iterate, settings: Settings) -> bool:
        """Whole steps, as long as they are accepted; whether that was all."""
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = np.empty(self._size)
        z, gradient, sizes = (self._part(workspace, name) for name in ("z", "g", "sizes"))
        z[:], gradient[:], sizes[:] = it.z.ravel(), it.at.gradient.ravel(), it.sizes
        begin = workspace.ctypes.data
        words = self._words | {name: begin + 8 * start for name, start in self._places.items()}
        words["most"] = settings.max_iterations
        numbers = {
            "tolerance": settings.tolerance, "before": it.update, "update": it.update, "penalty": it.penalty,
            "objective": it.at.objective, "violation": it.at.violation, "norm": it.at.norm,
            "iterations": it.iterations, "trusted": float(it.linear.trusted),
        }  # fmt: skip
        status, found = self._steps(words, numbers)
        at = Evaluation(found["objective"], found["violation"], gradient.reshape(it.z.shape).copy(), found["norm"])
        it.move(z.reshape(it.z.shape).copy(), at)
        it.update, it.penalty = found["update"], found["penalty"]
        it.factorizations += int(found["iterations"]) - it.iterations
        it.iterations = int(found["iterations"])
        self._workspaces.append(workspace)
        return status == CONVERGED

    def _part(self, workspace: np.ndarray, name: str) -> np.ndarray:
        start = self._places[name]
        length = len(self._kkt.positions) if name == "sizes" else self._kkt.blocks * self._kkt.size
        return workspace[start : start + length]
