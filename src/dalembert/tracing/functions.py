"""Fingerprints of functions: code, and what it reads by its names."""

from __future__ import annotations

import builtins
import functools
import sys
import types
from typing import Any

import jax

from dalembert.tracing.fingerprint import Same, Walk, key_of
from dalembert.tracing.libraries import is_library, is_plain, is_plain_module, reflects
from dalembert.tracing.reads import REMEMBERING, reads

JITTED = type(jax.jit(lambda: None))
_WHOLE = ((),)


@key_of.register(types.FunctionType)
def _function(f: types.FunctionType, walk: Walk) -> Any:
    library = is_library(module := f.__globals__.get("__name__"))
    if library and reflects(module, f.__name__):
        return walk.unknown()
    if library and not (f.__closure__ or f.__defaults__ or f.__kwdefaults__ or f.__dict__):
        return Same(f)
    walk.objects.append(Same(f))
    known = reads(f.__code__)
    walk.hands_on = walk.hands_on or (known.hands_on and not library)
    parts: list[Any] = [known.content if library or not known.dynamic else walk.unknown()]
    for found in (f.__defaults__, f.__kwdefaults__, f.__dict__):
        if found:
            parts.append(walk.value(found))
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not yet set
            parts.append(None)
        else:
            parts.append(_chains(walk, value, known.free.get(name, _WHOLE)))
    if not library:
        for name, chains in known.globals.items():
            if name in f.__globals__:
                parts.append(_chains(walk, f.__globals__[name], chains))
            elif not hasattr(builtins, name):
                parts.append(("missing", name))
        for name, chains in known.imports.items():
            parts.append(_chains(walk, sys.modules.get(name), chains))
    return tuple(parts)


def _chains(walk: Walk, value: Any, chains: tuple[tuple[str, ...], ...]) -> Any:
    """What the code reads of a value: of a module of the user's the attributes that it names, of all else everything."""
    if not isinstance(value, types.ModuleType):
        walk.hands_on = walk.hands_on or getattr(value, "__name__", None) in REMEMBERING or not is_plain(value)
        return walk.value(value)
    if is_library(value.__name__):
        walk.hands_on = walk.hands_on or not is_plain_module(value, chains)
        return walk.unknown() if reflects(value.__name__) else Same(value)
    walk.fixed = False
    return tuple(_chain(walk, value, chain) for chain in chains)


def _chain(walk: Walk, module: types.ModuleType, chain: tuple[str, ...]) -> Any:
    if not chain:  # handed on as an object: which attributes are read cannot be known
        return walk.unknown()
    if not hasattr(module, chain[0]):
        return ("missing", chain[0])
    return _chains(walk, getattr(module, chain[0]), (chain[1:],))


@key_of.register(types.MethodType)
def _method(m: types.MethodType, walk: Walk) -> Any:
    return walk.of(m.__func__), walk.value(m.__self__)


@key_of.register(types.BuiltinFunctionType)
@key_of.register(types.MethodWrapperType)
def _builtin(f: types.BuiltinMethodType, walk: Walk) -> Any:
    """math.sin is itself; [].append is a method of a value."""
    owner = f.__self__
    if isinstance(owner, types.ModuleType) and reflects(owner.__name__, f.__name__):
        return walk.unknown()
    return Same(f) if owner is None or isinstance(owner, types.ModuleType | type) else (f.__name__, walk.value(owner))


@key_of.register(functools.partial)
def _partial(f: functools.partial, walk: Walk) -> Any:
    return walk.of(f.func), walk.value(f.args), walk.value(f.keywords)


@key_of.register(types.ModuleType)
def _module(module: types.ModuleType, walk: Walk) -> Any:
    return Same(module) if is_library(module.__name__) else walk.unknown()


@key_of.register(JITTED)
@key_of.register(functools._lru_cache_wrapper)
def _wrapper(f: Any, walk: Walk) -> Any:
    """A function compiled or wrapped by a library: jnp.sin is itself; of jax.jit(f) count the wrapper and what f reads."""
    inner = getattr(f, "__wrapped__", None)
    if inner is None or is_library(getattr(f, "__module__", None)):
        return Same(f)
    walk.hands_on = True
    return Same(f), walk.of(inner)
