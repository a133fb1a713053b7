"""Control laws of servo- and Lyapunov constraints, and Lyapunov functions for them. Begin with `control_law`.

`servo` has that law, and `law` what all laws have in common. `mechanical` checks a Lyapunov function of a plant; `design`
constructs one at the equilibrium, and `shaping` continues it.
"""

from dalembert.laws.design import Region, energy_shaping
from dalembert.laws.law import Law, Value
from dalembert.laws.servo import ControlLaw, control_law
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
