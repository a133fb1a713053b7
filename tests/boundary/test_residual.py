"""The residual that a solution reports is that of its equations, whatever else is measured at the end of an iteration."""

import dalembert as da

POINTS = {0.0: [1.0, 0.0, 0.0], 1.0: [0.0, 1.0, 0.0], 2.0: [0.0, 0.0, 1.0]}


def test_a_spline_on_the_sphere_reports_rounding():
    """Given points inside, a holonomic constraint: the condition of the equations is estimated in place of the matrix."""
    assert da.spline(da.manifolds.sphere(), POINTS, steps=20).statistics.residual < 1e-12


def test_a_controlled_path_reports_rounding():
    plant = da.System(lambda q, v: 0.5 * v @ v)
    task = da.OptimalControl(plant, cost=lambda q, v, u: u @ u, actuated=0)
    solution = da.solve(task, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=20)
    assert solution.statistics.residual < 1e-12
