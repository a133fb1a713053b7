"""Systems, data, schemes and branches that the words of a command line stand for. Every mistake names the option."""

from __future__ import annotations

import difflib
import importlib.util
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path as File
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from dalembert.cli.options import BACKENDS, BRANCHES, SCHEMES, SchemeOptions, Setting, check_apart
from dalembert.control import OptimalControl
from dalembert.discretize import MAPS, Scheme
from dalembert.gallery import ENTRIES, PROBLEMS, BoundaryEntry, Entry
from dalembert.numbers import MOST, MOST_NODES, as_positive, whole_number
from dalembert.options import Solver
from dalembert.step import Avoid, Branch, Nearest, Varying
from dalembert.studies.swept import ARGUMENTS, SweptProblem
from dalembert.systems import System, as_step

PRESETS = {
    "borda-fernandez-grillo": Scheme.borda_fernandez_grillo,
    "jimenez-scheurle-explicit": lambda: Scheme.jimenez_scheurle(0.0),
    "jimenez-scheurle-implicit": lambda: Scheme.jimenez_scheurle(0.5),
}
BOUNDARY_ENTRY = (
    "BoundaryEntry('move', title='', formula='', source='', problem=…, boundary={'initial': …, 'final': …, 'T': 1.0}, "
    "steps=100), from dalembert.gallery"
)
OR_FILE = ", or give file.py:name"


class CommandCall(NamedTuple):
    """A system or a problem, the arguments of `simulate` or `solve` for it, and name → values that are swept."""

    subject: Any
    options: dict[str, Any]
    swept: dict[str, list[float]]

    def single(self) -> CommandCall:
        """The same, if nothing is swept."""
        for name in self.swept:
            raise ValueError(f"--set {name}: found several values; they are for dalembert run and dalembert solve")
        return self


def check_choice(word: str, names: Sequence[str], found: str, otherwise: str = "") -> str:
    """The word, if it is one of the names; ValueError with these, and with the one that was perhaps meant."""
    if word not in names:
        close = difflib.get_close_matches(word, names, 1)
        meant = f"; did you mean {close[0]}? There" if close else "; there"
        raise ValueError(f"{found}{meant} are {', '.join(names)}{otherwise}")
    return word


def entry_of(name: str) -> Entry | BoundaryEntry:
    """Of the gallery, or of a file; of a System alone one without data."""
    if not _in_file(name):
        both: dict[str, Any] = {**ENTRIES, **PROBLEMS}
        return both[check_choice(name.replace("-", "_"), [*both], f"{name}: no system of the gallery", OR_FILE)]
    found = _as_entry(name, _from_file(name))
    if not isinstance(found, Entry | BoundaryEntry):
        raise TypeError(
            f"{name}: found {type(found).__name__}; a System, or a gallery Entry, is needed, or a BoundaryEntry, which "
            f"says between which ends: {BOUNDARY_ENTRY}"
        )
    return found


def _as_entry(name: str, value: Any) -> Any:
    return Entry(name, name, "", "", value, *cast(Any, (None,) * 4)) if isinstance(value, System) else value


def system_entry(name: str) -> Entry:
    found = entry_of(name)
    if not isinstance(found, Entry):
        raise ValueError(f"{name}: is a boundary problem; dalembert solve {name} solves it")
    return found


def boundary_entry(name: str) -> BoundaryEntry:
    found = entry_of(name)
    if not isinstance(found, BoundaryEntry):
        raise ValueError(
            f"{name}: is a system and not a boundary problem; dalembert run {name} runs it. Which ends to solve it between "
            f"says a BoundaryEntry: {BOUNDARY_ENTRY}"
        )
    return found


def _in_file(word: str) -> bool:
    """True for the name of a file: file.py:name."""
    return ":" in word or word.endswith(".py")


def _from_file(reference: str) -> Any:
    """The object `name` of a Python file, from file.py:name."""
    place, _, name = reference.rpartition(":")
    file = File(place)
    if not place or not name:
        raise ValueError(f"{reference}: give the file and the name in it, file.py:name")
    module = _module(file)
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, vars(module), 1)
        meant = f"did you mean {near[0]}?" if near else "give a name that the file defines"
        raise ValueError(f"{file}: defines no {name}; {meant}")
    return getattr(module, name)


def entries_of(file: str) -> dict[str, Entry | BoundaryEntry]:
    """The systems and boundary problems that a file defines, by the words of a command line that stand for them; not the
    plain systems that its entries and problems are made of."""
    defined = {f"{file}:{name}": x for name, x in vars(_module(File(file))).items()}
    entries = [x for x in defined.values() if isinstance(x, Entry | BoundaryEntry)]
    parts = [x.system if isinstance(x, Entry) else getattr(x.problem, "system", None) for x in entries]
    found = {name: _as_entry(name, x) for name, x in defined.items() if not any(x is part for part in parts)}
    return {name: x for name, x in found.items() if isinstance(x, Entry | BoundaryEntry)}


def _module(file: File) -> ModuleType:
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file")
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
    return module


def fixed_and_swept(problem: Any, settings: Sequence[Setting]) -> tuple[list[Setting], dict[str, list[float]]]:
    """The settings of one value, and name → values of the others. A list is one value of a parameter that is an array."""
    check_apart(settings)
    arrays = {name for name, x in _parameters(problem).items() if np.ndim(x)}
    swept = {x.name: x.values for x in settings if x.spread or (x.many and x.name not in arrays)}
    return [x for x in settings if x.name not in swept], swept


def _parameters(problem: Any) -> Mapping[str, Any]:
    return problem.parameters if isinstance(problem.parameters, Mapping) else {}


def with_parameters(problem: Any, settings: Sequence[Setting]) -> Any:
    for one in settings:
        try:
            problem = problem.replace(**{one.name: one.value})
        except (ValueError, TypeError) as error:
            said = re.sub(r"^replace(\[.*?\])?: ", "", str(error))  # what the library calls it
            raise ValueError(f"--set {one.text}: {said}") from error
    return problem


def start_of(entry: Entry, settings: Sequence[Setting], q0: list[float] | None, v0: list[float] | None) -> CommandCall:
    """The system with its parameters, where it starts, and what is swept of both."""
    fixed, swept = fixed_and_swept(entry.system, settings)
    start = {"q0": q0, "v0": v0}
    data = {name: getattr(entry, name) if x is None else x for name, x in start.items() if x or name not in swept}
    missing = [f"--{name}" for name, x in data.items() if x is None]
    if missing:
        zeros = ",".join("0" for _ in entry.system.coordinates or (0,))
        raise ValueError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} needed: a System brings no start; give "
            f"{' '.join(f'{option} {zeros}' for option in missing)}, and for a run --h 0.01 --steps 1000"
        )
    return CommandCall(with_parameters(entry.system, fixed), data, swept)


def grid_of(entry: Entry, h: float | None, steps: int | None, time: float | None, varying: bool = False) -> dict[str, Any]:
    """h, and steps or until, as they were asked for, otherwise the entry's own, whose typical time need be no multiple of
    another h."""
    if steps is not None and time is not None:
        raise ValueError("--steps, --time: found both; give one of them")
    step = as_step(require(entry.h if h is None else h, "h", entry.name), "--h")
    own = Varying(step) if varying else step
    if steps is not None:
        return {"h": own, "steps": steps}
    wanted = require(entry.time if time is None else time, "steps or --time", entry.name)
    length = as_positive(wanted, "--time", "a positive, finite time")
    if varying:
        return {"h": own, "until": math.copysign(length, step)}
    return {"h": own, "steps": count_of(length, step, whole=time is not None)}


def count_of(time: float, h: float, whole: bool = True) -> int:
    """The number of steps of a time. whole: it must be a multiple of h, for a run that ended elsewhere would be another."""
    number = time / abs(h)
    if not number <= MOST:
        raise ValueError(f"--time, --h: found {time:g} and {h:g}, which are {number:g} steps; give a longer step")
    count = max(1, round(number))
    if whole and abs(count * abs(h) - time) > 1e-9 * time:
        below = max(1, math.floor(number))
        raise ValueError(
            f"--time: found {time:g}, which is {number:.10g} steps of h = {h:g} and no whole number of them; give a "
            f"multiple of h, such as {below * abs(h):.10g} or {(below + 1) * abs(h):.10g}, or --steps"
        )
    return count


def ends_of(entry: BoundaryEntry, settings: Sequence[Setting], steps: int | None, scheme: str | None) -> CommandCall:
    """The problem with its parameters, the arguments of solve with what is fixed of them, such as T=2 or bounds.u=10, and
    what is swept."""
    fixed, swept = fixed_and_swept(entry.problem, settings)
    own = [x for x in fixed if x.name.split(".")[0] not in ARGUMENTS or x.name in _parameters(entry.problem)]
    values = {x.name: [x.value] for x in fixed if x not in own}
    given = {name: x for name, x in entry.boundary.items() if name not in (*values, *swept)}
    problem = with_parameters(entry.problem, own)
    if values:
        ends = {name: given.get(name) for name in ARGUMENTS}
        _, ends = SweptProblem.of(problem, values, ends, "zip").one({"run": 0})
        given |= {name: x for name, x in ends.items() if x is not None}
    count = entry.steps if steps is None else steps
    guess = entry.first_guess(whole_number(count, "steps", most=MOST_NODES))
    options = {"steps": count, "scheme": named_discretization(problem, scheme), "guess": guess}
    return CommandCall(problem, given | options, swept)


def require(value: Any, option: str, name: str) -> Any:
    if value is None:
        raise ValueError(f"--{option} is needed: {name} brings none")
    return value


def scheme_and_solver(recipe: SchemeOptions, backend: str | None = None) -> dict[str, Any]:
    """The arguments of `simulate` that are named by their words."""
    if backend is not None:
        check_choice(backend, BACKENDS, f"--backend: found {backend!r}")
    solver = Solver(branch=named_branch(recipe.branch), backend=cast(Any, backend))
    return {"scheme": named_scheme(recipe.scheme, recipe.order), "solver": solver}


def named_scheme(name: str, order: int = 2) -> Scheme | None:
    if _in_file(name):
        if order != 2:
            raise ValueError(f"--order: found {order} with a Scheme of your own; give it there, Scheme(..., order={order})")
        return _of_type(name, Scheme)
    plain = check_choice(name.replace("_", "-"), SCHEMES, f"--scheme: found {name}", OR_FILE)
    if plain not in PRESETS:
        return Scheme(None if plain == "default" else plain.replace("-", "_"), order=order)  # type: ignore[arg-type]
    if order != 2:
        raise ValueError(
            f"--order: found {order} with {name}; a composition is made of default, drift-kick-drift or kick-drift-kick"
        )
    return PRESETS[plain]()


def named_discretization(problem: Any, name: Any) -> Any:
    """Of a boundary problem its windows, of optimal control the scheme of the plant."""
    if name in (None, "default"):
        return None
    if isinstance(problem, OptimalControl):
        return named_scheme(name)
    return MAPS[check_choice(name, [*MAPS], f"--scheme: found {name}")]()


def named_branch(name: str | None) -> Branch | None:
    if name is None:
        return None
    kind, _, components = name.partition(":")
    if kind not in BRANCHES and _in_file(name):
        return _of_type(name, Branch)
    check_choice(kind, BRANCHES, f"--branch: found {name}", OR_FILE)
    try:
        places = [int(x) for x in components.split(",")] if components else None
    except ValueError:
        raise ValueError(f"--branch: found {name}; the coordinates after the colon are whole numbers, such as 0,1") from None
    return Avoid() if kind == "avoid" else Nearest(kind.partition("-")[2], places)  # type: ignore[arg-type]


def _of_type(reference: str, kind: type) -> Any:
    found = _from_file(reference)
    if not isinstance(found, kind):
        raise TypeError(f"{reference}: found {type(found).__name__}; a {kind.__name__} is needed")
    return found
