"""Errors in the user's functions: the shape and type of what they return, and indices outside of their arrays.

JAX reads or writes another entry at such an index, or none, without an error. If it is a constant, it stands in the traced
program as a number, or as a few operations on constants, which are worked out here by NumPy. Looked at is what every call of
the function does, not the branches of a cond or bodies of loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend as jex
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dalembert.messages import at_users_line
from dalembert.numbers import first_line
from dalembert.tracing import RULES, OnShapes, Slices, gather_slices, scatter_slices

LARGEST = 4096  # numbers in an array of indices that is worked out


def output_shape(function: Callable[[], object], name: str, arguments: str) -> tuple[int, ...]:
    """Shape of what a user's function returns; TypeError or ValueError that names it where it cannot be used.

    arguments: how it is called, for the message. Call it inside `run_on_shapes`, so that the arguments are traced values.
    """
    return trace_output(function, name, arguments)[1]


def trace_output(function: Callable[[], object], name: str, arguments: str):
    """The traced function, and the shape of what it returns; errors as of `output_shape`."""
    jaxpr, result = _trace(function, name, arguments)
    if not jnp.issubdtype(result.dtype, jnp.floating):
        raise TypeError(
            f"{name}: returns {result.dtype}; a real floating point result is needed (it is differentiated). "
            "Perhaps it does not depend on its arguments, or rounds them; write 0.5 and not 1 // 2"
        )
    check_indices(jaxpr, name)
    return jaxpr, tuple(result.shape)


def check_scalar(function: Callable[[], object], name: str, arguments: str) -> None:
    """ValueError where a function returns anything but a scalar."""
    shape = output_shape(function, name, arguments)
    if shape:
        raise ValueError(f"{name}: returns shape {shape}; a scalar is needed")


def condition_shape(function: Callable[[], object], name: str, arguments: str) -> tuple[int, ...]:
    """The `output_shape` of a function that returns true or false."""
    jaxpr, result = _trace(function, name, arguments)
    if result.dtype != bool:
        raise TypeError(f"{name}: returns {result.dtype}; a condition such as q[0] > 1 is needed")
    check_indices(jaxpr, name)
    return tuple(result.shape)


def check_indices(jaxpr, name: str) -> None:
    """ValueError where a traced function of the user reads or writes outside of an array."""
    outside = index_outside(jaxpr.jaxpr, jaxpr.consts)
    if outside is not None:
        raise ValueError(
            f"{name}: reads index {outside[0]} of an array of {outside[1]}; JAX would read another entry, or write none, "
            "without an error"
        )


def run_on_shapes(check: Callable, *arguments):
    """A check on shapes alone, of a function that is made where it is called."""
    return OnShapes(check)(*arguments)


def _trace(function: Callable[[], object], name: str, arguments: str):
    try:
        return jax.make_jaxpr(lambda: jnp.asarray(function()), return_shape=True)()
    except Exception as error:
        raise at_users_line(_users_error(error, name, arguments), error) from None


def _users_error(error: Exception, name: str, arguments: str) -> Exception:
    """The TypeError or ValueError that says in words what a user's function has raised."""
    if isinstance(error, jax.errors.TracerBoolConversionError | jax.errors.TracerIntegerConversionError):
        return TypeError(
            f"{name}: uses Python control flow (if, while, and, or, range) on a traced value. Write jnp.where(...) or "
            f"jax.lax.cond(...) instead. ({first_line(error)})"
        )
    if isinstance(error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError):
        return TypeError(
            f"{name}: turns a traced value into a Python or NumPy number. Use jax.numpy (jnp.sin, not math.sin or "
            f"np.sin), without float(), int() and .item(). ({first_line(error)})"
        )
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("---")]  # one of JAX's does
    words = "; ".join([f"{type(error).__name__}: {error}", *notes])
    return (ValueError if isinstance(error, ValueError | LookupError) else TypeError)(
        f"{name}: could not be evaluated: {words}. It is called as f({arguments}) with vectors "
        "of shape (n,), t only if time_dependent=True, p only if parameters are given; it returns numbers"
    )


class _Outside(Exception):
    """Carries (index, length) out of the functions that the traced one calls."""


def index_outside(jaxpr, constants: Sequence[Any]) -> tuple[int, int] | None:
    """The first constant index of a traced program that lies outside of its array, and the length there."""
    try:
        _walk(jaxpr, constants, [None] * len(jaxpr.invars))
    except _Outside as found:
        return found.args
    return None


def _walk(jaxpr, constants: Sequence[Any], arguments: Sequence[Any]) -> list[np.ndarray | None]:
    """The results of a program that are constants; None for the others."""
    known: dict = dict(zip(jaxpr.constvars, map(_small, constants), strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))

    def known_value(x):
        return known.get(x) if isinstance(x, jex.core.Var) else _small(x.val)

    for equation in jaxpr.eqns:
        values, name = [known_value(x) for x in equation.invars], equation.primitive.name
        if (read := _READS.get("scatter" if name.startswith("scatter") else name)) is not None:
            read(equation, values)
        elif (inner := _inner(equation)) is not None:
            known |= dict(zip(equation.outvars, _walk(*inner, values), strict=True))
        elif name in _FOLDED and all(x is not None for x in values) and equation.outvars[0].aval.size <= LARGEST:
            function = RULES[name](equation)
            known[equation.outvars[0]] = None if function is None else function(*values)
    return [known_value(x) for x in jaxpr.outvars]


def _small(value) -> np.ndarray | None:
    """The value of a constant that may be an index."""
    if not isinstance(value, int | np.ndarray | np.generic | jax.Array) or isinstance(value, Tracer):
        return None
    whole = getattr(getattr(value, "dtype", np.dtype(int)), "kind", "") in ("i", "u", "b")  # a key of jax.random has none
    return np.asarray(value) if whole and np.size(value) <= LARGEST else None


def _inner(equation):
    """The program and the constants of a function under jit, or the like: it is called once, with these arguments."""
    found = equation.params.get("jaxpr", equation.params.get("call_jaxpr")) if equation.primitive.name in _CALLS else None
    if found is None:
        return None
    inner, constants = (found.jaxpr, found.consts) if isinstance(found, jex.core.ClosedJaxpr) else (found, ())
    same = len(inner.invars) == len(equation.invars) and len(inner.outvars) == len(equation.outvars)
    return (inner, constants) if same else None


_FOLDED = frozenset([
    "lt", "add", "sub", "mul", "neg", "select_n", "convert_element_type", "broadcast_in_dim", "reshape", "squeeze",
    "expand_dims", "concatenate", "stack", "iota",
])  # fmt: skip
_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat", "remat2")


def _slice(equation, values) -> None:
    """dynamic_slice(x, start, …), which JAX moves inside."""
    _check_slices(values[1:], equation.invars[0].aval.shape, equation.params["slice_sizes"])


def _update_slice(equation, values) -> None:
    _check_slices(values[2:], equation.invars[0].aval.shape, equation.invars[1].aval.shape)


def _gather(equation, values) -> None:
    """x[indices]; not where the user has said by mode= or fill_value= what is to be read outside."""
    mode, fill = str(equation.params["mode"]), equation.params["fill_value"]
    if "CLIP" not in mode and not ("FILL" in mode and fill is not None and not np.isnan(fill)):
        _check_columns(values[1], gather_slices(equation), equation.invars[0].aval.shape)


def _scatter(equation, values) -> None:
    """x.at[indices].set(…), .add(…), …"""
    shape, updates = equation.invars[0].aval.shape, equation.invars[2].aval.shape
    if "CLIP" not in str(equation.params["mode"]):
        _check_columns(values[1], scatter_slices(equation, updates, len(shape)), shape)


def _check_columns(indices, slices: Slices, shape) -> None:
    """indices: (…, k), a column for each of the axes of an operand of this shape."""
    if indices is not None:
        axes = slices.index_map
        _check_slices([indices[..., k] for k in range(len(axes))], [shape[i] for i in axes], [slices.sizes[i] for i in axes])


def _check_slices(starts, lengths, sizes) -> None:
    for start, length, size in zip(starts, lengths, sizes, strict=True):
        flat = np.ravel(0 if start is None else start)
        outside = flat[(flat < 0) | (flat > length - size)]
        if outside.size and start is not None:
            raise _Outside(int(outside[0]), int(length))


_READS: dict[str, Callable] = {
    "dynamic_slice": _slice,
    "dynamic_update_slice": _update_slice,
    "gather": _gather,
    "scatter": _scatter,
}
