"""Controls eliminated by the equations of motion, the paper's form: the same limit, order 4, and a symplectic flow."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

STILL = [0.0, 0.0]
ENDS = {"initial": (STILL, STILL), "final": ([1.0, 1.0], STILL), "T": 2.0}


def pulled(q, v, t):
    """Two masses and a stiffening spring in a field that grows; only the first one has a motor."""
    return 0.5 * v @ v - 2.0 * (q[1] - q[0]) ** 2 - (q[1] - q[0]) ** 4 - 0.3 * t * jnp.cos(q[1])


PULL = da.OptimalControl(da.System(pulled, time_dependent=True), cost=lambda q, v, u, t: u @ u + (q @ q) ** 2, actuated=0)


@pytest.fixture(scope="module")
def forced():
    return [da.solve(PULL, **ENDS, steps=steps) for steps in (20, 40, 80)]


@pytest.fixture(scope="module")
def on_nodes(forced):
    """The paper's ends, two nodes each, from the path with forces as unknowns."""
    base, h = forced[0], 0.1
    ends = {"initial": da.Nodes(base.q[:2]), "final": da.Nodes(base.q[-2:]), "T": 2.0, "steps": 20, "scheme": da.Points()}
    problem = da.eliminate(PULL, step=h)
    return problem, da.solve(problem, **ends, guess=base.q + 0.05 * np.sin(np.pi * base.t)[:, None] ** 4)


def test_it_is_the_same_problem_but_for_the_ends(forced, on_nodes):
    """Given two nodes at each end the paths agree, and the costs but for u_0 and u_N, which the paper's leaves out."""
    base, found = forced[0], on_nodes[1]
    np.testing.assert_allclose(found.q, base.q, atol=1e-8)
    ends = sum(float(base.u[i] @ base.u[i] + (base.q[i] @ base.q[i]) ** 2) for i in (0, -1))
    assert float(found.action) + 0.05 * ends == pytest.approx(float(base.cost), rel=1e-10)
    assert found.kind == "minimum"


def test_windows_of_second_and_of_fourth_order_tend_to_the_same_cost(forced):
    """Against the extrapolated cost with forces as unknowns."""
    costs = [float(s.cost) for s in forced]
    coarse, fine = ((4 * b - a) / 3 for a, b in zip(costs[:-1], costs[1:], strict=True))
    limit = fine + (fine - coarse) / 15
    problem = da.eliminate(PULL)
    for scheme, order, steps in ((None, 2, (40, 80)), (da.Hermite(), 4, (10, 20))):
        found = [da.solve(problem, **ENDS, steps=number, scheme=scheme) for number in steps]
        errors = [float(s.action) - limit for s in found]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)
        if order == 4:  # the momenta of q are costates, that of the equation of motion is not
            slope = [(4 * b - a) / 3 for a, b in zip(*((s.costates_initial[0] for s in forced[1:])), strict=True)]
            np.testing.assert_allclose(-found[1].momenta_initial[0], slope, rtol=2e-3)


def test_the_flow_of_the_control_problem_is_symplectic(on_nodes):
    """Υ*Ω = Ω at nodes of the extremal."""
    problem, found = on_nodes
    given = {"nodes": found.q[6:10], "multipliers": found.multipliers[6:8], "h": 0.1, "t0": float(found.t[6])}
    defect = da.measure.symplectic_defect(problem, **given, scheme=da.Points())
    assert float(defect.relative) < 1e-12


def test_the_ends_of_the_paper_cost_an_order():
    """q_1 = q_0 for an end at rest, u_0 and u_N left out: 12 of the double integrator is missed by about 36 h."""
    move = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)
    off = []
    for steps in (20, 40):
        ends = {"initial": da.Nodes([[0.0], [0.0]]), "final": da.Nodes([[1.0], [1.0]])}
        found = da.solve(da.eliminate(move, step=1 / steps), **ends, T=1.0, steps=steps, scheme=da.Points())
        off.append(float(found.action) - 12.0)
    assert np.log2(off[0] / off[1]) == pytest.approx(1.0, abs=0.1)
    assert off[1] * 40 == pytest.approx(36.0, rel=0.1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"problem": 3.0}, TypeError, "problem: found float"),
        ({"step": -1.0}, ValueError, "step"),
        ({"scheme": da.Scheme()}, TypeError, "scheme: found without step"),
        ({"step": 0.1, "scheme": da.Hermite()}, TypeError, "scheme: found Hermite"),
    ],
)
def test_what_is_wrong_is_named(given, error, message):
    with pytest.raises(error, match=message):
        da.eliminate(**{"problem": PULL, **given})


def test_plants_that_have_no_such_form_are_named():
    free = lambda q, v: 0.5 * v @ v  # noqa: E731
    held = da.System(free, da.Holonomic(lambda q: q @ q - 1.0))
    with pytest.raises(ValueError, match="problem: found a plant with constraints"):
        da.eliminate(da.OptimalControl(held, cost=lambda q, v, u: u @ u, actuated=0))
    with pytest.raises(ValueError, match="problem: found a terminal cost"):
        da.eliminate(da.OptimalControl(da.System(free), cost=lambda q, v, u: u @ u, actuated=0, terminal=lambda q, v: q @ q))
    turned = da.OptimalControl(da.System(free), cost=lambda q, v, u: u @ u, actuated=lambda q: jnp.ones((2, 1)))
    with pytest.raises(ValueError, match="actuated: found B"):
        da.solve(da.eliminate(turned), initial=(STILL, STILL), final=(STILL, STILL), T=1.0, steps=5)
