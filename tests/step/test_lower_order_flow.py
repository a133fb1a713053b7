"""Flows with a constraint of lower order than L: elastica of unit speed, against the equation of its angle."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da

TENSION, TURN = np.array([1.0, 0.5]), 1.5
ROD = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Nonholonomic(lambda q, v: 0.5 * (v @ v - 1.0)), derivatives=2)
FIRST = TENSION[0] - TURN**2  # λ(0)
START = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, TURN], [-(TURN**2), -TENSION[1]]])  # θ = 0; q⃛ = -θ̇² e - (p·n) n


@pytest.fixture(scope="module")
def exact():
    """(x, y, θ, θ̇): θ̈ = -p·n, n = (-sin θ, cos θ); λ = p·(cos θ, sin θ) - θ̇²."""

    def rate(_, z):
        c, s = np.cos(z[2]), np.sin(z[2])
        return np.array([c, s, z[3], TENSION @ [s, -c]])

    return solve_ivp(rate, (0.0, 5.0), [0.0, 0.0, 0.0, TURN], "DOP853", rtol=1e-12, atol=1e-13, dense_output=True).sol


def multiplier(z):
    return TENSION @ np.array([np.cos(z[2]), np.sin(z[2])]) - z[3] ** 2


def run(steps, time=5.0, **options):
    return da.simulate(ROD, start=da.Start(jets=START, multipliers=[[FIRST]]), h=time / steps, steps=steps, **options)


def test_positions_and_multipliers_of_second_order(exact):
    """Over half a period, with the speed one to rounding in every step. λ grew 16 times within 40 steps before."""
    errors = []
    for steps in (101, 202, 404):
        path = run(steps)
        q, free = exact(np.asarray(path.t))[:2].T, multiplier(exact(np.asarray(path.t_multipliers)))
        errors.append((np.abs(path.q - q).max(), np.abs(path.multipliers[:, 0] - free).max()))
        speed = np.linalg.norm(np.diff(path.q, axis=0), axis=1) * steps / 5.0
        assert np.abs(speed - 1.0).max() < 1e-12
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders[1], 2.0, rtol=0, atol=0.15)
    assert errors[-1][1] < 0.02


def test_a_speed_that_changes_in_time_and_a_run_that_goes_on_from_its_nodes():
    """|v| = s(t): every pair of nodes has the speed at its own middle, and a start from nodes is on the same path."""
    fast = lambda t: 1.0 + 0.3 * np.sin(4 * t)  # noqa: E731
    rod = da.VariationalProblem(
        lambda q, v, a, t: 0.5 * (1 + 0.2 * t) * a @ a,
        da.Nonholonomic(lambda q, v, t: 0.5 * (v @ v / (1.0 + 0.3 * jnp.sin(4 * t)) ** 2 - 1.0)),
        derivatives=2, time_dependent=True,
    )  # fmt: skip
    begin, h, slope, bend = 0.7, 0.02, 1.2 * np.cos(2.8), -4.8 * np.sin(2.8)
    s = fast(begin)  # q̇ = s e, q̈ = ṡ e + sω n, q⃛ = (s̈ - sω²) e + (2ṡω + sω̇) n, with ω = 1.2, ω̇ = 0.3
    jets = [[0.0, 0.0], [s, 0.0], [slope, 1.2 * s], [bend - 1.44 * s, 2.4 * slope + 0.3 * s]]
    path = da.simulate(rod, start=da.Start(jets=jets, multipliers=[[0.4]]), h=h, steps=40, t0=begin)
    q, t = np.asarray(path.q), np.asarray(path.t)
    speeds = np.linalg.norm(np.diff(q, axis=0), axis=1) / h
    np.testing.assert_allclose(speeds, fast(t[:-1] + 0.5 * h), rtol=0, atol=1e-11)
    at = 10
    free = np.interp(t[at + 1] + 0.5 * h, path.t_multipliers, path.multipliers[:, 0])
    on = da.simulate(rod, start=da.Start(nodes=q[at : at + 4], multipliers=[[free]]), h=h, steps=20, t0=t[at])
    np.testing.assert_allclose(on.q, q[at : at + len(on.q)], rtol=0, atol=1e-8)


def test_no_mode_grows_over_many_steps():
    """2·10⁴ steps, 400 units of time: parasitic roots would have grown by any power; energy and constraint stay."""
    path = run(20_000, 400.0)
    assert path.outcome is da.Outcome.SUCCESS
    assert (
        np.abs(path.multipliers).max() < 8.0
    )  # |p| + θ̇²: p·e + θ̇²/2 is constant, so that θ̇² < 2(|p| - p·e(0)) + θ̇(0)² + |p|
    steps = np.abs(np.linalg.norm(np.diff(path.q, axis=0), axis=1) / 0.02 - 1.0)
    assert steps.max() < 1e-11
    energy = da.measure.energy(ROD, path)
    assert abs(energy.slope) * 400.0 < 0.1 * energy.range
    assert energy.range < 0.02


def test_one_row_of_multipliers_is_initial_data():
    """λ̇ follows from λ and the jets; it was taken and ignored."""
    with pytest.raises(ValueError, match="constraints have the order 1, and further derivatives of λ follow"):
        da.simulate(ROD, start=da.Start(jets=START, multipliers=[[FIRST], [0.0]]), h=0.02, steps=50)


def test_both_back_ends_and_the_boundary_problem_agree():
    native, portable = run(40), run(40, solver=da.Solver(backend="jax"))
    np.testing.assert_allclose(native.q, portable.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(native.multipliers, portable.multipliers, rtol=0, atol=1e-9)
    q, t = np.asarray(native.q), np.arange(41)
    guess = q + 0.01 * np.sin(np.pi * t / 40)[:, None] ** 4
    ends = {"initial": da.Nodes(q[:2]), "final": da.Nodes(q[-2:]), "T": 5.0, "steps": 40, "seek": "extremal"}
    found = da.solve(ROD, **ends, guess=guess)
    np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-9)
    own = np.interp(native.t_multipliers, found.t_multipliers, found.multipliers[:, 0])
    assert np.abs(own - native.multipliers[:, 0])[:-1].max() < 0.02 * np.abs(own).max()  # at other times: interpolated


def test_the_flow_is_symplectic_and_keeps_momenta():
    """Ω on nodes with one row of multipliers, by the windows and not by the step; another step does not keep it."""
    path = run(100)
    q, free = np.asarray(path.q), np.asarray(path.multipliers)
    begin = len(q) - 2 - len(free)  # the node with which the window of the first multiplier begins
    given = {"nodes": q[begin + 3 : begin + 7], "multipliers": free[4:5], "h": 0.05}
    found = da.measure.symplectic_defect(ROD, **given)
    assert found.basis.shape == (
        9,
        6,
    )  # three of the four nodes' numbers are fixed by |q₁ - q₀| = h; the state of the continuous flow has as many
    assert found.relative < 1e-11
    assert np.abs(found.omega).max() > 1.0
    np.testing.assert_allclose(found.end[6:8], q[begin + 7], rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.end[-1], free[5], rtol=0, atol=1e-7)
    wrong = lambda x: jnp.concatenate([x[2:8], jnp.asarray(found.end[6:8]) + 0.01 * (x[6:8] - q[begin + 6]), x[8:]])  # noqa: E731
    assert da.measure.symplectic_defect(ROD, **given, step=wrong).relative > 1e-3
    for generator in (lambda q: jnp.array([1.0, 0.0]), lambda q: jnp.array([-q[1], q[0]])):
        assert da.measure.momentum(ROD, path, generator).range < 1e-9


def test_constraints_of_two_orders_have_no_flow():
    both = [da.Nonholonomic(lambda q, v: v[0] - q[1]), lambda q, v, a: a[2] - q[0]]
    mixed = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, both, derivatives=2)
    with pytest.raises(ValueError, match="some of order 1 and some of order 2"):
        da.simulate(mixed, start=da.Start(jets=np.zeros((4, 3)), multipliers=np.zeros((2, 2))), h=0.1, steps=10)
