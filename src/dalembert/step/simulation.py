"""simulate: from a system and initial data to a path; prepare: the same for many calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme, WindowMap
from dalembert.interrupts import Interrupted
from dalembert.lazy import front_door
from dalembert.messages import suggesting
from dalembert.numbers import as_flag, as_state, check_class, outside
from dalembert.options import Save, Solver, Start, Stop, accept_single_options, check_groups
from dalembert.outcome import Outcome
from dalembert.path import Path, Provenance, StepError
from dalembert.step.options import RunOptions, lengths_of
from dalembert.step.programs.base import StepProgram
from dalembert.step.programs.varying import Varying
from dalembert.step.run.assemble import warn_of_resolution
from dalembert.step.run.driver import ReadyRun, begin_run, run_in_memory, start_run
from dalembert.step.run.state import Given, Prepared, SampledFeedback
from dalembert.step.run.steps import check_progress
from dalembert.systems import System, VariationalProblem, check_system, check_x64


@accept_single_options
@suggesting(
    **{name: f"give steps=round({name} / h)" for name in ("T", "time", "t_end", "tf", "duration")},
    t_span="give t0=, h= and steps=", t="give h= and steps=; t0= is the beginning",
    dt="the step is h=", step="h= is the length of a step, steps= their number", N="their number is steps=",
)  # fmt: skip
def simulate(
    system: System | DiscreteSystem | VariationalProblem,
    q0=None,
    v0=None,
    *,
    h: float | Varying | None = None,
    steps: int | None = None,
    until: float | None = None,
    t0: float = 0.0,
    scheme: Scheme | WindowMap | None = None,
    start: Start | None = None,
    solver: Solver | None = None,
    stop: Stop | Callable | None = None,
    feedback: SampledFeedback | None = None,
    save: Save | None = None,
    throw: bool = True,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """Run a system from an initial state, step by step.

    D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0,  (q_{k-1},q_k,q_{k+1}) ∈ D_K, from (q₀, v₀).

    A step that cannot be solved ends the run. Under jit, vmap and grad the arrays have full length, rows after the end
    of the run repeat its last state, and no error is raised; derivatives follow from the implicit function theorem.

    Args:
        system: a System, a DiscreteSystem, or a VariationalProblem of order k, whose flow is run.
        q0: (n,) positions at t0, consistent with the constraints. Not for a DiscreteSystem.
        v0: (n,) velocities at t0, consistent with the constraints. Not for a DiscreteSystem.
        h: time step, in the unit of time of the Lagrangian; negative for a run backwards in time. For a DiscreteSystem
            it only scales time and multipliers, and is 1 by default. A Varying gives steps whose length follows the
            motion.
        steps: N, the number of steps.
        until: the time at which the run ends; instead of steps, with a Varying. The last node is at this time: the run
            goes to the first node after it, and one step of the scheme leads back.
        t0: initial time.
        scheme: a Scheme, which has difference maps and the form of the step; for a VariationalProblem a window map,
            Interpolated() or Averaged().
        start: a Start: first nodes instead of (q0, v0), and the starter of a two-step form.
        solver: a Solver: tolerance, max_iterations, branch and backend.
        stop: a Stop, or its function `when(q, v[, t][, p])` alone: ends the run after the first step at which it is true.
        feedback: a SampledFeedback, a control force that is sampled and held.
        save: a Save: which states are kept, in memory or in a store, and what is computed of all.
        throw: raise an error if a step cannot be solved; False returns the partial path, and its outcome says why.
        progress: True shows steps, rate and remaining time on a terminal or in a notebook; a function is called as
            function(done, total) from time to time.

    Returns:
        The Path, with t (N+1,), q (N+1, n), v, multipliers and constraint forces, each with its own times, and
        provenance. For a VariationalProblem: if there are differential constraints, multipliers are theirs alone, and
        constraint_forces are NaN, since the forces do not belong to single steps; otherwise they are those of the
        holonomic constraints.

    Raises:
        StepError: a step cannot be solved, and throw is true; it carries the partial path.
        Interrupted: Ctrl-C ended the run, and throw is true; it carries the partial path.
        FileExistsError: the store exists.
        ValueError: an argument has the wrong shape or value; the message names it.
        TypeError: an argument is of the wrong type.
        InconsistentDataError: the initial data do not satisfy the constraints.
        RankDeficientError: constraints or reactions depend on each other, or the mass matrix is degenerate.

    Source: Borda, Fernández, Grillo, eq. (4); the default form is the self-adjoint one of the theory page.

    Example:
        >>> pendulum = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))
        >>> path = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=20)
        >>> path.q.shape, path.outcome.name
        ((21, 1), 'SUCCESS')
    """
    check_x64()
    groups = check_groups("simulate", start=start, solver=solver, stop=stop, save=save)
    options = RunOptions(
        **lengths_of(h, system), steps=steps, until=until, t0=t0, scheme=scheme, feedback=feedback, **groups
    )
    as_flag(throw, "throw")
    given, store = Given.of(getattr(system, "space", None), q0, v0, options.start), options.save.store
    check_progress(progress)
    if until is not None and store is None and progress is not False:
        raise ValueError("progress, until: the number of steps is not known beforehand; give steps=, or no progress")
    if store is None:
        found, _ = run_in_memory(system, given, options, progress)
    else:
        run = begin_run(system, given, options)
        found = front_door("studies.stored_runs.store_run")(run, store, progress), False
    return check_path(*found, throw)


def run_program(
    program: StepProgram,
    q0,
    v0,
    *,
    h: float,
    steps: int,
    t0: float = 0.0,
    solver: Solver | None = None,
    stop: Stop | Callable | None = None,
    save: Save | None = None,
    throw: bool = True,
) -> Path:
    """Run a step of your own.

    Runs a step of your own: F(z; q_k, s_k, t_k, h) = 0, then q_{k+1} = q_k + increment and s_{k+1} = new, from s₀ = v₀.

    For a method whose equations belong to no scheme (docs/extending.md). The state s is a velocity, and the step starts
    from (q₀, v₀) alone. The initial data are not compared with constraints: what F asks for is the program's.

    Args:
        program: a StepProgram, whose `starting_nodes` is 0.
        q0: (n,) positions at t0.
        v0: (n,) velocities at t0, the first state s.
        h: time step, in the unit of time of the Lagrangian; negative for a run backwards in time.
        steps: the number of steps.
        t0: initial time.
        solver: as in `simulate`.
        stop: as in `simulate`.
        save: as in `simulate`.
        throw: raise an error if a step cannot be solved; False returns the partial path, and its outcome says why.

    Returns:
        The Path, as `simulate` gives it.

    Raises:
        StepError: a step cannot be solved, and throw is true; it carries the partial path.
        Interrupted: Ctrl-C ended the run, and throw is true; it carries the partial path.
        ValueError: an argument has the wrong shape or value; the message names it.
        TypeError: an argument is of the wrong type.

    Example:
        >>> class Euler(da.step.StepProgram):  # z = v_{k+1}: symplectic, of L = v²/2 + cos q
        ...     system: da.System
        ...     multiplier_time, levels = 1.0, ("node", "node")
        ...     residual = lambda self, z, q, s, t, h, held_force: z - s + h * jnp.sin(q)
        ...     guess = lambda self, q, s, t, h: s
        ...     scale = lambda self, z, q, s, h: 1.0 + jnp.abs(z)
        ...     advance = lambda self, z, q, s, t, h: (h * z, z)
        ...     output_state = lambda self, z, q, s, h: (q + h * z, z)
        ...     outputs = lambda self, z, q, s, t, h, held_force: da.step.Outputs(jnp.zeros(0), 0.0 * q)
        ...     constraint_point = lambda self, z, q, s, t, h: (q, z, t)
        ...     velocity = lambda self, s: s
        >>> da.step.run_program(Euler(pendulum), [1.0], [0.0], h=0.1, steps=20).q.shape
        (21, 1)
    """
    check_x64()
    check_class(program, StepProgram, "program", "a StepProgram of your own (docs/extending.md)")
    if program.starting_nodes:
        raise ValueError(f"program: found starting_nodes = {program.starting_nodes}; a step is started from (q0, v0) alone")
    groups = check_groups("run_program", solver=solver, stop=stop, save=save)
    as_flag(throw, "throw")
    options = RunOptions(h, steps, t0, **groups)
    q, v = as_state(q0, v0, program.system.coordinates)
    prepared = Prepared(program, nodes=q[None], q=q, s=v, expected=None)
    run = start_run(prepared, options, lambda: options.record_of_program(program, q0=q0, v0=v0))
    return check_path(*run.in_memory(), throw)


def check_path(path: Path, calm: bool, throw: bool) -> Path:
    """The same with the warnings and errors that it is cause for; calm: there are none."""
    if calm:
        return path
    warn_of_resolution(path)
    if throw and Outcome(int(check_interrupted(path).code)).failed:
        raise StepError(path)
    return path


def check_interrupted(path: Path) -> Path:
    """Interrupted where Ctrl-C ended the run: whoever runs with throw=False must not take that for a failure and go on."""
    if int(path.code) == int(Outcome.INTERRUPTED):
        raise Interrupted(path)
    return path


@accept_single_options
def prepare(
    system: System,
    *,
    h: float | Varying,
    scheme: Scheme | None = None,
    start: Start | None = None,
    solver: Solver | None = None,
    stop: Stop | Callable | None = None,
    feedback: SampledFeedback | None = None,
    save: Save | None = None,
) -> PreparedRun:
    """Prepare runs of a system, so that each further one begins at once.

    D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0, as a function of (q₀, v₀) alone.

    For many calls in a loop: the run returns the same as `simulate`, bit for bit, and makes the same checks. In every
    call it checks the variables that the functions of the system read, so that a change of them takes effect. Several
    threads may call it at once. The first call compiles the machine code.

    Args:
        system: a System.
        h: time step, in the unit of time of the Lagrangian, or a Varying, as in `simulate`.
        scheme: as in `simulate`.
        start: as in `simulate`; the starter alone, as data are given in every call.
        solver: as in `simulate`.
        stop: as in `simulate`.
        feedback: as in `simulate`.
        save: as in `simulate`, in memory alone and without `reduce`.

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
    groups = check_groups("prepare", start=start, solver=solver, stop=stop, save=save)
    return PreparedRun(system, RunOptions(**lengths_of(h), steps=1, scheme=scheme, feedback=feedback, **groups))


class PreparedRun:
    """A run that is prepared, as a function of the initial state.

    (q₀, v₀, N) → the path of N steps: what `prepare` returns.

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
        self._ready: tuple[ReadyRun, RunOptions] | None = None  # of the last call

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
        found = self._at_once(q0, v0, steps, t0)
        if found is None:  # in the ordinary way, with every check; what it finds is kept
            options, given = self._options.with_times(steps, t0), Given.of(self._system.space, q0, v0, Start())
            found, ready = run_in_memory(self._system, given, options)
            self._ready = self._ready if ready is None else (ready, options)
        return check_path(*found, throw)

    def _at_once(self, q0: Any, v0: Any, steps: int, t0: Any) -> tuple[Path, bool] | None:
        """The path, and true if it is calm; None unless nothing but the numbers can have changed since the last call."""
        ready = self._ready
        if ready is None or not (outside() and ready[0].lasts):
            return None
        run, options = ready
        if not (_is_vector(q0, run.n) and _is_vector(v0, run.n) and type(steps) is int and type(t0) is float):
            return None
        if steps != options.steps or t0 != options.t0:
            options = self._options.with_times(steps, t0)
            self._ready = run, options
        q, v = q0.copy(), v0.copy()

        def record() -> Provenance:
            return options.record(run.words, self._system.subject.under(options.scheme), q0=q, v0=v)

        return run.path(q, v, options, record)

    def __repr__(self) -> str:
        return f"PreparedRun(h={self._options.h}, scheme={self._options.scheme})"


def _is_vector(x: Any, n: int) -> bool:
    """True for a NumPy array of n doubles; the machine code sees whether they are finite."""
    return type(x) is np.ndarray and x.dtype == np.float64 and x.shape == (n,)
