"""A value that a function reads from outside itself is the one of the moment of the call, whatever was compiled before."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

K = 1.0
NESTED = {"a": [1.0]}
module = types.ModuleType("settings_of_the_test")


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


WAYS = [value for name, value in list(globals().items()) if name.startswith("by_")]
KNOWN = da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * p["k"] * q @ q, parameters={"k": 1.0})
Q0, V0, H, STEPS = [1.0, 0.5], [0.0, -0.3], 0.1, 20


def last(path):
    return np.asarray(path.q)[..., -1, :]


def simulated(backend):
    return lambda system: last(da.simulate(system, Q0, V0, h=H, steps=STEPS, backend=backend))


def in_ensemble(backend):
    return lambda system: last(da.ensemble(system, [Q0, Q0], V0, h=H, steps=STEPS, backend=backend))


DOORS = {
    "simulate, machine code": simulated("native"),
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
    for k in (1.0, 9.0, 1.0, 4.0):
        change(k)
        assert run(system) == pytest.approx(run(KNOWN.replace(k=k)), abs=1e-12)
    change(1.0)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
@pytest.mark.parametrize(
    "way", [by_global, by_array, by_body_of_a_loop, by_attribute_behind_a_method], ids=lambda f: f.__name__[3:]
)
def test_every_door_reads_it(door, way):
    lagrangian, change = way()
    for k in (1.0, 9.0):
        change(k)
        assert door(da.System(lagrangian)) == pytest.approx(door(KNOWN.replace(k=k)), abs=1e-12)
    change(1.0)
