"""Measurements of systems that read the time, at a clock that does not start at 0, against equations written out here."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import root

import dalembert as da

H, T = 0.1, 0.7


def mass(t):
    return 1.0 + 0.5 * jnp.sin(3 * t)


def lagrangian(q, v, t):
    return 0.5 * mass(t) * (1 + 0.2 * q[0] ** 2) * v @ v - (1 + t) * (1 - jnp.cos(q[0])) - 0.3 * t * q[0] * q[1]


def force(q, v, t):
    return jnp.stack([-0.3 * t * v[0], jnp.sin(4 * t) + 0.1 * q[0]])


def at_middle(a, b, t):
    return 0.5 * (a + b), (b - a) / H, t + 0.5 * H


def test_a_step_on_the_cotangent_bundle():
    """p₀ = -D₁L_d - f_d⁻, p₁ = D₂L_d + f_d⁺ with L_d = h L at the middle, solved by SciPy."""
    system = da.System(lagrangian, forces=force, time_dependent=True)
    slopes = jax.jit(jax.grad(lambda a, b: H * lagrangian(*at_middle(a, b, T)), (0, 1)))
    half = lambda a, b: np.asarray(0.5 * H * force(*at_middle(a, b, T)))  # noqa: E731
    q, p = np.array([0.5, -0.2]), np.array([0.8, 0.4])
    after = root(lambda b: p + np.asarray(slopes(q, b)[0]) + half(q, b), q + H * p, tol=1e-14).x
    found = da.measure.phase_step(system, q, p, h=H, t0=T)
    np.testing.assert_allclose(found.q, after, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.p, np.asarray(slopes(q, after)[1]) + half(q, after), rtol=0, atol=1e-11)


def test_a_step_without_forces_is_symplectic_whatever_the_time():
    system = da.System(lagrangian, time_dependent=True)
    defect = da.measure.symplectic_defect(system, [0.5, -0.2], [0.56, -0.17], h=H, t0=T)
    assert float(defect.size) < 1e-12 * float(jnp.abs(defect.omega).max())
    assert float(defect.relative) < 1e-12


def test_a_moving_distribution_is_where_the_run_is():
    """v_y = s(t, x) v_x: pairs of a run lie in D_d at their own time, and both sides of F*Ω - Ω = dξ agree."""
    slope = lambda t, x: jnp.sin(5 * t) + 0.5 * jnp.cos(x)  # noqa: E731
    system = da.System(
        lagrangian, da.Nonholonomic(lambda q, v, t: v[1] - slope(t, q[0]) * v[0]), forces=force, time_dependent=True
    )
    v0 = np.array([0.9, float(slope(T, 0.5)) * 0.9])
    path = da.simulate(system, [0.5, -0.2], v0, h=H, steps=4, t0=T, scheme=da.Scheme("nodes"))
    for k in (0, 2):
        a, b = np.asarray(path.q[k]), np.asarray(path.q[k + 1])
        t = float(path.t[k])
        q, v, s = at_middle(a, b, t)
        assert abs(v[1] - slope(s, q[0]) * v[0]) < 1e-12
        defect = da.measure.symplectic_defect(system, a, b, h=H, t0=t)
        np.testing.assert_allclose(defect.end, path.q[k + 2], rtol=0, atol=1e-12)
        assert float(defect.relative) < 1e-11
        assert float(defect.size) > 1e-3  # the forces are at work
        with pytest.raises(da.InconsistentDataError, match="the pair must lie in D_d"):
            da.measure.symplectic_defect(system, a, b, h=H, t0=t + 0.5 * H)


def test_exact_momenta_of_a_growing_mass():
    """L = ½eᵗv²: p is constant and q₁ - q₀ = p(e^{-t₀} - e^{-t₁})."""
    system = da.System(lambda q, v, t: 0.5 * jnp.exp(t) * v @ v, time_dependent=True)
    found = da.measure.exact_discrete(system, [0.2, 0.1], [0.5, -0.3], h=0.8, t0=T)
    p = np.array([0.3, -0.4]) / (np.exp(-T) - np.exp(-T - 0.8))
    np.testing.assert_allclose(found.minus, p, rtol=1e-11)
    np.testing.assert_allclose(found.plus, p, rtol=1e-11)
    np.testing.assert_allclose(found.v1, p * np.exp(-T - 0.8), rtol=1e-11)


def test_one_forms_with_a_constraint_of_lower_order():
    """k = 2, r = 1: Σ h L at the middle of three nodes, and λ h φ at the middle of the two nodes between the ends."""
    bend = lambda q, v, a, t: 0.5 * (1 + t) * a @ a - 0.4 * t * v @ v + jnp.sin(q[0] + t)  # noqa: E731
    level = lambda q, v, t: 0.5 * v @ v - 1.0 - 0.5 * t * q[1]  # noqa: E731
    problem = da.VariationalProblem(bend, da.Nonholonomic(level), derivatives=2, time_dependent=True)
    nodes, free = jnp.array([[0.0, 0.1], [0.11, 0.13], [0.2, 0.19], [0.27, 0.29]]), 0.6

    def action(x):
        total = H * free * level(0.5 * (x[1] + x[2]), (x[2] - x[1]) / H, T + 1.5 * H)
        for i in (0, 1):
            a, b, c = x[i : i + 3]
            total += H * bend(b, (c - a) / (2 * H), (c - 2 * b + a) / H**2, T + (i + 1) * H)
        return total

    slopes = jax.grad(action)(nodes)
    found = da.measure.poincare_cartan(problem, nodes, [[free]], h=H, t0=T)
    np.testing.assert_allclose(found.minus, -slopes[:2], rtol=1e-11)
    np.testing.assert_allclose(found.plus, slopes[2:], rtol=1e-11)


def test_regularity_of_a_system_without_symmetry():
    """Nodes and multipliers of a run; rows of the two matrices by hand: ∂C and ∂(b·β), b across the reaction."""
    act = lambda a, b: 0.5 * (1 + 0.4 * a[1]) * (b - a) @ (b - a) - 0.3 * jnp.sin(a[0] + 2 * b[1]) - 0.1 * a[0] ** 3  # noqa: E731
    kept = lambda a, b, c: c[0] - 2 * b[0] + a[0] - 0.3 * (c[1] - b[1]) * jnp.cos(a[0]) + 0.05 * b[1] * a[1]  # noqa: E731
    pushes = lambda a, b, c: jnp.stack([1.0 + 0.3 * c[1], 0.5 * jnp.sin(a[0] + b[1]) - 0.4 * c[0]])  # noqa: E731
    system = da.DiscreteSystem(act, kept, reactions=pushes)
    path = da.simulate(system, start=da.Start(nodes=[[0.3, 0.2], [0.45, 0.4]]), h=1.0, steps=3)
    assert np.abs(path.multipliers).min() > 1e-3

    def both(a, b, c):
        beta = jax.grad(act, 1)(a, b) + jax.grad(act, 0)(b, c)
        r = pushes(a, b, c)
        return jnp.stack([kept(a, b, c), (r[0] * beta[1] - r[1] * beta[0]) / jnp.sqrt(r @ r)])

    nodes = np.asarray(path.q)[1:4]
    rows = [np.asarray(x) for x in jax.jacfwd(both, (0, 1, 2))(*nodes)]
    found = da.measure.regularity(system, nodes, h=1.0)
    for name, matrix in (("backward", rows[0]), ("forward", rows[2])):
        unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        smallest = np.linalg.svd(unit, compute_uv=False)[-1]
        assert getattr(found, name).smallest[0] == pytest.approx(smallest, rel=1e-9), name
    assert found.regular


def test_the_rank_of_beta_is_that_on_the_kinematic_constraints():
    """β_x = -(second difference of x) does not vary along D_K, which holds it; on all of Q³ its rank would be one."""
    system = da.DiscreteSystem(
        lambda a, b: 0.5 * (b - a) @ (b - a),
        lambda a, b, c: c[0] - 2 * b[0] + a[0],
        reactions=lambda a, b, c: jnp.array([0.0, 1.0]),
    )
    found = da.measure.regularity(system, [[0.0, 0.0], [1.0, 0.5], [2.0, 1.5]])
    assert found.constant_rank.wanted == 1
    assert found.constant_rank.ranks.tolist() == [0]
    assert not found.constant_rank.holds
