"""sweep: an ensemble whose runs have names, over the product of swept values or over rows of them."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from dalembert.control import OptimalControl
from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.window_maps import WindowMap
from dalembert.interrupts import Interrupted
from dalembert.numbers import as_choice, as_double, as_numbers, described, whole_number
from dalembert.path import Path, Study
from dalembert.path.study import SweptName
from dalembert.step import Branch, SampledFeedback, ensemble
from dalembert.step.start.prepare import check_any_system
from dalembert.step.start.second_node import Starter
from dalembert.store.studies import label_of, study_to_xarray
from dalembert.systems import System, VariationalProblem
from dalembert.systems.problem import is_flag

DATA = {"q0": 1, "v0": 1, "nodes": 2, "jets": 2, "multipliers": 2}  # axes of each in one run
COPIES = 3  # of all states, for a moment
BESIDE = 100  # numbers of each run besides, for a moment: a million runs that keep nothing took 1 GiB
SAME = "is the same for all runs; call sweep once for each of its values"


def sweep(
    system: System | DiscreteSystem | VariationalProblem,
    values: Mapping[str, Any],
    *,
    combine: Literal["product", "zip"] = "product",
    q0=None,
    v0=None,
    h: float | None = None,
    steps: int,
    t0: float = 0.0,
    nodes=None,
    jets=None,
    multipliers=None,
    scheme: Scheme | WindowMap | None = None,
    starter: Starter = "second_order",
    branch: Branch | None = None,
    save_every: int | None = 1,
    reduce: tuple[Callable, Any] | None = None,
    stop: Callable | None = None,
    domain: Callable | None = None,
    feedback: SampledFeedback | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 25,
    backend: Literal["jax", "native"] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Study:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0 for every combination of swept values, by their names.

    The runs are those of `ensemble`. One that fails is an outcome in the map, and raises nothing.

    Args:
        system: what moves, as in `simulate`.
        values: name → (K, …) of parameters, and of "q0", "v0", "nodes", "jets", "multipliers"; (K,) of numbers.
        combine: "product": each name is an axis; "zip": the i-th run has the i-th value of every name.
        q0: positions of all runs, where they are not swept.
        v0: velocities of all runs, where they are not swept.
        h: step, the same for all.
        steps: N, the number of steps.
        t0: time of the beginning.
        nodes: of a DiscreteSystem or a VariationalProblem, where they are not swept.
        jets: of a VariationalProblem, where they are not swept.
        multipliers: of a VariationalProblem with differential constraints, where they are not swept.
        scheme: as in `simulate`.
        starter: as in `simulate`.
        branch: as in `simulate`.
        save_every: as in `simulate`; None keeps the last states only, for many runs with `reduce`.
        reduce: as in `simulate`; study.reduced has the runs' axes in front.
        stop: as in `simulate`.
        domain: as in `simulate`.
        feedback: as in `simulate`.
        tolerance: as in `simulate`.
        max_iterations: as in `simulate`.
        backend: as in `simulate`.
        threads: as in `ensemble`.
        progress: as in `ensemble`.

    Returns:
        A Study: study.sel(m=2.0), study.outcomes, study.data, da.plot(study), da.save(study, "study.nc").

    Raises:
        ValueError: an argument has the wrong shape or value, a name is unknown, or the states do not fit into memory.
        TypeError: an argument is of the wrong type, or traced.
        Interrupted: Ctrl-C ended it; its path is the Study until then.
        InconsistentDataError: the initial data of a run do not satisfy the constraints.

    Example:
        >>> study = da.sweep(pendulum, {"q0": [0.5, 1.0, 1.5], "v0": [0.0, 1.0]}, h=0.1, steps=20)
        >>> study.data.q.dims, study.sel(q0=1.0, v0=0.0).q.shape
        (('q0', 'v0', 'node', 'coordinate'), (21, 1))
    """
    if isinstance(system, OptimalControl):
        raise TypeError(
            "system: found an OptimalControl; a sweep runs from initial data. da.solve_batch solves many problems"
        )
    check_any_system(system)
    as_choice(combine, "combine", ("product", "zip"), "ways to combine values")
    fixed = _fixed({"q0": q0, "v0": v0, "nodes": nodes, "jets": jets, "multipliers": multipliers})
    given = {name: _numbers(system, name, x, fixed) for name, x in _named(values).items()}
    names, shape = _axes(system, given, combine)
    whole_number(steps, "steps")
    every = steps if save_every is None else whole_number(save_every, "save_every")
    _check_memory(given, shape, math.ceil(steps / every) + 1, len(system.coordinates or ()))
    places = dict(zip(shape, np.unravel_index(np.arange(math.prod(shape.values())), tuple(shape.values())), strict=True))
    each = {name: x[places[names[name].axis]] for name, x in given.items()}
    parameters = {name: x for name, x in each.items() if name not in DATA}
    data = fixed | {name: x for name, x in each.items() if name in DATA}

    def study(runs: Path) -> Study:
        times = as_double(t0) + np.minimum(every * np.arange(runs.t.shape[1]), steps) * np.asarray(runs.h)[0]
        labelled = study_to_xarray(runs, np.asarray(times), names, _labels(names, given), shape)
        return Study(labelled, system.subject.under(scheme))

    try:
        return study(ensemble(
            system, **data, parameters=parameters or None, h=h, steps=steps, t0=t0, scheme=scheme, starter=starter,
            branch=branch, save_every=save_every, reduce=reduce, stop=stop, domain=domain, feedback=feedback,
            tolerance=tolerance, max_iterations=max_iterations, backend=backend, threads=threads, progress=progress,
        ))  # fmt: skip
    except Interrupted as end:
        if not isinstance(end.path, Path):
            raise
        raise Interrupted(study(end.path)) from None


def _named(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise TypeError(
            f"values: found {described(values)}; give a mapping from names to values, such as {{'m': [1.0, 2.0]}}"
        )
    if not values:
        raise ValueError("values: nothing is swept; give a mapping from names to values, or use simulate")
    return values


def _fixed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Initial data that are the same for all runs: an axis of runs would be taken for one of the combinations."""
    found = {name: None if x is None else as_numbers(x, name) for name, x in data.items()}
    for name, x in found.items():
        if x is not None and x.ndim != DATA[name]:
            right = (
                f"{DATA[name]} axes are needed, the same for all runs" if DATA[name] > 1 else "(n,) is needed, for all runs"
            )
            raise ValueError(f"{name}: found shape {x.shape}; {right}. What differs from run to run belongs into values")
    return found


def _numbers(system, name: str, values: Any, fixed: Mapping[str, Any]) -> np.ndarray:
    """(K, …) of one name."""
    here, known = f"values[{name!r}]", system.parameters if isinstance(system.parameters, Mapping) else {}
    if name in DATA and name in known:
        raise ValueError(
            f"{here}: is a parameter of this system and the name of initial data; give the parameter another name"
        )
    if name not in DATA and name not in known:
        raise ValueError(f"{here}: {_unknown(name, [*known, *DATA])}")
    if name in DATA and fixed[name] is not None:
        raise ValueError(f"{here}, {name}: found both; initial data are swept or the same for all runs")
    flags = name in known and is_flag(known[name]) and is_flag(values)
    array = np.array(values) if flags else as_numbers(values, here)
    if array.ndim == 0:
        raise ValueError(f"{here}: found one value; give several, (K, …), or sweep without it")
    if len(array) == 0:
        raise ValueError(f"{here}: found none; give at least one value")
    n = len(system.coordinates or ())
    if name in known:
        wanted = np.shape(known[name])
    else:
        array = array[:, None] if DATA[name] == 1 and array.ndim == 1 and n <= 1 else array
        own = n or (array.shape[-1] if array.ndim > 1 else "n")
        wanted = (own,) if DATA[name] == 1 else (array.shape[1] if array.ndim == 3 else "r", own)
    if array.shape[1:] != wanted:
        right = f"(K, {', '.join(map(str, wanted))})" if wanted else "(K,)"
        raise ValueError(
            f"{here}: found shape {array.shape}; {right} is needed, the value of each run behind the first axis"
        )
    return array


def _unknown(name: str, known: list[str]) -> str:
    if name in ("h", "steps", "t0", "scheme", "tolerance"):
        return SAME
    close = difflib.get_close_matches(name, known, 1)
    return f"is no parameter and no initial datum; there are {', '.join(known)}" + (
        f". Did you mean {close[0]}?" if close else ""
    )


def _axes(system, given: Mapping[str, np.ndarray], combine: str) -> tuple[dict[str, SweptName], dict[str, int]]:
    """How the names are labelled, and the axes with their lengths."""
    lengths = {name: len(x) for name, x in given.items()}
    if combine == "zip" and len(set(lengths.values())) > 1:
        raise ValueError(f"values: found {lengths}; with combine='zip' all have as many values as there are runs")
    names = {}
    for name, x in given.items():
        label, each = label_of(name), x[0]
        inner = system.coordinates if name in DATA and each.ndim == 1 and system.coordinates else None
        places = inner or ["_".join(map(str, place)) for place in np.ndindex(each.shape)]
        parts = tuple(f"{label}_{place}".replace("/", "_") for place in places) if each.size > 1 else ()
        axis = label if combine == "product" else "run"
        names[name] = SweptName(name, label, axis, parts, tuple(each.shape), name not in DATA)
    taken = [label for one in names.values() for label in (one.label, *one.parts)]
    if len(set(taken)) < len(taken):
        raise ValueError(f"values: found names whose labels are the same, {', '.join(taken)}; rename one of the parameters")
    if combine == "zip":
        return names, {"run": next(iter(lengths.values()))}
    return names, {names[name].axis: length for name, length in lengths.items()}


def _labels(names: Mapping[str, SweptName], given: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Coordinates of the swept names: their values, or their places where a value has several numbers."""
    found: dict[str, Any] = {}
    for name, one in names.items():
        rows = given[name].reshape(len(given[name]), -1).astype(float)
        if one.axis == "run":
            found["run"] = ("run", np.arange(len(rows)))
        labels = {"long_name": f"{'parameter' if one.parameter else 'initial value'} {name}"}
        found[one.label] = (one.axis, np.arange(len(rows)) if one.parts else rows[:, 0], labels)
        found |= {part: (one.axis, rows[:, i], labels) for i, part in enumerate(one.parts)}
    return found


def _check_memory(given: Mapping[str, np.ndarray], shape: Mapping[str, int], rows: int, n: int) -> None:
    """Before anything is computed: a machine that runs out of memory says nothing clear."""
    n = max(1, n, *(x.shape[-1] for name, x in given.items() if name in DATA))
    runs = math.prod(shape.values())
    numbers, memory = runs * rows * (3 * n + 3), _memory()
    if 8 * (COPIES * numbers + BESIDE * runs) > memory:
        product = " × ".join(map(str, shape.values()))
        raise ValueError(
            f"values, save_every: {product} = {runs} runs with {rows} saved states of each are {numbers:.2g} numbers, "
            f"{8 * numbers / 2**30:.3g} GiB and some copies, and this machine has {memory / 2**30:.3g} GiB of memory; give "
            "fewer values, or a larger save_every, or save_every=None with reduce= for what you look for"
        )


def _memory() -> int:
    """Bytes of this machine's memory; where it does not tell, 16 GiB."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**34
