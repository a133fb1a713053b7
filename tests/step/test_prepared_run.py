"""A run that was made before is made again from its numbers alone: path, checks, words and records of the ordinary way.

The oracle is that way, in which every check is made on its own: `simulate` with the short way closed.
"""

import importlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.step.run import driver
from dalembert.tracing import arguments

door = importlib.import_module("dalembert.step.simulation")
K = 1.0
ROLL = [0.0, 0.0, 0.3, 0.25, 0.5], [np.cos(0.3), np.sin(0.3), 0.2, 0.1, 0.1]
SWING = [0.6, 0.0, -0.8], [0.0, 0.5, 0.0]


def rolling(q, v):
    return v[0] * jnp.sin(q[2]) - v[1] * jnp.cos(q[2])


BOTH = da.System(
    lambda q, v: 0.5 * v @ v + K * jnp.cos(q[2]), [da.Nonholonomic(rolling), da.Holonomic(lambda q: q[3] - q[4] ** 2)]
)
KNIFE = da.System(
    lambda q, v, p: 0.5 * p["m"] * v @ v - q[0], da.Nonholonomic(lambda q, v, p: rolling(q, v)), parameters={"m": 2.0}
)
SPHERE = da.System(lambda q, v: 0.5 * v @ v - q[2], da.Holonomic(lambda q: q @ q - 1.0))
SPRING = da.System(lambda q, v, t: 0.5 * v @ v - (1.0 + 0.5 * jnp.sin(t)) * (q @ q), time_dependent=True)
HELD = da.SampledFeedback(lambda q, v, t: -0.1 * v, every=3)


def by_domain(q, v):
    return q[0] > 0.2


CASES = {
    "holonomic and nonholonomic": (BOTH, *ROLL, {}),
    "nonholonomic, thinned": (KNIFE, [0.0, 0.0, 0.3], ROLL[1][:3], {"save": da.Save(every=4)}),
    "on nodes": (KNIFE, [0.0, 0.0, 0.3], ROLL[1][:3], {"scheme": da.Scheme("nodes")}),
    "on nodes, the last alone": (
        KNIFE,
        [0.0, 0.0, 0.3],
        ROLL[1][:3],
        {"scheme": da.Scheme("nodes"), "save": da.Save(every=None)},
    ),
    "of order 4": (SPHERE, *SWING, {"scheme": da.Scheme(order=4)}),
    "stopped": (SPHERE, *SWING, {"stop": lambda q, v: q[1] > 0.3}),
    "in time, with a law": (SPRING, [1.0], [0.0], {"feedback": HELD, "save": da.Save(every=2)}),
}


def run_of(system, options):
    return da.prepare(system, h=0.02, **options)


@pytest.fixture
def the_long_way(monkeypatch):
    """A call in which everything is looked at."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setattr(importlib.import_module("dalembert.step.run.driver"), "find_run", lambda *_: None)
            patch.setattr(door.PreparedRun, "_at_once", lambda *_: None)
            return function()

    return call


@pytest.mark.parametrize("name", CASES)
def test_the_path_is_that_of_the_long_way_and_the_same_to_the_bit_in_every_call(name, the_long_way):
    system, q0, v0, options = CASES[name]
    run = run_of(system, options)
    first, again = run(q0, v0, 30, t0=0.5), run(np.array(q0), v0, 30, t0=0.5)
    once = da.simulate(system, q0, v0, h=0.02, steps=30, t0=0.5, **options)
    wanted = the_long_way(lambda: run(q0, v0, 30, t0=0.5))
    assert first.provenance == once.provenance == wanted.provenance
    assert jax.tree.structure(first) == jax.tree.structure(wanted)
    for x, y, z, w in zip(*map(jax.tree.leaves, (first, again, once, wanted)), strict=True):
        assert np.array_equal(x, y, equal_nan=True)
        assert np.array_equal(x, z, equal_nan=True)
        assert x.dtype == w.dtype
        np.testing.assert_allclose(x, w, rtol=1e-9, atol=1e-11)


WRONG = {
    "too long": (BOTH, [*ROLL[0], 1.0], ROLL[1]),
    "of different lengths": (BOTH, ROLL[0], ROLL[1][:4]),
    "not finite": (BOTH, [np.nan, *ROLL[0][1:]], ROLL[1]),
    "off the manifold": (BOTH, [0.0, 0.0, 0.3, 0.26, 0.5], ROLL[1]),
    "velocity off the constraint": (BOTH, ROLL[0], [1.0, 1.0, 0.2, 0.1, 0.1]),
    "barely off": (SPHERE, [0.6, 0.0, -0.8 - 1e-6], [0.0, 0.5, 0.0]),
    "at a singular point": (SPHERE, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    "a parameter": (KNIFE.replace(m=0.0), [0.0, 0.0, 0.3], ROLL[1][:3]),
    "of no number": (KNIFE, [0.0, 0.0, "a"], ROLL[1][:3]),
    "missing": (KNIFE, None, ROLL[1][:3]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_in_the_same_words(name, the_long_way):
    system, q0, v0 = WRONG[name]
    run = run_of(system, {})
    for good_system, q, v, options in CASES.values():  # known by now
        if good_system is system and not options:
            run(q, v, 5)
    with pytest.raises((ValueError, TypeError)) as wanted:
        the_long_way(lambda: run(q0, v0, 5))
    with pytest.raises((ValueError, TypeError)) as found:
        run(q0, v0, 5)
    assert type(found.value) is type(wanted.value)
    assert str(found.value) == str(wanted.value)


def test_a_function_that_is_no_number_at_one_state_is_refused_there():
    """0/0 in a constraint and in a force: machine code does not multiply by zeros that it knows, the check must."""
    curved = da.System(
        lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: (v[0] * a[1] - v[1] * a[0]) / (v @ v) ** 1.5 - 1.0)
    )
    rubbed = da.System(lambda q, v: 0.5 * v @ v, forces=lambda q, v: -v / jnp.sqrt(v @ v))
    for system, words in (
        (curved, r"constraints\[0\] \(SecondOrder\) phi: is \[nan\]"),
        (rubbed, r"forces: is \[nan nan\]"),
    ):
        run = run_of(system, {})
        assert run([0.0, 0.0], [1.0, 0.5], 5).steps == 5
        with pytest.raises(ValueError, match=words):
            run([0.0, 0.0], [0.0, 0.0], 5)


@pytest.mark.parametrize(
    "options", [{"scheme": da.Scheme("nodes")}, {"scheme": da.Scheme(order=4)}, {"stop": da.Stop(domain=by_domain)}]
)
def test_a_step_that_fails_ends_in_the_same_outcome(options, the_long_way):
    """A point falls towards q = 0, where there is no force; or leaves where it shall stay."""
    falling = da.System(lambda q, v: 0.5 * v @ v - jnp.sum(jnp.sqrt(q)))
    run = da.prepare(falling, h=0.1, **options)
    with pytest.raises(da.StepError) as found:
        run([0.5], [-0.5], 20)
    with pytest.raises(da.StepError) as wanted:
        the_long_way(lambda: run([0.5], [-0.5], 20))
    assert str(found.value) == str(wanted.value)
    partial = run([0.5], [-0.5], 20, throw=False)
    assert partial.outcome.failed
    assert 0 < partial.steps < 20
    assert partial.outcome is wanted.value.path.outcome
    assert partial.q.shape == wanted.value.path.q.shape
    assert int(partial.statistics.failed_step) == int(wanted.value.path.statistics.failed_step)


class Settings:
    k = 1.0


def by_global():
    def change(k):
        global K
        K = k

    return (lambda q, v: 0.5 * v @ v - K * (q @ q)), change


def by_closure():
    k = 1.0

    def change(new):
        nonlocal k
        k = new

    return (lambda q, v: 0.5 * v @ v - k * (q @ q)), change


def by_code():
    def lagrangian(q, v):
        return 0.5 * v @ v - q @ q

    def change(new):
        lagrangian.__code__ = (lambda q, v: 0.5 * v @ v - 4.0 * (q @ q)).__code__

    return lagrangian, change


def by_default():
    def lagrangian(q, v, k=1.0):
        return 0.5 * v @ v - k * (q @ q)

    def change(new):
        lagrangian.__defaults__ = (new,)

    return lagrangian, change


def by_array():
    k = np.ones(2)
    return (lambda q, v: 0.5 * v @ v - k[0] * (q @ q)), lambda new: k.fill(new)


def by_class():
    return (lambda q, v: 0.5 * v @ v - Settings.k * (q @ q)), lambda new: setattr(Settings, "k", new)


def by_function_that_is_called():
    def spring(q):
        return q @ q

    def change(new):
        nonlocal spring
        spring = lambda q: 4.0 * (q @ q)  # noqa: E731

    return (lambda q, v: 0.5 * v @ v - spring(q)), change


@pytest.mark.parametrize(
    "made", [by_global, by_closure, by_code, by_default, by_array, by_class, by_function_that_is_called]
)
def test_a_changed_function_is_seen(made):
    """With L = v²/2 - k q² the midpoint rule turns by the angle 2 atan(h √(2k)/2) in a step."""
    lagrangian, change = made()
    run = da.prepare(da.System(lagrangian), h=0.1)

    def angle(k):
        return 10 * 2.0 * np.arctan(0.05 * np.sqrt(2.0 * k))

    try:
        for _ in range(2):
            np.testing.assert_allclose(run([1.0], [0.0], 10).q[-1, 0], np.cos(angle(1.0)), rtol=0, atol=1e-12)
        change(4.0)
        for _ in range(2):
            np.testing.assert_allclose(run([1.0], [0.0], 10).q[-1, 0], np.cos(angle(4.0)), rtol=0, atol=1e-12)
    finally:
        if made is not by_code:
            change(1.0)


def test_threads_do_not_disturb_each_other():
    run = run_of(BOTH, {})
    starts = [(i, 10 + i % 7) for i in range(64)]

    def one(start):
        i, steps = start
        return np.asarray(run([0.01 * i, *ROLL[0][1:]], ROLL[1], steps).q)

    alone = [one(start) for start in starts]
    with ThreadPoolExecutor(8) as pool:
        for found, wanted in zip(pool.map(one, starts), alone, strict=True):
            assert np.array_equal(found, wanted)


def test_a_run_inside_of_jit_and_grad():
    run = run_of(SPRING, {})
    end = lambda x: run(jnp.stack([x]), jnp.zeros(1), 8).q[-1, 0]  # noqa: E731
    plain = float(run([1.0], [0.0], 8).q[-1, 0])
    np.testing.assert_allclose(jax.jit(end)(1.0), plain, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(end)(1.0), plain, rtol=1e-10)  # linear equations


SOURCE = """
def lagrangian(q, v):
    return 0.5 * v @ v + jnp.cos(q[0])
system = da.System(lagrangian)
"""


def test_fresh_copies_share_everything_and_are_forgotten(monkeypatch):
    made, original = [], driver._compile_run
    monkeypatch.setattr(driver, "_compile_run", lambda *x: made.append(1) or original(*x))

    def copy():
        names = {"jnp": jnp, "da": da, "__name__": "cell"}
        exec(SOURCE, names)
        return da.simulate(names["system"], [1.0], [0.1], h=0.1, steps=3)

    paths = [copy() for _ in range(driver.REMEMBERED + 20)]
    assert len(made) == 1
    assert all(np.array_equal(paths[0].q, path.q) for path in paths[::40])
    assert len(arguments._CONTENTS) <= arguments._CONTENTS.most
    bound = [entry[0].bound for entry in driver._KNOWN._values.values() if entry[0] is not None]
    assert all(len(of_one) <= driver.COPIES for of_one in bound)


def test_a_path_gives_arrays_of_jax_and_the_record_of_the_call():
    global K
    q0 = np.array([1.0])
    system = da.System(lambda q, v: 0.5 * v @ v - K * (q @ q))
    path = da.simulate(system, q0, [0.0], h=0.1, steps=4)
    q0[0], before = 7.0, K
    try:
        K = 3.0
        assert json.loads(path.provenance.run)["q0"] == [1.0]
        assert "# K = 1.0" in path.provenance.source
    finally:
        K = before
    assert type(path.q) is np.ndarray
    traced = jax.jit(lambda x: x + path.q[0, 0] + path.statistics.residual)(1.0)  # asked for in a trace, and no leak of it
    assert type(path.q) is np.ndarray
    assert float(traced) == 2.0 + float(path.statistics.residual)
    back = pickle.loads(pickle.dumps(path))
    assert back.provenance == path.provenance
    assert np.array_equal(back.v, path.v)
    with pytest.raises(AttributeError, match="nothing"):
        _ = path.provenance.nothing


def test_a_known_run_puts_nothing_on_a_device(monkeypatch):
    """Also where its velocity turned, so that the resolution is looked at: one array put there is half of such a call."""
    run = da.prepare(da.System(lambda q, v: 0.5 * v[0] ** 2 + jnp.cos(q[0])), h=0.1)
    assert int(run([1.0], [0.0], 100).statistics.turns) > 0
    put = []
    monkeypatch.setattr(jax, "device_put", lambda *given: put.append(given))
    path = run([1.1], [0.0], 100)
    assert put == []
    monkeypatch.undo()
    assert path.q.shape == (101, 1)
