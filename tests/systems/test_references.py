"""Many references at once, and references inside a traced program, against single ones, closed forms and diffrax."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES

FALL = da.System(lambda q, v, p: 0.5 * v @ v + 2.0 * p["k"] * q[0] ** 3, parameters={"k": 1.0})  # q̈ = 6 k q²
T = np.array([0.0, 0.4, 1.1, 1.5])
EDGE = ENTRIES["nonholonomic_particle"]
SPEEDS = np.asarray(EDGE.v0) * np.linspace(0.5, 2.0, 20)[:, None]
CONTINUOUS = importlib.import_module("dalembert.systems.continuous")
FIELDS = ("t", "q", "v", "multipliers", "drift", "succeeded", "integrator_steps")


def same(runs, i, one):
    return all(np.array_equal(getattr(runs, name)[i], getattr(one, name), equal_nan=True) for name in FIELDS)


@pytest.mark.parametrize("t", [T, -T, np.linspace(-1.0, 4.0, 40)])
def test_no_run_depends_on_the_others_their_order_or_the_threads(t):
    """At times between the steps and at their ends."""
    runs = da.references(EDGE.system, EDGE.q0, SPEEDS, t, tolerance=1e-9, threads=1)
    assert runs.method == "Runge-Kutta"
    assert runs.t.shape == (20, len(t))
    assert runs.succeeded.all()
    assert np.abs(runs.drift).max() < 1e-14  # on the constraint to rounding, at every row
    for i in (0, 7, 19):
        one = da.reference(EDGE.system, EDGE.q0, SPEEDS[i], t)
        for name in FIELDS[:5]:
            np.testing.assert_allclose(getattr(runs, name)[i], getattr(one, name), rtol=0, atol=2e-8)
    turned = da.references(EDGE.system, EDGE.q0, SPEEDS[::-1], t, tolerance=1e-9, threads=3)
    assert all(same(turned, 19 - i, jax.tree.map(lambda x: x[i], runs)) for i in range(20))  # noqa: B023
    few = da.references(EDGE.system, EDGE.q0, SPEEDS[5:7], t, tolerance=1e-9)
    assert same(few, 1, jax.tree.map(lambda x: x[6], runs))


def test_every_run_is_limited_by_itself():
    """Refused steps, too, of which an eccentric orbit has some, count against the limit."""
    kepler = da.System(lambda q, v: 0.5 * v @ v + 1.01 / jnp.sqrt(q @ q))
    given = [[0.0, 0.3], [0.0, 0.6]], [0.0, 2.0, 7.0]
    runs = da.references(kepler, [1.0, 0.0], *given, tolerance=1e-9)
    for i, v in enumerate(given[0]):
        assert same(runs, i, da.reference(kepler, [1.0, 0.0], v, given[1], tolerance=1e-9))
    few, many = sorted(runs.integrator_steps.tolist())
    assert few < many
    most = da.references(kepler, [1.0, 0.0], *given, tolerance=1e-9, max_steps=few)
    assert most.succeeded.tolist() == (runs.integrator_steps <= few).tolist()


def test_runs_whose_solution_ceases_to_exist_leave_the_others_as_they_are():
    """1/(k (c - t)²) has no value at t = c; with k = 0 the motion is a straight line; each with a parameter of its own."""
    q0, v0, ks = (
        np.array([1.0, 1.0, -1.0, -1.0, 1.0]),
        np.array([2.0, 4.0, 0.0, 0.0, 2.0]),
        np.array([1.0, 4.0, 0.5, 0.25, 0.0]),
    )
    runs = da.references(FALL, q0[:, None], v0[:, None], T, parameters={"k": ks}, threads=1)
    assert runs.succeeded.tolist() == [False, False, True, True, True]
    for i, c in ((0, 1.0), (1, 0.5)):
        np.testing.assert_allclose(runs.q[i, :2, 0], 1 / ks[i] / (c - T[:2]) ** 2, rtol=1e-9)
        assert np.all(np.isinf(runs.q[i, 2:]))
        assert same(runs, i, da.reference(FALL.replace(k=ks[i]), q0[i : i + 1], v0[i : i + 1], T, throw=False))
    for i in (2, 3):
        np.testing.assert_allclose(runs.q[i], da.reference(FALL.replace(k=ks[i]), [-1.0], [0.0], T).q, rtol=1e-8)
    np.testing.assert_allclose(runs.q[4, :, 0], 1.0 + 2.0 * T, rtol=1e-10)


def straight(system, q, v, times, tolerance, *, solver=None, max_steps=0):
    """In place of diffrax, whose program takes seconds to compile."""
    line = q + jnp.outer(times, system.parameters["k"] ** 2 * v)
    return CONTINUOUS.Reference(
        times, line, 0 * line, line[:, :0], times, jnp.array(tolerance < 1e-7), jnp.asarray(max_steps), "line"
    )


def test_by_diffrax_each_run_has_its_own_data(monkeypatch):
    monkeypatch.setattr(CONTINUOUS, "by_diffrax", straight)
    given = [FALL, [1.0], [[2.0], [-1.0]], T]
    runs = da.references(*given, parameters={"k": [0.5, 1.0]}, tolerance=1e-8, max_steps=7, backend="diffrax")
    np.testing.assert_array_equal(runs.q[..., 0], [1 + 0.5 * T, 1 - T])
    assert runs.succeeded.tolist() == [True, True]
    assert runs.integrator_steps.tolist() == [7, 7]
    assert runs.method == "line"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q0": np.ones((2, 3))}, r"q0, v0, parameters: found axes of different lengths, \{'q0': 2, 'v0': 20\}"),
        ({"q0": np.ones((20, 1, 3))}, r"q0: found shape \(20, 1, 3\); 1 axes are needed, or 2 with one of runs"),
        ({"v0": EDGE.v0}, "none has an axis of runs; .* or use reference"),
        ({"v0": np.ones((0, 3))}, "found no run"),
        ({"v0": np.ones((20, 2))}, "v0: found 2 numbers; the system has 3 coordinates"),
        (
            {"v0": SPEEDS + np.outer(np.eye(20)[2], [0, 0, 1])},
            r"q0, v0: constraints\[0\] .* is .* and not 0.* \(run 2 of 20\)",
        ),
        ({"parameters": {"k": [1.0]}}, "parameters"),
        ({"t": [0.0, 2.0, 1.0]}, "t: found .* must increase"),
        ({"threads": 0}, "threads"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        da.references(**{"system": EDGE.system, "q0": EDGE.q0, "v0": SPEEDS, "t": T} | change)


def natively(q, v, k, t=T):
    return da.reference(FALL.replace(k=k), q, v, t, tolerance=1e-9, backend="native")


def test_in_a_traced_program_machine_code_has_the_bits_that_it_has_outside():
    """Parameters, states and times that are traced; batches of batches, in both directions of time, in one loop."""
    ks, times = np.array([0.1, 0.2]), np.stack([T, -0.5 * T, 3.0 - T])
    over = jax.vmap(jax.vmap(natively, (None, None, 0, None)), (0, 0, None, 0))
    found = jax.jit(over)(jnp.array([[0.5], [1.0], [-1.0]]), jnp.zeros((3, 1)), ks, times)
    assert found.method == "machine code"
    for i, q in enumerate((0.5, 1.0, -1.0)):
        many = da.references(FALL, [q], [0.0], times[i], parameters={"k": ks}, tolerance=1e-9)
        for j in range(2):
            assert same(jax.tree.map(lambda x: x[i], found), j, jax.tree.map(lambda x: x[j], many))  # noqa: B023
    _, ends = jax.lax.scan(lambda v, _: (natively(jnp.zeros(1), v, 0.1).v[-1],) * 2, jnp.array([0.3]), length=2)
    first = da.reference(FALL.replace(k=0.1), [0.0], [0.3], T, tolerance=1e-9).v[-1]
    second = da.reference(FALL.replace(k=0.1), [0.0], first, T, tolerance=1e-9).v[-1]
    np.testing.assert_array_equal(ends, [first, second])


def test_in_a_traced_program_what_cannot_be_integrated_does_not_succeed():
    run = jax.jit(natively)
    late = run(jnp.ones(1), 2.0 * jnp.ones(1), 1.0)
    assert not late.succeeded
    np.testing.assert_allclose(late.q[:2, 0], (1 - T[:2]) ** -2.0, rtol=1e-7)
    for q, t in ((1.0, T[[0, 2, 1, 3]]), (1.0, 0.0 * T), (np.nan, T), (1.0, T * np.nan)):
        lost = run(jnp.full(1, q), jnp.zeros(1), 0.1, t)
        assert not lost.succeeded
        assert np.all(np.isnan(lost.q))


def test_derivatives_of_machine_code_are_those_of_diffrax(monkeypatch):
    monkeypatch.setattr(CONTINUOUS, "by_diffrax", straight)
    end = lambda k, v: natively(jnp.ones(1), v, k).q[-1, 0]  # noqa: E731
    by_k, by_v = jax.grad(end, (0, 1))(0.1, jnp.array([-0.5]))
    np.testing.assert_allclose([by_k, by_v[0]], [2 * 0.1 * -0.5 * T[-1], 0.1**2 * T[-1]], rtol=1e-14)


def test_multipliers_are_those_of_their_call_however_late_they_are_asked_for():
    """And of many: nothing that happened since, with other parameters in the same arrays, changes them."""
    one = da.reference(EDGE.system, EDGE.q0, EDGE.v0, T)
    da.reference(EDGE.system, EDGE.q0, 3.0 * np.asarray(EDGE.v0), T)
    q, v = np.asarray(one.q), np.asarray(one.v)
    exact = v[:, 0] * v[:, 1] / (1 + q[:, 1] ** 2)
    np.testing.assert_allclose(np.abs(one.multipliers[:, 0]), np.abs(exact), rtol=0, atol=1e-9)
    assert one.drift.shape == (4,)
