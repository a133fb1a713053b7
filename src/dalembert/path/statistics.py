"""Statistics: what the solver did in a run. Numbers only."""

from __future__ import annotations

from jaxtyping import Array, Float, Int

from dalembert.lazy import Lazy


class Statistics(Lazy):
    """What the solver did, over the whole run, also over steps that were not saved.

    Attributes:
        iterations: Newton iterations, total.
        max_iterations: Newton iterations in one step, the most.
        residual: largest row-scaled residual norm at the last evaluation of a step; in the native run of the equations that
            are iterated.
        crossings: number of times the factor u (or, under a rule that chooses among roots, the Jacobian determinant) changed
            sign, i.e. two roots of a step crossed.
        turns: number of steps in which the velocity turned by more than a right angle, two in an oscillation of one
            coordinate.
        leaps: number of steps over which the determinant of their equations changed its size more than threefold, -1 if not
            counted; of steps that vary in length, those at whose end their density was off the wanted one by a quarter.
        failed_step: of the step that could not be solved, -1 if there is none.
        failed_time: its time, nan if there is none.
        failed_residual: its residual, nan if there is none.

    Example:
        >>> int(path.statistics.failed_step)
        -1
    """

    iterations: Int[Array, ""]
    max_iterations: Int[Array, ""]
    residual: Float[Array, ""]
    crossings: Int[Array, ""]
    turns: Int[Array, ""]
    leaps: Int[Array, ""]
    failed_step: Int[Array, ""]
    failed_time: Float[Array, ""]
    failed_residual: Float[Array, ""]
