"""What a run can be told, each against an independent truth: SciPy's integration, closed forms, or the full path."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.native import CACHE
from dalembert.options import PLACES, group_options

PENDULUM = ENTRIES["pendulum"]
CURVATURE = ENTRIES["curvature_particle"]
DATA = ([1.0], [0.3])
H, STEPS = 0.05, 23


def run(system=PENDULUM.system, data=DATA, **options):
    return da.simulate(system, *data, **{"h": H, "steps": STEPS, **options})


@functools.cache
def full(form=None):
    return run(scheme=da.Scheme(form))


@pytest.mark.parametrize("form", [None, "nodes"])
@pytest.mark.parametrize("every", [2, 5, STEPS, 100, None])
def test_thinning_keeps_rows_of_the_full_path_and_the_last(form, every):
    path, whole = run(scheme=da.Scheme(form), save=da.Save(every=every)), full(form)
    kept = [k for k in range(STEPS + 1) if k % (every or STEPS) == 0 or k == STEPS]
    np.testing.assert_array_equal(path.t, whole.t[np.array(kept)])
    np.testing.assert_array_equal(path.q, whole.q[np.array(kept)])
    for name in ("v", "multipliers"):
        times, table = ("t_velocity", "v") if name == "v" else ("t_multipliers", "multipliers")
        all_times = np.asarray(getattr(whole, times))
        rows = [int(np.flatnonzero(np.isclose(all_times, t, atol=1e-12))[0]) for t in np.asarray(getattr(path, times))]
        np.testing.assert_array_equal(getattr(path, table), np.asarray(getattr(whole, table))[rows])
    assert path.steps == whole.steps
    assert int(path.statistics.iterations) == int(whole.statistics.iterations)


def test_reduce_sees_every_step():
    """Largest |θ| and a count, while only the last state is stored."""
    largest = lambda c, t, q, v, m: {"n": c["n"] + 1, "top": jnp.maximum(c["top"], jnp.abs(q[0])), "t": t}  # noqa: E731
    path = run(save=da.Save(reduce=(largest, {"n": 0, "top": 1.0, "t": 0.0}), every=None))
    assert int(path.reduced["n"]) == STEPS
    assert float(path.reduced["top"]) == float(jnp.max(jnp.abs(full().q)))
    np.testing.assert_allclose(path.reduced["t"], STEPS * H, rtol=1e-14)


def test_stop_and_domain():
    below = lambda q, v, p: q[0] < 0.9  # noqa: E731
    stopped = run(stop=below)
    first = int(np.flatnonzero(np.asarray(full().q[:, 0]) < 0.9)[0])
    assert stopped.outcome is da.Outcome.STOPPED
    assert stopped.steps == first
    np.testing.assert_array_equal(stopped.q, full().q[: first + 1])  # the state at which it is true is kept
    refused = run(stop=da.Stop(domain=lambda q, v, p: q[0] >= 0.9), throw=False)
    assert refused.outcome is da.Outcome.LEFT_DOMAIN
    np.testing.assert_array_equal(refused.q, full().q[:first])  # the state outside is not
    assert not stopped.outcome.failed
    assert refused.outcome.failed


def test_sampled_feedback_against_a_zero_order_hold():
    """θ̈ = -sin θ + f with f = -4θ - 2θ̇ sampled every 5 steps, SciPy integrating each interval with constant f: order 2."""
    every, time = 5, 4.0
    law = lambda q, v, p: -4.0 * q - 2.0 * v  # noqa: E731
    errors = []
    for h in (0.02, 0.01):
        hold, y, held = every * h * (0.02 / h), np.array([1.0, 0.3]), []
        for _ in range(round(time / hold)):
            f = -4.0 * y[0] - 2.0 * y[1]
            held.append(f)
            y = solve_ivp(lambda t, z, f=f: [z[1], -np.sin(z[0]) + f], (0, hold), y, rtol=1e-11, atol=1e-12).y[:, -1]
        feedback = da.SampledFeedback(law, every=round(hold / h))
        path = run(h=h, steps=round(time / h), feedback=feedback)
        np.testing.assert_allclose(path.feedback[:: feedback.every, 0], held, rtol=0, atol=2e-3)
        np.testing.assert_array_equal(path.feedback[0], path.feedback[feedback.every - 1])
        np.testing.assert_allclose(path.t_feedback, path.t[:-1], rtol=0, atol=1e-12)
        errors.append(np.abs(path.q[-1, 0] - y[0]) + np.abs(path.v[-1, 0] - y[1]))
    assert errors[1] < 1e-4
    assert 1.8 < np.log2(errors[0] / errors[1]) < 2.2


def test_damped_oscillator():
    """ẍ + 2cẋ + x = 0: x = e^{-ct}(cos ωt + (c/ω) sin ωt), ω² = 1 - c². Order 2."""
    c, errors = 0.2, []
    system = da.System(lambda q, v: 0.5 * (v @ v - q @ q), forces=lambda q, v: -2 * c * v)
    w = np.sqrt(1 - c * c)
    for h in (0.1, 0.05):
        path = run(system, ([1.0], [0.0]), h=h, steps=round(5 / h))
        t = np.asarray(path.t)
        errors.append(np.max(np.abs(path.q[:, 0] - np.exp(-c * t) * (np.cos(w * t) + c / w * np.sin(w * t)))))
    assert errors[1] < 1e-3
    assert 1.95 < np.log2(errors[0] / errors[1]) < 2.05


# A bead on a hoop of radius 1 that turns about the vertical with angle α(t) = t + 0.3 sin t, under gravity and drag:
# θ̈ = α̇² sin θ cos θ - g sin θ - c θ̇. In R³: |q| = 1 and x sin α - y cos α = 0; drag relative to the hoop.
ANGLE, RATE = (lambda t: t + 0.3 * jnp.sin(t)), (lambda t: 1 + 0.3 * jnp.cos(t))
G, DRAG = 2.0, 0.1


def drag(q, v, t):
    return -DRAG * (v - RATE(t) * jnp.array([-q[1], q[0], 0.0]))


HOOP = da.System(
    lambda q, v, t: 0.5 * v @ v - G * q[2],
    [
        da.Holonomic(lambda q, t: 0.5 * (q @ q - 1)),
        da.Holonomic(lambda q, t: q[0] * jnp.sin(ANGLE(t)) - q[1] * jnp.cos(ANGLE(t))),
    ],
    forces=drag,
    time_dependent=True,
)


def hoop_point(theta, rate, t):
    alpha, turn = np.asarray(ANGLE(t)), np.asarray(RATE(t))
    out, along = np.array([np.cos(alpha), np.sin(alpha)]), np.array([-np.sin(alpha), np.cos(alpha)])
    q = np.array([*(np.sin(theta) * out), -np.cos(theta)])
    v = np.array([*(rate * np.cos(theta) * out + np.sin(theta) * turn * along), rate * np.sin(theta)])
    return q, v


def test_time_in_lagrangian_constraints_and_forces():
    t0, time, errors = 0.7, 2.0, []
    reduced = lambda t, y: [  # noqa: E731
        y[1], float(RATE(t)) ** 2 * np.sin(y[0]) * np.cos(y[0]) - G * np.sin(y[0]) - DRAG * y[1],
    ]  # fmt: skip
    end = solve_ivp(reduced, (t0, t0 + time), [0.8, 0.1], rtol=1e-9, atol=1e-10).y[:, -1]
    exact_q, exact_v = hoop_point(*end, t0 + time)
    for h in (0.1, 0.05):
        path = run(HOOP, hoop_point(0.8, 0.1, t0), h=h, steps=round(time / h), t0=t0)
        np.testing.assert_allclose(path.t, t0 + h * np.arange(path.t.shape[0]), rtol=1e-13)
        errors.append(np.linalg.norm(path.q[-1] - exact_q) + np.linalg.norm(path.v[-1] - exact_v))
    np.testing.assert_allclose(np.sum(np.asarray(path.q) ** 2, axis=1), 1.0, rtol=0, atol=1e-12)
    assert errors[1] < 5e-3
    assert 1.8 < np.log2(errors[0] / errors[1]) < 2.2


def test_virtual_displacements_and_reactions_give_one_motion():
    """n = 2, m = 1; and n = 4, m = 2, where λ depends on the rows but the force does not."""
    plane = lambda **forces: da.System(  # noqa: E731
        lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: v[0] * a[1] - a[0] * v[1] - 1.0, **forces)
    )
    by_virtual = run(plane(virtual=lambda q, v, a: v), ([0.0, 0.0], [1.0, 1.0]))
    by_rows = run(plane(reactions=lambda q, v, a: jnp.array([v[1], -v[0]])), ([0.0, 0.0], [1.0, 1.0]))
    np.testing.assert_allclose(by_virtual.q, by_rows.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_virtual.multipliers, by_rows.multipliers, rtol=0, atol=1e-10)
    rows = lambda q: jnp.array([[-q[1], 0.0, 1.0, 0.0], [0.0, 1.0, q[0], 2.0]])  # noqa: E731
    basis = lambda q: jnp.array([[1.0, 0.0, q[1], -0.5 * q[0] * q[1]], [0.0, 2.0, 0.0, -1.0]]).T  # noqa: E731
    both = lambda **forces: da.System(  # noqa: E731
        lambda q, v: 0.5 * v @ v - 0.5 * q @ q, da.Nonholonomic(lambda q, v: rows(q) @ v, **forces)
    )
    data = ([0.5, 1.0, 0.0, 0.2], np.asarray(basis([0.5, 1.0])) @ np.array([1.0, 0.4]))
    by_virtual, by_rows = run(both(virtual=lambda q, v: basis(q)), data), run(both(), data)
    np.testing.assert_allclose(by_virtual.q, by_rows.q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(by_virtual.constraint_forces, by_rows.constraint_forces, rtol=0, atol=1e-9)


# Multipliers, sign and scale, against those of the continuous equations at the times the path gives.
COMBINED = da.System(
    lambda q, v: 0.5 * v @ v - 0.5 * q[3] ** 2,
    [
        da.Holonomic(lambda q: 0.5 * (q[0] ** 2 + q[1] ** 2 - 1)),
        da.Nonholonomic(lambda q, v: v[2] - q[0] * v[3]),
        da.SecondOrder(lambda q, v, a: a[3] + q[3] + 0.5 * v[2], reactions=lambda q, v, a: jnp.array([0.0, 0.3, 0.0, 1.0])),
    ],
)
MULTIPLIERS = {
    "holonomic": (ENTRIES["spherical_pendulum"].system, ([0.6, 0.0, -0.8], [0.4, 0.5, 0.3])),
    "nonholonomic": (ENTRIES["nonholonomic_particle"].system, ([0.0, 1.0, 0.0], [1.0, 0.5, 1.0])),
    "second order": (CURVATURE.system, ([0.0, 0.0], [1.0, 1.0])),
    "combined": (COMBINED, ([1.0, 0.0, 0.0, 0.5], [0.0, 0.8, 0.4, 0.4])),
}


@pytest.mark.parametrize("name", MULTIPLIERS)
def test_multipliers_converge_to_the_continuous_ones(name):
    system, data = MULTIPLIERS[name]
    errors, times = [], np.linspace(0.0, 1.2, 121)  # nodes and mid-points of both steps
    truth = np.asarray(da.reference(system, *data, times, tolerance=1e-10).multipliers)
    for h in (0.04, 0.02):
        path = run(system, data, h=h, steps=round(1.2 / h))
        at = np.rint(np.asarray(path.t_multipliers) / times[1]).astype(int)
        np.testing.assert_allclose(path.t_multipliers, times[at], rtol=0, atol=1e-12)
        errors.append(np.max(np.abs(path.multipliers - truth[at]), axis=0))
        size = np.max(np.abs(truth), axis=0)
    assert np.all(size > 0.1)  # so that a wrong sign or a factor of h shows
    assert np.all(errors[1] < 0.05 * size)
    orders = np.log2(errors[0] / np.maximum(errors[1], 1e-14))
    assert np.all((orders > 0.9) | (errors[1] < 1e-9)), orders


def test_interpolation_between_nodes():
    """Against a path with exact data at the nodes: order 4 for q, 3 for v; without velocities at nodes 3 and 2."""
    for form, expected in ((None, (4, 3)), ("nodes", (3, 2))):
        errors = []
        for n in (20, 40):
            path = run(h=2.0 / n, steps=n, scheme=da.Scheme(form))
            exact_q, exact_v = PENDULUM.exact(np.asarray(path.t))
            path = with_rows(path, exact_q, exact_v if form is None else path.v)
            t = np.linspace(0.0, 2.0, 397)
            q, v = path.interpolate(t)
            errors.append([np.max(np.abs(q - PENDULUM.exact(t)[0])), np.max(np.abs(v - PENDULUM.exact(t)[1]))])
            np.testing.assert_allclose(path.interpolate(path.t)[0], exact_q, rtol=0, atol=1e-14)
        np.testing.assert_allclose(np.log2(np.divide(*errors)), expected, rtol=0, atol=0.35)
    with pytest.raises(ValueError, match=r"t: found times in \[3, 3\], outside the path's \[0, 2\]"):
        path.interpolate(3.0)
    with pytest.raises(ValueError, match="t: found nan; every number must be finite"):
        path.interpolate(np.nan)
    with pytest.raises(ValueError, match="the path has 2 saved nodes"):
        run(save=da.Save(every=None)).interpolate(0.1)


def with_rows(path, q, v):
    return dataclasses.replace(path, q=jnp.asarray(q), v=jnp.asarray(v))


@pytest.mark.parametrize("form", [None, "nodes"])
def test_traced_equals_untraced(form):
    go = lambda k: da.simulate(  # noqa: E731
        CURVATURE.system.replace(k=k),
        [0.0, 0.0],
        [1.0, 1.0],
        h=H,
        steps=STEPS,
        save=da.Save(every=4),
        scheme=da.Scheme(form),
    )
    traced, plain = jax.jit(go)(1.5), go(1.5)
    for name in ("t", "q", "t_velocity", "v", "t_multipliers", "multipliers", "constraint_forces"):
        np.testing.assert_allclose(getattr(traced, name), getattr(plain, name), rtol=1e-11, atol=1e-11)
    assert int(traced.steps_done) == plain.steps
    assert int(traced.outcome) == plain.outcome == 0


COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: COMPILED.append(name) if "compile" in name else None
)


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_nothing_is_compiled_again(backend):
    """Parameters, data, h, N, thinning and t0 are arguments of one compiled program."""

    def go(system, **options):
        da.simulate(system, [0.1, 0.0], [1.0, 1.0], **{"h": H, "steps": 7, "solver": da.Solver(backend=backend), **options})

    go(CURVATURE.system)
    go(CURVATURE.system.replace(k=0.6))
    before = len(COMPILED), CACHE.compilations, CACHE.reads
    assert before[0] > 0
    go(CURVATURE.system.replace(k=0.5, m=np.float64(3.0)))
    for options in (
        {"h": 0.02},
        {"steps": np.int64(300)},
        {"save": da.Save(every=3)},
        {"t0": 4.0},
        {"save": da.Save(every=None)},
    ):
        go(CURVATURE.system, **options)
    assert (len(COMPILED), CACHE.compilations, CACHE.reads) == before


def recorded(path) -> dict:
    """The arguments of a call, from its record."""
    return json.loads(path.provenance.run)


def test_the_record_of_an_ensemble_is_enough_to_run_it_again(tmp_path):
    data, given = [[1.0], [0.4], [-0.7]], {"g_over_l": [1.0, 2.0, 3.0]}
    feedback = da.SampledFeedback(lambda q, v, p: -q, every=2)
    runs = da.ensemble(PENDULUM.system, data, [0.3], parameters=given, h=H, steps=7, feedback=feedback)
    da.save(runs, tmp_path / "runs.nc")
    stored = da.load(tmp_path / "runs.nc")
    assert stored.provenance == runs.provenance == runs.lane(1).provenance
    assert da.matches(stored, PENDULUM.system)
    found = recorded(stored)
    assert "-q" in found.pop("feedback")
    assert found.pop("feedback_every") == feedback.every
    again = da.ensemble(PENDULUM.system, **group_options(found, PLACES), feedback=feedback)
    np.testing.assert_array_equal(again.q, runs.q)
    assert again.provenance == runs.provenance
    one = run(data=([0.4], [0.3]), system=PENDULUM.system.replace(g_over_l=2.0), steps=7, feedback=feedback)
    assert {**recorded(one), "q0": data, "parameters": given} == recorded(runs)
    assert dataclasses.replace(one.provenance, run="", parameters="") == dataclasses.replace(
        runs.provenance, run="", parameters=""
    )


def test_the_record_of_a_large_ensemble_is_short():
    """1001 initial states and parameters are recorded by their shape, what all runs share by its values."""
    q = np.linspace(0.0, 1.0, 1001)[:, None]
    runs = da.ensemble(
        PENDULUM.system, q, [0.3], parameters={"g_over_l": np.ones(1001)}, h=H, steps=2, save=da.Save(every=None)
    )
    found = recorded(runs)
    assert found["q0"] == {"shape": [1001, 1]}
    assert found["parameters"] == {"g_over_l": {"shape": [1001]}}
    assert found["v0"] == [0.3]
    assert "reduce" not in found
    assert len(runs.provenance.run) < 1000


def test_the_record_of_free_steps_is_enough_to_run_them_again(tmp_path):
    swing = da.VariationalProblem(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), coordinates=("angle",))
    path = da.step.simulate_free_steps(swing, [[0.5], [0.55]], [0.0, 0.1], steps=4)
    da.save(path, tmp_path / "free.nc")
    stored = da.load(tmp_path / "free.nc")
    assert stored.provenance == path.provenance
    assert da.matches(stored, swing)
    assert da.store.to_xarray(path).coordinate.item() == "angle"
    again = da.step.simulate_free_steps(swing, **recorded(stored))
    np.testing.assert_array_equal(again.t, path.t)
    np.testing.assert_array_equal(again.q, path.q)
    assert (path.provenance.scheme, path.provenance.starter) == (repr(da.Interpolated()), "")
