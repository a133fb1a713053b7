"""Eight robots by which the search was not tuned, for `benchmarks.control.robots_race --robots`; written as `robots` are."""

from __future__ import annotations

import numpy as np
from benchmarks.control.robots import GRAVITY, Robot, drive_and_turn, effort, no_side_slip, unicycle


def rotary_pendulum(q, v, m):
    """Furuta's: the angle of the arm, and that of the rod from where it hangs."""
    inertia, mass, arm, rod = 0.02, 0.1, 0.3, 0.2
    kinetic = 0.5 * (inertia + mass * arm**2 + mass * (rod * m.sin(q[1])) ** 2) * v[0] ** 2
    kinetic += mass * rod**2 * v[1] ** 2 * 2 / 3 + mass * arm * rod * m.cos(q[1]) * v[0] * v[1]
    return kinetic + mass * GRAVITY * rod * m.cos(q[1])


def three_links(q, v, m):
    """Uniform rods that hang at 0, each angle relative to the rod before."""
    lagrangian, angle, turn, joint, height = 0.0, 0.0, 0.0, (0.0, 0.0), 0.0
    for i, (mass, length) in enumerate(((2.0, 0.5), (1.5, 0.4), (1.0, 0.3))):
        angle, turn = angle + q[i], turn + v[i]
        rate = length * turn * m.cos(angle), length * turn * m.sin(angle)
        middle = (joint[0] + rate[0] / 2) ** 2 + (joint[1] + rate[1] / 2) ** 2
        lagrangian += 0.5 * mass * middle + mass * (length * turn) ** 2 / 24
        lagrangian -= mass * GRAVITY * (height - length / 2 * m.cos(angle))
        joint, height = (joint[0] + rate[0], joint[1] + rate[1]), height - length * m.cos(angle)
    return lagrangian


def ball_on_beam(q, v, m):
    """The ball's place and the angle of the beam."""
    mass, beam = 0.2, 0.05
    return 0.7 * mass * v[0] ** 2 + 0.5 * (beam + mass * q[0] ** 2) * v[1] ** 2 - mass * GRAVITY * q[0] * m.sin(q[1])


def aircraft(q, v, m):
    """A planar one that takes off vertically."""
    return 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.15 * v[2] ** 2 - GRAVITY * q[1]


def thrust_and_roll(q, m):
    """What rolls it pushes it sideways, too."""
    sideways = 0.3
    return [[-m.sin(q[2]), sideways * m.cos(q[2])], [m.cos(q[2]), sideways * m.sin(q[2])], [0.0, 1.0]]


def beyond_hover(q, v, u, m):
    return (u[0] - GRAVITY) ** 2 + u[1] ** 2


def eccentric_rotor(q, v, m):
    """A cart on a spring, with a motor that turns an eccentric mass."""
    return v[0] ** 2 + 0.15 * v[1] ** 2 + 0.2 * m.cos(q[1]) * v[0] * v[1] - 2.0 * q[0] ** 2


def wheel_pendulum(q, v, m):
    """The rod, and the wheel relative to it."""
    return 0.025 * v[0] ** 2 + 0.001 * (v[0] + v[1]) ** 2 + 0.35 * m.cos(q[0])


def gantry(q, v, m):
    """A crane in space with a rope of constant length: the trolley and two angles of sway."""
    rope, load, trolley = 1.5, 2.0, 4.0
    x = v[0] + rope * m.cos(q[2]) * v[2]
    y = v[1] + rope * (m.cos(q[2]) * m.cos(q[3]) * v[3] - m.sin(q[2]) * m.sin(q[3]) * v[2])
    z = rope * (m.sin(q[2]) * m.cos(q[3]) * v[2] + m.cos(q[2]) * m.sin(q[3]) * v[3])
    kinetic = 0.5 * trolley * (v[0] ** 2 + v[1] ** 2) + 0.5 * load * (x**2 + y**2 + z**2)
    return kinetic + load * GRAVITY * rope * m.cos(q[2]) * m.cos(q[3])


def round_a_pillar(q, m):
    return [0.25 - (q[0] - 1.5) ** 2 - (q[1] - 0.9) ** 2]


UNSEEN = {
    "rotary_pendulum": Robot(
        ("arm", "rod"), rotary_pendulum, effort, (0,), (0.0, 0.0), (0.0, np.pi), 1.5, (1.0, 1.0),
        {"u": (-0.8, 0.8), "q": {"arm": (-1.5, 1.5)}},
    ),
    "three_links": Robot(
        ("first", "second", "third"), three_links, effort, (0, 1, 2), (0.0,) * 3, (2.5, -0.7, 0.4), 1.2, (1.0,) * 3,
        {"u": ((-30.0, -15.0, -5.0), (30.0, 15.0, 5.0))},
    ),
    "ball_on_beam": Robot(
        ("place", "angle"), ball_on_beam, effort, (1,), (-0.4, 0.0), (0.4, 0.0), 1.5, (0.3, 0.3),
        {"u": (-2.0, 2.0), "q": {"place": (-0.5, 0.5), "angle": (-1.2, 1.2)}},
    ),
    "aircraft": Robot(
        ("x", "y", "roll"), aircraft, beyond_hover, thrust_and_roll, (0.0,) * 3, (5.0, 1.0, 0.0), 3.0, (1.0, 1.0, 0.5),
        {"u": ((0.0, -2.0), (18.0, 2.0))},
    ),
    "eccentric_rotor": Robot(
        ("cart", "rotor"), eccentric_rotor, effort, (1,), (0.5, 0.0), (0.0, 0.0), 6.0, (0.3, 1.0), {"u": (-3.0, 3.0)},
    ),
    "wheel_pendulum": Robot(
        ("rod", "wheel"), wheel_pendulum, effort, (1,), (0.0, 0.0), (np.pi, 0.0), 2.0, (1.0, 5.0), {"u": (-0.6, 0.6)},
    ),
    "gantry": Robot(
        ("x", "y", "along", "across"), gantry, effort, (0, 1), (0.0,) * 4, (3.0, 2.0, 0.0, 0.0), 3.0, (1.0, 1.0, 0.3, 0.3),
        {"u": (-25.0, 25.0), "q": {"along": (-0.4, 0.4), "across": (-0.4, 0.4)}}, inequalities=round_a_pillar,
    ),
    "sidestep": Robot(
        ("x", "y", "heading"), unicycle, effort, drive_and_turn, (0.0,) * 3, (0.0, 1.5, 0.0), 3.0, (1.0, 0.5, 0.5),
        {"u": ((-2.0, -0.8), (2.0, 0.8))}, constraints=no_side_slip,
    ),
}  # fmt: skip
