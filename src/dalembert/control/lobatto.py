"""Order 4 with forces as unknowns: the path a parabola on every two steps, all integrals by Simpson's rule.

    A = Σ_j b_j L(q_j, q̇_j),   b = (h/3, 4h/3, h/3),   q̇ = ((3d₁-d₂)/2h, (d₁+d₂)/2h, (3d₂-d₁)/2h),   d_i = q_i - q_{i-1}
    node i:   ∂A/∂q_i + ∂A'/∂q_i + w_i (f + B(q_i)u_i + Rᵀν_i) = 0,   cost: Σ_j b_j C(q_j, q̇_j, u_j),   holonomic: φ(q_i) = 0

w: the weights of Simpson's rule over all steps. As the cost takes the same parabolas, L̃ = C + λᵀ(equations of motion) is a
Lagrangian of (q, λ) in the same discretization, a Galerkin variational integrator (Lobatto IIIA-IIIB) of order 4.
Source: Campos, Ober-Blöbaum, Trélat, High order variational integrators in the optimal control of mechanical systems, 2015.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.boundary.kkt.assembly import Term
from dalembert.boundary.kkt.shared_unknowns import TIME
from dalembert.control.problem import OptimalControl, with_plant_parameters
from dalembert.control.terms import ControlLayout, EndPosition, term_of
from dalembert.systems.equations import force

EQUAL = 1e-9  # by how much the two steps of a parabola may differ
DEGREE = 4


@dataclasses.dataclass(frozen=True)
class Parabola:
    """Cost, action and external forces of two steps, times `share`, 1 or 0: windows begin at every node, parabolas at every
    other one."""

    problem: OptimalControl  # without its parameters
    layout: ControlLayout
    scaling: ClassVar = (1, 0, TIME)

    def __call__(self, z, data, shared):
        h, share, t = data
        problem, n, r = with_plant_parameters(self.problem, shared["parameters"]), self.layout.n, self.layout.r
        system, rows = problem.system, z[: 3 * (n + r)].reshape(3, n + r)
        x, u = rows[:, :n], rows[:, n:]
        weights, times = jnp.array([1.0, 4.0, 1.0]) * (share * h / 3.0), [t, t + h, t + 2.0 * h]

        def action(x):
            return sum(
                w * system.call(system.lagrangian, shared["origin"] + q, v, t=s)
                for w, q, v, s in zip(weights, x, _rates(x, h), times, strict=True)
            )

        v = _rates(x, h)
        every = list(zip(weights, shared["origin"] + x, v, u, times, strict=True))
        cost = sum(w * system.call(problem.cost, q, v, u, t=s) for w, q, v, u, s in every)
        forces = jnp.stack([w * force(system, q, v, s) for w, q, v, _, s in every])
        return cost, (jax.grad(action)(x) + forces).ravel()


def _rates(x, h):
    """The slopes of a parabola through three rows, at each of them."""
    first, second = x[1] - x[0], x[2] - x[1]
    return [(3.0 * first - second) / (2.0 * h), (first + second) / (2.0 * h), (3.0 * second - first) / (2.0 * h)]


def parabola_terms(
    problem: OptimalControl, layout: ControlLayout, t: Float[np.ndarray, "nodes"], weights: Float[np.ndarray, "nodes"]
) -> Iterator[tuple[Term, tuple]]:
    """Cost, action and constraints of all steps, with their data; weights: of the nodes; problem: without its parameters."""
    at, h = layout.places, np.diff(t)
    read = [place for offset in range(3) for place in at(offset, "state", "controls")]
    multipliers = [place for offset in (1, 2, 3) for place in at(offset, "adjoints")]
    share = (np.arange(len(h) - 1) % 2 == 0).astype(float)
    yield term_of(Parabola(problem, layout), read, multipliers, 1, len(h) - 1), (h[:-1], share, t[:-2])
    if layout.m:
        own = term_of(EndPosition(problem, layout), at(0, "state"), at(0, "steps"), 2, len(h))
        yield own, (weights[1:], t[1:])


def check_parabolas(problem: OptimalControl, t: Float[np.ndarray, "nodes"], limits: dict[str, Any]) -> None:
    """ValueError where the nodes, the plant or what is bounded are none that parabolas take. limits: by name."""
    h = np.diff(t)
    if len(h) % 2 or np.any(np.abs(h[::2] - h[1::2]) > EQUAL * h[::2]):
        raise ValueError(f"scheme: found Lobatto() together with {len(h)} steps; it needs pairs of steps of equal length")
    if any(c.order > 0 for c in problem.system.constraints):
        raise ValueError(
            "scheme: found Lobatto() for a plant with Nonholonomic constraints; its velocities between nodes have order 2 "
            "only. Leave scheme out, or use coordinates without them"
        )
    for name, given in limits.items():
        if given is not None:
            raise ValueError(f"scheme: found Lobatto() together with {name}; it takes bounds on controls and positions only")


def node_velocities(t: Float[np.ndarray, "nodes"], x: Float[np.ndarray, "nodes n"]) -> Float[np.ndarray, "nodes n"]:
    """Slopes at the nodes of the polynomials through the five nearest ends of parabolas, of order 4: middles have errors of
    their own, which differences would take an order from."""
    ends = slice(None, None, 2) if len(t) >= 2 * DEGREE + 1 else slice(None)
    own, rows = t[ends], x[ends]
    width = min(DEGREE + 1, len(own))
    first = np.clip(np.searchsorted(own, t) - width // 2, 0, len(own) - width)
    near = first[:, None] + np.arange(width)
    unit = (own[near[:, -1]] - own[near[:, 0]])[:, None]
    powers = ((own[near] - t[:, None]) / unit)[:, None, :] ** np.arange(width)[:, None]  # Σ_j w_j s_jᵏ = d(sᵏ)/ds at 0
    wanted = np.broadcast_to(np.eye(width)[1], (len(t), width))
    weights = np.linalg.solve(powers, wanted[..., None])[..., 0] / unit
    return np.einsum("kj,kjn->kn", weights, rows[near])
