"""A run prepared for many calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from dalembert.discretize import Scheme
from dalembert.lazy import as_left
from dalembert.numbers import as_flag, outside
from dalembert.path import Path, Provenance
from dalembert.step.known_run import WatchedRun, known_path
from dalembert.step.options import RunOptions, lengths_of
from dalembert.step.run.branch import Branch
from dalembert.step.run.ready import Told
from dalembert.step.run.resolution import warn_of_resolution
from dalembert.step.run.state import SampledFeedback
from dalembert.step.simulate import found_path, run_begun, solved
from dalembert.step.start.prepared import Given
from dalembert.step.start.second_node import Starter
from dalembert.step.start.varying import Varying
from dalembert.systems import System, check_x64
from dalembert.systems.system import check_system


def prepare(
    system: System,
    *,
    h: float | Varying,
    scheme: Scheme | None = None,
    starter: Starter = "second_order",
    branch: Branch | None = None,
    save_every: int | None = 1,
    stop: Callable | None = None,
    domain: Callable | None = None,
    feedback: SampledFeedback | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 25,
    backend: Literal["jax", "native"] | None = None,
) -> PreparedRun:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0, as a function of (q₀, v₀) alone.

    For many calls in a loop: the run returns the same as `simulate`, bit for bit, and makes the same checks. In every
    call it checks the variables that the functions of the system read, so that a change of them takes effect. Several
    threads may call it at once. The first call compiles the machine code.

    Args:
        system: a System.
        h: time step, in the unit of time of the Lagrangian, or a Varying, as in `simulate`.
        scheme: as in `simulate`.
        starter: as in `simulate`.
        branch: as in `simulate`.
        save_every: as in `simulate`.
        stop: as in `simulate`.
        domain: as in `simulate`.
        feedback: as in `simulate`.
        tolerance: as in `simulate`.
        max_iterations: as in `simulate`.
        backend: as in `simulate`.

    Returns:
        A PreparedRun: `run(q0, v0, steps)` returns the Path.

    Raises:
        ValueError: an argument has the wrong value; the message names it.
        TypeError: an argument is of the wrong type.

    Example:
        >>> run = da.prepare(pendulum, h=0.1)
        >>> ends = [float(run([angle], [0.0], 20).q[-1, 0]) for angle in (0.5, 1.0)]
        >>> ends[1] == float(da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=20).q[-1, 0])
        True
    """
    check_x64()
    check_system(system)
    options = RunOptions(
        **lengths_of(h), steps=1, scheme=scheme, starter=starter, branch=branch, save_every=save_every, stop=stop,
        domain=domain, feedback=feedback, tolerance=tolerance, max_iterations=max_iterations, backend=backend,
    )  # fmt: skip
    return PreparedRun(system, options)


class PreparedRun:
    """(q₀, v₀, N) → the path of N steps: what `prepare` returns.

    Attributes:
        system: the System.
        options: the options that all its runs share.

    Example:
        >>> run = da.prepare(pendulum, h=0.1)
        >>> run([1.0], [0.0], 20).steps
        20
    """

    def __init__(self, system: System, options: RunOptions):
        self._system, self._options = system, options
        self._ready: Ready | None = None

    @property
    def system(self) -> System:
        return self._system

    @property
    def options(self) -> RunOptions:
        return self._options

    def __call__(self, q0: Any, v0: Any, steps: int, *, t0: float = 0.0, throw: bool = True) -> Path:
        """The path that `simulate` returns for these initial data.

        Args:
            q0: (n,) positions at t0, consistent with the constraints.
            v0: (n,) velocities at t0, consistent with the constraints.
            steps: N, the number of steps.
            t0: initial time.
            throw: raise an error if a step cannot be solved; False returns the partial path, and its outcome says why.

        Returns:
            The Path.

        Raises:
            StepError: as `simulate`; so are all other errors.
        """
        check_x64()
        as_flag(throw, "throw")
        path, calm = self._at_once(q0, v0, steps, t0) or self._looked_for(Given(q0, v0), steps, t0)
        if calm or as_left(path, "provenance") is None:  # traced
            return path
        warn_of_resolution(path)
        return solved(path) if throw else path

    def _at_once(self, q0: Any, v0: Any, steps: int, t0: Any) -> tuple[Path, bool] | None:
        """Where nothing but the numbers can have changed since the last call: the path, and whether it is calm."""
        ready = self._ready
        if ready is None or not (outside() and ready.found.lasts):
            return None
        n = ready.found.n
        if not (_is_vector(q0, n) and _is_vector(v0, n) and type(steps) is int and type(t0) is float):
            return None
        options = ready.options
        if steps != options.steps or t0 != options.t0:
            options = self._options.at(steps, t0)
            ready = self._ready = Ready.of(ready.found, options)
        q, v = q0.copy(), v0.copy()
        run = ready.found.run

        def record() -> Provenance:
            return options.record(run.bound.words, self._system.subject.under(options.scheme), q0=q, v0=v)

        return run.path(q, v, ready.told, options, record)

    def _looked_for(self, given: Given, steps: int, t0: Any) -> tuple[Path, bool]:
        """In the ordinary way, with every check; what it finds is kept."""
        options = self._options.at(steps, t0)
        known = known_path(self._system, given, options)
        if known is None:
            return found_path(run_begun(self._system, given, options)), False
        self._ready = Ready.of(known.run, options)
        return known.path, known.calm

    def __repr__(self) -> str:
        return f"PreparedRun(h={self._options.h}, scheme={self._options.scheme})"


class Ready(NamedTuple):
    """A run that was made, and what it is told for one number of steps and one beginning."""

    found: WatchedRun
    options: RunOptions
    told: Told

    @classmethod
    def of(cls, found: WatchedRun, options: RunOptions) -> Ready:
        return cls(found, options, found.run.told(options))


def _is_vector(x: Any, n: int) -> bool:
    """Whether it is an array of n doubles, of NumPy; whether they are finite the machine code sees."""
    return type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (n,)
