"""Constraints that depend on each other: the motion of those written by hand, and the multipliers of the pseudoinverse."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

LENGTHS = np.array([1.0, 2.2, 1.6, 2.0])  # crank, coupler, rocker, ground


def bars(q, v, p=None):
    inertia = 0.5 * v @ (jnp.array([1.0, 0.5, 0.8]) * v) + 0.2 * jnp.cos(q[0] - q[1]) * v[0] * v[1]
    return inertia - jnp.sin(q[0]) - 0.5 * jnp.sin(q[1])


def closure(q):
    a, b, c, d = LENGTHS
    return jnp.array([a * jnp.cos(q[0]) + b * jnp.cos(q[1]) - c * jnp.cos(q[2]) - d,
                      a * jnp.sin(q[0]) + b * jnp.sin(q[1]) - c * jnp.sin(q[2])])  # fmt: skip


def coupler(q):
    """The distance of the two joints: it follows from the closure, and its gradient from those of the closure only there."""
    a, b, c, d = LENGTHS
    return (a * jnp.cos(q[0]) - c * jnp.cos(q[2]) - d) ** 2 + (a * jnp.sin(q[0]) - c * jnp.sin(q[2])) ** 2 - b**2


def car(q, v):
    return 0.5 * (v[0] ** 2 + v[1] ** 2 + 0.4 * v[2] ** 2 + 0.1 * v[3] ** 2) - 0.3 * q[0] + 0.2 * jnp.cos(q[3]) - 0.1 * q[1]


def sideways(q, v):
    """Velocities of the middle of the rear axle in the car's frame: ahead, to the left."""
    c, s = jnp.cos(q[2]), jnp.sin(q[2])
    return c * v[0] + s * v[1], -s * v[0] + c * v[1]


def two_wheels(q, v):
    ahead, left = sideways(q, v)
    return jnp.array([left, jnp.cos(q[3]) * (left + v[2]) - jnp.sin(q[3]) * ahead])


def four_wheels(q, v):
    """No wheel slips sideways; the front ones are steered so that all axes meet in a point. Both rear ones say the same."""
    (ahead, left), rows = sideways(q, v), []
    for y in (0.4, -0.4):
        along, across = jnp.cos(q[3]) - y * jnp.sin(q[3]), jnp.sin(q[3])
        rows.append(along * (left + v[2]) - across * (ahead - y * v[2]))
    return jnp.stack([left, left, *rows])


def rod(q):
    return q @ q - 1.0


def hanging(q, v):
    return 0.5 * v @ v - q[1] - 0.2 * q[0] * q[1]


FOUR_BAR = da.System(bars, [da.Holonomic(closure), da.Holonomic(coupler)])
CAR = da.System(car, da.Nonholonomic(four_wheels), forces=lambda q, v: jnp.array([0.0, 0.0, 0.0, jnp.sin(q[0])]))
TWICE = da.System(hanging, [da.Holonomic(rod), da.Holonomic(lambda q: 1e6 * rod(q))])
CASES = {
    "four-bar": (FOUR_BAR, da.System(bars, da.Holonomic(closure)), [1.0, 0.2, 1.4], [1.0, 0.0, 0.0]),
    "car": (CAR, da.System(car, da.Nonholonomic(two_wheels), forces=CAR.forces), [0.0, 0.0, 0.1, 0.3], [1.0, 0.0, 0.0, 0.2]),
    "pendulum": (TWICE, da.System(hanging, da.Holonomic(rod)), [0.6, -0.8], [2.4, 1.8]),
}
ORDERS = {"four-bar": 4}  # at order 4 multipliers belong to the nodes, and lie where the copies depend on each other exactly


def start(name):
    _, by_hand, q, v = CASES[name]
    return da.project(by_hand, q, v)[:2]


def moved(q, v, multipliers):
    """A path of 100 steps with other values, which costs no program."""
    path = da.simulate(CASES["pendulum"][1], *start("pendulum"), h=0.02, steps=100, solver=da.Solver(backend="jax"))
    return dataclasses.replace(path, q=np.asarray(path.t)[:, None] * v + q, v=np.tile(v, (101, 1)),
                               multipliers=np.tile(multipliers, (100, 1)))  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def runs(request):
    """Name, the choice, the path of .system and that of the constraints written by hand."""
    system, by_hand, *_ = CASES[request.param]
    q, v = start(request.param)
    found = da.systems.independent(system, q, v)
    grid = {"h": 0.02, "steps": 100, "scheme": da.Scheme(order=ORDERS.get(request.param, 2)),
            "solver": da.Solver(backend="jax" if request.param == "pendulum" else "native")}  # fmt: skip
    return request.param, found, *(da.simulate(one, q, v, **grid) for one in (found.system, by_hand))


def test_the_motion_is_that_of_the_independent_constraints(runs):
    _, found, path, by_hand = runs
    whole = found.complete(path)
    assert np.ptp(path.q, axis=0).max() > 0.5
    assert whole.multipliers.shape[1] == len(found.kept) + len(found.left_out)
    for a, b in ((whole.q, by_hand.q), (whole.v, by_hand.v)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())


def rows_of(name, q):
    """R of all rows at many states, (N, M, n), differentiated by hand."""
    none, c, s = np.zeros(len(q)), np.cos(q.T), np.sin(q.T)
    if name == "pendulum":
        return np.stack([2.0 * q, 2e6 * q], axis=1)
    if name == "four-bar":
        (one, two, three, ground) = LENGTHS
        x, y = one * c[0] - three * c[2] - ground, one * s[0] - three * s[2]
        rows = [[-one * s[0], -two * s[1], three * s[2]], [one * c[0], two * c[1], -three * c[2]],
                [2 * one * (y * c[0] - x * s[0]), none, 2 * three * (x * s[2] - y * c[2])]]  # fmt: skip
        return np.moveaxis(np.array(rows), -1, 0)
    rows = 2 * [[-s[2], c[2], none, none]]
    for y in (0.4, -0.4):
        along, across = c[3] - y * s[3], s[3]
        rows.append([-along * s[2] - across * c[2], along * c[2] - across * s[2], along + across * y, none])
    return np.moveaxis(np.array(rows), -1, 0)


def test_multipliers_are_those_of_the_pseudoinverse(runs):
    """λ = (Rᵀ)⁺F, F the constraint force that the run itself reports, R of all rows at its time, cut off at the rank."""
    name, found, path, _ = runs
    q = (
        path.q[1:]
        if name in ORDERS
        else path.q[:-1] + 0.01 * path.v[:-1]
        if name == "car"
        else 0.5 * (path.q[1:] + path.q[:-1])
    )
    left, values, right = np.linalg.svd(rows_of(name, np.asarray(q)), full_matrices=False)
    rank = len(found.kept)
    assert (values[:, rank:] < 1e-9 * values[:, :1]).all()
    parts = np.einsum("bri,bi->br", right[:, :rank], path.constraint_forces) / values[:, :rank]
    shortest = np.einsum("bir,br->bi", left[:, :, :rank], parts)
    # In the middle of the car's step the steering angle of the kick differs by h² from the mean of the two states.
    near = 1e-3 if name == "car" else 1e-11
    np.testing.assert_allclose(found.complete(path).multipliers, shortest, rtol=0, atol=near * np.abs(shortest).max())
    if name == "pendulum":  # the small one too
        np.testing.assert_allclose(found.complete(path).multipliers, shortest, rtol=1e-9)


def test_the_rows_that_were_written_first_are_kept_in_whatever_units():
    """By y = 0 the line is regular; by xy = 0 it is singular at x = 0, where that run ends."""
    line, crossed = da.Holonomic(lambda q: q[1]), da.Holonomic(lambda q: 1e6 * q[0] * q[1])
    outcomes, at = [], ([1.0, 0.0], [-1.0, 0.0])
    for both in ((line, crossed), (crossed, line)):
        found = da.systems.independent(da.System(lambda q, v: 0.5 * v @ v - q[1], both), *at)
        assert found.kept == (0,)
        path = da.simulate(found.system, *at, h=0.07, steps=30, throw=False)
        outcomes.append(da.Outcome(int(path.code)).failed)
        if not outcomes[-1]:
            middle = 0.5 * (path.q[1:, 0] + path.q[:-1, 0])
            shortest = np.stack([np.ones(30), 1e6 * middle], axis=1) / (1.0 + 1e12 * middle**2)[:, None]  # the weight is 1
            np.testing.assert_allclose(found.complete(path).multipliers, shortest, rtol=1e-9)
    assert outcomes == [False, True]


def test_positions_are_kept_and_not_only_their_derivative():
    moving = da.Nonholonomic(lambda q, v: q @ v)
    found = da.systems.independent(da.System(hanging, [moving, da.Holonomic(rod)]), [0.6, -0.8], [0.8, 0.6])
    assert found.left_out == ("constraints[0] (Nonholonomic)",)


def test_contradictions_are_refused_by_name_with_the_residual():
    at = ([0.6, -0.8], [0.8, 0.6])
    shifted = da.System(hanging, [da.Holonomic(rod), da.Holonomic(lambda q: 3.0 * rod(q) + 1e-3)])
    with pytest.raises(da.InconsistentDataError, match=r"constraints\[1\] \(Holonomic\) at q0 is \[0.001\]"):
        da.systems.independent(shifted, *at)
    touching = da.System(hanging, [da.Holonomic(rod), da.Holonomic(lambda q: rod(q) + (q[0] - 0.6) ** 2)])
    found = da.systems.independent(touching, *at)
    path = da.simulate(found.system, *at, h=0.02, steps=100, solver=da.Solver(backend="jax"))  # compiled above
    residual = f"{(path.q[1, 0] - 0.6) ** 2:.6f}"
    with pytest.raises(
        da.InconsistentDataError, match=rf"path: constraints\[1\].*is \[{residual}\d*\] and not 0 at t = 0.02"
    ):
        found.complete(path)


def test_a_rank_that_grows_on_the_way_is_refused():
    """z + x²y = 0 beside z = 0: the motion along x satisfies both, and from x ≠ 0 on y is held by a force of its own."""
    rows = da.Holonomic(lambda q: jnp.stack([q[2], q[2] + q[0] ** 2 * q[1]]))
    found = da.systems.independent(da.System(lambda q, v: 0.5 * v @ v - q[2], rows), np.zeros(3), [1.0, 0.0, 0.0])
    with pytest.raises(da.RankDeficientError, match=r"rank 1 at the start and more at t = 0.02"):
        found.complete(moved(np.zeros(3), np.array([1.0, 0.0, 0.0]), [1.0]))


def test_reactions_must_depend_on_each_other_as_the_constraints_do():
    pushed = da.Holonomic(rod, reactions=lambda q: jnp.array([1.0, 0.0]))
    with pytest.raises(da.RankDeficientError, match=r"all rows span 2 directions .* the 1 independent constraints 1"):
        da.systems.independent(da.System(hanging, [pushed, da.Holonomic(rod)]), [0.6, -0.8], [0.8, 0.6])


def test_constraints_on_accelerations_stay():
    """Their multiplier is theirs; of the two rows of the other constraint the longer one has the larger part."""
    braked = da.SecondOrder(lambda q, v, a: a[0] + v[0])
    floor = da.Holonomic(lambda q: jnp.array([q[1], 2.0 * q[1]]))
    found = da.systems.independent(da.System(lambda q, v: 0.5 * v @ v - q[1], [braked, floor]), [0.0, 0.0], [1.0, 0.0])
    multipliers = found.complete(moved(np.zeros(2), np.array([1.0, 0.0]), [-0.7, 1.0])).multipliers
    np.testing.assert_allclose(multipliers, [[-0.7, 0.2, 0.4]] * 100, rtol=1e-12)


def test_everything_else_takes_the_chosen_system_and_names_the_other():
    q, v = start("pendulum")
    found = da.systems.independent(TWICE, q, v)
    assert "dependent constraints" in str(da.solvability(TWICE, q, v))
    assert "\nsolvable" in "\n" + str(da.solvability(found.system, q, v))
    with pytest.raises(da.RankDeficientError, match="redundant"):
        da.project(TWICE, q, v)
    with pytest.raises(da.RankDeficientError, match=r"let dalembert.systems.independent"):
        da.simulate(TWICE, q, v, h=0.02, steps=2)
    motion = da.reference(found.system, q, v, jnp.array([0.0, 0.5]))
    q_end, v_end = motion.q[-1], motion.v[-1]
    energy = [float(da.energy(CASES["pendulum"][1], *state)) for state in ((q, v), (q_end, v_end))]
    np.testing.assert_allclose([float(q_end @ q_end), energy[1]], [1.0, energy[0]], rtol=1e-9)
    lanes = da.ensemble(found.system, np.stack([q, q]), v, h=0.02, steps=2)
    with pytest.raises(ValueError, match="path: is a batch; complete its lanes"):
        found.complete(lanes)
    np.testing.assert_allclose(found.complete(lanes.lane(1)).multipliers[:, 1], 1e-6 * lanes.multipliers[1][:, 0], rtol=1e-9)


def test_paths_that_cannot_be_checked_are_refused_by_name(runs):
    name, found, path, _ = runs
    if name != "pendulum":
        return
    for changes, message in (
        ({"q": 1.001 * path.q}, "path: constraints.0. .* where the kept rows should hold: .* whose states satisfy"),
        ({"t": path.t[::2]}, "path: has 51 of 101 nodes"),
        ({"levels": ("mid", "interior")}, "path: its states are at levels"),
        ({"multipliers": path.multipliers[:, :0]}, "path: has 2 coordinates and 0 multipliers; one of .system has 2 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            found.complete(dataclasses.replace(path, **changes))
