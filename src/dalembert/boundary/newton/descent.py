"""Newton's whole steps by machine code: the addresses and numbers of a chain, and what comes back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dalembert.boundary.kkt.system import Chain, Evaluation
from dalembert.native import CONVERGED, Bound, descend


class Descent:
    """The iteration of one chain; `run` may be called by several threads."""

    def __init__(self, chain: Chain, fronts: Bound):
        sums: Any = chain.sums
        self.fronts, self.sums = fronts, sums.parts()
        self._kept = {
            name: np.ascontiguousarray(getattr(chain, name))
            for name in ("stopped", "path", "spans", "bent", "sign", "metric", "units", "residuals", "positions")
        }
        self.fixed = {
            name: a.ctypes.data
            for name, a in (self._kept | {"free": chain.free, "marks": fronts.marks, "diagonal": chain.unit}).items()
        }
        self.fixed |= {f"{name}_count": len(self._kept[name]) for name in ("stopped", "bent")}
        self.fixed["path_count"], self.coordinates = len(chain.spans), len(chain.positions)
        self.fixed |= fronts.fronts.addresses
        tail, n = fronts.fronts.reach * chain.size, chain.blocks * chain.size
        self.fixed |= {"blocks": chain.blocks, "size": chain.size, "tail": tail}
        sizes = {
            "z": n, "g": n + 1, "new_z": n, "new_g": n + 1, "x": n + tail, "y": n + tail,
            "sizes": len(chain.positions), "record": chain.blocks * fronts.fronts.record,
        }  # fmt: skip
        self._room = sum(sizes.values())
        self._places = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        self._rooms: list[np.ndarray] = []  # that no thread uses: new memory costs as much as an iteration

    def run(self, z: np.ndarray, at: Evaluation, sizes: np.ndarray, numbers: dict[str, float], most: int):
        """(path, evaluation, numbers, whether it has converged) after at most `most` steps in all; sizes: (n,), typical of
        the coordinates."""
        n, places = z.size, self._places
        try:
            room = self._rooms.pop()
        except IndexError:
            room = np.empty(self._room)
        room[:n], room[places["g"] : places["g"] + n] = z.ravel(), at.gradient.ravel()
        room[places["sizes"] : places["sizes"] + len(sizes)] = sizes
        words = self.fixed | {name: room.ctypes.data + 8 * start for name, start in places.items()} | {"most": most}
        status, found = descend(words, numbers, self.sums, self.fronts.data, self.coordinates)
        path, gradient = (room[places[name] : places[name] + n].reshape(z.shape).copy() for name in ("z", "g"))
        self._rooms.append(room)
        new = Evaluation(found["objective"], found["violation"], gradient, math.sqrt(found["norm"]))
        return path, new, found, status == CONVERGED
