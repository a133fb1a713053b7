"""Control laws of servo- and Lyapunov constraints, and Lyapunov functions for them. Begin with `control_law`.

`law` has that law, and what all laws have in common. `design` constructs a Lyapunov function at the equilibrium; `shaping`
continues it, and checks one of any plant.
"""

from dalembert.laws.design import Region, energy_shaping
from dalembert.laws.law import ControlLaw, Law, Value, control_law
from dalembert.laws.shaping import EnergyShaping, Matching, Shaped, matching

__all__ = [
    "ControlLaw",
    "EnergyShaping",
    "Law",
    "Matching",
    "Region",
    "Shaped",
    "Value",
    "control_law",
    "energy_shaping",
    "matching",
]
