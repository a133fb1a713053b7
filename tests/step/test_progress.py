"""A bar in a terminal for every call and command that takes long; every one of them once died when it was drawn."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import pty
import re
import signal
import sys
import threading
import types
from unittest import mock

import numpy as np
import pytest
import typer

import dalembert as da
from dalembert.cli import app, commands
from dalembert.gallery import PROBLEMS, pendulum
from dalembert.step.run import steps as progress

START = {"q0": [1.0], "v0": [0.0], "h": 0.01}


class Terminal:
    """Standard error as a terminal, with what is written to it."""

    def __init__(self):
        self._end, own = pty.openpty()
        self.file, self._parts = os.fdopen(own, "w", buffering=1), []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        try:
            while part := os.read(self._end, 4096):
                self._parts.append(part)
        except OSError:  # the other side is closed
            pass

    def text(self) -> str:
        self.file.close()
        self._reader.join(5.0)
        return b"".join(self._parts).decode()


@contextlib.contextmanager
def terminal():
    """Not a fixture: pytest sets standard error before each call."""
    made = Terminal()
    with mock.patch.dict(os.environ, {"TERM": "xterm"}), mock.patch.object(sys, "stderr", made.file):
        yield made


def resumed(folder):
    store = folder / "run.zarr"
    da.simulate(pendulum.pendulum(), **START, steps=5000, save=da.Save(store=store), progress=press, throw=False)
    return da.resume(store, pendulum.pendulum(), progress=True)


def press(done, total):
    if done > 1000:
        signal.raise_signal(signal.SIGINT)


def swept_problems(folder):
    entry = PROBLEMS["cart_pole"]
    name = next(iter(entry.problem.system.parameters))
    values = float(np.asarray(entry.problem.system.parameters[name])) * np.array([1.0, 1.01])
    return da.sweep(entry.problem, {name: values}, {**entry.boundary, "steps": 20}, progress=True)


CALLS = {
    "simulate": lambda folder: da.simulate(
        pendulum.pendulum(), **START, steps=300_000, save=da.Save(every=None), progress=True
    ),
    "simulate on JAX": lambda folder: da.simulate(
        pendulum.pendulum(), **START, steps=3000, solver=da.Solver(backend="jax"), progress=True
    ),
    "simulate to a store": lambda folder: da.simulate(
        pendulum.pendulum(), **START, steps=3000, save=da.Save(store=folder / "run.zarr"), progress=True
    ),
    "ensemble": lambda folder: da.ensemble(
        pendulum.pendulum(),
        np.array([[0.5], [1.0]]),
        [0.0],
        h=0.01,
        steps=8_000_000,
        save=da.Save(every=None),
        progress=True,
    ),
    "sweep": lambda folder: da.sweep(
        pendulum.pendulum(),
        {"q0": [[0.5], [1.0]]},
        {"v0": [0.0], "h": 0.01, "steps": 8_000_000, "save": da.Save(every=None)},
        progress=True,
    ),
    "sweep to a store": lambda folder: da.sweep(
        pendulum.pendulum(),
        {"q0": [[0.5], [1.0]]},
        {"v0": [0.0], "h": 0.01, "steps": 3000},
        store=folder / "study.zarr",
        progress=True,
    ),
    "sweep of problems": swept_problems,
    "resume": resumed,
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_draw_their_bar(call, tmp_path):
    with terminal() as shown:
        CALLS[call](tmp_path)
    text = shown.text()
    assert "remaining" in text
    rate = "" if call == "sweep to a store" else r", \d\S*/s"  # where only one block is reported
    assert re.search(rf"\d (steps|problems){rate}", text), text


COMMANDS = {
    "run": ["run", "pendulum", "--steps", "300000", "--save-every", "1000", "--save", "run.nc"],
    "run to a store": ["run", "pendulum", "--steps", "3000", "--save", "run.zarr"],
    "sweep": ["run", "pendulum", "--set", "g_over_l=1,2", "--steps", "300000", "--last", "--save", "study.zarr"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_draw_their_bar(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "SILENT", 0.0)
    with terminal() as shown, contextlib.suppress(typer.Exit):
        app(COMMANDS[command], standalone_mode=False)
    assert "remaining" in shown.text()
    assert (tmp_path / COMMANDS[command][-1]).exists()


def test_a_resumed_run_draws_its_bar(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "SILENT", 0.0)

    def press(done, total):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(da.Interrupted):
        da.simulate(
            pendulum.pendulum(), **START, steps=3_000_000, save=da.Save(every=1000, store="run.zarr"), progress=press
        )
    with terminal() as shown, contextlib.suppress(typer.Exit):
        app(["run", "pendulum", "--save", "run.zarr", "--resume"], standalone_mode=False)
    assert "remaining" in shown.text()
    assert da.load("run.zarr").steps == 3_000_000


def test_a_notebook_has_a_bar(monkeypatch):
    """There standard error is no terminal; rich would need ipywidgets, which few have, and show nothing."""
    shown = []

    class DisplayHandle:
        def display(self, data, raw):
            shown.append(data["text/plain"])

        update = display

    display = types.ModuleType("IPython.display")
    display.DisplayHandle = DisplayHandle
    shell = type("ZMQInteractiveShell", (), {})()  # by whose class rich knows a notebook
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    da.simulate(pendulum.pendulum(), **START, steps=300_000, save=da.Save(every=None), progress=True)
    assert any(re.search(r"\d steps, \d\S*/s remaining", text) for text in shown), shown
    assert shown[-1] == ""
    assert sys.stderr.getvalue() == ""


def test_the_rate_is_that_of_the_steps_since_the_first_report(monkeypatch):
    """Of a run that goes on at step 1000, with a bar that is shown after two seconds."""
    clock, rates = iter([0.0, 1.0, 3.0]), []
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(progress, "_show", lambda *x: (lambda completed, rate: rates.append(rate), lambda: None))
    bar = progress.Bar(2.0)
    bar(1000, 9000)
    bar(2000, 9000)
    assert rates == [", 500/s"]


def test_a_program_without_standard_error_has_none(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert da.simulate(pendulum.pendulum(), **START, steps=100_000, save=da.Save(every=None), progress=True).steps == 100_000


def test_a_file_has_none(tmp_path, monkeypatch):
    with open(tmp_path / "errors", "w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        da.simulate(pendulum.pendulum(), **START, steps=100_000, save=da.Save(every=None), progress=True)
    assert (tmp_path / "errors").read_text() == ""
