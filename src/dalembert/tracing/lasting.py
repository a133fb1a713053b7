"""Keys that stand for the same in every process: the text of a fingerprint, with the versions of all that it rests on.

A fingerprint names what libraries hold and writes out what the user's functions hold. So a key of it lasts as long as the
libraries stay the same: this package by the times and sizes of its files, as Python's own compiled files do, others by
version. Classes of the user's have no such key: an object of theirs may do what no fingerprint shows.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import io
import os
import pickle
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
_PLAIN = frozenset([tuple, list, str, bytes, int, bool, range, type(None), type(...)])


class _OfThisProcessError(Exception):
    """Something that has no name which another process knows."""


def lasting_key(*things: Any) -> str | None:
    """A hash of all that decides what these do; None where their fingerprints do not show it to another process."""
    walk = Walk()
    return lasting_hash(walk, tuple(map(walk.of, things)))


def lasting_hash(walk: Walk, key: Any) -> str | None:
    """The same of a key that this walk has made."""
    versions, latest = _versions()
    if not walk.lasting or walk.reads_outside or latest > STARTED:  # what was imported may be older than the files
        return None
    try:
        text = _bytes(key)
    except _OfThisProcessError:
        return None
    options = sorted((name, value) for name, value in jax.config.values.items() if "cache" not in name)
    return hashlib.sha256(versions + repr(options).encode() + text).hexdigest()


class _KeyPickler(pickle.Pickler):
    """A key written out: of what is not plain, the name."""

    def persistent_id(self, x: Any) -> Any:
        kind = type(x)
        if kind in _PLAIN:
            return None
        return sorted(map(_bytes, x)) if kind is frozenset else _name(x if kind is Same else Same(x))


def _bytes(key: Any) -> bytes:
    written = io.BytesIO()
    writer = _KeyPickler(written)
    writer.fast = True  # what is equal is written alike, whether it is the same object or not
    writer.dump(key)
    return written.getvalue()


@functools.lru_cache(4096)
def _name(same: Same) -> str:
    """What a library calls one of its own: by its place in the module or, of a nameless function, with its code."""
    x = same.object
    if isinstance(x, np.dtype):
        return f"dtype {x.str}"
    if isinstance(x, enum.Enum):
        return f"{_name(Same(type(x)))}.{x.name}"
    if isinstance(x, np.ufunc):
        module, name = "numpy", x.__name__
    elif isinstance(x, types.ModuleType):
        module, name = x.__name__, ""
    else:
        module, name = getattr(x, "__module__", None) or "", getattr(x, "__qualname__", "")
    if module.split(".")[0] not in LASTING or not is_library(module):
        raise _OfThisProcessError(name)
    program = not isinstance(x, types.FunctionType) and _is_at(module, name, getattr(x, "function", None))  # of `seldom(f)`
    if not name or program or _is_at(module, name, x) or (isinstance(x, type) and "<locals>" not in name):
        return f"{module}:{name}"
    if isinstance(x, types.FunctionType):
        return f"{module}:{name} {_bytes(reads(x.__code__).content)!r}"
    raise _OfThisProcessError(name)


def _is_at(module: str, name: str, x: Any) -> bool:
    """True if the module holds this object under this name."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is x and x is not None


@functools.cache
def _versions() -> tuple[bytes, int]:
    """Of Python and the libraries, and of the files of this package; when the latest of these was written."""
    files = [os.stat(path) for path in sorted(Path(__file__).parents[1].rglob("*.py"))]
    versions = (sys.version, sys.flags.optimize, *(x.__version__ for x in (jax, jaxlib, np, eqx)))
    written = repr((versions, [(x.st_mtime_ns, x.st_size) for x in files]))
    return hashlib.sha256(written.encode()).digest(), max(x.st_mtime_ns for x in files)
