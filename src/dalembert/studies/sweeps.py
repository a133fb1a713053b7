"""sweep: runs or solutions that have names, over the product of swept values or over rows of them."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Literal

from dalembert.boundary import Asked, Request, TimeGrid, check_seek, settings
from dalembert.control import OptimalControl
from dalembert.discretize import DiscreteSystem
from dalembert.messages import accept_moved, warn
from dalembert.numbers import MOST_THREADS, as_choice, as_flag, as_function, as_numbers, check_class, described, whole_number
from dalembert.options import PLACES, Solver, Start, advise_groups, check_groups, group_options
from dalembert.path import Study
from dalembert.step import PreparedRun
from dalembert.step.options import RunOptions, lengths_of
from dalembert.step.run.state import Given
from dalembert.step.start.prepare import check_any_system
from dalembert.studies.job import RunsJob, SolutionsJob, SweepJob, compute_here, workers_of
from dalembert.studies.results import as_over_runs, gather_study, merge_values, store_study
from dalembert.studies.swept import ARGUMENTS, DATA, Swept, SweptProblem
from dalembert.systems import System, VariationalProblem, check_x64, refuse_traced

RUNS = "a sweep of runs"
CALL = ("steps", "until", "t0")  # what a prepared run has not
RUN = (*CALL, "h", "scheme", "start", "solver", "stop", "feedback", "save")
SOLVE = ("steps", "times", "scheme", "guess", "inequalities", "solver", "seek", "certify")
SOLVE_DEFAULTS = {"seek": "minimum", "certify": True}
# Arguments whose default is a value: None is wrong there.
OWN_NONE = {"t0", *SOLVE_DEFAULTS}
SINGLE = {name: place for name, place in PLACES.items() if name not in ("reduce", "store", "threads")}
OF_RUNS, OF_PROBLEMS = frozenset({"q0", "v0", *RUN}), frozenset({*ARGUMENTS, *SOLVE})
MOVED = OF_RUNS | OF_PROBLEMS | SINGLE.keys()  # that were arguments of a sweep

COPIES = 3  # of all states, for a moment
BESIDE = 100  # numbers of each run besides, for a moment: a million runs that keep nothing took 1 GiB
NUMBERS = 2**22  # of the states of a block, about: 32 MiB
STEPS = 2**27  # of all runs of a block together, about: seconds
FEWEST, MOST = 64, 2**16  # runs of a block, unless asked for otherwise: lanes and threads want some
MOST_PROBLEMS, UNKNOWNS = 64, 2**18  # problems of a block, and steps · n² of them together


def _advise_fixed(given: dict[str, Any]) -> str:
    return f"give fixed={{{', '.join(f'{name!r}: …' for name in given if name in MOVED)}}}"


def _move_into_fixed(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a sweep, with those of `simulate` and `solve` in `fixed`."""
    own, moved = ({name: x for name, x in given.items() if (name in MOVED) == there} for there in (False, True))
    return own | {"fixed": {**(given.get("fixed") or {}), **moved}}


@accept_moved(MOVED, _advise_fixed, _move_into_fixed)
def sweep(
    system: System | DiscreteSystem | VariationalProblem | OptimalControl | PreparedRun,
    values: Mapping[str, Any],
    fixed: Mapping[str, Any] | None = None,
    *,
    combine: Literal["product", "zip"] = "product",
    reduce: tuple[Callable, Any] | Callable[[Any], Any] | None = None,
    store: str | os.PathLike | None = None,
    over_runs: tuple[Callable, Callable] | None = None,
    block: int | None = None,
    threads: int | None = None,
    client: Any = None,
    progress: bool | Callable[[int, int], None] = False,
) -> Study | Any:
    """Run or solve for every combination of values.

    D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0 for every combination of the swept values; or Σⱼ Dⱼ
    L̃_d = 0 and Φ_d = 0 between ends, as in `solve`.

    The runs are those of `ensemble`, the solutions those of `solve`. A run that fails has its outcome in the study, and
    raises no error. An OptimalControl is solved; a VariationalProblem is solved if anything at its ends is fixed or
    swept, otherwise its flow is run.

    Args:
        system: a system as in `simulate`, what `prepare` returns, or a problem as in `solve`.
        values: name → values (K,), or (K, …) for arrays. Names are those of parameters, and "q0", "v0", "nodes",
            "jets", "multipliers". For a problem that is solved: parameters; "T"; one number at an end, "final.x" or
            "final.v.x"; bounds, "bounds.u", with values (K,) for |u| ≤ value or (K, 2); or "initial", "final",
            "through", "bounds" as a whole, a list of what `solve` takes.
        fixed: name → the argument of `simulate`, or of `solve`, that is the same for all, such as {"q0": [1.0], "h":
            0.1, "steps": 20}; of a prepared run initial data, steps, until and t0. Single numbers in initial, final and
            bounds may be swept. save=Save(every=None) keeps only the last states, for many runs with `reduce`. With a
            Varying as h, give until and save=Save(every=None): the study then has the first and the last states, and
            multipliers, whose times differ, as last_multipliers.
        combine: "product": each name is an axis; "zip": the i-th run has the i-th value of every name.
        reduce: as in `simulate`; for solutions, a function of one solution that returns numbers, or a dict, list or
            tuple of them. In study.reduced the axes of the study come first.
        store: a folder, study.zarr, into which the runs are written block by block. If it exists, the same call
            continues the sweep: it reads the blocks that are there and computes those that are missing.
        over_runs: a pair (of, merge) that summarises the runs instead of keeping them: of(study) → value of a block of
            runs, merge(value, value) → value. `run_statistics` returns such a pair. The result does not depend on the
            order in which blocks are computed, to the last bit.
        block: the largest number of runs that are computed at once, with store, over_runs or client; chosen by their
            size if None.
        threads: number of threads; for problems, how many are solved at once; as many as there are processors if None.
        client: a dask.distributed.Client whose workers compute the blocks, each with one thread if threads is None. The
            workers must see the store under the same name.
        progress: as in `ensemble`; for problems that are solved it counts the problems.

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
        >>> study = da.sweep(da.prepare(pendulum, h=0.1), {"q0": [0.5, 1.0, 1.5], "v0": [0.0, 1.0]}, {"steps": 20})
        >>> study.data.q.dims, study.sel(q0=1.0, v0=0.0).q.shape
        (('q0', 'v0', 'time', 'coordinate'), (21, 1))
        >>> beam = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
        >>> ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "steps": 10}
        >>> bent = da.sweep(beam, {"T": [1.0, 2.0], "final.0": [0.5, 1.0]}, ends)
        >>> bent.data.action.dims, bool(abs(bent.data.action[1, 1] - 6 / 2**3) < 0.02)  # 6 x²/T³
        (('T', 'final_0'), True)
    """
    as_choice(combine, "combine", ("product", "zip"), "ways to combine values")
    if block is not None:
        whole_number(block, "block")
    if threads is not None:
        whole_number(threads, "threads", most=MOST_THREADS)
    workers = compute_here if client is None else workers_of(client)
    pair = None if over_runs is None else as_over_runs(over_runs)
    threads = 1 if client is not None and threads is None else threads  # blocks of a cluster have workers of their own
    in_memory = store is None and pair is None
    common: dict[str, Any] = {
        "combine": combine,
        "reduce": reduce,
        "block": block,
        "threads": threads,
        "in_memory": in_memory,
    }
    given = _check_fixed(fixed)
    if _is_between_ends(system, values, given):
        job = _solutions_job(system, values, given, **common)
    else:
        job = _runs_job(system, values, given, **common, here=client is None, progress=progress)
    if pair is not None:
        return merge_values(job, pair, store, workers, progress)
    if store is not None:
        return store_study(job, store, workers, progress)
    return gather_study(job, workers, progress)


def _check_fixed(fixed: Any) -> dict[str, Any]:
    """Those that are given; TypeError for a name that is no argument."""
    check_class(fixed, Mapping | None, "fixed", "a mapping from arguments to their values, such as {'h': 0.1}")
    if fixed and not SINGLE.keys().isdisjoint(fixed):
        warn(f"sweep, fixed: {advise_groups(fixed, SINGLE)}", DeprecationWarning)
        fixed = group_options(fixed, SINGLE)
    for name in fixed or ():
        if name not in (names := OF_RUNS | OF_PROBLEMS):
            near = difflib.get_close_matches(str(name), names, 1)
            known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(names))}"
            raise TypeError(f"fixed[{name!r}]: is no argument of simulate or solve that is the same for all; {known}")
    return {name: x for name, x in (fixed or {}).items() if x is not None or name in OWN_NONE}


def _is_between_ends(system: Any, values: Any, given: Mapping[str, Any]) -> bool:
    """True where a boundary problem is given and swept: a VariationalProblem is solved, or runs."""
    if isinstance(system, OptimalControl) or given.keys() & {*ARGUMENTS, "times", "inequalities"}:
        return True
    names = {str(name).split(".")[0] for name in values} if isinstance(values, Mapping) else set()
    own = getattr(system, "parameters", None)
    return bool(names & {*ARGUMENTS} - {*(own if isinstance(own, Mapping) else ())})


def _refuse(given: Sequence[str], allowed: Set[str], why: str) -> None:
    """ValueError for the first argument that does not belong here."""
    for name in given:
        if name not in allowed:
            raise ValueError(f"{name}: {why}; leave it out")


def _runs_job(
    system: Any, values: Any, given: dict[str, Any], *, combine: str, reduce: Any, block: int | None, threads: int | None,
    in_memory: bool, here: bool, progress: Any,
) -> SweepJob:  # fmt: skip
    """Runs from initial data. in_memory: whether all of it is to be in memory in the end; here: whether this process
    computes it."""
    _refuse([*given], OF_RUNS, "is for problems between ends; a run from initial data has none")
    prepared = system if isinstance(system, PreparedRun) else None
    system = system if prepared is None else prepared.system
    check_any_system(system)
    start = Start.of(given.pop("start", None), RUNS)
    data = Given.of(system.space, given.pop("q0", None), given.pop("v0", None), start)._asdict()
    if data["nodes"] is not None and system.from_state:
        raise ValueError("nodes: a sweep of a System starts from q0 and v0; one run of the form 'nodes' takes nodes")
    swept = Swept.of_runs(system, values, data, combine)
    check_x64()
    given = {"steps": None, **given}
    if prepared is None:
        groups = check_groups(RUNS, **{name: given.pop(name, None) for name in ("solver", "stop", "save")})
        options = RunOptions(
            **lengths_of(given.pop("h", None), system), start=Start(starter=start.starter), **groups, **given
        )
    else:
        _refuse([*given, *start.changed], {*CALL}, "is that of the prepared run")
        options = dataclasses.replace(prepared.options, **given)
    options = dataclasses.replace(options, save=dataclasses.replace(options.save, reduce=reduce))
    refuse_traced("sweep", system, options.grid.h, options.grid.t0, instead="; there take jax.vmap of simulate")
    steps, rows = options.grid.steps, 2
    if options.varying is None:
        rows = math.ceil(steps / options.grid.every) + 1
    else:
        steps = _expected_steps(options, progress)
    numbers = rows * (3 * _coordinates_of(system, swept) + 3)
    if in_memory:
        _check_runs_fit(swept.shape, rows, numbers)
    whole = in_memory and here
    most = math.prod(swept.shape.values()) if whole else block or _runs_of_block(numbers + BESIDE // COPIES, steps)
    return RunsJob(system, swept, options, most, threads, shared=not whole)


def _runs_of_block(numbers: int, steps: int) -> int:
    """The number of runs of a block, where one has so many numbers and steps."""
    return max(1, min(FEWEST, NUMBERS * 8 // numbers), min(NUMBERS // numbers, STEPS // steps, MOST))


def _expected_steps(options: RunOptions, progress: Any) -> int:
    """About how many a run has that ends at a time; ValueError where the runs of a study would have no common times."""
    if options.until is None or options.save.every is not None:
        raise ValueError(
            "h, until, save: with Varying every run has nodes at times of its own, and the runs of a study have "
            "common ones; give until= and save=Save(every=None), which keeps the states at the beginning and at that time"
        )
    if progress is not False:
        raise ValueError("progress, until: the number of steps is not known beforehand; give no progress")
    return math.ceil((options.until - options.t0) / options.h)


def _coordinates_of(system: Any, swept: Swept) -> int:
    """The number of coordinates, as far as the data tell."""
    data = [x for name, x in swept.given.items() if name in DATA] + [x for x in swept.fixed.values() if x is not None]
    return max(1, len(system.coordinates or ()), *(x.shape[-1] for x in data))


def _solutions_job(
    problem: Any, values: Any, given: dict[str, Any], *, combine: str, reduce: Any, block: int | None, threads: int | None,
    in_memory: bool,
) -> SweepJob:  # fmt: skip
    """Problems between ends."""
    _refuse([*given], OF_PROBLEMS, "is for runs from initial data; a problem between ends has none")
    if not hasattr(problem, "solution_class"):
        raise TypeError(
            f"system: found {described(problem)} together with data at the ends; give a VariationalProblem or an "
            "OptimalControl, or initial data alone"
        )
    swept = SweptProblem.of(problem, values, {name: given.pop(name, None) for name in ARGUMENTS}, combine)
    check_x64()
    given = dict.fromkeys(SOLVE) | SOLVE_DEFAULTS | given
    solver = Solver.of(given.pop("solver"), "a sweep of solutions")
    how = settings(solver, given.pop("seek"))
    bounds = swept.arguments["bounds"]
    bounded = bounds if bounds is not None else "bounds" in {place.argument for place in swept.places.values()} or None
    check_seek(how, bounded, given["inequalities"])
    as_flag(given["certify"], "certify")
    if reduce is not None:
        as_function(reduce, "reduce", "of a solution that returns numbers")
    times = given["times"]
    steps = whole_number(given["steps"], "steps") if times is None else max(1, as_numbers(times, "times").size - 1)
    n = len(problem.coordinates or ()) or 1
    most = block or max(1, min(MOST_PROBLEMS, UNKNOWNS // (steps * n * n)))
    request, grid = Request(guess=given.pop("guess")), TimeGrid(steps=given.pop("steps"), times=given.pop("times"))
    asked = Asked(request, grid, scales=solver.scales, settings=how, **given)
    job = SolutionsJob(swept, asked, reduce, most, threads)
    if in_memory:
        count = math.prod(swept.swept.shape.values())
        size = job.template().nbytes * count
        _check_memory(COPIES * size, size, f"values: {count} solutions are", "or over_runs=, or fewer values")
    return job


def _check_runs_fit(shape: Mapping[str, int], rows: int, numbers: int) -> None:
    """Before anything is computed: a machine that runs out of memory says nothing clear. numbers: of one run."""
    runs = math.prod(shape.values())
    product = " × ".join(map(str, shape.values()))
    _check_memory(
        8 * runs * (COPIES * numbers + BESIDE), 8 * runs * numbers,
        f"values, save: {product} = {runs} runs with {rows} saved states of each are {runs * numbers:.2g} numbers,",
        "fewer values, or a larger save=Save(every=…), or every=None with reduce= for what you look for",
    )  # fmt: skip


def _check_memory(needed: int, size: int, what: str, advice: str) -> None:
    """ValueError where so many bytes are not there. size: of what stays."""
    memory = _memory()
    if needed > memory:
        raise ValueError(
            f"{what} {size / 2**30:.3g} GiB and some copies, and this machine has {memory / 2**30:.3g} GiB of memory; give "
            f"store='study.zarr', {advice}"
        )


def _memory() -> int:
    """Bytes of this machine's memory; where it does not tell, 16 GiB."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**34
