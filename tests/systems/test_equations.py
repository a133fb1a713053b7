"""Accelerations and multipliers by index reduction against accelerations derived by hand."""

import jax
import jax.numpy as jnp
import numpy as np

import dalembert as da
from dalembert.algebra import numerical_rank

# L = ½(1 + x²)ẋ² + ½ẏ² - y with a mass that depends on q: p_x = (1+x²)ẋ, so that d/dt L_v - L_q = ((1+x²)ẍ + xẋ², ÿ + 1).


def lagrangian(q, v):
    return 0.5 * (1 + q[0] ** 2) * v[0] ** 2 + 0.5 * v[1] ** 2 - q[1]


def motion(q, v, a):
    return np.array([(1 + q[0] ** 2) * a[0] + q[0] * v[0] ** 2, a[1] + 1])


PARABOLA = da.System(lagrangian, da.Holonomic(lambda q: q[1] - q[0] ** 2))
SPEED = da.System(lagrangian, da.Nonholonomic(lambda q, v: v @ v - 1 - q[1] ** 2))  # nonlinear in v
CUBIC = da.System(
    lagrangian,
    da.SecondOrder(lambda q, v, a: a[0] + a[0] ** 3 - q[1] - v[0], reactions=lambda q, v, a: jnp.array([1.0, a[0]])),
)


def test_order_zero_twice():
    """y = x²: ÿ = 2ẋ² + 2xẍ, R = (-2x, 1); (1+x²)ẍ + xẋ² = -2xλ, ÿ + 1 = λ."""
    x, w = 0.7, -1.3
    q, v = jnp.array([x, x**2]), jnp.array([w, 2 * x * w])
    ax = -(x * w**2 + 2 * x * (2 * w**2 + 1)) / (1 + 5 * x**2)
    ay = 2 * w**2 + 2 * x * ax
    a, multipliers, _ = da.acceleration(PARABOLA, q, v)
    np.testing.assert_allclose(a, [ax, ay], rtol=1e-12)
    np.testing.assert_allclose(multipliers, [ay + 1], rtol=1e-12)


def test_order_one_once():
    """|v|² = 1 + y²: v·a = yẏ; the force is λ 2v (Chetaev)."""
    x, y = 0.4, 0.3
    v = np.array([0.6, 0.0])
    v[1] = np.sqrt(1 + y**2 - v[0] ** 2)
    mass, slope = np.diag([1 + x**2, 1.0]), np.array([x * v[0] ** 2, 1.0])
    inverse = np.linalg.inv(mass)
    multiplier = (y * v[1] + v @ inverse @ slope) / (v @ inverse @ (2 * v))
    a, multipliers, _ = da.acceleration(SPEED, jnp.array([x, y]), jnp.array(v))
    np.testing.assert_allclose(multipliers, [multiplier], rtol=1e-12)
    np.testing.assert_allclose(a, inverse @ (2 * v * multiplier - slope), rtol=1e-12)


def test_order_two_nonlinear_in_a():
    """ẍ + ẍ³ = c has one real root, Cardano's; its force λ(1, ẍ) gives λ from the first equation, ÿ from the second."""
    q, v = np.array([0.4, 0.9]), np.array([1.1, -0.2])
    c = q[1] + v[0]
    root = np.cbrt(c / 2 + np.sqrt(c**2 / 4 + 1 / 27)) + np.cbrt(c / 2 - np.sqrt(c**2 / 4 + 1 / 27))
    multiplier = (1 + q[0] ** 2) * root + q[0] * v[0] ** 2
    a, multipliers, _ = da.acceleration(CUBIC, jnp.array(q), jnp.array(v))
    np.testing.assert_allclose(a, [root, multiplier * root - 1], rtol=1e-11)
    np.testing.assert_allclose(multipliers, [multiplier], rtol=1e-11)
    slope = jax.grad(lambda y: da.acceleration(CUBIC, jnp.array([0.4, y]), jnp.array(v))[0][0])(q[1])
    np.testing.assert_allclose(slope, 1 / (1 + 3 * root**2), rtol=1e-10)


def test_under_vmap_and_time():
    """A bead on a rod that moves by x = sin t: φ(q, t) = x - sin t; ẍ = -sin t, whatever q and v."""
    rod = da.System(lambda q, v, t: lagrangian(q, v), da.Holonomic(lambda q, t: q[0] - jnp.sin(t)), time_dependent=True)
    t = jnp.linspace(0.1, 2.0, 7)
    q, v = jnp.stack([jnp.sin(t), t], axis=1), jnp.stack([jnp.cos(t), -t], axis=1)
    a, multipliers, _ = jax.vmap(lambda x, w, s: da.acceleration(rod, x, w, s))(q, v, t)
    np.testing.assert_allclose(a, np.stack([-np.sin(t), -np.ones(7)], axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(multipliers[:, 0], [motion(x, w, b)[0] for x, w, b in zip(q, v, a, strict=True)], rtol=1e-12)


def test_virtual_displacements_give_the_forces_of_their_complement():
    """n = 4, m = 2: the force does not depend on the basis, only on its span."""
    rows = np.array([[1.0, 2.0, 0.0, -1.0], [0.0, 1.0, 1.0, 1.0]])
    basis = np.linalg.svd(rows)[2][2:].T @ np.array([[2.0, 1.0], [0.3, 1.0]])
    phi = lambda q, v, a: a[:2] - jnp.array([1.0, 2.0])  # noqa: E731
    mass = jnp.diag(jnp.arange(1.0, 5.0))
    system = lambda **forces: da.System(lambda q, v: 0.5 * v @ mass @ v, da.SecondOrder(phi, **forces))  # noqa: E731
    rest = jnp.zeros(4)
    by_rows = da.acceleration(system(reactions=lambda q, v, a: jnp.array(rows)), rest, rest)[0]
    by_basis = da.acceleration(system(virtual=lambda q, v, a: jnp.array(basis)), rest, rest)[0]
    np.testing.assert_allclose(by_basis, by_rows, rtol=1e-12)
    np.testing.assert_allclose(basis.T @ mass @ by_rows, 0.0, atol=1e-12)  # the force does no virtual work
    np.testing.assert_allclose(by_rows[:2], [1.0, 2.0], rtol=1e-12)


def test_numerical_rank():
    matrix = np.array([[1.0, 2.0, 3.0], [1e-9, 0.0, 1e-9], [2.0, 4.0, 6.0]])  # the second row is short, not dependent
    rank = numerical_rank(matrix)
    assert rank.rank == 2
    assert not rank.full
    assert rank.dependent_rows in ((0,), (2,))
    assert numerical_rank(np.eye(3)).full
    assert numerical_rank(np.zeros((2, 3))).dependent_rows == (0, 1)
    assert numerical_rank(np.zeros((0, 3))).full
    almost = np.array([[1.0, 0.0], [1.0, 1e-12]])
    assert numerical_rank(almost).rank == 1
    assert numerical_rank(almost, tolerance=1e-14).rank == 2
