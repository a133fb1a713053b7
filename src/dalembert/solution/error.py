"""SolveError: a boundary problem whose iteration ended without a solution."""

from __future__ import annotations

from dalembert.solution.critical_point import CriticalPoint


class SolveError(RuntimeError):
    """δ(Σ L_d + λᵀΦ_d) = 0 was not solved: the solution of a boundary problem failed.

    Attributes:
        solution: a Solution with the last path, or the path of least violation.

    Example:
        >>> crooked = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + jnp.cosh(q[0]), derivatives=2)
        >>> try:
        ...     da.solve(crooked, initial=([0.0], [0.0]), final=([3.0], [0.0]), T=1.0, steps=10, max_iterations=1)
        ... except da.SolveError as error:
        ...     error.solution.outcome.name
        'NOT_CONVERGED'
    """

    def __init__(self, solution: CriticalPoint):
        super().__init__(solution)

    @property
    def solution(self) -> CriticalPoint:
        return self.args[0]

    def __str__(self) -> str:
        return self.solution.describe()
