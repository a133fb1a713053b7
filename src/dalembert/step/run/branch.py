"""Which root of a step to take, where there are several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dalembert.algebra import GAUSS_NODES, GAUSS_WEIGHTS, Newton, Solve, agree, newton, root
from dalembert.numbers import EPSILON, as_choice, as_function, as_positive, described, whole_number
from dalembert.step.programs.base import StepProgram
from dalembert.systems.pickling import reduced

Unknowns = Float[Array, "z"]


class Branch(eqx.Module):
    """Base class of the rules that choose among several solutions of a step.

    F(z) = 0 may have several solutions z near the predicted state. A rule chooses the one that the run follows: the
    base class of the rules.

    Without a rule a step takes the root that Newton's iteration reaches from the predicted state.

    Members:
        Nearest, Least, Avoid: the rules.
    """

    __reduce__ = reduced


class Nearest(Branch):
    """Follow the solution of a step that is nearest to the prediction.

    min |q - q*| over the two roots near the predicted state, where q* is the predicted or the previous position.

    Distances are Euclidean, in q. If the two roots are closer to each other than `within`, their distances do not
    decide: the one with the smaller value of the function `least` is taken, as in `Least`.

    Args:
        to: "prediction" or "previous": the position q* to which the root should be nearest.
        coordinates: indices of the components of q in the distance; all by default.
        within: δ, a distance between the two roots; given together with least.
        least: `least(q, v[, t][, p])` → (), evaluated after the step.

    Raises:
        ValueError: `to` is neither of these words, within is not positive, or only one of within and least is given.
        TypeError: coordinates is not a sequence of indices, or least is not a function.

    Source: Borda, Fernández, Grillo, Section 4.2.2, take the root whose θ is nearest to the previous θ, coordinates=(0,),
    and where the two are not "sufficiently apart" the one that decreases V, least=V. The paper does not print δ.

    Example:
        >>> da.Nearest("previous", coordinates=(0,)).coordinates
        (0,)
        >>> printed = da.Nearest("previous", coordinates=(0,), within=1e-3, least=lambda q, v: v @ v)
        >>> printed.within
        0.001
    """

    to: Literal["prediction", "previous"] = eqx.field(static=True)
    coordinates: tuple[int, ...] | None = eqx.field(static=True)
    within: float | None = eqx.field(static=True)
    least: Callable | None = eqx.field(static=True)

    def __init__(
        self,
        to: Literal["prediction", "previous"] = "prediction",
        coordinates=None,
        *,
        within: float | None = None,
        least: Callable | None = None,
    ):
        self.to = as_choice(to, "to", ("prediction", "previous"), "positions that a root may be nearest to")
        if coordinates is not None and (not isinstance(coordinates, list | tuple | range) or not len(coordinates)):
            raise TypeError(
                f"coordinates: found {described(coordinates)}; give the indices of those that count, such as (0,)"
            )
        self.coordinates = None if coordinates is None else tuple(whole_number(i, "coordinates", 0) for i in coordinates)
        self.within = None if within is None else float(as_positive(within, "within", "a positive distance"))
        self.least = None if least is None else as_function(least, "least", "of (q, v) that returns a number")
        if (within is None) != (least is None):
            raise ValueError("within, least: found one of them; where roots are closer than `within`, `least` chooses")


class Least(Branch):
    """Follow the solution of a step at which a function is least.

    min f(q, v) over the two roots near the predicted state.

    (q, v) are the state of the step: ((q₁+q₂)/2, (q₂-q₁)/h), or the node and its velocity in the form kick_drift_kick.

    Args:
        function: f, `function(q, v[, t][, p])` → (), evaluated after the step.

    Raises:
        TypeError: function is not a function.

    Example:
        >>> slower = da.Least(lambda q, v: v @ v)  # for simulate(…, branch=slower)
        >>> isinstance(slower, da.Branch)
        True
    """

    function: Callable = eqx.field(static=True)

    def __init__(self, function: Callable):
        self.function = as_function(function, "function", "of (q, v) that returns a number")


class Avoid(Branch):
    """Divide a known root out of the step equations, so that the run follows the other one.

    φ = u w, solve w = 0: the root that remains after a factor u is divided out of the constraint.

    Without an argument, for a Lyapunov constraint: u is the coefficient of the multiplier, found by differentiation,
    and the step solves λ = -φ₀/u (see dalembert.Lyapunov). With a factor: the equation of the one second order
    constraint is divided by u at the (q, v) of the kinematic map; near u = 0 the quotient is computed from mean
    derivatives.

    Args:
        factor: `factor(q, v[, t][, p])` → (), u; None for a Lyapunov constraint.

    Raises:
        TypeError: factor is not a function.

    Example:
        >>> da.Avoid(lambda q, v: v[0]).factor is None  # the velocity's zero is no root of the constraint
        False
    """

    factor: Callable | None = eqx.field(static=True)

    def __init__(self, factor: Callable | None = None):
        self.factor = None if factor is None else as_function(factor, "factor", "of (q, v) that returns a number")


class Call(NamedTuple):
    """Arguments of a step that are not unknowns."""

    q: Float[Array, "n"]
    s: Float[Array, "k"]
    t: Float[Array, ""]
    h: Float[Array, ""]
    held_force: Float[Array, "n"]


_TRUSTED = 1e-12  # relative change of the unknowns by round-off up to which the quotient φ/u is used as it is
_CLOSE = 1e-5  # distance of two roots, in units of the unknowns, under which F(z + r d)/r is a mean derivative


def divided_row(function, factor, row: int):
    """F with F_row replaced by F_row / u, continued through u = 0, where F_row vanishes with u on the other rows.

    With F′_others d = 0 and u′d = 1, w = F_row / u changes along d at the rate w′ = (F′_row d - w)/u. Where round-off in
    the quotient would move the root, the quotient is ⟨F′_row d⟩/⟨u′ d⟩, mean values between z and z* = z - u d, where u = 0.
    """

    def divided(z: Unknowns) -> Unknowns:
        f, u = function(z), factor(z)
        jacobian, slope = jax.jacfwd(function)(z), jax.grad(factor)(z)
        constant = jnp.all(slope == 0)  # a factor of what is known before the step: there is no line to u = 0
        d = jnp.linalg.solve(
            jacobian.at[row].set(jnp.where(constant, jacobian[row], slope)), jnp.zeros_like(z).at[row].set(1.0)
        )
        noise = EPSILON * (jnp.abs(jacobian[row]) @ jnp.abs(z)) * jnp.linalg.norm(d)
        trusted = constant | (noise * jnp.abs(u) < _TRUSTED * jnp.linalg.norm(z) * jnp.abs(jacobian[row] @ d * u - f[row]))

        def near(_):
            rate = lambda x: jax.jvp(lambda y: jnp.stack([function(y)[row], factor(y)]), (z - x * u * d,), (d,))[1]  # noqa: E731
            means = jax.vmap(rate)(jnp.asarray(GAUSS_NODES)).T @ GAUSS_WEIGHTS
            return means[0] / means[1]

        return f.at[row].set(lax.cond(agree(trusted), lambda _: f[row] / u, near, None))

    return divided


def second_root(function, z: Unknowns, scale, options: Newton) -> tuple[Unknowns, Array]:
    """Another root near z of F = 0, z + r d with |d| = 1, and whether it was found.

    Unknowns (d, r) of the divided system F(z + r d)/r = 0, |d|² = 1, where F(z + r d)/r is the mean of F′d between the two
    points if they are close: it is regular where the two roots meet (r = 0), so that crossings do no harm. Start: the
    direction d of the smallest singular value of F′(z) and r = -2 (y·F′d)/(y·F″dd), y the left singular vector. Where the
    roots are apart the result is polished by Newton's method on F itself.
    """
    size = jnp.where(jnp.isinf(scale(z)), 1.0 + jnp.abs(z), scale(z))
    scaled = lambda x: function(z + size * x)  # noqa: E731
    zero = jnp.zeros_like(z)
    jacobian = jax.jacfwd(scaled)(zero)
    rows = jnp.max(jnp.abs(jacobian), axis=1)
    rows = jnp.where(rows > 0, rows, 1.0)
    u, values, vt = jnp.linalg.svd(jacobian / rows[:, None])
    d0, y = vt[-1], u[:, -1] / rows
    bend = y @ jax.jvp(lambda x: jax.jvp(scaled, (x,), (d0,))[1], (zero,), (d0,))[1]
    r0 = -2.0 * values[-1] / jnp.where(bend == 0, 1e-300, bend)

    def divided(x):
        d, r = x[:-1], x[-1]
        close = jnp.abs(r) < _CLOSE
        mean = jax.vmap(lambda w: jax.jvp(scaled, (w * r * d,), (d,))[1])(jnp.asarray(GAUSS_NODES)).T @ GAUSS_WEIGHTS
        slopes = jnp.where(close, mean, scaled(r * d) / jnp.where(close, 1.0, r))
        return jnp.concatenate([slopes / rows, (d @ d - 1.0)[None]])

    x, info = newton(divided, jnp.concatenate([d0, r0[None]]), lambda w: 1.0 + jnp.abs(w), options)
    candidate = z + size * x[-1] * x[:-1]
    polished, check = newton(function, candidate, scale, options)
    same = jnp.linalg.norm((polished - candidate) / size) < 0.1 * jnp.abs(x[-1])
    return jnp.where(info.solved, jnp.where(same & check.solved, polished, candidate), z), info.solved


def solve_step(
    program: StepProgram, branch: Branch | None, call: Call, start: Unknowns, options: Newton
) -> tuple[Unknowns, Solve]:
    """The root of the step that the rule chooses, starting from the prediction."""
    equations = lambda z: program.residual(z, *call)  # noqa: E731
    if isinstance(branch, Avoid) and branch.factor is not None:
        equations = lambda z: divided_by_factor(program, branch, z, call)  # noqa: E731
    scale = lambda z: program.scale(z, call.q, call.s, call.h)  # noqa: E731
    z, info = root(equations, start, scale, options)
    if not isinstance(branch, Nearest | Least):
        return z, info
    other, found = second_root(equations, z, scale, options)
    measure = lambda x: _measure(program, branch, x, start, call)  # noqa: E731
    less = measure(other) < measure(z)
    if isinstance(branch, Nearest) and branch.within is not None:
        value = lambda x: _after(program, branch.least, x, call)  # noqa: E731
        less = jnp.where(_distance(program, branch, z, other, call) < branch.within, value(other) < value(z), less)
    better = found & less
    chosen, again = root(equations, jnp.where(better, other, z), scale, options)
    both = info.iterations + again.iterations
    return chosen, again._replace(iterations=both)


def divided_by_factor(program: StepProgram, branch: Avoid, z: Unknowns, call: Call) -> Unknowns:
    """The equations of a step with the row of its constraint on accelerations divided by the rule's factor."""
    row = divided(program, call.q.shape[0])
    equations = lambda x: program.residual(x, *call)  # noqa: E731
    return divided_row(equations, lambda x: _branch_factor(program, branch, x, call), row)(z)


def divided(program: StepProgram, n: int) -> int:
    """The row that is divided by a factor."""
    row = program.constrained_row(n)
    if row is None:
        raise ValueError("branch: Avoid(factor) divides the row of one constraint on accelerations; found none or several")
    return row


def _branch_factor(program: StepProgram, branch: Avoid, z: Unknowns, call: Call) -> Float[Array, ""]:
    q, v, t = program.constraint_point(z, call.q, call.s, call.t, call.h)
    return program.system.call(branch.factor, q, v, t=t)


def _measure(program: StepProgram, branch: Nearest | Least, z: Unknowns, start: Unknowns, call: Call):
    if isinstance(branch, Least):
        return _after(program, branch.function, z, call)
    if branch.to == "prediction":
        return _distance(program, branch, z, start, call)
    return jnp.linalg.norm(_components(branch, program.advance(z, call.q, call.s, call.t, call.h)[0]))


def _distance(program: StepProgram, branch: Nearest, z: Unknowns, other: Unknowns, call: Call):
    one, two = (program.advance(x, call.q, call.s, call.t, call.h)[0] for x in (z, other))
    return jnp.linalg.norm(_components(branch, one - two))


def _components(branch: Nearest, increment: Float[Array, "n"]) -> Float[Array, "k"]:
    return increment if branch.coordinates is None else increment[jnp.array(branch.coordinates)]


def _after(program: StepProgram, function: Callable | None, z: Unknowns, call: Call):
    """The function after the step."""
    q, v = program.output_state(z, call.q, call.s, call.h)
    return program.system.call(function, q, v, t=call.t + call.h)
