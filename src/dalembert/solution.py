"""Solutions of boundary problems: arrays and plain text, and nothing that knows mechanics. Begin with `CriticalPoint`."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from dalembert.lazy import Later, front_door, groups_of
from dalembert.notebook import Described
from dalembert.numbers import as_numbers, place_of
from dalembert.outcome import CONTROLLED, SOLVED, Outcome

__all__ = ["ActiveBounds", "BoundaryStatistics", "ControlSolution", "FinalTime", "Refinement", "Solution", "SolveError"]

if TYPE_CHECKING:
    import xarray


class ActiveBounds(Described, eqx.Module):
    """The bounds on one kind of unknowns, with their multipliers.

    lower ≤ x ≤ upper, ∂C/∂x + … + μ = 0 with μ ≥ 0 at the upper bound, μ ≤ 0 at the lower one, μ = 0 between: the
    bounds on one kind x of unknowns of a solution, or on a function x of them: g ≤ 0.

    Attributes:
        lower: (K, m), infinite where there is no bound.
        upper: (K, m), infinite where there is no bound.
        multipliers: (K, m) μ, per unit of time: moving an upper bound at one time by d changes the optimal value by
            -hμd. 0 where x is given.
        active: (K, m) -1 at the lower bound, 1 at the upper bound, 0 between.
        margin: the smallest max(slack, |μ|) over all bounds, in the units of the solver. Near 0 a bound is reached but
            does not act: strict complementarity fails.
        t: (K,) the times of x: the nodes. For quantities that depend on velocities but not on controls: the mid-points
            of the steps, and the ends at which the velocity is an unknown.
        values: (K, m) x.

    Example:
        >>> bang.bounds["u"].active[[0, 10, 20], 0]
        array([ 1,  0, -1])
    """

    lower: Float[np.ndarray, "K m"]
    upper: Float[np.ndarray, "K m"]
    multipliers: Float[np.ndarray, "K m"]
    active: Int[np.ndarray, "K m"]
    margin: Float[np.ndarray, ""]
    t: Float[np.ndarray, "K"]
    values: Float[np.ndarray, "K m"]

    def switches(self) -> list[np.ndarray]:
        """The times at which each component of x reaches or leaves a bound.

        Each is where the line through the two nearest free values meets the bound, within the step in which that
        happens: accurate to order 2 if x meets the bound at an angle, as controls do, and to order 1 if it is tangent.

        Returns:
            For each component its times, increasing.
        """
        times, x = self.t, self.values
        return [
            np.array([_meets(times, x[:, j], self, i, j) for i in np.flatnonzero(np.diff(self.active[:, j]))])
            for j in range(x.shape[1])
        ]


def _meets(t: np.ndarray, x: np.ndarray, bounds: ActiveBounds, i: Any, j: int) -> float:
    """The time between nodes i and i+1."""
    before, after = bounds.active[i, j], bounds.active[i + 1, j]
    if before and after:
        return float(0.5 * (t[i] + t[i + 1]))
    inside, outside, side, held = (i, i - 1, after, i + 1) if after else (i + 1, i + 2, before, i)
    limit = (bounds.upper if side > 0 else bounds.lower)[held, j]
    if not 0 <= outside < len(t) or x[inside] == x[outside]:
        return float(0.5 * (t[i] + t[i + 1]))
    at = t[inside] + (limit - x[inside]) * (t[inside] - t[outside]) / (x[inside] - x[outside])
    return float(np.clip(at, t[i], t[i + 1]))


class BoundaryStatistics(Described, Later):
    """Counts and residuals of Newton's method on the KKT equations.

    Attributes:
        iterations: number of iterations.
        factorizations: number of factorizations of the KKT matrix.
        restorations: number of restorations: phases that reduce the violation of the constraints alone.
        update: last change of the path, relative to its size.
        residual: largest component of the node equations, divided by the largest entry of its row.
        violation: Σ h|φ|.
        shift: factor of the diagonal that was added to the second derivatives in the last step; 0 if none was.
        condition: estimated condition number (1-norm) of the equilibrated KKT matrix, found when it is first asked for.
        alternation: the largest part of a multiplier that alternates in sign from node to node, relative to the
            multiplier, unless it belongs to a smooth function; 0 otherwise. With Outcome.SUCCESS it is rounding error.
        violated_at: the time at which the constraints are violated most, if the iteration ended with a violation; NaN
            otherwise.

    Example:
        >>> bool(solution.statistics.residual < 1e-9)
        True
    """

    iterations: Int[np.ndarray, ""]
    factorizations: Int[np.ndarray, ""]
    restorations: Int[np.ndarray, ""]
    update: Float[np.ndarray, ""]
    residual: Float[np.ndarray, ""]
    violation: Float[np.ndarray, ""]
    shift: Float[np.ndarray, ""]
    condition: Float[np.ndarray, ""]
    alternation: Float[np.ndarray, ""]
    violated_at: Float[np.ndarray, ""] = eqx.field(default_factory=lambda: np.asarray(np.nan))


FAR = 1e2  # times the guess: a final time beyond it, without a solution, tells that nothing holds it


class FinalTime(eqx.Module):
    """The final time that was found, with what it is worth.

    dJ/dT = 0 for the minimal cost or action J, or T at a bound: the final time of a solution with T=Free(…).

    Attributes:
        guess: the value from which it was sought.
        lower: the least T; 0 or the first time if there is no bound.
        upper: the largest T; infinite if there is no bound.
        slope: dJ/dT, positive if an earlier end would cost less: minus the Hamiltonian or energy at the end. 0 between
            the bounds (transversality); at a bound it is the multiplier of the bound.
        active: -1 at the lower bound, 1 at the upper bound, 0 between.

    Example:
        >>> move = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: 1.0 + u @ u, actuated=0)
        >>> ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}
        >>> short = da.solve(move, **ends, T=da.Free(1.0, upper=2.0), steps=20)
        >>> int(short.final_time.active), round(float(short.final_time.slope), 1)  # 1 - 36/T⁴, T = 2
        (1, -1.2)
    """

    guess: Float[np.ndarray, ""]
    lower: Float[np.ndarray, ""]
    upper: Float[np.ndarray, ""]
    slope: Float[np.ndarray, ""]
    active: Int[np.ndarray, ""]

    def describe(self, T: float, solved: bool) -> str:
        """The result in one line."""
        side = {-1: "at its lower bound", 0: "free", 1: "at its upper bound"}[int(self.active)]
        found = f"final time {T:.12g}, {side}: the optimal value changes with it by {float(self.slope):.3g}"
        if solved or max(T / float(self.guess), float(self.guess) / T) < FAR:
            return found
        bound, where = ("upper", "growing") if float(self.guess) < T else ("lower", "falling")
        return f"{found}; it keeps {where}: give T=Free(…, {bound}=…), or a cost of time"


class Refinement(Described, eqx.Module):
    """The meshes of a refinement, and the limit of the cost.

    J = (4J_h - J_{2h})/3 + O(h⁴): the limit of a cost of order 2, from solutions on meshes each of which halves the
    steps of the one before.

    Attributes:
        tolerance: the tolerance that was asked for, relative to ∫|C|dt.
        size: Σ h|C|, ∫|C|dt of the finest mesh.
        steps: (meshes,) the numbers of steps of all meshes that were solved.
        costs: (meshes,) their costs.
        cost: the extrapolated cost.
        error: the estimated error of the extrapolated cost: from the measured order of the extrapolated costs, with a
            safety factor of three; if that order cannot be measured, from the change against the extrapolation with one
            mesh fewer. Infinite if too few meshes were solved.
        order: measured order of the costs, from the three finest meshes; NaN if rounding or a change of sign hides it.
        limit_order: measured order of the extrapolated costs, from the four finest meshes; 4 for a smooth problem. NaN
            as above, or if the fourth mesh was not solved.

    Example:
        >>> refined = da.refine(move, plan, initial=([0.0], [0.0]), final=([1.0], [0.0]), tolerance=1e-5)
        >>> refined.refinement.reached, round(float(refined.refinement.cost), 4)
        (True, 12.0)
    """

    tolerance: Float[np.ndarray, ""]
    size: Float[np.ndarray, ""]
    steps: Int[np.ndarray, "meshes"]
    costs: Float[np.ndarray, "meshes"]
    cost: Float[np.ndarray, ""]
    error: Float[np.ndarray, ""]
    order: Float[np.ndarray, ""] = eqx.field(default_factory=lambda: np.asarray(np.nan))
    limit_order: Float[np.ndarray, ""] = eqx.field(default_factory=lambda: np.asarray(np.nan))

    @property
    def reached(self) -> bool:
        """True if the estimated error is within the tolerance."""
        return bool(self.error <= self.tolerance * self.size)

    def describe(self) -> str:
        """The result in one line."""
        asked = float(self.tolerance * self.size)
        end = "" if self.reached else f"; not the {asked:.1e} asked for: allow more steps"
        orders = f"order {self.order:.2f} measured" if np.isfinite(self.order) else "no order could be measured"
        limit = (
            f", {self.limit_order:.2f} of the extrapolated costs"
            if np.isfinite(self.limit_order)
            else ", none of the extrapolated costs"
        )
        told = f"{orders}{limit if np.isfinite(self.order) else ''}"
        return f"limit of small steps {float(self.cost):.12g}, estimated error {float(self.error):.1e} ({told}){end}"


ITERATIONS = {"dalembert": "Newton iterations", "ipopt": "iterations of IPOPT"}


class CriticalPoint(Described, Later):
    """δ(Σ L̃_d) = 0: what every boundary problem returns; base of Solution and ControlSolution. solution["x"] is q of a
    coordinate by its name.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        v: (N+1, n) velocities at t.
        negative_directions: see Solution.
        flat_directions: see Solution.
        code: the Outcome as an integer.
        statistics: what Newton's method did.
        scheme: how the problem was discretized.
        bounds: see Solution.
        final_time: see Solution.
        method: see Solution.
        coordinates: the names of q, () where there are none.
        end_multipliers_initial: see Solution.
        end_multipliers_final: see Solution.
        subject: see Solution.
    """

    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    v: Float[np.ndarray, "nodes n"]
    negative_directions: Int[np.ndarray, ""]
    flat_directions: Int[np.ndarray, ""]
    code: Int[np.ndarray, ""]
    statistics: BoundaryStatistics
    scheme: str = eqx.field(static=True)
    bounds: dict[str, ActiveBounds]
    final_time: FinalTime | None
    method: str = eqx.field(static=True)
    coordinates: tuple[str, ...] = eqx.field(static=True)
    end_multipliers_initial: Float[np.ndarray, "m"] | None = eqx.field(default=None, kw_only=True)
    end_multipliers_final: Float[np.ndarray, "m"] | None = eqx.field(default=None, kw_only=True)
    subject: Any = eqx.field(static=True, default=None, kw_only=True)
    messages: ClassVar[dict[Outcome, str]] = SOLVED
    discretized: ClassVar[str] = "windows"

    @property
    @abc.abstractmethod
    def value(self) -> tuple[str, float]:
        """The name of the extremal quantity, and its value."""

    @property
    def outcome(self) -> Outcome:
        return Outcome(int(self.code))

    @property
    def message(self) -> str:
        """The cause of the outcome of a problem of this kind, and a remedy: `outcome.message` is that of a run."""
        return self.messages.get(self.outcome, self.outcome.message)

    @property
    def kind(self) -> str:
        """The kind of critical point, as counted by the inertia of the KKT matrix."""
        if self.outcome not in (Outcome.SUCCESS, Outcome.SADDLE):
            other = {Outcome.INFEASIBLE: "least violation", Outcome.ALTERNATING: "multipliers not resolved",
                     Outcome.INTERRUPTED: "interrupted"}  # fmt: skip
            return other.get(self.outcome, "not a critical point")
        negative, flat = int(self.negative_directions), int(self.flat_directions)
        if negative < 0:
            return "not certified"
        if negative:
            return f"saddle, {negative} negative direction{'s' if negative > 1 else ''}"
        return "degenerate" if flat else "minimum"

    def __getitem__(self, name: str) -> Any:
        """q of the coordinate with this name, at t; of a group its matrices R (N+1, 3, 3) or pairs (R, x)."""
        space = groups_of(self.coordinates)
        if space is None or name in self.coordinates:
            return self.q[:, place_of(name, self.coordinates, "solution")]
        return space.elements(name, self.q)

    def to_xarray(self) -> xarray.Dataset:
        """The solution as a labelled data set, as of `dalembert.to_xarray`: solution.to_xarray().q.sel(coordinate="x")."""
        return front_door("store.to_xarray")(self)

    def __repr__(self) -> str:
        name, value = self.value
        return (
            f"{type(self).__name__}(q={self.q.shape}, {name}={value:.10g}, kind={self.kind!r}, outcome={self.outcome.name})"
        )

    def describe(self) -> str:
        """One paragraph for a person."""
        s, (name, value) = self.statistics, self.value
        return "\n".join([
            f"{len(self.t) - 1} steps from t = {float(self.t[0]):g} to t = {float(self.t[-1]):g}, "
            f"{self.discretized}: {self.scheme}",
            f"outcome: {self.outcome.name.lower().replace('_', ' ')}: {self.message}",
            f"{name} {value:.12g}, {self.kind}",
            *([self.final_time.describe(float(self.t[-1]), self.outcome is Outcome.SUCCESS)] if self.final_time else []),
            f"{int(s.iterations)} {ITERATIONS.get(self.method, 'iterations')}, {int(s.factorizations)} factorizations, "
            f"{int(s.restorations)} restorations; last update {float(s.update):.2e}, "
            f"scaled residual {float(s.residual):.2e}, violation {float(s.violation):.2e}, "
            f"condition {float(s.condition):.1e}",
            *([f"multipliers alternate from node to node, by {float(s.alternation):.1e} of their size"
               + ": rounding error, no correct digits" * (self.outcome is Outcome.SUCCESS)] if s.alternation > 0.0 else []),
            *([f"violated most at t = {float(s.violated_at):.6g}"] if np.isfinite(s.violated_at) else []),
            *(f"bounds on {x}: {np.count_nonzero(b.active)} active, strictly complementary by {float(b.margin):.1e}"
              for x, b in self.bounds.items()),
        ])  # fmt: skip

    def switches(self, name: str) -> list[Float[np.ndarray, "switches"]]:
        """For every component of what `bounds` has, such as "u", the times at which it comes to a bound or leaves it."""
        if name not in self.bounds:
            known = ", ".join(map(repr, self.bounds)) or "nothing"
            raise KeyError(f"name: found {name!r}; the solution has bounds on {known}")
        return self.bounds[name].switches()

    def interpolate(self, t: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... n"]:
        """q at times between nodes, by the cubic Hermite polynomials of q and v; ValueError for times outside."""
        times = as_numbers(t, "t")
        nodes, q, v = (np.asarray(x) for x in (self.t, self.q, self.v))
        space = groups_of(self.coordinates)
        v = v if space is None else space.rates(q, v)
        slack = 1e-12 * (nodes[-1] - nodes[0])
        if times.size and not (times.min() >= nodes[0] - slack and times.max() <= nodes[-1] + slack):
            raise ValueError(
                f"t: found times in [{times.min():g}, {times.max():g}]; the solution has [{nodes[0]:g}, {nodes[-1]:g}]"
            )
        k = np.clip(np.searchsorted(nodes, times, side="right") - 1, 0, len(nodes) - 2)
        width = (nodes[k + 1] - nodes[k])[..., None]
        s = (times[..., None] - nodes[k][..., None]) / width
        jump, d0, d1 = q[k + 1] - q[k], v[k] * width, v[k + 1] * width
        found = q[k] + s * (d0 + s * (3 * jump - 2 * d0 - d1 + s * (d0 + d1 - 2 * jump)))
        return found if space is None else space.nearest(found)


class Solution(CriticalPoint):
    """The result of a boundary problem: a path between given ends, with multipliers, action and outcome.

    δ(Σ L_d + λᵀΦ_d) = 0: an extremal of a discrete variational problem between given ends.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        v: (N+1, n) velocities at t.
        t_multipliers: times of the windows.
        jets: (q, q̇, …, q⁽ᵏ⁾) of the windows, at t_multipliers.
        multipliers: λ of the differential constraints, at t_multipliers.
        holonomic_multipliers: μ at the nodes, 0 where a position is given. λ and μ are those of L + λᵀφ +
            μᵀφ_holonomic: for small steps they tend to functions of time.
        momenta_initial: (k, n) the Ostrogradsky momenta p⁽ʲ⁾ conjugate to q⁽ʲ⁾ at the first node, by the discrete
            Legendre map; None if nodes are given there.
        momenta_final: (k, n) the same at the last node.
        action: Σ L_d.
        negative_directions: the number of independent variations that satisfy the linearised constraints and lower the
            action (0 at a minimum), -1 where it was not counted.
        flat_directions: the number of those that change it to third order only.
        code: the Outcome as an integer.
        statistics: what Newton's method did.
        scheme: name of the window map.
        bounds: {"q": ActiveBounds, "v": …, "inequalities": …}, for the quantities that have bounds.
        final_time: a FinalTime if the last time was free, otherwise None.
        method: the solver that found it, "dalembert" or "ipopt".
        coordinates: the names of q; () if there are none.
        end_multipliers_initial: (m,) ν of ψ(q, q̇, …) = 0 if the first end is on a set, `initial=On(psi)`: the momenta
            are -Dψᵀν, and if the set is moved to ψ = c the action changes by ν·dc. None otherwise.
        end_multipliers_final: the same at the last node, where the momenta are Dψᵀν.
        subject: the problem that was solved, for pictures; kept in the process that solved it. A loaded solution has
            its drawing instead.

    Example:
        >>> solution.kind, round(float(solution.q[5, 0]), 9)
        ('minimum', 0.5)
    """

    t_multipliers: Float[np.ndarray, "windows"]
    jets: Float[np.ndarray, "windows k+1 n"]
    multipliers: Float[np.ndarray, "windows m"]
    holonomic_multipliers: Float[np.ndarray, "nodes mh"]
    momenta_initial: Float[np.ndarray, "k n"] | None
    momenta_final: Float[np.ndarray, "k n"] | None
    action: Float[np.ndarray, ""]

    @property
    def value(self) -> tuple[str, float]:
        return "action", float(self.action)


class ControlSolution(CriticalPoint):
    """The result of an optimal control problem: motion, controls, cost and outcome.

    δ(Σ h C + λᵀ(equations of motion) + ηᵀφ) = 0: an extremal of a discrete optimal control problem.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        v: (N+1, n) velocities at t: at the ends those that are given or found, between them (q_{i+1}-q_{i-1})/2h.
        u: (N+1, r) controls at t.
        multipliers: (N+1, m) ν of the plant's constraints in the discrete equations at t, in the order of the constraints.
        constraint_forces: (N+1, n) Rᵀν at t, of order 2; at the ends, where the discrete ν has order 1, extrapolated
            from the interior nodes.
        adjoints: (N+1, n) λ at t: an impulse dp at a node changes the optimal cost by λ·dp.
        step_multipliers: (N, m) η of the constraints of each step.
        costates_initial: (2, n) the gradient of the optimal cost with respect to q and v at the first node; 0 for
            components that are free. With holonomic constraints it is the gradient along them.
        costates_final: (2, n) the same at the last node.
        cost: Σ h C, with the velocities of the steps, plus the terminal cost.
        negative_directions: the number of independent variations that satisfy the linearised equations and lower the cost (0
            at a minimum), -1 where it was not counted.
        flat_directions: the number of those that change it to third order only.
        code: the Outcome as an integer.
        statistics: what Newton's method did.
        scheme: the maps of the discrete Lagrangian.
        bounds: {"u": ActiveBounds, "q": …, "v": …, "inequalities": …}, for the quantities that have bounds.
        final_time: a FinalTime if the last time was free, otherwise None.
        method: the solver that found it, "dalembert" or "ipopt".
        coordinates: the names of q; () if there are none.
        subject: the problem that was solved, for pictures; kept in the process that solved it. A loaded solution has
            its drawing instead.
        refinement: the extrapolated cost with its estimated error, for a solution returned by `refine`; otherwise None.
        end_multipliers_initial: (m,) ν of ψ(q, v) = 0 if the first end is on a set, `initial=On(psi)`: the costates are
            Dψᵀν, and if the set is moved to ψ = c the cost changes by ν·dc. None otherwise.
        end_multipliers_final: the same at the last node.
        remark: the cause of the outcome or the way to it, where more is known than the message says; otherwise "", as in a
            loaded solution.

    Example:
        >>> swing_up.kind, swing_up.u.shape
        ('minimum', (41, 1))
    """

    u: Float[np.ndarray, "nodes r"]
    multipliers: Float[np.ndarray, "nodes m"]
    constraint_forces: Float[np.ndarray, "nodes n"]
    adjoints: Float[np.ndarray, "nodes n"]
    step_multipliers: Float[np.ndarray, "steps m"]
    costates_initial: Float[np.ndarray, "2 n"]
    costates_final: Float[np.ndarray, "2 n"]
    cost: Float[np.ndarray, ""]
    refinement: Refinement | None = None
    remark: str = eqx.field(static=True, default="")

    messages: ClassVar[dict[Outcome, str]] = CONTROLLED
    discretized: ClassVar[str] = "action"

    @property
    def value(self) -> tuple[str, float]:
        return "cost", float(self.cost)

    def describe(self) -> str:
        """The solution in one paragraph."""
        return "\n".join([super().describe(), *filter(None, [self.remark, self.refinement and self.refinement.describe()])])


class SolveError(RuntimeError):
    """A boundary problem could not be solved.

    δ(Σ L_d + λᵀΦ_d) = 0 was not solved: the solution of a boundary problem failed.

    Attributes:
        solution: a Solution with the last path, or the path of least violation.

    Example:
        >>> crooked = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + jnp.cosh(q[0]), derivatives=2)
        >>> ends, once = {"initial": ([0.0], [0.0]), "final": ([3.0], [0.0])}, da.Solver(max_iterations=1)
        >>> try:
        ...     da.solve(crooked, **ends, T=1.0, steps=10, solver=once)
        ... except da.SolveError as error:
        ...     error.solution.outcome.name
        'NOT_CONVERGED'
    """

    def __init__(self, solution: CriticalPoint):
        super().__init__(solution)

    @property
    def solution(self) -> CriticalPoint:
        return self.args[0]

    def __str__(self) -> str:
        return self.solution.describe()
