"""What a run begins with."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float

from dalembert.step.programs.base import StepProgram


class Prepared(NamedTuple):
    """A program and the data of its first step: nodes known before it (lead + 1, n), position q, state s, expected z."""

    program: StepProgram
    nodes: Float[Array, "known n"]
    q: Float[Array, "n"]
    s: Float[Array, "k"]
    expected: Float[Array, "z"] | None
