"""What belongs to libraries, whose own values do not change, and which of them keep what JAX has traced of a function."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dalembert.tracing.reads import DYNAMIC


@functools.cache
def is_library(module: str | None) -> bool:
    """Whether a module is Python's, installed, or part of this package: its own values do not change."""
    if module is None:
        return False
    if module.split(".")[0] == "dalembert":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module in sys.builtin_module_names
    return any(Path(file).resolve().is_relative_to(folder) for folder in _folders())


@functools.cache
def _folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    found = {Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {Path(module.__file__).resolve().parents[1] for module in (jax, np, eqx) if module.__file__}
    return tuple(found)


REFLECTING = frozenset(["sys", "importlib", "inspect", "gc", "builtins", "pkgutil", "pydoc", "runpy", "ctypes"])


@functools.cache
def reflects(module: str, name: str | None = None) -> bool:
    """Whether a module of Python's, or a function of it, gives access to values that no code names."""
    return module.split(".")[0] in REFLECTING and (module != "builtins" or name is None or name in DYNAMIC)


# Modules of which no function keeps what it has traced of a function that it is given, but those in REMEMBERING.
PLAIN = frozenset([
    "jax", "jax.numpy", "jax.numpy.linalg", "jax.lax", "jax.nn", "jax.scipy.special", "numpy", "numpy.linalg", "math",
    "cmath", "operator", "functools", "builtins", "scipy.special",
])  # fmt: skip
_PLAIN_OF_JAX = frozenset([
    "numpy", "lax", "nn", "vmap", "grad", "value_and_grad", "jvp", "jacfwd", "jacrev", "jacobian", "hessian", "Array",
])  # fmt: skip


def is_plain(value: Any) -> bool:
    """Whether a function of a library is from a plain module; functions of the user's are looked into anyway."""
    module = getattr(value, "__module__", None)
    if not callable(value) or not is_library(module):
        return True
    assert module is not None
    return (
        module in PLAIN
        or module.split(".")[0] in ("dalembert", "numpy")
        or module.startswith(("jax._src.numpy", "jax._src.lax"))
    )


def is_plain_module(module: ModuleType, chains: tuple[tuple[str, ...], ...]) -> bool:
    """Whether the attributes that are read of a library's module, given as chains of names, are of plain modules."""
    return module.__name__ in PLAIN or (module is jax and all(chain and chain[0] in _PLAIN_OF_JAX for chain in chains))
