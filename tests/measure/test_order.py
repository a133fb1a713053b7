"""Measured orders against closed forms and the reference flow; what is left out of a fit, and why."""

import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES, curvature_particle, nonholonomic_particle
from dalembert.measure import Convergence, order
from dalembert.native import Integration
from dalembert.options import PLACES, group_options

PENDULUM = ENTRIES["pendulum"]
PARTICLE = ENTRIES["curvature_particle"]
STEPS = [0.1, 0.05, 0.025, 0.0125]


def assert_order(found: Convergence, wanted: float, within: float = 0.05):
    assert found.slope == pytest.approx(wanted, abs=within)
    assert found.orders[-1] == pytest.approx(wanted, abs=within)
    assert found.use == ("fitted",) * len(found.h)


def test_a_pendulum_is_of_second_order_against_its_closed_form():
    found = order(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, time=5.0, h=STEPS, exact=PENDULUM.exact)
    assert_order(found.q, 2)
    assert_order(found.v, 2)
    assert found.multipliers is None


@pytest.mark.parametrize(
    ("system", "q0", "v0", "time"),
    [
        (curvature_particle.curvature_particle(lambda q, p: 1 + 0.3 * q[0] * q[1]), [0.0, 0.0], [1.0, 1.0], 2.0),
        (nonholonomic_particle.nonholonomic_particle(1.0), [0.0, 1.0, 0.0], [1.0, 0.5, 1.0], 4.0),
    ],
    ids=["curvature 1 + 0.3xy", "nonholonomic with potential"],
)
def test_positions_velocities_and_multipliers_are_of_second_order(system, q0, v0, time):
    found = order(system, q0, v0, time=time, h=STEPS)
    for quantity in found.quantities.values():
        assert_order(quantity, 2)
    assert np.all(found.q.floor < 1e-3 * found.q.error)


@pytest.mark.parametrize(("starter", "wanted"), [("first_order", 1), ("second_order", 2)])
def test_the_starter_decides_the_order_of_the_two_step_form(starter, wanted):
    scheme = da.Scheme.borda_fernandez_grillo()
    found = order(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, time=5.0, h=[0.0125, 0.00625, 0.003125],
                  exact=PARTICLE.exact, scheme=scheme, start=da.Start(starter=starter))  # fmt: skip
    assert_order(found.q, wanted)
    assert found.v.slope == pytest.approx(wanted, abs=0.1)
    assert found.paths[0].levels == ("mid", "interior")


def test_errors_over_500_time_units_are_those_of_the_paper_and_saturate():
    found = order(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, time=500.0, h=[0.2, 0.1, 0.05, 0.02], exact=PARTICLE.exact,
                  scheme=da.Scheme.borda_fernandez_grillo(), start=da.Start(starter="first_order"),
                  coordinates=["x"])  # fmt: skip
    np.testing.assert_allclose(found.q.error, [2.1122, 2.0441, 0.77560, 0.14163], rtol=5e-5)
    assert found.q.use == ("saturated", "saturated", "fitted", "fitted")


def test_steps_at_the_floor_of_rounding_errors_are_not_fitted():
    steps = [0.1, 0.01, 0.001, 1e-4, 1e-5]
    found = order(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, time=1.0, h=steps, exact=PENDULUM.exact)
    assert found.q.use == ("fitted", "fitted", "fitted", "floor", "floor")
    assert found.q.slope == pytest.approx(2, abs=0.01)
    assert "floor" in found.describe()


def test_constant_multipliers_without_an_error_have_no_slope():
    scheme = da.Scheme.borda_fernandez_grillo()
    found = order(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, time=1.0, h=[0.1, 0.05], exact=PARTICLE.exact, scheme=scheme)
    assert found.multipliers is not None
    assert found.multipliers.use == ("floor", "floor")
    assert np.isnan(found.multipliers.slope)


def test_a_run_that_fails_is_kept_and_left_out():
    found = order(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, time=1.0, h=[0.05, 0.025], exact=PENDULUM.exact,
                  solver=da.Solver(tolerance=1e-30))  # fmt: skip
    assert found.q.use == ("run failed",) * 2
    assert np.isnan(found.q.slope)
    assert all(path.outcome.failed for path in found.paths)


def test_the_slope_of_a_power_law_is_its_exponent():
    h = np.array([0.4, 0.3, 0.1])
    found = Convergence(h, 3 * h**1.7, 0 * h, ("fitted",) * 3)
    np.testing.assert_allclose(found.orders, 1.7)
    assert found.slope == pytest.approx(1.7)
    assert np.isnan(Convergence(h, h, 0 * h, ("floor", "floor", "fitted")).slope)
    assert np.isnan(Convergence(h, np.array([0.0, 1.0, np.nan]), 0 * h, ("floor", "fitted", "run failed")).orders).all()


def test_the_constant_of_the_error_is_that_of_the_modified_frequency():
    """The trapezoidal rule turns an oscillator at 1 - h²/12: |q_k - cos t_k| → h²/12 max t|sin t|."""
    found = order(da.System(lambda q, v: 0.5 * (v @ v - q @ q)), [1.0], [0.0], time=5.0, h=STEPS)
    t = np.linspace(0.0, 5.0, 10_001)
    value, doubt = found.q.constant
    assert abs(value - np.max(t * np.abs(np.sin(t))) / 12) <= doubt < 0.01 * value
    assert f"q: slope {found.q.slope:.3f} over 4 of 4 steps, error about ({value:.4g} ± {doubt:.1g}) h^2" in str(found)
    power = Convergence(np.array([0.2, 0.1]), 3 * np.array([0.2, 0.1]) ** 2, np.zeros(2), ("fitted",) * 2)
    np.testing.assert_allclose(power.constant, (3.0, 0.0), rtol=1e-12, atol=1e-12)
    assert np.isnan(Convergence(power.h, power.error, power.floor, ("floor", "fitted")).constant).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"h": [0.05, 0.1]}, "h: found .* decreasing"),
        ({"h": [0.1, -0.1]}, "h: found .* positive"),
        ({"h": [0.1]}, "two or more steps"),
        ({"h": [0.1, np.nan]}, "h: found"),
        ({"h": [0.1, 0.07]}, "time: found 1, which is not a multiple.* h = 0.07"),
        ({"time": -1.0}, "time: found -1"),
        ({"time": np.inf}, "time: found inf"),
        ({"coordinates": ["φ"]}, "coordinates: found 'φ'"),
        ({"coordinates": [1]}, "coordinates: found 1"),
        ({"coordinates": "θ"}, "give a sequence"),
        ({"starter": "exact"}, "starter: found"),
        ({"exact": lambda t: (t, t)}, "exact: returns shapes"),
        ({"exact": lambda t: (t[:, None], t[:, None])}, "exact: at t0 = 0 it differs"),
    ],
)
def test_mistakes_are_named(changes, message):
    arguments = {"time": 1.0, "h": [0.1, 0.05], "exact": PENDULUM.exact} | changes
    with pytest.raises(ValueError, match=message):
        order(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, **group_options(arguments, PLACES))


def test_an_exact_solution_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="exact: found 3; give a function"):
        order(PENDULUM.system, PENDULUM.q0, PENDULUM.v0, time=1.0, h=[0.1, 0.05], exact=3)


@pytest.mark.parametrize("measured", [True, False], ids=["sizes", "no sizes"])
def test_an_order_knows_the_error_of_its_reference(measured, monkeypatch):
    """On a circle of radius 1e-9, with tolerances that follow it, and with absolute ones, which limit no step there."""
    r, circle = (
        1e-9,
        da.System(lambda q, v, p: 0.5 * v @ v, da.Holonomic(lambda q, p: q @ q - p["r"] ** 2), parameters={"r": 1e-9}),
    )
    if not measured:
        monkeypatch.setattr(Integration, "measure", lambda *x: None)
    steps = [0.2, 0.1, 0.05, 0.025]
    found = order(circle, [r, 0.0], [0.0, r], time=1.6, h=steps)
    exact = order(circle, [r, 0.0], [0.0, r], time=1.6, h=steps, exact=lambda t: (
        r * np.stack([np.cos(t), np.sin(t)], axis=1), r * np.stack([-np.sin(t), np.cos(t)], axis=1)
    ))  # fmt: skip
    for name in ("q", "v"):
        of, truth = found.quantities[name], exact.quantities[name]
        assert np.all(np.abs(of.error - truth.error) <= of.floor)
        if measured:
            assert_order(of, 2)
            np.testing.assert_allclose(of.error, truth.error, rtol=1e-5)
