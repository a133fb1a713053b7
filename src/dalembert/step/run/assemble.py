"""From the rows of a run to a Path: every variable with its own times."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance, Statistics
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import CLOCK, VaryingSteps, time_of
from dalembert.step.run.state import Grid, RunState, StepOptions
from dalembert.step.start.prepared import Prepared


def path_of(
    xp,
    prepared: Prepared,
    carry: RunState,
    rows: dict,
    grid: Grid,
    step_options: StepOptions,
    *,
    provenance: Provenance | None = None,
) -> Path:
    """The path of one run, or of many with a leading axis in every array; xp: NumPy or jax.numpy."""
    program, (t0, h, _, every) = prepared.program, grid
    of_rows = fields_of(xp, program, rows, grid, step_options)
    known = [k for k in range(prepared.nodes.shape[-2]) if k % every == 0]
    moving = [k for k in known if k > 0]
    mid = program.levels[0] == "mid"
    first_v = (
        xp.diff(prepared.nodes, axis=-2)[..., np.array(moving, int) - 1, :] / h
        if mid
        else prepared.s[..., None, : prepared.nodes.shape[-1]]
    )
    t_first = t0 + xp.asarray(moving if mid else [0], dtype=float) * h
    failed = (carry.code != 0) & (carry.code != int(Outcome.STOPPED)) & (carry.code != int(Outcome.INTERRUPTED))
    t_first = t_first - (0.5 * h if mid else 0.0)
    ready = xp is np  # the arrays are NumPy's until somebody asks for them
    statistics = (Statistics.of if ready else Statistics)(
        iterations=carry.iterations,
        max_iterations=carry.max_iterations,
        residual=carry.residual,
        crossings=carry.crossings,
        turns=carry.turns,
        leaps=carry.leaps,
        failed_step=xp.where(failed, carry.k, -1),
        failed_time=xp.where(failed, time_of(program, carry.s.T, t0 + carry.k * h), xp.nan),
        failed_residual=carry.failed_residual,
    )
    known_t = t0 + xp.asarray(known, dtype=float) * h
    return (Path.of if ready else Path)(
        t=_joined(xp, known_t, of_rows.pop("t")),
        q=xp.concatenate([prepared.nodes[..., np.array(known, int), :], of_rows.pop("q")], axis=-2),
        t_velocity=_joined(xp, t_first, of_rows.pop("t_velocity")),
        v=xp.concatenate([first_v, of_rows.pop("v")], axis=-2),
        h=h,
        steps_done=carry.k - program.starting_nodes,
        code=carry.code,
        statistics=statistics,
        reduced=None if step_options.reduce is None else carry.reduced,
        levels=program.levels,
        provenance=provenance,
        **of_rows,
    )


def fields_of(xp, program: StepProgram, rows: dict, grid: Grid, step_options: StepOptions) -> dict[str, Any]:
    """What the rows of a run are of the fields of its path."""
    t0, h, _, _ = grid
    t = t0 + xp.asarray(rows["k"]) * h
    if isinstance(program, VaryingSteps):
        t, h = (xp.asarray(rows["clock"])[..., i] for i in range(CLOCK))
    sampled = step_options.feedback is not None
    return {
        "t": t, "q": rows["q"], "t_velocity": t - (0.5 * h if program.levels[0] == "mid" else 0.0), "v": rows["v"],
        "t_multipliers": t + (program.multiplier_time - 1.0) * h, "multipliers": xp.asarray(rows["multipliers"]),
        "constraint_forces": xp.asarray(rows["force"]), "t_feedback": t - h if sampled else None,
        "feedback": xp.asarray(rows["held_force"]) if sampled else None,
    }  # fmt: skip


def _joined(xp, first, rows):
    """Times before the first row, the same for all runs, and those of the rows."""
    return xp.concatenate([xp.broadcast_to(first, (*rows.shape[:-1], first.shape[0])), rows], axis=-1)
