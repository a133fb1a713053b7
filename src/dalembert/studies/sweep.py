"""sweep: runs or solutions that have names, over the product of swept values or over rows of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from dalembert.boundary import Free, Nodes
from dalembert.boundary.solve import check_seek, settings, with_method
from dalembert.control import Lobatto, OptimalControl
from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.windows import WindowMap
from dalembert.numbers import as_choice, as_flag, as_function, as_numbers, described, whole_number
from dalembert.path import Study
from dalembert.step import Branch, SampledFeedback, Varying
from dalembert.step.options import RunOptions, lengths_of
from dalembert.step.start.prepare import Starter, check_any_system
from dalembert.studies.blockwise.blocks import runs_of_block
from dalembert.studies.blockwise.runs import runs_job
from dalembert.studies.blockwise.solutions import SolutionsJob, SolveOptions, solutions_of_block
from dalembert.studies.blockwise.swept import Swept
from dalembert.studies.blockwise.swept_arguments import ARGUMENTS, SweptProblem
from dalembert.studies.dealing import Dealing
from dalembert.studies.in_memory import SweepSize, at_once, check_memory, coordinates_of
from dalembert.systems import System, VariationalProblem, check_x64


def sweep(
    system: System | DiscreteSystem | VariationalProblem | OptimalControl,
    values: Mapping[str, Any],
    *,
    combine: Literal["product", "zip"] = "product",
    q0=None,
    v0=None,
    h: float | Varying | None = None,
    steps: int | None = None,
    until: float | None = None,
    t0: float = 0.0,
    nodes=None,
    jets=None,
    multipliers=None,
    initial: Sequence | Nodes | None = None,
    final: Sequence | Nodes | None = None,
    through: Mapping[float, Any] | None = None,
    T: float | Free | None = None,
    times=None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    guess=None,
    scales=None,
    scheme: Scheme | WindowMap | Lobatto | None = None,
    starter: Starter = "second_order",
    branch: Branch | None = None,
    save_every: int | None = 1,
    reduce: tuple[Callable, Any] | Callable[[Any], Any] | None = None,
    stop: Callable | None = None,
    domain: Callable | None = None,
    feedback: SampledFeedback | None = None,
    tolerance: float = 1e-9,
    max_iterations: int | None = None,
    seek: Literal["minimum", "extremal"] = "minimum",
    method: Literal["dalembert", "ipopt"] = "dalembert",
    certify: bool = True,
    backend: Literal["jax", "native"] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int], None] = False,
    store: str | os.PathLike | None = None,
    over_runs: tuple[Callable, Callable] | None = None,
    block: int | None = None,
    client: Any = None,
) -> Study | Any:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0 for every combination of the swept values; or Σⱼ Dⱼ
    L̃_d = 0 and Φ_d = 0 between ends, as in `solve`.

    The runs are those of `ensemble`, the solutions those of `solve`. A run that fails has its outcome in the study, and
    raises no error. An OptimalControl is solved; a VariationalProblem is solved if anything at its ends is given or
    swept, otherwise its flow is run.

    Args:
        system: a system as in `simulate`, or a problem as in `solve`.
        values: name → values (K,), or (K, …) for arrays. Names are those of parameters, and "q0", "v0", "nodes",
            "jets", "multipliers". For a problem that is solved: parameters; "T"; one number at an end, "final.x" or
            "final.v.x"; bounds, "bounds.u", with values (K,) for |u| ≤ value or (K, 2); or "initial", "final",
            "through", "bounds" as a whole, a list of what `solve` takes.
        combine: "product": each name is an axis; "zip": the i-th run has the i-th value of every name.
        q0: positions of all runs, if they are not swept.
        v0: velocities of all runs, if they are not swept.
        h: time step, the same for all runs; or a Varying, with which each run has its own step lengths.
        steps: N, the number of steps.
        until: the time at which all runs end, as in `ensemble`; instead of steps, with a Varying and save_every=None. The
            study then has the first and the last states, and multipliers, whose times differ, as last_multipliers.
        t0: initial time.
        nodes: for a DiscreteSystem or a VariationalProblem, if they are not swept.
        jets: for a VariationalProblem, if they are not swept.
        multipliers: for a VariationalProblem with differential constraints, if they are not swept.
        initial: as in `solve`, for all problems; single numbers in it may be swept.
        final: as in `solve`, for all problems; single numbers in it may be swept.
        through: as in `solve`, for all problems.
        T: as in `solve`, if it is not swept.
        times: as in `solve`.
        bounds: as in `solve`, for all problems; single bounds in it may be swept.
        inequalities: as in `solve`.
        guess: as in `solve`, the same for all problems.
        scales: as in `solve`.
        scheme: as in `simulate` or in `solve`.
        starter: as in `simulate`.
        branch: as in `simulate`.
        save_every: as in `simulate`; None keeps only the last states, for many runs with `reduce`.
        reduce: as in `simulate`; for solutions, a function of one solution that returns numbers, or a dict, list or
            tuple of them. In study.reduced the axes of the study come first.
        stop: as in `simulate`.
        domain: as in `simulate`.
        feedback: as in `simulate`.
        tolerance: as in `simulate` or in `solve`.
        max_iterations: as in `simulate` or in `solve`; None takes the default there.
        seek: as in `solve`.
        method: as in `solve`.
        certify: as in `solve`.
        backend: as in `simulate`.
        threads: as in `ensemble`; for problems, how many are solved at once; as many as there are processors if None.
        progress: as in `ensemble`; for problems that are solved it counts the problems.
        store: a folder, study.zarr, into which the runs are written block by block. If it exists, the same call
            continues the sweep: it reads the blocks that are there and computes those that are missing.
        over_runs: a pair (of, merge) that summarises the runs instead of keeping them: of(study) → value of a block of
            runs, merge(value, value) → value. `run_statistics` returns such a pair. The result does not depend on the
            order in which blocks are computed, to the last bit.
        block: the largest number of runs that are computed at once, with store, over_runs or client; chosen by their
            size if None.
        client: a dask.distributed.Client whose workers compute the blocks, each with one thread if threads is None. The
            workers must see the store under the same name.

    Returns:
        A Study: study.sel(m=2.0), study.outcomes, study.data, da.plot(study), da.save(study, "study.nc"). With over_runs the
        merged value of all runs; a store then keeps the values of the blocks.

    Raises:
        ValueError: an argument has the wrong shape or value, a name is unknown, the states do not fit into memory, or the
            sweep in the store is another one.
        TypeError: an argument is of the wrong type, or traced.
        Interrupted: Ctrl-C ended it; its path is the Study, or the value of over_runs, up to then.
        FileError: the store is damaged, or does not hold a study.
        BlockingIOError: another process is writing the store.
        OSError: the store cannot be written.
        ConnectionError: the scheduler of the client is gone.
        InconsistentDataError: the initial data of a run do not satisfy the constraints; or the given data contradict
            each other in all problems.
        RankDeficientError: in all problems the constraints depend on each other.

    Example:
        >>> study = da.sweep(pendulum, {"q0": [0.5, 1.0, 1.5], "v0": [0.0, 1.0]}, h=0.1, steps=20)
        >>> study.data.q.dims, study.sel(q0=1.0, v0=0.0).q.shape
        (('q0', 'v0', 'node', 'coordinate'), (21, 1))
        >>> beam = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
        >>> ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}
        >>> bent = da.sweep(beam, {"T": [1.0, 2.0], "final.0": [0.5, 1.0]}, **ends, steps=10)
        >>> bent.data.action.dims, bool(abs(bent.data.action[1, 1] - 6 / 2**3) < 0.02)  # 6 x²/T³
        (('T', 'final_0'), True)
    """
    as_choice(combine, "combine", ("product", "zip"), "ways to combine values")
    dealing = Dealing.of(store, over_runs, block, client, threads, progress)
    ends = {"initial": initial, "final": final, "through": through, "T": T, "bounds": bounds}
    fixed = {"q0": q0, "v0": v0, "nodes": nodes, "jets": jets, "multipliers": multipliers}
    of_runs = {
        "h": h, "until": until, "t0": t0, "starter": starter, "branch": branch, "save_every": save_every, "stop": stop,
        "domain": domain, "feedback": feedback, "backend": backend,
    }  # fmt: skip
    of_solutions = {
        "times": times, "inequalities": inequalities, "guess": guess, "scales": scales, "seek": seek, "method": method,
        "certify": certify,
    }  # fmt: skip
    both: dict[str, Any] = {"steps": steps, "scheme": scheme, "reduce": reduce, "tolerance": tolerance}
    if _is_between_ends(system, values, ends | {"times": times, "inequalities": inequalities}):
        _refuse(fixed | of_runs, "is for runs from initial data; a problem between ends has none")
        both["max_iterations"] = 200 if max_iterations is None else max_iterations
        return _solutions(SweptProblem.of(_problem(system), values, ends, combine), both | of_solutions, dealing)
    _refuse(of_solutions, "is for problems between ends; a run from initial data has none")
    check_any_system(system)
    both["max_iterations"] = 25 if max_iterations is None else max_iterations
    return _runs(system, Swept.of(system, values, fixed, combine), both | of_runs, dealing)


_LEFT_OUT: dict[str, Any] = {"t0": 0.0, "starter": "second_order", "save_every": 1, "seek": "minimum", "method": "dalembert",
                             "certify": True}  # fmt: skip


def _is_between_ends(system: Any, values: Any, given: Mapping[str, Any]) -> bool:
    """Whether what is given and swept is that of a boundary problem: a VariationalProblem is solved, or runs."""
    if isinstance(system, OptimalControl) or any(x is not None for x in given.values()):
        return True
    names = {str(name).split(".")[0] for name in values} if isinstance(values, Mapping) else set()
    own = getattr(system, "parameters", None)
    return bool(names & {*ARGUMENTS} - {*(own if isinstance(own, Mapping) else ())})


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """ValueError for an argument that is not left out."""
    for name, x in given.items():
        default = _LEFT_OUT.get(name)
        if x is not default and not (type(x) in (int, float, str) and not isinstance(default, bool) and x == default):
            raise ValueError(f"{name}: {why}; leave it out")


def _problem(system: Any) -> Any:
    if not isinstance(system, VariationalProblem | OptimalControl):
        raise TypeError(
            f"system: found {described(system)} together with data at the ends; give a VariationalProblem or an "
            "OptimalControl, or initial data alone"
        )
    return system


def _runs(system: Any, swept: Swept, options: dict[str, Any], dealing: Dealing) -> Any:
    """From initial data."""
    if isinstance(options["h"], Varying):
        steps, rows = _expected_steps(options, dealing), 2
    else:
        steps, save_every = whole_number(options["steps"], "steps"), options["save_every"]
        rows = math.ceil(steps / (steps if save_every is None else whole_number(save_every, "save_every"))) + 1
    size = SweepSize(swept.shape, rows, coordinates_of(system, swept))
    if dealing.in_memory:
        size.check()
        if dealing.client is None:
            return at_once(system, swept, options | {"threads": dealing.threads, "progress": dealing.progress})
    blocks = dealing.blocks(swept.shape, runs_of_block(size.numbers, steps))
    return dealing.study(runs_job(system, swept, options, blocks, dealing.of_a_block))


def _expected_steps(options: dict[str, Any], dealing: Dealing) -> int:
    """About how many a run has that ends at a time; ValueError where the runs of a study would have no common times."""
    if options["until"] is None or options["save_every"] is not None:
        raise ValueError(
            "h, until, save_every: with Varying every run has nodes at times of its own, and the runs of a study have "
            "common ones; give until= and save_every=None, which keeps the states at the beginning and at that time"
        )
    if dealing.progress is not False:
        raise ValueError("progress, until: the number of steps is not known beforehand; give no progress")
    RunOptions(**lengths_of(options["h"]), steps=options["steps"], until=options["until"], t0=options["t0"])
    return math.ceil((options["until"] - options["t0"]) / options["h"].first)


def _solutions(problem: SweptProblem, options: dict[str, Any], dealing: Dealing) -> Any:
    """Between ends."""
    check_x64()
    how = with_method(
        settings(*(options.pop(name) for name in ("tolerance", "max_iterations", "seek"))), options.pop("method")
    )
    bounds = problem.arguments["bounds"]
    bounded = bounds if bounds is not None else "bounds" in {place.argument for place in problem.places.values()} or None
    check_seek(how, bounded, options["inequalities"])
    as_flag(options["certify"], "certify")
    if options["reduce"] is not None:
        as_function(options["reduce"], "reduce", "of a solution that returns numbers")
    times = options["times"]
    steps = whole_number(options["steps"], "steps") if times is None else max(1, as_numbers(times, "times").size - 1)
    n = len(problem.problem.coordinates or ()) or 1
    blocks = dealing.blocks(problem.swept.shape, solutions_of_block(steps, n))
    job = SolutionsJob(problem, SolveOptions(settings=how, **options), blocks, dealing.of_a_block)
    if dealing.in_memory:
        check_memory(job.opening().template.nbytes, math.prod(problem.swept.shape.values()))
    return dealing.study(job)
