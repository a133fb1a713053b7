"""Energy shaping with two actuators and three degrees of freedom, against the regulator and the fall of V."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_continuous_are

import dalembert as da
from dalembert.tracing import seldom

# A telescopic pole on a cart: q = (x, θ, s), length l + s, θ from the upright; a force on the cart, another along the pole.
# A spring between s and x/2 couples both at the equilibrium.
M, m, l, g, k = 1.0, 0.3, 0.5, 9.81, 0.3
Q, R = np.diag([10.0, 10.0, 5.0, 1.0, 1.0, 1.0]), np.diag([0.1, 0.3])
START, H = [0.1, 0.2, 0.05], 0.01
at_all = seldom(lambda function, *states: jax.vmap(function)(*states))  # by NumPy: XLA would compile for seconds


def lagrangian(q, v):
    x, theta, s = q
    across, up = v[0] + v[2] * jnp.sin(theta) + (l + s) * v[1] * jnp.cos(theta), v[2] * jnp.cos(theta)
    up = up - (l + s) * v[1] * jnp.sin(theta)
    kinetic = 0.5 * M * v[0] ** 2 + 0.5 * m * (across**2 + up**2)
    return kinetic - m * g * (l + s) * jnp.cos(theta) - 0.5 * k * (s - 0.5 * x) ** 2


@pytest.fixture(scope="module")
def design():
    # Six nodes: fewer operations to compile, and enough for the distances here.
    choices = {"reach": [2.0, 0.8, 0.3], "nodes": 6}
    return da.laws.energy_shaping(da.System(lagrangian), actuated=(0, 2), at=np.zeros(3), Q=Q, R=R, **choices)


def first_order():
    """ẋ = Ax + Cu at the equilibrium, by hand."""
    mass = np.array([[M + m, m * l, 0.0], [m * l, m * l**2, 0.0], [0.0, 0.0, m]])
    spring = k * np.outer([-0.5, 0.0, 1.0], [-0.5, 0.0, 1.0])
    stiffness = spring - np.diag([0.0, m * g * l, 0.0])
    B = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    A = np.block([[np.zeros((3, 3)), np.eye(3)], [-np.linalg.solve(mass, stiffness), np.zeros((3, 3))]])
    return A, np.concatenate([np.zeros((3, 2)), np.linalg.solve(mass, B)])


@pytest.fixture(scope="module")
def controls(design):
    """States around the equilibrium, itself, six of the region; and u there."""
    e, random = 1e-5 * np.eye(6), np.random.default_rng(0)
    beside = np.concatenate([random.uniform(-0.1, 0.1, (6, 3)), random.normal(size=(6, 3))], axis=1)
    x = np.concatenate([e, -e, np.zeros((1, 6)), beside])
    return x, np.asarray(at_all(design, x[:, :3], x[:, 3:]))


def test_gains_and_poles_are_near_those_of_the_regulator(design, controls):
    """No law costs less than the regulator; this one costs 7e-6 more, so that its gains are those to the root of that."""
    A, C = first_order()
    u = controls[1]
    K = -(u[:6] - u[6:12]).T / 2e-5
    np.testing.assert_allclose(u[12], [0.0, m * g], rtol=0, atol=1e-12)  # what holds the weight
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(A - C @ K)), np.sort(design.poles), rtol=0, atol=1e-6)
    regulator = np.linalg.solve(R, C.T) @ solve_continuous_are(A, C, Q, R)
    assert 1.0 <= design.cost < 1.0001
    np.testing.assert_allclose(K, regulator, rtol=0, atol=1e-2 * np.abs(regulator).max())


def test_the_law_is_that_of_the_matching_conditions(design, controls):
    """V_v a + V_q v = -F for the acceleration under u, from the Lagrangian itself, at states of the region."""

    def fall(x, u):
        q, v = x[:3], x[3:]
        momentum = jax.grad(lagrangian, 1)
        rate, inertia = jax.jvp(lambda x: momentum(x, v), (q,), (v,))[1], jax.jacfwd(lambda w: momentum(q, w))(v)
        a = jnp.linalg.solve(inertia, jax.grad(lagrangian)(q, v) + jnp.array([u[0], 0.0, u[1]]) - rate)
        by_q, by_speed = jax.grad(design.V, (0, 1))(q, v)
        return by_q @ v + by_speed @ a, design.F(q, v), jnp.abs(by_speed) @ jnp.abs(a)

    slope, dissipation, size = at_all(fall, *(y[13:] for y in controls))
    np.testing.assert_allclose(slope / size, -dissipation / size, rtol=0, atol=1e-11)
    assert np.all(np.asarray(dissipation) > 0.0)
    assert design.region.level > 0.0
    assert design.region.F.min() >= 0.0
    assert design.region.residual < 1e-9


def test_V_falls_by_F_along_the_closed_loop(design):
    """V(t) + ∫F = V(0), to the order of a sampled law, 1."""
    paths = [da.simulate(design.plant, START, np.zeros(3), h=H / n, steps=20 * n, feedback=design.sampled()) for n in (1, 2)]
    states, gaps = (np.concatenate([getattr(path, name) for path in paths]) for name in ("q", "v")), []
    both = at_all(lambda q, v: jnp.stack([design.V(q, v), design.F(q, v)]), *states)
    for n, (V, F) in zip((1, 2), (x.T for x in np.split(np.asarray(both), [21])), strict=True):
        lost = (H / n) * np.concatenate([[0.0], np.cumsum(F[1:] + F[:-1]) / 2.0])
        gaps.append(np.abs(V + lost - V[0]).max() / V[0])
        assert V[0] < design.region.level
        assert np.all(np.diff(V) < 1e-4 * V[0])  # from rest F is 0, and a law that is held too late does not vanish yet
        assert V[-1] < 0.5 * V[0]
    assert abs(np.log2(gaps[0] / gaps[1]) - 1.0) < 0.1, gaps


def test_one_actuator_is_not_enough_for_a_Lyapunov_constraint_of_two(design):
    with pytest.raises(ValueError, match=r"^constrained: a Lyapunov constraint has one actuator, this plant 2"):
        _ = design.constrained
