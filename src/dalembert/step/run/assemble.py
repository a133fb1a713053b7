"""From the rows of a run to a Path, every variable with its own times; and whether its steps resolve the motion."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.messages import warn
from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance, Statistics
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import last_length, time_of
from dalembert.step.run.state import Grid, Prepared, RunState, StepOptions

TURNS = 0.4  # part of the steps: an oscillation turns, or crosses, twice, so that it has fewer than five steps
FEWEST = 10  # steps from which on the part says something
TURNING = 3  # turns from which on it does where steps vary in length, which may be few
FEW = "an oscillation has fewer than five steps."
UNRESOLVED = "The path solves the discrete equations, but its steps do not resolve the motion: reduce h"
LEAPT = (
    "the determinant of a step's equations changed in size by more than a factor of three: near these steps the equations "
    f"are singular, and a step may have passed over the singular point. {UNRESOLVED}, or end the run there by Stop(domain=…)"
)
ASTRAY = (
    "the density of the steps is a quarter and more off the one that is asked for: it changed faster than the steps. They "
    "do not resolve the motion, and its fast parts may be missed: give a shorter first step"
)
AT_REST = 1e-7  # of |q|: what moves less in a step has come to rest, and its velocity turns by rounding


def path_of(
    xp, prepared: Prepared, carry: RunState, rows: dict, grid: Grid, step_options: StepOptions, *,
    provenance: Provenance | None = None,
) -> Path:  # fmt: skip
    """The path of one run, or of many with a leading axis in every array; xp: NumPy or jax.numpy."""
    program, (t0, h, _, _) = prepared.program, grid
    of_rows = fields_of_rows(program, step_options, rows, t0, h)
    known, first_v = known_nodes(prepared, grid), first_velocities(xp, prepared, grid)
    mid = program.levels[0] == "mid"
    moving = [k for k in known if k > 0]
    t_first = t0 + xp.asarray(moving if mid else [0], dtype=float) * h
    t_first = t_first - (0.5 * h if mid else 0.0)
    # From numbers the arrays are left NumPy's until somebody asks for them.
    return (Path.of if xp is np else Path)(
        t=_join_times(xp, t0 + xp.asarray(known, dtype=float) * h, of_rows.pop("t")),
        q=xp.concatenate([prepared.nodes[..., np.array(known, int), :], of_rows.pop("q")], axis=-2),
        t_velocity=_join_times(xp, t_first, of_rows.pop("t_velocity")),
        v=xp.concatenate([first_v, of_rows.pop("v")], axis=-2),
        **of_rows,
        **facts_of(xp, program, carry, grid, step_options),
        provenance=provenance,
    )


def facts_of(xp, program: StepProgram, carry: RunState, grid: Grid, step_options: StepOptions) -> dict[str, Any]:
    """The fields of a path that are no rows: how the run ended, its statistics, what it reduced."""
    t0, h, _, _ = grid
    failed = (carry.code != 0) & (carry.code != int(Outcome.STOPPED)) & (carry.code != int(Outcome.INTERRUPTED))
    make: Any = Statistics.of if xp is np else Statistics  # traced values are no arrays of NumPy
    statistics = make(
        iterations=carry.iterations,
        max_iterations=carry.max_iterations,
        residual=carry.residual,
        crossings=carry.crossings,
        turns=carry.turns,
        leaps=carry.leaps,
        failed_step=xp.where(failed, carry.k, -1),
        failed_time=xp.where(failed, time_of(program, carry.s, t0 + carry.k * h), xp.nan),
        failed_residual=carry.failed_residual,
    )
    return {
        "h": h, "steps_done": carry.k - program.starting_nodes, "code": carry.code, "statistics": statistics,
        "reduced": None if step_options.reduce is None else carry.reduced, "levels": program.levels,
        "h_last": last_length(program, carry.s),
    }  # fmt: skip


def known_nodes(prepared: Prepared, grid: Grid) -> list[int]:
    """Which nodes are saved of those that are known before the first step: there may be none after them."""
    return [k for k in range(prepared.nodes.shape[-2]) if k % grid.every == 0 or k == grid.steps]


def first_velocities(xp, prepared: Prepared, grid: Grid):
    """The velocities (…, ·, n) before the first step: at the first node, or before each later one of `known_nodes`."""
    if prepared.program.levels[0] != "mid":
        space = prepared.program.system.space
        return prepared.s[..., None, : prepared.nodes.shape[-1] if space.flat else space.n]
    moving = [k for k in known_nodes(prepared, grid) if k > 0]
    return xp.diff(prepared.nodes, axis=-2)[..., np.array(moving, int) - 1, :] / grid.h


def fields_of_rows(
    program: StepProgram, step_options: StepOptions, columns: dict[str, Any], t0: Any, h: Any, ahead: int = 0
) -> dict[str, Any]:
    """Fields of a path from the columns of its rows. columns: by name, k as numbers of steps. ahead: how many of the first
    rows are of nodes before the first step, which have no multipliers and no law; velocities between nodes are one less."""
    clock, mid, sampled = columns["clock"], program.levels[0] == "mid", step_options.feedback is not None
    t, h = (clock[..., 0], clock[..., 1]) if clock.shape[-1] else (t0 + columns["k"] * h, h)
    found = {
        "t": t, "q": columns["q"], "t_velocity": t - 0.5 * h if mid else t, "v": columns["v"],
        "t_multipliers": t + (program.multiplier_time - 1.0) * h, "multipliers": columns["multipliers"],
        "constraint_forces": columns["force"], "t_feedback": t - h if sampled else None,
        "feedback": columns["held_force"] if sampled else None,
    }  # fmt: skip
    if not ahead:
        return found
    first = dict.fromkeys(found, ahead) | {"t": 0, "q": 0} | dict.fromkeys(("t_velocity", "v"), 1 if mid else ahead - 1)
    return {
        name: x if x is None else x[..., first[name] :] if name.startswith("t") else x[..., first[name] :, :]
        for name, x in found.items()
    }


def _join_times(xp, first, rows):
    """Times before the first row, the same for all runs, and those of the rows."""
    first = first if rows.ndim == 1 else xp.broadcast_to(first, (*rows.shape[:-1], first.shape[0]))
    return xp.concatenate([first, rows], axis=-1)


def warn_of_resolution(path: Path) -> None:
    """A warning where a run, or runs of a batch, turned in more than TURNS of their steps by more than a right angle, one
    where roots of a step crossed in as many, and one where the determinant of a step leapt or the density of steps went
    astray.
    """
    if np.ndim(path.code) == 0 and int(path.code) == int(Outcome.INTERRUPTED):
        return  # Ctrl-C is answered at once, and arrays of many rows would be made for this
    of_run = path.statistics
    steps, *counted = (np.asarray(x) for x in (path.steps_done, of_run.turns, of_run.crossings, of_run.leaps))
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
    leapt = np.asarray((leaps > 0) & (np.asarray(of_run.failed_step) < 0))  # a failure says more
    if np.any(leapt):
        varies = path.h_last is not None
        _warn(path, leapt, leaps / np.maximum(steps, 1), f"{ASTRAY}{_sharpest(path)}" if varies else LEAPT)


def is_resolved(steps: int, turns: int, crossings: int, leaps: int) -> bool:
    """True if `warn_of_resolution` surely has nothing to say of a run."""
    return leaps == 0 and max(turns, crossings) <= TURNS * steps


def _sharpest(path: Path) -> str:
    """Sentence on the neighbouring steps that differ most in length; empty unless the nodes of all steps are there."""
    t = np.asarray(path.t)
    if t.ndim != 1 or len(t) != path.steps + 1 or len(t) < 4:
        return ""
    lengths = np.abs(np.diff(t))[:-1]  # the last one may be a part of a step
    k = 1 + int(np.argmax(np.abs(np.diff(np.log(lengths)))))
    return f". Neighbouring steps differ most after step {k}, at t = {t[k]:.6g}: {lengths[k - 1]:.3g} and {lengths[k]:.3g}"


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
