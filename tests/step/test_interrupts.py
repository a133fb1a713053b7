"""Ctrl-C ends a run, an ensemble, a solution where it can be left, keeps what was computed, and what follows works."""

import gc
import importlib
import os
import signal
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert import interrupts
from dalembert.boundary import BoundaryNewton
from dalembert.boundary import result as boundary_result
from dalembert.gallery import ENTRIES
from dalembert.guidance import loop
from dalembert.native import on_threads

PENDULUM = ENTRIES["pendulum"].system
ANGLES = np.linspace(0.5, 1.5, 20)[:, None]


def press(done, total):
    signal.raise_signal(signal.SIGINT)


def run(steps, **more):
    return da.simulate(PENDULUM, [1.0], [0.0], h=0.05, steps=steps, **more)


@pytest.mark.parametrize("backend", ["native", "jax"])
def test_a_run_without_end_ends_with_its_path(backend):
    with pytest.raises(KeyboardInterrupt) as error:
        run(10**10, save=da.Save(every=1000), solver=da.Solver(backend=backend), progress=press)
    path = error.value.path
    assert isinstance(error.value, da.Interrupted)
    assert path.outcome is da.Outcome.INTERRUPTED
    assert int(path.statistics.failed_step) == -1
    assert "Ctrl-C ended it" in path.describe()
    again = run(path.steps, save=da.Save(every=1000), solver=da.Solver(backend=backend))
    assert np.array_equal(path.q, again.q)
    assert np.array_equal(path.t, again.t)
    assert float(path.t[-1]) == 0.05 * path.steps


def test_without_throw_the_path_comes_back():
    path = run(10**10, save=da.Save(every=None), throw=False, progress=press)
    assert path.outcome is da.Outcome.INTERRUPTED
    assert path.q.shape == (2, 1)


def test_an_ensemble_ends_with_its_paths():
    with pytest.raises(da.Interrupted) as error:
        da.ensemble(PENDULUM, ANGLES, [0.0], h=0.05, steps=10**10, save=da.Save(every=None), progress=press)
    path = error.value.path
    assert set(np.asarray(path.code)) == {int(da.Outcome.INTERRUPTED)}
    last = int(np.argmax(path.steps_done))
    steps = int(path.steps_done[last])
    again = da.ensemble(PENDULUM, ANGLES, [0.0], h=0.05, steps=steps, save=da.Save(every=None))
    assert np.array_equal(again.q[last, -1], path.q[last, -1])
    assert float(path.t[last, -1]) == 0.05 * steps


def test_a_solution_is_the_path_that_the_iteration_had_reached(monkeypatch):
    swing = da.VariationalProblem(lambda q, v: 0.5 * v @ v + 20.0 * q[0] ** 4)
    ends = {"initial": ([0.0],), "final": ([1.0],), "T": 1.0, "steps": 400, "certify": False}
    assert int(da.solve(swing, **ends).statistics.iterations) > 2
    real = BoundaryNewton._direction
    monkeypatch.setattr(BoundaryNewton, "_direction", lambda *x: (real(*x), press(0, 0))[0])
    with pytest.raises(da.Interrupted) as error:
        da.solve(swing, **ends)
    assert int(error.value.path.statistics.iterations) == 1
    assert da.solve(swing, **ends, throw=False).outcome is da.Outcome.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_is_told_in_steps():
    told = []
    path = run(300_000, save=da.Save(every=None), progress=lambda *x: told.append(x))
    assert path.outcome is da.Outcome.SUCCESS
    assert told == sorted(told)
    assert 0 < told[0][0] < told[-1][1] == 300_000


def _collect_for(seconds: float, timer: threading.Timer) -> None:
    timer.start()  # inside of what waits for it: on a busy machine it may be over at once
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        gc.collect()


def test_nothing_is_lost_in_a_collection_of_garbage():
    """Python ignores what is raised in a callback of its collector, and JAX had one. Nor does memory grow without it."""
    assert not any(getattr(one, "__name__", "") == "_xla_gc_callback" for one in gc.callbacks)
    kept = [[i] for i in range(100_000)]
    others, gc.callbacks[:] = gc.callbacks[:], []  # such as Hypothesis's own, in which a press would be lost as well
    try:
        for _ in range(20):
            timer = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):  # which is not lost
                _collect_for(600.0, timer)
    finally:
        gc.callbacks[:] = others
    assert len(kept) == 100_000


def test_an_interrupted_solution_is_none(monkeypatch):
    """Ctrl-C while the kind is counted: the path has converged, and nothing is said of it."""
    swing = da.VariationalProblem(lambda q, v: 0.5 * v @ v + 20.0 * q[0] ** 4)
    ends = {"initial": ([0.0],), "final": ([1.0],), "T": 1.0, "steps": 40}
    real = boundary_result.kind_of
    monkeypatch.setattr(boundary_result, "kind_of", lambda *x: (press(0, 0), real(*x))[1])
    with pytest.raises(da.Interrupted) as error:
        da.solve(swing, **ends)
    found = da.solve(swing, **ends, throw=False)
    for solution in (error.value.path, found):
        assert solution.outcome is da.Outcome.INTERRUPTED
        assert solution.kind == "interrupted"


def test_many_references_are_broken_off_in_all_threads(monkeypatch):
    entry, calls, flow = ENTRIES["spherical_pendulum"], [], importlib.import_module("dalembert.native.flow.flow")

    def pressed():
        calls.append(time.process_time())  # of this process, whatever else the machine does
        if len(calls) == 6:
            os.kill(os.getpid(), signal.SIGINT)  # not by this thread, which is not the first
        interrupts.leave_if_wanted()

    monkeypatch.setattr(flow, "leave_if_wanted", pressed)
    with pytest.raises(KeyboardInterrupt):
        da.references(entry.system, [entry.q0] * 20, entry.v0, [0.0, 1e9], tolerance=1e-6, threads=2)
    assert len(calls) >= 6
    assert time.process_time() - calls[5] < 5.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_reference_is_broken_off(monkeypatch):
    """Between two chunks of its steps; and where these end makes no difference to any bit, after refused steps neither."""
    flow = importlib.import_module("dalembert.native.flow.flow")
    entry = ENTRIES["spherical_pendulum"]
    chunks, paced = [], flow.next_chunk

    def pressed(chunk, seconds):
        chunks.append(chunk)
        if len(chunks) == 3:
            press(0, 0)
        return paced(chunk, seconds)

    monkeypatch.setattr(flow, "next_chunk", pressed)
    with pytest.raises(KeyboardInterrupt):
        da.reference(entry.system, entry.q0, entry.v0, np.array([0.0, 1e9]), tolerance=1e-6)
    assert len(chunks) == 3
    monkeypatch.setattr(flow, "next_chunk", paced)
    kepler = da.System(lambda q, v: 0.5 * v @ v + 1 / jnp.sqrt(q @ q))
    close = lambda: da.reference(kepler, [1.0, 0.0], [0.0, 0.05], [0.0, 2.0, 3.5], tolerance=1e-9)  # noqa: E731
    whole = close()
    monkeypatch.setattr(flow, "FIRST_STEPS", 1)
    monkeypatch.setattr(flow, "next_chunk", lambda *x: 1)
    parts = close()
    assert whole.method == parts.method == "Runge-Kutta"
    assert int(whole.integrator_steps) == int(parts.integrator_steps) > 50
    assert np.array_equal(whole.q, parts.q)


def test_an_order_does_not_take_ctrl_c_for_a_run_that_failed(monkeypatch):
    module = importlib.import_module("dalembert.measure.convergence")  # its function has the name, too
    pressed = lambda *given, **more: run(10**9, throw=False, save=da.Save(every=None), progress=press)  # noqa: E731
    monkeypatch.setattr(module, "simulate", pressed)
    with pytest.raises(da.Interrupted):
        da.measure.order(PENDULUM, [1.0], [0.0], time=1.0, h=[0.1, 0.05])


def test_no_problem_of_a_batch_begins_after_ctrl_c():
    begun = []

    def one(i):
        begun.append(i)
        if i == 1:
            interrupts._HELD[0].pressed = True
        return i

    with pytest.raises(KeyboardInterrupt):
        on_threads(one, range(50), 2)
    assert len(begun) < 10


class Pressing:
    """A controller without any push, which presses Ctrl-C for its third sample: itself, or when its plant runs."""

    def __init__(self, own: bool):
        self.own, self.asked = own, 0

    def control(self, t, q, v, ahead):
        self.asked += 1
        if self.own and self.asked == 3:
            press(0, 0)
        return np.zeros(1)

    def push(self, t, q, v, u):
        if not self.own and self.asked == 3:
            press(0, 0)  # inside the plant's run
        return u


@pytest.mark.parametrize("own", [False, True], ids=["plant", "controller"])
def test_a_closed_loop_ends_with_what_was_computed(own):
    """And not as if it had ended by itself, after which a script goes on."""
    start = {"q0": [1.0], "v0": [0.0], "h": 0.05, "every": 5}
    whole = da.closed_loop(PENDULUM, Pressing(own=True), **start, steps=10)  # two samples
    with pytest.raises(da.Interrupted) as error:
        da.closed_loop(PENDULUM, Pressing(own), **start, steps=200)
    found = error.value.path
    assert found.outcome is da.Outcome.INTERRUPTED
    assert len(found.t) == len(found.q) == len(found.v) >= 11
    np.testing.assert_array_equal(found.q[:11], whole.q)
    assert len(found.u) == (2 if own else 3)  # the third was decided before its run was broken off
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_closed_loop_does_not_take_ctrl_c_in_a_run_for_its_end(monkeypatch):
    """The plant's run answers Ctrl-C by its outcome, which is that of the loop."""
    real, seen = loop.simulate, []

    def pressed(*given, steps, **more):
        seen.append(steps)
        return (
            real(*given, steps=10**9, save=da.Save(every=10**6), progress=press, **more)
            if len(seen) == 2
            else real(*given, steps=steps, **more)
        )

    monkeypatch.setattr(loop, "simulate", pressed)
    with pytest.raises(da.Interrupted) as error:
        da.closed_loop(PENDULUM, Pressing(own=False), [1.0], [0.0], h=0.05, every=5, steps=20)
    assert len(seen) == 2
    assert error.value.path.outcome is da.Outcome.INTERRUPTED
