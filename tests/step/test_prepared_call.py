"""A prepared run with arrays of doubles, again and again: only the numbers are looked at, and everything is still seen.

The oracle is the first call of a fresh prepared run, or `simulate` on lists, which go through the ordinary checks.
"""

import copy
import json
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.tracing import Walk, split

K = 1.0
ANGLE = da.System(lambda q, v: 0.5 * v @ v + K * jnp.cos(q[0]))
FREE = da.System(lambda q, v: 0.5 * v @ v)  # reads no q
SPHERE = da.System(lambda q, v: 0.5 * v @ v - q[2], da.Holonomic(lambda q: q @ q - 1.0))
TOP, SLOW = np.array([0.6, 0.0, -0.8]), np.array([0.0, 0.5, 0.0])


def called(system, q, v):
    """A prepared run that was called before with such arrays."""
    run = da.prepare(system, h=0.1)
    for _ in range(2):
        run(q, v, 3)
    return run


def test_the_path_is_that_of_simulate_to_the_bit_whatever_changes_between_calls():
    run = called(SPHERE, TOP, SLOW)
    backwards = np.stack([TOP, SLOW], axis=1)  # not in one piece
    for q, v, steps, t0 in ((TOP, SLOW, 9, 0.0), (TOP, 2.0 * SLOW, 4, 1.5), (*backwards.T, 4, -1.5), (TOP, SLOW, 1, 0.0)):
        found, wanted = run(q, v, steps, t0=t0), da.simulate(SPHERE, q.tolist(), v.tolist(), h=0.1, steps=steps, t0=t0)
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
        assert found.provenance == wanted.provenance
        for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert np.array_equal(x, y, equal_nan=True)


WRONG = {
    "q is not finite": (FREE, [np.nan, 0.0], [1.0, 0.0]),
    "v is not finite": (FREE, [0.0, 0.0], [np.inf, 0.0]),
    "longer": (FREE, [0.0, 0.0, 0.0], [1.0, 0.0]),
    "two axes": (FREE, [[0.0, 0.0]], [1.0, 0.0]),
    "off the sphere": (SPHERE, TOP + 1e-6, SLOW),
    "not along the sphere": (SPHERE, TOP, SLOW + 1e-6),
    "at the centre": (SPHERE, np.zeros(3), SLOW),
    "true and false": (FREE, np.array([True, False]), [1.0, 0.0]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data_are_refused_in_the_words_of_simulate(name):
    system, q, v = WRONG[name]
    run = called(system, TOP, SLOW) if system is SPHERE else called(system, np.zeros(2), np.ones(2))
    with pytest.raises((ValueError, TypeError)) as wanted:
        da.simulate(system, np.asarray(q), np.asarray(v), h=0.1, steps=3)
    with pytest.raises(type(wanted.value)) as found:
        run(np.asarray(q), np.asarray(v), 3)
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize(
    "other", [{"steps": 0}, {"steps": True}, {"steps": 2.0}, {"t0": np.nan}, {"t0": 1e16}, {"t0": "now"}, {"throw": 1}]
)
def test_other_wrong_arguments_are_refused_in_the_words_of_a_first_call(other):
    q, v = np.zeros(2), np.ones(2)
    arguments = {"steps": 3} | other
    with pytest.raises((ValueError, TypeError)) as wanted:
        da.prepare(FREE, h=0.1)(q, v, **arguments)
    with pytest.raises(type(wanted.value)) as found:
        called(FREE, q, v)(q, v, **arguments)
    assert str(found.value) == str(wanted.value)


def test_double_precision_that_is_turned_off_is_seen():
    run = called(FREE, np.zeros(2), np.ones(2))
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(RuntimeError, match="jax_enable_x64 is off"):
            run(np.zeros(2), np.ones(2), 3)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_a_value_that_a_function_reads_is_seen_to_change():
    """From rest at q = 1 the first step is -h²K sin(q)/2 to O(h⁴)."""
    global K
    q, v = np.ones(1), np.zeros(1)
    run = called(ANGLE, q, v)
    before = float(run(q, v, 1).q[1, 0]) - 1.0
    try:
        K = 4.0
        for _ in range(2):
            assert abs((float(run(q, v, 1).q[1, 0]) - 1.0) / before - 4.0) < 0.02
    finally:
        K = 1.0


def test_threads_have_arrays_of_their_own():
    run = called(SPHERE, TOP, SLOW)
    starts = [(TOP, (1.0 + 0.01 * i) * SLOW, 200 + i % 3) for i in range(64)]

    def one(start):
        return np.asarray(run(*start).q)

    alone = [one(start) for start in starts]
    with ThreadPoolExecutor(8) as pool:
        assert all(np.array_equal(x, y) for x, y in zip(pool.map(one, starts * 4), alone * 4, strict=True))


def test_a_path_that_nobody_has_looked_at_is_a_path_to_everything():
    q, v = np.ones(1), np.zeros(1)
    run = called(ANGLE, q, v)
    wanted = [np.array(x) for x in jax.tree.leaves(da.simulate(ANGLE, [1.0], [0.0], h=0.1, steps=5))]

    def leaves_of_key(path):
        leaves = []
        split(Walk(), path, leaves)
        return leaves

    for look in (jax.tree.leaves, leaves_of_key, lambda x: jax.tree.leaves(copy.copy(x)),
                 lambda x: jax.tree.leaves(pickle.loads(pickle.dumps(x))), jax.jit(jax.tree.leaves)):  # fmt: skip
        found = look(run(q, v, 5))
        assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(found, wanted, strict=True))
    assert repr(run(q, v, 5)) == repr(da.simulate(ANGLE, [1.0], [0.0], h=0.1, steps=5))
    assert run(q, v, 5).t_feedback is None


def test_the_record_and_the_path_keep_the_numbers_of_the_call():
    q, v = np.ones(1), np.zeros(1)
    run = called(ANGLE, q, v)
    path, first = run(q, v, 5), run(q, v, 5).q
    q[0] = 7.0
    run(q, v, 5)
    assert json.loads(path.provenance.run)["q0"] == [1.0]
    assert np.array_equal(path.q, first)


def test_a_call_makes_few_calls():
    """By count and not by the clock: some 80 functions, of Python and of C, where they were 290."""
    q, v = np.ones(1), np.zeros(1)
    run, made = called(ANGLE, q, v), []
    sys.setprofile(lambda frame, event, _: made.append(event) if event in ("call", "c_call") else None)
    try:
        run(q, v, 3)
    finally:
        sys.setprofile(None)
    assert len(made) <= 100
