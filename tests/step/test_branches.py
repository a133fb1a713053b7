"""Roots of a step, and the rules that choose among them, on problems whose roots are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.gallery import inertia_wheel_pendulum as wheel
from dalembert.systems import lyapunov_control, lyapunov_factor

CUBIC = da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: (a[0] - 1) * (a[0] - 3) * (a[0] + 2)))
PENDULUM = ENTRIES["inertia_wheel_pendulum"]
PAPER = da.Scheme.borda_fernandez_grillo()


def test_roots_finds_all_roots_of_a_cubic_constraint():
    found = da.roots(CUBIC, [0.0, 0.0], [1.0, 1.0], h=0.1)
    assert np.allclose(sorted(r.v[0] for r in found), [1.0 - 0.2, 1.0 + 0.1, 1.0 + 0.3], atol=1e-12)
    assert found[0].v[0] == pytest.approx(1.1)  # the nearest to the prediction v' = v first
    assert max(r.residual for r in found) < 1e-12


def test_roots_finds_a_root_that_newton_from_the_prediction_misses():
    """The curvature particle at h k |v| = 7: v turns by 120°, |v'| = |v|, sin(φ/2) = (h/2) k |v| cos²(φ/2)."""
    particle = ENTRIES["curvature_particle"]
    with pytest.raises(da.StepError):
        da.simulate(particle.system, particle.q0, particle.v0, h=5.0, steps=1)
    (found,) = da.roots(particle.system, particle.q0, particle.v0, h=5.0)
    half = 2.5 * np.sqrt(2.0)
    phi = 2 * np.arcsin(2 * half / (1 + np.sqrt(1 + 4 * half**2)))
    turn = np.array([[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]])
    assert np.allclose(found.v, turn @ np.array([1.0, 1.0]), rtol=0, atol=1e-12)


def test_roots_is_empty_where_no_real_root_exists():
    """a² = v_y - ¾ holds at the start and has no real solution at the mean velocity of a long step."""
    falling = da.System(
        lambda q, v: 0.5 * v @ v - 1.0 * q[1],
        da.SecondOrder(lambda q, v, a: a[0] ** 2 - v[1] + 0.75, reactions=lambda q, v, a: jnp.array([1.0, 0.0])),
    )
    assert len(da.roots(falling, [0.0, 0.0], [0.0, 1.0], h=0.1)) == 2
    assert da.roots(falling, [0.0, 0.0], [0.0, 1.0], h=1.0) == []
    path = da.simulate(falling, [0.0, 0.0], [0.0, 1.0], h=1.0, steps=3, throw=False)
    assert path.outcome is da.Outcome.NO_SOLUTION


def physical_control(q, v, p):
    """λ = ṗ₂ = -ρ tanh u - K, derived by hand from the matching equation."""
    a, b, c = 1 / p["I"], -1 / p["I"], 1 / p["I"] + 1 / p["J"]
    h_c, g_c, _ = wheel.gains(p)
    k = p["M"] * jnp.sin(q[0]) * (g_c + p["e"] * b / p["d"]) / h_c
    k = k - p["chi"] * ((a * c - b * b) / p["d"]) * jnp.sin(q[1] - p["n"] * q[0])
    return -p["rho"] * jnp.tanh(wheel.factor(q, v, p)) - k


def test_both_roots_of_the_pendulum_are_found_and_told_apart():
    found = da.roots(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, h=0.1, scheme=PAPER)
    assert len(found) == 2
    physical, spurious = found if abs(found[0].factor) > abs(found[1].factor) else found[::-1]
    assert abs(spurious.factor) < 1e-8 < abs(physical.factor)
    # The constraint is read at q₁ = q0 and the mean of v and v'.
    middle = 0.5 * (jnp.array(PENDULUM.v0) + physical.v)
    truth = physical_control(jnp.array(PENDULUM.q0), middle, PENDULUM.system.parameters)
    assert physical.multipliers[0] == pytest.approx(float(truth), rel=1e-10)


def test_the_control_law_is_exact_also_where_its_factor_vanishes():
    p = PENDULUM.system.parameters
    h_c, g_c, _ = wheel.gains(p)
    law = jax.jit(lambda q, v: lyapunov_control(PENDULUM.system, q, v)[0])
    factor = jax.jit(lambda q, v: lyapunov_factor(PENDULUM.system, q, v))
    of_laws = jax.jit(da.control_law(PENDULUM.system))  # by fewer nodes between u = 0 and the state
    for p1 in (-40.0, 0.0, 3.0):
        for u in (300.0, 10.0, 1.0, 0.1, 1e-3, 1e-6, 1e-12, 0.0, -1e-9, -0.3):
            p2 = (u - g_c * p1) / h_c
            rate = (p1 - p2) / p["I"]
            q, v = jnp.array([0.3, 7.0]), jnp.array([rate, p2 / p["J"] - rate])
            assert factor(q, v) == pytest.approx(float(wheel.factor(q, v, p)), abs=1e-7)
            assert law(q, v) == pytest.approx(float(physical_control(q, v, p)), rel=1e-9), (p1, u)
            assert of_laws(q, v)[0] == pytest.approx(float(physical_control(q, v, p)), rel=1e-8), (p1, u)


def test_a_control_law_with_a_pole_fails_openly():
    """V = ½|v|² does not solve the matching equation: at u = 0 no finite control exists, and the run says so."""
    system = da.System(
        lambda q, v: 0.5 * v @ v - 0.5 * (q[0] - q[1]) ** 2,
        da.Lyapunov(lambda q, v: 0.5 * v @ v + 0.5 * q @ q, lambda q, v: 0.1 * v @ v, actuated=1),
    )
    path = da.simulate(system, [1.0, 0.2], [0.0, 0.5], h=0.01, steps=2000, throw=False)
    assert path.outcome.failed
    assert path.steps > 10
    assert np.all(np.isfinite(path.q))


def run(branch, time=120.0, h=0.1):
    return da.simulate(
        PENDULUM.system,
        PENDULUM.q0,
        PENDULUM.v0,
        h=h,
        steps=round(time / h),
        scheme=PAPER,
        solver=da.Solver(branch=branch),
        throw=False,
    )


def spurious_steps(path):
    """Steps on which u = 0, i.e. V does not decrease."""
    v = 0.5 * (path.v[1:] + path.v[:-1])
    u = jax.vmap(lambda q, w: wheel.factor(q, w, PENDULUM.system.parameters))(path.q[1:-1], v)
    return int(jnp.sum(jnp.abs(u) < 1e-7))


def test_the_default_stays_on_the_physical_branch_through_all_crossings():
    path = run(None)
    assert path.outcome is da.Outcome.SUCCESS
    assert int(path.statistics.crossings) > 50
    assert spurious_steps(path) == 0
    v = 0.5 * (path.v[1:] + path.v[:-1])
    truth = jax.vmap(lambda q, w: physical_control(q, w, PENDULUM.system.parameters))(path.q[1:-1], v)
    assert np.allclose(path.multipliers[:, 0], truth, rtol=1e-8, atol=1e-7)


def test_dividing_by_the_users_factor_gives_the_same_path():
    default, divided = run(None, 20.0), run(da.Avoid(wheel.factor), 20.0)
    assert divided.outcome is da.Outcome.SUCCESS
    assert np.allclose(divided.q, default.q, rtol=0, atol=1e-6)


@pytest.mark.parametrize("branch", [da.Nearest("previous", (0,)), da.Nearest("prediction")])
def test_rules_of_distance_take_the_spurious_root(branch):
    """Measured, and the reason for the default: at a crossing the nearest root changes."""
    path = run(branch)
    assert path.outcome is da.Outcome.SUCCESS
    assert spurious_steps(path) > 0.1 * path.steps


def test_least_value_follows_the_physical_branch_with_short_excursions():
    path, default = run(da.Least(wheel.lyapunov)), run(None)
    assert path.outcome is da.Outcome.SUCCESS
    assert np.max(np.abs(path.q[:, 0] - default.q[:, 0])) < 5e-3


def test_a_crossing_that_no_factor_explains_ends_the_run_without_a_rule():
    """(a - (t - t*)) a = 0 has the roots a = 0 and a = t - t*, which cross once, between two nodes."""
    system = da.System(
        lambda q, v, t: 0.5 * v @ v,
        da.SecondOrder(lambda q, v, a, t: (a[0] - (t - 0.512)) * a[0], reactions=lambda q, v, a, t: jnp.array([1.0])),
        time_dependent=True,
    )
    for backend in ("native", "jax"):
        ended = da.simulate(system, [0.0], [0.0], h=0.01, steps=100, throw=False, solver=da.Solver(backend=backend))
        assert ended.outcome is da.Outcome.CROSSED
        assert float(ended.statistics.failed_time) == pytest.approx(0.51)
        assert np.all(np.asarray(ended.q) == 0.0)
    path = da.simulate(system, [0.0], [0.0], h=0.01, steps=100, solver=da.Solver(branch=da.Nearest("prediction")))
    assert np.all(np.asarray(path.q) == 0.0)  # the root that is followed is not left
    assert int(path.statistics.crossings) == 1
