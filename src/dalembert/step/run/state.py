"""The data of a run: what the user chose, and the state between two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from dalembert.algebra import Newton
from dalembert.native.stepper.arrays import HISTORY
from dalembert.numbers import as_function, whole_number
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.branch import Branch
from dalembert.systems.pickling import reduced
from dalembert.systems.shapes import traced


class SampledFeedback(eqx.Module):
    """A sampled law: every `every` steps the generalised force `law(q, v[, t][, p])` is computed, and held in between.

    law: (n,), (n,) → (n,), traceable by JAX (wrap other code in jax.pure_callback). v is the latest velocity of the
    scheme's state: at the node itself, or half a step before it in the form "nodes".
    """

    law: Callable = eqx.field(static=True)
    every: int = eqx.field(static=True)

    __reduce__ = reduced

    def __init__(self, law: Callable, every: int = 1):
        self.law = as_function(law, "law", "of (q, v) that returns (n,)")
        self.every = whole_number(every, "every")


class Choices(eqx.Module):
    """What the user chose for a run, besides the program and the state: all static."""

    branch: Branch | None
    options: Newton
    stop: Callable | None = eqx.field(static=True)
    domain: Callable | None = eqx.field(static=True)
    feedback: SampledFeedback | None
    reduce: Callable | None = eqx.field(static=True)


class Carry(NamedTuple):
    """State of a run between two steps. k: index of the node (or half-shifted state) that q stands for."""

    q: Float[Array, "n"]
    lost: Float[Array, "n"]  # compensation: what q has lost to rounding
    s: Float[Array, "k"]
    k: Int[Array, ""]
    history: Float[Array, "4 z"]
    known: Int[Array, ""]
    held: Float[Array, "n"]
    sign: Float[
        Array, "sides"
    ]  # of the factor or determinant; of stages forwards, and of those backwards where there are any
    multipliers: Float[Array, "m"]
    force: Float[Array, "n"]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    max_iterations: Int[Array, ""]
    residual: Float[Array, ""]
    crossings: Int[Array, ""]
    turns: Int[Array, ""]
    failed_residual: Float[Array, ""]
    reduced: Any


def first_carry(program: StepProgram, q, s, t, h, reduced: Any, expected: Float[Array, "z"] | None = None) -> Carry:
    """The carry before the first step. expected: (z,) where its iteration starts, the program's guess if None."""
    z = program.guess(q, s, t, h) if expected is None else expected
    m = traced(_multipliers, program, z, q, s, t, h)
    # With a dtype: a weakly typed first carry would compile the second chunk again.
    zero, none = jnp.asarray(0.0, dtype=float), jnp.asarray(0, dtype=int)
    return Carry(
        q=q,
        lost=jnp.zeros_like(q),
        s=s,
        k=jnp.asarray(program.lead, dtype=int),
        history=jnp.zeros((HISTORY, z.shape[0])).at[0].set(lax.stop_gradient(z)),
        known=jnp.asarray(0 if expected is None else 1, dtype=int),
        held=jnp.zeros_like(q),
        sign=jnp.zeros(sides(program.weights), dtype=float),
        multipliers=jnp.full(m, jnp.nan, dtype=float),
        force=jnp.full_like(q, jnp.nan),
        code=none,
        iterations=none,
        max_iterations=none,
        residual=zero,
        crossings=none,
        turns=none,
        failed_residual=jnp.asarray(jnp.nan, dtype=float),
        reduced=reduced,
    )


def sides(weights: tuple[float, ...]) -> int:
    """Signs that are kept: a determinant may have another sign where a stage goes backwards."""
    return 2 if min(weights) < 0 else 1


def _multipliers(program: StepProgram, z, q, s, t, h) -> tuple[int, ...]:
    """Shape of the multipliers."""
    return program.outputs(z, q, s, t, h, jnp.zeros_like(q)).multipliers.shape
