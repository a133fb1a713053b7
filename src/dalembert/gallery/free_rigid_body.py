"""The free rigid body on SO(3): ℓ = ½ω·Iω, and Euler's equations Iω̇ = Iω × ω.

Energy, |Iω| and RIω, the momentum in space, are kept. Near its middle axis the body turns over again and again. ω is given
by Jacobi's elliptic functions: Landau, Lifshitz, Mechanics, § 37.
"""

import jax.numpy as jnp
import numpy as np
from scipy.special import ellipj, ellipkinc

from dalembert.drawing import Body
from dalembert.gallery.entry import Entry
from dalembert.groups import SO3
from dalembert.systems import System

MOMENTS, OMEGA = (1.0, 2.0, 3.0), (0.1, 1.5, 0.3)


def lagrangian(q, v, p):
    return 0.5 * v.R @ (p["I"] * v.R)


def draw(q, p):
    """A box whose longest side has the least moment of inertia."""
    return Body(q.R, jnp.zeros(3))


def free_rigid_body() -> System:
    return System(lagrangian, coordinates={"R": SO3()}, parameters={"I": MOMENTS}, draw=draw)


def angular_velocity(t) -> np.ndarray:
    """ω at times t from OMEGA: (cn, sn, dn) with amplitudes, as |Iω|² > I₂ω·Iω."""
    moments, omega = np.array(MOMENTS), np.array(OMEGA)
    a, b, c = MOMENTS
    energy, square = moments @ omega**2, moments**2 @ omega**2
    low, high = energy * c - square, square - energy * a
    sizes = np.sqrt([low / (a * (c - a)), low / (b * (c - b)), high / (c * (c - a))])
    m = (b - a) * low / ((c - b) * high)
    begin = ellipkinc(np.arctan2(omega[1] / sizes[1], omega[0] / sizes[0]), m)
    sn, cn, dn, _ = ellipj(begin + np.asarray(t, float) * np.sqrt((c - b) * high / (a * b * c)), m)
    return sizes * np.stack([cn, sn, dn], axis=-1)


entry = Entry(
    name="free_rigid_body",
    title="Free rigid body on SO(3)",
    formula="ℓ = ½ω·Iω",
    source="Landau, Lifshitz, § 37; closed form of ω",
    system=free_rigid_body(),
    q0=(1.0, 0.0, 0.0, 0.0),
    v0=OMEGA,
    h=0.02,
    time=25.0,
)
