"""Errors in the arguments of a run, before its first step. Each names the argument, what was found, and what is right."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.windows import WindowMap
from dalembert.step.branch import Branch, call_system
from dalembert.step.carry import SampledFeedback
from dalembert.step.program import StepProgram
from dalembert.step.start import STARTERS
from dalembert.systems import System, VariationalProblem, is_traced
from dalembert.systems.checks import as_vector
from dalembert.systems.shapes import condition_shape, output_shape, traced, trailing
from dalembert.systems.sizes import check_resolved


def check_run(h, steps, t0, save_every, starter, tolerance, max_iterations, branch, feedback, scheme, reduce) -> None:
    """Everything about a run that does not depend on the system."""
    if h is None:
        raise TypeError("h: is missing; give the step, a positive number")
    if not is_traced(h) and not (_is_number(h) and h > 0):
        raise ValueError(f"h: found {h!r}; give a positive, finite step")
    if not is_traced(t0) and not _is_number(t0):
        raise ValueError(f"t0: found {t0!r}; give a finite time")
    for name, number in (("steps", steps), ("save_every", save_every), ("max_iterations", max_iterations)):
        if name == "save_every" and number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(f"{name}: found {number!r}; give a whole number, 1 or more")
    if not is_traced(h, t0):
        check_resolved("t0, h", max(abs(t0), abs(t0 + steps * h)), h)
    if starter not in STARTERS:
        raise ValueError(f"starter: found {starter!r}; the starters are {', '.join(STARTERS)}")
    if not (_is_number(tolerance) and 0 < tolerance < 1):
        raise ValueError(f"tolerance: found {tolerance!r}; give a number between 0 and 1")
    if branch is not None and not isinstance(branch, Branch):
        raise TypeError(f"branch: found {type(branch).__name__}; give Nearest(...), Least(f) or Avoid(...)")
    if feedback is not None and not isinstance(feedback, SampledFeedback):
        raise TypeError(f"feedback: found {type(feedback).__name__}; give SampledFeedback(law, every=...)")
    if scheme is not None and not isinstance(scheme, Scheme | WindowMap):
        raise TypeError(f"scheme: found {type(scheme).__name__}; give a Scheme")
    if reduce is not None and not (isinstance(reduce, tuple) and len(reduce) == 2 and callable(reduce[0])):
        raise TypeError(
            f"reduce: found {reduce!r}; give (function, initial) with function(value, t, q, v, multipliers) → value"
        )


def _is_number(x) -> bool:
    """A real, finite number, not true or false."""
    found = np.asarray(x)
    return found.ndim == 0 and found.dtype.kind in "iuf" and bool(np.isfinite(found))


def check_callbacks(program: StepProgram, q, s, t, h, stop, domain, feedback, reduce) -> None:
    """What stop, domain, a feedback law and a reducer return."""
    system: System | DiscreteSystem | VariationalProblem = program.system  # type: ignore[attr-defined]
    names = trailing(system)
    if feedback is not None and isinstance(system, VariationalProblem):
        raise ValueError("feedback: a VariationalProblem has no forces from outside; put them into a System")
    for name, function in (("stop", stop), ("domain", domain)):
        if function is not None and not callable(function):
            raise TypeError(f"{name}: found {type(function).__name__}; give a function of (q, v) that returns true or false")
    if stop is None and domain is None and feedback is None and reduce is None:
        return

    def look(program, q, v, t):
        for name, function in (("stop", stop), ("domain", domain)):
            if function is not None:
                condition_shape(lambda f=function: call_system(program, f, q, v, t=t), name, "q, v" + names)
        if feedback is not None:
            law = feedback.law
            shape = output_shape(lambda: call_system(program, law, q, v, t=t), "feedback law", "q, v" + names)
            if shape != q.shape:
                raise ValueError(f"feedback law: returns shape {shape}; a generalised force of shape {q.shape} is needed")

    traced(look, program, q, program.velocity(s), t)
    if reduce is not None:
        _check_reducer(program, q, s, t, h, *reduce)


def _check_reducer(program: StepProgram, q, s, t, h, function, initial) -> None:
    before = jax.tree.map(jnp.asarray, initial)
    multipliers = jax.eval_shape(
        lambda: program.outputs(program.guess(q, s, t, h), q, s, t, h, jnp.zeros_like(q)).multipliers
    )
    try:
        after = jax.eval_shape(lambda m: function(before, t, q, program.velocity(s), m), multipliers)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"reduce: could not be evaluated: {error}. It is called as function(value, t, q, v, multipliers)"
        ) from error
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (before, after)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"reduce: returns shapes {shapes[1]}; the initial value has {shapes[0]}, and they must agree")


def as_nodes(nodes, r: int):
    """The first nodes of a discrete system as a float array (r, n), finite."""
    try:
        points = jnp.asarray(nodes, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"nodes: found {type(nodes).__name__}, which is not an array of numbers ({error})") from None
    if points.ndim != 2 or points.shape[0] != r:
        raise ValueError(f"nodes: found shape {points.shape}; give the first {r} nodes, shape ({r}, n)")
    for i in range(r):
        as_vector(points[i], f"nodes[{i}]")
    return points


def check_discrete(system: DiscreteSystem, points) -> int:
    """Shapes of everything the functions of a discrete system return; the number m of its equations."""
    return traced(_check_discrete, system, points)


def _check_discrete(system: DiscreteSystem, points) -> int:
    n = points.shape[1]
    last = ", p" if system.parameters is not None else ""
    words = ", ".join(f"q{i}" for i in range(system.order + 1)) + last
    shape = output_shape(lambda: system.call(system.lagrangian, points[0], points[1]), "lagrangian", "q0, q1" + last)
    if shape != ():
        raise ValueError(f"lagrangian: returns shape {shape}; a scalar is needed")
    initial, kinematic = system.initial, system.kinematic
    if initial is not None:
        output_shape(lambda: system.call(initial, points[0], points[1]), "initial", "q0, q1" + last)
    if kinematic is None:
        return 0
    window = [points[0]] * (system.order + 1)
    shape = output_shape(lambda: system.call(kinematic, *window), "kinematic", words)
    if len(shape) > 1:
        raise ValueError(f"kinematic: returns shape {shape}; give a scalar or shape (m,)")
    m = shape[0] if shape else 1
    name, function, wanted = ("reactions", system.reactions, (m, n))
    if function is None:
        name, function, wanted = ("virtual", system.virtual, (n, n - m))
    assert function is not None
    shape = output_shape(lambda: system.call(function, *window), name, words)
    flat = wanted[0] == 1 if name == "reactions" else wanted[1] == 1
    if shape != wanted and not (flat and shape == (n,)):
        raise ValueError(f"{name}: returns shape {shape}; shape {wanted} is needed")
    return m


def check_batch(system, data: dict, parameters: dict) -> tuple[dict, dict]:
    """The data of many runs as float arrays, and for each 0 where it has an axis of runs, None where it is shared."""
    wanted = {"q0": 1, "v0": 1, "nodes": 2, "jets": 2, "multipliers": 2}
    given: dict = {name: None if x is None else _as_floats(x, name) for name, x in data.items()}
    axes: dict = {name: _axis(given[name], wanted[name], name) for name in data}
    if parameters and not isinstance(system.parameters, dict):
        raise TypeError("parameters: this system has none by name; build it with parameters={...}")
    unknown = sorted(set(parameters) - set(system.parameters or {}))
    if unknown:
        raise ValueError(f"parameters: found {', '.join(unknown)}; the parameters are {', '.join(system.parameters)}")
    given["parameters"] = {name: _as_floats(x, f"parameters[{name!r}]") for name, x in parameters.items()}
    axes["parameters"] = {
        name: _axis(x, jnp.ndim(system.parameters[name]), f"parameters[{name!r}]") for name, x in given["parameters"].items()
    }
    return given, axes


def batch_size(given: dict, axes: dict) -> int:
    """The common length of all axes of runs."""
    flat = {**given, **given["parameters"]}
    found = {name: flat[name].shape[0] for name, axis in {**axes, **axes["parameters"]}.items() if axis == 0}
    lengths = set(found.values())
    if not lengths:
        raise ValueError("q0, v0, parameters: none has an axis of runs; give q0 of shape (B, n), or use simulate")
    if len(lengths) > 1:
        raise ValueError(f"q0, v0, parameters: found axes of different lengths, {found}; all must have B runs")
    if 0 in lengths:
        raise ValueError("q0, v0, parameters: found no run, the axis of runs has length 0")
    return lengths.pop()


def _as_floats(x, name: str):
    try:
        array = jnp.asarray(x, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: found {type(x).__name__}, which is not an array of numbers ({error})") from None
    bad = np.flatnonzero(~np.isfinite(np.atleast_1d(array)).all(axis=tuple(range(1, array.ndim))))
    if bad.size:
        raise ValueError(f"{name}: row {bad[0]} is not finite ({bad.size} such rows); every number must be finite")
    return array


def _axis(x, ndim: int, name: str) -> int | None:
    if x is None or x.ndim == ndim:
        return None
    if x.ndim == ndim + 1:
        return 0
    raise ValueError(f"{name}: found shape {x.shape}; {ndim} axes are needed, or {ndim + 1} with one of runs in front")
