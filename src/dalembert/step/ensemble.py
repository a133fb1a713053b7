"""ensemble: one system, many initial states and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.windows import WindowMap
from dalembert.interrupts import Interrupted
from dalembert.lazy import fields_as_left
from dalembert.numbers import MOST_THREADS, described, whole_number
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step.lanes import Lanes, Running
from dalembert.step.options import RunOptions, abridge, lengths_of
from dalembert.step.programs.varying import Varying
from dalembert.step.run.assemble import warn_of_resolution
from dalembert.step.run.branch import Branch
from dalembert.step.run.state import Given, SampledFeedback
from dalembert.step.run.steps import report_progress
from dalembert.step.start.prepare import Starter, batch_size, check_any_system
from dalembert.systems import System, VariationalProblem, check_x64, is_traced
from dalembert.systems.batch import check_batch


def ensemble(
    system: System | DiscreteSystem | VariationalProblem,
    q0=None,
    v0=None,
    *,
    parameters: Mapping[str, Any] | None = None,
    h: float | Varying | None = None,
    steps: int | None = None,
    until: float | None = None,
    t0: float = 0.0,
    nodes=None,
    jets=None,
    multipliers=None,
    scheme: Scheme | WindowMap | None = None,
    starter: Starter = "second_order",
    branch: Branch | None = None,
    save_every: int | None = 1,
    reduce: tuple[Callable, Any] | None = None,
    stop: Callable | None = None,
    domain: Callable | None = None,
    feedback: SampledFeedback | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 25,
    backend: Literal["jax", "native"] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Path:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0,  (q_{k-1},q_k,q_{k+1}) ∈ D_K, for B sets of initial
    data and parameters.

    No error is raised if a step cannot be solved. In the native run each path is the same to the last bit whatever the
    other runs are. Memory: B (steps / save_every + 1) rows; save_every=None keeps only the last states. Arguments are
    numbers; in a traced program take jax.vmap of `simulate`, which is run side by side in the same way.

    Args:
        system: as in `simulate`.
        q0: (B, n) positions, or (n,) for all runs.
        v0: (B, n) velocities, or (n,) for all runs.
        parameters: name → (B, …), in place of the system's values.
        h: time step, the same for all runs; or a Varying, with which each run has its own step lengths.
        steps: N, the number of steps.
        until: the time at which all runs end, as in `simulate`; instead of steps, with a Varying and save_every=None.
        t0: initial time.
        nodes: (B, r, n) or (r, n) for a DiscreteSystem, (B, 2k, n) or (2k, n) for a VariationalProblem.
        jets: (B, 2k, n) or (2k, n) for a VariationalProblem.
        multipliers: (B, r, m) or (r, m) for a VariationalProblem with differential constraints of order r.
        scheme: as in `simulate`.
        starter: as in `simulate`.
        branch: as in `simulate`.
        save_every: as in `simulate`.
        reduce: as in `simulate`.
        stop: as in `simulate`.
        domain: as in `simulate`.
        feedback: as in `simulate`.
        tolerance: as in `simulate`.
        max_iterations: as in `simulate`.
        backend: as in `simulate`.
        threads: number of threads of the native back-end; as many as there are processors if None.
        progress: as in `simulate`, counting the steps of all runs; native back-end only.

    Returns:
        A Path whose arrays have a leading axis of length B and full length in time; after the end of a run its last
        state is repeated. path.code (B,) has the Outcome of each run as Newton's iteration found it, and path.lane(i)
        is the i-th path, up to its end. path.provenance is the record of the whole call; initial data and parameters of
        more than 1000 numbers are recorded by shape only.

    Raises:
        ValueError: an argument has the wrong shape or value; the message names it, and the run if only one is wrong.
        TypeError: an argument is of the wrong type, or traced.
        Interrupted: Ctrl-C ended it; in its path the runs that had not ended have the outcome INTERRUPTED.
        InconsistentDataError: the initial data of a run do not satisfy the constraints.

    Example:
        >>> runs = da.ensemble(pendulum, np.linspace(0.5, 1.5, 4)[:, None], [0.0], h=0.1, steps=20)
        >>> runs.q.shape, runs.lane(3).q.shape
        ((4, 21, 1), (21, 1))
    """
    check_x64()
    options = RunOptions(
        **lengths_of(h, system), steps=steps, until=until, t0=t0, scheme=scheme,
        starter=starter, branch=branch, save_every=save_every, reduce=reduce, stop=stop, domain=domain, feedback=feedback,
        tolerance=tolerance, max_iterations=max_iterations, backend=backend,
    )  # fmt: skip
    if until is not None and (save_every is not None or progress is not False):
        raise ValueError(
            "until, save_every: every run has another number of steps, which nobody knows; give save_every=None, which "
            "keeps the states at the time, and no progress; or steps="
        )
    if threads is not None:
        whole_number(threads, "threads", most=MOST_THREADS)
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters: found {described(parameters)}; give a mapping from names to values (B, …)")
    check_any_system(system)
    if nodes is not None and system.from_state:
        raise ValueError("nodes: an ensemble of a System starts from q0 and v0; one run of the form 'nodes' takes nodes")
    given, axes = check_batch(system, Given(q0, v0, nodes, jets, multipliers)._asdict(), dict(parameters or {}))
    if is_traced(system, given, options.grid.h, options.grid.t0):
        raise TypeError("ensemble: works on numbers and not under jit, vmap or grad; there take jax.vmap of simulate")
    size = batch_size(system, given, axes)
    lanes = Lanes(system, options, given, axes)
    record = options.new_record(system.subject.under(options.scheme, given["parameters"]), **abridge(given))
    with report_progress(progress, size * lanes.steps) as watch:
        runs = lanes.run(given, axes, Running(threads, watch))
    known = {"code": np.asarray(runs.code), "provenance": record}
    path = Path.later(lambda: {**fields_as_left(runs), "provenance": record}, **known)
    if np.any(known["code"] == int(Outcome.INTERRUPTED)):  # the arrays are made when they are looked at
        raise Interrupted(path)
    try:
        warn_of_resolution(path)
    except KeyboardInterrupt:
        raise Interrupted(path) from None
    return path
