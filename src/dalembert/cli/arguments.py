"""What the words of a command line stand for: systems, data, schemes, branches. Every mistake names the option."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path as File
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from dalembert.control import OptimalControl
from dalembert.discretize import Scheme
from dalembert.discretize.window_maps import MAPS, WindowMap
from dalembert.gallery import ENTRIES, PROBLEMS, BoundaryEntry
from dalembert.numbers import MOST, MOST_NODES, as_positive, whole_number
from dalembert.step import Avoid, Branch, Nearest
from dalembert.step.start.second_node import STARTERS, Starter
from dalembert.systems import System, VariationalProblem
from dalembert.systems.sizes import as_step

SCHEMES = (
    "default", "borda-fernandez-grillo", "jimenez-scheurle-explicit", "jimenez-scheurle-implicit", "nodes",
    "drift-kick-drift", "kick-drift-kick",
)  # fmt: skip
BRANCHES = ("avoid", "nearest-prediction", "nearest-previous")
BACKENDS = ("native", "jax")


class InitialValueProblem(NamedTuple):
    """What a name on the command line stands for; data the user has not given are None."""

    system: System
    q0: Any = None
    v0: Any = None
    h: float | None = None
    time: float | None = None
    exact: Any = None


def named_problem(name: str) -> InitialValueProblem:
    if ":" not in name and not name.endswith(".py"):
        key = name.replace("-", "_")
        if key in PROBLEMS:
            raise ValueError(f"{name}: is a boundary problem; dalembert solve {name} solves it")
        if key not in ENTRIES:
            raise ValueError(f"{name}: no system of the gallery; there are {', '.join(ENTRIES)}, or give file.py:name")
        found: Any = ENTRIES[key]
    else:
        found = _from_file(name)
    if isinstance(found, System):
        return InitialValueProblem(found)
    if isinstance(getattr(found, "system", None), System):
        given: dict[str, Any] = {field: getattr(found, field, None) for field in InitialValueProblem._fields}
        return InitialValueProblem(**given)
    raise TypeError(f"{name}: found {type(found).__name__}; a System, or a gallery Entry, is needed")


def found_of(name: str) -> Any:
    """What a name stands for, of whatever kind; None where the gallery has none of it."""
    if ":" not in name and not name.endswith(".py"):
        key = name.replace("-", "_")
        return ENTRIES.get(key) or PROBLEMS.get(key)
    return _from_file(name)


def named_boundary_problem(name: str, parameters: list[str] | None) -> BoundaryEntry:
    """A boundary problem of the gallery, or a BoundaryEntry of a file, with other parameters."""
    key = name.replace("-", "_")
    if ":" not in name and not name.endswith(".py"):
        if key not in PROBLEMS:
            raise ValueError(
                f"{name}: no boundary problem of the gallery; there are {', '.join(PROBLEMS)}, or give file.py:name"
            )
        found = PROBLEMS[key]
    else:
        found = _of_type(name, BoundaryEntry)
    return dataclasses.replace(found, problem=with_parameters(found.problem, parameters))


def named_discretization(problem: VariationalProblem | OptimalControl, name: str | None) -> WindowMap | Scheme | None:
    """Of a boundary problem its windows, of optimal control the scheme of the plant."""
    if name is None:
        return None
    if isinstance(problem, OptimalControl):
        return named_scheme(name)
    if name not in MAPS:
        raise ValueError(f"--scheme: found {name}; there are {', '.join(MAPS)}")
    return MAPS[name]()


def first_guess(entry: BoundaryEntry, steps: int) -> np.ndarray | None:
    """The entry's first path at the nodes."""
    return entry.first_guess(whole_number(steps, "steps", most=MOST_NODES))


def _from_file(reference: str) -> Any:
    """The object `name` of a Python file, from file.py:name."""
    file, _, name = reference.rpartition(":")
    if not file or not name:
        raise ValueError(f"{reference}: give the file and the name in it, file.py:name")
    source = File(file)
    if not source.is_file():
        raise FileNotFoundError(f"{file}: no such file")
    spec = importlib.util.spec_from_file_location(source.stem, source)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(source.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{file}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if not hasattr(module, name):
        raise ValueError(f"{file}: defines no {name}")
    return getattr(module, name)


def with_data(
    problem: InitialValueProblem, parameters: list[str] | None, q0: str | None, v0: str | None
) -> InitialValueProblem:
    system = with_parameters(problem.system, parameters)
    start = _numbers(q0, "--q0") if q0 is not None else needed(problem.q0, "q0", "a System")
    speed = _numbers(v0, "--v0") if v0 is not None else needed(problem.v0, "v0", "a System")
    return problem._replace(system=system, q0=start, v0=speed)


def with_parameters(system: Any, parameters: list[str] | None) -> Any:
    for text in parameters or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set {text}: give name=value, such as m=2")
        numbers = _numbers(value, f"--set {name}")
        try:
            system = system.replace(**{name.strip(): numbers if "," in value else numbers[0]})
        except (ValueError, TypeError) as error:
            raise ValueError(f"--set {text}: {error}") from error
    return system


def needed(value: Any, option: str, name: str) -> Any:
    if value is None:
        raise ValueError(f"--{option} is needed: {name} brings none")
    return value


def _numbers(text: str, name: str) -> Any:
    try:
        return np.array([float(x) for x in text.split(",")])
    except ValueError:
        raise ValueError(f"{name}: found {text!r}; give numbers between commas, such as 0,1.5") from None


def step_and_count(
    problem: InitialValueProblem, h: float | None, steps: int | None, time: float | None, name: str
) -> tuple[float, int]:
    """Those that were asked for, otherwise the problem's own."""
    step = needed(h if h is not None else problem.h, "h", name)
    return step, step_count(step, steps, time if time is not None or steps is not None else problem.time, name)


def step_count(h: float, steps: int | None, time: float | None, name: str) -> int:
    if steps is not None and time is not None:
        raise ValueError("--steps, --time: found both; give one of them")
    if steps is not None:
        return steps
    wanted = as_positive(needed(time, "steps or --time", name), "--time", "a positive, finite time")
    number = wanted / abs(as_step(h, "--h"))
    if not number <= MOST:
        raise ValueError(f"--time, --h: found {wanted:g} and {h:g}, which are {number:g} steps; give a longer step")
    return max(1, round(number))


def named_scheme(name: str, order: int = 2) -> Scheme | None:
    if ":" in name:
        if order != 2:
            raise ValueError(f"--order: found {order} with a Scheme of your own; give it there, Scheme(..., order={order})")
        return _of_type(name, Scheme)
    plain = name.replace("_", "-")
    if plain not in SCHEMES:
        raise ValueError(f"--scheme: found {name}; there are {', '.join(SCHEMES)}, or give file.py:name")
    preset = _PRESETS.get(plain)
    if preset is None:
        return Scheme(None if plain == "default" else plain.replace("-", "_"), order=order)  # type: ignore[arg-type]
    if order != 2:
        raise ValueError(
            f"--order: found {order} with {name}; a composition is made of default, drift-kick-drift or kick-drift-kick"
        )
    return preset()


_PRESETS = {
    "borda-fernandez-grillo": Scheme.borda_fernandez_grillo,
    "jimenez-scheurle-explicit": lambda: Scheme.jimenez_scheurle(0.0),
    "jimenez-scheurle-implicit": lambda: Scheme.jimenez_scheurle(0.5),
}


def named_starter(name: str) -> Starter:
    if name not in STARTERS:
        raise ValueError(f"--starter: found {name!r}; there are {', '.join(STARTERS)}")
    return cast(Starter, name)


def named_backend(name: str | None) -> Literal["native", "jax"] | None:
    if name is not None and name not in BACKENDS:
        raise ValueError(f"--backend: found {name!r}; there are {', '.join(BACKENDS)}; without the option the run chooses")
    return cast(Literal["native", "jax"] | None, name)


def named_branch(name: str | None) -> Branch | None:
    if name is None:
        return None
    kind, _, components = name.partition(":")
    if kind not in BRANCHES:
        if ":" in name:
            return _of_type(name, Branch)
        raise ValueError(f"--branch: found {name}; there are {', '.join(BRANCHES)}, or give file.py:name")
    if kind == "avoid":
        return Avoid()
    chosen = None
    if components:
        try:
            chosen = [int(x) for x in components.split(",")]
        except ValueError:
            raise ValueError(f"--branch: found {name}; the coordinates behind it are whole numbers, such as 0,1") from None
    return Nearest("prediction" if kind == "nearest-prediction" else "previous", chosen)


EXAMPLES = {
    BoundaryEntry: ", which says between which ends: BoundaryEntry('move', title='', formula='', source='', problem=…, "
    "boundary={'initial': …, 'final': …, 'T': 1.0}, steps=100), from dalembert.gallery",
}


def _of_type(reference: str, kind: type) -> Any:
    found = _from_file(reference)
    if not isinstance(found, kind):
        raise TypeError(f"{reference}: found {type(found).__name__}; a {kind.__name__} is needed{EXAMPLES.get(kind, '')}")
    return found
