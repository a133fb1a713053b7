"""StepError: a run that ended before its last step."""

from __future__ import annotations

from dalembert.path.path import Path


class StepError(RuntimeError):
    """F(z) = 0 was not solved: a step failed.

    Attributes:
        path: everything computed before it, a Path.

    Example:
        >>> try:
        ...     da.simulate(pendulum, [1.0], [0.0], h=5.0, steps=20)  # too long a step
        ... except da.StepError as error:
        ...     error.path.outcome.name
        'NO_SOLUTION'
    """

    def __init__(self, path: Path):
        self.path = path
        super().__init__(path.describe())

    def __reduce__(self):
        """From a process of a pool: pickle would call StepError with the message alone."""
        return type(self), (self.path,), vars(self)
