"""Reduced values of any type are the same on both back-ends: numbers of the run, integers exact, and nothing truncated."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

FREE = da.System(lambda q, v: 0.5 * v @ v)  # q_k = q₀ + k h v₀, to rounding
Q0, V0, H, STEPS = np.array([0.25, 0.5]), np.array([1.0, -0.25]), 0.125, 6
Q = Q0 + H * np.arange(1, STEPS + 1)[:, None] * V0

# From what it starts, function(value, q), and the value at the end: in closed form, in the type it settles at.
REDUCERS = {
    "a float sum from 0": (0, lambda r, q: r + q[0], np.float64(Q[:, 0].sum())),
    "a maximum from an integer": (-3, lambda r, q: jnp.maximum(r, q[1]), np.float64(Q[:, 1].max())),
    "a count": (0, lambda r, q: r + 1, np.int64(STEPS)),
    "more than 2**53": (2**53 + 1, lambda r, q: r + 2, np.int64(2**53 + 1 + 2 * STEPS)),
    "past 2**63": (2**63 - 3, lambda r, q: r + 1, np.int64(-(2**63) + STEPS - 3)),
    "int32": (np.int32(2**31 - 3), lambda r, q: r + (q[0] > 0), np.int32(-(2**31) + STEPS - 3)),
    "uint8": (np.uint8(3), lambda r, q: r * np.uint8(3), np.uint8(3 ** (STEPS + 1) % 256)),
    "truth": (False, lambda r, q: r | (q[1] < 0.4), np.bool_(True)),
    "several": (
        {"n": np.zeros(2, int), "far": 0.0, "all": np.array([True, True])},
        lambda r, q: {"n": r["n"] + (q > 0.4), "far": jnp.maximum(r["far"], q @ q), "all": r["all"] & (q > 0.3)},
        {"n": (Q > 0.4).sum(0), "far": np.float64((Q * Q).sum(1).max()), "all": (Q > 0.3).all(0)},
    ),
}
START = {name: start for name, (start, _, _) in REDUCERS.items()}


def together(r, t, q, v, multipliers):
    return {name: function(r[name], q) for name, (_, function, _) in REDUCERS.items()}


@pytest.mark.parametrize("how", ["native", "jax", "lanes", "jit"])
def test_values_and_types(how):
    """One run with all of them."""
    options = {"h": H, "steps": STEPS, "save": da.Save(reduce=(together, START))}
    if how == "lanes":
        many = da.ensemble(FREE, np.tile(Q0, (17, 1)), V0, **options)
        found = jax.tree.map(lambda x: x[16], many.reduced)
    elif how == "jit":
        found = jax.jit(lambda q: da.simulate(FREE, q, V0, **options).reduced)(Q0)
    else:
        found = da.simulate(FREE, Q0, V0, solver=da.Solver(backend=how), **options).reduced
    for name, (_, _, expected) in REDUCERS.items():
        for a, b in zip(jax.tree.leaves(found[name]), jax.tree.leaves(expected), strict=True):
            assert np.asarray(a).dtype == b.dtype, name
            np.testing.assert_allclose(a, b, rtol=1e-15 if b.dtype.kind == "f" else 0, err_msg=name)


@pytest.mark.parametrize(
    ("start", "step", "kind"),
    [(np.uint64(2**63), np.uint64(2), "uint64"), (np.float32(0), np.float32(0.5), "float32")],
    ids=["uint64", "float32"],
)
def test_what_machine_code_cannot_hold_runs_on_jax(start, step, kind):
    run = lambda: da.simulate(FREE, Q0, V0, h=H, steps=STEPS, save=da.Save(reduce=(lambda r, t, q, v, m: r + step, start)))  # noqa: E731
    with pytest.warns(UserWarning, match=f"JAX back-end is used, because of reduce: on {kind}"):
        found = run().reduced
    assert np.asarray(found).dtype == kind
    assert np.asarray(found) == start + STEPS * step
