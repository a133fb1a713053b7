"""Where a step fails: how close its equations come to a root."""

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.step.run import diagnose


@pytest.fixture
def asked(monkeypatch):
    """What `closest` was asked by the runs of a test."""
    found, original = [], diagnose.closest

    def spied(*given):
        found.append(given)
        return original(*given)

    monkeypatch.setattr(diagnose, "closest", spied)
    return found


def ended(phi, v0, h):
    system = da.System(lambda q, v: 0.5 * v @ v, da.SecondOrder(phi, reactions=lambda q, v, a: np.array([[1.0, 0.0]])))
    return da.simulate(system, [0.0, 0.0], v0, h=h, steps=100, throw=False)


def test_no_root_and_how_far_it_is(asked, monkeypatch):
    """a₁² + 40 t² = 0.025 has no a₁ beyond t = 0.025, and the first step of 0.2 ends there."""
    path = ended(lambda q, v, a: a[0] ** 2 + q[1] ** 2 * 40.0 - 0.025, [0.0, 1.0], 0.2)
    assert path.outcome is da.Outcome.NO_SOLUTION
    by_code = diagnose.closest(*asked[-1])
    assert by_code.gradient < 1e-6 * by_code.residual
    monkeypatch.setattr(diagnose, "LARGEST", 0)
    by_jax = diagnose.closest(*asked[-1])
    assert by_jax.residual == pytest.approx(by_code.residual, rel=1e-6)
    assert by_jax.flatness_at_start == pytest.approx(by_code.flatness_at_start, rel=1e-9)


def test_equations_without_a_value_are_not_judged(asked):
    path = ended(lambda q, v, a: a[0] - jnp.log(0.3 - q[1]), [0.0, 1.0], 0.2)
    assert path.outcome is da.Outcome.NOT_FINITE
    assert np.isnan(diagnose.closest(*asked[-1])).all()
