"""Ends on a set ψ(q, v) = 0 and periodic ones: closed forms, and what fixed ends at the same states say."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

MOVE = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)
START = ([0.0], [0.0])
GRAMIAN = np.array([[1 / 3, 1 / 2], [1 / 2, 1.0]])  # ∫ of e^{As}BBᵀe^{Aᵀs} over a unit of time: ∫u² to x is xᵀW⁻¹x


@pytest.fixture(scope="module")
def rotation():
    """A pendulum under a shaken support that is to turn evenly: in a chart, and in the plane on its circle."""

    def shaken(t):
        return 1.0 + 0.3 * jnp.sin(t)

    angle = da.System(lambda q, v, t: 0.5 * v @ v + shaken(t) * jnp.cos(q[0]), time_dependent=True)
    circle = da.Holonomic(lambda q, t: q @ q - 1.0)
    plane = da.System(lambda q, v, t: 0.5 * v @ v - shaken(t) * q[1], circle, time_dependent=True)
    return (
        da.OptimalControl(angle, cost=lambda q, v, u, t: u @ u + (v[0] - 1.0) ** 2, actuated=0),
        da.OptimalControl(
            plane,
            cost=lambda q, v, u, t: u @ u + (q[0] * v[1] - q[1] * v[0] - 1.0) ** 2,
            actuated=lambda q, t: jnp.stack([-q[1], q[0]]),
        ),
    )


@pytest.fixture(scope="module")
def turning(rotation):
    guess = np.linspace(0.0, 2 * np.pi, 41)[:, None]
    return da.solve(rotation[0], final=da.Periodic([2 * np.pi]), T=2 * np.pi, steps=40, guess=guess)


@pytest.mark.parametrize(
    ("psi", "least", "normal"),
    [
        (lambda q, v: q[0] + v[0] - 1.0, 1.0 / GRAMIAN.sum(), lambda q, v: (1.0, 1.0)),
        (lambda q, v: q @ q + v @ v - 1.0, 1.0 / np.linalg.eigvalsh(GRAMIAN)[1], lambda q, v: (q, v)),
    ],
)
def test_least_effort_to_a_line_and_to_a_circle_of_the_phase_plane(psi, least, normal):
    """Order 2, and costates normal to the set."""
    errors = []
    for steps in (20, 40):
        found = da.solve(MOVE, initial=START, final=da.On(psi), T=1.0, steps=steps)
        assert found.kind == "minimum"
        errors.append(float(found.cost) - least)
        q, v = found.q[-1, 0], found.v[-1, 0]
        across = np.array(normal(q, v))
        np.testing.assert_allclose(
            found.costates_final[0, 0] * across[1], found.costates_final[1, 0] * across[0], rtol=0, atol=1e-9
        )
        assert abs(float(jnp.squeeze(psi(found.q[-1], found.v[-1])))) < 1e-9
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.002)
    assert (4.0 * errors[1] - errors[0]) / 3.0 == pytest.approx(0.0, abs=1e-8)


def test_the_cost_is_stationary_on_the_set(rotation):
    """A pendulum to a level of energy: fixed ends at the same state give the same, and on both sides along ψ = 0 more."""
    problem, ends = rotation[0], {"initial": ([0.0], [0.0]), "T": 2 * np.pi, "steps": 40}
    level = lambda q, v: 0.5 * v[0] ** 2 - jnp.cos(q[0]) - 1.2  # noqa: E731
    guess = np.linspace(0.0, 2 * np.pi, 41)[:, None]
    found = da.solve(problem, **ends, final=da.On(lambda q, v, t: level(q, v)), guess=guess)
    q, v = found.q[-1, 0], found.v[-1, 0]
    costs = []
    for apart in (-0.01, 0.0, 0.01):
        end = q + apart
        fixed = da.solve(problem, **ends, final=([end], [np.sign(v) * np.sqrt(2.4 + 2.0 * np.cos(end))]), guess=found)
        costs.append(float(fixed.cost))
        if not apart:
            assert fixed.kind == found.kind == "minimum"
            np.testing.assert_allclose(found.costates_final, fixed.costates_final, rtol=0, atol=1e-8)
    steep = np.abs(found.costates_final[0, 0])
    assert steep > 0.1
    assert costs[1] == pytest.approx(float(found.cost), rel=1e-10)
    assert costs[1] < min(costs[0], costs[2])
    assert abs(costs[2] - costs[0]) / 0.02 < 1e-3 * steep


def test_a_first_end_on_a_set_and_bounds():
    """From anywhere on the circle to rest at 1.5: the control is on its bound, the costates are normal to the circle."""
    circle = da.On(lambda q, v: q @ q + v @ v - 1.0)
    limit = {"u": (-2.5, 2.5)}
    found = da.solve(MOVE, initial=circle, final=([1.5], [0.0]), T=1.0, steps=20, bounds=limit)
    assert found.kind == "minimum"
    assert (found.bounds["u"].active != 0).any()
    p = found.costates_initial[:, 0]
    assert p[0] * found.v[0, 0] == pytest.approx(p[1] * found.q[0, 0], abs=1e-8)
    np.testing.assert_allclose(p, 2.0 * found.end_multipliers_initial * [found.q[0, 0], found.v[0, 0]], rtol=0, atol=1e-8)
    assert found.end_multipliers_final is None


def test_a_target_that_moves_is_met_when_it_is_cheapest():
    """ψ reads t, and T is free: from rest to the moving point 1 + t, at a price of time. By hand: u linear with u(T) = 0,
    ∫u² = 3(1 + T)²/T³, and the least of 3(1 + T)²/T³ + T is where 3(1 + T)(3 + T) = T⁴."""
    mass = da.System(lambda q, v, t: 0.5 * v @ v, time_dependent=True)
    priced = da.OptimalControl(mass, cost=lambda q, v, u, t: 1.0 + u @ u, actuated=0)
    meet = da.On(lambda q, v, t: q[0] - 1.0 - t)
    T = max(np.roots([1.0, 0.0, -3.0, -12.0, -9.0]).real)
    found = [da.solve(priced, initial=START, final=meet, T=da.Free(2.0), steps=steps) for steps in (20, 40)]
    errors = [float(s.t[-1]) - T for s in found]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.02)
    assert float(found[1].cost) == pytest.approx(3 * (1 + T) ** 2 / T**3 + T, rel=1e-3)


def test_a_pendulum_that_turns_periodically(rotation, turning):
    """The extremal among all periodic ones: fixed ends at its state give the same, and no gradient along both ends."""
    assert turning.kind == "minimum"
    assert turning.statistics.iterations < 60  # more than 1000 with sizes read off what is given, which is nothing
    assert turning.q[-1, 0] - turning.q[0, 0] == pytest.approx(2 * np.pi, abs=1e-12)
    ends = {"initial": (turning.q[0], turning.v[0]), "final": (turning.q[-1], turning.v[-1])}
    guess = np.linspace(2.0, 2 * np.pi + 2.0, 41)[:, None]
    fixed = da.solve(rotation[0], **ends, T=2 * np.pi, steps=40, guess=guess)
    assert float(fixed.cost) == pytest.approx(float(turning.cost), rel=1e-10)
    np.testing.assert_allclose(fixed.costates_initial + fixed.costates_final, 0.0, atol=1e-8)
    np.testing.assert_allclose(turning.costates_initial, fixed.costates_initial, rtol=0, atol=1e-8)
    assert np.abs(turning.costates_initial).max() > 0.1


def test_periodic_ends_on_a_holonomic_plant(rotation, turning):
    """A constraint at a tied end is imposed once; on the circle as in the chart, each with an error of order h²."""
    angle = turning.q[::2, 0]
    guess = np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    found = da.solve(rotation[1], final=da.Periodic(), T=2 * np.pi, steps=20, guess=guess)
    assert found.kind == "minimum"
    assert float(found.cost) == pytest.approx(float(turning.cost), rel=0.01)
    np.testing.assert_allclose(found.costates_initial, -found.costates_final, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.u[0], found.u[-1], rtol=0, atol=1e-9)
    assert found.q[0] @ found.v[0] == pytest.approx(0.0, abs=1e-10)
    assert np.arctan2(found.q[0, 0], -found.q[0, 1]) == pytest.approx(turning.q[0, 0], abs=0.05)


@pytest.mark.parametrize(
    ("ends", "error", "message"),
    [
        ({"final": da.On(lambda q, v: q @ q + 1.0)}, da.InconsistentDataError, "final: found no state with psi = 0"),
        ({"final": da.On(lambda q, v: q[0] ** 2)}, da.RankDeficientError, "final: the 1 equations of psi.* have rank 0"),
        (
            {"final": da.On(lambda q, v: jnp.stack([q[0] - v[0], 2 * q[0] - 2 * v[0]]))},
            da.RankDeficientError, "final: the 2 equations of psi.* have rank 1",
        ),
        ({"final": da.On(lambda q, v: jnp.eye(2))}, ValueError, r"final: psi returns shape \(2, 2\)"),
        ({"final": da.On(lambda q: q)}, TypeError, "final: psi: could not be evaluated"),
        ({"initial": da.Periodic()}, TypeError, "initial: found Periodic"),
        ({"final": da.Periodic([1.0, 2.0])}, ValueError, r"final: found a shift of shape \(2,\)"),
        ({"final": da.Periodic({"z": 1.0})}, ValueError, "final: shift: found coordinate 'z'"),
    ],
)  # fmt: skip
def test_sets_that_are_none_are_named(ends, error, message):
    with pytest.raises(error, match=message):
        da.solve(MOVE, **{"initial": START, "final": START, **ends}, T=1.0, steps=10)


def test_a_set_that_repeats_a_constraint_of_the_plant_is_named(rotation):
    start = ([0.0, -1.0], [0.0, 0.0])
    with pytest.raises(da.RankDeficientError, match="final: the 3 equations of psi"):
        da.solve(rotation[1], initial=start, final=da.On(lambda q, v, t: q @ q - 1.0), T=2.0, steps=10)


def test_gradients_of_a_set_that_vanish_at_the_solution_are_named():
    """The cusp v² = q³, from where the cusp is nearest: no multiplier exists there."""
    cusp = da.On(lambda q, v: v[0] ** 2 - q[0] ** 3)
    with pytest.raises(da.RankDeficientError, match="final: the 1 equations"):
        da.solve(MOVE, initial=([-1.0], [1.0]), final=cusp, T=1.0, steps=10, throw=False)


@pytest.mark.parametrize(("make", "message"), [(lambda: da.On(3.0), "psi: found 3.0"), (lambda: da.Periodic("x"), "shift")])
def test_ends_of_the_wrong_type_are_named(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_what_needs_given_ends_refuses_a_set_by_name():
    circle = da.On(lambda q, v: q @ q + v @ v - 1.0)
    with pytest.raises(TypeError, match=r"final: found On.* a receding horizon"):
        da.mpc(MOVE, final=circle, T=1.0, steps=5)
    found = da.solve(MOVE, initial=START, final=circle, T=1.0, steps=20)
    with pytest.raises(TypeError, match=r"final: found On.* give its own end"):
        da.feedback(MOVE, found, final=circle)
