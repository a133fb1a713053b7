"""Statistics: what the solver did in a run. Numbers only."""

from __future__ import annotations

from jaxtyping import Array, Float, Int

from dalembert.lazy import Lazy


class Statistics(Lazy):
    """What the solver did, over the whole run, including steps that were not saved.

    Attributes:
        iterations: total number of Newton iterations.
        max_iterations: largest number of Newton iterations in one step.
        residual: largest residual over all steps, each at the last evaluation in that step, with scaled rows; in the
            native run, of those equations that are iterated.
        crossings: number of times that two roots of a step crossed: the factor u, or, under a rule that chooses among
            roots, the Jacobian determinant, changed sign.
        turns: number of steps in which the velocity turned by more than a right angle; an oscillation of one coordinate
            has two per period.
        leaps: number of steps over which the determinant of the equations changed in size by more than a factor of
            three; -1 if not counted. For steps that vary in length: number of steps at whose end, or in whose middle, their
            density was off the wanted one by a quarter.
        failed_step: index of the step that could not be solved; -1 if there is none.
        failed_time: the time of that step; nan if there is none.
        failed_residual: the residual of that step; nan if there is none.

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
