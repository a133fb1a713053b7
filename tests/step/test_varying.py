"""Steps of varying length: reversible, of the order of their scheme, without drift, and the same in every back-end."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES
from dalembert.gallery.curvature_particle import curvature_particle

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
    last = float(there.t[-1] - there.t[-2])
    turned = da.simulate(KEPLER, there.q[-1], -there.v[-1], h=da.Varying(last, near), steps=2000)
    back = da.simulate(KEPLER, there.q[-1], there.v[-1], h=da.Varying(-last, near), t0=float(there.t[-1]), steps=2000)
    for path in (turned, back):
        assert np.abs(path.q[::-1] - there.q).max() < 1e-9
    assert np.abs(back.t[::-1] - there.t).max() < 1e-9


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


def test_near_a_collision_on_the_curvature_particle():
    """k = 1 + c/r³: circles that are turned away from the origin in every round. Over 10⁵ steps the speed stays to rounding,
    and the way back through as many ends where the run began."""
    system = curvature_particle(lambda q, p: 1.0 + p["c"] * (q @ q) ** -1.5, {"c": 3e-4})
    path = da.simulate(system, [0.0, -2.01], [1.0, 0.0], h=da.Varying(0.05, span=1.0), steps=100_000)
    lengths, r = np.diff(path.t), np.linalg.norm(path.q, axis=1)
    assert np.count_nonzero((r[1:-1] < r[:-2]) & (r[1:-1] < r[2:]) & (r[1:-1] < 0.1)) > 500
    assert lengths.max() > 8 * lengths.min()
    assert np.abs(np.linalg.norm(path.v, axis=1) - 1.0).max() < 1e-13
    last = float(lengths[-1])
    back = da.simulate(system, path.q[-1], path.v[-1], h=da.Varying(-last, span=1.0), steps=100_000)
    assert np.abs(back.q[-1] - path.q[0]).max() < 1e-5


def test_machine_code_lanes_and_jax_agree():
    starts = AWAY[0] * np.array([[1.0], [1.05], [0.9], [0.8], [1.0]])
    lanes = da.ensemble(KEPLER, starts, AWAY[1], h=NEAR, steps=300)
    for i in (1, 3):
        alone = da.simulate(KEPLER, starts[i], AWAY[1], h=NEAR, steps=300)
        lane = lanes.lane(i)
        for name in ("t", "q", "v"):
            assert np.abs(getattr(lane, name) - getattr(alone, name)).max() < 1e-10
    portable = da.simulate(KEPLER, *AWAY, h=NEAR, steps=300, backend="jax")
    assert np.abs(portable.q - lanes.q[0]).max() < 1e-12
    assert np.abs(portable.t - lanes.t[0]).max() < 1e-12


def test_time_is_that_of_the_motion_in_every_function_of_the_user():
    """q̈ = cos t, so that q = 1 - cos t from rest; the density depends on the time alone."""
    pushed = da.System(lambda q, v, t: 0.5 * v @ v + q[0] * jnp.cos(t), time_dependent=True)
    steps = da.Varying(0.02, lambda q, v, t: 2.0 + jnp.sin(3.0 * t))
    latest = (lambda value, t, q, v, multipliers: jnp.maximum(value, t), -1.0)
    path = da.simulate(pushed, [0.0], [0.0], h=steps, steps=400, reduce=latest, domain=lambda q, v, t: t < 100.0)
    t = np.asarray(path.t)
    assert path.reduced == t[-1]
    assert np.abs(path.q[:, 0] - (1.0 - np.cos(t))).max() < 1e-3
    assert np.ptp(np.diff(t)) > 0.01
    stopped = da.simulate(pushed, [0.0], [0.0], h=steps, until=5.0, stop=lambda q, v, t: t > 1.0)
    assert stopped.outcome is da.Outcome.STOPPED
    assert float(stopped.t[-2]) <= 1.0 < float(stopped.t[-1]) < 1.1


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
    da.save(path, tmp_path / "orbit.nc")
    again: Any = da.load(tmp_path / "orbit.nc")
    assert np.array_equal(again.t, path.t)
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
    "h: found Varying; in the equations": {"scheme": da.Scheme("nodes"), "until": 1.0},
    "feedback, h: ": {"feedback": da.SampledFeedback(lambda q, v: -v), "until": 1.0},
    "reduce, until: ": {"reduce": (lambda value, *rest: value, 0.0), "until": 1.0},
    "progress, until: ": {"progress": True, "until": 1.0},
    "store, h: ": {"store": "run.zarr", "until": 1.0},
}


@pytest.mark.parametrize(("message", "given"), WRONG.items(), ids=WRONG.keys())
def test_what_cannot_be_is_named(message, given):
    def call():
        h = given.get("h", NEAR)
        return da.simulate(KEPLER, *AWAY, **(given | {"h": h() if callable(h) else h}))

    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        call()


def test_what_has_common_times_takes_equal_steps():
    with pytest.raises(TypeError, match=r"^h: found Varying; the runs of a study"):
        da.sweep(KEPLER, {"q0": np.stack([AWAY[0]] * 2)}, v0=AWAY[1], h=cast(Any, NEAR), steps=5)


def test_at_a_collision_the_time_stands_still():
    """It falls from 1 to the centre in π/√8."""
    path = da.simulate(KEPLER, [1.0, 0.0], [0.0, 0.0], h=da.Varying(0.05, near), until=3.0, throw=False)
    assert path.outcome is da.Outcome.NO_POSITIVE_STEP
    assert float(path.t[-1]) == pytest.approx(np.pi / np.sqrt(8.0), rel=1e-3)


def test_at_rest_in_an_equilibrium_there_is_no_density():
    with pytest.raises(ValueError, match=r"^h: found Varying without a density"):
        da.simulate(da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q), [0.0], [0.0], h=da.Varying(0.1), steps=3)
