"""Sink: where a run puts its rows if not into memory, and what a run tells of itself there."""

from __future__ import annotations

import abc
import hashlib
import json
import os
import platform
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dalembert.native.llvm.jit import host
from dalembert.numbers import described
from dalembert.path import Path, Provenance
from dalembert.step.run.steps import Steps

State = dict[str, np.ndarray]


class Opening(NamedTuple):
    """What is known of a run before its first step. path: of the nodes before it, with provenance; rows: how many there will
    be at most; state: between two steps; fingerprint: by what its bits are determined, besides the provenance."""

    path: Path
    rows: int
    state: State
    fingerprint: dict[str, str]

    @property
    def record(self) -> Provenance:
        """Of the call."""
        assert self.path.provenance is not None
        return self.path.provenance


class Sink(abc.ABC):
    """Takes the rows of a run, in their order. A commit: all rows so far, and the state that comes after them, are safe."""

    @abc.abstractmethod
    def begin(self, opening: Opening) -> tuple[int, State] | None:
        """Where to go on: how many rows there are, and the state after them; None: from the beginning."""

    @abc.abstractmethod
    def take(self, fields: dict[str, np.ndarray | None], first: int) -> None:
        """Rows by the fields of a Path; first: the number of the first one. Rows after the last commit may come again."""

    @abc.abstractmethod
    def due(self) -> bool:
        """Whether it is time for a commit."""

    @abc.abstractmethod
    def commit(self, path: Path, rows: int, state: State) -> None:
        """From here the run may be taken up again. path: its statistics; rows: how many have been taken."""

    @abc.abstractmethod
    def finish(self, path: Path, rows: int, taken: int, state: State) -> None:
        """The run has ended; path: outcome and statistics, with its last row alone; rows: after which the state comes, and
        `taken` how many there are, one more where it was broken off between two rows."""

    @abc.abstractmethod
    def close(self) -> None:
        """However the run ended."""


_OPENERS: list[Callable[[str | os.PathLike], Sink]] = []


def register(opener: Callable[[str | os.PathLike], Sink]) -> None:
    """What makes a sink of the name of a store; the room that writes stores is above this one."""
    _OPENERS[:] = [opener]


def sink_of(store: Any) -> Sink:
    """The sink of this name, in which nothing is yet."""
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"store: found {described(store)}; give a name, such as 'run.zarr'")
    if not _OPENERS:
        raise ValueError("store: nothing that writes stores is loaded; import dalembert.studies")
    return _OPENERS[0](store)


def fingerprint(steps: Steps) -> dict[str, str]:
    """What determines the bits of a run besides its record."""
    return fingerprint_of(steps.native, steps.key, steps.inputs)


def fingerprint_of(native: bool, equations: str, inputs: np.ndarray) -> dict[str, str]:
    """What determines the bits of a run besides its record: the equations as they are computed, what they read, processor.

    equations: hash of the machine code, or of what JAX reads; inputs: the numbers that they read.
    """
    return {
        "backend": "native" if native else "jax", "equations": equations,
        "inputs": hashlib.sha256(np.ascontiguousarray(inputs).tobytes()).hexdigest(),
        "processor": processor(),
    }  # fmt: skip


def processor() -> str:
    """By what it rounds: the features of this one, and the C library."""
    return json.dumps([*host(), *platform.libc_ver()])
