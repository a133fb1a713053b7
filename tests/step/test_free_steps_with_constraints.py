"""Free steps with k = 2 and constraints, on Hermite windows: against the continuous flows of the same problems.

The energy is kept to rounding, which only a step that is an unknown can do, and the steps change by a fifth or more.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da


def turning(q, v, a):
    """In the plane motions near circles on which the error density keeps its sign; z is held by a constraint."""
    x, w, b = q[:2], v[:2], a[:2]
    return 0.5 * b @ b - 1.25 * w @ w + 0.5 * x @ x + 0.05 * (x @ x) ** 2 + 0.1 * a[2] ** 2


SADDLE = da.VariationalProblem(turning, da.Holonomic(lambda q: q[2] - 0.2 * q[0] * q[1]), derivatives=2)
DRIVEN = da.VariationalProblem(turning, da.SecondOrder(lambda q, v, a: a[2] + 0.5 * q[2] - 0.1 * q[0] * q[1]), derivatives=2)
ROD = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Nonholonomic(lambda q, v: 0.5 * (v @ v - 1.0)), derivatives=2)
PLANE = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
GAUSS = 0.5 + np.array([-0.5, 0.5]) / np.sqrt(3.0)


def product():
    """xy and its derivatives."""
    (x, y), (v, w), (a, b), (j, i) = PLANE
    return np.array([x * y, v * y + x * w, a * y + 2 * v * w + x * b, j * y + 3 * a * w + 3 * v * b + x * i])


def onto_window(problem, h, first, second, free):
    """The second node with a few of its numbers (free) moved so that the constraint between the nodes holds."""
    constraint = da.with_time(problem, da.Hermite()).differential[0][1]
    start, base, places = jnp.append(0.0, first.ravel()), jnp.append(h, second.ravel()), jnp.asarray(free)
    left = lambda x: constraint(start, base.at[places].add(x))  # noqa: E731
    better = jax.jit(lambda x: x - jnp.linalg.solve(jax.jacfwd(left)(x), left(x)))
    x = jnp.zeros(len(free))
    for _ in range(4):
        x = better(x)
    return np.asarray(base.at[places].add(x)[1:]).reshape(second.shape)


def kept_energy(problem, path):
    x = path if problem.differential else np.column_stack([path.t, path.q, path.v])
    return np.ptp(np.asarray(da.energies(da.with_time(problem, da.Hermite()), x)))


def test_on_a_surface():
    """φ = 0 and dφ/dt = 0 at every node."""
    jets, errors = np.column_stack([PLANE, 0.2 * product()]), []
    for h, steps in ((0.3, 14), (0.15, 28)):
        flow = da.systems.ostrogradsky(SADDLE, jets, [0.0, h])
        path = da.step.simulate_free_steps(SADDLE, [jets[:2], flow.jets[1, :2]], [0.0, h], steps=steps)
        q, v = np.asarray(path.q), np.asarray(path.v)
        exact = da.systems.ostrogradsky(SADDLE, jets, path.t)
        errors.append([np.abs(q - exact.q).max(), np.abs(v - exact.jets[:, 1]).max()])
        assert np.abs(q[:, 2] - 0.2 * q[:, 0] * q[:, 1]).max() < 1e-12
        assert np.abs(v[:, 2] - 0.2 * (v[:, 0] * q[:, 1] + q[:, 0] * v[:, 1])).max() < 1e-11
        assert kept_energy(SADDLE, path) < 1e-11
        held = exact.holonomic_multipliers[1:-1, 0]
        assert np.abs(path.multipliers[:, 0] - held).max() < 0.2 * h**2
    assert np.ptp(np.diff(path.t)) > 0.2 * float(path.t[1])
    np.testing.assert_allclose(np.log2(np.array(errors[0]) / errors[1]), 3.0, rtol=0, atol=0.7)


def test_unit_speed():
    """Elastica, λ = p·e - θ̇²: |v| = 1 at every node and half way between."""
    tension, turn = np.array([1.0, 0.5]), 1.5

    def rate(_, z):
        c, s = np.cos(z[2]), np.sin(z[2])
        return np.array([c, s, z[3], tension @ [s, -c]])

    exact = solve_ivp(rate, (0, 3), [0.0, 0.0, 0.0, turn], "DOP853", rtol=1e-12, atol=1e-13, dense_output=True).sol
    along = lambda z: np.array([np.cos(z[2]), np.sin(z[2])])  # noqa: E731
    multiplier = lambda t: tension @ along(exact(t)) - exact(t)[3] ** 2  # noqa: E731
    errors, first = [], np.array([[0.0, 0.0], [1.0, 0.0]])
    for h, steps in ((0.1, 19), (0.05, 38)):
        second = onto_window(ROD, h, first, np.stack([exact(h)[:2], along(exact(h))]), [1])
        path = da.step.simulate_free_steps(ROD, [first, second], [0.0, h], steps=steps, multipliers=[[multiplier(0.5 * h)]])
        assert np.abs(np.linalg.norm(path.v, axis=1) - 1.0).max() < 1e-12
        assert kept_energy(ROD, path) < 1e-9
        free = [multiplier(float(t)) for t in path.t_multipliers]
        errors.append(
            [np.abs(path.q - exact(np.asarray(path.t))[:2].T).max(), np.abs(path.multipliers[:, 0] - np.array(free)).max()]
        )
    assert np.ptp(np.diff(path.t)) > 0.2 * h
    assert np.all(np.log2(np.array(errors[0]) / errors[1]) > 1.6)
    assert errors[1][0] < 1e-3
    with pytest.raises(da.InconsistentDataError, match="Φ_d at their windows must vanish"):
        da.step.simulate_free_steps(ROD, [first, second + 1e-4], [0.0, h], steps=5, multipliers=[[0.1]])


def test_a_constraint_on_accelerations():
    """It holds at two Gauss points of each window, with a multiplier at each, which is of order 4."""

    def rate(_, y):
        """x⁗ + 5/2 ẍ + x + |x|²x/5 = λ(y, x)/10 in the plane, z̈ = xy/10 - z/2, λ̈ = -λ/2 - z⁗/5."""
        x, v, a, j = y[:8].reshape(4, 2)
        z, w, free, slope = y[8:]
        second = 0.1 * (a[0] * x[1] + 2 * v[0] * v[1] + x[0] * a[1])
        bend = 0.1 * x[0] * x[1] - 0.5 * z
        top = -2.5 * a - x - 0.2 * (x @ x) * x + 0.1 * free * x[::-1]
        return np.concatenate([v, a, j, top, [w, bend, slope, -0.5 * free - 0.2 * (second - 0.5 * bend)]])

    begin = [*PLANE.ravel(), 0.3, 0.2, 0.4, -0.3]
    exact = solve_ivp(rate, (0, 4), begin, "DOP853", rtol=1e-12, atol=1e-13, dense_output=True).sol
    at = lambda t: exact(t)[[0, 1, 8]]  # noqa: E731
    errors, first = [], np.stack([at(0.0), exact(0.0)[[2, 3, 9]]])
    for h, steps in ((0.15, 20), (0.075, 40)):
        second = onto_window(DRIVEN, h, first, np.stack([at(h), exact(h)[[2, 3, 9]]]), [3, 6])
        given = {"steps": steps, "multipliers": exact(h * GAUSS)[10:11]}
        path = da.step.simulate_free_steps(DRIVEN, [first, second], [0.0, h], **given)
        errors.append(np.abs(path.q - at(np.asarray(path.t)).T).max())
        steps = np.diff(path.t)[1:, None]
        points = np.asarray(path.t)[1:-1, None] + steps * GAUSS
        assert np.abs(path.multipliers - exact(points.ravel())[10].reshape(-1, 2)).max() < 3e-3 * h**4
    assert np.log2(errors[0] / errors[1]) > 1.5
    assert errors[1] < 1e-5
