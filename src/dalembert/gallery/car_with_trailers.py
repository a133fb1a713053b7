"""A rear-driven car with trailers on the plane: wheels roll and do not slip sideways.

q = (x, y, θ, φ, θ₁, …, θ_N): middle of the rear axle, heading of the car, steering angle relative to it, headings of the
trailers; n = 4 + N. With e(θ) = (cos θ, sin θ) and e⊥(θ) = (-sin θ, cos θ): axles at r₀ = (x, y) and
rᵢ = rᵢ₋₁ - c e(θᵢ₋₁) - d e(θᵢ), θ₀ = θ; front wheels at r₀ + l e(θ); centre of mass of the car at r₀ + b e(θ).

    L = ½M|ṙ₀ + b θ̇ e⊥(θ)|² + ½Iθ̇² + ½J(θ̇+φ̇)² + Σᵢ (½m|ṙᵢ|² + ½Kθ̇ᵢ²) - ½k(φ-φ₀)²
    ṙ₀·e⊥(θ) = 0,   (ṙ₀ + l θ̇ e⊥(θ))·e⊥(θ+φ) = 0,   ṙᵢ·e⊥(θᵢ) = 0:   2 + N constraints.

On the constraints v is linear in the speed u of the rear axle and in φ̇ (`rolling`). Virtual displacements ∂/∂φ give
J d/dt(θ̇+φ̇) = -k(φ-φ₀); the energy gives an equation for u. In forward drive steering and trailers are damped, although
the energy is conserved, and the path tends to a circle. Backward drive is unstable, and cos φ = 0 is singular.
Kinematics: Murray, Sastry, Nonholonomic motion planning, IEEE Trans. Automat. Control 38 (1993), 700-716, where c = 0.
"""

import jax.numpy as jnp
import numpy as np

from dalembert.drawing import Body, Dots, Rod
from dalembert.gallery.entry import Entry
from dalembert.systems import Nonholonomic, System

TRAILERS = 2
PARAMETERS = {
    "M": 1.0, "I": 0.2, "J": 0.05, "m": 0.5, "K": 0.05,  # masses and moments of inertia: car, front wheels, trailer
    "l": 1.0, "b": 0.5, "c": 0.2, "d": 0.8,  # wheelbase, centre of mass, hitch behind an axle, hitch to the next axle
    "k": 1.0, "phi0": 0.3,  # steering spring and its rest angle
}  # fmt: skip


def axle_velocities(q, v, p):
    """ṙ₀, …, ṙ_N, (N+1, 2)."""
    cross = lambda i: v[i] * jnp.array([-jnp.sin(q[i]), jnp.cos(q[i])])  # noqa: E731
    velocities = [v[:2]]
    for i in range(4, q.size):
        velocities.append(velocities[-1] - p["c"] * cross(2 if i == 4 else i - 1) - p["d"] * cross(i))
    return jnp.stack(velocities)


def lagrangian(q, v, p):
    axles = axle_velocities(q, v, p)
    centre = axles[0] + p["b"] * v[2] * jnp.array([-jnp.sin(q[2]), jnp.cos(q[2])])
    car = p["M"] * (centre @ centre) + p["I"] * v[2] ** 2 + p["J"] * (v[2] + v[3]) ** 2
    trailers = p["m"] * jnp.sum(axles[1:] ** 2) + p["K"] * jnp.sum(v[4:] ** 2)
    return 0.5 * (car + trailers) - 0.5 * p["k"] * (q[3] - p["phi0"]) ** 2


def side_slip(q, v, p):
    """Velocities across the wheels: rear axle, front wheels, trailers, (2 + N,)."""
    across = lambda angle, w: w[1] * jnp.cos(angle) - w[0] * jnp.sin(angle)  # noqa: E731
    axles = axle_velocities(q, v, p)
    front = across(q[2] + q[3], axles[0]) + p["l"] * v[2] * jnp.cos(q[3])
    trailers = [across(q[i], axles[i - 3]) for i in range(4, q.size)]
    return jnp.stack([across(q[2], axles[0]), front, *trailers])


def draw(q, p):
    """Car and trailers from above with their wheels, hitches, and the way of the rear axle."""
    along = lambda angle: jnp.array([jnp.cos(angle), jnp.sin(angle)])  # noqa: E731
    across = lambda angle: jnp.array([-jnp.sin(angle), jnp.cos(angle)])  # noqa: E731
    rear, front = q[:2], q[:2] + p["l"] * along(q[2])
    bodies = [Body.box(0.5 * (rear + front), [1.35 * p["l"], 0.6 * p["l"]], angle=q[2]).corners]
    axles, hitches = [(rear, q[2], q[2]), (front, q[2], q[2] + q[3])], []
    for i in range(4, q.size):
        hitch = axles[-1][0] if i > 4 else rear
        hitch = hitch - p["c"] * along(q[2] if i == 4 else q[i - 1])
        middle = hitch - p["d"] * along(q[i])
        hitches.append(Rod([rear if i == 4 else axles[-1][0], hitch, middle]))
        bodies.append(Body.box(middle, [0.7 * p["d"], 0.5 * p["l"]], angle=q[i]).corners)
        axles.append((middle, q[i], q[i]))
    side = 0.3 * p["l"]
    wheels = [Body.box(at + sign * side * across(turn), [0.26 * p["l"], 0.09 * p["l"]], angle=roll).corners
              for at, turn, roll in axles for sign in (-1.0, 1.0)]  # fmt: skip
    return [Dots(rear, trail=True), *hitches, Body(jnp.stack(bodies)), Body(jnp.stack(wheels))]


def car_with_trailers(trailers: int = TRAILERS) -> System:
    if not (isinstance(trailers, int) and trailers >= 0):
        raise ValueError(f"trailers: found {trailers!r}; give a number of trailers, 0, 1, 2, …")
    names = ("x", "y", "θ", "φ", *(f"θ{i}" for i in range(1, trailers + 1)))
    return System(lagrangian, Nonholonomic(side_slip), coordinates=names, parameters=PARAMETERS, draw=draw)


def rolling(q, u: float, rate: float, **parameters) -> np.ndarray:
    """v, (n,): the velocity allowed by the constraints with speed u of the rear axle and φ̇ = rate.

    θ̇ = u tan φ/l; with uᵢ the speed along trailer i and δ = θᵢ₋₁ - θᵢ:  d θ̇ᵢ = uᵢ₋₁ sin δ - c θ̇ᵢ₋₁ cos δ,
    uᵢ = uᵢ₋₁ cos δ + c θ̇ᵢ₋₁ sin δ.
    """
    p, q = _with_defaults(parameters), np.asarray(q, dtype=float)
    v = np.zeros(q.size)
    v[:4] = u * np.cos(q[2]), u * np.sin(q[2]), u * np.tan(q[3]) / p["l"], rate
    heading, turning, speed = q[2], v[2], u
    for i in range(4, q.size):
        cos, sin = np.cos(heading - q[i]), np.sin(heading - q[i])
        v[i] = (speed * sin - p["c"] * turning * cos) / p["d"]
        speed = speed * cos + p["c"] * turning * sin
        heading, turning = q[i], v[i]
    return v


def circle(t, u: float, trailers: int = TRAILERS, **parameters):
    """(q, v), (…, n): all bodies on circles about one centre, with the steering spring at rest, φ = φ₀ ≠ 0.

    R₀ = l/tan φ₀, Rᵢ² = Rᵢ₋₁² + c² - d² (signs as φ₀), θᵢ₋₁ - θᵢ = atan(c/Rᵢ₋₁) + atan(d/Rᵢ), θ̇ = u/R₀ for every body.
    Raises ValueError for φ₀ = 0, and where a trailer has no circle, Rᵢ² ≤ 0.
    """
    p, t = _with_defaults(parameters), np.asarray(t, dtype=float)
    if p["phi0"] == 0:
        raise ValueError("phi0: found 0, straight ahead; a circle needs an angle")
    squares = (p["l"] / np.tan(p["phi0"])) ** 2 + (p["c"] ** 2 - p["d"] ** 2) * np.arange(trailers + 1)
    if np.min(squares) <= 0:
        inside = int(np.argmax(squares <= 0))
        raise ValueError(f"phi0: found {p['phi0']:g}; trailer {inside} has no room on so small a circle")
    radii = np.copysign(np.sqrt(squares), p["phi0"])
    bends = np.arctan(p["c"] / radii[:-1]) + np.arctan(p["d"] / radii[1:])
    turn = u / radii[0]
    heading = turn * t
    angles = heading[..., None] - np.cumsum(bends)
    first = [radii[0] * np.sin(heading), radii[0] * (1 - np.cos(heading)), heading, np.full_like(t, p["phi0"])]
    q = np.concatenate([np.stack(first, axis=-1), angles], axis=-1)
    v = np.broadcast_to([0.0, 0.0, turn, 0.0, *[turn] * trailers], q.shape).copy()
    v[..., 0], v[..., 1] = u * np.cos(heading), u * np.sin(heading)
    return q, v


def _with_defaults(parameters: dict) -> dict:
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise ValueError(f"parameters: found {', '.join(unknown)}; the parameters are {', '.join(PARAMETERS)}")
    return {**PARAMETERS, **parameters}


Q0 = (0.0, 0.0, 0.0, -0.5, 0.4, 0.8)

entry = Entry(
    name="car_with_trailers",
    title="Car with two trailers",
    formula="L = ½ Σ(m|ṙ|² + Iω²) - ½k(φ-φ₀)²,  no side slip at any axle",
    source="Murray, Sastry, IEEE Trans. Automat. Control 38 (1993)",
    system=car_with_trailers(),
    q0=Q0,
    v0=tuple(rolling(Q0, 1.0, 0.0).tolist()),
    h=0.02,
    time=30.0,
)
