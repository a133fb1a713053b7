"""Theorems 5.3 and 2.4: both sides against each other, finite differences and closed forms; and flows that must fail."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import curvature_particle, nonholonomic_particle, spherical_pendulum
from dalembert.measure import flow_symplectic_defect, symplectic_defect

rolling = nonholonomic_particle.entry
sphere = spherical_pendulum.entry

H = 0.1
BENT = curvature_particle.curvature_particle(lambda q, p: 1 + 0.3 * q[0] * q[1])
PAIR = np.array([0.4, 0.7]), np.array([0.5, 0.8])
CANONICAL = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])


def antisymmetric(slopes):
    return slopes.T - slopes


def differences(function, x, width=1e-5):
    columns = [(function(x + width * e) - function(x - width * e)) / (2 * width) for e in np.eye(x.size)]
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def bent():
    return symplectic_defect(BENT, *PAIR, h=H)


def test_both_sides_agree_for_a_prescribed_curvature(bent):
    np.testing.assert_allclose(bent.omega, CANONICAL / H, rtol=0, atol=1e-12)
    assert float(bent.size) > 1
    assert float(bent.relative) < 1e-14
    assert float(jnp.max(jnp.abs(bent.residual))) < 1e-13
    assert "difference" in bent.describe()


def test_both_sides_agree_with_finite_differences_of_the_run(bent):
    """simulate's own nodes and forces, differenced: neither side's derivatives enter."""

    def run(x):
        first, second = x[:2], x[2:]
        return da.simulate(
            BENT, first, (second - first) / H, h=H, steps=2, scheme=da.Scheme("nodes"), start=da.Start(starter="first_order")
        )

    x = np.concatenate(PAIR)
    slope = np.vstack([np.eye(4)[2:], differences(lambda y: np.asarray(run(y).q[2]), x)])
    np.testing.assert_allclose(bent.end, run(x).q[2], rtol=0, atol=1e-14)
    np.testing.assert_allclose(bent.change, (slope.T @ CANONICAL @ slope - CANONICAL) / H, rtol=0, atol=1e-7)
    xi = lambda y: np.concatenate([np.zeros(2), -H * np.asarray(run(y).constraint_forces[0])])  # noqa: E731
    np.testing.assert_allclose(bent.form, xi(x), rtol=0, atol=1e-14)
    np.testing.assert_allclose(bent.exterior, antisymmetric(differences(xi, x)), rtol=0, atol=1e-7)


def test_discrete_data_in_the_papers_scaling():
    """L_d = L∘φ_L⁻¹ without h: the same flow, all forms larger by 1/h; sides of the size of some tens."""
    central = lambda q0, q1, q2: da.Central()(q1, q1 - q0, q2 - q1, H)  # noqa: E731

    def curvature(q0, q1, q2):
        q, v, a = central(q0, q1, q2)
        return (v[0] * a[1] - a[0] * v[1]) / (v @ v) ** 1.5 - 1 - 0.3 * q[0] * q[1]

    discrete = da.DiscreteSystem(
        lambda q0, q1: 0.5 * (q1 - q0) @ (q1 - q0) / H**2, curvature, virtual=lambda *nodes: central(*nodes)[1]
    )
    found = symplectic_defect(discrete, *PAIR)
    assert 20 < float(found.size) < 60
    assert float(found.relative) < 1e-13
    np.testing.assert_allclose(found.change, symplectic_defect(BENT, *PAIR, h=H).change / H, rtol=0, atol=1e-11)


def test_a_flow_off_the_equations_is_caught():
    """It turns like the particle but gains speed: its change is not the exterior derivative of a constraint force's work."""

    def gaining(q0, q1):
        d = q1 - q0
        return q1 + 1.001 * (d + H * jnp.sqrt(d @ d) * jnp.array([-d[1], d[0]]))

    found = symplectic_defect(BENT, *PAIR, h=H, step=gaining)
    assert float(found.relative) > 1e-5
    assert float(jnp.max(jnp.abs(found.residual))) > 1e-4


def nonlinear(q, v):
    mass = jnp.array([[1.5 + jnp.sin(q[1]), 0.3 * q[0]], [0.3 * q[0], 2.0 + q[0] ** 2]])
    return 0.5 * v @ mass @ v - jnp.cos(q[0]) * q[1] ** 2 + 0.2 * q[0] * v[1]


def test_an_unconstrained_flow_is_symplectic_and_a_perturbed_one_is_not():
    system = da.System(nonlinear)
    found = symplectic_defect(system, [0.3, -0.4], [0.36, -0.33], h=H)
    assert float(jnp.max(jnp.abs(found.omega))) > 10
    assert float(found.size) < 1e-12
    end = found.end

    def planted(q0, q1):  # the same value of q₂ at this pair, another derivative
        return end + 1e-6 * (q1 - 0.36)

    assert float(symplectic_defect(system, [0.3, -0.4], [0.36, -0.33], h=H, step=planted).relative) > 0.1


def test_a_small_perturbation_is_caught():
    """Verlet steps of a pendulum: symplectic; with a friction of 1e-9, not."""
    pendulum = da.DiscreteSystem(
        lambda a, b: 0.5 * (b - a) @ (b - a) / H + 0.5 * H * jnp.sum(jnp.cos(a) + jnp.cos(b)),
    )
    verlet = lambda a, b, friction: 2 * b - a - H**2 * jnp.sin(b) - friction * (b - a)  # noqa: E731
    exact = symplectic_defect(pendulum, [0.3], [0.4], h=1.0, step=lambda a, b: verlet(a, b, 0.0))
    rubbed = symplectic_defect(pendulum, [0.3], [0.4], h=1.0, step=lambda a, b: verlet(a, b, 1e-9))
    assert float(exact.relative) < 1e-14
    assert 1e-10 < float(rubbed.relative) < 1e-8


def test_friction_contracts_by_the_closed_form():
    """q̈ = -q - cq̇: F*Ω = (1+h²/4-ch/2)/(1+h²/4+ch/2) Ω for one step of the mid-point map, e^{-ct} Ω for the flow."""
    c = 0.3
    system = da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * q @ q, forces=lambda q, v, p: -p["c"] * v, parameters={"c": c})
    one = symplectic_defect(system, [0.3], [0.35], h=H)
    ratio = (1 + H**2 / 4 - c * H / 2) / (1 + H**2 / 4 + c * H / 2) - 1
    np.testing.assert_allclose(one.change, ratio * one.omega, rtol=0, atol=1e-12)
    assert float(one.relative) < 1e-13
    flow = flow_symplectic_defect(system, [0.3], [0.5], 3.0)
    np.testing.assert_allclose(flow.change, np.expm1(-3 * c) * flow.omega, rtol=0, atol=1e-9)
    np.testing.assert_allclose(flow.exterior, np.expm1(-3 * c) * flow.omega, rtol=0, atol=1e-9)


def test_holonomic_flows_are_symplectic_on_a_leaf():
    path = da.simulate(
        sphere.system, sphere.q0, [0.3, sphere.v0[1], np.sqrt(3) * 0.3], h=H, steps=2, scheme=da.Scheme("nodes")
    )
    found = symplectic_defect(sphere.system, *path.q[1:3], h=H)
    assert found.basis.shape == (6, 4)
    assert float(jnp.max(jnp.abs(found.omega))) > 1
    assert float(found.size) < 1e-12
    lagrangian = lambda a, b: 0.5 * (b - a) @ (b - a) / H - 0.5 * H * (a[2] + b[2])  # noqa: E731
    discrete = da.DiscreteSystem.holonomic(lagrangian, lambda q: q @ q - 1)
    again = symplectic_defect(discrete, *path.q[1:3], h=H)
    assert float(again.size) < 1e-12
    np.testing.assert_allclose(again.end, found.end, rtol=0, atol=1e-13)
    with pytest.raises(da.InconsistentDataError, match="q0, q1: the pair must lie in D_d"):
        symplectic_defect(discrete, [1.0, 0.0, 0.0], [1.0, 0.1, 0.0], h=H)


def test_a_nonholonomic_flow_changes_the_form_by_the_constraint_force():
    path = da.simulate(rolling.system, rolling.q0, rolling.v0, h=H, steps=4, scheme=da.Scheme("nodes"))
    found = jax.vmap(lambda a, b: symplectic_defect(rolling.system, a, b, h=H))(path.q[1:4], path.q[2:5])
    assert found.basis.shape == (3, 6, 5)
    assert float(jnp.min(found.size)) > 0.1
    assert float(jnp.max(found.relative)) < 1e-13


def test_the_continuous_flow_against_finite_differences():
    y = np.array([0.4, 0.7, 1.0, 1.0])
    found = flow_symplectic_defect(BENT, y[:2], y[2:], 2.0)
    assert float(found.size) > 1
    assert float(found.relative) < 1e-10

    def flow(x):
        end = da.reference(BENT, x[:2], x[2:], [0.0, 2.0], tolerance=1e-13)
        return np.concatenate([end.q[-1], end.v[-1]])

    slope = differences(flow, y, 1e-4)
    np.testing.assert_allclose(found.change, slope.T @ CANONICAL @ slope - CANONICAL, rtol=0, atol=1e-6)


def test_the_continuous_flow_on_constraints():
    steady = flow_symplectic_defect(sphere.system, sphere.q0, sphere.v0, 2.0)
    assert steady.basis.shape == (6, 4)
    assert float(steady.size) < 1e-9
    bound = flow_symplectic_defect(rolling.system, rolling.q0, rolling.v0, 2.0)
    assert float(bound.size) > 0.1
    assert float(bound.relative) < 1e-10


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="q1: found 3 numbers"):
        symplectic_defect(BENT, [0.0, 0.0], [0.0, 0.1, 0.2], h=H)
    with pytest.raises(ValueError, match=r"h: found 0"):
        symplectic_defect(BENT, *PAIR, h=0.0)
    with pytest.raises(ValueError, match="kick_drift_kick is not a map of pairs"):
        symplectic_defect(BENT, *PAIR, h=H, scheme=da.Scheme("kick_drift_kick"))
    with pytest.raises(TypeError, match="system: found str"):
        symplectic_defect("L", *PAIR, h=H)
    with pytest.raises(ValueError, match="t: found -1"):
        flow_symplectic_defect(BENT, *PAIR, -1.0)
    late = da.DiscreteSystem(lambda a, b: (b - a) @ (b - a), lambda *q: q[3][0], reactions=lambda *q: q[1], order=3)
    with pytest.raises(ValueError, match="needs 3 nodes"):
        symplectic_defect(late, *PAIR)


def test_a_step_without_solution_is_an_error():
    impossible = da.DiscreteSystem(
        lambda a, b: 0.5 * (b - a) @ (b - a), lambda a, b, c: c[0] ** 2 + 1, reactions=lambda a, b, c: jnp.array([1.0, 0.0])
    )
    with pytest.raises(RuntimeError, match="could not be solved"):
        symplectic_defect(impossible, *PAIR)


def test_the_result_is_a_frozen_tree_of_arrays(bent):
    with pytest.raises(dataclasses.FrozenInstanceError):
        bent.change = 0
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(bent))


def test_omega_is_symplectic_where_the_lagrangian_is_regular():
    """Ω_{L_d} = -∂²L_d/∂q₀∂q₁ dq₀∧dq₁, so that det Ω = det(D₁₂L_d)²: of a System and of a DiscreteSystem, and zero where
    L_d is degenerate (after eq. (11) of Borda, Fernández, Grillo)."""
    h, a, b = 0.1, jnp.array([0.4, -0.3]), jnp.array([0.46, -0.25])
    act = lambda q, v: 0.5 * (1 + q[1] ** 2) * v[0] ** 2 + 0.5 * v[1] ** 2 + 0.2 * v[0] * v[1] - jnp.cos(q[0] * q[1])  # noqa: E731
    pair = lambda x, y: h * act(0.5 * (x + y), (y - x) / h)  # noqa: E731
    mixed = np.asarray(jax.jacfwd(jax.grad(pair, 1), 0)(a, b))
    for system in (da.System(act), da.DiscreteSystem(pair)):
        found = da.measure.symplectic_defect(system, a, b, h=h if isinstance(system, da.System) else 1.0)
        omega = np.asarray(found.omega)
        np.testing.assert_allclose(omega[:2, :2], 0.0, atol=1e-12)
        np.testing.assert_allclose(np.abs(omega[:2, 2:]), np.abs(mixed.T), rtol=1e-9)
        np.testing.assert_allclose(omega, -omega.T, rtol=0, atol=1e-12)
        assert np.linalg.det(omega) == pytest.approx(np.linalg.det(mixed) ** 2, rel=1e-9)
    flat = da.DiscreteSystem(lambda x, y: 0.5 * (y[0] - x[0]) ** 2 + 0.1 * jnp.cos(x[1] + x[0]))
    nodes = jnp.array([[0.0, 0.1], [0.1, 0.3], [0.2, 0.4]])
    assert np.linalg.matrix_rank(np.asarray(jax.jacfwd(jax.grad(flat.lagrangian, 1), 0)(nodes[0], nodes[1]))) == 1
    assert not da.measure.regularity(flat, nodes, h=1.0).regular
    with pytest.raises(RuntimeError, match="the step from"):
        da.measure.symplectic_defect(flat, nodes[0], nodes[1])
