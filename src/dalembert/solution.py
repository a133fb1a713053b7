"""Solution: what a boundary problem returns. Arrays and plain text only; nothing here knows mechanics."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from dalembert.numbers import as_numbers
from dalembert.outcome import CONTROLLED, SOLVED, Outcome
from dalembert.solution_bounds import ActiveBounds
from dalembert.solution_refinement import Refinement
from dalembert.solution_time import FinalTime

ITERATIONS = {"dalembert": "Newton iterations", "ipopt": "iterations of IPOPT"}


class BoundaryStatistics(eqx.Module):
    """What Newton's method on the KKT equations did.

    Attributes:
        iterations: their number.
        factorizations: their number.
        restorations: their number; a restoration reduces the constraints alone.
        update: last change of the path, relative to its size.
        residual: largest component of the node equations, divided by the largest entry of its row.
        violation: Σ h|φ|.
        shift: what was added to the second derivatives in the last step.
        condition: estimate of the 1-norm condition of the equilibrated KKT matrix.
        alternation: the largest part of a multiplier that changes its sign from node to node, relative to the multiplier,
            where it is no part of a smooth function; 0 otherwise. Beside Outcome.SUCCESS it is rounding.
        violated_at: the time where the constraints are violated most, of a path of least violation; NaN of others.

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


class CriticalPoint(eqx.Module):
    """δ(Σ L̃_d) = 0: what every boundary problem returns; base of Solution and ControlSolution.

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
    """

    t: eqx.AbstractVar[Float[np.ndarray, "nodes"]]
    q: eqx.AbstractVar[Float[np.ndarray, "nodes n"]]
    v: eqx.AbstractVar[Float[np.ndarray, "nodes n"]]
    negative_directions: eqx.AbstractVar[Int[np.ndarray, ""]]
    flat_directions: eqx.AbstractVar[Int[np.ndarray, ""]]
    code: eqx.AbstractVar[Int[np.ndarray, ""]]
    statistics: eqx.AbstractVar[BoundaryStatistics]
    scheme: eqx.AbstractVar[str]
    bounds: eqx.AbstractVar[dict[str, ActiveBounds]]
    final_time: eqx.AbstractVar[FinalTime | None]
    method: eqx.AbstractVar[str]
    messages: ClassVar[dict[Outcome, str]] = SOLVED
    discretized: ClassVar[str] = "windows"

    @property
    @abc.abstractmethod
    def value(self) -> tuple[str, float]:
        """What is extremal, by name, and its value."""

    @property
    def outcome(self) -> Outcome:
        return Outcome(int(self.code))

    @property
    def kind(self) -> str:
        """The kind of critical point, as counted by the inertia of the KKT matrix."""
        if self.outcome is not Outcome.SUCCESS:
            other = {Outcome.INFEASIBLE: "least violation", Outcome.ALTERNATING: "multipliers not resolved"}
            return other.get(self.outcome, "not a critical point")
        negative, flat = int(self.negative_directions), int(self.flat_directions)
        if negative < 0:
            return "not certified"
        if negative:
            return f"saddle, {negative} negative direction{'s' if negative > 1 else ''}"
        return "degenerate" if flat else "minimum"

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
            f"outcome: {self.outcome.name.lower().replace('_', ' ')}: "
            f"{self.messages.get(self.outcome, self.outcome.message)}",
            f"{name} {value:.12g}, {self.kind}",
            *([self.final_time.describe(float(self.t[-1]), self.outcome is Outcome.SUCCESS)] if self.final_time else []),
            f"{int(s.iterations)} {ITERATIONS.get(self.method, 'iterations')}, {int(s.factorizations)} factorizations, "
            f"{int(s.restorations)} restorations; last update {float(s.update):.2e}, "
            f"scaled residual {float(s.residual):.2e}, violation {float(s.violation):.2e}, "
            f"condition {float(s.condition):.1e}",
            *([f"multipliers alternate from node to node, by {float(s.alternation):.1e} of their size"
               + ": rounding, they have no digits" * (self.outcome is Outcome.SUCCESS)] if s.alternation > 0.0 else []),
            *([f"violated most at t = {float(s.violated_at):.6g}"] if np.isfinite(s.violated_at) else []),
            *(f"bounds on {x}: {np.count_nonzero(b.active)} active, strictly complementary by {float(b.margin):.1e}"
              for x, b in self.bounds.items()),
        ])  # fmt: skip

    def switches(self, name: str) -> list[Float[np.ndarray, "switches"]]:
        """For every component of what `bounds` has, such as "u", the times at which it comes to a bound or leaves it."""
        return self.bounds[name].switches()

    def interpolate(self, t: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... n"]:
        """q at times between nodes, by the cubic Hermite polynomials of q and v; ValueError for times outside."""
        times = as_numbers(t, "t")
        nodes, q, v = (np.asarray(x) for x in (self.t, self.q, self.v))
        slack = 1e-12 * (nodes[-1] - nodes[0])
        if times.size and not (times.min() >= nodes[0] - slack and times.max() <= nodes[-1] + slack):
            raise ValueError(f"t: found times in [{times.min():g}, {times.max():g}], outside [{nodes[0]:g}, {nodes[-1]:g}]")
        k = np.clip(np.searchsorted(nodes, times, side="right") - 1, 0, len(nodes) - 2)
        width = (nodes[k + 1] - nodes[k])[..., None]
        s = (times[..., None] - nodes[k][..., None]) / width
        jump, d0, d1 = q[k + 1] - q[k], v[k] * width, v[k + 1] * width
        return q[k] + s * (d0 + s * (3 * jump - 2 * d0 - d1 + s * (d0 + d1 - 2 * jump)))


class Solution(CriticalPoint):
    """δ(Σ L_d + λᵀΦ_d) = 0: an extremal of a discrete variational problem between given ends.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        v: (N+1, n) velocities at t.
        t_multipliers: times of the windows.
        jets: (q, q̇, …, q⁽ᵏ⁾) as the windows see them, at t_multipliers.
        multipliers: λ of the differential constraints, at t_multipliers.
        holonomic_multipliers: μ at the nodes, 0 where a position is given; λ and μ are those of L + λᵀφ + μᵀφ_holonomic, so
            that they tend to functions of time.
        momenta_initial: (k, n) the Ostrogradsky momenta p⁽ʲ⁾ conjugate to q⁽ʲ⁾ at the first node, by the discrete Legendre
            map; None where nodes are given.
        momenta_final: (k, n) the same at the last node.
        action: Σ L_d.
        negative_directions: the number of independent variations that satisfy the linearised constraints and lower the
            action (0 at a minimum), -1 where it was not counted.
        flat_directions: the number of those that change it to third order only.
        code: the Outcome as an integer.
        statistics: what Newton's method did.
        scheme: name of the windows.
        bounds: {"q": ActiveBounds, "v": …, "inequalities": …}, of what has bounds.
        final_time: how the last time was found where it is free, otherwise None.
        method: what found it, "dalembert" or "ipopt".

    Example:
        >>> solution.kind, round(float(solution.q[5, 0]), 9)
        ('minimum', 0.5)
    """

    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    v: Float[np.ndarray, "nodes n"]
    t_multipliers: Float[np.ndarray, "windows"]
    jets: Float[np.ndarray, "windows k+1 n"]
    multipliers: Float[np.ndarray, "windows m"]
    holonomic_multipliers: Float[np.ndarray, "nodes mh"]
    momenta_initial: Float[np.ndarray, "k n"] | None
    momenta_final: Float[np.ndarray, "k n"] | None
    action: Float[np.ndarray, ""]
    negative_directions: Int[np.ndarray, ""]
    flat_directions: Int[np.ndarray, ""]
    code: Int[np.ndarray, ""]
    statistics: BoundaryStatistics
    scheme: str = eqx.field(static=True)
    bounds: dict[str, ActiveBounds]
    final_time: FinalTime | None
    method: str = eqx.field(static=True)

    @property
    def value(self) -> tuple[str, float]:
        return "action", float(self.action)


class ControlSolution(CriticalPoint):
    """δ(Σ h C + λᵀ(equations of motion) + ηᵀφ) = 0: an extremal of a discrete optimal control problem.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        v: (N+1, n) velocities at t: the given or found ones at the ends, (q_{i+1}-q_{i-1})/2h between.
        u: (N+1, r) controls at t.
        multipliers: (N+1, m) ν of the plant's constraints in the discrete equations at t, in the order of the constraints.
        constraint_forces: (N+1, n) Rᵀν at t, of order 2; at the ends, where the discrete ν has order 1, continued from
            inside.
        adjoints: (N+1, n) λ at t: an impulse dp at a node changes the optimal cost by λ·dp.
        step_multipliers: (N, m) η of the constraints of each step.
        costates_initial: (2, n) the gradient of the optimal cost with respect to q and v at the first node, 0 where they are
            free; where a holonomic constraint holds, along it.
        costates_final: (2, n) the same at the last node.
        cost: Σ h C, with the velocities of the steps, and the terminal cost.
        negative_directions: the number of independent variations that satisfy the linearised equations and lower the cost (0
            at a minimum), -1 where it was not counted.
        flat_directions: the number of those that change it to third order only.
        code: the Outcome as an integer.
        statistics: what Newton's method did.
        scheme: the maps of the discrete Lagrangian.
        bounds: {"u": ActiveBounds, "q": …, "v": …, "inequalities": …}, of what has bounds.
        final_time: how the last time was found where it is free, otherwise None.
        method: see Solution.
        refinement: the limit of small steps of the cost with its error, of a solution of `refine`, otherwise None.
        end_multipliers_initial: (m,) ν of ψ(q, v) = 0 where the first end is on a set, `initial=On(psi)`: the costates are
            Dψᵀν, and the cost of the ends ψ = c changes by ν·dc; None otherwise.
        end_multipliers_final: the same at the last node.

    Example:
        >>> swing_up.kind, swing_up.u.shape
        ('minimum', (41, 1))
    """

    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    v: Float[np.ndarray, "nodes n"]
    u: Float[np.ndarray, "nodes r"]
    multipliers: Float[np.ndarray, "nodes m"]
    constraint_forces: Float[np.ndarray, "nodes n"]
    adjoints: Float[np.ndarray, "nodes n"]
    step_multipliers: Float[np.ndarray, "steps m"]
    costates_initial: Float[np.ndarray, "2 n"]
    costates_final: Float[np.ndarray, "2 n"]
    cost: Float[np.ndarray, ""]
    negative_directions: Int[np.ndarray, ""]
    flat_directions: Int[np.ndarray, ""]
    code: Int[np.ndarray, ""]
    statistics: BoundaryStatistics
    scheme: str = eqx.field(static=True)
    bounds: dict[str, ActiveBounds]
    final_time: FinalTime | None
    method: str = eqx.field(static=True)
    refinement: Refinement | None = None
    end_multipliers_initial: Float[np.ndarray, "m"] | None = None
    end_multipliers_final: Float[np.ndarray, "m"] | None = None

    messages: ClassVar[dict[Outcome, str]] = CONTROLLED
    discretized: ClassVar[str] = "action"

    @property
    def value(self) -> tuple[str, float]:
        return "cost", float(self.cost)

    def describe(self) -> str:
        """One paragraph for a person."""
        return "\n".join([super().describe(), *([self.refinement.describe()] if self.refinement else [])])


class SolveError(RuntimeError):
    """δ(Σ L_d + λᵀΦ_d) = 0 was not solved: a boundary problem failed.

    Attributes:
        solution: the last path, or the one of least violation, a Solution.

    Example:
        >>> crooked = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + jnp.cosh(q[0]), derivatives=2)
        >>> try:
        ...     da.solve(crooked, initial=([0.0], [0.0]), final=([3.0], [0.0]), T=1.0, steps=10, max_iterations=1)
        ... except da.SolveError as error:
        ...     error.solution.outcome.name
        'NOT_CONVERGED'
    """

    def __init__(self, solution: CriticalPoint):
        self.solution = solution
        super().__init__(solution.describe())

    def __reduce__(self):
        """From a process of a pool: pickle would call SolveError with the message alone."""
        return type(self), (self.solution,), vars(self)
