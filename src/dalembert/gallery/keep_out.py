"""A spline in the plane that keeps out of two discs: L = ½|q̈|², k = 2, |q - c| ≥ r for each."""

import jax.numpy as jnp

from dalembert.drawing import Dots, Rod
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import VariationalProblem

CENTRES = ((1.0, 0.75), (3.2, 0.55))


def lagrangian(q, v, a, p):
    return 0.5 * a @ a


def discs(q, v, p):
    """r² - |q - c|² ≤ 0."""
    return p["r"] ** 2 - jnp.sum((q - jnp.array(CENTRES)) ** 2, axis=1)


def draw(q, p):
    """The discs, and the way around them."""
    turn = jnp.linspace(0.0, 2.0 * jnp.pi, 49)
    circle = p["r"] * jnp.stack([jnp.cos(turn), jnp.sin(turn)], axis=1)
    return [*(Rod(jnp.array(centre) + circle) for centre in CENTRES), Dots(q, trail=True)]


def keep_out(r: float = 0.4) -> VariationalProblem:
    """Radius of the discs."""
    return VariationalProblem(lagrangian, derivatives=2, coordinates=("x", "y"), parameters={"r": r}, draw=draw)


entry = BoundaryEntry(
    name="keep_out",
    title="Spline around two discs",
    formula="L = ½|q̈|²,  |q - c| ≥ r",
    source="without a closed form",
    problem=keep_out(),
    boundary={
        "initial": ((0.0, 0.0),), "final": ((4.0, 0.0),), "through": {2.0: (2.0, 1.0)}, "T": 4.0, "inequalities": discs,
    },
    steps=80,
)  # fmt: skip
