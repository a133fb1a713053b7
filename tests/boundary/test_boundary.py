"""Boundary problems against dense oracles, closed forms and orders."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

SCHEMES = [da.Interpolated(), da.Averaged(), da.Hermite()]


def curve(q, v, a, t, p):
    """A nonlinear Lagrangian of second order that depends on time."""
    bend = 0.5 * (1.0 + 0.3 * jnp.sin(q[0]) + p["mu"] * t) * a[0] ** 2 + 0.5 * a[1] ** 2
    return bend + v[0] * v[1] * q[1] + jnp.cos(3 * t) * q[0] + 0.1 * q[0] ** 2 * a[1]


def law(q, v, a, t, p):
    return a[1] - jnp.sin(q[0]) - 0.5 * v[0]


CURVE = da.VariationalProblem(curve, derivatives=2, parameters={"mu": 0.5}, time_dependent=True)
BOUND = da.VariationalProblem(curve, law, derivatives=2, parameters={"mu": 0.5}, time_dependent=True)
BEAM = da.VariationalProblem(lambda q, v, a: 0.5 * 2.0 * a @ a + 48.0 * q[0], derivatives=2)


def dense_extremal(problem, nodes, fixed, h, averaged):
    """Newton's method on the dense KKT system of Σ L_d(q_i, q_{i+1}, q_{i+2}), written from the definition: (q, λ)."""
    n, number = nodes.shape[1], len(nodes) - 2
    size = int(np.sum(~fixed)) * n
    index = np.arange(number)[:, None] + np.arange(3)

    def window(x, t, multiplier):
        q = jnp.mean(x, axis=0) if averaged else x[1]
        jet = (q, (x[2] - x[0]) / (2 * h), (x[2] - 2 * x[1] + x[0]) / h**2, t, problem.parameters)
        return h * curve(*jet) + (h * multiplier * law(*jet) if problem.differential else 0.0)

    def augmented(z):
        path = jnp.asarray(nodes).at[~fixed].set(z[:size].reshape(-1, n))
        multipliers = z[size:] if problem.differential else jnp.zeros(number)
        return jnp.sum(jax.vmap(window)(path[index], h * (1 + np.arange(number)), multipliers))

    z = jnp.concatenate([jnp.asarray(nodes[~fixed]).ravel(), jnp.zeros(number if problem.differential else 0)])
    newton = jax.jit(lambda z: z - jnp.linalg.solve(jax.hessian(augmented)(z), jax.grad(augmented)(z)))
    for _ in range(10):
        z = newton(z)
    return jnp.asarray(nodes).at[~fixed].set(z[:size].reshape(-1, n)), z[size:]


@pytest.mark.parametrize("problem", [CURVE, BOUND], ids=["free", "constrained"])
def test_agrees_with_a_dense_kkt_system(problem):
    steps = 12
    near = da.solve(problem, initial=([0.0, 0.1], [0.3, 0.0]), final=([0.5, 0.0],), T=1.0, steps=steps)
    nodes, scheme = np.asarray(near.q), da.Averaged()
    fixed = np.isin(np.arange(steps + 1), [0, 1, steps - 1, steps])
    ends = {"initial": da.Nodes(nodes[:2]), "final": da.Nodes(nodes[-2:])}
    found = da.solve(problem, **ends, T=1.0, steps=steps, scheme=scheme, guess=nodes)
    q, multipliers = dense_extremal(problem, nodes, fixed, 1.0 / steps, averaged=True)
    assert np.max(np.abs(q - nodes)) > 1e-6  # another scheme: Newton's method had something to do
    assert np.max(np.abs(found.q - q)) < 1e-10
    if problem.differential:
        scale = 1.0 + np.max(np.abs(multipliers))
        assert np.max(np.abs(found.multipliers[:, 0] - multipliers)) < 1e-9 * scale


@pytest.fixture(scope="module")
def fine():
    return da.solve(
        CURVE, initial=([0.0, 0.1], [0.3, 0.0]), final=([0.5, 0.0], [0.0, 0.2]), T=1.0, steps=128, scheme=da.Hermite()
    )


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: s.name)
def test_order_of_positions_and_of_momenta(scheme, fine):
    """Ends by (q, v) through windows with coinciding knots cost no order."""
    errors, momenta = [], []
    for steps in (16, 32):
        s = da.solve(
            CURVE, initial=([0.0, 0.1], [0.3, 0.0]), final=([0.5, 0.0], [0.0, 0.2]), T=1.0, steps=steps, scheme=scheme
        )
        errors.append(np.max(np.abs(s.q - fine.q[:: 128 // steps])))
        momenta.append(np.max(np.abs(s.momenta_initial - fine.momenta_initial)))
        assert s.kind == "minimum"
    order = scheme.order(2)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)
    assert np.log2(momenta[0] / momenta[1]) == pytest.approx(order, abs=0.3)


def test_momenta_are_those_of_ostrogradsky(fine):
    """p⁽¹⁾ = L_a, p⁽⁰⁾ = L_v - d/dt L_a along the interpolated extremal, to the order of its differences."""
    p = CURVE.parameters

    def slopes(i):
        jet, t = [fine.jets[i, j] for j in range(3)], fine.t_multipliers[i]
        return [np.asarray(jax.grad(curve, argnums=j)(*jet, t, p)) for j in (1, 2)]

    times = np.asarray(fine.t_multipliers[:8])
    values = np.array([slopes(i) for i in range(8)])
    highest = np.polynomial.Polynomial.fit
    for i in range(2):
        curve_a = highest(times, values[:, 1, i], 4)
        curve_v = highest(times, values[:, 0, i], 4)
        assert float(fine.momenta_initial[1, i]) == pytest.approx(curve_a(0.0), abs=1e-5)
        assert float(fine.momenta_initial[0, i]) == pytest.approx(curve_v(0.0) - curve_a.deriv()(0.0), abs=1e-3)


def test_node_exact_on_cubics_and_well_conditioned():
    """Clamped fourth differences: the literal system loses all digits at N = 10⁵."""
    free = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
    for steps in (20, 100_000):
        t = np.linspace(0.0, 1.0, steps + 1)[:, None]
        cubic = t**3 - t
        s = da.solve(free, initial=da.Nodes(cubic[:2]), final=da.Nodes(cubic[-2:]), T=1.0, steps=steps, certify=steps < 100)
        assert np.max(np.abs(s.q - cubic)) < (1e-14 if steps == 20 else 1e-9)


def test_closed_forms_of_beam_and_minimum_jerk():
    s = da.solve(BEAM, initial=([0.0], [0.0]), final=([0.0], [0.0]), T=1.0, steps=40, scheme=da.Hermite())
    t = np.asarray(s.t)
    assert np.max(np.abs(s.q[:, 0] + t**2 * (1 - t) ** 2)) < 1e-14
    jerk = da.VariationalProblem(lambda q, v, a, j: 0.5 * j @ j, derivatives=3)
    rest = {"initial": ([0.0], [0.0], [0.0]), "final": ([1.0], [0.0], [0.0]), "T": 1.0}
    exact = da.solve(jerk, **rest, steps=20, scheme=da.Hermite())
    t = np.asarray(exact.t)
    assert np.max(np.abs(exact.q[:, 0] - (10 * t**3 - 15 * t**4 + 6 * t**5))) < 1e-13


def test_vakonomic_heisenberg_problem_has_action_pi():
    """0 → (0, 0, 1) in time 1: one circle, min ½∫|u|² = π; its rotations about the axis are others: a flat direction."""
    problem = da.VariationalProblem(
        lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2), da.Nonholonomic(lambda q, v: v[2] - (q[1] * v[0] - q[0] * v[1]))
    )
    errors = []
    for steps in (20, 40):
        angle = np.linspace(0.0, 2 * np.pi, steps + 1)
        guess = np.stack([0.3 * (1 - np.cos(angle)), 0.3 * np.sin(angle), 0 * angle], axis=1)
        s = da.solve(problem, initial=([0.0, 0.0, 0.0],), final=([0.0, 0.0, 1.0],), T=1.0, steps=steps, guess=guess)
        errors.append(float(s.action) - np.pi)
        assert s.kind == "degenerate"
    assert errors[1] < 0.01
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.05)


def test_mechanical_action_over_long_time_is_a_saddle_with_as_many_negative_directions_as_conjugate_points():
    pendulum = da.VariationalProblem(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))
    t = np.linspace(0.0, 10.0, 401)
    ends = {"initial": ([1.0],), "final": ([-0.9989498146238507],)}
    s = da.solve(pendulum, **ends, T=10.0, steps=400, seek="extremal", guess=np.cos(2 * np.pi * t / 6.7)[:, None])
    assert abs(float(s.momenta_initial[0, 0])) < 1e-3  # it starts at rest
    assert s.kind == "saddle, 2 negative directions"  # half periods: 3.35, 6.70 < 10 < 10.05


def test_natural_end_has_no_momentum():
    s = da.solve(CURVE, initial=([0.0, 0.1], [0.3, 0.0]), final=([0.5, 0.0],), T=1.0, steps=30)
    assert np.max(np.abs(s.momenta_final[1])) < 1e-10
    assert np.max(np.abs(s.momenta_final[0])) > 0.1


def test_points_between_and_uneven_times():
    t = np.linspace(0.0, 1.0, 41) ** 1.2
    points = {float(t[10]): [0.4, 0.0], float(t[25]): [-0.1, 0.3]}
    ends = {"initial": ([0.0, 0.1], [0.3, 0.0]), "final": ([0.5, 0.0], [0.0, 0.2])}
    one = da.solve(CURVE, **ends, through=points, times=t)
    two = da.solve(CURVE, **ends, through=points, times=t, scheme=da.Hermite())
    assert np.max(np.abs(one.q - two.q)) < 5e-3
    for time, point in points.items():
        assert np.max(np.abs(one.interpolate(time) - np.array(point))) < 1e-15


def test_refinement_and_warm_start():
    ends = {"initial": ([0.0, 0.1], [0.3, 0.0]), "final": ([0.5, 0.0],), "T": 1.0}
    coarse = da.solve(BOUND, **ends, steps=20)
    fine = da.solve(BOUND, **ends, steps=40, guess=coarse)
    again = da.solve(BOUND, **ends, steps=40, guess=fine)
    cold = da.solve(BOUND, **ends, steps=40)
    assert int(again.statistics.iterations) < int(cold.statistics.iterations)
    assert np.max(np.abs(again.q - cold.q)) < 1e-9
    assert np.max(np.abs(again.multipliers - cold.multipliers)) < 1e-7
    other, bare = [da.solve(BOUND.replace(mu=0.7), **ends, steps=40, guess=guess) for guess in (fine, None)]
    assert np.max(np.abs(other.q - bare.q)) < 1e-9  # and not what it was begun with
    assert np.max(np.abs(other.q - fine.q)) > 1e-3


def test_discrete_lagrangian_given_directly():
    h = 0.05
    direct = da.VariationalProblem(
        lambda x, y, z: 0.5 * jnp.sum((z - 2 * y + x) ** 2) / h**3 + h * jnp.sin(y[0]), derivatives=2
    )
    usual = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + jnp.sin(q[0]), derivatives=2)
    ends = {"initial": da.Nodes([[0.0], [0.1]]), "final": da.Nodes([[1.0], [0.9]]), "T": 1.0, "steps": 20}
    assert np.max(np.abs(da.solve(direct, **ends, scheme=da.Points()).q - da.solve(usual, **ends).q)) < 1e-12


def test_portable_sums_agree_with_machine_code():
    from dalembert.boundary import (
        CompiledAssembly,
        Elements,
        JaxAssembly,
        Request,
        TimeGrid,
        first_values,
        prepare_problem,
        transcribe,
    )
    from dalembert.boundary.kkt.terms import TermList

    problem = da.VariationalProblem(
        lambda q, v, t, p: 0.5 * p["m"] * v @ v + t * q[0] ** 3,
        [da.Nonholonomic(lambda q, v, t, p: v[1] - q[0] * v[0]), da.Holonomic(lambda q, t, p: q @ q - 1 - t)],
        parameters={"m": 0.5}, time_dependent=True,
    )  # fmt: skip
    start = ([0.6, 0.8],)
    base = prepare_problem(problem, [Request(start)], TimeGrid(1.0, 8), None)
    made = transcribe(base.unknowns, base.values[0], base.typical_sizes(np.array([2.0, 3.0])))
    z = first_values(made, base.values)[0] + 0.1
    machine = made.kkt.assembly
    assert isinstance(machine, CompiledAssembly)
    random = np.random.default_rng(1).standard_normal((2, *z.shape))
    elements = Elements(machine.terms, TermList(made).data, made.problem.parameters)
    portable = JaxAssembly(elements, made.kkt.fixed, made.kkt.units, random)
    for one, other in zip(machine.evaluate(z), portable.evaluate(z), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    bands = [np.zeros((z.size, made.kkt.width)) for _ in range(2)]
    for sums, band in zip((machine, portable), bands, strict=True):
        sums.add_entries(z, band, made.kkt.position, made.kkt.lower, None)
    np.testing.assert_allclose(bands[0], bands[1], rtol=1e-11, atol=1e-11)


def test_a_batch_is_solved_where_the_system_does_not_tell_its_processors(monkeypatch):
    """As on macOS and Windows."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    problem = da.VariationalProblem(lambda q, v: 0.5 * v @ v)
    found = da.solve_batch(problem, initial=(np.zeros((2, 1)),), final=(np.array([[1.0], [2.0]]),), T=1.0, steps=4)
    for s, end in zip(found, (1.0, 2.0), strict=True):
        np.testing.assert_allclose(s.q[:, 0], np.linspace(0.0, end, 5), rtol=0, atol=1e-14)
