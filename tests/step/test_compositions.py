"""Compositions of order 4, 6, 8, 10: their order on nonlinear problems, on D and on TQ, and what a run makes of stages."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.discretize import composition
from dalembert.gallery import ENTRIES
from dalembert.native import HISTORY
from dalembert.step.run.loop import extrapolation

BALL = ENTRIES["spherical_pendulum"]


def heavy_sleigh() -> da.System:
    """m(q), m = 1 nonholonomic constraint, a potential: nothing of it is linear."""
    lagrangian = lambda q, v: (  # noqa: E731
        0.5 * (1 + 0.3 * jnp.sin(q[2]) ** 2) * (v[0] ** 2 + v[1] ** 2) + 0.4 * v[2] ** 2 + 0.2 * v[0] * v[2] * jnp.cos(q[1])
        - 0.5 * (q @ q) - 0.1 * q[0] ** 4
    )  # fmt: skip
    return da.System(lagrangian, da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1]))


def turning() -> da.System:
    """A constraint on accelerations whose reactions do not lie in its own direction, with m(q)."""
    phi = lambda q, v, a: v[0] * a[1] - v[1] * a[0] - (1 + 0.2 * jnp.sin(q[0])) * (v @ v) ** 1.5  # noqa: E731
    reactions = lambda q, v, a: jnp.array([v[1], -v[0] * (1 + 0.1 * q[1] ** 2)])  # noqa: E731
    return da.System(lambda q, v: 0.5 * (1 + 0.1 * q[0] ** 2) * (v @ v), da.SecondOrder(phi, reactions=reactions))


def square_of_acceleration() -> da.System:
    """φ is quadratic in a: two roots, and multipliers that no single linear system gives."""
    phi = lambda q, v, a: a[0] ** 2 + a[0] - v[1] ** 2 - 1.0 - 0.1 * q[0]  # noqa: E731
    reactions = lambda q, v, a: jnp.array([1.0, 0.2 * q[0]])  # noqa: E731
    return da.System(lambda q, v: 0.5 * v @ v - 0.5 * q @ q, da.SecondOrder(phi, reactions=reactions))


def moving() -> da.System:
    """A constraint that is nonlinear in the velocities (Chetaev's reactions) and moves, with a friction force."""
    phi = lambda q, v, t: v[0] ** 2 + v[1] ** 2 - ((1 + 0.2 * jnp.sin(t) + 0.1 * q[0]) * v[2]) ** 2  # noqa: E731
    lagrangian = lambda q, v, t: 0.5 * (1 + 0.2 * jnp.cos(q[1])) * (v @ v) - 0.5 * (q @ q) + 0.1 * t * q[0]  # noqa: E731
    return da.System(lagrangian, da.Nonholonomic(phi), time_dependent=True, forces=lambda q, v, t: -0.1 * v)


PROBLEMS = {
    "on D": (heavy_sleigh(), [0.3, 0.2, 0.5], [0.8 * np.cos(0.5), 0.8 * np.sin(0.5), 0.7]),
    "on TQ": (turning(), [0.2, 0.1], [1.0, 0.4]),
    "quadratic in a": (square_of_acceleration(), [0.1, 0.3], [0.2, 0.5]),
    "moving": (moving(), [0.0, 0.3, 0.1], [0.6, 0.8, 1.0]),
    "on a manifold": (BALL.system, BALL.q0, BALL.v0),
}
TIME, QUARTERS = 2.8, 4
TIMES = {"moving": 1.2}  # then the velocities come near the tip of the cone, and all steps are too large


@pytest.fixture(scope="module")
def truth():
    known = {}

    def of(name: str):
        if name not in known:
            system, q0, v0 = PROBLEMS[name]
            # One integration for each time: dense output has a lower order.
            ends = [np.array([0.0, TIMES.get(name, TIME) * (i + 1) / QUARTERS]) for i in range(QUARTERS)]
            flows = [da.reference(system, q0, v0, t, tolerance=1e-13) for t in ends]
            states = [(flow.q[-1], flow.v[-1], end[1]) for flow, end in zip(flows, ends, strict=True)]
            multipliers = [da.acceleration(system, *state)[1] for state in states]
            known[name] = tuple(np.stack(x) for x in ([q for q, *_ in states], [v for _, v, _ in states], multipliers))
        return known[name]

    return of


@pytest.mark.parametrize("order", [4, 6, 8])
@pytest.mark.parametrize("name", PROBLEMS)
def test_order_of_state_and_multipliers(truth, name, order):
    """Against diffrax on the reduced equations; multipliers have the order of (q, v), Remark 4.3: largest error of all."""
    system, q0, v0 = PROBLEMS[name]
    time = TIMES.get(name, TIME)
    errors, steps = [], {4: (24, 48, 96), 6: (8, 12, 20), 8: (8, 12, 16) if time == TIME else (4, 8, 12)}[order]
    for n in steps:
        path = da.simulate(system, q0, v0, h=time / n, steps=n, scheme=da.Scheme(order=order), save=da.Save(every=n // 4))
        ends = path.q[1:], path.v[1:], path.multipliers
        errors.append(max(np.max(np.abs(a - b)) for a, b in zip(ends, truth(name), strict=True)))
        np.testing.assert_array_equal(path.t_multipliers, path.t[1:])
    assert np.min(errors) > 1e-12  # above the reference's own error
    slope = np.polyfit(np.log(1 / np.array(steps)), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.25)  # at order 8 the next power of h² still shows


def coefficient(gammas, word: tuple[int, ...]) -> float:
    """At the word Y_a Y_b … of the product of exp(γY₁ + γ³Y₃ + …): a sum over all ways to cut the word."""
    total = {k: float(k == 0) for k in range(len(word) + 1)}  # by how many letters are used so far
    for gamma in gammas:
        total = {
            k: sum(total[j] * gamma ** sum(word[j:k]) / math.factorial(k - j) for j in range(k + 1)) for k in total
        }  # fmt: skip
    return total[len(word)]


def test_order_ten():
    """The spherical pendulum in six to ten steps, above the error of the reference; nine digits come with order 10 alone."""
    system, q0, v0 = PROBLEMS["on a manifold"]
    flow = da.reference(system, q0, v0, [0.0, TIME], tolerance=1e-14)
    truth, errors, steps = (flow.q[-1], flow.v[-1], da.acceleration(system, flow.q[-1], flow.v[-1])[1]), [], (6, 8, 10)
    for n in steps:
        path = da.simulate(system, q0, v0, h=TIME / n, steps=n, scheme=da.Scheme(order=10), save=da.Save(every=None))
        found = path.q[-1], path.v[-1], path.multipliers[-1]
        errors.append(max(np.max(np.abs(a - b)) for a, b in zip(found, truth, strict=True)))
    assert np.polyfit(np.log(1 / np.array(steps)), np.log(errors), 1)[0] == pytest.approx(10, abs=0.25)
    assert 1e-12 < errors[-1] < 1e-11


def words_of(most: int) -> list[tuple[int, ...]]:
    """All words of odd letters with weight at most so much."""
    found: list[tuple[int, ...]] = [()]
    for word in found:  # grows while it is read
        found += [(*word, letter) for letter in range(1, most - sum(word) + 1, 2)]
    return found[1:]


@pytest.mark.parametrize("order", [4, 6, 8, 10])
def test_weights(order):
    """Palindromes that agree with exp(hY₁) at every word of odd letters of weight up to the order, and not beyond."""
    gammas = composition(order)
    assert gammas == gammas[::-1]
    left = {w: coefficient(gammas, w) - (set(w) == {1}) / math.factorial(len(w)) for w in words_of(order + 1)}
    assert max(abs(x) for w, x in left.items() if sum(w) <= order) < 2e-15
    assert max(abs(x) for w, x in left.items() if sum(w) > order) > 1e-6


def test_prediction_is_exact_on_quadratics():
    class Weights:
        weights = composition(6)

    ends = np.cumsum(composition(6))
    square = lambda t: 1.0 - 2.0 * t + 3.0 * t * t  # noqa: E731
    for stage, row in enumerate(extrapolation(Weights())[:, HISTORY]):  # type: ignore[arg-type]
        past = [ends[(stage - j) % 13] + (stage - j) // 13 for j in range(1, HISTORY + 1)]
        np.testing.assert_allclose(row @ square(np.array(past)), square(ends[stage]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("backend", ["native", "jax"])
@pytest.mark.parametrize("order", [4, 8])
def test_constraint_and_reversibility(order, backend):
    """D is kept to round-off, and going back with reversed velocity ends at the start."""
    system, q0, v0 = PROBLEMS["on D"]
    there = da.simulate(system, q0, v0, h=0.2, steps=100, scheme=da.Scheme(order=order), solver=da.Solver(backend=backend))
    distance = np.sin(there.q[:, 2]) * there.v[:, 0] - np.cos(there.q[:, 2]) * there.v[:, 1]
    assert np.abs(distance).max() < 1e-13
    if backend == "native":
        back = da.simulate(system, there.q[-1], -there.v[-1], h=0.2, steps=100, scheme=da.Scheme(order=order))
        np.testing.assert_allclose(back.q[-1], q0, rtol=0, atol=1e-11)
        np.testing.assert_allclose(back.v[-1], -np.array(v0), rtol=0, atol=1e-11)


def pulled() -> da.System:
    """The force pulls the particle to y = 1.5, beyond which the potential is not defined."""
    lagrangian = lambda q, v, t: 0.5 * (v @ v) - jnp.log(1.5 - q[1]) + 0.1 * t * q[0]  # noqa: E731
    constraint = da.Nonholonomic(lambda q, v, t: v[2] - (q[1] + 0.1 * jnp.sin(t)) * v[0])
    return da.System(lagrangian, constraint, time_dependent=True, forces=lambda q, v, t: -0.1 * v)


PULLED = pulled()
LAW = da.SampledFeedback(lambda q, v, t: jnp.array([jnp.sin(q[1]), -0.1 * v[0], 0.2 * t]), every=2)
OPTIONS = {
    "the end": {"steps": 5},
    "a failing stage": {"steps": 40, "save": da.Save(every=4), "feedback": LAW},
    "a failing stage, only the last saved": {"steps": 40, "save": da.Save(every=None)},
    "a stop": {"steps": 40, "stop": lambda q, v, t: q[1] > 1.2, "save": da.Save(every=3)},
    "a domain": {"steps": 40, "stop": da.Stop(domain=lambda q, v, t: q[1] < 1.2)},
    "a reduced value": {"steps": 5, "save": da.Save(reduce=(lambda r, t, q, v, m: r + m @ m + t, 0.0))},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_both_back_ends_go_through_stages_alike(name):
    """State, rows, counts and outcome; a step that fails in a later stage leaves the state before the step."""
    options = {"h": 0.06, "scheme": da.Scheme(order=6), "throw": False, **OPTIONS[name]}
    native, jax = (
        da.simulate(PULLED, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0], solver=da.Solver(backend=x), **options)
        for x in ("native", "jax")
    )
    assert native.outcome == jax.outcome
    failing = "failing" in name
    assert failing == (native.outcome in (da.Outcome.NOT_FINITE, da.Outcome.NOT_CONVERGED, da.Outcome.NO_SOLUTION))
    assert int(native.steps_done) == int(jax.steps_done)
    assert int(native.statistics.failed_step) == int(jax.statistics.failed_step)
    for field in ("t", "q", "v", "t_multipliers", "multipliers", "constraint_forces"):
        np.testing.assert_allclose(getattr(native, field), getattr(jax, field), rtol=0, atol=1e-12, err_msg=field)
    if failing:
        assert 0 < int(native.steps_done) < 40
        assert float(native.t[-1]) == pytest.approx(0.06 * int(native.steps_done), abs=1e-12)
        again = da.simulate(
            PULLED, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0], solver=da.Solver(backend="jax"),
            **{**options, "steps": int(native.steps_done), "save": da.Save(every=1)},
        )  # fmt: skip
        for field in ("q", "v", "multipliers"):
            np.testing.assert_allclose(getattr(native, field)[-1], getattr(again, field)[-1], rtol=0, atol=1e-12)
    if "reduced" in name:
        np.testing.assert_allclose(native.reduced, jax.reduced, rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", ["native", "jax"])
@pytest.mark.parametrize("order", [2, 4])
def test_the_last_row_of_a_failed_run_has_the_force_of_the_step_that_was_made(order, backend):
    """Not that of the step that failed, for which the law was sampled anew: rows of a thinned run are rows of the whole."""
    law = da.SampledFeedback(LAW.law, every=1)
    options = {
        "h": 0.12,
        "steps": 40,
        "scheme": da.Scheme(order=order),
        "feedback": law,
        "solver": da.Solver(backend=backend),
    }
    whole, thin = (
        da.simulate(PULLED, [0.0, 1.0, 0.0], [1.0, 0.5, 1.0], save=da.Save(every=every), throw=False, **options)
        for every in (1, 2)
    )
    assert whole.outcome.failed
    assert 2 < whole.steps == thin.steps
    assert whole.steps % 2
    np.testing.assert_array_equal(thin.feedback[:, 2], 0.2 * np.asarray(thin.t_feedback))  # the third component of the law
    np.testing.assert_array_equal(thin.feedback[-1], whole.feedback[-1])
    if backend == "native":
        lanes = da.ensemble(
            PULLED,
            [[0.0, 1.0, 0.0]] * 9,
            [1.0, 0.5, 1.0],
            save=da.Save(every=2),
            **{**options, "solver": da.Solver(backend=None)},
        )
        for i in range(9):
            np.testing.assert_allclose(lanes.lane(i).feedback, thin.feedback, rtol=0, atol=1e-12)


def test_lanes_run_stages_as_single_runs_do():
    """Lanes that stop at different steps, and lanes that fail."""
    rng = np.random.default_rng(2)
    q0 = np.array([0.0, 1.0, 0.0]) + 0.2 * rng.standard_normal((19, 3))
    v = rng.standard_normal((19, 2))
    v0 = np.stack([v[:, 0], v[:, 1], q0[:, 1] * v[:, 0]], axis=1)
    options = {
        "h": 0.06,
        "steps": 30,
        "scheme": da.Scheme(order=4),
        "save": da.Save(every=3),
        "stop": lambda q, v, t: q[0] > 0.5,
    }
    batch = da.ensemble(PULLED, q0, v0, **options)
    assert set(np.unique(batch.code)) >= {0, int(da.Outcome.STOPPED)}
    assert np.any(np.asarray(batch.code) > 1)
    for i in range(19):
        single, lane = da.simulate(PULLED, q0[i], v0[i], throw=False, **options), batch.lane(i)
        assert int(single.steps_done) == int(lane.steps_done)
        np.testing.assert_allclose(single.q, lane.q, rtol=0, atol=1e-11)
        np.testing.assert_allclose(single.multipliers, lane.multipliers, rtol=0, atol=1e-9)


def test_derivative_and_jit():
    """The gradient of a composed run, and a scheme made inside a traced function."""
    system = PROBLEMS["on D"][0]

    def end(speed):
        v0 = jnp.array([0.8 * jnp.cos(0.5), 0.8 * jnp.sin(0.5), 0.7]) * speed
        return da.simulate(
            system, [0.3, 0.2, 0.5], v0, h=0.2, steps=5, scheme=da.Scheme(order=4), save=da.Save(every=None)
        ).q[-1]

    slope, run = jax.jit(jax.jacfwd(end))(1.0), jax.jit(end)
    difference = (np.asarray(run(1.0 + 1e-5)) - np.asarray(run(1.0 - 1e-5))) / 2e-5
    np.testing.assert_allclose(slope, difference, rtol=0, atol=1e-8)


class Shifted(da.PairMap):
    """A difference map that is not symmetric, of a user's own making."""

    weight: float = 0.5

    def __call__(self, q0, d, h):
        return q0 + 0.6 * d, d / h


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"action": da.Beta(0.0)}, "action: Beta"),
        ({"action": Shifted()}, "action: Shifted"),
        ({"distribution": Shifted()}, "distribution"),
        ({"state": da.Beta(1.0)}, "state"),
        ({"form": "nodes"}, "stages of a composition"),
        ({"order": 5}, "the orders are 2, 4, 6, 8, 10"),
    ],
)
def test_refused(given, says):
    with pytest.raises(ValueError, match=says):
        da.Scheme(**{"order": 4, **given})
    with pytest.raises(TypeError, match="order: found True"):
        da.Scheme(order=True)


def test_the_trapezoidal_action_is_composed():
    assert da.Scheme(order=4, action=(da.Beta(0.0), da.Beta(1.0))).weights == composition(4)
