"""The order of convergence of a run, measured on the user's own system, above the floor of rounding errors."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.groups import FLAT, Space
from dalembert.notebook import Described
from dalembert.numbers import (
    EPSILON,
    as_function,
    as_number,
    as_numbers,
    as_positive,
    as_tolerance,
    called,
    coordinate_index,
    decreasing_steps,
    described,
)
from dalembert.options import Solver, Start, accept_single_options, check_groups
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.step.simulation import check_interrupted
from dalembert.systems import System, check_system, integrate_motion, motion_along, reference

SAFETY = 1e3  # rounding errors of all steps added up, times this, are the floor: a fit above it sees truncation only
SATURATED = 0.5  # an error of that part of the solution's own size says nothing about an order
LOOSER = 100.0  # so much, and in two halves: the reference again, with other steps; the difference bounds its error

Exact = Callable[[np.ndarray], tuple[Any, Any]]
Use = Literal["fitted", "saturated", "floor", "no decrease", "run failed"]


@dataclasses.dataclass(frozen=True)
class Convergence(Described):
    """error ~ h^slope: errors of one quantity for the steps h, and the fitted order.

    Attributes:
        h: (K,) steps.
        error: (K,) largest |difference| over the times of the run, in the unit of the quantity; nan if the run failed.
        floor: (K,) estimated rounding error plus error of the reference.
        use: (K,), "fitted", or why the h was left out of the fit: "saturated" (the error is half as large as the
            solution, or more), "floor" (it is below the floor), "no decrease" (h is finer than the h of least error),
            "run failed".
    """

    h: Float[np.ndarray, "K"]
    error: Float[np.ndarray, "K"]
    floor: Float[np.ndarray, "K"]
    use: tuple[Use, ...]

    @property
    def orders(self) -> Float[np.ndarray, "K-1"]:
        """log(e_i / e_{i+1}) / log(h_i / h_{i+1}) between all successive h; nan if an error is 0 or nan."""
        with np.errstate(divide="ignore", invalid="ignore"):
            orders = np.diff(np.log(self.error)) / np.diff(np.log(self.h))
        return np.where(np.isfinite(orders), orders, np.nan)

    @property
    def fitted(self) -> np.ndarray:
        """(K,) booleans: which h are used for the slope."""
        return np.array([use == "fitted" for use in self.use])

    @property
    def slope(self) -> float:
        """Least-squares slope of log error over log h for the h in use; nan if these are fewer than two."""
        if self.fitted.sum() < 2:
            return float("nan")
        return float(np.polyfit(np.log(self.h[self.fitted]), np.log(self.error[self.fitted]), 1)[0])

    def describe(self) -> str:
        """A table: the error for each h, the observed order, and whether the fit uses it."""
        lines = [f"slope {self.slope:.3f} over {int(self.fitted.sum())} of {len(self.h)} steps"]
        if self.fitted.sum() > 1:
            value, doubt = self.constant
            lines[0] += f", error about ({value:.4g} ± {doubt:.1g}) h^{round(self.slope)}"
        for h, error, order, use in zip(self.h, self.error, [np.nan, *self.orders], self.use, strict=True):
            lines.append(f"  h = {h:<10.6g} error {error:<12.5e} order {order:7.3f}  {use}")
        return "\n".join(lines)

    @property
    def constant(self) -> tuple[float, float]:
        """C of error ≈ C h^p, p the whole number next to the slope, at the finest h in use, and its uncertainty: the
        distance to the limit h → 0 if C(h) changes linearly; nan if fewer than two h are in use."""
        if self.fitted.sum() < 2:
            return float("nan"), float("nan")
        coarse, fine = (self.error / self.h ** round(self.slope))[self.fitted][-2:]
        ratio = np.divide(*self.h[self.fitted][-2:])
        return float(fine), float(abs(fine - coarse) / (ratio - 1.0))


class Measured(Described):
    """Errors of q and of other quantities by one list of steps: fields that are a Convergence, or None."""

    q: Convergence

    @property
    def h(self) -> Float[np.ndarray, "K"]:
        return self.q.h

    @property
    def quantities(self) -> dict[str, Convergence]:
        """The measured quantities by name."""
        return {name: c for name, c in vars(self).items() if isinstance(c, Convergence)}

    @abc.abstractmethod
    def describe(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class Order(Measured):
    """error ~ h^p: convergence of positions, velocities and multipliers, each at its own times.

    Attributes:
        q: Convergence of positions.
        v: Convergence of velocities.
        multipliers: Convergence of multipliers, None without constraints.
        time: duration of the runs.
        paths: the runs, that with the largest h first, so that a surprising error can be examined.
    """

    q: Convergence
    v: Convergence
    multipliers: Convergence | None
    time: float
    paths: tuple[Path, ...]

    def describe(self) -> str:
        """A table: the error for each quantity and h, the observed order, and whether the fit uses it."""
        return "\n".join(f"{name}: {c.describe()}" for name, c in self.quantities.items())


@accept_single_options
def order(
    system: System,
    q0,
    v0,
    *,
    time: float,
    h: Sequence[float],
    exact: Exact | None = None,
    coordinates: Sequence[str | int] | None = None,
    t0: float = 0.0,
    scheme: Scheme | None = None,
    start: Start | None = None,
    solver: Solver | None = None,
    reference_tolerance: float = 1e-13,
) -> Order:
    """max_k |q_k - q(t_k)| for each h, and the slope of log error over log h; likewise for v and λ at their own times.

    Multipliers are compared with those of the continuous equations at the exact (q, v). Runs that fail are not fitted.

    Args:
        system: a System.
        q0: (n,) positions at t0.
        v0: (n,) velocities at t0.
        time: duration of the runs, a multiple of every h.
        h: (K,) decreasing steps.
        exact: t (K,) → (q (K, n), v (K, n)), the exact solution, on a group by name or as it is stored; None: that of
            `reference`, to reference_tolerance.
        coordinates: names or indices of the components of q and v that are compared; all by default. On a group those of
            the velocities, along which positions are compared too.
        t0: initial time.
        scheme: as for `simulate`.
        start: as for `simulate`, with its starter alone.
        solver: as for `simulate`: branch and tolerance.
        reference_tolerance: tolerance of the reference.

    Returns:
        An Order, which prints as a table.

    Raises:
        ValueError: an argument is wrong; the message names it.
        TypeError: an argument is of the wrong type.

    Example:
        >>> from dalembert.gallery.pendulum import exact  # leave it out, and the reference is integrated
        >>> found = da.measure.order(pendulum, [1.0], [0.0], time=1.0, h=[0.1, 0.05, 0.025], exact=exact)
        >>> round(found.q.slope, 1), round(found.v.slope, 1)
        (2.0, 2.0)
    """
    check_system(system)
    steps = _steps(h, time)
    begin = system.space.read_state(q0, v0, system.coordinates, as_numbers)
    chosen = _compared_components(system, coordinates, len(begin[1]))
    as_number(t0, "t0", "a finite time")
    as_tolerance(reference_tolerance, "reference_tolerance")
    if exact is not None:
        as_function(exact, "exact", "of t (K,) that returns (q, v), each (K, n)")
    groups = check_groups("order", start=start, solver=solver)
    paths = tuple(
        check_interrupted(simulate(system, q0, v0, h=float(time) / n, steps=n, t0=t0, scheme=scheme, **groups, throw=False))
        for n in steps
    )
    truth = _true_motion(system, begin, times_of(paths, float(t0)), exact, jnp.asarray(reference_tolerance))
    constrained = paths[0].multipliers.shape[1] > 0

    def fit(name: str, components: list[int] | None) -> Convergence:
        errors = [truth.compare(name, path, components) for path in paths]
        return converge(np.asarray(h, dtype=float), *zip(*errors, strict=True), steps=steps)

    return Order(fit("q", chosen), fit("v", chosen), fit("multipliers", None) if constrained else None, float(time), paths)


class TrueMotion(NamedTuple):
    """q, v and λ at increasing times, by name, and an estimate of the error of each."""

    times: np.ndarray
    values: dict[str, np.ndarray]
    doubt: dict[str, float]
    space: Space = FLAT  # of q

    def compare(self, name: str, path: Path, components: list[int] | None = None) -> tuple[float, float, float]:
        """How far a path is from it at most, nan if the run failed; its size, the larger of its largest value and its
        extent; and the doubt."""
        times = {"q": path.t, "v": path.t_velocity, "multipliers": path.t_multipliers}[name]
        exact = self.values[name][np.searchsorted(self.times, np.asarray(times))]
        space = self.space if name == "q" else FLAT
        away = space.differences(exact, np.asarray(getattr(path, name))[:, : exact.shape[1]])
        sizes = np.maximum(*space.extent(exact))
        if components is not None:
            away, sizes = away[:, components], sizes[components]
        return _largest(away) if path.outcome == Outcome.SUCCESS else np.nan, float(np.max(sizes)), self.doubt[name]


def times_of(paths: Sequence[Path], t0: float) -> np.ndarray:
    """All times of their positions, velocities and multipliers, and t0."""
    return np.unique(np.concatenate([[t0], *(np.asarray(x) for p in paths for x in (p.t, p.t_velocity, p.t_multipliers))]))


def _true_motion(
    system: System, begin: tuple[Any, Any], times: np.ndarray, exact: Exact | None, tolerance: Any
) -> TrueMotion:
    """The user's solution, or the reference, and what it differs by from looser ones. tolerance: an array."""
    doubt: dict[str, float] = dict.fromkeys(("q", "v", "multipliers"), 0.0)
    if exact is not None:
        q, v = _evaluate_exact(exact, times, system.space, begin)
        values = {"q": q, "v": v, "multipliers": motion_along(system, q, v, times)[1]}
        return TrueMotion(times, values, doubt, system.space)
    known = jnp.asarray(times)
    fine = reference(system, *begin, known, tolerance=tolerance)
    values = {name: np.asarray(getattr(fine, name)) for name in doubt}
    for half in (slice(len(times) // 2 + 1), slice(len(times) // 2, None)):
        again = integrate_motion(system, (fine.q[half][0], fine.v[half][0]), known[half], LOOSER * tolerance)
        for name, x in values.items():
            space = system.space if name == "q" else FLAT
            doubt[name] = max(doubt[name], _largest(space.differences(np.asarray(getattr(again, name)), x[half])))
    return TrueMotion(times, values, doubt, system.space)


def _largest(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def converge(h: np.ndarray, error: Any, size: Any, doubt: Any, steps: Any = 1) -> Convergence:
    """Which of the errors say something about an order: those above every floor. error: (K,), nan where a run failed, of
    what has these sizes and is known up to `doubt`, after `steps` steps of h each."""
    error, size = np.asarray(error), np.asarray(size)
    floor = np.maximum(SAFETY * EPSILON * size * np.asarray(steps), doubt)
    least = int(np.nanargmin(error)) if np.any(np.isfinite(error)) else -1
    known = {
        "run failed": ~np.isfinite(error), "floor": error <= floor, "saturated": error > SATURATED * size,
        "no decrease": np.arange(len(h)) > least,
    }  # fmt: skip
    use: Any = np.select(list(known.values()), list(known), "fitted").tolist()
    return Convergence(h, error, floor, tuple(use))


def _steps(h: Sequence[float], time: float) -> list[int]:
    as_positive(time, "time", "a positive, finite length of the runs")
    values = decreasing_steps(h)
    counts = np.rint(time / values)
    wrong = values[(counts < 2) | (np.abs(counts * values - time) > 1e-9 * time)]
    if wrong.size:
        found = ", ".join(f"{x:g}" for x in wrong)
        raise ValueError(f"time: found {time:g}, which is not a multiple (2 or more) of h = {found}; give one of every h")
    return [int(n) for n in counts]


def _compared_components(system: System, coordinates: Sequence[str | int] | None, n: int) -> list[int]:
    if coordinates is None:
        return list(range(n))
    if isinstance(coordinates, str) or not isinstance(coordinates, Sequence) or not len(coordinates):
        raise ValueError(f"coordinates: found {coordinates!r}; give a sequence of names or indices")
    return [coordinate_index(one, f"coordinates: found {one!r}", n, system.velocities) for one in coordinates]


def _evaluate_exact(exact: Exact, times: np.ndarray, space: Space, begin: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """exact at the times, with its shapes and its initial values checked."""
    found = called(exact, "exact", "t (K,), and returns (q, v), each (K, n)", times)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise TypeError(f"exact: returns {described(found)}; a pair (q, v) of arrays (K, n) is needed")
    q, v = (as_numbers(x, "exact: a result") for x in space.read_named(found[0], found[1], ("exact: q", "exact: v")))
    q0, v0 = map(np.asarray, begin)
    wanted = [(times.size, x.size) for x in (q0, v0)]
    if [q.shape, v.shape] != wanted:
        needed = f"{wanted[0]} each" if q0.size == v0.size else " and ".join(map(str, wanted))
        raise ValueError(f"exact: returns shapes {q.shape} and {v.shape}; (q, v) of shape {needed} are needed")
    gap = max(_largest(space.differences(q0, q[0])), _largest(v[0] - v0))
    if not gap <= 1e-8 * (1 + _largest(q0) + _largest(v0)):
        raise ValueError(
            f"exact: at t0 = {times[0]:g} it differs from (q0, v0) by {gap:.3g}; give the solution that starts there"
        )
    return q, v
