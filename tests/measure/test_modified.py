"""The modified equation against closed forms, and against the scheme: each term raises the order by its power."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery.curvature_particle import curvature_particle
from dalembert.gallery.nonholonomic_particle import nonholonomic_particle
from dalembert.gallery.pendulum import pendulum
from dalembert.measure import modified

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
