"""Bounds as the user writes them: {"u": (lower, upper), "v": (-1, 1), "q": {"x": (None, 1.3)}}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.numbers import described, real_numbers, whole_number
from dalembert.systems import InconsistentDataError

SLACK = 1e-9  # by how much what is given may be outside, relative to its size: rounding


class Bounded(NamedTuple):
    """What can have bounds: `size` numbers a node, with names or None."""

    size: int
    names: tuple[str, ...] | None = None


def read_bounds(bounds: Any, known: Mapping[str, Bounded], nodes: int) -> dict[str, Float[np.ndarray, "2 nodes m"]]:
    """Lower and upper bounds of everything that has some, infinite where there is none."""
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        right = ", ".join(f'"{name}": (lower, upper)' for name in known)
        raise TypeError(f"bounds: found {described(bounds)}; give a mapping {{{right}}}")
    for name in bounds:
        if name not in known:
            coordinate = name in (known["q"].names or ()) if "q" in known else False
            right = f': {{"q": {{{name!r}: (lower, upper)}}}} for a coordinate' if coordinate else ""
            raise ValueError(f"bounds: found {name!r}; bounds are on {', '.join(map(repr, known))}{right}")
    found = {}
    for name in known:
        both = np.full((2, nodes, known[name].size), [[[-np.inf]], [[np.inf]]])
        for place, at, pair in _pairs(bounds.get(name, (None, None)), f"bounds[{name!r}]", known[name]):
            _fill(both[:, :, at], pair, place)
        if np.isfinite(both).any():
            found[name] = both
    return found


def _pairs(given: Any, place: str, of: Bounded):
    """(place, components, pair) of everything that is given."""
    if not isinstance(given, Mapping):
        yield place, slice(None), given
        return
    seen = set()
    for key, pair in given.items():
        if isinstance(key, str):
            if key not in (of.names or ()):
                known = ", ".join(of.names) if of.names else f"given by their index, 0 to {of.size - 1}"
                raise ValueError(f"{place}: found {key!r}; there are {known}")
            at = (of.names or ()).index(key)
        else:
            at = whole_number(key, f"{place}: an index", 0, of.size - 1)
        if at in seen:
            raise ValueError(f"{place}: found {key!r} twice, by name and by index; give it once")
        seen.add(at)
        yield f"{place}[{key!r}]", slice(at, at + 1), pair


def _fill(both: np.ndarray, pair: Any, place: str) -> None:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{place}: found {described(pair)}; give a pair (lower, upper), None where there is no bound")
    for side, (given, values) in enumerate(zip(pair, both, strict=True)):
        if given is None:
            continue
        numbers = real_numbers(given, f"{place}[{side}]", "numbers, infinite where there is no bound")
        if np.isnan(numbers).any():
            raise ValueError(f"{place}[{side}]: found nan; give None or an infinite number where there is no bound")
        if numbers.shape not in ((), (values.shape[1],), values.shape):
            raise ValueError(
                f"{place}[{side}]: found shape {numbers.shape}; give a number, {values.shape[1]} numbers, or a row for each "
                f"node, shape {values.shape}"
            )
        values[:] = numbers
    lower, upper = both
    wrong = np.argwhere(~(lower < upper))
    if len(wrong):
        node, i = wrong[0]
        raise ValueError(
            f"{place}: found {lower[node, i]:g} as lower and {upper[node, i]:g} as upper bound; lower < upper is needed"
        )


def check_given(
    both: np.ndarray, values: np.ndarray, given: np.ndarray, t: np.ndarray, names: tuple[str, ...] | None
) -> None:
    """InconsistentDataError where a position that is given, (nodes, n), is outside its bounds."""
    slack = SLACK * np.maximum(np.ptp(values, axis=0), np.abs(values))
    wrong = np.argwhere(given & ((values < both[0] - slack) | (values > both[1] + slack)))
    if len(wrong):
        node, i = wrong[0]
        where = "initial" if node == 0 else "final" if node == len(t) - 1 else "through"
        name = names[i] if names else f"q[{i}]"
        raise InconsistentDataError(
            f"bounds['q']: found {name} = {values[node, i]:g} given at t = {t[node]:g} ({where}), "
            f"outside [{both[0, node, i]:g}, {both[1, node, i]:g}]; move the end or the bound"
        )
