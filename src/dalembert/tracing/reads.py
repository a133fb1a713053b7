"""What the code of a function names: which globals and imports it may read, and which attributes of them."""

from __future__ import annotations

import dis
import weakref
from types import CodeType
from typing import Any, NamedTuple

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


_KNOWN: dict[int, tuple[weakref.ref, Reads]] = {}


def reads(code: CodeType) -> Reads:
    """What this code reads, worked out once for each code object."""
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


# Functions, and attributes of functions, frames and classes, that lead to values which the code does not name.
DYNAMIC = frozenset([
    "globals", "eval", "exec", "__import__", "import_module", "__globals__", "__builtins__", "__subclasses__", "f_globals",
    "f_locals", "f_back", "tb_frame", "gi_frame",
])  # fmt: skip


def _names(code: CodeType, names: frozenset[str]) -> bool:
    """Whether this code, or code in it, names one of them."""
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

    def add(path: tuple[str, ...]) -> None:
        chains[kind].setdefault(root, set()).add(path)

    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _NOTHING or (name.startswith("STORE_") and kind == "imports"):
            continue
        if name in _ATTRIBUTES and root:
            path = (*path, str(instruction.argval))
            if name == "IMPORT_FROM":  # several may follow one import
                add(path)
                path = ()
            continue
        if root and not (kind == "imports" and root in chains["imports"] and not path):
            add(path)
        root, path = "", ()
        if name in _ROOTS:
            root, kind = str(instruction.argval), _ROOTS[name]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _collect(constant, chains)
