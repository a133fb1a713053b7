"""Keys of functions that another process finds again, and what was traced under them."""

import dataclasses
import math
import pickle
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.native import CACHE, Tracer, translate_function
from dalembert.tracing import DISK, jitted, lasting_key
from dalembert.tracing.evaluation.program import program

STIFFNESS = 1.0

SOURCE = """
import math, time
import jax.numpy as jnp
import numpy as np

k = 2.0
table = np.array([1.0, 2.0])
def inner(x):
    return k * x
def made(c):
    def function(x, shift=0.5):
        return c * inner(jnp.sin(x)) + table.sum() + shift
    return function
"""


def function_of(source=SOURCE, c=3.0, **globals_):
    """A function as a process would make it from this source, with other values of globals."""
    names: dict = {}
    exec(compile(source, "somewhere.py", "exec"), names)
    names.update(globals_)
    return names["made"](c)


def test_equal_functions_have_equal_keys_in_every_process():
    key = lasting_key(function_of())
    assert key is not None
    assert lasting_key(function_of()) == key
    program = "from dalembert.tracing import lasting_key\n" + SOURCE + "\nprint(lasting_key(made(3.0)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == key


@pytest.mark.parametrize(
    "changed",
    [
        {"c": 3.5},
        {"c": 3},
        {"c": np.float32(3.0)},
        {"k": 2.5},
        {"table": np.array([1.0, 3.0])},
        {"inner": math.cos},
        {"source": SOURCE.replace("k * x", "k + x")},
        {"source": SOURCE.replace("jnp.sin", "jnp.cos")},
        {"source": SOURCE.replace("shift=0.5", "shift=-0.5")},
    ],
)
def test_whatever_the_function_reads_belongs_to_its_key(changed):
    key = lasting_key(function_of(**changed))
    assert key is not None
    assert key != lasting_key(function_of())


class Stiff:
    """A class of the user's."""

    k = 1.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Another."""

    k: float = 1.0


@pytest.mark.parametrize(
    "changed",
    [
        {"c": Stiff()},
        {"c": Frozen()},
        {"inner": time.time},
        {"inner": np.random.rand},
        {"source": SOURCE.replace("k * x", "np.load('table.npy') * x")},
        {"source": SOURCE.replace("k * x", "float(open('k').read()) * x")},
        {"source": SOURCE.replace("k * x", "np.random.rand() * x")},
        {"source": SOURCE.replace("k * x", "time.time() * x")},
        {"source": SOURCE.replace("k * x", "eval('k') * x")},
        {"c": Path("k").read_text},
    ],
)
def test_what_another_process_may_do_otherwise_has_no_key(changed):
    assert lasting_key(function_of(**changed)) is None


@pytest.fixture
def traces(tmp_path, monkeypatch):
    """How many functions JAX has traced for machine code, with an empty cache."""
    counted, trace = [], Tracer.trace

    def count(self, function, *inputs, shapes):
        counted.append(function)
        return trace(self, function, *inputs, shapes=shapes)

    monkeypatch.setattr(Tracer, "trace", count)
    monkeypatch.setattr(CACHE, "folder", tmp_path / "cache")
    return counted


def test_a_graph_is_found_again(traces):
    first = translate_function(function_of(), np.ones(2))
    again = translate_function(function_of(), np.ones(2))
    assert len(traces) == 1
    assert (again.graph.nodes, again.tracer.captured) == (first.graph.nodes, first.tracer.captured)
    np.testing.assert_array_equal(first.compile()(np.ones(2))[0], again.compile()(np.ones(2))[0])
    translate_function(function_of(), np.ones(3))
    other = translate_function(function_of(c=4.5), np.ones(2))
    assert len(traces) == 3
    np.testing.assert_allclose(other.compile()(np.ones(2))[0], 4.5 * 2.0 * np.sin(1.0) + 3.5, rtol=1e-15, atol=0.0)


def test_a_plant_that_changes_is_traced_again(traces, monkeypatch):
    """A value of a global that is another is another plant, also where the first lies on disk."""

    def solve(stiffness):
        monkeypatch.setitem(globals(), "STIFFNESS", stiffness)
        system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * STIFFNESS * q @ q, coordinates=("x",))
        problem = da.OptimalControl(system, cost=lambda q, v, u: u @ u, actuated=(0,))
        return da.solve(problem, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=10), len(traces)

    soft, once = solve(1.0)
    hard, twice = solve(4.0)
    assert twice > once
    assert abs(float(hard.cost - soft.cost)) > 0.1


FUNCTIONS = {
    "linear algebra": lambda x: jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(3), x),
    "scan": lambda x: jax.lax.scan(lambda c, y: (c + y * x, c), x, jnp.arange(4.0), reverse=True),
    "loop": lambda x: jax.lax.while_loop(lambda y: jnp.sum(y) < 9.0, lambda y: 2.0 * y + 1.0, jnp.abs(x)),
    "branches": lambda x: jax.lax.switch(jnp.sum(x > 0), [jnp.sin, jnp.cos, lambda y: y**3], x),
    "gaussian": jax.vmap(jax.grad(jax.scipy.special.erf)),
    "moves": lambda x: jnp.where(x > 0, x[::-1], 0.0).at[1].add(np.array([2.0, 3.0])[0]),
    "derivatives": jax.jacfwd(jax.grad(lambda x: jnp.sum(jax.nn.logsumexp(x) * jnp.linalg.norm(x)))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_traced_function_survives_as_a_record(name):
    x = jnp.array([0.4, -1.2, 0.7])
    traced = jax.make_jaxpr(FUNCTIONS[name])(x)
    again = pickle.loads(jitted.as_record(traced))
    for a, b in zip(program(traced)(np.asarray(x)), program(again)(np.asarray(x)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_numpy_does_not_evaluate_has_no_record():
    traced = jax.make_jaxpr(lambda x: jax.scipy.special.gammainc(2.0, x))(1.0)
    assert jitted.as_record(traced) is None


def test_trees_of_equinox_are_no_record():
    """They hold an object that another process has not."""
    assert jitted.as_record(jax.tree.structure(da.measure.Invariant(np.zeros(2), np.zeros(2)))) is None
    assert jitted.as_record(jax.tree.structure({"a": 1, "b": (2, 3)})) is not None


def test_checks_are_traced_once_for_all_processes(tmp_path, monkeypatch):
    """And give the same, also of another plant."""
    written = []
    monkeypatch.setattr(DISK, "folder", tmp_path / "cache")
    record = jitted.as_record
    monkeypatch.setattr(jitted, "as_record", lambda things: written.append(record(things)) or written[-1])

    def solve(length):
        jitted.PROGRAMS.clear()  # as in a new process
        rolls = da.Nonholonomic(lambda q, v: jnp.stack([jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1], v[2] * length - v[3]]))
        system = da.System(lambda q, v: 0.5 * v @ v, rolls)
        problem = da.OptimalControl(system, cost=lambda q, v, u: u @ u, actuated=(0, 1, 2, 3))
        rest, final = np.zeros(4), np.array([1.0, 0.2, 0.5, 0.5 * length])
        return float(da.solve(problem, initial=(rest, rest), final=(final, rest), T=1.0, steps=10).cost), len(written)

    first, once = solve(1.0)
    assert once >= 3
    assert all(written)
    assert solve(1.0) == (first, once)
    other, twice = solve(2.0)
    assert twice > once
    assert other != first
