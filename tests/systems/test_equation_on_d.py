"""The equation on D against equations reduced by hand, that of (q, v), and motions in closed form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.native import Accuracy
from dalembert.systems import frame as on_d
from dalembert.systems import reduced_flow
from dalembert.systems.frame import _Written, frame_flow
from dalembert.systems.system import parts_of

CAR = ENTRIES["car_with_trailers"]


def slipping(q, v, t):
    """Affine in v, and with time."""
    return v[0] * jnp.cos(q[2]) + v[1] * jnp.sin(q[2]) * (1.0 + 0.1 * t) - 0.3 * q[3] + 0.2 * jnp.sin(t)


# Masses that change and couple, two constraints, the second with a pivot of its own, three directions.
COUPLED = da.System(
    lambda q, v: 0.5 * (v @ v) + 0.3 * v[0] * v[3] * jnp.cos(q[4]) + 0.2 * v[1] * v[4] * q[0] - 0.5 * q @ q,
    da.Nonholonomic(
        lambda q, v: jnp.stack([v[0] * jnp.cos(q[2]) + v[1] * jnp.sin(q[2]) - q[3] * v[4], v[3] - q[0] * v[2] + 0.5 * v[1]])
    ),
)
# Velocities that are the rates of nothing, forces, and all of it with time.
TIMED = da.System(
    lambda q, v, t: (
        0.5 * (v[0] + q[1] * v[2]) ** 2 + 0.5 * (v[1] - t * q[0] * v[2]) ** 2 + v[2] ** 2 * (1 + t**2) + v[3] ** 2
    ),
    da.Nonholonomic(slipping),
    forces=lambda q, v, t: jnp.sin(t) - 0.1 * v * jnp.abs(v[0] + 2.0),
    time_dependent=True,
)
# No entry is constant: directions turn twice.
TURNING = da.System(
    lambda q, v: 0.5 * v @ v - 0.5 * q @ q,
    da.Nonholonomic(lambda q, v: jnp.sin(q[0]) * v[0] + jnp.cos(q[1]) * v[1] + (q[2] + 1.5) * v[2]),
)
SPHERE = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: q @ v))


@pytest.fixture
def of_any_length(monkeypatch):
    """The equation on D is taken where that of (q, v) would be the shorter one, too."""
    monkeypatch.setattr(on_d, "SHORT", 1000)


def start(system: da.System, n: int, t: float) -> tuple[np.ndarray, np.ndarray]:
    """(q, v) on D."""
    (constraint,), noise = system.constraints, np.random.default_rng(1)
    q, v = noise.uniform(0.3, 0.9, n), noise.uniform(-1.0, 1.0, n)
    phi = lambda w: jnp.atleast_1d(system.call(constraint.phi, q, w, t=t))  # noqa: E731
    return q, np.asarray(v - jnp.linalg.pinv(jax.jacobian(phi)(v)) @ phi(v))


@pytest.mark.parametrize(("system", "n", "m"), [(COUPLED, 5, 2), (TIMED, 4, 1), (TURNING, 3, 1)])
def test_it_is_the_equation_of_q_and_v(of_any_length, system, n, m):
    """Forwards and backwards in time: positions, velocities and multipliers."""
    q, v = start(system, n, 0.2)
    one, other = frame_flow(system, n, m), reduced_flow(system, n, m)
    for times in (np.linspace(0.2, 1.2, 4), np.linspace(0.2, -0.8, 3)):
        found = one.run(q, v, times, Accuracy(1e-12, 10_000)).outputs
        expected = other.run(np.concatenate([q, v]), times, Accuracy(1e-13, 10_000))
        np.testing.assert_allclose(found[:, : 2 * n], expected.rows, rtol=0, atol=2e-12)
        np.testing.assert_allclose(found[:, 2 * n : -1], expected.outputs[:, :-1], rtol=0, atol=2e-12)
        coarse = other.run(np.concatenate([q, v]), times, Accuracy(1e-5, 10_000))
        assert found[:, -1].max() < 1e-15 < coarse.outputs[:, -1].max()


def contact(_, y):
    """ẋ + yż = 0, V = ½|q|², reduced by hand: (y, ẏ, x, z, ż)."""
    return [y[1], -y[0], -y[0] * y[4], y[4], (y[0] * (y[2] - y[1] * y[4]) - y[3]) / (1.0 + y[0] ** 2)]


@pytest.mark.parametrize("tolerance", [1e-4, 1e-8, 1e-12])
def test_errors_are_proportional_to_the_tolerance_and_constraints_hold(tolerance):
    """DOP853 on the equation reduced by hand, with a tolerance of 1e-13, is the truth."""
    entry, t = ENTRIES["contact_oscillator"], np.linspace(0.0, 20.0, 9)
    q, v = np.array(entry.q0), np.array(entry.v0)
    truth = _contact((q[1], v[1], q[0], q[2], v[2]), tuple(t))
    found = da.reference(entry.system, q, v, t, tolerance=tolerance)
    error = np.abs(np.stack([found.q[:, 1], found.v[:, 1], found.q[:, 0], found.q[:, 2], found.v[:, 2]]) - truth).max()
    assert error < 3 * tolerance + 1e-12
    assert found.drift.max() < 1e-15
    np.testing.assert_array_equal(found.v[0], v)


@functools.cache
def _contact(y: tuple, t: tuple) -> np.ndarray:
    return solve_ivp(contact, (t[0], t[-1]), y, method="DOP853", t_eval=t, rtol=1e-13, atol=1e-13).y


def test_the_equation_of_the_car_is_short():
    """41 products and functions, and 154 in (q, v): the directions of the axles are found, no multiplier is solved for."""
    q, v, t = np.array(CAR.q0), np.array(CAR.v0), np.array([0.0, 3.0])
    flow = frame_flow(CAR.system, 6, 4)
    parts = parts_of(CAR.system)
    assert _Written(parts.rebuilt, [np.asarray(x, float) for x in parts.leaves], 6, 4).work <= 41
    one = flow.run(q, v, t, Accuracy(1e-12, 10_000))
    back = flow.run(*np.split(one.outputs[-1, :12], 2), t[::-1], Accuracy(1e-12, 10_000))
    np.testing.assert_allclose(back.outputs[-1, :12], np.concatenate([q, v]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("mass", [1e-8, 1e8])
def test_other_masses_are_other_units(mass):
    """Velocities along D are in units of velocity, whatever the unit of energy: the tolerance means the same."""
    free = _weighted.replace(m=mass)
    q, v, t = [0.0, 0.5, 0.0], [1.0, 0.3, 0.5], np.array([0.0, 4.0])
    found = da.reference(free, q, v, t, tolerance=1e-6)
    truth = solve_ivp(_free_particle, t, [*q, *v], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    error = np.abs(np.concatenate([found.q[-1], found.v[-1]]) - truth).max()
    assert 1e-10 < error < 1e-5


_weighted = da.System(
    lambda q, v, p: 0.5 * p["m"] * v @ v, da.Nonholonomic(lambda q, v, p: v[2] - q[1] * v[0]), parameters={"m": 1.0}
)


def _free_particle(_, x):
    y, v = x[1], x[3:]
    return np.concatenate([v, v[0] * v[1] / (1 + y**2) * np.array([-y, 0.0, 1.0])])


@pytest.mark.parametrize("tolerance", [1e-3, 1e-10])
def test_where_directions_degenerate_the_equation_of_q_and_v_goes_on(of_any_length, tolerance):
    """A great circle through the pole, where one direction vanishes and would turn round: no continuous ones exist there."""
    q, v, t = np.array([0.6, 0.0, 0.8]), np.array([-0.8, 0.0, 0.6]), np.linspace(0.0, 3.0, 31)
    found = da.reference(SPHERE, q, v, t, tolerance=tolerance)
    exact = np.cos(t)[:, None] * q + np.sin(t)[:, None] * v
    np.testing.assert_allclose(found.q, exact, rtol=0, atol=10 * tolerance)
    np.testing.assert_allclose(found.v, np.cos(t)[:, None] * v - np.sin(t)[:, None] * q, rtol=0, atol=10 * tolerance)
    assert found.integrator_steps > 40  # of which most found the place
    near = np.array([1e-5, 0.0, np.sqrt(1 - 1e-10)]), np.array([-np.sqrt(1 - 1e-10), 0.0, 1e-5])
    assert frame_flow(SPHERE, 3, 1).run(*near, t, Accuracy(1e-3, 10_000)) is None  # steps might not see it


def test_what_fails_fails_as_before():
    contact = ENTRIES["contact_oscillator"]
    few = da.reference(contact.system, contact.q0, contact.v0, [0.0, 50.0, 100.0], max_steps=20, throw=False)
    assert not few.succeeded
    assert few.integrator_steps == 20
    assert np.isfinite(few.q[0]).all()
    assert np.isinf(few.q[1:]).all()


def test_other_systems_keep_the_equation_of_q_and_v():
    """Other constraints, reactions by v, energies that are not quadratic, declared derivatives, what may jump."""

    @jax.custom_jvp
    def bent(x):
        return x

    bent.defjvp(lambda x, dx: (x[0], 2.0 * dx[0]))
    linear = da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0])
    free = lambda q, v: 0.5 * v @ v  # noqa: E731
    for lagrangian, constraints in (
        (free, da.Holonomic(lambda q: q @ q - 1.0)),
        (free, da.Nonholonomic(lambda q, v: v @ v - 1.0)),
        (free, da.Nonholonomic(lambda q, v: v[2] - jnp.abs(v[0]))),
        (free, da.Nonholonomic(linear.phi, reactions=lambda q, v: jnp.array([0.0, 0.1, 1.0]))),
        (lambda q, v: 0.5 * v @ v + q[0] * v[1], linear),
        (lambda q, v: jnp.sqrt(1.0 + v @ v), linear),
        (lambda q, v: 0.5 * v @ v - bent(q[0]), linear),
        (lambda q, v: 0.5 * v @ v * jnp.where(q[0] > 0.0, 1.0, 2.0), linear),
        (free, da.Nonholonomic(lambda q, v: v[2] - jnp.sign(q[1]) * v[0])),
        (lambda q, v: 0.5 * v @ v, ()),
    ):
        assert frame_flow(da.System(lagrangian, constraints), 3, 1) is None
    assert frame_flow(da.System(free, linear), 3, 1) is not None
