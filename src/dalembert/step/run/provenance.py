"""What a run was: enough text to run it again."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.window_maps import Interpolated, WindowMap
from dalembert.path import Provenance
from dalembert.step.run.branch import Branch
from dalembert.systems import System
from dalembert.systems.problem import Problem
from dalembert.tracing import source

MOST_NUMBERS = 1000  # of an array of many runs that is recorded by its values
PACKAGES = ("dalembert", "jax", "jaxlib", "equinox", "numpy", "diffrax")


def provenance(
    system: Problem,
    scheme: Scheme | WindowMap | None,
    starter: str,
    branch: Branch | None,
    **run: Any,
) -> Provenance:
    """The functions of the system by name and source, its parameters, scheme, starter, branch, run and versions."""
    functions = list({id(f): f for f in system.functions}.values())
    kinds = [type(part).__name__ for part in (system, *getattr(system, "constraints", ()))]
    text = "\n".join([f"# {', '.join(kinds)}", *(source(f) for f in functions)])
    return Provenance(
        system=", ".join(f"{f.__module__}:{f.__qualname__}" if hasattr(f, "__qualname__") else repr(f) for f in functions),
        source=text,
        source_hash=hashlib.sha256(text.encode()).hexdigest(),
        parameters=_parameters(system.parameters),
        coordinates=system.coordinates or (),
        scheme=_scheme(system, scheme),
        starter=starter,
        branch=_branch(branch),
        run=json.dumps({name: _plain(value) for name, value in run.items() if value is not None}),
        versions=_versions(),
    )


def abridged(data: dict[str, Any]) -> dict[str, Any]:
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


def _scheme(system, scheme) -> str:
    if isinstance(system, DiscreteSystem):
        return ""
    return _DEFAULT[isinstance(system, System)] if scheme is None else _described(scheme)


_DEFAULT = {True: repr(Scheme()), False: repr(Interpolated())}


@functools.lru_cache(64)
def _described(scheme: Scheme | WindowMap) -> str:
    return repr(scheme)


def _branch(branch: Branch | None) -> str:
    return "" if branch is None else repr(branch)


def _plain(value: Any) -> Any:
    if callable(value):
        return source(value)
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return np.asarray(value).tolist() if not isinstance(value, str | int | float) else value


@functools.cache
def _versions() -> str:
    return json.dumps({"python": sys.version.split()[0], **{name: _version(name) for name in PACKAGES}})


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed as a package"
