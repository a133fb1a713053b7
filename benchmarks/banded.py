"""Banded linear systems: algebra/banded.py against C that is made for the bandwidth, and against LAPACK alone.

    python benchmarks/banded.py [NODES ...]     prints the tables of benchmarks/README.md; default: 1000 and 100000

One matrix, one right-hand side, one thread: factorization and solution, allocation of what the factors need included. The
matrix is random and symmetric, with rows to be exchanged in most columns; all three sides get the same one, and their
solutions are compared. The C is compiled with -O3 -march=native -ffast-math for each bandwidth, without which it does not
vectorize its sums; it eliminates the right-hand side with the matrix and keeps no factors of use for another one. LAPACK is
dgbtrf and dgbtrs of the OpenBLAS that SciPy brings.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from build import built
from scipy.linalg import get_lapack_funcs

from dalembert.algebra import BandedLU, inertia

BANDS = ((8, 7), (10, 7), (13, 10), (16, 10), (20, 10), (30, 16))  # lower = upper, rows of a node
TILE = 1000  # nodes after which the matrix repeats itself: sides fill it from what stays in the cache
TURNS = {1000: 41, 100_000: 9}


class Problem:
    """A banded matrix in one buffer, by rows or by LAPACK's columns, which have as many places."""

    def __init__(self, lower: int, rows: int, nodes: int):
        rng = np.random.default_rng(0)
        self.lower, self.n, self.width = lower, rows * nodes, 3 * lower + 1
        self.tile = np.zeros((rows * min(nodes, TILE), self.width))
        self.tile[:, : 2 * lower + 1] = rng.standard_normal((len(self.tile), 2 * lower + 1))
        for right in range(1, lower + 1):
            self.tile[:, lower + right] = np.roll(self.tile[:, lower - right], -right)
        self.columns = np.zeros_like(self.tile)  # row j holds the entries (i, j) at 2·lower + i − j
        for right in range(-lower, lower + 1):
            self.columns[:, 2 * lower - right] = np.roll(self.tile[:, lower + right], right)
        self.buffer, self.rhs = np.empty((self.n, self.width)), rng.standard_normal(self.n)

    def fill(self, tile: np.ndarray) -> np.ndarray:
        self.buffer.reshape(-1, *tile.shape)[:] = tile
        return self.buffer

    def by_rows(self) -> np.ndarray:
        rows, lower = self.fill(self.tile), self.lower
        for i in range(lower):
            rows[i, : lower - i] = 0.0
            rows[self.n - 1 - i, lower + i + 1 :] = 0.0
        return rows


Side = Callable[[Problem], tuple[float, np.ndarray]]  # seconds and solution


def ours(problem: Problem) -> tuple[float, np.ndarray]:
    matrix = problem.by_rows()[:, : 2 * problem.lower + 1]
    start = time.thread_time()
    x = BandedLU(matrix).solve(problem.rhs)
    return time.thread_time() - start, x


def lapack(problem: Problem) -> tuple[float, np.ndarray]:
    matrix, lower = problem.fill(problem.columns).T, problem.lower
    gbtrf, gbtrs = get_lapack_funcs(("gbtrf", "gbtrs"), (matrix,))
    start = time.thread_time()
    factors, order, _ = gbtrf(matrix, lower, lower, overwrite_ab=True)
    x, _ = gbtrs(factors, lower, lower, problem.rhs, order)
    return time.thread_time() - start, x


def by_c(lower: int, folder: Path) -> Side:
    library = built("banded.c", folder, ("-ffast-math", f"-DLOWER={lower}", f"-DUPPER={lower}"))

    def run(problem: Problem) -> tuple[float, np.ndarray]:
        matrix, x = problem.by_rows(), problem.rhs.copy()
        start = time.thread_time()
        library.banded(problem.n, *(np.ctypeslib.as_ctypes(a.reshape(-1)) for a in (matrix, x)))
        return time.thread_time() - start, x

    return run


def compare(problem: Problem, sides: dict[str, Side], turns: int) -> dict[str, np.ndarray]:
    """Seconds of each side in each turn; they take turns, after a first one that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(turns + 1):
        found = {name: run(problem) for name, run in sides.items()}
        x = [solution for _, solution in found.values()]
        assert all(np.abs(y - x[0]).max() < 1e-6 * np.abs(x[0]).max() for y in x)
        for name, (spent, _) in found.items():
            if turn:
                seconds[name].append(spent)
    return {name: np.array(spent) for name, spent in seconds.items()}


def quartiles(values: np.ndarray) -> str:
    low, mid, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"**{mid:.2f}** ({low:.2f}–{high:.2f})"


def main(nodes: list[int]) -> None:
    print("| lower = upper | rows of a node | nodes | C / ours | LAPACK / ours | µs per node, ours, C, LAPACK |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for number in nodes:
            for lower, rows in BANDS:
                problem = Problem(lower, rows, number)
                sides = {"ours": ours, "C": by_c(lower, Path(folder)), "LAPACK": lapack}
                spent = compare(problem, sides, TURNS.get(number, 9))
                ratios = [quartiles(spent[name] / spent["ours"]) for name in ("C", "LAPACK")]
                each = ", ".join(f"{1e6 * np.median(spent[name]) / number:.2f}" for name in sides)
                print("|", " | ".join([str(lower), str(rows), str(number), *ratios, each]), "|", flush=True)
    print("\n| lower | rows of a node | inertia, µs per node | inertia / factorization and solution |\n|---|---|---|---|")
    for lower, rows in BANDS:
        problem = Problem(lower, rows, TILE)
        spent = []
        for _ in range(5):
            start = time.thread_time()
            inertia(problem.by_rows(), lower)
            middle = time.thread_time()
            spent.append((middle - start, ours(problem)[0]))
        own, solution = np.array(spent).T
        print(f"| {lower} | {rows} | {1e6 * np.median(own) / TILE:.0f} | {quartiles(own / solution)} |", flush=True)


if __name__ == "__main__":
    main([int(x) for x in sys.argv[1:]] or list(TURNS))
