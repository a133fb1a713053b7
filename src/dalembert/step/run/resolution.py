"""Whether the steps resolve the motion: turns of its velocity, crossings of its roots, leaps of its determinant, and of
steps that vary in length whether their density is that of the motion."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.lazy import as_left
from dalembert.messages import warn
from dalembert.outcome import Outcome
from dalembert.path import Path

TURNS = 0.4  # part of the steps: an oscillation turns, or crosses, twice, so that it has fewer than five steps
FEWEST = 10  # steps from which on the part says something
TURNING = 3  # turns from which on it does where steps vary in length, which may be few
FEW = "an oscillation has fewer than five steps."
UNRESOLVED = "The path solves the discrete equations, but its steps do not resolve the motion: reduce h"
LEAPT = (
    "the determinant of a step's equations changed in size by more than a factor of three: near these steps the equations "
    f"are singular, and a step may have passed over the singular point. {UNRESOLVED}, or end the run there by domain="
)
ASTRAY = (
    "the density of the steps is a quarter and more off the one that is asked for: it changed faster than the steps. They "
    "do not resolve the motion, and its fast parts may be missed: give a shorter first step"
)
AT_REST = 1e-7  # of |q|: what moves less in a step has come to rest, and its velocity turns by rounding


def warn_of_resolution(path: Path) -> None:
    """A warning where a run, or runs of a batch, turned in more than TURNS of their steps by more than a right angle, one
    where roots of a step crossed in as many, and one where the determinant of a step leapt or the density of steps went
    astray.
    """
    if np.ndim(code := as_left(path, "code")) == 0 and int(code) == int(Outcome.INTERRUPTED):
        return  # Ctrl-C is answered at once, and arrays of many rows would be made for this
    steps, *counted = (np.asarray(x) for x in _counted(path))
    if not any(x.any() if x.ndim else x for x in counted):  # nearly always: nothing else is looked at
        return
    turns, crossings = (np.asarray(x / np.maximum(steps, 1)) for x in counted[:2])
    turned, crossed = (np.asarray((share > TURNS) & (steps >= FEWEST)) for share in (turns, crossings))
    if path.h_last is not None:
        turned = np.asarray((turns > TURNS) & (np.asarray(counted[0]) >= TURNING))
    if np.any(turned) and np.any(turned := np.asarray(turned & ~_at_rest(path))):  # hardly ever
        _warn(path, turned, turns, f"the velocity turned by more than a right angle, so that {FEW} {UNRESOLVED}")
    if np.any(crossed):
        rate = float(np.max((crossings / np.abs(np.asarray(path.h)))[crossed]))
        what = f"two roots of a step crossed, {rate:.3g} times in a unit of time, so that {FEW}"
        _warn(path, crossed, crossings, f"{what} Which root is followed is accidental. {UNRESOLVED}")
    leaps = counted[2]
    failed = np.asarray(as_left(as_left(path, "statistics"), "failed_step"))
    leapt = np.asarray((leaps > 0) & (failed < 0))  # a failure says more
    if np.any(leapt):
        varies = path.h_last is not None
        _warn(path, leapt, leaps / np.maximum(steps, 1), f"{ASTRAY}{_sharpest(path)}" if varies else LEAPT)


def is_resolved(steps: int, turns: int, crossings: int, leaps: int) -> bool:
    """Whether `warn_of_resolution` has nothing to say of a run of equal steps that reached its end."""
    return leaps == 0 and (max(turns, crossings) <= TURNS * steps or steps < FEWEST)


def _sharpest(path: Path) -> str:
    """Where neighbouring steps differ most in length, if all are there to be seen."""
    t = np.asarray(path.t)
    if t.ndim != 1 or len(t) != path.steps + 1 or len(t) < 4:
        return ""
    lengths = np.abs(np.diff(t))[:-1]  # the last one may be a part of a step
    k = 1 + int(np.argmax(np.abs(np.diff(np.log(lengths)))))
    return f". Neighbouring steps differ most after step {k}, at t = {t[k]:.6g}: {lengths[k - 1]:.3g} and {lengths[k]:.3g}"


def _counted(path: Path) -> tuple[Any, ...]:
    """Steps, turns, crossings and leaps."""
    statistics = as_left(path, "statistics")
    return as_left(path, "steps_done"), *(as_left(statistics, name) for name in ("turns", "crossings", "leaps"))


def _at_rest(path: Path) -> np.ndarray:
    q, v, h = np.asarray(path.q), np.asarray(path.v), np.asarray(path.h)
    moved = np.abs(h) * np.median(np.abs(v).max(axis=-1), axis=-1)
    return moved <= AT_REST * np.abs(q).max(axis=(-2, -1))


def _warn(path: Path, runs: np.ndarray, shares: np.ndarray, what: str) -> None:
    where = f"{np.count_nonzero(runs)} of {runs.size} runs, " if runs.ndim else ""
    share = 100 * np.max(shares[runs])
    percent = f"{share:.0f}" if share >= 1.0 else f"{share:.1g}"
    found = f"h: found {float(np.ravel(np.asarray(path.h))[0]):g}; {where}in {percent} % of the steps "
    warn(found + what)
