"""A free final time in optimal control: closed forms, minimum time, and a cart-pole whose cost does not change with T."""

import functools
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import dalembert as da
from dalembert.boundary import Termination
from dalembert.boundary.result import _check_held
from dalembert.gallery import PROBLEMS

MASS = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v, parameters={"m": 1.0})
MOVE = da.OptimalControl(MASS, cost=lambda q, v, u, p: 1.0 + u @ u, actuated=0)
FAST = da.OptimalControl(MASS, cost=lambda q, v, u, p: 1.0, actuated=0)
ENDS = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0])}


@functools.cache
def moved(steps, guess=1.0):
    return da.solve(MOVE, **ENDS, T=da.Free(guess), steps=steps)


def test_effort_and_time_have_their_closed_form():
    """12/T³ + T is least at T = √6. Of the sum the least is 12/(1 + 2/N²)T³ + T, with u = b(1 - 2t/T) at the nodes."""
    for steps in (13, 26):
        T = np.sqrt(6.0) * (1.0 + 2.0 / steps**2) ** -0.25
        assert float(moved(steps).t[-1]) == pytest.approx(T, rel=1e-11)
        assert float(moved(steps).cost) == pytest.approx(4.0 / 3.0 * T, rel=1e-13)
        assert moved(steps).kind == "minimum"
        assert abs(moved(steps).final_time.slope) < 1e-12
    times, costs = ([float(getter(moved(steps))) for steps in (13, 26)] for getter in (lambda s: s.t[-1], lambda s: s.cost))
    errors = [np.array(times) - np.sqrt(6.0), np.array(costs) - 3.265986323711]
    for off in errors:
        assert np.log2(off[0] / off[1]) == pytest.approx(2.0, abs=0.02)
        assert (4.0 * off[1] - off[0]) / 3.0 == pytest.approx(0.0, abs=3e-5)


@pytest.mark.parametrize("far", [0.2, 5.0])
def test_guesses_far_off_find_it(far):
    found = moved(26, far * np.sqrt(6.0))
    assert float(found.t[-1]) == pytest.approx(float(moved(26).t[-1]), rel=1e-9)
    assert found.kind == "minimum"


@pytest.mark.parametrize("guess", [0.4, 2.0, 10.0])
def test_the_least_time_under_a_bounded_control_is_exact(guess):
    """Bang-bang with |u| ≤ 1 over the distance 1: T = 2, from the discrete equations too where the switch is a node."""
    found = da.solve(FAST, **ENDS, T=da.Free(guess), bounds={"u": (-1.0, 1.0)}, steps=26)
    assert float(found.t[-1]) == pytest.approx(2.0, rel=1e-8)
    np.testing.assert_allclose(found.u[1:13, 0], 1.0, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.u[14:-1, 0], -1.0, rtol=0, atol=1e-6)
    assert abs(found.final_time.slope) < 1e-12


def test_least_time_without_bounds_on_the_control_is_refused():
    with pytest.raises(ValueError, match=r"cost: is singular.*bounds on both sides"):
        da.solve(FAST, **ENDS, T=da.Free(1.0), steps=10)
    with pytest.raises(ValueError, match="cost: is singular"):
        da.solve(FAST, **ENDS, T=da.Free(1.0), bounds={"u": (-1.0, None)}, steps=10)


def test_bounds_on_position_and_time_with_the_multiplier_of_the_time():
    """q ≤ 1.05 is not active; T ≤ 2 is: dC/dT = 1 - 36/T⁴."""
    found = da.solve(MOVE, **ENDS, T=da.Free(1.0, upper=2.0), bounds={"q": (None, 1.05)}, steps=26)
    near = [float(da.solve(MOVE, **ENDS, T=T, steps=26, certify=False).cost) for T in (1.9995, 2.0005)]
    assert float(found.t[-1]) == pytest.approx(2.0, rel=1e-9)
    assert float(found.final_time.slope) == pytest.approx((near[1] - near[0]) / 1e-3, rel=1e-5)
    assert int(found.final_time.active) == 1
    assert not np.any(found.bounds["q"].active)
    assert found.kind == "minimum"


def test_the_cost_of_a_cart_pole_does_not_change_with_its_best_time():
    entry, steps = PROBLEMS["cart_pole"], 26
    problem = da.OptimalControl(entry.problem.system, cost=paid, actuated=0)
    ends = {"initial": entry.boundary["initial"], "final": entry.boundary["final"]}
    found = da.solve(problem, **ends, T=da.Free(2.0), steps=steps, guess=entry.first_guess(steps))
    T, d = float(found.t[-1]), 1e-3
    costs = [float(da.solve(problem, **ends, T=T + x, steps=steps, guess=found, certify=False).cost) for x in (-d, 0.0, d)]
    assert costs[1] == pytest.approx(float(found.cost), rel=1e-12)
    assert (costs[2] - costs[0]) / (2.0 * d) == pytest.approx(0.0, abs=1e-4 * (costs[2] - 2.0 * costs[1] + costs[0]) / d**2)
    assert costs[1] < min(costs[0], costs[2])
    assert found.kind == "minimum"


def paid(q, v, u, p):
    """Time is dear: without a price of it the swing-up would take as long as it may."""
    return u @ u + 60.0


def test_a_solution_of_another_time_is_a_guess():
    again = da.solve(MOVE, **ENDS, T=da.Free(float(moved(26).t[-1])), steps=26, guess=moved(26))
    assert again.statistics.iterations <= 2
    other = da.solve(MOVE, **ENDS, T=da.Free(9.0), steps=26, guess=moved(13))
    assert float(other.t[-1]) == pytest.approx(float(moved(26).t[-1]), rel=1e-10)


def test_least_time_under_a_speed_limit():
    """|u| ≤ 1, v ≤ ½: up to the limit, on it, and down again, T = 2 + ½; the steps know it exactly."""
    cheap = da.OptimalControl(MASS, cost=lambda q, v, u, p: 1.0 + 1e-6 * u @ u, actuated=0)
    found = da.solve(cheap, **ENDS, T=da.Free(4.0), steps=20, bounds={"u": (-1.0, 1.0), "v": (None, 0.5)})
    assert float(found.t[-1]) == pytest.approx(2.5, abs=1e-8)
    assert abs(found.final_time.slope) < 1e-9
    np.testing.assert_allclose(found.bounds["v"].t[[0, -1]], [0.0, found.t[-1]])


@pytest.mark.parametrize("bounds", [None, {"u": (-8.0, 8.0)}, {"u": (-8.0, 8.0), "q": {"angle": (-0.25, 0.25)}}])
def test_effort_without_a_price_of_time_takes_for_ever(bounds):
    """The effort falls as 1/T³, so that no time is best; within the last bounds nothing arrives at the guess."""

    def lagrangian(q, v):
        """A cart pulls another by a spring, from which a pendulum hangs."""
        load = (v[1] + 0.8 * jnp.cos(q[2]) * v[2]) ** 2 + (0.8 * jnp.sin(q[2]) * v[2]) ** 2
        return v[0] ** 2 + 0.5 * v[1] ** 2 + 0.35 * load + 5.5 * jnp.cos(q[2]) - 30.0 * (q[1] - q[0]) ** 2

    train = da.System(lagrangian, coordinates=("x", "y", "angle"))
    pull = da.OptimalControl(train, cost=lambda q, v, u: u @ u, actuated="x")
    ends = {"initial": ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]), "final": ([1.0, 1.0, 0.0], [0.0, 0.0, 0.0])}
    found = da.solve(pull, **ends, T=da.Free(2.0), steps=80, bounds=bounds, throw=False)
    assert found.outcome.failed


@pytest.mark.parametrize(("pull", "end"), [(3e-15, "NOT_CONVERGED"), (1e-21, "CONVERGED"), (0.0, "CONVERGED")])
def test_a_far_time_at_which_the_cost_still_falls_is_no_solution(pull, end):
    """As it was found after 2.4 million seconds, at the cost 2.6e-17: Newton's step is rounding there, and was small."""
    factors = SimpleNamespace(solve=lambda right: 0.0 * right)
    at, linear = SimpleNamespace(objective=2.6e-17), SimpleNamespace(factor=lambda z, added: factors)
    it = SimpleNamespace(
        end=Termination.CONVERGED, z=np.array([[13.3]]), kkt=SimpleNamespace(free=1.0), at=at, linear=linear
    )
    _check_held(it, 0, np.zeros((1, 1)), None, pull)
    assert it.end is Termination[end]


@pytest.mark.parametrize(("guess", "bounds", "steps"), [(1.5, None, 60), (0.4, None, 40), (1.5, {"u": (-0.1, 0.1)}, 100)])
def test_zermelo_crosses_a_river_written_with_constraints(guess, bounds, steps):
    """A ship of speed 1 through water that flows with w(y), to the point opposite. In the least time cos θ/(1 + w cos θ) is
    constant (Zermelo 1931): T from two integrals. A little is paid for turning. Nobody crosses in 0.4, and a search that
    lets T go at once ends near T = 0 under these bounds."""

    def flow(y):
        return 3.2 * y * (1.0 - y)

    def through_water(q, v):
        along, across, heading = v[0] - flow(q[1]), v[1], q[2]
        ahead = jnp.cos(heading) * along + jnp.sin(heading) * across
        return jnp.stack([jnp.cos(heading) * across - jnp.sin(heading) * along, ahead - 1.0])

    ship = da.System(
        lambda q, v: 0.5 * (v[0] ** 2 + v[1] ** 2) + 0.05 * v[2] ** 2, da.Nonholonomic(through_water),
        coordinates=("x", "y", "heading"),
    )  # fmt: skip
    crossing = da.OptimalControl(ship, cost=lambda q, v, u: 1.0 + 0.01 * u @ u, actuated="heading")
    ends = {"initial": ({"x": 0.0, "y": 0.0}, None), "final": ({"x": 0.0, "y": 1.0}, None)}
    found = da.solve(crossing, **ends, T=da.Free(guess), steps=steps, bounds=bounds)

    def cosine(y, c):
        return c / (1.0 - c * flow(y))

    def integral(c, of):
        return quad(lambda y: of(cosine(y, c), flow(y)) / np.sqrt(1.0 - cosine(y, c) ** 2), 0.0, 1.0)[0]

    constant = brentq(lambda c: integral(c, lambda a, w: a + w), -0.9, 0.0)
    least = integral(constant, lambda a, w: 1.0)
    assert found.kind == "minimum"
    slower = 0.0 if bounds is None else 5e-4  # turning takes longer inside the bounds
    assert least < float(found.t[-1]) < least + 5e-4 + slower
    assert least < float(found.cost) < least + 1e-3 + slower
    assert float(found.final_time.guess) == guess
    if bounds is None:
        middle = np.cos(found.q[steps // 2, 2])
        assert middle / (1.0 + flow(found.q[steps // 2, 1]) * middle) == pytest.approx(constant, abs=0.03)
    else:
        assert np.max(np.abs(found.u)) == pytest.approx(0.1, abs=1e-8)


def test_a_blade_ends_on_a_circle_at_the_best_time():
    """It arrives at rest; the effort of a straight run of length d is 12d²/T³, so that with the price 1 of time T = √(6d)
    and the cost is 4T/3. A straight run to (3, 2), from a heading towards it, ends a radius before."""
    edge = da.Nonholonomic(lambda q, v: jnp.cos(q[2]) * v[1] - jnp.sin(q[2]) * v[0])
    blade = da.System(lambda q, v: 0.5 * v @ v, edge, coordinates=("x", "y", "heading"))
    push = lambda q: jnp.array([[jnp.cos(q[2]), 0.0], [jnp.sin(q[2]), 0.0], [0.0, 1.0]])  # noqa: E731
    run = da.OptimalControl(blade, cost=lambda q, v, u: 1.0 + u @ u, actuated=push)

    def arrived(q, v):
        return jnp.stack([(q[0] - 3.0) ** 2 + (q[1] - 2.0) ** 2 - 1.0, jnp.cos(q[2]) * v[0] + jnp.sin(q[2]) * v[1], v[2]])

    straight = np.arctan2(2.0, 3.0)
    found = da.solve(
        run, initial=([0.0, 0.0, straight], np.zeros(3)), final=da.On(arrived), T=da.Free(2.0), steps=100
    )  # fmt: skip
    T = np.sqrt(6.0 * (np.sqrt(13.0) - 1.0))
    assert found.kind == "minimum"
    assert float(found.t[-1]) == pytest.approx(T, rel=1e-3)
    assert float(found.cost) == pytest.approx(4.0 * T / 3.0, rel=1e-3)
    np.testing.assert_allclose(found.q[:, 2], straight, rtol=0, atol=1e-6)
