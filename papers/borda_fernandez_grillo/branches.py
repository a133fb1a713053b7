"""Which root a rule takes (Section 4.2.2): along the motion dV/dt + F = u (ṗ₂ + ρ tanh u + K), so each step has two.

On the root u = 0 nothing dissipates: F = 0 and V stays. A rule that takes it now and then still lowers V, only later and
elsewhere, so a decreasing V is no sign of the right root; the share of steps with u = 0 is.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from dalembert.gallery import inertia_wheel_pendulum as wheel
from dalembert.options import Solver
from dalembert.outcome import Outcome
from dalembert.step import Branch, Least, Nearest
from dalembert.systems import Reference
from papers.borda_fernandez_grillo import pendulum
from papers.convergence import PRINTED
from papers.drawing import BLUE, GOLD, GREEN, GREY, RED, Save, panels

RULES: dict[str, Branch | None] = {
    "avoid the factor u (default)": None,
    "nearest to the previous θ (printed)": Nearest("previous", coordinates=(0,)),
    "nearest to the prediction": Nearest("prediction"),
    "least V": Least(wheel.lyapunov),
}
COLOURS = dict(zip(RULES, (BLUE, RED, GOLD, GREEN), strict=True))
ZERO = 1e-7  # on the root u = 0 |u| is round-off, near 1e-11; on the other root one step in 1e5 comes as near as this
STEP = 0.1


@dataclasses.dataclass(frozen=True)
class Rule:
    """One run. spurious: for every interior node whether u = 0 there; error: of θ over the whole run."""

    name: str
    t: Float[np.ndarray, "times"]
    lyapunov: Float[np.ndarray, "times"]
    spurious: np.ndarray
    error: float
    outcome: str

    @property
    def share(self) -> float:
        return float(np.mean(self.spurious))

    @property
    def first(self) -> float:
        """Time of the first step on the root u = 0, NaN if there is none."""
        return float(self.t[np.argmax(self.spurious)]) if self.spurious.any() else float("nan")


def follow(name: str, branch: Branch | None, exact: Reference) -> Rule:
    path = pendulum.run(PRINTED, STEP, float(exact.t[-1]), solver=Solver(branch=branch), throw=False)
    t, q, v = pendulum.state(path)
    u = np.asarray(pendulum.factor(q, v))
    error = pendulum.error_of_theta(path, exact)
    values = np.asarray(pendulum.lyapunov(q, v))
    return Rule(name, np.asarray(t), values, np.abs(u) < ZERO, error, Outcome(int(path.code)).name)


def measure(exact: Reference, fast: bool = False) -> list[Rule]:
    """dV/dt = -F with every rule that chooses among the roots of a step, over the time of a reference.

    Args:
        exact: the continuous solution, whose time the runs last.
        fast: the first rule alone.

    Returns:
        What became of each.
    """
    rules = list(RULES.items())[: 1 if fast else None]  # every other rule compiles for ten seconds
    return [follow(name, branch, exact) for name, branch in rules]


def draw(save: Save, rules: list[Rule]) -> None:
    figure, axes = panels(1, 2, size=(8.4, 3.6), width_ratios=(3, 2))
    left, right = axes[0]
    for rule in rules:
        line = "--" if rule.name == "least V" else "-"  # nearly on the default's curve
        left.semilogy(rule.t, rule.lyapunov, line, color=COLOURS[rule.name], label=rule.name, linewidth=1.6)
        passed = np.cumsum(rule.spurious) / np.arange(1, len(rule.t) + 1)
        right.plot(rule.t, 100 * passed, color=COLOURS[rule.name])
        end = rule.t[-1], 100 * rule.share
        right.annotate(f"{end[1]:.2g} %", end, xytext=(3, 0), va="center", textcoords="offset points",
                       color=COLOURS[rule.name], fontsize=8.5, annotation_clip=False)  # fmt: skip
    left.axhline(200, color=GREY, linewidth=0.8, linestyle=":")
    left.set(xlabel="$t$", ylabel="$V$", title="$V$, one rule per curve")
    left.legend(fontsize=8.5)
    right.set(xlabel="$t$", ylabel="%", title="share of steps so far on the root $u = 0$")
    right.set_xlim(0, rules[0].t[-1])
    save("branches", figure)
