"""The inertia wheel pendulum swung up by a weak motor: min ∫u² dt, |u| ≤ 0.3, the torque u between pendulum and wheel.

The plant is `inertia_wheel_pendulum` without its Lyapunov constraint: θ = 0 upright, u on ψ. From hanging to upright, both
at rest; where the wheel ends is free. The motor cannot hold the pendulum at 90°, where gravity asks for 0.5: it swings.
"""

import numpy as np

from dalembert.control import OptimalControl
from dalembert.gallery.entry import BoundaryEntry
from dalembert.gallery.inertia_wheel_pendulum import draw, lagrangian
from dalembert.systems import System

REST = (0.0, 0.0)


def effort(q, v, u, p):
    return u @ u


def wheel_swing_up(I: float = 0.1, J: float = 0.02, M: float = 0.5) -> OptimalControl:
    """Moments of inertia of the pendulum and the wheel, and mass · length · g."""
    plant = System(lagrangian, coordinates=("θ", "ψ"), parameters={"I": I, "J": J, "M": M}, draw=draw)
    return OptimalControl(plant, cost=effort, actuated=1)


entry = BoundaryEntry(
    name="wheel_swing_up",
    title="Swing-up of the inertia wheel pendulum",
    formula="L = ½Iθ̇² + ½J(θ̇+ψ̇)² - M(1+cos θ),  min ∫u² dt,  |u| ≤ 0.3",
    source="Borda, Fernández, Grillo, Section 4.2, for the plant",
    problem=wheel_swing_up(),
    boundary={"initial": ((np.pi, 0.0), REST), "final": ({"θ": 0.0}, REST), "T": 4.0, "bounds": {"u": (-0.3, 0.3)}},
    steps=200,
)
