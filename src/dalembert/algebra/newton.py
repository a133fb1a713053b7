"""Newton's method for small dense systems, as a traced loop, with the implicit function theorem as its derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.algebra.jumps import may_jump
from dalembert.tracing import traced_once

# A pivot this much smaller than the largest of the row-scaled matrix is taken as zero. Row scaling makes a healthy
# matrix have pivots between about h² and 1, so that 1e-13 leaves room for h = 1e-5.
SINGULAR_PIVOT = 1e-13
DIVERGING = 0.5  # a scaled update beyond which the iteration is not near a root


class Newton(eqx.Module):
    """|update_i| ≤ tolerance · scale_i: settings of the iteration.

    Attributes:
        tolerance: bound on the scaled update.
        max_iterations: the largest number of iterations.

    Example:
        >>> from dalembert.algebra import Newton
        >>> Newton(tolerance=1e-12).max_iterations
        25
    """

    tolerance: float = eqx.field(static=True, default=1e-9)
    max_iterations: int = eqx.field(static=True, default=25)


class Solve(NamedTuple):
    """State and report of a Newton iteration. At most one of the three flags is set; none means that it converged.

    Attributes:
        iterations: number of iterations.
        residual: largest row-scaled |F_i| at the last evaluation, which precedes the last update.
        update: the last update, scaled.
        determinant_sign: sign of the determinant of the last Jacobian.
        determinant: size of that determinant, kept apart from its sign because it may leave the range of doubles.
        singular: whether the Jacobian was singular.
        not_finite: whether NaN or infinity occurred.
        not_converged: neither of these, but the test of convergence was not passed.
    """

    iterations: Int[Array, ""]
    residual: Float[Array, ""]
    update: Float[Array, ""]
    determinant_sign: Float[Array, ""]
    determinant: Float[Array, ""]
    singular: Bool[Array, ""]
    not_finite: Bool[Array, ""]
    not_converged: Bool[Array, ""]


def newton(
    function: Callable[[Float[Array, "z"]], Float[Array, "z"]],
    start: Float[Array, "z"],
    scale: Callable[[Float[Array, "z"]], Float[Array, "z"]],
    options: Newton,
    units: Callable[[Float[Array, "z z"]], Float[Array, "z"]] | None = None,
) -> tuple[Float[Array, "z"], Solve]:
    """Solve F(z) = 0 by z ← z - F'(z)⁻¹F(z) until every |update_i| ≤ tolerance · scale_i(z).

    The update that passes the test is applied, so that the remaining error is about the square of the tolerance. Rows
    are scaled to unit maximum before elimination. Where F may jump, or may declare derivatives of its own (see
    `may_jump`), the update from the new point, with the same Jacobian, must pass the test too: a small update alone
    does not show that the residual is small. A singular matrix or a number that is not finite counts as "not converged"
    where the scaled update before it exceeded DIVERGING: the iteration was diverging, and where it ends is then
    accidental.

    Args:
        function: F, (z,) → (z,), traceable by JAX.
        start: (z,) the first iterate.
        scale: z → (z,), positive: the size of each unknown; infinity excludes a component from the test.
        options: tolerance and largest number of iterations.
        units: F'(z) → (z,), positive: scales of the columns, applied before the rows are scaled; for unknowns in
            different units.

    Returns:
        The root (z,), and the report of the iteration, a Solve.

    Example:
        >>> from dalembert.algebra import Newton, newton
        >>> z, report = newton(lambda z: z * z - 2.0, jnp.array([1.0]), lambda z: 1.0 + abs(z), Newton())
        >>> bool(abs(z[0] - np.sqrt(2.0)) < 1e-12), bool(report.not_converged)
        (True, False)
    """
    function = traced_once(function)  # for its values, its derivatives and the proof
    judged = may_jump(function, start)

    def iterate(carry: tuple[Array, Solve, Array]) -> tuple[Array, Solve, Array]:
        z, info, _ = carry
        f, jacobian = value_and_jacobian(function, z)
        unit = None if units is None else units(jacobian)
        matrix = jacobian if unit is None else jacobian * unit
        row = jnp.max(jnp.abs(matrix), axis=1)
        row = jnp.where(row > 0, row, 1.0)
        lu, pivots = jax.scipy.linalg.lu_factor(matrix / row[:, None])
        diagonal = jnp.diagonal(lu)
        magnitude = jnp.abs(diagonal)
        finite = jnp.all(jnp.isfinite(f)) & jnp.all(jnp.isfinite(jacobian))
        singular = finite & (jnp.min(magnitude) <= SINGULAR_PIVOT * jnp.max(magnitude))
        solved = jax.scipy.linalg.lu_solve((lu, pivots), f / row)
        update = solved if unit is None else solved * unit
        new = z - update
        swaps = jnp.sum(pivots != jnp.arange(pivots.shape[0]))
        size = jnp.max(jnp.abs(update) / scale(new))
        failed = singular | ~finite | ~jnp.all(jnp.isfinite(new))
        diverging = info.update > DIVERGING  # the update before: what is found here says nothing about the root
        info = Solve(
            iterations=info.iterations + 1,
            residual=jnp.max(jnp.abs(f / row)),
            update=size,
            determinant_sign=jnp.prod(jnp.sign(diagonal)) * jnp.where(swaps % 2, -1.0, 1.0),
            determinant=jnp.prod(magnitude * row if unit is None else magnitude * row / jnp.abs(unit)),
            singular=singular & ~diverging,
            not_finite=failed & ~singular & ~diverging,
            not_converged=failed & diverging,
        )
        # An exact root has a zero residual even where the matrix is singular: nothing is left to solve.
        exact = finite & jnp.all(f == 0)
        flags = {name: getattr(info, name) & ~exact for name in ("singular", "not_finite", "not_converged")}
        passed = size <= options.tolerance
        if judged:
            following = jax.scipy.linalg.lu_solve((lu, pivots), function(new) / row)
            passed &= jnp.max(jnp.abs(following) / scale(new)) <= options.tolerance
        done = passed | failed | exact
        return jnp.where(exact | failed, z, new), info._replace(**flags), done

    def unfinished(carry: tuple[Array, Solve, Array]) -> Array:
        _, info, done = carry
        return ~done & (info.iterations < options.max_iterations)

    no, zero = jnp.asarray(False), jnp.asarray(0.0)
    empty = Solve(jnp.asarray(0), zero, zero, jnp.asarray(1.0), zero, no, no, no)
    z, info, done = lax.while_loop(unfinished, iterate, (start, empty, no))
    return z, info._replace(not_converged=info.not_converged | ~done)


class ByValues(NamedTuple):
    """solved: whether it converged. residual: largest row-scaled |F_i|, and last: (F, F'), both at the point returned."""

    solved: bool
    residual: float
    last: tuple[np.ndarray, np.ndarray]


def newton_by_values(
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    start: Float[np.ndarray, "z"],
    options: Newton,
    units: Callable[[np.ndarray], np.ndarray],
    first: tuple[np.ndarray, np.ndarray],
) -> tuple[Float[np.ndarray, "z"], ByValues]:
    """As `newton` with scale 1 + |z|, in NumPy, where a compiled function gives (F, F')(z); first: those at the start.

    It ends at a point where F has been evaluated, and leaves the update that passes the test: beyond it F may jump.
    A program for one evaluation is traced and compiled in a fraction of the time of one for the whole iteration.
    """
    from scipy.linalg import get_lapack_funcs  # slow to load

    factor, solve = get_lapack_funcs(("getrf", "getrs"), dtype=float)
    z, known, report = start, first, ByValues(False, float("nan"), first)
    for _ in range(options.max_iterations):
        f, jacobian = known
        unit = units(jacobian)
        matrix = jacobian * unit
        row = np.max(np.abs(matrix), axis=1)
        row = np.where(row > 0, row, 1.0)
        report = ByValues(bool(np.all(f == 0)), float(np.max(np.abs(f / row))), known)
        if report.solved or not (np.all(np.isfinite(f)) and np.all(np.isfinite(matrix))):
            break
        lu, swaps, _ = factor(matrix / row[:, None])
        pivots = np.abs(np.diagonal(lu))
        if np.min(pivots) <= SINGULAR_PIVOT * np.max(pivots):
            break
        update = solve(lu, swaps, f / row)[0] * unit
        if np.max(np.abs(update) / (1.0 + np.abs(z - update))) <= options.tolerance:
            return z, report._replace(solved=True)
        z = z - update
        known = evaluate(z)
    return z, report


def root(
    function: Callable[[Float[Array, "z"]], Float[Array, "z"]],
    start: Float[Array, "z"],
    scale: Callable[[Float[Array, "z"]], Float[Array, "z"]],
    options: Newton,
    units: Callable[[Float[Array, "z z"]], Float[Array, "z"]] | None = None,
) -> tuple[Float[Array, "z"], Solve]:
    """As `newton`, and differentiable: dz = -F_z⁻¹ F_θ dθ, by the implicit function theorem and not through the
    iteration.

    Args:
        function: as for `newton`; derivatives may be taken with respect to values that it closes over.
        start: as for `newton`.
        scale: as for `newton`.
        options: as for `newton`.
        units: as for `newton`.

    Returns:
        As `newton`.
    """

    function = traced_once(function)

    def solve(f, z0):
        # custom_root gives auxiliary outputs tangents of their own type, which integers and truth values may not have.
        z, info = newton(f, z0, scale, options, units)
        return z, jax.tree.map(lambda x: x.astype(float), info)

    def tangent(linear, y):
        return jnp.linalg.solve(jax.jacfwd(linear)(jnp.zeros_like(y)), y)

    z, report = lax.custom_root(function, lax.stop_gradient(start), solve, tangent, has_aux=True)
    report = jax.tree.map(lax.stop_gradient, report)
    return z, Solve(report[0].astype(int), *report[1:5], *(flag > 0 for flag in report[5:]))


def implicit(equations: Callable, z: Float[Array, "z"], *theta: Array) -> Float[Array, "z"]:
    """z - F_z⁻¹F(z, θ) with z and F_z held fixed: at a root its value, and -F_z⁻¹F_θ as derivative (the first only)."""
    here, *held = jax.lax.stop_gradient((z, *theta))
    return here - jnp.linalg.solve(jax.jacfwd(equations)(here, *held), equations(here, *theta))
