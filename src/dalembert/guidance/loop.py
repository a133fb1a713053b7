"""closed_loop: a plant and a controller in Python, sample by sample; mpc: a controller that plans anew from every state."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from dalembert.boundary import Asked, Iterate, Request, TimeGrid, settings
from dalembert.boundary.data.around import continuous
from dalembert.boundary.data.end_sets import refuse_sets
from dalembert.boundary.data.limits import check_given
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.result import OUTCOMES
from dalembert.control import ControlSearch, OptimalControl, control_search, prepare_control
from dalembert.control.given import read_partly, size_of_end
from dalembert.control.problem import actuation, check_optimal_control
from dalembert.control.result import control_solution
from dalembert.discretize import Scheme
from dalembert.groups import Product
from dalembert.guidance.gains import read_measured
from dalembert.interrupts import Interrupted, until
from dalembert.notebook import Described, described_by_fields
from dalembert.numbers import as_number, as_numbers, as_positive, called, described, whole_number
from dalembert.options import Solver
from dalembert.outcome import CONTROLLED, Outcome
from dalembert.path import ClosedLoop, Path, Provenance, Statistics
from dalembert.solution import ControlSolution, SolveError
from dalembert.step import simulate
from dalembert.step.options import RunOptions
from dalembert.systems import System, check_system
from dalembert.tracing import Jitted, content


class Controller(Protocol):
    """Controller that `closed_loop` asks for the controls: Feedback and PredictiveController, whose problem says how
    controls act; or a law."""

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        """u (r,) for the time t + ahead, from the state at t."""
        ...


def closed_loop(
    system: System,
    controller: Controller,
    q0: Float[Array | np.ndarray, "n"],
    v0: Float[Array | np.ndarray, "n"],
    *,
    h: float,
    steps: int,
    every: int = 1,
    delay: int = 0,
    t0: float = 0.0,
    scheme: Scheme | None = None,
    disturbance: Callable | Float[Array | np.ndarray, "..."] | None = None,
    noise: Callable | Float[Array | np.ndarray, "..."] | None = None,
) -> ClosedLoop:
    """Run a plant with a controller that is sampled, delayed and held.

    u(t) = controller(t_j, q(t_j), v(t_j)) for t_j + delay ≤ t < t_{j+1} + delay: a plant under a controller that is
    sampled, delayed and held.

    The controller is called once for each sample, outside of JAX, so that it may have a state of its own and solve
    problems. It returns the control for the middle of the interval over which it will act. No control acts before the
    first delay is over.

    Args:
        system: the plant; it may differ from the plant in the controller's problem.
        controller: a Feedback, what `mpc` returns, or a law of `control_law` or `energy_shaping`.
        q0: (n,) positions at t0.
        v0: (n,) velocities at t0.
        h: time step of the simulation.
        steps: N, the number of steps.
        every: number of steps between two samples.
        delay: number of steps between a sample and the start of its control.
        t0: initial time.
        scheme: the Scheme of the plant's steps, as in `simulate`; of a form with velocities at the nodes.
        disturbance: generalised forces (n,) on the plant that the controller does not know, held over each step: a constant,
            a row for each step, (N, n), or a function of the time, which is called with the middle of each step. Forces that
            depend on the state belong to `system`.
        noise: errors (2n,) of the measured (q, v): a constant, a row for each sample, or a function of its time. On groups
            those of positions are turns and shifts in the axes of the velocities.

    Returns:
        A ClosedLoop: a Path, which can be plotted, animated and saved, with the controls, the plan and the disturbances.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument has the wrong value; the message names it.
        SolveError: the first problem of a predictive controller is not solved.
        Interrupted: Ctrl-C ended the run of the plant or the controller; its path is the ClosedLoop up to then.

    Example:
        >>> run = da.closed_loop(move.system, law, [0.1], [0.0], h=0.01, steps=100, every=2, delay=1)
        >>> run.outcome.name
        'SUCCESS'
    """
    check_system(system)
    push = _pushing(controller)
    h, t0, steps = as_positive(h, "h"), as_number(t0, "t0"), whole_number(steps, "steps")
    every, delay = whole_number(every, "every"), whole_number(delay, "delay", 0)
    q, v = system.space.read_state(q0, v0, system.coordinates, as_numbers)
    n, samples = len(v), [k for k in range(0, steps, every) if k + delay < steps]
    errors = _read_rows(noise, "noise", t0 + h * np.array(samples), 2 * n, "sample")
    added = _read_rows(disturbance, "disturbance", t0 + h * (np.arange(steps) + 0.5), n, "step")
    changes = [] if added is None else 1 + np.flatnonzero(np.any(np.diff(added, axis=0) != 0.0, axis=1))
    marks = sorted({0, steps, *samples, *(k + delay for k in samples), *map(int, changes)})
    given = {"q0": q, "v0": v, "controller": _name_of(controller), "every": every, "delay": delay}
    record = RunOptions(h, steps, t0, scheme=scheme).new_record(system.subject.under(scheme), **given)
    run = _Running(_Plant(with_held_force(system, n), push, h, scheme), controller, q, v)
    numbers = {k: i for i, k in enumerate(samples)}
    try:
        for k, end in itertools.pairwise(marks):
            if k in numbers:
                error = None if errors is None else errors[numbers[k]]
                run.sample(k + delay, t0 + k * h, error, (delay + 0.5 * every) * h)
            if not run.advance(k, end, t0 + k * h, None if added is None else added[k]):
                break
    except KeyboardInterrupt:  # between the runs or in the controller, which is the user's and is broken off
        run.code = Outcome.INTERRUPTED

    def result() -> ClosedLoop:
        return run.result(t0, record, added, errors)

    if run.code is Outcome.INTERRUPTED:
        raise Interrupted.later(result)
    return result()


def _read_rows(given: Any, name: str, times: np.ndarray, width: int, of: str) -> np.ndarray | None:
    """(times, width), from a constant, rows or a function of the time."""
    if given is None:
        return None
    if callable(given):
        how = f"a time, and returns numbers ({width},)"
        rows = np.array([as_numbers(called(given, name, how, float(t)), f"{name}: its result") for t in times])
    else:
        rows = as_numbers(given, name)
    rows = np.broadcast_to(rows, (len(times), width)) if rows.shape == (width,) else rows
    if rows.shape != (len(times), width) and len(times):
        raise ValueError(f"{name}: found shape {rows.shape}; give ({width},), or a row for each {of}, {(len(times), width)}")
    return rows.reshape(-1, width)


def _name_of(controller: Controller) -> str:
    """A line for the record of a run; without the address of an object."""
    text = repr(controller).split("\n")[0]
    return type(controller).__qualname__ if " at 0x" in text else text


class _Plant(NamedTuple):
    """A plant with a held force among its parameters: nothing is compiled again from sample to sample."""

    system: System
    push: Callable
    h: float
    scheme: Scheme | None

    def run(self, q: np.ndarray, v: np.ndarray, t: float, steps: int, force: np.ndarray) -> Path:
        """Some steps under a force."""
        system = eqx.tree_at(lambda s: s.parameters["held"], self.system, force)  # `replace` would check it again
        return simulate(system, q, v, h=self.h, steps=steps, t0=t, scheme=self.scheme, throw=False)


ROWS = ("q", "v", "t_multipliers", "multipliers", "constraint_forces")


class _Running:
    """A closed loop on its way: the runs of the plant between two changes of its forces, and what the controller did."""

    def __init__(self, plant: _Plant, controller: Controller, q: np.ndarray, v: np.ndarray):
        self.plant, self.controller, self.q, self.v = plant, controller, q, v
        self.code, self.levels = Outcome.SUCCESS, ("node", "mid")
        self.rows: dict[str, list[np.ndarray]] = {name: [] for name in ROWS} | {"q": [q[None]], "v": [v[None]]}
        self.forces, self.planned = [np.zeros((0, len(v)))], list[np.ndarray]()
        self.statistics = list[tuple[int, Statistics]]()
        self.u, self.codes = dict[int, np.ndarray](), list[int]()
        self.acting: np.ndarray | None = None

    def sample(self, begin: int, t: float, error: np.ndarray | None, ahead: float) -> None:
        """The control that acts from the node `begin` on, from the state at t and the error of its measurement."""
        q, v = self.q, self.v
        if error is not None:
            off_q, off_v = np.split(error, 2)
            q, v = np.asarray(self.plant.system.space.retract(q, off_q)), v + off_v
        own = self.controller.control(t, q, v, ahead)
        u = np.atleast_1d(as_numbers(own, f"controller: its control() at t = {t:g}"))
        if u.ndim != 1 or (self.u and u.shape != next(iter(self.u.values())).shape):
            raise ValueError(f"controller: its control() returned shape {u.shape}; return one number for each control, (r,)")
        self.u[begin] = u
        if isinstance(self.controller, PredictiveController):
            self.codes.append(int(self.controller.records[-1].outcome))

    def advance(self, begin: int, end: int, t: float, added: np.ndarray | None) -> bool:
        """The steps from one node to another; False where the run ends there."""
        self.acting = self.u.get(begin, self.acting)
        own = np.zeros(len(self.v)) if self.acting is None else np.asarray(self.plant.push(t, self.q, self.v, self.acting))
        run = self.plant.run(self.q, self.v, t, end - begin, own if added is None else own + added)
        self.code, self.levels = Outcome(int(run.code)), run.levels  # pressed inside, Ctrl-C is its outcome
        if self.levels[0] != "node":
            raise ValueError(
                "scheme: its velocities are between the nodes; a controller needs those at the nodes: leave it out"
            )
        rows = {name: np.array(getattr(run, name)) for name in ROWS}
        self.q, self.v, done = rows["q"][-1], rows["v"][-1], len(rows["q"]) - 1
        for name, values in rows.items():
            self.rows[name].append(values[1:] if name in ("q", "v") else values)
        self.statistics.append((begin, run.statistics))
        self.forces.append(np.broadcast_to(own, (done, len(own))))
        plan = getattr(self.controller, "planned", None)
        if plan is not None:
            nodes = t + self.plant.h * np.arange(1 if self.planned else 0, done + 1)
            self.planned.append(plan(nodes) if self.u else np.full((len(nodes), len(self.q)), np.nan))
        return not (self.code is Outcome.INTERRUPTED or self.code.failed)

    def result(self, t0: float, record: Provenance, added: np.ndarray | None, errors: np.ndarray | None) -> ClosedLoop:
        """The run as far as it came."""
        n = len(self.v)
        rows = {
            name: np.concatenate(parts) if parts else np.zeros(0 if name == "t_multipliers" else (0, n))
            for name, parts in self.rows.items()
        }
        done = len(rows["q"]) - 1
        t, acted = t0 + self.plant.h * np.arange(done + 1), [k for k in self.u if k <= done]
        fields: dict[str, Any] = rows | {
            "t": t, "t_velocity": t, "t_feedback": t[:-1], "feedback": np.concatenate(self.forces),
            "h": np.asarray(self.plant.h), "steps_done": np.asarray(done), "code": np.asarray(int(self.code)),
            "statistics": _total(self.statistics), "levels": self.levels, "provenance": record,
            "t_u": t[acted], "u": np.stack([self.u[k] for k in acted]) if acted else np.zeros((0, 0)),
            "planned": np.concatenate(self.planned) if self.planned else None,
            "plan_codes": np.array(self.codes[: len(acted)]) if self.codes else None,
            "disturbance": None if added is None else added[:done],
            "noise": None if errors is None else errors[: len(acted)],
        }  # fmt: skip
        return ClosedLoop(**fields)


def _total(parts: list[tuple[int, Statistics]]) -> Statistics:
    """The statistics of runs one after the other, each with the number of its first step."""
    of = lambda name: np.array([getattr(one, name) for _, one in parts] or [0])  # noqa: E731
    found: dict[str, Any] = {name: of(name).sum() for name in ("iterations", "crossings", "turns", "leaps")}
    found |= {"max_iterations": of("max_iterations").max(), "residual": float(of("residual").max())}
    found |= {"failed_step": -1, "failed_time": np.nan, "failed_residual": np.nan}
    if np.any(of("leaps") < 0):  # not counted
        found["leaps"] = -1
    if parts and int(parts[-1][1].failed_step) >= 0:
        begin, last = parts[-1]
        found |= {name: getattr(last, name) for name in ("failed_time", "failed_residual")}
        found["failed_step"] = begin + int(last.failed_step)
    found = {name: np.asarray(x) for name, x in found.items()}
    return Statistics(**found)


def _pushing(controller: Controller) -> Callable:
    """(t, q, v, u) → the generalised force (n,) that controls u are at that state; TypeError for what is no controller."""
    push, problem = getattr(controller, "push", None), getattr(controller, "problem", None)
    if callable(push) and callable(getattr(controller, "control", None)):
        return push
    if not isinstance(problem, OptimalControl):
        raise TypeError(f"controller: found {described(controller)}; give a Feedback, a control law, or what mpc returns")
    return lambda t, q, v, u: _control_force(
        problem, q, np.asarray(t, dtype=float), u
    )  # a number would be a program for each time


@Jitted
def _control_force(problem: OptimalControl, q, t, u):
    columns = actuation(problem, q, t)
    if columns.shape[1] != u.shape[0]:
        raise ValueError(
            f"controller: its control() returned {u.shape[0]} numbers; the plant has {columns.shape[1]} controls"
        )
    return columns @ u


def with_held_force(system: System, n: int) -> System:
    """The system with a further force, the parameter "held"."""
    parameters = {"held": np.zeros(n)} | ({} if system.parameters is None else {"own": system.parameters})
    own = lambda p: (p["own"],) if "own" in p else ()  # noqa: E731

    def wrap(function: Callable | None) -> Callable | None:
        return function and (lambda *x: function(*x[:-1], *own(x[-1])))

    def forces(*x):
        known = 0.0 if system.forces is None else system.space.array(system.forces(*x[:-1], *own(x[-1])))
        return known + x[-1]["held"]

    constraints = [
        type(c)(**{name: wrap(x) if callable(x) else x for name, x in vars(c).items()}) for c in system.constraints
    ]
    return System(
        lambda *x: system.lagrangian(*x[:-1], *own(x[-1])), constraints, forces=forces, coordinates=system.coordinates,
        parameters=parameters, time_dependent=system.time_dependent,
    )  # fmt: skip


@described_by_fields
class Replanned(NamedTuple):
    """One call of a predictive controller.

    Attributes:
        t: time of the call.
        outcome: how the solution ended; if not with SUCCESS, the last plan was continued. INTERRUPTED: the deadline passed.
        message: what went wrong, in words; empty if nothing did.
        iterations: number of Newton iterations.
        seconds: wall clock time of the solution.
        cost: cost of the new plan; NaN if there is none.

    Example:
        >>> controller.records[0].outcome.name
        'SUCCESS'
    """

    t: float
    outcome: Outcome
    message: str
    iterations: int
    seconds: float
    cost: float


def _shift_path(ready: ControlSearch, z: np.ndarray, by: float) -> np.ndarray:
    """The path z (blocks, b) seen a while later; the state beyond its end stays as it was there."""
    data, layout, t = ready.start.data, ready.start.data.layout, ready.start.data.t
    later, space = _shifted_rows(t, by), data.space
    new = z.copy()
    if isinstance(space, Product):
        new = data.counted_from(z, space.nearest(later(data.elements(z))))
    at, after = later(z[1:-1]), later(z[2:])
    for name in ("state", "controls")[not space.flat :]:
        new[1:-1, layout.part(name)] = at[:, layout.part(name)]
    for name in ("reactions", "adjoints"):
        new[2:, layout.part(name)] = after[:, layout.part(name)]
    if layout.m:
        new[2:-1, layout.part("steps")] = _shifted_rows(0.5 * (t[1:] + t[:-1]), by)(z[2:-1, layout.part("steps")])
    return np.where(_fixed_entries(ready), z, new)


def _fixed_entries(ready: ControlSearch) -> np.ndarray:
    """What an iteration does not change; on groups without positions, which are counted from where the path is."""
    fixed, layout = ready.kkt.fixed.copy(), ready.start.data.layout
    if layout.base:
        fixed[:, layout.part("base")] = fixed[1:-1, layout.part("state")] = False
    return fixed


def _begun_at(ready: ControlSearch, z: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The path from another first state."""
    data = ready.start.data
    if isinstance(data.space, Product):
        path = data.elements(z)
        path[0] = continuous(data.space, np.stack([path[1], q]))[1]
        z = data.counted_from(z, path)
    else:
        z[1, data.layout.part("state")] = q - data.origin
    z[0, data.layout.part("state")] = v
    return z


def _shifted_rows(t: np.ndarray, by: float) -> Callable[[np.ndarray], np.ndarray]:
    """Rows at the times t → those of a while later, linear between these times and constant beyond them."""
    i = np.clip(np.searchsorted(t, t + by, side="right") - 1, 0, len(t) - 2)
    share = np.clip((t + by - t[i]) / (t[i + 1] - t[i]), 0.0, 1.0)[:, None]
    return lambda rows: (1.0 - share) * rows[i] + share * rows[i + 1]


class PredictiveController(Described):
    """A controller that solves an optimal control problem anew at every sample.

    u(t, q, v) = the control at t of min ∫_t^{t+T} C dt' + Φ from (q, v): what `mpc` returns.

    It keeps its last plan: shifted in time, this is the guess for the next plan, and it is continued if the next
    problem is not solved. For an independent run make a new controller by `mpc`.

    Attributes:
        problem: the OptimalControl, with the controller's model of the plant.
        asked: the arguments of the problem other than the measured state.
        deadline: see `mpc`.
        begun: the time at which the last plan starts; NaN before the first one.
        records: a Replanned for every call.

    Example:
        >>> controller(0.0, [0.1], [0.0]).shape
        (1,)
    """

    def __init__(self, problem: OptimalControl, asked: Asked, deadline: float | None = None):
        self.problem, self.asked, self.deadline, self.begun = problem, asked, deadline, math.nan
        self.records = list[Replanned]()
        self._ready: ControlSearch | None = None
        self._key: Any = None
        self._found: tuple[Iterate, Activity] | None = None

    def __call__(self, t: float, q: Float[Array | np.ndarray, "n"], v: Float[Array | np.ndarray, "n"]) -> np.ndarray:
        """The control (r,) at time t, from the state that is measured then."""
        q, v = self.problem.system.space.read_named(q, v, ("q", "v"))
        return self.control(as_number(t, "t"), as_numbers(q, "q"), as_numbers(v, "v"), 0.0)

    def __repr__(self) -> str:
        grid, bounds = self.asked.grid, ", ".join(self.asked.bounds or ())
        text = f"mpc(T={grid.T:g}, steps={grid.steps}"
        text += f", bounds on {bounds}" if bounds else ""
        return text + (")" if self.deadline is None else f", deadline={self.deadline:g})")

    def describe(self) -> str:
        """The problem of each sample, and how the calls have ended."""
        (_, final, *_), grid, records = self.asked.request, self.asked.grid, self.records
        solved = [record for record in records if record.outcome is Outcome.SUCCESS]
        lines = [
            f"receding horizon: {grid.steps} steps over T = {grid.T:g}, solved at every sample",
            f"end: {'free' if final is None else final}",
            *(f"bounds on {name}: {value}" for name, value in (self.asked.bounds or {}).items()),
            f"deadline: {'none' if self.deadline is None else f'{self.deadline:g} s for each plan'}",
            f"plans: {len(solved)} of {len(records)} solved",
        ]
        if later := records[1:]:
            seconds = [1e3 * record.seconds for record in later]
            lines.append(
                f"after the first plan: {np.median([record.iterations for record in later]):g} iterations and "
                f"{np.median(seconds):.2g} ms in the median, {max(seconds):.2g} ms at most"
            )
        return "\n".join(lines)

    def planned(self, t: Float[np.ndarray, "times"]) -> Float[np.ndarray, "times n"]:
        """The positions of the last plan at these times; its ends before and after it."""
        assert self._ready is not None
        assert self._found is not None
        data = self._ready.start.data
        q, space = data.motion(self._found[0].z)[0], data.space
        found = np.stack([np.interp(t - self.begun, data.t - data.t[0], column) for column in q.T], axis=1)
        return space.nearest(found)

    @property
    def plan(self) -> ControlSolution:
        """The last plan, at its own times."""
        assert self._ready is not None
        assert self._found is not None
        it, activity = self._found
        found = control_solution(self._ready.start.data, self._ready.kkt, it, False, activity)
        return dataclasses.replace(found, t=found.t - found.t[0] + self.begun)

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        """Called by `closed_loop`: a new plan from the state at t, and its control at t + ahead."""
        self._replan(t, q, v)
        assert self._ready is not None
        assert self._found is not None
        data = self._ready.start.data
        u = self._found[0].z[1:-1, data.layout.part("controls")]
        return np.array([np.interp(t + ahead - self.begun, data.t - data.t[0], column) for column in u.T])

    def _replan(self, t: float, q: np.ndarray, v: np.ndarray) -> None:
        begun, message, found = time.perf_counter(), "", None
        if self._ready is not None:  # what is no state of the plant is a mistake, and not a state that no plan begins at
            q, v = read_measured(self.problem.system.space, q, v, self._ready.start.data.layout.n, as_numbers)
        limit = None if self._found is None else self.deadline  # the first plan has none to fall back on, and compiles
        try:
            with until(None if limit is None else begun + limit):
                found = self._solve_from(t, q, v)
            outcome, it = OUTCOMES[found[0].end], found[0]
            message = "" if outcome is Outcome.SUCCESS else CONTROLLED.get(outcome, outcome.message)
            if limit is not None and time.perf_counter() > begun + limit:
                outcome, message = Outcome.INTERRUPTED, f"the deadline, {limit:g} s, passed; the last plan goes on"
        except ValueError as error:  # the first call has found the arguments right: what is wrong is the measured state
            if self._found is None:
                raise
            outcome, message, it = Outcome.INFEASIBLE, str(error), None
        solved = outcome is Outcome.SUCCESS and it is not None
        self.records.append(
            Replanned(
                t, outcome, message, 0 if it is None else it.iterations, time.perf_counter() - begun,
                it.at.objective if it is not None and solved else math.nan,
            )
        )  # fmt: skip
        if found is not None and (solved or self._found is None):
            self._found, self.begun = found, t
            if not solved:
                plan, self._found = self.plan, None
                raise SolveError(plan)

    def _solve_from(self, t: float, q: np.ndarray, v: np.ndarray) -> tuple[Iterate, Activity]:
        """The problem from a state, the last plan being the guess."""
        ready, known, read = self._ready, self._found, content(self.problem)
        later = max(0.0, t - self.begun)  # a path seen earlier would not end where it has to
        key = read and read.key  # of what its functions read, which may be another than at the last call
        if ready is None or known is None or self.problem.system.time_dependent or key != self._key:
            self._ready = ready = control_search(self.problem, self._asked_from(t, q, v))
            self._key = key
            z = ready.start.z
            if known is not None:
                z = np.where(_fixed_entries(ready), z, _shift_path(ready, known[0].z, later))
        else:
            z = _shift_path(ready, known[0].z, later)
        data = ready.start.data
        z = _begun_at(ready, z, q, v)
        if "q" in data.bounds:
            path = z[1:-1, data.layout.part("state")] + data.origin
            check_given(data.bounds["q"], path, data.given, data.t, self.problem.coordinates)
        return ready.search(z, ready.sizes, None)

    def _asked_from(self, t: float, q: np.ndarray, v: np.ndarray) -> Asked:
        grid = self.asked.grid
        if self.problem.system.time_dependent:
            assert grid.T is not None
            assert grid.steps is not None
            grid = TimeGrid(None, None, t + np.linspace(0.0, grid.T, grid.steps + 1))
        return self.asked._replace(request=self.asked.request._replace(initial=(q, v)), grid=grid)


def mpc(
    problem: OptimalControl,
    *,
    T: float,
    steps: int,
    final: Any = None,
    bounds: Mapping[str, Any] | None = None,
    guess: Any = None,
    scheme: Scheme | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
    deadline: float | None = None,
) -> PredictiveController:
    """Make a predictive controller, which solves an optimal control problem anew at every sample.

    min ∫_t^{t+T} C dt' + Φ from the measured (q, v), solved anew at every sample: model predictive control.

    Each solution starts from the last one, shifted in time. If a problem is not solved, the last plan is continued, and
    the records say so; the first problem has to be solved.

    Args:
        problem: the OptimalControl, with the controller's model of the plant.
        T: the horizon, the length of time that a plan covers.
        steps: number of steps of a plan.
        final: the end of every plan, as in `solve`; None leaves it free, for a terminal cost.
        bounds: as in `solve`; every control stays within them.
        guess: for the first plan, as in `solve`.
        scheme: the Scheme of the plant, as in `solve`.
        tolerance: as in `solve`.
        max_iterations: of Newton's method, for one plan.
        deadline: seconds (wall clock) for each plan after the first. If they pass, the iteration ends, the last plan goes
            on, and the record has the outcome INTERRUPTED; `late` of the ClosedLoop has the times.

    Returns:
        A PredictiveController, for `closed_loop`, or to be called as u(t, q, v) in a loop of your own.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument has the wrong shape or value; the message names it.

    Example:
        >>> controller = da.mpc(move, final=([1.0], [0.0]), T=1.0, steps=20)
        >>> run = da.closed_loop(move.system, controller, [0.0], [0.0], h=0.01, steps=20, every=5)
        >>> [record.outcome.name for record in controller.records]
        ['SUCCESS', 'SUCCESS', 'SUCCESS', 'SUCCESS']
    """
    check_optimal_control(problem)
    checked, length = settings(Solver(tolerance, whole_number(max_iterations, "max_iterations"))), as_positive(T, "T")
    grid = TimeGrid(length, whole_number(steps, "steps", 2), None)
    asked = Asked(Request(None, final, None, guess), grid, scheme, None, checked, False, bounds)
    _check_horizon(problem, asked)
    return PredictiveController(problem, asked, None if deadline is None else float(as_positive(deadline, "deadline")))


def _check_horizon(problem: OptimalControl, asked: Asked) -> None:
    """The checks of `solve`, without a state; where nothing tells the number of coordinates it is left to the first call."""
    final, guess = asked.request.final, asked.request.guess
    refuse_sets(final, "final", "a receding horizon has a fixed end; give (q, v), or parts of them")
    if problem.coordinates is not None or guess is not None or size_of_end(final, "final"):
        prepare_control(problem, asked)
    elif final is not None and not (isinstance(final, list | tuple) and any(isinstance(x, Mapping) for x in final)):
        read_partly(final, "final", 1, None)
