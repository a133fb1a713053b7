"""table.csv and report.md: every number of the figures, and in words what they say."""

from __future__ import annotations

import csv
from pathlib import Path

from dalembert.measure import Embedding
from papers.correction import numbers
from papers.jimenez_scheurle import tables
from papers.jimenez_scheurle.checks import found_right
from papers.jimenez_scheurle.consistency import Pair
from papers.jimenez_scheurle.integrators import FOUR, ORIGINAL, PARTICLE, POTENTIAL
from papers.jimenez_scheurle.long_runs import LongRuns
from papers.jimenez_scheurle.orders import QUANTITIES, Errors
from papers.jimenez_scheurle.work import Work


def write_table(file: Path, results: list[Errors]) -> None:
    """One row per system, integrator, quantity and step: the largest error."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("system", "integrator", "quantity", "h", "error"))
        for r in results:
            for quantity in QUANTITIES:
                for h, error in zip(r.h, r.error[quantity], strict=True):
                    writer.writerow((r.case.name, r.method.name, quantity, f"{h:g}", f"{error:.6g}"))


def write_report(
    file: Path,
    results: list[Errors],
    pairs: list[Pair],
    runs: LongRuns,
    work: list[Work],
    found: dict[str, Embedding],
    *,
    fast: bool,
) -> None:
    original = {r.case.name: r for r in runs.constraints if r.method is ORIGINAL}
    free, bound = original[PARTICLE.name], original[POTENTIAL.name]
    others = max(r.largest for r in runs.constraints if r.method is not ORIGINAL and r.method is not FOUR[2])
    right = numbers(found_right)
    facts = {
        "fast": "\n\n**Fast setting: fewer systems, shorter times.**" if fast else "",
        "orders": tables.orders_table(results),
        "pairs": tables.pairs_table(pairs),
        "constraint": tables.constraint_table([*runs.constraints, *runs.halved.values()]),
        "free": f"{free.on_d.min():.4f} … {free.on_d.max():.4f}",
        "bound": f"{bound.largest:.4f}",
        "halved": f"{bound.largest / runs.halved[POTENTIAL.name].largest:.3f}",
        "others": f"{others:.0e}",
        "energy": tables.energy_table(runs),
        "rates": tables.rates_table(runs),
        "work": tables.work_table(work),
        "perturbation": tables.perturbation_table(found),
        "corrections": tables.corrections_table(),
        "seventy_eight": f"{right['(78)']:.0e}",
        "before_84": f"{right['before (84)']:.2f}",
        "one_step": f"{right['(86), one step']:.2f}",
        "ninety_six": f"{right['(96)']:.0e}",
    }
    file.write_text(TEXT.format(**facts), encoding="utf-8")


TEXT = """# Jiménez, Scheurle: the numbers that the paper postpones, and what differs from print

The paper announces a preliminary implementation for the nonholonomic particle and leaves its numbers to later work.
Here they are, for the particle and three other systems. ε is the step. All errors of the first table are in
`table.csv`.{fast}

## The integrators

All on (q̃, v). β = 0: (81, 82), linearly explicit. β = ½: (86), implicit. β = 1: (91, 92). The last is β = ½ seen at
the original nodes, (q_k, (q_k - q_{{k-1}})/ε): (97) to (99). Compositions of (86) with itself, of order 4, 6 and 8,
are not in the paper. They need that (86) is symmetric, which it is on D.

## Global orders, over [0, 4], against closed forms (`orders.png`)

Slopes of the largest error over ε = 0.1 … 0.0125, with four and eight times these steps for the orders 6 and 8. A dash:
fewer than three of the errors are above 1e-13. The multipliers are taken without the first step.

{orders}

- The implicit integrator's λ is of order 2 at its own time t + ε/2 and of order 1 at the end of the step, where the
  paper's definition reads it. λ(q, v) by (23) has the order of (q, v): Remark 4.3.
- At the original nodes one order is lost. Which of q and v loses it depends on the system and on the start.
- The car moves on a circle, where λ is constant: its λ has no order to lose at the end of the step. With order 8
  its steps are still too large for the slope in q.

## The pair (p, s) of Definition 4.2

Exponents of the errors of one step from exact data at six random points, ε = 0.04 … 0.005; p + 1 is the least of r +
1 and l + 1. The last column is the scheme's λ over the true one at the beginning of the step, at ε = 0.005.

{pairs}

- (1, 0), (2, 0) and (1, 0) for β = 0, ½, 1, as the paper says. For (2, 0) the s = 0 is a matter of the clock: at t +
  ε/2 the exponent is 2.
- At the original nodes the pair is (1, 0) from data on D_ε only. **From data on D it is (0, -1)**: the first step
  also has to bring the state to D_ε, at a distance of ε, so that v is wrong by O(ε) and λ by O(1). In the global
  error that happens once and costs no more than the order 1. For the free particle and the disk the first λ is half
  of the true one: the step needs only half of the change of direction. With a potential the force of the potential
  comes in full, λ = -C(½ v∂μv - μM⁻¹∇V), and the ratio is any number.

## "Preserved up to small bounded oscillatory variations" (`constraint.png`)

v_z - y v_x along the runs without their first state.

{constraint}

- **β = 0, ½ and 1 at the redefined nodes: exact.** No variation but rounding, {others} or less for the first two.
  With the potential, β = 1 gains energy (below), and its rounding grows with the velocity.
- **Original nodes: the left side of (98) is zero to rounding, and the deviation from D is -(ε/2) v_y v_x**: of the
  size of ε ({halved} times smaller with half the step), bounded as long as the velocity is.
- It oscillates about zero for the particle with potential, where v_y v_x does: up to ±{bound}, with a mean near zero.
  **For the free particle, the paper's own example, it does not**: v_y is constant, v_x keeps its sign, and the
  deviation is within {free} at all nodes.

## Energy (`energy.png`)

The particle with c = 1, ε = 0.1. Relative change of ½|v|² + ½(x²+y²):

{energy}

The energy of x, ½(1+y²)ẋ² + ½x², is conserved by itself. Rate of its logarithm over [0, 100]:

{rates}

- **β = 0 and β = 1 have no bounded energy error.** β = 0 takes the energy of x away and β = 1, its adjoint, adds to
  it. With θ = arctan y and p = √(1+y²)ẋ one step of β = 0 without potential is p' = p cos(θ' - θ), and one of β = 1 is
  p' = p / cos(θ' - θ); with A the amplitude of y that makes the rate ∓ε A²/(4√(1+A²)), the last column. y is not moved
  by the constraint and keeps its energy, as in the symplectic Euler method. So the explicit integrator ends in a
  motion of y alone.
- The symmetric one and its compositions stay in one band.

## Work (`work.png`)

The contact oscillator over [0, 20]; one stage is one step of (86), or of (81, 82) for β = 0.

{work}

## The integrators' own perturbation (`perturbation.png`)

Proposition 4.1: a map of order p is the time-ε map of ż = f(z) + ε^p g(ε, t/ε, z), with g bounded as ε → 0. For the
free particle from one point, in D-adapted coordinates:

{perturbation}

## Printed formulas found wrong

C is the matrix (C_αβ), the inverse of μm⁻¹μᵀ. "What is left" means the difference between both sides; its exponent in
ε is one more where the formula holds up to the term that it prints last. Particle: that of Section 6.4. Where n = 4,
m = 2 is said, or nothing, the system has a full mass matrix and a connection that depends on all coordinates.

{corrections}

Slips of the pen: f for f̃ in (42); A(q) for A(q₁), A(q₂) in (31); a modulus that equals a signed expression at the
end of the proof of Proposition 6.1; λ₀ in Definition 4.2, which no step gives.

Proposition 6.2's s = 0 is right for the definition as it stands, λ at the end of the step.

**Checked and found right**: (23), (77) and λ after (78), which agree to {seventy_eight}; the expansion of λ_{{k+1}}
before (84), what is left has the exponent {before_84}; (87) and R_αβ, with the missing sign; (86) with ε in (86c):
one step errs with the exponent {one_step} on a system with a full mass matrix; λ of (92), (96) and (98), (96) to
{ninety_six}; s = 0 and s = 0 of Propositions 6.1 and 6.2; the indices of Definition 5.6 and of (81), which agree.
"""
