"""BegunRun: a run before its first step, with what makes a Path of its end."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.assemble import path_of
from dalembert.step.run.diagnose import diagnosis
from dalembert.step.run.state import Grid, RunState, StepOptions
from dalembert.step.start.prepared import Prepared


class BegunRun(NamedTuple):
    """The program with the data of its first step, and the state before it.

    native: whether machine code is to run it. record: of the call, None where something has no value yet.
    """

    prepared: Prepared
    carry: RunState
    grid: Grid
    step_options: StepOptions
    native: bool
    record: Provenance | None

    @property
    def arguments(self) -> tuple[StepProgram, StepOptions, RunState, Grid]:
        """What every back-end is given."""
        return self.prepared.program, self.step_options, self.carry, self.grid

    def ended(self, carry: RunState, rows: dict) -> Path:
        """The path, with the outcome told apart where a step could not be solved."""
        prepared, grid, step_options = self.prepared, self.grid, self.step_options
        code = int(diagnosis(prepared.program, step_options, carry, grid.t0, grid.h))
        carry = carry._replace(code=np.asarray(code))
        # By NumPy: every small operation of JAX is compiled when it is first met, jnp.asarray too, for every shape.
        prepared, carry, rows = jax.tree.map(np.asarray, (prepared, carry, rows))

        def made() -> Path:
            return path_of(np, prepared, carry, rows, grid, step_options, provenance=self.record)

        # After Ctrl-C arrays of all rows are made when they are looked at, and not before it is answered.
        interrupted = code == int(Outcome.INTERRUPTED)
        return Path.later(lambda: vars(made()), code=carry.code, provenance=self.record) if interrupted else made()
