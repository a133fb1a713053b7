"""The form discrete_gradient: exact terms of L are not seen, and the energy stays where the motion is not reversible."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import fsolve

import dalembert as da
from dalembert.gallery import ENTRIES

H = 2 * np.sin(np.pi / 40)
ENTRY, DRIVEN = ENTRIES["contact_oscillator"], ENTRIES["pendulum_transmission"]
CONTACT = da.Nonholonomic(lambda q, v: v[0] + q[1] * v[2])
BLADE = da.Nonholonomic(lambda q, v: -jnp.sin(q[2]) * v[0] + jnp.cos(q[2]) * v[1])
SLEIGH = da.Nonholonomic(lambda q, v: v[1] * jnp.cos(q[2]) - v[0] * jnp.sin(q[2]) - 0.5 * v[2])
EXACT = {
    "sin z": lambda q, t: jnp.sin(q[2]),
    "sin 5z": lambda q, t: jnp.sin(5 * q[2]),
    "x y²": lambda q, t: q[0] * q[1] ** 2,
    "exp(-z²)": lambda q, t: jnp.exp(-(q[2] ** 2)),
    "S(q, t)": lambda q, t: jnp.cos(t) * jnp.sin(q[0] + q[2]) + t * q[1],
}


def oscillator(q, v):
    return 0.5 * (v @ v) - 0.5 * (q @ q)


def uneven(q, v):
    """Mass matrix, potential and magnetic term of all coordinates."""
    kinetic = 0.5 * (1 + 0.3 * q[0] ** 2) * v[0] ** 2 + 0.5 * (2 + jnp.sin(q[2])) * v[1] ** 2 + 0.5 * v[2] ** 2
    potential = 0.5 * (q @ q) + 0.2 * jnp.cos(q[0] * q[2])
    return kinetic + 0.2 * jnp.cos(q[1]) * v[0] * v[2] - potential + 0.4 * q[0] * q[1] * v[2] + 0.3 * jnp.sin(q[2]) * v[0]


def magnetic(q, v):
    field = 0.4 * jnp.sin(q[2]) * v[0] + 0.2 * jnp.cos(q[0]) * v[1] + 0.3 * jnp.sin(q[1]) * v[2]
    return 0.5 * (v @ v) - 0.5 * (q[0] ** 2 + q[1] ** 2) + field


MAGNETIC = {
    "contact oscillator": (da.System(uneven, CONTACT), ENTRY.q0, ENTRY.v0),
    "transmission": (DRIVEN.system.replace(b=0.3), DRIVEN.q0, DRIVEN.v0),
    "knife edge": (da.System(magnetic, BLADE), (1.0, 0.5, 0.3), (0.0, 0.0, 1.0)),
    "sleigh": (da.System(magnetic, SLEIGH), (1.0, 0.0, 0.0), (1.0, 0.5, 1.0)),
}


def with_exact_term(s):
    def lagrangian(q, v, t):
        by_q, by_t = jax.grad(s, (0, 1))(q, t)
        return oscillator(q, v) + by_q @ v + by_t

    contact = da.Nonholonomic(lambda q, v, t: v[0] + q[1] * v[2])
    return da.System(lagrangian, contact, time_dependent=True)


def long_run(system, order):
    scheme = da.Scheme("discrete_gradient", order=order)
    return da.simulate(system, ENTRY.q0, ENTRY.v0, h=H, steps=10_000, scheme=scheme)


@functools.cache
def plain_run(order):
    return long_run(da.System(oscillator, CONTACT), order)


@pytest.mark.parametrize("order", [2, 6, 10])
@pytest.mark.parametrize("name", EXACT)
def test_exact_terms_are_not_seen(name, order):
    plain, path = plain_run(order), long_run(with_exact_term(EXACT[name]), order)
    assert max(np.abs(path.q - plain.q).max(), np.abs(path.v - plain.v).max()) < 1e-12


def test_default_sees_an_exact_term():
    """What the form is for: with ż sin z the energy of the default drifts by a third of itself."""
    options = {"h": H, "steps": 1_000_000, "save": da.Save(every=1000)}
    path = da.simulate(
        da.System(lambda q, v: oscillator(q, v) + jnp.sin(q[2]) * v[2], CONTACT), ENTRY.q0, ENTRY.v0, **options
    )
    energies = 0.5 * np.sum(np.asarray(path.v) ** 2 + np.asarray(path.q) ** 2, axis=1)
    assert np.ptp(energies) > 0.3


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("name", MAGNETIC)
def test_energy_and_distribution_in_a_magnetic_field(name, order):
    system, q0, v0 = MAGNETIC[name]
    scheme = da.Scheme("discrete_gradient", order=order)
    path = da.simulate(system, q0, v0, h=0.1, steps=20_000, scheme=scheme, save=da.Save(every=10))
    e = np.asarray(da.measure.energy(system, path).values)
    assert np.ptp(e) < 1e-11 * np.abs(e).max()
    phi = jax.vmap(lambda q, v: system.constraints[0].residual(system, q, v, v, 0.0))(path.q, path.v)
    assert np.abs(phi).max() < 4e-16 * max(4.0, np.abs(path.q).max() * np.abs(path.v).max())


@pytest.mark.parametrize("order", [2, 4, 6])
def test_order_against_the_continuous_flow(order):
    system, q0, v0 = MAGNETIC["contact oscillator"]
    steps, errors = (np.array([0.4, 0.2]) if order > 2 else np.array([0.1, 0.05])), []
    exact = da.reference(system, q0, v0, jnp.array([0.0, 2.0]), tolerance=1e-13)
    for h in steps:
        path = da.simulate(system, q0, v0, h=h, steps=round(2.0 / h), scheme=da.Scheme("discrete_gradient", order=order))
        errors.append(max(np.abs(path.q[-1] - exact.q[-1]).max(), np.abs(path.v[-1] - exact.v[-1]).max()))
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.3


def test_step_by_hand():
    """One step of the oscillator in a field, in NumPy: means along the chord are written out for these polynomials."""
    q, v, h = np.array(ENTRY.q0), np.array([-0.4, 0.3, 0.4]), 0.2

    def equations(z):
        w, multiplier = z[:3], z[3]
        mean, end = 0.5 * (v + w), q + 0.5 * h * (v + w)
        middle = 0.5 * (q + end)
        curl = 0.3 * np.array([middle[1] * mean[2], middle[0] * mean[2], -middle[1] * mean[0] - middle[0] * mean[1]])
        row = np.array([1.0, 0.0, middle[1]]) + 0.25 * h * np.array([0.0, w[2] - v[2], 0.0])
        return np.array([*(w - v - h * (curl - middle + row * multiplier)), w[0] + end[1] * w[2]])

    z = fsolve(equations, np.array([*v, 0.0]), xtol=1e-14)
    system = da.System(lambda x, w: oscillator(x, w) + 0.3 * x[0] * x[1] * w[2], CONTACT)
    path = da.simulate(system, q, v, h=h, steps=1, scheme=da.Scheme("discrete_gradient"))
    assert np.abs(path.v[-1] - z[:3]).max() < 1e-14
    assert abs(path.multipliers[-1][0] - z[3]) < 1e-13


def test_way_back_both_back_ends_and_a_derivative():
    system, q0, v0 = MAGNETIC["contact oscillator"]
    options = {"h": 0.1, "steps": 200, "scheme": da.Scheme("discrete_gradient", order=4)}
    there = da.simulate(system, q0, v0, **options)
    back = da.simulate(system, there.q[-1], there.v[-1], **options | {"h": -0.1})
    assert np.abs(back.q[-1] - there.q[0]).max() < 1e-12
    again = da.simulate(system, q0, v0, solver=da.Solver(backend="jax"), **options)
    assert np.abs(again.q - there.q).max() < 1e-12
    system, q0, _ = MAGNETIC["transmission"]
    end = lambda x: da.simulate(system, x, jnp.zeros(3), h=0.1, steps=10, scheme=da.Scheme("discrete_gradient")).q[-1, 1]  # noqa: E731
    q0 = jnp.array(q0)
    sides = [float(end(q0.at[0].add(sign * 1e-5))) for sign in (-1.0, 1.0)]
    assert jax.jit(jax.grad(end))(q0)[0] == pytest.approx((sides[1] - sides[0]) / 2e-5, rel=1e-6)


def test_forces_do_their_work():
    """A gyroscopic force does none, damping takes what it takes, a potential given as a force is one."""
    scheme = da.Scheme("discrete_gradient")
    turning = da.System(oscillator, CONTACT, forces=lambda q, v: jnp.cos(q[0]) * jnp.array([v[1], -v[0], 0.0]))
    path = da.simulate(turning, ENTRY.q0, ENTRY.v0, h=0.1, steps=2000, scheme=scheme)
    assert da.measure.energy(turning, path).range < 1e-12
    pulled = da.System(lambda q, v: 0.5 * (v @ v), CONTACT, forces=lambda q, v: -q)
    same = da.simulate(da.System(oscillator, CONTACT), ENTRY.q0, ENTRY.v0, h=0.1, steps=100, scheme=scheme)
    assert np.abs(da.simulate(pulled, ENTRY.q0, ENTRY.v0, h=0.1, steps=100, scheme=scheme).q - same.q).max() < 1e-12
    damped = da.System(oscillator, CONTACT, forces=lambda q, v: -0.1 * v)
    path = da.simulate(damped, ENTRY.q0, ENTRY.v0, h=0.1, steps=500, scheme=scheme)
    assert np.all(np.diff(da.measure.energy(damped, path).values) <= 1e-15)


def test_momentum_of_a_translation_is_kept():
    system = da.System(lambda q, v: 0.5 * (v @ v) + q[0] * q[1] * v[2] - jnp.cos(q[0]))
    scheme = da.Scheme("discrete_gradient")
    path = da.simulate(system, [0.3, 0.2, 0.0], [0.1, 0.5, 0.2], h=0.1, steps=500, scheme=scheme)
    assert da.measure.momentum(system, path, lambda q: jnp.array([0.0, 0.0, 1.0]), scheme=scheme).range < 1e-12


def test_a_reaction_that_changes_along_a_translation_acts_along_it():
    """ż = yẋ: R ∂y = 0, but the mean of R along a step acts along y. verdict claims nothing."""
    particle, scheme = ENTRIES["nonholonomic_particle"], da.Scheme("discrete_gradient")
    given = (particle.system, particle.q0, particle.v0)
    path = da.simulate(*given, h=0.05, steps=300, scheme=scheme)
    along = lambda q, p: jnp.array([0.0, 1.0, 0.0])  # noqa: E731
    assert da.measure.momentum(particle.system, path, along, scheme=scheme).range > 1e-5
    claim = da.verdict(given[0], scheme, *given[1:], h=0.05, steps=300)["momentum of y is kept"]
    assert claim.finding == "hypothesis fails"
    assert "reactions of this form act along it" in claim.reason


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (
            da.System(oscillator, da.Holonomic(lambda q: q @ q - 3.0)),
            "discrete_gradient takes constraints on velocities alone",
        ),
        (da.System(lambda q, v: -jnp.sqrt(1 - v @ v), CONTACT), "needs L quadratic in v"),
        (da.System(lambda q, v: 0.5 * (v @ v) + 0.1 * v[1] ** 4, CONTACT), "needs L quadratic in v"),
    ],
)
def test_other_systems_are_refused(system, words):
    with pytest.raises(ValueError, match=words):
        da.simulate(system, [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], h=0.1, steps=1, scheme=da.Scheme("discrete_gradient"))


def test_a_parameter_may_not_make_it_another_system():
    """The check is made for the parameters of each system, although their machine code is the same."""
    one = da.System(lambda q, v, p: oscillator(q, v) + p["c"] * v[1] ** 4, parameters={"c": 0.0})
    options = {"h": 0.1, "steps": 1, "scheme": da.Scheme("discrete_gradient")}
    da.simulate(one, ENTRY.q0, ENTRY.v0, **options)
    with pytest.raises(ValueError, match="needs L quadratic in v"):
        da.simulate(one.replace(c=0.1), ENTRY.q0, ENTRY.v0, **options)


def test_what_needs_a_discrete_lagrangian_is_refused():
    system, q0, v0 = MAGNETIC["contact oscillator"]
    scheme = da.Scheme("discrete_gradient")
    path = da.simulate(system, q0, v0, h=0.1, steps=10, scheme=scheme)
    with pytest.raises(ValueError, match="discrete_gradient is not a map of pairs of nodes"):
        da.measure.legendre(system, path.q[0], path.q[1], h=0.1, scheme=scheme)
    with pytest.raises(ValueError, match="in discrete_gradient form nodes alone satisfy no equations"):
        da.measure.regularity(system, path, scheme=scheme)
    with pytest.raises(ValueError, match="it has none"):
        da.Scheme("discrete_gradient", action=da.Beta(0.0))
    with pytest.raises(ValueError, match="has no discrete Lagrangian"):
        scheme.action_for(system)
    plant = da.OptimalControl(da.System(lambda q, v: 0.5 * (v @ v)), cost=lambda q, v, u: 0.5 * (u @ u), actuated=[0])
    with pytest.raises(ValueError, match="has no discrete Lagrangian"):
        da.solve(plant, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=4, scheme=scheme)
    body = ENTRIES["suslov"]
    with pytest.raises(ValueError, match="on groups take drift_kick_drift"):
        da.simulate(body.system, body.q0, body.v0, h=0.1, steps=1, scheme=scheme)


def test_verdict_names_the_form():
    system, q0, v0 = MAGNETIC["transmission"]
    claim = da.verdict(system, None, q0, v0, h=0.1, steps=300)["the energy does not drift"]
    assert claim.finding == "does not hold"
    assert "Scheme('discrete_gradient', order=2) keeps E within" in claim.reason
    found = da.verdict(system, da.Scheme("discrete_gradient"), q0, v0, h=0.1, steps=300)
    assert found.holds, found
    assert found["the energy"].measured < 1e-14
