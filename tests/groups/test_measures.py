"""Modified equations and the errors of one step on groups: orders that rise by each term, closed forms, maps of a user."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import dalembert as da
from dalembert.gallery import ENTRIES, free_rigid_body

BODY, SUSLOV = ENTRIES["free_rigid_body"], ENTRIES["suslov"]


def apart(system, path, q, v):
    """How far the last state of a run is from another."""
    return max(np.abs(system.space.differences(path.q[-1:], q[None])).max(), np.abs(path.v[-1] - v).max())


KICK = da.Scheme("kick_drift_kick")


@pytest.fixture(scope="module")
def made():
    return da.measure.modified(SUSLOV.system, SUSLOV.q0, SUSLOV.v0, h=0.05, order=4, scheme=KICK)


def test_a_run_follows_its_modified_equation(made):
    """By each term the distance falls by a higher power of h: h², h⁴, h⁶."""
    assert made.powers == (2, 4)
    assert max(made.doubt) < 1e-4
    errors = {0: [], 2: [], 4: []}
    for h in (0.1, 0.05):
        path = da.simulate(SUSLOV.system, SUSLOV.q0, SUSLOV.v0, h=h, steps=round(1.0 / h), scheme=KICK)
        for order, found in errors.items():
            q, v = made.flow(h, SUSLOV.q0, SUSLOV.v0, [0.0, 1.0], order=order)
            assert abs(np.linalg.norm(q[-1]) - 1.0) < 1e-15
            found.append(apart(SUSLOV.system, path, q[-1], v[-1]))
    for order, (first, second) in errors.items():
        assert np.log2(first / second) == pytest.approx(order + 2, abs=0.15)


def test_the_first_term_of_a_turn_about_an_axis():
    """ω about a principal axis: a step turns by 4 atan(hω/4), so that ġ = gω(1 - h²ω²/48 + h⁴ω⁴/1280) and ω stays."""
    made = da.measure.modified(BODY.system, {"R": np.eye(3)}, {"R": [0, 0, 2.0]}, h=0.05, order=4)
    terms = made.terms({"R": np.eye(3)}, {"R": [0, 0, 2.0]})
    assert_allclose(terms[0], [[0, 0, -8.0 / 48.0], [0, 0, 0]], rtol=0, atol=1e-9)
    assert_allclose(terms[1], [[0, 0, 32.0 / 1280.0], [0, 0, 0]], rtol=0, atol=1e-5)


def test_the_drift_of_energy_by_terms(made):
    """Suslov's steady turn: kick_drift_kick gains energy, as h², by its first term."""
    path = da.simulate(SUSLOV.system, SUSLOV.q0, SUSLOV.v0, h=0.05, steps=200, scheme=KICK)
    parts = da.measure.energy_drift(made, path)
    gained = np.ptp(da.measure.energy(SUSLOV.system, path).values)
    rate = parts.rates.sum(axis=1)
    summed = np.concatenate([[0.0], np.cumsum(0.5 * 0.05 * (rate[1:] + rate[:-1]))])
    assert np.ptp(summed) == pytest.approx(gained, rel=0.01)
    with pytest.raises(ValueError, match="helmholtz is there for systems on Rⁿ"):
        da.measure.helmholtz(made)


def test_one_step_from_exact_data():
    """Local exponents; and a step of the user in stored numbers, here Euler's, of order 1."""
    found = da.measure.consistency(SUSLOV.system, SUSLOV.q0, SUSLOV.v0, h=[0.2, 0.1])
    assert found.stays
    assert found.p == pytest.approx(2.0, abs=0.1)
    assert found.multipliers_own_time.slope == pytest.approx(2.0, abs=0.1)
    space, moments = BODY.system.space, np.array(BODY.system.parameters["I"])

    def euler(h, q, v):
        return space.retract(q, h * v), v + h * jnp.cross(moments * v, v) / moments

    own = da.measure.consistency(BODY.system, BODY.q0, BODY.v0, h=[0.02, 0.01], step=euler)
    assert own.p == pytest.approx(1.0, abs=0.05)
    h = np.array([0.02, 0.01])
    exact = np.stack([free_rigid_body.angular_velocity(np.array([x]))[0] for x in h])
    stepped = np.stack([np.asarray(euler(x, jnp.asarray(BODY.q0), jnp.asarray(BODY.v0))[1]) for x in h])
    assert_allclose(own.v.error, np.linalg.norm(stepped - exact, axis=1), rtol=1e-6, atol=0)


def test_the_perturbed_flow_ends_in_the_step():
    path = da.simulate(SUSLOV.system, SUSLOV.q0, SUSLOV.v0, h=0.1, steps=6)
    several = path.q[[0, 5]], path.v[[0, 5]]
    found = da.measure.embedding(SUSLOV.system, *several, h=[0.2, 0.1], order=2, phases=2)
    assert found.agrees
    made = found.perturbation
    local = made.chart.system
    y, w = local.from_group(path.q[5], path.v[5])
    back = local.on_group(y, w)
    assert_allclose(back[0], path.q[5], rtol=0, atol=1e-15)
    assert_allclose(back[1], path.v[5], rtol=0, atol=1e-15)
    after = made.chart.coordinates(*local.from_group(path.q[6], path.v[6]))
    assert_allclose(made.map(0.1, made.chart.coordinates(y, w)), after, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="half a turn from the first"):
        da.measure.embedding(BODY.system, [[1.0, 0, 0, 0], [0, 1.0, 0, 0]], [BODY.v0] * 2, h=[0.2, 0.1], phases=2)


def test_the_discrete_functions_at_the_exact_motion():
    found = da.measure.discrete_consistency(SUSLOV.system, SUSLOV.q0, SUSLOV.v0, h=[0.1, 0.05])
    assert found.order == pytest.approx(2.0, abs=0.05)
    assert found.start is None
    with pytest.raises(ValueError, match="starter='first_order' is there for systems on Rⁿ"):
        da.measure.discrete_consistency(SUSLOV.system, SUSLOV.q0, SUSLOV.v0, h=[0.1, 0.05], starter="first_order")
