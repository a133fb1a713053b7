"""The rolling disk driven and steered to a place: torques about its axle and about the vertical, min ∫|u|² dt.

The plant is `vertical_rolling_disk`. From rest at the origin to rest at (1, 1), turned by a quarter; how far the disk has
rolled is free.
"""

import numpy as np

from dalembert.control import OptimalControl
from dalembert.gallery.entry import BoundaryEntry
from dalembert.gallery.vertical_rolling_disk import vertical_rolling_disk

REST = (0.0, 0.0, 0.0, 0.0)


def effort(q, v, u, p):
    return u @ u


def rolling_disk() -> OptimalControl:
    return OptimalControl(vertical_rolling_disk(), cost=effort, actuated=(2, 3))


entry = BoundaryEntry(
    name="rolling_disk",
    title="Rolling disk, driven and steered",
    formula="ẋ = Rθ̇ cos φ,  ẏ = Rθ̇ sin φ,  min ∫|u|² dt",
    source="Bloch, Nonholonomic Mechanics and Control, Section 1.4",
    problem=rolling_disk(),
    boundary={"initial": (REST, REST), "final": ({"x": 1.0, "y": 1.0, "φ": 0.5 * np.pi}, REST), "T": 3.0},
    steps=120,
    cost=2.438918713144,
)
