"""controllability: what the controls reach near a solution, by the linearisation of its discrete equations of motion."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Float

from dalembert.control.problem import OptimalControl
from dalembert.discretize import Scheme
from dalembert.guidance.linearisation import Linearised, along, linearised
from dalembert.guidance.sweep import kernel_of
from dalembert.solution import ControlSolution

CONTROLLABLE = 1e-8  # smallest singular value, relative to the largest, of what can be reached


class Controllability(eqx.Module):
    """W = Σ Φ(T, t_i) b_i b_iᵀ Φ(T, t_i)ᵀ/w_i, b_i = ∂x(t_{i+1})/∂u_i: the Gramian of the linearisation along a solution.

    δx(T)ᵀ W⁻¹ δx(T) is the least ∫|δu|² dt that changes the last state by δx.

    Attributes:
        gramian: (2n, 2n) W, of (q, v) at the last node.
        singular_values: (d,) of the map from controls of unit size to the last state, in units of typical sizes, in
            decreasing order; d is 2n minus the number of dimensions that the constraints of the plant exclude.
        directions: (d, 2n) the corresponding directions of (q, v), in units of typical sizes.
        smallest: the last singular value divided by the first: 0, up to rounding, if some states cannot be reached.

    Example:
        >>> found = da.controllability(move, plan)
        >>> found.controllable, np.round(found.gramian, 2).tolist()  # T³/3, T²/2, T
        (True, [[0.33, 0.5], [0.5, 1.0]])
    """

    gramian: Float[np.ndarray, "2n 2n"]
    singular_values: Float[np.ndarray, "d"]
    directions: Float[np.ndarray, "d 2n"]

    @property
    def smallest(self) -> float:
        largest = float(self.singular_values[0]) if len(self.singular_values) else 0.0
        return float(self.singular_values[-1]) / largest if largest > 0.0 else 0.0

    @property
    def controllable(self) -> bool:
        """Whether all directions that the constraints permit can be reached."""
        return self.smallest > CONTROLLABLE


def controllability(problem: OptimalControl, solution: ControlSolution, *, scheme: Scheme | None = None) -> Controllability:
    """δx(T) = Σ Φ(T, t_i) b_i δu_i: whether the controls can change the last state in every direction, to first order.

    If they can, and no bound is active, final states near that of the solution can be reached as well.

    Args:
        problem: the OptimalControl that was solved.
        solution: the motion along which the plant is linearised.
        scheme: the Scheme that was given to `solve`.

    Returns:
        A Controllability, with the Gramian and its singular values.

    Raises:
        ValueError: the solution does not belong to the problem, or is not solved.
        TypeError: an argument is of the wrong type.

    Source: Colombo, Martín de Diego, Zuccalli, section 2.1; here along a motion, and for the discrete equations.

    Example:
        >>> da.controllability(move, plan).controllable
        True
    """
    start = along(problem, solution, scheme)
    lin = linearised(start, np.zeros(start.z.shape, dtype=bool))
    reached, tangent = _end_derivatives(lin)
    n, sizes = lin.layout.n, lin.sizes
    units, order = lin.units[-1][np.r_[2 * n : 3 * n, n : 2 * n], None], np.r_[n : 2 * n, :n]  # (v, q) → (q, v)
    states, permitted = (units * reached)[order], (units * tangent)[order]
    scale = np.concatenate([sizes.positions, sizes.positions / sizes.time])
    basis = np.linalg.qr(permitted / scale[:, None])[0]
    controls = np.tile(sizes.controls, len(lin.t)) * np.sqrt(sizes.time)
    left, values, _ = np.linalg.svd(basis.T @ (states / scale[:, None] * controls), full_matrices=False)
    return Controllability(states @ states.T, values, (basis @ left).T)


def _end_derivatives(lin: Linearised) -> tuple[np.ndarray, np.ndarray]:
    """∂(v_N, q_N)/∂(u_i √w_i) of all controls, one after the other, (2n, (N+1)r); and what the constraints permit
    of (v_N, q_N)."""
    n, r, m = lin.layout.n, lin.layout.r, lin.layout.m
    known = 2 * n
    h = np.diff(lin.t)
    weights = 0.5 * (np.append(h, 0.0) + np.append(0.0, h))
    adjoint = np.arange(n + r + m, n + r + 2 * m + n)  # rows λ, η
    new = known + np.r_[:n, n + r : n + r + m]  # columns q_{i+1}, ν
    controls = known + np.arange(n, n + r)
    states = np.zeros((known, 0))
    for i in range(len(lin.t)):
        rows = lin.rows[i][adjoint]
        change = -np.linalg.solve(rows[:, new], np.concatenate([rows[:, :known], rows[:, controls]], axis=1))[:n]
        change[:, known:] /= lin.units[i][controls] * np.sqrt(weights[i])
        after = np.concatenate([change[:, :known] @ states, change[:, known:]], axis=1)
        here = np.concatenate([states[n:], np.zeros((n, r))], axis=1)
        if i < len(lin.t) - 1:
            states = np.concatenate([(after - here) / lin.spans[i + 1][:, None], after])
        else:
            states = np.concatenate([after, here])
    return states, _permitted_basis(lin)


def _permitted_basis(lin: Linearised) -> np.ndarray:
    """A basis of the (v_N, q_N) that satisfy the constraints."""
    n, r, m = lin.layout.n, lin.layout.r, lin.layout.m
    velocity = lin.rows[-1][n + r + m + n :][:, np.r_[2 * n : 3 * n, n : 2 * n]]
    position = np.concatenate([np.zeros((m, n)), lin.before[-1][:m, n:]], axis=1)[lin.holonomic]
    return kernel_of(np.concatenate([velocity, position]))
