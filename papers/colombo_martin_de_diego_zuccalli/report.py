"""table.csv and report.md: every number of the figures, and in words what they say."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np

from papers.colombo_martin_de_diego_zuccalli import optimal_control, sphere, tables
from papers.colombo_martin_de_diego_zuccalli.beam import Orders
from papers.colombo_martin_de_diego_zuccalli.checks import found_right, lower_order
from papers.colombo_martin_de_diego_zuccalli.flow import Flow
from papers.colombo_martin_de_diego_zuccalli.free_steps import FreeSteps
from papers.colombo_martin_de_diego_zuccalli.heisenberg import TIME, Heisenberg, least_action
from papers.colombo_martin_de_diego_zuccalli.prescribed_steps import Both
from papers.colombo_martin_de_diego_zuccalli.sphere import Splines
from papers.correction import numbers


@dataclasses.dataclass(frozen=True)
class Findings:
    """All that was measured."""

    orders: list[Orders]
    free: list[FreeSteps]
    from_equal: list
    prescribed: Both
    splines: Splines
    heisenberg: Heisenberg
    flow: Flow
    control: optimal_control.Control


def write_table(file: Path, found: Findings) -> None:
    """One row per example, method and step: the largest error of q; for the spline the change when the steps are halved."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("example", "method", "N", "error"))
        for r in found.orders:
            writer.writerows((r.beam.name, r.scheme.name, n, f"{e:.6g}") for n, e in zip(r.steps, r.error, strict=True))
        writer.writerows((r.beam.name, "free_steps", len(r.found) - 1, f"{r.error:.6g}") for r in found.free)
        for name, changes in (("nodes", found.splines.by_nodes), ("velocities", found.splines.by_velocities)):
            writer.writerows(("sphere", name, n, f"{e:.6g}") for n, e in zip(sphere.STEPS, changes, strict=False))
        h = found.heisenberg
        writer.writerows(("heisenberg", "interpolated", n, f"{e:.6g}") for n, e in zip(h.steps, h.error, strict=True))
        writer.writerows(
            ("flow", "interpolated", round(20 / h), f"{e:.6g}") for h, e in zip(found.flow.h, found.flow.error, strict=True)
        )
        c = found.control
        for way, errors in zip(optimal_control.WAYS, c.errors, strict=True):
            writer.writerows(("control", way, n, f"{e:.6g}") for n, e in zip(c.steps, errors, strict=True))


def write_report(file: Path, found: Findings, fast: bool) -> None:
    constant, splines, bent, h = found.prescribed.constant[0], found.splines, found.flow, found.heisenberg
    both = [sphere.integrals(np.asarray(s.q)) for s in (splines.ambient, splines.covariant)]
    right, elastica = numbers(found_right), numbers(lower_order)
    facts = {
        "fast": "\n\n**Fast setting: fewer steps.**" if fast else "",
        "orders": tables.orders_table(found.orders),
        "free": tables.free_table(found.free),
        "signs": tables.signs_table(),
        "from_equal": "; ".join(
            f"{tables.NAMES[b.name]}, {name}: {outcome.lower().replace('_', ' ')}" for b, name, outcome in found.from_equal
        ),
        "constant": f"{constant.difference:.0e}",
        "absorbed": f"{constant.balance:.0e}",
        "prescribed": tables.prescribed_table(found.prescribed.function),
        "formula": f"{splines.formula:.0e}",
        "residual": f"{splines.residual:.0e}",
        "by_nodes": f"{sphere.order(splines.by_nodes):.2f}",
        "by_velocities": f"{sphere.order(splines.by_velocities):.2f}",
        "distance": f"{splines.distance:.3f}",
        "ambient": f"{both[0][0]:.2f} and {both[0][1]:.2f}",
        "covariant": f"{both[1][0]:.2f} and {both[1][1]:.2f}",
        "actions": tables.actions_table(h),
        "least": f"{least_action():.10f}",
        "polygon": f"{h.polygon:.0e}",
        "arc": f"{h.order:.2f}",
        "line": f"{h.d_alembert_height:.0e}",
        "multiplier": f"{float(h.circle.multipliers[0, 0]):.6f}, its limit π/T = {np.pi / TIME:.6f}",
        "flow_order": f"{bent.order:.2f}",
        "energy_order": f"{bent.energy_order:.2f}",
        "momenta": f"{max(float(np.ptp(x)) for x in bent.momenta.values()):.0e}",
        "symplectic": f"{bent.symplectic:.0e}",
        "boundary": f"{bent.boundary:.0e}",
        "theorem": f"{right['3.1']:.0e}",
        "elastica": f"{elastica['first']:.2f} and {elastica['second']:.2f}",
        "growth": f"{elastica['growth']:.0f}",
        "control": optimal_control.table(found.control),
        "same": f"{found.control.same:.0e}",
        "control_symplectic": f"{found.control.symplectic:.0e}",
        "control_rank": f"{found.control.rank} of {found.control.wanted}",
        "corrections": tables.corrections_table(),
        "two": f"{right['2.2, k = 2']:.0e}",
        "three": f"{right['2.2, k = 3']:.0e}",
        "four": f"{right['4.1']:.0e}",
    }
    file.write_text(TEXT.format(**facts), encoding="utf-8")


TEXT = """# Colombo, Martín de Diego, Zuccalli: the examples in numbers, and what differs from print

The paper has no numbers. Here are those of its examples. Errors are in `table.csv`.{fast}

## Example 4.1, fixed steps (`beam.png`)

(q, q̇) = 0 at both ends of [0, 1]. Largest error of q at the nodes:

{orders}

Cubics give the homogeneous beam exactly at the nodes, as finite elements do.

## Example 4.1, free steps (`free_steps.png`)

Times and positions are unknowns; the first and the last two nodes are given. Energies are divided by k = 2.

{free}

- Where L does not depend on t the discrete energy is constant to rounding, and otherwise the law of section 4.1 holds to
  rounding. With equal, fixed steps the energy varies.
- **The nodes go where h³g is constant**, g being the density of the error of A_d: A_d = ∫L dt + ∫h²g dt + O(h⁴) along the
  solution, of which the nodes can change only the second term. Where g < 0 it is a maximum in the N - 3 free times.
- **Where g has a zero there is no such mesh, and fine meshes have no extremal near the beam.** That is so for the paper's
  own discretization:

{signs}

  From equal steps, N = 20: {from_equal}.

## Section 4.2, prescribed steps (`prescribed_steps.png`)

μ = 1, ρ = 384, which bends the beam by 1; all equations, N constraints on the times, t_N free.

- Constant steps: q differs from that of the q equations alone by {constant}, and λⁱ = E_i to {absorbed}: the multipliers
  take up the equations of the times, as the paper says.
- Steps proportional to 1/(1+q²), no decoupling:

{prescribed}

  **The difference does not vanish with h.** λⁱ = E_i again, so that the q equations have the force E ∂ log h/∂q, of the
  size of the others, and E h(q) is constant in the limit instead of E.

## Section 4.3, optimal control

The section has no example. Here: a cart with a pole on a platform that moves up and down, swung up by a force on the cart,
least ∫u²dt. Errors against the value of Pontryagin's equations:

{control}

- On the paper's three nodes, between the same two nodes at each end, the path is that with forces as unknowns, to {same}.
- Υ_d*Ω = Ω for the flow of the control problem to {control_symplectic}; the matrix of Proposition 3.2 has rank
  {control_rank}.

## Section 4.4, the sphere (`sphere.png`)

Five points at equal times, from rest to rest; minima both.

- λ of the solution is that of the printed formula to {formula} (N = 40), the last display is zero to {residual} of q.
- With q₀, q₁, q_{{N-1}}, q_N given the order is {by_nodes}: q₁ = q₀ leaves out ½h²q̈. With (q, q̇) given it is
  {by_velocities}.
- **It is not the cubic of section 2.2.** Distance {distance}. ∫½|q̈|² and ∫½|D q̇/dt|²: {ambient} for the printed one,
  {covariant} for the covariant one.

## Section 1.2, k = 1: the Heisenberg system (`heisenberg.png`)

L = ½(ẋ²+ẏ²), ż = yẋ - xẏ, from 0 to (0, 0, a), a = 1, T = 2; least action π a/T = {least}.

{actions}

- The discrete constraint is the area of the polygon of the nodes: the solution is the regular polygon, to {polygon}. Its
  direction is free, which `kind` calls degenerate. λ = {multiplier}.
- An arc to a generic point: order {arc}.
- d'Alembert's principle from the same point: straight lines, z = 0 (to {line}). The two principles differ.

## Section 3: forms and flow (`flow.png`)

L = ½|q̈|² - ½|q̇|², v × a = κ|v|³, κ = 0.3, 20 time units, h = 0.1, 0.05, 0.025.

- Theorem 3.1 at generic nodes off the constraint: both sides agree to {theorem}.
- Order {flow_order}. Momenta of translations and rotation vary by {momenta}, without drift; the energy oscillates by an
  amount of order {energy_order}.
- Υ_d*Ω = Ω on M̃_d × R^{{km}} to {symplectic}.
- The boundary problem between nodes of the path gives the path: {boundary}.
- **The regularity of Proposition 3.2 is not enough for a constraint of lower order than L.** Elastica, L = ½|q̈|², |q̇| = 1,
  q̇ = (q₂-q₀)/2h, from exact data: the matrix is regular, λ of the next windows is {elastica} times the true one, and λ
  grows {growth} times within 40 steps.

## Printed formulas that do not hold

{corrections}

Found right: section 2.2's Euler-Lagrange equation for k = 2 ({two}) and 3 ({three}), Theorem 3.1, the q equation of example
4.1 for its L_d ({four}), the decoupling in section 4.2 with constant steps, λ_k of section 4.4.
"""
