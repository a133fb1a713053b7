"""Windows of constraints of lower order than L: where a constraint of order j < k is imposed.

A constraint belongs on windows that see its highest derivative and nothing more: j+1 nodes, on which its principal part is
the j-th difference (z-1)ʲ. On the k+1 nodes of L it would be (z-1)ʲ a(z), and the roots of a, such as -1 of
(q₂-q₀)/2h, are motions that the constraint does not see and multipliers that do no work. On L's windows between two nodes
with derivatives it holds at the nodes with its first d-1 rates, d = k-j, and at j points between them: the zeros of the j-th
derivative of [s(1-s)]ᵏ. By Rodrigues' formula the d-th derivative of what vanishes there vanishes at L's Gauss points, to
leading order: the constraint is integrated, and given ends satisfy it to the last digit.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from jaxtyping import Float

from dalembert.discretize.window_maps import Hermite
from dalembert.discretize.windows import Windows, windows


class Between(Hermite):
    """Hermite's windows at j = k-d points: exact for Σ_s w_s f(s), d-fold zeros at the nodes given, up to degree 2k-1.

    multiplicity: d.
    """

    name: ClassVar[str] = "between"
    multiplicity: int = 1

    def points(self, positions):
        places, weights = inner_points(len(positions) // 2, self.multiplicity)
        return [(positions[-1] * x, positions[-1] * w) for x, w in zip(places.tolist(), weights.tolist(), strict=True)]


def inner_points(k: int, d: int) -> tuple[Float[np.ndarray, "j"], Float[np.ndarray, "j"]]:
    """Zeros of P_k⁽ᵈ⁾ on [0, 1], P_k Legendre's polynomial, and the weights of f(s) in the quadrature with d-fold ends.

    d = 0: Gauss; d = 1: Lobatto. The weight of f at an end is (1 - Σ w)/2.
    """
    polynomial = np.polynomial.legendre.Legendre.basis(k).deriv(d) if d else np.polynomial.legendre.Legendre.basis(k)
    x = np.sort(polynomial.roots().real)
    gauss, w = np.polynomial.legendre.leggauss(2 * k)
    lagrange = [np.prod([(gauss - b) / (a - b) for b in x if b != a], axis=0) for a in x]
    bubble = [((1 - gauss**2) / (1 - a**2)) ** d for a in x]
    return 0.5 * (1 + x), np.array([0.5 * np.sum(w * l * b) for l, b in zip(lagrange, bubble, strict=True)])


def constraint_windows(w: Windows, k: int, order: int) -> Windows:
    """The windows at which a constraint of this order is taken, order < k, from those of L.

    Node windows: those of a problem of this order on the same nodes; its slots are those of L but the first and last k -
    order where the ends hold derivatives. Windows between nodes with derivatives: the same, at the inner points.
    """
    if w.stride > 1:
        found = windows(Between(k - order), k, w.t)
        return found._replace(rows=found.rows[:, :, : order + 1])
    return windows(w.scheme, order, w.t, ends_with_derivatives(w))


def ends_with_derivatives(w: Windows) -> tuple[bool, bool]:
    """Whether the slots of the first and of the last node hold derivatives."""
    return int(w.nodes[0]) > 0, int(w.nodes[-1]) + 1 < len(w.orders)
