"""A further call with other data compiles nothing and finds the short way, whatever the number of coordinates."""

from __future__ import annotations

import importlib

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.discretize import scheme
from dalembert.native import CACHE
from dalembert.step.run import machine as native


def rods(n: int) -> da.System:
    """A pendulum of n rods, each with a mass at its end, in their angles."""
    beyond = n - np.arange(n)
    shared = jnp.asarray(np.minimum.outer(beyond, beyond), dtype=float)

    def lagrangian(q, v):
        kinetic = 0.5 * jnp.sum(shared * jnp.cos(q[:, None] - q[None, :]) * v[:, None] * v[None, :])
        return kinetic + 9.81 * jnp.asarray(beyond, dtype=float) @ jnp.cos(q)

    return da.System(lagrangian)


@pytest.mark.parametrize("n", [10, 26])
def test_nothing_is_compiled_again(n, monkeypatch):
    """From 26 on the elimination is a loop, with pivots found in every step; it was traced and compiled in every call."""
    system, q0 = rods(n), np.full(n, 0.3)
    first = da.simulate(system, q0, np.zeros(n), h=0.01, steps=1)
    prepared, before, made = da.prepare(system, h=0.01), CACHE.compilations, []
    for module, name in ((native, "_compile"), (native, "compile_step")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *x, original=original: (made.append(1), original(*x))[1])
    for turn in range(1, 4):
        path = da.simulate(system, q0 + 0.01 * turn, 0.1 * q0, h=0.01, steps=1)
        assert path.outcome is da.Outcome.SUCCESS
        assert not np.array_equal(path.q, first.q)
    again = prepared(q0 + 0.03, 0.1 * q0, steps=1)
    np.testing.assert_array_equal(again.q, path.q)
    assert CACHE.compilations == before
    assert not made


@pytest.mark.parametrize("n", [4, 10])
def test_the_short_way_is_found(n):
    """The determinant of many rows of unit length is small also where they are far from dependent."""
    system, q0 = rods(n), np.full(n, 0.3)
    da.simulate(system, q0, np.zeros(n), h=0.01, steps=1)
    found = []
    kind = importlib.import_module("dalembert.step.run.driver").ReadyRun
    original = kind.path
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "path", lambda *x: (found.append(original(*x)), found[-1])[1])
        da.simulate(system, q0 + 0.1, np.zeros(n), h=0.01, steps=1)
    assert found[-1] is not None


def test_a_composed_scheme_is_judged_once(monkeypatch):
    """Schemes are written where they are used: their maps are compared with their adjoints once, not in every call."""
    da.Scheme(order=4)
    calls = []
    monkeypatch.setattr(scheme, "_asymmetry", lambda *x: calls.append(x))
    da.Scheme(order=4)
    da.Scheme("kick_drift_kick", order=6, distribution=da.Beta(0.5))
    assert not calls
    da.Scheme(order=4, action=da.Beta(0.25))  # others are judged
    assert len(calls) == 1
