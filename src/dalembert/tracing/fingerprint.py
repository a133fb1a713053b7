"""What a function reads when it runs: its code, and by value everything that the code names, followed through the user's own
functions and objects.

Two functions of equal fingerprints do the same, unless they read what no fingerprint shows: files, clocks, random numbers,
the environment, the state of a library.
"""

from __future__ import annotations

import builtins
import enum
import functools
import hashlib
import operator
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dalembert.tracing.reads import REMEMBERING, reads

DEEPEST = 60  # containers in containers; what lies deeper is not looked into
MOST = 20_000  # objects looked into by one call


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
    lasting: False where something was read that cannot be compared, which counts as new at every call, or a traced value,
    which must not be kept.
    """

    def __init__(self) -> None:
        self.objects: list[Same] = []
        self.reads_data, self.hands_on, self.lasting = False, False, True
        self._open: dict[int, int] = {}
        self._count = 0

    def of(self, x: Any) -> Any:
        """The key of one object."""
        kind = type(x)
        if kind in _ATOMS:
            return (kind, x)
        rule = _RULES.get(kind) or _rule(kind)
        if rule is _itself:
            return Same(x)
        at = id(x)
        if at in self._open:
            return ("again", len(self._open) - self._open[at])
        self._count += 1
        if len(self._open) > DEEPEST or self._count > MOST:
            return self.unknown()
        self._open[at] = len(self._open)
        try:
            return rule(self, x)
        finally:
            del self._open[at]

    @staticmethod
    def of_library(kind: type) -> bool:
        """Whether a class is not the user's own, so that its functions do not change."""
        return is_library(kind.__module__)

    def unknown(self) -> object:
        """A key that is equal to no other."""
        self.lasting = False
        return object()

    def value(self, x: Any) -> Any:
        """The key of something that a function reads."""
        key = self.of(x)
        self.reads_data = self.reads_data or not (type(key) is Same or isinstance(x, _CODE))
        return key


_CODE = (types.FunctionType, types.MethodType, types.ModuleType, type)


def _function(walk: Walk, f: types.FunctionType) -> Any:
    library = is_library(f.__globals__.get("__name__"))
    if library and not (f.__closure__ or f.__defaults__ or f.__kwdefaults__ or f.__dict__):
        return Same(f)
    walk.objects.append(Same(f))
    known = reads(f.__code__)
    walk.hands_on = walk.hands_on or (known.hands_on and not library)
    parts: list[Any] = [known.content]
    for found in (f.__defaults__, f.__kwdefaults__):
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
    if "__wrapped__" in f.__dict__:
        parts.append(walk.value(f.__dict__["__wrapped__"]))
    return tuple(parts)


_WHOLE = ((),)


def _chains(walk: Walk, value: Any, chains: tuple[tuple[str, ...], ...]) -> Any:
    """What the code reads of a value: of a module of the user's the attributes that it names, of all else everything."""
    if not isinstance(value, types.ModuleType):
        walk.hands_on = walk.hands_on or getattr(value, "__name__", None) in REMEMBERING or not _plain(value)
        return walk.value(value)
    if is_library(value.__name__):
        plain = value.__name__ in PLAIN or (value is jax and all(chain and chain[0] in _PLAIN_OF_JAX for chain in chains))
        walk.hands_on = walk.hands_on or not plain
        return Same(value)
    return tuple(_chain(walk, value, chain) for chain in chains)


# Modules of which no function keeps what it has traced of a function that it is given, but those in REMEMBERING.
PLAIN = frozenset([
    "jax", "jax.numpy", "jax.numpy.linalg", "jax.lax", "jax.nn", "jax.scipy.special", "numpy", "numpy.linalg", "math",
    "cmath", "operator", "functools", "builtins", "scipy.special",
])  # fmt: skip
_PLAIN_OF_JAX = frozenset([
    "numpy", "lax", "nn", "vmap", "grad", "value_and_grad", "jvp", "jacfwd", "jacrev", "jacobian", "hessian", "Array",
])  # fmt: skip


def _plain(value: Any) -> bool:
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


def _chain(walk: Walk, module: types.ModuleType, chain: tuple[str, ...]) -> Any:
    if not chain:  # handed on as an object: which attributes are read cannot be known
        return walk.unknown()
    if not hasattr(module, chain[0]):
        return ("missing", chain[0])
    return _chains(walk, getattr(module, chain[0]), (chain[1:],))


def _method(walk: Walk, m: types.MethodType) -> Any:
    return walk.of(m.__func__), walk.value(m.__self__)


def _builtin(walk: Walk, f: types.BuiltinMethodType) -> Any:
    """math.sin is itself; [].append is a method of a value."""
    owner = f.__self__
    return Same(f) if owner is None or isinstance(owner, types.ModuleType | type) else (f.__name__, walk.value(owner))


def _partial(walk: Walk, f: functools.partial) -> Any:
    return walk.of(f.func), walk.value(f.args), walk.value(f.keywords)


def _module(walk: Walk, module: types.ModuleType) -> Any:
    return Same(module) if is_library(module.__name__) else walk.unknown()


def _sequence(walk: Walk, x: Any) -> Any:
    return (type(x), *map(walk.of, x))


def _list(walk: Walk, x: list) -> Any:
    walk.objects.append(Same(x))
    return _sequence(walk, x)


def _dict(walk: Walk, x: dict) -> Any:
    walk.objects.append(Same(x))
    return (type(x), *((walk.of(k), walk.of(v)) for k, v in x.items()))


def _set(walk: Walk, x: Any) -> Any:
    walk.objects.append(Same(x))
    return type(x), frozenset(map(walk.of, x))


def _structure(walk: Walk, x: Any) -> Any:
    """The structure of a tree, with what its nodes hold besides their children."""
    node = x.node_data()
    return None if node is None else (Same(node[0]), walk.of(node[1]), *map(walk.of, x.children()))


def _enum(walk: Walk, x: enum.Enum) -> Any:
    return Same(x)


def _float(walk: Walk, x: float) -> Any:
    return type(x), x.hex()


def _complex(walk: Walk, x: complex) -> Any:
    return type(x), x.real.hex(), x.imag.hex()


def _scalar(walk: Walk, x: np.generic) -> Any:
    return type(x), x.tobytes()


_CONTENTS: dict[int, tuple[weakref.ref, Any, Any]] = {}  # of an array object: what was in it, and its key


def _numpy(walk: Walk, x: np.ndarray) -> Any:
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


def _jax(walk: Walk, x: jax.Array) -> Any:
    """The content of an array of JAX, which never changes."""
    if isinstance(x, Tracer):
        walk.lasting = False
        return Same(x)
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


def _wrapper(walk: Walk, f: Any) -> Any:
    """A function compiled or wrapped by a library: jnp.sin is itself; of jax.jit(f) count the wrapper and what f reads."""
    inner = getattr(f, "__wrapped__", None)
    if inner is None or is_library(getattr(f, "__module__", None)):
        return Same(f)
    walk.hands_on = True
    return Same(f), walk.of(inner)


def _class(walk: Walk, kind: type) -> Any:
    """A class of a library is itself; of a class of the user's all functions and values in its body count."""
    if is_library(kind.__module__):
        return Same(kind)
    members = [(name, walk.value(x)) for name, x in vars(kind).items() if name not in _MACHINERY]
    return (Same(kind), tuple(members), *(walk.of(base) for base in kind.__mro__[1:-1]))


_MACHINERY = frozenset([
    "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__abstractmethods__", "_abc_impl",
    "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__slots__", "__firstlineno__",
    "__static_attributes__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__qualname__", "__orig_bases__",
    "__parameters__", "__abstractvars__", "__abstractclassvars__",
])  # fmt: skip


def _descriptor(walk: Walk, x: Any) -> Any:
    """staticmethod, classmethod, property, cached_property: the functions in them."""
    names = ("__func__", "fget", "fset", "fdel", "func")
    return (type(x), *(walk.of(f) for f in (getattr(x, name, None) for name in names) if f is not None))


def _instance(walk: Walk, x: Any) -> Any:
    """An object: its class, and all its attributes, by value; of an array or a number also that."""
    kind = type(x)
    walk.hands_on = walk.hands_on or (callable(x) and is_library(kind.__module__) and not isinstance(x, eqx.Module))
    if not _frozen(kind):
        walk.objects.append(Same(x))
    parts = [] if (base := _base(kind)) is object else [walk.value(_as(base, x))]
    slots = [name for each in kind.__mro__ for name in _names(each.__dict__.get("__slots__", ()))]
    state = getattr(x, "__dict__", None)
    if base is object and kind.__basicsize__ > _explained(kind, slots):  # state of C code, which does not show
        shown = callable(x) and is_library(getattr(x, "__module__", None))
        return Same(x) if shown else walk.unknown()
    parts += [(name, walk.value(value)) for name, value in (state or {}).items()]
    parts += [(name, walk.value(getattr(x, name))) for name in slots if name not in _HIDDEN and hasattr(x, name)]
    return (walk.of(kind), *parts)


def _frozen(kind: type) -> bool:
    """Whether the attributes of objects of a class cannot be set."""
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


def _explained(kind: type, slots: list[str]) -> int:
    """The size of an object that has nothing but its slots, a dictionary and a list of weak references."""
    words = len(slots) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return object.__basicsize__ + 8 * words


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _itself(walk: Walk, x: Any) -> Any:
    return Same(x)


def _unknown(walk: Walk, x: Any) -> Any:
    return walk.unknown()


_ATOMS = frozenset([int, str, bytes, bool, type(None), type(...), range])
_RULES: dict[type, Callable[[Walk, Any], Any]] = {
    types.FunctionType: _function, types.MethodType: _method, types.BuiltinFunctionType: _builtin,
    functools.partial: _partial, types.ModuleType: _module, tuple: _sequence, list: _list, dict: _dict, set: _set,
    frozenset: _set, float: _float, complex: _complex, np.ndarray: _numpy, staticmethod: _descriptor,
    classmethod: _descriptor, property: _descriptor, functools.cached_property: _descriptor,
    types.MappingProxyType: _dict, np.ufunc: _itself, types.WrapperDescriptorType: _itself,
    types.MethodDescriptorType: _itself, types.GetSetDescriptorType: _itself, types.MemberDescriptorType: _itself,
    types.ClassMethodDescriptorType: _itself, types.MethodWrapperType: _builtin, operator.itemgetter: _itself,
    types.GeneratorType: _unknown, jax.tree_util.PyTreeDef: _structure, functools._lru_cache_wrapper: _wrapper,
}  # fmt: skip


def _rule(kind: type) -> Callable[[Walk, Any], Any]:
    """The rule for the objects of a class that is met for the first time."""
    for base, rule in ((type, _class), (enum.Enum, _enum), (np.ndarray, _numpy), (np.generic, _scalar), (jax.Array, _jax),
                       (types.ModuleType, _module), (np.dtype, _itself)):  # fmt: skip
        if issubclass(kind, base):
            return rule
    return _wrapper if kind.__name__ == "PjitFunction" else _instance


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
