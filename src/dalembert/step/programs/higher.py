"""The flow Υ_d of a variational problem of order k: one window after the other."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from dalembert.discretize import WindowMap
from dalembert.discretize.higher import (
    HigherState,
    Unknowns,
    Window,
    equal_window,
    multiplier_size,
    shifted_back,
    window_equations,
)
from dalembert.numbers import EPSILON
from dalembert.step.programs.base import Outputs, StepProgram, Vector
from dalembert.systems import VariationalProblem, common_order, holonomic_constraints


@final
class HigherProgram(StepProgram):
    """z = (Δᵏq/hᵏ, hᵏ⁻ʳλ, hᵏμ) of the window that begins k-1 nodes before q.

    Source: Colombo, Martín de Diego, Zuccalli, eq. (3.5). q: the newest node, at t. s = (b_1, …, b_k, Π_0, …,
    Π_{k-1}): its differences backwards, b_j = ∇ʲq/hʲ, and the momenta Θ⁺ of the k newest nodes. The k multipliers
    which the paper's state has besides are contained in Π. m, mh: numbers of differential and holonomic
    constraints, with multipliers λ at the middle of its first r+1 nodes, r being their order, and μ at its first node.
    nodes: known before the first step.
    """

    system: VariationalProblem
    scheme: WindowMap
    m: int = eqx.field(static=True)
    mh: int = eqx.field(static=True)
    nodes: int = eqx.field(static=True)

    @property
    def k(self) -> int:
        return self.system.derivatives

    @property
    def order(self) -> int:
        """r."""
        return common_order(self.system)

    @property
    def starting_nodes(self) -> int:
        return self.nodes - 1

    @property
    def multiplier_time(self) -> float:
        return 1.0 - self.k + (0.5 * self.order if self.m or not self.mh else 0.0)

    @property
    def levels(self) -> tuple[str, str]:
        return ("mid", "interior" if self.multiplier_time == round(self.multiplier_time) else "mid")

    def window(self, t, h) -> Window:
        return equal_window(self.scheme, self.k, h, t - (self.k - 1) * h)

    def differences(self, q, s) -> list[Vector]:
        """(q, b_1, …, b_k)."""
        n = q.shape[0]
        return [q, *(s[j * n : (j + 1) * n] for j in range(self.k))]

    def state(self, q, s, h) -> HigherState:
        n = q.shape[0]
        u = shifted_back(jnp.stack(self.differences(q, s)[:-1]), h)
        return HigherState(u, s[self.k * n :].reshape(self.k, n))

    def unpack(self, z, n: int) -> Unknowns:
        return Unknowns(z[:n], z[n : n + self.m], z[n + self.m :])

    def equations(self, z, q, s, t, h):
        short = equal_window(self.scheme, self.order, h, t - (self.k - 1) * h) if self.order < self.k else None
        return window_equations(self.system, self.window(t, h), self.state(q, s, h), self.unpack(z, q.shape[0]), short)

    def residual(self, z, q, s, t, h, held_force):
        return self.equations(z, q, s, t, h)[0]

    def guess(self, q, s, t, h):
        return jnp.concatenate([self.differences(q, s)[-1], jnp.zeros(self.m + self.mh)])

    def scale(self, z, q, s, h):
        """With a floor: what cannot move one of the lower differences by its last digit is small enough."""
        n, k = q.shape[0], self.k
        sizes = [jnp.max(jnp.abs(b)) for b in self.differences(q, s)]
        floor = sum(size / h ** (k - j) for j, size in enumerate(sizes[:-1]) if j > 0)
        floor = floor + sizes[0] / h ** (k if self.mh else 1)
        size = jnp.maximum(jnp.max(jnp.abs(z[:n])), sizes[-1])
        return jnp.full_like(z, jnp.inf).at[:n].set(size + 1e9 * EPSILON * floor + 1e-200)

    def new_differences(self, z, q, s, h) -> list[Vector]:
        b = [*self.differences(q, s)[:-1], z[: q.shape[0]]]
        for j in range(self.k - 1, 0, -1):
            b[j] = b[j] + h * b[j + 1]
        return b[1:]

    def advance(self, z, q, s, t, h):
        b = self.new_differences(z, q, s, h)
        return h * b[0], jnp.concatenate([*b, self.equations(z, q, s, t, h)[1].momenta.ravel()])

    def output_state(self, z, q, s, h):
        b = self.new_differences(z, q, s, h)
        return q + h * b[0], b[0]

    def outputs(self, z, q, s, t, h, held_force):
        new, oldest = self.unpack(z, q.shape[0]), self.state(q, s, h).u[0]
        forces = new.holonomic / multiplier_size(self.k, self.k, h)
        rows = jax.jacfwd(lambda x: holonomic_constraints(self.system, x, t - (self.k - 1) * h))(oldest)
        force = jnp.full_like(q, jnp.nan) if self.m else rows.T @ forces
        multipliers = new.multipliers / multiplier_size(self.k, self.k - self.order, h)
        return Outputs(multipliers if self.m or not self.mh else forces, force)

    def constraint_point(self, z, q, s, t, h):
        return q, 0.5 * (self.differences(q, s)[1] + self.new_differences(z, q, s, h)[0]), t

    def velocity(self, s):
        return s[: s.shape[0] // (2 * self.k)]
