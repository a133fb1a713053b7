"""The quotient of the full discretization by translations: a discrete system in the reduced coordinates, with forces."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.discretize.nodes import Interval, incoming, outgoing
from dalembert.symmetry.chaplygin_equations import with_own
from dalembert.symmetry.frames import VelocityFrame
from dalembert.systems import System
from dalembert.systems.pickling import made


def discrete_quotient(original: System, reduced: System, frame: VelocityFrame, scheme: Scheme, h: float) -> DiscreteSystem:
    """L_d = h L_c∘ρ with f_d^± = B(r_±)ᵀ D_±(full L_d) - D_± L_d: the sum is B(r_k)ᵀ of the equation at a node.

    Reactions are in the annihilator of B at the node, where the central map of the variational constraints reads them, and
    the constraints hold where `distribution` reads them: so nothing of the full equations is left out.
    """
    action = _action(reduced, scheme, h)
    return DiscreteSystem(
        action, forces=_impulses(original, frame, scheme, action, h), coordinates=reduced.coordinates,
        parameters=reduced.parameters,
    )  # fmt: skip


@made
def _action(reduced: System, scheme: Scheme, h: float) -> Callable:
    rho = scheme.distribution

    def action(x0, x1, *p):
        x, w = rho(x0, x1 - x0, h)
        return h * reduced.lagrangian(x, w, *p)

    return action


@made
def _impulses(original: System, frame: VelocityFrame, scheme: Scheme, action: Callable, h: float) -> Callable:
    rho = scheme.distribution

    def impulses(x0, x1, *p):
        own, t = with_own(original, p)
        x, w = rho(x0, x1 - x0, h)
        q0 = frame.section(x0)
        interval = Interval(q0, h * frame.velocity(own, frame.section(x), w, t), t, jnp.asarray(h))
        left, right = (frame.basis(own, frame.section(y), t) for y in (x0, x1))
        slopes = jax.grad(action, (0, 1))(x0, x1, *p)
        return left.T @ outgoing(scheme, own, interval) - slopes[0], right.T @ incoming(scheme, own, interval) - slopes[1]

    return impulses
