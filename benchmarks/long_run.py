"""Long runs of nonholonomic systems: constraints, energy and reversibility over a million steps.

    python benchmarks/long_run.py [--steps 1e6] [--problems NAME …] [--schemes NAME …] [--times 0.5] [--tables energy]

Every step is looked at while the run goes on (`reduce`), and 10⁴ states are kept for the energy. Prints three tables, or
those that are named.

constraint: the largest |φ|/|v| of all steps at three places: at the states (q̃, v), where the scheme keeps φ = 0; and at the
nodes q_k between two states, with the velocity before the node and with the mean of those before and after it; with the
exponents of h in these two, from runs over the same time with h and h/2.
energy: (max - min)/|E(0)| over the first hundredth of the steps and over all, and what the least squares line through the
means of 100 blocks gains over the run, with its standard error. Residuals of neighbouring blocks are correlated: the error
is that of independent ones times √((1+ρ)/(1-ρ)), ρ their correlation, as for an autoregressive process. A random walk has
ρ near 1, and more than this: so also last - first, with the standard error of 100 independent increments.
way back: N steps, v → -v, N steps, v → -v: |(q, v) - (q₀, v₀)|, largest component.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.gallery import ENTRIES

SCHEMES: list[tuple[str, da.Scheme]] = [
    ("mid-point", da.Scheme()),
    ("β = 0", da.Scheme.jimenez_scheurle(0.0)),
    ("order 4", da.Scheme(order=4)),
    ("gradient", da.Scheme("discrete_gradient")),
    *((f"gradient {order}", da.Scheme("discrete_gradient", order=order)) for order in (4, 6, 8, 10)),
]
SAMPLES, BLOCKS = 10_000, 100
TABLES = ("constraint", "energy", "back")
TOLERANCE = 1e-10  # docs/native.md, round-off: what the default leaves adds up over more than 10⁶ steps


@dataclasses.dataclass(frozen=True)
class Problem:
    """note: what the motion is like."""

    name: str
    system: da.System
    q0: Sequence[float]
    v0: Sequence[float]
    h: float
    note: str


def of_gallery(name: str, note: str, h: float, **parameters) -> Problem:
    entry = ENTRIES[name]
    given = "".join(f", {key} = {number:g}" for key, number in parameters.items())
    return Problem(name.replace("_", " ") + given, entry.system.replace(**parameters), entry.q0, entry.v0, h, note)


def sleigh() -> da.System:
    """Chaplygin's sleigh: unit mass and moment of inertia, the blade at distance ½ behind the centre of mass."""
    return da.System(
        lambda q, v: 0.5 * (v @ v),
        da.Nonholonomic(lambda q, v: v[1] * jnp.cos(q[2]) - v[0] * jnp.sin(q[2]) - 0.5 * v[2]),
        coordinates=("x", "y", "θ"),
    )


def magnetic() -> da.System:
    """The contact oscillator in a magnetic field and a periodic potential: no (q, v) → (Sq, -Sv) reverses its motion.

    The changes of sign S that keep ẋ + yż = 0 are S = 1 and those of two signs: the field breaks the first, the potential
    the others.
    """
    potential = lambda q: 0.5 * (q @ q) + 0.3 * jnp.sin(q[0] + 2 * q[1] + 3 * q[2] + 0.5)  # noqa: E731
    return da.System(
        lambda q, v: 0.5 * (v @ v) + 0.4 * (q[0] * v[1] - q[1] * v[0]) + 0.3 * q[1] * v[2] - potential(q),
        da.Nonholonomic(lambda q, v: v[0] + q[1] * v[2]),
        coordinates=("x", "y", "z"),
    )


def in_a_field(constraint) -> da.System:
    """A body on the plane, held by springs, in a magnetic field: L = ½|v|² - ½(x²+y²) + A(q)·v; no motion is reversible."""
    field = lambda q: jnp.stack([0.4 * jnp.sin(q[2]), 0.2 * jnp.cos(q[0]), 0.3 * jnp.sin(q[1])])  # noqa: E731
    return da.System(
        lambda q, v: 0.5 * (v @ v) - 0.5 * (q[0] ** 2 + q[1] ** 2) + field(q) @ v,
        da.Nonholonomic(constraint),
        coordinates=("x", "y", "θ"),
    )


def magnetic_bodies() -> list[Problem]:
    """The knife edge and Chaplygin's sleigh in the field, and the transmission in one of its own."""
    across = lambda q, v: v[1] * jnp.cos(q[2]) - v[0] * jnp.sin(q[2])  # noqa: E731
    edge, behind = in_a_field(across), in_a_field(lambda q, v: across(q, v) - 0.5 * v[2])
    return [
        Problem("magnetic knife edge", edge, (1.0, 0.5, 0.3), (0.0, 0.0, 1.0), 0.1, "not reversible"),
        Problem("magnetic sleigh", behind, (1.0, 0.0, 0.0), (1.0, 0.5, 1.0), 0.1, "not reversible"),
        of_gallery("pendulum_transmission", "not reversible", 0.1, b=0.3),
    ]


def problems() -> list[Problem]:
    start = ENTRIES["contact_oscillator"]
    return [
        of_gallery("nonholonomic_particle", "integrable", 0.05, c=1.0),
        of_gallery("contact_oscillator", "integrable", 0.05, epsilon=0.0),
        of_gallery("contact_oscillator", "perturbed", 0.05, epsilon=0.1),
        of_gallery("car_with_trailers", "tends to a circle", 0.02),
        Problem("Chaplygin sleigh", sleigh(), (0.0, 0.0, 0.0), (1.0, 0.5, 1.0), 0.05, "tends to a straight line"),
        Problem("magnetic contact oscillator", magnetic(), start.q0, start.v0, 0.05, "not reversible"),
        *magnetic_bodies(),
    ]


def watched(problem: Problem, scheme: da.Scheme, h: float) -> tuple:
    """(function, initial) for `reduce`: largest |φ|/|v| at the three places, smallest and largest energy."""
    system, (constraint,), weight = problem.system, problem.system.constraints, scheme.state.weight

    def residual(q, v, t):
        size = jnp.sqrt(v @ v)
        phi = jnp.max(jnp.abs(constraint.residual(system, q, v, jnp.zeros_like(v), t)))
        return jnp.where(size > 0, phi / jnp.where(size > 0, size, 1.0), 0.0)  # at rest φ is 0

    def watch(seen, t, q, v, multipliers):
        node = q - weight * seen["h"] * v
        now = jnp.stack([residual(q, v, t), residual(node, seen["v"], t), residual(node, 0.5 * (v + seen["v"]), t)])
        energy = da.energy(system, q, v, t)
        return {
            "h": seen["h"], "v": v, "largest": jnp.maximum(seen["largest"], now),
            "low": jnp.minimum(seen["low"], energy), "high": jnp.maximum(seen["high"], energy),
        }  # fmt: skip

    q0, v0 = jnp.asarray(problem.q0, dtype=float), jnp.asarray(problem.v0, dtype=float)
    start = da.energy(system, q0, v0)
    return watch, {"h": jnp.asarray(h), "v": v0, "largest": jnp.zeros(3), "low": start, "high": start}


def run(problem: Problem, scheme: da.Scheme, steps: int, h: float, every: int | None = None) -> da.Path:
    return da.simulate(
        problem.system, problem.q0, problem.v0, h=h, steps=steps, scheme=scheme, solver=da.Solver(tolerance=TOLERANCE),
        save=da.Save(every=every, reduce=watched(problem, scheme, h)),
    )  # fmt: skip


def constraint_row(problem: Problem, scheme: da.Scheme, path: da.Path) -> list[str]:
    """Largest residuals of the whole run, and exponents of h from two runs over the time of a fiftieth of it."""
    at = np.asarray(path.reduced["largest"])
    if scheme.order > 2 or scheme.form == "discrete_gradient":  # no nodes lie between the states
        return [f"{at[0]:.1e}", "–", "–"]
    steps, h = max(50, path.steps // 50), problem.h
    coarse, fine = (np.asarray(run(problem, scheme, k * steps, h / k).reduced["largest"]) for k in (1, 2))
    powers = np.log2(coarse[1:] / fine[1:])
    return [f"{at[0]:.1e}", *(f"{size:.1e} (h^{power:.2f})" for size, power in zip(at[1:], powers, strict=True))]


def slope(t: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Slope of the least squares line through block means, and its standard error with correlated residuals."""
    blocks = min(BLOCKS, len(t) // 2)
    used = len(t) // blocks * blocks
    t, values = (x[:used].reshape(blocks, -1).mean(axis=1) for x in (t, values))
    s = t - t.mean()
    found = float(s @ values / (s @ s))
    rest = values - values.mean() - found * s
    correlation = np.clip(rest[1:] @ rest[:-1] / max(rest @ rest, np.finfo(float).tiny), 0.0, 0.99)
    error = np.sqrt(rest @ rest / (blocks - 2) / (s @ s) * (1 + correlation) / (1 - correlation))
    return found, float(error)


def energy_row(problem: Problem, scheme: da.Scheme, path: da.Path) -> list[str]:
    first = run(problem, scheme, max(10, path.steps // 100), problem.h)
    e = np.asarray(jax.jit(jax.vmap(lambda q, v: da.energy(problem.system, q, v)))(path.q, path.v))
    ranges = [float(p.reduced["high"] - p.reduced["low"]) / abs(e[0]) for p in (first, path)]
    length = float(path.t[-1])
    drift, error = (length * x / abs(e[0]) for x in slope(np.asarray(path.t), e))
    increments = np.diff(e[:: max(1, len(e) // BLOCKS)]) / abs(e[0])
    walk = increments.std(ddof=1) * np.sqrt(len(increments))
    return [*(f"{x:.1e}" for x in ranges), f"{drift:.1e} ± {error:.0e}", f"{increments.sum():.1e} ± {walk:.0e}"]


def way_back(problem: Problem, scheme: da.Scheme, steps: int) -> float:
    """|(q, v) - (q₀, v₀)| after `steps` steps, v → -v, and as many again."""
    q, v = np.asarray(problem.q0, float), np.asarray(problem.v0, float)
    for _ in range(2):
        path = da.simulate(
            problem.system,
            q,
            v,
            h=problem.h,
            steps=steps,
            scheme=scheme,
            save=da.Save(every=None),
            solver=da.Solver(tolerance=TOLERANCE),
            throw=False,
        )
        if path.outcome.failed:
            return np.nan
        q, v = np.asarray(path.q[-1]), -np.asarray(path.v[-1])
    return float(max(np.abs(q - problem.q0).max(), np.abs(v - problem.v0).max()))


def back_row(problem: Problem, scheme: da.Scheme, steps: int) -> list[str]:
    distances = [way_back(problem, scheme, number) for number in fractions(steps)]
    return ["fails" if np.isnan(x) else f"{x:.1e}" for x in distances]


def fractions(steps: int) -> list[int]:
    return [max(1, steps // k) for k in (10_000, 1000, 100, 10, 1)]


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def count(text: str) -> int:
    try:
        number = int(float(text))
    except (ValueError, OverflowError):
        number = 0
    if number < 100:
        raise argparse.ArgumentTypeError(f"found {text}; give a number of steps, at least 100, such as 1e6")
    return number


def factor(text: str) -> float:
    if not 0 < float(text) < np.inf:
        raise argparse.ArgumentTypeError(f"found {text}; give a positive number")
    return float(text)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=count, default=10**6)
    parser.add_argument("--times", type=factor, default=1.0, metavar="FACTOR", help="of every h")
    parser.add_argument("--problems", nargs="+", default=[""], metavar="NAME", help="parts of names; all by default")
    parser.add_argument("--schemes", nargs="+", choices=[name for name, _ in SCHEMES], help="the first four by default")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, help="all by default")
    given = parser.parse_args(words)
    chosen = [p for p in problems() if any(part in p.name for part in given.problems)]
    given.problems = [dataclasses.replace(p, h=p.h * given.times) for p in chosen]
    if not given.problems:
        parser.error(f"argument --problems: there are {', '.join(p.name for p in problems())}")
    given.schemes = [(name, scheme) for name, scheme in SCHEMES if name in (given.schemes or [n for n, _ in SCHEMES[:4]])]
    return given


def main(words: Sequence[str] | None = None) -> None:
    given = arguments(words)
    measures = {
        "constraint": constraint_row,
        "energy": energy_row,
        "back": lambda problem, scheme, _: back_row(problem, scheme, given.steps),
    }
    rows = {name: [] for name in given.tables}
    for problem in given.problems:
        first = f"{problem.name} ({problem.note}), h = {problem.h:g}"
        for name, scheme in given.schemes:
            path = run(problem, scheme, given.steps, problem.h, every=max(1, given.steps // SAMPLES))
            for kind, filled in rows.items():
                filled.append([first, name, *measures[kind](problem, scheme, path)])
            first = ""  # once for every problem
    heads = {
        "constraint": ("Largest |φ|/|v|", ["at the states", "at the nodes, v before", "at the nodes, mean v"]),
        "energy": ("Energy, relative", ["range, first 1 %", "range", "least squares line, over the run", "last - first"]),
        "back": ("Distance from the start on the way back", [f"N = {number}" for number in fractions(given.steps)]),
    }
    for kind, filled in rows.items():
        title, columns = heads[kind]
        table(f"{title}, {given.steps} steps", ["", "scheme", *columns], filled)


if __name__ == "__main__":
    main()
