"""The reduced equation integrated by machine code inside a program of XLA, with derivatives."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from dalembert.native import travel_by_xla
from dalembert.systems.compiled.flow import reduced_code
from dalembert.systems.system import System, check_shapes


def in_program(system: System, q, v, times, tolerance, most: int, again: Callable[..., tuple]) -> tuple:
    """(t, q, v, λ, drift, reached, steps), in at most so many steps; its derivatives are those of again(system, q, v, times,
    tolerance), which JAX can differentiate."""
    n = q.shape[0]
    code, parts = reduced_code(system, n, sum(check_shapes(system, q, v, times[0])), True)

    @jax.custom_jvp
    def run(leaves, q, v, times, tolerance):
        y = jnp.concatenate([q, v])
        rows, outputs, reached, steps = travel_by_xla(code, y, times, tolerance, leaves, most)
        return times, rows[:, :n], rows[:, n:], outputs[:, :-1], outputs[:, -1], reached, steps

    @run.defjvp
    def _(primals, tangents):
        return jax.jvp(lambda leaves, *given: again(parts.rebuilt(leaves), *given), primals, tangents)

    return run(parts.leaves, q, v, jnp.asarray(times, float), jnp.asarray(tolerance, float))
