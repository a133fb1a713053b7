"""What a run was: enough text to run it again."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.windows import Interpolated, WindowMap
from dalembert.path import Provenance
from dalembert.step.branch import Branch
from dalembert.systems import System, VariationalProblem

PACKAGES = ("dalembert", "jax", "jaxlib", "equinox", "numpy", "diffrax")


def provenance(
    system: System | DiscreteSystem | VariationalProblem,
    scheme: Scheme | WindowMap | None,
    starter: str,
    branch: Branch | None,
    **run: Any,
) -> Provenance:
    """The functions of the system by name and source, its parameters, scheme, starter, branch, run and versions."""
    functions = _functions(system)
    kinds = [type(part).__name__ for part in (system, *getattr(system, "constraints", ()))]
    source = "\n".join([f"# {', '.join(kinds)}", *(_source(f) for f in functions)])
    return Provenance(
        system=", ".join(f"{f.__module__}:{f.__qualname__}" if hasattr(f, "__qualname__") else repr(f) for f in functions),
        source=source,
        source_hash=hashlib.sha256(source.encode()).hexdigest(),
        parameters=_parameters(system.parameters),
        coordinates=system.coordinates or (),
        scheme=_scheme(system, scheme),
        starter=starter,
        branch=_branch(branch),
        run=json.dumps({name: _plain(value) for name, value in run.items() if value is not None}),
        versions=json.dumps({"python": sys.version.split()[0], **{name: _version(name) for name in PACKAGES}}),
    )


def _parameters(tree: Any) -> str:
    """The tree of parameters as JSON; what JSON has no word for, such as a class of the user's, as a list of its leaves."""
    try:
        return json.dumps(jax.tree.map(lambda x: np.asarray(x).tolist(), tree))
    except TypeError:
        leaves = jax.tree_util.tree_leaves_with_path(tree)
        return json.dumps({jax.tree_util.keystr(path): np.asarray(x).tolist() for path, x in leaves})


def _scheme(system, scheme) -> str:
    if isinstance(system, DiscreteSystem):
        return ""
    return repr(scheme if scheme is not None else Scheme() if isinstance(system, System) else Interpolated())


def _functions(system) -> list:
    if isinstance(system, VariationalProblem):
        found = [system.lagrangian, *system.holonomic, *(f for _, f in system.differential)]
    else:
        parts = [system, *getattr(system, "constraints", ())]
        found = [value for part in parts for value in vars(part).values() if callable(value)]
    return list(dict.fromkeys(found))


def _source(function, seen: tuple = ()) -> str:
    """Source of a function, with the values that it has captured from around it: the same text may mean other equations."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        text = (
            re.sub(r" at 0x[0-9a-f]+", "", repr(function))
            if code is None
            else f"{code.co_code.hex()} {code.co_consts} {code.co_names}"
        )
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    return "\n".join(
        [text.rstrip(), *(f"# {n} = {_captured(c, (*seen, function))}" for n, c in zip(names, cells, strict=True))]
    )


def _captured(cell, seen: tuple) -> str:
    try:
        value = cell.cell_contents
    except ValueError:
        return "not yet set"
    if callable(value):
        inner = inspect.unwrap(value)
        return "a function above" if any(inner is f for f in seen) else _source(inner, seen)
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        return (
            json.dumps(array.tolist())
            if array.size <= 64
            else f"{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
        )
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _branch(branch: Branch | None) -> str:
    return "" if branch is None else repr(branch)


def _plain(value: Any) -> Any:
    if callable(value):
        return _source(value)
    return np.asarray(value).tolist() if not isinstance(value, str | int | float) else value


@functools.cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed as a package"
