"""mpc: a controller that solves the problem again from every measured state, over the same time from now on."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from dalembert.boundary import solve
from dalembert.boundary.data.boundary_data import TimeGrid
from dalembert.boundary.prepare import Request
from dalembert.boundary.solve import Asked, settings
from dalembert.control.ends import read_partly, size_of_end
from dalembert.control.problem import OptimalControl
from dalembert.control.solve import prepare_control
from dalembert.discretize import Scheme
from dalembert.numbers import as_positive, described, whole_number
from dalembert.outcome import Outcome
from dalembert.solution import ControlSolution, SolveError


class Replanned(NamedTuple):
    """One call of a predictive controller.

    Attributes:
        t: its time.
        outcome: how the solution ended; where not with SUCCESS the last plan went on.
        message: what was wrong, in words; empty where nothing was.
        iterations: of Newton's method.
        seconds: wall clock time of the solution.
        cost: of the new plan, NaN where there is none.

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


class PredictiveController:
    """u(t, q, v) = the control at t of min ∫_t^{t+T} C dt' + Φ from (q, v): what `mpc` returns.

    It keeps its last plan: the guess of the next one, shifted by the time between, and what goes on where there is no next
    one. A new one begins with `mpc` again.

    Attributes:
        problem: the OptimalControl, with the plant as the controller believes it to be.
        plan: the last plan, a ControlSolution from 0 to T; None before the first.
        begun: the time at which the plan begins.
        records: of every call a Replanned.
        arguments: what `solve` is given each time.
        guess: what it is given for the first plan.

    Example:
        >>> controller(0.0, [0.1], [0.0]).shape
        (1,)
    """

    def __init__(self, problem: OptimalControl, arguments: dict[str, Any], guess: Any):
        self.problem, self.arguments, self.guess = problem, arguments, guess
        self.plan: ControlSolution | None = None
        self.begun, self.records = 0.0, list[Replanned]()

    def __call__(self, t: float, q: Float[Array | np.ndarray, "n"], v: Float[Array | np.ndarray, "n"]) -> np.ndarray:
        """The control (r,) at a time, from the state measured then."""
        return self.control(float(t), np.asarray(q, dtype=float), np.asarray(v, dtype=float), 0.0)

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        """As `closed_loop` asks: a new plan from the state at t, and its control at t + ahead."""
        self._plan(t, q, v)
        assert self.plan is not None
        return np.array([np.interp(t + ahead - self.begun, self.plan.t, column) for column in self.plan.u.T])

    def _plan(self, t: float, q: np.ndarray, v: np.ndarray) -> None:
        begun = time.perf_counter()
        found, outcome, message = None, Outcome.INFEASIBLE, ""
        try:
            found = solve(self.problem, initial=(q, v), **self.arguments, guess=self._guess(t), certify=False, throw=False)
            outcome = found.outcome
            message = "" if outcome is Outcome.SUCCESS else found.messages.get(outcome, outcome.message)
        except ValueError as error:  # the first call has found the arguments right: what is wrong is the measured state
            if self.plan is None:
                raise
            message = str(error)
        seconds = time.perf_counter() - begun
        good = found is not None and outcome is Outcome.SUCCESS
        iterations = int(found.statistics.iterations) if found is not None else 0
        self.records.append(
            Replanned(t, outcome, message, iterations, seconds, float(found.cost) if found is not None and good else np.nan)
        )
        if found is not None and good:
            self.plan, self.begun = found, t
        elif self.plan is None and found is not None:
            raise SolveError(found)

    def _guess(self, t: float) -> Any:
        """The last plan, seen from now."""
        if self.plan is None:
            return self.guess
        return dataclasses.replace(self.plan, t=self.plan.t - (t - self.begun))


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
    """min ∫_t^{t+T} C dt' + Φ from the measured (q, v), at every sample again: model predictive control.

    Every solution begins from the last one, shifted. Where a problem is not solved the last plan goes on, and the records say
    so; the first one has to be solved.

    Args:
        problem: the OptimalControl, of the plant as it is believed to be.
        T: how far the controller looks ahead.
        steps: of a plan.
        final: what is given at the end of every plan, as in `solve`; None leaves it to a terminal cost.
        bounds: as in `solve`; every control is inside.
        guess: for the first plan, as in `solve`.
        scheme: the Scheme of the plant.
        tolerance: as in `solve`.
        max_iterations: of one solution.

    Returns:
        The controller, for `closed_loop`, or to be called as u(t, q, v) in a loop of one's own.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument has the wrong shape or value; the message names it.

    Example:
        >>> controller = da.mpc(move, final=([1.0], [0.0]), T=1.0, steps=20)
        >>> run = da.closed_loop(move.system, controller, [0.0], [0.0], h=0.01, steps=20, every=5)
        >>> [record.outcome.name for record in controller.records]
        ['SUCCESS', 'SUCCESS', 'SUCCESS', 'SUCCESS']
    """
    if not isinstance(problem, OptimalControl):
        raise TypeError(f"problem: found {described(problem)}; give an OptimalControl")
    checked, length = settings(tolerance, max_iterations, "minimum"), as_positive(T, "T")
    grid = TimeGrid(length, whole_number(steps, "steps", 2), None)
    _check(problem, Asked(Request(None, final, None, guess), grid, scheme, None, checked, False, bounds))
    arguments = {
        "final": final, "T": length, "steps": steps, "bounds": bounds, "scheme": scheme,
        "tolerance": tolerance, "max_iterations": max_iterations,
    }  # fmt: skip
    return PredictiveController(problem, arguments, guess)


def _check(problem: OptimalControl, asked: Asked) -> None:
    """As `solve` will, without a state; where nothing tells the number of coordinates that is left to the first call."""
    final, guess = asked.request.final, asked.request.guess
    if problem.coordinates is not None or guess is not None or size_of_end(final, "final"):
        prepare_control(problem, asked)
    elif final is not None and not (isinstance(final, list | tuple) and any(isinstance(x, Mapping) for x in final)):
        read_partly(final, "final", 1, None)
