"""The one-forms, the symplectic form, momenta and energy of higher order flows, each with a violation that is caught."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.measure.higher import node_action

H = 0.1


def lagrangian(*x):
    q, top = x[0], x[-1]
    return 0.5 * (1 + 0.3 * jnp.sin(q[0]) ** 2) * top @ top - 0.2 * x[1] @ x[1] * q[1] + jnp.cos(q[0]) * q[1]


def constraint(q, v, a):
    return a[0] - jnp.sin(q[1]) * v[1] - 0.3 * q[0] ** 2


def smooth_nodes(count):
    t = H * np.arange(count)
    return np.stack([np.sin(t + 0.3), 0.5 * np.cos(1.3 * t)], axis=1)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_flow_is_symplectic(k):
    """Υ_d*Ω = Ω, and not for a neighbour of Υ_d."""
    problem, nodes = da.VariationalProblem(lagrangian, derivatives=k), smooth_nodes(2 * k)
    found = da.measure.symplectic_defect(problem, nodes=nodes, h=H)
    assert found.relative < 1e-13
    assert np.abs(found.omega).max() > 1.0
    path = da.simulate(problem, start=da.Start(nodes=nodes), h=H, steps=2 * k)
    np.testing.assert_allclose(path.q[-1], found.end[-2:], rtol=0, atol=1e-13)
    wrong = lambda x: jnp.concatenate([x[2:], found.end[-2:] + 1.01 * (x[-2:] - nodes[-1])])  # noqa: E731
    assert da.measure.symplectic_defect(problem, nodes=nodes, h=H, step=wrong).relative > 1e-3


def test_the_flow_with_a_constraint_of_order_two_is_symplectic_where_the_constraint_holds():
    problem, free = da.VariationalProblem(lagrangian, constraint, derivatives=2), np.array([[0.4], [0.5]])
    nodes = smooth_nodes(4)
    for i in (2, 3):  # onto M̃_d, by the first coordinate of the newest node
        for _ in range(6):
            mean, v, a = (
                nodes[i - 1],
                (nodes[i] - nodes[i - 2]) / (2 * H),
                np.diff(nodes[i - 2 : i + 1], 2, axis=0)[0] / H**2,
            )
            nodes[i, 0] -= H**2 * float(constraint(mean, v, a))
    found = da.measure.symplectic_defect(problem, nodes=nodes, multipliers=free, h=H)
    assert found.basis.shape == (10, 8)
    assert found.relative < 1e-13
    path = da.simulate(problem, start=da.Start(nodes=nodes, multipliers=free), h=H, steps=4)
    np.testing.assert_allclose(found.end[6:8], path.q[-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.end[-1:], path.multipliers[-1], rtol=0, atol=1e-9)


def test_the_flow_on_a_sphere_is_symplectic():
    problem = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Holonomic(lambda q: q @ q - 1), derivatives=2)
    angle = np.array([0.0, 0.1, 0.22, 0.35])
    nodes = np.stack([np.cos(angle) * np.cos(angle**2), np.sin(angle) * np.cos(angle**2), np.sin(angle**2)], axis=1)
    found = da.measure.symplectic_defect(problem, nodes=nodes, h=H)
    assert found.basis.shape == (12, 8)
    assert found.relative < 1e-13


def test_the_identity_of_the_one_forms():
    """d(Σ L̃_d) = Θ⁺ - Θ⁻ + Σ EL̃_d dq for a path of 2k + 2 nodes: Theorem 3.1 by differentiation."""
    problem, nodes = da.VariationalProblem(lagrangian, constraint, derivatives=2), smooth_nodes(6)
    free = np.array([[0.4], [0.5], [0.1], [-0.3]])
    action = lambda x: node_action(problem, da.Interpolated(), x, free, H * jnp.arange(6))  # noqa: E731
    slopes = jax.jit(jax.grad(action))(nodes)
    first = da.measure.poincare_cartan(problem, nodes[:4], free[:2], h=H)
    last = da.measure.poincare_cartan(problem, nodes[2:], free[2:], h=H, t0=2 * H)
    np.testing.assert_allclose(slopes[:2], -first.minus, rtol=1e-12)
    np.testing.assert_allclose(slopes[4:], last.plus, rtol=1e-12)
    for i in (2, 3):
        here = da.measure.euler_lagrange_operator(problem, nodes[i - 2 : i + 3], free[i - 2 : i + 1], h=H)
        np.testing.assert_allclose(slopes[i], here, rtol=0, atol=1e-11)  # terms of size 10/h cancel


def turning(q):
    return jnp.array([-q[1], q[0]])


def symmetric(q, v, a):
    return 0.5 * a @ a - 2.5 * v @ v + 2.0 * q @ q + 0.05 * (q @ q) ** 2


START = [[1.0, 0.0], [0.0, 0.5], [-0.5, 0.1], [0.1, 0.0]]


@pytest.fixture(scope="module")
def bounded():
    problem = da.VariationalProblem(symmetric, derivatives=2)
    return problem, da.simulate(problem, start=da.Start(jets=START), h=H, steps=10_000)


def test_momentum_over_ten_thousand_steps(bounded):
    """Within the rounding of the stored nodes, 4ε|q|²/h³: the flow itself adds nothing that can be seen."""
    problem, path = bounded
    size = float(jnp.abs(path.q).max())
    assert size < 2.0
    found = da.measure.momentum(problem, path, turning)
    assert found.range < 4 * 2.3e-16 * size**2 / H**3
    assert abs(found.slope) * 1000 < 1e-12


def test_momentum_is_lost_without_the_symmetry():
    broken = da.VariationalProblem(lambda q, v, a: symmetric(q, v, a) + 0.1 * q[0] ** 2, derivatives=2)
    path = da.simulate(broken, start=da.Start(jets=START), h=H, steps=200)
    assert da.measure.momentum(broken, path, turning).range > 0.1


def test_discrete_energy(bounded):
    """Bounded, without drift, and E = p·v + p₁·a - L of the continuous problem, to second order."""
    problem, path = bounded
    found = da.measure.energy(problem, path)
    assert abs(found.slope) * 1000 < 0.02 * found.range
    q, v, a, j = np.array(START)
    exact = (-5.0 * v - j) @ v + a @ a - symmetric(q, v, a)
    gap = np.abs(found.values[:100] - exact).max()
    finer = da.measure.energy(problem, da.simulate(problem, start=da.Start(jets=START), h=H / 2, steps=200))
    assert gap / np.abs(finer.values[:200] - exact).max() == pytest.approx(4.0, abs=0.4)


def test_regularity(bounded):
    problem, path = bounded
    found = da.measure.regularity(problem, path, every=1000)
    assert found.regular
    assert found.residual.max() < 1e-9  # ε|q|/h⁴
    assert "regular at" in found.describe()
    degenerate = da.VariationalProblem(lambda q, v, a: 0.5 * a[1] ** 2 - 2.5 * v[1] ** 2 + q @ q, derivatives=2)
    assert not da.measure.regularity(degenerate, path, every=1000).regular


def test_windows_and_schemes_are_not_mixed_up(bounded):
    problem, path = bounded
    with pytest.raises(TypeError, match="scheme: found Scheme"):
        da.measure.momentum(problem, path, turning, scheme=da.Scheme())
    with pytest.raises(ValueError, match="generator: returns shape"):
        da.measure.momentum(problem, path, lambda q: q[:1])
    with pytest.raises(ValueError, match="nodes: found shape"):
        da.measure.symplectic_defect(problem, nodes=path.q[:3], h=H)
