"""A run that goes on from the last state of another is the run that would not have ended, to rounding, in every form."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.gallery import ENTRIES

NODES = da.Scheme("nodes")
DRAG = da.SampledFeedback(lambda q, v, p: -0.2 * v, every=5)
PARTICLE, WHEEL = ENTRIES["nonholonomic_particle"], ENTRIES["inertia_wheel_pendulum"]
FROM_STATES = {
    "drift_kick_drift": (PARTICLE, {}),
    "kick_drift_kick": (ENTRIES["spherical_pendulum"], {}),
    "order 4, Lyapunov": (WHEEL, {"scheme": da.Scheme(order=4)}),
    "feedback": (PARTICLE, {"feedback": DRAG}),
}
FROM_NODES = {
    "nonholonomic": (PARTICLE, {}), "Lyapunov": (WHEEL, {}), "feedback": (PARTICLE, {"feedback": DRAG}),
    "backwards": (PARTICLE, {"h": -PARTICLE.h}),
}  # fmt: skip
BEFORE, AFTER = 20, 15


def same(whole, rest, size=1e-11):
    """Each array of what went on is the end of that of the whole run."""
    for name in ("t", "q", "t_velocity", "v", "t_multipliers", "multipliers", "constraint_forces"):
        found, wanted = (np.asarray(getattr(path, name)) for path in (rest, whole))
        np.testing.assert_allclose(found, wanted[-len(found) :], rtol=size, atol=size, err_msg=name)


@pytest.mark.parametrize("form", FROM_STATES)
def test_from_the_last_state(form):
    entry, more = FROM_STATES[form]
    whole, part = (
        da.simulate(entry.system, entry.q0, entry.v0, h=entry.h, steps=n, **more) for n in (BEFORE + AFTER, BEFORE)
    )
    rest = da.simulate(entry.system, part.q[-1], part.v[-1], h=entry.h, steps=AFTER, t0=float(part.t[-1]), **more)
    for name in ("q", "v"):
        found, wanted = (np.asarray(getattr(path, name)) for path in (rest, whole))
        np.testing.assert_allclose(found, wanted[-len(found) :], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("form", FROM_NODES)
def test_the_form_nodes_goes_on_from_its_last_two_nodes(form):
    """Its velocities lie between the nodes: from (q, v) it would begin another motion, or refuse to."""
    entry, more = FROM_NODES[form]
    given = {"h": entry.h, "scheme": NODES, "solver": da.Solver(tolerance=1e-12)} | more
    whole, part = (da.simulate(entry.system, entry.q0, entry.v0, steps=n, **given) for n in (BEFORE + AFTER, BEFORE + 1))
    rest = da.simulate(entry.system, start=da.Start(nodes=part.q[-2:]), steps=AFTER, t0=float(part.t[-2]), **given)
    np.testing.assert_array_equal(rest.q[:2], part.q[-2:])
    same(whole, rest, 1e-8 if entry is WHEEL else 1e-11)


def test_discrete_systems_and_flows_of_order_k_go_on_from_their_nodes():
    discrete = da.DiscreteSystem(lambda q0, q1: 0.5 * (q1 - q0) @ (q1 - q0) - 0.01 * jnp.cosh(q0[0]))
    beam = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a - 0.5 * q @ q + 0.1 * q[0] ** 4, derivatives=2)
    jets = np.array([[0.3], [0.1], [0.0], [0.2]])
    for system, first, r, h in (
        (discrete, {"start": da.Start(nodes=[[0.5], [0.51]])}, 2, 1.0),
        (beam, {"start": da.Start(jets=jets)}, 4, 0.05),
    ):
        whole, part = (da.simulate(system, h=h, steps=n, **first) for n in (BEFORE + AFTER, BEFORE))
        rest = da.simulate(system, start=da.Start(nodes=part.q[-r:]), h=h, steps=AFTER + r - 1, t0=float(part.t[-r]))
        np.testing.assert_allclose(rest.q, whole.q[-len(rest.q) :], rtol=1e-9, atol=1e-12)


def test_nodes_that_are_none_are_refused():
    part = da.simulate(PARTICLE.system, PARTICLE.q0, PARTICLE.v0, h=0.1, steps=5, scheme=NODES)
    given = {"h": 0.1, "steps": 5, "scheme": NODES}
    wrong = {
        "give the first two nodes": {"start": da.Start(nodes=part.q[-3:])},
        "together with q0 or v0": {"start": da.Start(nodes=part.q[-2:]), "q0": PARTICLE.q0},
        "belong to the form 'nodes'": {"start": da.Start(nodes=part.q[-2:]), "scheme": None},
    }
    for words, other in wrong.items():
        with pytest.raises(ValueError, match=f"^nodes: .*{words}"):
            da.simulate(PARTICLE.system, **given | other)
    bent = np.asarray(part.q[-2:]) + np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1e-3]])
    with pytest.raises(da.InconsistentDataError, match=r"^nodes: the constraints between the two nodes do not hold"):
        da.simulate(PARTICLE.system, start=da.Start(nodes=bent), **given)
    with pytest.raises(ValueError, match=r"^nodes: an ensemble of a System starts from q0 and v0"):
        da.ensemble(PARTICLE.system, start=da.Start(nodes=np.stack([part.q[-2:]] * 2)), **given)
