"""The orbit on a spiral stair against what its reduction says: two invariants, and its nearest and farthest distance."""

import numpy as np

import dalembert as da
from dalembert.gallery import climbing_orbit

entry = climbing_orbit.entry


def test_energy_and_the_second_invariant_are_constant_between_the_two_distances():
    path = da.simulate(entry.system, entry.q0, entry.v0, h=da.Varying(0.1), until=20.0, scheme=da.Scheme(order=4))
    energy, turning = climbing_orbit.invariants(path.q, path.v)
    r = np.hypot(path.q[:, 0], path.q[:, 1])
    assert np.ptp(energy) < 1e-5
    assert np.ptp(turning) < 1e-5
    assert abs(r.min() - climbing_orbit.ENDS[0]) < 1e-3
    assert abs(r.max() - climbing_orbit.ENDS[1]) < 1e-3
    assert path.q[-1, 2] > 1.0  # it climbs


def test_without_a_slope_it_is_keplers_orbit():
    """Eccentricity 0.9 about the focus at the origin: the area law gives the speed at the farthest point."""
    speed = climbing_orbit.farthest(kappa=0.0)[1]
    assert np.allclose(speed, [0.0, np.sqrt(0.1 / 1.9), 0.0])
