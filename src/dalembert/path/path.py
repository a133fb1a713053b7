"""Path: what a run returns. Arrays and plain text only; nothing here knows mechanics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from dalembert.lazy import Lazy, as_left, front_door
from dalembert.notebook import Described
from dalembert.numbers import as_array, described, place_of, whole_number
from dalembert.outcome import Outcome
from dalembert.path.provenance import Provenance
from dalembert.path.statistics import Statistics

if TYPE_CHECKING:
    import xarray


class Path(Described, Lazy):
    """d/dt L_v - L_q = f + Rᵀλ, solved step by step: a discrete trajectory. Each variable has its own times.

    path["x"] is one coordinate of q over time, by its name. The batch of paths that an ensemble or vmap returns has a
    length, and path[3] is one of its paths.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        t_velocity: times of the velocities.
        v: velocities at t_velocity.
        t_multipliers: times of the multipliers.
        multipliers: λ of d/dt L_v - L_q = f + Rᵀλ, at t_multipliers.
        constraint_forces: Rᵀλ, at t_multipliers.
        h: the step; the first one if their length varies.
        steps_done: number of steps that were solved.
        code: the Outcome as an integer.
        statistics: counts and residuals of the solver, a Statistics.
        t_feedback: times of a sampled law.
        feedback: the generalised forces of a sampled law, held from t_feedback on.
        reduced: the final value of reduce=.
        levels: where the velocities and the multipliers are in time: "node" (the times of q), "mid" (half way between
            two nodes) or "interior" (the nodes without the first and the last).
        provenance: a record with everything needed to repeat the run; None if the run was traced.

    Example:
        >>> q, v = path.interpolate([0.05, 0.15])  # between nodes
        >>> q.shape, path.steps
        ((2, 1), 20)
    """

    t: Float[Array, "nodes"]
    q: Float[Array, "nodes n"]
    t_velocity: Float[Array, "velocities"]
    v: Float[Array, "velocities n"]
    t_multipliers: Float[Array, "steps"]
    multipliers: Float[Array, "steps m"]
    constraint_forces: Float[Array, "steps n"]
    h: Float[Array, ""]
    steps_done: Int[Array, ""]
    code: Int[Array, ""]
    statistics: Statistics
    t_feedback: Float[Array, "steps"] | None = None
    feedback: Float[Array, "steps n"] | None = None
    reduced: object = None
    levels: tuple[str, str] = eqx.field(static=True, default=("node", "mid"))
    provenance: Provenance | None = eqx.field(static=True, default=None)

    @property
    def outcome(self) -> Outcome | Array:
        """The Outcome; for a batch, and inside jit, vmap or grad, the integer codes."""
        if isinstance(self.code, Tracer) or np.ndim(self.code):
            return self.code
        return Outcome(int(self.code))

    def __repr__(self) -> str:
        """Short: the arrays are long, and the provenance is text for a file."""
        outcome = self.outcome.name if isinstance(self.outcome, Outcome) else "traced or a batch"
        return f"Path(q={self.q.shape}, multipliers={self.multipliers.shape}, levels={self.levels}, outcome={outcome})"

    @property
    def steps(self) -> int:
        """Number of steps that were solved."""
        return int(self.steps_done)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of q; () if the system has none or the run was traced."""
        return self.provenance.coordinates if self.provenance is not None else ()

    @overload
    def __getitem__(self, key: str) -> Float[Array, "... nodes"]: ...

    @overload
    def __getitem__(self, key: int) -> Path: ...

    def __getitem__(self, key: str | int):
        """q of the coordinate with this name, at t; or the path with this number of a batch."""
        if not isinstance(key, str):
            return self.lane(key)
        return self.q[..., place_of(key, self.coordinates, "path")]

    def __len__(self) -> int:
        """Of a batch the number of its paths."""
        if np.ndim(self.code) != 1:
            raise TypeError(
                "len: this is a single path; len(path.t) is the number of its nodes, path.steps that of its steps"
            )
        return self.code.shape[0]

    def __iter__(self) -> Iterator[Path]:
        return map(self.lane, range(len(self)))

    def __bool__(self) -> bool:
        return True

    def to_xarray(self) -> xarray.Dataset:
        """The path as a labelled data set, as `dalembert.to_xarray` returns it:
        path.to_xarray().q.sel(coordinate="x")."""
        return front_door("to_xarray")(self)

    def lane(self, i: int) -> Path:
        """The i-th path of a batch, up to its last solved step."""
        if np.ndim(self.code) != 1:
            raise ValueError("lane: this is a single path; lanes belong to the path of an ensemble or of vmap")
        size = self.code.shape[0]
        whole_number(i, "i", -size, size - 1)  # beyond the last one JAX would take the last one
        row = lambda x: x[i] if isinstance(x, Tracer) else np.array(np.asarray(x)[i])  # noqa: E731  XLA compiles x[i]
        one = jax.tree.map(row, self)
        changes = {}
        for time, values in (("t", ("q",)), ("t_velocity", ("v",)), ("t_multipliers", ("multipliers", "constraint_forces")),
                             ("t_feedback", ("feedback",))):  # fmt: skip
            if (times := getattr(one, time)) is not None:
                end = 1 + int(np.count_nonzero(np.diff(np.asarray(times)))) if len(times) else 0
                changes |= {name: as_left(one, name)[:end] for name in (time, *values)}
        if int(one.steps_done) == 0:  # the rows of a run without any step repeat its beginning
            empty = ("t_multipliers", "multipliers", "constraint_forces", "t_feedback", "feedback")
            changes |= {name: changes[name][:0] for name in empty if name in changes}
        return dataclasses.replace(one, **changes)

    def describe(self) -> str:
        """The run in one paragraph: what was run, how it ended, how many iterations the solver took."""
        if np.ndim(self.code):
            codes, numbers = np.unique(np.asarray(self.code), return_counts=True)
            ends = (f"{Outcome(int(c)).name.lower().replace('_', ' ')}: {n}" for c, n in zip(codes, numbers, strict=True))
            return f"{np.size(self.code)} runs of h = {float(np.ravel(self.h)[0]):g}; outcomes: {', '.join(ends)}"
        outcome = Outcome(int(self.code))
        s = self.statistics
        lines = [
            f"{self.steps} steps of h = {self.lengths} from t = {float(self.t[0]):g} to t = {float(self.t[-1]):g}",
            f"outcome: {outcome.name.lower().replace('_', ' ')}: {outcome.message}",
            f"Newton iterations: {int(s.iterations)} in all, at most {int(s.max_iterations)} in a step; "
            f"largest scaled residual {float(s.residual):.2e}; root crossings: {int(s.crossings)}{self._rate()}",
        ]
        if int(s.failed_step) >= 0:
            lines.append(
                f"failed at step {int(s.failed_step)}, t = {float(s.failed_time):g}, "
                f"scaled residual {float(s.failed_residual):.3e}"
            )
        return "\n".join(lines)

    @property
    def lengths(self) -> str:
        """h; if the steps differ in length, the range of the distances between saved nodes."""
        h, apart = abs(float(self.h)), np.abs(np.diff(np.asarray(self.t)))
        parts = apart / h
        slack = 1e-6 + 1e-14 * float(np.max(np.abs(np.asarray(self.t)), initial=0.0)) / h
        if np.max(np.abs(parts - np.round(parts)), initial=0.0) <= slack:
            return f"{float(self.h):g}"
        return f"{apart[:-1].min(initial=apart[0]):g} to {apart.max():g}"

    def _rate(self) -> str:
        time = abs(float(self.h)) * int(self.steps_done)
        return (
            f", {int(self.statistics.crossings) / time:.3g} per unit of time" if self.statistics.crossings and time else ""
        )

    def interpolate(self, t: Float[Array, "..."]) -> tuple[Float[Array, "... n"], Float[Array, "... n"]]:
        """(q, v) at times between nodes: cubic Hermite interpolation of q; v is its derivative.

        If the path has velocities at the nodes, they are used: q is then accurate to order four and v to order three.
        Otherwise velocities are second-order differences of q, and the orders are three and two. Needs three saved
        nodes. The interpolant does not satisfy the constraints between nodes. Times outside the path raise ValueError.
        """
        times = as_array(t, "t")
        if self.t.shape[0] < 3:
            raise ValueError(f"t: the path has {self.t.shape[0]} saved nodes; interpolation needs at least 3")
        if not isinstance(times, Tracer) and not isinstance(self.t, Tracer):
            known, asked = np.asarray(self.t), np.asarray(times)
            low, high = float(known.min()), float(known.max())
            slack = 1e-12 * max(1.0, abs(low), abs(high))
            if asked.size and not (asked.min() >= low - slack and asked.max() <= high + slack):
                raise ValueError(
                    f"t: found times in [{asked.min():g}, {asked.max():g}], outside the path's [{low:g}, {high:g}]"
                )
        return _hermite(self.t, self.q, self.v if self.levels[0] == "node" else None, times)


@jax.jit
def _hermite(t: Float[Array, "nodes"], q, v, times: Float[Array, "..."]):
    """(q, v) at times, from q and v (nodes, n) at t; without v from the slopes of q. One program for its many operations."""
    v = _slopes(t, q) if v is None else v
    clock = jnp.sign(t[-1] - t[0])  # backwards in time the nodes decrease
    k = jnp.clip(jnp.searchsorted(clock * t, clock * times, side="right") - 1, 0, t.shape[0] - 2)
    width = t[k + 1] - t[k]
    s = ((times - t[k]) / width)[..., None]
    q0, q1, d0, d1 = q[k], q[k + 1], v[k] * width[..., None], v[k + 1] * width[..., None]
    jump = q1 - q0
    at = q0 + s * (d0 + s * (3 * jump - 2 * d0 - d1 + s * (d0 + d1 - 2 * jump)))
    return at, (d0 + s * (2 * (3 * jump - 2 * d0 - d1) + 3 * s * (d0 + d1 - 2 * jump))) / width[..., None]


def _slopes(t: Float[Array, "nodes"], q: Float[Array, "nodes n"]) -> Float[Array, "nodes n"]:
    """Derivatives at the nodes of the parabolas through three neighbouring nodes: second order, at both ends too."""
    width = jnp.diff(t)[:, None]
    chord = jnp.diff(q, axis=0) / width
    bend = jnp.diff(chord, axis=0) / (width[:-1] + width[1:])
    inner = chord[:-1] + width[:-1] * bend
    return jnp.concatenate([(chord[0] - width[0] * bend[0])[None], inner, (chord[-1] + width[-1] * bend[-1])[None]])


def check_path(path: object) -> None:
    """TypeError for anything but a Path."""
    if not isinstance(path, Path):
        raise TypeError(f"path: found {described(path)}; give the Path that simulate returned")
