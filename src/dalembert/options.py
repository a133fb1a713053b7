"""The options of a call in four groups: how a run starts, how its equations are solved, where it ends, and what is kept.

A group is a frozen value, checked when it is made. Each call says which fields it uses; `accept_single_options` still takes
the options that were arguments of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from dalembert.messages import accept_moved
from dalembert.numbers import MOST_THREADS, as_choice, as_tolerance, check_class, described, whole_number

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Array, Float

F = TypeVar("F", bound=Callable[..., Any])

Starter = Literal["second_order", "first_order", "reference"]
STARTERS: tuple[str, ...] = ("second_order", "first_order", "reference")

_RUN = {"starter", "tolerance", "max_iterations", "branch", "backend", "when", "domain", "every"}
_DATA = {"nodes", "jets", "multipliers"}
_SOLVE = {"tolerance", "max_iterations", "scales"}
USED = {  # the fields that a call uses
    "simulate": _RUN | _DATA | {"reduce", "store"},
    "ensemble": _RUN | _DATA | {"reduce", "threads"},
    "prepare": _RUN,
    "run_program": _RUN - {"starter", "branch"} | {"reduce"},
    "resume": _RUN - {"starter", "backend"} | {"reduce"},
    "solve": _SOLVE | {"method"},
    "solve_batch": _SOLVE | {"threads"},
    "multistart": _SOLVE | {"threads"},
    "spline": _SOLVE,
    "optimum": _SOLVE,
    "verdict": _DATA | {"starter", "branch"},
    "order": {"starter", "branch", "tolerance"},
    "a sweep of runs": _RUN | _DATA,
    "a sweep of solutions": _SOLVE | {"method"},
}


class CallOptions:
    """What the groups have in common; each is a frozen dataclass whose fields have defaults."""

    @classmethod
    def of(cls, value: Any, call: str) -> Self:
        """The group that `call` was given; an error where it is none, or has a value that the call does not use."""
        if value is None:
            return default_of(cls)
        name = cls.__name__.lower()
        check_class(value, cls, name, f"da.{cls.__name__}(...)")
        for field in value.changed:
            if field not in USED[call]:
                other = ", ".join(name for name, used in USED.items() if field in used)
                raise ValueError(f"{name}: {call} does not use {field}, which is for {other}; leave it out")
        return value

    @property
    def changed(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        given = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return {f.name: x for f, x in given if (x is not None if f.default is None else x != f.default)}


@dataclasses.dataclass(frozen=True)
class Start(CallOptions):
    """The first nodes of a run where (q0, v0) do not give them, and how a two-step form gets its second node.

    Args:
        nodes: the first nodes instead of (q0, v0): (r, n) for a DiscreteSystem, (2k, n) for a VariationalProblem, (2,
            n) for a System in the form "nodes". The last two nodes of such a path continue it.
        jets: (2k, n), q and its first 2k-1 derivatives at t0, for a VariationalProblem.
        multipliers: for a VariationalProblem with differential constraints of order r: (r, m), λ and its first r-1
            derivatives at t0; together with nodes, λ of the r windows that have nodes on both sides of their middle.
        starter: how a two-step form gets its second node: "second_order", "first_order" or "reference".

    Example:
        >>> chain = da.DiscreteSystem(lambda a, b: 0.5 * (b - a) @ (b - a))
        >>> da.simulate(chain, start=da.Start(nodes=[[0.0], [1.0]]), steps=3).q[-1]
        array([3.])
    """

    nodes: Any = None
    jets: Any = None
    multipliers: Any = None
    starter: Starter = "second_order"

    def __post_init__(self) -> None:
        as_choice(self.starter, "starter", STARTERS, "starters")


@dataclasses.dataclass(frozen=True)
class Solver(CallOptions):
    """How the equations of a step, or of a path, are solved.

    Args:
        tolerance: on Newton's last update, relative to the velocity in a run, and to the typical size of each coordinate
            between ends; the remaining error is about its square.
        max_iterations: of Newton's method in one step, 25 by default; between ends of each attempt, 200 by default. With
            controls, bounds or a free T several methods are tried one after the other.
        branch: the rule that chooses a root if a step has several; None takes the one that Newton's iteration reaches
            from the predicted state.
        backend: "native", machine code, the default on CPUs; if a function cannot be translated, there is one warning
            and JAX runs instead. Or "jax", the portable back-end, the default on other devices and for the rules
            Nearest and Least.
        scales: (n,) typical sizes of the coordinates between ends, estimated from the ends, points and guess by default
            (docs/boundary.md).
        method: "dalembert", or "ipopt": the same unknowns, equations, bounds and derivatives are handed to IPOPT (extra
            ipopt), from the same path to the same tolerance.
        threads: number of threads for many runs or problems; as many as there are processors if None.

    Example:
        >>> path = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=20, solver=da.Solver(tolerance=1e-6))
        >>> path.outcome.name
        'SUCCESS'
    """

    tolerance: float = 1e-9
    max_iterations: int | None = None
    branch: Any = None
    backend: Literal["jax", "native"] | None = None
    scales: Float[Array | np.ndarray, "n"] | None = None
    method: Literal["dalembert", "ipopt"] = "dalembert"
    threads: int | None = None

    def __post_init__(self) -> None:
        as_tolerance(self.tolerance)
        if self.max_iterations is not None:
            whole_number(self.max_iterations, "max_iterations")
        if self.backend is not None:
            as_choice(self.backend, "backend", ("native", "jax"), "back-ends, if one is given,")
        as_choice(self.method, "method", ("dalembert", "ipopt"), "methods")
        if self.threads is not None:
            whole_number(self.threads, "threads", most=MOST_THREADS)


@dataclasses.dataclass(frozen=True)
class Stop(CallOptions):
    """Where a run ends before its last step.

    Args:
        when: `when(q, v[, t][, p])` → boolean; ends the run after the first step at which it is true.
        domain: `domain(q, v[, t][, p])` → boolean, true inside; a step that leaves the domain is refused.

    Example:
        >>> down = da.Stop(when=lambda q, v: q[0] < 0.0)
        >>> da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=50, stop=down).outcome.name
        'STOPPED'
    """

    when: Callable | None = None
    domain: Callable | None = None

    def __post_init__(self) -> None:
        for name, function in (("when", self.when), ("domain", self.domain)):
            if function is not None and not callable(function):
                raise TypeError(f"{name}: found {described(function)}; give a function of (q, v) that returns true or false")

    @classmethod
    def of(cls, value: Any, call: str) -> Self:
        """A function alone is `when`."""
        return super().of(cls(when=value) if callable(value) else value, call)


@dataclasses.dataclass(frozen=True)
class Save(CallOptions):
    """Which states of a run are kept, and where.

    Args:
        every: keep every `every`-th state, and the last; None keeps only the last.
        reduce: (function, initial) with function(value, t, q, v, multipliers) → value, applied after every step; with
            `until` to the nodes before that time and to the state at it.
        store: a folder, such as "run.zarr", into which the states are written chunk by chunk, instead of being kept in
            memory; see `resume`. The Path has the first and the last state, `load` reads all. Not under tracing. With
            `until` the steps are counted first, by making them.

    Example:
        >>> da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=20, save=da.Save(every=10)).q.shape
        (3, 1)
    """

    every: int | None = 1
    reduce: tuple[Callable, Any] | None = None
    store: str | PathLike | None = None

    def __post_init__(self) -> None:
        if self.every is not None:
            whole_number(self.every, "every")
        if self.reduce is not None and not (
            isinstance(self.reduce, tuple) and len(self.reduce) == 2 and callable(self.reduce[0])
        ):
            raise TypeError(
                f"reduce: found {self.reduce!r}; give (function, initial) with function(value, t, q, v, multipliers) → value"
            )


GROUPS: dict[str, type[CallOptions]] = {"start": Start, "solver": Solver, "stop": Stop, "save": Save}
# Options that were arguments of their own, with the group and the field that they are now.
PLACES = {
    {"every": "save_every"}.get(field.name, field.name): (name, field.name)
    for name, group in GROUPS.items()
    for field in dataclasses.fields(group)  # type: ignore[arg-type]
    if field.name != "when"
}


@functools.cache
def default_of(group: type[CallOptions]) -> Any:
    """The group with nothing but defaults."""
    return group()


def check_groups(call: str, **given: Any) -> dict[str, Any]:
    """The groups that a call was given by their names, each checked; those of the defaults for None."""
    return {name: GROUPS[name].of(value, call) for name, value in given.items()}


def fields_by_group(given: Mapping[str, Any], places: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """The fields of each group that are given as single options."""
    found: dict[str, dict[str, Any]] = {}
    for name, (group, field) in ((name, places[name]) for name in given if name in places):
        found.setdefault(group, {})[field] = given[name]
    return found


def group_options(given: Mapping[str, Any], places: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """The arguments with single options in their groups; TypeError where a group is given too."""
    grouped = {name: x for name, x in given.items() if name not in places}
    for name, fields in fields_by_group(given, places).items():
        whole = grouped.get(name)
        if name == "stop" and callable(whole):  # a function alone, and a domain as an argument of its own
            fields["when"] = whole
        elif whole is not None:
            single = ", ".join(old for old in given if old in places and places[old][0] == name)
            raise TypeError(f"{name}, {single}: found both; give {name}=da.{type(whole).__name__}(...) with all of it")
        grouped[name] = GROUPS[name](**fields)
    return grouped


def advise_groups(given: Mapping[str, Any], places: Mapping[str, tuple[str, str]]) -> str:
    """What to write instead of single options."""
    now = (
        f"{name}=da.{GROUPS[name].__name__}({', '.join(f'{field}=…' for field in fields)})"
        for name, fields in fields_by_group(given, places).items()
    )
    return f"give {', '.join(now)} instead of {', '.join(f'{name}=' for name in given if name in places)}"


def accept_single_options(function: F) -> F:
    """The function, which still takes the options of its groups as arguments of their own, with a DeprecationWarning."""
    own = inspect.signature(function).parameters
    places = {name: place for name, place in PLACES.items() if name not in own and place[0] in own}
    advise, move = functools.partial(advise_groups, places=places), functools.partial(group_options, places=places)
    return accept_moved(places, advise, move)(function)
