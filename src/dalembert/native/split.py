"""The unknowns of a step in two parts: what Newton's method iterates, and what then follows from one linear system."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.native.depend import reached
from dalembert.native.elementwise import Nodes
from dalembert.native.graph import Graph, operands


@dataclasses.dataclass(frozen=True)
class Part:
    """Equations (rows) and unknowns (columns) that are solved together."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


def split(g: Graph, jacobian: Nodes) -> tuple[Part, Part]:
    """(head, tail): the head's equations hold no unknown of the tail, and the tail's are affine in them.

    The largest such tail among unions of the irreducible blocks of the Jacobian's structure; everything is head where the
    structure is singular, and where all equations are affine.
    """
    from scipy.sparse import csr_array  # slow to import, and needed only when a step is compiled
    from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

    n = len(jacobian)
    everything, pattern = tuple(range(n)), jacobian != g.zero
    whole = Part(everything, everything), Part((), ())
    row_of = maximum_bipartite_matching(csr_array(pattern), perm_type="row")
    if np.any(row_of < 0):
        return whole
    uses = pattern[row_of]  # uses[j, k]: the equation matched with unknown j holds unknown k
    count, block = connected_components(csr_array(uses), connection="strong")
    tail: set[int] = set()
    masks = _unknowns(g, jacobian)
    while (more := _next(uses, masks[row_of], block, count, tail)) is not None:
        tail |= more
    if len(tail) in (0, n):
        return whole
    parts = [[j for j in everything if j not in tail], sorted(tail)]
    head, rest = (Part(tuple(sorted(int(row_of[j]) for j in part)), tuple(part)) for part in parts)
    return head, rest


def _next(uses: np.ndarray, masks: np.ndarray, block: np.ndarray, count: int, tail: set[int]) -> set[int] | None:
    """The unknowns of a block that can join the tail."""
    for b in range(count):
        own = set(np.flatnonzero(block == b).tolist())
        users = set(np.flatnonzero(uses[:, sorted(own)].any(axis=1)).tolist())
        if own <= tail or not users <= own | tail:
            continue
        together = sorted(own | tail)
        bits = sum(1 << j for j in together)
        if not any(int(m) & bits for m in masks[np.ix_(together, together)].ravel()):
            return own
    return None


def _unknowns(g: Graph, jacobian: Nodes) -> np.ndarray:
    """For every entry the set of unknowns it depends on, as bits."""
    masks: dict[int, int] = {}
    for i in reached(g, jacobian.ravel().tolist()):
        node = g.nodes[i]
        mask = 1 << node[2] if node[0] == "var" and node[1] == "z" else 0
        for j in operands(node):
            mask |= masks[j]
        masks[i] = mask
    return np.array([masks[int(i)] for i in jacobian.ravel()], dtype=object).reshape(jacobian.shape)
