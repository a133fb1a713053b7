"""What a LagrangesMethod of sympy.physics.mechanics holds: Lagrangian, coordinates, constraints and generalised forces."""

from __future__ import annotations

from typing import Any, NamedTuple


class Derived(NamedTuple):
    """The arguments of `from_sympy`, as expressions."""

    lagrangian: Any
    coordinates: list[Any]
    constraints: list[Any]
    forces: list[Any] | None


def derived(method: Any) -> Derived:
    """Q_i = Σ F·∂v/∂q̇_i + Σ M·∂ω/∂q̇_i for the forces F at points with velocity v and the moments M on frames with ω."""
    from sympy.physics.mechanics import Point

    frame, loads = method.inertial, list(method.forcelist)
    coordinates, positions = list(method.q), list(method._hol_coneqs)  # coneqs has their derivatives alone
    t = coordinates[0].args[0]
    forces = None
    if loads:
        rates = [(at.vel(frame) if isinstance(at, Point) else at.ang_vel_in(frame), load) for at, load in loads]
        slopes = [q.diff(t) for q in coordinates]
        forces = [sum(v.diff(u, frame, var_in_dcm=False).dot(load) for v, load in rates) for u in slopes]
    return Derived(method._L[0], coordinates, [*positions, *list(method.coneqs)[len(positions) :]], forces)
