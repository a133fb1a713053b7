"""The modified equation against closed forms, and against the scheme: each term raises the order by its power."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy

import dalembert as da
from dalembert.gallery.curvature_particle import curvature_particle
from dalembert.gallery.nonholonomic_particle import nonholonomic_particle
from dalembert.gallery.pendulum import pendulum
from dalembert.measure import energy, energy_drift, error_bound, helmholtz, kept_energy, modified, modified_formulas

PENDULUM = pendulum()
PLACES = [(0.3, 1.1), (-1.2, 0.4), (2.0, -0.7)]


def lie(f, g):
    """Dg·f: the derivative of g along f."""
    return lambda z: jax.jvp(g, (z,), (f(z),))[1]


def bracket(f, g):
    return lambda z: lie(f, g)(z) - lie(g, f)(z)


def drift(z):
    return jnp.stack([z[1], 0.0 * z[0]])


def kick(z):
    return jnp.stack([0.0 * z[1], -jnp.sin(z[0])])


def motion(z):
    return drift(z) + kick(z)


def at_places(found, j, formula, rtol):
    for q, v in PLACES:
        wanted = np.asarray(formula(jnp.array([q, v])))
        np.testing.assert_allclose(found.terms([q], [v])[j].ravel(), wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())


def test_an_oscillator_is_slower_by_its_closed_form():
    """tan(ω̃h/2) = h/2: ω̃ = 1 - h²/12 + h⁴/80 - …"""
    found = modified(da.System(lambda q, v: 0.5 * (v @ v - q @ q)), [1.0], [0.0], h=0.2)
    assert found.powers == (2, 4)
    for q, v in PLACES:
        turn = np.array([[v], [-q]])
        np.testing.assert_allclose(found.terms([q], [v])[0], -turn / 12, rtol=1e-7)
        np.testing.assert_allclose(found.terms([q], [v])[1], turn / 80, rtol=1e-3)


def test_the_trapezoidal_rule_has_a_twelfth_of_the_second_derivative():
    """ż = f + h²/12 d²f/dt² + O(h⁴): the default scheme for constant mass is the trapezoidal rule on (q̃, v)."""
    found = modified(PENDULUM, [1.0], [0.3], h=0.2)
    at_places(found, 0, lambda z: lie(motion, lie(motion, motion))(z) / 12, 1e-6)


def test_the_explicit_scheme_has_the_terms_of_baker_campbell_hausdorff():
    """q' = q + hv, v' = v + hF(q'): A + B + h/2 [A,B] + h²/12 ([A,[A,B]] + [B,[B,A]]) of drift A and kick B."""
    found = modified(PENDULUM, [1.0], [0.3], h=0.1, scheme=da.Scheme.jimenez_scheurle(0.0), order=2)
    assert found.powers == (1, 2)
    at_places(found, 0, lambda z: bracket(drift, kick)(z) / 2, 1e-6)
    second = lambda z: bracket(drift, bracket(drift, kick))(z) + bracket(kick, bracket(kick, drift))(z)  # noqa: E731
    at_places(found, 1, lambda z: second(z) / 12, 1e-4)


def test_stoermer_verlet_has_the_hamiltonian_of_hairer_lubich_wanner():
    """H₂ = p²V''/12 - V'²/24, V = -cos q: q̇ = ∂H/∂p, ṗ = -∂H/∂q."""
    scheme = da.Scheme("kick_drift_kick", action=(da.Beta(0.0), da.Beta(1.0)))
    found = modified(PENDULUM, [1.0], [0.3], h=0.2, scheme=scheme)
    hamiltonian = lambda z: z[1] ** 2 * jnp.cos(z[0]) / 12 - jnp.sin(z[0]) ** 2 / 24  # noqa: E731

    def field(z):
        by_q, by_p = jax.grad(hamiltonian)(z)
        return jnp.stack([by_p, -by_q])

    at_places(found, 0, field, 1e-6)


SPHERE = da.System(lambda q, v: 0.5 * v @ v - q[2], da.Holonomic(lambda q: q @ q - 1.0))
TIMED = da.System(
    lambda q, v, t: 0.5 * (1 + 0.3 * jnp.sin(t)) * v @ v - 0.5 * q @ q * (1 + 0.2 * jnp.cos(2 * t)) - 0.25 * (q @ q) ** 2,
    time_dependent=True,
)
SYSTEMS = {
    "free": (PENDULUM, [1.0], [0.3]),
    "nonholonomic": (nonholonomic_particle(), [0.0, 1.0, 0.0], [1.0, 0.5, 1.0]),
    "holonomic": (SPHERE, [0.6, 0.0, -0.8], [0.4, 0.7, 0.3]),
    "of second order": (curvature_particle(), [0.0, 0.0], [1.0, 1.0]),
    "with time in L": (TIMED, [1.0, 0.3], [0.2, 0.5]),
    "not quadratic in v": (da.System(lambda q, v: 0.5 * v @ v + 0.1 * (v @ v) ** 2 - 0.5 * q @ q), [1.0, 0.3], [0.2, 0.5]),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_term_raises_the_order_by_its_power(name):
    """The nodes of a run lie next to the flow of f, f + h²f₂, f + h²f₂ + h⁴f₄: distances h², h⁴, h⁶."""
    system, q, v = SYSTEMS[name]
    h, t0 = np.array([0.2, 0.1]), 0.4
    found = modified(system, q, v, h=h[0], t0=t0)
    paths = [da.simulate(system, q, v, h=x, steps=round(2.0 / x), t0=t0) for x in h]
    for order, wanted in ((0, 2), (2, 4), (4, 6)):
        errors = []
        for x, path in zip(h, paths, strict=True):
            position, velocity = found.flow(x, q, v, np.asarray(path.t), order=order)
            errors.append(max(np.max(np.abs(position - path.q)), np.max(np.abs(velocity - path.v))))
        assert np.log2(errors[0] / errors[1]) == pytest.approx(wanted, abs=0.15)


def test_terms_are_tangent_to_the_constraints():
    system, q, v = SYSTEMS["nonholonomic"]
    found = modified(system, q, v, h=0.1, order=2)
    by_q, by_v = found.terms(q, v)[0]
    y, vx = q[1], v[0]
    assert abs(by_v[2] - y * by_v[0] - vx * by_q[1]) < 1e-12  # d/dε of v_z - y v_x
    ahead, speed = found.field(0.1, q, v)
    assert abs(speed[2] - y * speed[0] - vx * ahead[1]) < 1e-12


def test_what_has_no_expansion_is_refused():
    system, q, v = SYSTEMS["nonholonomic"]
    with pytest.raises(ValueError, match="of first order at the original nodes"):
        modified(system, q, v, h=0.1, scheme=da.Scheme.jimenez_scheurle(redefined=False))
    with pytest.raises(ValueError, match="the form 'nodes' has its velocities between the nodes"):
        modified(PENDULUM, [1.0], [0.0], h=0.1, scheme=da.Scheme("nodes"))
    walls = da.System(lambda q, v: 0.5 * v @ v - jnp.where(q[0] > 0.5, q[0], 0.0))
    with pytest.raises(ValueError, match="lagrangian: contains an operation that may jump"):
        modified(walls, [0.0], [0.1], h=0.1)
    with pytest.raises(ValueError, match=r"order: found 2; the first term of this scheme has h\^4"):
        modified(PENDULUM, [1.0], [0.0], h=0.1, scheme=da.Scheme(order=4), order=2)
    with pytest.raises(ValueError, match="cannot be told at these states"):
        modified(PENDULUM, [1.0], [0.0], h=1e4)


VERLET = da.Scheme("kick_drift_kick", action=(da.Beta(0.0), da.Beta(1.0)))


def test_the_kept_energy_is_that_of_hairer_lubich_wanner():
    """E_h = E + h²(v² cos q/12 - sin² q/24) + O(h⁴), and a run keeps it better than E by h²."""
    kept = kept_energy(modified(PENDULUM, [1.0], [0.3], h=0.2, scheme=VERLET, order=2), 0.1)
    q, v = np.array(PLACES).T
    wanted = 0.5 * v**2 - np.cos(q) + 0.1**2 * (v**2 * np.cos(q) / 12 - np.sin(q) ** 2 / 24)
    found = kept(q[:, None], v[:, None])
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=0, atol=1e-5 * 0.1**2)
    run = da.simulate(PENDULUM, [1.0], [0.3], h=0.1, steps=100, scheme=VERLET)
    assert np.ptp(kept(run.q, run.v)) < 3e-3 * float(energy(PENDULUM, run).range)
    assert isinstance(kept([1.0], [0.3]), float)


def test_lagrangian_or_not():
    system, q, v = SYSTEMS["holonomic"]
    assert helmholtz(modified(system, q, v, h=0.1, order=2)).lagrangian
    assert helmholtz(modified(PENDULUM, [1.0], [0.3], h=0.1)).lagrangian
    system, q, v = SYSTEMS["nonholonomic"]
    found = helmholtz(modified(system, q, v, h=0.1, order=2))
    assert found.broken == 0
    assert "not Lagrangian, since the motion itself is not" in str(found)
    system, q, v = SYSTEMS["not quadratic in v"]
    assert helmholtz(modified(system, q, v, h=0.1)).lagrangian
    slowed = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), forces=lambda q, v: -1e-3 * v)
    assert helmholtz(modified(slowed, [1.0], [0.3], h=0.1, order=2)).broken == 0
    composed = helmholtz(modified(PENDULUM, [1.0], [0.3], h=0.2, scheme=da.Scheme(order=4)))
    assert composed.broken == 4  # drift-kick-drift with several steps keeps no form of one step


def test_the_energy_that_is_kept_exactly_and_what_changes_it():
    """[7] keeps |v| exactly; friction takes E by the motion itself, at the rate -c|v|²."""
    system, q, v = SYSTEMS["of second order"]
    made = modified(system, q, v, h=0.1, order=2)
    assert kept_energy(made, 0.1).exact
    assert kept_energy(made, 0.1)(q, v) == pytest.approx(1.0)
    rubbed = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), forces=lambda q, v: -0.1 * v)
    run = da.simulate(rubbed, [1.0], [0.3], h=0.1, steps=50)
    made = modified(rubbed, [1.0], [0.3], h=0.1)
    drift = energy_drift(made, run)
    np.testing.assert_allclose(drift.rates[:, 0], -0.1 * np.asarray(run.v[:, 0]) ** 2, rtol=1e-9, atol=1e-15)
    lost = float(np.diff(np.asarray(energy(rubbed, run).values)[[0, -1]])[0]) / 5.0
    assert drift.mean[0] == pytest.approx(lost, rel=0.01)  # but for the trapezoidal rule and h²
    with pytest.raises(ValueError, match="the motion itself is not, and its terms change E"):
        kept_energy(made, 0.1)
    with pytest.raises(ValueError, match="its system depends on time"):
        kept_energy(modified(TIMED, [1.0, 0.3], [0.2, 0.5], h=0.1, order=2), 0.1)


@pytest.mark.parametrize("name", ["free", "holonomic"])
def test_the_error_lies_below_its_bound_and_not_far(name):
    """25 drawn runs of each system at three steps: the error of all states, from the reference, against the bound."""
    system, q, v = SYSTEMS[name]
    random = np.random.default_rng(40)
    starts = []
    for _ in range(25):
        start = da.project(system, np.array(q) + 0.4 * random.normal(size=len(q)), v + 0.4 * random.normal(size=len(v)))
        starts.append((np.asarray(start.q), np.asarray(start.v)))
    made = modified(system, *map(np.array, zip(*starts, strict=True)), h=0.1)
    close = 0
    for place, speed in starts:
        for h in (0.2, 0.1, 0.05):
            run = da.simulate(system, place, speed, h=h, steps=round(5.0 / h))
            found, truth = error_bound(made, run), da.reference(system, place, speed, run.t, tolerance=1e-12)
            errors = [np.linalg.norm(np.asarray(a - b), axis=1) for a, b in ((run.q, truth.q), (run.v, truth.v))]
            assert np.all(errors[0] <= found.q + 1e-12)
            assert np.all(errors[1] <= found.v + 1e-12)
            close += found.holds and found.q.max() <= 10 * errors[0].max() and found.v.max() <= 10 * errors[1].max()
    assert close >= 60  # of 75


def test_a_run_too_long_for_the_bound_says_how_far_it_holds():
    """The period of a pendulum near the top is wrong by the step: in time the phase is lost."""
    run = da.simulate(PENDULUM, [3.0], [0.0], h=0.2, steps=400)
    found = error_bound(modified(PENDULUM, [3.0], [0.0], h=0.2), run)
    assert not found.holds
    assert 2.0 < found.until < 60.0
    after = found.t > found.until
    assert np.all(np.isinf(found.q[after]))
    assert np.all(np.isfinite(found.q[~after]))
    assert f"holds until: t = {found.until:g}" in str(found)
    with pytest.raises(ValueError, match="neighbouring states are needed"):
        error_bound(
            modified(PENDULUM, [1.0], [0.0], h=0.1),
            da.simulate(PENDULUM, [1.0], [0.0], h=0.1, steps=8, save=da.Save(every=2)),
        )


def spring_pendulum(q, v, p):
    r, rate = q[0] / p["size"], v[0] / p["size"]
    return 0.5 * (rate**2 + r**2 * v[1] ** 2) + 9.81 * r * jnp.cos(q[1]) - 20.0 * (r - 1.0) ** 2


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_units_do_not_matter(size):
    """A mass on a spring that swings, its length in units of metres or of micrometres, the angle in radians. Over 4000 steps
    the bound holds a while, in shorter blocks than those of the whole run."""

    swung = da.System(spring_pendulum, parameters={"size": size})
    start = [1.2 * size, 0.5], [0.1 * size, 0.3]
    made = modified(swung, *start, h=0.05, order=2)
    assert helmholtz(made).lagrangian
    assert error_bound(made, da.simulate(swung, *start, h=0.02, steps=100)).holds
    assert 1.0 < error_bound(made, da.simulate(swung, *start, h=0.05, steps=4000)).until < 100.0


@pytest.mark.parametrize("size", [1.0, 1e6, 1e-6])
def test_flows_have_their_order_in_all_units(size):
    """The flow with terms up to h⁴, of a length in metres or micrometres: its tolerance is that of each coordinate."""
    swung, h, errors = da.System(spring_pendulum, parameters={"size": size}), 0.1, []
    start = [1.2 * size, 0.5], [0.1 * size, 0.3]
    made = modified(swung, *start, h=h)
    for x in (h, h / 2):
        path = da.simulate(swung, *start, h=x, steps=round(1.0 / x))
        errors.append(np.max(np.abs(made.flow(x, *start, np.asarray(path.t))[0] - path.q) / [size, 1.0]))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(5.9, abs=0.1)


def test_formulas_are_those_of_the_closed_form_and_of_the_runs():
    """The trapezoidal rule: f₂ = D²f/12, by SymPy. The particle: the numbers of the runs, at points of D."""
    found = modified_formulas(PENDULUM)
    (q,), (v,), (ratio,) = found.coordinates, found.velocities, found.parameters.values()
    f = sympy.Matrix([v, -ratio * sympy.sin(q)])
    twice = f.jacobian([q, v]) * f
    twice = twice.jacobian([q, v]) * f
    assert [sympy.simplify(x - y / 12) for x, y in zip(found.terms[2], twice, strict=True)] == [0, 0]
    assert "dq_θ/dt, h^2: -g_over_l*v_θ*cos(q_θ)/12" in str(found)
    explicit = modified_formulas(PENDULUM, scheme=da.Scheme.jimenez_scheurle(0.0), order=1)
    wanted = [ratio * sympy.sin(q) / 2, -ratio * v * sympy.cos(q) / 2]  # half the bracket of drift and kick
    assert [sympy.simplify(x - y) for x, y in zip(explicit.terms[1], wanted, strict=True)] == [0, 0]
    system, place, speed = SYSTEMS["nonholonomic"]
    formulas = modified_formulas(system)
    at = dict(zip((*formulas.coordinates, *formulas.velocities), (*place, *speed), strict=True))
    at |= {symbol: float(system.parameters[name]) for name, symbol in formulas.parameters.items()}
    numbers = [float(x.subs(at)) for x in formulas.terms[2]]
    np.testing.assert_allclose(
        modified(system, place, speed, h=0.1).terms(place, speed)[0].ravel(), numbers, rtol=0, atol=1e-9
    )
    with pytest.raises(ValueError, match="formulas are for a single step"):
        modified_formulas(PENDULUM, scheme=da.Scheme(order=4), order=4)
    with pytest.raises(ValueError, match="n: the system has no names"):
        modified_formulas(da.System(lambda q, v: 0.5 * v @ v))
