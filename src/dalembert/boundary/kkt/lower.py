"""Constraints of lower order than L: on windows of their own, at nodes with their rates, and what they leave.

Node windows: φ on j+1 neighbouring slots. Where an end holds derivatives that are free, so are the rates of φ there, and the
end's own φ, φ̇, … hold too; given derivatives satisfy them already. Windows between nodes with derivatives: φ and its first
k-j-1 rates at every node, φ at j points between, see `discretize.constraint_windows`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from dalembert.boundary.data.sizes import Sizes
from dalembert.boundary.kkt.free_time import ROWS, TIME
from dalembert.discretize.windows import Windows, constraint_windows, ends_with_derivatives, inner_points, window_jets
from dalembert.systems import InconsistentDataError
from dalembert.systems.higher.variational import VariationalProblem, constraints_of_order, with_parameters

GIVEN = 1e-8  # largest |φ| on nodes that are given, relative to the path


@dataclasses.dataclass(frozen=True)
class LowerTerm:
    """w_s φ(jet_s, t_s) of one window, for the constraints of one order."""

    problem: VariationalProblem  # without its parameters
    order: int
    n: int
    width: int
    stride: int
    scaling: ClassVar = (ROWS, 0, TIME, 1)

    def __call__(self, z, data, parameters):
        rows, chained, times, weights = data
        problem = with_parameters(self.problem, parameters)
        jets = window_jets(rows, chained, z[: self.width * self.n].reshape(self.width, self.n), self.stride)
        values = [
            w * constraints_of_order(problem, self.order, jet, t) for jet, t, w in zip(jets, times, weights, strict=True)
        ]
        return jnp.zeros(()), jnp.concatenate(values)


class Group(NamedTuple):
    """The constraints of one order. equations: their places among all. windows: where they are taken, first: the block
    where the slots of the first window begin, attached: blocks from there to the one with its multipliers; begin: their
    first component. free: (W,), the windows with a slot that is not given. clean: (W,), those whose multipliers tend to
    λ(t), see `groups_of`."""

    order: int
    equations: tuple[int, ...]
    windows: Windows
    first: int
    attached: int
    begin: int
    free: np.ndarray
    clean: np.ndarray

    @property
    def size(self) -> int:
        """Multipliers of a window."""
        return self.windows.times.shape[1] * len(self.equations)

    @property
    def slots(self) -> np.ndarray:
        """(W, width): what its windows read."""
        w = self.windows
        return (self.first + np.arange(len(w.times)))[:, None] * w.stride + np.arange(w.width)

    def raw(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times (K,) and multipliers (K, m_j) of the windows that are clean, of a path (blocks, b)."""
        w = self.windows
        blocks = self.first + self.attached + np.arange(len(w.times))
        values = z[blocks, self.begin : self.begin + self.size].reshape(*w.times.shape, -1)
        return w.times[self.clean].ravel(), values[self.clean].reshape(-1, len(self.equations))


def groups_of(orders: tuple[int, ...], w: Windows, k: int, begin: int, fixed_slots: np.ndarray) -> list[Group]:
    """The groups of a problem whose constraints have these orders. begin: their first component in a block.

    The first d = k-j windows of an end with derivatives are not clean: the end's own φ, φ̇, … hold too, their multipliers
    are point masses λ + D₀δ + D₁δ̇ + …, and the windows within their reach carry them.
    """
    found = []
    for order in sorted(set(orders) - {k}):
        own = constraint_windows(w, k, order)
        equations = tuple(int(i) for i in np.flatnonzero(np.array(orders) == order))
        spread, d, sides = w.stride == 1, k - order, ends_with_derivatives(w)
        first, count = d if spread and sides[0] else 0, len(own.times)
        slots = first * w.stride + np.arange(count)[:, None] * w.stride + np.arange(own.width)
        free, clean = np.any(~fixed_slots[slots], axis=1), np.ones(count, dtype=bool)
        if spread:
            clean[: d * sides[0]] = clean[count - d * sides[1] :] = False
        attached = order // 2 if spread else 0
        clean &= free | (not spread)
        found.append(Group(order, equations, own, first, attached, begin, free, clean))
        begin += (1 if spread else k) * len(equations)
    return found


def check_given_windows(groups: list[Group], gradient: np.ndarray, sizes: Sizes, reach: float) -> None:
    """InconsistentDataError where all nodes of a window are given and φ ≠ 0 there. gradient: of L̃, by the multipliers wφ;
    reach: the largest position, in typical sizes."""
    for g in groups:
        blocks = g.first + g.attached + np.flatnonzero(~g.free)
        values = gradient[blocks, g.begin : g.begin + g.size].reshape(len(blocks), g.windows.times.shape[1], -1)
        off = np.abs(values / g.windows.weights[~g.free][:, :, None])
        relative = (off / sizes.differential[list(g.equations)]).max(axis=(1, 2), initial=0.0)
        if np.any(relative > GIVEN * (1.0 + reach)):
            worst = int(np.argmax(relative))
            time, value = g.windows.times[~g.free][worst, 0], off[worst].max()
            raise InconsistentDataError(
                f"initial, final, through: a constraint of order {g.order} depends only on the data given at t = {time:g}, "
                f"and it is {value:.3g}, not 0. Give nodes that satisfy the discrete constraint, or derivatives at the ends "
                "and more steps"
            )


def node_weights(w: Windows, k: int, order: int) -> np.ndarray:
    """(N+1,) of φ at the nodes: those of the quadrature whose inner points the windows have; 0 of node windows."""
    end = 0.5 * (1.0 - inner_points(k, k - order)[1].sum())
    steps = np.diff(w.t)
    return end * (np.append(steps, 0.0) + np.append(0.0, steps))
