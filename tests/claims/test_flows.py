"""verdict of a DiscreteSystem and of a VariationalProblem: what is promised holds, what is broken is seen."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.claims import Finding, convergence, flows

HOLDS, FAILS, NOT_CLAIMED = Finding.HOLDS, Finding.FAILS, Finding.HYPOTHESIS_FAILS
SHIFT = {"shift": lambda q: jnp.ones(1), "growth": lambda q: q}


def findings(verdict) -> dict[str, Finding]:
    return {c.claim: c.finding for c in verdict.claims}


def test_a_discrete_system_given_by_its_nodes():
    """L_d = h cosh((q₁-q₀)/h): invariant under shifts, not under a change of scale; no constraints."""
    system = da.DiscreteSystem(lambda a, b: 0.1 * jnp.cosh((b - a)[0] / 0.1))
    found = da.verdict(system, start=da.Start(nodes=[[1.0], [1.05]]), h=0.1, steps=8, symmetries=SHIFT)
    assert findings(found) == {
        "the discrete flow exists": HOLDS, "F*Ω - Ω = dξ of the reactions": HOLDS, "F*Ω = Ω on pairs of nodes": HOLDS,
        "momentum of shift is kept": HOLDS, "momentum of growth is kept": NOT_CLAIMED,
    }  # fmt: skip
    assert found["momentum of shift"].measured < 1e-13
    assert "DiscreteSystem; its own nodes, h = 0.1" in str(found)


def test_a_node_beside_d_k_is_seen():
    """A regular polygon has the prescribed turn at every node; one that is moved has not."""
    turn = lambda a, b, c: jnp.cross(b - a, c - b) - np.sin(0.1)  # noqa: E731
    system = da.DiscreteSystem(lambda a, b: (b - a) @ (b - a), turn, reactions=lambda a, b, c: jnp.stack([c[1], -c[0]]))
    angle, side = 0.1 * np.arange(20), 2 * np.sin(0.05)
    path = types.SimpleNamespace(t=np.arange(20.0), q=np.stack([np.cos(angle), np.sin(angle)], axis=1) / side)
    assert [c.finding for c in flows._kinematic(system, path)] == [HOLDS]
    path.q[6] += 1e-9
    assert [c.finding for c in flows._kinematic(system, path)] == [FAILS]


def test_the_flow_of_a_variational_problem():
    """The pendulum as a problem of order 1."""
    problem = da.VariationalProblem(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), derivatives=1)
    found = da.verdict(problem, start=da.Start(jets=[[1.0], [0.3]]), h=0.1, steps=100)
    assert findings(found) == {
        "the flow exists": HOLDS, "Υ_d*Ω = Ω": HOLDS, "the energy does not drift": HOLDS, "q of order 2": HOLDS,
    }  # fmt: skip
    assert found["Υ_d"].measured < 1e-13


def test_a_flow_that_starts_wrong_by_h_has_not_its_order(monkeypatch):
    """And from nodes nothing is said, because they are those of one step."""
    problem = da.VariationalProblem(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), derivatives=1)
    start = convergence.FlowData(da.Start(jets=[[1.0], [0.3]]), 0.1, 0.0)
    (claim,) = convergence.flow_orders(problem, None, start)
    assert claim.finding is HOLDS

    def beside(*given, start, h, **rest):
        return da.simulate(*given, start=da.Start(jets=np.asarray(start.jets) + 0.1 * h), h=h, **rest)

    monkeypatch.setattr(convergence, "simulate", beside)
    (claim,) = convergence.flow_orders(problem, None, start)
    assert claim.finding is FAILS
    np.testing.assert_allclose(claim.measured, 1.0, rtol=0, atol=0.1)
    (claim,) = convergence.flow_orders(problem, None, start._replace(data=da.Start()))
    assert claim.finding is NOT_CLAIMED


def test_what_does_not_belong_together_is_said():
    system = da.System(lambda q, v: 0.5 * v @ v)
    with pytest.raises(ValueError, match=r"nodes: .*a System starts from q0 and v0"):
        da.verdict(system, None, [0.0], [1.0], h=0.1, start=da.Start(nodes=[[0.0], [0.1]]))
    with pytest.raises(TypeError, match="a verdict is about a System, DiscreteSystem or VariationalProblem"):
        da.verdict(3, None, [0.0], [1.0], h=0.1)
