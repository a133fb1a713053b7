"""StepError: a run that ended before its last step."""

from __future__ import annotations

from dalembert.path.path import Path


class StepError(RuntimeError):
    """F(z) = 0 was not solved: a step of a run failed.

    Attributes:
        path: the Path up to the failed step.

    Example:
        >>> try:
        ...     da.simulate(pendulum, [1.0], [0.0], h=5.0, steps=20)  # too long a step
        ... except da.StepError as error:
        ...     error.path.outcome.name
        'NO_SOLUTION'
    """

    def __init__(self, path: Path):
        super().__init__(path)

    @property
    def path(self) -> Path:
        return self.args[0]

    def __str__(self) -> str:
        return self.path.describe()
