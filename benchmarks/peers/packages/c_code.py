"""The same second order scheme in hand-written C, from benchmarks/c. It stores every step."""

from __future__ import annotations

import ctypes
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.build import built
from benchmarks.peers.measure import Method
from benchmarks.peers.problems import SAMPLES, Problem

MOST_STEPS = 1_000_000  # of which all are stored
WIDTH = {"curvature": 8, "nonholonomic": 11, "chain8": 29, "rattle8": 29}


def methods(problem: Problem, extension) -> list[Method]:
    if problem.c is None:
        return []
    if extension is None:
        raise ImportError("gcc")
    with tempfile.TemporaryDirectory() as folder:
        library = built(problem.c[0], Path(folder))
    steps = tuple(n for n in problem.steps if n <= MOST_STEPS)
    return [
        Method(f"C, {label}", "C", steps, partial(prepare, problem, library, name)) for label, name in problem.c[1].items()
    ]


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
