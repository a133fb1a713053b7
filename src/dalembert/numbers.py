"""Data that a user gives: real, finite numbers, as float64 arrays.

Every argument that holds data comes through here before anything is computed with it, so that no run is lost to what stood
wrong at its beginning. Each error names the argument, what was found, and what is right. Traced values (inside jit, vmap and
grad) have a type and a shape, which are checked, and no numbers yet.
"""

from __future__ import annotations

import math
import operator
import os
import reprlib
from collections import UserList, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path as File
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

try:
    from jax.extend.core import get_opaque_trace_state
except ImportError:  # where it stands in the lowest version that is allowed
    from jax.core import get_opaque_trace_state

with jax.ensure_compile_time_eval():
    _OUTSIDE = get_opaque_trace_state()

EPSILON = float(np.finfo(float).eps)  # between 1 and the next number
MOST = 2**53  # above it whole numbers, and with them the times t0 + k h, are not exact in float64
MOST_ROWS = 2**36  # states of one run that are kept: terabytes
MOST_THREADS = 4096
MOST_NODES = 10**8  # of one boundary problem, all of them unknown at once

ROWS = (list, tuple, deque, UserList)  # whose entries are looked at one by one

_TRUTH = "True and False are not numbers here, give 1.0 and 0.0"
_REAL = {
    "b": _TRUTH,
    "c": "give real numbers, the real and the imaginary part as two of them",
    "M": "give times and dates as numbers, in the unit of time of the Lagrangian",
    "m": "give times and dates as numbers, in the unit of time of the Lagrangian",
    "S": "give numbers and not text",
    "U": "give numbers and not text",
}
_ROTATION = "write rotation.as_quat(scalar_first=True): quaternions are (w, x, y, z) here"
_PLAIN = "give real numbers, such as a list of floats or an array of float64"


def check_x64() -> None:
    """Require float64: second differences in single precision are noise, so every entry point checks that JAX's x64
    mode is on.

    Raises:
        RuntimeError: jax_enable_x64 is off.
    """
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:  # what jax_enable_x64 decides
        raise RuntimeError(
            "jax_enable_x64 is off: dalembert needs float64 (second differences in float32 are noise). Importing "
            "dalembert turns it on; something turned it off again. Use jax.config.update('jax_enable_x64', True)"
        )


def as_numbers(value: Any, name: str) -> Float[np.ndarray, "..."]:
    """`value` as a NumPy array of its own of finite float64 numbers; TypeError, ValueError naming the argument."""
    if holds_tracer(value):
        raise TypeError(f"{name}: found a traced value; this works on numbers, and not under jit, vmap or grad")
    if type(value) is np.ndarray and value.dtype == np.float64:  # nearly always
        array = value.copy()
        _check_finite(array, name)
        return array
    given = real_numbers(value, name)
    with np.errstate(over="ignore"):  # what is finite in longer floats alone is infinite here, and refused
        array = np.array(given, dtype=float)
    _check_finite(array, name)
    return array


def real_numbers(value: Any, name: str, right: str = _PLAIN, what: str = "an array of numbers") -> np.ndarray:
    """`value` as an array of real numbers, of whatever precision; it may be infinite or NaN."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: found a masked array; leave the masked entries out, or fill them with a number: filled(0.0)"
        )
    if isinstance(value, ROWS):
        _check_rows(value, name)
    try:
        array = np.asarray(value)
    except Exception as error:  # whatever __array__ of a foreign class raises, or rows of different lengths
        raise TypeError(f"{name}: found {described(value)}, which is not {what} ({first_line(error)})") from None
    _check_kind(array, value, name, right, what)
    return array


def as_array(value: Any, name: str) -> Float[Array, "..."]:
    """The array of JAX of `as_numbers`; traced values pass, if their type is real."""
    if not holds_tracer(value):
        if isinstance(value, jax.Array) and value.dtype == np.float64 and not value.weak_type:
            _check_finite(np.asarray(value), name)
            return value  # as it is: an array of JAX does not change
        # jnp.asarray compiles a program for each shape.
        return (jax.device_put if outside() else jnp.asarray)(as_numbers(value, name))
    if isinstance(value, ROWS):
        _check_rows(value, name)
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: found {described(value)}, which is not an array of numbers ({first_line(error)})"
        ) from None
    _check_kind(array, value, name)
    return array.astype(float)


def as_number(value: Any, name: str, right: str = "a finite number", valid: Callable[[Any], bool] | None = None) -> Any:
    """One number: a float, or a traced array (). right: what is right, in words; valid: and by a condition."""
    if type(value) is float and math.isfinite(value) and (valid is None or valid(value)):  # nearly always
        return value
    if holds_tracer(value):
        array = as_array(value, name)
        if array.ndim:
            raise ValueError(f"{name}: found shape {array.shape}; give {right}")
        return array
    array = real_numbers(value, name, f"give {right}", "a number")
    if array.ndim:
        raise ValueError(f"{name}: found {described(value)}; give {right}")
    number = float(array)
    if not np.isfinite(number) or (valid is not None and not valid(number)):
        raise ValueError(f"{name}: found {value!r}; give {right}")
    return number


def as_positive(value: Any, name: str, right: str = "a positive, finite number") -> Any:
    """One number above 0."""
    return as_number(value, name, right, lambda x: x > 0)


def as_tolerance(value: Any, name: str = "tolerance") -> Any:
    """One number between 0 and 1, known before tracing."""
    if holds_tracer(value):
        raise TypeError(f"{name}: found a traced value; give a number")
    return as_number(value, name, "a number between 0 and 1, such as 1e-9", lambda x: 0 < x < 1)


def as_vector(value: Any, name: str, n: int | None = None, kind: Callable[[Any, str], Any] = as_array) -> Any:
    """One number per coordinate, (n,); kind: as_array, or as_numbers for numbers alone as NumPy's own array."""
    if value is None:
        raise TypeError(f"{name}: is missing; give one number per coordinate, shape (n,)")
    array = kind(value, name)
    if array.ndim != 1 or array.shape[0] == 0:
        raise ValueError(f"{name}: found shape {array.shape}; give one number per coordinate, shape (n,)")
    if n is not None and array.shape[0] != n:
        raise ValueError(f"{name}: found {array.shape[0]} numbers; the system has n = {n} coordinates")
    return array


def as_point(value: Any, name: str, n: int | None = None) -> tuple[Any, Any]:
    """(q, v), a pair of arrays (n,) of JAX."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name}: found {described(value)}; give a pair (q, v) of arrays (n,)")
    q = as_vector(value[0], f"{name}[0]", n)
    return q, as_vector(value[1], f"{name}[1]", len(q))


def as_state(q0: Any, v0: Any, names: Sequence[str] | None, kind: Callable[[Any, str], Any] = as_array) -> tuple[Any, Any]:
    """(q0, v0), one number each per coordinate. The names of the coordinates say which of two that disagree is wrong."""
    q, v = as_vector(q0, "q0", kind=kind), as_vector(v0, "v0", kind=kind)
    for name, found in (("q0", q), ("v0", v)):
        if names and len(found) != len(names):
            many = f"{len(names)} coordinates" if len(names) > 1 else "1 coordinate"
            raise ValueError(f"{name}: found {len(found)} numbers; the system has {many}, {', '.join(names)}")
    if len(q) != len(v):
        raise ValueError(f"v0: found {len(v)} numbers, and q0 has {len(q)}; give one of each per coordinate")
    return q, v


def whole_number(value: Any, name: str, least: int = 1, most: int = MOST) -> int:
    """`value` as an int from least to most; true and false, and floats, are none."""
    try:
        number = None if _holds_truth(value) else operator.index(value)
    except TypeError:
        number = None
    which = f"from {least} to {most}" if most < MOST or (number or 0) > most else f"{least} or more"
    if number is None:
        raise TypeError(f"{name}: found {described(value)}; give a whole number, {which}")
    if not least <= number <= most:
        raise ValueError(f"{name}: found {described(number)}; give a whole number, {which}")
    return number


def as_flag(value: Any, name: str) -> bool:
    """True or False, and nothing that Python takes for one of them: "no" is true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}: found {described(value)}; give True or False")
    return bool(value)


def as_choice(value: Any, name: str, choices: Iterable[str], what: str) -> Any:
    """One of several words. what: the words' plural, for the message."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: found {value!r}; the {what} are {', '.join(choices)}")
    return value


def as_function(value: Any, name: str, what: str) -> Callable:
    """TypeError where `value` cannot be called, or has no hash, by which compiled code is found again.

    what: its arguments and results, in words.
    """
    if not callable(value):
        raise TypeError(f"{name}: found {described(value)}; give a function {what}")
    try:
        hash(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"{name}: found a {kind}, which has no hash; a dataclass has one with frozen=True, or give a function {what}"
        ) from None
    return value


def check_class(value: Any, kind: Any, name: str, right: str) -> None:
    """TypeError where a value is not of this class, or of one of a union. right: what to give, in words."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: found {described(value)}; give {right}")


def as_text(value: Any, name: str) -> str | None:
    """A string, or None."""
    check_class(value, str | None, name, "a string")
    return value


def as_file(value: Any, name: str) -> File:
    """The name of a file or a folder."""
    check_class(value, str | os.PathLike, name, "the name of a file")
    return File(value)


def as_new_file(value: Any, name: str, endings: Sequence[str], what: str) -> File:
    """The name of one that can be made: with one of these endings, in a folder that is there. what: it is, in words."""
    target = as_file(value, name)
    if target.suffix not in endings:
        raise ValueError(f"{name}: found '{target}'; {what}, give a name that ends in {', '.join(endings)}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{name}: the folder {target.parent} does not exist; make it first")
    return target


def called(function: Callable, name: str, how: str, *arguments: Any) -> Any:
    """function(*arguments), which a user wrote for NumPy; TypeError with what it raised. how: it is called, in words."""
    try:
        return function(*arguments)
    except Exception as error:
        what = f"{name}: could not be evaluated: {type(error).__name__}: {first_line(error)}"
        raise TypeError(f"{what}. It is called with {how}") from error


def coordinate_index(key: Any, found: str, n: int, names: Sequence[str] | None) -> int:
    """The index of a coordinate that is named, or told by its index; else ValueError, which begins with `found`."""
    if isinstance(key, str) and key in (names or ()):
        return list(names or ()).index(key)
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < n:
        return int(key)
    raise ValueError(f"{found}; the coordinates are {', '.join(names or ()) or f'0 to {n - 1}'}")


def decreasing_steps(h: Sequence[float]) -> Float[np.ndarray, "K"]:
    """Two or more positive, decreasing steps."""
    values = as_numbers(h, "h")
    if values.ndim != 1 or values.size < 2:
        raise ValueError(f"h: found shape {values.shape}; give two or more steps, such as [0.1, 0.05, 0.025]")
    if not (np.all(values > 0) and np.all(np.diff(values) < 0)):
        raise ValueError(f"h: found {values.tolist()}; give positive, decreasing steps")
    return values


def outside() -> bool:
    """True outside of jit, vmap and grad, where operations give values; by a look that costs less than an operation."""
    return get_opaque_trace_state() == _OUTSIDE


def is_traced(*trees) -> bool:
    """True if values are being traced, inside jit, vmap or grad: they have shapes but no numbers yet.

    Under vmap and grad only arguments that depend on the traced ones are tracers; under jit every operation is traced,
    even on constants.

    Args:
        *trees: pytrees whose leaves are examined.

    Returns:
        Whether one of the leaves, or the surrounding program, is being traced.
    """
    # The first operation that is carried out compiles a program, and a cold start waits for it.
    probe = () if outside() else (jnp.add(0.0, 0.0),)
    return any(isinstance(leaf, Tracer) for leaf in (*probe, *jax.tree.leaves(trees)))


def refuse_traced(name: str, *trees: Any, instead: str = "") -> None:
    """TypeError naming a function of numbers, or its argument, where values are traced. instead: what is right, in words."""
    if is_traced(*trees):
        raise TypeError(f"{name}: works on numbers and not under jit, vmap or grad{instead}")


def as_double(x):
    """A number or array in doubles: NumPy's, which costs least, except where it is traced."""
    return jnp.asarray(x, dtype=float) if isinstance(x, Tracer) else np.asarray(x, dtype=float)


def holds_tracer(value: Any) -> bool:
    """True where a number, an array, or nested lists of them are being traced."""
    try:
        return _holds_tracer(value)
    except RecursionError:  # a list in itself, which is refused later
        return False


def _holds_tracer(value: Any) -> bool:
    if isinstance(value, ROWS):
        return not _holds_python_numbers(value) and any(map(_holds_tracer, value))
    return isinstance(value, Tracer)


def described(value: Any) -> str:
    """A short description of a value, for a message."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to write the longest of them
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array"
    if isinstance(value, np.ndarray | jax.Array) and value.ndim:
        return f"an array of {value.dtype}, shape {value.shape}"
    if callable(value):
        return type(value).__name__ if not hasattr(value, "__name__") else f"{type(value).__name__} {value.__name__}"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"{type(value).__name__} {' '.join(reprlib.repr(value).split())}"


def _check_kind(array: Any, value: Any, name: str, right: str = _PLAIN, what: str = "an array of numbers") -> None:
    kind = getattr(array.dtype, "kind", "")  # a key of jax.random has none
    if kind in ("i", "u", "f") or (kind == "V" and jnp.issubdtype(array.dtype, jnp.floating)):  # bfloat16 is of kind "V"
        return
    right = _ROTATION if hasattr(value, "as_quat") else _REAL.get(kind, right)
    raise TypeError(f"{name}: found {described(value)}, which is not {what}; {right}")


def _check_rows(rows: Iterable, name: str) -> None:
    """NumPy makes numbers of the booleans and the masked entries in a list."""
    try:
        if not _holds_python_numbers(rows):
            _check_entries(rows, name)
    except RecursionError:
        raise TypeError(f"{name}: found a list that contains itself; {_PLAIN}") from None


def _check_entries(rows: Iterable, name: str) -> None:
    for i, x in enumerate(rows):
        if isinstance(x, ROWS):
            _check_entries(x, f"{name}[{i}]")
        elif isinstance(x, np.ma.MaskedArray):
            raise TypeError(f"{name}[{i}]: found a masked entry; leave it out, or give a number")
        elif _holds_truth(x):
            raise TypeError(f"{name}[{i}]: found {described(x)}; {_TRUTH}")


def _holds_python_numbers(rows: Iterable) -> bool:
    """True if a list, nested or not, holds floats and integers of Python alone: most do, and may be long."""
    kinds = set(map(type, rows))
    return kinds <= {float, int} or (kinds <= {list, tuple, deque, UserList} and all(map(_holds_python_numbers, rows)))


def _holds_truth(x: Any) -> bool:
    return isinstance(x, bool) or getattr(getattr(x, "dtype", None), "kind", "") == "b"


def _check_finite(array: np.ndarray, name: str) -> None:
    if (good := np.isfinite(array)).all():
        return
    at = tuple(int(i) for i in np.argwhere(~good)[0])
    more = f" ({np.count_nonzero(~good)} such numbers)" if np.count_nonzero(~good) > 1 else ""
    where = f" at index {', '.join(map(str, at))}" if at else ""
    raise ValueError(f"{name}: found {array[at]}{where}{more}; every number must be finite")


def first_line(error: Exception) -> str:
    """The first line of an error's message, without the pages that follow."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def read_axis(axis: Any, names: Sequence[str] | None, argument: str, others: str) -> int:
    """The place of an actuated coordinate that is given by its name or its index; TypeError naming the argument. others:
    what else it may be, in words."""
    place = names.index(axis) if names and isinstance(axis, str) and axis in names else axis
    if not isinstance(place, int | np.integer) or isinstance(place, bool):
        named = f", of {', '.join(names)}" if names else " (the system has no coordinates= by name)"
        raise TypeError(
            f"{argument}: found {described(axis)}; give the name or the index of an actuated coordinate{named}, {others}"
        )
    return int(place)


def place_of(name: str, names: Sequence[str], owner: str) -> int:
    """The place of a name among those of the coordinates; KeyError with what there is. owner: whose they are."""
    if name in names:
        return list(names).index(name)
    if names:
        raise KeyError(f"{name!r}: the coordinates of the {owner} are {', '.join(map(repr, names))}")
    raise KeyError(
        f'{name!r}: the {owner} has no names of coordinates; build the system with coordinates=("x", …), or take {owner}.q'
    )
