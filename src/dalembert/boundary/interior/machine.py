"""Interior steps by machine code: the addresses and numbers of a KKT system inside its bounds, and what comes back."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dalembert.boundary.interior import rules
from dalembert.boundary.interior.path import Barrier, InteriorPath, Snapshot
from dalembert.boundary.kkt.linear import REFUSALS, LinearSolver
from dalembert.boundary.kkt.system import Evaluation, KKTSystem
from dalembert.boundary.newton import Settings, Termination
from dalembert.interrupts import is_timed, wanted
from dalembert.native import CACHE, run_watched
from dalembert.native.assembly.interior_code import CONVERGED, LIMIT, REFUSED, SCALARS, TERM, WORDS, interior_text
from dalembert.tracing import Pool

WORK = 10**8  # blocks times the third power of their size, in a call of machine code: about a tenth of a second
MOST, STOP = WORDS.offset("most"), WORDS.offset("stop")
SHORT = 3  # iterations in a call: where there are no more of them, one alone may take a second
ROOM = 1000  # points of the filter
KEPT = ("fixed_places", "monitored", "spans", "positions", "shifted", "per_action", "flat_units", "unit", "free")
ENDS = {CONVERGED: Termination.CONVERGED, LIMIT: Termination.NOT_CONVERGED}


class InteriorMachine:
    """Interior steps on one KKT system; `run` may be called by several threads."""

    def __init__(self, kkt: KKTSystem, linear: LinearSolver, settings: Settings, bounds: Barrier):
        assembly, frontal = kkt.assembly, linear.frontal
        assert frontal is not None
        self._kkt, self._settings, self._frontal = kkt, settings, frontal
        sums: Any = assembly
        self._run, self._terms, coordinates = _compile()[0], np.concatenate(_pack(sums)), len(kkt.positions)
        self._room = min(ROOM, settings.max_iterations + 1)
        self._chunk = max(1, WORK // (kkt.blocks * kkt.size**3))
        self._numbers = self._constants(bounds)
        arrays = self._arrays = self._constant_arrays(linear, bounds)
        made = frontal.factorization
        n, count = kkt.blocks * kkt.size, len(bounds.places)
        self._words = {name: a.ctypes.data for name, a in arrays.items()} | made.addresses
        self._words |= {
            "fixed_count": len(kkt.fixed_places), "monitored_count": len(kkt.spans), "bound_count": count,
            "blocks": kkt.blocks, "size": kkt.size, "most": settings.max_iterations, "stop": 0,
            "terms": len(sums.terms), "coordinates": coordinates, "data": frontal.data.ctypes.data,
            "room": self._room, "constraints": int(np.sum(~kkt.fixed & ~kkt.primal)),
            "negative": made.loaded.address("negative"),
        }  # fmt: skip
        groups = (
            (n, ("z", "new_z", "right", "other", "constraints_sum", "added", "diagonal", "pivots", "x", "y", "w")),
            (n + 1, ("g", "new_g")), (count, ("multipliers", "slacks", "new_slacks", "dual_step")),
            (coordinates, ("sizes", "norms")), (coordinates + 1, ("reach",)), (2 * self._room, ("filter",)),
            (kkt.blocks * made.stored, ("stored",)),
        )  # fmt: skip
        sizes = {name: length for length, names in groups for name in names}
        self._sizes, self._size = sizes, sum(sizes.values())
        self._places = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        # Workspaces that no thread uses, with what the loop is told of them: new ones cost as much as an iteration.
        self._workspaces = Pool(self._new)

    def _constants(self, bounds: Barrier) -> dict[str, float]:
        kkt, tolerance = self._kkt, self._settings.tolerance
        count = int(np.sum(~kkt.fixed & ~kkt.primal)) + len(bounds.places)
        largest = np.inf if len(bounds.places) else tolerance
        return {
            "tolerance": tolerance, "least": tolerance / 10.0, "largest_update": largest,
            "count": float(max(1, count)), "curvature": kkt.curvature, "corrections": float(rules.CORRECTIONS),
        }  # fmt: skip

    def _constant_arrays(self, linear: LinearSolver, bounds: Barrier) -> dict[str, np.ndarray]:
        kkt, units = self._kkt, bounds.units
        unknowns = np.ravel(~kkt.fixed & kkt.primal).astype(float)
        violations = np.zeros(kkt.blocks * kkt.size)
        violations[kkt.nonlinear] = kkt.residuals
        found = {name: np.ascontiguousarray(getattr(kkt, name)) for name in KEPT} | {
            "fixed_blocks": self._frontal.fixed_blocks, "nudge": linear.nudge, "unknowns": unknowns,
            "dual": unknowns * kkt.flat_units / kkt.curvature, "held": kkt.held / kkt.flat_units, "rows": kkt.held,
            "primal": np.tile(kkt.primal.astype(float), kkt.blocks), "violations": violations, "places": bounds.places,
            "limits": bounds.limits, "scales": bounds.signs / units, "reaches": bounds.signs * units,
            "presses": bounds.signs * unknowns[bounds.places], "pushes": bounds.signs * kkt.curvature / units,
            "stiffness": kkt.curvature / units**2,
        }  # fmt: skip
        return {name: np.ascontiguousarray(a) for name, a in found.items()}

    def run(self, path: InteriorPath) -> bool:
        """Steps as long as the loop knows what to do; whether that was the end. The path is then as far as it came."""
        while True:
            it, chunk = path.newton, 1 if is_timed() else self._chunk
            most = min(path.limit, it.iterations + chunk)
            status = self._steps_to(path, most)
            if status != LIMIT or most == path.limit:
                it.end = ENDS.get(status, it.end)
                return status in ENDS
            if wanted():
                return False

    def _steps_to(self, path: InteriorPath, most: int) -> int:
        """No more iterations than `most`: LIMIT where there are so many."""
        it = path.newton
        if it.linear.refusals >= REFUSALS or len(path.filter.corners) >= self._room:
            return REFUSED
        workspace, job = self._workspaces.take()
        self._fill(workspace, path)
        here = path.here
        numbers = self._numbers | {
            "small": path.filter.small, "largest": path.filter.largest, "barrier": path.barrier,
            "last_shift": path.last_shift, "shift": it.shift, "update": it.update, "whole": float(path.whole),
            "jammed": path.jammed, "raises": path.raises, "shortened": path.shortened,
            "iterations": it.iterations, "factorizations": it.factorizations,
            "trusted": float(it.linear.trusted), "sound": float(it.linear.sound), "nudged": float(it.linear.nudged),
            "corners": len(path.filter.corners), "objective": it.at.objective, "violation": it.at.violation,
            "norm": it.at.norm, "theta": here.violation, "logarithms": here.logarithms,
        } | NEW  # fmt: skip
        job[MOST], job[STOP] = most, 0
        status, found = self._call(job, numbers)
        self._take_over(path, workspace, found)
        self._workspaces.give((workspace, job))
        return status

    def _call(self, job: np.ndarray, numbers: dict[str, float]) -> tuple[int, dict[str, float]]:
        """One call; a long one can be left between two factorizations."""
        if self._chunk > SHORT:
            return self._call_once(job, numbers)
        found: list[tuple[int, dict[str, float]]] = []

        def look() -> None:
            if wanted():
                raise KeyboardInterrupt

        run_watched(lambda: found.append(self._call_once(job, numbers)), job[STOP:], look)
        return found[0]

    def _call_once(self, job: np.ndarray, numbers: dict[str, float]) -> tuple[int, dict[str, float]]:
        """REFUSED, CONVERGED or LIMIT, and the numbers at the end. The path and all that belongs to it are those of the last
        accepted step."""
        values = SCALARS.pack(**numbers)
        status = self._run(job.ctypes.data, values.ctypes.data)
        return int(status), dict(zip(SCALARS.fields, values.tolist(), strict=True))

    def _fill(self, workspace: np.ndarray, path: InteriorPath) -> None:
        it, corners = path.newton, path.filter.corners
        given = {"z": it.z, "g": it.at.gradient, "sizes": it.sizes, "multipliers": path.multipliers, "slacks": path.slacks}
        for name, values in given.items():
            self._part(workspace, name)[: values.size] = values.ravel()
        if corners:
            self._part(workspace, "filter")[: 2 * len(corners)] = np.ravel(corners)

    def _take_over(self, path: InteriorPath, workspace: np.ndarray, found: dict[str, float]) -> None:
        """Takes over what the loop has come to: the path, its multipliers, the filter, the counts."""
        it, n = path.newton, path.newton.z.size
        corners = self._part(workspace, "filter")[: 2 * int(found["corners"])]
        path.filter.corners = list(zip(corners[::2].tolist(), corners[1::2].tolist(), strict=True))
        path.barrier, path.last_shift, path.shortened = found["barrier"], found["last_shift"], int(found["shortened"])
        it.linear.nudged = found["nudged"] > 0.0
        if int(found["iterations"]) == it.iterations:
            return
        path.jammed, path.raises, path.whole = int(found["jammed"]), int(found["raises"]), found["whole"] > 0.0
        it.linear.refusals = 0
        it.shift, it.update = found["shift"], found["update"]
        it.iterations, it.factorizations = int(found["iterations"]), int(found["factorizations"])
        it.linear.trusted, it.linear.sound = found["trusted"] > 0.0, found["sound"] > 0.0
        z, gradient = (self._part(workspace, x)[:n].reshape(it.z.shape).copy() for x in ("z", "g"))
        path.multipliers, slacks = (self._part(workspace, x).copy() for x in ("multipliers", "slacks"))
        at = Evaluation(found["objective"], found["violation"], gradient, found["norm"])
        path.move(Snapshot(z, at, slacks, found["theta"], found["logarithms"]))

    def _new(self) -> tuple[np.ndarray, np.ndarray]:
        workspace = np.empty(self._size)
        begin = workspace.ctypes.data
        words = self._words | {name: begin + 8 * at for name, at in self._places.items()}
        return workspace, np.concatenate([WORDS.pack(**words), self._terms])

    def _part(self, workspace: np.ndarray, name: str) -> np.ndarray:
        start = self._places[name]
        return workspace[start : start + self._sizes[name]]


NEW = dict.fromkeys(
    ("new_objective", "new_violation", "new_norm", "new_theta", "new_logarithms", "new_finite", "allowed"), 0.0
)


def _pack(sums: Any) -> list[np.ndarray]:
    """Addresses of the gradients of the terms and of their second derivatives times a vector, with their data."""
    names = [f"{part}{data}" for part in ("gradient", "product") for data in ("", "_rows", "_shared")]
    return [
        TERM.pack(number=t.number, offset=8 * t.start * sums.size,
                  **dict(zip(names, (*f.addresses, *p.addresses), strict=True)))
        for t, f, p in zip(sums.terms, sums.first, sums.products, strict=True)
    ]  # fmt: skip


@functools.cache
def _compile() -> tuple[Callable, object]:
    """The loop, which all problems share, and its code."""
    loaded = CACHE.load(CACHE.result(interior_text, rules), plain=False)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(loaded.address("interior")), loaded
