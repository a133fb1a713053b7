"""The contact oscillator: L = ½|v|² - ½|q|² - ½ε x²z²,  ẋ + y ż = 0.

y = cos t from y = 1 at rest, for every ε: no force of the constraint acts on it. For ε = 0 put r = √(1+y²) and p = r ż. Then

    ẋ = -y p/r,   ż = p/r,   ṗ = (y x - z)/r,

d/dt (x, z, p) = Ω × (x, z, p) with Ω = -(1, y, 0)/r: a rotation at unit rate about an axis that swings in a plane, that of a
ball rolling along a curve of slope y. |(x, z, p)|² = x²+z²+p² is conserved, and with it the energies of y and of the rest.
No closed form of this rotation is known to us; `exact` solves for it by collocation, to round-off, on half a period, and
continues it to all times by the symmetry y(t+π) = -y(t): X(t+kπ) = Pᵏ Φ(t) Mᵏ X(0), P = diag(-1,1,1), M = P Φ(π).
McLachlan, Perlmutter, Integrators for nonholonomic mechanical systems, J. Nonlinear Sci. 16 (2006), 283-328.
"""

import functools

import numpy as np
from numpy.polynomial import chebyshev

from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System

DEGREE = 96  # the poles y = ±i are 0.88 away from the real axis: terms of the series in [0, π] fall like 1.7^-degree


def lagrangian(q, v, p):
    return 0.5 * (v @ v) - 0.5 * (q @ q) - 0.5 * p["epsilon"] * (q[0] * q[2]) ** 2


def constraint(q, v, p):
    return v[0] + q[1] * v[2]


def contact_oscillator(epsilon: float = 0.0) -> System:
    return System(lagrangian, Nonholonomic(constraint), coordinates=("x", "y", "z"), parameters={"epsilon": epsilon})


@functools.cache
def half_period() -> np.ndarray:
    """Φ' = A Φ on [0, π], Φ(0) = 1, A w = Ω × w: coefficients of the Chebyshev series of Φ, (degree + 2, 3, 3).

    Collocation of F = Φ' at Chebyshev points, F - A ∫F = A: the integral keeps the condition number near one.
    """
    s = chebyshev.chebpts1(DEGREE + 1)
    y = np.cos(0.5 * np.pi * (s + 1))
    a = np.zeros((s.size, 3, 3))
    a[:, 0, 2], a[:, 1, 2], a[:, 2, 0], a[:, 2, 1] = -y, 1.0, y, -1.0
    a /= np.sqrt(1 + y**2)[:, None, None]
    to_series = np.linalg.inv(chebyshev.chebvander(s, DEGREE))
    integral = chebyshev.chebint(to_series, lbnd=-1, scl=0.5 * np.pi)
    values = chebyshev.chebvander(s, DEGREE + 1) @ integral
    equations = np.eye(3 * s.size) - np.einsum("iab,ij->iajb", a, values).reshape(3 * s.size, -1)
    rates = np.linalg.solve(equations, a.reshape(-1, 3)).reshape(a.shape)
    series = np.tensordot(integral, rates, 1)
    series[0] += np.eye(3)
    return series


def exact(t, epsilon: float = 0.0):
    """q, v from q = (√1.5, 1, -√½) at rest, for ε = 0: to round-off, which grows like 3·10⁻¹⁶ t."""
    if epsilon != 0.0:
        raise ValueError(f"epsilon: found {epsilon}; the equations reduce to a rotation for epsilon = 0 only")
    t = np.asarray(t, dtype=float)
    k = np.floor(t / np.pi).astype(int)
    series, flip = half_period(), np.diag([-1.0, 1.0, 1.0])
    turn = flip @ series.sum(axis=0)  # all Chebyshev polynomials are 1 at the right end
    numbers, index = np.unique(k, return_inverse=True)
    start = np.array([np.linalg.matrix_power(turn, i) @ [np.sqrt(1.5), -np.sqrt(0.5), 0.0] for i in numbers])
    phi = np.moveaxis(chebyshev.chebval(2 * (t - k * np.pi) / np.pi - 1, series), (0, 1), (-2, -1))
    x, z, p = np.moveaxis((phi @ start[index.reshape(k.shape)][..., None])[..., 0], -1, 0)
    x, y = np.where(k % 2, -x, x), np.cos(t)
    w = p / np.sqrt(1 + y**2)
    return np.stack([x, y, z], axis=-1), np.stack([-y * w, -np.sin(t), w], axis=-1)


entry = Entry(
    name="contact_oscillator",
    title="Contact oscillator",
    formula="L = ½|v|² - ½|q|² - ½ε x²z²,  ẋ + y ż = 0",
    source="McLachlan, Perlmutter, J. Nonlinear Sci. 16 (2006)",
    system=contact_oscillator(),
    q0=(1.224744871391589, 1.0, -0.7071067811865476),
    v0=(0.0, 0.0, 0.0),
    h=0.05,
    time=100.0,
    exact=exact,
)
