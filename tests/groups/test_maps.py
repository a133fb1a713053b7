"""The maps of the groups against differences and against automatic derivatives of the discrete Lagrangian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from dalembert import groups

GROUPS = [groups.SO2(), groups.SO3(), groups.SO3("exp"), groups.SE2(), groups.SE3(), groups.Euclidean(2)]


def unit(group):
    one = np.zeros(group.size)
    one[0] = 0.0 if isinstance(group, groups.Euclidean) else 1.0
    return jnp.asarray(one)


def drawn(group, seed):
    rng = np.random.default_rng(seed)
    y, d, p = (jnp.asarray(0.7 * rng.normal(size=group.n)) for _ in range(3))
    return group.retract(unit(group), jnp.asarray(rng.normal(size=group.n))), y, d, p


@pytest.mark.parametrize("group", GROUPS, ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_steps_back_and_halves(group, seed):
    q, y, _, _ = drawn(group, seed)
    assert_allclose(group.retract(group.retract(q, y), -y), q, rtol=0, atol=1e-15)
    there = group.retract(group.retract(q, 0.5 * y), 0.5 * y)
    assert_allclose(group.between(q, there), y, rtol=0, atol=2e-15)
    assert_allclose(group.excess(q), 0.0, rtol=0, atol=3e-16)


@jax.jit
def bend_of_exp(q, y):
    exp = groups.SO3("exp")
    return jax.hessian(lambda x: exp.between(q, exp.retract(q, x)) @ y)(y)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, 0.3, 1.0, 1.5])
def test_exp_is_the_rotation_by_a_vector(angle):
    """Beside SciPy's, up to half a turn of an interval; its derivatives are finite at 0."""
    exp, (q, y, z, _) = groups.SO3("exp"), drawn(groups.SO3("exp"), 4)
    y, z, R = angle * y / jnp.linalg.norm(y), 0.5 * z, Rotation.from_quat(np.array(q), scalar_first=True)
    assert_allclose(exp.show(exp.retract(q, y)), (R * Rotation.from_rotvec(np.array(y))).as_matrix(), rtol=0, atol=1e-15)
    turns = R * Rotation.from_rotvec(np.array(y)) * Rotation.from_rotvec(np.array(z))
    assert_allclose(exp.show(q + exp.walk(q, y, z)), turns.as_matrix(), rtol=0, atol=2e-15)
    assert np.all(np.isfinite(bend_of_exp(q, y)))


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_trivialised_derivative_by_differences(group):
    q, y, d, _ = drawn(group, 2)
    space, e = groups.Product(("g",), (group,)), 1e-5
    moved = group.between(group.retract(q, y - e * d), group.retract(q, y + e * d)) / (2 * e)
    assert_allclose(space.trivialise(y, d), moved, rtol=0, atol=1e-9)


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_ends_are_derivatives_of_the_discrete_lagrangian(group):
    """p⁻ and p⁺ of h ℓ(m, V) from A and B, against JAX through `between`."""
    g0, _, v, _ = drawn(group, 3)
    space, h = groups.Product(("g",), (group,)), 0.3
    weights = jnp.arange(1.0, group.size + 1.0)

    def lagrangian(g, w):
        return jnp.sin(g @ weights) + 0.5 * w @ (weights[: group.n] * w) * (1.0 + g[0] ** 2)

    def of_stored(q, w):
        return lagrangian(jnp.asarray(q), w)

    def action(left, right):
        w = group.between(left, right) / h
        return h * lagrangian(group.retract(left, 0.5 * h * w), w)

    m = group.retract(g0, 0.5 * h * v)
    g1 = group.retract(m, 0.5 * h * v)
    by_q, by_v = jax.jit(lambda q, v: space.gradients(lagrangian, q, v))(m, v)
    ends = space.ends(0.5, h, v, by_q, by_v)
    from_left = jax.jit(lambda q, way, v: space.action_ends(0.5, h, q, way, v, of_stored))(g0, 0.5 * h * v, v)
    moved = jax.jit(jax.grad(lambda x, y: action(group.retract(g0, x), group.retract(g1, y)), (0, 1)))
    assert_allclose(ends, moved(jnp.zeros(group.n), jnp.zeros(group.n)), rtol=0, atol=5e-15)
    assert_allclose(from_left, ends, rtol=0, atol=5e-15)


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_ends_of_what_is_shown_are_those_of_what_is_stored(group):
    """p⁻ and p⁺ from the left end, of a function of matrices that is not linear, and of one of the stored numbers."""
    g0, _, v, _ = drawn(group, 5)
    space, h = groups.Product(("g",), (group,)), 0.4

    def lagrangian(q, w):
        numbers = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(q.g)])
        weights = jnp.arange(1.0, numbers.size + 1.0)
        return jnp.sin(numbers @ weights) + (numbers @ numbers[::-1]) * (jnp.asarray(w) @ jnp.asarray(w))

    m = group.retract(g0, 0.5 * h * v)
    there = jax.jit(lambda q, v: space.action_ends(0.5, h, q, None, v, lagrangian))(m, v)
    from_left = jax.jit(lambda q, v: space.action_ends(0.5, h, q, 0.5 * h * v, v, lagrangian))(g0, v)
    assert_allclose(from_left, there, rtol=0, atol=1e-13)


def test_rotations_of_the_body_and_of_space():
    """R q̇ of ω = e₁: τ(y) turns about the body's axis, by 2 atan(|y|/2) with Cayley's map."""
    q = groups.SO3().retract(jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0]))
    angle = 2 * np.arctan(0.5)
    wanted = [[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]]
    assert_allclose(groups.rotation(q), wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_quaternions_of_matrices(seed):
    """Every branch of the largest component; the sign means nothing."""
    q = np.random.default_rng(seed).normal(size=4) + 3.0 * np.eye(4)[seed]
    q /= np.linalg.norm(q)
    found = groups.SO3().store(np.asarray(groups.rotation(jnp.asarray(q))), "R")
    assert_allclose(abs(found @ q), 1.0, rtol=0, atol=1e-15)
    traced = jax.jit(lambda R: groups.SO3().store(R, "R"))(groups.rotation(jnp.asarray(q)))
    assert_allclose(traced, found, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("group", "value", "message"),
    [
        (groups.SO3(), 1.001 * np.eye(3), r"no rotation, \|RᵀR - 1\| = 0.002"),
        (groups.SO3(), np.diag([1.0, 1.0, -1.0]), "reflection"),
        (groups.SO3(), [2.0, 0.0, 0.0, 0.0], "quaternion of length 2"),
        (groups.SO3(), np.zeros(3), "give a rotation matrix"),
        (groups.SE3(), (np.eye(3), [0.0, 0.0]), r"give a position, shape \(3,\)"),
        (groups.SO2(), [1.0, 1.0], "length 1.41421356"),
    ],
)
def test_refuses_what_is_no_element(group, value, message):
    with pytest.raises(ValueError, match=message):
        group.store(value, "q0['g']")


def test_nearest_rotation_is_the_polar_factor():
    R = np.asarray(groups.rotation(jnp.array([0.5, 0.5, -0.5, 0.5])))
    stretched = R @ np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.7]])
    assert_allclose(groups.nearest_rotation(stretched), R, rtol=0, atol=1e-14)
    assert np.linalg.det(groups.nearest_rotation(-stretched)) > 0.0


def test_a_product_has_every_method_of_a_space_of_its_own():
    """Without one, Rⁿ's would be called."""
    methods = [name for name in vars(groups.Space) if not name.startswith("_")]
    assert len(methods) > 25
    assert [name for name in methods if name not in vars(groups.Product)] == []
