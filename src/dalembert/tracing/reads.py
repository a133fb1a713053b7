"""Names that the code of a function reads, and what belongs to libraries, whose own values do not change."""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
import weakref
from pathlib import Path
from types import CellType, CodeType, ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

_ROOTS = {
    "LOAD_GLOBAL": "globals", "LOAD_NAME": "globals", "LOAD_FROM_DICT_OR_GLOBALS": "globals",
    "LOAD_DEREF": "free", "LOAD_CLASSDEREF": "free", "LOAD_FROM_DICT_OR_DEREF": "free", "IMPORT_NAME": "imports",
}  # fmt: skip
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"])
_NOTHING = frozenset(["PUSH_NULL", "CACHE", "PRECALL", "EXTENDED_ARG", "NOT_TAKEN"])


class Reads(NamedTuple):
    """content: of the code, equal for equal texts. globals, free, imports: name → chains of attributes read of it.

    An empty chain stands for the object itself. Code nested in the function, as in a lambda or a comprehension, counts.
    hands_on: whether it names a transformation of JAX that keeps what it has traced of the functions it is given.
    dynamic: whether it names what reads values that no code names.
    """

    content: tuple
    globals: dict[str, tuple[tuple[str, ...], ...]]
    free: dict[str, tuple[tuple[str, ...], ...]]
    imports: dict[str, tuple[tuple[str, ...], ...]]
    hands_on: bool
    dynamic: bool


MISSING = object()  # of a name or a cell that has no value


def content_of(cell: CellType) -> Any:
    """The value in a cell of a closure, MISSING if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


_KNOWN: dict[int, tuple[weakref.ref, Reads]] = {}


def reads(code: CodeType) -> Reads:
    """The names that this code reads, worked out once for each code object."""
    known = _KNOWN.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    chains: dict[str, dict[str, set]] = {"globals": {}, "free": {}, "imports": {}}
    _collect(code, chains)
    sorted_chains = {kind: {name: tuple(sorted(of)) for name, of in sorted(named.items())} for kind, named in chains.items()}
    found = Reads(_content(code), **sorted_chains, hands_on=_names(code, REMEMBERING), dynamic=_names(code, DYNAMIC))
    at = id(code)
    _KNOWN[at] = (weakref.ref(code, lambda _: _KNOWN.pop(at, None)), found)
    return found


# By their names, wherever they come from; plain calls, vmap and derivatives keep nothing.
REMEMBERING = frozenset([
    "jit", "filter_jit", "pjit", "scan", "cond", "switch", "while_loop", "fori_loop", "map", "associative_scan", "reduce",
    "reduce_window", "piecewise", "custom_jvp", "custom_vjp", "custom_root", "custom_linear_solve", "custom_gradient",
    "closure_convert", "filter_closure_convert", "checkpoint", "remat", "filter_custom_jvp", "filter_custom_vjp", "getattr",
    "linearize", "vjp", "pure_callback", "io_callback", "shard_map", "pmap", "named_call",
])  # fmt: skip


# Of Python and NumPy, what does not depend on its arguments alone.
OUTSIDE = frozenset([
    "open", "input", "print", "id", "hash", "load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap", "random",
])  # fmt: skip


# Functions, and attributes of functions, frames and classes, that lead to values which the code does not name.
DYNAMIC = frozenset([
    "globals", "eval", "exec", "__import__", "import_module", "__globals__", "__builtins__", "__subclasses__", "f_globals",
    "f_locals", "f_back", "tb_frame", "gi_frame",
])  # fmt: skip


def _names(code: CodeType, names: frozenset[str]) -> bool:
    """True if this code, or code in it, names one of them."""
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return not names.isdisjoint(code.co_names) or any(_names(c, names) for c in inner)


def _content(code: CodeType) -> tuple:
    """All of the code that decides what it does; no line numbers and file names."""
    return (
        code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_code,
        code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_exceptiontable,
        tuple(_constant(c) for c in code.co_consts),
    )  # fmt: skip


def _constant(value: Any) -> Any:
    """A constant with its type, so that 1, 1.0, True and -0.0 differ; nested code by its content."""
    if isinstance(value, CodeType):
        return _content(value)
    if isinstance(value, tuple):
        return tuple(_constant(x) for x in value)
    if isinstance(value, frozenset):
        return frozenset(_constant(x) for x in value)
    return type(value).__name__, repr(value)


def _collect(code: CodeType, chains: dict[str, dict[str, set]]) -> None:
    """Every chain  name.attribute.attribute…  of the code, as the sequence of its instructions shows it."""
    root, kind, path = "", "", ()

    def add_chain(path: tuple[str, ...]) -> None:
        chains[kind].setdefault(root, set()).add(path)

    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _NOTHING or (name.startswith("STORE_") and kind == "imports"):
            continue
        if name in _ATTRIBUTES and root:
            path = (*path, str(instruction.argval))
            if name == "IMPORT_FROM":  # several may follow one import
                add_chain(path)
                path = ()
            continue
        if root and not (kind == "imports" and root in chains["imports"] and not path):
            add_chain(path)
        root, path = "", ()
        if name in _ROOTS:
            root, kind = str(instruction.argval), _ROOTS[name]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _collect(constant, chains)


@functools.cache
def is_library(module: str | None) -> bool:
    """True for a module that is Python's, installed, or part of this package: its own values do not change."""
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
    """True for a module of Python's, or a function of it, that gives access to values that no code names."""
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
    """True for a function of a library from a plain module; functions of the user's are looked into anyway."""
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
    """True if the attributes that are read of a library's module, given as chains of names, are of plain modules."""
    return module.__name__ in PLAIN or (module is jax and all(chain and chain[0] in _PLAIN_OF_JAX for chain in chains))
