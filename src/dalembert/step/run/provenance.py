"""What a run was: enough text to run it again."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import jax
import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.windows import Interpolated, WindowMap
from dalembert.drawing import Depicted
from dalembert.path import Provenance
from dalembert.step.run.branch import Branch
from dalembert.systems import System
from dalembert.tracing import source

MOST_NUMBERS = 1000  # of an array of many runs that is recorded by its values
PACKAGES = ("dalembert", "jax", "jaxlib", "equinox", "numpy", "diffrax")


class Words(NamedTuple):
    """What of a record is the same in every call, for as long as the functions read the same. functions: sources of those
    given beside the system, by their arguments' names."""

    texts: dict[str, Any]
    functions: dict[str, str]


def words_of(texts: dict[str, Any], scheme: str, starter: str, branch: Branch | None, **functions: Callable) -> Words:
    """The texts of what a problem and the options of a run are now. texts: of the problem."""
    own = {"scheme": scheme, "starter": starter, "branch": _branch(branch), "versions": _versions()}
    return Words(texts | own, {name: source(function) for name, function in functions.items()})


def record_of(subject: Depicted, words: Words, values: Callable[[], dict[str, Any]]) -> Provenance:
    """The record of a call, which is written out when somebody asks for it. values: of its arguments, as they were."""

    def texts() -> dict[str, Any]:
        plain = {name: _plain(x) for name, x in values().items() if x is not None} | words.functions
        return {**words.texts, "parameters": _parameters(subject.problem.parameters), "run": json.dumps(plain)}

    return Provenance.later(texts, subject)


def taken(value: Any) -> Any:
    """A copy of what can change."""
    if isinstance(value, str | int | float | jax.Array):
        return value
    return {name: taken(x) for name, x in value.items()} if isinstance(value, dict) else np.array(value)


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


def scheme_text(kind: type, scheme: Scheme | WindowMap | None) -> str:
    """The maps of a run of this kind of problem."""
    if issubclass(kind, DiscreteSystem):
        return ""
    return _DEFAULT[issubclass(kind, System)] if scheme is None else _described(scheme)


_DEFAULT = {True: repr(Scheme()), False: repr(Interpolated())}


@functools.lru_cache(64)
def _described(scheme: Scheme | WindowMap) -> str:
    return repr(scheme)


def _branch(branch: Branch | None) -> str:
    return "" if branch is None else repr(branch)


def _plain(value: Any) -> Any:
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
