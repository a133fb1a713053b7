"""The discrete Noether theorem with forces and reactions: to rounding, and what breaks it is seen."""

import dataclasses
import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import curvature_particle, vertical_rolling_disk
from dalembert.measure import momentum_balance

particle = curvature_particle.entry
disk = vertical_rolling_disk.entry

FORMS = (None, "nodes", "kick_drift_kick")


def east(q, *_):
    return jnp.zeros_like(q).at[0].set(1.0)


def turned(q, *_):
    return jnp.array([-q[1], q[0], 0.0, 1.0])


def about(q, *_):
    return jnp.array([-q[1], q[0]])


@pytest.mark.parametrize("form", FORMS)
def test_reactions_of_a_rolling_disk_change_its_momenta_by_what_they_do(form):
    scheme = da.Scheme(form)
    path = da.simulate(disk.system, disk.q0, disk.v0, h=0.05, steps=40, scheme=scheme)
    for generator, least in ((east, 0.02), (turned, 0.04)):
        found = momentum_balance(disk.system, path, generator, scheme=scheme)
        assert np.max(np.abs(found.work)) > least
        assert found.defect < 3e-14
        np.testing.assert_allclose(found.momentum[-1] - found.momentum[0], np.sum(found.work), rtol=0, atol=1e-13)
    wrong = eqx.tree_at(lambda p: p.multipliers, path, 1.001 * np.asarray(path.multipliers))
    assert momentum_balance(disk.system, wrong, east, scheme=scheme).defect > 1e-5
    assert momentum_balance(disk.system, path, lambda q, p: jnp.array([0.0, 0.0, 0.0, 1.0]), scheme=scheme).work.max() == 0.0


@pytest.mark.parametrize("form", FORMS[:2])
def test_constraints_on_accelerations_have_a_balance_too(form):
    scheme = da.Scheme(form)
    path = da.simulate(particle.system, particle.q0, particle.v0, h=0.1, steps=20, scheme=scheme)
    for generator in (east, about):
        found = momentum_balance(particle.system, path, generator, scheme=scheme)
        assert np.max(np.abs(found.work)) > 0.1
        assert found.defect < 3e-14


def test_forces_and_a_servo_on_positions_are_in_the_balance():
    rail = da.Holonomic(lambda q: q[1] - 0.5 * jnp.sin(q[0]), reactions=lambda q: jnp.array([1.0, 1.0 + q[0] ** 2]))
    drag = lambda q, v: -0.2 * jnp.linalg.norm(v) * v  # noqa: E731
    held = da.System(lambda q, v: 0.5 * v @ v, rail, forces=drag)
    path = da.simulate(held, [0.4, 0.5 * np.sin(0.4)], [0.7, 0.35 * np.cos(0.4)], h=0.05, steps=20)
    found = momentum_balance(held, path, east)
    assert np.max(np.abs(found.work)) > 1e-3
    assert found.defect < 1e-14
    lean = da.System(
        lambda q, v, p: 0.5 * v @ v - (q @ q) ** 2 - p["g"] * q[0], forces=lambda q, v, p: drag(q, v), parameters={"g": 0.0}
    )
    for system, low, high in ((lean, 0.0, 1e-14), (lean.replace(g=1e-3), 1e-6, 1.0)):
        path = da.simulate(system, [1.0, 0.2], [0.0, 1.0], h=0.05, steps=20)
        assert low < momentum_balance(system, path, about).defect < high


def test_a_discrete_system_has_one():
    def action(q0, q1):
        return 0.5 * (q1 - q0) @ (q1 - q0) / 0.1

    def blade(q0, q1):
        angle = 0.5 * (q0[2] + q1[2])
        return jnp.sin(angle) * (q1[0] - q0[0]) - jnp.cos(angle) * (q1[1] - q0[1])

    system = da.DiscreteSystem.nonholonomic(action, blade, lambda q: jnp.array([jnp.sin(q[2]), -jnp.cos(q[2]), 0.0]))
    path = da.simulate(system, start=da.Start(nodes=[[0.0, 0.0, -0.025], [0.1, 0.0, 0.025]]), h=0.1, steps=20)
    found = momentum_balance(system, path, east)
    assert np.max(np.abs(found.work)) > 1e-2
    assert found.defect < 1e-14
    assert np.ptp(momentum_balance(system, path, lambda q: jnp.array([0.0, 0.0, 1.0])).momentum) < 1e-14


def test_impulses_of_a_discrete_system_are_in_the_balance():
    """L_d turns with the plane; what the impulses f⁺(q₀, q₁) + f⁻(q₁, q₂) do is written out."""
    push = lambda a, b: (-0.03 * (b @ b) * a, 0.02 * jnp.stack([b[1] ** 2, a[0]]))  # noqa: E731
    system = da.DiscreteSystem(lambda a, b: 0.5 * (b - a) @ (b - a) / 0.1 - 0.02 * (a @ b) ** 2, forces=push)
    path = da.simulate(system, start=da.Start(nodes=[[1.0, 0.2], [0.97, 0.3]]), h=0.1, steps=20)
    found, q = momentum_balance(system, path, about), np.asarray(path.q)
    across = lambda x: np.array([-x[1], x[0]])  # noqa: E731
    impulses = [0.02 * np.array([b[1] ** 2, a[0]]) - 0.03 * (c @ c) * b for a, b, c in zip(q, q[1:], q[2:], strict=False)]
    work = [f @ across(b) for f, b in zip(impulses, q[1:-1], strict=True)]
    np.testing.assert_allclose(found.work, work, rtol=0, atol=1e-15)
    momenta = [((b - a) / 0.1 - 0.04 * (a @ b) * a) @ across(b) for a, b in itertools.pairwise(q)]
    np.testing.assert_allclose(found.momentum, momenta, rtol=0, atol=1e-14)
    assert np.max(np.abs(found.work)) > 1e-3
    assert found.defect < 1e-14


def test_what_has_no_balance_is_said():
    free = da.System(lambda q, v: 0.5 * v @ v)
    run = {"q0": [0.0, 0.0], "v0": [1.0, 0.0], "h": 0.1, "steps": 6}
    path = da.simulate(free, **run)
    with pytest.raises(ValueError, match="saved states are up to"):
        momentum_balance(free, da.simulate(free, save=da.Save(every=2), **run), about)
    fourth = da.Scheme(order=4)
    with pytest.raises(ValueError, match="scheme: a step of order 4"):
        momentum_balance(free, da.simulate(free, scheme=fourth, **run), about, scheme=fourth)
    law = da.SampledFeedback(lambda q, v: -v, every=1)
    with pytest.raises(ValueError, match="path: was run with a sampled law"):
        momentum_balance(free, da.simulate(free, feedback=law, **run), about)
    with pytest.raises(ValueError, match="generator: returns shape"):
        momentum_balance(free, path, lambda q: q[:1])
    with pytest.raises(TypeError, match="system: found VariationalProblem"):
        momentum_balance(da.VariationalProblem(lambda q, v: v @ v), path, about)  # pyright: ignore[reportArgumentType]
    assert "defect" in momentum_balance(free, path, about).describe()
    assert dataclasses.is_dataclass(momentum_balance(free, path, about))
