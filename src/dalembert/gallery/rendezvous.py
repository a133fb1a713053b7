"""Rendezvous with a target that moves on a circle: L = ½|v|², min ∫(1 + |u|²) dt from rest, T free.

    ψ(q, v, t) = (q - r(t), v - ṙ(t)) = 0 at T,   r(t) = (3 + cos t, sin t)

The path is a cubic in t. To be at x with velocity w at T costs 12|x|²/T³ - 12 x·w/T² + 4|w|²/T, x = r(T), w = ṙ(T): with T
that is a function of T alone, whose least value is the cost.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.boundary import Free, On
from dalembert.control import OptimalControl
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System

CENTRE = 3.0


def lagrangian(q, v, t):
    return 0.5 * v @ v


def price(q, v, u, t):
    return 1.0 + u @ u


def target(t):
    """Its position and velocity."""
    return jnp.stack([CENTRE + jnp.cos(t), jnp.sin(t)]), jnp.stack([-jnp.sin(t), jnp.cos(t)])


def met(q, v, t):
    """Position and velocity relative to the target; both vanish where the point moves with it."""
    x, w = target(t)
    return jnp.concatenate([q - x, v - w])


def rendezvous() -> OptimalControl:
    """A point with thrust in the plane; time enters by the target."""
    plant = System(lagrangian, coordinates=("x", "y"), time_dependent=True)
    return OptimalControl(plant, cost=price, actuated=(0, 1))


def cost_of(T):
    """Of the cheapest path that meets the target at T."""
    x, w = (np.asarray(part) for part in target(T))
    return T + 12.0 * x @ x / T**3 - 12.0 * x @ w / T**2 + 4.0 * w @ w / T


def exact(t):
    """(x, y): the cubic between the ends; the last time is that of the rendezvous."""
    T = t[-1]
    s = (np.asarray(t) / T)[:, None]
    x, w = (np.asarray(part) for part in target(T))
    return s**2 * (3.0 * x - T * w) + s**3 * (T * w - 2.0 * x)


entry = BoundaryEntry(
    name="rendezvous",
    title="Meeting a target that moves on a circle",
    formula="L = ½|q̇|²,  min ∫(1 + |u|²) dt,  (q, q̇) = (r, ṙ)(T),  T free",
    source="closed form: a cubic, and a function of T",
    problem=rendezvous(),
    boundary={"initial": ((0.0, 0.0), (0.0, 0.0)), "final": On(met), "T": Free(4.0)},
    steps=80,
    exact=exact,
    cost=4.43416590843,
)
