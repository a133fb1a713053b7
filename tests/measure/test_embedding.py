"""One step maps as perturbed flows: exponents and sizes against closed forms, planted orders, the identities on D."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import dalembert as da
from dalembert.gallery import nonholonomic_particle
from dalembert.measure import consistency, embedding, perturbation, projected_perturbation
from dalembert.systems import cutoff

FREE = nonholonomic_particle.nonholonomic_particle(0.0)
STEPS = 0.1 * 2.0 ** -np.arange(5)
Q = np.array([[0.0, 1.0, 0.0], [0.3, -0.4, 0.1]])
V = np.array([[1.0, 0.5, 1.0], [0.6, 0.9, -0.24]])


def exact_flow(h, q, v):
    """Closed form of the free particle on ż = yẋ: v_x √(1 + y²) and v_y are constant."""
    c, y = v[0] * jnp.sqrt(1 + q[1] ** 2), q[1] + v[1] * h
    x = q[0] + c / v[1] * (jnp.arcsinh(y) - jnp.arcsinh(q[1]))
    z = q[2] + c / v[1] * (jnp.sqrt(1 + y**2) - jnp.sqrt(1 + q[1] ** 2))
    vx = c / jnp.sqrt(1 + y**2)
    return jnp.stack([x, y, z]), jnp.stack([vx, v[1], y * vx])


class Planted(eqx.Module):
    """The exact flow with v_y moved by κ h^(p+1): a map of D of exactly the order p, or exact, for κ = 0."""

    kappa: Array
    p: Array

    def __init__(self, kappa: float, p: float):
        self.kappa, self.p = jnp.asarray(kappa), jnp.asarray(p)

    def __call__(self, h, q, v):
        q, v = exact_flow(h, q, v)
        return q, v.at[1].add(self.kappa * h ** (self.p + 1))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_planted_order_and_size_are_found(p):
    """The perturbation is χ₀′/ε κ ε^(p+1) in v_y, in the other components smaller by ε: sup|g| → κ π/2."""
    found = embedding(FREE, Q, V, h=STEPS, step=Planted(0.7, p), dependent=["z"])
    assert found.order == p
    assert found.agrees
    assert found.exponent == pytest.approx(p, abs=0.02)
    np.testing.assert_allclose(found.sup_g, 0.7 * np.pi / 2, rtol=0.05)
    assert found.sup_g[-1] == pytest.approx(0.7 * np.pi / 2, rel=1e-3)
    np.testing.assert_allclose(found.limit, 0.7 * np.pi / 2, rtol=1e-6)  # |Φ - F| itself is κ ε^(p+1)
    np.testing.assert_allclose(found.profile[:, [0, -1]], 0.0, atol=1e-12)


def test_an_exact_map_is_at_the_floor_and_a_wrong_order_is_caught():
    exact = embedding(FREE, Q, V, h=STEPS, step=Planted(0.0, 1), dependent=["z"])
    assert exact.size.use == ("floor",) * 5
    assert np.all(exact.size.error < exact.size.floor)
    assert "no order to be seen" in str(exact)
    wrong = embedding(FREE, Q, V, h=STEPS, order=3, step=Planted(0.7, 2), dependent=["z"])
    assert not wrong.agrees
    np.testing.assert_allclose(wrong.sup_g[1:] / wrong.sup_g[:-1], 2.0, rtol=0.01)  # doubles with each refinement
    assert "not of order 3, but lower: sup|∂_tG - f(G)| ~ ε^2.00" in wrong.verdict
    assert "but higher" in embedding(FREE, Q, V, h=STEPS, order=1, step=Planted(0.7, 2), dependent=["z"]).verdict


def test_the_perturbation_at_a_point_and_the_map_recovered():
    """∂_tG - f(G) of the closed form, at z = G(τ, y); Φ back after one period; a field tangent to D."""
    step, h, tau, q, v = Planted(0.7, 2), 0.1, 0.4, jnp.asarray(Q[0]), jnp.asarray(V[0])
    made = perturbation(FREE, q, v, step=step, dependent=["z"])
    xi_of = lambda q, v: jnp.concatenate([q, v[:2]])  # noqa: E731

    @jax.jit
    def interpolated(t):
        weight = cutoff(t / h)
        return weight * xi_of(*exact_flow(t, q, v)) + (1 - weight) * xi_of(*exact_flow(t - h, *step(h, q, v)))

    z, rate = jax.jvp(interpolated, (tau * h,), (1.0,))
    y, vx, vy = z[1], z[3], z[4]
    f = jnp.stack([vx, vy, y * vx, -y * vx * vy / (1 + y**2), 0.0])  # eq. (90) in ξ
    np.testing.assert_allclose(made(h, tau, z), rate - f, rtol=0, atol=1e-13)
    assert float(jnp.linalg.norm(rate - f)) > 1e-3
    for found, wanted in zip(made.period(h, q, v), step(h, q, v), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)
    at_q, at_v = z[:3], jnp.stack([vx, vy, y * vx])
    g_q, g_v = made.pushed(h, tau, at_q, at_v)
    np.testing.assert_allclose(g_v[2] - y * g_v[0] - g_q[1] * vx, 0.0, atol=1e-15)  # dφ(ĝ) = 0
    kept, change = projected_perturbation(FREE, at_q, at_v, g_q, g_v)
    np.testing.assert_allclose(kept, g_v, rtol=0, atol=1e-15)
    np.testing.assert_allclose(change, 0.0, atol=1e-15)


def moving_mass(q, v):
    return 0.5 * (2 + q[1] ** 2) * (v @ v) + 0.3 * jnp.sin(q[0]) * v[0] * v[2] - q[3] ** 2


def two_rows(q, v):
    return jnp.array([v[2] - q[1] * v[0] + v[1], v[3] - jnp.sin(q[0]) * v[1] + q[3] * v[0]])


TWO = da.System(moving_mass, da.Nonholonomic(two_rows))
POINT = np.array([0.3, 0.5, -0.2, 0.8])
SPEED = np.array([1.0, 0.4, 0.5 - 0.4, 0.4 * np.sin(0.3) - 0.8])


def test_the_projected_perturbation_and_what_the_paper_simplifies_it_to():
    """[59] makes any (ĝ_q, ĝ_v) tangent and does it once; [62-65], with m = μᵀC⁻¹μ, would lose the tangent part of ĝ_v."""
    random = np.random.default_rng(0)
    g_q, g_v = jnp.asarray(random.normal(size=4)), jnp.asarray(random.normal(size=4))
    q, v = jnp.asarray(POINT), jnp.asarray(SPEED)
    terms = da.systems.reduction(TWO, q, v)
    slopes, mu = jax.jacfwd(two_rows)(q, v), np.asarray(terms.rows)
    kept, change = projected_perturbation(TWO, q, v, g_q, g_v)
    np.testing.assert_allclose(slopes @ g_q + mu @ kept, 0.0, atol=1e-14)
    np.testing.assert_allclose(projected_perturbation(TWO, q, v, g_q, kept)[0], kept, rtol=0, atol=1e-14)
    mass, inverse = np.asarray(terms.mass), np.linalg.inv(terms.coupling)
    forces = np.linalg.inv(mass) @ mu.T
    np.testing.assert_allclose(kept - g_v, forces @ change, rtol=0, atol=1e-14)
    claimed = mu.T @ inverse @ mu  # Lemma 4.4: equal to m. It has rank 2 and not 4
    assert np.linalg.matrix_rank(claimed) == 2
    assert np.linalg.norm(claimed - mass) > 0.5 * np.linalg.norm(mass)
    np.testing.assert_allclose(mu @ np.linalg.inv(mass) @ claimed, mu, rtol=0, atol=1e-14)  # what is true of it
    simplified = -forces @ inverse @ slopes @ g_q
    lost = g_v - forces @ inverse @ mu @ g_v  # the part of ĝ_v in D
    np.testing.assert_allclose(kept - simplified, lost, rtol=0, atol=1e-14)
    assert np.linalg.norm(lost) > 0.5


def test_the_default_scheme_with_two_constraints_and_a_mass_that_depends_on_q():
    found = embedding(TWO, POINT, SPEED, h=STEPS, order=2)
    assert found.agrees
    assert found.size.use == ("fitted",) * 5
    assert found.residual.max() < 1e-14
    np.testing.assert_allclose(found.sup_g[-1], found.limit[-1], rtol=0.02)
    local = consistency(TWO, POINT, SPEED, h=STEPS)
    assert local.p == pytest.approx(2, abs=0.1)
    assert local.s == pytest.approx(0, abs=0.1)  # (2, 0): λ belongs to the middle of the step
    assert local.multipliers_own_time.slope == pytest.approx(2, abs=0.1)
    assert local.multipliers_recomputed.slope == pytest.approx(3, abs=0.1)  # Remark 4.3: s = p
    assert local.stays
    assert "stays on D" in str(local)


def test_without_constraints_and_with_time():
    """v̇ = cos t by explicit Euler: Φ - F = -½ε²(v̇, v̈) + O(ε³), so that sup|g| → (π/2)/2 at every t₀."""
    forced = da.System(lambda q, v, t: 0.5 * v @ v + q[0] * jnp.cos(t), time_dependent=True)
    t0 = 0.8
    found = embedding(forced, [0.0], [0.3], h=STEPS, t0=t0, step=lambda h, q, v: (q + h * v, v + h * jnp.cos(t0)))
    assert found.order == 1
    assert found.agrees
    assert found.sup_g[-1] == pytest.approx(np.pi / 4, rel=0.01)


def euler(h, q, v):
    y, w = q[1], v[0] * v[1] / (1 + q[1] ** 2)
    return q + h * v, v + h * w * jnp.stack([-y, jnp.zeros_like(y), jnp.ones_like(y)])


def test_local_errors_of_a_map_that_leaves_d():
    """Explicit Euler for eq. (90), against the closed form, and its defect v_z - y v_x."""
    found = consistency(FREE, Q, V, h=STEPS, step=euler)
    every = lambda map: jax.jit(jax.vmap(jax.vmap(map, (None, 0, 0)), (0, None, None)))(STEPS, Q, V)  # noqa: E731
    ends, exact = every(euler), every(exact_flow)
    for error, a, b in zip((found.q.error, found.v.error), ends, exact, strict=True):
        np.testing.assert_allclose(error, np.linalg.norm(a - b, axis=-1).max(axis=1), rtol=1e-8)
    q1, v1 = ends
    np.testing.assert_allclose(found.residual, np.abs(v1[..., 2] - q1[..., 1] * v1[..., 0]).max(axis=1), rtol=1e-10)
    assert found.p == pytest.approx(1, abs=0.05)
    assert found.multipliers is None
    assert not found.stays
    assert "leaves D" in str(found)
    with pytest.raises(da.InconsistentDataError, match=r"step: one step from D ends off D.*dalembert.systems.deformed"):
        embedding(FREE, Q, V, h=STEPS, step=euler)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"scheme": da.Scheme("nodes")}, ValueError, "form 'nodes'.*drift_kick_drift"),
        ({"scheme": da.Scheme(), "step": euler}, ValueError, "found both"),
        ({"step": 3}, TypeError, "step: found int"),
        ({"step": lambda h, q, v: (float(q[0]), v)}, TypeError, "step: could not be traced"),
        ({"step": lambda h, q, v: (q[:2], v)}, ValueError, r"step: returns shapes \[\(2,\), \(3,\)\]"),
        ({"h": [0.1, 0.2]}, ValueError, "decreasing"),
        ({"phases": 5}, ValueError, "phases: found 5"),
        ({"order": 0.5}, TypeError, "order: found 0.5"),
    ],
)
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        embedding(FREE, Q, V, **{"h": STEPS, **options})


def test_the_order_of_a_composition():
    """The particle in a potential, eight points: the exponent of the perturbation is 8."""
    rng = np.random.default_rng(1)
    q, v = rng.uniform(-1, 1, (8, 3)), rng.uniform(-1, 1, (8, 2))
    speeds = np.stack([v[:, 0], v[:, 1], q[:, 1] * v[:, 0]], axis=1)
    found = embedding(
        nonholonomic_particle.nonholonomic_particle(1.0), q, speeds, h=[0.24, 0.18, 0.14], order=8, scheme=da.Scheme(order=8)
    )
    assert found.exponent == pytest.approx(8, abs=0.1)
    assert str(found).startswith("order 8:")


def test_the_perturbation_is_defined_at_large_points_and_smooth():
    """Proposition 4.1: (i) g exists for |z| < ρ(ε), ρ → ∞ as ε → 0; (ii) it is analytic in ε and z, smooth in τ also where a
    period ends. Analytic: polynomials of degree 7 through Chebyshev nodes meet the values between them."""
    made = perturbation(FREE, Q[0], V[0], dependent=["z"])
    xi = made.chart.coordinates(jnp.asarray(Q[0]), jnp.asarray(V[0]))
    g = lambda h, tau, x: np.asarray(made(h, tau, x)) / h**2  # noqa: E731
    for size in (1.0, 3.0, 10.0, 30.0):  # h|v| stays: a larger point needs a smaller ε
        near, far = (g(h / size, 0.5, size * xi) for h in (0.4, 0.2))
        assert np.all(np.isfinite(near))
        np.testing.assert_allclose(near, far, rtol=0, atol=0.1 * np.abs(far).max())
    nodes, between = np.cos(np.pi * (np.arange(8) + 0.5) / 8), np.linspace(-0.95, 0.95, 6)
    steps, moves = (lambda x: 0.15 + 0.1 * x), (lambda x: xi * (1 + 0.2 * x))
    for of in (lambda x: g(steps(x), 0.4, xi), lambda x: g(0.1, 0.4, moves(x))):
        met = np.polynomial.Polynomial.fit
        values, wanted = np.array([of(x) for x in nodes]), np.array([of(x) for x in between])
        found = np.stack([met(nodes, column, 7)(between) for column in values.T], axis=1)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    edge = [np.abs(g(0.1, tau, xi)).max() for tau in (0.01, 0.99, 1.01, -0.01)]
    assert max(edge) < 1e-12 * np.abs(g(0.1, 0.5, xi)).max()
    np.testing.assert_allclose(g(0.1, 1.3, xi), g(0.1, 0.3, xi), rtol=0, atol=1e-9)
