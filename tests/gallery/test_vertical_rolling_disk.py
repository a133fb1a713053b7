"""The rolling disk: a circle and its contact force in closed form, and the closed form of the discrete motion."""

import jax
import numpy as np

import dalembert as da
from dalembert.gallery import vertical_rolling_disk

contact_force, exact = vertical_rolling_disk.contact_force, vertical_rolling_disk.exact

GIVEN = {"m": 2.0, "I": 0.7, "J": 0.3, "R": 1.5}
SYSTEM = vertical_rolling_disk.entry.system.replace(**GIVEN)
START = tuple(x[0] for x in exact([0.0], **GIVEN))


def test_accelerations_and_contact_force_on_the_circle():
    t = 1.7
    q, v = exact(t, **GIVEN)
    a, force, _ = jax.jit(da.acceleration)(SYSTEM, q, v)
    np.testing.assert_allclose(a, [-v[1] * v[3], v[0] * v[3], 0.0, 0.0], rtol=0, atol=1e-14)
    np.testing.assert_allclose(force, contact_force(t, GIVEN["R"], GIVEN["m"]), rtol=1e-13)


def test_the_discrete_motion_is_a_polygon_with_constant_rates():
    """Corners on a circle of radius RΩ(h/2)cot(hω/2), force mRΩ(2/h) sin(hω/2) normal to the heading: to round-off."""
    h, turn = 0.4, 0.5
    path = da.simulate(SYSTEM, *START, h=h, steps=100)
    q, v = np.asarray(path.q), np.asarray(path.v)
    np.testing.assert_allclose(v[:, 2:], np.broadcast_to(START[1][2:], (101, 2)), rtol=1e-13)
    radius = GIVEN["R"] * h / 2 / np.tan(h * turn / 2)
    np.testing.assert_allclose(np.hypot(q[:, 0], q[:, 1] - radius), radius, rtol=1e-13)
    force = contact_force(np.asarray(path.t_multipliers), GIVEN["R"], GIVEN["m"])
    np.testing.assert_allclose(path.multipliers, force * np.sin(h * turn / 2) / (h * turn / 2), rtol=0, atol=1e-12)


def test_order_two():
    errors = []
    for h in (0.1, 0.05):
        path = da.simulate(SYSTEM, *START, h=h, steps=round(10 / h))
        force = contact_force(np.asarray(path.t_multipliers), GIVEN["R"], GIVEN["m"])
        errors.append([np.abs(path.q - exact(path.t, **GIVEN)[0]).max(), np.abs(path.multipliers - force).max()])
    assert np.all(np.abs(np.log2(np.divide(*errors)) - 2.0) < 0.01)
