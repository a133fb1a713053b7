"""V and F constructed by energy shaping, against closed forms and the matching conditions themselves."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_continuous_are

import dalembert as da
from dalembert.gallery import cart_pole
from dalembert.gallery import cart_pole_balance as balance
from dalembert.gallery import inertia_wheel_pendulum as wheel
from dalembert.laws import Shaped
from dalembert.laws.design import is_matched, parts_of
from dalembert.laws.shaping import actuators, free_rate, terms
from dalembert.tracing import seldom

UP, REACH = np.array([0.0, np.pi]), [3.0, 1.2]
Q, R = np.diag([10.0, 10.0, 1.0, 1.0]), np.array([[0.1]])
CART = cart_pole.cart_pole().system
at_all = seldom(lambda function, *states: jax.vmap(function)(*states))  # by NumPy: XLA would compile for seconds


@pytest.fixture(scope="module")
def design():
    return da.laws.energy_shaping(CART, actuated=0, at=UP, Q=Q, R=R, reach=REACH)


@pytest.fixture(scope="module")
def states():
    random = np.random.default_rng(1)
    return UP + random.uniform(-0.8, 0.8, (20, 2)), random.normal(size=(20, 2))


def test_cart_pole_has_the_closed_form(design, states):
    """The gallery's V, with a logarithm, for the numbers that were chosen; the law is the one that keeps its constraint."""
    w, D = np.asarray(design.shaped.direction), float(design.shaped.damping[0, 0])
    size = abs(w[1])
    numbers = {
        "kappa": w[0] / w[1],
        "a": size * design.shaped.P[0, 0],
        "k": size * design.shaped.stiffness[0, 0],
        "rho": D / size,
    }
    closed = balance.cart_pole_balance().replace(**numbers)
    p = closed.parameters
    V = at_all(design.V, *states)
    truth = at_all(lambda q, v: balance.lyapunov(q, v, p), *states)
    np.testing.assert_allclose(size * V, truth, rtol=1e-9)
    u = at_all(design, *states)
    task = actuators(da.System(balance.lagrangian, parameters=p), 0, 2)
    phi, g, _ = at_all(lambda q, v: terms(task, balance.lyapunov, balance.dissipation, q, v), *states)
    np.testing.assert_allclose(g[:, 0], at_all(lambda q, v: balance.factor(q, v, p), *states), rtol=1e-9)
    np.testing.assert_allclose(u, -phi[:, None] / g, rtol=1e-7)


def test_poles_and_cost(design):
    """The poles are those of differences of the law; for n = 2 the regulator itself has a V of this form."""
    e = 1e-5 * np.eye(4)
    x = np.concatenate([UP, np.zeros(2)]) + np.concatenate([e, -e])
    u = np.asarray(at_all(design, x[:, :2], x[:, 2:]))
    K = (u[:4] - u[4:])[:, 0] / 2e-5
    p = {name: float(value) for name, value in CART.parameters.items()}
    M = np.array([[p["M"] + p["m"], -p["m"] * p["l"]], [-p["m"] * p["l"], p["m"] * p["l"] ** 2]])
    stiffness = np.diag([0.0, -p["m"] * p["l"] * p["g"]])
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.linalg.solve(M, stiffness), np.zeros((2, 2))]])
    B = np.concatenate([np.zeros(2), np.linalg.solve(M, [1.0, 0.0])])[:, None]
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(A + B * K)), np.sort(design.poles), rtol=1e-5)
    regulator = -np.linalg.solve(R, B.T) @ solve_continuous_are(A, B, Q, R)
    assert design.cost == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(K, regulator[0], rtol=1e-3)


def test_region(design):
    """Inside V > 0, F ≥ 0 and dV/dt = -F; the pole may lean far, and not further than the reach."""
    region = design.region
    leaning = np.abs(region.points[:, 1] - np.pi)
    assert 0.0 < region.V.min() < region.V.max() < region.level
    assert region.F.min() >= 0.0
    assert region.residual < 1e-6
    assert 0.3 < leaning.max() <= REACH[1]


def test_where_there_is_no_kinetic_energy_the_region_ends(design):
    """Beyond m = 0 M̂ may have lost a rank to the last digit, as that of two links with a motor at the first: no error."""
    parts = parts_of(design, UP + np.array([[0.0, 0.1], [0.1, 0.2], [0.0, 0.3]]))
    shaped, positive = parts.shaped.copy(), np.array([True, False, True])
    shaped[1:] = np.outer([1.0, 2.0], [1.0, 2.0])
    assert is_matched(parts._replace(shaped=shaped, positive=positive)).tolist() == [True, False, False]


def test_the_residual_falls_with_the_power_of_the_nodes(design):
    """Two nodes: the work along w̄ is wrong by the fifth power of the distance, its slope by the fourth, of the terms."""
    coarse = dataclasses.replace(design, shaped=dataclasses.replace(design.shaped, nodes=2))
    directions, residuals = np.random.default_rng(0).uniform(-1.0, 1.0, (100, 2)), []
    for r in (0.2, 0.1, 0.05):
        parts = parts_of(coarse, UP + r * directions)
        w = np.linalg.solve(parts.shaped, -parts.M[:, :, 1:])[..., 0]  # M̂w = Mb, b = -e_θ
        phi, size = free_rate(parts, 10.0 * r * w, np)
        residuals.append(np.max(np.abs(phi) / size))
    orders = np.log2(np.array(residuals[:-1]) / residuals[1:])
    assert np.all(np.abs(orders - 4.0) < 0.3), (orders, residuals)


def test_the_paper_is_one_of_the_solutions():
    """Inertia wheel pendulum: w̄ and P read off from the paper's V give it back, but for χ(1 - cos), quadratic here."""
    p = wheel.PARAMETERS
    h_c, g_c, f = wheel.gains(p)
    M = np.array([[p["I"] + p["J"], p["J"]], [p["J"], p["J"]]])
    hat, b = M @ np.array([[f, g_c], [g_c, h_c]]) @ M, np.array([1.0, 0.0])
    w = np.linalg.solve(hat, M @ b)
    row = np.array([-p["n"], 1.0])
    assert abs(row @ w) < 1e-12 * np.abs(w).max()  # ψ - nθ is constant along w̄
    P = hat - np.outer(M @ b, M @ b) / (w @ M @ b)
    shaped = Shaped(
        jnp.zeros(2), jnp.asarray(w), jnp.array([1.0 / w[0], 0.0]), jnp.asarray(P),
        jnp.asarray(p["chi"] * np.outer(row, row)), jnp.eye(1),
    )  # fmt: skip
    plant = da.System(wheel.lagrangian, parameters=p)
    blank = {"poles": np.zeros(4), "cost": 1.0, "region": None, "lower": None, "upper": None}
    found = da.laws.EnergyShaping(problem=actuators(plant, 1, 2), shaped=shaped, **blank)
    random = np.random.default_rng(0)
    q, v = random.uniform(-2.0, 2.0, (20, 2)), random.normal(size=(20, 2))
    across = q[:, 1] - p["n"] * q[:, 0]
    paper = at_all(lambda q, v: wheel.lyapunov(q, v, p), q, v) + p["chi"] * (0.5 * across**2 - 1.0 + np.cos(across))
    np.testing.assert_allclose(at_all(found.V, q, v), paper, rtol=1e-11)


def test_matching_holds_for_the_paper_and_finds_a_wrong_number():
    plant = da.System(wheel.lagrangian, parameters=wheel.PARAMETERS | {"wrong": 0.0, "edge": 9.0})
    region = {"actuated": 1, "at": [0.0, 0.0], "reach": [2.0, 50.0], "speeds": [1.0, 100.0]}
    V = lambda q, v, p: (  # noqa: E731
        wheel.lyapunov(q, v, p) + p["wrong"] * jnp.sin(q[0]) ** 2 + 0.0 * jnp.sqrt(p["edge"] - q[0])
    )
    assert da.laws.matching(plant, V, wheel.dissipation, **region).holds
    found = da.laws.matching(plant.replace(wrong=0.1), V, wheel.dissipation, **region)
    assert not found.holds
    assert found.phi == pytest.approx(0.1 * np.sin(2.0 * found.q[0]) * found.v[0], rel=1e-6)  # φ₀ = ∂_vθ of what was added
    with pytest.raises(ValueError, match=r"^V, F: .* not finite at q = \["):  # what is no number at a part of the region
        da.laws.matching(plant.replace(edge=1.0), V, wheel.dissipation, **region)
    assert float(wheel.factor(found.q, found.v, wheel.PARAMETERS)) == pytest.approx(0.0, abs=1e-6 * np.abs(found.v).max())


def test_several_actuators():
    """Two of three coupled masses are pushed: energy with springs to the wall for those two matches, for the third not."""
    mass = jnp.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
    springs = lambda q: 0.25 * jnp.sum((q[1:] - q[:-1]) ** 4)  # noqa: E731
    plant = da.System(lambda q, v, p: 0.5 * v @ mass @ v - springs(q), parameters={"k": [1.0, 1.0, 0.0]})
    V = lambda q, v, p: 0.5 * v @ mass @ v + springs(q) + p["k"] @ q**2  # noqa: E731
    fall = lambda q, v, p: v[0] ** 2 + 3.0 * v[1] ** 2  # noqa: E731
    region = {"actuated": (0, 1), "at": np.zeros(3), "reach": np.ones(3), "speeds": np.ones(3)}
    assert da.laws.matching(plant, V, fall, **region).holds
    found = da.laws.matching(plant.replace(k=[0.0, 0.0, 1.0]), V, fall, **region)
    assert found.phi == pytest.approx(2.0 * found.q[2] * found.v[2], rel=1e-9)


def test_what_is_refused():
    def shaping(lagrangian, actuated=0, at=(0.0, 0.0), **more):
        n = len(at)
        given = {"Q": np.eye(2 * n), "R": np.eye(n - 1), "reach": np.ones(n)} | more
        return da.laws.energy_shaping(da.System(lagrangian), actuated=actuated, at=at, **given)

    free = lambda q, v: 0.5 * v @ v  # noqa: E731
    with pytest.raises(ValueError, match=r"^lagrangian: is not"):
        shaping(lambda q, v: 0.5 * v @ v + q[0] * v[1])
    with pytest.raises(ValueError, match="not controllable"):
        shaping(lambda q, v: 0.5 * v @ v - 0.5 * q @ q)
    with pytest.raises(ValueError, match=r"^actuated: found 1 of 3"):
        shaping(free, at=(0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="no equilibrium"):
        shaping(lambda q, v: 0.5 * v @ v - q[1] + q[0] * q[1])
    with pytest.raises(ValueError, match=r"^R: its least eigenvalue"):
        shaping(lambda q, v: 0.5 * v @ v - q[0] * q[1], R=[[0.0]])
    blade = da.Nonholonomic(lambda q, v: v[1] - q[0] * v[0])
    with pytest.raises(ValueError, match=r"^system: has Nonholonomic"):
        da.laws.energy_shaping(da.System(free, blade), actuated=0, at=[0.0, 0.0], Q=np.eye(4), R=[[1.0]], reach=[1.0, 1.0])


def test_the_region_is_the_part_around_the_equilibrium_inside_the_reach():
    """A ball on a beam: V is low again where the beam has turned over. And the level is not above Û on the edge of the
    reach, on 4000 points of it, where Û is a valley in units of the reach: 64 rays that are even in those took it a third
    too high, and for two links with a motor between them 60 times."""
    ball = da.System(lambda q, v: 0.077 * v[0] ** 2 + (0.01 + 0.055 * q[0] ** 2) * v[1] ** 2 - 1.0791 * q[0] * jnp.sin(q[1]))
    reach = np.array([0.005, 0.6])
    found = da.laws.energy_shaping(ball, actuated=1, at=[0.0, 0.0], reach=reach, Q=np.diag([10, 1, 1, 0.1]), R=[[1.0]])
    s, side = np.linspace(-1.0, 1.0, 1000), np.ones(1000)
    edge = reach * np.concatenate([np.stack(x, axis=1) for x in ((s, side), (s, -side), (side, s), (-side, s))])
    assert found.region.level <= 1.01 * parts_of(found, edge).height.min()
    over = np.array([-0.33, 4.156])
    assert found.V(over, np.zeros(2)) < found.region.level
    assert found.inside([0.0, 0.0], [0.0, 0.0])
    assert not found.inside(over, [0.0, 0.0])
