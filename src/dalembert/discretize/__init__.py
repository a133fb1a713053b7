"""From continuous to discrete: difference maps, schemes, discrete systems, and the equations at a node."""

from dalembert.discretize.declared import SchemeClaims
from dalembert.discretize.discrete import DiscreteSystem
from dalembert.discretize.maps import Beta, Central, PairMap, TripleMap
from dalembert.discretize.redefine import Redefined, redefined
from dalembert.discretize.scheme import Scheme
from dalembert.discretize.time import energies, with_time
from dalembert.discretize.window_maps import Averaged, Hermite, Interpolated, Points, WindowMap
from dalembert.discretize.windows import Windows, windows

__all__ = [
    "Averaged",
    "Beta",
    "Central",
    "DiscreteSystem",
    "Hermite",
    "Interpolated",
    "PairMap",
    "Points",
    "Redefined",
    "Scheme",
    "SchemeClaims",
    "TripleMap",
    "WindowMap",
    "Windows",
    "energies",
    "redefined",
    "windows",
    "with_time",
]
