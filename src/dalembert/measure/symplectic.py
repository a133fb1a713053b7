"""The change of the symplectic form along a flow, discrete or continuous, and the part of it due to constraint forces."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dalembert.algebra import implicit, integrate, numerical_rank
from dalembert.discretize import DiscreteSystem, Scheme, WindowMap
from dalembert.lazy import on_host
from dalembert.measure.higher import HigherFlow, higher_flow
from dalembert.measure.nodes import NodeView, kernel, node_view, read_node
from dalembert.notebook import Described
from dalembert.numbers import as_function, as_number, as_positive, as_tolerance, whole_number
from dalembert.systems import (
    CONSISTENT,
    InconsistentDataError,
    RankDeficientError,
    System,
    VariationalProblem,
    acceleration,
    check_flat,
    check_initial_data,
    check_x64,
    is_traced,
    momentum,
    output_shape,
    run_on_shapes,
)
from dalembert.systems.consistency import stacked_residuals
from dalembert.systems.equations import all_reactions, force, kkt_residual
from dalembert.tracing import Jitted, seldom

Matrix = Float[Array, "d d"]
Vector = Float[Array, "n"]


class SymplecticDefect(Described, eqx.Module):
    """The change of the symplectic form in one step, and what the forces account for.

    F*Ω - Ω = dξ in a basis of the admissible variations: both sides, computed independently.

    Attributes:
        basis: (2n, d), columns (δq₀, δq₁) or (δq, δv); the unit vectors if every variation is admissible.
        omega: (d, d) antisymmetric, Ω in that basis; A_ij = A(basis_i, basis_j).
        change: (d, d), F*Ω - Ω.
        exterior: (d, d), dξ in that basis.
        form: (d,), ξ itself.
        end: q₂, or (q, v) after the time t.
        residual: left sides of the equations at (q₀,q₁,q₂): n equations of motion, then the kinematic ones; or, after
            the time t, of the constraints on (q, v).
        solved: whether the step was solved, or the integration succeeded.
    """

    basis: Float[Array, "two_n d"]
    omega: Matrix
    change: Matrix
    exterior: Matrix
    form: Float[Array, "d"]
    end: Float[Array, "k"]
    residual: Float[Array, "equations"]
    solved: Bool[Array, ""]

    @property
    def difference(self) -> Matrix:
        """(F*Ω - Ω) - dξ: round-off for every trajectory of the system, larger otherwise."""
        return self.change - self.exterior

    @property
    def size(self) -> Float[Array, ""]:
        """Largest entry of both sides: zero if the flow is symplectic."""
        return jnp.maximum(largest(self.change), largest(self.exterior))

    @property
    def relative(self) -> Float[Array, ""]:
        """Largest entry of the difference, divided by the largest entry of Ω and of both sides."""
        return largest(self.difference) / jnp.maximum(self.size, largest(self.omega))

    def describe(self) -> str:
        """The numbers in one line."""
        return (
            f"largest entries: Ω {float(largest(self.omega)):.4g}, F*Ω - Ω {float(largest(self.change)):.4g}, "
            f"dξ {float(largest(self.exterior)):.4g}, difference {float(largest(self.difference)):.2e}"
        )


@on_host
def symplectic_defect(
    system: System | DiscreteSystem | VariationalProblem,
    q0=None,
    q1=None,
    *,
    nodes=None,
    multipliers=None,
    h: float = 1.0,
    t0: float = 0.0,
    scheme: Scheme | WindowMap | None = None,
    step: Callable | None = None,
) -> SymplecticDefect:
    """Measure how a step changes the discrete symplectic form.

    F*Ω_d - Ω_d = dξ on C_d, F(q₀,q₁) = (q₁,q₂), Ω_d = -d(D₂L_d·dq₁), ξ = -h(f + R_dᵀλ)·δq₁.

    For a VariationalProblem: Υ_d*Ω = Ω at nodes (2k, n) with multipliers (k, m), on M̃_d × ℝ^{km}, Ω = -dΘ⁺; dξ is
    zero, and `step` maps the flattened (nodes, multipliers) to those one step later (Colombo, Martín de Diego,
    Zuccalli, Remark 3.4). Works under jit and vmap, without checks.

    Args:
        system: a System, a DiscreteSystem or a VariationalProblem.
        q0: (n,) a node at t0.
        q1: (n,) a node at t0 + h; the pair lies in D_d if there are constraints of order 0 or 1, and the variations are
            then those tangent to D_d.
        nodes: (2k, n), for a VariationalProblem.
        multipliers: (k, m), for a VariationalProblem.
        h: time step.
        t0: time.
        scheme: the Scheme whose maps are used; Scheme("nodes") by default.
        step: another flow to be tested in place of the system's own, q₂ = step(q0, q1), differentiable by JAX.

    Returns:
        A SymplecticDefect, in units of action, in the system's coordinates.

    Raises:
        ValueError: an argument has the wrong shape.
        TypeError: an argument is of the wrong type.
        InconsistentDataError: the pair does not lie in D_d.
        RankDeficientError: D_d is singular at the pair.
        RuntimeError: the step cannot be solved.

    Source: Borda, Fernández, Grillo, Theorem 5.3 and Remark 5.4. What differs: with ξ = (D₂L_d(q₀,q₁) +
    D₁L_d(q₁,q₂))·δq₁ of eq. (12) the theorem is an identity for any map (q₀,q₁) → (q₁,q₂), so that no flow could ever
    fail the test. Here the covector is computed from the forces, to which it is equal by eq. (4); for a wrong flow the
    two sides differ.

    Example:
        >>> defect = da.measure.symplectic_defect(pendulum, [1.0], [1.01], h=0.1)
        >>> bool(defect.size < 1e-9), bool(defect.relative < 1e-9)  # no constraints: symplectic
        (True, True)
    """
    check_x64()
    if step is not None:
        as_function(step, "step", "(q0, q1) → q2, or of the flat (nodes, multipliers)")
    return _defect(system, (q0, q1, nodes, multipliers), h, t0, scheme, step)


@functools.singledispatch
def _defect(system: System | DiscreteSystem, given: tuple, h: Any, t0: Any, scheme: Any, step: Any) -> SymplecticDefect:
    """given: q0, q1, and what a VariationalProblem takes in their place, nodes and multipliers."""
    q0, q1, *_ = given
    first = read_node(system, q0, "q0")
    second = read_node(system, q1, "q1", first)
    view = node_view(system, scheme, h, first.shape[0])
    t = jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)
    if step is not None:
        check_flat(system, "step=")
        _check_map(step, first.shape, first, second)
    traced = is_traced(view, first, second, t)
    if not traced:
        _check_pair(view, first, second, t)
    result = _discrete_defect(view, first, second, t, step)
    if not traced and not bool(result.solved):
        raise RuntimeError("symplectic_defect: the step from (q0, q1) could not be solved; see dalembert.measure.regularity")
    return result


@_defect.register(VariationalProblem)
def _defect_of_windows(
    system: VariationalProblem, given: tuple, h: Any, t0: Any, scheme: Any, step: Any
) -> SymplecticDefect:
    _, _, nodes, multipliers = given
    flow, x = higher_flow(system, nodes, multipliers, h, t0, scheme)
    if step is not None:
        _check_map(step, x.shape, x)
    result = _higher_defect(flow, x, step)
    if not is_traced(result) and not bool(result.solved):
        raise RuntimeError(
            "symplectic_defect: the step from these nodes could not be solved; see dalembert.measure.regularity"
        )
    return result


def _check_map(step: Callable, shape: tuple[int, ...], *arguments) -> None:
    """A map of the user returns what the system's own flow returns."""
    names = "q0, q1" if len(arguments) == 2 else "x"
    found = run_on_shapes(lambda *x: output_shape(lambda: step(*x), "step", names), *arguments)
    if found != shape:
        raise ValueError(f"step: returns shape {found}; shape {shape} is needed")


def exterior_derivative(one_form: Callable, x: Float[Array, "k"]) -> Float[Array, "k k"]:
    """(dθ)_ij = ∂_iθ_j - ∂_jθ_i of θ = one_form(x), (k,)."""
    slopes = jax.jacfwd(one_form)(x)
    return slopes.T - slopes


@seldom
def _discrete_defect(view: NodeView, q0: Vector, q1: Vector, t, step: Callable | None) -> SymplecticDefect:
    view, (q0, q1) = view.around(q0, q1)
    n, x, now, view = q0.shape[0], jnp.concatenate([q0, q1]), t + view.h, view.once()
    solved = jnp.asarray(True)
    if step is None:
        z, info = view.solve(q0, q1, now)
        solved = info.solved
        view = view.ahead(z[:n])
        step = lambda a, b: view.flow(a, b, now, z)  # noqa: E731
    slope, q2 = jax.jacfwd(lambda y: twice(step(y[:n], y[n:])), has_aux=True)(x)

    def theta(pair, y, time):
        return jnp.concatenate([jnp.zeros(n), pair.momentum(y[:n], y[n:], time)])

    def xi(y):
        nodes = (y[:n], y[n : 2 * n], y[2 * n :], now)
        return -view.impulse(*nodes) - view.h * view.constraint_force(*nodes)[1]

    by_nodes = jax.jacfwd(xi)(jnp.concatenate([x, q2]))
    slopes = jnp.concatenate([jnp.zeros((n, 2 * n)), by_nodes[:, : 2 * n] + by_nodes[:, 2 * n :] @ slope])
    before = -exterior_derivative(lambda y: theta(view, y, t), x)
    after = -exterior_derivative(lambda y: theta(view.later(), y, now), jnp.concatenate([q1, q2]))
    forward = jnp.concatenate([jnp.eye(2 * n)[n:], slope])
    nodes = (q0, q1, q2)
    left = view.equations(*nodes, view.multipliers(*nodes, now), now)
    form = jnp.concatenate([jnp.zeros(n), xi(jnp.concatenate([x, q2]))])
    basis = kernel(jax.jacfwd(lambda y: view.pair(y[:n], y[n:], t))(x))
    return restrict_forms(
        basis, before, forward.T @ after @ forward, slopes.T - slopes, form=form, end=view.node(2, q2), residual=left,
        solved=solved,
    )  # fmt: skip


@seldom
def _higher_defect(flow: HigherFlow, x: Float[Array, "k"], step: Callable | None) -> SymplecticDefect:
    z, info = flow.solve(x)
    chosen = (lambda y: flow.step(y, z)) if step is None else step
    slope, end = jax.jacfwd(lambda y: twice(chosen(y)), has_aux=True)(x)
    form = lambda y, t: -exterior_derivative(lambda u: flow.theta(u, t), y)  # noqa: E731
    before, after = jax.vmap(form)(jnp.stack([x, end]), flow.t + flow.h * jnp.arange(2.0))  # compiled once for both ends
    basis = kernel(jax.jacfwd(flow.restrictions)(x))
    solved = info.solved | (step is not None)
    zero = jnp.zeros_like(before)
    return restrict_forms(
        basis, before, slope.T @ after @ slope, zero, form=zero[0], end=end, residual=flow.equations(z, x), solved=solved
    )


def _check_pair(view: NodeView, q0: Vector, q1: Vector, t) -> None:
    view, pair = view.around(q0, q1)
    found, rows = _pair_with_rows(view, jnp.concatenate(pair), t)
    left = np.asarray(found)
    if np.max(np.abs(left), initial=0.0) > CONSISTENT:
        raise InconsistentDataError(f"q0, q1: the pair must lie in D_d, where the constraints on it are 0; they are {left}")
    if rows.shape[0] and not (found := numerical_rank(rows)).full:
        raise RankDeficientError(
            f"q0, q1: the {rows.shape[0]} equations of D_d have rank {found.rank} there, so that it has no tangent space"
        )


@seldom
def _pair_with_rows(view: NodeView, x: Float[Array, "2n"], t):
    n = x.shape[0] // 2
    pair = lambda y: view.pair(y[:n], y[n:], t)  # noqa: E731
    return pair(x), jax.jacfwd(pair)(x)


def restrict_forms(basis, before, pulled, exterior, *, form, end, residual, solved) -> SymplecticDefect:
    on = lambda a: basis.T @ a @ basis  # noqa: E731
    return SymplecticDefect(basis, on(before), on(pulled - before), on(exterior), form @ basis, end, residual, solved)


def largest(matrix: Matrix) -> Float[Array, ""]:
    return jnp.max(jnp.abs(matrix), axis=(-2, -1), initial=0.0)


def twice(x):
    return x, x


@on_host
def flow_symplectic_defect(
    system: System,
    q0,
    v0,
    t: float,
    *,
    t0: float = 0.0,
    tolerance: float = 1e-11,
    max_steps: int = 100_000,
) -> SymplecticDefect:
    """Measure how the continuous flow changes the symplectic form.

    (Fᵗ)*Ω_L - Ω_L = dν, ν(δq,δv) = -∫₀ᵗ (f + Rᵀλ)·δq(s) ds, Ω_L = -d(L_v·dq), for the continuous flow over the time
    t.

    The flow is that of the index-reduced equations for (a, λ); with constraints of order 0 or 1 the variations are
    those tangent to the constraints. One integration (Dormand-Prince 8(7), local `tolerance`) carries the derivative M
    = ∂Fᵗ/∂(q,v), the integrals of (f + Rᵀλ)·δq and of its exterior derivative d(f + Rᵀλ) ∧ dq.

    Args:
        system: a System.
        q0: (n,) consistent positions.
        v0: (n,) consistent velocities.
        t: duration of the flow.
        t0: initial time.
        tolerance: relative and absolute tolerance on the local error.
        max_steps: the largest number of steps of the integrator.

    Returns:
        A SymplecticDefect.

    Raises:
        ValueError: as `reference` for bad data.
        TypeError: as `reference`.
        RuntimeError: the integration fails.

    Source: Borda, Fernández, Grillo, Theorem 2.4, with D_EL L = L_q - d/dt L_v replaced by the force -(f + Rᵀλ), to
    which it is equal on trajectories. With D_EL L itself the theorem would hold for any second order equation.

    Example:
        >>> bool(da.measure.flow_symplectic_defect(pendulum, [1.0], [0.0], 0.5).size < 1e-8)
        True
    """
    duration = jnp.asarray(as_positive(t, "t", "a positive, finite time"), dtype=float)
    begin = jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)
    accuracy, most = as_tolerance(tolerance), whole_number(max_steps, "max_steps")
    check_flat(system, "flow_symplectic_defect")
    q, v = check_initial_data(system, q0, v0, begin, t)
    result = _continuous_defect(system, q, v, (begin, begin + duration), accuracy, most)
    if not is_traced(result) and not bool(result.solved):
        raise RuntimeError("flow_symplectic_defect: the integration failed; shorten t, or raise max_steps or the tolerance")
    return result


@Jitted
def _continuous_defect(system: System, q, v, span, tolerance: float, max_steps: int) -> SymplecticDefect:
    n, y0, (t0, t) = q.shape[0], jnp.concatenate([q, v]), span
    theta = lambda y, s: jnp.concatenate([momentum(system, y[:n], y[n:], s), jnp.zeros(n)])  # noqa: E731

    def variation_rates(s, carry, args: System):
        y, slope = carry["y"], carry["slope"]
        (rates, gradient), (rate, forces) = jax.jacfwd(lambda x: twice(motion_and_force(args, x, s)), has_aux=True)(y)
        turned = (gradient @ slope).T @ slope[:n]
        return {"y": rate, "slope": rates @ slope, "form": -forces @ slope[:n], "exterior": turned.T - turned}

    start = {"y": y0, "slope": jnp.eye(2 * n), "form": jnp.zeros(2 * n), "exterior": jnp.zeros((2 * n, 2 * n))}
    found = integrate(variation_rates, system, span, start, tolerance, max_steps=max_steps)
    last = jax.tree.map(lambda x: x[-1], found.y)
    before = -exterior_derivative(lambda y: theta(y, t0), y0)
    after = -exterior_derivative(lambda y: theta(y, t), last["y"])
    basis = kernel(jax.jacfwd(lambda y: stacked_residuals(system, y[:n], y[n:], t0))(y0))
    pulled = last["slope"].T @ after @ last["slope"]
    left = stacked_residuals(system, last["y"][:n], last["y"][n:], t)
    rest = {"form": last["form"], "end": last["y"], "residual": left, "solved": found.reached}
    return restrict_forms(basis, before, pulled, last["exterior"], **rest)


def motion_and_force(system: System, y: Float[Array, "two_n"], t) -> tuple[Float[Array, "two_n"], Vector]:
    """(v, a) and f + Rᵀλ at y = (q, v)."""
    n = y.shape[0] // 2
    q, v = y[:n], y[n:]
    found = acceleration(system, *jax.lax.stop_gradient((q, v)), t)
    z = implicit(lambda z, x, w: kkt_residual(system, x, w, t, z), jnp.concatenate(found[:2]), q, v)
    a, multipliers = z[:n], z[n:]
    return jnp.concatenate([v, a]), force(system, q, v, t) + all_reactions(system, q, v, a, t).T @ multipliers
