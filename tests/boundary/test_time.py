"""Time as a variable: the discrete energy, meshes that distribute themselves, steps of their own length."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

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
    np.testing.assert_allclose(steps, steps[::-1], rtol=0, atol=1e-9)  # as symmetric as the beam


class Forward(da.WindowMap):
    """(q₀, (q₁-q₀)/h) at the first of two nodes."""

    name = "forward"

    def order(self, k):
        return 1

    def points(self, positions):
        return [(0 * positions[0], positions[-1])]


def test_windows_of_ones_own_keep_their_point():
    problem = da.VariationalProblem(lambda q, v, t: t * (0.5 * v @ v - q[0] ** 4), time_dependent=True)
    action = da.with_time(problem, Forward()).lagrangian(jnp.array([0.5, 1.0]), jnp.array([0.7, 1.4]))
    np.testing.assert_allclose(action, 0.2 * 0.5 * (0.5 * 2.0**2 - 1.0), rtol=1e-14)


def test_energies_are_those_of_the_constrained_lagrangian():
    """Without λᵀΦ_d they vary; with the multipliers they are constant, of a Solution and of a Path of free steps."""
    rolling = da.Nonholonomic(lambda q, v: v[1] - q[0] - 0.2)
    problem = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a + 24.0 * q[0], rolling, derivatives=2)
    ends = {"initial": ([0.0, 0.0], [0.0, 0.2]), "final": ([0.0, 0.18], [0.0, 0.2])}
    even = da.solve(problem, **ends, T=1.0, steps=12)
    nodes, with_time = np.column_stack([even.t, even.q]), da.with_time(problem)
    ends = {"initial": da.Nodes(nodes[:2]), "final": da.Nodes(nodes[-2:])}
    s = da.solve(with_time, **ends, T=1.0, steps=12, scheme=da.Points(), guess=nodes, seek="extremal")
    assert np.ptp(np.asarray(da.energies(with_time, s))) < 1e-12
    assert np.ptp(np.asarray(da.energies(with_time, s.q, 0 * s.multipliers))) > 0.1
    with pytest.raises(ValueError, match="multipliers: are missing"):
        da.energies(with_time, s.q)
    with pytest.raises(ValueError, match="multipliers: found"):
        da.energies(with_time, s, s.multipliers)

    contact = da.Nonholonomic(lambda q, v: v[2] - (q[1] * v[0] - q[0] * v[1]) - 0.5 - q[0])
    free = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 0.3 * (q[0] ** 2 + q[0] ** 4) - 0.2 * q[1] ** 2, contact)
    first = np.array([0.3, -0.2, 0.1])
    step = 0.05 * np.array([1.0, 0.5, 0.0])
    m = first + 0.5 * step
    step[2] = m[1] * step[0] - m[0] * step[1] + 0.05 * (0.5 + m[0])
    path = da.step.simulate_free_steps(free, [first, first + step], [0.0, 0.05], steps=200, multipliers=[[0.7]])
    assert np.ptp(np.diff(path.t)) > 1e-3  # the steps do change
    assert np.ptp(np.asarray(da.energies(da.with_time(free), path))) < 1e-11
    with pytest.raises(ValueError, match=r"problem: .* give with_time\(problem\)"):
        da.energies(free, path)  # whose nodes (t, q) it would take for q
    bare = np.column_stack([path.t, path.q])
    assert np.ptp(np.asarray(da.energies(da.with_time(free), bare, np.zeros((len(bare) - 1, 1))))) > 0.1


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
    free_time = da.with_time(BEAM)
    fixed = da.VariationalProblem(free_time.lagrangian, with_time.differential[0][1], derivatives=2)
    x = np.array(nodes)
    x[:, 1] = np.asarray(plain.q[:, 0])
    # The q equations of the problem with time at fixed steps vanish on the plain solution, whatever the multipliers are.
    from dalembert.boundary import Request, TimeGrid, first_values, prepare_problem, transcribe

    base = prepare_problem(fixed, [Request(ends["initial"], ends["final"], None, x)], TimeGrid(1.0, steps), da.Points())
    made = transcribe(base.unknowns, base.values[0], base.typical_sizes(np.ones(2)))
    z = first_values(made, x[None])[0]
    free = np.random.default_rng(0).standard_normal((len(made.windows.times), 1))
    z[made.carriers, made.layout.part("multipliers")] = free
    gradient = made.kkt.evaluate(z).gradient[2:-2, made.layout.part("slots")]
    assert np.max(np.abs(gradient[:, 1])) < 1e-10
    # E_{i} - E_{i-1} + λ_{i-1} - λ_i is the equation of t_i: the multiplier is the energy, which is not constant here.
    energies = np.asarray(da.energies(free_time, x))
    np.testing.assert_allclose(gradient[:, 0] - (free[1:-1] - free[2:])[:, 0], np.diff(energies), rtol=0, atol=1e-9)
    assert np.ptp(energies) > 1e-6


def test_hermite_nodes_move_to_where_the_action_is_less():
    load = da.VariationalProblem(  # one that falls faster leaves the time of the third node open: the error is gone by then
        lambda q, v, a, t: 0.5 * a @ a + 4000.0 * jnp.exp(-10 * t) * q[0], derivatives=2, time_dependent=True
    )
    clamped = {"initial": ([0.0], [0.0]), "final": ([0.0], [0.0]), "T": 1.0, "scheme": da.Hermite()}
    exact = float(da.solve(load, **clamped, steps=256).action)
    even = da.solve(load, **clamped, steps=4)
    nodes = np.concatenate([np.asarray(even.t)[:, None], even.q, even.v], axis=1)
    ends = {"initial": da.Nodes(nodes[:1]), "final": da.Nodes(nodes[-1:])}
    s = da.solve(da.with_time(load, da.Hermite()), **ends, T=1.0, steps=4, scheme=da.Points(), guess=nodes)
    assert s.outcome is da.Outcome.SUCCESS
    assert float(s.statistics.residual) < 1e-12
    assert float(s.q[1, 0]) < 0.1  # the load falls to 1/e at 0.1
    assert abs(float(s.action) - exact) < 0.5 * abs(float(even.action) - exact)


def test_no_positive_step_is_an_outcome():
    """The error density changes its sign; the path ends there, says when, and fixed steps go on."""
    quartic = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 0.25 * q[0] ** 4)
    given = {"nodes": [[1.0], [0.999]], "times": [0.0, 0.05], "steps": 200}
    path = da.step.simulate_free_steps(quartic, **given, throw=False)
    assert path.outcome is da.Outcome.NO_POSITIVE_STEP
    assert 20 < path.steps < 199
    assert path.statistics.failed_time == path.t[-1]
    assert np.diff(path.t).min() > 0
    energies = np.asarray(da.energies(da.with_time(quartic), np.column_stack([path.t, path.q])))
    assert np.ptp(energies) < 1e-12
    assert "fixed steps" in path.describe()
    h = float(path.t[-1] - path.t[-2])
    for nodes in (path.q[-2:], path.interpolate(path.t[-1] - h * np.arange(2)[::-1])[0]):
        assert da.simulate(quartic, start=da.Start(nodes=nodes), h=h, steps=20).outcome is da.Outcome.SUCCESS
    with pytest.raises(da.StepError):
        da.step.simulate_free_steps(quartic, **given)


def kepler(t, e=0.3):
    """The closed form, semi-major axis and GM one."""
    eccentric = t
    for _ in range(30):
        eccentric -= (eccentric - e * np.sin(eccentric) - t) / (1 - e * np.cos(eccentric))
    return np.array([np.cos(eccentric) - e, np.sqrt(1 - e * e) * np.sin(eccentric)])


def test_steps_of_their_own_length_along_ten_orbits():
    """k = 1: the root opposite, h < 0, is as near as the right one; energy and angular momentum to rounding of Δq/h."""
    problem = da.VariationalProblem(lambda q, v: 0.5 * v @ v + 1 / jnp.sqrt(q @ q))
    path = da.step.simulate_free_steps(problem, [kepler(3.0), kepler(3.05)], [3.0, 3.05], steps=1500)
    assert path.outcome is da.Outcome.SUCCESS
    steps = np.diff(path.t)
    assert 2.0 < steps.max() / steps.min() < 3.0
    assert float(path.t[-1]) > 40.0
    energies = np.asarray(da.energies(da.with_time(problem), np.column_stack([path.t, path.q])))
    assert np.ptp(energies) < 1e-11
    middle = 0.5 * (path.q[1:] + path.q[:-1])
    cross, radius = middle[:, 0] * path.v[:, 1] - middle[:, 1] * path.v[:, 0], np.linalg.norm(middle, axis=1)
    assert np.ptp(cross * (1 + steps**2 / (4 * radius**3))) < 1e-11  # q × D₂L_d


def test_free_steps_on_a_sphere():
    """The constraint to rounding; the force at a node balances gravity and the discrete acceleration of uneven steps."""
    pendulum = da.VariationalProblem(lambda q, v: 0.5 * v @ v - q[2], da.Holonomic(lambda q: q @ q - 1))
    nodes = [[0.6, 0.0, -0.8], [0.55, 0.06, -np.sqrt(1 - 0.55**2 - 0.06**2)]]
    path = da.step.simulate_free_steps(pendulum, nodes, [0.0, 0.05], steps=20)
    assert np.abs(np.sum(np.asarray(path.q) ** 2, axis=1) - 1).max() < 1e-15
    steps, v = np.diff(path.t), np.asarray(path.v)
    assert steps.max() > 1.3 * steps.min()
    a = np.diff(v, axis=0) / (0.5 * (steps[1:] + steps[:-1]))[:, None]
    np.testing.assert_allclose(path.constraint_forces, a + np.array([0, 0, 1.0]), rtol=0, atol=1e-11)


def turn(q, v, a):
    """Nonlinear, bounded near circles about the origin."""
    return 0.5 * a @ a - 1.25 * v @ v + 0.5 * q @ q + 0.05 * (q @ q) ** 2


TURN = da.VariationalProblem(turn, derivatives=2)


def turned(t):
    """(q, v) at the times t by Euler and Lagrange: q⁗ + 5/2 q̈ + q + |q|² q/5 = 0."""

    def rate(_, x):
        q, v, a, j = x.reshape(4, 2)
        return np.concatenate([v, a, j, -2.5 * a - q - 0.2 * (q @ q) * q])

    start = np.array([1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0, -1.0])
    found = solve_ivp(rate, (0.0, max(t)), start, "DOP853", t, rtol=1e-12, atol=1e-13)
    return found.y.T.reshape(-1, 4, 2)[:, :2]


def test_steps_of_their_own_length_of_second_order():
    path = da.step.simulate_free_steps(TURN, turned([0.0, 0.3]), [0.0, 0.3], steps=1200)
    steps = np.diff(path.t)
    assert 1.2 < steps.max() / steps.min() < 2.0
    x = np.column_stack([path.t, path.q, path.v])
    energies = np.asarray(da.energies(da.with_time(TURN, da.Hermite()), x))
    assert np.ptp(energies) < 1e-9  # ε|q|·12/h³ is 1e-13 in a step, and adds up
    at = int(np.searchsorted(path.t, 10.0))
    np.testing.assert_allclose(np.stack([path.q[at], path.v[at]]), turned([0.0, float(path.t[at])])[1], rtol=0, atol=1e-3)


def test_windows_of_nodes_double_a_deviation_of_the_steps():
    """δ_{i+1} = -2δ_i near a circle, where κ/g is small: here the recursion of the paper's adaptive method is unstable."""
    runs = []
    for late in (0.0, 1e-7):
        times = 0.1 * np.arange(4) + late * np.array([0, 0, 0, 1])
        path = da.step.simulate_free_steps(TURN, turned(times)[:, 0], times, steps=11, scheme=da.Interpolated(), throw=False)
        runs.append(np.diff(path.t))
    count = min(len(x) for x in runs)
    deviation = runs[1][:count] - runs[0][:count]
    np.testing.assert_allclose(deviation[-3:] / deviation[-4:-1], -2.0, rtol=0.15)


def test_windows_of_nodes_keep_a_deviation_of_the_steps_bounded():
    """L = ½(q̈² - q²) along q = exp t: g = κ/8, so that 4(δ_{i-1} + δ_{i+1}) + δ_i = 0; steps with h³g constant."""
    problem = da.VariationalProblem(lambda q, v, a: 0.5 * (a @ a - q @ q), derivatives=2)
    start, runs = 1.5 * np.log1p(0.02 / 1.5 * np.arange(4)), []
    for late in (0.0, 1e-5):
        times = start + late * np.array([0, 0, 0, 1])
        given = {"steps": 100, "scheme": da.Interpolated()}
        runs.append(da.step.simulate_free_steps(problem, np.exp(times)[:, None], times, **given))
    plain, moved = runs
    np.testing.assert_allclose(np.diff(plain.t)[20:], 0.02 * np.exp(-2 / 3 * plain.t[20:-1]), rtol=0.02)
    np.testing.assert_allclose(plain.q[:, 0], np.exp(plain.t), rtol=1e-4)
    deviation = np.diff(moved.t) - np.diff(plain.t)
    assert np.abs(deviation).max() < 3e-5
    swings = np.diff(deviation[3:], 2)  # without what the steps change by smoothly
    assert np.abs(swings[-20:]).max() < 2.0 * np.abs(swings[:20]).max()
    assert (swings[2:] + swings[:-2]) @ swings[1:-1] / (swings[1:-1] @ swings[1:-1]) == pytest.approx(-0.25, abs=0.03)


def test_bad_nodes_are_named():
    quartic = da.VariationalProblem(lambda q, v: 0.5 * v @ v)
    with pytest.raises(ValueError, match="nodes, times: found shapes"):
        da.step.simulate_free_steps(quartic, [[0.0]], [0.0], steps=5)
    with pytest.raises(ValueError, match="they must increase"):
        da.step.simulate_free_steps(quartic, [[0.0], [0.1]], [0.1, 0.0], steps=5)
    second = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, lambda q, v, a: a[0], derivatives=2)
    with pytest.raises(ValueError, match="give q and its first 1 derivatives at two times"):
        da.step.simulate_free_steps(second, [[0.0], [0.1]], [0.0, 0.1], steps=5)
    with pytest.raises(ValueError, match="steps: found 1; the start gives 2 nodes"):
        da.step.simulate_free_steps(quartic, [[0.0], [0.1]], [0.0, 0.1], steps=1)
    with pytest.raises(da.RankDeficientError, match="singular Lagrangian"):
        da.step.simulate_free_steps(da.VariationalProblem(lambda q, v: q @ q), [[0.0], [0.1]], [0.0, 0.1], steps=5)
    with pytest.raises(ValueError, match=r"multipliers: are missing; with 2 differential constraints of order 1"):
        da.step.simulate_free_steps(second, [[[0.0], [1.0]], [[0.1], [1.0]]], [0.0, 0.1], steps=5)
