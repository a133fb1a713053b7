"""Ctrl-C ends a run, an ensemble, a solution where it can be left, keeps what was computed, and what follows works."""

import signal

import numpy as np
import pytest

import dalembert as da
from dalembert.boundary.newton import descent
from dalembert.gallery import ENTRIES

PENDULUM = ENTRIES["pendulum"].system
ANGLES = np.linspace(0.5, 1.5, 20)[:, None]


def press(done, total):
    signal.raise_signal(signal.SIGINT)


def run(steps, **more):
    return da.simulate(PENDULUM, [1.0], [0.0], h=0.05, steps=steps, **more)


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_a_run_without_end_ends_with_its_path(backend):
    with pytest.raises(KeyboardInterrupt) as error:
        run(10**10, save_every=1000, backend=backend, progress=press)
    path = error.value.path
    assert isinstance(error.value, da.Interrupted)
    assert path.outcome is da.Outcome.INTERRUPTED
    assert int(path.statistics.failed_step) == -1
    assert "by Ctrl-C" in path.describe()
    again = run(path.steps, save_every=1000, backend=backend)
    assert np.array_equal(path.q, again.q)
    assert np.array_equal(path.t, again.t)
    assert float(path.t[-1]) == 0.05 * path.steps


def test_without_throw_the_path_comes_back():
    path = run(10**10, save_every=None, throw=False, progress=press)
    assert path.outcome is da.Outcome.INTERRUPTED
    assert path.q.shape == (2, 1)


def test_an_ensemble_ends_with_its_paths():
    with pytest.raises(da.Interrupted) as error:
        da.ensemble(PENDULUM, ANGLES, [0.0], h=0.05, steps=10**10, save_every=None, progress=press)
    path = error.value.path
    assert set(np.asarray(path.code)) == {int(da.Outcome.INTERRUPTED)}
    last = int(np.argmax(path.steps_done))
    steps = int(path.steps_done[last])
    again = da.ensemble(PENDULUM, ANGLES, [0.0], h=0.05, steps=steps, save_every=None)
    assert np.array_equal(again.q[last, -1], path.q[last, -1])
    assert float(path.t[last, -1]) == 0.05 * steps


def test_a_solution_is_the_path_that_the_iteration_had_reached(monkeypatch):
    """Newton's whole steps in chunks of one iteration are the same iteration."""
    calls, real = [], descent.Descent._steps_to
    monkeypatch.setattr(descent.Descent, "_steps_to", lambda *x: (calls.append(x), real(*x))[1])
    swing = da.VariationalProblem(lambda q, v: 0.5 * v @ v + 20.0 * q[0] ** 4)
    ends = {"initial": ([0.0],), "final": ([1.0],), "T": 1.0, "steps": 400, "certify": False}
    whole = da.solve(swing, **ends)
    monkeypatch.setattr(descent, "WORK", 1)
    assert np.array_equal(da.solve(swing, **ends).q, whole.q)
    assert len(calls) == 1 + int(whole.statistics.iterations) > 3
    monkeypatch.setattr(descent.Descent, "_steps_to", lambda *x: (press(0, 0), real(*x))[1])
    with pytest.raises(da.Interrupted) as error:
        da.solve(swing, **ends)
    assert int(error.value.path.statistics.iterations) == 1
    assert da.solve(swing, **ends, throw=False).outcome is da.Outcome.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_is_told_in_steps():
    told = []
    path = run(300_000, save_every=None, progress=lambda *x: told.append(x))
    assert path.outcome is da.Outcome.SUCCESS
    assert told == sorted(told)
    assert 0 < told[0][0] < told[-1][1] == 300_000
