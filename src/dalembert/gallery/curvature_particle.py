"""A particle in the plane whose path has the prescribed signed curvature k(x, y).

L = ½m|v|²,  (ẋÿ - ẍẏ)/|v|³ = k(x, y),  virtual displacements along v: the force is normal to the velocity.
mẍ = λẏ, mÿ = -λẋ with λ = -mk|v|; the speed is constant.
Borda, Fernández, Grillo, Section 4.1, eq. (5).
"""

from collections.abc import Callable
from decimal import Decimal, localcontext

import jax.numpy as jnp
import numpy as np

from dalembert.gallery.entry import Entry
from dalembert.systems import SecondOrder, System
from dalembert.systems.pickling import made


def lagrangian(q, v, p):
    return 0.5 * p["m"] * (v @ v)


def normal(q, v, a, p):
    return jnp.array([v[1], -v[0]])


def curvature_particle(k: Callable | None = None, parameters: dict | None = None) -> System:
    """k: function k(q, p) of the position, the constant p["k"] if None; parameters: those of k, besides m."""

    return System(
        lagrangian,
        SecondOrder(_curvature(k), reactions=normal),
        coordinates=("x", "y"),
        parameters={"m": 1.0, **({"k": 1.0} if k is None else {}), **(parameters or {})},
    )


@made
def _curvature(k: Callable | None) -> Callable:
    def curvature(q, v, a, p):
        wanted = p["k"] if k is None else k(q, p)
        return (v[0] * a[1] - a[0] * v[1]) / (v @ v) ** 1.5 - wanted

    return curvature


def exact(t, k: float = 1.0, m: float = 1.0):
    """The circle through the origin with v(0) = (1, 1): radius 1/k, traversed with speed √2."""
    angle = np.sqrt(2.0) * k * np.asarray(t, dtype=float) - np.pi / 4
    q = np.stack([(np.cos(angle) - np.sqrt(0.5)) / k, (np.sin(angle) + np.sqrt(0.5)) / k], axis=-1)
    v = np.sqrt(2.0) * np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    return q, v


def polygon(steps: int, q0, v0, h: float, k: float = 1.0, digits: int = 50) -> tuple[list[Decimal], list[Decimal]]:
    """The discrete solution (q, v) after `steps` steps of the form drift_kick_drift, to `digits` digits.

    As complex numbers: v_N = e^{iNα} v₀ and q_N = q₀ + (i/2) h cot(α/2) (v₀ - v_N), the corners of a regular polygon. The
    equations of the node give 2 sin(α/2) = k h|v| cos²(α/2), so that sin and cos need only square roots.
    Source: Borda, Fernández, Grillo, eqs. (6) and (7), at the mid-points of the sides.
    """
    with localcontext(prec=digits):
        (x, y), (a, b) = ([Decimal(float(component)) for component in vector] for vector in (q0, v0))
        side, d = Decimal(h) * Decimal(k) * (a * a + b * b).sqrt(), Decimal(h) / 2
        sine = side / (1 + (1 + side * side).sqrt())
        cosine = (1 - sine * sine).sqrt()
        turn, square = (Decimal(1), Decimal(0)), (1 - 2 * sine * sine, 2 * sine * cosine)
        while steps:  # e^{iNα} by repeated squaring
            turn = _product(turn, square) if steps & 1 else turn
            steps, square = steps >> 1, _product(square, square)
        v = _product(turn, (a, b))
        d = d * cosine / sine
        return [x - d * (b - v[1]), y + d * (a - v[0])], list(v)


def _product(z: tuple[Decimal, Decimal], w: tuple[Decimal, Decimal]) -> tuple[Decimal, Decimal]:
    return z[0] * w[0] - z[1] * w[1], z[0] * w[1] + z[1] * w[0]


entry = Entry(
    name="curvature_particle",
    title="Particle with prescribed curvature",
    formula="L = ½m|v|²,  (ẋÿ - ẍẏ)/|v|³ = k(x, y),  force normal to v",
    source="Borda, Fernández, Grillo, Section 4.1",
    system=curvature_particle(),
    q0=(0.0, 0.0),
    v0=(1.0, 1.0),
    h=0.1,
    time=500.0,
    exact=exact,
)
