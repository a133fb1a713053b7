"""closed_loop: a plant and a controller in Python, sample by sample, with a delay between measurement and action."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dalembert.control.problem import OptimalControl, actuation
from dalembert.discretize import Scheme
from dalembert.interrupts import Interrupted
from dalembert.lazy import as_left
from dalembert.numbers import as_number, as_numbers, as_positive, described, whole_number
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.systems import System
from dalembert.systems.system import check_system
from dalembert.tracing import Jitted


class Controller(Protocol):
    """What `closed_loop` asks: Feedback and PredictiveController, whose problem says how controls act; or a law."""

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
        """How the plant's run ended."""
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
    h, t0, steps, every = (
        as_positive(h, "h"),
        as_number(t0, "t0"),
        whole_number(steps, "steps"),
        whole_number(every, "every"),
    )
    delay = whole_number(delay, "delay", 0)
    q, v, code = _state(q0, "q0"), _state(v0, "v0"), Outcome.SUCCESS
    if q.shape != v.shape:
        raise ValueError(f"v0: found shape {v.shape}; q0 has shape {q.shape}, and v0 needs the same")
    plant, parts = _Plant(with_held_force(system, len(q)), push, h, scheme), [(q[None], v[None])]
    measured = {k for k in range(0, steps, every) if k + delay < steps}
    marks = sorted({0, steps, *measured, *(k + delay for k in measured)})
    decided: dict[int, np.ndarray] = {}
    u = None
    run = None
    try:
        for k, end in itertools.pairwise(marks):
            if k in measured:
                own = controller.control(t0 + k * h, q, v, (delay + 0.5 * every) * h)
                decided[k + delay] = np.asarray(own, dtype=float)
            u = decided.get(k, u)
            run = plant.run(q, v, t0 + k * h, end - k, u)  # pressed inside, Ctrl-C is its outcome
            code = Outcome(int(as_left(run, "code")))
            if code is Outcome.INTERRUPTED:
                break
            q, v = _rows_into(parts, run)
            run = None
            if code.failed:
                break
    except KeyboardInterrupt:  # between the runs or in the controller, which is the user's and is broken off
        code = Outcome.INTERRUPTED

    def found() -> ClosedLoop:
        rows = [*parts]
        if run is not None and int(as_left(run, "code")) == int(Outcome.INTERRUPTED):
            _rows_into(rows, run)
        q, v = (np.concatenate(rows) for rows in zip(*rows, strict=True))
        acted = [k for k in decided if k < len(q)]
        t, u = t0 + h * np.arange(len(q)), np.array([decided[k] for k in acted])
        return ClosedLoop(t, q, v, t[acted], u, np.asarray(int(code)))

    if code is Outcome.INTERRUPTED:
        raise Interrupted.later(found)
    return found()


def _rows_into(parts: list[tuple[np.ndarray, np.ndarray]], run: Path) -> tuple[np.ndarray, np.ndarray]:
    """Add the states after the first one of a run, and return the last."""
    q, v = (np.asarray(as_left(run, name)) for name in ("q", "v"))
    parts.append((q[1:].copy(), v[1:].copy()))
    return q[-1], v[-1]


def _state(given, name: str) -> np.ndarray:
    found = np.asarray(as_numbers(given, name))
    if found.ndim != 1 or not found.size:
        raise ValueError(f"{name}: found shape {found.shape}; a vector (n,) is needed")
    return found


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

    def wrapped(function: Callable | None) -> Callable | None:
        return function and (lambda *x: function(*x[:-1], *own(x[-1])))

    def forces(*x):
        known = 0.0 if system.forces is None else jnp.asarray(system.forces(*x[:-1], *own(x[-1])))
        return known + x[-1]["held"]

    constraints = [
        type(c)(**{name: wrapped(x) if callable(x) else x for name, x in vars(c).items()}) for c in system.constraints
    ]
    return System(
        lambda *x: system.lagrangian(*x[:-1], *own(x[-1])), constraints, forces=forces, coordinates=system.coordinates,
        parameters=parameters, time_dependent=system.time_dependent,
    )  # fmt: skip
