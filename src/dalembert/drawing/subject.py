"""What a result is of: the problem itself in the process that solved it, or what a file kept of its looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Depicted:
    """The problem of a path or a solution, as long as it lives; all subjects are equal, and
    equal to none, as they are no part of a result.

    Never stored or pickled: what is loaded has the drawing that the file keeps, and no problem.

    Attributes:
        problem: a System, a DiscreteSystem or a VariationalProblem, or None.
        parameters: those of each run of an ensemble, {name: (B, …)}, in the place of the problem's.
        scheme: as given to the call.
        scene: the drawing that a file kept, or None.
    """

    __slots__ = ("parameters", "problem", "scene", "scheme")

    def __init__(
        self, problem: Any = None, parameters: Mapping[str, Any] | None = None, scheme: Any = None, scene: Any = None
    ):
        self.problem, self.parameters, self.scheme, self.scene = problem, parameters, scheme, scene

    def under(self, scheme: Any, each: Mapping[str, Any] | None = None) -> Depicted:
        """The same with a scheme, and with the parameters of many runs."""
        return Depicted(self.problem, each, scheme, self.scene)

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Depicted)

    def __hash__(self) -> int:
        return hash(None)

    def __reduce__(self):
        return Depicted, (None, None, None, self.scene)

    def lane(self, i: int) -> Any:
        """The problem of the i-th run, None where it is not known."""
        if self.problem is None or not self.parameters:
            return self.problem
        return self.problem.replace(**{name: values[i] for name, values in self.parameters.items()})
