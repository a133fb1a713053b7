"""Runs with h < 0: a self-adjoint step retraces the run, others come back with an error of their order."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

# Time, velocity and position in L, so that nothing is even in time by itself.
DRIVEN = da.System(
    lambda q, v, t: 0.5 * (1.0 + 0.3 * q[0] ** 2) * v @ v + (1.0 + 0.3 * jnp.sin(t)) * jnp.cos(q[0]), time_dependent=True
)
SPHERE = da.System(lambda q, v: 0.5 * v @ v - q[2] - 0.3 * q[0] * q[1], da.Holonomic(lambda q: q @ q - 1.0))
KNIFE = da.System(
    lambda q, v: 0.5 * v @ v - q[0] * q[1],
    da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1]),
)
CURVED = da.System(
    lambda q, v: 0.5 * v @ v,
    da.SecondOrder(
        lambda q, v, a: (v[0] * a[1] - a[0] * v[1]) / (v @ v) ** 1.5 - 1.0 - 0.3 * q[0] * q[1],
        reactions=lambda q, v, a: jnp.array([v[1], -v[0]]),
    ),
)
CASES = {
    "driven": (DRIVEN, [1.0], [0.2]),
    "sphere": (SPHERE, [0.6, 0.0, -0.8], [0.0, 1.0, 0.0]),
    "knife": (KNIFE, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5]),
    "curved": (CURVED, [0.0, 0.0], [1.0, 1.0]),
}


def there_and_back(name, order, backend):
    system, q, v = CASES[name]
    given = {"steps": 30, "scheme": da.Scheme(order=order), "solver": da.Solver(backend=backend)}
    there = da.simulate(system, q, v, h=0.05, t0=0.3, **given)
    return there, da.simulate(system, there.q[-1], there.v[-1], h=-0.05, t0=there.t[-1], **given)


@pytest.mark.parametrize(
    ("name", "order", "backend"),
    [("driven", 2, "native"), ("sphere", 2, "native"), ("knife", 2, "jax"), ("curved", 4, "native")],
)
def test_a_self_adjoint_scheme_retraces_its_run(name, order, backend):
    """Also its times, and at order 2 its multipliers, which belong to the middles of the same steps."""
    there, back = there_and_back(name, order, backend)
    assert abs(there.q[-1] - there.q[0]).max() > 0.1
    for a, b in ((there.q, back.q), (there.v, back.v), (there.t, back.t)):
        np.testing.assert_allclose(b, a[::-1], rtol=0, atol=1e-12)
    if order == 2:
        np.testing.assert_allclose(back.t_multipliers, there.t_multipliers[::-1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(back.multipliers, there.multipliers[::-1], rtol=0, atol=1e-10)
    middle = 0.5 * (there.t[7] + there.t[8])
    for a, b in zip(there.interpolate(middle), back.interpolate(middle), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_a_scheme_that_is_not_self_adjoint_does_not():
    """The return is off by the order of the scheme, here 1: the test above can fail."""
    scheme, errors = da.Scheme.jimenez_scheurle(0.0), []
    for n in (20, 40):
        there = da.simulate(KNIFE, *CASES["knife"][1:], h=1.0 / n, steps=n, scheme=scheme)
        back = da.simulate(KNIFE, there.q[-1], there.v[-1], h=-1.0 / n, steps=n, scheme=scheme)
        errors.append(abs(back.q[-1] - there.q[0]).max())
    assert 0.8 < np.log2(errors[0] / errors[1]) < 1.2
    assert errors[1] > 1e-3


def test_two_step_forms_start_backwards():
    """The reference backwards is the one forwards; on two given nodes both starters of order 2 converge to it so."""
    times = np.linspace(2.0, 0.0, 5)
    truth = da.reference(DRIVEN, [1.0], [0.2], times)
    again = da.reference(DRIVEN, truth.q[-1], truth.v[-1], times[::-1])
    np.testing.assert_allclose(again.q, truth.q[::-1], rtol=0, atol=1e-10)
    for starter in ("second_order", "reference"):
        ends = [
            da.simulate(
                DRIVEN, [1.0], [0.2], h=-2.0 / n, t0=2.0, steps=n, scheme=da.Scheme("nodes"), start=da.Start(starter=starter)
            ).q[-1, 0]
            for n in (40, 80)
        ]
        errors = np.abs(np.array(ends) - truth.q[-1, 0])
        assert 1.9 < np.log2(errors[0] / errors[1]) < 2.1, starter


def test_batches_and_prepared_runs():
    system, q, v = CASES["knife"]
    given = {"h": -0.05, "steps": 30}
    alone = da.simulate(system, q, v, **given)
    np.testing.assert_array_equal(da.prepare(system, h=-0.05)(q, v, 30).q, alone.q)
    lanes = da.ensemble(system, [q, q], v, **given)
    np.testing.assert_allclose(lanes.q[1], alone.q, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(lanes.t[1], alone.t)


def test_what_has_no_run_backwards_says_so():
    law = da.SampledFeedback(lambda q, v: -v)
    with pytest.raises(ValueError, match="feedback, h: found a sampled law"):
        da.simulate(SPHERE, *CASES["sphere"][1:], h=-0.1, steps=2, feedback=law)
    straight = da.VariationalProblem(lambda q, v: 0.5 * v @ v)
    with pytest.raises(ValueError, match=r"times: found .*Backwards in time"):
        da.step.simulate_free_steps(straight, [[0.0], [0.1]], [0.1, 0.0], steps=2)
    with pytest.raises(ValueError, match="h: found 0"):
        da.simulate(SPHERE, *CASES["sphere"][1:], h=0.0, steps=2)
