"""The discrete Legendre maps of a System or a DiscreteSystem, and the covector that the constraint forces balance."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.measure.nodes import NodeView, node_view
from dalembert.numbers import as_number, as_vector
from dalembert.systems import System, check_x64
from dalembert.tracing import seldom


class LegendreMaps(NamedTuple):
    """p⁻ at q₀ and p⁺ at q₁: F⁻L_d(q₀,q₁) = (q₀, p⁻), F⁺L_d(q₀,q₁) = (q₁, p⁺).

    The one-forms on Q×Q are θ⁻ = p⁻·dq₀ and θ⁺ = p⁺·dq₁; without forces dL_d = θ⁺ - θ⁻.

    Attributes:
        minus: (n,) p⁻ = -D₁L_d - f_d⁻.
        plus: (n,) p⁺ = D₂L_d + f_d⁺.
    """

    minus: Float[Array, "n"]
    plus: Float[Array, "n"]


class Balance(NamedTuple):
    """β(q₀,q₁,q₂) = iᵗ(F⁺L_d(q₀,q₁) - F⁻L_d(q₁,q₂)), a covector on D_V at q₁, zero on trajectories.

    Attributes:
        covector: (n,) F⁺ - F⁻ itself; it is -h R_dᵀλ on trajectories.
        basis: (n, n - m) an orthonormal basis of D_V.
        components: (n - m,) components of β in that basis.
    """

    covector: Float[Array, "n"]
    basis: Float[Array, "n d"]
    components: Float[Array, "d"]


def legendre(
    system: System | DiscreteSystem, q0, q1, *, h: float = 1.0, t0: float = 0.0, scheme: Scheme | None = None
) -> LegendreMaps:
    """p⁻ = -D₁L_d(q₀,q₁) - f_d⁻(q₀,q₁),  p⁺ = D₂L_d(q₀,q₁) + f_d⁺(q₀,q₁).

    For a VariationalProblem they are the components of Θ⁻ and Θ⁺, see `poincare_cartan`.

    Args:
        system: a System or a DiscreteSystem.
        q0: (n,) a node at t0.
        q1: (n,) a node at t0 + h.
        h: time step.
        t0: time of q0.
        scheme: the Scheme whose maps give L_d and f_d of a System; Scheme("nodes") by default.

    Returns:
        A LegendreMaps, in units of momentum.

    Raises:
        ValueError: an argument has the wrong shape, or the scheme has no map of nodes.
        TypeError: an argument is of the wrong type.

    Source: Borda, Fernández, Grillo, eq. (3); Jiménez, Scheurle, Section 5. With forces: Marsden, West, Section 3.2.1.

    Example:
        >>> found = da.measure.legendre(pendulum, [1.0], [1.0], h=0.1)  # at rest: half of the step's force at each end
        >>> bool(abs(found.plus + found.minus)[0] < 1e-15), bool(found.plus[0] < 0.0)
        (True, True)
    """
    view, (a, b), t = _given(system, (q0, q1), h, t0, scheme)
    return _maps(view, a, b, t)


def balance(
    system: System | DiscreteSystem, q0, q1, q2, *, h: float = 1.0, t0: float = 0.0, scheme: Scheme | None = None
) -> Balance:
    """β(q₀,q₁,q₂) = iᵗ(F⁺L_d(q₀,q₁) - F⁻L_d(q₁,q₂)): zero where (q₀,q₁,q₂) satisfies d'Alembert's principle.

    Args:
        system: a System or a DiscreteSystem.
        q0: (n,) a node at t0.
        q1: (n,) a node at t0 + h.
        q2: (n,) a node at t0 + 2h.
        h: time step.
        t0: time of q0.
        scheme: as for `legendre`.

    Returns:
        A Balance.

    Raises:
        ValueError: an argument has the wrong shape, or the scheme has no map of nodes.
        TypeError: an argument is of the wrong type.

    Source: Borda, Fernández, Grillo, eqs. (3) and (4).

    Example:
        >>> bool(abs(da.measure.balance(pendulum, [0.0], [0.1], [0.3], h=0.1).components[0]) > 0.5)  # no trajectory
        True
    """
    view, (a, b, c), t = _given(system, (q0, q1, q2), h, t0, scheme)
    return _balance(view, a, b, c, t)


def _given(system, points, h, t0, scheme) -> tuple[NodeView, list[Array], Array]:
    check_x64()
    first = as_vector(points[0], "q0")
    others = [as_vector(x, f"q{i}", first.shape[0]) for i, x in enumerate(points[1:], 1)]
    view = node_view(system, scheme, h, first.shape[0])
    return view, [first, *others], jnp.asarray(as_number(t0, "t0", "a finite time"), dtype=float)


@seldom
def _maps(view: NodeView, q0, q1, t) -> LegendreMaps:
    return LegendreMaps(-view.outgoing(q0, q1, t), view.incoming(q0, q1, t))


@seldom
def _balance(view: NodeView, q0, q1, q2, t) -> Balance:
    nodes = (q0, q1, q2, t + view.h)
    covector, rows = view.balance(*nodes), view.reactions(*nodes)
    basis = jnp.linalg.svd(rows, full_matrices=True)[2][view.m :].T if view.m else jnp.eye(q1.shape[0])
    return Balance(covector, basis, basis.T @ covector)
