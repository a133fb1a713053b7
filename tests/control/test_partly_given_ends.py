"""Ends of which a position or a velocity is free, None: closed forms, natural conditions, and what constraints ask for."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

MOVE = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)
BEAM = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
START = ([0.0], [0.0])
BLADE = da.System(
    lambda q, v: 0.5 * v @ v, da.Nonholonomic(lambda q, v: jnp.cos(q[2]) * v[1] - jnp.sin(q[2]) * v[0]),
    coordinates=("x", "y", "turn"),
)  # fmt: skip
PARK = da.OptimalControl(
    BLADE,
    cost=lambda q, v, u: u @ u,
    actuated=lambda q: jnp.array([[jnp.cos(q[2]), 0.0], [jnp.sin(q[2]), 0.0], [0.0, 1.0]]),
)
CIRCLE = da.OptimalControl(
    da.System(lambda q, v: 0.5 * v @ v, da.Holonomic(lambda q: q @ q - 1.0)),
    cost=lambda q, v, u: u @ u,
    actuated=lambda q: jnp.stack([-q[1:], q[:1]]),
)


def limit(problem, **given):
    """Richardson's, of the values on 20 and 40 steps."""
    both = [float(da.solve(problem, T=1.0, steps=steps, **given).value[1]) for steps in (20, 40)]
    return (4.0 * both[1] - both[0]) / 3.0


@pytest.mark.parametrize(
    ("final", "cost"),
    [
        (([1.0], None), 3.0),  # u = 3(1 - t)
        ((None, [1.0]), 1.0),  # u = 1
        ((None, None), 0.0),
        (([1.0], [0.0]), 12.0),
    ],
    ids=["velocity", "position", "both", "nothing"],
)
def test_what_is_none_at_an_end_is_free(final, cost):
    """A mass under the least ∫u², and the beam with ½∫q̈²: half of it."""
    for problem, value in ((MOVE, cost), (BEAM, 0.5 * cost)):
        assert limit(problem, initial=START, final=final) == pytest.approx(value, rel=1e-5, abs=1e-9)


def test_what_is_free_has_no_costate_and_no_momentum():
    control = da.solve(MOVE, initial=START, final=([1.0], None), T=1.0, steps=40)
    beam = da.solve(BEAM, initial=START, final=(None, [1.0]), T=1.0, steps=40)
    assert control.costates_final[1, 0] == 0.0 != control.costates_final[0, 0]
    assert abs(beam.momenta_final[0, 0]) < 1e-12 < beam.momenta_final[1, 0]
    assert beam.q[-1, 0] == pytest.approx(0.5, abs=1e-9)


def test_a_middle_derivative_is_free():
    """½∫(d³q/dt³)² with q̈ = 0 at both ends and v(1) free: q = 5t³/2 - 15t⁴/8 + 3t⁵/8, 22.5."""
    jerk = da.VariationalProblem(lambda q, v, a, j: 0.5 * j @ j, derivatives=3)
    given = {"initial": ([0.0], [0.0], [0.0]), "final": ([1.0], None, [0.0]), "T": 1.0, "steps": 4, "scheme": da.Hermite()}
    found = da.solve(jerk, **given)
    assert float(found.action) == pytest.approx(22.5, abs=1e-9)
    assert found.v[-1, 0] == pytest.approx(1.875, abs=1e-9)


def test_batches_multistart_and_sensitivity_take_them():
    rest, speeds = np.zeros((2, 1)), np.array([[1.0], [2.0]])
    for problem, costs in ((MOVE, [1.0, 4.0]), (BEAM, [0.5, 2.0])):
        several = da.solve_batch(problem, initial=(rest, rest), final=(None, speeds), T=1.0, steps=20)
        np.testing.assert_allclose([float(s.value[1]) for s in several], costs, rtol=0, atol=1e-9)
    ends = {"initial": START, "final": (None, [1.0])}
    plan = da.solve(MOVE, **ends, T=1.0, steps=20)
    assert len(da.multistart(MOVE, 2, **ends, T=1.0, steps=20).solutions) == 1
    assert float(np.squeeze(da.sensitivity(MOVE, plan, **ends).final.cost[1])) == pytest.approx(2.0)  # of the speed's square


def test_both_ends_without_position_have_flat_directions():
    found = da.solve(BEAM, initial=(None, [0.0]), final=(None, [1.0]), T=1.0, steps=20)
    assert found.kind == "degenerate"
    assert float(found.action) == pytest.approx(0.5)


def test_a_velocity_says_of_a_free_position_what_constraints_make_of_it():
    """A blade that is to move along (0.6, 0.8) has turned there; a bead at velocity (0.5, 1.2) is where that is tangent."""
    turned = da.solve(PARK, initial=([0.0] * 3, [0.0] * 3), final=(None, [0.6, 0.8, 0.0]), T=1.0, steps=40)
    assert turned.q[-1, 2] == pytest.approx(np.arctan2(0.8, 0.6), abs=1e-9)
    angle = np.linspace(-np.pi / 2, -0.6, 41)
    way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    bead = da.solve(CIRCLE, initial=([0.0, -1.0], [0.0, 0.0]), final=(None, [0.5, 1.2]), T=1.0, steps=40, guess=way)
    np.testing.assert_allclose(bead.q[-1], np.array([12.0, -5.0]) / 13.0, rtol=0, atol=1e-9)
    assert np.abs(bead.multipliers).max() < 10.0  # no impulse of the constraint at the end


@pytest.mark.parametrize(
    ("problem", "given", "message"),
    [
        (CIRCLE, {"final": ([0.5, -0.5], None)}, r"final: φ\(q\) of component 0"),
        (CIRCLE, {"final": ([1.0, 0.0], {0: 0.3})}, "final: dφ/dt"),
        (CIRCLE, {"final": ([1.0, 0.0],), "through": {0.5: [0.5, -0.5]}}, "through: the point at t = 0.5"),
    ],
    ids=["position", "velocity", "through"],
)
def test_what_is_given_and_contradicts_constraints_is_refused(problem, given, message):
    with pytest.raises(ValueError, match=message):
        da.solve(problem, initial=([0.0, -1.0], [0.0, 0.0]), T=1.0, steps=10, **given)


@pytest.mark.parametrize(
    ("problem", "final", "error", "message"),
    [
        (MOVE, ([None], [1.0]), TypeError, r"final\[0\]: found list \[None\]; give a mapping"),
        (BEAM, ([None], [1.0]), TypeError, r"final\[0\]: found list \[None\]; of a VariationalProblem"),
        (BEAM, ({0: 1.0}, [1.0]), TypeError, r"On\(lambda q"),
        (BEAM, ([1.0], None, [0.0]), ValueError, "at an end of a problem of order 2 give q and at most 1"),
        (
            da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, da.Holonomic(lambda q: q - 0.0), derivatives=2),
            (None, [1.0]), ValueError, "derivative 1 given and 0 free",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(problem, final, error, message):
    with pytest.raises(error, match=message):
        da.solve(problem, initial=START, final=final, T=1.0, steps=10)
