"""The data of a run: what the user chose, what it begins with, and the state between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from dalembert.algebra import Newton
from dalembert.groups import Space
from dalembert.native import history_length
from dalembert.numbers import as_flag, as_function, is_traced, whole_number
from dalembert.options import Start
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.branch import Avoid, Branch
from dalembert.systems import run_on_shapes
from dalembert.systems.pickling import reduced

Watch = Callable[[int], None] | None  # is told now and then how many steps are done


class SampledFeedback(eqx.Module):
    """A feedback law that is sampled, with its force held between two samples.

    f(t) = law(q_j, v_j) for t_j ≤ t < t_j + every·h: a generalised force that is computed every `every` steps, and
    held in between.

    v is the latest velocity in the state of the scheme: at the node itself, or in the form "nodes" half a step before
    it.

    Args:
        law: `law(q, v[, t][, p])`, (n,), (n,) → (n,), traceable by JAX (wrap other code in jax.pure_callback).
        every: number of steps between two samples.
        timed: whether the law takes t even if the system does not depend on time, as a law that follows a plan does.

    Raises:
        TypeError: law is not a function, every is not a whole number, or timed is not True or False.
        ValueError: every is less than 1.

    Example:
        >>> law = da.SampledFeedback(lambda q, v: -2.0 * q - v, every=5)
        >>> da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=10, feedback=law).feedback.shape
        (10, 1)
    """

    law: Callable = eqx.field(static=True)
    every: int = eqx.field(static=True)
    timed: bool = eqx.field(static=True)

    __reduce__ = reduced

    def __init__(self, law: Callable, every: int = 1, timed: bool = False):
        self.law = as_function(law, "law", "of (q, v) that returns (n,)")
        self.every = whole_number(every, "every")
        self.timed = as_flag(timed, "timed")

    @property
    def rule(self) -> tuple[Callable, bool]:
        """The part of the law on which a compiled run depends."""
        return self.law, self.timed

    def force(self, program: StepProgram, q: Float[Array, "n"], v: Float[Array, "n"], t) -> Float[Array, "n"]:
        """The value of the law, with the trailing arguments of the program's system, and t if it is timed."""
        also = (t,) if self.timed and not program.system.time_dependent else ()
        return program.system.call(self.law, q, v, *also, t=t)


class Grid(NamedTuple):
    """t_k = t0 + k h, k = 0 … steps. Of the nodes every `every`-th is kept, and the last."""

    t0: Any
    h: Any
    steps: Any
    every: Any


class StepOptions(eqx.Module):
    """Options that the user chose for a run, besides the program and the state: all static."""

    branch: Branch | None
    newton: Newton
    stop: Callable | None = eqx.field(static=True)
    domain: Callable | None = eqx.field(static=True)
    feedback: SampledFeedback | None
    reduce: Callable | None = eqx.field(static=True)


class Given(NamedTuple):
    """Initial data as the user gave them. motion: (a, λ) there, where it was solved with the data of other runs."""

    q0: Any = None
    v0: Any = None
    nodes: Any = None
    jets: Any = None
    multipliers: Any = None
    motion: Any = None

    @classmethod
    def of(cls, space: Any, q0: Any, v0: Any, start: Start) -> Given:
        """Initial data from the arguments of a call; in a space of groups they may be given by name. space: that of the
        system, if what stands in its place has one."""
        if isinstance(space, Space):
            q0, v0 = space.read_named(q0, v0)
        return cls(q0, v0, start.nodes, start.jets, start.multipliers)


class Recipe(NamedTuple):
    """Choices that determine a program, besides the system: a Scheme or the windows, a starter, and a rule among roots."""

    scheme: Any
    starter: Any
    branch: Any

    @property
    def deflate(self) -> bool:
        """True if a Lyapunov constraint is written as λ = -φ₀/u."""
        return self.branch is None or (isinstance(self.branch, Avoid) and self.branch.factor is None)


class Prepared(NamedTuple):
    """A program and the data of its first step: nodes known before it (starting_nodes + 1, n), position q, state s, and z.

    expected: where the first iteration starts; None for the program's guess.
    """

    program: StepProgram
    nodes: Float[Array, "known n"]
    q: Float[Array, "n"]
    s: Float[Array, "k"]
    expected: Float[Array, "z"] | None


class RunState(NamedTuple):
    """State of a run between two steps. k: index of the node (or half-shifted state) that q stands for."""

    q: Float[Array, "n"]
    compensation: Float[Array, "n"]  # of rounding: what the next increment of q is to be lessened by
    s: Float[Array, "k"]
    k: Int[Array, ""]
    history: Float[Array, "kept z"]
    known: Int[Array, ""]
    held_force: Float[Array, "n"]
    sign: Float[
        Array, "sides"
    ]  # of the factor or determinant; of stages forwards, and of those backwards where there are any
    determinant: Float[Array, ""]  # its size in the last step, 0 if it is not known or not watched
    multipliers: Float[Array, "m"]
    force: Float[Array, "n"]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    max_iterations: Int[Array, ""]
    residual: Float[Array, ""]
    crossings: Int[Array, ""]
    turns: Int[Array, ""]
    leaps: Int[Array, ""]
    failed_residual: Float[Array, ""]
    reduced: Any


def initial_state(prepared: Prepared, t, h, reduced: Any) -> RunState:
    """The state before the first step. reduced: the value with which a reducer begins."""
    program, _, q, s, expected = prepared
    z = program.guess(q, s, t, h) if expected is None else expected
    n, m = run_on_shapes(_lengths, program, z, q, s, t, h)
    # By NumPy where the values are known: putting each number on the device takes longer than a short run.
    xp: Any = jnp if is_traced(program, q, s, t, h, z, reduced) else np
    # With a dtype: a weakly typed first carry would compile the second chunk again.
    zero, none = xp.asarray(0.0, dtype=float), xp.asarray(0, dtype=int)
    return RunState(
        q=q,
        compensation=xp.zeros_like(q),
        s=s,
        k=xp.asarray(program.starting_nodes, dtype=int),
        history=xp.concatenate(
            [
                (lax.stop_gradient(z) if xp is jnp else z)[None],
                xp.zeros((history_length(len(program.weights), program.by_stage) - 1, z.shape[0])),
            ]
        ),
        known=xp.asarray(0 if expected is None else 1, dtype=int),
        held_force=xp.zeros(n, dtype=float),
        sign=xp.zeros(sides(program.weights), dtype=float),
        determinant=zero,
        multipliers=xp.full(m, xp.nan, dtype=float),
        force=xp.full(n, xp.nan, dtype=float),
        code=none,
        iterations=none,
        max_iterations=none,
        residual=zero,
        crossings=none,
        turns=none,
        leaps=none,
        failed_residual=xp.asarray(xp.nan, dtype=float),
        reduced=reduced,
    )


def sides(weights: tuple[float, ...]) -> int:
    """Signs that are kept: a determinant may have another sign where a stage goes backwards."""
    return 2 if min(weights) < 0 else 1


def _lengths(program: StepProgram, z, q, s, t, h) -> tuple[int, int]:
    """Number of velocities, and of multipliers."""
    v = program.velocity(s)
    return v.size, program.outputs(z, q, s, t, h, jnp.zeros_like(v)).multipliers.size


def promote(function: Callable, initial: Any) -> Any:
    """The initial value in the types that function(value) settles at: 0 is 0.0 where numbers with a fraction are added.

    function: a pytree → one of the same structure, of shapes and types.
    """
    value = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), initial)
    while True:  # types only grow, and there are few of them
        types = jax.tree.map(lambda a, b: jnp.promote_types(a.dtype, b.dtype), value, function(value))
        if types == jax.tree.map(lambda a: a.dtype, value):
            return value
        value = jax.tree.map(lambda a, b: a.astype(b), value, types)


def as_before(after: Any, before: Any) -> Any:
    """A new value in the types of the one before."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), after, before)
