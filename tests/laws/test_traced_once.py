"""How often the operations of a law are found for a run of the plant under it."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.laws import ControlLaw


@pytest.mark.parametrize("door", ["closed", "sampled"])
def test_a_run_under_a_law_traces_it_once(monkeypatch, door):
    """A step asks for the force at several places, and for its derivatives; the start asks for it again."""
    fall = lambda q, v: 0.5 * (v @ v + q @ q) + {"closed": 0.0, "sampled": 1.0}[door]  # noqa: E731  # a system of its own
    pendulum = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), da.Lyapunov(fall, lambda q, v: v @ v, actuated=0))
    found, unbounded = [], ControlLaw.unbounded
    monkeypatch.setattr(ControlLaw, "unbounded", lambda self, *state: found.append(1) or unbounded(self, *state))
    law = da.control_law(pendulum)
    how = {"feedback": law.sampled()} if door == "sampled" else {}
    path = da.simulate(law.closed if door == "closed" else law.plant, [1.0], [0.3], h=0.05, steps=40, **how)
    assert len(found) == 1
    u = np.array([float(law(q, v)[0]) for q, v in zip(path.q[:3], path.v[:3], strict=True)])
    np.testing.assert_allclose(u, np.sin(path.q[:3, 0]) - path.q[:3, 0] - path.v[:3, 0], rtol=0, atol=1e-11)
