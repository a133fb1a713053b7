"""D-adapted coordinates against formulas by hand and Newton's method; curves and flows that must stay inside D."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import dalembert as da
from dalembert.gallery import nonholonomic_particle
from dalembert.systems import cutoff, velocity_constraints
from dalembert.systems.distribution.charts import largest_volume, quality_bound

# n = 4, m = 2, a mass that depends on q: A by hand for the dependent coordinates (2, 3).


def lagrangian(q, v):
    return 0.5 * (2 + q[1] ** 2) * (v @ v) + 0.3 * jnp.sin(q[0]) * v[0] * v[2] - q[3] ** 2


def linear(q, v):
    return jnp.array([v[2] - q[1] * v[0] + v[1], v[3] - jnp.sin(q[0]) * v[1] + q[3] * v[0]])


def hand(q):
    """A^α_a of v_2 = q_1 v_0 - v_1, v_3 = -q_3 v_0 + sin(q_0) v_1."""
    return np.array([[-q[1], 1.0], [q[3], -np.sin(q[0])]])


SYSTEM = da.System(lagrangian, da.Nonholonomic(linear), coordinates=("a", "b", "c", "d"))
Q, KNOWN = np.array([0.3, 0.5, -0.2, 0.8]), np.array([1.0, 0.4])
V = np.concatenate([KNOWN, -hand(Q) @ KNOWN])


def test_the_coordinates_of_a_linear_distribution_by_hand():
    """[27], [28], [29] and the parts of a vector, with the coordinates that the paper would take."""
    chart = da.systems.connection(SYSTEM, Q, V, dependent=["c", "d"])
    assert chart.affine
    assert chart.dependent == (2, 3)
    xi = chart.coordinates(jnp.asarray(Q), jnp.asarray(V))
    np.testing.assert_array_equal(xi, [*Q, *KNOWN])
    np.testing.assert_allclose(chart.point(xi)[1], V, rtol=1e-15)
    np.testing.assert_allclose(chart.coefficients(Q, V), hand(Q), rtol=1e-15)
    slopes = np.zeros((2, 4))  # -∂A^α_a/∂q^j v^a
    slopes[0, 1], slopes[1, 3], slopes[1, 0] = KNOWN[0], -KNOWN[0], np.cos(Q[0]) * KNOWN[1]
    wanted = np.block([[np.eye(4), np.zeros((4, 2))], [np.zeros((2, 4)), np.eye(2)], [slopes, -hand(Q)]])
    np.testing.assert_allclose(chart.tangent(xi), wanted, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(chart.left_inverse() @ chart.tangent(xi), np.eye(6))
    w = np.array([0.3, -1.0, 2.0, 0.7])
    np.testing.assert_allclose(chart.horizontal(Q, V, w), [*w[:2], *(-hand(Q) @ w[:2])], rtol=1e-14)
    np.testing.assert_allclose(chart.vertical(Q, V, w), [0, 0, *(w[2:] + hand(Q) @ w[:2])], rtol=1e-14)


def test_the_reduced_field_is_that_of_newtons_method_in_every_chart():
    a = jax.jit(lambda q, v: da.acceleration(SYSTEM, q, v)[0])(jnp.asarray(Q), jnp.asarray(V))
    field = jax.jit(lambda c, x: c.field(x))
    for dependent in ((2, 3), (0, 3), (1, 2)):
        chart = da.systems.connection(SYSTEM, Q, V, dependent=dependent)
        free = [i for i in range(4) if i not in dependent]
        found = field(chart, chart.coordinates(jnp.asarray(Q), jnp.asarray(V)))
        np.testing.assert_allclose(found, [*V, *np.asarray(a)[free]], rtol=1e-12, atol=1e-14)


def test_the_choice_has_the_guaranteed_quality():
    """Exchanges end with |A_ij| ≤ 1; compared with all choices, it is never worse than the bound that follows."""
    random = np.random.default_rng(3)
    for m, n in ((1, 3), (2, 4), (2, 6), (3, 5)):
        for _ in range(20):
            rows = random.normal(size=(m, n)) * random.uniform(0.01, 10, n)
            chosen = largest_volume(rows)
            free = [i for i in range(n) if i not in chosen]
            a = np.linalg.solve(rows[:, chosen], rows[:, free])
            assert np.abs(a).max() <= 1 + 1e-8
            volumes = {c: abs(np.linalg.det(rows[:, c])) for c in itertools.combinations(range(n), m)}
            assert volumes[chosen] >= max(volumes.values()) / (m ** (m / 2)) * (1 - 1e-8)  # Hadamard, as |A_ij| ≤ 1
            assert 1 / np.sqrt(1 + np.sum(a**2)) >= quality_bound(m, n) - 1e-8


def test_a_bad_choice_is_refused_and_a_right_one_named():
    particle = nonholonomic_particle.nonholonomic_particle()
    with pytest.raises(ValueError, match=r"velocities of y cannot be dependent .* Choose z \(quality 1\)"):
        da.systems.connection(particle, [0.0, 0.1, 0.0], [1.0, 0.5, 0.1], dependent=["y"])
    with pytest.raises(ValueError, match=r"velocities of x are a bad choice \(quality 0.0001"):
        da.systems.connection(particle, [0.0, 1e-4, 0.0], [1.0, 0.5, 1e-4], dependent=["x"])
    with pytest.raises(ValueError, match="1 constraints need 1 different"):
        da.systems.connection(particle, [0.0, 0.1, 0.0], [1.0, 0.5, 0.1], dependent=["x", "z"])
    with pytest.raises(ValueError, match=r"constraints\[0\] \(Holonomic\)"):
        da.systems.connection(da.System(lagrangian, da.Holonomic(lambda q: q @ q - 1)), Q, V)


def test_a_great_circle_through_all_charts():
    """q·v = 0, free motion: a great circle, for which each choice of a dependent coordinate ends again and again."""
    sphere = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: q @ v))
    q, v, t = np.array([0.0, 0.6, 0.8]), np.array([1.0, 0.8, -0.6]), np.linspace(0.0, 10.0, 21)
    found = da.systems.adapted_reference(sphere, q, v, t)
    w = np.linalg.norm(v)
    exact = np.outer(np.cos(w * t), q) + np.outer(np.sin(w * t) / w, v)
    np.testing.assert_allclose(found.q, exact, rtol=0, atol=2e-11)
    np.testing.assert_allclose(found.multipliers[:, 0], -(w**2), rtol=1e-10)  # q̈ = λq
    assert found.residual.max() < 5e-16
    assert len(found.changes) > 5
    for change in found.changes:
        assert change.worn < 0.5 / np.sqrt(3) < 1 / np.sqrt(3) <= change.fresh
        assert change.before != change.after
    assert "t = 0: dependent q[2]" in found.describe()


# A constraint that is nonlinear in v: the particle's, deformed as the mid-point scheme at its own nodes deforms it.

DEFORMED = da.systems.deformed(
    nonholonomic_particle.nonholonomic_particle(1.0), lambda q, v, p: 0.5 * v[1] * v[0] + 0.3 * v[2] ** 2, 0.2
)
POINT = da.project(DEFORMED, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0])


def by_hand(q, v, delta=0.2):
    """[103-105]: w = μ + δ∂g/∂v = (-y + δv_y/2, δv_x/2, 1 + 0.6δv_z), λ = (v_y v_x - w·f_v)/|w|² with f_v = -(x, y, 0)."""
    w = np.array([-q[1] + delta * v[1] / 2, delta * v[0] / 2, 1 + 0.6 * delta * v[2]])
    return w, (v[1] * v[0] + w @ [q[0], q[1], 0.0]) / (w @ w)


def test_a_deformed_constraint_by_hand():
    q, v, delta = np.asarray(POINT.q), np.asarray(POINT.v), 0.2
    assert v[2] - q[1] * v[0] + delta * (0.5 * v[1] * v[0] + 0.3 * v[2] ** 2) == pytest.approx(0.0, abs=1e-12)
    w, multiplier = by_hand(q, v)
    found = da.systems.reduction(DEFORMED, q, v)
    np.testing.assert_allclose(found.multipliers, [multiplier], rtol=1e-13)
    np.testing.assert_allclose(found.a, multiplier * w - [q[0], q[1], 0.0], rtol=1e-13)
    np.testing.assert_allclose(
        da.systems.reduction(DEFORMED.replace(delta=0.0), q, v).coupling, [[1 + q[1] ** 2]], rtol=1e-14
    )


def test_coordinates_on_a_nonlinear_constraint_set():
    chart = da.systems.connection(DEFORMED, POINT.q, POINT.v, dependent=["z"])
    assert not chart.affine
    xi = chart.coordinates(POINT.q, POINT.v + jnp.array([0.1, -0.2, 0.0]))
    q, v = chart.point(xi)
    assert float(jnp.abs(velocity_constraints(DEFORMED, q, v, 0.0))[0]) < 1e-15
    b, c = 1 + 0.0 * v[0], v[0] * (0.1 * v[1] - q[1])  # 0.06 w² + b w + c = 0 for w = v_z, the root near 0
    np.testing.assert_allclose(v[2], (-b + jnp.sqrt(b**2 - 4 * 0.06 * c)) / (2 * 0.06), rtol=1e-12)
    through_newton = jax.jacfwd(lambda x: jnp.concatenate(chart.point(x)))(xi)
    np.testing.assert_allclose(chart.tangent(xi), through_newton, rtol=0, atol=1e-14)


def test_the_flow_of_a_deformed_system_stays_on_it():
    """Compared with SciPy's integration of [104] as it is written above."""
    t = np.linspace(0.0, 5.0, 6)
    found = da.systems.adapted_reference(DEFORMED, POINT.q, POINT.v, t)
    assert found.residual.max() < 1e-14

    def field(_, x):
        w, multiplier = by_hand(x[:3], x[3:])
        return np.concatenate([x[3:], multiplier * w - [x[0], x[1], 0.0]])

    wanted = scipy.integrate.solve_ivp(field, (0.0, 5.0), np.concatenate(POINT[:2]), "DOP853", t, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.concatenate([found.q, found.v], axis=1), wanted.y.T, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.multipliers[-1], by_hand(*np.split(wanted.y[:, -1], 2))[1], rtol=0, atol=1e-10)


def test_a_curve_inside_d():
    """Proposition 3.1, for a linear distribution and for a nonlinear constraint set; flat to all orders at the ends."""
    chart = da.systems.connection(DEFORMED, POINT.q, POINT.v)
    other = chart.point(chart.coordinates(POINT.q, POINT.v) + 0.3)
    ends = ([0.0, 1.0, 0.0], [1.0, 0.5, 1.0]), ([1.0, -2.0, 1.0], [0.3, 0.2, -0.6])
    for system, first, second in ((nonholonomic_particle.nonholonomic_particle(), *ends), (DEFORMED, POINT[:2], other)):
        curve = da.systems.interpolant(system, first, second, duration=0.3, t0=1.0)
        q, v = jax.jit(lambda t, c=curve: jax.vmap(c)(t))(jnp.linspace(0.9, 1.4, 41))
        residual = jax.vmap(lambda x, w, s=system: velocity_constraints(s, x, w, 0.0))(q, v)
        assert float(jnp.abs(residual).max()) < 1e-15
        for k, end in ((0, first), (-1, second)):
            np.testing.assert_allclose(q[k], end[0], rtol=0, atol=1e-14)
            np.testing.assert_allclose(v[k], end[1], rtol=0, atol=1e-12)
    slopes = jax.vmap(jax.grad(cutoff))(jnp.array([-1.0, 0.0, 0.01, 0.5, 0.99, 1.0, 3.0]))
    np.testing.assert_allclose(slopes, [0, 0, 0, -np.pi / 2, 0, 0, 0], rtol=0, atol=1e-14)


def test_points_that_no_chart_joins():
    """v_x cos y + v_z sin y = 0 between y = 0 and y = π/2 with dependent x ends at π/2; between 0 and π in the middle."""
    turning = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[0] * jnp.cos(q[1]) + v[2] * jnp.sin(q[1])))
    at = lambda y: (np.array([0.0, y, 0.0]), np.array([-np.sin(y), 1.0, np.cos(y)]))  # noqa: E731
    da.systems.interpolant(turning, at(0.2), at(1.3))
    with pytest.raises(ValueError, match=r"cannot be dependent at one of the 2 points.*Choose"):
        da.systems.interpolant(turning, at(0.2), at(np.pi / 2), dependent=[0])
    with pytest.raises(ValueError, match=r"ends between the points .* connect the points in two parts"):
        da.systems.interpolant(turning, at(0.0), at(np.pi))
    with pytest.raises(da.InconsistentDataError, match="second: "):
        da.systems.interpolant(turning, at(0.2), (at(0.3)[0], at(0.2)[1]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((da.System(lagrangian), lambda q, v: v[0], 0.1), "no constraint to deform"),
        ((SYSTEM, 0.3, 0.1), "g: found 0.3; give a function"),
        ((DEFORMED, lambda q, v, p: v[0], 0.1), "without the name 'delta'"),
    ],
)
def test_what_cannot_be_deformed(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        da.systems.deformed(*arguments)


def test_a_deformation_that_reads_the_time():
    """v_z - y v_x + δ g(t, q, v) = 0 with forces along ∂(φ + δg)/∂v: Remark 6.1, (101) to (105), with t; the ODE by hand."""
    delta, t0 = 0.3, 0.6
    bend = lambda t, q, v: (1 + np.sin(3 * t)) * (0.5 * v[1] ** 2 + 0.2 * v[0] * v[2]) + 0.4 * t * q[0]  # noqa: E731
    plain = da.System(
        lambda q, v, t: 0.5 * v @ v - 0.3 * t * q[1],
        da.Nonholonomic(lambda q, v, t: v[2] - q[1] * v[0]),
        time_dependent=True,
    )
    bent = da.systems.deformed(
        plain, lambda q, v, t: (1 + jnp.sin(3 * t)) * (0.5 * v[1] ** 2 + 0.2 * v[0] * v[2]) + 0.4 * t * q[0], delta
    )

    def rates(t, z):
        q, v = z[:3], z[3:]
        s, pull = 1 + np.sin(3 * t), np.array([0.0, -0.3 * t, 0.0])
        row = np.array([-q[1] + delta * s * 0.2 * v[2], delta * s * v[1], 1 + delta * s * 0.2 * v[0]])
        slow = 3 * np.cos(3 * t) * (0.5 * v[1] ** 2 + 0.2 * v[0] * v[2]) + 0.4 * q[0] + 0.4 * t * v[0]
        return [*v, *(pull - row * (row @ pull - v[1] * v[0] + delta * slow) / (row @ row))]

    q0, v0 = np.array([0.2, 0.5, -0.1]), np.array([0.8, 0.6, 0.0])
    rest = lambda w: w - q0[1] * v0[0] + delta * bend(t0, q0, np.array([v0[0], v0[1], w]))  # noqa: E731
    v0[2] = scipy.optimize.brentq(rest, -3.0, 3.0, xtol=1e-15)
    exact = scipy.integrate.solve_ivp(rates, (t0, t0 + 1), [*q0, *v0], "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    truth = da.reference(bent, q0, v0, [t0, t0 + 1.0], tolerance=1e-12)
    np.testing.assert_allclose([*truth.q[-1], *truth.v[-1]], exact, rtol=0, atol=1e-9)
    errors = [np.abs(da.simulate(bent, q0, v0, h=1 / n, steps=n, t0=t0).q[-1] - exact[:3]).max() for n in (20, 40)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
