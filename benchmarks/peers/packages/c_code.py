"""The same scheme in hand-written C, from benchmarks/c: the one of order 2, which stores every step, or for the contact
oscillator its composition of order 8, of which the end is wanted."""

from __future__ import annotations

import ctypes
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.build import built
from benchmarks.compositions import coefficients
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import SAMPLES, Problem

MOST_STEPS = 1_000_000  # of which all are stored
COMPOSITION = "Kahan-Li 17"
WIDTH = {"curvature": 8, "nonholonomic": 11, "chain8": 29, "rattle8": 29}


def methods(problem: Problem, extension) -> list[Method]:
    if problem.c is None:
        return []
    if extension is None:
        raise ImportError("gcc")
    with tempfile.TemporaryDirectory() as folder:
        if problem.constraint is not None:
            return composed(problem, problem.c[1], Path(folder))
        library = built(problem.c[0], Path(folder))
    steps = tuple(n for n in problem.steps if n <= MOST_STEPS)
    return [
        Method(f"C, {label}", "C", steps, partial(prepare, problem, library, name)) for label, name in problem.c[1].items()
    ]


def composed(problem: Problem, programs: dict[str, str], folder: Path) -> list[Method]:
    gamma = coefficients(COMPOSITION)
    library = built("contact_composition.c", folder, (f"-DSTAGES={len(gamma)}",))
    steps = tuple(n // len(gamma) for n in problem.steps if 5_000 <= n <= MOST_STEPS)
    return [
        Method(f"C, {label}", "C", steps, partial(prepare_composed, problem, getattr(library, name), gamma))
        for label, name in programs.items()
    ]


def prepare_composed(problem: Problem, function, gamma: np.ndarray, steps):
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_double, *[ctypes.c_void_p] * 2]
    state = np.empty_like(problem.x0)

    def call():
        state[:] = problem.x0
        function(int(steps), len(gamma), problem.time / steps, gamma.ctypes.data, state.ctypes.data)

    return call, lambda _: state[None].copy()


def prepare(problem: Problem, library: ctypes.CDLL, name: str, steps):
    function, steps = getattr(library, name), int(steps)
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long, ctypes.c_double, ctypes.c_double, *[ctypes.c_void_p] * 4]
    out = np.zeros((steps, WIDTH[name]))
    arrays = np.array(problem.c_parameters), np.array(problem.q0, float), np.array(problem.v0, float), out
    every, n = steps // SAMPLES, len(problem.q0)

    def call():
        return function(steps, problem.time / steps, 1e-9, *[a.ctypes.data for a in arrays])

    return call, lambda _: out[every - 1 :: every, :n]
