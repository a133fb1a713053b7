"""From continuous to discrete: difference maps, schemes, discrete systems, and the equations at a node."""

from dalembert.discretize.discrete import DiscreteSystem
from dalembert.discretize.maps import Beta, Central, PairMap, TripleMap
from dalembert.discretize.redefine import Redefined, redefined
from dalembert.discretize.scheme import Scheme

__all__ = ["Beta", "Central", "DiscreteSystem", "PairMap", "Redefined", "Scheme", "TripleMap", "redefined"]
