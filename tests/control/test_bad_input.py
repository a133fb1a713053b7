"""What cannot be solved: an error that names the argument, or an outcome that says why."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import double_integrator, knife_edge


def effort(q, v, u):
    return u @ u


def free(q, v):
    return 0.5 * v @ v


MASS, PLANE = da.System(free), da.System(free, coordinates=("x", "y"))
MOVE = double_integrator.double_integrator()
ENDS = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "T": 1.0, "steps": 10}


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (da.System(free, da.SecondOrder(lambda q, v, a: a[0])), r"system: constraints\[0\] is a SecondOrder"),
        (da.System(free, da.Lyapunov(lambda q, v: v @ v, lambda q, v: v @ v, 0)), r"constraints\[0\] is a Lyapunov"),
    ],
)
def test_a_plant_with_constraints_on_accelerations_is_refused_by_name(plant, message):
    with pytest.raises(ValueError, match=message):
        da.OptimalControl(plant, cost=effort, actuated=0)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"actuated": (0, 0)}, ValueError, r"actuated: found \(0, 0\)"),
        ({"actuated": "z"}, TypeError, "actuated: found str 'z'; give the name or the index"),
        ({"actuated": [[1.0, np.nan]]}, ValueError, "actuated: found nan at index 0, 1"),
        ({"actuated": ()}, TypeError, "actuated: found"),
        ({"cost": 3.0}, TypeError, "cost: found 3.0"),
        ({"terminal": 3.0}, TypeError, "terminal: found 3.0"),
        ({"system": 3.0}, TypeError, "system: found 3.0"),
    ],
)
def test_a_problem_names_what_is_wrong(given, error, message):
    with pytest.raises(error, match=message):
        da.OptimalControl(**{"system": MASS, "cost": effort, "actuated": 0, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"actuated": 2}, "actuated: found index 2; the system has coordinates 0 to 1"),
        ({"actuated": lambda q: jnp.ones((3, 1))}, r"actuated: returns shape \(3, 1\)"),
        ({"cost": lambda q, v, u: u}, r"cost: returns shape \(1,\)"),
        ({"terminal": lambda q, v: q}, r"terminal: returns shape \(2,\)"),
        ({"cost": lambda q, v, u: q @ q}, r"cost: is singular: ∂²C/∂u² vanishes along u\[0\]"),
        ({"cost": lambda q, v, u: u[0] ** 2, "actuated": (0, 1)}, r"cost: is singular: .* along u\[1\]"),
        ({"cost": lambda q, v, u: -u @ u, "actuated": (0, 1)}, r"cost: has no minimum: .* along u\[0\], u\[1\]"),
        ({"cost": lambda q, v, u: u[0] ** 2 - u[1] ** 2, "actuated": (0, 1)}, r"cost: has no minimum: .* along u\[1\]"),
        ({"cost": lambda q, v, u: jnp.sum(jnp.sqrt(-1.0 - u**2))}, "cost: its second derivatives by u are not finite"),
    ],
)
def test_functions_of_wrong_shape_and_singular_costs_are_named(given, message):
    problem = da.OptimalControl(**{"system": PLANE, "cost": effort, "actuated": 0, **given})
    with pytest.raises(ValueError, match=message):
        da.solve(problem, initial=([0.0, 0.0],), T=1.0, steps=10)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"initial": ([0.0, 0.0], [0.0, 0.0])}, ValueError, r"initial\[0\]: found shape \(2,\)"),
        ({"final": ([1.0], [np.nan])}, ValueError, r"final\[1\]: found nan"),
        ({"final": ({"z": 1.0},)}, ValueError, r"final\[0\]: found coordinate 'z'; the coordinates are q"),
        ({"final": ({1: 1.0},)}, ValueError, r"final\[0\]: a coordinate: found 1"),
        ({"final": ({0: 1.0, "q": 1.0},)}, ValueError, r"final\[0\]: found coordinate 'q' twice"),
        ({"final": ({0: None},)}, TypeError, r"final\[0\]\[0\]"),
        ({"final": [1.0]}, ValueError, r"final\[0\]: found shape \(\)"),
        ({"final": 1.0}, TypeError, "final: found 1.0"),
        ({"final": da.Nodes([[1.0], [1.0]])}, TypeError, "final: found Nodes"),
        ({"guess": np.full((11, 1), np.nan)}, ValueError, "guess: found nan"),
        ({"guess": np.zeros((10, 1))}, ValueError, r"guess: found shape \(10, 1\)"),
        ({"guess": (np.zeros((11, 1)), np.zeros((11, 2)))}, ValueError, r"guess\[1\]: found shape \(11, 2\)"),
        ({"guess": (np.zeros((11, 1)),)}, ValueError, "guess: found a tuple of 1"),
        ({"steps": 1}, ValueError, "steps: found N = 1; at least two"),
        ({"through": {0.55: [0.5]}}, ValueError, "through: the time 0.55 is not the time of a node"),
        ({"scheme": da.Interpolated()}, TypeError, "scheme: found Interpolated"),
        ({"scheme": da.Scheme(order=4)}, ValueError, "scheme: found order 4"),
    ],
)
def test_solve_names_what_is_wrong(given, error, message):
    with pytest.raises(error, match=message):
        da.solve(MOVE, **{**ENDS, **given})


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"initial": ([0.0, [0.0]],)}, TypeError, r"initial\[0\]: found"),
        ({"initial": ([0.0, np.nan],)}, ValueError, r"initial\[0\]: found nan"),
        ({"initial": ([0.0, 0.0], 0.0)}, ValueError, r"initial\[1\]: found shape \(\)"),
        ({"guess": [[0.0, "a"]]}, TypeError, "guess: found"),
        ({"initial": ({0: 1.0},)}, TypeError, "initial: give all coordinates of something"),
    ],
)
def test_where_nothing_names_the_coordinates_the_data_say_how_many_there_are(given, error, message):
    with pytest.raises(error, match=message):
        da.solve(da.OptimalControl(MASS, cost=effort, actuated=0), **given, T=1.0, steps=10)


def test_ends_off_the_constraints_are_refused():
    ends = {"initial": ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]), "final": ([0.0, 1.0, 0.0], [0.0, 1.0, 0.0])}
    with pytest.raises(da.InconsistentDataError, match=r"final: .*Nonholonomic"):
        da.solve(knife_edge.knife_edge(), **ends, T=1.0, steps=10)


def test_what_the_controls_do_not_move_is_an_outcome():
    """A mass that no control acts on cannot be brought elsewhere; where it goes by itself it may go."""
    problem = da.OptimalControl(PLANE, cost=effort, actuated=0)
    ends = {"initial": ([0.0, 0.0], [0.0, 1.0]), "T": 1.0, "steps": 10}
    found = da.solve(problem, **ends, final=([1.0, 3.0], [0.0, 0.0]), throw=False)
    assert found.outcome in (da.Outcome.SINGULAR, da.Outcome.INFEASIBLE)
    assert "controllab" in found.describe()
    with pytest.raises(da.SolveError, match="controllab") as caught:
        da.solve(problem, **ends, final=([1.0, 3.0], [0.0, 0.0]))
    assert type(caught.value.solution) is da.solution.ControlSolution
    drifting = da.solve(problem, **ends, final=({"x": 1.0}, {"x": 0.0}))
    np.testing.assert_allclose(drifting.q[:, 1], drifting.t, rtol=0, atol=1e-12)


def test_actuators_that_depend_on_each_other_share_the_work():
    """B = (1 2): rank 1 of two controls, and still one minimum, u ∥ (1, 2); an actuator without effect rests."""
    problem = da.OptimalControl(MASS, cost=effort, actuated=lambda q: jnp.array([[1.0, 2.0, 0.0]]))
    found = da.solve(problem, **ENDS)
    assert found.kind == "minimum"
    np.testing.assert_allclose(found.u[:, 1], 2.0 * found.u[:, 0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.u[:, 2], 0.0, atol=1e-12)
    assert float(found.cost) == pytest.approx(float(da.solve(MOVE, **ENDS).cost) / 5.0, rel=1e-10)


def test_a_cost_without_a_minimum_is_no_minimum():
    """-u² has an extremal, a maximum; that it is none of least cost is said. Between bounds it has a minimum."""
    problem = da.OptimalControl(MASS, cost=lambda q, v, u: -u @ u, actuated=0)
    with pytest.raises(ValueError, match="cost: has no minimum"):
        da.solve(problem, **ENDS, throw=False)
    assert da.solve(problem, **ENDS, bounds={"u": (-20.0, 20.0)}, throw=False).outcome is not da.Outcome.UNBOUNDED
    extremal = da.solve(problem, **ENDS, seek="extremal")
    assert extremal.kind.startswith("saddle")


def test_a_lagrangian_that_is_not_finite_on_the_way_is_an_outcome():
    wall = da.System(lambda q, v: 0.5 * v @ v - jnp.sqrt(0.5 - q[0]))
    found = da.solve(da.OptimalControl(wall, cost=effort, actuated=0), **{**ENDS, "final": ({0: 1.0},)}, throw=False)
    assert found.outcome is da.Outcome.NOT_FINITE


def test_what_falls_without_end_is_called_unbounded():
    """∫(u² - 10⁵q²), and ∫(½v² - 50q²), whose conjugate time is π/10. Bounds make a minimum of it."""
    falling = da.OptimalControl(MASS, cost=lambda q, v, u: u @ u - 1e5 * q @ q, actuated=0)
    found = da.solve(falling, **ENDS, throw=False)
    assert found.outcome is da.Outcome.UNBOUNDED
    assert "seems to have no minimum" in found.describe()
    held = da.solve(falling, **ENDS, bounds={"u": (-20.0, 20.0)})
    assert held.kind == "minimum"
    long = da.VariationalProblem(lambda q, v: 0.5 * v @ v - 50.0 * q @ q)
    given = {"initial": ([0.0],), "final": ([1.0],), "T": 2.0, "steps": 40}
    with pytest.raises(da.SolveError, match="unbounded"):
        da.solve(long, **given)
    assert da.solve(long, **given, seek="extremal").outcome is da.Outcome.SUCCESS


def test_a_failure_says_where_the_equations_are_violated_and_that_bounds_may_be_the_reason():
    """A metre in a second needs |u| ≥ 4."""
    found = da.solve(MOVE, **ENDS, bounds={"u": (-3.0, 3.0)}, solver=da.Solver(max_iterations=3), throw=False)
    assert found.outcome in (da.Outcome.NOT_CONVERGED, da.Outcome.INFEASIBLE)
    assert 0.0 <= float(found.statistics.violated_at) <= 1.0
    assert "bounds" in found.describe()


def test_what_has_no_bounds_has_no_switches_and_bounds_of_coordinates_belong_to_q():
    with pytest.raises(KeyError, match="the solution has bounds on nothing"):
        da.solve(MOVE, **ENDS).switches("u")
    problem = da.OptimalControl(PLANE, cost=effort, actuated=(0, 1))
    with pytest.raises(ValueError, match=r"bounds: found 'x'; .*\{'x': \(lower, upper\)\}"):
        da.solve(problem, initial=([0.0, 0.0],), T=1.0, steps=10, bounds={"x": (0.0, 1.0)})


@pytest.mark.parametrize(("iterations", "says"), [(50, "adjoints"), (1, "guess=(q, u)")])
def test_a_message_speaks_of_the_problem_and_not_of_the_steps_of_a_run(iterations, says):
    solver = da.Solver(max_iterations=iterations)
    limits = {"u": (-6.0, 6.0)}
    found = da.solve(MOVE, **ENDS, bounds=limits, solver=solver, throw=False)
    assert says in found.message
    assert found.message in found.describe()
    assert "Reduce h" not in found.message
