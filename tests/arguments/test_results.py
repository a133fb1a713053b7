"""What functions of the user return, raise and read, where it is wrong: an error that begins with the function's name.

GOOD has every place for such a function, with one that is right; WRONG makes wrong ones of it.
"""

import re
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

DATA = ([0.0, 0.0], [1.0, 0.0])
RUN = {"h": 0.1, "steps": 4, "solver": da.Solver(backend="jax")}
NODES = [[0.0, 0.0], [0.1, 0.0]]


def free(q, v):
    return 0.5 * (v @ v)


def level(q, v):
    return v[1] - q[0] * v[0]


def normal(q, v):
    return jnp.stack([-q[0], 1.0 + 0.0 * q[1]])


def along(q, v):
    return jnp.stack([1.0 + 0.0 * q[1], q[0]])


def pushed(q, v, a):
    return a[1] - q[0]


def upwards(q, v, a):
    return 0.0 * q + jnp.array([0.0, 1.0])


def far(q, v):
    return q[0] > 5.0


def first_step(q0, q1):
    return 0.1 + 0.01 * (q1 - q0) @ (q1 - q0)


FREE = da.System(free)
ROLLING = da.System(free, da.Nonholonomic(level))
STRAIGHT = da.VariationalProblem(free)


def run(system, data=DATA, **options):
    return da.simulate(system, *data, **{**RUN, **options})


def run_discrete(**functions):
    return da.simulate(
        da.DiscreteSystem(**{"lagrangian": product, **functions}),
        start=da.Start(nodes=NODES),
        h=0.1,
        steps=4,
        solver=da.Solver(backend="jax"),
    )


def product(q0, q1):
    return 0.5 * (q1 - q0) @ (q1 - q0)


def plane(q0, q1, q2):
    return q2[1]


def vertical(q0, q1, q2):
    return 0.0 * q1 + jnp.array([0.0, 1.0])


def horizontal(q0, q1, q2):
    return 0.0 * q1 + jnp.array([1.0, 0.0])


def solve(problem, **options):
    return da.solve(problem, initial=(DATA[0],), final=([1.0, 0.0],), T=1.0, steps=5, **options)


def push(q, v):
    return -0.1 * v


def count(value, t, q, v, multipliers):
    return value + q[0]


def turn(q):
    return jnp.stack([-q[1], q[0]])


def euler(h, q, v):
    return q + h * v, v


def ahead(q0, q1):
    return 2.0 * q1 - q0


def circle(q):
    return q @ q - 1.0


def flat(q):
    return jnp.eye(2) * (1.0 + 0.0 * q[0])


class Own(da.PairMap):
    """A map of the user's."""

    function: Callable = eqx.field(static=True)
    weight: float = 0.5

    def __call__(self, q0, d, h):
        return self.function(q0, d, h)


class OwnTriple(da.TripleMap):
    function: Callable = eqx.field(static=True)

    def __call__(self, q1, d0, d1, h):
        return self.function(q1, d0, d1, h)


def beta(q0, d, h):
    return q0 + 0.5 * d, d / h


def central(q1, d0, d1, h):
    return q1, (d0 + d1) / (2 * h), (d1 - d0) / (h * h)


NODAL = {"path": run(FREE, scheme=da.Scheme("nodes")), "scheme": da.Scheme("nodes")}
HOLONOMIC = (da.Holonomic(lambda q: q[1]),)

# the name in the message: (a function that is right, a call with it)
GOOD = {
    "lagrangian": (free, lambda f: run(da.System(f))),
    "lagrangian of an ensemble": (free, lambda f: da.ensemble(da.System(f), [DATA[0]] * 2, DATA[1], **RUN)),
    "lagrangian of a reference": (free, lambda f: da.reference(da.System(f), *DATA, [0.0, 1.0])),
    "lagrangian of roots": (free, lambda f: da.roots(da.System(f), *DATA, h=0.1)),
    "lagrangian of project": (free, lambda f: da.project(da.System(f), *DATA)),
    "lagrangian of solvability": (free, lambda f: da.solvability(da.System(f), *DATA)),
    "lagrangian of acceleration": (free, lambda f: da.acceleration(da.System(f), *DATA)),
    "lagrangian of energy": (free, lambda f: da.energy(da.System(f), *DATA)),
    "lagrangian of momentum": (free, lambda f: da.momentum(da.System(f), *DATA)),
    "lagrangian of reduction": (free, lambda f: da.systems.reduction(da.System(f), *DATA)),
    "lagrangian of a chart": (free, lambda f: da.systems.connection(da.System(f, da.Nonholonomic(level)), *DATA)),
    "lagrangian along a path": (free, lambda f: da.measure.energy(da.System(f), NODAL["path"])),
    "lagrangian of multipliers": (free, lambda f: da.measure.multipliers(da.System(f), NODAL["path"])),
    "lagrangian of a momentum map": (free, lambda f: da.measure.momentum(da.System(f), generator=turn, **NODAL)),
    "lagrangian of residuals": (free, lambda f: da.measure.constraint_residual(da.System(f), **NODAL)),
    "lagrangian of regularity": (free, lambda f: da.measure.regularity(da.System(f), np.eye(3, 2), h=0.1)),
    "lagrangian of a symplectic defect": (free, lambda f: da.measure.symplectic_defect(da.System(f), *NODES, h=0.1)),
    "lagrangian of a perturbation": (free, lambda f: da.measure.perturbation(da.System(f, da.Nonholonomic(level)), *DATA)),
    "forces": (push, lambda f: run(da.System(free, forces=f))),
    "phi": (level, lambda f: run(da.System(free, da.Nonholonomic(f)))),
    "phi of a Holonomic": (lambda q: q[1], lambda f: run(da.System(free, da.Holonomic(f)))),
    "phi of a SecondOrder": (pushed, lambda f: run(da.System(free, da.SecondOrder(f)))),
    "phi of project": (level, lambda f: da.project(da.System(free, da.Nonholonomic(f)), *DATA)),
    "phi that is deformed": (level, lambda f: run(da.systems.deformed(ROLLING, f, 0.1))),
    "reactions": (normal, lambda f: run(da.System(free, da.Nonholonomic(level, reactions=f)))),
    "reactions of a SecondOrder": (upwards, lambda f: run(da.System(free, da.SecondOrder(pushed, reactions=f)))),
    "virtual": (along, lambda f: run(da.System(free, da.Nonholonomic(level, virtual=f)))),
    "V": (free, lambda f: run(da.System(free, da.Lyapunov(f, lambda q, v: v[0] ** 2, 0)))),
    "F": (free, lambda f: run(da.System(free, da.Lyapunov(free, f, 0)))),
    "actuated": (lambda q: 0.0 * q + 1.0, lambda f: run(da.System(free, da.Lyapunov(free, free, f)))),
    "stop": (far, lambda f: run(FREE, stop=f)),
    "domain": (far, lambda f: run(FREE, stop=da.Stop(domain=f))),
    "feedback": (push, lambda f: run(FREE, feedback=da.SampledFeedback(f))),
    "reduce": (count, lambda f: run(FREE, save=da.Save(reduce=(f, 0.0)))),
    "branch": (free, lambda f: run(FREE, solver=da.Solver(branch=da.Least(f)))),
    "branch that avoids": (
        free, lambda f: run(da.System(free, da.SecondOrder(pushed)), solver=da.Solver(branch=da.Avoid(f)))),
    "scheme": (beta, lambda f: run(FREE, scheme=da.Scheme(action=Own(f)))),
    "scheme of constraints": (central, lambda f: run(FREE, scheme=da.Scheme(kinematic=OwnTriple(f)))),
    "rho": (beta, lambda f: da.discretize.redefined(NODAL["path"], Own(f))),
    "lagrangian of a DiscreteSystem": (product, lambda f: run_discrete(lagrangian=f)),
    "kinematic": (plane, lambda f: run_discrete(kinematic=f, reactions=vertical)),
    "reactions of a DiscreteSystem": (vertical, lambda f: run_discrete(kinematic=plane, reactions=f)),
    "virtual of a DiscreteSystem": (horizontal, lambda f: run_discrete(kinematic=plane, virtual=f)),
    "initial": (lambda q0, q1: q0[1], lambda f: run_discrete(initial=f)),
    "lagrangian of a boundary problem": (free, lambda f: solve(da.VariationalProblem(f))),
    "lagrangian of a batch": (free, lambda f: da.solve_batch(
        da.VariationalProblem(f), initial=(np.zeros((2, 2)),), T=1.0, steps=5)),
    "lagrangian of a flow": (free, lambda f: da.simulate(da.VariationalProblem(f), start=da.Start(jets=DATA), **RUN)),
    "lagrangian of free steps": (
        free, lambda f: da.step.simulate_free_steps(da.VariationalProblem(f), NODES, [0.0, 0.1], steps=4)),
    "lagrangian of Ostrogradsky": (free, lambda f: da.systems.ostrogradsky(da.VariationalProblem(f), DATA, [0.0, 1.0])),
    "lagrangian of one-forms": (free, lambda f: da.measure.poincare_cartan(da.VariationalProblem(f), NODES, h=0.1)),
    "constraints": (level, lambda f: solve(da.VariationalProblem(free, da.Nonholonomic(f)))),
    "constraints that are holonomic": (lambda q: q[1], lambda f: solve(da.VariationalProblem(free, da.Holonomic(f)))),
    "constraints of prescribed steps": (
        first_step, lambda f: da.solve(da.with_time(STRAIGHT, step=f), initial=da.Nodes(np.zeros((1, 3))),
                                       final=da.Nodes(np.ones((1, 3))), scheme=da.Points(), T=1.0, steps=5)),
    "generator": (turn, lambda f: da.measure.momentum(FREE, generator=f, **NODAL)),
    "step": (euler, lambda f: da.measure.perturbation(ROLLING, *DATA, step=f)),
    "step of an embedding": (euler, lambda f: da.measure.embedding(ROLLING, *DATA, h=[0.2, 0.1], step=f)),
    "step of a symplectic defect": (ahead, lambda f: da.measure.symplectic_defect(FREE, *NODES, h=0.1, step=f)),
    "phi of a manifold": (circle, lambda f: da.manifolds.Embedded(f).project([1.0, 0.0])),
    "phi of a spline": (circle, lambda f: da.spline(da.manifolds.Embedded(f), {0.0: [1.0, 0.0], 1.0: [0.0, 1.0]}, steps=6)),
    "metric": (flat, lambda f: da.spline(da.manifolds.Chart(f), {0.0: [1.0, 0.0], 1.0: [0.0, 1.0]}, steps=6)),
}  # fmt: skip


def vector_of(arguments):
    """The first array among the arguments: positions."""
    return next(x for x in arguments if np.ndim(x))


def shifted(result, x):
    """The result, with a zero that was read from x added: for tuples and conditions too."""
    if isinstance(result, tuple):
        return (shifted(result[0], x), *result[1:])
    return result & (x > 1e9) if result.dtype == bool else result + 0.0 * x


INDEX = r"reads index -?\d+ of an array of \d"
# (what it makes of a right function, what the message tells of it)
WRONG = {
    "None": (lambda f: lambda *x: None, None),
    "text": (lambda f: lambda *x: "1.0", None),
    "dict": (lambda f: lambda *x: {"a": 1.0}, None),
    "texts": (lambda f: lambda *x: ["a", "b"], None),
    "function": (lambda f: lambda *x: f, None),
    "complex": (lambda f: lambda *x: 1j * jnp.ones(np.shape(f(*x)) if not isinstance(f(*x), tuple) else 2), None),
    "shape": (lambda f: lambda *x: jnp.ones((7, 7, 7)), None),
    "KeyError": (lambda f: lambda *x: {}["k"], "KeyError: 'k'"),
    "ZeroDivisionError": (lambda f: lambda *x: 1 / 0, "ZeroDivisionError: division by zero"),
    "AssertionError": (lambda f: lambda *x: (_ for _ in ()).throw(AssertionError), "AssertionError"),
    "AttributeError": (lambda f: lambda *x: vector_of(x).missing, "AttributeError: .*missing"),
    "no arguments": (lambda f: lambda: 0.0, "takes 0 positional arguments"),
    "many arguments": (lambda f: lambda a, b, c, d, e, f, g: 0.0, "missing . required positional argument"),
    "if": (lambda f: lambda *x: f(*x) if vector_of(x)[0] > 0 else vector_of(x)[0], None),
    "NumPy": (lambda f: lambda *x: np.sin(vector_of(x)), None),
    "float()": (lambda f: lambda *x: float(vector_of(x)[0]), None),
    "index": (lambda f: lambda *x: shifted(f(*x), vector_of(x)[7]), INDEX),
    "array of indices": (lambda f: lambda *x: shifted(f(*x), vector_of(x)[jnp.array([0, 7])][0]), INDEX),
    "negative indices": (lambda f: lambda *x: shifted(f(*x), vector_of(x)[np.array([0, -7])][0]), INDEX),
    "taken": (lambda f: lambda *x: shifted(f(*x), jnp.take(vector_of(x), jnp.array([1, 7]))[0]), INDEX),
    "set": (lambda f: lambda *x: shifted(f(*x), vector_of(x).at[7].set(1.0)[0]), INDEX),
}


def refused(call, name: str, tells: str | None = None) -> None:
    """The message begins with the name of the argument, and tells what is wrong with it."""
    with pytest.raises((ValueError, TypeError), match=tells) as caught:
        call()
    message = str(caught.value)
    assert re.search(rf"\b{name}\b", message.partition(": ")[0]), f"{type(caught.value).__name__}: {message}"


@pytest.fixture(autouse=True, scope="module")
def _frames_stay():
    """JAX looks whose each frame of an error is, by the file system: half of the time of hundreds of errors."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    yield
    jax.config.update("jax_traceback_filtering", before)


@pytest.mark.parametrize("place", GOOD)
def test_wrong_functions_are_named(place):
    function, call = GOOD[place]
    for wrong, tells in WRONG.values():
        refused(lambda wrong=wrong: call(wrong(function)), place.split()[0], tells)


LOST = {
    "lagrangian": lambda: run(da.System(lambda q, v: free(q, v) + jnp.log(q[0] - 1.0))),
    "forces": lambda: run(da.System(free, forces=lambda q, v: jnp.log(q - 1.0))),
    "forces of an ensemble": lambda: da.ensemble(da.System(free, forces=lambda q, v: v / q), [DATA[0]] * 2, DATA[1], **RUN),
    "phi": lambda: run(da.System(free, da.Nonholonomic(lambda q, v: v[1] / q[0]))),
    "reactions": lambda: run(da.System(free, da.Nonholonomic(level, reactions=lambda q, v: normal(q, v) / q[0]))),
    "lagrangian of a DiscreteSystem": lambda: run_discrete(lagrangian=lambda a, b: product(a, b) + jnp.log(a[0] - 1.0)),
    "lagrangian of a flow": lambda: da.simulate(
        da.VariationalProblem(lambda q, v: free(q, v) + jnp.log(q[0] - 1.0)), start=da.Start(jets=DATA), **RUN),
}  # fmt: skip


@pytest.mark.parametrize("place", LOST)
def test_functions_that_are_not_finite_at_the_start_are_named(place):
    refused(LOST[place], place.split()[0])
