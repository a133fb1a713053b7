"""q̇ = v, v̇ = a(q, v, t) in machine code; (a, λ) solves the equations of motion with the constraints on accelerations."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dalembert.native import Accuracy, CompiledFlow, FlowFunctions, ImplicitPart, Travelled, Unsupported, compile_flow
from dalembert.systems.consistency import velocity_residuals
from dalembert.systems.equations import EXACT, first_guess, kkt_residual
from dalembert.systems.roles import role_of
from dalembert.systems.sizes import units_of
from dalembert.systems.system import System
from dalembert.tracing import Remembered, Walk, split

LARGEST = 24  # unknowns (a, λ) up to which the equations are written out
REMEMBERED = 128  # systems found again without a new trace
_COMPILED: Remembered[CompiledFlow] = Remembered(REMEMBERED)


class ReducedFlow(NamedTuple):
    """The compiled equation of a system, and the arrays that this system gives it."""

    code: CompiledFlow
    leaves: list

    def run(self, q, v, times, limits: Accuracy) -> Travelled:
        """Rows (q, v), and as outputs (λ, drift)."""
        return self.code.run(np.concatenate([np.asarray(q), np.asarray(v)]), np.asarray(times), self.leaves, limits)


def reduced_flow(system: System, n: int, m: int) -> ReducedFlow:
    """Of a system with n coordinates and m equations of constraints; Unsupported where it cannot be translated."""
    arrays, static = eqx.partition(system, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    types, walk = [x.dtype for x in leaves], Walk()
    key = split(walk, system, []), n, m

    def rebuilt(given: Any) -> System:
        typed = [jnp.asarray(x, dtype) for x, dtype in zip(given, types, strict=True)]
        return eqx.combine(jax.tree.unflatten(tree, typed), static)

    found = _COMPILED.get(key) if walk.lasting else None
    if found is None:
        found = _compiled(system, _functions(rebuilt, n, m), n, leaves)
        if walk.lasting:
            _COMPILED.put(key, found)
    return ReducedFlow(found, leaves)


def _compiled(system: System, functions: FlowFunctions, n: int, leaves: list) -> CompiledFlow:
    try:
        return compile_flow(functions, np.zeros(2 * n), leaves)
    except Unsupported as reason:
        if reason.place is not None:
            reason.role = role_of(reason.place.codes, system, {})
        raise


def _functions(rebuilt, n: int, m: int) -> FlowFunctions:
    def equations(z, y, t, *given):
        return kkt_residual(rebuilt(given), y[:n], y[n:], t, z)

    def field(z, y, t, *given):
        return jnp.concatenate([y[n:], z[:n]])

    def outputs(z, y, t, *given):
        return jnp.concatenate([z[n:], drift(rebuilt(given), y[:n], y[n:], t)[None]])

    unknowns = ImplicitPart(equations, first_guess(n, m), lambda x: units_of(x, n, jnp), EXACT.tolerance, EXACT.max_iterations)
    return FlowFunctions(field, outputs, unknowns)


def drift(system: System, q, v, t):
    """The largest of |φ(q)|, |dφ/dt|, |φ(q, v)|."""
    residuals = velocity_residuals(system, q, v, t).values()
    return jnp.max(jnp.stack([jnp.max(jnp.abs(r)) for r in residuals])) if residuals else jnp.zeros(())
