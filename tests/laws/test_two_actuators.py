"""Energy shaping with two actuators and three degrees of freedom, against the linear-quadratic regulator and the fall of V."""

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
    return da.energy_shaping(da.System(lagrangian), actuated=(0, 2), at=np.zeros(3), Q=Q, R=R, reach=[2.0, 0.8, 0.3])


def first_order():
    """ẋ = Ax + Cu at the equilibrium, by hand."""
    mass = np.array([[M + m, m * l, 0.0], [m * l, m * l**2, 0.0], [0.0, 0.0, m]])
    spring = k * np.outer([-0.5, 0.0, 1.0], [-0.5, 0.0, 1.0])
    stiffness = spring - np.diag([0.0, m * g * l, 0.0])
    B = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    A = np.block([[np.zeros((3, 3)), np.eye(3)], [-np.linalg.solve(mass, stiffness), np.zeros((3, 3))]])
    return A, np.concatenate([np.zeros((3, 2)), np.linalg.solve(mass, B)])


def test_gains_and_poles_are_near_those_of_the_regulator(design):
    """No law costs less than the regulator; this one costs 7e-6 more, so that its gains are those to the root of that."""
    A, C = first_order()
    e = 1e-5 * np.eye(6)
    x = np.concatenate([e, -e, np.zeros((1, 6))])
    u = np.asarray(at_all(design, x[:, :3], x[:, 3:]))
    K = -(u[:6] - u[6:12]).T / 2e-5
    np.testing.assert_allclose(u[12], [0.0, m * g], rtol=0, atol=1e-12)  # what holds the weight
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(A - C @ K)), np.sort(design.poles), rtol=0, atol=1e-6)
    regulator = np.linalg.solve(R, C.T) @ solve_continuous_are(A, C, Q, R)
    assert 1.0 <= design.cost < 1.0001
    np.testing.assert_allclose(K, regulator, rtol=0, atol=1e-2 * np.abs(regulator).max())


def test_the_law_is_that_of_the_matching_conditions(design):
    """V_v a + V_q v = -F for the acceleration under u, from the Lagrangian itself, at states of the region."""
    closed, random = design.closed, np.random.default_rng(0)
    q, v = random.uniform(-0.1, 0.1, (6, 3)), random.normal(size=(6, 3))

    def fall(q, v):
        by_v = jax.grad(lambda w: closed.lagrangian(q, w))
        rate, inertia = jax.jvp(lambda x: jax.grad(lambda w: closed.lagrangian(x, w))(v), (q,), (v,))[1], jax.jacfwd(by_v)(v)
        a = jnp.linalg.solve(inertia, jax.grad(closed.lagrangian)(q, v) + closed.forces(q, v) - rate)
        by_q, by_speed = jax.grad(design.V, (0, 1))(q, v)
        return by_q @ v + by_speed @ a, design.F(q, v), jnp.abs(by_speed) @ jnp.abs(a)

    slope, dissipation, size = at_all(fall, q, v)
    np.testing.assert_allclose(slope / size, -dissipation / size, rtol=0, atol=1e-11)
    assert np.all(np.asarray(dissipation) > 0.0)
    assert design.region.level > 0.0
    assert design.region.F.min() >= 0.0
    assert design.region.residual < 1e-9


def test_V_falls_by_F_along_the_closed_loop(design):
    """V(t) + ∫F = V(0), to order 2 in h."""
    gaps = []
    for n in (1, 2):
        path = da.simulate(design.closed, START, np.zeros(3), h=H / n, steps=50 * n)
        V, F = (np.asarray(at_all(f, path.q, path.v)) for f in (design.V, design.F))
        lost = (H / n) * np.concatenate([[0.0], np.cumsum(F[1:] + F[:-1]) / 2.0])
        gaps.append(np.abs(V + lost - V[0]).max() / V[0])
        assert V[0] < design.region.level
        assert np.all(np.diff(V) < 0.0)
    assert abs(np.log2(gaps[0] / gaps[1]) - 2.0) < 0.1, gaps


def test_one_actuator_is_not_enough_for_a_Lyapunov_constraint_of_two(design):
    with pytest.raises(ValueError, match=r"^constrained: a Lyapunov constraint has one actuator, this plant 2"):
        _ = design.constrained
