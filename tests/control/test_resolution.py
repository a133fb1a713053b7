"""A mesh that does not resolve the motion is told by a warning, as by simulate."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.control.resolution import acceleration, integrate_steps
from dalembert.control.rows import RowFunction

STIFF = da.System(lambda q, v: 0.5 * v @ v - 0.5 * 60.0**2 * (1.0 - jnp.cos(q[0])))
TASK = da.OptimalControl(STIFF, cost=lambda q, v, u: u @ u, actuated=0)
ENDS = {"initial": ([0.5], [0.0]), "final": ([0.0], [0.0]), "T": 1.0}


def test_coarse_steps_are_told_and_fine_ones_are_not():
    with pytest.warns(UserWarning, match=r"steps: found 8; the plant, integrated over step \d+ .* use more steps"):
        da.solve(TASK, **ENDS, steps=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.solve(TASK, **ENDS, steps=400)


def crane(q, v):
    """x of a trolley, length and angle of its rope."""
    speed = jnp.stack([
        v[0] + v[1] * jnp.sin(q[2]) + q[1] * jnp.cos(q[2]) * v[2], v[1] * jnp.cos(q[2]) - q[1] * jnp.sin(q[2]) * v[2]
    ])  # fmt: skip
    return v[0] ** 2 + 0.5 * speed @ speed + 9.81 * q[1] * jnp.cos(q[2])


def above_the_pillar(q, v, u):
    """The load passes a disc half way."""
    return 0.7**2 - (q[0] + q[1] * jnp.sin(q[2]) - 1.5) ** 2 - (q[1] * jnp.cos(q[2]) - 2.0) ** 2


@pytest.mark.parametrize(("depth", "swing"), [(1.5, 0.5), (1.9, 0.0), (3.0, -1.0)])
def test_a_motion_that_the_steps_resolve_is_preferred(depth, swing):
    """From these paths the least cost pulls the rope through length 0, at costs of 21 to 41, in jumps of a step. IPOPT finds
    17.2084 from a path without that (benchmarks/control/robots.py, crane)."""
    task = da.OptimalControl(da.System(crane), cost=lambda q, v, u: u[0] ** 2 + (u[1] + 9.81) ** 2, actuated=(0, 1))
    s, rest = np.linspace(0.0, 1.0, 41), np.zeros(3)
    arch = np.sin(np.pi * s)
    guess = np.stack([3.0 * s**2 * (3.0 - 2.0 * s), 2.0 - depth * arch, swing * arch], axis=1)
    ends = {"initial": ([0.0, 2.0, 0.0], rest), "final": ([3.0, 2.0, 0.0], rest), "T": 4.0, "steps": 40}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = da.solve(task, **ends, inequalities=above_the_pillar, guess=guess)
    assert found.kind == "minimum"
    assert abs(found.cost - 17.2084) < 1e-3
    assert found.q[:, 1].min() > 0.5
    assert "the steps do not resolve the motion that the first path led to" in found.describe()


@pytest.mark.parametrize("constraints", [
    (), da.Holonomic(lambda q: q[1] - jnp.sin(q[0])), da.Nonholonomic(lambda q, v: v[1] - q[2] * v[0])
])  # fmt: skip
def test_few_steps_that_suffice_are_not_told(constraints):
    plant = da.OptimalControl(
        da.System(lambda q, v: 0.5 * v @ v, constraints), cost=lambda q, v, u: u @ u, actuated=lambda q: jnp.eye(3)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.solve(plant, initial=(np.zeros(3), np.zeros(3)), final=([0.5, np.sin(0.5), 1.0], np.zeros(3)), T=1.0, steps=5)
        da.solve(
            plant, initial=(np.zeros(3), np.zeros(3)), final=({0: 0.5, 2: 1.0}, None), T=1.0, steps=10, bounds={"u": (-9, 9)}
        )


def test_the_plant_is_integrated_with_controls_that_are_linear_in_a_step():
    """θ̈ + 9(1 + t) sin θ = (2 + cos θ) u, one step from each of two states, by SciPy."""
    plant = da.System(lambda q, v, t: 0.5 * v @ v + 9.0 * (1.0 + t) * jnp.cos(q[0]), time_dependent=True)
    push = lambda q, t: jnp.stack([2.0 + jnp.cos(q)])  # noqa: E731
    problem = da.OptimalControl(plant, cost=lambda q, v, u, t: u @ u, actuated=push)
    q, v, u0, u1 = (np.array(x)[:, None] for x in ([0.5, -1.0], [1.0, 0.3], [2.0, -3.0], [-1.0, 4.0]))
    t, h = np.array([0.0, 0.7]), np.array([0.1, 0.075])
    found = integrate_steps(RowFunction(acceleration, problem, 1, 4), q, v, u0, u1, t, h, 4)
    for i in range(2):

        def rate(s, y, i=i):
            u = u0[i, 0] + (s - t[i]) / h[i] * (u1[i, 0] - u0[i, 0])
            return [y[1], -9.0 * (1.0 + s) * np.sin(y[0]) + (2.0 + np.cos(y[0])) * u]

        exact = solve_ivp(rate, (t[i], t[i] + h[i]), [q[i, 0], v[i, 0]], "DOP853", rtol=1e-12, atol=1e-13).y[0, -1]
        np.testing.assert_allclose(found[i, 0], exact, rtol=0, atol=1e-6)
