"""The flow of equations with choices, against closed forms, theorems and SciPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from dalembert.algebra import agree
from dalembert.native import Accuracy, FlowFunctions, ImplicitPart, compile_flow
from dalembert.native.flow import flow as flows


def oscillator(force):
    """ẍ = force(x, ẋ, t) as a flow of (x, ẋ)."""
    field = lambda y, t: jnp.stack([y[1], force(y[0], y[1], t)])  # noqa: E731
    return compile_flow(FlowFunctions(field, lambda y, t: y[:1]), np.zeros(2))


def travelled(flow, start, times, tolerance):
    clock = 1.0 if times[-1] > times[0] else -1.0
    found = flow.run(np.array(start), np.asarray(times, float), flow.over((), clock), Accuracy(tolerance, 10**4))
    assert found.reached
    return found


def test_a_spring_of_two_strengths():
    """ẍ = -x above 0 and -4x below: half periods of π and π/2, amplitudes 1 and ½; both ways in time, in two writings."""
    potential = lambda x: 0.5 * jnp.maximum(x, 0.0) ** 2 + 2.0 * jnp.min(jnp.stack([x, 0.0 * x])) ** 2  # noqa: E731
    flows = [
        oscillator(lambda x, v, t: -jnp.where(x > 0.0, 1.0, 4.0) * x),
        oscillator(lambda x, v, t: -jax.grad(potential)(x)),
    ]

    def exact(t):
        t = np.mod(t + 0.5 * np.pi, 1.5 * np.pi)
        return np.where(t < np.pi, np.sin(t), -0.5 * np.sin(2.0 * (t - np.pi)))

    for start, begin, end in (([1.0, 0.0], 0.0, 40.0), ([1.0, 0.0], 0.0, -40.0), ([0.0, 1.0], -0.5 * np.pi, 30.0)):
        t = np.linspace(begin, end, 41)
        for flow, tolerance in itertools.product(flows, (1e-4, 1e-8, 1e-12)):
            found = travelled(flow, start, t, tolerance)
            assert np.abs(found.rows[:, 0] - exact(t)).max() < 300.0 * tolerance  # order 8's errors with its first steps


def test_dry_friction_from_rest():
    """ẍ = -x - μ sign(ẋ): the amplitude loses 2μ in every half period; at rest no side is known, and order 8 begins."""
    flow, mu = oscillator(lambda x, v, t: -x - 0.05 * jnp.sign(v)), 0.05
    t = np.linspace(0.0, 18.0, 37)
    half = np.floor(t / np.pi)
    exact = (1.0 - mu - 2.0 * mu * half) * np.cos(t) + mu * (-1.0) ** half
    found = travelled(flow, [1.0, 0.0], t, 1e-11)
    np.testing.assert_allclose(found.rows[:, 0], exact, rtol=0, atol=1e-8)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-7, 1e-12])
def test_conditions_that_change_twice_within_a_step(tolerance):
    """A push of 500 for a thousandth of a time unit, in time and as (t - 3)(t - 3.001) < 0."""
    exact = np.cos(10.0) + 500.0 * (np.cos(6.999) - np.cos(7.0))
    for inside in (lambda t: (t > 3.0) & (t < 3.001), lambda t: (t - 3.0) * (t - 3.001) < 0.0):
        flow = oscillator(lambda x, v, t, inside=inside: -x + jnp.where(inside(t), 500.0, 0.0))
        found = travelled(flow, [1.0, 0.0], [0.0, 10.0], tolerance)
        assert abs(found.rows[-1, 0] - exact) < 10.0 * tolerance + 1e-12


def test_a_border_that_is_grazed_is_seen():
    """ẍ = -x, and 3 - x above c = 1 - 1e-7, to which the motion from -1 rises: it is there after π - arccos c, and for
    2π - 2 arctan(w / (3 - c)) with the speed w = √(1 - c²), then below for 2π - 2 arccos c. At 1 + 1e-7 nothing is met."""
    flow, c = oscillator(lambda x, v, t: jnp.where(x > 1.0 - 1e-7, 3.0, 0.0) - x), 1.0 - 1e-7
    w = np.sqrt(1.0 - c * c)
    phase, below = np.arctan2(w, 3.0 - c), np.arccos(c)
    left = 20.0 - (np.pi - below) - (2.0 * np.pi - 2.0 * phase) - (2.0 * np.pi - 2.0 * below)
    exact = 3.0 - np.hypot(3.0 - c, w) * np.cos(left + phase)
    for tolerance in (1e-8, 1e-10, 1e-12, 1e-14):
        found = travelled(flow, [-1.0, 0.0], [0.0, 20.0], tolerance)
        assert abs(found.rows[-1, 0] - exact) < 2e4 * tolerance + 1e-7  # as a change of the amplitude by the tolerance does
    missed = oscillator(lambda x, v, t: jnp.where(x > 1.0 + 1e-7, 3.0, 0.0) - x)
    np.testing.assert_allclose(
        travelled(missed, [-1.0, 0.0], [0.0, 20.0], 1e-12).rows[-1, 0], -np.cos(20.0), rtol=0, atol=1e-10
    )


def test_stairs_keep_the_energy():
    """ẍ = -⌊2x⌋ - x/5 has the energy ẋ²/2 + x²/10 + ∫⌊2x⌋; the same with other words for the stairs."""
    words = (lambda x: jnp.floor(2.0 * x), lambda x: 2.0 * x - jnp.mod(2.0 * x, 1.0), lambda x: jnp.round(2.0 * x - 0.5))
    rows = []
    for stairs in words:
        flow = oscillator(lambda x, v, t, stairs=stairs: -stairs(x) - 0.2 * x)
        found = travelled(flow, [1.3, 0.0], np.linspace(0.0, 12.0, 41), 1e-11)
        x, v = found.rows.T
        n = np.floor(2.0 * x)
        energy = 0.5 * v * v + 0.1 * x * x + n * x - 0.25 * n * (n + 1.0)
        np.testing.assert_allclose(energy, energy[0], rtol=0, atol=1e-9)
        rows.append(found.rows)
    np.testing.assert_allclose(rows[0], rows[1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(rows[0], rows[2], rtol=0, atol=1e-9)


def test_safe_divisions_and_clipped_forces():
    """where(x = 0, 1, sin x / x) is smooth, clip(3x, -1, 1) is not; NaN on the side that is not taken is not seen."""
    nonzero = lambda x: jnp.where(x == 0.0, 1.0, x)  # noqa: E731
    smooth = oscillator(lambda x, v, t: -x + jnp.where(x == 0.0, 1.0, jnp.sin(x) / nonzero(x)))
    clipped = oscillator(lambda x, v, t: -jnp.clip(3.0 * x, -1.0, 1.0) + jnp.where(x < 9.0, 0.0, jnp.sqrt(x - 9.0)))
    truths = (lambda x: -x + np.sinc(x / np.pi), lambda x: -np.clip(3.0 * x, -1.0, 1.0))
    for flow, force in zip((smooth, clipped), truths, strict=True):
        slope = lambda _, y, force=force: [y[1], force(y[0])]  # noqa: E731
        truth = solve_ivp(slope, (0.0, 9.0), [1.0, 0.3], "DOP853", rtol=1e-12, atol=1e-12, max_step=0.02).y[:, -1]
        found = travelled(flow, [1.0, 0.3], [0.0, 9.0], 1e-11)
        np.testing.assert_allclose(found.rows[-1], truth, rtol=0, atol=1e-9)


def test_a_tie_that_lasts_is_left_to_the_other_method():
    """x ≡ 0, where |x| has no side, beside a motion that is none of its business."""
    field = lambda y, t: jnp.stack([y[1], -y[0], jnp.abs(y[2]) - y[2]])  # noqa: E731
    flow = compile_flow(FlowFunctions(field, lambda y, t: y[:1]), np.zeros(3))
    found = travelled(flow, [1.0, 0.0, 0.0], [0.0, 20.0], 1e-10)
    np.testing.assert_allclose(found.rows[-1], [np.cos(20.0), -np.sin(20.0), 0.0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("rest", [0.0, 1e-6])
def test_a_quotient_is_divided_where_nothing_remains(rest):
    """z = (φ + rest) / u with u = v - x/2 and φ = u (x + 3 tanh v) written out: smooth through u = 0 without the rest, and
    with it as large as it is."""
    exact = lambda x, v: x + 3.0 * np.tanh(v)  # noqa: E731

    def equations(z, y, t):
        x, v = y
        u, phi = v - 0.5 * x, v * x - 0.5 * x * x + 3.0 * jnp.tanh(v) * v - 1.5 * jnp.tanh(v) * x + rest
        law = jax.lax.cond(agree(jnp.abs(u) > 1e-3), lambda: phi / u, lambda: x + 3.0 * jnp.tanh(v) + rest / u)
        return z - law

    field, outputs = lambda z, y, t: jnp.stack([y[1], -z[0]]), lambda z, y, t: z
    flow = compile_flow(
        FlowFunctions(field, outputs, ImplicitPart(equations, np.zeros(1), lambda m: jnp.ones(1), 1e-11, 9)), np.zeros(2)
    )
    rows = np.array([[1.0, 0.5 + gap] for gap in (1e-9, 1e-5, 2e-3, 0.7)])
    u = rows[:, 1] - 0.5
    _, z = flow.along(rows, np.zeros(4), flow.over(()))
    np.testing.assert_allclose(z[:, 0], exact(*rows.T) + rest / u, rtol=1e-9)
    if not rest:
        np.testing.assert_allclose(flow.along(np.array([[1.0, 0.5]]), np.zeros(1), flow.over(()))[1], exact(1.0, 0.5))
        truth = solve_ivp(lambda _, y: [y[1], -exact(*y)], (0.0, 9.0), [1.0, 0.5], "DOP853", rtol=1e-13, atol=1e-13)
        found = travelled(flow, [1.0, 0.5], [0.0, 9.0], 1e-11)
        np.testing.assert_allclose(found.rows[-1], truth.y[:, -1], rtol=0, atol=1e-10)


def test_a_choice_of_two_functions_is_none_of_a_quotient():
    """(x² - x) / x above 1 and 0 below agree at 1, and are not one function."""

    def equations(z, y, t):
        return z - jax.lax.cond(agree(y[0] > 1.0), lambda: (y[0] * y[0] - y[0]) / y[0], lambda: 0.0 * y[0])

    part = ImplicitPart(equations, np.zeros(1), lambda m: jnp.ones(1), 1e-11, 9)
    flow = compile_flow(FlowFunctions(lambda z, y, t: z, lambda z, y, t: z, part), np.zeros(1))
    _, z = flow.along(np.array([[0.5], [3.0]]), np.zeros(2), flow.over(()))
    np.testing.assert_allclose(z[:, 0], [0.0, 2.0])


def test_a_border_that_is_passed_and_passed_again_in_one_step():
    """ẍ = -x + sign(sin 5t), piece by piece: from t₀ on x - s rotates."""
    flow, z = oscillator(lambda x, v, t: -x + jnp.sign(jnp.sin(5.0 * t))), 1.0 + 0.0j
    for k in range(15):
        side = (-1.0) ** k
        z = side + (z - side) * np.exp(-0.2j * np.pi)
    for tolerance in (1e-5, 1e-11):
        found = travelled(flow, [1.0, 0.0], [0.0, 3.0 * np.pi], tolerance)
        assert abs(found.rows[-1, 0] - z.real) < 30.0 * tolerance


def test_a_field_that_does_not_go_on_beyond_its_border():
    """ẍ = -sign(x) √|x| keeps ẋ²/2 + ⅔|x|^(3/2); the root of the side that is left is no number on the other one."""
    flow = oscillator(lambda x, v, t: -jnp.sign(x) * jnp.sqrt(jnp.abs(x)))
    for start in ([1.0, 0.0], [0.0, 1.0]):
        x, v = travelled(flow, start, np.linspace(0.0, 12.0, 25), 1e-10).rows.T
        energy = 0.5 * v * v + np.abs(x) ** 1.5 / 1.5
        np.testing.assert_allclose(energy, energy[0], rtol=0, atol=1e-7)


def test_a_whole_number_of_the_state_is_a_choice():
    """ẍ = -n/2 - x/5, n = x as an integer, toward zero: the energy has ∫n."""
    flow = oscillator(lambda x, v, t: -0.5 * (2.0 * x).astype(int) - 0.2 * x)
    x, v = travelled(flow, [1.3, 0.0], np.linspace(0.0, 12.0, 41), 1e-11).rows.T
    n = np.floor(2.0 * np.abs(x))
    energy = 0.5 * v * v + 0.1 * x * x + 0.5 * (n * np.abs(x) - 0.25 * n * (n + 1.0))
    np.testing.assert_allclose(energy, energy[0], rtol=0, atol=1e-9)


def test_where_chunks_of_steps_end_makes_no_difference(monkeypatch):
    """To no bit, from a tie, with borders that are crossed and with steps whose choices are free."""
    forces = (lambda x, v, t: -x - 0.05 * jnp.sign(v), lambda x, v, t: -jnp.sign(x) * jnp.sqrt(jnp.abs(x)))
    for force in forces:
        flow = oscillator(force)
        whole = travelled(flow, [1.0, 0.0], [0.0, 9.0, 17.0], 1e-9)
        with monkeypatch.context() as patch:
            patch.setattr(flows, "FIRST_STEPS", 1)
            patch.setattr(flows, "next_chunk", lambda *_: 1)
            parts = travelled(flow, [1.0, 0.0], [0.0, 9.0, 17.0], 1e-9)
        assert whole.steps == parts.steps
        np.testing.assert_array_equal(whole.rows, parts.rows)


def test_a_run_knows_nothing_of_the_one_before():
    """In the same arrays, which still have the sides that the last step has kept."""
    flow = oscillator(lambda x, v, t: -x + jnp.where(x > 0.5, 1.0, 0.0))
    arrays, times = flow.over(()), np.array([0.0, 3.0])
    first, _, again = (flow.run(np.array([x, 0.0]), times, arrays, Accuracy(1e-9, 1000)) for x in (1e-4, 1.0, 1e-4))
    np.testing.assert_array_equal(first.rows, again.rows)
    assert first.steps == again.steps


def test_friction_that_holds_a_motion():
    """ẍ = -x - 0.3 sign(ẋ) from 1 comes to rest at -0.4 + 0.2, where no solution in the classical sense goes on."""
    flow = oscillator(lambda x, v, t: -x - 0.3 * jnp.sign(v))
    found = flow.run(np.array([1.0, 0.0]), np.array([0.0, 10.0]), flow.over(()), Accuracy(1e-4, 10**6))
    assert found.reached
    np.testing.assert_allclose(found.rows[-1], [-0.2, 0.0], rtol=0, atol=1e-3)
    assert not flow.run(np.array([1.0, 0.0]), np.array([0.0, 10.0]), flow.over(()), Accuracy(1e-9, 10**4)).reached
