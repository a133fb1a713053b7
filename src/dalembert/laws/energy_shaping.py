"""energy_shaping: V, F and the law that makes V fall, constructed for plants with one direction without actuator."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.control.problem import OptimalControl
from dalembert.laws.attraction import region_of
from dalembert.laws.matching import positive_widths
from dalembert.laws.mechanical import Actuated, actuators, check_plant, check_simple, columns, mass, potential, unactuated
from dalembert.laws.quadratic import Linear, chosen, poles
from dalembert.laws.shaping import EnergyShaping, Shaped
from dalembert.numbers import as_numbers, as_vector, whole_number
from dalembert.systems.system import System
from dalembert.tracing import seldom

BALANCED = 1e-8  # b·U_q at the equilibrium, relative to the size of U_q and its change over the reach
POINTS = 50  # at which the Lagrangian is looked at


def energy_shaping(
    system: System,
    *,
    actuated: Actuated,
    at,
    Q,
    R,
    reach,
    nodes: int = 10,
) -> EnergyShaping:
    """V = ½ vᵀM̂(q)v + Û(q) and F = gᵀDg with dV/dt = -F under the law u(q, v), for L = ½ vᵀM(q)v - U(q), n - 1 actuators.

    The kinetic and the potential matching condition are solved along lines of one direction w̄, by integrals. w̄, the
    part of V transverse to it, and D are chosen so that the linearised closed loop has the least mean cost ∫ xᵀQx +
    uᵀRu, x = (q - q*, v).

    Args:
        system: the plant, a simple mechanical system: L as above, without constraints, forces and explicit time.
        actuated: the index of the actuated coordinate, several indices, or `actuated(q)` that returns B (n, n-1).
        at: (n,) the equilibrium q*, with U_q in the span of B.
        Q: (2n, 2n) weights of (q - q*, v), symmetric, positive semidefinite.
        R: (r, r) weights of u, symmetric, positive definite.
        reach: (n,) how far from q* the region of attraction is sought, in each coordinate.
        nodes: number of Gauss points along w̄; the residual of the matching condition is of order 2·nodes in the
            distance from q*.

    Returns:
        An EnergyShaping: V, F, the law, the poles of the linearised loop and an estimated region of attraction.

    Raises:
        ValueError: the system is not simple mechanical, it has more than one direction without actuator, q* is not an
            equilibrium, the linearisation is not controllable, or the weights are not definite.
        TypeError: an argument is of the wrong type.

    Source: Borda, Fernández, Grillo, Section 4.2, for V and F of the inertia wheel pendulum, which have this form;
        Auckly, Kapitanski, White (2000) and Chang (2010), on matching with one degree of underactuation. The page
        Control laws derives why both conditions are integrals along straight lines.

    Example:
        >>> weights = {"Q": np.eye(4), "R": [[1.0]]}
        >>> found = da.laws.energy_shaping(wheel, actuated=1, at=[0.0, 0.0], reach=[1.0, 1.0], **weights)
        >>> bool(found.poles.real.max() < 0.0), found.region.residual < 1e-9
        (True, True)
    """
    check_plant(system)
    centre = np.asarray(as_vector(at, "at"))
    n = len(centre)
    widths = positive_widths(reach, "reach", n)
    count = whole_number(nodes, "nodes", most=40)
    problem = actuators(system, actuated, n)
    random = np.random.default_rng(0)
    check_simple(system, centre + np.concatenate([np.zeros((1, n)), widths * random.uniform(-1.0, 1.0, (POINTS, n))]))
    linear = linearised(problem, centre, widths)
    found = chosen(linear, _weights(Q, "Q", 2 * n, False), _weights(R, "R", n - 1, True))
    beta = linear.b @ linear.K
    numbers = {
        "at": centre, "direction": found.direction, "level": beta / (beta @ found.direction), "P": found.P,
        "stiffness": found.stiffness, "damping": found.damping,
    }  # fmt: skip
    shaped = Shaped(**{name: jnp.asarray(x) for name, x in numbers.items()}, nodes=count)
    unknown = {"region": None, "lower": None, "upper": None}
    design = EnergyShaping(problem=problem, shaped=shaped, poles=poles(linear, found), cost=found.cost, **unknown)
    return dataclasses.replace(design, region=region_of(design, widths, found.H))


def linearised(problem: OptimalControl, at: np.ndarray, widths: np.ndarray) -> Linear:
    """M δq̈ + K δq = B δu at an equilibrium; ValueError where the plant has none there, or not n - 1 actuators."""
    n, r = len(at), columns(problem, jnp.asarray(at)).shape[1]
    if r != n - 1:
        raise ValueError(
            f"actuated: found {r} of {n} coordinates; V and F are constructed for one direction without actuator, r = n - 1"
        )
    M, slope, K, B, b, K_u = (np.asarray(x) for x in _at(problem, jnp.asarray(at)))
    sizes = np.abs(slope) + np.abs(K) @ widths
    if abs(b @ slope) > BALANCED * (np.abs(b) @ sizes):
        raise ValueError(f"at: found {at}, which is no equilibrium: no control balances U_q = {slope} along {b}")
    return Linear(M, K_u, B, b)


@seldom
def _at(problem: OptimalControl, q):
    """M, U_q, U_qq, B, b, and U_qq - ∂(Bu₀) with the controls u₀ of the equilibrium."""
    plant = problem.system
    slope, K = jax.grad(lambda x: potential(plant, x))(q), jax.hessian(lambda x: potential(plant, x))(q)
    B = columns(problem, q)
    held = jnp.linalg.pinv(B) @ slope
    return mass(plant, q), slope, K, B, unactuated(B), K - jax.jacfwd(lambda x: columns(problem, x) @ held)(q)


def _weights(value, name: str, n: int, definite: bool) -> np.ndarray:
    found = np.asarray(as_numbers(value, name))
    if found.shape != (n, n) or not np.allclose(found, found.T, rtol=1e-12, atol=0.0):
        raise ValueError(f"{name}: found shape {found.shape}; a symmetric ({n}, {n}) is needed")
    least, largest = np.linalg.eigvalsh(found)[[0, -1]]
    if least < -1e-12 * abs(largest) or (definite and least <= 0.0) or largest <= 0.0:
        kind = "definite" if definite else "semidefinite and not 0"
        raise ValueError(f"{name}: its least eigenvalue is {least:.3g}; it has to be positive {kind}")
    return found
