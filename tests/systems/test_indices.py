"""Constant indices outside of an array are found wherever they stand, and no others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.systems.shapes import index_outside

KEY = jax.random.key(0)


@jax.custom_vjp
def entry(x, i):
    return x[i]


entry.defvjp(lambda x, i: (x[i], None), lambda _, c: (c, None))

OUTSIDE = {
    "one": lambda q: q[7],
    "below": lambda q: q[-4],
    "array": lambda q: q[jnp.array([0, 7])],
    "array of NumPy": lambda q: q[np.array([0, 7])],
    "below in an array": lambda q: q[jnp.array([0, -7])],
    "stacked": lambda q: q[jnp.stack([0, 7])],
    "computed": lambda q: q[2 * jnp.arange(3)],
    "taken": lambda q: jnp.take(q, jnp.array([0, 7])),
    "one taken": lambda q: jnp.take(q, 7),
    "matrix": lambda q: jnp.outer(q, q)[1, 5],
    "two arrays": lambda q: jnp.outer(q, q)[jnp.array([0, 1]), jnp.array([0, 3])],
    "columns": lambda q: jnp.outer(q, q)[:, jnp.array([0, 5])],
    "slice": lambda q: jax.lax.dynamic_slice(q, (2,), (2,)),
    "set": lambda q: q.at[7].set(1.0),
    "set row": lambda q: jnp.outer(q, q).at[5].set(0.0),
    "add": lambda q: q.at[jnp.array([1, 7])].add(1.0),
    "multiply": lambda q: q.at[jnp.array([1, 7])].multiply(2.0),
    "max": lambda q: q.at[jnp.array([4])].max(1.0),
    "update slice": lambda q: jax.lax.dynamic_update_slice(q, jnp.ones(2), (2,)),
    "in jit": lambda q: jax.jit(lambda x, i: x[i])(q, 7),
    "behind jit": lambda q: q[jax.jit(lambda i: i + 6)(jnp.array([0, 1]))],
    "in checkpoint": lambda q: jax.checkpoint(lambda x: x[jnp.array([9])])(q),
    "behind a custom derivative": lambda q: jax.nn.relu(q)[jnp.array([9])],
    "in a custom derivative": lambda q: entry(q, 9),
}
INSIDE = {
    "one": lambda q: q[2],
    "from the end": lambda q: q[-3],
    "array": lambda q: q[jnp.array([0, 2, -1])],
    "mask": lambda q: q[np.array([True, False, True])],
    "none": lambda q: q[jnp.zeros(0, int)],
    "slice": lambda q: q[1:9],
    "backwards": lambda q: q[::-1],
    "said to be clipped": lambda q: jnp.take(q, jnp.array([0, 7]), mode="clip"),
    "said to be filled": lambda q: q.at[7].get(mode="fill", fill_value=0.0),
    "product": lambda q: jnp.outer(q, q)[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 2]))],
    "triangle": lambda q: jnp.outer(q, q)[jnp.triu_indices(3)],
    "set": lambda q: jnp.outer(q, q).at[:, 1].set(q),
    "set some": lambda q: q.at[1:].set(0.0),
    "computed from q": lambda q: q[jnp.argmax(q)] + q[jnp.argsort(q)] + q[jnp.searchsorted(q, 0.5)],
    "roll": lambda q: jnp.roll(q, 5),
    "interpolated": lambda q: jnp.interp(q, jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0])),
    "grid": lambda q: jax.scipy.ndimage.map_coordinates(q, [q + 4.0], 1, mode="nearest"),
    "inverse": lambda q: jnp.linalg.inv(jnp.eye(3) + jnp.outer(q, q)),
    "exponential": lambda q: jax.scipy.linalg.expm(jnp.outer(q, q)),
    "padded": lambda q: jnp.pad(q, 2, mode="wrap") @ jnp.pad(q, 2, mode="reflect"),
    "segments": lambda q: jax.ops.segment_sum(q, jnp.array([0, 1, 1]), 2),
    "along an axis": lambda q: jnp.take_along_axis(q, jnp.array([2, 1]), 0),
    "inserted": lambda q: jnp.insert(jnp.delete(q, 1), 1, 0.0),
    "random": lambda q: q + jax.random.normal(KEY, (3,)),
    "only in a branch": lambda q: jax.lax.cond(q[0] > 0, lambda x: x[0], lambda x: x[2], q),
    "loop": lambda q: jax.lax.fori_loop(0, 3, lambda i, total: total + q[i], 0.0),
    "scan": lambda q: jax.lax.scan(lambda total, i: (total + q[i], None), 0.0, jnp.arange(3))[0],
    "derivative": lambda q: jax.grad(lambda x: x[jnp.array([1, 2])].sum())(q) + jax.hessian(lambda x: x[1] ** 3)(q),
    "small integers": lambda q: q[jnp.array([0, -1], dtype=jnp.int8)] + q[jnp.array([0, 2], dtype=jnp.uint8)],
    "quantile": lambda q: jnp.quantile(q, 0.3) + jnp.median(q),
}


def found(function):
    program = jax.make_jaxpr(function)(jnp.arange(3.0))
    return index_outside(program.jaxpr, program.consts)


@pytest.mark.parametrize("case", OUTSIDE)
def test_outside(case):
    index, length = found(OUTSIDE[case])
    assert length == 3
    assert not 0 <= index < 3 or case in ("slice", "update slice")


@pytest.mark.parametrize("case", INSIDE)
def test_inside(case):
    assert found(INSIDE[case]) is None
