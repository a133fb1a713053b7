"""All roots of one step."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import Newton, newton, value_and_jacobian
from dalembert.discretize import Scheme, as_scheme, check_group_scheme, check_maps
from dalembert.notebook import described_by_fields
from dalembert.numbers import as_number, whole_number
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.branch import Call
from dalembert.step.start.prepare import program_for
from dalembert.systems import System, as_step, check_initial_data, check_shapes, check_system, refuse_traced
from dalembert.systems.consistency import STEPS
from dalembert.systems.system import at_origin
from dalembert.tracing import Jitted

MOST_STARTS = 1_000_000
_OPTIONS = Newton(tolerance=1e-11, max_iterations=60)
_APART = 1e-3  # sizes of the unknowns, over which a second difference is taken


@described_by_fields
class Root(NamedTuple):
    """One solution of a step.

    F(z; q, v, t, h) = 0: one root of a step, with what distinguishes it from the others.

    Attributes:
        q: (n,) position after the step.
        v: (n,) velocity after the step.
        multipliers: (m,).
        residual: largest |F_i|, with scaled rows.
        factor: u for a Lyapunov constraint, otherwise the determinant of the scaled Jacobian; it is zero where two
            roots meet.
        distance: distance from the state that is predicted without earlier steps, in units of the velocity.
    """

    q: np.ndarray
    v: np.ndarray
    multipliers: np.ndarray
    residual: float
    factor: float
    distance: float


def roots(
    system: System, q, v, *, h: float, t: float = 0.0, scheme: Scheme | None = None, starts: int = 384, seed: int = 0
) -> list[Root]:
    """Find all solutions of one step.

    F(z; q, v, t, h) = 0 for one step from (q, v): all roots z that are found, the nearest to the predicted state
    first.

    Constraints are used as written: no factor is divided out. Newton's iteration starts from points around the
    predicted state, at distances from 0.003 to 18 times the velocity on a logarithmic scale, half of them along the
    direction in which the equations are closest to singular, with the multipliers that fit best. From the first points
    reached a second root is then sought, with the known root divided out (deflation). No method is certain to find all
    roots of arbitrary equations.

    Args:
        system: a System.
        q: (n,) position before the step; in the form "nodes" q_k.
        v: (n,) velocity before the step; in the form "nodes" (q_k - q_{k-1})/h.
        h: step.
        t: time before the step.
        scheme: as in `simulate`.
        starts: number of points from which the iteration starts.
        seed: of the random numbers for these points.

    Returns:
        A list of Root; it is empty if no root was found.

    Raises:
        ValueError: as `simulate`, naming the argument.
        TypeError: as `simulate`.

    Example:
        >>> found = da.roots(pendulum, [1.0], [0.0], h=0.1, starts=16)
        >>> len(found), bool(found[0].residual < 1e-8)
        (1, True)
    """
    chosen = as_scheme(scheme)
    check_system(system)
    length, now = as_step(h), as_number(t, "t", "a finite time")
    number, key = whole_number(starts, "starts", most=MOST_STARTS), whole_number(seed, "seed", 0, 2**63 - 1)
    position, velocity = system.space.read_point(q, v)
    refuse_traced("roots", system, position, velocity, length, now)
    local, x, w = at_origin(system, position, velocity)
    check_initial_data(local, x, w, now, STEPS * abs(length))
    time = jnp.asarray(now, dtype=float)
    check_maps(chosen, velocity.shape[0])
    if not system.space.flat:
        check_group_scheme(chosen, system.constraints)
    sizes = check_shapes(system, position, velocity, time)
    program = program_for(system, sizes, chosen, deflate=False)
    call = Call(position, velocity, time, jnp.asarray(length, dtype=float), jnp.zeros_like(velocity))
    table = jax.tree.map(np.asarray, _search(program, call, number, jax.random.key(key)))
    return _distinct(table)


@Jitted
def _search(program: StepProgram, call: Call, starts: int, key) -> dict[str, Array]:
    equations = lambda z: program.residual(z, *call)  # noqa: E731
    scale = lambda z: program.scale(z, call.q, call.s, call.h)  # noqa: E731
    guess = program.guess(call.q, call.s, call.t, call.h)
    size = jnp.where(jnp.isinf(scale(guess)), 1.0 + jnp.abs(guess), scale(guess))
    jacobian = jax.jacfwd(lambda x: equations(guess + size * x))(jnp.zeros_like(guess))
    rows = jnp.max(jnp.abs(jacobian), axis=1)
    rows = jnp.where((rows > 0) & jnp.isfinite(rows), rows, 1.0)
    line = jnp.linalg.svd(jnp.nan_to_num(jacobian / rows[:, None]))[2][-1]
    noise = jax.random.normal(key, (starts, guess.shape[0]))
    along = jnp.arange(starts) % 2 == 0
    amplitude = jnp.logspace(-2.5, 1.25, starts)[:, None] * jnp.where(jnp.arange(starts) % 4 < 2, 1.0, -1.0)[:, None]
    points = guess + size * amplitude * jnp.where(along[:, None], line + 1e-3 * noise, noise)
    points = jnp.concatenate([guess[None], points])
    found, _ = jax.vmap(lambda z: newton(equations, _fit(equations, z, call.s.shape[0]), scale, _OPTIONS))(points)
    usable = jnp.where(jnp.all(jnp.isfinite(found), axis=1, keepdims=True), found, guess)
    others = jax.vmap(lambda z: _deflate(equations, z, scale))(usable[:8])
    every = jnp.concatenate([usable, others])
    return jax.vmap(lambda z: _describe(program, call, z, guess, size))(every)


def _deflate(equations, z, scale):
    """Another root z + size·x near z, of F/|x|, from where F's second difference along its most singular direction puts it.

    In the place of `second_root`, which differentiates F three times: on groups that takes most of the time of a first call.
    """
    size = jnp.where(jnp.isinf(scale(z)), 1.0 + jnp.abs(z), scale(z))
    scaled = lambda x: equations(z + size * x)  # noqa: E731
    jacobian = jnp.nan_to_num(jax.jacfwd(scaled)(jnp.zeros_like(z)))
    rows = jnp.max(jnp.abs(jacobian), axis=1)
    left, values, right = jnp.linalg.svd(jacobian / jnp.where(rows > 0, rows, 1.0)[:, None])
    ahead, here, behind = jax.vmap(lambda s: scaled(s * right[-1]))(jnp.array([_APART, 0.0, -_APART]))
    bend = (left[:, -1] / jnp.where(rows > 0, rows, 1.0)) @ (ahead - 2.0 * here + behind) / _APART**2
    first = -2.0 * values[-1] / jnp.where(bend == 0, 1e-300, bend) * right[-1]
    x, _ = newton(lambda x: scaled(x) / jnp.sqrt(x @ x), first, lambda x: 1.0 + jnp.abs(x), _OPTIONS)
    return jnp.where(jnp.all(jnp.isfinite(x)), z + size * x, z)


def _fit(equations, z, n: int):
    """The multipliers that fit best to the velocities of z: one least squares step, exact where F is affine in λ."""
    if z.shape[0] == n:
        return z
    rest = lambda x: equations(jnp.concatenate([z[:n], x]))  # noqa: E731
    jacobian = jnp.nan_to_num(jax.jacfwd(rest)(z[n:]))
    return z.at[n:].add(-jnp.linalg.lstsq(jacobian, jnp.nan_to_num(rest(z[n:])))[0])


def _describe(program: StepProgram, call: Call, z, guess, size) -> dict[str, Array]:
    residual, jacobian = value_and_jacobian(lambda x: program.residual(x, *call), z)
    rows = jnp.max(jnp.abs(jacobian), axis=1)
    rows = jnp.where(rows > 0, rows, 1.0)
    factor = program.factor(z, call.q, call.s, call.t, call.h)
    q, v = program.output_state(z, call.q, call.s, call.h)
    terms = jnp.abs(jacobian / rows[:, None]) @ jnp.abs(z) + 1e-300
    return {
        "z": z / size,
        "q": q,
        "v": v,
        "multipliers": program.outputs(z, *call).multipliers,
        "residual": jnp.max(jnp.abs(residual) / rows),
        "relative": jnp.max(jnp.abs(residual) / rows / terms),
        "factor": jnp.linalg.det(jacobian / rows[:, None]) if factor is None else factor,
        "distance": jnp.linalg.norm((z - guess)[: call.s.shape[0]]) / size[0],
    }


def _distinct(table: dict[str, Float[np.ndarray, "..."]]) -> list[Root]:
    """Roots with a residual at round-off, one of each, nearest first. Double roots are known to √ε only."""
    order = np.argsort(table["distance"])
    kept: list[int] = []
    for i in order:
        solved = np.isfinite(table["residual"][i]) and table["relative"][i] < 1e-10
        apart = (np.max(np.abs(table["z"][i] - table["z"][j])) for j in kept)
        if solved and all(distance > 1e-6 * (1 + np.max(np.abs(table["z"][i]))) for distance in apart):
            kept.append(int(i))
    numbers = {name: x.tolist() if x.ndim == 1 else x for name, x in table.items()}
    return [Root(**{name: numbers[name][i] for name in Root._fields}) for i in kept]
