"""Whether the steps resolve the motion: its times, and the turns of its velocity."""

from __future__ import annotations

import warnings

import numpy as np

from dalembert.path import Path

TURNS = 0.4  # part of the steps: an oscillation of one coordinate turns twice, so that it has fewer than five steps
FEWEST = 10  # steps from which on the part says something
AT_REST = 1e-7  # of |q|: what moves less in a step has come to rest, and its velocity turns by rounding


def warn_of_turns(path: Path) -> None:
    """One warning where a run, or runs of a batch, turned in more than TURNS of their steps by more than a right angle."""
    turns, steps = np.asarray(path.statistics.turns), np.asarray(path.steps_done)
    coarse = (turns > TURNS * steps) & (steps >= FEWEST)
    if not np.any(coarse):  # nearly always: nothing else is looked at
        return
    q, v, h = np.asarray(path.q), np.asarray(path.v), np.asarray(path.h)
    moved = h * np.median(np.abs(v).max(axis=-1), axis=-1)
    coarse &= moved > AT_REST * np.abs(q).max(axis=(-2, -1))
    if not np.any(coarse):
        return
    share = 100 * np.max(turns[coarse] / steps[coarse])
    where = f"{np.count_nonzero(coarse)} of {coarse.size} runs, " if coarse.ndim else ""
    warnings.warn(
        f"h: found {float(np.ravel(h)[0]):g}; {where}in {share:.0f} % of the steps the velocity turned by more than a right "
        "angle, so that an oscillation has fewer than five steps. The path solves the discrete equations, but its steps do "
        "not resolve the motion: reduce h",
        stacklevel=3,
    )
