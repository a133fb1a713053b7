"""Van der Pol's oscillator brought to rest: q̈ = (1-q²)q̇ - q + u, min ∫(q² + q̇² + u²) dt, |u| ≤ 1 and q̇ ≥ -1/4.

From (1, 0) in ten seconds, the end free. The velocity is on its bound from t = 0.364 to 2.913.
"""

from dalembert.control import OptimalControl
from dalembert.gallery.entry import BoundaryEntry
from dalembert.systems import System


def lagrangian(q, v):
    return 0.5 * v[0] ** 2 - 0.5 * q[0] ** 2


def pumped(q, v):
    return (1.0 - q**2) * v


def squares(q, v, u):
    return q @ q + v @ v + u @ u


def van_der_pol() -> OptimalControl:
    """A force on the oscillator."""
    return OptimalControl(System(lagrangian, forces=pumped, coordinates=("q",)), cost=squares, actuated=0)


entry = BoundaryEntry(
    name="van_der_pol",
    title="Van der Pol's oscillator with a bounded velocity",
    formula="q̈ = (1-q²)q̇ - q + u,  min ∫(q² + q̇² + u²) dt,  |u| ≤ 1, q̇ ≥ -1/4",
    source="two independent methods",
    problem=van_der_pol(),
    boundary={"initial": ((1.0,), (0.0,)), "T": 10.0, "bounds": {"u": (-1.0, 1.0), "v": {"q": (-0.25, None)}}},
    steps=200,
    cost=3.6151814,
)
