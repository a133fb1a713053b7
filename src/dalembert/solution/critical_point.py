"""CriticalPoint: what solutions of boundary problems have in common. Arrays and plain text only."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from dalembert.lazy import front_door
from dalembert.notebook import Described
from dalembert.numbers import as_numbers, place_of
from dalembert.outcome import SOLVED, Outcome
from dalembert.solution.bounds import ActiveBounds
from dalembert.solution.final_time import FinalTime
from dalembert.solution.statistics import BoundaryStatistics

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    import xarray

ITERATIONS = {"dalembert": "Newton iterations", "ipopt": "iterations of IPOPT"}


class CriticalPoint(Described, eqx.Module):
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
    coordinates: eqx.AbstractVar[tuple[str, ...]]
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
    def kind(self) -> str:
        """The kind of critical point, as counted by the inertia of the KKT matrix."""
        if self.outcome is not Outcome.SUCCESS:
            other = {Outcome.INFEASIBLE: "least violation", Outcome.ALTERNATING: "multipliers not resolved",
                     Outcome.INTERRUPTED: "interrupted"}  # fmt: skip
            return other.get(self.outcome, "not a critical point")
        negative, flat = int(self.negative_directions), int(self.flat_directions)
        if negative < 0:
            return "not certified"
        if negative:
            return f"saddle, {negative} negative direction{'s' if negative > 1 else ''}"
        return "degenerate" if flat else "minimum"

    def __getitem__(self, name: str) -> Float[np.ndarray, "nodes"]:
        """q of the coordinate with this name, at t."""
        return self.q[:, place_of(name, self.coordinates, "solution")]

    def to_xarray(self) -> xarray.Dataset:
        """The solution as a labelled data set, as of `dalembert.to_xarray`: solution.to_xarray().q.sel(coordinate="x")."""
        return front_door("to_xarray")(self)

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
        slack = 1e-12 * (nodes[-1] - nodes[0])
        if times.size and not (times.min() >= nodes[0] - slack and times.max() <= nodes[-1] + slack):
            raise ValueError(
                f"t: found times in [{times.min():g}, {times.max():g}]; the solution has [{nodes[0]:g}, {nodes[-1]:g}]"
            )
        k = np.clip(np.searchsorted(nodes, times, side="right") - 1, 0, len(nodes) - 2)
        width = (nodes[k + 1] - nodes[k])[..., None]
        s = (times[..., None] - nodes[k][..., None]) / width
        jump, d0, d1 = q[k + 1] - q[k], v[k] * width, v[k + 1] * width
        return q[k] + s * (d0 + s * (3 * jump - 2 * d0 - d1 + s * (d0 + d1 - 2 * jump)))
