"""A value that a function reads from outside itself is the one of the moment of the call, whatever was compiled before."""

import builtins
import ctypes
import dataclasses
import functools
import gc
import importlib
import inspect
import pkgutil
import pydoc
import runpy
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.native import CACHE
from dalembert.tracing import DYNAMIC, REFLECTING, Walk, reflects

K = 1.0
NESTED = {"a": [1.0]}
module = sys.modules["settings_of_the_test"] = types.ModuleType("settings_of_the_test")
everything = globals


def _spring(q):
    """Called by others: the global is read one function away."""
    return 0.5 * K * q @ q


def _body(q, _):
    return q * jnp.sqrt(K), None


@jax.jit
def _jitted(q):
    return 0.5 * K * q @ q


class Body:
    """A Lagrangian as a method; its stiffness is an attribute."""

    def __init__(self, k):
        self.k = k

    def lagrangian(self, q, v):
        return 0.5 * v @ v - 0.5 * self.doubled * q @ q / 2.0

    @property
    def doubled(self):
        return 2.0 * self.k


@dataclasses.dataclass
class Equal:
    """All such objects call themselves equal."""

    k: float

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def __call__(self, q, v):
        return 0.5 * v @ v - 0.5 * self.k * q @ q


class Slots:
    __slots__ = ("k",)


def by_global():
    def change(k):
        global K
        K = k

    return (lambda q, v: 0.5 * v @ v - 0.5 * K * q @ q), change


def by_function_that_is_called():
    return (lambda q, v: 0.5 * v @ v - _spring(q)), by_global()[1]


def by_jitted_function_that_is_called():
    return (lambda q, v: 0.5 * v @ v - _jitted(q)), by_global()[1]


def by_body_of_a_loop():
    def lagrangian(q, v):
        x, _ = jax.lax.scan(_body, q, None, length=1)
        return 0.5 * v @ v - 0.5 * x @ x

    return lagrangian, by_global()[1]


def by_vmapped_function():
    return (lambda q, v: 0.5 * v @ v - jnp.sum(jax.vmap(lambda x: 0.5 * K * x**2)(q))), by_global()[1]


def by_closure():
    k = 1.0

    def change(new):
        nonlocal k
        k = new

    return (lambda q, v: 0.5 * v @ v - 0.5 * k * q @ q), change


def by_array():
    k = np.ones(3)

    def change(new):
        k[1] = new

    return (lambda q, v: 0.5 * v @ v - 0.5 * k[1] * q @ q), change


def by_large_array_of_jax():
    box = [jnp.ones(300)]

    def change(new):
        box[0] = jnp.full(300, float(new))

    return (lambda q, v: 0.5 * v @ v - 0.5 * jnp.mean(box[0]) * q @ q), change


def by_entry_of_dict():
    def change(new):
        NESTED["a"][0] = new

    return (lambda q, v: 0.5 * v @ v - 0.5 * NESTED["a"][0] * q @ q), change


def by_attribute_of_module():
    def change(new):
        module.k = new

    change(1.0)
    return (lambda q, v: 0.5 * v @ v - 0.5 * module.k * q @ q), change


def by_default():
    def lagrangian(q, v, k=[1.0]):  # noqa: B006  a mutable default is what this is about
        return 0.5 * v @ v - 0.5 * k[0] * q @ q

    def change(new):
        lagrangian.__defaults__[0][0] = new

    return lagrangian, change


def by_partial():
    k = {"k": 1.0}
    return functools.partial(lambda k, q, v: 0.5 * v @ v - 0.5 * k["k"] * q @ q, k), lambda new: k.update(k=new)


def by_attribute_behind_a_method():
    body = Body(1.0)
    return body.lagrangian, lambda new: setattr(body, "k", new)


def by_object_that_equals_others():
    it = Equal(1.0)
    return it, lambda new: setattr(it, "k", new)


def by_slot():
    it = Slots()
    it.k = 1.0
    return (lambda q, v: 0.5 * v @ v - 0.5 * it.k * q @ q), lambda new: setattr(it, "k", new)


def by_attribute_of_the_function():
    def lagrangian(q, v):
        return 0.5 * v @ v - 0.5 * lagrangian.k * q @ q

    return lagrangian, lambda new: setattr(lagrangian, "k", new)


def by_attribute_of_another_function():
    def settings():
        """Holds numbers."""

    return (lambda q, v: 0.5 * v @ v - 0.5 * settings.k * q @ q), lambda new: setattr(settings, "k", new)


def by_property_of_a_metaclass():
    class Kind(type):
        held = 1.0

        @property
        def k(cls):
            return Kind.held

    class Settings(metaclass=Kind):
        """Has no attribute of its own."""

    return (lambda q, v: 0.5 * v @ v - 0.5 * Settings.k * q @ q), lambda new: setattr(Kind, "held", new)


def by_globals():
    return (lambda q, v: 0.5 * v @ v - 0.5 * globals()["K"] * q @ q), by_global()[1]


def by_another_name_of_globals():
    return (lambda q, v: 0.5 * v @ v - 0.5 * everything()["K"] * q @ q), by_global()[1]


def by_globals_of_a_function():
    return (lambda q, v: 0.5 * v @ v - 0.5 * _spring.__globals__["K"] * q @ q), by_global()[1]


def by_frame():
    return (lambda q, v: 0.5 * v @ v - 0.5 * sys._getframe().f_globals["K"] * q @ q), by_global()[1]


def by_eval():
    return (lambda q, v: 0.5 * v @ v - 0.5 * eval("K") * q @ q), by_global()[1]


def by_exec():
    def lagrangian(q, v):
        found = {}
        exec("found['k'] = K", globals(), {"found": found})
        return 0.5 * v @ v - 0.5 * found["k"] * q @ q

    return lagrangian, by_global()[1]


def by_module_imported_by_its_name():
    return (lambda q, v: 0.5 * v @ v - 0.5 * importlib.import_module(module.__name__).k * q @ q), by_attribute_of_module()[1]


def by_table_of_modules():
    return (lambda q, v: 0.5 * v @ v - 0.5 * sys.modules["settings_of_the_test"].k * q @ q), by_attribute_of_module()[1]


WAYS = [value for name, value in list(globals().items()) if name.startswith("by_")]
KNOWN = da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * p["k"] * q @ q, parameters={"k": 1.0})
Q0, V0, H, STEPS = [1.0, 0.5], [0.0, -0.3], 0.1, 20


def last(path):
    return np.asarray(path.q)[..., -1, :]


def simulated(backend):
    return lambda system: last(da.simulate(system, Q0, V0, h=H, steps=STEPS, solver=da.Solver(backend=backend)))


def in_ensemble(backend):
    return lambda system: last(da.ensemble(system, [Q0, Q0], V0, h=H, steps=STEPS, solver=da.Solver(backend=backend)))


DOORS = {
    "simulate, JAX": simulated("jax"),
    "ensemble, machine code": in_ensemble("native"),
    "ensemble, JAX": in_ensemble("jax"),
    "reference": lambda system: last(da.reference(system, Q0, V0, np.array([0.0, 1.0]))),
    "energy": lambda system: np.asarray(da.energy(system, jnp.array(Q0), jnp.array(V0))),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__[3:].replace("_", " "))
def test_a_run_reads_what_is_there_when_it_is_called(way):
    """Against the same system with k as a parameter, which is an argument of the compiled program."""
    lagrangian, change = way()
    system, run = da.System(lagrangian), simulated("native")
    for k in (1.0, 9.0, 1.0):
        change(k)
        assert run(system) == pytest.approx(run(KNOWN.replace(k=k)), abs=1e-12)
    change(1.0)


# Each door in another way: that all doors look at the same fingerprint is what the last test of this file shows.
@pytest.mark.parametrize(
    ("door", "way"),
    [
        ("simulate, JAX", by_body_of_a_loop),
        ("ensemble, machine code", by_attribute_behind_a_method),
        ("ensemble, JAX", by_array),
        ("reference", by_attribute_behind_a_method),
        ("energy", by_global),
    ],
)
def test_every_door_reads_it(door, way):
    door, (lagrangian, change) = DOORS[door], way()
    for k in (1.0, 9.0):
        change(k)
        assert door(da.System(lagrangian)) == pytest.approx(door(KNOWN.replace(k=k)), abs=1e-12)
    change(1.0)


def test_stop_domain_feedback_and_reduce_read_it():
    free, limit = da.System(lambda q, v: 0.5 * v @ v), {"x": 0.55}
    go = lambda **options: da.simulate(free, [0.0], [1.0], h=0.1, steps=20, throw=False, **options)  # noqa: E731
    stop = lambda q, v: q[0] > limit["x"]  # noqa: E731
    domain = lambda q, v: q[0] < limit["x"]  # noqa: E731
    law = da.SampledFeedback(lambda q, v: jnp.full(1, limit["x"]))
    add = lambda value, t, q, v, multipliers: value + limit["x"]  # noqa: E731
    for backend in ("native", "jax"):
        for x in (0.55, 1.05):
            limit["x"] = x
            assert go(stop=stop, solver=da.Solver(backend=backend)).steps == int(x / 0.1) + 1
            assert go(stop=da.Stop(domain=domain), solver=da.Solver(backend=backend)).steps == int(x / 0.1)
            path = go(feedback=law, save=da.Save(reduce=(add, 0.0)), solver=da.Solver(backend=backend))
            assert path.q[-1, 0] == pytest.approx(2.0 + 0.5 * x * 4.0, rel=1e-12)
            assert path.reduced == pytest.approx(20 * x, rel=1e-12)


def test_boundary_problems_and_schemes_read_it():
    global K
    problem = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 0.5 * K * q @ q)

    class Left(da.PairMap):
        """q is read K/2 of the step from the left."""

        weight: float = 0.0

        def __call__(self, q0, d, h):
            return q0 + 0.5 * K * d, d / h

    oscillator = KNOWN.replace(k=1.0)
    for k in (1.0, 2.0, 1.0):
        K = k
        found = da.solve(problem, initial=([0.0],), final=([1.0],), T=1.0, steps=200)
        t = np.asarray(found.t)
        assert np.max(np.abs(found.q[:, 0] - np.sin(np.sqrt(k) * t) / np.sin(np.sqrt(k)))) < 1e-5
        by_map = da.simulate(oscillator, Q0, V0, h=H, steps=STEPS, scheme=da.Scheme("nodes", action=Left()))
        weighted = da.simulate(oscillator, Q0, V0, h=H, steps=STEPS, scheme=da.Scheme("nodes", action=da.Beta(0.5 * k)))
        assert np.asarray(by_map.q) == pytest.approx(np.asarray(weighted.q), abs=1e-12)
    K = 1.0


def test_what_cannot_be_compared_is_traced_at_every_call():
    """A generator of random numbers keeps its state where no fingerprint sees it."""
    random = np.random.default_rng(0)
    system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * random.uniform(1.0, 2.0) * q @ q)
    first, second = (last(da.simulate(system, Q0, V0, h=H, steps=STEPS)) for _ in range(2))
    assert np.max(np.abs(first - second)) > 1e-3


def test_the_record_holds_the_values_of_the_call():
    lagrangian, change = by_global()
    system = da.System(lagrangian)
    records = []
    for k in (1.0, 9.0, 1.0):
        change(k)
        records.append(da.simulate(system, Q0, V0, h=H, steps=2).provenance)
    assert ["K = 1.0" in r.source for r in records] == [True, False, True]
    assert "K = 9.0" in records[1].source
    assert records[0].source_hash == records[2].source_hash != records[1].source_hash


COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: COMPILED.extend([name] * ("backend_com" in name))
)


def test_equal_programs_are_compiled_once():
    """The same words written again are the same program; a value that enters no equation compiles nothing."""

    def written(scale, note):
        noted = {"scale": scale, "note": note}
        return da.System(lambda q, v: 0.5 * v @ v - 0.5 * noted["scale"] * q @ q - q[0] ** 4)

    def go(system, backend):
        return last(da.simulate(system, Q0, V0, h=H, steps=STEPS, solver=da.Solver(backend=backend)))

    for backend in ("native", "jax"):
        first = go(written(3.0, "one"), backend)
        before = len(COMPILED), CACHE.compilations, CACHE.reads
        for _ in range(5):
            np.testing.assert_array_equal(go(written(3.0, "one"), backend), first)
        np.testing.assert_array_equal(go(written(3.0, "two"), backend), first)
        assert (len(COMPILED), CACHE.compilations, CACHE.reads) == before
        assert np.max(np.abs(go(written(5.0, "one"), backend) - first)) > 0.1


def test_a_boundary_problem_with_parameters_is_traced_once(monkeypatch):
    """The structure of a mapping lists its keys in a new list at every call: they count by what they are."""
    spring = da.VariationalProblem(lambda q, v, p: 0.5 * v @ v - p["k"] * q[0] ** 4, parameters={"k": 0.1, "rest": 0.0})

    def go(k):
        return da.solve(spring.replace(k=k), initial=([0.0],), final=([1.0],), T=1.0, steps=10, certify=False).q

    first = go(0.1)
    traced = []
    monkeypatch.setattr("dalembert.native.assembly.windows.Windowed.trace", property(traced.append))
    np.testing.assert_array_equal(go(0.1), first)
    assert np.abs(go(0.3) - first).max() > 1e-3
    assert not traced


def test_inside_a_jit_of_the_user_the_rule_of_jax_holds():
    global K
    system = da.System(lambda q, v: 0.5 * v @ v - 0.5 * K * q @ q)
    jitted = jax.jit(lambda q: da.simulate(system, q, V0, h=H, steps=STEPS).q[-1])
    one = jitted(jnp.array(Q0))
    K = 9.0
    np.testing.assert_array_equal(jitted(jnp.array(Q0)), one)
    again = jax.jit(lambda q: da.simulate(system, q, V0, h=H, steps=STEPS).q[-1])(jnp.array(Q0))
    assert np.asarray(again) == pytest.approx(last(da.simulate(KNOWN.replace(k=9.0), Q0, V0, h=H, steps=STEPS)), abs=1e-12)
    K = 1.0


def test_threads_that_change_nothing_get_what_one_gets():
    systems = [da.System(lambda q, v, k=float(k): 0.5 * v @ v - 0.5 * k * q @ q) for k in range(1, 5)]
    go = lambda s: last(da.simulate(s, Q0, V0, h=H, steps=STEPS, solver=da.Solver(backend="jax")))  # noqa: E731
    alone = [go(s) for s in systems]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(go, systems * 5))
    for found, expected in zip(together, alone * 5, strict=True):
        np.testing.assert_array_equal(found, expected)


SOURCES = Path(da.__file__).parent
NO_FUNCTION_OF_THE_USER = (
    "path/path.py",
    "discretize/window_maps.py",
    "groups/group.py",
    "groups/space.py",
)  # jit of formulas of the library's own


def test_nothing_is_compiled_past_the_fingerprints():
    """Outside `tracing`, functions that a user may have written are compiled by `Jitted`, or inside `reading`."""
    files = [file for file in SOURCES.rglob("*.py") if "tracing" not in file.relative_to(SOURCES).parts]
    assert len(files) > 150
    for file in files:
        text, name = file.read_text(encoding="utf-8"), file.relative_to(SOURCES).as_posix()
        assert "filter_jit" not in text, name
        if "jax.jit(" in text or "@jax.jit" in text or "partial(jax.jit" in text:
            assert name in NO_FUNCTION_OF_THE_USER or "with reading(" in text, name


ASKS = frozenset(["breakpoint", "input", "help", "exit", "quit", "copyright", "credits", "license", "print", "open"])
LEAD_FURTHER = [
    (sys, "_getframe"), (sys, "modules"), (importlib, "import_module"), (inspect, "currentframe"), (gc, "get_objects"),
    (pkgutil, "resolve_name"), (pydoc, "locate"), (runpy, "run_module"), (ctypes, "py_object"),
]  # fmt: skip


def leads_further(value):
    """Whether it is the global K of this module or the k of `module`, or holds one of them."""
    held = {"K": K, "k": module.k}
    known = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return any(x is value or known.get(name) is x for name, x in held.items())


def test_the_list_of_what_code_does_not_name_is_complete():
    """No other builtin function, called with nothing, a name or a name of a module, gives a value of this module."""
    global K
    K, module.k, found = float("1.25"), float("2.25"), set()  # objects of their own
    for name, function in inspect.getmembers(builtins, callable):
        for arguments in () if name in ASKS else ((), ("K",), ("settings_of_the_test",)):
            try:
                value = function(*arguments)
            except (TypeError, ValueError, NameError, RuntimeError, LookupError, ImportError, SyntaxError, AttributeError):
                continue  # it wants something else
            if leads_further(value):
                found.add(name)
    K = 1.0
    assert found == {"globals", "eval", "__import__"}
    assert found | {"exec"} <= DYNAMIC
    for home, name in LEAD_FURTHER:
        assert hasattr(home, name)
        assert reflects(home.__name__, name)


def test_the_documentation_lists_what_code_does_not_name():
    page = (Path(__file__).parents[2] / "docs" / "native.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| what code does not name")]
    assert [name for name in DYNAMIC | REFLECTING if f"`{name}`" not in row] == []
    assert sorted(DYNAMIC | REFLECTING) == sorted(set(row.split("`")[1::2]))


def test_what_functions_usually_read_is_still_compared():
    """Attributes, classes and builtin functions do not make a function new at every call."""

    def lagrangian(q, v):
        return 0.5 * v @ v - abs(lagrangian.k) * sum(x * x for x in q) - Body(1.0).k * max(0.0, 1.0)

    lagrangian.k = 2.0
    first, second = Walk(), Walk()
    assert first.of(lagrangian) == second.of(lagrangian)
    assert first.lasting
