"""Section 4.2: steps prescribed by constraints on the times, constant or a function of the positions."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.boundary import Nodes, solve
from dalembert.discretize import energies, with_time
from dalembert.systems import VariationalProblem, density
from dalembert.tracing import Jitted
from papers.colombo_martin_de_diego_zuccalli.beam import Beam
from papers.drawing import BLUE, GREY, RED, Save, panels

LOAD = 384.0  # bends the beam by 1 in the middle
HEAVY = Beam(
    "heavy", "$\\mu = 1,\\ \\rho = 384$", lambda t: 1.0 + 0.0 * t, lambda t: LOAD + 0.0 * t, lambda s: -0.5 * LOAD * s**2
)
PROBLEM, BEAM = with_time(HEAVY.problem), HEAVY.problem
STEPS = (20, 40, 80)
ITERATIONS, TOLERANCE = 50, 1e-11


class Constrained(eqx.Module):
    """Σ L_d + Σ λⁱ Φⁱ of nodes (t_i, q_i), with Φⁱ = t_{i+1} - t_i - h₀ h(q_{i+1}), h(q) = 1/(1 + c q²).

    Given: t₀ = 0, q₀, q₁, q_{N-1}, q_N. Φⁱ for the windows i = 0 … N-2 and once more for the last step: N constraints for
    the N unknown times. The printed pair Φ⁽¹⁾, Φ⁽²⁾ has 2(N-1), of which these are a basis.
    """

    problem: VariationalProblem
    q: Float[Array, "N+1"]  # the given positions, the others not read
    h: Float[Array, ""]
    c: Float[Array, ""]  # 0: constant steps

    def nodes(self, z: Float[Array, "unknowns"]) -> Float[Array, "N+1 2"]:
        n = self.q.shape[0] - 1
        q = jnp.concatenate([self.q[:2], z[n : 2 * n - 3], self.q[-2:]])
        return jnp.stack([jnp.concatenate([jnp.zeros(1), z[:n]]), q], axis=1)

    def windows(self, x: Float[Array, "N+1 2"]) -> Float[Array, "N-1 3 2"]:
        return jnp.stack([x[:-2], x[1:-1], x[2:]], axis=1)

    def action(self, x: Float[Array, "N+1 2"]) -> Float[Array, ""]:
        return jnp.sum(jax.vmap(lambda w: density(self.problem, tuple(w), 0.0))(self.windows(x)))

    def constraints(self, x: Float[Array, "N+1 2"]) -> Float[Array, "N"]:
        w = self.windows(x)
        steps = self.h / (1.0 + self.c * w[:, 1, 1] ** 2)
        return jnp.diff(x[:, 0]) - jnp.append(steps, steps[-1])

    def augmented(self, z: Float[Array, "unknowns"]) -> Float[Array, ""]:
        n, x = self.q.shape[0] - 1, self.nodes(z)
        return self.action(x) + z[2 * n - 3 :] @ self.constraints(x)


@Jitted
def _equations(c: Constrained, z):
    return jax.grad(c.augmented)(z), jax.hessian(c.augmented)(z)


def extremal(c: Constrained, z: Float[np.ndarray, "unknowns"]) -> Float[np.ndarray, "unknowns"]:
    """Newton's method on the dense KKT equations: independent of `solve`, which has no free final time."""
    for _ in range(ITERATIONS):
        gradient, hessian = (np.asarray(x) for x in _equations(c, z))
        change = np.linalg.solve(hessian, gradient)
        z = z - change
        if np.max(np.abs(change)) < TOLERANCE * (1 + np.max(np.abs(z))):
            return z
    raise RuntimeError("the step constraints were not met")


def problem_of(c: float, steps: int) -> Constrained:
    return Constrained(PROBLEM, jnp.zeros(steps + 1), jnp.asarray(1.0 / steps), jnp.asarray(c))


def guess(c: Constrained, steps: int) -> Float[np.ndarray, "unknowns"]:
    t = np.linspace(0.0, 1.0, steps + 1)
    return np.concatenate([t[1:], HEAVY.exact(t)[0][2:-2], np.zeros(steps)])


def on_fixed_times(t: Float[np.ndarray, "N+1"]) -> Float[np.ndarray, "N+1"]:
    """The q equations alone, with the same given nodes and the times t."""
    ends = Nodes(np.zeros((2, 1)))
    return np.asarray(solve(BEAM, initial=ends, final=ends, times=t, certify=False).q)[:, 0]


@dataclasses.dataclass(frozen=True)
class Prescribed:
    """t, q, multipliers of the whole system; alone: q by the q equations alone on the same times; energy: E_i.

    multipliers: λⁱ, i = 0 … N-1. factors: h(q_i) of the steps that E_i belongs to.
    """

    t: Float[np.ndarray, "N+1"]
    q: Float[np.ndarray, "N+1"]
    multipliers: Float[np.ndarray, "N"]
    alone: Float[np.ndarray, "N+1"]
    energy: Float[np.ndarray, "N-2"]
    factors: Float[np.ndarray, "N-2"]

    @property
    def difference(self) -> float:
        return float(np.max(np.abs(self.q - self.alone)))

    @property
    def balance(self) -> float:
        """Largest |E_i - λⁱ| over the largest |E_i|: what the equations of the times say where L does not depend on t."""
        return float(np.max(np.abs(self.energy - self.multipliers[1:-1])) / np.max(np.abs(self.energy)))

    @property
    def product(self) -> float:
        """(largest - least) E_i h(q_i) over the mean: tends to zero, since the force λ ∂h leaves E h conserved and not E."""
        eh = self.energy * self.factors
        return float(np.ptp(eh) / np.abs(np.mean(eh)))


def measured(strength: float, steps: int) -> Prescribed:
    c = problem_of(strength, steps)
    z = extremal(c, guess(c, steps))
    nodes = c.nodes(jnp.asarray(z))
    x, energy = np.asarray(nodes), np.asarray(energies(c.problem, nodes))
    return Prescribed(x[:, 0], x[:, 1], z[2 * steps - 3 :], on_fixed_times(x[:, 0]), energy, steps * np.diff(x[1:-1, 0]))


def printed_rank(steps: int) -> tuple[int, int]:
    """(rank, number) of the printed constraints Φ⁽¹⁾ = t_{k+1} - t_k - h and Φ⁽²⁾ = t_{k+2} - t_{k+1} - h, 0 ≤ k ≤ N-2."""
    difference = np.diff(np.eye(steps + 1), axis=0)
    rows = np.concatenate([difference[:-1], difference[1:]])
    return int(np.linalg.matrix_rank(rows)), len(rows)


@dataclasses.dataclass(frozen=True)
class Both:
    constant: list[Prescribed]
    function: list[Prescribed]


def measure(fast: bool = False) -> Both:
    steps = STEPS[:1] if fast else STEPS
    return Both([measured(0.0, n) for n in steps[:1]], [measured(1.0, n) for n in steps])


def draw(save: Save, found: Both) -> None:
    """The beam with prescribed steps: the whole system, and the q equations alone on its times."""
    figure, axes = panels(1, 2, size=(9.0, 3.5))
    shapes, steps = axes[0]
    r = found.function[-1]
    shapes.plot(r.t, r.q, color=RED, label="all equations: $h(q)$ is varied too")
    shapes.plot(r.t, r.alone, color=BLUE, label="$q$ equations alone, same times")
    shapes.set(xlabel="$t$", ylabel="$q$", title="steps proportional to $1/(1+q^2)$")
    steps.plot(0.5 * (r.t[1:] + r.t[:-1]), np.diff(r.t) * (len(r.t) - 1), ".", color=RED, markersize=4, label="$N h$")
    steps.axhline(1.0, color=GREY, linewidth=0.8)
    steps.set(xlabel="$t$", title="steps")
    for panel in axes[0]:
        panel.legend(fontsize=8.5)
    save("prescribed_steps", figure)
