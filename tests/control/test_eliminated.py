"""Controls eliminated by the equations of motion, the paper's form: the same limit, order 4, and a symplectic flow."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicHermiteSpline

import dalembert as da

STILL = [0.0, 0.0]
ENDS = {"initial": (STILL, STILL), "final": ([1.0, 1.0], STILL), "T": 2.0}


def pulled(q, v):
    """Two masses and a stiffening spring; only the first one has a motor."""
    return 0.5 * v @ v - 2.0 * (q[1] - q[0]) ** 2 - (q[1] - q[0]) ** 4


PULL = da.OptimalControl(da.System(pulled), cost=lambda q, v, u: u @ u, actuated=0)
SWING = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0])), cost=lambda q, v, u: u @ u, actuated=0)
UP = {"initial": ([0.0], [0.0]), "final": ([3.0], [0.0]), "T": 2.0}


@pytest.fixture(scope="module")
def both():
    """With forces as unknowns, and on three nodes between the two nodes that this has at each end."""
    base, h = da.solve(PULL, **ENDS, steps=20), 0.1
    ends = {"initial": da.Nodes(base.q[:2]), "final": da.Nodes(base.q[-2:]), "T": 2.0, "steps": 20, "scheme": da.Points()}
    problem = da.control.eliminate(PULL, step=h)
    return base, da.solve(problem, **ends, guess=base.q + 0.05 * np.sin(np.pi * base.t)[:, None] ** 4)


def test_it_is_the_same_problem_but_for_the_ends(both):
    """The paths agree, and the costs but for u_0 and u_N, which the paper's leaves out."""
    base, found = both
    np.testing.assert_allclose(found.q, base.q, rtol=0, atol=1e-8)
    ends = float(base.u[0] @ base.u[0] + base.u[-1] @ base.u[-1])
    assert float(found.action) + 0.05 * ends == pytest.approx(float(base.cost), rel=1e-10)
    assert found.kind == "minimum"


def test_hermite_windows_have_order_four_and_the_same_limit():
    """A pendulum swung up: the extrapolated cost with forces as unknowns, and costates that are momenta."""
    forced = [da.solve(SWING, **UP, steps=steps) for steps in (20, 40, 80)]
    coarse, fine = ((4 * float(b.cost) - float(a.cost)) / 3 for a, b in itertools.pairwise(forced))
    problem = da.control.eliminate(SWING)
    found = [da.solve(problem, **UP, steps=steps, scheme=da.Hermite()) for steps in (10, 20, 40)]
    costs = [float(s.action) for s in found]
    assert np.log2((costs[0] - costs[1]) / (costs[1] - costs[2])) == pytest.approx(4.0, abs=0.1)
    assert costs[2] + (costs[2] - costs[1]) / 15 == pytest.approx(fine + (fine - coarse) / 15, rel=1e-7)
    slope = (4 * forced[2].costates_final - forced[1].costates_final) / 3
    np.testing.assert_allclose(found[2].momenta_final, slope, rtol=1e-4)


def test_the_flow_of_the_control_problem_is_symplectic():
    """Υ*Ω = Ω at generic nodes of a pendulum's control; with constraints: docs/papers."""
    nodes = np.array([[0.3], [0.35], [0.45], [0.7]])
    defect = da.measure.symplectic_defect(da.control.eliminate(SWING, step=0.1), nodes=nodes, h=0.1, scheme=da.Points())
    assert float(defect.relative) < 1e-12


def test_the_flow_of_an_underactuated_control_problem_is_symplectic(both):
    """At nodes and multipliers of a solution: the motion of the mass without a motor leaves eight of ten dimensions."""
    _, found = both
    near = {"nodes": found.q[4:8], "multipliers": found.multipliers[4:6]}
    defect = da.measure.symplectic_defect(da.control.eliminate(PULL, step=0.1), **near, h=0.1, scheme=da.Points())
    assert np.linalg.matrix_rank(defect.omega) == len(defect.omega) == 8
    assert float(defect.relative) < 1e-12


MOVED = da.OptimalControl(
    da.System(
        lambda q, v, t: 0.5 * (1 + 0.5 * jnp.sin(3 * t)) * v @ v - (2 + t) * (q[1] - q[0]) ** 2,
        forces=lambda q, v, t: jnp.stack([jnp.cos(2 * t), -0.2 * t * v[1]]),
        time_dependent=True,
    ),
    cost=lambda q, v, u, t: (1 + 0.5 * jnp.cos(5 * t)) * u @ u,
    actuated=0,
)


def test_plants_and_costs_that_read_the_time():
    """On three nodes the path of forces as unknowns, with the cost of every force at its own node; order 4 with Hermite."""
    base = da.solve(MOVED, **ENDS, steps=20)
    ends = {"initial": da.Nodes(base.q[:2]), "final": da.Nodes(base.q[-2:]), "T": 2.0, "steps": 20, "scheme": da.Points()}
    found = da.solve(da.control.eliminate(MOVED, step=0.1), **ends, guess=base.q + 0.05 * np.sin(np.pi * base.q[:, :1]) ** 4)
    np.testing.assert_allclose(found.q, base.q, rtol=0, atol=1e-8)
    t, u = 0.1 * np.arange(21), np.asarray(base.u)[:, 0]
    inner = 0.1 * np.sum(((1 + 0.5 * np.cos(5 * t)) * u**2)[1:-1])
    assert float(found.action) == pytest.approx(inner, rel=1e-10)
    costs = [float(da.solve(MOVED, **ENDS, steps=n).cost) for n in (40, 80)]
    smooth = da.solve(da.control.eliminate(MOVED), **ENDS, steps=20, scheme=da.Hermite())
    gaps = [abs(cost - float(smooth.action)) for cost in costs]
    assert np.log2(gaps[0] / gaps[1]) == pytest.approx(2.0, abs=0.1)


def test_times_as_unknowns_of_three_nodes():
    """with_time(eliminate(p)) is solved: the discrete energy of the optimal swing is constant, and its nodes lie near the
    curve of order 4 at their own times, more than three times nearer with half the steps."""
    smooth = da.solve(da.control.eliminate(SWING), **UP, steps=40, scheme=da.Hermite())
    curve = CubicHermiteSpline(smooth.t, smooth.q[:, 0], smooth.v[:, 0])
    timed, off = da.with_time(da.control.eliminate(SWING)), []
    for steps in (10, 20):
        t = np.linspace(0.0, 2.0, steps + 1)
        even = np.stack([t, curve(t)], axis=1)
        ends = {"initial": da.Nodes(even[:2]), "final": da.Nodes(even[-2:]), "T": 2.0, "steps": steps, "guess": even}
        found = da.solve(timed, **ends, scheme=da.Points(), seek="extremal")
        own, x = np.diff(found.q[:, 0]), np.asarray(found.q)
        assert own.min() > 0.5 * 2.0 / steps
        assert np.ptp(own) > 0.01  # the steps are not those that were given
        assert np.ptp(np.asarray(da.energies(timed, x))) < 1e-9
        off.append(np.abs(x[:, 1] - curve(x[:, 0])).max())
    assert off[1] < 2e-3
    assert off[0] / off[1] > 3.0


REPELLED, REWARD = np.array([[1.0, -1.0], [-1.0, 1.0]]), -0.1


def apart(q):
    return 0.5 * q @ (jnp.asarray(REPELLED) @ q)


APART = da.OptimalControl(
    da.System(lambda q, v: 0.5 * v @ v + apart(q)), cost=lambda q, v, u: 0.5 * u @ u + REWARD * apart(q), actuated=0
)
LATER = da.OptimalControl(
    da.System(lambda q, v, t: 0.5 * v @ v + apart(q), time_dependent=True),
    cost=lambda q, v, u, t: 0.5 * jnp.exp(0.02 * t) * u @ u + REWARD * apart(q),
    actuated=0,
)


def growing(t):
    """The fastest growing extremal of APART: q̈ = Hq + (u, 0), ẅ = Hᵀw - Qq for w = (u, λ); q, q̇ and λ."""
    block = np.block([[REPELLED, np.diag([1.0, 0.0])], [-REWARD * REPELLED, REPELLED.T]])
    squares, modes = np.linalg.eig(block)
    fastest = int(np.argmax(squares.real))
    rate, mode = float(np.sqrt(squares[fastest].real)), modes[:, fastest].real
    size = np.exp(rate * np.asarray(t))[:, None]
    return size * mode[:2], rate * size * mode[:2], size * mode[3], rate


@pytest.fixture(scope="module")
def underactuated():
    """with_time(eliminate(p)) of a plant with one force for two masses that repel each other, on Hermite windows, where the
    density of the error keeps its sign along the extremal: h⁵ exp(2 rate t) is constant. Steps, times as unknowns, exact."""
    timed, time, found = da.with_time(da.control.eliminate(APART), da.Hermite()), 0.8, []
    rate = 0.4 * growing([0.0])[3]
    for steps in (8, 16):
        t = np.log(1.0 + np.linspace(0.0, 1.0, steps + 1) * (np.exp(rate * time) - 1.0)) / rate
        q, v, _, _ = growing(t)
        nodes = np.column_stack([t, q, v])
        ends = {"initial": da.Nodes(nodes[:1]), "final": da.Nodes(nodes[-1:]), "T": 1.0, "steps": steps, "guess": nodes}
        found.append(da.solve(timed, **ends, scheme=da.Points(), seek="extremal"))
    return timed, found


def laws(timed, x, multipliers):
    """Energy and momentum of q + s(1, 1) at every window, from derivatives of L_d + λᵀΦ_d with respect to its later node."""
    constraint = timed.differential[0][1]
    action = lambda a, b, free: timed.lagrangian(a, b) + free @ constraint(a, b)  # noqa: E731
    slope = jax.jit(jax.vmap(jax.grad(action, 1)))(*map(jnp.asarray, (x[:-1], x[1:], multipliers)))
    return -slope[:, 0], slope[:, 1] + slope[:, 2]


def test_times_as_unknowns_of_an_underactuated_plant(underactuated):
    timed, found = underactuated
    errors = []
    for solution in found:
        x = np.asarray(solution.q)
        q, v, _, _ = growing(x[:, 0])
        errors.append([np.abs(x[:, 1:3] - q).max(), np.abs(x[:, 3:] - v).max()])
        energy, momentum = laws(timed, x, solution.multipliers)
        assert_allclose(energy, energy[0], rtol=0, atol=2e-9)
        assert_allclose(momentum, momentum[0], rtol=0, atol=2e-10)
        assert_allclose(energy, da.energies(timed, solution), rtol=0, atol=1e-12)
        steps = np.diff(x[:, 0])
        assert steps[-1] < 0.75 * steps[0]
    assert_allclose(np.log2(np.array(errors[0]) / errors[1]), 4.0, rtol=0, atol=0.3)
    assert errors[1][0] < 1e-6


def test_the_law_of_the_energy_of_a_control_that_depends_on_time(underactuated):
    """E_i - E_{i-1} is minus the change of L_d + λᵀΦ_d where both nodes of the window are moved in time, by differences."""
    timed, nodes = da.with_time(da.control.eliminate(LATER), da.Hermite()), np.asarray(underactuated[1][0].q)
    ends = {"initial": da.Nodes(nodes[:1]), "final": da.Nodes(nodes[-1:]), "T": 1.0, "steps": 8, "guess": nodes}
    found = da.solve(timed, **ends, scheme=da.Points(), seek="extremal")
    x, free, e = np.asarray(found.q), np.asarray(found.multipliers), 1e-3 * np.eye(5)[0]
    constraint = timed.differential[0][1]
    action = jax.jit(jax.vmap(lambda a, b, free: timed.lagrangian(a, b) + free @ constraint(a, b)))
    moved = (action(x[:-1] + e, x[1:] + e, free) - action(x[:-1] - e, x[1:] - e, free)) / 2e-3
    energy, momentum = laws(timed, x, free)
    assert np.ptp(energy) > 1e-5
    assert_allclose(np.diff(energy), -moved[1:], rtol=0, atol=1e-9)
    assert_allclose(momentum, momentum[0], rtol=0, atol=2e-10)


def test_free_steps_of_an_underactuated_plant(underactuated):
    """Stepped from its first window the solution is found again, with its energy and its momentum."""
    timed, found = underactuated
    x = np.asarray(found[1].q)
    path = da.step.simulate_free_steps(
        da.control.eliminate(APART), x[:2, 1:].reshape(2, 2, 2), x[:2, 0], steps=16, multipliers=found[1].multipliers[:1]
    )
    assert_allclose(path.t, x[:, 0], rtol=0, atol=1e-5)
    assert_allclose(path.q, x[:, 1:3], rtol=0, atol=1e-5)
    there = np.column_stack([path.t, path.q, path.v])
    multipliers = np.concatenate([found[1].multipliers[:1], path.multipliers.reshape(-1, 2)])
    for law in laws(timed, there, multipliers[:16]):
        assert_allclose(law, law[0], rtol=0, atol=1e-9)


def slopes_of(timed):
    """∂(Σ L̃_d) by the four nodes of two windows, compiled once for paths of all lengths."""
    ((_, constraint),) = timed.differential

    def action(nodes, free):
        windows = [(nodes[j : j + 3], free[j]) for j in (0, 1)]
        return sum(timed.lagrangian(*w) + by @ jnp.ravel(constraint(*w)) for w, by in windows)

    return jax.jit(jax.grad(action))


def carried(slopes, x, multipliers):
    """Σ_{l>i} ∂(Σ L̃_d)/∂q_l along the translation of both masses, over the windows that contain i and i+1."""
    found = [slopes(x[i : i + 4], multipliers[i : i + 2]) for i in range(len(multipliers) - 1)]
    return np.sum(np.asarray(found)[:, 2:, 1:], axis=(1, 2))


def test_times_as_unknowns_of_an_underactuated_plant_on_three_nodes():
    """On (R × Q)⁴: solved from the solution with equal steps and its multipliers, which its path alone does not do. Energy
    and the momentum of the translation are constant. Newton's method alone ends astray with 20 steps and more."""
    ends, problem = {"initial": (STILL, [0.5, 0.2]), "final": ([1.0, 1.3], [0.8, 1.0]), "T": 1.0}, da.control.eliminate(PULL)
    smooth = da.solve(problem, **ends, steps=40, scheme=da.Hermite())
    curve, timed, off = CubicHermiteSpline(smooth.t, smooth.q, smooth.v), da.with_time(problem), []
    slopes = slopes_of(timed)
    for steps in (6, 20, 40):
        t = np.linspace(0.0, 1.0, steps + 1)
        q = curve(t)
        given = {"T": 1.0, "steps": steps}
        equal = da.solve(problem, initial=da.Nodes(q[:2]), final=da.Nodes(q[-2:]), guess=q, **given)
        even = np.column_stack([t, q])
        given |= {"initial": da.Nodes(even[:2]), "final": da.Nodes(even[-2:]), "scheme": da.Points()}
        found = da.solve(timed, **given, guess=equal, seek="extremal")
        x, multipliers = np.asarray(found.q), np.asarray(found.multipliers)
        off.append(np.max(np.abs(x[:, 1:] - curve(x[:, 0]))))
        assert np.ptp(np.diff(x[:, 0])) > min(0.03, 0.6 / steps)
        np.testing.assert_allclose(energy := da.energies(timed, found), energy[0], rtol=1e-12)
        np.testing.assert_allclose(kept := carried(slopes, x, multipliers), kept[0], rtol=1e-12)
    assert off[1] < 0.02 < 0.08 < off[0]
    assert off[2] < 0.4 * off[1] < 2e-3


def first_nodes(constraint, h):
    """Four nodes (t, q) near the fastest extremal of APART, on the constraint, with h³ exp(2 rate t) = h³, and two λ."""
    rate = growing([0.0])[3]
    t = 1.5 * np.log1p(2 / 3 * rate * h * np.arange(4)) / rate
    x = np.column_stack([t, growing(t)[0]])
    defect = jax.jit(jax.value_and_grad(lambda last, a, b: constraint(a, b, last).sum()))
    for k in (2, 3):  # linear in the last node
        value, slope = defect(x[k], x[k - 2], x[k - 1])
        x[k, 2] -= value / slope[2]
    return x, growing([t[:3].mean(), t[1:].mean()])[2]


@pytest.mark.parametrize(("plant", "steps"), [(APART, 200), (LATER, 40)])
def test_free_steps_of_an_underactuated_plant_on_three_nodes(plant, steps):
    """On (R × Q)⁴, where g lies between 0 and κ = ⅔u̇²: the extremal is followed, energy and the momentum of the
    translation are constant, and where the cost depends on time the energy changes as the action of moved windows."""
    problem = da.control.eliminate(plant)
    timed = da.with_time(problem)
    ((_, constraint),) = timed.differential
    x, free = first_nodes(constraint, 0.02)
    path = da.step.simulate_free_steps(problem, x[:, 1:], x[:, 0], steps=steps, multipliers=free, scheme=da.Interpolated())
    x, free = np.column_stack([path.t, path.q]), np.concatenate([free, path.multipliers])
    energy, momentum = np.asarray(da.energies(timed, x, free)), carried(slopes_of(timed), x, free)
    rounding = (
        np.finfo(float).eps * (np.linalg.norm(path.q, axis=1) * np.abs(path.q[:, 0]))[1:-2] / np.diff(path.t)[1:-1] ** 3
    )
    assert np.all(np.abs(momentum - momentum[0]) < 20 * rounding)
    if plant is APART:
        assert_allclose(path.q, growing(path.t)[0], rtol=1e-4)
        assert_allclose(np.diff(path.t), 0.02 * np.exp(-2 / 3 * growing([0.0])[3] * path.t[:-1]), rtol=0.02)
        assert np.all(np.abs(energy - energy[0]) < 50 * rounding)
        return
    action = jax.jit(jax.vmap(lambda a, b, c, f: timed.lagrangian(a, b, c) + f @ jnp.ravel(constraint(a, b, c))))
    windows, e = [x[i : len(x) - 2 + i] for i in range(3)], 1e-3 * np.eye(3)[0]
    slopes = (action(*(y + e for y in windows), free) - action(*(y - e for y in windows), free)) / 2e-3
    assert np.ptp(energy) > 1e-5
    assert np.all(np.abs(np.diff(energy) + slopes[2:]) < 10 * rounding[1:])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"problem": 3.0}, TypeError, "problem: found 3.0; give an OptimalControl"),
        ({"step": -1.0}, ValueError, "step"),
        ({"scheme": da.Scheme()}, TypeError, "scheme: found without step"),
        ({"step": 0.1, "scheme": da.Hermite()}, TypeError, "scheme: found Hermite"),
    ],
)
def test_what_is_wrong_is_named(given, error, message):
    with pytest.raises(error, match=message):
        da.control.eliminate(**{"problem": PULL, **given})


def test_plants_that_have_no_such_form_are_named():
    free = lambda q, v: 0.5 * v @ v  # noqa: E731
    held = da.System(free, da.Holonomic(lambda q: q @ q - 1.0))
    with pytest.raises(ValueError, match="problem: found a plant with constraints"):
        da.control.eliminate(da.OptimalControl(held, cost=lambda q, v, u: u @ u, actuated=0))
    with pytest.raises(ValueError, match="problem: found a terminal cost"):
        da.control.eliminate(
            da.OptimalControl(da.System(free), cost=lambda q, v, u: u @ u, actuated=0, terminal=lambda q, v: q @ q)
        )
    turned = da.OptimalControl(da.System(free), cost=lambda q, v, u: u @ u, actuated=lambda q: jnp.ones((2, 1)))
    with pytest.raises(ValueError, match="actuated: found B"):
        da.solve(da.control.eliminate(turned), initial=(STILL, STILL), final=(STILL, STILL), T=1.0, steps=5)
