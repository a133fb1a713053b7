"""Free: a final time that is found, and the times of nodes that move with it: t_i = t_0 + s (τ_i - t_0), s = e^θ.

τ_i: the nodes of the guess. The unknown is θ: T stays after t_0, and what is a sum of powers of T is convex in θ.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from dalembert.numbers import as_number, as_positive
from dalembert.solution import CriticalPoint

G = TypeVar("G")


@dataclasses.dataclass(frozen=True)
class Free:
    """A final time that the solver finds.

    ∂J/∂T = 0 for the minimal cost or action J, or T at a bound: a final time that `solve` finds, for its argument T.

    Args:
        guess: the value from which T is sought, in the problem's unit of time.
        lower: the least T; no bound if None.
        upper: the largest T; no bound if None.

    Raises:
        ValueError: a number is not positive, lower is not below upper, or the guess is outside.
        TypeError: an argument is not a number.

    Example:
        >>> mass = da.System(lambda q, v: 0.5 * v @ v)
        >>> move = da.OptimalControl(mass, cost=lambda q, v, u: 1.0 + u @ u, actuated=0)
        >>> rest = [0.0]
        >>> found = da.solve(move, initial=([0.0], rest), final=([1.0], rest), T=da.Free(1.0), steps=20)
        >>> round(float(found.t[-1]), 2), round(float(found.cost), 2)  # √6, √(32/3)
        (2.45, 3.26)
    """

    guess: float
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self):
        found = {"guess": float(as_positive(self.guess, "guess"))}
        if self.lower is not None:
            found["lower"] = float(as_number(self.lower, "lower", "a number from 0 on, or None", lambda x: x >= 0.0))
        if self.upper is not None:
            found["upper"] = float(as_positive(self.upper, "upper"))
        lower, upper = found.get("lower", 0.0), found.get("upper", math.inf)
        if not lower < upper:
            raise ValueError(f"lower, upper: found {lower:g} and {upper:g}; lower < upper is needed")
        if not lower <= found["guess"] <= upper:
            raise ValueError(
                f"guess, lower, upper: found {found['guess']:g}, outside [{lower:g}, {upper:g}]; a guess is between"
            )
        for name, value in found.items():
            object.__setattr__(self, name, value)


class Horizon(NamedTuple):
    """A free final time and the nodes of its guess. begin: t_0; length: from there to the guess."""

    free: Free
    begin: float
    length: float

    def times(self, t: Float[np.ndarray, "..."], factor: float) -> Float[np.ndarray, "..."]:
        """Of the nodes t of the guess, where steps are `factor` times as long."""
        return self.begin + factor * (t - self.begin)

    @property
    def limits(self) -> tuple[float, float]:
        """Of T."""
        lower = 0.0 if self.free.lower is None else self.free.lower
        return max(lower, self.begin), math.inf if self.free.upper is None else self.free.upper

    @property
    def bounds(self) -> Float[np.ndarray, "2 1"]:
        """Of θ."""
        with np.errstate(divide="ignore"):
            return np.log((np.array(self.limits)[:, None] - self.begin) / self.length)

    @property
    def has_bounds(self) -> bool:
        return bool(np.isfinite(self.bounds).any())


def horizon_of(T: object, t: Float[np.ndarray, "N+1"]) -> Horizon | None:
    """Of the nodes t of the guess; None where T is given."""
    return Horizon(T, float(t[0]), float(t[-1] - t[0])) if isinstance(T, Free) else None


def spread(free: Free, times: Float[np.ndarray, "N+1"]) -> Float[np.ndarray, "N+1"]:
    """Nodes that are distributed as `times` are, from the first of them to the guess."""
    begin, length = float(times[0]), float(times[-1] - times[0])
    for name, T in (("guess", free.guess), ("upper", free.upper)):
        if T is not None and begin >= T:
            raise ValueError(f"T: found Free with {name} = {T:g}; the first of times is {begin:g}, and T comes after it")
    return begin + (free.guess - begin) * ((times - begin) / length)


def fit_times(guess: G, t: Float[np.ndarray, "N+1"]) -> G:
    """A solution as a guess on other nodes: its own times stretched so that both ends are theirs."""
    if not isinstance(guess, CriticalPoint):
        return guess
    own = np.asarray(guess.t)
    factor = (t[-1] - t[0]) / (own[-1] - own[0])
    changed: dict[str, Any] = {
        name: t[0] + factor * (np.asarray(getattr(guess, name)) - own[0])
        for name in ("t", "t_multipliers")
        if hasattr(guess, name)
    }
    return dataclasses.replace(guess, v=np.asarray(guess.v) / factor, **changed)
