"""energy_shaping: V, F and the law that makes V fall, constructed for plants with one direction without actuator.

It begins with the quadratic V = ½(vᵀM̂v + δqᵀHδq) at the equilibrium that costs least. M δq̈ + K δq = B δu has rows α = Mb and
β = bᵀK that no control changes. Every V that solves the matching conditions has M̂ = ααᵀ/(α·w̄) + P and H = ββᵀ/(β·w̄) + S,
Pw̄ = Sw̄ = 0, and u = -D BᵀM⁻¹M̂v leads to M̂δq̈ + AᵀDA δq̇ + Hδq = 0, A = BᵀM⁻¹M̂. w̄, P, S and D are what minimises the mean of
∫ xᵀQx + uᵀRu over random initial states, by Lyapunov's equation. The region of attraction is a sublevel set of V inside of
which V > 0, F ≥ 0 and dV/dt = -F on samples.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.control import OptimalControl
from dalembert.laws.shaping import (
    PLACES,
    Actuated,
    EnergyShaping,
    Parts,
    Shaped,
    actuators,
    check_plant,
    check_simple,
    columns,
    free_rate,
    mass,
    parts_at,
    positive_widths,
    potential,
    unactuated_direction,
)
from dalembert.notebook import described_by_fields
from dalembert.numbers import as_numbers, as_vector, whole_number
from dalembert.systems import System
from dalembert.tracing import seldom

UNCONTROLLABLE = 1e-7  # sine of the angle between α and β in units of the mass
WORST = 1e6  # logarithm of the cost of what cannot be computed


class Linear(NamedTuple):
    """M, K, B and b at the equilibrium."""

    M: np.ndarray
    K: np.ndarray
    B: np.ndarray
    b: np.ndarray


class Quadratic(NamedTuple):
    """Quadratic V and D: the chosen w̄, P, S and D, with the matrices of V, and the cost relative to that of the
    linear-quadratic regulator."""

    direction: np.ndarray
    P: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray
    mass: np.ndarray
    H: np.ndarray
    cost: float


class _Units(NamedTuple):
    """Coordinates in which M = 1, and a rate. back: (n, n) from there to q; b, beta: rows there; bases: across b."""

    back: np.ndarray
    rate: float
    b: np.ndarray
    beta: np.ndarray
    across: np.ndarray
    controls: np.ndarray


def units(lin: Linear) -> _Units:
    """ValueError where the linearisation cannot be controlled: α and β are parallel."""
    n = len(lin.M)
    lower = np.linalg.cholesky(lin.M)
    back = np.linalg.inv(lower).T
    b = lower.T @ lin.b
    size = np.linalg.norm(b)
    if not size > 0.0 or np.linalg.matrix_rank(back.T @ lin.B) < n - 1:
        raise ValueError("actuated: the columns of B depend on each other at the equilibrium; leave one actuator out")
    b, stiffness = b / size, back.T @ lin.K @ back
    beta = b @ stiffness
    beside = beta - (beta @ b) * b
    if np.linalg.norm(beside) <= UNCONTROLLABLE * np.linalg.norm(stiffness):
        raise ValueError(
            "system: its linearisation at the equilibrium is not controllable: bᵀ(Mδq̈ + Kδq) = 0, with b the direction "
            "without actuator, is an equation for bᵀMδq alone"
        )
    across = np.linalg.qr(np.column_stack([b, beside, np.eye(n)]))[0][:, 1:n]
    across[:, 0] = beside / np.linalg.norm(beside)
    return _Units(back, float(np.sqrt(np.linalg.norm(stiffness, 2))), b, beta, across, np.linalg.qr(back.T @ lin.B)[1])


def cheapest_quadratic(lin: Linear, Q: Float[np.ndarray, "2n 2n"], R: Float[np.ndarray, "r r"]) -> Quadratic:
    """The least cost over all V and D, by BFGS from neutral ones."""
    from scipy.linalg import solve_continuous_are
    from scipy.optimize import minimize

    own = units(lin)
    n, r = len(lin.M), lin.B.shape[1]
    states = np.kron(np.diag([1.0, own.rate**2]), np.linalg.inv(lin.M))  # the mean of xxᵀ: of one energy in each direction

    def logarithm(x):
        found = candidate(lin, own, x)
        return min(np.log(max(_cost(lin, found, Q, R, states), np.finfo(float).tiny)), WORST)

    size = n - 1 + 3 * (n * (n - 1) // 2)
    starts = [np.concatenate([[tau], np.zeros(size - 1)]) for tau in (0.0, 1.5)]
    # The differences that stand for derivatives end the line search early near the minimum: no failure.
    best = min((minimize(logarithm, x, method="BFGS", options={"gtol": 1e-5}) for x in starts), key=lambda found: found.fun)
    A, C = _first_order(lin)
    least = np.trace(solve_continuous_are(A, C, Q, R) @ states)
    assert r == n - 1
    return candidate(lin, own, best.x)._replace(cost=float(np.exp(best.fun) / least))


def candidate(lin: Linear, own: _Units, x: Float[np.ndarray, "k"]) -> Quadratic:
    """V and D of n - 1 numbers for w̄ and three triangles of logarithms and numbers for P, S and D."""
    n = len(lin.M)
    w = own.b + own.across[:, 1:] @ x[1 : n - 1]
    w = w + own.across[:, 0] * (np.linalg.norm(own.beta) * np.exp(x[0]) - own.beta @ w) / (own.beta @ own.across[:, 0])
    rows = own.across.T - np.outer(own.across.T @ w, own.b)  # they span what vanishes on w̄: b·w̄ = 1
    P, S, D = (_definite(y, n - 1) for y in np.split(x[n - 1 :], 3))
    forth = np.linalg.inv(own.back)
    covector = lambda a: forth.T @ a @ forth  # noqa: E731
    P, S = covector(rows.T @ P @ rows), own.rate**2 * covector(rows.T @ S @ rows)
    inner = np.linalg.inv(own.controls)
    D = own.rate * inner @ D @ inner.T
    alpha, beta = forth.T @ own.b, forth.T @ own.beta
    w = own.back @ w
    scale = lin.b @ lin.M @ lin.b  # w̄ belongs to b as it is given, and not of unit length: V to the mass
    w, alpha, beta = w * np.sqrt(scale), alpha * np.sqrt(scale), beta * np.sqrt(scale)
    M, H = np.outer(alpha, alpha) / (alpha @ w) + P, np.outer(beta, beta) / (beta @ w) + S
    return Quadratic(w, P, S, D, M, H, np.nan)


def _definite(x: np.ndarray, n: int) -> np.ndarray:
    """G Gᵀ of a triangle with exponentials on its diagonal."""
    lower = np.zeros((n, n))
    lower[np.tril_indices(n)] = x
    np.fill_diagonal(lower, np.exp(np.clip(np.diag(lower), -30.0, 30.0)))
    return lower @ lower.T


def _first_order(lin: Linear) -> tuple[np.ndarray, np.ndarray]:
    """ẋ = Ax + Cu of x = (δq, δv)."""
    n = len(lin.M)
    still = np.zeros((n, n))
    A = np.block([[still, np.eye(n)], [-np.linalg.solve(lin.M, lin.K), still]])
    return A, np.concatenate([np.zeros_like(lin.B), np.linalg.solve(lin.M, lin.B)])


def gains(lin: Linear, found: Quadratic) -> np.ndarray:
    """δu = -(gains)(δq, δv)."""
    by_q = np.linalg.pinv(lin.B) @ (lin.M @ np.linalg.solve(found.mass, found.H) - lin.K)
    return np.concatenate([by_q, found.damping @ lin.B.T @ np.linalg.solve(lin.M, found.mass)], axis=1)


def loop_of(lin: Linear, found: Quadratic) -> np.ndarray:
    """ẋ = (A - CK)x under the law."""
    A, C = _first_order(lin)
    return A - C @ gains(lin, found)


def poles(lin: Linear, found: Quadratic) -> np.ndarray:
    """The eigenvalues of that."""
    return np.linalg.eigvals(loop_of(lin, found))


def _cost(lin: Linear, found: Quadratic, Q, R, states) -> float:
    """The mean of ∫ xᵀQx + uᵀRu; infinite where the loop is not stable up to rounding."""
    from scipy.linalg import solve_continuous_lyapunov

    K, loop = gains(lin, found), loop_of(lin, found)
    if not np.all(np.isfinite(loop)) or np.linalg.eigvals(loop).real.max() >= 0.0:
        return np.inf
    cost = np.trace(solve_continuous_lyapunov(loop.T, -(Q + K.T @ R @ K)) @ states)
    return float(cost) if cost > 0.0 else np.inf


MATCHED = 1e-6  # residual of dV/dt = -F, relative to its terms, where V is taken to be a solution
RAYS = 64  # in the plane; n times as many in more dimensions


@described_by_fields
class Region(NamedTuple):
    """An estimated region of attraction.

    {V < level}: its connected part around the equilibrium, an estimated region of attraction.

    Attributes:
        level: the least V, over rays in q from the equilibrium, at which a ray leaves the reach, V stops increasing, or
            V no longer solves the matching condition.
        points: (B, 2n) samples of (q, v) inside.
        V: (B,) V at the samples: positive except at the equilibrium.
        F: (B,) F at the samples: not negative.
        residual: the largest |dV/dt + F| under the law, relative to the sum of the absolute values of its terms.
        worst: (2n,) the sample with that residual.
        reach: (n,) how far from the equilibrium the region may extend.

    Example:
        >>> design.region.level > 0.0, design.region.residual < 1e-6
        (True, True)
    """

    level: float
    points: Float[np.ndarray, "B 2n"]
    V: Float[np.ndarray, "B"]
    F: Float[np.ndarray, "B"]
    residual: float
    worst: Float[np.ndarray, "2n"]
    reach: Float[np.ndarray, "n"]


def region_of(design: EnergyShaping, reach: Float[np.ndarray, "n"], H: Float[np.ndarray, "n n"]) -> Region:
    """The largest level that no ray inside the reach denies, and what is found on samples inside.

    H: ∂²Û/∂q² at the equilibrium. Rays are even in the units in which it is 1: of rays that are even in the units of the
    reach none may go along a narrow valley of Û, by which it is left at a lower level.
    """
    random = np.random.default_rng(0)
    at, n = np.asarray(design.shaped.at), len(reach)
    if n == 2:
        angles = 2.0 * np.pi * np.arange(RAYS) / RAYS
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:
        rays = random.normal(size=(n * RAYS, n))
    scale = 1.0 / np.sqrt(np.diag(H))
    rays = scale * np.linalg.solve(np.linalg.cholesky(scale[:, None] * H * scale).T, rays.T).T
    rays = rays / np.abs(rays / reach).max(axis=1, keepdims=True)
    shares = np.arange(1, PLACES + 1) / PLACES
    q = at + shares[None, :, None] * rays[:, None, :]
    found = parts_of(design, q.reshape(-1, n))
    heights, good = (x.reshape(len(rays), PLACES) for x in (found.height, is_matched(found)))
    good = np.logical_and.accumulate(good & np.isfinite(heights), axis=1)
    tops = np.max(np.where(good, heights, -np.inf), axis=1)
    level = float(tops.min())
    inside = np.logical_and.accumulate(good & (heights < level), axis=1)
    if not (level > 0.0 and inside.any()):
        return Region(0.0, np.zeros((0, 2 * n)), np.zeros(0), np.zeros(0), np.nan, np.full(2 * n, np.nan), reach)
    where = q[inside]
    where = where[random.integers(len(where), size=len(heights.ravel()))]
    unit, radius = random.normal(size=where.shape), random.uniform(size=len(where)) ** (1.0 / n)
    unit = radius[:, None] * unit / np.linalg.norm(unit, axis=1, keepdims=True)
    parts = parts_of(design, where)
    v = _speeds(parts, unit, level)
    V, F, gap = _fall(design, parts, v)
    points, worst = np.concatenate([where, v], axis=1), int(np.argmax(gap))
    return Region(level, points, V, F, float(gap[worst]), points[worst], reach)


@seldom
def _parts(design: EnergyShaping, q) -> Parts:
    # One state after the other: a program for all of them together takes three times as long to compile.
    return jax.lax.map(lambda x: parts_at(design.problem, design.shaped, x), q)


def parts_of(design: EnergyShaping, q: np.ndarray) -> Parts:
    """Those of many positions (B, n), of NumPy."""
    return jax.tree.map(np.asarray, _parts(design, q))


def _uncontrolled_directions(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """w = M̂⁻¹Mb, where controls do not change V, and M̂w = Mb; NaN where there is no M̂, beyond m = 0."""
    row = np.einsum("bij,bj->bi", parts.M, unactuated_direction(parts.B, np))
    with np.errstate(all="ignore"):
        size = np.abs(np.linalg.det(parts.shaped))
    regular = (parts.positive & (size > 0.0) & np.isfinite(size))[:, None]
    shaped = np.where(regular[..., None], parts.shaped, np.eye(row.shape[1]))
    return np.where(regular, np.linalg.solve(shaped, row[..., None])[..., 0], np.nan), row


def is_matched(parts: Parts) -> np.ndarray:
    """True where m > 0, and dV/dt = 0 along w at a speed at which both parts of V are of a size."""
    w, row = _uncontrolled_directions(parts)
    speed = np.sqrt(np.abs(parts.height) / np.abs((w * row).sum(-1)))
    phi, size = free_rate(parts, speed[:, None] * w, np)
    return parts.positive & (np.abs(phi) <= MATCHED * size)


def _speeds(parts: Parts, unit: np.ndarray, level: float) -> np.ndarray:
    """Velocities √(2(level - Û)) L⁻ᵀ unit, M̂ = LLᵀ: the ball of unit vectors becomes {V < level} over a point."""
    back = np.linalg.solve(np.swapaxes(np.linalg.cholesky(parts.shaped), 1, 2), unit[..., None])[..., 0]
    return np.sqrt(2.0 * (level - parts.height))[:, None] * back


def _fall(design: EnergyShaping, parts: Parts, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """V, F, and |dV/dt + F| relative to its terms: of the law it is what φ₀ is at the v₀ beside v where g vanishes."""
    p = np.einsum("bij,bj->bi", parts.shaped, v)
    g = np.einsum("bir,bi->br", parts.B, np.linalg.solve(parts.M, p[..., None])[..., 0])
    V, F = 0.5 * (p * v).sum(-1) + parts.height, np.einsum("br,rs,bs->b", g, np.asarray(design.shaped.damping), g)
    w, row = _uncontrolled_directions(parts)
    beside = w * ((row * v).sum(-1) / (row * w).sum(-1))[:, None]
    gap = np.abs(free_rate(parts, beside, np)[0]) / (free_rate(parts, v, np)[1] + F)
    return V, F, np.where(np.isfinite(gap), gap, np.inf)


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
    """Construct a Lyapunov function and the law that makes it decrease.

    V = ½ vᵀM̂(q)v + Û(q) and F = gᵀDg with dV/dt = -F under the law u(q, v), for L = ½ vᵀM(q)v - U(q), n - 1 actuators.

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
    linear = linearise(problem, centre, widths)
    found = cheapest_quadratic(linear, _weights(Q, "Q", 2 * n, False), _weights(R, "R", n - 1, True))
    beta = linear.b @ linear.K
    numbers = {
        "at": centre, "direction": found.direction, "level": beta / (beta @ found.direction), "P": found.P,
        "stiffness": found.stiffness, "damping": found.damping,
    }  # fmt: skip
    shaped = Shaped(**{name: jnp.asarray(x) for name, x in numbers.items()}, nodes=count)
    unknown = {"region": None, "lower": None, "upper": None}
    design = EnergyShaping(problem=problem, shaped=shaped, poles=poles(linear, found), cost=found.cost, **unknown)
    return dataclasses.replace(design, region=region_of(design, widths, found.H))


def linearise(problem: OptimalControl, at: np.ndarray, widths: np.ndarray) -> Linear:
    """M δq̈ + K δq = B δu at an equilibrium; ValueError where the plant has none there, or not n - 1 actuators."""
    n, r = len(at), columns(problem, jnp.asarray(at)).shape[1]
    if r != n - 1:
        raise ValueError(
            f"actuated: found {r} of {n} coordinates; V and F are constructed for one direction without actuator, r = n - 1"
        )
    M, slope, K, B, b, K_u = (np.asarray(x) for x in _terms_at(problem, jnp.asarray(at)))
    sizes = np.abs(slope) + np.abs(K) @ widths
    if abs(b @ slope) > BALANCED * (np.abs(b) @ sizes):
        raise ValueError(f"at: found {at}, which is no equilibrium: no control balances U_q = {slope} along {b}")
    return Linear(M, K_u, B, b)


@seldom
def _terms_at(problem: OptimalControl, q):
    """M, U_q, U_qq, B, b, and U_qq - ∂(Bu₀) with the controls u₀ of the equilibrium."""
    plant = problem.system
    slope, K = jax.grad(lambda x: potential(plant, x))(q), jax.hessian(lambda x: potential(plant, x))(q)
    B = columns(problem, q)
    held = jnp.linalg.pinv(B) @ slope
    return mass(plant, q), slope, K, B, unactuated_direction(B), K - jax.jacfwd(lambda x: columns(problem, x) @ held)(q)


def _weights(value, name: str, n: int, definite: bool) -> np.ndarray:
    found = np.asarray(as_numbers(value, name))
    if found.shape != (n, n) or not np.allclose(found, found.T, rtol=1e-12, atol=0.0):
        raise ValueError(f"{name}: found shape {found.shape}; a symmetric ({n}, {n}) is needed")
    least, largest = np.linalg.eigvalsh(found)[[0, -1]]
    if least < -1e-12 * abs(largest) or (definite and least <= 0.0) or largest <= 0.0:
        kind = "definite" if definite else "semidefinite and not 0"
        raise ValueError(f"{name}: its least eigenvalue is {least:.3g}; it has to be positive {kind}")
    return found
