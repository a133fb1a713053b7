"""Compiling that takes long: said on a terminal, ended by Ctrl-C, and the same code as in this process."""

import functools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest
from tests.step.test_progress import terminal

import dalembert as da
from dalembert import terminal as lines
from dalembert.native import CACHE, host
from dalembert.native.llvm import builder, compilation

DOUBLED = """
define double @twice(double %x) {
  %y = fadd double %x, %x
  ret double %y
}
"""


def test_the_process_apart_compiles_the_same(monkeypatch):
    here = compilation.object_file(DOUBLED, True, *host())
    monkeypatch.setattr(compilation, "APART", 0)
    seen, run = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *x, **y: seen.append(run(*x, **y)) or seen[-1])
    assert compilation.object_file(DOUBLED, True, *host()) == here
    assert seen[0].returncode == 0
    assert seen[0].stdout == here


@pytest.mark.parametrize("broken", ["no such program", "a program that fails"])
def test_without_a_process_it_compiles_here(monkeypatch, broken, tmp_path):
    here = compilation.object_file(DOUBLED, True, *host())
    monkeypatch.setattr(compilation, "APART", 0)
    if broken == "no such program":
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    else:
        monkeypatch.setattr(compilation, "__file__", str(tmp_path / "missing.py"))
    assert compilation.object_file(DOUBLED, True, *host()) == here


def test_ctrl_c_ends_the_process_apart(monkeypatch, tmp_path):
    """LLVM itself cannot be interrupted: here its program is one that would sleep for a minute."""
    (tmp_path / "sleeps.py").write_text("import sys, time\nsys.stdin.read()\ntime.sleep(60)\n")
    processor = host()  # to find the mathematical library Python begins a process, too
    monkeypatch.setattr(compilation, "APART", 0)
    monkeypatch.setattr(compilation, "__file__", str(tmp_path / "sleeps.py"))
    begun, init = [], subprocess.Popen.__init__

    def begin(process, *x, **y):
        init(process, *x, **y)
        begun.append(process)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    monkeypatch.setattr(subprocess.Popen, "__init__", begin)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compilation.object_file(DOUBLED, True, *processor)
    assert time.monotonic() - began < 30.0
    assert begun[0].wait(10.0) != 0


def test_quickly_assigned_registers_compute_the_same(monkeypatch):
    """Three bodies on a line, each joined to each; the long text is compiled in another way."""

    def lagrangian(q, v, number):
        apart = q[:, None] - q[None, :]
        stiffer = jnp.sum(jnp.where(q > 0.1, q**2, 0.0))
        return 0.5 * jnp.sum(v**2) - jnp.sum(jnp.log1p(apart**2)) - number * jnp.sum(q**4) - stiffer

    ends, compiled = [], CACHE.compilations
    for longest, number in ((10**9, 0.5), (0, np.nextafter(0.5, 1.0))):  # another number: compiled again
        monkeypatch.setattr(compilation, "LONG", longest)
        system = da.System(functools.partial(lagrangian, number=number))
        ends.append(np.asarray(da.simulate(system, [1.0, -0.3, 0.2], [0.0, 0.5, 0.0], h=0.01, steps=100).q[-1]))
    assert CACHE.compilations >= compiled + 2
    assert np.allclose(*ends, rtol=1e-12, atol=0)


@pytest.mark.parametrize("flags", ["", "contract"])
def test_long_texts_choose_between_doubles_as_integers(flags):
    code = builder.Code(flags=flags)
    x, y = (code.argument(name, "double") for name in "xy")
    code.line(f"ret double {builder.where(x > y, x, -1.0)}")
    text = builder.module(code.function("define double @larger(double %x, double %y)"), declared=code.declared)
    assert re.search("select .*, double", text)
    assert not re.search("select .*, double", compilation.CHOICE.sub(compilation.BITS, text))


def spring(stiffness):
    return da.System(lambda q, v: 0.5 * jnp.sum(v**2) - stiffness * jnp.sum(jnp.cosh(q)))


def test_a_terminal_is_told_that_something_compiles(monkeypatch):
    monkeypatch.setattr(lines, "PATIENCE", 0.0)
    with terminal() as shown:
        da.simulate(spring(3.125), [1.0], [0.0], h=0.01, steps=2)
    assert re.search(r"compiling .*\d:\d\d:\d\d", shown.text())


def test_a_short_compilation_is_not_worth_a_word():
    with terminal() as shown:
        da.simulate(spring(3.25), [1.0], [0.0], h=0.01, steps=2)
    assert shown.text() == ""


def test_xla_ends_the_process_whole():
    """Ctrl-C while XLA compiles: it goes on in threads of its own, whose client and tables the end of the process
    destroyed. Where LLVM's destructors hit those threads is a matter of milliseconds; one that always fails is in their
    place."""
    program = """
        import ctypes, os, signal, sys, threading, time
        import jax.numpy as jnp
        import dalembert as da

        def press():
            since = time.monotonic()
            while time.monotonic() - since < 0.2:  # the one long compilation
                frame = sys._current_frames()[threading.main_thread().ident]
                if frame.f_code.co_name != "backend_compile_and_load":
                    since = time.monotonic()
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        n = 60
        system = da.System(lambda q, v: jnp.sum(v**2) - jnp.sum(jnp.log1p((q[:, None] - q[None, :]) ** 2)))
        q0 = jnp.linspace(-1.0, 1.0, n)
        threading.Thread(target=press, daemon=True).start()
        library = ctypes.CDLL(None)
        if hasattr(library, "on_exit"):  # of glibc
            library.on_exit(library.abort, None)
        try:
            da.reference(system, q0=q0, v0=0 * q0, t=jnp.linspace(0.0, 0.1, 3))
        except KeyboardInterrupt:
            print("left")
            library.printf(b"streams of C")
            sys.exit(7)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]  # twice: every second one died
    begun = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in begun:
        out, errors = process.communicate()
        assert (process.returncode, out) == (7, "left\nstreams of C"), errors[-2000:]
