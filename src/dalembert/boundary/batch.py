"""solve_batch: many boundary problems at once, with other ends, guesses or parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra.banded import one_blas_thread
from dalembert.boundary.data.ends import Nodes, TimeGrid
from dalembert.boundary.data.free_time import Free
from dalembert.boundary.prepare import Request
from dalembert.boundary.solver import Asked, S, Solvable, check_seek, extremal, extremals_of, settings
from dalembert.native.threads import as_threads, on_threads
from dalembert.numbers import as_flag, as_numbers, described
from dalembert.solution import CriticalPoint


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
    scales: Float[Array, "n"] | None = None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 200,
    seek: str = "minimum",
    certify: bool = False,
    threads: int | None = None,
) -> list[S]:
    """Σⱼ Dⱼ L̃_d = 0 and Φ_d = 0, as in `solve`, for every entry of a batch, each with its own ends, points, guess and
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
        continued: start every entry of an OptimalControl from the solution of the nearest entry that is solved, not
            from its         own guess; nearness is that of the data at the ends. Faster, and the extremals belong to
            one family.
        T: as in `solve`.
        steps: as in `solve`.
        times: as in `solve`.
        scheme: as in `solve`.
        scales: as in `solve`.
        bounds: as in `solve`, the same for all.
        inequalities: as in `solve`, the same for all.
        tolerance: as in `solve`.
        max_iterations: as in `solve`.
        seek: as in `solve`.
        certify: as in `solve`, off by default.
        threads: how many entries are solved at once; as many as there are processors if None.

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
    options, workers = settings(tolerance, max_iterations, seek), as_threads(threads)
    check_seek(options, bounds, inequalities)
    as_flag(certify, "certify")
    as_flag(continued, "continued")
    initial, final = _read_ends(initial, "initial"), _read_ends(final, "final")
    points, guesses, values = _read_points(through), _read_guesses(guess), _read_parameters(problem, parameters)
    size = _batch_size(initial, final, points, guesses, values)
    requests = [
        Request(
            _entry(initial, i), _entry(final, i), {t: q[i] for t, q in points.items()} or None,
            None if guesses is None else guesses[i],
        )
        for i in range(size)
    ]  # fmt: skip
    grid = TimeGrid(T, steps, times)
    asked = Asked(Request(), grid, scheme, scales, options, certify, bounds, inequalities)
    if not requests:
        return []
    if not values:
        with one_blas_thread():
            return extremals_of(problem, asked, requests, workers, continued)
    if continued:
        raise ValueError(
            "continued: found together with parameters; neighbours are found by the data at the ends alone. Leave one out"
        )

    def one(i: int) -> S:
        own = {name: x[i] for name, x in values.items()}
        return extremal(problem.replace(**own), asked._replace(request=requests[i]))

    return on_threads(one, range(size), workers)


def _read_ends(end, name: str):
    """Data of an end, its arrays as numbers with a leading axis."""
    if end is None or isinstance(end, Nodes):
        return end
    if not isinstance(end, list | tuple):
        raise TypeError(f"{name}: found {described(end)}; give a tuple of arrays (batch, n), or Nodes(array (batch, k, n))")
    return tuple(_read_level(x, f"{name}[{i}]") for i, x in enumerate(end))


def _read_level(given: Any, place: str):
    """(batch, n), numbers (batch,) of single coordinates, or None."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        numbers = {key: as_numbers(x, f"{place}[{key!r}]") for key, x in given.items()}
        if any(x.ndim != 1 for x in numbers.values()):
            raise ValueError(f"{place}: found shapes {[x.shape for x in numbers.values()]}; every one is (batch,)")
        return numbers
    array = as_numbers(given, place)
    if array.ndim < 2:
        raise ValueError(f"{place}: found shape {array.shape}; (batch, n) is needed")
    return array


def _read_guesses(guess):
    """A path, or a Solution, for each entry."""
    if guess is None or (isinstance(guess, list | tuple) and guess and all(isinstance(x, CriticalPoint) for x in guess)):
        return guess
    paths = as_numbers(guess, "guess")
    if paths.ndim != 3:
        raise ValueError(f"guess: found shape {paths.shape}; give paths (batch, N+1, n), or a list of Solutions")
    return paths


def _read_parameters(problem: Any, parameters: Any) -> dict[str, np.ndarray]:
    if not isinstance(parameters, Mapping | None):
        raise TypeError(f"parameters: found {described(parameters)}; give a mapping {{name: values (batch, …)}}")
    values = {name: as_numbers(x, f"parameters[{name!r}]") for name, x in (parameters or {}).items()}
    if any(x.ndim < 1 for x in values.values()):
        raise ValueError(f"parameters: found shapes {[x.shape for x in values.values()]}; every one is (batch, …)")
    known = getattr(problem, "parameters", None)
    known = known if isinstance(known, Mapping) else {}
    for name in values:
        if name not in known:
            raise ValueError(f"parameters: found {name!r}; the parameters are {', '.join(map(str, known)) or 'none'}")
    return values


def _read_points(through) -> dict[Any, np.ndarray]:
    if not isinstance(through, Mapping | None):
        raise TypeError(f"through: found {described(through)}; give a mapping {{t: q}} from times to points (batch, n)")
    points = {t: as_numbers(q, f"through[{t!r}]") for t, q in (through or {}).items()}
    if any(q.ndim < 1 for q in points.values()):
        raise ValueError(f"through: found shapes {[q.shape for q in points.values()]}; every point is (batch, n)")
    return points


def _entry(end, i: int):
    if end is None:
        return None
    if isinstance(end, Nodes):
        return Nodes(end.q[i])
    return tuple(_row(level, i) for level in end)


def _row(level, i: int):
    if isinstance(level, dict):
        return {key: x[i] for key, x in level.items()}
    return None if level is None else level[i]


def _batch_size(initial, final, points: dict[Any, np.ndarray], guess, parameters: dict[str, np.ndarray]) -> int:
    """The common leading axis."""
    sizes = {}
    for name, end in (("initial", initial), ("final", final)):
        if end is not None:
            for level in (end.q,) if isinstance(end, Nodes) else (x for x in end if x is not None):
                for x in level.values() if isinstance(level, dict) else (level,):
                    sizes.setdefault(len(x), name)
    for name, arrays in (("through", points), ("parameters", parameters)):
        for x in arrays.values():
            sizes.setdefault(len(x), name)
    if guess is not None:
        sizes.setdefault(len(guess), "guess")
    if len(sizes) != 1:
        found = ", ".join(f"{name} {size}" for size, name in sizes.items()) or "none"
        raise ValueError(
            f"initial, final, through, guess, parameters: found leading axes {found}; give "
            "arrays with one common leading axis"
        )
    return next(iter(sizes))
