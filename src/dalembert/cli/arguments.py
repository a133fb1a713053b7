"""What the words of a command line stand for: systems, data, schemes, branches. Every mistake names the option."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import re
import sys
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from dalembert.cli import words
from dalembert.control import OptimalControl
from dalembert.discretize import Scheme
from dalembert.discretize.windows import MAPS, WindowMap
from dalembert.gallery import ENTRIES, PROBLEMS, BoundaryEntry
from dalembert.numbers import MOST_NODES, as_positive, whole_number
from dalembert.step import Avoid, Branch, Nearest, Varying
from dalembert.systems import System, VariationalProblem
from dalembert.systems.sizes import as_step


class InitialValueProblem(NamedTuple):
    """What a name on the command line stands for; data the user has not given are None."""

    system: System
    q0: Any = None
    v0: Any = None
    h: float | None = None
    time: float | None = None
    exact: Any = None


def named_problem(name: str) -> InitialValueProblem:
    words.check_system(name)
    found = found_of(name)
    if isinstance(found, System):
        return InitialValueProblem(found)
    if isinstance(getattr(found, "system", None), System):
        given: dict[str, Any] = {field: getattr(found, field, None) for field in InitialValueProblem._fields}
        return InitialValueProblem(**given)
    raise TypeError(f"{name}: found {type(found).__name__}; a System, or a gallery Entry, is needed")


def found_of(name: str) -> Any:
    """What a name stands for, of whatever kind."""
    words.check_either(name)
    if words.in_file(name):
        return _from_file(name)
    key = name.replace("-", "_")
    return ENTRIES.get(key) or PROBLEMS[key]


def named_boundary_problem(name: str, parameters: list[str] | None) -> BoundaryEntry:
    """A boundary problem of the gallery, or a BoundaryEntry of a file, with other parameters."""
    words.check_boundary_problem(name)
    found = _of_type(name, BoundaryEntry) if words.in_file(name) else PROBLEMS[name.replace("-", "_")]
    return dataclasses.replace(found, problem=with_parameters(found.problem, parameters))


def boundary_entry(name: str) -> BoundaryEntry | None:
    """The boundary problem that a name stands for, None where it stands for something else."""
    found = found_of(name)
    return found if isinstance(found, BoundaryEntry) else None


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
    file, name = words.file_and_name(reference)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file}: is not a Python file; give file.py:name")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{file}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if not hasattr(module, name):
        raise ValueError(f"{file}: defines no {name}; give a name that the file defines")
    return getattr(module, name)


def with_data(
    problem: InitialValueProblem, parameters: list[str] | None, q0: str | None, v0: str | None
) -> InitialValueProblem:
    system = with_parameters(problem.system, parameters)
    given = (("q0", q0, problem.q0), ("v0", v0, problem.v0))
    missing = [f"--{option}" for option, text, own in given if text is None and own is None]
    if missing:
        example = " ".join(f"{option} {','.join('0' for _ in system.coordinates or (0,))}" for option in missing)
        raise ValueError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} needed: a System brings no start; give "
            f"{example}, and for a run --h 0.01 --steps 1000"
        )
    start, speed = (
        np.array(words.numbers_of(text, f"--{option}")) if text is not None else own for option, text, own in given
    )
    return problem._replace(system=system, q0=start, v0=speed)


def with_parameters(system: Any, parameters: list[str] | None) -> Any:
    for text, name, value in words.parameters_of(parameters):
        try:
            system = system.replace(**{name: value})
        except (ValueError, TypeError) as error:
            said = re.sub(r"^replace(\[.*?\])?: ", "", str(error))  # what the library calls it
            raise ValueError(f"--set {text}: {said}") from error
    return system


def needed(value: Any, option: str, name: str) -> Any:
    if value is None:
        raise ValueError(f"--{option} is needed: {name} brings none")
    return value


def step_and_count(
    problem: InitialValueProblem, h: float | None, steps: int | None, time: float | None, name: str
) -> tuple[float, int]:
    """Those that were asked for, otherwise the problem's own, whose typical time need be no multiple of another h."""
    words.check_grid(None, steps, time)
    step = as_step(needed(h if h is not None else problem.h, "h", name), "--h")
    if steps is not None:
        return step, steps
    wanted = time if time is not None else needed(problem.time, "steps or --time", name)
    length = as_positive(wanted, "--time", "a positive, finite time")
    return step, words.count_of(length, step, whole=time is not None)


def equal_steps(
    problem: InitialValueProblem, h: float | None, steps: int | None, time: float | None, name: str
) -> dict[str, Any]:
    """Arguments of simulate for steps of one length."""
    return dict(zip(("h", "steps"), step_and_count(problem, h, steps, time, name), strict=True))


def varying_steps(
    problem: InitialValueProblem, h: float | None, steps: int | None, time: float | None, name: str
) -> dict[str, Any]:
    """Arguments of simulate for steps of varying length: h, and steps or until."""
    words.check_grid(None, steps, time)
    step = as_step(needed(h if h is not None else problem.h, "h", name), "--h")
    if steps is not None:
        return {"h": Varying(step), "steps": steps}
    length = as_positive(
        time if time is not None else needed(problem.time, "steps or --time", name), "--time", "a positive, finite time"
    )
    return {"h": Varying(step), "until": math.copysign(length, step)}


def named_scheme(name: str, order: int = 2) -> Scheme | None:
    words.check_scheme(name)
    if words.in_file(name):
        if order != 2:
            raise ValueError(f"--order: found {order} with a Scheme of your own; give it there, Scheme(..., order={order})")
        return _of_type(name, Scheme)
    plain = name.replace("_", "-")
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


def named_recipe(scheme: str, order: int, starter: str, branch: str | None) -> dict[str, Any]:
    """How a run is discretized and begun, and which root it follows: arguments of simulate, sweep and order."""
    words.check_starter(starter)
    return {"scheme": named_scheme(scheme, order), "starter": starter, "branch": named_branch(branch)}


def named_backend(name: str | None) -> Literal["native", "jax"] | None:
    if name is not None:
        words.check_backend(name)
    return cast(Literal["native", "jax"] | None, name)


def named_branch(name: str | None) -> Branch | None:
    if name is None:
        return None
    words.check_branch(name)
    kind, _, components = name.partition(":")
    if kind not in words.BRANCHES:
        return _of_type(name, Branch)
    if kind == "avoid":
        return Avoid()
    chosen = words.coordinates_of(name) if components else None
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
