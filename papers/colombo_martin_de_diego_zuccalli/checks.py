"""One function for each printed formula that was looked at: the numbers that show whether it holds."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from numpy.linalg import det, matrix_rank

from papers.colombo_martin_de_diego_zuccalli import (
    flow,
    forms,
    free_steps,
    heisenberg,
    prescribed_steps,
    sphere,
    sphere_equation,
)
from papers.colombo_martin_de_diego_zuccalli import printed as p
from papers.colombo_martin_de_diego_zuccalli.beam import TAPERED, UNIFORM

T5, Q5 = np.array([0.0, 0.1, 0.25, 0.33, 0.5]), np.array([0.1, 0.3, -0.2, 0.4, 0.25])  # generic nodes


def regularity() -> dict[str, float]:
    """Determinants, L_d = |q₁-q₀|²/2 + x₀y₁ - y₀x₁, D₁Φ = (1, 0), D₂Φ = (1, -1): as printed with the rows of D_{12} by q₁,
    which is the transposed of the matrix of the flow, of this, and as printed with the rows by q₀."""
    mixed = np.array([[-1.0, 1.0], [-1.0, -1.0]])  # rows: q₀
    first, second = np.array([[1.0, 0.0]]), np.array([[1.0, -1.0]])
    zero = np.zeros((1, 1))
    return {
        "printed": float(abs(det(np.block([[mixed.T, second.T], [first, zero]])))),
        "of the flow": float(abs(det(np.block([[mixed, first.T], [second, zero]])))),
        "by q0": float(abs(det(np.block([[mixed, second.T], [first, zero]])))),
    }


def minimum_of_1_4(steps: int = 8) -> dict[str, float]:
    """Negative eigenvalues of the Hessian of Ã_d in (q, λ) at a minimum of (1.3), the Heisenberg system's arc; and N m."""
    h = heisenberg.TIME / steps
    arc = heisenberg.vakonomic(heisenberg.END, steps)
    q, free = jnp.asarray(arc.q), jnp.asarray(arc.multipliers)[:, 0]

    def augmented(z):
        x = jnp.concatenate([q[:1], z[: 3 * steps - 3].reshape(-1, 3), q[-1:]])
        middle, velocity = 0.5 * (x[1:] + x[:-1]), jnp.diff(x, axis=0) / h
        cost = 0.5 * velocity[:, 0] ** 2 + 0.5 * velocity[:, 1] ** 2
        constraint = velocity[:, 2] - middle[:, 1] * velocity[:, 0] + middle[:, 0] * velocity[:, 1]
        return h * jnp.sum(cost + z[3 * steps - 3 :] * constraint)

    z = jnp.concatenate([q[1:-1].ravel(), free])
    slope, hessian = jax.jit(lambda x: (jax.grad(augmented)(x), jax.hessian(augmented)(x)))(z)
    eigenvalues = np.linalg.eigvalsh(np.asarray(hessian))
    return {
        "negative": float(np.sum(eigenvalues < 0)),
        "multipliers": float(steps),
        "slope": float(np.max(np.abs(slope))),
    }


def interpolation_indices() -> dict[str, float]:
    """Five points, N = 4: how far the cubic with i ∈ {2, …, N-2} passes from q₁ and q₃, and with i ∈ {1, …, N-1}."""
    points, steps = sphere.on_sphere(sphere.ANGLES), sphere.STEPS[0]
    nodes = [round(steps * i / 4) for i in (1, 3)]
    off = lambda s: float(np.max(np.linalg.norm(np.asarray(s.q)[nodes] - points[[1, 3]], axis=1)))  # noqa: E731
    return {
        "printed": off(sphere.spline(sphere.covariant, steps, (2,))),
        "correct": off(sphere.spline(sphere.covariant, steps)),
    }


def broken_geodesics() -> dict[str, float]:
    """½∫|D q̇/dt|² over the pieces of great circles through the points: continuous, smooth on every piece."""
    points, steps, total = sphere.on_sphere(sphere.ANGLES), 50, 0.0
    for a, b in itertools.pairwise(points):
        angle, s = np.arccos(a @ b), np.linspace(0.0, 1.0, steps + 1)[:, None]
        arc = (np.sin((1 - s) * angle) * a + np.sin(s * angle) * b) / np.sin(angle)
        total += sphere.integrals(arc)[1]
    return {"broken": total, "cubic": sphere.integrals(np.asarray(sphere.spline(sphere.covariant, sphere.STEPS[0]).q))[1]}


def ambient_acceleration() -> dict[str, float]:
    """Both splines through the same data: largest distance, and ½∫|D q̇/dt|² of the one of 4.4 over the least."""
    one, other = (np.asarray(sphere.spline(x, sphere.STEPS[0]).q) for x in (sphere.ambient, sphere.covariant))
    return {
        "distance": float(np.max(np.linalg.norm(one - other, axis=1))),
        "ratio": sphere.integrals(one)[1] / sphere.integrals(other)[1],
    }


def equations_of_4_4() -> dict[str, int]:
    """N = 40 and three points between: unknown numbers, and printed equations that contain one."""
    return sphere.printed_equations(40, (10, 20, 30))


def index_sets(steps: int = 7) -> dict[str, float]:
    """k = 2, N = 7: multipliers of the action, printed number N-k; multipliers that one node equation reads, printed N-k."""
    q, free = forms.sample(steps + 1)
    reads = jax.jit(jax.jacfwd(lambda f: jax.grad(forms.action)(q, f)[3]))(free)
    return {
        "windows": float(len(free)),
        "printed": float(steps - 2),
        "read": float(np.sum(np.any(np.asarray(reads) != 0, axis=(0, 2)))),
    }


def holonomic_matrix() -> dict[str, float]:
    """Rank of [[D₁D₃L̃_d, D₁Φᵀ], [D₃Φ, 0]] of section 4.4 with Φ = |q_k|² - r²: as the proposition says; with Φ(q_{k+2})."""
    q = sphere.on_sphere(sphere.ANGLES[:3])
    mixed, normal, last = np.eye(3), 2 * q[:1], 2 * q[2:]
    with_row = lambda row: float(matrix_rank(np.block([[mixed, normal.T], [row, np.zeros((1, 1))]])))  # noqa: E731
    return {"printed": with_row(0.0 * last), "paired": with_row(last)}


def weights() -> dict[str, float]:
    """(4.1) over ∫ L dt for the exact homogeneous beam with 1000 equal steps, k = 2."""
    t = np.linspace(0.0, 1.0, 1001)
    q, _, a = UNIFORM.exact(t)
    found = float(p.beam_action(jnp.asarray(t), jnp.asarray(q), False))
    density = 0.5 * a**2 + q
    return {"ratio": found / float(np.sum(0.5 * np.diff(t) * (density[1:] + density[:-1])))}


def derivative_by_times() -> dict[str, float]:
    """Example 4.1, one window: ∂L_d/∂t_i, ∂L̄_d/∂t_i at fixed steps, and D₁L̄_d - D₂L̄_d."""
    t, q = jnp.asarray(T5[:3]), jnp.asarray(Q5[:3])
    direct = jax.grad(p.beam_lagrangian)(t, q)
    by_steps = jax.grad(lambda x: p.beam_lagrangian(jnp.stack([x[0], x[0] + x[1], x[0] + x[1] + x[2]]), q))(
        jnp.array([t[0], t[1] - t[0], t[2] - t[1]])
    )
    return {"direct": float(direct[0]), "bar": float(by_steps[0]), "difference": float(by_steps[0] - by_steps[1])}


def energy_law(steps: int = 10) -> dict[str, float]:
    """E_i - E_{i-1} + ½(h_i + h_{i+1}) ∂L̄_d/∂t_i at free steps, μ = 1+t, ρ = 1; with the printed h_i + h_{i+1} + h_{i+2}."""
    found = free_steps.measured(TAPERED, steps)
    return {"correct": found.law, "printed": found.printed}


def second_difference() -> dict[str, float]:
    """The printed second difference of t², over 2, with t₂-t₁ = 1.5 (t₁-t₀); and what it does to a beam."""
    t = np.array([0.0, 1.0, 2.5])
    return {"printed": float(p.second_difference(t, t**2) / 2), "steps": 1.5, **alternating_beam()}


def alternating_beam(counts: tuple[int, ...] = (20, 40, 80)) -> dict[str, float]:
    """Homogeneous clamped beam on steps with ratio 1.5, alternately: largest error over the largest deflection, printed L_d.

    The factors of q̈ are 5/6 and 5/4 in turn; small kinks of the nodes make the bending energy that of the harmonic mean
    of their squares, 1/1.04: the beam bends by 4 % too much, whatever N is.
    """
    errors = {}
    for n in counts:
        t = np.concatenate([[0.0], np.cumsum(np.where(np.arange(n) % 2, 1.5, 1.0))])
        t /= t[-1]
        exact = UNIFORM.exact(t)[0]
        free, matrix, load = slice(2, n - 1), np.zeros((n + 1, n + 1)), np.zeros(n + 1)
        for i in range(n - 1):
            row, w = np.array([p.second_difference(t[i : i + 3], e) for e in np.eye(3)]), t[i + 2] - t[i]
            matrix[i : i + 3, i : i + 3] += w * np.outer(row, row)
            load[i : i + 3] += w / 3
        given = np.where((np.arange(n + 1) < 2) | (np.arange(n + 1) > n - 2), exact, 0.0)
        q = given.copy()
        q[free] = np.linalg.solve(matrix[free, free], -load[free] - (matrix @ given)[free])
        errors[str(n)] = float(np.max(np.abs(q - exact)) / np.max(np.abs(exact)))
    return errors


def redundant_constraints() -> dict[str, float]:
    """Φ⁽¹⁾ and Φ⁽²⁾ of all windows, N = 20: their number and rank; and the rank of the printed pair for 2 ≤ k ≤ N-2."""
    rank, number = prescribed_steps.printed_rank(20)
    rows = np.diff(np.eye(21), axis=0)
    return {"number": number, "rank": rank, "printed": float(matrix_rank(np.concatenate([rows[2:19], rows[1:18]])))}


def equations_of_the_beam() -> dict[str, float]:
    """Example 4.1 at generic nodes: q equation over ∂A_d/∂q_k, less 1; t equation over ∂A_d/∂t_k for μ = ρ = 1; corrected t
    equation over ∂A_d/∂t_k, less 1, for μ = 1+t, ρ = cos 3t."""
    t, q = jnp.asarray(T5), jnp.asarray(Q5)
    by_q = float(jax.grad(p.beam_action, 1)(t, q)[2])
    by_t, constant = (float(jax.grad(p.beam_action)(t, q, varying)[2]) for varying in (True, False))
    return {
        "q": abs(p.position_equation(T5, Q5) / by_q - 1),
        "t": p.time_equation(T5, Q5) / constant,
        "corrected": abs(p.corrected_time_equation(T5, Q5) / by_t - 1),
    }


def found_right() -> dict[str, float]:
    """Displays that hold: section 2.2's equation for k = 2, 3, the q equation of example 4.1; relative differences."""
    two, three = sphere_equation.variation(2), sphere_equation.variation(3)
    return {
        "2.2, k = 2": abs(two[1] / two[0] - 1),
        "2.2, k = 3": abs(three[1] / three[0] - 1),
        "4.1": equations_of_the_beam()["q"],
        "3.1": forms.theorem_3_1()["nodes"],
    }


def lower_order() -> dict[str, float]:
    """Elastica by Υ_d: see `flow.alternating`."""
    return flow.alternating()
