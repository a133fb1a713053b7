"""Fingerprint of a function, of what it reads when it runs: its code, and by value everything that the code names, followed
through the user's own functions and objects.

Two functions of equal fingerprints do the same, unless they read what no fingerprint shows: files, clocks, random numbers,
the environment, the state of a library. The rules for data, numbers, containers, arrays, classes and objects, by value, come
first; then those for functions: code, and what it reads by its names.
"""

from __future__ import annotations

import builtins
import enum
import functools
import hashlib
import operator
import sys
import types
import weakref
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dalembert.tracing.reads import (
    MISSING,
    OUTSIDE,
    REMEMBERING,
    content_of,
    is_library,
    is_plain,
    is_plain_module,
    reads,
    reflects,
)

DEEPEST = 60  # containers in containers; what lies deeper is not looked into
MOST = 20_000  # objects looked into by one call
_ATOMS = frozenset([int, str, bytes, bool, type(None), type(...), range])
_CODE = (types.FunctionType, types.MethodType, types.ModuleType, type)


class Same:
    """An object as a key: equal to itself alone, whatever its own == says."""

    __slots__ = ("_hash", "object")

    def __init__(self, value: Any):
        self.object, self._hash = value, id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.object is other.object

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Same({self.object!r})"


class Walk:
    """One pass over functions, systems, schemes, and whatever contains them; `of` gives the key of an object.

    objects: what was met that can change, and functions. reads_data: whether functions read anything that is no function.
    hands_on: whether they may hand functions to a part of JAX that keeps what it has traced of them.
    fixed: whether no class or module of the user's was read, whose attributes may be set anew.
    lasting: False where something was read that cannot be compared, which counts as new at every call, or a traced value,
    which must not be kept. reads_outside: whether functions name what reads files, the terminal or random numbers.
    """

    def __init__(self) -> None:
        self.objects: list[Same] = []
        self.reads_data, self.hands_on, self.lasting, self.fixed = False, False, True, True
        self.reads_outside = False
        self._open: dict[int, int] = {}
        self._count = 0

    def of(self, x: Any) -> Any:
        """The key of one object."""
        kind = type(x)
        if kind in _ATOMS:
            return (kind, x)
        at = id(x)
        if at in self._open:
            return ("again", len(self._open) - self._open[at])
        self._count += 1
        if len(self._open) > DEEPEST or self._count > MOST:
            return self.unknown_key()
        self._open[at] = len(self._open)
        try:
            return key_of(x, self)
        finally:
            del self._open[at]

    def unknown_key(self) -> object:
        """A key that is equal to no other."""
        self.lasting = False
        return object()

    def key_read(self, x: Any) -> Any:
        """The key of something that a function reads."""
        key = self.of(x)
        self.reads_data = self.reads_data or not (type(key) is Same or isinstance(x, _CODE))
        return key


@functools.singledispatch
def key_of(x: Any, walk: Walk) -> Any:
    """The key of an object, by its class."""
    raise TypeError(f"no rule for {type(x).__name__}")


@key_of.register(
    enum.Enum | np.dtype | np.ufunc | operator.itemgetter | types.WrapperDescriptorType | types.MethodDescriptorType
    | types.ClassMethodDescriptorType | types.GetSetDescriptorType | types.MemberDescriptorType
)  # fmt: skip
def _itself(x: Any, walk: Walk) -> Any:
    return Same(x)


@key_of.register(types.GeneratorType)
def _unknown_key(x: Any, walk: Walk) -> Any:
    return walk.unknown_key()


@key_of.register(tuple | list | dict | types.MappingProxyType | set | frozenset)
def _container(x: Any, walk: Walk) -> Any:
    """Its entries; of a class of the user's built upon a container also the attributes."""
    kind = type(x)
    if kind not in _CONTAINERS and not hasattr(x, "_fields"):
        return _instance(x, walk)
    if not isinstance(x, tuple | frozenset):
        walk.objects.append(Same(x))
    if isinstance(x, dict | types.MappingProxyType):
        return (kind, *((walk.of(k), walk.of(v)) for k, v in x.items()))
    entries = map(walk.of, x)
    return (kind, frozenset(entries)) if isinstance(x, set | frozenset) else (kind, *entries)


_CONTAINERS = frozenset([tuple, list, dict, types.MappingProxyType, set, frozenset])


@key_of.register(jax.tree_util.PyTreeDef)
def _structure(x: Any, walk: Walk) -> Any:
    """The structure of a tree, with what its nodes hold besides their children."""
    node = x.node_data()
    if node is None:
        return None
    held = tuple(node[1]) if type(node[1]) is list else node[1]  # of a dict its keys, in a list that is new at every call
    return (Same(node[0]), walk.of(held), *map(walk.of, x.children()))


@key_of.register(float | complex)
def _float_key(x: float | complex, walk: Walk) -> Any:
    """By its bits: 0.0 and -0.0 differ, and a NaN equals itself."""
    return (type(x), np.asarray(x).tobytes()) if type(x) in (float, complex) else _instance(x, walk)


@key_of.register(np.generic)
def _scalar(x: np.generic, walk: Walk) -> Any:
    return type(x), x.tobytes()


_CONTENTS: dict[int, tuple[weakref.ref, Any, Any]] = {}  # of an array object: what was in it, and its key


@key_of.register(np.ndarray)
def _numpy(x: np.ndarray, walk: Walk) -> Any:
    """The content of an array; one that is seen again is compared with what was in it, which is faster than any hash."""
    walk.objects.append(Same(x))
    if x.dtype.hasobject:
        return type(x), x.shape, walk.of(x.tolist())
    known = _CONTENTS.get(id(x))
    if known is not None and known[0]() is x and _equal(known[1], x):
        return known[2]
    key = type(x), x.dtype.str, x.shape, _digest(x)
    if isinstance(x, np.ma.MaskedArray):
        key = (*key, walk.of(np.ma.getmaskarray(x)))
    elif type(x) is np.ndarray:
        _remember(x, x.copy(), key)
    return key


def _digest(x: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(x).data).digest()


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, which tells 0.0 from -0.0 and one NaN from another."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.itemsize == 8 and b.flags.c_contiguous:
        a, b = a.view(np.int64), b.view(np.int64)
        return bool((a == b).all())
    return a.tobytes() == b.tobytes()


@key_of.register(Tracer)
def _tracer(x: Tracer, walk: Walk) -> Any:
    """A traced value is itself. It passes for an array, but its class is not one of arrays: read as an object it would lead
    through the whole trace."""
    walk.lasting = False
    return Same(x)


@key_of.register(jax.Array)
def _jax(x: jax.Array, walk: Walk) -> Any:
    """The content of an array of JAX, which never changes."""
    known = _CONTENTS.get(id(x))
    if known is not None and known[0]() is x:
        return known[2]
    if x.is_deleted() or not x.is_fully_addressable or jnp.issubdtype(x.dtype, jax.dtypes.extended):
        return Same(x)
    content = np.asarray(x)
    key = jax.Array, content.dtype.str, content.shape, _digest(content)
    _remember(x, None, key)
    return key


def _remember(x: Any, content: Any, key: Any) -> None:
    at = id(x)
    _CONTENTS[at] = (weakref.ref(x, lambda _: _CONTENTS.pop(at, None)), content, key)


@key_of.register(type)
def _class(kind: type, walk: Walk) -> Any:
    """A class of a library is itself; of a class of the user's all functions and values in its body count."""
    if is_library(kind.__module__):
        return Same(kind)
    walk.fixed = False
    members = [(name, walk.key_read(x)) for name, x in vars(kind).items() if name not in _MACHINERY]
    return (Same(kind), walk.of(type(kind)), tuple(members), *(walk.of(base) for base in kind.__mro__[1:-1]))


_MACHINERY = frozenset([
    "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__abstractmethods__", "_abc_impl",
    "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__slots__", "__firstlineno__",
    "__static_attributes__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__qualname__", "__orig_bases__",
    "__parameters__", "__abstractvars__", "__abstractclassvars__",
])  # fmt: skip


@key_of.register(staticmethod | classmethod | property | functools.cached_property)
def _descriptor(x: Any, walk: Walk) -> Any:
    """staticmethod, classmethod, property, cached_property: the functions in them."""
    names = ("__func__", "fget", "fset", "fdel", "func")
    return (type(x), *(walk.of(f) for f in (getattr(x, name, None) for name in names) if f is not None))


@key_of.register(object)
def _instance(x: Any, walk: Walk) -> Any:
    """An object: its class, and all its attributes, by value; of an array or a number also that."""
    kind = type(x)
    walk.hands_on = walk.hands_on or (callable(x) and is_library(kind.__module__) and not isinstance(x, eqx.Module))
    if not _is_frozen(kind):
        walk.objects.append(Same(x))
    parts = [] if (base := _base(kind)) is object else [walk.key_read(_as(base, x))]
    slots = [name for each in kind.__mro__ for name in _names(each.__dict__.get("__slots__", ()))]
    state = getattr(x, "__dict__", None)
    if base is object and kind.__basicsize__ > _plain_size(kind, slots):  # state of C code, which does not show
        shown = callable(x) and is_library(getattr(x, "__module__", None))
        return Same(x) if shown else walk.unknown_key()
    parts += [(name, walk.key_read(value)) for name, value in (state or {}).items()]
    parts += [(name, walk.key_read(getattr(x, name))) for name in slots if name not in _HIDDEN and hasattr(x, name)]
    return (walk.of(kind), *parts)


def _is_frozen(kind: type) -> bool:
    """True for a class of objects whose attributes cannot be set."""
    parameters = getattr(kind, "__dataclass_params__", None)
    return issubclass(kind, eqx.Module | tuple) or (parameters is not None and parameters.frozen)


_BUILTIN = (dict, list, tuple, set, frozenset, bool, int, float, complex, str, bytes)
_HIDDEN = ("__dict__", "__weakref__")


def _base(kind: type) -> type:
    """The built-in class of numbers, texts or containers that a class is built upon; object if none."""
    return next((base for base in _BUILTIN if issubclass(kind, base)), object)


def _as(base: type, x: Any) -> Any:
    """The built-in part of an object, whatever its own methods say."""
    if issubclass(base, dict):
        return dict(dict.items(x))
    if issubclass(base, list | tuple | set | frozenset):
        return base(base.__iter__(x))
    return getattr(base, "__getnewargs__")(x)  # noqa: B009  numbers and texts: what they would be made from again


def _plain_size(kind: type, slots: list[str]) -> int:
    """The size of an object that has nothing but its slots, a dictionary and a list of weak references."""
    words = len(slots) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return object.__basicsize__ + 8 * words


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


JITTED = type(jax.jit(lambda: None))
_WHOLE = ((),)


@key_of.register(types.FunctionType)
def _function(f: types.FunctionType, walk: Walk) -> Any:
    library = is_library(module := f.__globals__.get("__name__"))
    if library and reflects(module, f.__name__):
        return walk.unknown_key()
    if library and not (f.__closure__ or f.__defaults__ or f.__kwdefaults__ or f.__dict__):
        return Same(f)
    walk.objects.append(Same(f))
    known = reads(f.__code__)
    walk.hands_on = walk.hands_on or (known.hands_on and not library)
    parts: list[Any] = [known.content if library or not known.dynamic else walk.unknown_key()]
    for found in (f.__defaults__, f.__kwdefaults__, f.__dict__):
        if found:
            parts.append(walk.key_read(found))
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        value = content_of(cell)
        parts.append(None if value is MISSING else _chains(walk, value, known.free.get(name, _WHOLE)))
    if not library:
        for name, chains in known.globals.items():
            if name in f.__globals__:
                parts.append(_chains(walk, f.__globals__[name], chains))
            elif not hasattr(builtins, name):
                parts.append(("missing", name))
            walk.reads_outside = walk.reads_outside or name in OUTSIDE
        for name, chains in known.imports.items():
            parts.append(_chains(walk, sys.modules.get(name), chains))
    return tuple(parts)


def _chains(walk: Walk, value: Any, chains: tuple[tuple[str, ...], ...]) -> Any:
    """The key of the part of a value that the code reads: of a user's module the attributes that it names, else all."""
    if not isinstance(value, types.ModuleType):
        walk.hands_on = walk.hands_on or getattr(value, "__name__", None) in REMEMBERING or not is_plain(value)
        return walk.key_read(value)
    if is_library(value.__name__):
        walk.hands_on = walk.hands_on or not is_plain_module(value, chains)
        walk.reads_outside = walk.reads_outside or any(not OUTSIDE.isdisjoint(chain) for chain in chains)
        return walk.unknown_key() if reflects(value.__name__) else Same(value)
    walk.fixed = False
    return tuple(_chain(walk, value, chain) for chain in chains)


def _chain(walk: Walk, module: types.ModuleType, chain: tuple[str, ...]) -> Any:
    if not chain:  # handed on as an object: which attributes are read cannot be known
        return walk.unknown_key()
    if not hasattr(module, chain[0]):
        return ("missing", chain[0])
    return _chains(walk, getattr(module, chain[0]), (chain[1:],))


@key_of.register(types.MethodType)
def _method(m: types.MethodType, walk: Walk) -> Any:
    return walk.of(m.__func__), walk.key_read(m.__self__)


@key_of.register(types.BuiltinFunctionType | types.MethodWrapperType)
def _builtin(f: types.BuiltinMethodType, walk: Walk) -> Any:
    """math.sin is itself; [].append is a method of a value."""
    owner = f.__self__
    if isinstance(owner, types.ModuleType) and reflects(owner.__name__, f.__name__):
        return walk.unknown_key()
    return Same(f) if owner is None or isinstance(owner, types.ModuleType | type) else (f.__name__, walk.key_read(owner))


@key_of.register(functools.partial)
def _partial(f: functools.partial, walk: Walk) -> Any:
    return walk.of(f.func), walk.key_read(f.args), walk.key_read(f.keywords)


@key_of.register(types.ModuleType)
def _module(module: types.ModuleType, walk: Walk) -> Any:
    return Same(module) if is_library(module.__name__) else walk.unknown_key()


@key_of.register(JITTED | functools._lru_cache_wrapper)
def _wrapper(f: Any, walk: Walk) -> Any:
    """A function compiled or wrapped by a library: jnp.sin is itself; of jax.jit(f) count the wrapper and what f reads."""
    inner = getattr(f, "__wrapped__", None)
    if inner is None or is_library(getattr(f, "__module__", None)):
        return Same(f)
    walk.hands_on = True
    return Same(f), walk.of(inner)
