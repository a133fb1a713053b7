"""Deformed constraints φ + δ g = 0 with the forces that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from dalembert.numbers import as_function, as_number
from dalembert.systems.constraints import Nonholonomic
from dalembert.systems.distribution.reduction import check_first_order
from dalembert.systems.pickling import made
from dalembert.systems.system import System


def deformed(system: System, g: Callable, delta: float) -> System:
    """φ(q, v) + δ g(q, v) = 0 with forces λ ∂(φ + δ g)/∂v: the motion on D_δ, again a system with Chetaev's reactions.

    Args:
        system: a System whose constraints are all Nonholonomic, with Chetaev's reactions.
        g: `g(q, v[, t][, p])`, () or (m,): one component for each equation of the constraints, in their order.
        delta: δ. It becomes the parameter "delta" of the new system, so that `.replace(delta=...)` does not compile
            anything again; the other parameters are kept.

    Returns:
        The deformed System.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: a constraint is not Nonholonomic, or has other reactions than Chetaev's.

    Source: Jiménez, Scheurle, Remark 6.1, eqs. (101-105).

    Example:
        >>> bent = da.systems.deformed(edge, lambda q, v: v[2] ** 2, 0.1)
        >>> float(bent.replace(delta=0.2).parameters["delta"])
        0.2
    """
    check_first_order(system, "deformed", holonomic=False)
    as_function(g, "g", "g(q, v) that returns () or (m,)")
    constraints: Any = system.constraints
    if not constraints:
        raise ValueError("system: has no constraint to deform; give one with Nonholonomic(φ)")
    if not all(c.chetaev and hasattr(c, "phi") for c in constraints):
        raise ValueError("system: a constraint has reactions or virtual displacements of its own; those of φ + δ g are ∂/∂v")
    given = system.parameters
    if given is not None and (not isinstance(given, Mapping) or "delta" in given):
        raise ValueError("system: its parameters must be a mapping without the name 'delta', which the deformation takes")

    def plain(function: Callable) -> Callable:
        return function if given is not None else _without_parameters(function)

    return System(
        plain(system.lagrangian),
        Nonholonomic(_bent(tuple(plain(c.phi) for c in constraints), plain(g))),
        forces=None if system.forces is None else plain(system.forces),
        coordinates=system.coordinates,
        parameters={**(given or {}), "delta": as_number(delta, "delta")},
        time_dependent=system.time_dependent,
    )


@made
def _without_parameters(function: Callable) -> Callable:
    return lambda *x: function(*x[:-1])


@made
def _bent(phis: tuple[Callable, ...], bend: Callable) -> Callable:
    """φ + δ g."""

    def phi(*x):
        rows = jnp.concatenate([jnp.atleast_1d(one(*x)) for one in phis])
        return rows + x[-1]["delta"] * jnp.reshape(jnp.asarray(bend(*x)), rows.shape)

    return phi
