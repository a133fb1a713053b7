"""A hanging chain in the plane: N unit masses on N massless rods of length l, the first rod hung from the origin.

L = ½|v|² - g Σ yᵢ,  φᵢ = |rᵢ - rᵢ₋₁|² - l² = 0 with r₀ = 0 and q = (x₁, y₁, …, x_N, y_N), so that n = 2N, m = N.
Reactions are ∂φ/∂q; the pull of rod i is 2l|λᵢ|, and at rest λᵢ = -g(N + 1 - i)/(2l).
In the angles θᵢ of the rods to the downward vertical it is the N-fold pendulum without constraints,
L = ½l² Σᵢⱼ (N - max(i,j) + 1) cos(θᵢ-θⱼ) θ̇ᵢθ̇ⱼ + gl Σᵢ (N - i + 1) cos θᵢ; one rod is the mathematical pendulum.
Small oscillations: ω² = (g/l) x with the roots x of Laguerre's polynomial L_N.
D. Bernoulli (1733) for the polynomials; Landau, Lifshitz, Mechanics, § 5, problem 1, for N = 2 in angles.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Dots, Rod
from dalembert.gallery.entry import Entry
from dalembert.systems import Holonomic, System

RODS = 3


def lagrangian(q, v, p):
    return 0.5 * (v @ v) - p["g"] * jnp.sum(q[1::2])


def lengths(q, p):
    """|rᵢ - rᵢ₋₁|² - l², (N,)."""
    joints = jnp.concatenate([jnp.zeros((1, 2)), q.reshape(-1, 2)])
    return jnp.sum(jnp.diff(joints, axis=0) ** 2, axis=1) - p["l"] ** 2


def draw(q, p):
    """The rods and the masses at their ends; the way of the last one."""
    joints = jnp.concatenate([jnp.zeros((1, 2)), q.reshape(-1, 2)])
    return [
        Rod([[-0.4, 0.0], [0.4, 0.0]]),
        Rod(joints),
        Dots(joints[1:-1]) if q.size > 2 else Dots(joints[:1]),
        Dots(q[-2:], trail=True),
    ]


def chain(rods: int = RODS) -> System:
    """N = rods; any number of them has the same functions."""
    names = tuple(f"{axis}{i}" for i in range(1, rods + 1) for axis in "xy")
    return System(lagrangian, Holonomic(lengths), coordinates=names, parameters={"g": 9.81, "l": 1.0}, draw=draw)


def placed(angles, l: float = 1.0) -> np.ndarray:
    """q, (2N,): rᵢ = rᵢ₋₁ + l (sin θᵢ, -cos θᵢ) for angles θ, (N,)."""
    rods = np.stack([np.sin(angles), -np.cos(angles)], axis=1)
    return (l * np.cumsum(rods, axis=0)).ravel()


def slanted(rods: int) -> np.ndarray:
    """q, (2N,), with angles that grow evenly from 0.3 at the top to 1.2 at the free end."""
    return placed(np.linspace(0.3, 1.2, rods))


def frequencies(rods: int, g: float = 9.81, l: float = 1.0) -> np.ndarray:
    """ω, (N,): angular frequencies of small oscillations about the chain at rest, lowest first."""
    return np.sqrt(g / l * np.polynomial.laguerre.lagroots(np.eye(1, rods + 1, rods)[0]))


entry = Entry(
    name="chain",
    title="Hanging chain of rods",
    formula="L = ½|v|² - g Σ yᵢ,  |rᵢ - rᵢ₋₁|² = l²",
    source="the same chain in angles; Laguerre's polynomials for small oscillations",
    system=chain(),
    q0=tuple(slanted(RODS).tolist()),
    v0=(0.0,) * (2 * RODS),
    h=0.01,
    time=20.0,
)
