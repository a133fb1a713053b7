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


def split(g: Graph, equations: Equations) -> tuple[Part, Part]:
    """(head, tail): the head's equations hold no unknown of the tail, and the tail's are proven to be affine in them.

    The largest such tail among unions of the irreducible blocks of the Jacobian's structure; everything is head where the
    structure is singular, and where all equations are affine.
    """
    from scipy.sparse import csr_array  # slow to import, and needed only when a step is compiled
    from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

    n = len(equations.jacobian)
    everything, pattern = tuple(range(n)), equations.jacobian != g.zero
    whole = Part(everything, everything), Part((), ())
    row_of = maximum_bipartite_matching(csr_array(pattern), perm_type="row")
    if np.any(row_of < 0):
        return whole
    uses = (pattern | equations.reads())[row_of]  # uses[j, k]: the equation matched with unknown j holds unknown k
    count, block = connected_components(csr_array(uses), connection="strong")
    tail: set[int] = set()
    while (more := _next(uses, equations, row_of, block, count, tail)) is not None:
        tail |= more
    if len(tail) in (0, n):
        return whole
    parts = [[j for j in everything if j not in tail], sorted(tail)]
    head, rest = (Part(tuple(sorted(int(row_of[j]) for j in part)), tuple(part)) for part in parts)
    return head, rest


def _next(
    uses: np.ndarray, equations: Equations, row_of: np.ndarray, block: np.ndarray, count: int, tail: set[int]
) -> set[int] | None:
    """The unknowns of a block that can join the tail."""
    for b in range(count):
        own = set(np.flatnonzero(block == b).tolist())
        users = set(np.flatnonzero(uses[:, sorted(own)].any(axis=1)).tolist())
        if own <= tail or not users <= own | tail:
            continue
        together = sorted(own | tail)
        if equations.affine([int(row_of[j]) for j in together], together):
            return own
    return None
