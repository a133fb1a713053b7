"""Errors in the arguments of a run, before its first step. Each names the argument, what was found, and what is right."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from dalembert.discretize import DiscreteSystem
from dalembert.numbers import (
    as_array,
    real_numbers,
)
from dalembert.step.run.branch import Avoid, call_system, divided
from dalembert.step.run.state import Grid, Prepared, StepOptions, promoted
from dalembert.systems import System, VariationalProblem
from dalembert.systems.batch import number_of_runs
from dalembert.systems.shapes import check_indices, condition_shape, output_shape, traced
from dalembert.systems.system import is_flag


def check_callbacks(prepared: Prepared, grid: Grid, step_options: StepOptions, initial) -> Any:
    """What stop, domain, a feedback law, a branch's function and a reducer return; gives the value with which the latter
    begins, `initial`, in its final types."""
    program, q = prepared.program, prepared.q
    stop, domain, feedback = step_options.stop, step_options.domain, step_options.feedback
    system: System | DiscreteSystem | VariationalProblem = program.system
    names = system.trailing
    if feedback is not None and not system.takes_force:
        raise ValueError("feedback: a VariationalProblem takes no external forces; use a System")
    if feedback is not None and program.multiplier_time < 0:
        raise ValueError("feedback: the reactions of this system depend on later nodes; its steps take no external force")
    if isinstance(step_options.branch, Avoid) and step_options.branch.factor is not None:
        divided(program, q.shape[0])
    rule = next((f for name in ("function", "factor", "least") if (f := getattr(step_options.branch, name, None))), None)
    if stop is None and domain is None and feedback is None and rule is None and step_options.reduce is None:
        return initial

    def look(program, q, v, t):
        for name, function in (("stop", stop), ("domain", domain)):
            if function is not None:
                condition_shape(lambda f=function: call_system(program, f, q, v, t=t), name, "q, v" + names)
        if feedback is not None:
            also = ", t" * (feedback.timed and not system.trailing.startswith(", t"))
            shape = output_shape(lambda f=feedback: f.force(program, q, v, t), "feedback law", "q, v" + also + names)
            if shape != q.shape:
                raise ValueError(f"feedback law: returns shape {shape}; a generalised force of shape {q.shape} is needed")

        if rule is not None:
            shape = output_shape(lambda: call_system(program, rule, q, v, t=t), "branch: its function", "q, v" + names)
            if shape:
                raise ValueError(f"branch: its function returns shape {shape}; a scalar is needed")

    traced(look, program, q, program.velocity(prepared.s), grid.t0)
    return initial if step_options.reduce is None else _first_reduced(prepared, grid, step_options.reduce, initial)


def _first_reduced(prepared: Prepared, grid: Grid, function, before) -> Any:
    def told(q, s, t, h) -> tuple:
        multipliers = program.outputs(program.guess(q, s, t, h), q, s, t, h, jnp.zeros_like(q)).multipliers
        return t, q, program.velocity(s), multipliers

    program = prepared.program
    given = jax.eval_shape(told, prepared.q, prepared.s, grid.t0, grid.h)
    try:
        jaxpr, after = jax.make_jaxpr(function, return_shape=True)(before, *given)
    except Exception as error:
        raise TypeError(
            f"reduce: could not be evaluated: {type(error).__name__}: {error}. It is called as function(value, t, q, v, "
            "multipliers)"
        ) from error
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (before, after)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"reduce: returns shapes {shapes[1]}; the initial value has {shapes[0]}, and they must agree")
    check_indices(jaxpr, "reduce")
    if any(jnp.issubdtype(x.dtype, jnp.complexfloating) for x in jax.tree.leaves(after)):
        raise TypeError("reduce: returns complex numbers; give the real and the imaginary part as two of them")
    return promoted(lambda value: jax.eval_shape(function, value, *given), before)


def initial_value(initial):
    """The value with which a reducer begins: a tree of real numbers or flags, which may be infinite, of any type."""

    def leaf(path, x):
        if not (isinstance(x, Tracer) or is_flag(x)):
            real_numbers(x, f"reduce: the initial value{jax.tree_util.keystr(path)}")
        return jnp.asarray(x)

    return jax.tree_util.tree_map_with_path(leaf, initial, is_leaf=lambda x: x is None)


def as_nodes(nodes):
    """The first nodes of a discrete system as a float array (r, n), finite."""
    points = as_array(nodes, "nodes")
    if points.ndim != 2 or len(points) < 2 or points.shape[1] == 0:
        raise ValueError(f"nodes: found shape {points.shape}; give the first nodes, two or more, shape (r, n)")
    return points


def check_discrete(system: DiscreteSystem, points) -> int:
    """Shapes of everything the functions of a discrete system return; the number m of its equations."""
    return traced(_check_discrete, system, points)


def _check_discrete(system: DiscreteSystem, points) -> int:
    n, last, t = points.shape[1], system.trailing, jnp.zeros(())
    words = ", ".join(f"q{i}" for i in range(system.order + 1)) + last
    shape = output_shape(lambda: system.call(system.lagrangian, points[0], points[1], t=t), "lagrangian", "q0, q1" + last)
    if shape != ():
        raise ValueError(f"lagrangian: returns shape {shape}; a scalar is needed")
    initial, kinematic, forces = system.initial, system.kinematic, system.forces
    if forces is not None:
        shape = output_shape(lambda: jnp.stack(system.called(forces, points[0], points[1], t=t)), "forces", "q0, q1" + last)
        if shape != (2, n):
            raise ValueError(f"forces: returns shape {shape}; two impulses (f⁻, f⁺) of shape ({n},) are needed")
    if initial is not None:
        shape = output_shape(lambda: system.call(initial, points[0], points[1], t=t), "initial", "q0, q1" + last)
        if len(shape) > 1:
            raise ValueError(f"initial: returns shape {shape}; give a scalar or shape (k,)")
    if kinematic is None:
        return 0
    window = [points[0]] * (system.order + 1)
    shape = output_shape(lambda: system.call(kinematic, *window, t=t), "kinematic", words)
    if len(shape) > 1:
        raise ValueError(f"kinematic: returns shape {shape}; give a scalar or shape (m,)")
    m = shape[0] if shape else 1
    name, function, wanted = ("reactions", system.reactions, (m, n))
    if function is None:
        name, function, wanted = ("virtual", system.virtual, (n, n - m))
    assert function is not None
    shape = output_shape(lambda: system.call(function, *window, t=t), name, words)
    flat = wanted[0] == 1 if name == "reactions" else wanted[1] == 1
    if shape != wanted and not (flat and shape == (n,)):
        raise ValueError(f"{name}: returns shape {shape}; shape {wanted} is needed")
    return m


def batch_size(system, given: dict, axes: dict) -> int:
    """The common length of all axes of runs."""
    names = {DiscreteSystem: "nodes", VariationalProblem: "jets, nodes, multipliers"}.get(type(system), "q0, v0")
    return number_of_runs(given, axes, names, "simulate")
