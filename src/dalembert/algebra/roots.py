"""Newton's method for small dense systems, as a traced loop, with the implicit function theorem as its derivative; and
whether a function may jump, or has derivatives that are not its own, read from its operations.

A derivative that vanishes proves nothing: those of sign, floor or a comparison do, and those of stop_gradient and of custom
rules are what their author says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.core import eval_jaxpr
from jax.custom_derivatives import zero_from_primal
from jax.extend.core import Literal, Primitive
from jax.interpreters import batching, mlir
from jaxtyping import Array, Bool, Float, Int

from dalembert.algebra.dense import SINGULAR_PIVOT
from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.tracing import traced_once
from dalembert.tracing.evaluation.program import scan_sizes

# Operations whose values are continuous where they are finite; what is not in the list may jump.
_CONTINUOUS = frozenset([
    "abs", "acos", "acosh", "add", "add_any", "asin", "asinh", "atan", "atanh", "bessel_i0e", "bessel_i1e",
    "broadcast_in_dim", "cbrt", "cholesky", "clamp", "concatenate", "conv_general_dilated", "copy", "copy_p", "cos", "cosh",
    "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "device_put", "digamma", "div", "dot_general", "dynamic_slice",
    "dynamic_update_slice", "eigh", "empty", "empty2", "erf", "erf_inv", "erfc", "exp", "exp2", "expand_dims", "expm1",
    "gather", "householder_product", "igamma", "igammac", "imag", "integer_pow", "iota", "lgamma", "log", "log1p", "log2",
    "logistic", "lu", "max", "min", "mul", "neg", "one_minus_square", "optimization_barrier", "pad", "platform_index",
    "polygamma", "polynomial", "pow", "pvary", "real", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum",
    "regularized_incomplete_beta", "reshape", "rev", "rsqrt", "scatter", "scatter-add", "scatter-mul", "scatter-sub",
    "select_n", "sharding_constraint", "sin", "sinh", "slice", "split", "sqrt", "square", "squeeze", "stack", "sub", "svd",
    "tan", "tanh", "tile", "transpose", "triangular_solve", "tridiagonal_solve", "unstack", "zeta",
])  # fmt: skip
_DECLARED = frozenset(["stop_gradient", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"])

agree_p = Primitive("agree")
agree_p.def_impl(lambda condition: condition)
agree_p.def_abstract_eval(lambda condition: condition)
mlir.register_lowering(agree_p, lambda _, condition: [condition])
batching.defvectorized(agree_p)


def agree(condition: Bool[Array, ""]) -> Bool[Array, ""]:
    """The condition itself, marked with a promise: the two branches that it selects agree where it changes.

    `may_jump` then takes the selection as continuous.

    Args:
        condition: a boolean, traced or not.

    Returns:
        The condition.
    """
    return agree_p.bind(condition)


def may_jump(function: Callable, point: Array) -> bool:
    """True if the function may be discontinuous, or may have declared derivatives that are not its own.

    The operations of the function are read, not its values: a comparison or a rounding may jump, and stop_gradient and
    custom derivative rules return what their author declares.

    Args:
        function: a function of one array, traceable by JAX.
        point: an array of the shape that the function takes; its values are not read.

    Returns:
        True if it may.

    Example:
        >>> from dalembert.algebra import may_jump
        >>> may_jump(jnp.sin, jnp.zeros(2)), may_jump(jnp.sign, jnp.zeros(2))
        (False, True)
    """
    return any(jumps for _, jumps in _find_dependence(function, point))


def depends(function: Callable, point: Array) -> bool:
    """True if the function may depend on its argument, judged from its operations and not from its values.

    Args:
        function: a function of one array, traceable by JAX.
        point: an array of the shape that the function takes; its values are not read.

    Returns:
        True if it may.

    Example:
        >>> from dalembert.algebra import depends
        >>> depends(jnp.sin, jnp.zeros(2)), depends(lambda x: jnp.zeros_like(x), jnp.zeros(2))
        (True, False)
    """
    return any(reads for reads, _ in _find_dependence(function, point))


Found = tuple[bool, bool]  # whether a value depends on the argument; whether it may jump with it


def _find_dependence(function: Callable, point: Array) -> list[Found]:
    """Of every output of a function of one array."""
    jaxpr = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(point.shape, point.dtype))
    return _output_dependence(jaxpr.jaxpr, [(True, False)])


def _output_dependence(jaxpr: Any, given: list[Found]) -> list[Found]:
    """Dependence and jumps of the outputs of a jaxpr, (reads, jumps) each, from those of its inputs."""
    known: dict[Any, Found] = dict(zip(jaxpr.invars, given, strict=True))

    def dependence_of(atom) -> Found:
        return (False, False) if isinstance(atom, Literal) else known.get(atom, (False, False))

    for eqn in jaxpr.eqns:
        known.update(zip(eqn.outvars, _results(eqn, [dependence_of(x) for x in eqn.invars]), strict=True))
    return [dependence_of(x) for x in jaxpr.outvars]


def _results(eqn: Any, given: list[Found]) -> list[Found]:
    name, number = eqn.primitive.name, len(eqn.outvars)
    depends, jumps = any(d for d, _ in given), any(j for _, j in given)
    if not depends or name == "agree":
        return [(False, False)] * number
    if name in _DECLARED:
        return [(True, True)] * number
    if name in _OF_PARTS:
        return _OF_PARTS[name](eqn, given)
    inner = [j for j in _jaxprs(eqn) if len(j.invars) == len(given) and len(j.outvars) == number]
    if len(inner) == 1:
        return _output_dependence(inner[0], given)
    return [(True, jumps or not (name in _CONTINUOUS or _between_numbers(eqn)))] * number


def _between_numbers(eqn: Any) -> bool:
    kinds = [v.aval.dtype.kind for v in (*eqn.invars, *eqn.outvars) if hasattr(v.aval, "dtype")]
    return eqn.primitive.name == "convert_element_type" and all(kind in "fc" for kind in kinds)


def _jaxprs(eqn: Any) -> Iterator[Any]:
    for part in eqn.params.values():
        for p in part if isinstance(part, tuple | list) else (part,):
            if hasattr(getattr(p, "jaxpr", p), "eqns"):
                yield getattr(p, "jaxpr", p)


def _either(*sides: list[Found]) -> list[Found]:
    return [(any(d for d, _ in found), any(j for _, j in found)) for found in zip(*sides, strict=True)]


def _cond(eqn: Any, given: list[Found]) -> list[Found]:
    if given[0][0]:  # an index that depends jumps
        return [(True, True)] * len(eqn.outvars)
    return _either(*(_output_dependence(branch.jaxpr, given[1:]) for branch in eqn.params["branches"]))


def _while(eqn: Any, given: list[Found]) -> list[Found]:
    p = eqn.params
    a, b = p["cond_nconsts"], p["body_nconsts"]
    test, fixed, carry = given[:a], given[a : a + b], given[a + b :]
    carry = _iterate_carry(lambda x: _output_dependence(p["body_jaxpr"].jaxpr, [*fixed, *x]), carry)
    turns = _output_dependence(p["cond_jaxpr"].jaxpr, [*test, *carry])[0][0]
    return [(True, True)] * len(carry) if turns else carry


def _scan(eqn: Any, given: list[Found]) -> list[Found]:
    a, carried = scan_sizes(eqn.params)
    b = a + carried
    body = lambda x: _output_dependence(eqn.params["jaxpr"].jaxpr, [*given[:a], *x, *given[b:]])  # noqa: E731
    carry = _iterate_carry(lambda x: body(x)[: b - a], given[a:b])
    return [*carry, *body(carry)[b - a :]]


def _linear_solve(eqn: Any, given: list[Found]) -> list[Found]:
    """The solution is that of its matrix and right-hand side, whatever else the solver is given."""
    lengths = eqn.params["const_lengths"]
    used = given[: lengths.matvec] + given[sum(lengths) :]
    return [(any(d for d, _ in used), any(j for _, j in used))] * len(eqn.outvars)


def _iterate_carry(body: Callable, carry: list[Found]) -> list[Found]:
    while (after := _either(carry, body(carry))) != carry:
        carry = after
    return carry


_OF_PARTS = {"custom_linear_solve": _linear_solve, "cond": _cond, "while": _while, "scan": _scan}


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

    @property
    def solved(self) -> Bool[Array, ""]:
        """True if it converged."""
        return ~(self.singular | self.not_finite | self.not_converged)


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

    def goes_on(carry: tuple[Array, Solve, Array]) -> Array:
        _, info, done = carry
        return ~done & (info.iterations < options.max_iterations)

    no, zero = jnp.asarray(False), jnp.asarray(0.0)
    empty = Solve(jnp.asarray(0), zero, zero, jnp.asarray(1.0), zero, no, no, no)
    z, info, done = lax.while_loop(goes_on, iterate, (start, empty, no))
    return z, info._replace(not_converged=info.not_converged | ~done)


def root(
    function: Callable[[Float[Array, "z"]], Float[Array, "z"]],
    start: Float[Array, "z"],
    scale: Callable[[Float[Array, "z"]], Float[Array, "z"]],
    options: Newton,
    units: Callable[[Float[Array, "z z"]], Float[Array, "z"]] | None = None,
) -> tuple[Float[Array, "z"], Solve]:
    """Root of a function, found as by `newton`, and differentiable: dz = -F_z⁻¹ F_θ dθ, by the implicit function theorem
    and not through the iteration.

    Args:
        function: as for `newton`; derivatives may be taken with respect to values that it closes over.
        start: as for `newton`.
        scale: as for `newton`.
        options: as for `newton`.
        units: as for `newton`.

    Returns:
        As `newton`.
    """

    equations, theta = _with_closure(traced_once(function), start)
    iteration, beside = _with_closure(lambda z: newton(function, z, scale, options, units), start)
    return _implicit_root(equations, iteration, lax.stop_gradient(start), theta, beside)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _implicit_root(equations: Callable, iteration: Callable, start: Float[Array, "z"], theta: list, beside: list):
    """F(z, θ) = 0 by an iteration, which reads what stands beside. Its derivative is traced where one is taken;
    `lax.custom_root` traces it in every program."""
    return iteration(start, beside)


@_implicit_root.defjvp
def _(equations: Callable, iteration: Callable, primals: tuple, tangents: tuple):
    z, report = _implicit_root(equations, iteration, *primals)
    change = jax.jvp(lambda theta: equations(z, theta), (primals[1],), (tangents[1],))[1]
    slope = jax.jacfwd(equations)(z, primals[1])
    return (z, report), (-jnp.linalg.solve(slope, change), zero_from_primal(report))


def _with_closure(function: Callable, z: Float[Array, "z"]) -> tuple[Callable, list]:
    """The function of z and of what it closes over, and these values. `jax.closure_convert` would keep both for ever."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(z)
    tree = jax.tree.structure(shapes)
    return lambda z, values: jax.tree.unflatten(tree, eval_jaxpr(closed.jaxpr, values, z)), closed.consts


def implicit(equations: Callable, z: Float[Array, "z"], *theta: Array) -> Float[Array, "z"]:
    """z - F_z⁻¹F(z, θ) with z and F_z held fixed: at a root its value, and -F_z⁻¹F_θ as derivative (the first only)."""
    here, *held = jax.lax.stop_gradient((z, *theta))
    return here - jnp.linalg.solve(jax.jacfwd(equations)(here, *held), equations(here, *theta))
