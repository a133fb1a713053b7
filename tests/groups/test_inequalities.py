"""Inequalities, first paths and derivatives of optima on groups, against the plane, quaternions, closed forms and
differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import dalembert as da
from dalembert.groups import SE2, SO2, SO3

REST = {"R": [0.0, 0.0, 0.0]}
ONE = {"R": np.eye(3)}
EXACT = da.Solver(tolerance=1e-11)


def turned(*way):
    return Rotation.from_rotvec(way).as_matrix()


def angle(R):
    """About the first axis."""
    return jnp.arctan2(R[2, 1] - R[1, 2], R[1, 1] + R[2, 2])


def assert_same(found, plain):
    """The solution on the group, the first axis of which is the one coordinate of the other."""
    a, b = found.bounds["inequalities"], plain.bounds["inequalities"]
    assert np.array_equal(a.active, b.active)
    assert float(found.value[1]) == pytest.approx(float(plain.value[1]), rel=1e-12)
    assert_allclose(a.values, b.values, rtol=0, atol=1e-9)
    assert_allclose(a.multipliers, b.multipliers, rtol=0, atol=1e-9 * (1 + np.abs(b.multipliers).max()))
    assert_allclose(2 * np.arctan2(found.q[:, 1], found.q[:, 0]), plain.q[:, 0], rtol=0, atol=1e-9)


TURNS = {"initial": (ONE, {"R": [1.5, 0, 0]}), "final": ({"R": turned(0.6, 0, 0)}, REST), "T": 2.0, "steps": 20}
MOVES = {"initial": ([0.0], [1.5]), "final": ([0.6], [0.0]), "T": 2.0, "steps": 20}


@pytest.mark.parametrize(
    "limit",
    [
        lambda x, v, u: x - 0.65,
        lambda x, v, u: x + 0.3 * v - 0.65,
        lambda x, v, u: -0.1 - v,
        lambda x, v, u: jnp.stack([x + 0.1 * v + 0.01 * u - 0.65, -4.0 - u]),
    ],
    ids=["position", "state", "velocity", "all"],
)
def test_a_turn_about_one_axis_is_a_motion_in_the_plane(limit):
    """With the exponential map the discrete problems are the same: at nodes, on steps, at ends with their own velocities."""
    body = da.System(lambda q, v: 0.5 * v.R @ (jnp.array([1.0, 2.0, 3.0]) * v.R), coordinates={"R": SO3("exp")})
    cost = lambda q, v, u: 0.5 * u @ u  # noqa: E731
    turn = da.OptimalControl(body, cost=cost, actuated=np.eye(3))
    move = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=cost, actuated=0)
    own = da.solve(turn, **TURNS, inequalities=lambda q, v, u: limit(angle(q.R), v.R[0], u[0]), solver=EXACT)
    plain = da.solve(move, **MOVES, inequalities=lambda q, v, u: limit(q[0], v[0], u[0]), solver=EXACT)
    assert np.any(plain.bounds["inequalities"].active)
    assert_same(own, plain)


@pytest.mark.parametrize("limit", [lambda x, v: x - 0.65, lambda x, v: v - 1.5 - x], ids=["position", "state"])
def test_so_is_a_cubic(limit):
    turn = da.VariationalProblem(lambda q, v, a: 0.5 * a.R @ a.R, derivatives=2, coordinates={"R": SO3("exp")})
    move = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
    own = da.solve(turn, **TURNS, inequalities=lambda q, v: limit(angle(q.R), v.R[0]), solver=EXACT)
    plain = da.solve(move, **MOVES, inequalities=lambda q, v: limit(q[0], v[0]), solver=EXACT)
    assert_same(own, plain)
    bounds = {"v": (-0.1, 1.55)}
    own, plain = da.solve(turn, **TURNS, bounds=bounds, solver=EXACT), da.solve(move, **MOVES, bounds=bounds, solver=EXACT)
    assert float(own.action) == pytest.approx(float(plain.action), rel=1e-12)
    assert np.array_equal(own.bounds["v"].active[:, :1], plain.bounds["v"].active)
    assert np.any(plain.bounds["v"].active)


def test_the_shortest_way_round_a_pole():
    """A taut string in the plane of an angle and a number: straight to the disc, along it, and straight on."""
    string = da.VariationalProblem(lambda q, v: 0.5 * (v.R @ v.R + v.x @ v.x), coordinates={"R": SO2, "x": 1})
    place = lambda a: {"R": np.array([np.cos(a), np.sin(a)]), "x": [0.0]}  # noqa: E731
    ends = {"initial": (place(-1.0),), "final": (place(1.0),), "T": 1.0}
    pole = lambda q, v: 0.25 - jnp.arctan2(q.R[1, 0], q.R[0, 0]) ** 2 - (q.x[0] - 0.1) ** 2  # noqa: E731
    d, off = np.hypot(1.0, 0.1), np.arctan2(0.1, 1.0)
    length = 2 * np.sqrt(d**2 - 0.25) + 0.5 * (2 * np.arcsin(0.5 / d) - 2 * off)
    other = 2 * np.sqrt(d**2 - 0.25) + 0.5 * (2 * np.arcsin(0.5 / d) + 2 * off)
    errors = [float(da.solve(string, **ends, steps=n, inequalities=pole).action) - length**2 / 2 for n in (20, 80)]
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.3)
    assert abs(errors[1]) < 1e-4 * length**2
    found = da.multistart(string, 8, **ends, steps=80, inequalities=pole)
    assert [float(s.action) for s in found.solutions] == pytest.approx([length**2 / 2, other**2 / 2], rel=1e-4)
    assert (sum(found.hits), found.failed) == (8, 0)
    again = {"R": np.stack([s["R"] for s in found.solutions]), "x": np.stack([s.q[:, 2:] for s in found.solutions])}
    assert da.multistart(string, again, **ends, steps=80, inequalities=pole).hits == [1, 1]
    assert da.multistart(string, np.stack([s.q for s in found.solutions]), **ends, steps=80, inequalities=pole).hits == [
        1,
        1,
    ]
    with pytest.raises(ValueError, match=r"starts: found shape \(2, 81, 2\).*R, x"):
        da.multistart(string, np.zeros((2, 81, 2)), **ends, steps=80, inequalities=pole)
    with pytest.raises(ValueError, match=r"starts: found shape \(3,\)"):
        da.multistart(string, place(0.0), **ends, steps=80, inequalities=pole)


INERTIA = jnp.array([1.0, 2.0, 3.0])
TILTED = {"R": turned(0.4, 0, 0)}, {"R": turned(0, 0, 2.2) @ turned(0.45, 0, 0)}
BODY = da.System(lambda q, v, p: 0.5 * v.R @ (p["I"] * v.R), coordinates={"R": SO3}, parameters={"I": INERTIA})
TURN = da.OptimalControl(BODY, cost=lambda q, v, u, p: 0.5 * u @ u, actuated=np.eye(3))
ENDS = {"initial": (TILTED[0], REST), "final": (TILTED[1], REST), "T": 1.0}
LEAST = np.cos(0.5)


def tilt(q, v, u, p):
    return LEAST - q.R[2, 2]


def test_a_bound_on_the_tilt_costs_what_it_costs_for_quaternions():
    """The turn that nothing bounds tilts by 64°; costs extrapolated by h²."""

    def rate(q):  # ω = rate(q) q̇
        w, x, y, z = q
        return 2 * jnp.array([[-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]])

    spin = lambda q, v: rate(q) @ v  # noqa: E731
    plain = da.System(lambda q, v: 0.5 * spin(q, v) @ (INERTIA * spin(q, v)), da.Holonomic(lambda q: q @ q - 1))
    other = da.OptimalControl(plain, cost=lambda q, v, u: 0.5 * u @ u, actuated=lambda q: rate(q).T)
    stored = [Rotation.from_matrix(x["R"]).as_quat(scalar_first=True) for x in TILTED]
    held, costs = lambda q, v, u: LEAST - 1 + 2 * (q[1] ** 2 + q[2] ** 2), []
    for n in (80, 160):
        given = {"T": 1.0, "steps": n, "certify": False, "solver": da.Solver(tolerance=1e-10)}
        own = da.solve(TURN, initial=ENDS["initial"], final=ENDS["final"], inequalities=tilt, **given)
        also = da.solve(other, initial=(stored[0], np.zeros(4)), final=(stored[1], np.zeros(4)), inequalities=held, **given)
        costs.append([float(own.cost), float(also.cost)])
        assert_allclose(own["R"][:, 2, 2].min(), LEAST, rtol=0, atol=1e-9)
    first, second = (4 * np.array(costs[1]) - costs[0]) / 3
    assert first == pytest.approx(second, rel=1e-6)
    assert first > 1.15 * 196.3


def test_an_active_inequality_pushes_as_the_cost_changes():
    """∂J/∂b of g ≤ b is minus the sum of the multipliers, with the time that each stands for; the solver's residual is
    that of the KKT equations."""
    least, cost = [LEAST - 1e-5, LEAST + 1e-5], []
    s = da.solve(TURN, **ENDS, steps=20, inequalities=tilt, solver=EXACT)
    for one in least:
        near = da.solve(TURN, **ENDS, steps=20, inequalities=lambda q, v, u, p, c=one: c - q.R[2, 2], solver=EXACT, guess=s)
        cost.append(float(near.cost))
    shares = np.full(21, 1 / 20)
    shares[[0, -1]] /= 2
    push = s.bounds["inequalities"]
    assert shares @ push.multipliers[:, 0] == pytest.approx((cost[1] - cost[0]) / 2e-5, rel=1e-6)
    assert np.all(push.multipliers >= 0)
    assert float(s.statistics.residual) < 1e-10
    assert s.kind == "minimum"


def test_what_takes_inequalities_takes_them_on_groups():
    s = da.solve(TURN, **ENDS, steps=12, inequalities=tilt, solver=EXACT)
    finer = da.refine(TURN, s, initial=ENDS["initial"], final=ENDS["final"], inequalities=tilt, tolerance=1e-3)
    assert finer["R"][:, 2, 2].min() == pytest.approx(LEAST, abs=1e-8)
    stored = [[Rotation.from_matrix(x["R"]).as_quat(scalar_first=True)] for x in TILTED]
    (again,) = da.solve_batch(
        TURN, initial=(stored[0], np.zeros((1, 3))), final=(stored[1], np.zeros((1, 3))), T=1.0, steps=12, inequalities=tilt
    )
    assert float(again.cost) == pytest.approx(float(s.cost), rel=1e-9)
    law = da.feedback(TURN, s, final=ENDS["final"], inequalities=tilt, hold=0.2)
    start, d = {"R": TILTED[0]["R"] @ turned(0, 0, 1e-4)}, np.array([0, 0, 1e-4, 0, 0, 0])
    near = da.solve(TURN, **(ENDS | {"initial": (start, REST)}), steps=12, inequalities=tilt, solver=EXACT, guess=s)
    assert_allclose((near.u - s.u)[0], -law.K[0] @ d, rtol=0, atol=0.01 * np.abs(near.u - s.u).max())
    with pytest.raises(TypeError, match="inequalities: is missing"):
        da.feedback(TURN, s, final=ENDS["final"], hold=0.2)
    homotopy = da.solve(TURN, **ENDS, steps=12, inequalities=tilt, guess="homotopy")
    assert float(homotopy.cost) == pytest.approx(float(s.cost), rel=1e-6)


def test_a_skate_goes_round_a_post_in_space_as_in_the_body():
    """On SE(2) as in (φ, x, y) with the same constraint."""
    sled = da.System(lambda q, v: 0.5 * v.g @ v.g, da.Nonholonomic(lambda q, v: v.g[2]), coordinates={"g": SE2})
    plain = da.System(lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: v[2] * jnp.cos(q[0]) - v[1] * jnp.sin(q[0])))
    push = lambda q: jnp.array([[1.0, 0.0], [0.0, jnp.cos(q[0])], [0.0, jnp.sin(q[0])]])  # noqa: E731
    park = da.OptimalControl(sled, cost=lambda q, v, u: u @ u, actuated=[0, 1])
    other = da.OptimalControl(plain, cost=lambda q, v, u: u @ u, actuated=push)
    post, rest = lambda x: 0.09 - (x[0] - 1) ** 2 - x[1] ** 2, np.zeros(3)
    given = {"T": 4.0, "steps": 160, "certify": False}
    ends = {"initial": ({"g": (np.eye(2), [0, 0])}, {}), "final": ({"g": (np.eye(2), [2, 0.2])}, {})}
    own = da.solve(park, **ends, **given, inequalities=lambda q, v, u: post(q.g.x))
    ends = {"initial": (rest, rest), "final": ([0, 2, 0.2], rest)}
    also = da.solve(other, **ends, **given, inequalities=lambda q, v, u: post(q[1:]))
    free = da.solve(park, initial=({"g": (np.eye(2), [0, 0])}, {}), final=({"g": (np.eye(2), [2, 0.2])}, {}), **given)
    assert float(own.cost) == pytest.approx(float(also.cost), rel=2e-3)
    assert own.cost > 1.5 * free.cost
    assert_allclose(np.max(post(own["g"].x.T)), 0.0, rtol=0, atol=1e-9)


def rotation(w):
    """exp of a way, for JAX."""
    a, K = jnp.sqrt(w @ w), jnp.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    return jnp.eye(3) + jnp.sin(a) / a * K + (1 - jnp.cos(a)) / a**2 * K @ K


@pytest.mark.parametrize("inequalities", [None, tilt], ids=["free", "bounded"])
def test_derivatives_of_an_optimum_are_differences(inequalities):
    """By the rotation of an end as a matrix, by the inertia, and by a velocity; the quaternions have derivatives too."""
    given = {"initial": ENDS["initial"], "T": 1.0, "steps": 12, "solver": EXACT, "inequalities": inequalities}
    weights = jnp.arange(1.0, 5.0)

    def merit(w, inertia, rate):
        end = {"R": TILTED[1]["R"] @ rotation(w)}
        found = da.optimum(TURN.replace(I=inertia), **given, final=(end, {"R": rate}))
        return found.cost / 100 + jnp.sum(jnp.sin(found.q) @ weights) + jnp.sum(jnp.cos(found.v)) + jnp.sum(found.u[0])

    points = [jnp.array([0.02, -0.03, 0.1]), INERTIA, jnp.array([0.1, -0.2, 0.3])]
    slopes, d = jax.grad(merit, (0, 1, 2))(*points), 1e-4
    for k, slope in enumerate(slopes):
        for axis in range(3):
            both = [merit(*points[:k], points[k].at[axis].add(s * d), *points[k + 1 :]) for s in (1, -1)]
            assert float(slope[axis]) == pytest.approx(float(both[0] - both[1]) / (2 * d), rel=1e-5, abs=1e-5)
    forward = jax.jacfwd(merit)(*points)
    assert_allclose(forward, slopes[0], rtol=0, atol=1e-10 * np.abs(slopes[0]).max())


def test_an_optimum_is_the_solution():
    s = da.solve(TURN, **ENDS, steps=10, inequalities=tilt)
    best = jax.jit(lambda: da.optimum(TURN, **ENDS, steps=10, inequalities=tilt))()
    assert_allclose(best.q, s.q, rtol=0, atol=1e-13)
    assert_allclose(best.cost, s.cost, rtol=1e-13)
    assert best.q.shape == (11, 4)
    free = da.optimum(TURN, initial=ENDS["initial"], final=(TILTED[1], None), T=1.0, steps=10)
    assert free.cost < best.cost
    with pytest.raises(TypeError, match=r"final: .*tuple"):
        da.optimum(TURN, initial=ENDS["initial"], final=TILTED[1], T=1.0, steps=10)
    with pytest.raises(ValueError, match=r"final\[0\]\['R'\]: .*no rotation"):
        da.optimum(TURN, initial=ENDS["initial"], final=({"R": 2 * np.eye(3)}, REST), T=1.0, steps=10)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"inequalities": lambda q, v, u, p: q.R}, ValueError, r"inequalities: returns shape \(3, 3\)"),
        ({"inequalities": lambda q, v, u, p: q.x[0]}, TypeError, "inequalities: .*x: is no coordinate; found R"),
        ({"inequalities": lambda q, v: q.R[0, 0]}, TypeError, "inequalities: "),
        ({"inequalities": lambda q, v, u, p: q.R[2, 2] - 0.5}, ValueError, r"g\[0\] = 0.421.*initial"),
        ({"inequalities": lambda q, v, u, p: 0.1 - v.R[0]}, ValueError, r"g\[0\] = 0.1 .*initial"),
        ({"through": {0.5: {"R": turned(1.0, 0, 0)}}, "inequalities": tilt}, ValueError, r"g\[0\] = 0.337.*through"),
        ({"inequalities": tilt, "seek": "extremal"}, ValueError, "seek"),
        ({"inequalities": 3}, TypeError, "inequalities: found 3"),
    ],
)
def test_what_is_wrong_with_inequalities_is_named(given, error, message):
    with pytest.raises(error, match=message):
        da.solve(TURN, **ENDS, **({"steps": 10} | given))


def test_a_quadrotor_flies_round_a_pole_and_keeps_its_tilt(quadrotor):
    """Two ways round, of which the nearer is cheaper."""
    there = {"R": np.eye(3), "x": [2, 0, 0]}
    flight = {"initial": (ONE | {"x": [0, 0, 0]}, {}), "final": (there, {}), "T": 2.0}

    def limits(q, v, u, p):
        return jnp.array([0.5**2 - (q.x[0] - 1) ** 2 - (q.x[1] - 0.1) ** 2, np.cos(0.3) - q.R[2, 2]])

    found = da.multistart(quadrotor, 4, **flight, steps=20, inequalities=limits)
    near, far = found.solutions
    assert near["x"][10, 1] < 0 < far["x"][10, 1]
    assert near.cost < far.cost
    for s in (near, far):
        assert np.hypot(s["x"][:, 0] - 1, s["x"][:, 1] - 0.1).min() >= 0.5 - 1e-9
        assert np.arccos(s["R"][:, 2, 2].min()) <= 0.3 + 1e-9
        assert s.kind == "minimum"
        assert np.all(s.bounds["inequalities"].active.any(axis=0))
