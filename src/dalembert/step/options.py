"""RunOptions: the arguments of a run besides the system and its data, checked once; and the record of a run, enough text to
run it again."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from dalembert.algebra import Newton
from dalembert.discretize import DiscreteSystem, Interpolated, Scheme, WindowMap
from dalembert.drawing import Depicted
from dalembert.numbers import MOST_NODES, MOST_ROWS, as_double, as_number, check_class, whole_number
from dalembert.options import Save, Solver, Start, Stop
from dalembert.path import Provenance
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import Varying
from dalembert.step.run.branch import Avoid, Branch, Least, Nearest
from dalembert.step.run.state import Grid, Recipe, SampledFeedback, StepOptions
from dalembert.systems import System, as_step, is_traced
from dalembert.systems.sizes import check_resolved
from dalembert.tracing import source

MOST_NUMBERS = 1000  # of an array of many runs that is recorded by its values
MAX_ITERATIONS = 25  # of Newton's method in a step, unless a user says more
# Metadata of a record that are the same in every call, for as long as the functions read the same: texts, and the sources of
# functions given beside the system, by their arguments' names.
Words = tuple[dict[str, Any], dict[str, str]]
PACKAGES = ("dalembert", "jax", "jaxlib", "equinox", "numpy", "diffrax")


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """t_k = t0 + k h, k = 0 … steps, and how each step is chosen, solved, watched and kept; the words of `simulate`.

    What is wrong in them, whatever the system, is an error when they are made. h is None where the equations give the steps,
    and the first of them where they vary; steps is None where the run ends at a time, `until`.
    """

    h: Any
    steps: int | None
    t0: Any = 0.0
    scheme: Scheme | WindowMap | None = None
    start: Start = dataclasses.field(default_factory=Start)
    solver: Solver = dataclasses.field(default_factory=Solver)
    stop: Stop = dataclasses.field(default_factory=Stop)
    feedback: SampledFeedback | None = None
    save: Save = dataclasses.field(default_factory=Save)
    varying: Varying | None = None
    until: Any = None

    def __post_init__(self) -> None:
        _check_end(self.varying, self.h, self.steps, self.t0, self.until)
        _check_grid(self.h, MOST_ROWS if self.steps is None else self.steps, self.t0, self.save.every, self.varying)
        if self.varying is not None and self.feedback is not None:
            raise ValueError(
                "feedback, h: a sampled law is held over steps of one length; with Varying give the law as forces"
            )
        check_class(self.solver.branch, Nearest | Least | Avoid | None, "branch", "Nearest(...), Least(f) or Avoid(...)")
        check_class(self.feedback, SampledFeedback | None, "feedback", "SampledFeedback(law, every=...)")
        check_class(self.scheme, Scheme | WindowMap | None, "scheme", "a Scheme")
        if self.feedback is not None and not (self.h is None or is_traced(self.h)) and self.h < 0:
            raise ValueError(
                f"feedback, h: found a sampled law with h = {self.h}; a law that is held from its sample on "
                "has no run backwards"
            )

    @property
    def grid(self) -> Grid:
        """The nodes, and which of them are kept."""
        steps = MOST_ROWS if self.steps is None else self.steps
        every = steps if self.save.every is None else self.save.every
        return Grid(as_double(self.t0), as_double(self.h), int(steps), int(every))

    @property
    def recipe(self) -> Recipe:
        """Recipe of the program: scheme, starter and branch."""
        return Recipe(self.scheme, self.start.starter, self.solver.branch)

    @functools.cached_property
    def newton(self) -> Newton:
        """Parameters of Newton's method, by which a step is solved."""
        return Newton(float(self.solver.tolerance), int(self.solver.max_iterations or MAX_ITERATIONS))

    @functools.cached_property
    def step_options(self) -> StepOptions:
        """Options that are the same in every step."""
        function = self.save.reduce and self.save.reduce[0]
        return StepOptions(self.solver.branch, self.newton, self.stop.when, self.stop.domain, self.feedback, function)

    @property
    def native(self) -> bool:
        """Machine code is the default on CPUs, where no rule needs the other back-end."""
        if self.solver.backend is not None:
            return self.solver.backend == "native"
        return jax.default_backend() == "cpu" and not isinstance(self.solver.branch, Nearest | Least)

    def with_times(self, steps: int, t0: Any) -> RunOptions:
        """The same with another number of steps and another beginning; what does not depend on them is not checked again."""
        _check_times(self.h, steps, t0, self.save.every, self.varying)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, steps=steps, t0=t0)
        return other

    def words(self, problem: dict[str, Any], kind: type) -> Words:
        """Metadata that the records of all calls with the same functions share. problem: its texts; kind: its class."""
        functions = {
            "stop": self.stop.when, "domain": self.stop.domain, "feedback": self.feedback and self.feedback.law,
            "reduce": self.save.reduce and self.save.reduce[0], "density": self.varying and self.varying.density,
        }  # fmt: skip
        given = {name: function for name, function in functions.items() if function is not None}
        starter = "" if self.h is None else self.start.starter
        return words_of(problem, scheme_text(kind, self.scheme), starter, self.solver.branch, **given)

    def new_record(self, subject: Depicted, /, **data: Any) -> Provenance:
        """The record of a call whose words nobody keeps; data: see `record`."""
        return self.record(self.words(subject.problem.texts(), type(subject.problem)), subject, **data)

    def record_of_program(self, program: StepProgram, **data: Any) -> Provenance:
        """The record of a run of a step that belongs to no scheme, with the source of its equations; data: see `record`."""
        subject, name = program.system.subject, type(program).__qualname__
        texts, functions = self.words(subject.problem.texts(), type(subject.problem))
        own = texts | {"scheme": name, "starter": ""}, functions | {name: source(type(program).residual)}
        return self.record(own, subject, **data)

    def record(self, words: Words, subject: Depicted, /, **data: Any) -> Provenance:
        """The record of a call; data: its other arguments. The values are those of this moment."""
        free = self.h is None
        own = {} if free else {"h": copy_of(self.h), "t0": copy_of(self.t0), "save_every": self.save.every}
        if self.varying is not None:
            own |= {"h": copy_of(self.varying.numbers), "until": None if self.until is None else copy_of(self.until)}
        given = {name: copy_of(x) for name, x in data.items() if x is not None}

        def options_of_run() -> dict[str, Any]:
            every = self.feedback and self.feedback.every
            newton = {"tolerance": self.solver.tolerance, "max_iterations": self.newton.max_iterations}
            return {**own, "steps": self.steps, **given, **newton, "feedback_every": every, "backend": self.solver.backend}

        return record_of(subject, words, options_of_run)


def lengths_of(h: Any, system: Any = None) -> dict[str, Any]:
    """h and varying of the options: a number, or what a Varying says; 1 where a step only scales time and multipliers."""
    if isinstance(h, Varying):
        return {"h": h.first, "varying": h}
    if h is None and not getattr(system, "h_scales", False):
        raise TypeError("h: is missing; give the step, positive, or negative for a run backwards in time")
    return {"h": 1.0 if h is None else h, "varying": None}


def _check_end(varying: Varying | None, h, steps, t0, until) -> None:
    """A number of steps, or with steps of varying length a time."""
    if varying is None:
        if until is not None:
            raise ValueError(
                "until: belongs to h=Varying(...); of equal steps give their number, steps=round((until - t0) / h)"
            )
        if steps is None:
            raise TypeError("steps: found none; give a whole number of steps, or until= with h=Varying(...)")
        return
    if (steps is None) == (until is None):
        raise TypeError(f"steps, until: found {'none' if steps is None else 'both'} of them; give one, a number or a time")
    if until is None:
        return
    if is_traced(h, t0, until):
        raise TypeError("until: under jit, vmap and grad arrays have a fixed length; give steps=")
    as_number(until, "until", "a finite time")
    if not (until - t0) * h > 0:
        raise ValueError(
            f"until: found {until:g}; with the first step {h:g} give a time {'after' if h > 0 else 'before'} t0 = {t0:g}"
        )


def _check_grid(h, steps, t0, every, varying) -> None:
    if h is None:
        whole_number(steps, "steps", most=MOST_NODES)
        return
    as_step(h)
    _check_times(h, steps, t0, every, varying)


def _check_times(h, steps, t0, every, varying) -> None:
    as_number(t0, "t0", "a finite time")
    whole_number(steps, "steps")
    if every is not None and steps // every > MOST_ROWS:
        raise ValueError(
            f"steps: found {steps}, too many states to keep with save=Save(every={every}); a larger number keeps fewer"
        )
    if varying is None and ((type(h) is float and type(t0) is float) or not is_traced(h, t0)):
        check_resolved("t0, h", max(abs(t0), abs(t0 + steps * h)), abs(h))


def words_of(texts: dict[str, Any], scheme: str, starter: str, branch: Branch | None, **functions: Callable) -> Words:
    """The texts of what a problem and the options of a run are now. texts: of the problem."""
    own = {"scheme": scheme, "starter": starter, "branch": "" if branch is None else repr(branch), "versions": _versions()}
    return texts | own, {name: source(function) for name, function in functions.items()}


def record_of(subject: Depicted, words: Words, values: Callable[[], dict[str, Any]]) -> Provenance:
    """The record of a call, which is written out when somebody asks for it. values: of its arguments, as they were."""

    def texts() -> dict[str, Any]:
        plain = {name: _as_json(x) for name, x in values().items() if x is not None} | words[1]
        return {**words[0], "parameters": _parameters(subject.problem.parameters), "run": json.dumps(plain)}

    return Provenance.later(texts, subject)


def copy_of(value: Any) -> Any:
    """A copy of what can change."""
    if isinstance(value, str | int | float | jax.Array):
        return value
    return {name: copy_of(x) for name, x in value.items()} if isinstance(value, dict) else np.array(value)


def abridge(data: dict[str, Any]) -> dict[str, Any]:
    """The data of many runs for a record: arrays of more than MOST_NUMBERS numbers by their shape. No parameters: None."""
    found = jax.tree.map(lambda x: x if np.size(x) <= MOST_NUMBERS else {"shape": list(np.shape(x))}, data)
    return {name: None if isinstance(value, dict) and not value else value for name, value in found.items()}


def _parameters(tree: Any) -> str:
    """The tree of parameters as JSON; what JSON has no word for, such as a class of the user's, as a list of its leaves."""
    try:
        return json.dumps(jax.tree.map(lambda x: np.asarray(x).tolist(), tree))
    except TypeError:
        leaves = jax.tree_util.tree_leaves_with_path(tree)
        return json.dumps({jax.tree_util.keystr(path): np.asarray(x).tolist() for path, x in leaves})


@functools.lru_cache(64)
def scheme_text(kind: type, scheme: Scheme | WindowMap | None) -> str:
    """The maps of a run of this kind of problem."""
    if issubclass(kind, DiscreteSystem):
        return ""
    default = Scheme() if issubclass(kind, System) else Interpolated()
    return repr(default if scheme is None else scheme)


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _as_json(part) for name, part in value.items()}
    return np.asarray(value).tolist() if not isinstance(value, str | int | float) else value


@functools.cache
def _versions() -> str:
    return json.dumps({"python": sys.version.split()[0], **{name: _version(name) for name in PACKAGES}})


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed as a package"
