"""simulate under jit, vmap and grad, checked against untraced runs, finite differences and the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

H, STEPS = 0.05, 60
PLAIN = da.System(
    lambda q, v, p: 0.5 * p["m"] * v @ v,
    da.SecondOrder(
        lambda q, v, a, p: (v[0] * a[1] - a[0] * v[1]) / jnp.linalg.norm(v) ** 3 - p["k"],
        reactions=lambda q, v, a, p: jnp.array([v[1], -v[0]]),
    ),
    parameters={"m": 1.0, "k": 1.0},
)
Q0, V0 = jnp.zeros(2), jnp.array([1.0, 1.0])


def final(k, v0, steps=STEPS, **options):
    return da.simulate(PLAIN.replace(k=k), Q0, v0, h=H, steps=steps, **options).q[-1]


# Each is one program for the tests of the closed form, of the continuous flow and of differences.
FORWARD, REVERSE = jax.jit(jax.jacfwd(final)), jax.jit(jax.jacrev(final, (0, 1)))


def exact_discrete(k, h, steps):
    """Closed form of the central scheme on (q̃, v) with constant curvature: v turns by 2 asin(…) in every step.

    |v'| = |v| and v × a = k|mean v|³ with a = (v'-v)/h: for the turning angle φ, |mean| = |v| cos(φ/2) and
    |a| = 2|v| sin(φ/2)/h, so that tan(φ/2) = (h/2) k |v| cos(φ/2)
    """
    speed = np.sqrt(2.0)
    half = h / 2 * k * speed
    phi = 2 * np.arcsin(2 * half / (1 + np.sqrt(1 + 4 * half**2)))  # sin = half cos², written without cancellation
    q = np.zeros(2)
    for j in range(steps):
        angles = np.pi / 4 + phi * np.array([j, j + 1])
        q = q + h / 2 * speed * np.array([np.cos(angles).sum(), np.sin(angles).sum()])
    return q


def test_trajectory_is_the_closed_form_of_the_scheme():
    for k in (0.4, 1.0, -1.7):
        assert np.allclose(final(k, V0), exact_discrete(k, H, STEPS), atol=1e-12)


def test_gradient_is_that_of_the_closed_form():
    forward, reverse = FORWARD(1.3, V0), REVERSE(1.3, V0)[0]
    d = 1e-6
    truth = (exact_discrete(1.3 + d, H, STEPS) - exact_discrete(1.3 - d, H, STEPS)) / (2 * d)
    assert np.allclose(forward, truth, rtol=1e-8)
    assert np.allclose(reverse, forward, rtol=1e-12)


def test_gradient_of_the_continuous_flow_is_approached_with_order_two():
    twice_as_many = jax.jit(jax.jacfwd(lambda k: da.simulate(PLAIN.replace(k=k), Q0, V0, h=H / 2, steps=2 * STEPS).q[-1]))
    t = H * STEPS
    angle = np.sqrt(2.0) * t - np.pi / 4
    truth = np.sqrt(2.0) * t * np.array([-np.sin(angle), np.cos(angle)]) - np.array(
        [np.cos(angle) - np.sqrt(0.5), np.sin(angle) + np.sqrt(0.5)]
    )
    coarse, fine = (np.abs(slope - truth).max() for slope in (FORWARD(1.0, V0), twice_as_many(1.0)))
    assert abs(np.log2(coarse / fine) - 2.0) < 0.05


def test_derivatives_by_initial_velocity_and_second_derivatives_agree_with_differences():
    d = 1e-5
    v0, jacobian = np.array(V0), REVERSE(1.0, V0)[1]
    columns = [(np.asarray(final(1.0, v0 + d * e)) - np.asarray(final(1.0, v0 - d * e))) / (2 * d) for e in np.eye(2)]
    assert np.allclose(jacobian, np.stack(columns, 1), rtol=1e-7, atol=1e-8)
    second = jax.jacfwd(FORWARD)(1.0, V0)
    slopes = [np.asarray(FORWARD(k, V0)) for k in (1.0 + d, 1.0 - d)]
    assert np.allclose(second, (slopes[0] - slopes[1]) / (2 * d), rtol=1e-6)


@pytest.mark.parametrize("form", ["nodes", "kick_drift_kick"])
def test_gradient_in_the_other_forms(form):
    scheme = da.Scheme(form)
    value = lambda k: da.simulate(PLAIN.replace(k=k), Q0, V0, h=H, steps=20, scheme=scheme).q[-1, 0]  # noqa: E731
    d = 1e-5
    assert np.isclose(jax.jit(jax.grad(value))(1.1), (value(1.1 + d) - value(1.1 - d)) / (2 * d), rtol=1e-7)


def test_gradient_through_a_holonomic_constraint_and_multipliers():
    sphere = da.System(
        lambda q, v, p: 0.5 * v @ v - p["g"] * q[2], da.Holonomic(lambda q, p: q @ q - 1.0), parameters={"g": 1.0}
    )
    q0, v0 = jnp.array([0.6, 0.0, -0.8]), jnp.array([0.0, 0.5, 0.0])

    def value(g):
        path = da.simulate(sphere.replace(g=g), q0, v0, h=0.05, steps=30)
        return path.q[-1] @ jnp.array([1.0, 2.0, 3.0]) + path.multipliers[-1, 0]

    d = 1e-5
    assert np.isclose(jax.jit(jax.grad(value))(1.2), (value(1.2 + d) - value(1.2 - d)) / (2 * d), rtol=1e-7)


def test_gradient_through_a_lyapunov_constraint_with_crossings():
    """V = ½(v² + q²) falls as v², where v = 0 the control is 0/0."""
    pendulum = da.System(
        lambda q, v, p: 0.5 * v @ v + p["g"] * jnp.cos(q[0]),
        da.Lyapunov(lambda q, v, p: 0.5 * (v @ v + q @ q), lambda q, v, p: v @ v, actuated=0),
        parameters={"g": 1.0},
    )
    run = lambda g: da.simulate(pendulum.replace(g=g), [1.0], [0.3], h=0.05, steps=100)  # noqa: E731
    value = lambda g: run(g).multipliers @ jnp.ones(1) @ jnp.arange(100.0)  # noqa: E731
    d = 1e-4
    assert int(run(2.0).statistics.crossings) > 0
    assert np.isclose(jax.jit(jax.grad(value))(2.0), (value(2.0 + d) - value(2.0 - d)) / (2 * d), rtol=1e-5)


def test_vmap_equals_single_runs_and_keeps_outcomes_apart():
    ks = jnp.array([0.5, 1.0, 80.0, 2.0])  # a circle of radius 1/80 cannot be followed with steps of length 0.07

    def run(k):
        return da.simulate(PLAIN.replace(k=k), Q0, V0, h=H, steps=STEPS)

    batch = jax.jit(jax.vmap(run))(ks)
    assert batch.q.shape == (4, STEPS + 1, 2)
    assert list(np.asarray(batch.code) == 0) == [True, True, False, True]
    assert int(batch.steps_done[2]) == 0
    for lane in (0, 1, 3):
        single = da.simulate(PLAIN.replace(k=float(ks[lane])), Q0, V0, h=H, steps=STEPS)
        assert np.allclose(batch.q[lane], single.q, rtol=0, atol=1e-13)
        assert np.allclose(batch.multipliers[lane], single.multipliers, rtol=0, atol=1e-11)
    assert np.all(np.isfinite(batch.q))


def test_jit_equals_the_untraced_run_with_thinning():
    traced = jax.jit(lambda v: da.simulate(PLAIN, Q0, v, h=H, steps=47, save=da.Save(every=5)))(V0)
    plain = da.simulate(PLAIN, Q0, V0, h=H, steps=47, save=da.Save(every=5))
    assert traced.q.shape == plain.q.shape == (11, 2)
    for name in ("t", "q", "v", "t_velocity", "t_multipliers", "multipliers", "constraint_forces"):
        assert np.allclose(getattr(traced, name), getattr(plain, name), rtol=0, atol=1e-12), name


def test_reverse_mode_memory_grows_like_the_square_root_of_the_number_of_steps():
    def temporary_bytes(steps):
        def every(k):
            return jnp.sum(da.simulate(PLAIN.replace(k=k), Q0, V0, h=1e-3, steps=steps).q[-1])

        return jax.jit(jax.grad(every)).lower(1.0).compile().memory_analysis().temp_size_in_bytes

    small, large = temporary_bytes(1_000), temporary_bytes(64_000)
    rows = 63_000 * 8 * (2 + 2 + 1 + 2 + 2 + 1)  # the arrays of the path itself are linear in the number of steps
    assert large - 2 * rows < 16 * small
