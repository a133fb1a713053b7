"""Memory layout of the numbers of a run: the arrays that compiled code reads and writes."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from dalembert.native.llvm.packing import Packing

HISTORY = 4  # solved stages kept for the prediction of the next
LONG_HISTORY = 8  # where all steps are equal
STAGE_HISTORY = 12  # differences of a stage, where these are kept
CUBIC = 4.0, -6.0, 4.0, -1.0  # weights of the last solutions, newest first
_DIFFERENCES = np.array([[(-1) ** i * math.comb(j, i) for i in range(LONG_HISTORY)] for j in range(LONG_HISTORY)], float)
# Of all solutions kept, newest first: the prediction of degree 7 less that of degree 3; the seventh difference, and the
# fourth of this step and of the one before. A component is smooth where the seventh is at most SMOOTH of the larger fourth.
REFINEMENT = np.stack([_DIFFERENCES[4:].sum(axis=0), _DIFFERENCES[7], _DIFFERENCES[4], _DIFFERENCES[4] - _DIFFERENCES[5]])
# Both of a change and its differences: of degree 3; those of order 4 and more, the highest, the fourth now and before.
_UNITS = np.eye(STAGE_HISTORY)
OF_STAGE = (1.0,) * HISTORY, np.stack([_UNITS[HISTORY:].sum(axis=0), _UNITS[-1], _UNITS[4], _UNITS[4] - _UNITS[5]])
SMOOTH = 0.2
# A determinant with a double zero that is stepped over changes ninefold at least in that step or in one beside it.
LEAP = 3.0
# What a run counts, in stages where a step has several; then what it is told: the node to stop at now, the last one, how
# often to save and to sample a law.
COUNTS = ("k", "known", "code", "iterations", "max_iterations", "crossings", "turns", "leaps", "rows", "slow", "saved",
          "target", "until", "last", "every", "limit", "law_every", "first")  # fmt: skip
COUNTED = Packing.words(*COUNTS)
NOTHING = dict.fromkeys(COUNTS, 0)
# Kept from the beginning of a step with stages.
SINCE = ("q", "q_compensation", "s", "s_compensation", "before_q", "before_s")
SETTINGS = ("t0", "h", "tolerance")


@dataclasses.dataclass(frozen=True)
class Layout:
    """Lengths: n of q, d of velocities and forces, k of s, z of the unknowns, m of the multipliers, r of the reduced value,
    p, captured of inputs, clock of what tells the time of a row, held of the zero-order-hold force in it.

    `carry`, the state of a run: q and s with their rounding compensations (q_compensation is to be subtracted from the next
    increment, s_compensation to be added), history (4 or 8, z), where by_stage followed by (12, z) for each stage, how
    much its solution differed from that before it, and the differences of this from step to step, held_force, the
    zero-order-hold force of the last step that was made, sampled, that of the step under way, sign (of stages forwards and
    of those backwards), residual,
    failed_residual, reduced, q and s one step before, and determinant, its size in the last step (0: not known). With
    stages, `begin`: SINCE and w, as they were when the step began, to go back to where one of its stages fails.
    `scratch`: room to work in, without meaning between calls. `inputs`: t0, h, tolerance, p, captured. A row of output: q,
    velocity, multipliers, force, held_force, clock, node index.
    """

    n: int
    d: int
    k: int
    z: int
    m: int
    r: int
    p: int
    captured: int
    stages: int = 1
    by_stage: bool = False
    held: int = 0
    sides: int = 1
    clock: int = 0

    @property
    def history(self) -> int:
        """Rows of the history."""
        return history_length(self.stages, self.by_stage)

    @functools.cached_property
    def packed_carry(self) -> Packing:
        """The carry by name."""
        shapes: dict[str, int | tuple[int, ...]] = {
            "q": self.n, "q_compensation": self.n, "s": self.k, "history": (self.history, self.z),
            "held_force": self.d, "sampled": self.d, "sign": self.sides, "residual": (), "failed_residual": (),
            "reduced": self.r, "before_q": self.n, "before_s": self.k, "s_compensation": self.k, "determinant": (),
        }  # fmt: skip
        if self.stages > 1:
            shapes |= {f"begin_{name}": shapes[name] for name in SINCE} | {"begin_w": self.z}
        return Packing.of(shapes)

    @functools.cached_property
    def packed_row(self) -> Packing:
        """A row by name."""
        return Packing.of(
            {
                "q": self.n,
                "v": self.d,
                "multipliers": self.m,
                "force": self.d,
                "held_force": self.held,
                "clock": self.clock,
                "k": (),
            }
        )

    @functools.cached_property
    def packed_inputs(self) -> Packing:
        """The inputs by name."""
        return Packing.of({**dict.fromkeys(SETTINGS, ()), "p": self.p, "captured": self.captured})

    @functools.cached_property
    def packed_scratch(self) -> Packing:
        """Room to work in by name."""
        return Packing.of({"partial": self.z, "matrix": self.z**2, "right": self.z, "report": 3})


def history_length(stages: int, by_stage: bool = False) -> int:
    """Number of solutions that are kept, and with them the differences of every stage."""
    return LONG_HISTORY if stages == 1 else HISTORY + (stages * STAGE_HISTORY if by_stage else 0)


def counts(**given: int) -> np.ndarray:
    """The array of COUNTS; what is not given is 0. TypeError for a name that is none of them."""
    return COUNTED.pack(**{**NOTHING, **given})
