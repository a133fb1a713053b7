"""closed_loop: a plant and a controller in Python, sample by sample; mpc: a controller that plans anew from every state."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dalembert.boundary import Asked, Iterate, Request, TimeGrid, settings
from dalembert.boundary.data.end_sets import refuse_sets
from dalembert.boundary.data.ends import at_times
from dalembert.boundary.data.limits import check_given
from dalembert.boundary.interior.activity import Activity
from dalembert.boundary.result import OUTCOMES
from dalembert.control import ControlSearch, OptimalControl, control_search, prepare_control
from dalembert.control.given import read_partly, size_of_end
from dalembert.control.problem import actuation, check_optimal_control
from dalembert.control.result import control_solution
from dalembert.discretize import Scheme
from dalembert.interrupts import Interrupted
from dalembert.lazy import as_left
from dalembert.numbers import as_number, as_numbers, as_positive, as_state, as_vector, described, whole_number
from dalembert.options import Solver
from dalembert.outcome import CONTROLLED, Outcome
from dalembert.path import Path
from dalembert.solution import ControlSolution, SolveError
from dalembert.step import simulate
from dalembert.systems import System, check_system
from dalembert.tracing import Jitted


class Controller(Protocol):
    """Controller that `closed_loop` asks for the controls: Feedback and PredictiveController, whose problem says how
    controls act; or a law."""

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        """u (r,) for the time t + ahead, from the state at t."""
        ...


class ClosedLoop(eqx.Module):
    """(q, v) at the nodes of the plant, and the controls that acted: what `closed_loop` returns.

    Attributes:
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions at t.
        v: (N+1, n) velocities at t.
        t_u: (K,) times at which the controls start to act.
        u: (K, r) the controls, each held until the next.
        code: the Outcome of the plant's run as an integer; if it failed, or Ctrl-C ended it, the arrays end there.

    Example:
        >>> run = da.closed_loop(move.system, law, [0.1], [0.0], h=0.01, steps=100, every=2)
        >>> run.q.shape, run.u.shape
        ((101, 1), (50, 1))
    """

    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    v: Float[np.ndarray, "nodes n"]
    t_u: Float[np.ndarray, "samples"]
    u: Float[np.ndarray, "samples r"]
    code: Int[np.ndarray, ""]

    @property
    def outcome(self) -> Outcome:
        """The Outcome of the plant's run."""
        return Outcome(int(self.code))


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
) -> ClosedLoop:
    """u(t) = controller(t_j, q(t_j), v(t_j)) for t_j + delay ≤ t < t_{j+1} + delay: a plant under a controller that is
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
        scheme: the Scheme of the plant's steps, as in `simulate`.

    Returns:
        A ClosedLoop, with the nodes and the controls.

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
    q, v = as_state(q0, v0, system.coordinates, as_numbers)
    plant, parts, code = _Plant(with_held_force(system, len(q)), push, h, scheme), [(q[None], v[None])], Outcome.SUCCESS
    measured = {k for k in range(0, steps, every) if k + delay < steps}
    marks = sorted({0, steps, *measured, *(k + delay for k in measured)})
    decided: dict[int, np.ndarray] = {}
    u = None
    try:
        for k, end in itertools.pairwise(marks):
            if k in measured:
                own = controller.control(t0 + k * h, q, v, (delay + 0.5 * every) * h)
                decided[k + delay] = np.asarray(own, dtype=float)
            u = decided.get(k, u)
            run = plant.run(q, v, t0 + k * h, end - k, u)  # pressed inside, Ctrl-C is its outcome
            code = Outcome(int(as_left(run, "code")))
            q, v = _rows_into(parts, run)
            if code is Outcome.INTERRUPTED or code.failed:
                break
    except KeyboardInterrupt:  # between the runs or in the controller, which is the user's and is broken off
        code = Outcome.INTERRUPTED

    def result() -> ClosedLoop:
        q, v = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        acted = [k for k in decided if k < len(q)]
        t, u = t0 + h * np.arange(len(q)), np.array([decided[k] for k in acted])
        return ClosedLoop(t, q, v, t[acted], u, np.asarray(int(code)))

    if code is Outcome.INTERRUPTED:
        raise Interrupted.later(result)
    return result()


def _rows_into(parts: list[tuple[np.ndarray, np.ndarray]], run: Path) -> tuple[np.ndarray, np.ndarray]:
    """Add the states after the first one of a run, and return the last."""
    q, v = (np.asarray(as_left(run, name)) for name in ("q", "v"))
    parts.append((q[1:].copy(), v[1:].copy()))
    return q[-1], v[-1]


class _Plant(NamedTuple):
    """A plant with a held force among its parameters: nothing is compiled again from sample to sample."""

    system: System
    push: Callable
    h: float
    scheme: Scheme | None

    def run(self, q: np.ndarray, v: np.ndarray, t: float, steps: int, u: np.ndarray | None) -> Path:
        """Some steps under the controls u; none before the first ones are known."""
        force = np.zeros(len(q)) if u is None else np.asarray(self.push(t, q, v, u))
        system = self.system.replace(held=force)
        return simulate(system, q, v, h=self.h, steps=steps, t0=t, scheme=self.scheme, throw=False)


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
    return actuation(problem, q, t) @ u


def with_held_force(system: System, n: int) -> System:
    """The system with a further force, the parameter "held"."""
    parameters = {"held": np.zeros(n)} | ({} if system.parameters is None else {"own": system.parameters})
    own = lambda p: (p["own"],) if "own" in p else ()  # noqa: E731

    def wrap(function: Callable | None) -> Callable | None:
        return function and (lambda *x: function(*x[:-1], *own(x[-1])))

    def forces(*x):
        known = 0.0 if system.forces is None else jnp.asarray(system.forces(*x[:-1], *own(x[-1])))
        return known + x[-1]["held"]

    constraints = [
        type(c)(**{name: wrap(x) if callable(x) else x for name, x in vars(c).items()}) for c in system.constraints
    ]
    return System(
        lambda *x: system.lagrangian(*x[:-1], *own(x[-1])), constraints, forces=forces, coordinates=system.coordinates,
        parameters=parameters, time_dependent=system.time_dependent,
    )  # fmt: skip


class Replanned(NamedTuple):
    """One call of a predictive controller.

    Attributes:
        t: time of the call.
        outcome: how the solution ended; if not with SUCCESS, the last plan was continued.
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
    t, layout, new = ready.start.data.t, ready.start.data.layout, z.copy()
    middle = 0.5 * (t[1:] + t[:-1])
    for first, times, names in (
        (1, t, ("state", "controls")),
        (2, t, ("reactions", "adjoints")),
        (2, middle, ("steps",)),
    ):
        rows = slice(first, first + len(times))
        for name in names:
            new[rows, layout.part(name)] = at_times(times, z[rows, layout.part(name)], times + by)
    return np.where(ready.kkt.fixed, z, new)


class PredictiveController:
    """u(t, q, v) = the control at t of min ∫_t^{t+T} C dt' + Φ from (q, v): what `mpc` returns.

    It keeps its last plan: shifted in time, this is the guess for the next plan, and it is continued if the next
    problem is not solved. For an independent run make a new controller by `mpc`.

    Attributes:
        problem: the OptimalControl, with the controller's model of the plant.
        asked: the arguments of the problem other than the measured state.
        begun: the time at which the last plan starts; NaN before the first one.
        records: a Replanned for every call.

    Example:
        >>> controller(0.0, [0.1], [0.0]).shape
        (1,)
    """

    def __init__(self, problem: OptimalControl, asked: Asked):
        self.problem, self.asked, self.begun = problem, asked, math.nan
        self.records = list[Replanned]()
        self._ready: ControlSearch | None = None
        self._found: tuple[Iterate, Activity] | None = None

    def __call__(self, t: float, q: Float[Array | np.ndarray, "n"], v: Float[Array | np.ndarray, "n"]) -> np.ndarray:
        """The control (r,) at time t, from the state that is measured then."""
        return self.control(as_number(t, "t"), as_numbers(q, "q"), as_numbers(v, "v"), 0.0)

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
            n = self._ready.start.data.layout.n
            q, v = np.asarray(as_vector(q, "q", n)), np.asarray(as_vector(v, "v", n))
        try:
            found = self._solve_from(t, q, v)
            outcome, it = OUTCOMES[found[0].end], found[0]
            message = "" if outcome is Outcome.SUCCESS else CONTROLLED.get(outcome, outcome.message)
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
        ready, known = self._ready, self._found
        if ready is None or known is None or self.problem.system.time_dependent:
            self._ready = ready = control_search(self.problem, self._asked_from(t, q, v))
            z = ready.start.z
            if known is not None:
                z = np.where(ready.kkt.fixed, z, _shift_path(ready, known[0].z, t - self.begun))
        else:
            z = _shift_path(ready, known[0].z, t - self.begun)
        data = ready.start.data
        z[1, data.layout.part("state")], z[0, data.layout.part("state")] = q - data.origin, v
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
) -> PredictiveController:
    """min ∫_t^{t+T} C dt' + Φ from the measured (q, v), solved anew at every sample: model predictive control.

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
    return PredictiveController(problem, asked)


def _check_horizon(problem: OptimalControl, asked: Asked) -> None:
    """The checks of `solve`, without a state; where nothing tells the number of coordinates it is left to the first call."""
    final, guess = asked.request.final, asked.request.guess
    refuse_sets(final, "final", "a receding horizon has a fixed end; give (q, v), or parts of them")
    if problem.coordinates is not None or guess is not None or size_of_end(final, "final"):
        prepare_control(problem, asked)
    elif final is not None and not (isinstance(final, list | tuple) and any(isinstance(x, Mapping) for x in final)):
        read_partly(final, "final", 1, None)
