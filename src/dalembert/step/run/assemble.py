"""From the rows of a run to a Path: every variable with its own times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance, Statistics
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import last_length, time_of
from dalembert.step.run.state import Grid, Prepared, RunState, StepOptions


def path_of(
    xp, prepared: Prepared, carry: RunState, rows: dict, grid: Grid, step_options: StepOptions, *,
    provenance: Provenance | None = None,
) -> Path:  # fmt: skip
    """The path of one run, or of many with a leading axis in every array; xp: NumPy or jax.numpy."""
    program, (t0, h, _, _) = prepared.program, grid
    of_rows = Levels.of(program, step_options).fields(rows, t0, h)
    known, first_v = known_nodes(prepared, grid), first_velocities(xp, prepared, grid)
    mid = program.levels[0] == "mid"
    moving = [k for k in known if k > 0]
    t_first = t0 + xp.asarray(moving if mid else [0], dtype=float) * h
    t_first = t_first - (0.5 * h if mid else 0.0)
    # From numbers the arrays are left NumPy's until somebody asks for them.
    return (Path.of if xp is np else Path)(
        t=_joined(xp, t0 + xp.asarray(known, dtype=float) * h, of_rows.pop("t")),
        q=xp.concatenate([prepared.nodes[..., np.array(known, int), :], of_rows.pop("q")], axis=-2),
        t_velocity=_joined(xp, t_first, of_rows.pop("t_velocity")),
        v=xp.concatenate([first_v, of_rows.pop("v")], axis=-2),
        **of_rows,
        **facts_of(xp, program, carry, grid, step_options),
        provenance=provenance,
    )


def facts_of(xp, program: StepProgram, carry: RunState, grid: Grid, step_options: StepOptions) -> dict[str, Any]:
    """The fields of a path that are no rows: how the run ended, its statistics, what it reduced."""
    t0, h, _, _ = grid
    failed = (carry.code != 0) & (carry.code != int(Outcome.STOPPED)) & (carry.code != int(Outcome.INTERRUPTED))
    statistics = (Statistics.of if xp is np else Statistics)(
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


def saved_ahead(starting_nodes: int, grid: Grid) -> list[int]:
    """Which nodes are saved of those before the first step: there may be none after them."""
    return [k for k in range(starting_nodes + 1) if k % grid.every == 0 or k == grid.steps]


def known_nodes(prepared: Prepared, grid: Grid) -> list[int]:
    """The same of nodes that are known."""
    return saved_ahead(prepared.nodes.shape[-2] - 1, grid)


def first_velocities(xp, prepared: Prepared, grid: Grid):
    """The velocities (…, ·, n) before the first step: at the first node, or before each later one of `known_nodes`."""
    if prepared.program.levels[0] != "mid":
        return prepared.s[..., None, : prepared.nodes.shape[-1]]
    moving = [k for k in known_nodes(prepared, grid) if k > 0]
    return xp.diff(prepared.nodes, axis=-2)[..., np.array(moving, int) - 1, :] / grid.h


class Levels(NamedTuple):
    """Where the velocities and the multipliers of a program are, and when the multipliers act after a step began, over h."""

    names: tuple[str, str]
    multiplier_time: float
    sampled: bool

    @classmethod
    def of(cls, program: StepProgram, step_options: StepOptions) -> Levels:
        return cls(program.levels, program.multiplier_time, step_options.feedback is not None)

    def fields(self, columns: dict[str, Any], t0: Any, h: Any) -> dict[str, Any]:
        """What rows are of the fields of a path. columns: by name, k as numbers of steps."""
        clock = columns["clock"]
        t, h = (clock[..., 0], clock[..., 1]) if clock.shape[-1] else (t0 + columns["k"] * h, h)
        return {
            "t": t, "q": columns["q"], "t_velocity": t - 0.5 * h if self.names[0] == "mid" else t, "v": columns["v"],
            "t_multipliers": t + (self.multiplier_time - 1.0) * h, "multipliers": columns["multipliers"],
            "constraint_forces": columns["force"], "t_feedback": t - h if self.sampled else None,
            "feedback": columns["held_force"] if self.sampled else None,
        }  # fmt: skip

    def with_nodes_ahead(self, fields: dict[str, Any], ahead: int) -> dict[str, Any]:
        """The same where the first rows are of the nodes before the first step, which have no multipliers and no law, and
        where velocities are between nodes one less of these. ahead: their number."""
        first = {name: 0 if name in ("t", "q") else ahead for name in fields}
        first |= dict.fromkeys(("t_velocity", "v"), 1 if self.names[0] == "mid" else ahead - 1)
        return {
            name: x if x is None else x[..., first[name] :] if name.startswith("t") else x[..., first[name] :, :]
            for name, x in fields.items()
        }


def _joined(xp, first, rows):
    """Times before the first row, the same for all runs, and those of the rows."""
    return xp.concatenate([xp.broadcast_to(first, (*rows.shape[:-1], first.shape[0])), rows], axis=-1)
