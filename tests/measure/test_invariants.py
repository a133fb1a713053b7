"""Energy, momentum maps and constraint residuals along paths, and planted violations."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import curvature_particle, inertia_wheel_pendulum, nonholonomic_particle, spherical_pendulum
from dalembert.measure import Invariant, constraint_residual, energy, momentum

particle = curvature_particle.entry
wheel = inertia_wheel_pendulum.entry
sphere = spherical_pendulum.entry

CENTRAL = da.System(lambda q, v, p: 0.5 * v @ v - p["c"] * q[0] - (q @ q) ** 2, parameters={"c": 0.0})


def rotation(q, p=None):
    return jnp.array([-q[1], q[0], *([0.0] * (q.shape[0] - 2))])


def run(system, q0, v0, form=None, **options):
    scheme = None if form is None else da.Scheme(form)
    return da.simulate(system, q0, v0, **{"h": 0.05, "steps": 40, "scheme": scheme, **options})


def test_the_summary_of_a_line():
    t = jnp.linspace(1.0, 3.0, 21)
    line = Invariant(t, 2.0 - 0.5 * t)
    np.testing.assert_allclose([line.slope, line.range, line.drift[-1]], [-0.5, 1.0, -1.0])
    assert "slope -5.000e-01" in line.describe()


def test_energy_is_kept_where_the_scheme_keeps_it_and_its_loss_is_seen():
    """The trapezoidal rule keeps a quadratic energy; friction loses it at the rate c v²."""
    spring = da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * q @ q, forces=lambda q, v, p: -p["c"] * v, parameters={"c": 0.0})
    kept = energy(spring, run(spring, [1.0], [0.0], h=0.1))
    np.testing.assert_allclose(kept.values, 0.5, rtol=0, atol=1e-14)
    rubbed = spring.replace(c=0.01)
    lost = energy(rubbed, run(rubbed, [1.0], [0.0], h=0.1, steps=628))
    np.testing.assert_allclose(lost.drift[-1], 0.5 * np.expm1(-0.01 * 62.8), rtol=1e-2)
    assert float(lost.slope) < -1e-3
    thinned = energy(rubbed, run(rubbed, [1.0], [0.0], h=0.1, steps=628, save=da.Save(every=157)))
    np.testing.assert_array_equal(thinned.values, lost.values[::157])


def test_energy_in_the_two_step_form_is_read_between_the_nodes():
    path = run(particle.system, particle.q0, particle.v0, "nodes", h=0.1)
    found = energy(particle.system, path)
    np.testing.assert_array_equal(found.t, path.t_velocity)
    assert float(found.range) < 1e-13
    with pytest.raises(TypeError, match="system: found DiscreteSystem"):
        energy(da.DiscreteSystem(lambda a, b: (b - a) @ (b - a)), path)


@pytest.mark.parametrize("form", ["drift_kick_drift", "nodes"])
def test_a_momentum_map_is_kept_exactly_and_a_broken_symmetry_is_seen(form):
    scheme = da.Scheme(form)
    for c, low, high in ((0.0, 0.0, 1e-14), (1.0, 0.1, np.inf)):
        system = CENTRAL.replace(c=c)
        found = momentum(system, run(system, [1.0, 0.2], [0.1, 0.9], form), rotation, scheme=scheme)
        assert low <= float(found.range) <= high
    np.testing.assert_allclose(found.values[0], 0.88, rtol=0, atol=0.06)
    free = CENTRAL.replace(c=0.0)
    every = momentum(free, run(free, [1.0, 0.2], [0.1, 0.9], form, save=da.Save(every=7)), rotation, scheme=scheme)
    assert float(every.range) < 1e-14


def test_a_momentum_map_with_constraints_and_of_discrete_data():
    path = run(sphere.system, sphere.q0, [0.2, 1.0, 0.2 * np.sqrt(3)])
    assert float(momentum(sphere.system, path, rotation).range) < 1e-13
    discrete = da.DiscreteSystem(lambda a, b: 0.5 * (b - a) @ (b - a) - 1e-3 * (a @ b))
    found = momentum(discrete, da.simulate(discrete, start=da.Start(nodes=[[1.0, 0.0], [1.0, 0.1]]), steps=30), rotation)
    np.testing.assert_allclose(found.values, found.values[0], rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="generator: returns shape"):
        momentum(sphere.system, path, lambda q, p: q[:2])


@pytest.mark.parametrize(
    ("entry", "form"),
    [(particle, "drift_kick_drift"), (particle, "nodes"), (particle, "kick_drift_kick"),
     (nonholonomic_particle.entry, "drift_kick_drift"), (nonholonomic_particle.entry, "nodes"),
     (sphere, "kick_drift_kick"), (sphere, "nodes")],
    ids=lambda x: getattr(x, "name", x),
)  # fmt: skip
def test_constraints_hold_where_the_scheme_promises(entry, form):
    path, scheme = run(entry.system, entry.q0, entry.v0, form), da.Scheme(form)
    found = constraint_residual(entry.system, path, scheme=scheme)
    assert len(found) == (2 if entry is sphere and form == "kick_drift_kick" else 1)
    for residual in found:
        assert residual.t.shape == residual.values.shape[:1]
        assert residual.largest < 1e-11
    v = np.array(path.v)
    v[20] *= 1.001
    q = np.array(path.q)
    q[20] += 1e-5
    moved = dataclasses.replace(path, v=v, q=q)
    worst = constraint_residual(entry.system, moved, scheme=scheme)[0]
    assert worst.largest > 1e-6
    assert abs(worst.worst - float(path.t[20])) <= 0.05 + 1e-9


def test_a_lyapunov_constraint_holds_as_a_rate_or_as_a_law():
    """The deflated step solves λ = -φ₀/u; that is dV/dt = -F where L_d keeps the matching equation, as the paper's does."""
    paper = da.Scheme.borda_fernandez_grillo()
    path = da.simulate(wheel.system, wheel.q0, wheel.v0, h=0.05, steps=40, scheme=paper)
    by_rate, by_law = constraint_residual(wheel.system, path, scheme=paper)
    assert by_law.name == "λ + φ₀/u of constraints[0] (Lyapunov)"
    assert by_law.largest < 1e-8
    assert by_rate.largest < 1e-6  # round-off of the terms of dV/dt, up to 1e7


def test_discrete_constraints_and_bad_input():
    pair = da.DiscreteSystem.holonomic(lambda a, b: 0.5 * (b - a) @ (b - a), lambda q: q @ q - 1)
    path = da.simulate(pair, start=da.Start(nodes=[[1.0, 0.0], [np.cos(0.1), np.sin(0.1)]]), steps=20)
    (found,) = constraint_residual(pair, path)
    assert found.largest < 1e-14
    assert found.values.shape == (19, 1)
    thinned = run(particle.system, particle.q0, particle.v0, save=da.Save(every=4))
    with pytest.raises(ValueError, match=r"path: saved states are up to 0.2 apart and h is 0.05"):
        constraint_residual(particle.system, thinned)
    with pytest.raises(ValueError, match="scheme: the path was not made with the form 'kick_drift_kick'"):
        constraint_residual(
            particle.system, run(particle.system, particle.q0, particle.v0), scheme=da.Scheme("kick_drift_kick")
        )
