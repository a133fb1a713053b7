"""λ and v̇ in closed form against Newton's method on the same equations, and against formulas derived by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

# n = 4, m = 2: a mass that depends on q, a Lagrangian that is not quadratic in v, forces, time, constraints nonlinear in v.


def lagrangian(q, v, t, p):
    s = jnp.sin(q[1])
    mass = jnp.array([[2 + q[0] ** 2, 0.3 * s, 0, 0.1], [0.3 * s, 1.5 + q[2] ** 2, 0.2, 0],
                      [0, 0.2, 1 + 0.5 * jnp.cos(q[0]) ** 2, 0], [0.1, 0, 0, 1.0]])  # fmt: skip
    return 0.5 * v @ mass @ v + p["c"] * jnp.sin(t) * q[0] * v[1] - q[3] ** 2 * q[0] + 0.05 * (v @ v) ** 2


def constraint(q, v, t, p):
    return jnp.array([v[2] - q[1] * v[0] + 0.2 * v[1] ** 2 + jnp.cos(t), v[3] - jnp.sin(q[0]) * v[1] - q[2]])


def system(**reactions) -> da.System:
    return da.System(lagrangian, da.Nonholonomic(constraint, **reactions), parameters={"c": 0.7}, time_dependent=True,
                     forces=lambda q, v, t, p: -0.3 * v + jnp.array([0, 0, 1.0, q[0]]))  # fmt: skip


Q, V, T = jnp.array([0.3, 0.5, -0.2, 0.8]), jnp.array([1.0, 0.4, -0.3, 0.7]), 0.4


@pytest.mark.parametrize(
    "reactions",
    [{}, {"reactions": lambda q, v, t, p: jnp.array([[0.1, 0, 1.0, q[0]], [v[0], 0.2, 0, 1.0]])}],
    ids=["Chetaev", "other reactions"],
)
def test_the_formula_equals_newtons_method(reactions):
    made = system(**reactions)
    a, multipliers, _ = jax.jit(lambda q, v: da.acceleration(made, q, v, T))(Q, V)
    found = da.systems.reduction(made, Q, V, T)
    np.testing.assert_allclose(found.a, a, rtol=1e-12)
    np.testing.assert_allclose(found.multipliers, multipliers, rtol=1e-12)
    np.testing.assert_allclose(found.rows @ found.a + found.rate, 0.0, atol=1e-14)  # tangent to D
    mass = jax.jit(jax.hessian(lambda v: lagrangian(Q, v, T, {"c": 0.7})))(V)
    np.testing.assert_allclose(found.coupling, found.rows @ jnp.linalg.inv(mass) @ found.reactions.T, rtol=1e-12)


def test_the_nonholonomic_particle_by_hand():
    """Eq. (90): v̇ = λ(-y, 0, 1), λ = v_x v_y/(1 + y²); f_v = 0 and C = 1 + y²."""
    particle = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0]))
    y, vx, vy = 0.7, 1.1, -0.6
    found = da.systems.reduction(particle, [0.2, y, 0.1], [vx, vy, y * vx])
    multiplier = vx * vy / (1 + y**2)
    np.testing.assert_allclose(found.multipliers, [multiplier], rtol=1e-14)
    np.testing.assert_allclose(found.a, [-y * multiplier, 0.0, multiplier], rtol=1e-14)
    np.testing.assert_allclose(found.coupling, [[1 + y**2]], rtol=1e-14)
    np.testing.assert_allclose(found.free, 0.0, atol=1e-15)


def test_a_degenerate_matrix_is_an_error_with_its_numbers():
    plane = lambda **k: da.System(  # noqa: E731
        lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0], **k)
    )
    powerless = plane(reactions=lambda q, v: jnp.array([1.0, 0.0, 1e-13]))  # does no work on what it should enforce
    with pytest.raises(da.RankDeficientError, match=r"C = φ_v m⁻¹Rᵀ is degenerate .* smallest singular value 1e-13"):
        da.systems.reduction(powerless, [0.0, 0.0, 0.0], [1.0, 0.5, 0.0])
    twice = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: (v[2] - q[1] * v[0]) * jnp.array([1.0, 5.0])))
    with pytest.raises(da.RankDeficientError, match="depend on one another"):
        da.systems.reduction(twice, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0])
    massless = da.System(lambda q, v: 0.5 * v[:2] @ v[:2], da.Nonholonomic(lambda q, v: v[2] - q[1] * v[0]))
    with pytest.raises(da.RankDeficientError, match=r"mass matrix ∂²L/∂v² has rank 2 of 3.*dalembert.acceleration"):
        da.systems.reduction(massless, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0])


def test_constraints_on_accelerations_are_refused():
    servo = da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: a[0]))
    for function in (da.systems.reduction, da.systems.connection):
        with pytest.raises(ValueError, match=r"constraints\[0\] \(SecondOrder\).*dalembert.acceleration"):
            function(servo, [0.0, 1.0], [1.0, 0.5])
