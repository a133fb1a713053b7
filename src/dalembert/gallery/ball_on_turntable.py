"""A ball that rolls on a turning table: centre (x, y), attitude a unit quaternion (e₀, e₁, e₂, e₃), ω in axes of space.

    L = ½m(ẋ² + ẏ²) + ½I|ω|²,   ω = 2 Im(ė ē),   |e|² = 1,
    ẋ - R ω_y = -Ω y,   ẏ + R ω_x = Ω x:   affine in the velocities

The centre runs on a circle with the angular velocity αΩ, α = I/(I + mR²): 2/7 of the table's for a solid ball, wherever the
circle lies. ω_z is constant. The energy is not.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Dots, Wheel
from dalembert.gallery.entry import Entry
from dalembert.systems import Holonomic, Nonholonomic, System
from dalembert.systems.manifolds import rotation

START = (1.0, 0.0, 1.0, 0.0, 0.0, 0.0)
MOVING = (0.2, 0.3)  # ẋ and ẏ of the typical run
SPIN = 0.5  # ω_z


def spatial(e):
    """G(e), (3, 4): ω = 2 G(e) ė, and ė = ½ G(e)ᵀ ω."""
    w, x, y, z = e
    return jnp.array([[-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])


def lagrangian(q, v, p):
    omega = 2.0 * spatial(q[2:]) @ v[2:]
    return 0.5 * p["m"] * (v[:2] @ v[:2]) + 0.5 * p["I"] * (omega @ omega)


def sphere(q, p):
    return q[2:] @ q[2:] - 1.0


def rolling(q, v, p):
    omega = 2.0 * spatial(q[2:]) @ v[2:]
    return jnp.array([
        v[0] - p["R"] * omega[1] + p["Omega"] * q[1], v[1] + p["R"] * omega[0] - p["Omega"] * q[0]
    ])  # fmt: skip


def frame(q, p):
    """B of v = Bẋ + c: columns ẋ, ẏ and the spin ω_z, which the rotations of the ball carry along."""
    turn = 0.5 * spatial(q[2:]).T
    rates = jnp.array([[0.0, -1.0 / p["R"], 0.0], [1.0 / p["R"], 0.0, 0.0], [0.0, 0.0, 1.0]])
    return jnp.concatenate([jnp.eye(2, 3), turn @ rates])


def drift(q, p):
    """c: how the table turns the ball that stands still beside it."""
    omega = p["Omega"] / p["R"] * jnp.array([q[0], q[1], 0.0])
    return jnp.concatenate([jnp.zeros(2), 0.5 * spatial(q[2:]).T @ omega])


def draw(q, p):
    """Two great circles that turn with the ball, and the way of its point of contact."""
    centre, turn = jnp.append(q[:2], p["R"]), rotation(q[2:])
    circles = [Wheel(centre, p["R"], 0.0, turn[:, i]) for i in (0, 1)]
    return [*circles, Dots(jnp.append(q[:2], 0.0), trail=True)]


def ball_on_turntable() -> System:
    """A solid ball, I = ⅖mR², with m = 1, R = ½, on a table with Ω = 1."""
    parameters = {"m": 1.0, "I": 0.1, "R": 0.5, "Omega": 1.0}
    constraints = [Holonomic(sphere), Nonholonomic(rolling)]
    names = ("x", "y", "e0", "e1", "e2", "e3")
    return System(lagrangian, constraints, coordinates=names, parameters=parameters, draw=draw)


def centre(t, m: float = 1.0, I: float = 0.1, R: float = 0.5, Omega: float = 1.0):
    """(x, y) at the times t from START and MOVING: the circle, (…, 2)."""
    rate = I / (I + m * R * R) * Omega
    start, speed = complex(*START[:2]), complex(*MOVING)
    z = start + speed * (np.exp(1j * rate * np.asarray(t, dtype=float)) - 1.0) / (1j * rate)
    return np.stack([z.real, z.imag], axis=-1)


def _consistent(R: float = 0.5, Omega: float = 1.0) -> tuple[float, ...]:
    """v₀ with MOVING and SPIN; at START the attitude is (1, 0, 0, 0)."""
    (x, y), (u, w) = START[:2], MOVING
    return u, w, 0.0, 0.5 * (Omega * x - w) / R, 0.5 * (u + Omega * y) / R, 0.5 * SPIN


entry = Entry(
    name="ball_on_turntable",
    title="Ball on a turntable",
    formula="L = ½m|ṙ|² + ½I|ω|²,  |e|² = 1,  ṙ = R ω×k + Ω k×r",
    source="Neimark, Fufaev, Dynamics of Nonholonomic Systems",
    system=ball_on_turntable(),
    q0=START,
    v0=_consistent(),
    h=0.05,
    time=20.0,
)
