"""F(z) with F′(z): by JAX along the unit vectors, or left to who translates the traced program, as one operation of it."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

jacobian_p = Primitive("jacobian")
jacobian_p.multiple_results = True


class _Left(threading.local):
    """Flag of a thread: true while it traces for a reader that differentiates on its own."""

    now = False


_LEFT = _Left()


@contextlib.contextmanager
def left_to_the_reader() -> Iterator[None]:
    """Context in which a function is traced for a translator that knows `jacobian_p`: its Jacobians are not spelled out."""
    before, _LEFT.now = _LEFT.now, True
    try:
        yield
    finally:
        _LEFT.now = before


def value_and_jacobian(function: Callable[[Array], Any], z: Float[Array, "z"]) -> tuple[Any, Any]:
    """F(z) and F′(z), (…, z), with one tracing of F: forward mode along the unit vectors. F: an array or a tree of them."""
    if not _LEFT.now:
        return _along_unit_vectors(function, z)
    trees = []

    def flat(x):
        leaves, tree = jax.tree.flatten(function(x))
        trees.append(tree)
        return [jnp.asarray(leaf) for leaf in leaves]

    closed = jax.make_jaxpr(flat)(z)
    bare = closed.jaxpr  # what F closes over is an argument, too
    bare = bare.replace(constvars=[], invars=[*bare.constvars, *bare.invars])
    found = jacobian_p.bind(*closed.consts, z, jaxpr=bare)
    half = len(found) // 2
    return jax.tree.unflatten(trees[-1], found[:half]), jax.tree.unflatten(trees[-1], found[half:])


def _along_unit_vectors(function: Callable[[Array], Any], z: Float[Array, "z"]) -> tuple[Any, Any]:
    return jax.vmap(lambda d: jax.jvp(function, (z,), (d,)), out_axes=(None, -1))(jnp.eye(z.shape[0]))


def spelled_out(*arguments: Any, jaxpr: Any) -> list[Any]:
    """Values and Jacobians of the operation `jacobian_p`, computed by JAX."""
    *consts, z = arguments
    values, slopes = _along_unit_vectors(lambda x: eval_jaxpr(jaxpr, (), *consts, x), z)
    return [*values, *slopes]


@jacobian_p.def_abstract_eval
def _shapes(*arguments: Any, jaxpr: Any) -> list[Any]:
    of = [v.aval for v in jaxpr.outvars]
    return [*of, *(x.update(shape=(*x.shape, *arguments[-1].shape)) for x in of)]


def _batch(arguments: Any, axes: Any, **given: Any) -> Any:
    found = jax.vmap(functools.partial(spelled_out, **given), axes)(*arguments)
    return found, [0] * len(found)


jacobian_p.def_impl(spelled_out)
mlir.register_lowering(jacobian_p, mlir.lower_fun(spelled_out, multiple_results=True))
batching.primitive_batchers[jacobian_p] = _batch
ad.primitive_jvps[jacobian_p] = lambda primals, tangents, **given: jax.jvp(
    functools.partial(spelled_out, **given), primals, tuple(map(ad.instantiate_zeros, tangents))
)
