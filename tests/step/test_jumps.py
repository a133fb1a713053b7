"""Systems whose equations jump, kink or have declared derivatives: what counts as solved satisfies the equations.

The default step of ½|v|² - V(q) with forces f is the trapezoidal rule, written here with NumPy:
q₁ - q₀ = h (v₀ + v₁)/2,   v₁ - v₀ = h (g(q₀, v₀) + g(q₁, v₁))/2,   g = f - V′
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dalembert as da

H = 0.1


@jax.custom_jvp
def drag(v):
    return -0.1 * v * jnp.abs(v)


drag.defjvp(lambda primals, tangents: (drag(primals[0]), 0.0 * tangents[0]))  # a rough derivative, as some use


# One coordinate each, in one system: the motion goes through every jump, and each step has a root.
def potential(q):
    return (
        jnp.abs(q[0]) + jax.nn.relu(q[1]) + 0.5 * q[2] ** 2 + jnp.where(q[3] > 0, 2.0, 0.5) * q[3] ** 2 / 2
        + 0.5 * q[4:] @ q[4:]
    )  # fmt: skip


def forces(q, v):
    branch = lax.cond(q[3] > 0, lambda x: -0.3 * x, lambda x: -0.1 * x**3, v[3])
    late = lax.stop_gradient(-0.2 * v[2])
    return jnp.stack([0.0 * q[0], 0.0 * q[1], late, branch, *drag(v[4:5]), -jnp.floor(5 * q[5]) * 0.1, -jnp.mod(q[6], 0.5)])


def truth(q, v):
    """f - V′, by hand."""
    g = np.empty_like(q)
    g[0] = -np.sign(q[0])
    g[1] = -1.0 if q[1] > 0 else 0.0
    g[2] = -q[2] - 0.2 * v[2]
    g[3] = -2.0 * q[3] - 0.3 * v[3] if q[3] > 0 else -0.5 * q[3] - 0.1 * v[3] ** 3
    g[4] = -q[4] - 0.1 * v[4] * abs(v[4])
    g[5] = -q[5] - np.floor(5 * q[5]) * 0.1
    g[6] = -q[6] - q[6] % 0.5
    return g


def defects(path, g):
    """The largest defect of the two equations over all steps."""
    q, v = np.asarray(path.q), np.asarray(path.v)
    values = np.array([g(a, b) for a, b in zip(q, v, strict=True)])
    moved = q[1:] - q[:-1] - 0.5 * H * (v[1:] + v[:-1])
    pushed = v[1:] - v[:-1] - 0.5 * H * (values[1:] + values[:-1])
    return np.abs(moved).max(), np.abs(pushed).max()


START = (np.array([0.52, -0.31, 0.4, -0.33, 0.2, 0.43, 0.77]), np.array([-1.0, 1.03, 0.3, 1.0, 1.0, -1.0, 0.4]))
SYSTEM = da.System(lambda q, v: 0.5 * v @ v - potential(q), forces=forces)
STEPS = 12


@pytest.fixture(scope="module")
def paths():
    return {
        b: da.simulate(SYSTEM, *START, h=H, steps=STEPS, solver=da.Solver(backend=b, max_iterations=100))
        for b in ("native", "jax")
    }


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_every_step_that_counts_as_solved_satisfies_the_equations(paths, backend):
    path = paths[backend]
    moved, pushed = defects(path, truth)
    assert path.outcome == da.Outcome.SUCCESS
    assert moved <= 1e-14
    assert pushed <= 2e-9  # declared derivatives: convergence is linear, and the last update about the tolerance
    crossed = np.sign(np.asarray(path.q)[0, [0, 1, 3]]) != np.sign(np.asarray(path.q)[-1, [0, 1, 3]])
    assert crossed.all()


def test_the_back_ends_take_the_same_way(paths):
    native, jax_ = paths["native"], paths["jax"]
    np.testing.assert_allclose(native.q, jax_.q, rtol=0, atol=1e-12)
    assert int(native.statistics.iterations) == int(jax_.statistics.iterations)
    assert native.statistics.residual == pytest.approx(float(jax_.statistics.residual), rel=1e-4)


def test_lanes_and_jit_take_the_same_way(paths):
    many = da.ensemble(SYSTEM, np.tile(START[0], (20, 1)), START[1], h=H, steps=STEPS, solver=da.Solver(max_iterations=100))
    np.testing.assert_allclose(np.asarray(many.q)[[0, 19]], np.stack([paths["native"].q] * 2), rtol=0, atol=1e-12)
    run = jax.jit(lambda q: da.simulate(SYSTEM, q, START[1], h=H, steps=STEPS, solver=da.Solver(max_iterations=100)).q)
    np.testing.assert_allclose(run(START[0]), paths["native"].q, rtol=0, atol=1e-13)


FRICTION = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, forces=lambda q, v: -0.3 * jnp.sign(v))


def rubbing(q, v):
    return -q - 0.3 * np.sign(v)


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_dry_friction_ends_where_it_sticks(backend):
    """At the last state no velocity solves the next step: v - v₀ - h (g₀ + g(q, v))/2 jumps over zero."""
    path = da.simulate(FRICTION, [0.5], [-1.03], h=H, steps=100, throw=False, solver=da.Solver(backend=backend))
    assert path.outcome in (da.Outcome.NOT_CONVERGED, da.Outcome.NO_SOLUTION)
    assert path.steps == 50
    assert max(defects(path, rubbing)) <= 1e-14
    q, v = float(path.q[-1, 0]), float(path.v[-1, 0])
    z = np.linspace(-2, 2, 400_001)
    left = z - v - 0.5 * H * (rubbing(q, v) + rubbing(q + 0.5 * H * (v + z), z))
    assert np.abs(left).min() > 1e-3


def test_stages_of_a_composition_end_alike():
    options = {"h": H, "steps": 60, "throw": False, "scheme": da.Scheme(order=4)}
    native, jax_ = (da.simulate(FRICTION, [0.5], [-1.03], solver=da.Solver(backend=b), **options) for b in ("native", "jax"))
    assert native.outcome == jax_.outcome
    assert native.outcome in (da.Outcome.NOT_CONVERGED, da.Outcome.NO_SOLUTION)
    assert native.steps == jax_.steps > 5
    np.testing.assert_allclose(native.q, jax_.q, rtol=0, atol=1e-13)


def test_friction_in_lanes_ends_as_alone():
    v0 = np.linspace(-1.5, -0.5, 17)[:, None]
    many = da.ensemble(FRICTION, [0.5], v0, h=H, steps=100)
    assert set(np.asarray(many.code).tolist()) <= {int(da.Outcome.NOT_CONVERGED), int(da.Outcome.SUCCESS)}
    assert (np.asarray(many.code) == int(da.Outcome.NOT_CONVERGED)).sum() > 8
    for i in (0, 8, 16):
        alone = da.simulate(FRICTION, [0.5], v0[i], h=H, steps=100, throw=False)
        lane = many.lane(i)
        assert lane.steps == alone.steps
        np.testing.assert_allclose(lane.q, alone.q, rtol=0, atol=1e-13)
        assert max(defects(lane, rubbing)) <= 1e-14
