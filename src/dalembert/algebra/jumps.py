"""Whether a function may jump, or has derivatives that are not its own: read from its operations.

A derivative that vanishes proves nothing: those of sign, floor or a comparison do, and those of stop_gradient and of custom
rules are what their author says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import Literal, Primitive
from jax.interpreters import batching, mlir
from jaxtyping import Array, Bool

from dalembert.tracing.evaluation.program import scan_sizes

# Operations whose values are continuous where they are finite; what is not in the list may jump.
_CONTINUOUS = frozenset([
    "abs", "acos", "acosh", "add", "add_any", "asin", "asinh", "atan", "atanh", "bessel_i0e", "bessel_i1e",
    "broadcast_in_dim", "cbrt", "cholesky", "clamp", "concatenate", "conv_general_dilated", "copy", "copy_p", "cos", "cosh",
    "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "device_put", "digamma", "div", "dot_general", "dynamic_slice",
    "dynamic_update_slice", "eigh", "empty", "empty2", "erf", "erf_inv", "erfc", "exp", "exp2", "expand_dims", "expm1",
    "gather", "householder_product", "igamma", "igammac", "imag", "integer_pow", "iota", "lgamma", "log", "log1p", "log2",
    "logistic", "lu", "max", "min", "mul", "neg", "one_minus_square", "optimization_barrier", "pad", "platform_index",
    "polygamma", "polynomial", "pow", "pvary", "real", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum",
    "regularized_incomplete_beta", "reshape", "rev", "rsqrt", "scatter", "scatter-add", "scatter-mul", "scatter-sub",
    "select_n", "sharding_constraint", "sin", "sinh", "slice", "split", "sqrt", "square", "squeeze", "stack", "sub", "svd",
    "tan", "tanh", "tile", "transpose", "triangular_solve", "tridiagonal_solve", "unstack", "zeta",
])  # fmt: skip
_DECLARED = frozenset(["stop_gradient", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"])

agree_p = Primitive("agree")
agree_p.def_impl(lambda condition: condition)
agree_p.def_abstract_eval(lambda condition: condition)
mlir.register_lowering(agree_p, lambda _, condition: [condition])
batching.defvectorized(agree_p)


def agree(condition: Bool[Array, ""]) -> Bool[Array, ""]:
    """The condition itself, marked with a promise: the two branches that it selects agree where it changes.

    `may_jump` then takes the selection as continuous.

    Args:
        condition: a boolean, traced or not.

    Returns:
        The condition.
    """
    return agree_p.bind(condition)


def may_jump(function: Callable, point: Array) -> bool:
    """Whether the function may be discontinuous, or may have declared derivatives that are not its own.

    The operations of the function are read, not its values: a comparison or a rounding may jump, and stop_gradient and
    custom derivative rules return what their author declares.

    Args:
        function: a function of one array, traceable by JAX.
        point: an array of the shape that the function takes; its values are not read.

    Returns:
        True if it may.

    Example:
        >>> from dalembert.algebra import may_jump
        >>> may_jump(jnp.sin, jnp.zeros(2)), may_jump(jnp.sign, jnp.zeros(2))
        (False, True)
    """
    return any(jumps for _, jumps in _found(function, point))


def depends(function: Callable, point: Array) -> bool:
    """Whether the function depends on its argument, judged from its operations and not from its values.

    Args:
        function: a function of one array, traceable by JAX.
        point: an array of the shape that the function takes; its values are not read.

    Returns:
        True if it may.

    Example:
        >>> from dalembert.algebra import depends
        >>> depends(jnp.sin, jnp.zeros(2)), depends(lambda x: jnp.zeros_like(x), jnp.zeros(2))
        (True, False)
    """
    return any(reads for reads, _ in _found(function, point))


Found = tuple[bool, bool]  # whether a value depends on the argument; whether it may jump with it


def _found(function: Callable, point: Array) -> list[Found]:
    """Of every output of a function of one array."""
    jaxpr = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(point.shape, point.dtype))
    return _outputs(jaxpr.jaxpr, [(True, False)])


def _outputs(jaxpr: Any, given: list[Found]) -> list[Found]:
    """What is found of the outputs of a jaxpr, given what is known of its inputs."""
    known: dict[Any, Found] = dict(zip(jaxpr.invars, given, strict=True))

    def read(atom) -> Found:
        return (False, False) if isinstance(atom, Literal) else known.get(atom, (False, False))

    for eqn in jaxpr.eqns:
        known.update(zip(eqn.outvars, _results(eqn, [read(x) for x in eqn.invars]), strict=True))
    return [read(x) for x in jaxpr.outvars]


def _results(eqn: Any, given: list[Found]) -> list[Found]:
    name, number = eqn.primitive.name, len(eqn.outvars)
    depends, jumps = any(d for d, _ in given), any(j for _, j in given)
    if not depends or name == "agree":
        return [(False, False)] * number
    if name in _DECLARED:
        return [(True, True)] * number
    if name in _OF_PARTS:
        return _OF_PARTS[name](eqn, given)
    inner = [j for j in _jaxprs(eqn) if len(j.invars) == len(given) and len(j.outvars) == number]
    if len(inner) == 1:
        return _outputs(inner[0], given)
    return [(True, jumps or not (name in _CONTINUOUS or _between_numbers(eqn)))] * number


def _between_numbers(eqn: Any) -> bool:
    kinds = [v.aval.dtype.kind for v in (*eqn.invars, *eqn.outvars) if hasattr(v.aval, "dtype")]
    return eqn.primitive.name == "convert_element_type" and all(kind in "fc" for kind in kinds)


def _jaxprs(eqn: Any) -> Iterator[Any]:
    for part in eqn.params.values():
        for p in part if isinstance(part, tuple | list) else (part,):
            if hasattr(getattr(p, "jaxpr", p), "eqns"):
                yield getattr(p, "jaxpr", p)


def _either(*sides: list[Found]) -> list[Found]:
    return [(any(d for d, _ in found), any(j for _, j in found)) for found in zip(*sides, strict=True)]


def _cond(eqn: Any, given: list[Found]) -> list[Found]:
    if given[0][0]:  # an index that depends jumps
        return [(True, True)] * len(eqn.outvars)
    return _either(*(_outputs(branch.jaxpr, given[1:]) for branch in eqn.params["branches"]))


def _while(eqn: Any, given: list[Found]) -> list[Found]:
    p = eqn.params
    a, b = p["cond_nconsts"], p["body_nconsts"]
    test, fixed, carry = given[:a], given[a : a + b], given[a + b :]
    carry = _settled(lambda x: _outputs(p["body_jaxpr"].jaxpr, [*fixed, *x]), carry)
    turns = _outputs(p["cond_jaxpr"].jaxpr, [*test, *carry])[0][0]
    return [(True, True)] * len(carry) if turns else carry


def _scan(eqn: Any, given: list[Found]) -> list[Found]:
    a, carried = scan_sizes(eqn.params)
    b = a + carried
    body = lambda x: _outputs(eqn.params["jaxpr"].jaxpr, [*given[:a], *x, *given[b:]])  # noqa: E731
    carry = _settled(lambda x: body(x)[: b - a], given[a:b])
    return [*carry, *body(carry)[b - a :]]


def _linear_solve(eqn: Any, given: list[Found]) -> list[Found]:
    """The solution is that of its matrix and right-hand side, whatever else the solver is given."""
    lengths = eqn.params["const_lengths"]
    used = given[: lengths.matvec] + given[sum(lengths) :]
    return [(any(d for d, _ in used), any(j for _, j in used))] * len(eqn.outvars)


def _settled(body: Callable, carry: list[Found]) -> list[Found]:
    while (after := _either(carry, body(carry))) != carry:
        carry = after
    return carry


_OF_PARTS = {"custom_linear_solve": _linear_solve, "cond": _cond, "while": _while, "scan": _scan}
