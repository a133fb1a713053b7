"""table.csv and report.md: every number of the figures, and in words what they say."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from papers.borda_fernandez_grillo import pendulum
from papers.borda_fernandez_grillo.branches import Rule
from papers.borda_fernandez_grillo.particle import Particle, error_of_x, speed_defect
from papers.borda_fernandez_grillo.particle_figures import elastica_defect
from papers.borda_fernandez_grillo.pendulum import INSTANTS, Pendulum
from papers.convergence import ErrorsByStep
from papers.tables import markdown, number

SYSTEMS = ("particle", "pendulum")


def write_table(file: Path, particle: Particle, pendulum: Pendulum) -> None:
    """One row per system, method, interval and step: the largest error, and the slope from the step before."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("system", "coordinate", "method", "interval", "h", "error", "slope"))
        for system, coordinate, results in (
            ("particle", "x", particle.long + particle.short),
            ("pendulum", "theta", pendulum.long + pendulum.short),
        ):
            for result in results:
                writer.writerows((system, coordinate, *row) for row in _rows(result))


def _rows(result: ErrorsByStep) -> Iterator[tuple[str, ...]]:
    slopes = ["", *(f"{slope:.3f}" for slope in result.slopes())]
    for h, error, slope in zip(result.h, result.error, slopes, strict=True):
        yield result.method.name, f"{result.time:g}", f"{h:g}", f"{error:.6g}", slope


def errors(results: list[ErrorsByStep]) -> str:
    """Errors, one row per method, one column per step, and the slope of the line through all of them."""
    head = ["h", *(f"{h:g}" for h in results[0].h), "slope of the line", "slope of small steps"]
    rows = [
        [r.method.label.replace("$", ""), *(f"{e:.5g}" for e in r.error), f"{r.slope():.2f}", number(r.asymptotic_slope())]
        for r in results
    ]
    return markdown(head, rows)


def values_of_v(measured: Pendulum) -> str:
    """V at the instants, per method and step, and of the continuous system."""
    instants = [x for x in INSTANTS if x <= measured.time]
    head = ["method", "h", *(f"V({x:g})" for x in instants)]
    rows = [
        [result.method.name, f"{h:g}", *(f"{value:.2f}" for value in row)]
        for result in measured.long
        for h, row in zip(result.h, measured.values[result.method.name], strict=True)
    ]
    exact = np.asarray(pendulum.lyapunov(measured.reference.q, measured.reference.v))
    rows.append(["continuous", "", *(f"{pendulum.value_at(measured.reference.t, exact, x):.2f}" for x in instants)])
    return markdown(head, rows)


def rules_table(rules: list[Rule]) -> str:
    head = ["rule", "steps on the root u = 0", "first at t", "V at the end", "largest error of θ", "outcome"]
    rows = [
        [r.name, f"{100 * r.share:.2f} %", "-" if np.isnan(r.first) else f"{r.first:.1f}", f"{r.lyapunov[-1]:.2f}",
         f"{r.error:.3f}", r.outcome.lower()]
        for r in rules
    ]  # fmt: skip
    return markdown(head, rows)


def write_report(file: Path, particle: Particle, pendulum: Pendulum, rules: list[Rule], *, fast: bool) -> None:
    figure_2 = error_of_x(particle.path)
    theta = np.abs(np.asarray(pendulum.reference.q[:, 0]))
    shortened = "\n\n**Fast setting: without the start on the solution, and with one rule for the root.**"
    facts = {
        "fast": shortened if fast else "",
        "long_a": errors(particle.long),
        "short_a": errors(particle.short),
        "long_b": errors(pendulum.long),
        "short_b": errors(pendulum.short),
        "time": f"{pendulum.time:g}",
        "values": values_of_v(pendulum),
        "rules": rules_table(rules),
        "speed": f"{speed_defect(particle.path):.1e}",
        "latest": f"{float(particle.path.t[np.argmax(figure_2)]):.1f}",
        "elastica": f"{elastica_defect(particle):.1e}",
        "upright": f"{theta[len(theta) // 2 :].max():.3g}",
        "half": f"{pendulum.time / 2:g}",
    }
    file.write_text(TEXT.format(**facts), encoding="utf-8")


TEXT = """# Borda, Fernández, Grillo: the figures, the numbers, and what differs from print

Figures 1 to 6 are drawn as printed. Beside figures 3 and 6 stand the corrected ones. All numbers are in `table.csv`.{fast}

## The particle: figures 1, 2, 3

Largest error of x over [0, 500], for k = 1:

{long_a}

Over [0, 5]:

{short_a}

- **The integrator is of order 2; the printed start is of order 1.** The printed slope of 1.6 mixes three things: the lag
  of the angle, which is of second order; the start q₁ = q₀ + h v₀, which turns the whole circle about the origin by h/√2
  and is of first order; and, for h ≥ 0.1, saturation: a particle half a turn late is one diameter, 2, away. To leading
  order the error is ½(1+√2) h + (5/12)√2 · 500 h²; the two terms are equal at h = 0.0041.
- Figure 2 (h = 0.1): the largest error is at t = {latest}. |q₁ - q₀| is constant to {speed}, as equation [7] says. The
  caption's x(t) = y(t) = 0 is to be read x(0) = y(0) = 0.
- `curvature.png`: the curvature may be any function of the position. With k = x the path is an elastica, and sin φ - x²/2
  (φ the direction of the velocity) is constant: it is, to {elastica}, with h = 0.01.

## The pendulum: figures 4, 5, 6

Largest error of θ over [0, {time}]:

{long_b}

Over [0, 4]:

{short_b}

- **Order 2 again, once the start is of order 2.** With the printed start the error at the smallest step is made in the
  first four time units and never exceeded later: that is the slope 1 at the lower end of figure 6. At large steps the
  error cannot grow beyond the amplitude of θ. The printed 1.3 is a mean over both; it depends on the steps chosen.
- **V does not tend to zero by t = 500.** On the scale of figure 5, 15000, it looks so. V at some instants:

{values}

  The oscillation dies out where ψ - nθ happens to be, close to 27π, an unstable equilibrium with V = 2χ = 200. From
  there the phase γ = ψ - nθ only creeps, γ' = -sin γ / τ with τ = ρ(dIJ)²/χ = 8427, and V needs some 40000 time units to
  fall below 1 (`figure_5_zoom.png`).
- After t = {half} the largest |θ| is {upright}.

## Two roots in every step

Along the motion dV/dt + F = u (ṗ₂ + ρ tanh u + K), in the discrete system too, so that a step has the root u = 0, on
which V is constant, besides the physical one. With h = 0.1 and the printed start:

{rules}

Nearness is no criterion: the roots cross whenever u changes sign, and after a crossing the wrong one is as near as the
right one. V still decreases while some of the steps are on the wrong root, only later and to another value; an error that
is smaller by chance proves nothing. Dividing the equation by u leaves one root.

## Signs

Here the multiplier is defined by d/dt ∂L/∂v - ∂L/∂q = Rᵀλ with R = (0, 1), so λ = d/dt J(θ' + ψ') is the torque on the
wheel. The paper writes -J(θ'' + ψ'') = λ: the opposite sign.
"""
