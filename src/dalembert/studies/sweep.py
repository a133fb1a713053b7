"""sweep: an ensemble whose runs have names, over the product of swept values or over rows of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from dalembert.control import OptimalControl
from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.window_maps import WindowMap
from dalembert.interrupts import Interrupted
from dalembert.lazy import as_left
from dalembert.numbers import MOST_THREADS, as_choice, as_double, whole_number
from dalembert.path import Path, Study
from dalembert.step import Branch, SampledFeedback, ensemble
from dalembert.step.start.prepare import check_any_system
from dalembert.step.start.second_node import Starter
from dalembert.store.studies import study_to_xarray
from dalembert.studies.blockwise.blocks import Blocks, runs_of_block
from dalembert.studies.blockwise.cluster import Cluster, check_client
from dalembert.studies.blockwise.collected import collected
from dalembert.studies.blockwise.gathered import gathered
from dalembert.studies.blockwise.job import job_of
from dalembert.studies.blockwise.over_runs import as_over_runs
from dalembert.studies.blockwise.stored import Here, stored_sweep
from dalembert.studies.blockwise.swept import DATA, Swept
from dalembert.systems import System, VariationalProblem

COPIES = 3  # of all states, for a moment
BESIDE = 100  # numbers of each run besides, for a moment: a million runs that keep nothing took 1 GiB


def sweep(
    system: System | DiscreteSystem | VariationalProblem,
    values: Mapping[str, Any],
    *,
    combine: Literal["product", "zip"] = "product",
    q0=None,
    v0=None,
    h: float | None = None,
    steps: int,
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
    store: str | os.PathLike | None = None,
    over_runs: tuple[Callable, Callable] | None = None,
    block: int | None = None,
    client: Any = None,
) -> Study | Any:
    """D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k) + h(f + R_dᵀλ_k) = 0 for every combination of swept values, by their names.

    The runs are those of `ensemble`. One that fails is an outcome in the map, and raises nothing.

    Args:
        system: what moves, as in `simulate`.
        values: name → (K, …) of parameters, and of "q0", "v0", "nodes", "jets", "multipliers"; (K,) of numbers.
        combine: "product": each name is an axis; "zip": the i-th run has the i-th value of every name.
        q0: positions of all runs, where they are not swept.
        v0: velocities of all runs, where they are not swept.
        h: step, the same for all.
        steps: N, the number of steps.
        t0: time of the beginning.
        nodes: of a DiscreteSystem or a VariationalProblem, where they are not swept.
        jets: of a VariationalProblem, where they are not swept.
        multipliers: of a VariationalProblem with differential constraints, where they are not swept.
        scheme: as in `simulate`.
        starter: as in `simulate`.
        branch: as in `simulate`.
        save_every: as in `simulate`; None keeps the last states only, for many runs with `reduce`.
        reduce: as in `simulate`; study.reduced has the runs' axes in front.
        stop: as in `simulate`.
        domain: as in `simulate`.
        feedback: as in `simulate`.
        tolerance: as in `simulate`.
        max_iterations: as in `simulate`.
        backend: as in `simulate`.
        threads: as in `ensemble`.
        progress: as in `ensemble`.
        store: a folder, study.zarr, into which the runs go block by block; where it is there already, the same call goes on
            with the blocks that are missing, and reads those that are not.
        over_runs: (of, merge): of(study) → value of a block of runs, merge(value, value) → value; runs are not kept.
            `run_statistics` gives such a pair. The order in which blocks are ready changes no bit.
        block: how many runs are computed at once, at most, with store, over_runs or client; by their size if None.
        client: a dask.distributed.Client, whose workers compute the blocks, each with one thread if threads is None, and see
            the store under the same name.

    Returns:
        A Study: study.sel(m=2.0), study.outcomes, study.data, da.plot(study), da.save(study, "study.nc"). With over_runs the
        merged value of all runs; a store then keeps the values of the blocks.

    Raises:
        ValueError: an argument has the wrong shape or value, a name is unknown, the states do not fit into memory, or the
            sweep in the store is another one.
        TypeError: an argument is of the wrong type, or traced.
        Interrupted: Ctrl-C ended it; its path is the Study, or the value over_runs, until then.
        FileError: what is in the store is damaged, or no study.
        BlockingIOError: another process is writing the store.
        OSError: the store cannot be written.
        ConnectionError: the scheduler of the client is gone.
        InconsistentDataError: the initial data of a run do not satisfy the constraints.

    Example:
        >>> study = da.sweep(pendulum, {"q0": [0.5, 1.0, 1.5], "v0": [0.0, 1.0]}, h=0.1, steps=20)
        >>> study.data.q.dims, study.sel(q0=1.0, v0=0.0).q.shape
        (('q0', 'v0', 'node', 'coordinate'), (21, 1))
    """
    if isinstance(system, OptimalControl):
        raise TypeError(
            "system: found an OptimalControl; a sweep runs from initial data. da.solve_batch solves many problems"
        )
    check_any_system(system)
    as_choice(combine, "combine", ("product", "zip"), "ways to combine values")
    fixed = {"q0": q0, "v0": v0, "nodes": nodes, "jets": jets, "multipliers": multipliers}
    swept = Swept.of(system, values, fixed, combine)
    whole_number(steps, "steps")
    every = steps if save_every is None else whole_number(save_every, "save_every")
    size = _Size(swept.shape, math.ceil(steps / every) + 1, _coordinates(system, swept))
    options = {
        "h": h, "steps": steps, "t0": t0, "scheme": scheme, "starter": starter, "branch": branch, "save_every": save_every,
        "reduce": reduce, "stop": stop, "domain": domain, "feedback": feedback, "tolerance": tolerance,
        "max_iterations": max_iterations, "backend": backend,
    }  # fmt: skip
    if block is not None:
        whole_number(block, "block")
    if threads is not None:
        whole_number(threads, "threads", most=MOST_THREADS)
    pair = None if over_runs is None else as_over_runs(over_runs)
    if client is not None:
        check_client(client)
    if store is None and pair is None:
        size.check()
        if client is None:
            return _at_once(system, swept, options | {"threads": threads, "progress": progress})
    most = runs_of_block(size.numbers, steps) if block is None else block
    blocks = Blocks.of(tuple(swept.shape.values()), most)
    job = job_of(system, swept, options, blocks, 1 if client is not None and threads is None else threads)
    workers = Here() if client is None else Cluster(client)
    if pair is not None:
        return collected(job, pair, store, workers, progress)
    return gathered(job, workers, progress) if store is None else stored_sweep(job, store, workers, progress)


def _at_once(system, swept: Swept, options: dict[str, Any]) -> Study:
    """In memory, all runs side by side."""
    lengths = tuple(swept.shape.values())
    every = options["steps"] if options["save_every"] is None else options["save_every"]
    places = dict(zip(swept.shape, np.unravel_index(np.arange(math.prod(lengths)), lengths), strict=True))
    data, parameters = swept.data(places)

    def study(runs: Path) -> Study:
        nodes = np.minimum(every * np.arange(as_left(runs, "t").shape[1]), options["steps"])
        times = as_double(options["t0"]) + nodes * as_left(runs, "h")[0]
        labelled = study_to_xarray(runs, np.asarray(times), swept.names, swept.labels(), swept.shape)
        return Study(labelled, system.subject.under(options["scheme"]))

    runs = None
    try:
        runs = ensemble(system, **data, parameters=parameters or None, **options)
        return study(runs)
    except KeyboardInterrupt as end:  # in the runs, or where their study is made
        carried = end.path if isinstance(end, Interrupted) else runs
        if not isinstance(carried, Path):
            raise
        raise Interrupted.later(lambda: study(carried)) from None


def _coordinates(system, swept: Swept) -> int:
    """How many there are, as far as the data tell."""
    data = [x.shape[-1] for name, x in swept.given.items() if name in DATA]
    data += [x.shape[-1] for x in swept.fixed.values() if x is not None]
    return max(1, len(system.coordinates or ()), *data)


class _Size(NamedTuple):
    """Of all states: axes with their lengths, saved states of a run, coordinates."""

    shape: dict[str, int]
    rows: int
    n: int

    @property
    def numbers(self) -> int:
        """Of one run."""
        return self.rows * (3 * self.n + 3) + BESIDE // COPIES

    def check(self) -> None:
        """Before anything is computed: a machine that runs out of memory says nothing clear."""
        runs, memory = math.prod(self.shape.values()), _memory()
        numbers = runs * self.rows * (3 * self.n + 3)
        if 8 * (COPIES * numbers + BESIDE * runs) > memory:
            product = " × ".join(map(str, self.shape.values()))
            raise ValueError(
                f"values, save_every: {product} = {runs} runs with {self.rows} saved states of each are {numbers:.2g} "
                f"numbers, {8 * numbers / 2**30:.3g} GiB and some copies, and this machine has {memory / 2**30:.3g} GiB of "
                "memory; give store='study.zarr', fewer values, or a larger save_every, or save_every=None with reduce= for "
                "what you look for"
            )


def _memory() -> int:
    """Bytes of this machine's memory; where it does not tell, 16 GiB."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**34
