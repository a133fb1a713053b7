"""Path: what a run returns. Arrays and plain text only; nothing here knows mechanics."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from dalembert.lazy import Later, front_door, groups_of, on_host
from dalembert.notebook import Described
from dalembert.numbers import as_array, check_class, place_of, whole_number
from dalembert.outcome import Outcome

if TYPE_CHECKING:
    import xarray


class StepError(RuntimeError):
    """A step of a run could not be solved.

    F(z) = 0 was not solved: a step of a run failed.

    Attributes:
        path: the Path up to the failed step.

    Example:
        >>> try:
        ...     da.simulate(pendulum, [1.0], [0.0], h=5.0, steps=20)  # too long a step
        ... except da.StepError as error:
        ...     error.path.outcome.name
        'NO_SOLUTION'
    """

    def __init__(self, path: Path):
        super().__init__(path)

    @property
    def path(self) -> Path:
        return self.args[0]

    def __str__(self) -> str:
        return self.path.describe()


class Statistics(Described, Later):
    """Counts and residuals of the solver over the whole run, including steps that were not saved.

    Attributes:
        iterations: total number of Newton iterations.
        max_iterations: largest number of Newton iterations in one step.
        residual: largest residual over all steps, each at the last evaluation in that step, with scaled rows; in the
            native run, of those equations that are iterated.
        crossings: number of times that two roots of a step crossed: the factor u, or, under a rule that chooses among
            roots, the Jacobian determinant, changed sign.
        turns: number of steps in which the velocity turned by more than a right angle; an oscillation of one coordinate
            has two per period.
        leaps: number of steps over which the determinant of the equations changed in size by more than a factor of
            three; -1 if not counted. For steps that vary in length: number of steps at whose end, or in whose middle, their
            density was off the wanted one by a quarter.
        failed_step: index of the step that could not be solved; -1 if there is none.
        failed_time: the time of that step; nan if there is none.
        failed_residual: the residual of that step; nan if there is none.

    Example:
        >>> int(path.statistics.failed_step)
        -1
    """

    iterations: Int[np.ndarray, ""]
    max_iterations: Int[np.ndarray, ""]
    residual: Float[np.ndarray, ""]
    crossings: Int[np.ndarray, ""]
    turns: Int[np.ndarray, ""]
    leaps: Int[np.ndarray, ""]
    failed_step: Int[np.ndarray, ""]
    failed_time: Float[np.ndarray, ""]
    failed_residual: Float[np.ndarray, ""]


@dataclasses.dataclass(frozen=True)
class Provenance(Described):
    """The record of a run, with everything needed to repeat it: plain text, so that it can be stored. A traced run has
    none.

    Attributes:
        system: the functions of the system, by module and name.
        source: source text of these functions.
        source_hash: SHA-256 of the source text, which `matches` compares.
        parameters: names and values, as JSON.
        coordinates: the names of q; () if there are none.
        scheme: maps and form of the Scheme; "" for a DiscreteSystem.
        starter: the starter of a two-step form.
        branch: the rule that chooses among roots; "" if there is none.
        run: the other arguments of the call, as JSON.
        versions: versions of Python, dalembert and the packages that it computes with, as JSON.

    Example:
        >>> type(path.provenance.source_hash)
        <class 'str'>
    """

    system: str
    source: str
    source_hash: str
    parameters: str
    coordinates: tuple[str, ...]
    scheme: str
    starter: str
    branch: str
    run: str
    versions: str

    @classmethod
    def later(cls, texts: Callable[[], dict[str, Any]], subject: Any = None) -> Provenance:
        """A record whose text is written when it is first read. texts: returns the fields, from values of the call;
        subject: see `subject`."""
        record = object.__new__(cls)
        object.__setattr__(record, "_texts", texts)
        object.__setattr__(record, "_subject", subject)
        return record

    @property
    def subject(self) -> Any:
        """The system that was run, for pictures: a `drawing.Depicted`, or None. It exists only in the process that ran
        it; it is never stored, and not compared."""
        return self.__dict__.get("_subject")

    def of(self, subject: Any) -> Provenance:
        """The same record with this subject."""
        record = type(self)(*(getattr(self, field.name) for field in dataclasses.fields(self)))
        object.__setattr__(record, "_subject", subject)
        return record

    def __getattr__(self, name: str) -> Any:
        texts = self.__dict__.get("_texts")
        if name in self.__dataclass_fields__ and texts is not None:
            self.__dict__.update(texts())
            self.__dict__.pop("_texts", None)
        if name in self.__dict__:  # now, or by another thread
            return self.__dict__[name]
        raise AttributeError(f"a Provenance has no attribute {name}")

    def __reduce__(self):
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))


MOST = 11  # order, of six nodes
SHORT = 0.2  # of the step before: a last step that is shorter leaves its polynomial no digits, and is not taken into it


def nodes_for(order: int) -> int:
    """2m nodes give q the order 4m and v the order 4m - 1: the fewest for both."""
    return 2 * -(-(order + 1) // 4)


@jax.jit
def two_nodes(t: Float[Array, "nodes"], q, v, times: Float[Array, "..."]):
    """(q, v) at times, from q and v (nodes, n) at t; without v from the slopes of q. One program for its many operations."""
    v = _slopes(t, q) if v is None else v
    k = _cells(t, times)
    width = t[k + 1] - t[k]
    s = ((times - t[k]) / width)[..., None]
    q0, q1, d0, d1 = q[k], q[k + 1], v[k] * width[..., None], v[k + 1] * width[..., None]
    jump = q1 - q0
    at = q0 + s * (d0 + s * (3 * jump - 2 * d0 - d1 + s * (d0 + d1 - 2 * jump)))
    return at, (d0 + s * (2 * (3 * jump - 2 * d0 - d1) + 3 * s * (d0 + d1 - 2 * jump))) / width[..., None]


@functools.partial(jax.jit, static_argnames="number")
def several_nodes(t: Float[Array, "nodes"], q, v, times: Float[Array, "..."], number: int):
    """(q, v) at times, by the polynomials through q and v at so many nodes around each; near the ends through the last ones.

    p(t) = q_k + Σ_j l_j² ((1 - 2 (t - t_j) l_j′(t_j)) (q_j - q_k) + (t - t_j) v_j), l_j of Lagrange, and its derivative.
    """
    widths, count = jnp.abs(jnp.diff(t)), t.shape[0]
    last = jnp.where(widths[-1] < SHORT * widths[-2], count - 1, count) if count > number else count
    k = _cells(t, times)
    first = jnp.clip(k - (number // 2 - 1), 0, last - number)
    others = jnp.array([[i for i in range(number) if i != j] for j in range(number)])

    def interpolate_at(time, k, first):
        at = first + jnp.arange(number)
        x, jumps, slopes = t[at] - t[k], q[at] - q[k], v[at]
        apart = x[:, None] - x[others]

        def polynomial(time):
            base = jnp.prod((time - x[others]) / apart, axis=1) ** 2
            ahead = time - x
            return (base * (1.0 - 2.0 * ahead * jnp.sum(1.0 / apart, axis=1))) @ jumps + (base * ahead) @ slopes

        found, rate = jax.jvp(polynomial, (time - t[k],), (jnp.ones_like(time),))
        return q[k] + found, rate

    at, rate = jax.vmap(interpolate_at)(*map(jnp.ravel, (times, k, first)))
    end = (jnp.ravel(times) == t[-1])[:, None]
    shape = (*times.shape, q.shape[1])
    return jnp.where(end, q[-1], at).reshape(shape), jnp.where(end, v[-1], rate).reshape(shape)


def _cells(t: Float[Array, "nodes"], times):
    """The number of the node before each time; backwards in time the nodes decrease."""
    clock = jnp.sign(t[-1] - t[0])
    return jnp.clip(jnp.searchsorted(clock * t, clock * times, side="right") - 1, 0, t.shape[0] - 2)


def _slopes(t: Float[Array, "nodes"], q: Float[Array, "nodes n"]) -> Float[Array, "nodes n"]:
    """Derivatives at the nodes of the parabolas through three neighbouring nodes: second order, at both ends too."""
    width = jnp.diff(t)[:, None]
    chord = jnp.diff(q, axis=0) / width
    bend = jnp.diff(chord, axis=0) / (width[:-1] + width[1:])
    inner = chord[:-1] + width[:-1] * bend
    return jnp.concatenate([(chord[0] - width[0] * bend[0])[None], inner, (chord[-1] + width[-1] * bend[-1])[None]])


class Path(Described, Later):
    """The result of a run: times, positions, velocities, multipliers and forces, with outcome and record.

    d/dt L_v - L_q = f + Rᵀλ, solved step by step: a discrete trajectory. Each variable has its own times.

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
        h_last: the last step to all its digits, which `t` does not have, if the steps vary in length; else None.
        levels: where the velocities and the multipliers are in time: "node" (the times of q), "mid" (half way between
            two nodes) or "interior" (the nodes without the first and the last).
        provenance: a record with everything needed to repeat the run; None if the run was traced.

    Example:
        >>> q, v = path.interpolate([0.05, 0.15])  # between nodes
        >>> q.shape, path.steps
        ((2, 1), 20)
    """

    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    t_velocity: Float[np.ndarray, "velocities"]
    v: Float[np.ndarray, "velocities n"]
    t_multipliers: Float[np.ndarray, "steps"]
    multipliers: Float[np.ndarray, "steps m"]
    constraint_forces: Float[np.ndarray, "steps n"]
    h: Float[np.ndarray, ""]
    steps_done: Int[np.ndarray, ""]
    code: Int[np.ndarray, ""]
    statistics: Statistics
    t_feedback: Float[np.ndarray, "steps"] | None = None
    feedback: Float[np.ndarray, "steps n"] | None = None
    reduced: object = None
    h_last: Float[np.ndarray, ""] | None = None
    levels: tuple[str, str] = eqx.field(static=True, default=("node", "mid"))
    provenance: Provenance | None = eqx.field(static=True, default=None)

    @property
    def outcome(self) -> Outcome | np.ndarray:
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
    def __getitem__(self, key: str) -> Float[np.ndarray, "... nodes"]: ...

    @overload
    def __getitem__(self, key: int) -> Path: ...

    def __getitem__(self, key: str | int):
        """q of the coordinate with this name, at t, of a group its matrices R (…, 3, 3) or pairs (R, x); or the path with
        this number of a batch."""
        if not isinstance(key, str):
            return self.lane(key)
        space = groups_of(self.coordinates)
        if space is None or key in self.coordinates:
            return self.q[..., place_of(key, self.coordinates, "path")]
        return space.elements(key, self.q)

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
        return front_door("store.to_xarray")(self)

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
                if int(one.steps_done) == 0:  # the rows of its steps, each with multipliers, repeat where it stands
                    end = len(times) - len(one.t_multipliers)
                changes |= {name: getattr(one, name)[:end] for name in (time, *values)}
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
        saved = "" if len(apart) == self.steps else " between saved states"
        return f"{apart[:-1].min(initial=apart[0]):g} to {apart.max():g}{saved}"

    def _rate(self) -> str:
        time = abs(float(self.t[-1]) - float(self.t[0])) if int(self.steps_done) else 0.0
        return (
            f", {int(self.statistics.crossings) / time:.3g} per unit of time" if self.statistics.crossings and time else ""
        )

    @on_host
    def interpolate(self, t: Float[Array | np.ndarray, "..."], order: int = 3) -> tuple[Any, Any]:
        """(q, v) at times between nodes: Hermite interpolation of q through neighbouring nodes, v its derivative.

        Velocities at nodes are the path's own where it has them: then through two nodes q is interpolated to fourth order
        and v to third; otherwise second order differences of q, and the orders are three and two, and no higher ones are
        to be had. The interpolant does not satisfy the constraints between nodes.

        Args:
            t: (…,) times inside the path.
            order: that v has at least, and q one more, up to 11: for the states of a scheme of order p, p. Two nodes give 3,
                four 7 and six 11, of steps that vary in length too; they must be saved, and the motion smooth across them.

        Returns:
            (q, v), each (…, n).

        Raises:
            ValueError: a time is outside the path, or it has too few saved nodes, or no velocities at them.

        Example:
            >>> q, v = path.interpolate([0.05, 0.15], order=7)
            >>> q.shape
            (2, 1)
        """
        times = as_array(t, "t")
        number = nodes_for(whole_number(order, "order", 1, MOST))
        if number > 2 and self.levels[0] != "node":
            raise ValueError(
                f"order: found {order}, of a path whose velocities lie between its nodes; 3 is the most there, or take a "
                "scheme with velocities at the nodes, such as the default one"
            )
        if self.t.shape[0] < max(3, number):
            raise ValueError(
                f"t: the path has {self.t.shape[0]} saved nodes; interpolation needs at least {max(3, number)}"
                f"{'' if number == 2 else f' for order={order}'}"
            )
        if not isinstance(times, Tracer) and not isinstance(self.t, Tracer):
            known, asked = np.asarray(self.t), np.asarray(times)
            low, high = float(known.min()), float(known.max())
            slack = 1e-12 * max(1.0, abs(low), abs(high))
            if asked.size and not (asked.min() >= low - slack and asked.max() <= high + slack):
                raise ValueError(
                    f"t: found times in [{asked.min():g}, {asked.max():g}], outside the path's [{low:g}, {high:g}]"
                )
        t, q = jnp.asarray(self.t), jnp.asarray(self.q)
        v, space = jnp.asarray(self.v) if self.levels[0] == "node" else None, groups_of(self.coordinates)
        if space is not None:
            v = jax.vmap(space.rate)(q, jnp.asarray(self.v))
        q, v = two_nodes(t, q, v, times) if number == 2 else several_nodes(t, q, v, times, number)
        return (q, v) if space is None else space.onto(q, v)


class ClosedLoop(Path):
    """The result of a closed loop: a Path with its controls, plan and disturbances.

    d/dt L_v - L_q = f + B(q)u + d, u held from sample to sample: what `closed_loop` returns, a Path with the controls,
    the plan that they followed, and the disturbances. Its arrays are NumPy's.

    If the plant's run failed, or Ctrl-C ended it, the arrays end there, and `outcome` says why.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        t_velocity: t.
        v: (N+1, n) velocities at t.
        t_multipliers: times of the multipliers, as in a Path.
        multipliers: λ of the plant's constraints, at t_multipliers.
        constraint_forces: Rᵀλ, at t_multipliers.
        h: the step.
        steps_done: number of steps that were solved.
        code: the Outcome of the plant's run as an integer.
        statistics: counts and residuals of the plant's steps, a Statistics.
        t_feedback: (N,) times at which the steps begin.
        feedback: (N, n) the forces B(q)u of the controls, held over each step.
        reduced: None.
        h_last: None.
        levels: where the multipliers are in time, as in a Path.
        provenance: the record of the run, as in a Path, with the controller.
        t_u: (K,) times at which the controls start to act.
        u: (K, r) the controls, each held until the next.
        planned: (N+1, n) the positions at t of the last plan made before; NaN where there was none yet. None for a
            controller without a plan.
        plan_codes: (K,) the Outcome of the plan for each control, of `mpc`: SUCCESS, or that which made the last plan go on,
            INTERRUPTED if its deadline passed. None for other controllers.
        disturbance: (N, n) the generalised forces d that were added, each over one step; None without any.
        noise: (K, 2n) the errors of the measured (q, v) that the controls come from; None without any.

    Example:
        >>> run = da.closed_loop(move.system, law, [0.1], [0.0], h=0.01, steps=100, every=2)
        >>> run.q.shape, run.u.shape, run.planned.shape
        ((101, 1), (50, 1), (101, 1))
    """

    t_u: Float[np.ndarray, "samples"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    u: Float[np.ndarray, "samples r"] = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    planned: Float[np.ndarray, "nodes n"] | None = None
    plan_codes: Int[np.ndarray, "samples"] | None = None
    disturbance: Float[np.ndarray, "steps n"] | None = None
    noise: Float[np.ndarray, "samples 2n"] | None = None

    if not TYPE_CHECKING:
        __getattribute__ = eqx.Module.__getattribute__  # a Path's would put the arrays on a device

    @property
    def late(self) -> Float[np.ndarray, "late"]:
        """The times of the controls whose plan missed its deadline, so that the last plan went on."""
        codes = np.zeros(len(self.t_u)) if self.plan_codes is None else self.plan_codes
        return self.t_u[codes == int(Outcome.INTERRUPTED)]

    def held(self, times: Float[np.ndarray, "rows"], values: Float[np.ndarray, "rows k"]):
        """Values that are held from their time to the next, the last ones to the end of the run, as a curve: (times,
        values), two rows for each."""
        ends = np.append(times[1:], self.t[-1:])[: len(times)]
        return np.stack([times, ends], axis=1).ravel(), np.repeat(values, 2, axis=0)

    def __repr__(self) -> str:
        return f"ClosedLoop(q={self.q.shape}, u={self.u.shape}, outcome={Outcome(int(self.code)).name})"

    def describe(self) -> str:
        """The run in one paragraph: that of the plant, then the controller, its plans and the disturbances."""
        lines = [super().describe()]
        if self.provenance is not None:
            lines.append(f"controller: {json.loads(self.provenance.run).get('controller', '')}")
        controls = f"{len(self.t_u)} samples"
        if self.u.size:
            ranges = [f"{low:.4g} to {high:.4g}" for low, high in zip(self.u.min(axis=0), self.u.max(axis=0), strict=True)]
            controls += f", u from {', '.join(ranges)}"
        lines.append(f"controls: {controls}")
        if self.plan_codes is not None:
            words = {Outcome.SUCCESS: "solved", Outcome.INTERRUPTED: "late"}
            ends = collections.Counter(Outcome(int(code)) for code in self.plan_codes)
            lines.append(
                "plans: " + ", ".join(f"{n} {words.get(x, x.name.lower().replace('_', ' '))}" for x, n in ends.items())
            )
        if self.disturbance is not None:
            lines.append(f"disturbance: up to {np.abs(self.disturbance).max(initial=0.0):.4g}")
        if self.noise is not None:
            lines.append(f"noise: up to {np.abs(self.noise).max(initial=0.0):.4g}")
        return "\n".join(lines)


def check_path(path: object) -> None:
    """TypeError for anything but a Path."""
    check_class(path, Path, "path", "the Path that simulate returned")
