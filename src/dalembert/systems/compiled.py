"""Functions and flows of a system in machine code; a flow is kept near what the constraints demand of (q, v).

At the end of a step (q, v) becomes the nearest point on φ(q, t) = 0, dφ/dt = 0, φ(q, v, t) = 0,

    q ← q - M⁻¹J₀ᵀ(J₀M⁻¹J₀ᵀ)⁻¹φ(q, t),   then   v ← v - M⁻¹Jᵀ(JM⁻¹Jᵀ)⁻¹ψ(q, v, t),

J₀ the rows ∂φ/∂q of holonomic constraints, J those and ∂φ/∂v of nonholonomic ones, ψ their dφ/dt and φ. M is the mass matrix
∂²L/∂v²: the change of v is an impulse along the rows, so that it changes neither the momentum of a symmetry that the
constraints have nor, where they are linear in v, the energy but by the square of the change; and it is the same in all
coordinates. Where M is not positive definite its diagonal |∂²L/∂v_j²| takes its place. So JM⁻¹Jᵀ is regular wherever (a, λ)
are determined, and a change is at most as large, in that measure, as the error of the step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from dalembert.algebra import value_and_jacobian
from dalembert.native import (
    Accuracy,
    CompiledFlow,
    FlowArrays,
    FlowFunctions,
    FlowRuns,
    ImplicitPart,
    Integration,
    Solved,
    Travelled,
    Unsupported,
    compile_flow,
    compile_projection,
    travel_by_xla,
)
from dalembert.systems.consistency import stacked_residuals
from dalembert.systems.equations import EXACT, first_guess, kkt_residual, reduce_index
from dalembert.systems.higher.variational import VariationalProblem, highest_equations, ostrogradsky_momenta
from dalembert.systems.sizes import units_of
from dalembert.systems.system import Problem, Rebuilt, System, SystemParts, check_shapes, name_role, parts_of
from dalembert.tracing import Pool, Remembered

LARGEST = 24  # unknowns (a, λ) up to which equations are written out: beyond, XLA compiles loops in less time
REMEMBERED = 128  # programs found again without a new trace


def restricts(system: System, orders: tuple[int, ...] = (0, 1)) -> bool:
    """True if some constraint is of these orders: those of accelerations do not restrict (q, v)."""
    return any(c.order in orders for c in system.constraints)


def restriction(system: System, q, v, t) -> tuple[Array, Array, Array, Array]:
    """M (n, n), J (m, n), φ(q, t) of holonomic constraints, and ψ, as `compile_projection` wants them."""
    holonomic, others = ([c for c in system.constraints if c.order == order] for order in (0, 1))
    stacked = lambda rows: jnp.concatenate([jnp.zeros(0), *rows])  # noqa: E731

    def positions(x):
        return stacked(c.residual(system, x, v, v, t) for c in holonomic)

    def velocities(w):
        return stacked(c.residual(system, q, w, w, t) for c in others)

    mass = value_and_jacobian(jax.grad(lambda w: system.call(system.lagrangian, q, w, t=t)), v)[1]
    (first, by_q), (second, by_v) = value_and_jacobian(positions, q), value_and_jacobian(velocities, v)
    rates = stacked(reduce_index(system, c, q, v, v, t, order=1) for c in holonomic)
    return mass, jnp.concatenate([by_q, by_v]), first, jnp.concatenate([rates, second])


_COMPILED: Remembered[CompiledFlow] = Remembered(REMEMBERED)
_PROJECTED: Remembered[CompiledFlow] = Remembered(REMEMBERED)


class SystemFlow:
    """The compiled equation of a system, and the arrays that this system gives it. Safe under threads: every run has arrays
    of its own, which the next one uses again."""

    def __init__(self, code: CompiledFlow, parts: SystemParts):
        self.code, self.leaves = code, [np.array(x, float) for x in parts.leaves]  # NumPy's may change in place
        self._pools = {clock: Pool(lambda clock=clock: code.over(self.leaves, clock)) for clock in (1.0, -1.0)}

    def _arrays(self, times: np.ndarray) -> contextlib.AbstractContextManager[FlowArrays]:
        """For one run over these times."""
        return self._pools[1.0 if times[-1] > times[0] else -1.0].one()

    def solve(self, y: np.ndarray, times: np.ndarray, accuracy: Accuracy) -> Solved:
        """The rows of `run`, without the outputs."""
        with self._arrays(times) as arrays:
            at = Integration.from_start(y, arrays.clock * times, accuracy)
            return at.solution(self.code.advance(at, arrays, accuracy.clipped))

    def runs(self, y: np.ndarray, times: np.ndarray, tolerance: float, given: np.ndarray | None = None) -> FlowRuns:
        """From each row of y over the same times. given: (B, G) the arrays of each run's system, flat, if they differ."""
        if given is None:
            given = np.concatenate([np.zeros(0), *map(np.ravel, self.leaves)])[None]
        return FlowRuns(np.ascontiguousarray(y, float), np.asarray(times, float)[None], np.array([tolerance]), given)

    def outputs(self, solved: Solved, times: np.ndarray) -> np.ndarray:
        """The outputs at the rows of one run; NaN after them."""
        found = np.full((len(times), self.code.outputs.result_size), np.nan)
        with self._arrays(times) as arrays:
            until = (arrays.clock * times)[: solved.saved]
            found[: solved.saved] = self.code.outputs_at(arrays, until, solved.rows[: solved.saved])
        return found

    def run(self, y, times, accuracy: Accuracy, start: np.ndarray | None = None) -> Travelled:
        """From y at times[0]; start: where the iteration for z begins, if not where it always does."""
        times = np.asarray(times)
        if start is not None:
            clock = 1.0 if times[-1] > times[0] else -1.0
            return self.code.run(np.asarray(y), times, self.code.over(self.leaves, clock, start), accuracy)
        with self._arrays(times) as arrays:
            return self.code.run(np.asarray(y), times, arrays, accuracy)

    def along(self, rows, times, start: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """ẏ and the outputs at states and times that are given."""
        return self.code.along(np.asarray(rows), np.asarray(times), self.code.over(self.leaves, start=start))


def compiled_flow(
    system: Problem, what: tuple[Hashable, ...], size: int, functions: Callable[[Rebuilt], FlowFunctions],
    projection: Callable[[Rebuilt], Callable] | None = None,
) -> tuple[CompiledFlow, SystemParts]:  # fmt: skip
    """Machine code for all systems of this structure, and the parts of this one; Unsupported where it cannot be made.

    what: which equation of the system it is. size: components of y. functions: from arrays → the system. projection: what
    keeps y on constraints, if it is to be kept there. The system's arrays may be traced: pivots are then chosen at ones.
    """
    parts = parts_of(system)
    traced = any(isinstance(x, Tracer) for x in parts.leaves)
    key = None if parts.key is None else (parts.key, what)
    like = np.zeros(size), [np.ones(x.shape) if isinstance(x, Tracer) else x for x in parts.leaves]
    found = None if key is None else _COMPILED.get(key)
    try:
        if found is None:
            found = compile_flow(functions(parts.rebuilt), *like)
            if key is not None and not (traced and found.without_pivots):
                _COMPILED.put(key, found)
        if projection is not None:
            free, onto = found, projection(parts.rebuilt)
            found = _PROJECTED.of(key, lambda: free.project_onto(compile_projection(onto, *like)))
    except Unsupported as reason:
        name_role(reason, system)
        raise
    return found, parts


def reduced_flow(system: System, n: int, m: int, projected: bool = False) -> SystemFlow:
    """y = (q, v), z = (a, λ) of n velocities and m equations of constraints; its outputs are (λ, drift). projected: whether
    φ is kept at 0, and not at its first value but for the errors of steps; on a group it never is."""
    return SystemFlow(*reduced_code(system, n, m, projected))


def reduced_code(system: System, n: int, m: int, projected: bool) -> tuple[CompiledFlow, SystemParts]:
    """The code of `reduced_flow` and the parts of a system, whose arrays may be traced."""

    space = system.space
    p = space.stored_size(n)

    def functions(rebuilt: Rebuilt) -> FlowFunctions:
        def implicit_equations(z, y, t, *given):
            return kkt_residual(rebuilt(given), y[:p], y[p:], t, z)

        def field(z, y, t, *given):
            return jnp.concatenate([space.rate(y[:p], y[p:]), z[:n]])

        def outputs(z, y, t, *given):
            return jnp.concatenate([z[n:], drift(rebuilt(given), y[:p], y[p:], t)[None]])

        units = lambda matrix: units_of(matrix, n, jnp)  # noqa: E731
        part = ImplicitPart(implicit_equations, first_guess(n, m), units, EXACT.tolerance, EXACT.max_iterations)
        return FlowFunctions(field, outputs, part, positions=p)

    def projection(rebuilt: Rebuilt) -> Callable:
        return lambda y, t, *given: restriction(rebuilt(given), y[:n], y[n:], t)

    kept = projection if projected and space.flat and restricts(system) else None
    return compiled_flow(system, ("reduced", n, m), p + n, functions, kept)


def derivatives_flow(problem: VariationalProblem, n: int, r: int, m: int, mh: int) -> SystemFlow:
    """y = (q, …, q⁽²ᵏ⁻¹⁾, λ, …, λ⁽ʳ⁻¹⁾), z = (q⁽²ᵏ⁾, λ⁽ʳ⁾, μ); its outputs are (momenta, μ)."""
    k = problem.derivatives

    def parts(y):
        return y[: 2 * k * n].reshape(2 * k, n), y[2 * k * n :].reshape(r, m)

    def functions(rebuilt: Rebuilt) -> FlowFunctions:
        def implicit_equations(z, y, t, *given):
            return highest_equations(rebuilt(given), *parts(y), t, z)

        def field(z, y, t, *given):
            jets, free = parts(y)
            return jnp.concatenate([jets[1:].ravel(), z[:n], free[1:].ravel(), z[n : n + m if r else n]])

        def outputs(z, y, t, *given):
            return jnp.concatenate([ostrogradsky_momenta(rebuilt(given), *parts(y), t).ravel(), z[n + m :]])

        units = lambda matrix: units_of(matrix, n, jnp)  # noqa: E731
        part = ImplicitPart(implicit_equations, np.zeros(n + m + mh), units, EXACT.tolerance, EXACT.max_iterations)
        return FlowFunctions(field, outputs, part)

    return SystemFlow(*compiled_flow(problem, ("derivatives", n, r, m, mh), 2 * k * n + r * m, functions))


def drift(system: System, q, v, t):
    """The largest of |φ(q)|, |dφ/dt|, |φ(q, v)|."""
    return jnp.max(jnp.abs(stacked_residuals(system, q, v, t)), initial=0.0)


def in_program(system: System, q, v, times, tolerance, most: int, again: Callable[..., tuple]) -> tuple:
    """(t, q, v, λ, drift, reached, steps), in at most so many steps; its derivatives are those of again(system, q, v, times,
    tolerance), which JAX can differentiate."""
    n = q.shape[0]
    code, parts = reduced_code(system, v.shape[0], sum(check_shapes(system, q, v, times[0])), True)

    @jax.custom_jvp
    def run(leaves, q, v, times, tolerance):
        y = jnp.concatenate([q, v])
        rows, outputs, reached, steps = travel_by_xla(code, y, times, tolerance, leaves, most)
        return times, rows[:, :n], rows[:, n:], outputs[:, :-1], outputs[:, -1], reached, steps

    @run.defjvp
    def _(primals, tangents):
        return jax.jvp(lambda leaves, *given: again(parts.rebuilt(leaves), *given), primals, tangents)

    return run(parts.leaves, q, v, jnp.asarray(times, float), jnp.asarray(tolerance, float))
