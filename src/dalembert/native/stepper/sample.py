"""Numbers that a step may meet: pivots are chosen from them, and checked where the step meets others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dalembert.native.graph.evaluate import evaluate
from dalembert.native.graph.graph import Graph


@dataclasses.dataclass
class Sample:
    """A state at which the pivots are chosen: q, s, t, h, and p (the program's arrays, flat)."""

    q: np.ndarray
    s: np.ndarray
    t: float
    h: float
    p: np.ndarray

    def near(
        self, graph: Graph, guess: np.ndarray, captured: Sequence[float] | np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Nodes (…) ↦ their values (s, …) at a few points near the guess of the unknowns, z and w alike."""
        still = np.zeros(len(self.q))
        inputs = {
            "q": self.q, "s": self.s, "t": np.array([self.t]), "h": np.array([self.h]), "p": self.p, "held_force": still,
        }  # fmt: skip

        def numbers(nodes: np.ndarray) -> np.ndarray:
            known, entries = {**inputs, "captured": np.array(captured)}, [int(i) for i in nodes.ravel()]
            points = _around(evaluate(graph, guess.tolist(), known).astype(float))
            values = [evaluate(graph, entries, {**known, "z": z, "w": z}).astype(float) for z in points]
            return np.stack(values).reshape(-1, *nodes.shape)

        return numbers


def _around(z: np.ndarray) -> Sequence[np.ndarray]:
    """Points near z, the same at every call, so that the same program gives the same code."""
    noise: Any = np.random.default_rng(0)
    size = 1e-2 * (np.max(np.abs(z), initial=0.0) or 1.0)
    return [z + size * noise.standard_normal(z.shape) for _ in range(2)]
