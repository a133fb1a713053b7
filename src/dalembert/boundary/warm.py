"""What a guess gives to a problem: its path, and of a known solution multipliers of constraints and of bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.boundary.data.columns import at_times
from dalembert.boundary.data.inequalities import continued_forces, nodes_of
from dalembert.boundary.kkt.transcription import Transcription
from dalembert.numbers import as_numbers
from dalembert.solution import Solution


def warm_multipliers(made: Transcription, z: np.ndarray, guess: Solution) -> None:
    """The multipliers of a known solution, at the times of this one."""
    w, layout = made.windows, made.layout
    known, found = guess.t_multipliers, np.asarray(guess.multipliers)
    for group in made.groups:
        own = at_times(known, found[:, group.equations], group.windows.times)
        blocks = group.first + group.attached + np.arange(len(own))
        z[blocks, group.begin : group.begin + group.size] = own.reshape(len(own), -1)
    parts = (
        (known, found[:, list(made.equations)], w.times, made.carriers, "multipliers"),
        (guess.t, np.asarray(guess.holonomic_multipliers), w.t, made.blocks_of_nodes, "holonomic"),
    )
    for times, values, wanted, block, part in parts:
        if values.shape[1]:
            new = at_times(times, values, wanted).reshape(len(wanted), -1)
            begin = layout.part(part).start
            z[block, begin : begin + new.shape[1]] = new


def known_forces(made: Transcription, positions: bool, z: np.ndarray, guess: Any) -> np.ndarray | None:
    """What the multipliers of the bounds add to the gradient on a known solution of the same bounds; those of path
    inequalities go into the path z. positions: whether positions have bounds."""
    paths = () if made.watched is None else made.watched.paths
    names = {*(["q"] if positions else []), *(path.name for path in paths)}
    if not isinstance(guess, Solution) or not names <= guess.bounds.keys():
        return None
    forces = np.zeros(z.shape)
    if positions:
        forces.ravel()[made.places] = continued_forces(guess.bounds["q"], nodes_of(made.windows.t))
    for path, values, own in zip(paths, made.watched_places("values"), made.watched_places("inequalities"), strict=True):
        found = path.known_forces(guess.bounds[path.name])
        forces.ravel()[values] = found
        z.ravel()[own] = found / path.level.weights[:, None]
    return forces


def guess_path(guess) -> np.ndarray:
    """The guess's own nodes, (…, n)."""
    path = as_numbers(guess.q if isinstance(guess, Solution) else guess, "guess")
    if path.ndim != 2:
        raise ValueError(f"guess: found shape {path.shape}; give a path (N+1, n), one row per node, or a Solution")
    return path


def guess_nodes(guess, t: np.ndarray, n: int) -> np.ndarray:
    """The guess at the times t, (N+1, n)."""
    path = guess_path(guess)
    if isinstance(guess, Solution):
        if path.shape[1] != n:
            raise ValueError(f"guess: found a Solution of {path.shape[1]} coordinates; the problem has n = {n}")
        return guess.interpolate(np.clip(t, float(guess.t[0]), float(guess.t[-1])))
    if path.shape != (len(t), n):
        raise ValueError(f"guess: found shape {path.shape}; give a path {(len(t), n)}, one row per node")
    return path
