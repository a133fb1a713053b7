"""Control laws of servo- and Lyapunov constraints against laws derived by hand, through states where 0/0 stands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.tracing import seldom

# A pendulum with a motor. V = ½(v² + q²), F = v²: dV/dt + F = v(λ - sin q + q + v), so λ = sin q - q - v, and 0/0 at v = 0.
PENDULUM = da.System(
    lambda q, v, p: 0.5 * v @ v + p["g"] * jnp.cos(q[0]),
    da.Lyapunov(lambda q, v, p: 0.5 * (v @ v + q @ q), lambda q, v, p: v @ v, actuated=0),
    parameters={"g": 1.0},
)
LAW = da.control_law(PENDULUM)
at_all = seldom(lambda function, *states: jax.vmap(function)(*states))  # by NumPy: XLA would compile for seconds
START, H, STEPS = (np.array([1.0]), np.array([0.3])), 0.05, 100


def by_hand(q, v, g=1.0):
    return g * np.sin(q) - q - v


@pytest.fixture(scope="module")
def constrained():
    return da.simulate(PENDULUM, *START, h=H, steps=STEPS)


def test_the_law_and_its_derivatives_go_through_the_crossing():
    """Where v = 0, and where v is so small that the quotient is rounding, the law is the limit; so are its derivatives."""
    q = np.array([0.7, -1.2, 0.4, 2.0, 0.5])[:, None]
    v = np.array([0.0, 1e-9, -1e-6, 1e-4, 0.8])[:, None]
    both = jax.jit(jax.vmap(lambda q, v: (LAW.at(q, v), jax.jacrev(LAW, (0, 1))(q, v))))
    found, (by_q, by_v) = both(q, v)
    np.testing.assert_allclose(found.u, by_hand(q, v), rtol=0, atol=1e-11)
    np.testing.assert_allclose(by_q[:, 0], np.cos(q) - 1.0, rtol=0, atol=1e-7)
    np.testing.assert_allclose(by_v[:, 0], -np.ones_like(v), rtol=0, atol=1e-7)
    assert bool(found.extended[0])
    assert not bool(found.extended[-1])
    assert found.defined.all()


def test_parameters_are_arguments():
    assert LAW([0.7], [0.0], p={"g": 2.0})[0] == pytest.approx(by_hand(0.7, 0.0, 2.0), abs=1e-12)
    assert LAW.replace(g=2.0)([0.7], [0.1])[0] == pytest.approx(by_hand(0.7, 0.1, 2.0), abs=1e-12)
    assert jax.jit(LAW)(jnp.array([0.7]), jnp.array([0.1]))[0] == pytest.approx(by_hand(0.7, 0.1), abs=1e-12)


def test_the_plant_under_the_law_is_the_constrained_system(constrained):
    """At every instant: both converge to the same motion with order 2. Sampled and held: with order 1. V falls in all."""
    truth = solve_ivp(lambda t, y: [y[1], -y[0] - y[1]], (0.0, H * STEPS), [*START[0], *START[1]], rtol=1e-12, atol=1e-12).y[
        0, -1
    ]
    errors = {"constrained": [], "closed": [], "sampled": []}
    for n in (1, 2):
        choices = {"h": H / n, "steps": n * STEPS}
        paths = {
            "constrained": constrained if n == 1 else da.simulate(PENDULUM, *START, **choices),
            "closed": da.simulate(LAW.closed, *START, **choices),
            "sampled": da.simulate(LAW.plant, *START, **choices, feedback=LAW.sampled()),
        }
        for name, path in paths.items():
            errors[name].append(abs(float(path.q[-1, 0]) - truth))
            V = 0.5 * (path.q[:, 0] ** 2 + path.v[:, 0] ** 2)
            assert np.all(np.diff(V) < 1e-4 * V[0]), name
            assert V[-1] < 0.02 * V[0], name
    orders = {name: np.log2(e[0] / e[1]) for name, e in errors.items()}
    assert int(constrained.statistics.crossings) > 0
    assert abs(orders["constrained"] - 2.0) < 0.1, orders
    assert abs(orders["closed"] - 2.0) < 0.1, orders
    assert abs(orders["sampled"] - 1.0) < 0.1, orders


def test_sampled_late_and_saturated():
    law = LAW.saturated(-0.2, 0.3)
    run = da.closed_loop(law.plant, law, *START, h=H, steps=60, every=2, delay=1)
    assert run.outcome is da.Outcome.SUCCESS
    assert run.t_u[0] == pytest.approx(H)
    wanted = by_hand(run.q[0:58:2, 0], run.v[0:58:2, 0])
    np.testing.assert_allclose(run.u[:29, 0], np.clip(wanted, -0.2, 0.3), rtol=0, atol=1e-9)
    assert np.any(wanted < -0.2)


def test_a_pole_is_reported_and_no_value_is_nan():
    """cos(q₀) a₀ is to be 1, by a force on q₀: none does it at q₀ = π/2; sin(q₁) times both sides has a limit at 0."""
    system = da.System(
        lambda q, v: 0.5 * v @ v,
        da.SecondOrder(
            lambda q, v, a: jnp.sin(q[1]) * (jnp.cos(q[0]) * a[0] - 1.0), reactions=lambda q, v, a: jnp.array([1.0, 0.0])
        ),
    )
    law = da.control_law(system)
    found = at_all(lambda q: law.at(q, jnp.zeros(2)), np.array([[0.3, 0.7], [0.3, 0.0], [np.pi / 2, 0.7]]))
    np.testing.assert_allclose(found.u[:2, 0], 1.0 / np.cos(0.3), rtol=1e-12)
    assert found.defined.tolist() == [True, True, False]
    assert found.extended.tolist() == [False, True, False]
    assert np.isinf(found.u[2, 0])
    assert not np.any(np.isnan(found.force))
    with pytest.raises(ValueError, match="the law has no value"):
        law([np.pi / 2, 0.7], [0.0, 0.0])


def test_two_controls_where_their_matrix_is_singular():
    """One of two equations is multiplied by q₀; both are those of a regular system."""
    A, B = np.array([[1.0, 1.0], [0.5, 1.0]]), lambda q, v: np.array([-v[0] * np.sin(q[1]), -q[1] * v[0]])
    servo = da.SecondOrder(
        lambda q, v, a: jnp.stack([q[0] * (a[0] + a[1] + v[0] * jnp.sin(q[1])), a[1] + 0.5 * a[0] + q[1] * v[0]]),
        reactions=lambda q, v, a: jnp.eye(2),
    )
    law = da.control_law(da.System(lambda q, v: 0.5 * v @ v, servo))
    q, v = np.array([[0.5, 0.3], [1e-9, 0.3], [0.0, 0.3]]), np.array([[0.7, 0.2]] * 3)
    truth = [np.linalg.solve(A, B(x, w)) for x, w in zip(q, v, strict=True)]
    np.testing.assert_allclose(at_all(law, q, v), truth, rtol=0, atol=1e-12)


def test_what_bends_in_the_accelerations_is_solved_by_iteration():
    """a³ + a + q = 0 at q = 2: a = -1."""
    cubic = da.SecondOrder(lambda q, v, a: a**3 + a + q, reactions=lambda q, v, a: jnp.eye(1))
    found = da.control_law(da.System(lambda q, v: v @ v, cubic)).at([2.0], [0.0])
    assert found.u[0] == pytest.approx(-2.0)
    assert bool(found.defined)


def test_a_servo_constraint_on_velocities_beside_one_of_the_plant():
    """A knife edge, whose own constraint stays in the plant, is made to turn with v_θ = x: the torque is J ẋ."""
    blade = da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1])
    turn = da.Nonholonomic(lambda q, v: v[2] - q[0], reactions=lambda q, v: jnp.array([0.0, 0.0, 1.0]))
    edge = da.System(lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2 + 0.4 * v[2] ** 2), (blade, turn))
    law = da.control_law(edge)
    assert law.plant.constraints == (blade,)
    q, speed = np.array([0.3, 0.1, 0.6]), 1.5
    v = np.array([speed * np.cos(0.6), speed * np.sin(0.6), 0.3])
    assert law(q, v)[0] == pytest.approx(0.4 * v[0], rel=1e-12)


def test_what_is_refused():
    blade = da.Nonholonomic(lambda q, v: v[1] - q[0] * v[0])
    with pytest.raises(ValueError, match=r"^system: its constraints are Nonholonomic"):
        da.control_law(da.System(lambda q, v: 0.5 * v @ v, blade))
    with pytest.raises(ValueError, match=r"^lower, upper"):
        LAW.saturated(1.0, -1.0)
    with pytest.raises(ValueError, match=r"^v: "):
        LAW([1.0], [0.0, 0.0])
