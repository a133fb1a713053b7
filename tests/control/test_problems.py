"""Ends, points to pass, constraints, units and back-ends of optimal control, each against another way to pose it."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import double_integrator, knife_edge


def effort(q, v, u):
    return u @ u


def free(q, v):
    return 0.5 * v @ v


PLANE = da.OptimalControl(da.System(free, coordinates=("x", "y")), cost=effort, actuated=(0, 1))
REST = [0.0, 0.0]


def test_what_is_not_given_is_free_and_has_no_costate():
    """12d² with both velocities given, 3d² with a free one at the end, 0 with a free position at rest."""
    found = da.solve(PLANE, initial=(REST, REST), final=({"x": 1.0, 1: 2.0}, {"x": 0.0}), T=1.0, steps=100)
    assert float(found.cost) == pytest.approx(12.0 + 3.0 * 4.0, rel=1e-3)
    assert found.costates_final[1, 1] == 0.0
    assert found.costates_final[0, 1] == pytest.approx(12.0, rel=1e-3)  # d(3y²)/dy
    assert found.v[-1, 1] == pytest.approx(3.0, rel=1e-3)
    still = da.solve(PLANE, initial=(REST, REST), final=({1: 2.0}, {"x": 0.0}), T=1.0, steps=100)
    assert float(still.cost) == pytest.approx(12.0, rel=1e-3)
    np.testing.assert_allclose(still.q[:, 0], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("actuated", "matrix"),
    [
        (("x", "y"), np.eye(2)),
        (["y", 0], np.eye(2)[::-1]),
        ("y", [[0.0], [1.0]]),
        ([[0.0, 2.0], [1.0, 0.0]], [[0.0, 2.0], [1.0, 0.0]]),
        (jnp.array([[0.0], [1.0]]), [[0.0], [1.0]]),
        (jnp.array([1, 0]), np.eye(2)[::-1]),
    ],
)
def test_what_acts_is_said_by_names_or_a_constant_matrix(actuated, matrix):
    """From rest to rest by the force 12d (½ - t) = Bu, at the cost ∫|u|² = 12|B⁻¹d|²."""
    d = np.asarray(matrix) @ np.arange(1.0, 1.0 + np.shape(matrix)[1])
    problem = da.OptimalControl(PLANE.system, cost=effort, actuated=actuated)
    found = da.solve(pickle.loads(pickle.dumps(problem)), initial=(REST, REST), final=(d, REST), T=1.0, steps=100)
    u = np.linalg.lstsq(np.asarray(matrix), d, rcond=None)[0]
    assert float(found.cost) == pytest.approx(12.0 * u @ u, rel=1e-3)


def test_a_mapping_alone_gives_positions():
    """Any velocity at the beginning: 3d² instead of 12d²."""
    found = da.solve(PLANE, initial={"x": 0.0, "y": 0.0}, final=([1.0, 0.0], REST), T=1.0, steps=100)
    assert float(found.cost) == pytest.approx(3.0, rel=1e-3)


def test_points_to_pass_join_two_problems():
    """Through q(½) = ½ with the velocity 3/2 that it has there anyway, nothing changes; elsewhere it costs."""
    problem, ends = (
        double_integrator.double_integrator(),
        {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "T": 1.0, "steps": 100},
    )
    plain, same = da.solve(problem, **ends), da.solve(problem, **ends, through={0.5: [0.5]})
    assert float(same.cost) == pytest.approx(float(plain.cost), rel=1e-12)
    detour = da.solve(problem, **ends, through={0.5: [0.75]})
    # The cubic splines through the three points: 12 + 192 (q(½) - ½)²
    assert float(detour.cost) == pytest.approx(12.0 + 192.0 / 16.0, rel=1e-3)
    assert detour.q[50, 0] == 0.75


def test_a_holonomic_plant_is_the_plant_in_its_own_coordinate():
    """A pendulum in the plane with a torque, |q| = 1 and forces u(-y, x), and by its angle."""
    by_angle = da.OptimalControl(
        da.System(lambda q, v: 0.5 * v @ v - 5.0 * jnp.sin(q[0])), cost=lambda q, v, u: u @ u + 0.1 * v @ v, actuated=0
    )
    plane = da.System(lambda q, v: 0.5 * v @ v - 5.0 * q[1], da.Holonomic(lambda q: q @ q - 1.0))
    embedded = da.OptimalControl(
        plane, cost=lambda q, v, u: u @ u + 0.1 * v @ v, actuated=lambda q: jnp.array([-q[1], q[0]])
    )

    def point(angle, speed):
        return [np.cos(angle), np.sin(angle)], [-speed * np.sin(angle), speed * np.cos(angle)]

    costs, forces = [], []
    for steps in (35, 70, 140):
        angle = da.solve(by_angle, initial=([-1.5], [0.5]), final=([1.0], [0.0]), T=1.5, steps=steps)
        path = np.stack([np.cos(angle.q[:, 0]), np.sin(angle.q[:, 0])], axis=1)
        plane = da.solve(embedded, initial=point(-1.5, 0.5), final=point(1.0, 0.0), T=1.5, steps=steps, guess=path)
        np.testing.assert_allclose(np.sum(plane.q**2, axis=1), 1.0, rtol=0, atol=1e-12)
        assert angle.kind == plane.kind == "minimum"
        costs.append((float(angle.cost), float(plane.cost)))
        rod = -np.sum(angle.v**2, axis=1) + 5.0 * np.sin(angle.q[:, 0])  # Rᵀν · q: what keeps the pendulum on the circle
        forces.append(np.abs(np.einsum("ki,ki->k", plane.constraint_forces, plane.q) - rod).max())
    limits = [(64 * c - 20 * b + a) / 45 for a, b, c in zip(*costs, strict=True)]
    assert limits[0] == pytest.approx(limits[1], rel=1e-7)
    assert costs[0] != pytest.approx(limits, rel=1e-5)
    assert forces[0] / forces[2] == pytest.approx(16.0, rel=0.1)


def test_an_end_on_a_constraint_may_be_free():
    """The pendulum's end on the circle with nothing given: the motion without control costs nothing."""
    plane = da.System(lambda q, v: 0.5 * v @ v - 5.0 * q[1], da.Holonomic(lambda q: q @ q - 1.0))
    problem = da.OptimalControl(plane, cost=effort, actuated=lambda q: jnp.array([-q[1], q[0]]))
    angle = solve_ivp(lambda t, y: [y[1], -5.0 * np.cos(y[0])], (0.0, 0.5), [0.0, 0.0], rtol=1e-10, atol=1e-10).y[0, -1]
    errors = []
    for steps in (25, 50):
        free_end = da.solve(problem, initial=([1.0, 0.0], [0.0, 0.0]), T=0.5, steps=steps)
        assert float(free_end.cost) == pytest.approx(0.0, abs=1e-18)
        assert np.abs(np.sum(free_end.q**2, axis=1) - 1.0).max() < 1e-12
        assert abs(free_end.q[-1] @ free_end.v[-1]) < 1e-12
        errors.append(np.linalg.norm(free_end.q[-1] - [np.cos(angle), np.sin(angle)]))
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.1)
    assert errors[1] < 1e-4


def test_an_affine_constraint_is_the_linear_one_seen_from_a_moving_frame():
    """A knife edge on a belt of speed w: in the belt's frame the same controls do the same, step by step."""
    w, zero = 0.3, [0.0, 0.0, 0.0]

    def slip(q, v, p):
        return -jnp.sin(q[2]) * (v[0] - p["w"]) + jnp.cos(q[2]) * v[1]

    resting = knife_edge.knife_edge()
    belt = da.System(resting.system.lagrangian, da.Nonholonomic(slip), parameters=dict(resting.parameters) | {"w": 0.0})
    problem = da.OptimalControl(belt, cost=resting.cost, actuated=resting.actuated)
    s = np.linspace(0.0, 1.0, 41)[:, None]
    turn = np.sin(2.0 * np.pi * s)
    guess = np.concatenate([0.5 * turn, s, 0.8 * turn], axis=1)
    there = da.solve(problem, initial=(zero, zero), final=([0.0, 1.0, 0.0], zero), T=4.0, steps=40, guess=guess)
    drift, moving = np.array([4.0 * w, 0.0, 0.0]), [w, 0.0, 0.0]
    here = da.solve(
        problem.replace(w=w),
        initial=(zero, moving),
        final=([4.0 * w, 1.0, 0.0], moving),
        T=4.0,
        steps=40,
        guess=guess + s * drift,
    )
    np.testing.assert_allclose(here.q - s * drift, there.q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(here.u, there.u, rtol=0, atol=1e-9)


def test_uneven_times():
    """The limit is the same; times of equal steps are T and steps."""
    problem, ends = double_integrator.double_integrator(), {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}
    even = da.solve(problem, **ends, T=1.0, steps=20)
    same = da.solve(problem, **ends, times=np.linspace(0.0, 1.0, 21))
    np.testing.assert_array_equal(same.q, even.q)
    errors = []
    for steps in (40, 80, 160):
        s = np.linspace(0.0, 1.0, steps + 1)
        errors.append(float(da.solve(problem, **ends, times=s + 0.1 * np.sin(2.0 * np.pi * s)).cost) - 12.0)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(2.0, abs=0.02)


SCALED = da.OptimalControl(
    da.System(
        lambda q, v, p: p["c"] * (0.5 * v @ v / p["u"] ** 2 + jnp.cos((q[0] - p["o"]) / p["u"])),
        parameters={"c": 1.0, "u": 1.0, "o": 0.0},
    ),
    cost=lambda q, v, u, p: p["k"] * u @ u if "k" in p else (u @ u) * (p["u"] / p["c"]) ** 2,
    actuated=0,
)


@pytest.mark.parametrize("units", [{"u": 1e-9}, {"u": 1e6}, {"c": 1e-12}, {"c": 1e12}, {"o": 1e6}])
def test_the_solution_is_the_same_in_other_units_and_from_another_origin(units):
    def solved(c=1.0, u=1.0, o=0.0):
        problem = SCALED.replace(c=c, u=u, o=o)
        return da.solve(problem, initial=([o], [0.0]), final=([o + 3.0 * u], [0.5 * u]), T=2.0, steps=30)

    natural, other = solved(), solved(**units)
    u, o = units.get("u", 1.0), units.get("o", 0.0)
    np.testing.assert_allclose((other.q - o) / u, natural.q, rtol=0, atol=1e-8 if o == 0.0 else 1e-7)
    assert float(other.cost) == pytest.approx(float(natural.cost), rel=1e-8)
    assert other.kind == natural.kind == "minimum"


@pytest.fixture(scope="module")
def solution():
    return da.solve(double_integrator.double_integrator(), initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=20)


def test_a_solution_is_a_guess_for_other_steps_and_other_parameters(solution):
    ends = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "T": 1.0}
    fine = da.solve(double_integrator.double_integrator(), **ends, steps=40, guess=solution)
    assert float(fine.cost) == pytest.approx(12.0 / (1.0 + 2.0 / 40**2), rel=1e-10)
    again = da.solve(double_integrator.double_integrator(), **ends, steps=20, guess=solution)
    assert int(again.statistics.iterations) == 1
    by_parts = da.solve(double_integrator.double_integrator(), **ends, steps=20, guess=(solution.q, solution.u))
    assert float(by_parts.cost) == pytest.approx(float(solution.cost), rel=1e-12)
    heavy = da.solve(double_integrator.double_integrator(2.0), **ends, steps=20, guess=solution)
    assert float(heavy.cost) == pytest.approx(4.0 * float(solution.cost), rel=1e-10)


def test_a_solution_is_stored_pickled_and_drawn(solution, tmp_path):
    da.save(solution, tmp_path / "control.nc")
    for other in (da.load(tmp_path / "control.nc"), pickle.loads(pickle.dumps(solution))):
        assert type(other) is da.solution.ControlSolution
        assert other.kind == solution.kind
        assert other.scheme == solution.scheme
        for name in ("t", "q", "v", "u", "adjoints", "costates_initial", "costates_final", "cost", "step_multipliers"):
            np.testing.assert_array_equal(getattr(other, name), getattr(solution, name))
    figure = da.plot(solution, exact=lambda t: (t**2 * (3.0 - 2.0 * t))[:, None])
    assert [ax.get_ylabel() for ax in figure.axes] == ["q", "dq/dt", "control u"]
    np.testing.assert_array_equal(figure.axes[2].lines[0].get_ydata(), solution.u[:, 0])
    assert "cost 11.94" in solution.describe()
    assert repr(solution).startswith("ControlSolution(q=(21, 1), cost=11.94")


def test_many_steps_end_at_what_rounding_leaves():
    """Positions of size 1 are rounded by 1e-16, their second differences by 1e-16 N²: that is no violation."""
    found = da.solve(
        double_integrator.double_integrator(),
        initial=([0.0], [0.0]),
        final=([1.0], [0.0]),
        T=1.0,
        steps=20_000,
        certify=False,
    )
    assert found.outcome is da.Outcome.SUCCESS
    assert float(found.cost) == pytest.approx(12.0, rel=1e-7)


def test_a_problem_travels_by_pickle():
    problem = pickle.loads(pickle.dumps(double_integrator.double_integrator(3.0)))
    assert float(problem.parameters["m"]) == 3.0
    assert problem.cost is double_integrator.double_integrator().cost


def test_what_machine_code_cannot_run_runs_on_jax():
    """The same numbers by JAX, with a warning that names the function."""
    table = jnp.linspace(-1.0, 5.0, 601) ** 2

    def cost(q, v, u):
        return u @ u + 0.1 * jnp.interp(q[0], jnp.linspace(-1.0, 5.0, 601), table)

    def smooth(q, v, u):
        return u @ u + 0.1 * q[0] ** 2

    plant, ends = da.System(lambda q, v: 0.5 * v @ v), {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}
    with pytest.warns(UserWarning, match="runs on JAX"):
        slow = da.solve(da.OptimalControl(plant, cost=cost, actuated=0), **ends, T=1.0, steps=20)
    quick = da.solve(da.OptimalControl(plant, cost=smooth, actuated=0), **ends, T=1.0, steps=20)
    assert float(slow.cost) == pytest.approx(float(quick.cost), rel=1e-4)
