"""feedback: the control near a plan, by gains of its neighbours or of a quadratic cost; controllability along it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.boundary.data.around import continuous
from dalembert.control import OptimalControl
from dalembert.control.problem import actuation, check_solution_of
from dalembert.discretize import Scheme
from dalembert.groups import Product, Space
from dalembert.guidance.linearisation import (
    Linearised,
    active_paths,
    extremal_along,
    fixed_components,
    gains_of,
    kernel_of,
    linearise,
    read_given,
)
from dalembert.notebook import Described
from dalembert.numbers import as_array, as_number, as_numbers, as_positive, as_vector, check_class, is_traced, whole_number
from dalembert.solution import ControlSolution
from dalembert.step import SampledFeedback
from dalembert.systems.equations import all_reactions, force
from dalembert.systems.pickling import reduced
from dalembert.tracing import seldom

LARGEST = 1e300  # stands for an infinite bound where bounds are interpolated


class Feedback(Described, eqx.Module):
    """The optimal feedback law along a solution.

    u(t, q, v) = ū(t) - K(t) (q - q̄(t), v - v̄(t)), clipped to the bounds of the plan: what `feedback` returns.

    On groups q - q̄ is the way from q̄ to q, in the axes of the velocities.

    Between nodes all of it is interpolated linearly in t. After the last node the law holds the plan's last state, with
    the last gains and the controls that best balance the forces there, or with those of another law (see `then`).

    Attributes:
        problem: the OptimalControl of the plan; the control forces are B(q)u of its plant.
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions q̄ of the plan.
        v: (N+1, n) its velocities v̄.
        u: (N+1, r) its controls ū.
        K: (N+1, r, 2n) gains with respect to q and v; 0 in directions that the constraints of the plant exclude.
        rest: (r,) the controls after the last node.
        after: (r, 2n) the gains after the last node.
        lower: (N+1, r) lower bounds of the controls, infinite if there are none.
        upper: (N+1, r) upper bounds of the controls, likewise.
        held: the time from which the gains are held constant, because they grow without bound towards a given end; the
            time of the last node if they are not held.

    Example:
        >>> law = da.feedback(move, plan, final=([1.0], [0.0]))
        >>> law.K.shape, law(0.0, [0.01], [0.0]).shape
        ((101, 1, 2), (1,))
    """

    problem: OptimalControl
    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    v: Float[np.ndarray, "nodes n"]
    u: Float[np.ndarray, "nodes r"]
    K: Float[np.ndarray, "nodes r 2n"]
    rest: Float[np.ndarray, "r"]
    after: Float[np.ndarray, "r 2n"]
    lower: Float[np.ndarray, "nodes r"]
    upper: Float[np.ndarray, "nodes r"]
    held: float = eqx.field(static=True)

    __reduce__ = reduced
    __hash__ = object.__hash__  # whoever compiles a law asks for it, and arrays have none

    def __call__(self, t, q: Float[Array, "n"], v: Float[Array, "n"]) -> Float[Array, "r"]:
        """The control at a time and a state; traceable by JAX."""
        t = as_number(t, "t", "a finite time")
        q, v = read_measured(self.problem.system.space, q, v, self.v.shape[1], as_array)
        return jnp.asarray(self._control(self._law_rows(t)[0], q, v))

    def __repr__(self) -> str:
        return f"Feedback(t={self.t[0]:g} to {self.t[-1]:g}, K={self.K.shape})"

    def describe(self) -> str:
        """The law, its plan and its gains."""
        size = np.abs(np.asarray(self.K)).max(axis=(0, 1))
        names = self.problem.system.velocities or [f"q{i}" for i in range(self.v.shape[1])]
        each = ", ".join(f"{name} {x:.3g}" for name, x in zip([*names, *(f"d{x}/dt" for x in names)], size, strict=True))
        lower, upper = (f(np.asarray(x)) for f, x in ((np.min, self.lower), (np.max, self.upper)))
        bounded = np.isfinite(lower) or np.isfinite(upper)
        return "\n".join([
            "law: u = ū(t) - K(t) (q - q̄(t), v - v̄(t))",
            f"plan: {len(self.t) - 1} steps from t = {self.t[0]:g} to t = {self.t[-1]:g}, {self.u.shape[1]} controls",
            f"largest gains: {each}" + (f"; held from t = {self.held:g}" if self.held < self.t[-1] else ""),
            f"bounds on u: {f'{lower:g} to {upper:g}' if bounded else 'none'}",
        ])  # fmt: skip

    def planned(self, t: Float[np.ndarray, "times"]) -> Float[np.ndarray, "times n"]:
        """The positions q̄ at these times; the last ones after the plan."""
        q = np.asarray(self._law_rows(t))[:, : self.q.shape[1]]
        return self.problem.system.space.nearest(q)

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        """Called by `closed_loop`: ū of t + ahead, corrected by the state at t."""
        q, v = read_measured(self.problem.system.space, q, v, self.v.shape[1], as_numbers)
        return np.asarray(self._control(self._law_rows(t, ahead)[0], q, v))

    def sampled(self, h: float, every: int = 1) -> SampledFeedback:
        """The law for `simulate(feedback=…)` with step h, sampled every so many steps and held in between.

        ū is taken at the middle of the interval over which it is held, so that sampling alone changes the motion of the
        plan only to second order.

        Args:
            h: step of the simulation, in the unit of time of the plan.
            every: number of steps between two samples.

        Returns:
            A SampledFeedback, which runs on both back-ends. The first sample should be taken within the time of the
            plan.

        Raises:
            ValueError: h is not positive, or every is below 1.
            TypeError: h is not a number, or every is not a whole number.
        """
        held = as_positive(h, "h") * whole_number(every, "every")
        t = np.asarray(self.t)
        grid = max(held, float(np.diff(t).min()))
        count = math.ceil((t[-1] - t[0]) / grid * (1.0 - 1e-12))
        times = np.append(t[0] + grid * np.arange(count), np.inf)
        rows = self._law_rows(times, 0.5 * held)
        table, start = np.concatenate([rows[:-1], np.diff(rows, axis=0)], axis=1), float(t[0])
        width, problem, control = rows.shape[1], self.problem, self._control

        def law(q, v, t, *_):
            s = jnp.clip((t - start) / grid, 0.0, float(count))
            i = jnp.minimum(jnp.floor(s + 1e-9), count - 1.0)
            both = jnp.asarray(table)[i.astype(int)]
            return actuation(problem, q, t) @ control(both[:width] + (s - i) * both[width:], jnp.asarray(q), jnp.asarray(v))

        return SampledFeedback(law, every=int(every), timed=True)

    def then(self, other: Feedback) -> Feedback:
        """The same law, but after the last node with the gains and the control that another law has at its first node:
        a regulator that holds the plan's last state.

        Args:
            other: a Feedback along a motion that rests where this one ends.

        Returns:
            The combined Feedback.

        Raises:
            TypeError: other is not a Feedback.
            ValueError: other has a different number of controls or coordinates, or starts from another state.
        """
        check_class(other, Feedback, "other", "a Feedback")
        if other.K.shape[1:] != self.K.shape[1:]:
            raise ValueError(f"other: found gains {other.K.shape[1:]}; those of this law are {self.K.shape[1:]}")
        space, ends = self.problem.system.space, np.stack([self.q[-1], other.q[0]])
        ends = continuous(space, ends) if isinstance(space, Product) else ends
        here, there = np.concatenate([ends[0], self.v[-1]]), np.concatenate([ends[1], other.v[0]])
        if not np.allclose(here, there, rtol=1e-6, atol=1e-6):
            raise ValueError(f"other: begins at (q, v) = {there}; this law ends at {here}")
        return dataclasses.replace(self, rest=other.u[0], after=other.K[0])

    def _law_rows(self, times, ahead: float = 0.0):
        """(q̄, v̄, ū, lower, upper, K) at one time or more, ū that much later; after the last node `rest` and `after`."""
        xp: Any = jnp if is_traced(self.t, self.K, times) else np
        nodes, times, last = xp.asarray(self.t), xp.asarray(times).reshape(-1), len(self.t) - 1

        def interpolate(values, t, later=None):
            flat = xp.asarray(values).reshape(last + 1, -1)
            i = xp.clip(xp.searchsorted(nodes, t, side="right") - 1, 0, last - 1)
            w = xp.clip((t - nodes[i]) / (nodes[i + 1] - nodes[i]), 0.0, 1.0)[:, None]
            found = (1.0 - w) * flat[i] + w * flat[i + 1]
            return found if later is None else xp.where((t > nodes[-1])[:, None], later.ravel(), found)

        limits = [interpolate(xp.clip(x, -LARGEST, LARGEST), times) for x in (self.lower, self.upper)]
        u, gains = interpolate(self.u, times + ahead, self.rest), interpolate(self.K, times, self.after)
        return xp.concatenate([interpolate(self.q, times), interpolate(self.v, times), u, *limits, gains], axis=1)

    def _control(self, row, q, v):
        (r, n), space = self.K.shape[1:], self.problem.system.space
        xp: Any = jnp if is_traced(row, q, v) else np
        x, u, lower, upper, gains = xp.split(row, np.cumsum([self.q.shape[1] + self.v.shape[1], r, r, r]))
        position, velocity = space.split_state(x)
        apart = xp.concatenate([space.differences(space.nearest(position), q), v - velocity])
        return xp.clip(u - gains.reshape(r, n) @ apart, lower, upper)


def read_measured(space: Space, q: Any, v: Any, n: int, kind: Callable[[Any, str], Any]) -> tuple[Any, Any]:
    """One state (q, v) that a controller is given."""
    q, v = space.read_named(q, v, ("q", "v"))
    return as_vector(q, "q", space.stored_size(n), kind), as_vector(v, "v", n, kind)


def law_along(problem: OptimalControl, solution: ControlSolution, gains: np.ndarray, hold: float) -> Feedback:
    """The law with these gains, those of the last time `hold` being held."""
    t = np.asarray(solution.t)
    last = int(np.searchsorted(t, t[-1] - hold * (1.0 - 1e-12), side="right")) - 1 if hold else len(t) - 1
    gains = np.concatenate([gains[: last + 1], np.repeat(gains[last : last + 1], len(t) - 1 - last, axis=0)])
    free = np.full_like(np.asarray(solution.u), np.inf)
    bounds = solution.bounds.get("u")
    lower, upper = (-free, free) if bounds is None else (bounds.lower, bounds.upper)
    rest = np.clip(np.asarray(_balance_forces(problem, solution.q[-1], solution.v[-1], t[-1])), lower[-1], upper[-1])
    q, v, u, lower, upper = (np.asarray(x) for x in (solution.q, solution.v, solution.u, lower, upper))
    return Feedback(problem, t, q, v, u, gains, rest, gains[-1], lower, upper, float(t[last]))


@seldom
def _balance_forces(problem: OptimalControl, q, v, t):
    """u of the least-squares solution of B u + Rᵀν + L_q + f - d/dt L_v = 0 without acceleration."""
    system: Any = problem.system
    lagrangian = lambda x, w, s: system.call(system.lagrangian, x, w, t=s)  # noqa: E731
    inertial = jax.jvp(lambda x, s: jax.grad(lagrangian, 1)(x, v, s), (q, t), (system.space.rate(q, v), jnp.ones_like(t)))[1]
    inertial = system.space.balance(inertial, v, jax.grad(lagrangian, 1)(q, v, t))
    known = system.space.gradient(lambda x: lagrangian(x, v, t), q) + force(system, q, v, t) - inertial
    columns = actuation(problem, q, t)
    every = jnp.concatenate([columns, all_reactions(system, q, v, jnp.zeros_like(v), t).T], axis=1)
    return -jnp.linalg.pinv(every, rtol=1e-10)[: columns.shape[1]] @ known


HELD = 0.1  # of the time, before an end that is given


def feedback(
    problem: OptimalControl,
    solution: ControlSolution,
    *,
    final: Any = None,
    through: Any = None,
    inequalities: Callable | None = None,
    Q: Float[Array | np.ndarray, "2n 2n"] | None = None,
    R: Float[Array | np.ndarray, "r r"] | None = None,
    Q_T: Float[Array | np.ndarray, "2n 2n"] | None = None,
    hold: float | None = None,
    scheme: Scheme | None = None,
) -> Feedback:
    """Compute the optimal feedback gains along a solution.

    δu_i = -K_i (δq_i, δv_i): the change of the optimal control with the state, to first order, along a solution.

    Neighbouring extremals: a backward sweep through the second variation of the discrete problem, with all second
    derivatives of its Lagrangian. Controls, positions, velocities and path inequalities that are at a bound stay there.
    If Q, R and Q_T are given, the gains are those of the linear-quadratic regulator: min ∫ xᵀQx + uᵀRu dt + x(T)ᵀQ_T
    x(T), x = (δq, δv), for the plant linearised along the solution.

    Args:
        problem: the OptimalControl that was solved.
        solution: the plan.
        final: as it was given to `solve`; the gains grow without bound towards a given end. Not together with Q, R,
            Q_T.
        through: as it was given to `solve`.
        inequalities: as they were given to `solve`; needed if some are active along the solution.
        Q: (2n, 2n) weights of the deviation of (q, v) from the plan; symmetric, positive semidefinite.
        R: (r, r) weights of the deviation of the controls; symmetric, positive definite.
        Q_T: (2n, 2n) weights of the deviation at the last node; symmetric, positive semidefinite.
        hold: time before the last node over which the gains are held constant; by default a tenth of the duration if
            something is given at the end, otherwise 0.
        scheme: the Scheme that was given to `solve`.

    Returns:
        The law, a Feedback: u(t, q, v), gains K (N+1, r, 2n), and `sampled(h, every)` for `simulate(feedback=…)`.

    Raises:
        ValueError: an argument does not belong to the solution, or weights have a wrong shape or sign.
        TypeError: an argument is of the wrong type, or one of Q, R, Q_T is missing.

    Source: Bryson, Ho, Applied Optimal Control, chapters 5 and 6; here for the discrete problem.

    Example:
        >>> law = da.feedback(move, plan, final=([1.0], [0.0]))
        >>> [round(float(k), 1) for k in law.K[0, 0]]  # 6/T² and 4/T of the double integrator
        [6.0, 4.0]
    """
    check_solution_of(problem, solution)
    weights = {"Q": Q, "R": R, "Q_T": Q_T}
    missing = [name for name, weight in weights.items() if weight is None]
    length = float(solution.t[-1] - solution.t[0])
    if len(missing) == 3:
        paths = active_paths(problem, solution, inequalities)
        gains, given = _neighbouring(problem, solution, (final, through), paths, scheme)
    elif missing:
        raise TypeError(f"{missing[0]}: is missing; give all of Q, R and Q_T for a regulator, or none of them")
    elif not (final is None and through is None and inequalities is None):
        name = "final" if final is not None else "through" if through is not None else "inequalities"
        raise ValueError(f"{name}: found together with Q, R and Q_T; the end of a regulator is free. Leave {name} out")
    else:
        gains, given = _regulator(problem, solution, weights, scheme), False
    held = as_number(hold, "hold") if hold is not None else HELD * length * given
    if not 0.0 <= held < length:
        raise ValueError(f"hold: found {held:g}; give a time from 0 to the length of the plan, {length:g}")
    return law_along(problem, solution, gains, held)


def _neighbouring(problem, solution, asked: tuple, paths: tuple, scheme) -> tuple[np.ndarray, bool]:
    """asked: what `solve` was given at the end and between."""
    given = read_given(problem, solution, {"final": asked[0]}, asked[1])
    start = extremal_along(problem, solution, scheme, paths)
    return gains_of(linearise(start, fixed_components(start, given, solution))), bool(given.final.given.any())


def _regulator(problem: OptimalControl, solution: ControlSolution, weights: dict, scheme) -> np.ndarray:
    """With no multipliers of the plan's own problem, what is left of the second variation is the quadratic cost."""
    n, r, space = solution.v.shape[1], solution.u.shape[1], problem.system.space
    Q, R, Q_T = (_weight(weights[name], name, size) for name, size in (("Q", 2 * n), ("R", r), ("Q_T", 2 * n)))
    if np.linalg.eigvalsh(R)[0] <= 0.0:
        raise ValueError("R: found a matrix that is not positive definite; every control needs a positive weight")
    own = OptimalControl(
        problem.system, cost=lambda q, v, u, *_: _square(space, Q, q, v) + u @ R @ u, actuated=problem.actuated,
        terminal=lambda q, v, *_: _square(space, Q_T, q, v),
    )  # fmt: skip
    start = extremal_along(own, solution, scheme)
    for name in ("adjoints", "steps"):
        start.z[:, start.data.layout.part(name)] = 0.0
    return gains_of(linearise(start, np.zeros(start.z.shape, dtype=bool)))


def _square(space: Space, weight: np.ndarray, q, v):
    """Its second derivatives are the weight; on groups those of the way from where it is taken."""
    if isinstance(space, Product):
        q, v = jnp.asarray(q), jnp.asarray(v)
        q, v = space.between(jax.lax.stop_gradient(q), q), v - jax.lax.stop_gradient(v)
    x = jnp.concatenate([q, v])
    return x @ weight @ x


def _weight(given: Any, name: str, size: int) -> np.ndarray:
    found = np.asarray(as_numbers(given, name))
    if found.shape != (size, size):
        raise ValueError(f"{name}: found shape {found.shape}; a matrix ({size}, {size}) is needed")
    if not np.allclose(found, found.T, rtol=1e-12, atol=1e-12 * np.abs(found).max()):
        raise ValueError(f"{name}: found a matrix that is not symmetric; give a symmetric one")
    if np.linalg.eigvalsh(found)[0] < -1e-12 * np.abs(found).max():
        raise ValueError(f"{name}: found a matrix with a negative eigenvalue; give a positive semidefinite one")
    return 0.5 * (found + found.T)


CONTROLLABLE = 1e-8  # smallest singular value, relative to the largest, of what can be reached


class Controllability(Described, eqx.Module):
    """How well the controls reach the final state.

    W = Σ Φ(T, t_i) b_i b_iᵀ Φ(T, t_i)ᵀ/w_i, b_i = ∂x(t_{i+1})/∂u_i: the Gramian of the linearisation along a solution.

    δx(T)ᵀ W⁻¹ δx(T) is the least ∫|δu|² dt that changes the last state by δx.

    Attributes:
        gramian: (2n, 2n) W, of (q, v) at the last node.
        singular_values: (d,) of the map from controls of unit size to the last state, in units of typical sizes, in
            decreasing order; d is 2n minus the number of dimensions that the constraints of the plant exclude.
        directions: (d, 2n) the corresponding directions of (q, v), in units of typical sizes.
        smallest: the last singular value divided by the first: 0, up to rounding, if some states cannot be reached.

    Example:
        >>> found = da.guidance.controllability(move, plan)
        >>> found.controllable, np.round(found.gramian, 2).tolist()  # T³/3, T²/2, T
        (True, [[0.33, 0.5], [0.5, 1.0]])
    """

    gramian: Float[np.ndarray, "2n 2n"]
    singular_values: Float[np.ndarray, "d"]
    directions: Float[np.ndarray, "d 2n"]

    @property
    def smallest(self) -> float:
        largest = float(self.singular_values[0]) if len(self.singular_values) else 0.0
        return float(self.singular_values[-1]) / largest if largest > 0.0 else 0.0

    @property
    def controllable(self) -> bool:
        """True if all directions that the constraints permit can be reached."""
        return self.smallest > CONTROLLABLE


def controllability(problem: OptimalControl, solution: ControlSolution, *, scheme: Scheme | None = None) -> Controllability:
    """Check whether the controls can change the final state in every direction.

    δx(T) = Σ Φ(T, t_i) b_i δu_i: whether the controls can change the last state in every direction, to first order.

    If they can, and no bound is active, final states near that of the solution can be reached as well.

    Args:
        problem: the OptimalControl that was solved.
        solution: the motion along which the plant is linearised.
        scheme: the Scheme that was given to `solve`.

    Returns:
        A Controllability, with the Gramian and its singular values.

    Raises:
        ValueError: the solution does not belong to the problem, or is not solved.
        TypeError: an argument is of the wrong type.

    Source: Colombo, Martín de Diego, Zuccalli, section 2.1; here along a motion, and for the discrete equations.

    Example:
        >>> da.guidance.controllability(move, plan).controllable
        True
    """
    start = extremal_along(problem, solution, scheme)
    lin = linearise(start, np.zeros(start.z.shape, dtype=bool))
    reached, tangent = _end_derivatives(lin)
    n, sizes = lin.layout.n, lin.sizes
    units, order = lin.units[-1][np.r_[2 * n : 3 * n, n : 2 * n], None], np.r_[n : 2 * n, :n]  # (v, q) → (q, v)
    states, permitted = (units * reached)[order], (units * tangent)[order]
    scale = np.concatenate([sizes.positions, sizes.positions / sizes.time])
    basis = np.linalg.qr(permitted / scale[:, None])[0]
    controls = np.tile(sizes.controls, len(lin.t)) * np.sqrt(sizes.time)
    left, values, _ = np.linalg.svd(basis.T @ (states / scale[:, None] * controls), full_matrices=False)
    return Controllability(states @ states.T, values, (basis @ left).T)


def _end_derivatives(lin: Linearised) -> tuple[np.ndarray, np.ndarray]:
    """∂(v_N, q_N)/∂(u_i √w_i) of all controls, one after the other, (2n, (N+1)r); and what the constraints permit
    of (v_N, q_N)."""
    n, r, m = lin.layout.n, lin.layout.r, lin.layout.m
    known = 2 * n
    h = np.diff(lin.t)
    weights = 0.5 * (np.append(h, 0.0) + np.append(0.0, h))
    adjoint = np.arange(n + r + m, n + r + 2 * m + n)  # rows λ, η
    new = known + np.r_[:n, n + r : n + r + m]  # columns q_{i+1}, ν
    controls = known + np.arange(n, n + r)
    states = np.zeros((known, 0))
    for i in range(len(lin.t)):
        rows = lin.rows[i][adjoint]
        change = -np.linalg.solve(rows[:, new], np.concatenate([rows[:, :known], rows[:, controls]], axis=1))[:n]
        change[:, known:] /= lin.units[i][controls] * np.sqrt(weights[i])
        after = np.concatenate([change[:, :known] @ states, change[:, known:]], axis=1)
        here = np.concatenate([states[n:], np.zeros((n, r))], axis=1)
        if i < len(lin.t) - 1:
            states = np.concatenate([(after - here) / lin.spans[i + 1][:, None], after])
        else:
            states = np.concatenate([after, here])
    return states, _permitted_basis(lin)


def _permitted_basis(lin: Linearised) -> np.ndarray:
    """A basis of the (v_N, q_N) that satisfy the constraints."""
    n, r, m = lin.layout.n, lin.layout.r, lin.layout.m
    velocity = lin.rows[-1][n + r + m + n :][:, np.r_[2 * n : 3 * n, n : 2 * n]]
    position = np.concatenate([np.zeros((m, n)), lin.before[-1][:m, n:]], axis=1)[lin.holonomic]
    return kernel_of(np.concatenate([velocity, position]))
