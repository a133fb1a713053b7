"""Steps of varying length: reversible, of the order of their scheme, without drift, and the same in every back-end."""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.gallery import ENTRIES, curvature_particle

ECCENTRICITY = 0.9
AWAY = np.array([1.0 + ECCENTRICITY, 0.0]), np.array([0.0, np.sqrt((1.0 - ECCENTRICITY) / (1.0 + ECCENTRICITY))])
KEPLER = da.System(lambda q, v: 0.5 * (v @ v) + 1.0 / jnp.sqrt(q @ q))
PERIOD = 2.0 * np.pi


def near(q, v):
    """r^(-3/2), Kepler's third law."""
    return (q @ q) ** -0.75


NEAR = da.Varying(PERIOD / 60, near)


def kepler(t):
    """q from the apoapsis on, by Kepler's equation."""
    mean = np.pi + np.asarray(t)
    at = mean
    for _ in range(300):
        at = at - (at - ECCENTRICITY * np.sin(at) - mean) / (1.0 - ECCENTRICITY * np.cos(at))
    return -np.stack([np.cos(at) - ECCENTRICITY, np.sqrt(1.0 - ECCENTRICITY**2) * np.sin(at)], axis=-1)


def test_energy_does_not_drift_over_a_hundred_thousand_steps_of_an_eccentric_orbit():
    path = da.simulate(KEPLER, *AWAY, h=NEAR, steps=100_000)
    q, v, t = (np.asarray(x) for x in (path.q, path.v, path.t))
    energy = 0.5 * (v**2).sum(1) - 1.0 / np.linalg.norm(q, axis=1)
    off = np.abs(energy + 0.5)
    assert t[-1] > 400 * PERIOD
    assert off[-10_000:].max() <= 1.02 * off[:10_000].max() < 0.02
    assert abs(np.linalg.norm(q, axis=1).min() - (1.0 - ECCENTRICITY)) < 2e-3
    lengths = np.diff(t)
    assert lengths.max() > 50 * lengths.min()
    # the density of the steps stays that of the motion: an invariant of the extended system, up to ε²
    ratio = np.linalg.norm(0.5 * (q[1:] + q[:-1]), axis=1) ** 1.5 / lengths
    assert ratio.max() / ratio.min() < 1.1


def test_the_way_back_goes_through_the_same_nodes():
    there = da.simulate(KEPLER, *AWAY, h=NEAR, steps=2000)
    last = float(there.h_last)
    assert last == pytest.approx(float(there.t[-1] - there.t[-2]), rel=1e-9)
    turned = da.simulate(KEPLER, there.q[-1], -there.v[-1], h=da.Varying(last, near), steps=2000)
    back = da.simulate(KEPLER, there.q[-1], there.v[-1], h=da.Varying(-last, near), t0=float(there.t[-1]), steps=2000)
    for path in (turned, back):
        assert np.abs(path.q[::-1] - there.q).max() < 1e-11
    assert np.abs(back.t[::-1] - there.t).max() < 1e-11


def test_the_way_back_of_a_composed_step():
    scheme = da.Scheme(order=4)
    there = da.simulate(KEPLER, *AWAY, h=NEAR, steps=500, scheme=scheme)
    back = da.simulate(KEPLER, there.q[-1], there.v[-1], h=da.Varying(-there.h_last, near), steps=500, scheme=scheme)
    assert np.abs(back.q[::-1] - there.q).max() < 1e-11


def test_a_hundred_thousand_steps_forth_and_back_end_where_steps_of_one_length_would():
    """Those of the same time, ten times as many, end at 2e-10. With the difference of the last times for a length: 2e-9."""
    there = da.simulate(KEPLER, *AWAY, h=NEAR, steps=100_000, save=da.Save(every=None))
    turned = da.simulate(
        KEPLER, there.q[-1], -there.v[-1], h=da.Varying(there.h_last, near), steps=100_000, save=da.Save(every=None)
    )
    assert np.abs(turned.q[-1] - there.q[0]).max() < 2e-10


def test_times_are_summed_without_what_rounding_cuts_off():
    """100 000 lengths of 0.1 are 10 000; summed one by one they are off by 2e-8."""
    free = da.System(lambda q, v: 0.5 * (v @ v))
    path = da.simulate(free, [0.0], [1.0], h=da.Varying(0.1, lambda q, v: 1.0), steps=100_000, save=da.Save(every=None))
    assert float(path.t[-1]) == pytest.approx(1e4, rel=1e-15)


@pytest.mark.parametrize(("order", "parts"), [(2, (60, 120, 240)), (4, (20, 40, 80)), (6, (12, 24, 48))])
def test_the_order_is_kept(order, parts):
    end = 1.4 * PERIOD
    found = [
        da.simulate(KEPLER, *AWAY, h=da.Varying(PERIOD / n, near), until=end, scheme=da.Scheme(order=order)) for n in parts
    ]
    errors = [np.abs(path.q[-1] - kepler(end)).max() for path in found]
    assert all(float(path.t[-1]) == end and path.outcome is da.Outcome.SUCCESS for path in found)
    assert np.log2(errors[-2] / errors[-1]) == pytest.approx(order, abs=0.2)
    # all nodes, and not the last alone; the lengths follow the density, by stages or not
    assert np.abs(found[-1].q - kepler(found[-1].t)).max() < 20 * errors[-1]
    q = np.asarray(found[-1].q)
    ratio = np.linalg.norm(0.5 * (q[1:-1] + q[:-2]), axis=1) ** 1.5 / np.diff(found[-1].t)[:-1]
    assert ratio.max() / ratio.min() < 2.0


def test_between_the_nodes_the_order_is_that_of_the_scheme():
    def errors(path, at):
        return [np.abs(path.interpolate(at, order=n)[0] - kepler(at)).max() for n in (6, 3)]

    found = []
    for n in (24, 48):
        path = da.simulate(KEPLER, *AWAY, h=da.Varying(PERIOD / n, near), until=1.4 * PERIOD, scheme=da.Scheme(order=6))
        at = np.linspace(0.0, 1.4 * PERIOD, 400)
        found.append(errors(path, at))
    (coarse, _), (fine, cubic) = found
    assert np.log2(coarse / fine) == pytest.approx(6.0, abs=0.5)
    assert fine < 1.5 * np.abs(path.q - kepler(path.t)).max() < 0.1 * cubic
    for name, values in zip(("q", "v"), path.interpolate(path.t, order=6), strict=True):
        assert np.abs(values - getattr(path, name)).max() < 1e-12
    # the velocity is the derivative
    (a, b), (_, v) = path.interpolate([1.0 - 1e-5, 1.0 + 1e-5], order=11)[0], path.interpolate(1.0, order=11)
    assert np.abs((b - a) / 2e-5 - v).max() < 1e-9
    with pytest.raises(ValueError, match=r"^t: the path has 2 saved nodes; .* at least 6 for order=8"):
        da.simulate(KEPLER, *AWAY, h=NEAR, steps=300, save=da.Save(every=None)).interpolate(0.1, order=8)
    between = da.simulate(KEPLER, *AWAY, h=0.1, steps=9, scheme=da.Scheme("nodes"))
    with pytest.raises(ValueError, match=r"^order: found 7, of a path whose velocities lie between"):
        between.interpolate(0.1, order=7)


def test_the_density_of_its_own_keeps_order_and_constraint():
    entry: Any = ENTRIES["nonholonomic_particle"]
    errors = []
    for h in (0.1, 0.05):
        path = da.simulate(entry.system, entry.q0, entry.v0, h=da.Varying(h), until=5.0)
        q = entry.exact(np.asarray(path.t))[0]
        errors.append(np.abs(path.q - q).max())
        assert np.abs(path.v[:, 2] - path.q[:, 1] * path.v[:, 0]).max() < 1e-13
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)
    assert np.ptp(np.diff(path.t)) > 0.01  # and the steps do vary


def test_the_span_of_an_oscillator_is_one_over_its_frequency_wherever_it_starts():
    """With it the speed on (q, τv) is constant, and all steps are equal."""
    oscillator = da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * p["k"] * q @ q, parameters={"k": 9.0})
    for q0, v0 in ((1.0, 0.0), (0.3, 2.0), (0.0, 1.0)):
        path = da.simulate(oscillator, [q0], [v0], h=da.Varying(0.01), steps=400)
        assert np.ptp(np.diff(path.t)) < 1e-6


PARTICLE = curvature_particle.curvature_particle(lambda q, p: 1.0 + p["c"] * (q @ q) ** -1.5, {"c": 3e-4})


def test_near_a_collision_on_the_curvature_particle():
    """k = 1 + c/r³: circles that are turned away from the origin in every round. Over 10⁵ steps the speed stays to rounding,
    and the way back through as many ends where the run began."""
    path = da.simulate(PARTICLE, [0.0, -2.01], [1.0, 0.0], h=da.Varying(0.05, span=1.0), steps=100_000)
    lengths, r = np.diff(path.t), np.linalg.norm(path.q, axis=1)
    assert np.count_nonzero((r[1:-1] < r[:-2]) & (r[1:-1] < r[2:]) & (r[1:-1] < 0.1)) > 500
    assert lengths.max() > 8 * lengths.min()
    assert np.abs(np.linalg.norm(path.v, axis=1) - 1.0).max() < 1e-13
    assert int(path.statistics.leaps) == 0
    back = da.simulate(PARTICLE, path.q[-1], path.v[-1], h=da.Varying(-path.h_last, span=1.0), steps=100_000)
    assert np.abs(back.q[-1] - path.q[0]).max() < 1e-9


def test_a_constraint_on_accelerations_is_rounded_as_with_equal_steps():
    """h v₁ - h v₀ is h (v₁ - v₀), where h is the length of the step, too: formed as it stands it would lose the digits that
    v₁ and v₀ have in common, 7e-11 here over 10⁵ steps and back. Steps of one length over the same time: 3e-12."""
    start = np.array([0.0, -2.01]), np.array([1.0, 0.0])
    there = da.simulate(PARTICLE, *start, h=da.Varying(0.0125, span=1.0), steps=100_000, save=da.Save(every=None))
    lengths = da.Varying(-there.h_last, span=1.0)
    back = da.simulate(PARTICLE, there.q[-1], there.v[-1], h=lengths, steps=100_000, save=da.Save(every=None))
    assert np.abs(back.q[-1] - start[0]).max() < 5e-12
    equal = da.simulate(PARTICLE, *start, h=0.0125, steps=2000)
    same = da.simulate(PARTICLE, *start, h=da.Varying(0.0125, lambda q, v, p: 1.0), steps=2000)
    assert np.array_equal(same.q, equal.q)


def test_steps_too_long_for_a_near_collision_do_not_pass_for_a_result():
    """The truth by DOP853 on the equation reduced by hand, v turned with the curvature."""

    def field(t, y):
        k = 1.0 + 3e-4 * (y[0] ** 2 + y[1] ** 2) ** -1.5
        return [y[2], y[3], -k * y[3], k * y[2]]

    exact = solve_ivp(field, (0.0, 10.0), [0.0, -2.01, 1.0, 0.0], method="DOP853", rtol=1e-11, atol=1e-12).y[:2, -1]

    def off(parts):
        path = da.simulate(PARTICLE, [0.0, -2.01], [1.0, 0.0], h=da.Varying(10.0 / parts, span=1.0), until=10.0)
        return path, np.abs(path.q[-1] - exact).max()

    with pytest.warns(
        UserWarning, match=r"density of the steps is a quarter and more off.*differ most after step 20, at t = 3.1"
    ):
        path, error = off(64)
    assert path.outcome is da.Outcome.SUCCESS
    assert int(path.statistics.leaps) > 0
    assert error > 0.1
    path, error = off(256)
    assert int(path.statistics.leaps) == 0
    assert error < 0.02


@pytest.mark.parametrize(
    ("order", "parts", "told"), [(2, 11.7, "a quarter"), (8, 8.168, "a quarter"), (8, 4.0, "a right angle")]
)
def test_a_collision_between_two_nodes_leaves_a_trace(order, parts, told):
    """σ is the same at both, and large in the middle; or all steps turn by more than a right angle."""
    with pytest.warns(UserWarning, match=told):
        path = da.simulate(
            PARTICLE, [0.0, -2.01], [1.0, 0.0], h=da.Varying(10.0 / parts), until=10.0, scheme=da.Scheme(order=order)
        )
    assert np.linalg.norm(path.q, axis=1).min() > 0.16  # no node is near: the curvature there is k ≤ 1.07


def test_machine_code_lanes_and_jax_agree():
    starts = AWAY[0] * np.array([[1.0], [1.05], [0.9], [0.8], [1.0]])
    lanes = da.ensemble(KEPLER, starts, AWAY[1], h=NEAR, steps=300)
    for i in (1, 3):
        alone = da.simulate(KEPLER, starts[i], AWAY[1], h=NEAR, steps=300)
        lane = lanes.lane(i)
        for name in ("t", "q", "v"):
            assert np.abs(getattr(lane, name) - getattr(alone, name)).max() < 1e-10
    portable = da.simulate(KEPLER, *AWAY, h=NEAR, steps=300, solver=da.Solver(backend="jax"))
    assert np.abs(portable.q - lanes.q[0]).max() < 1e-12
    assert np.abs(portable.t - lanes.t[0]).max() < 1e-12
    # steps that are too long: the density goes astray, and all three count the same steps
    steps = da.Varying(PERIOD / 6, near)
    with pytest.warns(UserWarning, match="the density of the steps"):
        many = da.ensemble(KEPLER, starts, AWAY[1], h=steps, steps=300)
    with pytest.warns(UserWarning, match="the density of the steps"):
        one = da.simulate(KEPLER, *AWAY, h=steps, steps=300)
    with pytest.warns(UserWarning, match="the density of the steps"):
        slow = da.simulate(KEPLER, *AWAY, h=steps, steps=300, solver=da.Solver(backend="jax"))
    assert int(one.statistics.leaps) == int(slow.statistics.leaps) == int(many.statistics.leaps[0]) > 0
    assert float(one.h_last) == pytest.approx(float(many.h_last[0]), rel=1e-6)


def test_time_is_that_of_the_motion_in_every_function_of_the_user():
    """q̈ = cos t, so that q = 1 - cos t from rest; the density depends on the time alone."""
    pushed = da.System(lambda q, v, t: 0.5 * v @ v + q[0] * jnp.cos(t), time_dependent=True)
    steps = da.Varying(0.02, lambda q, v, t: 2.0 + jnp.sin(3.0 * t))
    latest = (lambda value, t, q, v, multipliers: jnp.maximum(value, t), -1.0)
    path = da.simulate(
        pushed, [0.0], [0.0], h=steps, steps=400, save=da.Save(reduce=latest), stop=da.Stop(domain=lambda q, v, t: t < 100.0)
    )
    t = np.asarray(path.t)
    assert path.reduced == t[-1]
    assert np.abs(path.q[:, 0] - (1.0 - np.cos(t))).max() < 1e-3
    assert np.ptp(np.diff(t)) > 0.01
    stopped = da.simulate(pushed, [0.0], [0.0], h=steps, until=5.0, stop=lambda q, v, t: t > 1.0)
    assert stopped.outcome is da.Outcome.STOPPED
    assert float(stopped.t[-2]) <= 1.0 < float(stopped.t[-1]) < 1.1


def test_a_reducer_ends_with_the_state_at_the_time():
    def counted(value, t, q, v, multipliers):
        return value[0] + 1, value[1] + t, jnp.maximum(value[2], t)

    path = da.simulate(KEPLER, *AWAY, h=NEAR, until=4.0, save=da.Save(reduce=(counted, (0, 0.0, -1.0))))
    number, total, latest = path.reduced
    assert (int(number), float(latest)) == (path.steps, 4.0)
    assert float(total) == pytest.approx(float(np.sum(path.t)), rel=1e-13)


def test_runs_in_lanes_end_at_a_time_as_each_does_alone():
    def longest(value, t, q, v, multipliers):
        return value[0] + 1, jnp.maximum(value[1], q[0])

    given = {"h": NEAR, "until": 4.0, "save": da.Save(reduce=(longest, (0, 0.0)), every=None)}
    starts = AWAY[0] * np.array([[1.0], [1.05], [0.9], [0.8], [0.7]])
    runs = da.ensemble(KEPLER, starts, AWAY[1], **given)
    assert np.array_equal(runs.t[:, -1], np.full(5, 4.0))
    assert np.array_equal(runs.code, np.zeros(5))
    for i, start in enumerate(starts):
        alone, lane = da.simulate(KEPLER, start, AWAY[1], **given), runs.lane(i)
        assert alone.steps == lane.steps == int(lane.reduced[0])
        assert float(alone.h_last) == pytest.approx(float(lane.h_last), rel=1e-12)
        for name in ("q", "v", "t_multipliers", "reduced"):
            a, b = (np.asarray(getattr(path, name)[-1]) for path in (alone, lane))
            assert np.abs(a - b).max() < 1e-12
    # a failure of one run is its own; a time behind the start is reached without a whole step
    falling = da.ensemble(KEPLER, [[1.0, 0.0], AWAY[0]], [[0.0, 0.0], AWAY[1]], h=NEAR, until=3.0, save=da.Save(every=None))
    assert [da.Outcome(int(code)).name for code in falling.code] == ["NOT_FINITE", "SUCCESS"]
    soon = da.ensemble(KEPLER, starts, AWAY[1], h=NEAR, until=1e-3, save=da.Save(every=None))
    alone = da.simulate(KEPLER, starts[2], AWAY[1], h=NEAR, until=1e-3)
    assert np.abs(soon.q[2, -1] - alone.q[-1]).max() < 1e-15
    with pytest.raises(ValueError, match=r"^until, save: every run has another number of steps"):
        da.ensemble(KEPLER, starts, AWAY[1], h=NEAR, until=4.0)
    with pytest.raises(ValueError, match=r"^until: runs of an ensemble end at a time in machine code alone"):
        da.ensemble(KEPLER, starts, AWAY[1], h=NEAR, until=4.0, save=da.Save(every=None), solver=da.Solver(backend="jax"))


def test_under_jit_and_grad():
    end = jax.jit(lambda h: da.simulate(KEPLER, *AWAY, h=da.Varying(h, near), steps=20).q[-1, 0])
    assert float(end(0.1)) == pytest.approx(float(da.simulate(KEPLER, *AWAY, h=da.Varying(0.1, near), steps=20).q[-1, 0]))


def test_what_has_no_positive_step_says_so():
    free = da.System(lambda q, v: 0.5 * (v @ v))
    path = da.simulate(free, [0.0], [1.0], h=da.Varying(0.1, lambda q, v: 1.0 - q[0]), until=5.0, throw=False)
    assert path.outcome is da.Outcome.NO_POSITIVE_STEP
    assert path.statistics.failed_time == path.t[-1] < 1.0


def test_a_path_of_them_tells_its_lengths_and_goes_through_a_file(tmp_path):
    path = da.simulate(KEPLER, *AWAY, h=NEAR, until=4.0)
    assert path.describe().startswith(f"{path.steps} steps of h = 0.00")
    assert " to 0.1" in path.describe().splitlines()[0]
    tenth = da.simulate(KEPLER, *AWAY, h=NEAR, steps=60, save=da.Save(every=10))
    assert " between saved states from t = 0 to t = " in tenth.describe().splitlines()[0]
    crossed = dataclasses.replace(path.statistics, crossings=np.asarray(8))
    assert "root crossings: 8, 2 per unit of time" in dataclasses.replace(path, statistics=crossed).describe()
    da.save(path, tmp_path / "orbit.nc")
    again: Any = da.load(tmp_path / "orbit.nc")
    assert np.array_equal(again.t, path.t)
    assert float(again.h_last) == float(path.h_last)
    with pytest.raises(ValueError, match="path: its steps differ"):
        da.measure.momentum(KEPLER, path, lambda q: jnp.array([-q[1], q[0]]))
    with pytest.raises(ValueError, match="path: saved states"):
        da.measure.constraint_residual(KEPLER, path)


WRONG = {
    "until: belongs to h=Varying": {"h": 0.1, "steps": None, "until": 1.0},
    "until: found -1; with the first step": {"until": -1.0},
    "steps, until: found both": {"steps": 3, "until": 1.0},
    "steps, until: found none": {"steps": None},
    "first: ": {"h": lambda: da.Varying(0.0)},
    "density: found": {"h": lambda: da.Varying(0.1, cast(Any, 3.0))},
    "density: is -1 at the start": {"h": lambda: da.Varying(0.1, lambda q, v: -1.0), "until": 1.0},
    "span: ": {"h": lambda: da.Varying(0.1, span=-1.0)},
    "h: found Varying; a step of the form 'nodes'": {"scheme": da.Scheme("nodes"), "until": 1.0},
    "feedback, h: ": {"feedback": da.SampledFeedback(lambda q, v: -v), "until": 1.0},
    "progress, until: ": {"progress": True, "until": 1.0},
}


@pytest.mark.parametrize(("message", "given"), WRONG.items(), ids=WRONG.keys())
def test_what_cannot_be_is_named(message, given):
    def call():
        h = given.get("h", NEAR)
        return da.simulate(KEPLER, *AWAY, **(given | {"h": h() if callable(h) else h}))

    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        call()


def test_equations_that_are_no_maps_with_a_length_say_why():
    pairs = da.DiscreteSystem(lambda q0, q1: 5.0 * (q1 - q0) @ (q1 - q0))
    with pytest.raises(ValueError, match=r"^h: found Varying; L_d of a DiscreteSystem"):
        da.simulate(pairs, start=da.Start(nodes=[[0.0], [0.1]]), h=da.Varying(0.1), steps=3)
    beam = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
    with pytest.raises(ValueError, match=r"^h: found Varying; the window of a VariationalProblem"):
        da.simulate(beam, start=da.Start(jets=[[0.0], [1.0], [0.0], [0.0]]), h=da.Varying(0.1), steps=3)


def test_a_study_ends_at_a_time_as_an_ensemble_does(tmp_path):
    """Two of its runs leave the domain; the multipliers of each have a time of their own."""
    entry: Any = ENTRIES["nonholonomic_particle"]
    domain = lambda q, v, p: q[0] < 1.5  # noqa: E731
    given = {"h": da.Varying(0.1, span=1.0), "until": 4.0, "save": da.Save(every=None), "stop": da.Stop(domain=domain)}
    starts = np.array(entry.v0) * np.array([[0.3], [0.5], [1.0]])
    runs = da.ensemble(entry.system, entry.q0, starts, **given)
    study = da.sweep(entry.system, {"v0": starts}, {"q0": entry.q0, **given})
    stored = da.sweep(entry.system, {"v0": starts}, {"q0": entry.q0, **given}, store=tmp_path / "study.zarr", block=2)
    da.save(study, tmp_path / "study.nc")
    assert study.outcomes.values.tolist() == ["success", "left_domain", "left_domain"]
    assert np.array_equal(study.data.time, [0.0, 4.0])
    assert "first step = 0.1" in study.describe()
    for one in (study, stored, da.load(tmp_path / "study.nc")):
        for i, path in enumerate(one):
            for name in ("t", "q", "v", "multipliers", "t_multipliers", "h_last", "steps_done"):
                assert np.array_equal(getattr(path, name), getattr(runs.lane(i), name)), name
    for wrong in ({"until": None, "steps": 5}, {"save": da.Save(every=1)}):
        with pytest.raises(ValueError, match=r"^h, until, save: with Varying every run has nodes at times of its own"):
            da.sweep(entry.system, {"v0": starts}, {"q0": entry.q0, **given | wrong})
    with pytest.raises(ValueError, match=r"^progress, until: "):
        da.sweep(entry.system, {"v0": starts}, {"q0": entry.q0, **given}, progress=True)


def test_at_a_collision_the_time_stands_still():
    """It falls from 1 to the centre in π/√8."""
    path = da.simulate(KEPLER, [1.0, 0.0], [0.0, 0.0], h=da.Varying(0.05, near), until=3.0, throw=False)
    assert path.outcome is da.Outcome.NO_POSITIVE_STEP
    assert float(path.t[-1]) == pytest.approx(np.pi / np.sqrt(8.0), rel=1e-3)


def test_at_rest_in_an_equilibrium_there_is_no_density():
    with pytest.raises(ValueError, match=r"^h: found Varying without a density"):
        da.simulate(da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q), [0.0], [0.0], h=da.Varying(0.1), steps=3)
