"""The window maps: how k+1 neighbouring points, or given derivatives at an end, become the jet (q, q̇, …, q⁽ᵏ⁾)."""

from __future__ import annotations

import abc
from math import factorial
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from dalembert.numbers import described


class WindowMap(eqx.Module):
    """Q^{k+1} → T⁽ᵏ⁾Q near the diagonal: how a window of k+1 nodes gives (q, q̇, …, q⁽ᵏ⁾). The base class of the window
    maps.

    Attributes:
        name: the name that a Solution stores.
        differenced: whether q⁽ᵏ⁾ is a k-th difference.
        order: k → the order of the solutions, with ends given by derivatives.

    Example:
        >>> da.Interpolated().order(2), da.Averaged().order(2), da.Hermite().order(2)
        (2, 2, 4)
    """

    name: ClassVar[str]
    differenced: ClassVar[bool] = True

    @abc.abstractmethod
    def order(self, k: int) -> int:
        """p of the error O(hᵖ) of the solutions."""

    def repeats(self, k: int) -> int:
        """Number of unknown vectors at a node."""
        return 1

    def points(self, positions: list) -> list[tuple[Any, Any]]:
        """(time from the first knot, weight) of each point at which the jet is evaluated."""
        k = len(positions) - 1
        return [(sum(positions) / len(positions), (positions[-1] - positions[0]) / k)]

    def jet(self, table: list, positions: list, point, k: int) -> list:
        """The rows of q, q̇, …, q⁽ᵏ⁾ at a point, from the table of divided differences."""
        return _interpolant(table, positions, point, k)


class Interpolated(WindowMap):
    """The jet of the polynomial through the k+1 points, at the mean of their times: second order, on any grid.

    k = 2, equal steps: (q₁, (q₂-q₀)/2h, (q₂-2q₁+q₀)/h²).

    Attributes:
        name: "interpolated".

    Example:
        >>> da.solve(beam, initial=([0.0],), final=([1.0],), T=1.0, steps=10, scheme=da.Interpolated()).scheme
        'interpolated'
    """

    name: ClassVar[str] = "interpolated"

    def order(self, k: int) -> int:
        return 2


class Averaged(WindowMap):
    """q⁽ʲ⁾ = the mean of the k+1-j divided differences of order j, times j!: second order.

    k = 2: (mean of three points, (q₂-q₀)/(t₂-t₀), second difference).

    Attributes:
        name: "averaged".

    Source: Colombo, Martín de Diego, Zuccalli, section 4.2, whose second difference, divided by t₂-t₁, is consistent for
    equal steps only; here it is divided by (t₂-t₀)/2.

    Example:
        >>> da.Averaged().name
        'averaged'
    """

    name: ClassVar[str] = "averaged"

    def order(self, k: int) -> int:
        return 2

    def jet(self, table, positions, point, k):
        return [factorial(j) * sum(table[j]) / len(table[j]) for j in range(k + 1)]


class Hermite(WindowMap):
    """The polynomial of degree 2k-1 through the jets of two nodes, evaluated at k Gauss points: order 2k.

    The unknowns of a node are q, q̇, …, q⁽ᵏ⁻¹⁾.

    Attributes:
        name: "hermite".

    Source: not in the paper of Colombo, Martín de Diego, Zuccalli: its L_d on Q^{k+1} is replaced by one on (T⁽ᵏ⁻¹⁾Q)².

    Example:
        >>> cubic = da.solve(beam, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=2, scheme=da.Hermite())
        >>> round(float(cubic.action), 9)  # ½∫q̈², exact
        6.0
    """

    name: ClassVar[str] = "hermite"

    def order(self, k: int) -> int:
        return 2 * k

    def repeats(self, k: int) -> int:
        return k

    def points(self, positions):
        places, weights = np.polynomial.legendre.leggauss(len(positions) // 2)
        half = positions[-1] / 2
        return [(half * (1 + x), half * w) for x, w in zip(places.tolist(), weights.tolist(), strict=True)]


class Points(WindowMap):
    """L_d(q₀, …, q_k) and Φ_d(q₀, …, q_k) are the functions of the problem themselves, with weight 1 and the time of q₀: no
    jet.

    The discrete variational principle itself, on equal steps or without any step; ends are given by nodes.

    Attributes:
        name: "points".
        differenced: False.

    Source: Colombo, Martín de Diego, Zuccalli, section 3.1.

    Example:
        >>> discrete = da.VariationalProblem(lambda q0, q1: 0.5 * (q1 - q0) @ (q1 - q0))
        >>> first, last = da.Nodes([[0.0]]), da.Nodes([[1.0]])
        >>> da.solve(discrete, initial=first, final=last, T=4, steps=4, scheme=da.Points()).q[:, 0].round(9).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    name: ClassVar[str] = "points"
    differenced: ClassVar[bool] = False

    def order(self, k: int) -> int:
        raise ValueError("scheme: a discrete Lagrangian given directly has no order of its own")

    def points(self, positions):
        return [(0 * positions[0], 1)]

    def jet(self, table, positions, point, k):
        return table[0]


def as_windows(scheme: Any) -> WindowMap:
    """TypeError for anything but windows."""
    if not isinstance(scheme, WindowMap):
        raise TypeError(f"scheme: found {described(scheme)}; give Interpolated(), Averaged() or Hermite()")
    return scheme


def check_stretchable(scheme: WindowMap) -> None:
    """ValueError for windows that do not depend on the steps."""
    if not scheme.differenced:
        raise ValueError(
            f"T: found Free together with scheme={type(scheme).__name__}(), whose discrete Lagrangian has no time step that "
            "could change; give T as a number"
        )


MAPS = {cls.name: cls for cls in (Interpolated, Averaged, Hermite, Points)}


def _interpolant(table: list, positions: list, point, k: int) -> list:
    """Derivatives 0 … k at a point of Newton's Σ_m q[t_0 … t_m] (t - t_0) … (t - t_{m-1})."""
    jet = [0 * table[0][0]] * (k + 1)
    product = [1] + [0] * k  # Taylor coefficients of the product at the point
    for m, row in enumerate(table):
        jet = [have + factorial(j) * product[j] * row[0] for j, have in enumerate(jet)]
        distance = point - positions[m]
        product = [distance * product[0], *(distance * product[j] + product[j - 1] for j in range(1, k + 1))]
    return jet
