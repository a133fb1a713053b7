"""From continuous to discrete: difference maps, schemes, discrete systems, and the equations at a node."""

from dalembert.discretize.discrete import DiscreteSystem, Reading
from dalembert.discretize.nodes import Interval, Node, Redefined, incoming, outgoing, redefined
from dalembert.discretize.scheme import (
    OF_STATES,
    Beta,
    Central,
    PairMap,
    Scheme,
    SchemeClaims,
    TripleMap,
    check_group_scheme,
    check_maps,
    composition,
)
from dalembert.discretize.time import energies, with_time
from dalembert.discretize.window_maps import (
    MAPS,
    Averaged,
    Hermite,
    Interpolated,
    Points,
    WindowMap,
    Windows,
    as_scheme,
    as_windows,
    window_jets,
    windows,
)

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
