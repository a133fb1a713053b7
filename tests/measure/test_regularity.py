"""Theorem 5.1 measured: singular values against closed forms, and nodes where a condition fails by design."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import curvature_particle, nonholonomic_particle
from dalembert.measure import regularity

particle = curvature_particle.entry
rolling = nonholonomic_particle.entry


def turning():
    """Prescribed a_x; the virtual displacement (cos x, sin x) is blind to a_y where sin x = 0."""
    return da.System(
        lambda q, v: 0.5 * v @ v,
        da.SecondOrder(lambda q, v, a: a[0], virtual=lambda q, v, a: jnp.array([jnp.cos(q[0]), jnp.sin(q[0])])),
    )


def test_singular_values_of_a_closed_form_and_the_singular_point_between():
    x = np.linspace(-0.5, 0.5, 11)
    nodes = np.stack([x, np.ones_like(x)], axis=1)
    nodes[5, 0] = 0.0
    found = regularity(turning(), nodes, h=0.1, t0=2.0)
    # rows (1, 0) of the constraint and (cos x, sin x) of φ∘β, both of unit length: singular values √(1 ± |cos x|)
    expected = np.sqrt(1 - np.cos(x[1:-1]))
    np.testing.assert_allclose(found.forward.smallest, expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.backward.smallest, expected, rtol=0, atol=1e-8)
    assert not found.regular
    assert not found.forward.holds
    assert not found.backward.holds
    assert found.kinematic.holds
    assert found.reactions.holds
    assert found.forward.worst == 4
    np.testing.assert_allclose(found.t[found.forward.worst], 2.5)
    np.testing.assert_array_equal(found.forward.ranks, [2, 2, 2, 2, 1, 2, 2, 2, 2])
    assert "q₂ determined: FAILS, rank 1 of 2" in found.describe()
    assert regularity(turning(), nodes[6:], h=0.1).regular


def test_a_run_on_nodes_is_a_trajectory_with_a_regular_flow():
    scheme = da.Scheme.borda_fernandez_grillo()
    path = da.simulate(particle.system, particle.q0, particle.v0, h=0.1, steps=20, scheme=scheme)
    found = regularity(particle.system, path, scheme=scheme)
    assert found.regular
    assert found.residual.max() < 1e-12
    assert found.forward.smallest.min() > 0.9  # the two rows are orthogonal up to the turn of the velocity in a step
    np.testing.assert_allclose(found.t, path.t_multipliers, rtol=0, atol=1e-12)
    assert regularity(particle.system, path, scheme=scheme, every=5).t.shape == (4,)
    with pytest.raises(ValueError, match="scheme: the path was not made with"):
        regularity(particle.system, path)


def test_a_run_between_nodes_with_nonholonomic_data_that_restrict_both_pairs():
    path = da.simulate(rolling.system, rolling.q0, rolling.v0, h=0.05, steps=20)
    found = regularity(rolling.system, path)
    assert found.regular
    assert found.kinematic.wanted == 2
    assert found.constant_rank.wanted == 2
    assert found.residual.max() < 1e-12
    np.testing.assert_allclose(found.t, path.t_multipliers, rtol=0, atol=1e-12)
    thinned = da.simulate(rolling.system, rolling.q0, rolling.v0, h=0.05, steps=20, save=da.Save(every=5))
    with pytest.raises(ValueError, match=r"save=Save\(every=1\)"):
        regularity(rolling.system, thinned)


def test_a_degenerate_discrete_lagrangian_and_dependent_reactions():
    mass = da.DiscreteSystem(lambda a, b: 0.5 * a[0] * b[0] * (b - a) @ (b - a))
    found = regularity(mass, [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert not found.constant_rank.holds
    assert not found.forward.holds
    assert regularity(mass, [[1.0, 0.0], [1.5, 0.1], [2.0, 0.3]]).regular
    assert regularity(mass, [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]).same_rank  # one window
    there = regularity(mass, [[1.0, 0.0], [1.5, 0.1], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert not there.same_rank
    assert "the rank of φ∘β changes along the nodes" in there.describe()
    twice = da.DiscreteSystem(
        lambda a, b: 0.5 * (b - a) @ (b - a),
        lambda a, b, c: jnp.stack([c[0] - a[0], c[1] - a[1]]),
        reactions=lambda a, b, c: jnp.array([[1.0, 0.0, 0.0], [1.0, b[2], 0.0]]),
    )
    assert not regularity(twice, np.zeros((3, 3))).reactions.holds


def test_a_constant_rank_that_is_not_full_makes_no_flow():
    """Condition 1 of Theorem 5.1 without condition 2: L_d does not read z, so that β has rank 1 everywhere."""
    flat = da.DiscreteSystem(lambda a, b: 0.5 * (b[0] - a[0]) ** 2 + 0.1 * jnp.cos(a[0]))
    found = regularity(flat, np.random.default_rng(0).normal(size=(8, 2)))
    assert found.same_rank
    assert found.constant_rank.ranks.tolist() == [1] * 6
    assert not found.constant_rank.holds
    assert not found.forward.holds
    assert "the rank of φ∘β is the same along the nodes" in found.describe()


def test_injective_in_the_last_node_means_full_rank():
    """Condition 2 implies a full rank of φ∘β on D_K: random linear systems, of which a third are made singular."""
    random, seen = np.random.default_rng(1), set()
    for case in range(12):
        mixed, rows, force = random.normal(size=(3, 3)), random.normal(size=(3, 3)), random.normal(size=3)
        if case % 3 == 0:
            mixed[:, 0] = mixed[:, 1]
            rows[:, 0] = rows[:, 1]
        linear = da.DiscreteSystem(
            lambda a, b, x=mixed: a @ jnp.asarray(x) @ b,
            lambda a, b, c, x=rows: x[0] @ a + x[1] @ b + x[2] @ c,
            reactions=lambda a, b, c, x=force: jnp.asarray(x),
        )
        found = regularity(linear, np.zeros((3, 3)))
        assert found.constant_rank.holds or not found.forward.holds
        seen.add((found.constant_rank.holds, found.forward.holds))
    assert {True, False} <= {forward for _, forward in seen}


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"nodes: found shape \(2, 2\)"):
        regularity(turning(), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="every: found 0"):
        regularity(turning(), np.zeros((3, 2)), every=0)
    with pytest.raises(ValueError, match=r"not finite at t = 0\.1"):
        regularity(particle.system, np.zeros((3, 2)), h=0.1)  # at rest there is no curvature
