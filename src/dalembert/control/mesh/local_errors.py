"""Where the error of a cost comes from, step by step.

    S_h(j) = Σ L̃ of the windows in step j of a base mesh, on nodes that divide it into 1, 2 and 4, all along one path
    e_j = |(4S_{h/4} - S_{h/2})/3 - (4S_{h/2} - S_h)/3|

L̃ is stationary along the solution, so that a path's own error adds nothing of first order: what S differs by is what the
step itself does wrong. Smooth parts have S = a + bh² + ch⁴, which leaves e_j = O(h⁵); where a bound is reached inside a step
b depends on where, and e_j = O(h²). What the error of the path adds, of second order in d_j = |S_{h/4} - S_{h/2}|, belongs
to no step: it is shared as the d_j are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dalembert.control.solve import ControlSearch


class StepSums(NamedTuple):
    """values: (steps,), S of the steps of a base mesh, or parts of an error; sizes: (steps,), h|C| of them."""

    values: Float[np.ndarray, "steps"]
    sizes: Float[np.ndarray, "steps"]


def step_sums(ready: ControlSearch, parts: int) -> StepSums:
    """Along the first path of a problem, whose nodes divide the steps of the base mesh into so many parts each.

    What belongs to a node between two steps of the base mesh is shared as their lengths are.
    """
    inner, first, last, edges, *others = ready.kkt.assembly.values(ready.start.z)
    count = len(edges)
    nodes = np.concatenate([first[:, 0], inner[:, 0], last[:, 0]])
    lengths = np.diff(ready.start.data.t[::parts])
    values = edges[:, 0].reshape(-1, parts).sum(axis=1)
    within = np.append(nodes[:-1], 0.0)[:-1].reshape(-1, parts)
    values += within[:, 1:].sum(axis=1)
    shared = nodes[::parts]
    before = lengths / (lengths + np.append(lengths[1:], 0.0))
    values += before * shared[1:]
    values[1:] += (1.0 - before[:-1]) * shared[1:-1]
    values[0] += shared[0]
    sizes = np.abs(edges[:, 1]).reshape(-1, parts).sum(axis=1)
    sizes[-1] += sum(float(np.abs(other[:, 1]).sum()) for other in others)
    assert count == len(values) * parts
    return StepSums(values, sizes)


def local_errors(coarse: ControlSearch, middle: ControlSearch, fine: ControlSearch, error: float) -> StepSums:
    """The parts of the error, the larger one of this and Σ e_j, and h|C|, of the steps of the base mesh: with 1, 2 and 4
    parts of each."""
    one, two, four = (step_sums(ready, parts) for ready, parts in ((coarse, 1), (middle, 2), (fine, 4)))
    own = np.abs(4.0 * four.values - 5.0 * two.values + one.values) / 3.0
    apart = np.abs(four.values - two.values)
    rest = max(error - own.sum(), 0.0)
    return StepSums(own + rest * apart / max(apart.sum(), np.finfo(float).tiny), four.sizes)
