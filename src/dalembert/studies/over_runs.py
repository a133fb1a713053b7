"""Values over all runs of a sweep, merged in a tree that the number of blocks alone decides: the order in which they come
does not matter, to the bit, and none is kept longer than its neighbour takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dalembert.numbers import as_function, as_numbers, described
from dalembert.outcome import Outcome
from dalembert.path import Study

if TYPE_CHECKING:
    import xarray


class OverRuns(NamedTuple):
    """of: the value of the runs of a block, study → a number, an array, or a dict, list or tuple of them; merge: that of two
    neighbouring blocks of runs, (a, b) → value, associative but for rounding."""

    of: Callable[[Study], Any]
    merge: Callable[[Any, Any], Any]


def as_over_runs(pair: Any) -> OverRuns:
    """TypeError for what is no pair of functions."""
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(map(callable, pair))):
        raise TypeError(
            f"over_runs: found {described(pair)}; give run_statistics(...), or (of, merge) with of(study) → value and "
            "merge(value, value) → value"
        )
    return OverRuns(*pair)


class MergeTree:
    """Leaves 0 … count-1, merged two and two, level by level; one that is left over rises alone."""

    def __init__(self, count: int, merge: Callable[[Any, Any], Any]):
        self._count, self._merge, self._waiting = count, merge, {}

    def add(self, i: int, value: Any) -> None:
        """The i-th leaf, once."""
        level, size = 0, self._count
        while size > 1:
            mate = i ^ 1
            if mate < size:
                if (level, mate) not in self._waiting:
                    break
                other = self._waiting.pop((level, mate))
                value = self._merge(value, other) if i < mate else self._merge(other, value)
            i, level, size = i // 2, level + 1, -(-size // 2)
        self._waiting[level, i] = value

    @property
    def waiting(self) -> int:
        """Number of values that are kept."""
        return len(self._waiting)

    @property
    def value(self) -> Any:
        """Of all leaves that are there, in their order; None of none."""
        found = None
        for _, value in sorted(self._waiting.items(), key=lambda one: one[0][1] << one[0][0]):
            found = value if found is None else self._merge(found, value)
        return found


def run_statistics(value: Callable[[Study], xarray.DataArray], bins: Any = None) -> OverRuns:
    """n, Σx/n, Σ(x-x̄)²/n, min x, max x over the runs of a sweep, for its argument over_runs; the runs themselves are
    not kept.

    Failed runs and numbers that are not finite are left out; the number of failed runs is returned.

    Args:
        value: study → x of each run: an array over the axes of the study, such as study.reduced. It may have further
            axes after these, such as the times of study["x"]. It is called with one block of runs after the other.
        bins: (K+1,) increasing edges, for a histogram of one number per run: bin i counts bins[i] ≤ x < bins[i+1]; the
            last bin includes its upper edge.

    Returns:
        A pair for the argument over_runs of `sweep`, which then returns a dict of arrays: runs, failed, count, mean,
        variance (of the population, divided by n), minimum, maximum; with bins also histogram, below and above.

    Raises:
        TypeError: value is not a function, or bins are not numbers.
        ValueError: bins are not increasing, or fewer than two; in the sweep: value returns another shape.

    Source: mean and variance are merged as in Chan, Golub, LeVeque (1979).

    Example:
        >>> ends = da.studies.run_statistics(lambda study: study.data.q.isel(node=-1, coordinate=0), bins=[-2.0, 0.0, 2.0])
        >>> swings = {"q0": np.linspace(0.5, 1.5, 100)}
        >>> found = da.sweep(pendulum, swings, {"v0": [0.0], "h": 0.1, "steps": 20}, over_runs=ends)
        >>> int(found["count"]), found["histogram"].tolist()
        (100, [100, 0])
    """
    as_function(value, "value", "of a study that returns a number for each run")
    edges = None if bins is None else _edges(bins)
    return OverRuns(lambda study: _statistics(study, value(study), edges), _merged)


def _edges(bins: Any) -> np.ndarray:
    edges = as_numbers(bins, "bins")
    if edges.ndim != 1 or len(edges) < 2 or not np.all(np.diff(edges) > 0):
        raise ValueError(f"bins: found {described(bins)}; give two or more edges that grow, (K+1,)")
    return edges


def _statistics(study: Study, x: Any, edges: np.ndarray | None) -> dict[str, np.ndarray]:
    sizes = tuple(study.data.sizes[axis] for axis in study.axes)
    if hasattr(x, "transpose") and hasattr(x, "dims") and set(study.axes) <= set(x.dims):
        x = x.transpose(*study.axes, ...)
    numbers = np.asarray(x, float)
    if numbers.shape[: len(sizes)] != sizes:
        raise ValueError(
            f"over_runs: value returns shape {numbers.shape}; an array over the axes {', '.join(study.axes)} is needed, "
            f"{sizes} of this block"
        )
    numbers = numbers.reshape(-1, *numbers.shape[len(sizes) :])
    failed = ~np.isin(study.data["code"].values.ravel(), (int(Outcome.SUCCESS), int(Outcome.STOPPED)))
    counted = np.isfinite(numbers) & ~failed.reshape(-1, *[1] * (numbers.ndim - 1))
    count = counted.sum(axis=0)
    some = np.where(count > 0, count, np.nan)
    mean = np.where(counted, numbers, 0.0).sum(axis=0) / some
    variance = (np.where(counted, numbers - mean, 0.0) ** 2).sum(axis=0) / some
    low, high = (np.where(counted, numbers, end) for end in (np.inf, -np.inf))
    found = {
        "runs": np.asarray(len(failed)), "failed": failed.sum(), "count": count, "mean": mean, "variance": variance,
        "minimum": np.where(count > 0, low.min(axis=0), np.nan), "maximum": np.where(count > 0, high.max(axis=0), np.nan),
    }  # fmt: skip
    return found if edges is None else found | _histogram(numbers, counted, edges)


def _histogram(numbers: np.ndarray, counted: np.ndarray, edges: np.ndarray) -> dict[str, Any]:
    if numbers.ndim != 1:
        raise ValueError(f"bins: value returns shape {numbers.shape[1:]} for each run; a histogram is of one number")
    x = numbers[counted]
    return {
        "histogram": np.histogram(x, edges)[0], "below": np.count_nonzero(x < edges[0]),
        "above": np.count_nonzero(x > edges[-1]),
    }  # fmt: skip


# A store knows the pair by its text: with another name in it, statistics that were begun by older versions would not go on.
def _merged(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """x̄ = x̄_a + δ n_b/n,  s² = (n_a s_a² + n_b s_b²)/n + δ² n_a n_b/n²,  δ = x̄_b - x̄_a."""
    one, other = np.asarray(a["count"], float), np.asarray(b["count"], float)
    n = np.where(one + other > 0, one + other, np.nan)
    delta = b["mean"] - a["mean"]
    mean = a["mean"] + delta * (other / n)
    variance = (one * a["variance"] + other * b["variance"]) / n + delta**2 * ((one / n) * (other / n))
    both = (one > 0) & (other > 0)
    found = {name: a[name] + b[name] for name in a if name not in ("mean", "variance", "minimum", "maximum")}
    found["mean"] = np.where(both, mean, np.where(one > 0, a["mean"], b["mean"]))
    found["variance"] = np.where(both, variance, np.where(one > 0, a["variance"], b["variance"]))
    return found | {"minimum": np.fmin(a["minimum"], b["minimum"]), "maximum": np.fmax(a["maximum"], b["maximum"])}
