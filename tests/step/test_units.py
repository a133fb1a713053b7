"""A run is the same in all units, from all origins and for an L of any size; what is off the constraints is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

BACKENDS = ("native", "jax")
NATURAL = {"u": 1.0, "o": 0.0, "c": 1.0}
UNITS = [
    {"u": 1e-10}, {"u": 1e-9}, {"u": 1e9}, {"u": 1e9, "c": 1e-12}, {"c": 1e-12}, {"c": 1e12},
    {"o": 1e6}, {"u": 1e-9, "o": -1e-3},
]  # fmt: skip
Q0, V0 = np.array([0.6, -0.8]), np.array([0.8, 0.6])


def swinging(q, v, p):
    w = v / p["u"]
    return p["c"] * (0.5 * w @ w - (q[1] - p["o"]) / p["u"])


def circle(q, p):
    return (q - p["o"]) @ (q - p["o"]) - p["u"] ** 2


ROD = da.System(swinging, da.Holonomic(circle), parameters=NATURAL)


def run(q, v, backend="native", h=0.02, u=1.0, o=0.0, c=1.0):
    path = da.simulate(ROD.replace(u=u, o=o, c=c), o + u * q, u * v, h=h, steps=200, solver=da.Solver(backend=backend))
    return (path.q - o) / u, path


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rod_swings_alike_in_all_units_and_from_all_origins(backend):
    base, path = run(Q0, V0, backend)
    energy = 0.5 * np.sum(np.asarray(path.v) ** 2, axis=1)
    assert np.ptp(energy) > 0.5  # it moves through a good part of the circle
    for change in UNITS:
        same, other = run(Q0, V0, backend, **change)
        far = abs(change.get("o", 0.0)) / change.get("u", 1.0)
        assert np.max(np.abs(same - base)) < 1e-13 + 1e-15 * far, change
        assert other.outcome is da.Outcome.SUCCESS
        assert int(other.statistics.crossings) == int(path.statistics.crossings)


@pytest.mark.parametrize("change", [{}, *UNITS], ids=str)
def test_what_is_off_the_circle_is_refused(change):
    """Also three radii off one of 1e-10, at rest and with steps far too long, whose motion is larger than the circle."""
    u, o, c = (change.get(name, NATURAL[name]) for name in "uoc")
    system = ROD.replace(u=u, o=o, c=c)
    starts = o + u * np.stack([Q0, (1 + 1e-6) * Q0])
    for h in (0.02, 0.5):
        for q, v in ((3.0 * Q0, 0 * V0), ((1 + 1e-6) * Q0, V0), (Q0, V0 + 1e-5 * Q0)):
            with pytest.raises(da.InconsistentDataError, match=r"q0, v0: .*constraints\[0\] \(Holonomic\)"):
                run(q, v, h=h, **change)
        with pytest.raises(da.InconsistentDataError, match=r"in run 1 and not 0 \(1 of 2 runs\)"):
            da.ensemble(system, starts, 0 * starts, h=h, steps=2)
    moved = da.project(system, o + 3.0 * u * Q0, 0 * V0)
    assert np.max(np.abs((moved.q - o) / u - Q0)) < 1e-14 + 1e-14 * abs(o) / u


def test_zeros_and_rounding_are_no_violation():
    up = [np.sin(np.pi), np.cos(np.pi)]
    assert run(np.array(up), np.zeros(2))[1].outcome is da.Outcome.SUCCESS
    knife = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[2:] - q[1] * v[0]))
    for v in ([0.0, 0.0, 0.0], [1.0, 1.0, 0.0]):
        assert da.simulate(knife, [0.0, 0.0, 0.0], v, h=0.01, steps=5).outcome is da.Outcome.SUCCESS
    with pytest.raises(da.InconsistentDataError):
        da.simulate(knife, [1.0, 0.3, 0.0], [1.0, 1.0, 0.3 + 1e-6], h=0.01, steps=5)


def test_a_straight_constraint_far_from_zero_is_held_to_what_the_motion_resolves():
    """q₁ = 2 q₂ - 10⁶, begun at (10⁶, 10⁶) at rest: the size is that of the fall, ½ g τ² in a hundred steps."""
    plane = da.System(lambda q, v: 0.5 * v @ v - q[1], da.Holonomic(lambda q: q[0] - 2 * q[1] + 1e6))
    path = da.simulate(plane, [1e6, 1e6], [0.0, 0.0], h=0.01, steps=100)
    assert float(path.q[-1, 1] - 1e6) == pytest.approx(-0.5 / 5, rel=1e-6)  # a₂ = -1/(1 + 2²)
    with pytest.raises(da.InconsistentDataError):
        da.simulate(plane, [1e6 + 1e-6, 1e6], [0.0, 0.0], h=0.01, steps=5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_coordinates_with_units_of_their_own(backend):
    """A cart in nanometres or gigametres with a pole in radians, and a third coordinate that a knife edge ties to both."""

    def lagrangian(q, v, p):
        x, w = q[0] / p["u"], v[0] / p["u"]
        return 0.5 * (w**2 + v[1] ** 2 + v[2] ** 2 + w * v[1] * jnp.cos(q[1])) - jnp.cos(q[1]) - 0.2 * x**4

    free = da.System(lagrangian, parameters={"u": 1.0})
    tied = da.System(
        lagrangian, da.Nonholonomic(lambda q, v, p: v[2] - v[0] / p["u"] * jnp.sin(q[1])), parameters={"u": 1.0}
    )
    for system in (free, tied):
        paths = [
            da.simulate(
                system.replace(u=u),
                [0.0, 0.5, 0.0],
                [u, 0.2, np.sin(0.5)],
                h=0.05,
                steps=200,
                solver=da.Solver(backend=backend),
            )
            for u in (1.0, 1e9, 1e-9)
        ]
        first, *others = (np.asarray(p.q) / [u, 1.0, 1.0] for p, u in zip(paths, (1.0, 1e9, 1e-9), strict=True))
        for other in others:
            assert np.max(np.abs(other - first)) < 1e-11
        assert np.max(np.abs(paths[1].multipliers - paths[0].multipliers), initial=0.0) < 1e-10


def test_lanes_are_in_the_units_of_single_runs():
    angles = np.linspace(0.1, 1.2, 12)
    starts = 1e-9 * np.stack([np.sin(angles), -np.cos(angles)], axis=1)
    system = ROD.replace(u=1e-9)
    paths = da.ensemble(system, starts, 0 * starts, h=0.02, steps=100)
    assert np.all(np.asarray(paths.code) == 0)
    alone = da.simulate(system, starts[5], 0 * starts[5], h=0.02, steps=100)
    np.testing.assert_allclose(paths.lane(5).q, alone.q, rtol=0, atol=1e-22)


def test_time_does_not_stand_still():
    for t0 in (1e16, -1e16, 1e14):
        with pytest.raises(ValueError, match=r"t0, h: found steps of 0\.01 at times up to"):
            da.simulate(ROD, Q0, V0, h=0.01, steps=10, t0=t0)
        with pytest.raises(ValueError, match=r"t0, h: found steps of 0\.01 at times up to"):
            da.ensemble(ROD, Q0[None], V0[None], h=0.01, steps=10, t0=t0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_flows_of_higher_order(backend):
    """½|q̈|² on a circle: (cos ωt, sin ωt) is exact for the continuous flow; the discrete one is compared with itself."""
    bending = da.VariationalProblem(
        lambda q, v, a, p: 0.5 * p["c"] * (a @ a) / p["u"] ** 2, da.Holonomic(circle), derivatives=2, parameters=NATURAL
    )
    jets = np.array([[1.0, 0.0], [0.0, 1.3], [-(1.3**2), 0.0], [0.0, -(1.3**3)]])
    paths = []
    for change in ({}, {"u": 1e-9}, {"u": 1e9}, {"c": 1e12}, {"o": 1e6}):
        u, o, c = (change.get(name, NATURAL[name]) for name in "uoc")
        given, problem = u * jets, bending.replace(u=u, o=o, c=c)
        given[0] += o
        path = da.simulate(problem, start=da.Start(jets=given), h=0.02, steps=60, solver=da.Solver(backend=backend))
        paths.append((np.asarray(path.q) - o) / u)
        assert np.max(np.abs(paths[-1] - paths[0])) < 1e-13 + 1e-14 * o
        given[0] += 2 * u * jets[0]
        with pytest.raises(da.InconsistentDataError, match="jets: φ"):
            da.simulate(problem, start=da.Start(jets=given), h=0.02, steps=60, solver=da.Solver(backend=backend))
    angle = 1.3 * 0.02 * np.arange(61)
    assert np.max(np.abs(paths[0] - np.stack([np.cos(angle), np.sin(angle)], axis=1))) < 1e-3
