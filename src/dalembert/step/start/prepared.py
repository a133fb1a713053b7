"""What a run begins with."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Array, Float

from dalembert.step.programs.base import StepProgram


class Given(NamedTuple):
    """Initial data as the user gave them."""

    q0: Any = None
    v0: Any = None
    nodes: Any = None
    jets: Any = None
    multipliers: Any = None


class Recipe(NamedTuple):
    """What a program is chosen by, besides the system: a Scheme or the windows, a starter, and a rule among roots."""

    scheme: Any
    starter: Any
    branch: Any


class Prepared(NamedTuple):
    """A program and the data of its first step: nodes known before it (starting_nodes + 1, n), position q, state s, and z.

    expected: where the first iteration starts; None for the program's guess.
    """

    program: StepProgram
    nodes: Float[Array, "known n"]
    q: Float[Array, "n"]
    s: Float[Array, "k"]
    expected: Float[Array, "z"] | None
