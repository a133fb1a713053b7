"""Time as a variable: the discrete energy, meshes that distribute themselves, steps of their own length."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

BEAM = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + 24.0 * q[0], derivatives=2)


def free_mesh(problem, steps=16):
    t = np.linspace(0.0, 1.0, steps + 1)
    even = da.solve(problem, initial=([0.0], [0.0]), final=([0.0], [0.0]), T=1.0, steps=steps)
    nodes = np.stack([t, np.asarray(even.q[:, 0])], axis=1)
    with_time = da.with_time(problem)
    ends = {"initial": da.Nodes(nodes[:2]), "final": da.Nodes(nodes[-2:]), "T": 1.0, "steps": steps}
    return with_time, da.solve(with_time, **ends, scheme=da.Points(), guess=nodes, seek="extremal")


def test_free_nodes_keep_the_energy():
    with_time, s = free_mesh(BEAM)
    energies = np.asarray(da.energies(with_time, s.q))
    assert np.ptp(energies) < 1e-9 * abs(energies[0])
    even = np.array(s.q)
    even[:, 0] = np.linspace(0.0, 1.0, 17)
    assert np.ptp(np.asarray(da.energies(with_time, even))) > 1e-4
    steps = np.diff(np.asarray(s.q[:, 0]))
    assert 1.05 < steps.max() / steps.min() < 2.0  # the mesh has moved, and not run away
    np.testing.assert_allclose(steps, steps[::-1], atol=1e-9)  # as symmetric as the beam


def test_energy_changes_by_the_explicit_dependence_on_time():
    """E_i - E_{i-1} = -(h_i + h_{i+1})/k ∂L_d/∂t of the window that begins at i."""
    problem = da.VariationalProblem(
        lambda q, v, a, t: 0.5 * (1 + 0.02 * t) * a @ a + 24.0 * (1 + 0.05 * t) * q[0], derivatives=2, time_dependent=True
    )
    with_time, s = free_mesh(problem)
    x = np.asarray(s.q)
    jumps = np.diff(np.asarray(da.energies(with_time, x)))
    for i in range(len(jumps)):
        window = x[i + 2 : i + 5]
        shift = 1e-6 * np.array([1.0, 0.0])
        action = [float(with_time.lagrangian(*(jnp.asarray(y + sign * shift) for y in window))) for sign in (1, -1)]
        assert jumps[i] == pytest.approx(-(action[0] - action[1]) / 2e-6, abs=1e-6)


def test_fixed_steps_as_constraints_leave_the_q_equation_alone():
    steps = 10
    t = np.linspace(0.0, 1.0, steps + 1)
    nodes = np.stack([t, -(t**2) * (1 - t) ** 2], axis=1)
    with_time = da.with_time(BEAM, step=lambda *q: 1.0 / steps + 0.0 * q[0][0])
    ends = {"initial": da.Nodes(nodes[:2]), "final": da.Nodes(nodes[-2:-1].tolist() + nodes[-1:].tolist())}
    plain = da.solve(BEAM, initial=da.Nodes(nodes[:2, 1:]), final=da.Nodes(nodes[-2:, 1:]), T=1.0, steps=steps)
    free = da.with_time(BEAM)
    fixed = da.VariationalProblem(free.lagrangian, with_time.differential[0][1], derivatives=2)
    x = np.array(nodes)
    x[:, 1] = np.asarray(plain.q[:, 0])
    # The q equations of the problem with time at fixed steps vanish on the plain solution; those of t fix the multipliers.
    from dalembert.solve.prepare import Request, prepare
    from dalembert.solve.transcription import first_values, transcribe

    base = prepare(fixed, [Request(ends["initial"], ends["final"], None, x)], 1.0, steps, None, da.Points())
    made = transcribe(fixed, base.windows, 2, base.fixed, base.values[0])
    gradient = made.chain.evaluate(first_values(fixed, made, x[None])[0]).gradient[:, made.layout.part("slots")]
    assert np.max(np.abs(gradient[:, 1])) < 1e-10
    assert np.max(np.abs(gradient[:, 0])) > 1e-6


def test_hermite_nodes_move_to_where_the_action_is_less():
    load = da.VariationalProblem(
        lambda q, v, a, t: 0.5 * a @ a + 4000.0 * jnp.exp(-30 * t) * q[0], derivatives=2, time_dependent=True
    )
    clamped = {"initial": ([0.0], [0.0]), "final": ([0.0], [0.0]), "T": 1.0, "scheme": da.Hermite()}
    exact = float(da.solve(load, **clamped, steps=256).action)
    even = da.solve(load, **clamped, steps=4)
    nodes = np.concatenate([np.asarray(even.t)[:, None], even.q, even.v], axis=1)
    ends = {"initial": da.Nodes(nodes[:1]), "final": da.Nodes(nodes[-1:])}
    s = da.solve(da.with_time(load, da.Hermite()), **ends, T=1.0, steps=4, scheme=da.Points(), guess=nodes, throw=False)
    assert abs(float(s.action) - exact) < 0.5 * abs(float(even.action) - exact)


def test_steps_of_their_own_length_keep_energy_and_end_with_an_outcome():
    quartic = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 0.25 * q[0] ** 4)
    with pytest.raises(da.StepError) as error:
        da.simulate_free_steps(quartic, [[0.0], [0.1]], [0.0, 0.1], steps=200)
    path = error.value.path
    x = np.column_stack([path.t, path.q])[:100]
    energies = np.asarray(da.energies(da.with_time(quartic), x))
    assert np.ptp(energies) < 1e-10
    steps = np.diff(x[:, 0])
    assert steps.max() > 1.2 * steps.min() > 0.0
    assert path.outcome.failed
    assert path.steps > 100


def test_no_positive_step_is_an_outcome():
    """At rest at a turning point the next equation of energy has no positive step: the path ends there and says so."""
    quartic = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 0.25 * q[0] ** 4)
    path = da.simulate_free_steps(quartic, [[1.0], [0.999]], [0.0, 0.05], steps=50, throw=False)
    assert path.outcome is da.Outcome.NO_POSITIVE_STEP
    assert "fixed steps" in path.describe()
    onward = da.simulate(quartic, nodes=path.q[-2:], h=float(path.t[-1] - path.t[-2]), steps=20)
    assert onward.outcome is da.Outcome.SUCCESS


def test_bad_nodes_are_named():
    quartic = da.VariationalProblem(lambda q, v: 0.5 * v @ v)
    with pytest.raises(ValueError, match="nodes, times: found shapes"):
        da.simulate_free_steps(quartic, [[0.0]], [0.0], steps=5)
    with pytest.raises(ValueError, match="they must increase"):
        da.simulate_free_steps(quartic, [[0.0], [0.1]], [0.1, 0.0], steps=5)
