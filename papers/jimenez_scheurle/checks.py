"""One function for each printed formula that was looked at: the numbers that show whether it holds."""

from __future__ import annotations

import numpy as np
from numpy.linalg import eigvalsh, inv, matrix_rank, norm, svd

from papers.jimenez_scheurle import printed as p

PAIR = np.array([[-1.0, 0.0, 1.0]])  # μ of the particle at y = 1


def theorem_2_1() -> dict[str, float]:
    """Smallest singular value of the operator (13) for φ = ẋ₃ and A = diag(1, a, 1): a = 1 and a = 0, where ⟨Az, z⟩ ≥ 0."""
    smallest = lambda a: svd(np.array([[1.0, 0, 0], [0, a, 0], [0, 0, 1.0]]), compute_uv=False)[-1]  # noqa: E731
    return {"positive": smallest(1.0), "semidefinite": smallest(0.0)}


def lemma_2_4() -> dict[str, float]:
    """The rolling disk at φ = 0, m = R = 1, I = ½: ⟨μ¹, Z²⟩, said to be different from zero, and the smallest eigenvalue."""
    forms = np.array([[1.0, 0, -1, 0], [0, 1.0, 0, 0]])
    c = forms @ np.diag([1.0, 1.0, 2.0, 4.0]) @ forms.T
    return {"pairing": float(c[0, 1]), "eigenvalue": float(eigvalsh(c)[0])}


def lemma_4_4() -> dict[str, float]:
    """μᵀCμ and m of the particle at y = 1: ranks and distance."""
    found = PAIR.T @ inv(PAIR @ PAIR.T) @ PAIR
    return {"rank": float(matrix_rank(found)), "rank of m": 3.0, "distance": float(norm(found - np.eye(3), 2))}


def equations_62_65() -> dict[str, float]:
    """What the simplification drops of ĝ_v = (0, 1, 0), a perturbation along D: printed 0, by (59) ĝ_v - m⁻¹μᵀCμĝ_v."""
    g = np.array([0.0, 1.0, 0.0])
    return {"printed": 0.0, "kept": float(norm(g - PAIR.T @ inv(PAIR @ PAIR.T) @ PAIR @ g))}


def proposition_5_1() -> dict[str, float]:
    """⟨D₂D₁L_d v', v⟩ of the particle, L_d = |q₁-q₀|²/2ε, ε = 0.1: for v' = (1, 0, y') a v ∈ D, |v| = 1, with pairing 0."""
    y, y_end, h = 1.0, 1.05, 0.1
    new, basis = np.array([1.0, 0.0, y_end]), np.array([[1.0, 0, y], [0, 1.0, 0]])
    row = basis @ (-new / h)
    v = np.array([-row[1], row[0]]) @ basis
    v /= norm(v)
    return {"pairing": float(abs(new @ v / h))}


def proposition_5_2() -> dict[str, float]:
    """Rank of Dφ_d of the particle, φ_d = (z₁-z₀)/ε - ½(y₀+y₁)(x₁-x₀)/ε, against the printed 2n - m and against m."""
    h, y = 0.1, 1.0
    row = np.array([[y, -0.5, -1.0, -y, -0.5, 1.0]]) / h
    return {"rank": float(matrix_rank(row)), "m": 1.0, "2n - m": 5.0}


def equation_69() -> dict[str, float]:
    """λ of D₁L_d + D₂L_d = λμ over ε λ of (2a), one step of (86): the factor -1."""
    s, h = p.particle_state(), 0.05
    new, λ = p.implicit_step(s, h)
    left = s[3:] - new[3:]  # D₁L_d(q_k, q_{k+1}) + D₂L_d(q_{k-1}, q_k) = v_k - v_{k+1}
    return {"ratio": float(left[2] / (h * λ)), "true": float(λ / p.particle_multiplier(s))}


def equation_84() -> dict[str, float]:
    """∂λ/∂v v̇ of the particle over the derivative, for the two readings of -2C(∇μ v)v̇; and for Simple with both terms."""
    s = p.particle_state()
    y, vx, vy = s[1], s[3], s[4]
    ax = p.particle_field(0, s)[3]
    true = ax * vy / (1 + y**2)
    readings = 2 * vy * ax / (1 + y**2), -2 * vx * 0.0
    z = p.simple_state()
    q, v, a = z[:4], z[4:], p.field()(0, z)[4:]
    d, t = p.dμ(q), 1e-5
    central = (p.multiplier(q, v + t * a) - p.multiplier(q, v - t * a)) / (2 * t)
    both = -p.C(q) @ (p.quadratic(d, a, v) + p.quadratic(d, v, a))
    return {
        "along q": readings[0] / true,
        "along v": readings[1] / true,
        "both": float(norm(both - central) / norm(central)),
    }


def multipliers_of_81() -> dict[str, float]:
    """Largest |λ(t+ε) - λ_{k+1} - ε·(printed or corrected)| of Simple: exponents in ε; 1 means a wrong coefficient."""
    z = p.simple_state()
    q, v, a = z[:4], z[4:], p.field()(0, z)[4:]
    d, second = p.dμ(q), np.einsum("aijk,i,j,k->a", p.ddμ(q), v, v, v)

    def rest(change):
        def error(h):
            end = p.exact(p.field(), z, h)
            return p.multiplier(end[:4], end[4:]) - p.explicit_multiplier(q, v, h) - h * change

        return p.exponent(error)

    common = -0.5 * p.C(q) @ second
    return {
        "printed, along q": rest(common - 2 * p.C(q) @ p.quadratic(d, a, v)),
        "printed, along v": rest(common - 2 * p.C(q) @ p.quadratic(d, v, a)),
        "corrected": rest(common - p.C(q) @ (p.quadratic(d, a, v) + p.quadratic(d, v, a))),
    }


def split_of_81() -> dict[str, float]:
    """Local exponents of v^a in the split form of (81, 82) on Simple with the printed sign -ελ, and with +ελ."""
    z = p.simple_state()
    q, v = z[:4], z[4:]

    def error(sign):
        def gap(h):
            push = p.W @ (sign * p.μ(q).T @ p.split_multiplier(q, v) - p._gradient(q))
            return (p.exact(p.field(), z, h)[4:] - v - h * push)[:2]

        return p.exponent(gap)

    return {"printed": error(-1.0), "corrected": error(1.0)}


def equation_86c() -> dict[str, float]:
    """λ that v' - v = λM⁻¹μ asks for, over the continuous λ, at ε = 0.05 and 0.025: it tends to zero with ε."""
    s = p.particle_state()
    ratio = lambda h: float((p.implicit_step(s, h)[0][5] - s[5]) / p.particle_multiplier(s))  # noqa: E731
    return {"0.05": ratio(0.05), "0.025": ratio(0.025)}


def explicit_without_v() -> dict[str, float]:
    """Second difference of μ(q̃')v'/ε in λ without V, λ = 0, 1, 2 in the first component: zero if the equation is linear."""

    def curvature(half, v, form, weights, h):
        def left(λ):
            new = v + h * λ * weights @ form(half)[0]
            return form(half + 0.5 * h * new) @ new / h

        return float(norm(left(0.0) - 2 * left(1.0) + left(2.0)))

    z, s, h = p.simple_state(), p.particle_state(), 0.1
    particle = lambda q: np.array([[-q[1], 0.0, 1.0]])  # noqa: E731
    return {
        "simple": curvature(z[:4] + 0.5 * h * z[4:], z[4:], p.μ, p.W, h),
        "particle": curvature(s[:3] + 0.5 * h * s[3:], s[3:], particle, np.eye(3), h),
    }


def equation_87() -> dict[str, float]:
    """Exponents of λ - (87) on Simple without V, with the missing sign read as plus, as minus, and without that term."""
    z = p.simple_state()
    q, v = z[:4], z[4:]

    def error(sign):
        def gap(h):
            _, new, λ = p.simple_implicit(q, v, h)
            half = q + 0.5 * h * v
            c, d, push = p.C(half), p.dμ(half), p.W @ p.μ(half).T
            r = -0.5 * c @ np.einsum("aij,j,ib->ab", d, new, push) @ c
            second = 0.5 * np.einsum("aijk,i,j,k->a", p.ddμ(q), v, v, v)
            last = 0.5 * p.quadratic(d, v, push @ λ)  # (λM⁻¹μ)∇μ v: the force along the derivative
            return λ + (c + h * r) @ (p.quadratic(p.dμ(q), v, v) + h * second + sign * h * last)

        return p.exponent(gap)

    return {"plus": error(1.0), "minus": error(-1.0), "without": error(0.0)}


def multiplier_before_88() -> dict[str, float]:
    """First component of λ of Simple without V over that of C(v∇μv), ε = 1e-5: the sign that is missing."""
    z = p.simple_state()
    q, v = z[:4], z[4:]
    λ = p.simple_implicit(q, v, 1e-5)[2]
    return {"ratio": float(λ[0] / (p.C(q) @ p.quadratic(p.dμ(q), v, v))[0])}


def split_of_86() -> dict[str, float]:
    """Global order of the particle in the split form with A(q̃_{k+½}) as printed, and with A(q̃_{k+1})."""
    s = p.particle_state()
    found = {place: p.order(lambda x, h, at=place: p.split_step(x, h, at), s, p.particle_field) for place in ("half", "end")}
    return {"printed": found["half"], "corrected": found["end"]}


def split_multiplier_of_86() -> dict[str, float]:
    """Exponents of λ - λ̃ on Simple without V: λ̃ as printed, with A^γ(q̃_{k+½}) v_{k+1}, and with A^γ(q̃_{k+1})."""
    z = p.simple_state()
    q, v = z[:4], z[4:]

    def error(at_end: bool):
        def gap(h):
            end, new, λ = p.simple_implicit(q, v, h)
            half = q + 0.5 * h * v
            place = end if at_end else half
            along = np.concatenate([new[:2], -p.μ(place)[:, :2] @ new[:2]])
            second = 0.25 * h * np.einsum("aijk,i,j,k->a", p.ddμ(q), v, v, v)
            halves = 0.5 * (p.quadratic(p.dμ(q), v, v) + p.quadratic(p.dμ(half), new, along))
            return λ + p.C(half) @ (halves + second)

        return p.exponent(gap)

    return {"printed": error(False), "corrected": error(True)}


def equations_95_96() -> dict[str, float]:
    """Global order with q̃' = q̃ + εv' as printed, and with q̃' = q̃ + (ε/2)(v + v')."""
    s = p.particle_state()
    run = lambda drift: p.order(lambda x, h: p.implicit_step(x, h, drift)[0], s, p.particle_field)  # noqa: E731
    return {"printed": run("new"), "corrected": run("mean")}


def multiplier_of_92() -> dict[str, float]:
    """|v_z' - y'v_x'| of the particle, β = 1, ε = 0.1: with the printed λ, and with that of (87), which is for β = ½."""
    s, h = p.particle_state(), 0.1
    y, vx, vy = s[1], s[3], s[4]

    def left(λ):
        return abs((s[5] + h * λ) - (y + h * vy) * (vx - h * λ * y))

    return {"printed": left(vx * vy / (1 + y * (y + h * vy))), "by (87)": left(p.implicit_step(s, h)[1])}


def equation_99() -> dict[str, float]:
    """One step from data on D: exponents of v by (97) and by the formula (99), first λ of (97) over the true one, and how
    far (99) ends from the deformed constraint (98) at ε = 0.05. And the exponent by (97) from data on D_ε."""
    s = p.particle_state()
    gap = lambda step, h, x: (step(x, h)[0] - p.exact(p.particle_field, x, h))[3:]  # noqa: E731
    end = p.closed_step(s, 0.05)[0]

    def on_deformed(h):
        return np.array([*s[:5], s[1] * s[3] - 0.5 * h * s[4] * s[3]])

    return {
        "(97) from D": p.exponent(lambda h: gap(p.original_step, h, s)),
        "(99) from D": p.exponent(lambda h: gap(p.closed_step, h, s)),
        "(97) from the deformed": p.exponent(lambda h: gap(p.original_step, h, on_deformed(h))),
        "ratio": float(p.original_step(s, 1e-6)[1] / p.particle_multiplier(s)),
        "(99) off (98)": float(abs(end[5] - end[1] * end[3] + 0.025 * end[4] * end[3])),
    }


def found_right() -> dict[str, float]:
    """Displays that hold: (78)'s λ against (77), largest difference; exponents of what is left for (83), (88), and for the
    expansion of λ_{k+1} before (84), one more than their last term; λ of (96) in (86), largest difference."""
    z, s = p.simple_state(), p.particle_state()
    q, v = z[:4], z[4:]
    d, slope = p.dμ(q), p.W @ p._gradient(q)
    t = 1e-5
    c_rate = (p.C(q + t * v) - p.C(q - t * v)) / (2 * t)
    hessian = np.diag(1 + 1.2 * q**2)
    second = np.einsum("aijk,i,j,k->a", p.ddμ(q), v, v, v)
    inner = p.quadratic(d, slope, v) + p.μ(q) @ p.W @ hessian @ v - 0.5 * second
    first = p.C(q) @ inner + c_rate @ (p.μ(q) @ slope - p.quadratic(d, v, v))
    new = p.implicit_step(s, 0.1)[0]
    return {
        "(78)": float(norm(p.split_multiplier(q, v) - p.multiplier(q, v))),
        "before (84)": p.exponent(lambda h: p.explicit_multiplier(q, v, h) - p.multiplier(q, v) - h * first),
        "(86), one step": p.exponent(lambda h: np.concatenate(p.simple_implicit(q, v, h)[:2]) - p.exact(p.field(0.0), z, h)),
        "(96)": float(abs(new[5] - new[1] * new[3])),
    }
