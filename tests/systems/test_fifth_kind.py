"""A kind of constraint that the package does not know, in one class here, through everything that takes a constraint."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da


class Isokinetic(da.Constraint):
    """½ v·L_v = E, kept by a force along the momentum L_v: Gauss's thermostat. No other kind can read the Lagrangian."""

    order = 1
    energy: float

    def __init__(self, energy: float):
        self.energy = energy

    def residual(self, system, q, v, a, t):
        return (0.5 * v @ momentum(system, q, v, t) - self.energy)[None]

    def force_rows(self, system, q, v, a, t):
        return momentum(system, q, v, t)[None]


class Rail(da.Constraint):
    """q₁ = sin q₀, with the default forces."""

    order = 0

    def residual(self, system, q, v, a, t):
        return (q[1] - jnp.sin(q[0]))[None]


class Braked(da.Constraint):
    """a₀ = -k v₀, enforced by a force on the first coordinate alone."""

    order = 2

    def residual(self, system, q, v, a, t):
        return a[:1] + system.parameters["k"] * v[:1]

    def force_rows(self, system, q, v, a, t):
        return jnp.zeros((1, q.shape[0])).at[0, 0].set(1.0)


def momentum(system, q, v, t):
    return jax.grad(lambda w: system.call(system.lagrangian, q, w, t=t))(v)


def lagrangian(q, v):
    return 0.5 * v @ v - 0.5 * q[0] ** 2 - 0.2 * q[1]


Q0, V0 = [0.3, 0.1], [1.0, 0.5]
ENERGY = 0.5 * (1.0 + 0.25)
OWN = da.System(lagrangian, Isokinetic(ENERGY))
KNOWN = da.System(lagrangian, da.Nonholonomic(lambda q, v: 0.5 * v @ v - ENERGY))


def test_a_run_is_that_of_the_same_equations_in_a_known_kind():
    own, known = (da.simulate(system, Q0, V0, h=0.05, steps=100) for system in (OWN, KNOWN))
    assert own.outcome is da.Outcome.SUCCESS
    assert np.allclose(own.q, known.q, rtol=0.0, atol=1e-12)
    assert np.allclose(own.multipliers, known.multipliers, rtol=0.0, atol=1e-10)
    assert np.max(np.abs(da.measure.constraint_residual(OWN, own)[0].values)) < 1e-12


def test_the_reference_keeps_it_in_machine_code_and_in_diffrax():
    times = jnp.linspace(0.0, 3.0, 7)
    native, traced = (da.reference(OWN, Q0, V0, times, backend=backend) for backend in ("native", "diffrax"))
    assert np.max(native.drift) < 1e-12
    assert np.allclose(native.q, traced.q, rtol=0.0, atol=1e-9)
    assert np.allclose(native.q, da.reference(KNOWN, Q0, V0, times).q, rtol=0.0, atol=1e-10)


def test_a_verdict_holds():
    found = da.verdict(OWN, None, Q0, V0, h=0.05, steps=100)
    assert found.holds
    assert "Isokinetic" in str(found)


def test_a_plant_with_it_is_controlled():
    def solved(system):
        task = da.OptimalControl(system, cost=lambda q, v, u: u @ u, actuated=[0, 1])
        return da.solve(task, initial=(Q0, V0), final=([1.2, 0.9], None), T=1.2, steps=40)

    own, known = solved(OWN), solved(KNOWN)
    assert own.outcome is da.Outcome.SUCCESS
    assert np.allclose(own.q, known.q, rtol=0.0, atol=1e-8)
    assert float(own.cost) == pytest.approx(float(known.cost), rel=1e-8)


def test_inconsistent_data_are_refused_by_its_name():
    with pytest.raises(da.InconsistentDataError, match=r"constraints\[0\] \(Isokinetic\) at \(q0, v0\)"):
        da.simulate(OWN, Q0, [1.0, 0.6], h=0.05, steps=1)
    projected = da.project(OWN, Q0, [1.0, 0.6])
    assert 0.5 * float(projected.v @ projected.v) == pytest.approx(ENERGY, abs=1e-12)


def test_a_residual_of_the_wrong_shape_is_refused_by_its_name():
    class Bad(da.Constraint):
        order = 1

        def residual(self, system, q, v, a, t):
            return jnp.outer(v, v)

    with pytest.raises(ValueError, match=r"constraints\[0\] \(Bad\) residual: returns shape \(2, 2\)"):
        da.simulate(da.System(lagrangian, Bad()), Q0, V0, h=0.05, steps=1)


def test_positions_by_the_default_forces():
    rail, known = Rail(), da.Holonomic(lambda q: q[1] - jnp.sin(q[0]))
    start = da.project(da.System(lagrangian, known), [0.3, 0.0], [1.0, 0.0])
    paths = [da.simulate(da.System(lagrangian, c), start.q, start.v, h=0.05, steps=50) for c in (rail, known)]
    assert rail.chetaev
    assert np.allclose(paths[0].q, paths[1].q, rtol=0.0, atol=1e-12)


def test_accelerations_with_forces_of_its_own():
    system = da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * q @ q, Braked(), parameters={"k": 0.5})
    path = da.simulate(system, Q0, V0, h=0.01, steps=200)
    assert not Braked().chetaev
    assert float(path.v[-1, 0]) == pytest.approx(np.exp(-0.5 * float(path.t_velocity[-1])), abs=1e-4)
    assert da.reference(system, Q0, V0, jnp.array([0.0, 2.0])).v[-1, 0] == pytest.approx(np.exp(-1.0), abs=1e-9)
    assert da.solvability(system, Q0, V0).solvable
