"""The linearisation at the equilibrium, and which quadratic V = ½(vᵀM̂v + δqᵀHδq) of it costs least.

M δq̈ + K δq = B δu, with rows α = Mb and β = bᵀK that no control changes. Every V that solves the matching conditions has
M̂ = ααᵀ/(α·w̄) + P and H = ββᵀ/(β·w̄) + S, Pw̄ = Sw̄ = 0, and u = -D BᵀM⁻¹M̂v leads to M̂δq̈ + AᵀDA δq̇ + Hδq = 0, A = BᵀM⁻¹M̂.
w̄, P, S and D are what minimises the mean of ∫ xᵀQx + uᵀRu over random initial states, by Lyapunov's equation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

UNCONTROLLABLE = 1e-7  # sine of the angle between α and β in units of the mass
WORST = 1e6  # logarithm of the cost of what cannot be computed


class Linear(NamedTuple):
    """M, K, B and b at the equilibrium."""

    M: np.ndarray
    K: np.ndarray
    B: np.ndarray
    b: np.ndarray


class Quadratic(NamedTuple):
    """What is chosen, with the matrices of V, and the cost relative to that of the linear-quadratic regulator."""

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


def chosen(lin: Linear, Q: Float[np.ndarray, "2n 2n"], R: Float[np.ndarray, "r r"]) -> Quadratic:
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
