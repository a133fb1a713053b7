"""The unknowns of a step in two parts: what Newton's method iterates, and what then follows from one linear system."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.native.graph.graph import Graph
from dalembert.native.trace.proof import Equations


@dataclasses.dataclass(frozen=True)
class Part:
    """Equations (rows) and unknowns (columns) that are solved together."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


def split_unknowns(g: Graph, equations: Equations) -> tuple[Part, Part]:
    """(nonlinear, affine): the equations of the nonlinear unknowns hold none of the affine ones, and those of the affine
    unknowns are proven to be affine in them.

    As many affine ones as unions of the irreducible blocks of the Jacobian's structure give; all unknowns count as nonlinear
    where the structure is singular, and where all equations are affine.
    """
    n = len(equations.jacobian)
    everything, pattern = tuple(range(n)), equations.jacobian != g.zero
    whole = Part(everything, everything), Part((), ())
    row_of = matching(pattern)
    if row_of is None:
        return whole
    uses = (pattern | equations.reads())[row_of]  # uses[j, k]: the equation matched with unknown j holds unknown k
    count, block = cycles(uses)
    affine: set[int] = set()
    while (more := _next(uses, equations, row_of, block, count, affine)) is not None:
        affine |= more
    if len(affine) in (0, n):
        return whole
    parts = [[j for j in everything if j not in affine], sorted(affine)]
    nonlinear, rest = (Part(tuple(sorted(int(row_of[j]) for j in part)), tuple(part)) for part in parts)
    return nonlinear, rest


def matching(pattern: np.ndarray) -> np.ndarray | None:
    """For every column a row of its own with an entry in it, (n,), by augmenting paths; None where there is none.

    Written out, and `cycles` too, because SciPy's graphs take longer to import than all else that the first call does.
    """
    rows = [np.flatnonzero(column).tolist() for column in pattern.T]
    column_of: dict[int, int] = {}
    row_of: dict[int, int] = {}
    for start in range(len(rows)):
        came, front, free = {}, [start], None  # row → the column from which it was reached
        while front and free is None:
            column = front.pop()
            for row in rows[column]:
                if row not in came:
                    came[row] = column
                    if row not in column_of:
                        free = row
                        break
                    front.append(column_of[row])
        if free is None:
            return None
        while free is not None:  # every row of the path goes over to the column that reached it
            column = came[free]
            before = row_of.get(column)
            column_of[free], row_of[column] = column, free
            free = before
    return np.array([row_of[column] for column in range(len(rows))], int)


def cycles(uses: np.ndarray) -> tuple[int, np.ndarray]:
    """(number, (n,) which of them) of the strongly connected components of a graph, uses[j, k]: an edge from j to k."""
    reach = uses | np.eye(len(uses), dtype=bool)
    while np.any(more := (reach.astype(float) @ reach.astype(float) > 0.0) & ~reach):
        reach = reach | more
    first = np.argmax(reach & reach.T, axis=1)  # the least member names the component
    names, block = np.unique(first, return_inverse=True)
    return len(names), block


def _next(
    uses: np.ndarray, equations: Equations, row_of: np.ndarray, block: np.ndarray, count: int, affine: set[int]
) -> set[int] | None:
    """The unknowns of a block that can join the affine ones."""
    for b in range(count):
        own = set(np.flatnonzero(block == b).tolist())
        users = set(np.flatnonzero(uses[:, sorted(own)].any(axis=1)).tolist())
        if own <= affine or not users <= own | affine:
            continue
        together = sorted(own | affine)
        if equations.affine([int(row_of[j]) for j in together], together):
            return own
    return None
