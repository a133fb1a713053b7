"""The data of many runs: which of them every run has of its own, and the system of each."""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from dalembert.numbers import as_array, as_numbers, as_state, described
from dalembert.systems.proof import proven_runs
from dalembert.systems.system import System, as_parameter
from dalembert.tracing import taken_apart

PIECE = 512  # runs; XLA divides among threads what has more


def check_batch(system, data: dict, parameters: dict) -> tuple[dict, dict]:
    """The data of many runs as float arrays, and for each 0 where it has an axis of runs, None where it is shared."""
    wanted = {"q0": 1, "v0": 1, "nodes": 2, "jets": 2, "multipliers": 2}
    given: dict = {name: None if x is None else as_array(x, name) for name, x in data.items()}
    axes: dict = {name: _axis(given[name], wanted[name], name) for name in data}
    known = system.parameters
    if parameters and not isinstance(known, dict):
        raise TypeError("parameters: this system has none by name; build it with parameters={...}")
    unknown = sorted(str(name) for name in set(parameters) - set(known or {}))
    if unknown:
        raise ValueError(f"parameters: found {', '.join(unknown)}; the parameters are {', '.join(map(str, known))}")
    given["parameters"] = {name: as_parameter(x, f"parameters[{name!r}]") for name, x in parameters.items()}
    axes["parameters"] = {name: _parameter_axis(x, known[name], name) for name, x in given["parameters"].items()}
    return given, axes


def _parameter_axis(x, one, name: str) -> int | None:
    if not eqx.is_array(one):
        raise TypeError(f"parameters[{name!r}]: the system has several arrays under this name; a batch needs one")
    axis = _axis(x, one.ndim, f"parameters[{name!r}]")
    if x.shape[0 if axis is None else 1 :] != one.shape or (x.dtype == bool) != (one.dtype == bool):
        raise ValueError(
            f"parameters[{name!r}]: found {described(x)}; the system was built with {described(one)}, to which an axis of "
            "runs may be added in front"
        )
    return axis


def number_of_runs(given: dict, axes: dict, names: str, alone: str) -> int:
    """The common length of all axes of runs. names: of the data that one has; alone: the function for a single run."""
    flat = {**given, **given["parameters"]}
    found = {name: flat[name].shape[0] for name, axis in {**axes, **axes["parameters"]}.items() if axis == 0}
    lengths = set(found.values())
    if not lengths:
        raise ValueError(
            f"{names}, parameters: none has an axis of runs; give one of them an axis of B in front, or use {alone}"
        )
    if len(lengths) > 1:
        raise ValueError(f"q0, v0, parameters: found axes of different lengths, {found}; all must have B runs")
    if 0 in lengths:
        raise ValueError("q0, v0, parameters: found no run, the axis of runs has length 0")
    return lengths.pop()


def shared_size(size: int) -> int:
    """The number of lanes of a program that `size` runs share with others: a power of two, or at most an eighth more."""
    unit = 1 << ((size - 1).bit_length() - 4 if size > PIECE else (size - 1).bit_length())
    return -(-size // unit) * unit


def pieces(given: dict, axes: dict, size: int) -> Iterator[tuple[dict, int]]:
    """Some runs at a time, and how many they are; copies of the last one follow it up to a power of two, the same for all
    pieces: XLA compiles and keeps a program for each number of runs."""
    number = min(shared_size(size), PIECE)
    for begin in range(0, size, number):
        rows = np.minimum(np.arange(begin, begin + number), size - 1)
        take = lambda axis, x: x if axis is None else np.asarray(x)[rows]  # noqa: B023, E731
        yield jax.tree.map(take, axes, given, is_leaf=lambda x: x is None), min(number, size - begin)


def _axis(x, ndim: int, name: str) -> int | None:
    if x is None or x.ndim == ndim:
        return None
    if x.ndim == ndim + 1:
        return 0
    raise ValueError(f"{name}: found shape {x.shape}; {ndim} axes are needed, or {ndim + 1} with one of runs in front")


class Runs:
    """Initial data and systems of many runs, from `check_batch`.

    states: (B, 2, n) of (q, v). arrays: (B, G) those of each run's system, flat, None where they are the same.
    """

    def __init__(self, system: System, given: dict, axes: dict, number: int):
        self._parameters = {name: np.asarray(x) for name, x in given["parameters"].items()}
        self._system, self._axes = system, axes["parameters"]
        q, v = (_run_of(given[name], axes[name], 0) for name in ("q0", "v0"))
        sizes = map(len, as_state(q, v, system.coordinates, as_numbers))
        parts = [np.broadcast_to(given[name], (number, n)) for name, n in zip(("q0", "v0"), sizes, strict=True)]
        self.states = np.stack(parts, axis=1)
        self.arrays = self._stack_arrays(number) if self._parameters else None

    def _stack_arrays(self, number: int) -> Float[np.ndarray, "B G"]:
        first = self.system(0)
        names, columns = {id(first.parameters[name]): name for name in self._parameters}, []
        for leaf in taken_apart(first)[1]:
            own = self._parameters[names[id(leaf)]] if id(leaf) in names else leaf
            columns.append(np.broadcast_to(np.reshape(np.asarray(own, float), (-1, leaf.size)), (number, leaf.size)))
        return np.concatenate(columns, axis=1)

    def system(self, i: int) -> System:
        """The system of run i."""
        own = {name: _run_of(x, self._axes[name], i) for name, x in self._parameters.items()}
        return self._system.replace(**own) if own else self._system

    def unproven_runs(self, t0: float) -> list[int]:
        """The runs of whose data machine code has not proven that they pass every check."""
        return np.flatnonzero(~proven_runs(self.system(0), self.states, t0, self.arrays)).tolist()


def _run_of(x: Array | np.ndarray, axis: int | None, i: int) -> np.ndarray:
    return np.asarray(x) if axis is None else np.asarray(x)[i]  # a slice of an array of JAX is a program for every shape
