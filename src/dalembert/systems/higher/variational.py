"""VariationalProblem: a Lagrangian of order k and constraints that enter the action (vakonomic); its Euler-Lagrange
equations at one time, momenta, and which derivatives they determine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import factorial, prod
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.lazy import with_fields
from dalembert.native import Places, Unsupported, Windowed, vanishing
from dalembert.numbers import as_function, check_class, whole_number
from dalembert.solution import Solution
from dalembert.systems.constraints import Constraint, Kinematic
from dalembert.systems.shapes import check_scalar, output_shape, run_on_shapes
from dalembert.systems.system import Problem, check_flat, read_coordinates
from dalembert.tracing import UNREAD, seldom

P = TypeVar("P", bound=Problem)
HIGHEST = 4  # derivatives; the windows of the discrete problem have one node more
MOST_ON_GROUPS = 2  # of them on groups, where windows have a middle


class VariationalProblem(Problem):
    """A variational problem: a Lagrangian of one to four derivatives, with constraints.

    δ∫ L(q, q̇, …, q⁽ᵏ⁾) + λᵀφ(q, q̇, …, q⁽ᵏ⁾) dt = 0 and φ = 0: all variations are free, and the multipliers λ are
    part of the action.

    Euler-Lagrange: Σⱼ (-1)ʲ dʲ/dtʲ ∂(L + λᵀφ)/∂q⁽ʲ⁾ = 0. The order of a constraint is the highest derivative on which
    it actually depends. With parameters every function takes a trailing p, with time_dependent=True a trailing t before
    it.

    For k = 1 and a constraint on velocities this is the vakonomic principle, while `System` follows d'Alembert's
    principle; both take the same arguments. A VariationalProblem is a pytree: functions are static, parameters are
    leaves.

    Args:
        lagrangian: `lagrangian(q, v, …)`, scalar function of q and its first k derivatives, (n,) each.
        constraints: one or several of Holonomic(φ(q)), Nonholonomic(φ(q, v)), SecondOrder(φ(q, v, a)) without reactions of
            their own, or plain functions φ(q, v, …) of all k derivatives; each () or (m,).
        derivatives: k, 1 to 4.
        coordinates: the names of q, or groups by name as for a System: then v and a are ω and dω/dt in the body's axes, and
            derivatives is 1 or 2.
        parameters: as for a System.
        time_dependent: whether the functions take t.
        draw: as for a System.

    Raises:
        TypeError: an argument is of the wrong type; the message names it.
        ValueError: a constraint has reactions of its own, or takes more than k derivatives.

    Source: Colombo, Martín de Diego, Zuccalli, section 2.

    Example:
        >>> elastic = da.VariationalProblem(lambda q, v, a, p: 0.5 * p["B"] * a @ a, derivatives=2, parameters={"B": 2.0})
        >>> elastic.derivatives, float(elastic.replace(B=3.0).parameters["B"])
        (2, 3.0)
    """

    holonomic: tuple[Callable, ...] = eqx.field(static=True)
    differential: tuple[tuple[int, Callable], ...] = eqx.field(static=True)
    derivatives: int = eqx.field(static=True)
    draw: Callable | None = eqx.field(static=True, metadata=UNREAD)
    takes_force: ClassVar[bool] = False
    why_equal_steps: ClassVar[str] = (
        "the window of a VariationalProblem has nodes at equal distances, and a step goes from several nodes to the "
        "next: where two lengths meet it is another equation, of a lower order. Give a number, or take "
        "simulate_free_steps; without derivatives of higher order a System with the same Lagrangian varies its steps"
    )

    def __init__(
        self,
        lagrangian: Callable,
        constraints: Kinematic | Callable | Sequence[Kinematic | Callable] = (),
        *,
        derivatives: int = 1,
        coordinates: Sequence[str] | Mapping[str, Any] | None = None,
        parameters: Any = None,
        time_dependent: bool = False,
        draw: Callable | None = None,
    ):
        as_function(lagrangian, "lagrangian", "L(q, v, …)")
        derivatives = whole_number(derivatives, "derivatives", 1, HIGHEST)
        given = (constraints,) if isinstance(constraints, Constraint) or callable(constraints) else constraints
        if not isinstance(given, Sequence):
            raise TypeError(
                f"constraints: found {type(constraints).__name__}; give functions φ(q, v, …), or Holonomic, Nonholonomic"
            )
        self.derivatives = derivatives
        equations = [_equation(c, i, derivatives) for i, c in enumerate(given)]
        self.holonomic = tuple(f for order, f in equations if order == 0)
        self.differential = tuple((order, f) for order, f in equations if order > 0)
        self.read_arguments(lagrangian, read_coordinates(coordinates), parameters, time_dependent)
        if derivatives > MOST_ON_GROUPS and not self.space.flat:
            raise ValueError(f"derivatives: found {derivatives}; on groups there are 1 or {MOST_ON_GROUPS}")
        self.draw = None if draw is None else as_function(draw, "draw", "of q that returns shapes")

    @property
    def functions(self) -> tuple[Callable, ...]:
        return self.lagrangian, *self.holonomic, *(f for _, f in self.differential)

    @property
    def solution_class(self) -> type[Solution]:
        """The class of the solutions that `dalembert.solve` returns."""
        return Solution


def check_problem(problem: Any, what: str | None = "this") -> None:
    """TypeError for anything but a VariationalProblem; ValueError for one on groups, where `what` is not available."""
    check_class(problem, VariationalProblem, "problem", "a VariationalProblem")
    if what is not None:
        check_flat(problem, what)


def with_parameters(problem: P, parameters: Any) -> P:
    """The problem with other parameters of the same structure, or with none at all."""
    return eqx.tree_at(lambda p: p.parameters, problem, parameters, is_leaf=lambda x: x is None)


def density(problem: VariationalProblem, jet: Sequence[Float[Array, "n"]], t) -> Float[Array, ""]:
    """L(q, q̇, …, q⁽ᵏ⁾, t) at jet = (q, q̇, …, q⁽ᵏ⁾)."""
    return problem.call(problem.lagrangian, *jet, t=t)


def _stacked(problem: VariationalProblem, equations: Iterable[tuple[int, Callable]], jet, t) -> Float[Array, "m"]:
    """φ of these equations, each with how many derivatives it reads."""
    values = [jnp.atleast_1d(problem.call(f, *jet[: order + 1], t=t)) for order, f in equations]
    return jnp.concatenate(values) if values else jnp.zeros(0)


def differential_constraints(problem: VariationalProblem, jet: Sequence[Float[Array, "n"]], t) -> Float[Array, "m"]:
    """φ(q, q̇, …, q⁽ᵏ⁾, t), those that are not holonomic, stacked."""
    return _stacked(problem, problem.differential, jet, t)


def constraints_of_order(
    problem: VariationalProblem, order: int, jet: Sequence[Float[Array, "n"]], t
) -> Float[Array, "m_order"]:
    """Those that read q and `order` derivatives, the holonomic ones of order 0, stacked."""
    known = problem.differential if order else [(0, f) for f in problem.holonomic]
    return _stacked(problem, [pair for pair in known if pair[0] == order], jet, t)


def holonomic_constraints(problem: VariationalProblem, q: Float[Array, "n"], t) -> Float[Array, "m"]:
    """φ(q, t), the holonomic ones, stacked."""
    return constraints_of_order(problem, 0, (q,), t)


def constraint_derivatives(problem: VariationalProblem, order: int, jet: Float[Array, "k n"], t) -> Float[Array, "k-r m"]:
    """φ, dφ/dt, …, of the constraints of an order r, as far as the curve's derivatives at t go."""
    return jnp.stack(_rates_along(lambda x, s: constraints_of_order(problem, order, x, s), order, jet, t))


def _rates_along(phi: Callable, order: int, jet: Float[Array, "k n"], t) -> list[Array]:
    """φ, dφ/dt, … of a function of q, its first `order` derivatives and the time, as far as the curve's derivatives go."""
    along = lambda s: phi([jnp.asarray(_curve(jet[l:], s)) for l in range(order + 1)], t + s)  # noqa: E731
    return _taylor(along, len(jet) - order - 1) if order < len(jet) else []


def constraint_numbers(problem: VariationalProblem, n: int) -> tuple[int, int]:
    """Numbers of differential and of holonomic constraints; errors that name a function of the wrong shape."""
    orders, held = run_on_shapes(_check_functions, problem, np.zeros(n))
    return len(orders), held


def orders_of(problem: VariationalProblem, n: int) -> tuple[int, ...]:
    """The number of derivatives that each differential equation reads, (m,), in the order of `differential_constraints`."""
    return run_on_shapes(_check_functions, problem, np.zeros(n))[0]


def common_order(problem: VariationalProblem) -> int:
    """The order of the differential constraints, k where there are none; ValueError where there are several."""
    orders = sorted({order for order, _ in problem.differential}) or [problem.derivatives]
    if len(orders) > 1:
        raise ValueError(
            f"constraints: found some of order {orders[0]} and some of order {orders[-1]}; their multipliers live at "
            "different times, and a flow takes differential constraints of one order. Differentiate those of lower order, "
            "or solve the boundary problem"
        )
    return orders[0]


def _check_functions(problem: VariationalProblem, q) -> tuple[tuple[int, ...], int]:
    """The orders of the differential equations, and the number of holonomic ones."""
    names = ", ".join(["q", "v", "a", "j", "s"][: problem.derivatives + 1]) + (", t" if problem.time_dependent else "")
    jet, t = [q] * (problem.derivatives + 1), jnp.zeros(())
    check_scalar(lambda: problem.call(problem.lagrangian, *jet, t=t), "lagrangian", names)
    groups: tuple[list[int], list[int]] = [], []
    for orders, group in zip(groups, (problem.differential, [(0, f) for f in problem.holonomic]), strict=True):
        for i, (order, f) in enumerate(group):
            shape = output_shape(
                lambda f=f, order=order: problem.call(f, *jet[: order + 1], t=t), f"constraints: item {i}", names
            )
            if len(shape) > 1:
                raise ValueError(f"constraints: item {i} returns shape {shape}; give () or (m,)")
            orders += [order] * prod(shape)
    return tuple(groups[0]), len(groups[1])


def _equation(constraint, i: int, k: int) -> tuple[int, Callable]:
    """(the highest derivative it is given, φ) of a constraint, which brings no forces of its own."""
    phi = getattr(constraint, "phi", None) if isinstance(constraint, Constraint) else constraint
    if not callable(phi):
        raise TypeError(
            f"constraints: item {i} is a {type(constraint).__name__}; give a function φ(q, v, …), Holonomic, "
            "Nonholonomic or SecondOrder"
        )
    if not isinstance(constraint, Constraint):
        return k, phi
    if not constraint.chetaev:
        raise ValueError(
            f"constraints: item {i} brings reactions or virtual displacements; in a variational problem every "
            "constraint acts through the action. Leave them out, or use System, whose constraints act by forces"
        )
    if constraint.order > k:
        raise ValueError(
            f"constraints: item {i} reads {constraint.order} derivatives; the problem has derivatives={k}, raise it"
        )
    return constraint.order, phi


@dataclasses.dataclass(frozen=True)
class Lowered:
    """Some equations of a constraint that was given q and `given` derivatives, and depends on `order` of them."""

    function: Callable
    given: int
    order: int
    equations: tuple[int, ...]

    def __call__(self, *arguments):
        jet, rest = arguments[: self.order + 1], arguments[self.order + 1 :]
        unread = [jnp.zeros_like(jet[0])] * (self.given - self.order)
        return jnp.atleast_1d(self.function(*jet, *unread, *rest))[np.array(self.equations)]


def true_orders(problem: VariationalProblem, n: int) -> VariationalProblem:
    """The same problem, every differential constraint as a function of the derivatives its equations depend on.

    φ(q, v, a) that ignores a, say, is a constraint of order 1, and has to be discretized as such. Where it cannot be seen
    what a function depends on, it keeps the order it was given. Errors: ValueError for an equation that depends on
    positions alone.
    """
    if not problem.differential:
        return problem
    found, seen = [], 0
    for (given, f), orders in zip(problem.differential, run_on_shapes(_equation_orders, problem, np.zeros(n)), strict=True):
        if not orders:  # no equation at all
            continue
        if min(orders) == 0:
            raise ValueError(
                f"constraints: component {seen + orders.index(0)} of those with derivatives depends on no derivative; give "
                "it as Holonomic(φ(q))"
            )
        found += [(given, f)] if set(orders) == {given} else _split_by_order(given, f, orders)
        seen += len(orders)
    if tuple(found) == problem.differential:
        return problem
    return with_fields(problem, differential=tuple(found))


def _split_by_order(given: int, function: Callable, orders: list[int]) -> list[tuple[int, Callable]]:
    """Neighbouring equations of one order together, so that the order of the multipliers is kept."""
    starts = [i for i, order in enumerate(orders) if i == 0 or orders[i - 1] != order]
    return [
        (orders[a], Lowered(function, given, orders[a], tuple(range(a, b))))
        for a, b in zip(starts, [*starts[1:], len(orders)], strict=True)
    ]


def _equation_orders(problem: VariationalProblem, q) -> list[list[int]]:
    return [_dependence(problem, given, f, q.shape[0]) for given, f in problem.differential]


def _dependence(problem: VariationalProblem, given: int, function: Callable, n: int) -> list[int]:
    """Of every equation the highest derivative on which it depends."""
    found = dependence(problem, function, given + 1, n)
    if found is None:
        return [given] * jnp.size(problem.call(function, *[jnp.zeros(n)] * (given + 1), t=jnp.zeros(())))
    return [given if not row.any() else int(np.max(np.flatnonzero(row))) for row in found]


def dependence(problem: Problem, function: Callable, count: int, n: int) -> np.ndarray | None:
    """True where a number that the function returns depends on the i-th of its `count` points (n,), as the graph of its
    slopes shows it, (numbers, count); None where that cannot be written."""
    leaves, tree = jax.tree.flatten(problem.parameters)

    def slopes(x, t, *p):
        own = with_parameters(problem, jax.tree.unflatten(tree, p))
        return (jax.jacfwd(lambda y: jnp.ravel(own.call(function, *y, t=t)))(x.reshape(count, n)),)

    place = Places(tuple(range(count * n)), 0)
    try:
        zero = vanishing(Windowed(slopes, (place,), (), ((), *(jnp.shape(x) for x in leaves))))[0]
    except Unsupported:
        return None
    return np.any(~zero.reshape(-1, count, n), axis=2)


def lift(function: Callable, order: int) -> Callable:
    """Differentiate a function along a curve.

    T⁽ᵏ⁾f: (q, q̇, …, q⁽ᵏ⁾) ↦ (f, df/dt, …, dᵏf/dtᵏ) along any curve with these derivatives; k = order.

    Args:
        function: q (n,) → an array, differentiable by JAX.
        order: k.

    Returns:
        A function of jet = (q, q̇, …, q⁽ᵏ⁾), a sequence of arrays (n,), that returns the list of the derivatives.

    Source: Colombo, Martín de Diego, Zuccalli, section 2, the lifts f⁽ˡ'ᵏ⁾ of a function and T⁽ᵏ⁾f of a map.

    Example:
        >>> from dalembert.systems import lift
        >>> [float(x) for x in lift(lambda q: q[0] ** 2, 1)([jnp.array([3.0]), jnp.array([1.0])])]
        [9.0, 6.0]
    """

    def lifted(jet):
        return _taylor(lambda s: function(_curve(jet, s)), order)

    return lifted


def ostrogradsky_momenta(
    problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "k m"], t
) -> Float[Array, "k n"]:
    """Compute the momenta of a problem of higher order.

    p_j = Σ_i (-d/dt)ⁱ ∂L̃/∂q⁽ʲ⁺¹⁺ⁱ⁾, L̃ = L + λᵀφ, at the derivatives (q, …, q⁽²ᵏ⁻¹⁾) and (λ, …, λ⁽ᵏ⁻¹⁾) at t.

    Holonomic constraints contribute nothing.

    Args:
        problem: a VariationalProblem of order k.
        derivatives: (2k, n), q, …, q⁽²ᵏ⁻¹⁾.
        multipliers: (k, m), λ, …, λ⁽ᵏ⁻¹⁾; (k, 0) without differential constraints.
        t: time.

    Returns:
        The momenta (k, n).

    Source: Colombo, Martín de Diego, Zuccalli, section 2.

    Example:
        >>> from dalembert.systems import ostrogradsky_momenta
        >>> ostrogradsky_momenta(beam, jnp.array([[0.0], [0.0], [6.0], [-12.0]]), jnp.zeros((2, 0)), 0.0).ravel().tolist()
        [12.0, 6.0]
    """
    k = problem.derivatives
    rates = _gradient_rates(problem, derivatives, multipliers, t, k - 1)
    return jnp.stack([sum((-1.0) ** i * rates[i][j + 1 + i] for i in range(k - j)) for j in range(k)])


@seldom
def constraint_rates(problem: VariationalProblem, derivatives: Float[Array, "r n"], t) -> list[list[Array]]:
    """[φ, dφ/dt, …] of every constraint, the holonomic ones first, as many as (q, …, q⁽ʳ⁻¹⁾) determine: all vanish on a
    solution."""
    every = (*((0, f) for f in problem.holonomic), *problem.differential)
    phi = lambda f: lambda x, s: jnp.atleast_1d(problem.call(f, *x, t=s))  # noqa: E731
    return [_rates_along(phi(f), order, derivatives, t) for order, f in every]


@seldom
def highest_matrix(problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "m"], t):
    """[[∂²L̃/∂q⁽ᵏ⁾², Rᵀ], [R, 0]], R the gradients of every constraint with respect to the highest derivative it is given.

    Regular if and only if q⁽ᵏ⁾, or the derivative of it that follows, and the multipliers are determined, (n + m + mh)².
    """
    k, jet = problem.derivatives, tuple(derivatives[: problem.derivatives + 1])
    hessian = jax.hessian(lambda x: augmented_lagrangian(problem, (*jet[:k], x), multipliers, t))(jet[k])
    rows = [jnp.zeros((0, derivatives.shape[1]))]
    for order, f in (*problem.differential, *((0, f) for f in problem.holonomic)):
        value = lambda x, order=order, f=f: jnp.atleast_1d(problem.call(f, *jet[:order], x, t=t))  # noqa: E731
        rows.append(jax.jacfwd(value)(jet[order]))
    stacked = jnp.concatenate(rows)
    corner = jnp.zeros((len(stacked), len(stacked)))
    return jnp.block([[hessian, stacked.T], [stacked, corner]])


def next_derivatives(
    problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "r m"], t
) -> tuple[Float[Array, "n"], Float[Array, "m"], Float[Array, "mh"]]:
    """(q⁽²ᵏ⁾, λ⁽ʳ⁾, μ), r ≤ k the order of the differential constraints, from what determines them: Σ_j (-d/dt)ʲ ∂L̃/∂q⁽ʲ⁾ +
    φ_qᵀμ = 0 with the derivatives of every constraint that hold q⁽²ᵏ⁾, φ holonomic."""
    n, m = derivatives.shape[1], multipliers.shape[1]
    equations = lambda z: highest_equations(problem, derivatives, multipliers, t, z)  # noqa: E731
    start = jnp.zeros(n + m + jax.eval_shape(lambda q: holonomic_constraints(problem, q, t), derivatives[0]).shape[0])
    left, matrix = equations(start), jax.jacfwd(equations)(start)  # which are linear
    found = jnp.linalg.solve(matrix, -left)
    return found[:n], found[n : n + m], found[n + m :]


def highest_equations(
    problem: VariationalProblem, derivatives: Float[Array, "2k n"], multipliers: Float[Array, "r m"], t, z
) -> Float[Array, "z"]:
    """The left sides of the equations for z = (q⁽²ᵏ⁾, λ⁽ʳ⁾, μ)."""
    k, n, m = problem.derivatives, derivatives.shape[1], multipliers.shape[1]
    own, free = jnp.concatenate([derivatives, z[None, :n]]), jnp.concatenate([multipliers, z[None, n : n + m]])
    rates, held = _gradient_rates(problem, own, free, t, k), lambda q: holonomic_constraints(problem, q, t)
    force = sum((-1.0) ** j * rates[j][j] for j in range(k + 1)) + jax.vjp(held, own[0])[1](z[n + m :])[0]
    return jnp.concatenate([force, *(found[-1] for found in constraint_rates(problem, own, t))])


def _gradient_rates(problem: VariationalProblem, derivatives, multipliers, t, number: int) -> list[Float[Array, "k+1 n"]]:
    """∂L̃/∂q⁽ʲ⁾ for j = 0 … k along the curve with these derivatives, and so many of their rates."""

    def gradients(s):
        jet = tuple(_curve(derivatives[j:], s) for j in range(problem.derivatives + 1))
        return jnp.stack(jax.grad(lambda x: augmented_lagrangian(problem, x, _curve(multipliers, s), t + s))(jet))

    return _taylor(gradients, number)


def constraints_along(problem: VariationalProblem, jet: Float[Array, "k+1 n"], t) -> Float[Array, "m_plus_mh"]:
    """φ of all constraints."""
    return jnp.concatenate([differential_constraints(problem, tuple(jet), t), holonomic_constraints(problem, jet[0], t)])


def augmented_lagrangian(problem: VariationalProblem, jet, multipliers, t) -> Float[Array, ""]:
    """L + λᵀφ."""
    return density(problem, jet, t) + multipliers @ differential_constraints(problem, jet, t)


def _curve(derivatives, s):
    """The polynomial with these derivatives at s = 0."""
    return sum(derivatives[l] * s**l / factorial(l) for l in range(len(derivatives)))


def _taylor(function: Callable, order: int) -> list:
    """function and its first derivatives at s = 0."""
    out = [function]
    for _ in range(order):
        out.append(jax.jacfwd(out[-1]))
    return [f(0.0) for f in out]
