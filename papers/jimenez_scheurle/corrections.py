"""The printed formulas that do not hold, what is right instead, and how that was checked."""

from __future__ import annotations

from papers.correction import Correction
from papers.jimenez_scheurle import checks

CORRECTIONS = (
    Correction("Theorem 2.1, (7)(i)", "⟨A(x₀)z, z⟩, ∀ z", "⟨A(x₀)z, z⟩ > 0", checks.theorem_2_1,
               "smallest singular value of (13) for φ = ẋ₃: {0:.0f} for A = 1, {1:.0f} for A = diag(1, 0, 1)"),
    Correction("Lemma 2.4, proof", "⟨μ^α, Z^β⟩ is different from zero by definition",
               "it may vanish for α ≠ β; the lemma holds, since μm⁻¹μᵀ is positive definite", checks.lemma_2_4,
               "rolling disk at φ = 0: ⟨μ¹, Z²⟩ = {0:.0f}, smallest eigenvalue of μm⁻¹μᵀ {1:.0f}"),
    Correction("Lemma 4.4", "(m_ij) = (μ^α_i C_αβ μ^β_j)", "the right side has the rank of μ: true for m = n only",
               checks.lemma_4_4,
               "particle at y = 1: rank {0:.0f} against {1:.0f}, distance {2:.2f}"),
    Correction("(62)–(65)", "velocity part -C⟨∇_qφ, ĝ_q⟩m⁻¹∇_vφ", "that of (59): + ĝ_v - C⟨∇_vφ, ĝ_v⟩m⁻¹∇_vφ",
               checks.equations_62_65,
               "ĝ_v = (0, 1, 0), along D: printed {0:.0f}, correct of norm {1:.0f}"),
    Correction("(69), and the rescaling after (80)", "λ; λ ↦ -λ/ε is equivalent to φ_d = -εμ∘ρ",
               "λ of (69) is -ε λ of (2a); a factor on φ_d leaves λ as it is", checks.equation_69,
               "λ of (69) over ελ in one step of (86): {0:.3f}"),
    Correction("Proposition 5.1", "⟨D₂D₁L_d v', v⟩ ≠ 0 for all v ∈ D", "for each v' ≠ 0 some v ∈ D with ⟨…⟩ ≠ 0; n - m > 1 "
               "always leaves a v with 0", checks.proposition_5_1, "particle, ε = 0.1: {0:.0e} for a v ∈ D with |v| = 1"),
    Correction("Proposition 5.2", "φ_d: U → R^{2n-m}, μ¹, …, μ^{2n-m}", "φ_d: U → R^m; D_d has dimension 2n - m",
               checks.proposition_5_2, "particle: rank {0:.0f}, m = {1:.0f}, 2n - m = {2:.0f}"),
    Correction("(84), ∂λ/∂v v̇", "-2C(∇μ v)v̇", "-C(∂_jμ_i)(v̇^i v^j + v^i v̇^j): ∂_jμ_i is symmetric for closed forms only",
               checks.equation_84, "printed over correct for the particle: {0:.3f} or {1:.0f}, by the reading; corrected "
               "form against a central difference: {2:.0e}"),
    Correction("last display of Proposition 6.1", "… + 2εC(∇μ v)(M⁻¹∇V - λM⁻¹μ)", "… - εC(∂_jμ_i)(v̇^i v^j + v^i v̇^j)",
               checks.multipliers_of_81,
               "exponent of what is left: printed {0:.2f} or {1:.2f}, corrected {2:.2f}; s = 0 is right"),
    Correction("split form after Proposition 6.1", "v^a_{k+1} = … - ελ(…); q̃^q_k", "+ ελ(…); q̃^a_k", checks.split_of_81,
               "local exponent of v^a: printed {0:.2f}, corrected {1:.2f}"),
    Correction("(86c)", "+ λM⁻¹μ(q̃_{k+½})", "+ ελM⁻¹μ(q̃_{k+½}), as in (81b) and as (87) takes it", checks.equation_86c,
               "λ of (86c) over the continuous λ: {0:.4f} at ε = 0.05, {1:.4f} at 0.025"),
    Correction("text after (86)", "it becomes explicit if V = 0", "the m equations for λ remain, nonlinear in general, "
               "linear if the reaction does not move the coordinates that μ depends on", checks.explicit_without_v,
               "second difference in λ: {0:.1e} with n = 4, m = 2; {1:.0e} for the particle"),
    Correction("(87)", "two lines without a sign between them", "plus", checks.equation_87,
               "exponent of what is left: plus {0:.2f}, minus {1:.2f}, without the term {2:.2f}"),
    Correction("before Proposition 6.2's multipliers", "λ_{k+1} = C(v∇μ v) + O(ε), v̇ = C(v∇μ v)M⁻¹μ", "-C, as in (76, 77)",
               checks.multiplier_before_88, "λ of one step over the printed one, ε = 1e-5: {0:.4f}"),
    Correction("split form after Proposition 6.2, drift", "q̃^α_{k+1} = … - (ε/2)A(q̃_{k+½})v_{k+1}", "A(q̃_{k+1})",
               checks.split_of_86, "global order for the particle: printed {0:.2f}, corrected {1:.2f}"),
    Correction("split form after Proposition 6.2, λ̃", "∂A/∂q^γ A^γ(q̃_{k+½})v_{k+1}", "A^γ(q̃_{k+1})",
               checks.split_multiplier_of_86,
               "exponent of λ - λ̃, where A depends on q^γ: printed {0:.2f}, corrected {1:.2f}"),
    Correction("after (92)", "employing (87)", "(87) is for β = ½; the λ printed there follows from (92) and is right",
               checks.multiplier_of_92, "|v_z' - y'v_x'| at ε = 0.1: printed λ {0:.0e}, λ of (87) {1:.1e}"),
    Correction("(95, 96)", "q̃_{k+1} = q̃_k + εv_{k+1}", "q̃_k + (ε/2)(v_k + v_{k+1}), as (86) says; λ of (96) is right",
               checks.equations_95_96, "global order: printed {0:.2f}, corrected {1:.2f}"),
    Correction("(99), Proposition 6.3", "(99) is (97); F̃ = F + O(ε²) with F: D → D",
               "on D_ε only. From data on D one step of (97) is wrong by O(ε), half of the reaction", checks.equation_99,
               "local exponent of v: (97) from D {0:.2f}, (99) from D {1:.2f}, (97) from D_ε {2:.2f}; first λ of (97) over "
               "the true one {3:.3f}; (99) from D misses (98) by {4:.1e} at ε = 0.05"),
)  # fmt: skip
