"""Keys that stand for the same in every process: the text of a fingerprint, with the versions of all that it rests on.

A fingerprint names what libraries hold and writes out what the user's functions hold. So a key of it lasts as long as the
libraries stay the same: this package by the times and sizes of its files, as Python's own compiled files do, others by
version. Classes of the user's have no such key: an object of theirs may do what no fingerprint shows.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jaxlib
import numpy as np

from dalembert.tracing.fingerprint import Same, Walk
from dalembert.tracing.reads import is_library, reads

# Libraries whose values depend on their versions alone: of others, a function may read a file or a clock.
LASTING = frozenset([
    "jax", "jaxlib", "numpy", "equinox", "dalembert", "jaxtyping", "math", "cmath", "operator", "functools", "itertools",
    "builtins", "types", "typing", "collections", "enum", "dataclasses", "abc",
])  # fmt: skip
STARTED = time.time_ns()
_PLAIN = (str, bytes, int, bool, range, type(None), type(...))


class _OfThisProcessError(Exception):
    """Something that has no name which another process knows."""


def lasting_key(*things: Any) -> str | None:
    """A hash of all that decides what these do; None where their fingerprints do not show it to another process."""
    walk = Walk()
    key = tuple(map(walk.of, things))
    versions, latest = _versions()
    if not walk.lasting or walk.reads_outside or latest > STARTED:  # what was imported may be older than the files
        return None
    try:
        text = _text(key)
    except _OfThisProcessError:
        return None
    options = sorted((name, value) for name, value in jax.config.values.items() if "cache" not in name)
    return hashlib.sha256(f"{versions}\0{options}\0{text}".encode()).hexdigest()


def _text(key: Any) -> str:
    """A key written out."""
    kind = type(key)
    if kind is tuple:
        return f"({','.join(map(_text, key))})"
    if kind is frozenset:
        return f"{{{','.join(sorted(map(_text, key)))}}}"
    if kind in _PLAIN:
        return f"{kind.__name__} {key!r}"
    return _name(key.object if kind is Same else key)


def _name(x: Any) -> str:
    """What a library calls one of its own: by its place in the module or, of a nameless function, with its code."""
    if isinstance(x, np.dtype):
        return f"dtype {x.str}"
    if isinstance(x, enum.Enum):
        return f"{_name(type(x))}.{x.name}"
    if isinstance(x, np.ufunc):
        module, name = "numpy", x.__name__
    elif isinstance(x, types.ModuleType):
        module, name = x.__name__, ""
    else:
        module, name = getattr(x, "__module__", None) or "", getattr(x, "__qualname__", "")
    if module.split(".")[0] not in LASTING or not is_library(module):
        raise _OfThisProcessError(name)
    if not name or _is_at(module, name, x) or (isinstance(x, type) and "<locals>" not in name):
        return f"{module}:{name}"
    if isinstance(x, types.FunctionType):
        return f"{module}:{name} {_text(reads(x.__code__).content)}"
    raise _OfThisProcessError(name)


def _is_at(module: str, name: str, x: Any) -> bool:
    """True if the module holds this object under this name."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is x


@functools.cache
def _versions() -> tuple[str, int]:
    """Of Python and the libraries, and of the files of this package; when the latest of these was written."""
    files = [os.stat(path) for path in sorted(Path(__file__).parents[1].rglob("*.py"))]
    versions = (sys.version, sys.flags.optimize, *(x.__version__ for x in (jax, jaxlib, np, eqx)))
    return repr((versions, [(x.st_mtime_ns, x.st_size) for x in files])), max(x.st_mtime_ns for x in files)
