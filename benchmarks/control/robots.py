"""Twelve robots, a ship and a blade for the race of optimal control: their equations are written once, for JAX and CasADi.

Every function of a robot takes a module `m` with sin and cos, and returns a number, a list or a list of rows. With jax.numpy
it becomes a problem of dalembert, `ROBOTS["arm"].problem()`, with casadi its twin (`casadi_robots`). Motions of robots begin
and end at rest. SI units; angles of links are 0 where they hang down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dalembert as da

GRAVITY = 9.81
WAVES = 3
SPREAD = 0.5


@dataclasses.dataclass(frozen=True)
class Robot:
    """A plant and a motion from rest to rest, as far as it is not free.

    cost: (q, v, u, m). actuated: indices, or B(q, m) as rows. limits: the bounds that half of the pairs have. constraints:
    φ(q, v, m) = 0, linear in v. inequalities: g(q, m) ≤ 0, which all pairs have. free: the coordinates
    that are free at "start" and "end", and whose velocity is at "first" and "last"; their values are guesses. reached:
    ψ(q, v, m) = 0 of the last node. timed: whether T is free, and its value a guess. sizes: (n,) how far a random guess
    moves a coordinate that begins and ends at the same place.
    """

    coordinates: tuple[str, ...]
    lagrangian: Callable
    cost: Callable
    actuated: tuple[int, ...] | Callable
    initial: tuple[float, ...]
    final: tuple[float, ...]
    T: float
    sizes: tuple[float, ...]
    limits: Mapping[str, Any]
    forces: Callable | None = None
    constraints: Callable | None = None
    inequalities: Callable | None = None
    free: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    reached: Callable | None = None
    timed: bool = False

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of both ends, (n,) each."""
        return np.array(self.initial), np.array(self.final)

    def is_free(self, name: str) -> np.ndarray:
        """(n,) which coordinates are, see `free`."""
        return np.isin(self.coordinates, self.free.get(name, ()))

    def problem(self) -> da.OptimalControl:
        """For `dalembert.solve`."""
        lagrangian, cost, push = self.lagrangian, self.cost, self.forces
        constraints, actuated = self.constraints, self.actuated
        parts = [da.Nonholonomic(lambda q, v: jnp.stack(constraints(q, v, jnp)))] if constraints else []
        forces = (lambda q, v: jnp.stack(push(q, v, jnp))) if push else None
        plant = da.System(lambda q, v: lagrangian(q, v, jnp), *parts, forces=forces, coordinates=self.coordinates)
        matrix = (lambda q: jnp.array(actuated(q, jnp))) if callable(actuated) else actuated
        return da.OptimalControl(plant, cost=lambda q, v, u: cost(q, v, u, jnp), actuated=matrix)

    def asked(self, bounded: bool) -> dict[str, Any]:
        """The arguments of `dalembert.solve` that do not depend on steps and guess."""
        inequalities, reached, rest = self.inequalities, self.reached, np.zeros(len(self.initial))

        def given(values: np.ndarray, name: str) -> Any:
            own = {k: x for k, x, free in zip(self.coordinates, values, self.is_free(name), strict=True) if not free}
            return values if len(own) == len(values) else own

        found = {
            "initial": (given(self.ends[0], "start"), given(rest, "first")),
            "final": (given(self.ends[1], "end"), given(rest, "last")), "T": da.Free(self.T) if self.timed else self.T,
        }  # fmt: skip
        if reached is not None:
            found["final"] = da.On(lambda q, v: jnp.stack(reached(q, v, jnp)))
        if inequalities is not None:
            found["inequalities"] = lambda q, v, u: jnp.stack(inequalities(q, jnp))
        return found | ({"bounds": dict(self.limits)} if bounded else {})

    @property
    def controls(self) -> int:
        """r."""
        return np.shape(self.actuated(np.zeros(len(self.initial)), np))[1] if callable(self.actuated) else len(self.actuated)

    def cubic(self, steps: int) -> np.ndarray:
        """(N+1, n): from rest to rest; a parabola where the final velocity is free, a line where the initial one is, too."""
        s = np.linspace(0.0, 1.0, steps + 1)[:, None]
        of_end = np.where(self.is_free("last"), s**2, s**2 * (3.0 - 2.0 * s))
        return self.ends[0] + np.where(self.is_free("first"), s, of_end) * (self.ends[1] - self.ends[0])

    def line(self, steps: int) -> np.ndarray:
        """(N+1, n): at constant velocity."""
        return self.ends[0] + np.linspace(0.0, 1.0, steps + 1)[:, None] * (self.ends[1] - self.ends[0])

    def inverse_dynamics(self, steps: int, bounded: bool) -> tuple[np.ndarray, np.ndarray]:
        """A path of least jerk (N+1, n), and the controls that come nearest to the forces it needs, inside their bounds."""
        s, apart = np.linspace(0.0, 1.0, steps + 1)[:, None], self.ends[1] - self.ends[0]
        q = self.ends[0] + s**3 * (10.0 - 15.0 * s + 6.0 * s**2) * apart
        v = 30.0 * s**2 * (1.0 - s) ** 2 * apart / self.T
        a = 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) * apart / self.T**2
        columns, needed = jax.vmap(self._balance)(q, v, a)
        u = np.stack([np.linalg.lstsq(*pair)[0] for pair in zip(columns, needed, strict=True)])[:, : self.controls]
        lower, upper = self.limits["u"] if bounded else (-np.inf, np.inf)
        return q, np.clip(u, lower, upper)

    def _balance(self, q, v, a):
        """(B Rᵀ), and d/dt L_v - L_q - f."""
        of_velocity = jax.grad(self.lagrangian, 1)
        needed = jax.jvp(lambda x, w: of_velocity(x, w, jnp), (q, v), (v, a))[1] - jax.grad(self.lagrangian)(q, v, jnp)
        if self.forces is not None:
            needed -= jnp.stack(self.forces(q, v, jnp))
        columns = jnp.array(self.actuated(q, jnp)) if callable(self.actuated) else jnp.eye(len(q))[:, list(self.actuated)]
        if self.constraints is not None:
            rows = jax.jacfwd(lambda w: jnp.stack(self.constraints(q, w, jnp)))(v)
            columns = jnp.concatenate([columns, rows.T], axis=1)
        return columns, needed

    def random(self, number: int, steps: int) -> np.ndarray:
        """(N+1, n): the cubic and Σ_{j=1}^{3} (ξ_j/j) sin(jπt/T), half as large as the motion; the same path at every N."""
        apart = np.abs(self.ends[1] - self.ends[0])
        heights = np.random.default_rng([38, number]).standard_normal((WAVES, len(apart)))
        j = np.arange(1, WAVES + 1)
        waves = np.sin(np.pi * np.linspace(0.0, 1.0, steps + 1)[:, None] * j) / j
        return self.cubic(steps) + SPREAD * waves @ heights * np.where(apart > 0.0, apart, self.sizes)


def effort(q, v, u, m):
    """|u|²."""
    return sum(u[i] ** 2 for i in range(u.shape[0]))


# two links: uniform rods, the second angle relative to the first


def two_links(first: tuple[float, float], second: tuple[float, float]) -> Callable:
    """The Lagrangian; first, second: mass and length of a rod."""
    (m1, l1), (m2, l2) = first, second

    def lagrangian(q, v, m):
        angle, turn = q[0] + q[1], v[0] + v[1]
        kinetic = m1 * (l1 * v[0]) ** 2 / 6 + m2 * ((l1 * v[0]) ** 2 / 2 + (l2 * turn) ** 2 / 6)
        kinetic += m2 * l1 * l2 / 2 * v[0] * turn * m.cos(q[1])
        return kinetic + GRAVITY * (m1 * l1 / 2 * m.cos(q[0]) + m2 * (l1 * m.cos(q[0]) + l2 / 2 * m.cos(angle)))

    return lagrangian


def cart_pole(q, v, m):
    """x, θ; a point mass on a light pole."""
    kinetic = 0.5 * 1.9 * v[0] ** 2 + 0.5 * 0.4 * (0.6 * v[1]) ** 2
    return kinetic + 0.4 * 0.6 * m.cos(q[1]) * (v[0] * v[1] + GRAVITY)


def double_cart_pole(q, v, m):
    """x, and two light poles with point masses, whose angles are both from the vertical."""
    (cart, m1, m2), (l1, l2) = (1.0, 0.3, 0.2), (0.5, 0.4)
    kinetic = 0.5 * (cart + m1 + m2) * v[0] ** 2 + 0.5 * (m1 + m2) * (l1 * v[1]) ** 2 + 0.5 * m2 * (l2 * v[2]) ** 2
    kinetic += m2 * l1 * l2 * m.cos(q[1] - q[2]) * v[1] * v[2]
    first, second = (m1 + m2) * l1 * m.cos(q[1]), m2 * l2 * m.cos(q[2])
    return kinetic + first * (v[0] * v[1] + GRAVITY) + second * (v[0] * v[2] + GRAVITY)


def hinge_friction(q, v, m):
    """Of both hinges of the double pole."""
    between = 0.01 * (v[2] - v[1])
    return [0.0 * v[0], between - 0.01 * v[1], -between]


# planar vehicles


def quadrotor(q, v, m):
    """x, y, θ."""
    return 0.5 * 0.8 * (v[0] ** 2 + v[1] ** 2) + 0.5 * 0.01 * v[2] ** 2 - 0.8 * GRAVITY * q[1]


def rotors(q, m):
    """Thrusts of the left and the right rotor, each 0.2 m from the middle."""
    return [[-m.sin(q[2])] * 2, [m.cos(q[2])] * 2, [-0.2, 0.2], *([0.0, 0.0] for _ in range(q.shape[0] - 3))]


def slung_load(q, v, m):
    """x, y, θ, and the angle of a rope of 0.6 m with a load."""
    moves = v[0] + 0.6 * m.cos(q[3]) * v[3], v[1] + 0.6 * m.sin(q[3]) * v[3]
    return quadrotor(q, v, m) + 0.5 * 0.3 * (moves[0] ** 2 + moves[1] ** 2) - 0.3 * GRAVITY * (q[1] - 0.6 * m.cos(q[3]))


def crane(q, v, m):
    """x of the trolley, length and angle of the rope."""
    moves = v[0] + v[1] * m.sin(q[2]) + q[1] * m.cos(q[2]) * v[2], v[1] * m.cos(q[2]) - q[1] * m.sin(q[2]) * v[2]
    return 0.5 * 2.0 * v[0] ** 2 + 0.5 * 1.0 * (moves[0] ** 2 + moves[1] ** 2) + GRAVITY * q[1] * m.cos(q[2])


def holding(q, v, u, m):
    """The squares of the force on the trolley and of what the winch pulls beside the weight."""
    return u[0] ** 2 + (u[1] + GRAVITY) ** 2


def over_the_pillar(q, m):
    """The load stays outside a disc whose middle is half way."""
    return outside((1.5, -2.0, 0.7))([q[0] + q[1] * m.sin(q[2]), -q[1] * m.cos(q[2])], m)


def car(q, v, m):
    """x and y of the rear axle, heading, angle of the front wheels; kg and m of a passenger car."""
    ahead = 1.2  # of the centre of mass before the rear axle
    moves = v[0] - ahead * m.sin(q[2]) * v[2], v[1] + ahead * m.cos(q[2]) * v[2]
    return 0.5 * 1200.0 * (moves[0] ** 2 + moves[1] ** 2) + 0.5 * 1800.0 * v[2] ** 2 + 0.5 * 5.0 * v[3] ** 2


def both_axles_roll(q, v, m):
    """2.6 m from axle to axle."""
    forward = m.cos(q[2]) * v[0] + m.sin(q[2]) * v[1]
    return [*no_side_slip(q, v, m), 2.6 * m.cos(q[3]) * v[2] - m.sin(q[3]) * forward]


def drive_and_steer(q, m):
    """A thrust at the rear axle and a torque on the front wheels."""
    return [[m.cos(q[2]), 0.0], [m.sin(q[2]), 0.0], [0.0, 0.0], [0.0, 1.0]]


def pedals_and_wheel(q, v, u, m):
    """The thrust in kN, and the torque in Nm."""
    return (u[0] / 1000.0) ** 2 + 0.1 * u[1] ** 2


def trailer(q, v, m):
    """x, y and heading of a tractor, heading of its trailer."""
    axle = v[0] + 0.8 * m.sin(q[3]) * v[3], v[1] - 0.8 * m.cos(q[3]) * v[3]
    return unicycle(q, v, m) + 0.5 * 1.0 * (axle[0] ** 2 + axle[1] ** 2) + 0.5 * 0.05 * v[3] ** 2


def trailer_rolls(q, v, m):
    """Its axle is 0.8 m behind that of the tractor."""
    return [*no_side_slip(q, v, m), m.cos(q[3]) * v[1] - m.sin(q[3]) * v[0] - 0.8 * v[3]]


def no_jackknife(q, m):
    """The trailer is at most 1.2 rad from straight."""
    return [(q[2] - q[3]) ** 2 - 1.2**2]


def hopper(q, v, m):
    """In flight about its centre of mass: angle of the leg to the body, length of the leg, angle of the body."""
    return 0.5 * 0.3 * v[2] ** 2 + 0.5 * 1.0 * ((q[1] * (v[0] + v[2])) ** 2 + v[1] ** 2)


def hover(mass: float) -> Callable:
    """The square of what the thrusts are above those of hovering."""
    return lambda q, v, u, m: sum((u[i] - mass * GRAVITY / 2) ** 2 for i in range(2))


def unicycle(q, v, m):
    """x, y, heading."""
    return 0.5 * 2.0 * (v[0] ** 2 + v[1] ** 2) + 0.5 * 0.1 * v[2] ** 2


def no_side_slip(q, v, m):
    """The wheels of a vehicle at (x, y) with the heading q[2] roll."""
    return [m.cos(q[2]) * v[1] - m.sin(q[2]) * v[0]]


def drive_and_turn(q, m):
    """A thrust along the heading and a torque."""
    return [[m.cos(q[2]), 0.0], [m.sin(q[2]), 0.0], [0.0, 1.0], *([0.0, 0.0] for _ in range(q.shape[0] - 3))]


def outside(*discs: tuple[float, float, float]) -> Callable:
    """g ≤ 0 where (x, y) is outside discs (x, y, radius)."""
    return lambda q, m: [r**2 - (q[0] - x) ** 2 - (q[1] - y) ** 2 for x, y, r in discs]


# a ship that crosses a river in the least time, and a blade that comes to rest on a circle

POSE = ("x", "y", "heading")


def ship(q, v, m):
    """x, y, heading."""
    return 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.05 * v[2] ** 2


def through_water(q, v, m):
    """It has the velocity 1 along its heading in a river that flows with 3.2 y (1 - y)."""
    along, across = v[0] - 3.2 * q[1] * (1.0 - q[1]), v[1]
    return [m.cos(q[2]) * across - m.sin(q[2]) * along, m.cos(q[2]) * along + m.sin(q[2]) * across - 1.0]


def turning(q, v, u, m):
    """Time, and a little for the torque."""
    return 1.0 + 0.01 * u[0] ** 2


def blade(q, v, m):
    """x, y, heading."""
    return 0.5 * (v[0] ** 2 + v[1] ** 2 + v[2] ** 2)


def hurry(q, v, u, m):
    """Time and effort."""
    return 1.0 + effort(q, v, u, m)


def on_the_circle(q, v, m):
    """At rest, at a distance of 1 from (3, 2)."""
    return [(q[0] - 3.0) ** 2 + (q[1] - 2.0) ** 2 - 1.0, m.cos(q[2]) * v[0] + m.sin(q[2]) * v[1], v[2]]


ROBOTS = {
    "arm": Robot(
        ("shoulder", "elbow"), two_links((1.0, 1.0), (1.0, 1.0)), effort, (0, 1), (0.5, 0.3), (2.0, -1.0), 1.5, (1.0, 1.0),
        {"u": (-20.0, 20.0)},
    ),
    "acrobot": Robot(
        ("shoulder", "elbow"), two_links((1.0, 0.5), (1.0, 0.5)), effort, (1,), (0.0, 0.0), (np.pi, 0.0), 2.5, (1.0, 1.0),
        {"u": (-6.0, 6.0)},
    ),
    "pendubot": Robot(
        ("shoulder", "elbow"), two_links((1.0, 0.5), (0.5, 0.5)), effort, (0,), (0.0, 0.0), (np.pi, 0.0), 2.0, (1.0, 1.0),
        {"u": (-6.0, 6.0)},
    ),
    "cart_pole": Robot(
        ("x", "theta"), cart_pole, effort, (0,), (0.0, 0.0), (0.8, np.pi), 2.0, (1.0, 1.0),
        {"u": (-15.0, 15.0), "q": {"x": (-0.8, 1.2)}},
    ),
    "double_cart_pole": Robot(
        ("x", "lower", "upper"), double_cart_pole, effort, (0,), (0.0, 0.0, 0.0), (0.0, np.pi, np.pi), 2.5, (1.0, 1.0, 1.0),
        {"u": (-20.0, 20.0), "q": {"x": (-1.0, 1.0)}}, forces=hinge_friction,
    ),
    "quadrotor": Robot(
        ("x", "y", "theta"), quadrotor, hover(0.8), rotors, (0.0, 0.0, 0.0), (3.0, 1.0, 0.0), 2.5, (1.0, 1.0, 0.5),
        {"u": (0.0, 8.0)},
    ),
    "slung_load": Robot(
        ("x", "y", "theta", "rope"), slung_load, hover(1.1), rotors, (0.0,) * 4, (4.0, 0.0, 0.0, 0.0), 3.0,
        (1.0, 1.0, 0.5, 0.5), {"u": (0.0, 9.0)},
    ),
    "crane": Robot(
        ("x", "length", "angle"), crane, holding, (0, 1), (0.0, 2.0, 0.0), (3.0, 2.0, 0.0), 4.0, (1.0, 0.5, 0.5),
        {"u": ((-3.0, -16.0), (3.0, 0.0)), "q": {"length": (0.6, 2.4)}}, inequalities=over_the_pillar,
    ),
    "unicycle": Robot(
        ("x", "y", "heading"), unicycle, effort, drive_and_turn, (0.0, 0.0, 0.0), (4.0, 0.0, 0.0), 4.0, (1.0, 0.5, 0.5),
        {"u": ((-2.5, -1.0), (2.5, 1.0))}, constraints=no_side_slip,
        inequalities=outside((1.0, 0.2, 0.4), (2.0, -0.3, 0.5), (3.0, 0.2, 0.4)),
    ),
    "car": Robot(
        ("x", "y", "heading", "steering"), car, pedals_and_wheel, drive_and_steer, (6.0, 2.2, 0.0, 0.0), (0.0,) * 4, 8.0,
        (2.0, 1.0, 0.5, 0.3), {"u": ((-2500.0, -20.0), (2500.0, 20.0)), "q": {"steering": (-0.6, 0.6)}},
        constraints=both_axles_roll,
    ),
    "trailer": Robot(
        ("x", "y", "heading", "trailer"), trailer, effort, drive_and_turn, (0.0,) * 4, (-4.0, 1.0, 0.0, 0.0), 8.0,
        (1.0, 0.5, 0.5, 0.5), {"u": ((-1.0, -0.2), (1.0, 0.2))}, constraints=trailer_rolls, inequalities=no_jackknife,
    ),
    "hopper": Robot(
        ("leg", "length", "body"), hopper, effort, (0, 1), (0.0, 0.6, 0.0), (0.0, 0.6, -0.3), 1.0, (1.0, 0.3, 0.5),
        {"u": (-5.0, 5.0), "q": {"length": (0.35, 0.9)}}, free={"last": ("body",)},
    ),
    "ship": Robot(
        POSE, ship, turning, (2,), (0.0, 0.0, np.pi / 2), (0.0, 1.0, np.pi / 2), 1.5, (0.5, 0.5, 0.5),
        {"u": (-0.1, 0.1)}, constraints=through_water, timed=True,
        free={"start": ("heading",), "first": POSE, "end": ("heading",), "last": POSE},
    ),
    "blade": Robot(
        POSE, blade, hurry, drive_and_turn, (0.0, 0.0, 0.0), (2.2, 1.4, 0.0), 2.0, (1.0, 1.0, 0.5),
        {"u": ((-0.6, -0.3), (0.6, 0.3))}, constraints=no_side_slip, timed=True, reached=on_the_circle,
        free={"end": POSE, "last": POSE},
    ),
}  # fmt: skip
