"""The closed form of the nonholonomic particle against equations reduced by hand, a known value, the scheme."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import nonholonomic_particle

entry, exact = nonholonomic_particle.entry, nonholonomic_particle.exact

OTHER = ((0.7, -0.3, 0.2), (-2.0, 3.0, 0.6))


def by_hand(t, c: float, q0, v0):
    """(q, v) at t, which may run backwards: λ(1+y²) = ẋẏ - cxy, force λ(-y, 0, 1), by DOP853 at round-off."""

    def rates(_, state):
        x, y, _, vx, vy, vz = state
        force = (vx * vy - c * x * y) / (1 + y**2)
        return [vx, vy, vz, -c * x - y * force, -c * y, force]

    run = solve_ivp(rates, (0.0, t[-1]), [*q0, *v0], "DOP853", t, rtol=3e-14, atol=1e-15)
    return run.y[:3].T, run.y[3:].T


@pytest.mark.parametrize(("q0", "v0"), [(entry.q0, entry.v0), OTHER])
@pytest.mark.parametrize("c", [0.0, 0.01, 1.0, 2.5])
@pytest.mark.parametrize("end", [20.0, -5.0])
def test_closed_form(c, q0, v0, end):
    t = np.linspace(0.0, end, 21)
    for found, wanted in zip(exact(t, c, q0, v0), by_hand(t, c, q0, v0), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_closed_form_at_a_known_point_and_for_times_of_any_shape():
    q, v = exact(np.full((2, 3), 10.0), 1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 0.0))
    assert v.shape == (2, 3, 3)
    wanted = (0.8466380644690958, -0.5440211108893698, 2.637600566835656)
    np.testing.assert_allclose(q, np.broadcast_to(wanted, (2, 3, 3)), rtol=0, atol=1e-14)


def test_order_two_in_the_potential():
    system, start, errors = entry.system.replace(c=1.0), ((0.0, 0.0, 0.0), (1.0, 1.0, 0.0)), []
    for h in (0.02, 0.01):
        path = da.simulate(system, *start, h=h, steps=round(10 / h))
        errors.append(
            [np.abs(np.asarray(x) - y).max() for x, y in zip((path.q, path.v), exact(path.t, 1.0, *start), strict=True)]
        )
    assert np.all(np.abs(np.log2(np.divide(*errors)) - 2.0) < 0.01)


def test_bad_input():
    with pytest.raises(ValueError, match="c: found -1"):
        exact(1.0, c=-1.0)
    with pytest.raises(ValueError, match="v0: found v_y = 0"):
        exact(1.0, v0=(1.0, 0.0, 1.0))
