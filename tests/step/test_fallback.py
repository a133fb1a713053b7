"""What machine code cannot do is done by JAX, whatever went wrong, and the warning names what was written."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dalembert as da
from dalembert.native import TOLD
from dalembert.native.stepper import compiled
from dalembert.native.trace import elementwise

Q0, V0 = np.array([0.3, -0.4, 0.9]), np.array([0.1, 1.0, -0.3])
OPTIONS = {"h": 0.1, "steps": 3}
TABLE = jnp.array([1.0, 2.0, 5.0])


@pytest.fixture(autouse=True)
def _nothing_was_told():
    before = set(TOLD)
    TOLD.clear()
    yield
    TOLD.update(before)


def harmonic(forces) -> da.System:
    return da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, forces=forces)


WRITTEN = {
    r"`jnp.interp\(q, jnp.array\(\[-1.0, 0.0, 1.0\]\), TABLE\)` \(test_fallback.py, line \d+\) in forces: ":
        harmonic(lambda q, v: -0.1 * jnp.interp(q, jnp.array([-1.0, 0.0, 1.0]), TABLE)),
    r"`jax.random.key\(0\)` \(test_fallback.py, line \d+\) in forces: ":
        harmonic(lambda q, v: 0.1 * jax.random.normal(jax.random.key(0), (3,))),
    r"`jnp.sort\(q\)` \(test_fallback.py, line \d+\) in lagrangian: ":
        da.System(lambda q, v: 0.5 * v @ v - jnp.sort(q) @ jnp.array([0.1, 0.2, 0.3])),
    r"`jnp.median\(q\)` \(test_fallback.py, line \d+\) in constraints\[0\] \(Nonholonomic\)":
        da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[0] - 0.1 - 0.0 * jnp.median(q) * v[1])),
}  # fmt: skip


@pytest.mark.parametrize("words", WRITTEN)
def test_a_warning_names_what_was_written_and_in_which_function(words):
    with pytest.warns(UserWarning, match="the slower JAX back-end is used, because of " + words) as told:
        found = da.simulate(WRITTEN[words], Q0, V0, solver=da.Solver(backend="native"), **OPTIONS)
    assert len(told) == 1
    np.testing.assert_array_equal(found.q, da.simulate(WRITTEN[words], Q0, V0, solver=da.Solver(backend="jax"), **OPTIONS).q)


def break_sine(monkeypatch):
    def broken(g, params, x):
        raise RuntimeError("two\nlines")

    monkeypatch.setitem(elementwise.ELEMENTWISE, "sin", broken)
    return r"`jnp.sin\(q\)` \(test_fallback.py, line \d+\) in forces: failed with RuntimeError: two$"


def break_llvm(monkeypatch):
    """As code that LLVM does not take."""
    monkeypatch.setattr(compiled.StepCode, "text", lambda self: "define void @run( {")
    return "translation: failed with RuntimeError: LLVM IR parsing error"


def break_plan(monkeypatch):
    def broken(*_):
        raise KeyError(93)

    monkeypatch.setattr(compiled, "choose_plan", broken)
    return "translation: failed with KeyError: 93"


def break_lanes(monkeypatch):
    monkeypatch.setattr(compiled.LaneFrame, "signature", "define void @lanes( {")
    return "translation: failed with RuntimeError: LLVM IR parsing error"


@pytest.mark.parametrize("how", [break_sine, break_llvm, break_plan, break_lanes])
def test_whatever_fails_in_the_translator_is_a_fallback(how, monkeypatch):
    system = harmonic(lambda q, v: -0.1 * jnp.sin(q))
    run = da.simulate if how is not break_lanes else da.ensemble
    q0 = Q0 if how is not break_lanes else np.tile(Q0, (9, 1))
    expected = run(system, q0, V0, solver=da.Solver(backend="jax"), **OPTIONS).q
    with pytest.warns(UserWarning, match="because of " + how(monkeypatch)):
        found = run(system, q0, V0, solver=da.Solver(backend="native"), **OPTIONS).q
    np.testing.assert_array_equal(found, expected)


# Each was wrong or raised in machine code: the value by hand, with NumPy, at q₀ and after it.
LOOKED_UP = da.System(
    lambda q, v: 0.5 * v @ v - lax.cond(q[0] > 0, lambda x: x @ x, lambda x: 0.5 * x @ x, q),
    forces=lambda q, v: jnp.stack([
        jnp.take(TABLE, jnp.floor(6 * q[0]).astype(int), mode="clip"),
        TABLE[jnp.stack([jnp.floor(9 * q[1]).astype(int), jnp.floor(9 * q[1]).astype(int) + 1])].sum(),
        jnp.select([q[2] > 1.0, q[2] > 0.5], [-v[2], 2.0 * v[2]], jnp.zeros(3).at[jnp.argmax(q)].set(v[0])[1]),
    ]),
)  # fmt: skip


def test_branches_tables_and_choices_are_translated_and_agree():
    """No warning: warnings are errors here. Every step satisfies the trapezoidal rule, with the forces by NumPy."""

    def pull(q, v):
        table, at = np.asarray(TABLE), lambda i: np.asarray(TABLE)[min(max(i if i >= 0 else i + 3, 0), 2)]
        i, j = int(np.floor(6 * q[0])), int(np.floor(9 * q[1]))
        third = -v[2] if q[2] > 1.0 else 2.0 * v[2] if q[2] > 0.5 else v[0] * (np.argmax(q) == 1)
        return np.array([table[min(max(i, 0), 2)], at(j) + at(j + 1), third]) - (2.0 if q[0] > 0 else 1.0) * q

    paths = [da.simulate(LOOKED_UP, Q0, V0, h=0.05, steps=12, solver=da.Solver(backend=b)) for b in ("native", "jax")]
    np.testing.assert_allclose(paths[0].q, paths[1].q, rtol=0, atol=1e-13)
    q, v = np.asarray(paths[0].q), np.asarray(paths[0].v)
    values = np.array([pull(a, b) for a, b in zip(q, v, strict=True)])
    np.testing.assert_allclose(np.diff(q, axis=0), 0.025 * (v[1:] + v[:-1]), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.diff(v, axis=0), 0.025 * (values[1:] + values[:-1]), rtol=0, atol=1e-12)


def test_truth_values_in_parameters_are_truth_values():
    """Their sum is "or", as in JAX, and not 2."""
    force = lambda q, v, p: -((p["on"] + p["on"]) * q)  # noqa: E731
    system = da.System(lambda q, v, p: 0.5 * v @ v, forces=force, parameters={"on": np.array([True, False, True])})
    native, jax_ = (da.simulate(system, Q0, V0, solver=da.Solver(backend=b), **OPTIONS) for b in ("native", "jax"))
    np.testing.assert_allclose(native.q, jax_.q, rtol=0, atol=1e-14)
    free = da.simulate(da.System(lambda q, v: 0.5 * v @ v - 0.5 * jnp.array([1.0, 0.0, 1.0]) @ q**2), Q0, V0, **OPTIONS)
    np.testing.assert_allclose(native.q, free.q, rtol=0, atol=1e-14)
