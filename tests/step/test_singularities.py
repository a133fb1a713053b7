"""Runs that come to the end of a motion: servo-constraints that lose their hold, steps too long to follow anything."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import dalembert as da

BACKENDS = ("native", "jax")


def servo(**forces):
    """cos(q) q̈ = 1: q̇² = v₀² + 2 ln(1/cos q + tan q) is infinite at q = π/2, which is reached in finite time."""
    return da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: jnp.cos(q[0]) * a[0] - 1.0, **forces))


def end_of_motion(v0: float) -> float:
    """The time at which q = π/2."""
    return quad(lambda q: 1 / np.sqrt(v0**2 + 2 * np.log(1 / np.cos(q) + np.tan(q))), 0.0, 0.5 * np.pi)[0]


CHETAEV, MOTOR = servo(), servo(reactions=lambda q, v, a: jnp.ones(1))  # determinants cos² q and cos q


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("system", [CHETAEV, MOTOR], ids=["gradients twice", "determinant"])
def test_a_run_ends_where_the_motion_does(system, backend):
    for h in (0.01, 0.0025):
        path = da.simulate(system, [0.0], [0.5], h=h, steps=3000, solver=da.Solver(backend=backend), throw=False)
        assert path.outcome is da.Outcome.CROSSED
        assert float(path.statistics.failed_time) == pytest.approx(end_of_motion(0.5), abs=h)
        assert 1.5 < float(jnp.max(path.q)) < 0.5 * np.pi + 0.03  # a node of the equations is half a step before the state
    with pytest.raises(da.StepError, match="no factor explains it"):
        da.simulate(system, [0.0], [0.5], h=0.01, steps=3000, solver=da.Solver(backend=backend))


def test_every_lane_ends_at_its_own_time():
    v0 = np.linspace(0.2, 2.0, 24)
    for system in (CHETAEV, MOTOR):
        paths = da.ensemble(system, [0.0], v0[:, None], h=0.01, steps=400)
        assert np.all(np.asarray(paths.code) == da.Outcome.CROSSED)
        late = np.asarray(paths.statistics.failed_time) - [end_of_motion(v) for v in v0]
        assert np.all(late > -0.01)
        assert (
            np.sum(late > 0.01) <= 1
        )  # a step that meets the end almost exactly leaps over it, and one soon after ends the run
        assert np.all(late < 0.1)
        alone = da.simulate(system, [0.0], [v0[7]], h=0.01, steps=400, throw=False)
        np.testing.assert_allclose(paths.lane(7).q, alone.q, rtol=0, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_composed_step_is_undone(backend):
    for system in (CHETAEV, MOTOR):
        path = da.simulate(
            system,
            [0.0],
            [0.5],
            h=0.01,
            steps=3000,
            scheme=da.Scheme(order=4),
            solver=da.Solver(backend=backend),
            throw=False,
        )
        assert path.outcome is da.Outcome.CROSSED
        assert float(path.statistics.failed_time) == pytest.approx(end_of_motion(0.5), abs=0.02)
        assert float(path.t[-1]) == float(path.statistics.failed_time)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_factor_that_is_divided_out_is_no_end(backend):
    """cos(q) (q̈ - 1) = 0: the motion q = t²/2 goes on where cos q = 0, at t = √π."""
    system = da.System(
        lambda q, v: 0.5 * v @ v,
        da.SecondOrder(lambda q, v, a: jnp.cos(q[0]) * (a[0] - 1.0), reactions=lambda q, v, a: jnp.ones(1)),
    )
    run = {"q0": [0.0], "v0": [0.0], "h": 0.01, "steps": 400, "throw": False}
    ended = da.simulate(system, **run, solver=da.Solver(backend=backend))
    assert ended.outcome is da.Outcome.CROSSED
    assert float(ended.statistics.failed_time) == pytest.approx(np.sqrt(np.pi), abs=0.01)
    divided = da.simulate(system, **run, solver=da.Solver(backend=backend, branch=da.Avoid(lambda q, v: jnp.cos(q[0]))))
    assert divided.outcome is da.Outcome.SUCCESS
    np.testing.assert_allclose(divided.q[:, 0], 0.5 * np.asarray(divided.t) ** 2, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reactions_from_virtual_displacements_keep_their_orientation(backend):
    """v ∥ (cos z, sin z, 1/3) in space, by one column: a helix at constant speed. Its two reactions turn where cos z = 0."""
    along = lambda q: jnp.array([jnp.cos(q[2]), jnp.sin(q[2]), 1 / 3])  # noqa: E731
    helix = da.System(
        lambda q, v: 0.5 * v @ v,
        da.Nonholonomic(lambda q, v: v[:2] - 3 * v[2] * along(q)[:2], virtual=lambda q, v: along(q)),
    )
    path = da.simulate(helix, [0.0, 0.0, 0.0], [3.0, 0.0, 1.0], h=0.02, steps=400, solver=da.Solver(backend=backend))
    np.testing.assert_allclose(path.q[:, 2], path.t, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(path.q[:, 0], 3 * np.sin(path.t), rtol=0, atol=1e-3)


PENDULUM = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_beyond_the_time_scale_of_an_unstable_motion_end_a_run(backend):
    """1 + h² cos(q)/4 changes its sign between the two equilibria where h > 2."""
    for h in (3.0, 10.0):
        path = da.simulate(PENDULUM, [1.0], [0.0], h=h, steps=100, solver=da.Solver(backend=backend), throw=False)
        assert path.outcome is da.Outcome.CROSSED
        assert path.steps < 10


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_that_do_not_resolve_an_oscillation_are_told(backend):
    """The mid-point rule turns the phase of q̈ = -q by 2 arctan(h/2) a step: 2N/π of it are turning points of q̇."""
    oscillator = da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    for order in (2, 4):
        run = {
            "q0": [1.0],
            "v0": [0.0],
            "steps": 1000,
            "solver": da.Solver(backend=backend),
            "scheme": da.Scheme(order=order),
        }
        with pytest.warns(UserWarning, match=r"h: found 2\.5; in \d\d % of the steps the velocity turned") as seen:
            coarse = da.simulate(oscillator, **run, h=2.5)
        assert len(seen) == 1
        assert int(coarse.statistics.turns) > 400
        fine = da.simulate(oscillator, **run, h=0.5)
        assert "turns" not in fine.describe()
        phase = np.angle(np.asarray(fine.q[:, 0]) - 1j * np.asarray(fine.v[:, 0]))
        turns = np.sum(np.asarray(fine.v[1:, 0]) * np.asarray(fine.v[:-1, 0]) < 0)
        assert int(fine.statistics.turns) == turns
        assert turns == pytest.approx(np.unwrap(phase)[-1] / np.pi, abs=2)
    with pytest.warns(UserWarning, match="2 of 3 runs, in 5"):
        paths = da.ensemble(
            da.System(lambda q, v, p: 0.5 * v @ v - 0.5 * p["k"] * q @ q, parameters={"k": 1.0}),
            [1.0], [0.0], parameters={"k": [0.1, 6.25, 6.25]}, h=1.0, steps=1000, solver=da.Solver(backend=backend),
        )  # fmt: skip
    assert np.all(np.diff(np.asarray(paths.statistics.turns)) >= 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_has_come_to_rest_is_not_called_coarse(backend):
    """Overdamped to q = 1 and below rounding: there the velocity turns by chance."""
    damped = da.System(lambda q, v: 0.5 * v @ v - 2 * jnp.cosh(q[0] - 1.0), forces=lambda q, v: -4 * v)
    path = da.simulate(damped, [1.5], [0.0], h=0.05, steps=4000, solver=da.Solver(backend=backend))
    assert float(path.q[-1, 0]) == pytest.approx(1.0, abs=1e-12)


def test_crossings_that_follow_each_other_too_closely_are_told():
    """(a - sin ωt) a = 0: its roots cross where sin ωt = 0, here in two of three steps, and a = 0 is followed."""
    omega = 2 * np.pi / 0.03
    roots = da.System(
        lambda q, v, t: 0.5 * v @ v,
        da.SecondOrder(
            lambda q, v, a, t: (a[0] - jnp.sin(omega * t + 0.5)) * a[0], reactions=lambda q, v, a, t: jnp.array([1.0])
        ),
        time_dependent=True,
    )
    with pytest.warns(UserWarning, match=r"in \d\d % of the steps two roots of a step crossed, 6\d(\.\d)? times in a unit"):
        path = da.simulate(roots, [0.0], [0.0], h=0.01, steps=60, solver=da.Solver(branch=da.Nearest("prediction")))
    assert np.all(np.asarray(path.q) == 0.0)
    assert int(path.statistics.crossings) == pytest.approx(40, abs=2)
    assert "per unit of time" in path.describe()


def touching(**forces):
    """q² q̈ = -1: q̇² = 2/q - 2 from rest at q = 1, infinite at q = 0, where q² touches zero and keeps its sign."""
    return da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(lambda q, v, a: q[0] ** 2 * a[0] + 1.0, **forces))


TOUCHING = {"gradients": touching(), "reactions": touching(reactions=lambda q, v, a: jnp.ones(1))}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("system", TOUCHING.values(), ids=TOUCHING)
def test_a_determinant_that_touches_zero_is_told(system, backend):
    """The fall ends at t = π/(2√2); what a run finds later is another motion, and a run that stops before it is whole."""
    end = np.pi / np.sqrt(8.0)
    run = {"q0": [1.0], "v0": [0.0], "h": 0.01, "solver": da.Solver(backend=backend)}
    for order in (2, 4):
        with pytest.warns(
            UserWarning, match="determinant of a step's equations changed in size by more than a factor of three"
        ):
            beyond = da.simulate(system, **run, steps=200, scheme=da.Scheme(order=order), throw=False)
        assert int(beyond.statistics.leaps) > 0
    whole = da.simulate(system, **run, steps=int(0.98 * end / run["h"]))
    assert int(whole.statistics.leaps) == 0
    np.testing.assert_allclose(whole.v[-1, 0] ** 2, 2 / whole.q[-1, 0] - 2, rtol=0.05)


def test_both_back_ends_and_all_lanes_count_the_same_leaps():
    starts = np.linspace(0.5, 1.0, 11)[:, None]
    system = TOUCHING["reactions"]
    found = {}
    for backend in BACKENDS:
        with pytest.warns(UserWarning, match="of 11 runs"):
            paths = da.ensemble(system, starts, np.zeros((11, 1)), h=0.01, steps=200, solver=da.Solver(backend=backend))
        found[backend] = np.asarray(paths.statistics.leaps)
    with pytest.warns(UserWarning, match="factor of three"):
        alone = [int(da.simulate(system, q0, [0.0], h=0.01, steps=200, throw=False).statistics.leaps) for q0 in starts]
    np.testing.assert_array_equal(found["native"], found["jax"])
    np.testing.assert_array_equal(found["native"], alone)
    assert np.all(found["native"] > 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_polar_coordinates_tell_a_pole_that_is_not_resolved(backend):
    """An ellipse with half axes 1 and b in polar coordinates: det L_vv = r² falls to b² within a time of about b."""
    polar = da.System(lambda q, v: 0.5 * (v[0] ** 2 + q[0] ** 2 * v[1] ** 2) - 0.5 * q[0] ** 2)
    run = {"q0": [1.0, 0.0], "h": 0.02, "steps": 400, "solver": da.Solver(backend=backend)}
    assert int(da.simulate(polar, v0=[0.0, 0.1], **run).statistics.leaps) == 0
    with pytest.warns(UserWarning, match="factor of three"):
        coarse = da.simulate(polar, v0=[0.0, 0.01], **run)
    assert int(coarse.statistics.leaps) > 0
