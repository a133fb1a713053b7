"""The mathematical pendulum: L = ½θ̇² + (g/l) cos θ, without constraints.

From θ(0) = 1 at rest: θ = 2 asin(k sn(K - ω₀t, k²)), k = sin ½; period 4K/ω₀ = 6.699975664370453 for g/l = 1.
"""

import jax.numpy as jnp
import numpy as np
from scipy.special import ellipj, ellipk

from dalembert.drawing import Dots, Rod
from dalembert.gallery.entry import Entry
from dalembert.systems import System


def lagrangian(q, v, p):
    return 0.5 * v[0] ** 2 + p["g_over_l"] * jnp.cos(q[0])


def draw(q, p):
    """A rod of length 1 whatever g/l: the rod is the unit of length."""
    end = jnp.array([jnp.sin(q[0]), -jnp.cos(q[0])])
    return [Rod([[-0.25, 0.0], [0.25, 0.0]]), Rod([[0.0, 0.0], end]), Dots(end, trail=True)]


def pendulum() -> System:
    return System(lagrangian, coordinates=("θ",), parameters={"g_over_l": 1.0}, draw=draw)


def exact(t, g_over_l: float = 1.0):
    """Closed form from θ = 1 at rest, by Jacobi's elliptic functions."""
    k = np.sin(0.5)
    omega = np.sqrt(g_over_l)
    sn, cn, _, _ = ellipj(ellipk(k * k) - omega * np.asarray(t, dtype=float), k * k)
    return 2 * np.arcsin(k * sn)[..., None], (-2 * omega * k * cn)[..., None]


entry = Entry(
    name="pendulum",
    title="Mathematical pendulum",
    formula="L = ½θ̇² + (g/l) cos θ",
    source="closed form by elliptic functions",
    system=pendulum(),
    q0=(1.0,),
    v0=(0.0,),
    h=0.05,
    time=50.0,
    exact=exact,
)
