"""A run from (q₀, v₀) with nothing looked at but these numbers: everything that depends on the system alone is at hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.path import Path, Provenance
from dalembert.step.options import RunOptions
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.scaled import FAR
from dalembert.step.run.provenance import Words
from dalembert.step.run.ready import ReadySteps, StepArrays, Told
from dalembert.step.start.prepare import Motion, begun
from dalembert.step.start.prepared import Prepared, Recipe
from dalembert.step.start.second_node import Starter
from dalembert.systems.initial.root import InitialMotion, InitialRoot

Vector = Float[np.ndarray, "n"]


class Bound(NamedTuple):
    """What belongs to the function objects of a call: its program, with whatever arrays, and the words of its record."""

    program: StepProgram
    words: Words


class Arrays(NamedTuple):
    """Those of one run at a time: of its beginning and of its steps."""

    motion: InitialMotion
    steps: StepArrays


class ReadyRun:
    """(q₀, v₀) → the path, with the arrays (parameters) of one system. Safe under threads: each call has arrays of its own.

    bound: with the words of its record.
    """

    def __init__(self, root: InitialRoot, steps: ReadySteps, bound: Bound, leaves: list, scheme: Scheme):
        self.bound, self._root, self._steps, self._leaves, self._scheme = bound, root, steps, leaves, scheme
        self._lasting = all(isinstance(x, jax.Array) for x in leaves)  # NumPy's may change in place
        self._free: list[Arrays] = []

    def told(self, options: RunOptions) -> Told:
        """What every run with these options is told."""
        return self._steps.told(options.grid, options.tolerance, options.limits)

    def path(
        self, q: Vector, v: Vector, told: Told, options: RunOptions, record: Callable[[], Provenance]
    ) -> tuple[Path, bool] | None:
        """The path, and whether there is nothing to say of it; None where the data are not proven to pass every check, or
        belong in units of their own. record: gives that of the call, when the path is looked at."""
        arrays = self._arrays()
        try:
            made = self._begun(q, v, told, options.starter, arrays.motion)
            if made is None:
                return None
            done = self._steps.run(made, told, arrays.steps)
            if done.code != 0:
                made = made._replace(program=self._program)
                done = self._steps.explained(done, made, told, arrays.steps, options.step_options)
        finally:
            if self._lasting:
                self._free.append(arrays)
        return self._steps.path(done, told, record), done.calm

    def start(self, q: Vector, v: Vector, options: RunOptions) -> Prepared | None:
        """What `path` starts from; None where that is."""
        arrays = self._arrays()
        try:
            made = self._begun(q, v, self.told(options), options.starter, arrays.motion)
            return None if made is None else made._replace(program=self._program)
        finally:
            if self._lasting:
                self._free.append(arrays)

    def _begun(self, q: Vector, v: Vector, told: Told, starter: Starter, motion: InitialMotion) -> Prepared | None:
        t0, h, _ = told.settings
        if not motion.solve(q, v, t0) <= FAR:
            return None
        program = self._program if self._steps.starting_nodes else self.bound.program
        return begun(program, Recipe(self._scheme, starter, None), Motion(q, v, motion.a, motion.multipliers), t0, h)

    def _arrays(self) -> Arrays:
        try:
            return self._free.pop()
        except IndexError:
            own = self._leaves[: self._root.leaves]
            return Arrays(self._root.over(own), self._steps.arrays(self._leaves))

    @functools.cached_property
    def _program(self) -> StepProgram:
        """The program with these arrays."""
        arrays, static = eqx.partition(self.bound.program, eqx.is_array)
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), self._leaves), static)
