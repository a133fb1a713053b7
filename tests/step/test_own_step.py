"""`run_program`: a step of one's own against the same method written as a loop, and what it refuses."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.step import Outputs, StepProgram, run_program


class SymplecticEuler(StepProgram):
    """L_v(q, z) - L_v(q, s) - h L_q(q, z) = 0;  q ← q + h z, s ← z."""

    system: da.System

    weights = (1.0,)
    multiplier_time = 1.0
    levels = ("node", "node")

    def residual(self, z, q, s, t, h, held_force):
        along_q, along_v = (jax.grad(self.system.lagrangian, argnums=k) for k in (0, 1))
        return along_v(q, z) - along_v(q, s) - h * (along_q(q, z) + held_force)

    def guess(self, q, s, t, h):
        return s

    def scale(self, z, q, s, h):
        return jnp.full_like(z, 1e-3 + jnp.max(jnp.abs(z)))

    def advance(self, z, q, s, t, h):
        return h * z, z

    def output_state(self, z, q, s, h):
        return q + h * z, z

    def outputs(self, z, q, s, t, h, held_force):
        return Outputs(multipliers=jnp.zeros(0), force=jnp.zeros_like(q))

    def velocity(self, s):
        return s

    def constraint_point(self, z, q, s, t, h):
        return q, z, t


class Late(SymplecticEuler):
    """One that would start from two nodes."""

    starting_nodes = 1


PENDULUM = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))
STEP = SymplecticEuler(PENDULUM)


def by_hand(q, v, h, steps):
    rows = [(q, v)]
    for _ in range(steps):
        v -= h * np.sin(q)
        q += h * v
        rows.append((q, v))
    return np.array(rows)


@pytest.mark.parametrize("backend", ["native", "jax"])
@pytest.mark.parametrize("h", [0.1, -0.1])
def test_a_step_of_ones_own_is_run_by_both_back_ends(backend, h):
    path = run_program(STEP, [1.0], [0.3], h=h, steps=200, solver=da.Solver(backend=backend))
    found = np.c_[path.q[:, 0], path.v[:, 0]]
    np.testing.assert_allclose(found, by_hand(1.0, 0.3, h, 200), rtol=0, atol=1e-11)


def test_options_of_a_run_hold_for_it():
    down = da.Stop(when=lambda q, v: q[0] < 0.5)
    largest = (lambda value, t, q, v, multipliers: jnp.maximum(value, jnp.abs(v[0])), 0.0)
    path = run_program(STEP, [1.0], [0.3], h=0.1, steps=200, t0=2.0, stop=down, save=da.Save(every=3, reduce=largest))
    rows = by_hand(1.0, 0.3, 0.1, 200)
    last = int(np.argmax(rows[:, 0] < 0.5))
    kept = np.unique(np.r_[np.arange(0, last, 3), last])
    assert path.outcome.name == "STOPPED"
    np.testing.assert_allclose(path.q[:, 0], rows[kept, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.t, 2.0 + 0.1 * kept, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.reduced, np.abs(rows[1 : last + 1, 1]).max(), rtol=0, atol=1e-12)


def test_it_is_differentiated():
    def end(q):
        return run_program(STEP, q, jnp.zeros(1), h=0.1, steps=20).q[-1, 0]

    slope = jax.grad(end)(jnp.array([1.0]))
    quotient = (by_hand(1.0 + 1e-6, 0.0, 0.1, 20)[-1, 0] - by_hand(1.0 - 1e-6, 0.0, 0.1, 20)[-1, 0]) / 2e-6
    np.testing.assert_allclose(slope, [quotient], rtol=0, atol=1e-8)


def test_the_record_names_the_step_and_no_scheme():
    record = run_program(STEP, [1.0], [0.0], h=0.1, steps=3).provenance
    assert (record.scheme, record.starter) == ("SymplecticEuler", "")
    assert "held_force" in json.loads(record.run)["SymplecticEuler"]


def test_a_step_that_cannot_be_solved_is_an_outcome():
    wall = SymplecticEuler(da.System(lambda q, v: 0.5 * v @ v + jnp.sqrt(q[0])))
    path = run_program(wall, [0.1], [-5.0], h=0.1, steps=10, throw=False)
    assert path.outcome.failed
    assert np.isfinite(path.q).all()
    with pytest.raises(da.StepError) as caught:
        run_program(wall, [0.1], [-5.0], h=0.1, steps=10)
    np.testing.assert_array_equal(caught.value.path.q, path.q)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"program": PENDULUM}, TypeError, "program: found System"),
        ({"program": Late(PENDULUM)}, ValueError, "program: found starting_nodes = 1"),
        ({"q0": [1.0, 2.0]}, ValueError, "v0: found 1 numbers, and q0 has 2"),
        ({"v0": [np.nan]}, ValueError, "v0: found nan"),
        ({"h": 0.0}, ValueError, "h: found 0.0"),
        ({"steps": 2.5}, TypeError, "steps: found 2.5"),
        ({"save": da.Save(store="run.zarr")}, ValueError, "save: run_program does not use store"),
        ({"solver": da.Solver(scales=[1.0])}, ValueError, "solver: run_program does not use scales"),
        ({"throw": "no"}, TypeError, "throw: found"),
    ],
)
def test_bad_input_is_named(given, error, message):
    call = {"program": STEP, "q0": [1.0], "v0": [0.0], "h": 0.1, "steps": 5} | given
    with pytest.raises(error, match=message):
        run_program(**call)
