"""Control laws of servo- and Lyapunov constraints, and Lyapunov functions for them. Begin with `control_law`.

`affine` and `continued` are that law as a quotient, and `law` what all laws have in common. `matching` checks a Lyapunov
function; `energy_shaping` constructs one, with `quadratic` its beginning at the equilibrium and `shaping` its continuation.
"""

from dalembert.laws.attraction import Region
from dalembert.laws.control_law import ControlLaw, control_law
from dalembert.laws.energy_shaping import energy_shaping
from dalembert.laws.law import Law, Value
from dalembert.laws.matching import Matching, matching
from dalembert.laws.shaping import EnergyShaping, Shaped

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
