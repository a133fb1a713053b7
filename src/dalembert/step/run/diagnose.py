"""Why a step could not be solved: is there a solution near at all? The root of its equations nearest to the prediction, or
the point where they come closest to one, by machine code, in a fraction of the time in which XLA would compile them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dalembert.algebra import value_and_jacobian
from dalembert.native import CompiledFunction, Unsupported, compile_function
from dalembert.outcome import Outcome
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import OWN, VaryingSteps
from dalembert.step.run.branch import Call, solve_step
from dalembert.step.run.loop import force_of_law, prediction, solve_stages
from dalembert.step.run.state import RunState, StepOptions
from dalembert.systems.compiled import LARGEST
from dalembert.systems.system import SystemParts, parts_of
from dalembert.tracing import Remembered, seldom

EXACT = 1e-6  # |F|, rows scaled, below which there is a root
STEPS = 500
METHODS: dict[Literal["lm", "trf", "dogbox"], int] = {"lm": STEPS, "trf": 100, "dogbox": 100}  # evaluations at most
FAR = 1e100  # stands for what is not finite

Unknowns = Float[np.ndarray, "z"]
Equations = Callable[[Unknowns], Sequence[np.ndarray]]  # z → F, F′
_UNSOLVED = (Outcome.NOT_CONVERGED, Outcome.SINGULAR, Outcome.NOT_FINITE)
_FLAT = 1e-6  # relative smallest singular value under which a row-scaled matrix is called singular


def diagnosis(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h) -> Outcome:
    """The outcome of a run, told apart where Newton's iteration lost its way: its last point says little about the step.

    |F|² (rows scaled) is minimized from the prediction, see `closest`. A local minimum with F ≠ 0, where the
    gradient vanishes: NO_SOLUTION. A zero with a regular matrix: NOT_CONVERGED, there is a root that Newton missed. Where
    the matrix is singular or not finite at the prediction, or neither is found, Newton's own verdict stands.
    """
    outcome = Outcome(int(carry.code))
    if outcome not in _UNSOLVED:
        return outcome
    if (
        isinstance(program, VaryingSteps)
        and outcome is Outcome.NOT_FINITE
        and bool(_stands(program, step_options, carry, t0, h))
    ):
        return Outcome.NO_POSITIVE_STEP
    if not program.system.space.flat and bool(_of_one(program, step_options, carry, t0, h)):
        return Outcome.HALF_TURN
    call, start = jax.tree.map(np.asarray, _failed_step_of(program, step_options, carry, t0, h))
    found = closest(program, call, start)
    if outcome is Outcome.NOT_CONVERGED or found.flatness_at_start > _FLAT:  # false where it is NaN
        if found.residual > EXACT and found.gradient < 1e-4 * found.residual:
            return Outcome.NO_SOLUTION
        if found.residual <= EXACT and found.flatness > _FLAT:
            return Outcome.NOT_CONVERGED
    return outcome


def _failed_step(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h) -> tuple[Call, Any]:
    """The step, or the stage of it, that failed, and the prediction of its unknowns."""
    t, stage = t0 + carry.k * h, 0
    held_force = force_of_law(program, step_options, carry, t)
    if len(program.weights) > 1:
        fresh = carry._replace(code=jnp.zeros_like(carry.code))
        carry, solved = solve_stages(program, step_options, held_force, fresh, t, h)
        gammas = jnp.asarray(program.weights)
        stage = jnp.minimum(solved.done, len(program.weights) - 1)
        t, h = t + h * (jnp.cumsum(gammas) - gammas)[stage], h * gammas[stage]
    return Call(carry.q, carry.s, t, h, held_force), prediction(program, stage, carry, t, h)


_failed_step_of = seldom(_failed_step)


@seldom
def _stands(program: VaryingSteps, step_options: StepOptions, carry: RunState, t0, h):
    """True if a step of varying length has no length, or its end no density."""
    call, start = _failed_step(program, step_options, carry, t0, h)
    z, _ = solve_step(program, step_options.branch, call, start, step_options.newton)
    increment, s = program.advance(z, call.q, call.s, call.t, call.h)
    solved = jnp.all(jnp.isfinite(increment)) & jnp.all(jnp.isfinite(s[:-OWN]))
    return ~jnp.isfinite(program.part_at(call.s, call.h).h) | (solved & ~jnp.isfinite(s[-3]))


def _turns_too_far(program: StepProgram, step_options: StepOptions, carry: RunState, t0, h):
    """True if the positions of the step that failed have no value where it begins, or where it is solved: half a turn."""
    call, start = _failed_step(program, step_options, carry, t0, h)
    z, _ = solve_step(program, step_options.branch, call, start, step_options.newton)
    both = jnp.stack([start, z])
    moved = jax.vmap(lambda x: program.advance(x, call.q, call.s, call.t, call.h)[0])(both)
    return jnp.any(jnp.all(jnp.isfinite(both), axis=1) & ~jnp.all(jnp.isfinite(moved), axis=1))


_of_one = seldom(_turns_too_far)


@seldom
def _of_many(programs: StepProgram, step_options: StepOptions, carries: RunState, t0, h):
    return eqx.filter_vmap(lambda program, carry: _turns_too_far(program, step_options, carry, t0, h))(programs, carries)


def codes_of_many(programs: StepProgram, step_options: StepOptions, carries: RunState, t0, h) -> Int[np.ndarray, "B"]:
    """The outcomes of an ensemble as Newton's iteration found them, but for half a turn on a group."""
    code = np.array(carries.code)
    failed = np.isin(code, [int(outcome) for outcome in _UNSOLVED])
    if not programs.system.space.flat and np.any(failed):
        far = _of_many(programs, step_options, carries._replace(reduced=None), t0, h)
        code[failed & np.asarray(far)] = int(Outcome.HALF_TURN)
    return code


class Closest(NamedTuple):
    """|F| at the point, the size of the gradient of ½|F|² there over that of the unknowns, and the ratio of the smallest to
    the largest singular value of F′, at the point and at the start; rows are scaled by the start."""

    residual: float
    gradient: float
    flatness: float
    flatness_at_start: float


def closest(program: StepProgram, call: Call, start: Unknowns) -> Closest:
    """min ½|F(z)|² from the start by SciPy's methods for least squares, one after the other until one finds a root.

    Where F ≠ 0 at the lowest point they converge slowly: the method of Broyden, Fletcher, Goldfarb and Shanno goes on from
    there. NaN where F or F′ is not finite at the start.
    """
    from scipy.optimize import least_squares, minimize  # slow to load, and needed only where a step fails

    given = _step_equations(program, call, start)
    value, matrix = given(start)
    if not (np.all(np.isfinite(value)) and np.all(np.isfinite(matrix))):
        return Closest(*[np.nan] * 4)
    rows = np.max(np.abs(matrix), axis=1)
    rows[rows == 0.0] = 1.0

    def system_at(z: Unknowns) -> tuple[Unknowns, Float[np.ndarray, "z z"]]:
        value, matrix = given(z)
        return np.nan_to_num(value / rows, nan=FAR, posinf=FAR, neginf=-FAR), np.nan_to_num(matrix / rows[:, None])

    def half(z: Unknowns) -> tuple[float, Unknowns]:
        value, matrix = system_at(z)
        return 0.5 * float(value @ value), matrix.T @ value

    def scaled_norm(z: Unknowns) -> float:
        return float(np.linalg.norm(system_at(z)[0]))

    found, settings = start, dict[str, Any](xtol=1e-12, ftol=1e-12, gtol=1e-12)
    for method, most in METHODS.items():
        if scaled_norm(found) > EXACT:
            jacobian: Any = lambda z: system_at(z)[1]  # noqa: E731  SciPy's stubs know it by name only
            other = least_squares(lambda z: system_at(z)[0], start, jacobian, method=method, max_nfev=most, **settings).x
            found = min(found, other, key=scaled_norm)
    if scaled_norm(found) > EXACT:
        options = {"gtol": EXACT * scaled_norm(found), "maxiter": STEPS}
        found = min(found, minimize(half, found, jac=True, method="BFGS", options=options).x, key=scaled_norm)
    gradient = float(np.linalg.norm(half(found)[1]) / (1.0 + np.max(np.abs(found))))
    return Closest(scaled_norm(found), gradient, _flatness(system_at(found)[1]), _flatness(matrix / rows[:, None]))


def _flatness(matrix: Float[np.ndarray, "z z"]) -> float:
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values[-1] / values[0]) if values[0] > 0 else 0.0


def _step_equations(program: StepProgram, call: Call, z: Unknowns) -> Equations:
    """F and F′ as a function of z."""
    given, parts = [np.asarray(x, float) for x in call], parts_of(program)
    key = None if parts.key is None else (parts.key, z.shape, *(x.shape for x in given))
    code = _CODES.of(key, lambda: _compile(parts, z, *given))
    if code is not None:
        return lambda x: code(x, *given, *parts.leaves)
    again, _ = _by_jax.bound(program, z, *given)
    return lambda x: jax.tree.map(np.asarray, again(program, x, *given))


def _equations_of_step(program: StepProgram, z, *call):
    return value_and_jacobian(lambda y: program.residual(y, *call), z)


_by_jax = seldom(_equations_of_step)
_CODES: Remembered[CompiledFunction | None] = Remembered(128)


def _compile(parts: SystemParts, *arguments: np.ndarray) -> CompiledFunction | None:
    """Machine code for all programs of this structure; None where it is left to JAX."""
    number, examples = len(arguments), [np.zeros(np.shape(x)) for x in (*arguments, *parts.leaves)]
    if arguments[0].size > LARGEST:
        return None
    try:
        return compile_function(lambda *x: _equations_of_step(parts.rebuilt(x[number:]), *x[:number]), *examples)
    except Unsupported:
        return None
