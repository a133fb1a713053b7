"""The printed formulas that do not hold, what is right instead, and how that was checked."""

from __future__ import annotations

from papers.colombo_martin_de_diego_zuccalli import checks, forms
from papers.colombo_martin_de_diego_zuccalli import optimal_control as control
from papers.correction import Correction

CORRECTIONS = (
    Correction(
        "(1.4), and section 3.2", "min 𝒜̃_d(q, λ)", "critical points: a minimum of (1.3) is a saddle of 𝒜̃_d",
        checks.minimum_of_1_4, "arc of the Heisenberg system, N = 8: {0:.0f} negative eigenvalues, {1:.0f} multipliers",
    ),
    Correction(
        "section 2.2", "q(t_i) = q_i for i ∈ {2, …, N-2}",
        "i ∈ {1, …, N-1}: the velocities are given at the ends, not q₁ and q_{N-1}",
        checks.interpolation_indices, "sphere, N = 4: passes q₁ or q₃ at a distance of {0:.2f}; correct {1:.0f}",
    ),
    Correction(
        "section 2.2", "continuous curves, smooth on every [t_i, t_{i+1}]", "of class C¹ besides; of class C^{k-1} for L_k",
        checks.broken_geodesics, "pieces of great circles have the action {0:.0e}, the cubic spline {1:.1f}",
    ),
    Correction(
        "section 3.2", "C^{(N,N-k)} with R^{(N-k)m}; EL̃_d: Q^{2k+1} × R^{(N-k)m} → T*Q^k; λ^{(i,N-k+i-1)} in (3.4)",
        "R^{(N-k+1)m}; Q^{2k+1} × R^{(k+1)m} → T*Q; λ^{(i,i+k)}, as in Theorem 3.1",
        checks.index_sets, "k = 2, N = 7: {0:.0f} multipliers, N-k = {1:.0f}; a node equation reads {2:.0f}",
    ),
    Correction(
        "Remark 3.3, (3.6)", "Σ dL̃_d = Θ⁺ - Θ⁻ on Q^{2k} × R^{km}, hence dΘ⁺ = dΘ⁻",
        "Σ dL̃_d = Θ⁺ - Θ⁻ + Σ Φ_d dλ: dΘ⁺ = dΘ⁻ on M̃_d × R^{km}",
        forms.remark_3_3, "dΘ⁺ - dΘ⁻ over dΘ⁺: {0:.1e} on the whole space, {1:.0e} on M̃_d × R^{{km}}",
    ),
    Correction(
        "Proposition 3.2, with section 4.4", "regular for Φ_d on Q^{k+1}",
        "never for Φ_d(q_i), which has D_{k+1}Φ_d = 0; with λⁱ at q_i and φ(q_{i+k}) = 0 it is",
        checks.holonomic_matrix, "sphere, size 4: rank {0:.0f}; so paired {1:.0f}",
    ),
    Correction(
        "after (4.1)", "∂L_d/∂t_j = ∂L̄_d/∂t_j", "the next lines: D_jL_d = D_jL̄_d - D_{j+1}L̄_d, D_{k+1}L_d = D_{k+1}L̄_d",
        checks.derivative_by_times, "beam, j = 1: {0:.1f}, not {1:.1f}; D₁L̄_d - D₂L̄_d = {2:.1f}",
    ),
    Correction(
        "t equation after (4.1)", "Σ_{i=1}^k; (h_{i-j+1} + … + h_{i-1}) D_{k+1}L̄_d; q_{(i+k,i-1)}; q_{(i-j+1,i-j+k)}",
        "Σ_{j=1}^k; (h_{i-k} + … + h_{i-1}); q_{(i-k,i)}; q_{(i-j+1,i-j+k+1)}, also in E_d",
        checks.energy_law, "with these indices it is the law of the energy, at free steps to {0:.0e}",
    ),
    Correction(
        "law of the energy, section 4.1", "-(h_i + … + h_{i+k}) D₁L̄_d(t_i, h_{(i,i+k)}, …); E_d of h_{i-k+1} … h_{i-1}",
        "-(h_i + … + h_{i+k-1}) D₁L̄_d(t_i, h_{(i,i+k-1)}, …); E_i of h_{i-k+1} … h_{i+k-1}",
        checks.energy_law, "μ = 1+t, ρ = 1, N = 10: left over {1:.1e} as printed, {0:.0e} correct",
    ),
    Correction(
        "section 4.2, L_d; example 4.1", "second difference over t_{k+2} - t_{k+1}",
        "over ½(t_{k+2} - t_k); the same for equal steps only",
        checks.second_difference, "{0:.3f} q̈ where the second step is {1:.1f} times the first. Clamped beam on steps with "
        "this ratio in turn, N = 20, 40, 80: errors of {2:.3f}, {3:.3f}, {4:.3f} of the deflection, tending to 0.04",
    ),
    Correction(
        "section 4.2", "Φ⁽¹⁾ = t_{k+1} - t_k - h and Φ⁽²⁾ = t_{k+2} - t_{k+1} - h in every window",
        "one of them, and both in the last window: the others repeat it",
        checks.redundant_constraints, "N = 20: {0:.0f} constraints of rank {1:.0f}; with 2 ≤ k ≤ N-2 as printed, rank "
        "{2:.0f}: the first and the last step are free",
    ),
    Correction(
        "example 4.1, t equation", "fifteen terms", "see the page; the q equation is right for its L_d",
        checks.equations_of_the_beam, "μ = ρ = 1: {1:.2f} of ∂A_d/∂t_k at five nodes; corrected: equal to {2:.0e}",
    ),
    Correction(
        "section 4.3, system", "(t_i - t_{i-1}) D₄L_d + (t_{i+1} - t_i) D₂L_d = u_i", "= -½(t_{i+1} - t_{i-1}) u_i",
        control.printed_control, "q = t², u = q̈ = {1:.0f}, h = 0.1: {0:.1f} as printed, which is -hu = {2:.1f}",
    ),
    Correction(
        "section 4.3, cost and L̃_d",
        "Σ_{i=0}^{N-1} C(t_i, q_i, t_{i+1}, q_{i+1}, u_i); L̃_d = C(t_i, q_i, t_{i+1}, q_{i+1}, u_{i+1})",
        "the sum from 1 to N-1, with u_i of q_{i-1}, q_i, q_{i+1}; L̃_d = C(t_{i+1}, q_{i+1}, t_{i+2}, q_{i+2}, u_{i+1})",
        control.controls_and_windows, "N = 7: {0:.0f} controls from u₀ on, {1:.0f} windows, the first one with u_{2:.0f}",
    ),
    Correction(
        "section 4.3, ends", "q₀, q₁ and q_{N-1}, q_N", "(q, v) by the forced Legendre maps: u₀ and u_N cost, too",
        control.ends_by_nodes, "double integrator, rest to rest, N = 80: 12 + {0:.0f}h as printed, 12{1:.0f}h² by (q, v)",
    ),
    Correction(
        "section 4.4", "Φ_d(q_{k+2}) = 0 for k ∈ {2, …, N-2} \\ I",
        "Φ_d(q_k) = 0 for these k: as printed q₂, q₃ and the q_{i+2}, i ∈ I, have no constraint; the text repairs it",
        checks.equations_of_4_4, "N = 40, three points: {0:.0f} unknowns, {1:.0f} equations, {2:.0f} nodes without",
    ),
    Correction(
        "section 4.4", "the problem of section 2.2", "another: |q̈|² = |D q̇/dt|² + |q̇|⁴/r²",
        checks.ambient_acceleration, "distance of the curves {0:.2f}; ½∫|D q̇/dt|² {1:.3f} times the least",
    ),
)  # fmt: skip

# Letters only, nothing to measure.
MISPRINTS = (
    ("section 1.2", "(T*(Q×Q), ω_d)", "(Q×Q, ω_d)"),
    ("section 3.2, M̃_d ⊂ Q^{2k}", "0 ≤ i ≤ N-k", "0 ≤ i ≤ k-1"),
    ("Θ⁺ at 2k nodes", "i = N-k+1 … N", "N = 2k-1"),
    ("Proposition 3.2", "the solution of (3.2)", "of (3.4)"),
    ("Remark 3.4", "M̃_d × R^{km} → Q^{k+1} × R^{km}", "→ Q^{2k} × R^{km}"),
    ("section 4.2", "q_{N-q}", "q_{N-1}"),
    ("section 4.3, system", "D₂L_d(t_i, q_i, t_i, q_{i+1}), 1 ≤ i ≤ n", "D₂L_d(t_i, q_i, t_{i+1}, q_{i+1}), 1 ≤ i ≤ N-1"),
    ("section 4.3, cost", "u^α_{(0,N-1)}", "u^a_{(1,N-1)}"),
    ("section 4.3, Φ_d and λ", "(R×Q)²; λ ∈ R^m, 1 ≤ α ≤ m; R^{2m}", "(R×Q)³; λ ∈ R^{n-m}, m+1 ≤ α ≤ n; R^{2(n-m)}"),
    ("section 4.3", "Theorem 3.2", "Proposition 3.2"),
)
