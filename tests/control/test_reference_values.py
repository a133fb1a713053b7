"""Optimal control against values from independent methods, order 2, costates, and a dense check of the equations."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.integrate import simpson, solve_bvp
from scipy.linalg import expm

import dalembert as da
from dalembert.gallery import PROBLEMS, orbit_transfer, rigid_body

turned = rigid_body.turned

AXES = np.eye(3)


@functools.cache
def solved(name, steps):
    """A problem of the gallery."""
    entry = PROBLEMS[name]
    guess = None if entry.guess is None else entry.guess(np.linspace(0.0, entry.boundary["T"], steps + 1))
    found = da.solve(entry.problem, **entry.boundary, guess=guess, steps=steps)
    assert found.kind == "minimum"
    return found


def extrapolated(values):
    """Romberg's limit of values at N, 2N, 4N, … with errors in even powers of 1/N."""
    rows = [np.asarray(v, dtype=float) for v in values]
    for power in range(1, len(rows)):
        rows = [(4**power * b - a) / (4**power - 1) for a, b in itertools.pairwise(rows)]
    return rows[0]


@pytest.mark.parametrize(
    "name",
    ["cart_pole", "knife_edge", "moving_support", "orbit_transfer", "rigid_body", "two_rods", "vertical_take_off"],
)
def test_the_cost_converges_to_the_reference_with_order_two(name):
    reference, costs = PROBLEMS[name].cost, [float(solved(name, steps).cost) for steps in (35, 70, 140)]
    assert np.log2((costs[1] - reference) / (costs[2] - reference)) == pytest.approx(2.0, abs=0.02)
    assert extrapolated(costs) == pytest.approx(reference, rel=1e-7)


def limit(problem, boundary, guess=None):
    """Order 2, and the extrapolated cost."""
    costs = []
    for steps in (40, 80, 160):
        first = None if guess is None else guess(np.linspace(0.0, boundary["T"], steps + 1))
        costs.append(float(da.solve(problem, **boundary, steps=steps, guess=first).cost))
    found = extrapolated(costs)
    assert np.log2((costs[0] - found) / (costs[1] - found)) == pytest.approx(2.0, abs=0.02)
    return found


def test_a_turn_about_the_middle_axis_of_a_rigid_body():
    ends = {
        "initial": (tuple(turned(0.0, AXES[1])), rigid_body.REST),
        "final": (tuple(turned(np.pi, AXES[1])), rigid_body.REST),
        "T": 1.0,
    }
    guess = lambda t: turned(np.pi * (3.0 * t**2 - 2.0 * t**3), AXES[1])  # noqa: E731
    assert limit(PROBLEMS["rigid_body"].problem, ends, guess) == pytest.approx(236.870505626145, rel=1e-8)


def test_the_orbit_with_tangential_thrust_alone():
    found = limit(orbit_transfer.orbit_transfer(radial=False), PROBLEMS["orbit_transfer"].boundary)
    assert found == pytest.approx(0.009272738188, rel=1e-8)


def test_a_flip_on_the_spot():
    still = (0.0, 0.0, 0.0)
    ends = {"initial": (still, still), "final": ((0.0, 0.0, 2 * np.pi), still), "T": 2.0}

    def guess(t):
        turn = np.pi * t
        return np.stack([0.3 * np.sin(np.pi * t / 2) ** 2, 0.0 * t, turn - np.sin(turn)], axis=1)

    assert limit(PROBLEMS["vertical_take_off"].problem, ends, guess) == pytest.approx(327.304451279918, rel=1e-7)


def test_the_rolling_disk_against_pontryagins_equations_in_reduced_coordinates():
    """Speeds Ω and ω of rolling and turning, (mR²+I)Ω̇ = u₀, Jω̇ = u₁, ẋ = RΩ cos φ, ẏ = RΩ sin φ, by SciPy."""
    rolls, turns = 1.5, 0.25  # mR² + I and J

    def rates(t, y):
        f, spin, turn, lx, ly, lf, lo, lw = y[2], y[3], y[4], y[5], y[6], y[7], y[8], y[9]
        cos, sin, zero = np.cos(f), np.sin(f), np.zeros_like(t)
        controls = -lo / (2 * rolls**2), -lw / (2 * turns**2)
        costates = zero, zero, spin * (lx * sin - ly * cos), -(lx * cos + ly * sin), -lf
        return np.stack([spin * cos, spin * sin, turn, *controls, *costates])

    def ends(a, b):
        return np.array([*a[:5], b[0] - 1.0, b[1] - 1.0, b[2] - 0.5 * np.pi, b[3], b[4]])

    t = np.linspace(0.0, 3.0, 61)
    y, s = np.zeros((10, 61)), t / 3.0
    y[0], y[1], y[2], y[3] = s, s, 0.5 * np.pi * (3 * s**2 - 2 * s**3), 3.0 * s * (1.0 - s)
    exact = solve_bvp(rates, ends, t, y, tol=1e-9, max_nodes=100_000)
    assert exact.success
    fine = np.linspace(0.0, 3.0, 6001)
    lo, lw = exact.sol(fine)[8:]
    wanted = simpson((lo / (2 * rolls)) ** 2 + (lw / (2 * turns)) ** 2, x=fine)
    entry = PROBLEMS["rolling_disk"]
    assert limit(entry.problem, entry.boundary) == pytest.approx(wanted, rel=1e-7)


def test_iterations_do_not_grow_with_the_mesh():
    """The wheel ends where it will: its size is not that of the first path, on which it stands still."""
    entry, found = PROBLEMS["wheel_swing_up"], {}
    for steps in (100, 400):
        found[steps] = da.solve(entry.problem, **entry.boundary, steps=steps)
        assert found[steps].kind == "minimum"
    iterations = {steps: int(s.statistics.iterations) for steps, s in found.items()}
    assert iterations[400] < 1.5 * iterations[100]
    assert float(found[400].cost) == pytest.approx(float(found[100].cost), rel=1e-3)


def test_the_double_integrator_has_the_discrete_closed_form():
    """Kicks p_i at the nodes with Σ p_i = 0 and Σ p_i t_i = -1 and the least Σ p_i²/w_i: u linear in t, cost 12/(1+2h²)."""
    for steps in (4, 20):
        found, h = solved("double_integrator", steps), 1.0 / steps
        np.testing.assert_allclose(found.cost, 12.0 / (1.0 + 2.0 * h**2), rtol=1e-12)
        np.testing.assert_allclose(found.u[:, 0], 6.0 * (1.0 - 2.0 * found.t) / (1.0 + 2.0 * h**2), rtol=0, atol=1e-10)


# Gradients of the optimal cost in (q, v) at the first node, by indirect methods.
COSTATES = {
    "cart_pole": [[3.61895528, -52.00121901], [4.85047653, 4.28990482]],
    "vertical_take_off": [[-25.15023525, 0.0, 93.03676135], [-25.15023525, -18.76518111, 19.54572491]],
}


@pytest.mark.parametrize("name", COSTATES)
def test_costs_to_eight_digits_and_costates_to_five(name):
    found = [solved(name, steps) for steps in (70, 140, 280, 560)]
    assert extrapolated([s.cost for s in found]) == pytest.approx(PROBLEMS[name].cost, rel=3e-10)
    np.testing.assert_allclose(extrapolated([s.costates_initial for s in found]), COSTATES[name], rtol=0, atol=1e-5)


def test_costates_are_the_gradient_of_the_optimal_cost():
    """By central differences in every number that is given at the ends, of the cost on the same nodes."""
    entry, at = PROBLEMS["cart_pole"], solved("cart_pole", 35)
    data = np.array([entry.boundary["initial"], entry.boundary["final"]])

    def cost(ends):
        return float(da.solve(entry.problem, initial=tuple(ends[0]), final=tuple(ends[1]), T=2.0, steps=35, guess=at).cost)

    for end, level, i in np.ndindex(2, 2, 2):
        step = np.zeros((2, 2, 2))
        step[end, level, i] = 1e-4
        slope = (cost(data + step) - cost(data - step)) / 2e-4
        wanted = (at.costates_initial, at.costates_final)[end][level, i]
        assert slope == pytest.approx(wanted, abs=1e-5)


def test_an_impulse_changes_the_cost_by_the_adjoint():
    """λ·dp, from an external force that pushes during one interval: half of it acts at either node."""

    def pushed(q, v, t, p):
        return jnp.array([0.0, p["push"]]) * jnp.exp(-(((t - 1.0) / 0.2) ** 2))

    plain = PROBLEMS["moving_support"].problem
    plant = plain.system
    forced = da.System(
        plant.lagrangian, forces=pushed, coordinates=plant.coordinates, time_dependent=True,
        parameters=dict(plant.parameters) | {"push": 0.0},
    )  # fmt: skip
    problem, given = da.OptimalControl(forced, cost=plain.cost, actuated=0), PROBLEMS["moving_support"].boundary
    at = da.solve(problem, **given, steps=35)
    slopes = [float(da.solve(problem.replace(push=x), **given, steps=35, guess=at).cost) for x in (1e-3, -1e-3)]
    h, middle = float(at.t[1]), 0.5 * (at.t[1:] + at.t[:-1])
    impulse = 0.5 * h * np.exp(-(((middle - 1.0) / 0.2) ** 2))
    wanted = impulse @ (at.adjoints[1:, 1] + at.adjoints[:-1, 1])
    assert (slopes[0] - slopes[1]) / 2e-3 == pytest.approx(wanted, rel=1e-5)


def test_the_knife_edge_satisfies_the_equations_written_out_by_hand():
    """The whole Lagrangian function as one dense expression, from the formulas and not from the library: its gradient is
    zero, and the least eigenvalue of its Hessian on the kernel of the constraints positive."""
    steps, time = 12, 4.0
    h, found = time / steps, solved("knife_edge", 12)
    weights = np.full(steps + 1, h)
    weights[[0, -1]] = 0.5 * h

    def parts(free):
        q = jnp.concatenate([jnp.zeros((1, 3)), free["q"], jnp.array([[0.0, 1.0, 0.0]])])
        sin, cos = jnp.sin(q[:, 2]), jnp.cos(q[:, 2])
        u, nu = free["u"], free["nu"][:, 0]
        force = jnp.stack([cos * u[:, 0] - sin * nu, sin * u[:, 0] + cos * nu, u[:, 1]], axis=1)
        v = jnp.diff(q, axis=0) / h  # m = J = 1, no potential: the momenta of the steps, rest before and after
        rest = jnp.zeros((1, 3))
        motion = jnp.concatenate([rest, v]) - jnp.concatenate([v, rest]) + weights[:, None] * force
        angle = 0.5 * (q[1:, 2] + q[:-1, 2])
        blade = h * (-jnp.sin(angle) * v[:, 0] + jnp.cos(angle) * v[:, 1])
        return jnp.sum(weights * jnp.sum(u**2, axis=1)), jnp.concatenate([motion.ravel(), blade])

    free = {"q": found.q[1:-1], "u": found.u, "nu": found.multipliers}
    multipliers = np.concatenate([found.adjoints.ravel(), found.step_multipliers.ravel()])
    flat, unflatten = ravel_pytree(jax.tree.map(jnp.asarray, free))
    cost, constraints = jax.jit(parts)(free)
    assert float(cost) == pytest.approx(float(found.cost), rel=1e-12)
    np.testing.assert_allclose(constraints, 0.0, atol=1e-12)
    lagrangian = lambda x: parts(unflatten(x))[0] + parts(unflatten(x))[1] @ multipliers  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(lagrangian))(flat), 0.0, atol=1e-9)
    jacobian = jax.jit(jax.jacfwd(lambda x: parts(unflatten(x))[1]))(flat)
    hessian = jax.jit(jax.hessian(lagrangian))(flat)
    kernel = np.linalg.svd(jacobian)[2][len(constraints) :]
    assert np.linalg.eigvalsh(kernel @ hessian @ kernel.T).min() > 1e-3


def test_a_linear_quadratic_problem_costs_what_riccati_says():
    """Damped oscillators with one force, end free, terminal cost: J = xᵀP(0)x, -Ṗ = PA + AᵀP + Q - PBBᵀP/r, P(T) = S.

    P(0) = Y X⁻¹ with (X, Y) = e^(-HT)(1, S), H the Hamiltonian matrix.
    """
    K, damping = np.array([[3.0, -1.0], [-1.0, 2.0]]), np.array([[0.3, 0.1], [0.1, 0.4]])
    S, r = np.diag([2.0, 1.0, 0.5, 3.0]), 0.5
    plant = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ K @ q, forces=lambda q, v: -damping @ v)
    problem = da.OptimalControl(
        plant,
        cost=lambda q, v, u: q @ q + 0.5 * v @ v + r * u @ u,
        actuated=lambda q: jnp.array([1.0, 0.5]),
        terminal=lambda q, v: jnp.concatenate([q, v]) @ S @ jnp.concatenate([q, v]),
    )
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-K, -damping]])
    B, Q = np.array([[0.0], [0.0], [1.0], [0.5]]), np.diag([1.0, 1.0, 0.5, 0.5])
    X, Y = np.split(expm(-1.5 * np.block([[A, -B @ B.T / r], [-Q, -A.T]])) @ np.concatenate([np.eye(4), S]), 2)
    P = Y @ np.linalg.inv(X)
    x = np.array([1.0, -0.5, 0.3, 0.8])
    found = [da.solve(problem, initial=(x[:2], x[2:]), T=1.5, steps=steps) for steps in (15, 30, 60, 120)]
    assert all(s.kind == "minimum" and int(s.statistics.iterations) <= 2 for s in found)
    assert extrapolated([s.cost for s in found]) == pytest.approx(x @ P @ x, rel=1e-8)
    costates = extrapolated([s.costates_initial for s in found])
    np.testing.assert_allclose(costates.ravel(), 2.0 * P @ x, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(found[0].costates_final, 0.0)
    u = extrapolated([s.u[0] for s in found])
    np.testing.assert_allclose(u, -(B.T @ P @ x) / r, rtol=1e-5)
