"""The integrators of Jiménez and Scheurle on (q̃, v): against their own formulas, where they keep D, and their orders."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.measure import constraint_residual, multipliers, order

PARTICLE = ENTRIES["nonholonomic_particle"]
H, STEPS = 0.1, 30


def by_hand(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equations (81, 82), (95, 96) with q̃' = q̃ + (h/2)(v + v'), the ones after (92), and (97) for the particle."""
    q, v = np.array(PARTICLE.q0), np.array(PARTICLE.v0)
    points, multiplier = [(q, v)], []
    for _ in range(STEPS):
        x, y, z = v
        if name == "explicit":
            q = q + H * v
            factor, λ = q[1], x * y / (1 + q[1] ** 2)
        elif name == "implicit":
            factor = q[1] + 0.5 * H * y
            λ = x * y / (1 + (q[1] + H * y) * factor)
        elif name == "last":
            factor, λ = q[1], x * y / (1 + q[1] * (q[1] + H * y))
        else:  # at the original nodes; data on D are not on the deformed constraint, hence the general λ
            middle = q[1] + 0.5 * H * y
            factor, λ = q[1], (middle * x - z) / (H * (1 + q[1] * middle))
        new = v + H * λ * np.array([-factor, 0.0, 1.0])
        if name == "implicit":
            q = q + 0.5 * H * (v + new)
        elif name != "explicit":
            q = q + H * new
        v = new
        points.append((q, v))
        multiplier.append(λ)
    return np.array([a for a, _ in points]), np.array([b for _, b in points]), np.array(multiplier)


SCHEMES = {
    "explicit": da.Scheme.jimenez_scheurle(0.0),
    "implicit": da.Scheme.jimenez_scheurle(0.5),
    "last": da.Scheme.jimenez_scheurle(1.0),
    "original": da.Scheme.jimenez_scheurle(0.5, redefined=False),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_against_the_formulas(name):
    path = da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=H, steps=STEPS, scheme=SCHEMES[name])
    q, v, λ = by_hand(name)
    np.testing.assert_allclose(path.q, q, rtol=0, atol=4e-14)
    np.testing.assert_allclose(path.v, v, rtol=0, atol=1e-14)
    np.testing.assert_allclose(path.multipliers[:, 0], λ, rtol=0, atol=1e-13)


def test_where_the_constraint_is_kept():
    """D at the redefined nodes; at the original ones the deformed constraint (98) instead, away from D by h/2 · v_y v_x."""
    for name in ("explicit", "implicit", "last"):
        path = da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=H, steps=STEPS, scheme=SCHEMES[name])
        (residual,) = constraint_residual(PARTICLE.system, path, scheme=SCHEMES[name])
        assert residual.largest < 1e-14
    path = da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=H, steps=STEPS, scheme=SCHEMES["original"])
    x, y, z = path.v.T
    from_d = z - path.q[:, 1] * x
    assert float(jnp.max(jnp.abs(from_d))) > 0.02
    np.testing.assert_allclose((from_d + 0.5 * H * x * y)[1:], 0.0, atol=1e-14)


def test_the_first_multiplier_from_data_on_d_is_half_the_true_one():
    path = da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=1e-4, steps=3, scheme=SCHEMES["original"])
    true = multipliers(PARTICLE.system, path).multipliers[:, 0]
    np.testing.assert_allclose(path.multipliers[:, 0] / true[:3], [0.5, 1.0, 1.0], rtol=0, atol=1e-3)


def turning_frame() -> da.System:
    """m(q) and two constraints, one of them affine, one with a coefficient that depends on its own dependent coordinate."""

    def lagrangian(q, v):
        kinetic = 0.5 * (1 + 0.2 * q[1] ** 2) * v[0] ** 2 + 0.5 * (v[1:] @ v[1:]) + 0.1 * v[0] * v[3] * jnp.cos(q[2])
        return kinetic - 0.5 * (q @ q)

    def constraint(q, v):
        return jnp.array([v[2] - q[1] * v[0] - 0.3 * jnp.sin(q[0]), v[3] - q[3] * v[1] + q[0] * v[1]])

    return da.System(lagrangian, da.Nonholonomic(constraint))


FRAME = turning_frame()


@pytest.mark.parametrize(("name", "expected"), [("explicit", 1), ("implicit", 2), ("last", 1), ("original", 1)])
def test_orders_with_a_mass_matrix(name, expected):
    """β = 0, ½, 1 have orders 1, 2, 1 in (q̃, v) for general L; at the original nodes the mid-point rule loses one."""
    q0, v0 = jnp.array([0.3, 0.5, 0.1, -0.2]), jnp.array([0.6, 0.4, 0.5 * 0.6 + 0.3 * np.sin(0.3), (-0.2 - 0.3) * 0.4])
    found = order(FRAME, q0, v0, time=1.0, h=[0.04, 0.02, 0.01, 0.005], scheme=SCHEMES[name])
    for quantity in ("q", "v"):
        assert found.quantities[quantity].slope == pytest.approx(expected, abs=0.1), quantity


def test_redefined_nodes():
    """A run on nodes, seen on the points of its distribution map, is the run in drift-kick-drift form."""
    maps = {"action": da.Beta(0.5), "distribution": da.Beta(0.5)}
    nodes = da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=H, steps=STEPS, scheme=da.Scheme("nodes", **maps))
    points = da.discretize.redefined(nodes, da.Beta(0.5), first=(PARTICLE.q0, PARTICLE.v0), last=(nodes.q[-1], nodes.v[-1]))
    assert points.q.shape == (STEPS + 2, 3)
    np.testing.assert_allclose(
        points.t[np.array([0, 1, -2, -1])], H * np.array([0, 0.5, STEPS - 0.5, STEPS]), rtol=0, atol=1e-14
    )
    inner_q, inner_v = points.q[1:-1], points.v[1:-1]
    assert float(jnp.max(jnp.abs(inner_v[:, 2] - inner_q[:, 1] * inner_v[:, 0]))) < 1e-14
    assert float(jnp.max(jnp.abs(nodes.v[:, 2] - nodes.q[1:, 1] * nodes.v[:, 0]))) > 0.02
    between = da.simulate(PARTICLE.system, inner_q[0], inner_v[0], h=H, steps=STEPS - 1)
    np.testing.assert_allclose(between.q, inner_q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(between.v, inner_v, rtol=0, atol=1e-13)
    with pytest.raises(ValueError, match="points \\(q, v\\) already"):
        da.discretize.redefined(between, da.Beta(0.5))
    thin = da.simulate(
        PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=H, steps=9, save=da.Save(every=3), scheme=da.Scheme("nodes")
    )
    with pytest.raises(ValueError, match=r"save=Save\(every=1\)"):
        da.discretize.redefined(thin, da.Beta(0.5))


def test_multipliers_of_both_kinds():
    """The scheme's are of order 2 at t + h/2 and of order 1 at t + h; λ(q, v) is of order 2 there (Remark 4.3)."""
    errors = []
    for h in (0.1, 0.05):
        path = da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=h, steps=round(2 / h))
        found = multipliers(PARTICLE.system, path)
        true = lambda t: 0.5 * np.sqrt(2.0) / (1 + (1 + 0.5 * np.asarray(t)) ** 2) ** 1.5  # noqa: E731  closed form
        own, shifted = path.multipliers[:, 0] - true(path.t_multipliers), path.multipliers[:, 0] - true(path.t[1:])
        errors.append([float(np.max(np.abs(x))) for x in (own, shifted, found.multipliers[:, 0] - true(found.t))])
        np.testing.assert_allclose(found.forces[:, 2], found.multipliers[:, 0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.log2(np.array(errors[0]) / errors[1]), [2, 1, 2], rtol=0, atol=0.1)


def test_distance_from_the_exact_discrete_distribution():
    """Remark 5.4: φ∘ρ_β on pairs (q(0), q(h)) of the closed form is O(h²) for β = ½, O(h) otherwise."""
    for beta, power in ((0.0, 1), (0.5, 2), (1.0, 1)):
        size = []
        for h in (0.02, 0.01):
            q0, q1 = (jnp.asarray(PARTICLE.exact(t)[0]) for t in (3.0, 3.0 + h))
            q, v = da.Beta(beta)(q0, q1 - q0, h)
            size.append(abs(float(v[2] - q[1] * v[0])))
        assert np.log2(size[0] / size[1]) == pytest.approx(power, abs=0.05)


def test_discrete_data_of_a_difference_map():
    """A DiscreteSystem made with ρ_½ by hand, started by ρ_½⁻¹, runs as the (2,0) integrator does."""
    ρ = da.Beta(0.5)

    def point(q0, q1):
        return ρ(q0, q1 - q0, H)

    discrete = da.DiscreteSystem.nonholonomic(
        lambda q0, q1: H * 0.5 * (point(q0, q1)[1] @ point(q0, q1)[1]),
        lambda q0, q1: point(q0, q1)[1][2] - point(q0, q1)[0][1] * point(q0, q1)[1][0],
        lambda q: jnp.array([-q[1], 0.0, 1.0]),
    )
    start = ρ.inverse(jnp.array(PARTICLE.q0), jnp.array(PARTICLE.v0), H)
    nodes = da.simulate(discrete, start=da.Start(nodes=start), h=H, steps=STEPS + 1)
    points, path = da.discretize.redefined(nodes, ρ), by_hand("implicit")
    np.testing.assert_allclose(points.q, path[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(nodes.multipliers[:, 0], path[2], rtol=0, atol=1e-12)


def rank_lost_at_one() -> da.System:
    """The rows of the distribution become parallel where q₀ = 1."""
    phi = lambda q, v: jnp.array([v[1] - v[0], (1 - q[0]) * v[2] + v[1] - v[0]])  # noqa: E731
    return da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(phi))


def test_distribution_of_varying_rank():
    with pytest.raises(da.RankDeficientError, match="rank"):
        da.simulate(rank_lost_at_one(), [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], h=0.1, steps=3)


def test_degenerate_reactions():
    """C_V ≠ D with μ m⁻¹ Rᵀ = 0: the reaction cannot hold the constraint."""
    system = da.System(
        lambda q, v: 0.5 * v @ v - q[0],
        da.Nonholonomic(lambda q, v: v[0] - v[1], reactions=lambda q, v: jnp.array([1.0, 1.0])),
    )
    with pytest.raises(da.RankDeficientError):
        da.simulate(system, [0.0, 0.0], [1.0, 1.0], h=0.1, steps=3)


def test_initial_velocity_off_the_distribution():
    with pytest.raises(da.InconsistentDataError, match="project"):
        da.simulate(PARTICLE.system, PARTICLE.q0, [1.0, 0.5, 0.9], h=0.1, steps=3, scheme=SCHEMES["explicit"])


def test_presets_refuse():
    with pytest.raises(ValueError, match="beta"):
        da.Scheme.jimenez_scheurle(1.5)
    with pytest.raises(TypeError, match="state"):
        da.Scheme(state=0.5)  # type: ignore[arg-type]


def on_deformed(h: float) -> tuple[np.ndarray, np.ndarray]:
    """Data on D_ε of the particle, eq. (98): v_z = (y - (ε/2) v_y) v_x."""
    q, v = np.array([0.1, 0.8, -0.3]), np.array([1.1, 0.6, 0.0])
    v[2] = (q[1] - 0.5 * h * v[1]) * v[0]
    return q, v


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_from_the_deformed_constraint_it_is_equation_99(backend):
    """λ = v_x v_y / (1 + y (y + (ε/2) v_y)), v' = v + ελ(-y, 0, 1), q' = q + εv': each step, and (98) along the run."""
    q, v = on_deformed(H)
    path = da.simulate(PARTICLE.system, q, v, h=H, steps=20, scheme=SCHEMES["original"], solver=da.Solver(backend=backend))
    for k in range(20):
        x, y = v[:2]
        λ = x * y / (1 + q[1] * (q[1] + 0.5 * H * y))
        v = v + H * λ * np.array([-q[1], 0.0, 1.0])
        q = q + H * v
        np.testing.assert_allclose(path.q[k + 1], q, rtol=0, atol=1e-13)
        np.testing.assert_allclose(path.v[k + 1], v, rtol=0, atol=1e-13)
        assert float(path.multipliers[k, 0]) == pytest.approx(λ, abs=1e-12)
        assert abs(v[2] - (q[1] - 0.5 * H * v[1]) * v[0]) < 1e-13


def test_the_deformed_constraint_is_kept_apart_from_wrong_data():
    q, v = on_deformed(H)
    for h in (2 * H, -H):
        with pytest.raises(da.InconsistentDataError):
            da.simulate(PARTICLE.system, q, v, h=h, steps=3, scheme=SCHEMES["original"])
    with pytest.raises(da.InconsistentDataError):
        da.simulate(PARTICLE.system, q, v, h=H, steps=3, scheme=SCHEMES["implicit"])
    found = da.verdict(PARTICLE.system, SCHEMES["original"], PARTICLE.q0, PARTICLE.v0, h=0.05, steps=60)
    assert found.holds
    assert "after the start on D" in found["constraints[0]"].reason
    assert "deformed" in found["one step in (q, v)"].reason
