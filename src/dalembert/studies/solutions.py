"""Solutions of boundary problems as the job of a sweep: each as `solve` finds it, whatever was solved before it."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import numpy as np

from dalembert.boundary.data.ends import TimeGrid
from dalembert.boundary.kkt.linear import own_pivots
from dalembert.boundary.newton import Settings
from dalembert.boundary.prepare import Request
from dalembert.boundary.solver import Asked, extremal
from dalembert.drawing import Depicted
from dalembert.messages import warn
from dalembert.native.threads import as_threads, on_threads
from dalembert.outcome import Outcome
from dalembert.path import Provenance
from dalembert.solution import CriticalPoint
from dalembert.step.options import record_of, words_of
from dalembert.step.run.state import Watch
from dalembert.step.run.steps import processor
from dalembert.store.paths import provenance_attributes
from dalembert.store.studies import (
    NOTHING,
    SolutionRow,
    row_of,
    stack_rows,
    template_of,
    unbegun_row,
    with_names,
)
from dalembert.studies.job import Blocks, SweepJob, SweepOpening
from dalembert.studies.swept import SweptProblem
from dalembert.systems import InconsistentDataError, RankDeficientError
from dalembert.tracing import source

if TYPE_CHECKING:
    import xarray

CONTRADICTED = {InconsistentDataError: Outcome.INFEASIBLE, RankDeficientError: Outcome.SINGULAR}
MOST = 64  # numbers of an argument that stand in the record


class SolveOptions(NamedTuple):
    """The arguments of `solve` besides those at the ends, the same for all. reduce: of a solution, what is kept of it
    besides."""

    steps: Any
    times: Any
    guess: Any
    scheme: Any
    scales: Any
    inequalities: Any
    settings: Settings
    certify: bool
    reduce: Callable | None

    def request(self, initial: Any, final: Any, through: Any, T: Any, bounds: Any) -> Asked:
        """By one problem."""
        request, grid = Request(initial, final, through, self.guess), TimeGrid(T, self.steps, self.times)
        return Asked(request, grid, self.scheme, self.scales, self.settings, self.certify, bounds, self.inequalities)


class SolutionsJob(SweepJob):
    """Solutions of problems that differ in what is swept."""

    unit: ClassVar[str] = "problems"

    def __init__(self, problem: SweptProblem, options: SolveOptions, blocks: Blocks, threads: int | None):
        super().__init__(problem.swept, blocks, threads)
        self.problem, self.options = problem, options

    @property
    def work(self) -> int:
        return 1

    @property
    def subject(self) -> Depicted:
        problem = self.problem.problem
        return Depicted(getattr(problem, "system", problem), scheme=self.options.scheme)

    @property
    def record(self) -> Provenance:
        problem, o = self.problem.problem, self.options
        functions = {"inequalities": o.inequalities, "reduce": o.reduce}
        scheme = "" if o.scheme is None else repr(o.scheme)
        given = {name: f for name, f in functions.items() if f is not None}
        words = words_of(problem.texts(), scheme, "", None, **given)
        return record_of(self.subject, words, self._arguments)

    @property
    def fingerprint(self) -> dict[str, str]:
        return {"processor": processor(), "versions": self.record.versions}

    def opening(self) -> SweepOpening:
        return SweepOpening(self._once(), self.fingerprint)

    def block(self, i: int, watch: Watch = None) -> xarray.Dataset:
        places = np.stack(self.blocks.places(i), axis=1)[: self.blocks.runs(i)]
        template, threads = self._once(), as_threads(self.threads)
        rows = on_threads(lambda place: self._row(place, template), places.tolist(), threads, watch)
        self._warn([text for _, text in rows if text])
        return stack_rows([row for row, _ in rows], template)

    def _prepare(self) -> xarray.Dataset:
        """One that can be begun, over the axis `run`. Where something is to be reduced it is one that is solved, if there is
        any."""
        reduce, briefly = self.options.reduce, dataclasses.replace(self.options.settings, max_iterations=1)
        error, found = None, None
        for place in itertools.product(*map(range, self.swept.shape.values())):
            # What an iteration comes to may be checked, and be wrong of what has only begun.
            for settings in (self.options.settings,) if reduce else (briefly, self.options.settings):
                try:
                    found = self._solve_at(place, settings)
                    break
                except tuple(CONTRADICTED) as contradicted:
                    error = error or contradicted
            if found is not None and (reduce is None or found.outcome is Outcome.SUCCESS):
                break
        if found is None:
            assert error is not None
            raise error
        template = template_of(found, self._reduce_solution(found), self.problem.moving)
        return with_names(template, self.swept.names, provenance_attributes(self.record))

    def _row(self, place: tuple[int, ...], template: xarray.Dataset) -> tuple[SolutionRow, str]:
        """Of the problem at a place along the axes, and what is wrong where it cannot be begun."""
        try:
            solution = self._solve_at(place, self.options.settings)
        except tuple(CONTRADICTED) as error:
            outcome = next(found for kind, found in CONTRADICTED.items() if isinstance(error, kind))
            return unbegun_row(outcome), f"{outcome.name.lower()}, is that with {self._describe_place(place)}: {error}"
        row = row_of(solution, self._reduce_solution(solution), self.problem.moving)
        wanted = {str(name): x.shape[1:] for name, x in template.data_vars.items()}
        same = all(x.shape == wanted.get(name) for name, (_, x, _) in row.variables.items())
        if not same or row.reduced not in (NOTHING, template.attrs["reduced"]):
            raise ValueError(f"reduce: returns other keys or shapes for {self._describe_place(place)} than for those before")
        return row, ""

    def _solve_at(self, place: tuple[int, ...], settings: Settings) -> CriticalPoint:
        problem, arguments = self.problem.one(dict(zip(self.swept.shape, place, strict=True)))
        asked = self.options._replace(settings=settings).request(**arguments)
        try:
            with own_pivots():
                return extremal(problem, asked)
        except ValueError as error:
            error.add_note(f"this is the problem of the sweep with {self._describe_place(place)}")
            raise

    def _reduce_solution(self, solution: CriticalPoint) -> Any:
        reduce = self.options.reduce if solution.outcome is Outcome.SUCCESS else None
        return None if reduce is None else reduce(solution)

    def _describe_place(self, place: tuple[int, ...]) -> str:
        return self.problem.describe(dict(zip(self.swept.shape, place, strict=True)))

    def _warn(self, texts: list[str]) -> None:
        """Of the first problem that cannot be begun; on a worker nobody would see it."""
        if texts and not self._warned and threading.current_thread() is threading.main_thread():
            self._warned = True
            warn(f"values: the first problem that cannot be begun, {texts[0]}")

    def _arguments(self) -> dict[str, Any]:
        """Those of the call, for its record; of swept ones the form."""
        o, problem = self.options, self.problem.problem
        own = {name: _as_json(x) for name, x in self.problem.arguments.items() if x is not None}
        own |= {name: {"shape": list(self.swept.given[name].shape)} for name in self.problem.places}
        given = {
            "steps": o.steps,
            "times": o.times,
            "scales": o.scales,
            "guess": None if o.guess is None else _as_json(o.guess),
        }
        how = dataclasses.asdict(o.settings) | {"certify": o.certify}
        order = getattr(problem, "derivatives", None)
        return {"problem": type(problem).__name__, "derivatives": order} | own | given | how


def _as_json(value: Any) -> Any:
    """An argument of `solve` as JSON has it: what is long or a function by a hash."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(x) for key, x in value.items()}
    if isinstance(value, list | tuple) and not all(isinstance(x, int | float) for x in value):
        return {str(i): _as_json(x) for i, x in enumerate(value) if x is not None}
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, np.ndarray | jax.Array | list | tuple) and np.size(value) <= MOST:
        return np.asarray(value, float)
    digest = hashlib.sha256()
    for x in jax.tree.leaves(value):
        digest.update(np.ascontiguousarray(x).tobytes() if isinstance(x, np.ndarray | jax.Array) else repr(x).encode())
    functions = [source(x) for x in vars(value).values() if callable(x)] if hasattr(value, "__dict__") else []
    return f"{type(value).__name__} {hashlib.sha256((digest.hexdigest() + ''.join(functions)).encode()).hexdigest()}"
