"""solve_batch: many boundary problems at once, with other ends, guesses or parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import one_blas_thread
from dalembert.boundary.data.ends import Nodes, Request, TimeGrid
from dalembert.boundary.data.free_time import Free
from dalembert.boundary.kinds import Asked, S, Solvable, extremal, extremals_of
from dalembert.boundary.solver import check_seek, settings
from dalembert.native import as_threads, on_threads
from dalembert.numbers import as_flag, as_numbers, check_class
from dalembert.options import Solver, accept_single_options
from dalembert.solution import CriticalPoint


@accept_single_options
def solve_batch(
    problem: Solvable[S],
    *,
    initial: Sequence | Nodes | None = None,
    final: Sequence | Nodes | None = None,
    through: Mapping[float, Any] | None = None,
    guess: Float[Array, "batch N+1 n"] | None = None,
    parameters: Mapping[str, Any] | None = None,
    continued: bool = False,
    T: float | Free | None = None,
    steps: int | None = None,
    times: Float[Array, "N+1"] | None = None,
    scheme=None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    solver: Solver | None = None,
    seek: str = "minimum",
    certify: bool = False,
) -> list[S]:
    """Solve a boundary problem for many ends, guesses or parameters at once.

    Σⱼ Dⱼ L̃_d = 0 and Φ_d = 0, as in `solve`, for every entry of a batch, each with its own ends, points, guess and
    parameters.

    The functions and the times are the same for all. No error is raised if an entry is not solved: see
    Solution.outcome. Without `parameters` the problem is prepared once for all entries.

    Args:
        problem: a VariationalProblem of order k, or an OptimalControl.
        initial: as in `solve`; the arrays have a leading axis (batch,); in a mapping of coordinates, its numbers have.
        final: as in `solve`; the arrays have a leading axis (batch,); in a mapping of coordinates, its numbers have.
        through: as in `solve`; the arrays have a leading axis (batch,).
        guess: (batch, N+1, n), or a list of solutions.
        parameters: {name: values}, as `problem.replace` takes them; the values have a leading axis (batch,).
        continued: start every entry of an OptimalControl from the solution of the nearest entry that is solved, not from
            its own guess; nearness is that of the data at the ends. Faster, and the extremals belong to one family.
        T: as in `solve`.
        steps: as in `solve`.
        times: as in `solve`.
        scheme: as in `solve`.
        bounds: as in `solve`, the same for all.
        inequalities: as in `solve`, the same for all.
        solver: a Solver: tolerance, max_iterations, scales, and threads, how many entries are solved at once.
        seek: as in `solve`.
        certify: as in `solve`, off by default.

    Returns:
        A list of Solution or ControlSolution, one for each entry.

    Raises:
        ValueError: as `solve`, for the first entry that is wrong; or the leading axes differ.
        TypeError: as `solve`.

    Example:
        >>> rest, ends = np.zeros((2, 1)), np.array([[1.0], [2.0]])  # two of them, n = 1
        >>> several = da.solve_batch(beam, initial=(rest, rest), final=(ends, rest), T=1.0, steps=10)
        >>> [round(float(s.q[5, 0]), 9) for s in several]
        [0.5, 1.0]
    """
    solver = Solver.of(solver, "solve_batch")
    options, workers = check_seek(settings(solver, seek), bounds, inequalities), as_threads(solver.threads)
    as_flag(certify, "certify")
    as_flag(continued, "continued")
    given = {
        "initial": _read_end(initial, "initial"),
        "final": _read_end(final, "final"),
        "through": _read_mapping(through, "through", "from times to points (batch, n)"),
        "guess": _read_guesses(guess),
        "parameters": _read_parameters(problem, parameters),
    }
    entries = [{name: _entry(x, i) for name, x in given.items()} for i in range(_batch_size(given))]
    requests = [Request(e["initial"], e["final"], e["through"] or None, e["guess"]) for e in entries]
    grid = TimeGrid(T, steps, times)
    asked = Asked(Request(), grid, scheme, solver.scales, options, certify, bounds, inequalities)
    if not requests:
        return []
    if not given["parameters"]:
        with one_blas_thread():
            return extremals_of(problem, asked, requests, workers, continued)
    if continued:
        raise ValueError(
            "continued: found together with parameters; neighbours are found by the data at the ends alone. Leave one out"
        )

    def one(i: int) -> S:
        return extremal(problem.replace(**entries[i]["parameters"]), asked._replace(request=requests[i]))

    return on_threads(one, range(len(requests)), workers)


def _as_batch(x: Any, place: str, axes: str, number: int) -> np.ndarray:
    """Numbers with a leading axis, and with no fewer axes than these."""
    found = as_numbers(x, place)
    if found.ndim < number:
        raise ValueError(f"{place}: found shape {found.shape}; {axes} is needed")
    return found


def _read_end(end: Any, name: str) -> Any:
    """Data of an end, its arrays as numbers with a leading axis."""
    if end is None or isinstance(end, Nodes):
        return end
    check_class(end, list | tuple, name, "a tuple of arrays (batch, n), or Nodes(array (batch, k, n))")
    return tuple(
        _read_mapping(x, f"{name}[{i}]", "") if isinstance(x, Mapping) else None if x is None
        else _as_batch(x, f"{name}[{i}]", "(batch, n)", 2)
        for i, x in enumerate(end)
    )  # fmt: skip


def _read_mapping(given: Any, place: str, what: str) -> dict[Any, np.ndarray]:
    """{key: numbers (batch, …)}."""
    check_class(given, Mapping | None, place, f"a mapping {what}")
    return {key: _as_batch(x, f"{place}[{key!r}]", "(batch, …)", 1) for key, x in (given or {}).items()}


def _read_guesses(guess: Any) -> Any:
    """A path, or a Solution, for each entry."""
    if guess is None or (isinstance(guess, list | tuple) and guess and all(isinstance(x, CriticalPoint) for x in guess)):
        return None if guess is None else list(guess)
    return _as_batch(guess, "guess", "(batch, N+1, n)", 3)


def _read_parameters(problem: Any, parameters: Any) -> dict[str, np.ndarray]:
    values = _read_mapping(parameters, "parameters", "from names to values (batch, …)")
    known = getattr(problem, "parameters", None)
    known = known if isinstance(known, Mapping) else {}
    for name in values:
        if name not in known:
            raise ValueError(f"parameters: found {name!r}; the parameters are {', '.join(map(str, known)) or 'none'}")
    return values


def _entry(x: Any, i: int) -> Any:
    """One entry of what is given; tuples and mappings hold batches."""
    if isinstance(x, dict):
        return {key: _entry(y, i) for key, y in x.items()}
    if isinstance(x, tuple):
        return tuple(_entry(y, i) for y in x)
    return Nodes(x.q[i]) if isinstance(x, Nodes) else None if x is None else x[i]


def _lengths(x: Any) -> list[int]:
    """The leading axes of all that is given."""
    if isinstance(x, dict | tuple):
        return [size for y in (x.values() if isinstance(x, dict) else x) for size in _lengths(y)]
    return [] if x is None else [len(x.q if isinstance(x, Nodes) else x)]


def _batch_size(given: dict[str, Any]) -> int:
    """The common leading axis."""
    sizes = {size: name for name, x in reversed(given.items()) for size in _lengths(x)}
    if len(sizes) != 1:
        found = ", ".join(f"{name} {size}" for size, name in sizes.items()) or "none"
        raise ValueError(
            f"initial, final, through, guess, parameters: found leading axes {found}; give "
            "arrays with one common leading axis"
        )
    return next(iter(sizes))
