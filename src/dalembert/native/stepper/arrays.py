"""Where the numbers of a run stand in memory: the arrays that compiled code reads and writes."""

from __future__ import annotations

import dataclasses

import numpy as np

HISTORY = 4  # solved steps kept for the cubic prediction
# A determinant with a double zero that is stepped over changes ninefold at least in that step or in one beside it.
LEAP = 3.0
# What a run counts, in stages where a step has several; then what it is told: the node to stop at now, the last one, how
# often to save and to sample a law.
COUNTS = ("k", "known", "code", "iterations", "max_iterations", "crossings", "turns", "leaps", "rows", "slow", "saved",
          "target", "until", "last", "every", "limit", "law_every", "first")  # fmt: skip
SINCE = ("q", "lost", "s", "low", "before_q", "before_s", "held")  # kept from the beginning of a step with stages
SETTINGS = ("t0", "h", "tolerance")


@dataclasses.dataclass(frozen=True)
class Layout:
    """Lengths: n of q, k of s, z of the unknowns, m of the multipliers, r of the reduced value, p, captured of inputs.

    `carry`: q, lost, s, history (4, z), held, sign (of stages forwards and of those backwards), residual, failed_residual,
    reduced, the state one step before, low, what s has lost to rounding, and determinant, its size in
    the last step (0: not known). With stages, `begin`: q, lost, s, low, the
    state one stage before, held and z, as they were when the step began, to go back to where one of its stages fails.
    `scratch`: room to work in, without meaning between calls. `inputs`: t0, h, tolerance, p, captured. A row of output: q,
    velocity, multipliers, force, held, node index.
    """

    n: int
    k: int
    z: int
    m: int
    r: int
    p: int
    captured: int
    stages: int = 1
    sides: int = 1

    @property
    def carry(self) -> dict[str, tuple[int, int]]:
        """Name → (offset, length)."""
        lengths = {
            "q": self.n, "lost": self.n, "s": self.k, "history": HISTORY * self.z, "held": self.n, "sign": self.sides,
            "residual": 1, "failed_residual": 1, "reduced": self.r, "before_q": self.n, "before_s": self.k,
            "low": self.k, "determinant": 1,
        }  # fmt: skip
        if self.stages > 1:
            lengths |= {f"begin_{name}": lengths[name] for name in SINCE} | {"begin_w": self.z}
        return _offsets(lengths)

    @property
    def scratch(self) -> dict[str, tuple[int, int]]:
        """Name → (offset, length)."""
        return _offsets({"partial": self.z, "matrix": self.z**2, "right": self.z, "report": 3})

    @property
    def row(self) -> dict[str, tuple[int, int]]:
        """Name → (offset, length)."""
        lengths = {"q": self.n, "v": self.n, "multipliers": self.m, "force": self.n, "held": self.n, "k": 1}
        return _offsets(lengths)

    @property
    def inputs(self) -> dict[str, tuple[int, int]]:
        """Name → (offset, length)."""
        return _offsets({**dict.fromkeys(SETTINGS, 1), "p": self.p, "captured": self.captured})


def counts(**given: int) -> np.ndarray:
    """The array of COUNTS; what is not given is 0."""
    return np.array([given.pop(name, 0) for name in COUNTS], np.int64)


def _offsets(lengths: dict[str, int]) -> dict[str, tuple[int, int]]:
    found, at = {}, 0
    for name, length in lengths.items():
        found[name] = (at, length)
        at += length
    return found


def total(table: dict[str, tuple[int, int]]) -> int:
    """Length of the whole array."""
    return sum(length for _, length in table.values())
