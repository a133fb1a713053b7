"""What compositions can reach: the contact oscillator to T = 1000 in hand-written C, time against error.

    python benchmarks/contact.py [REPEATS]      prints the tables of benchmarks/README.md

Compositions of the base step (c/contact_composition.c, in four programs) against Dormand and Prince's method of order 8
(c/contact_dop853.c) with SciPy's coefficients. The error is the largest component of (q, v) at T, against
contact_reference.py. An error counts as reached from the first run on whose finer runs all keep it, so that no lucky zero of
the error is used; times between two runs are interpolated in logarithms. Runs take turns.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from build import built
from compositions import SETS, coefficients
from contact_reference import START, state
from scipy.integrate._ivp import dop853_coefficients

T, REPEATS = 1000.0, 15
ERRORS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
PROGRAMS = {
    "reduced": "reduced by hand", "ordered": "as written, quotient first", "plain": "as written",
    "compensated": "as written, sums compensated",
}  # fmt: skip
BASE_STEPS = np.unique(np.geomspace(8_000, 640_000, 34).astype(int))  # of a run
SHORT = ("base step", "least error 13", "Suzuki-Umeno 15", "Kahan-Li 17")  # for all programs but the first
CONTROLLED, CONSTANT = "DOP853 in C, step control", "DOP853 in C, constant steps"
Call = Callable[[np.ndarray], None]


@dataclasses.dataclass
class Method:
    """calls: from coarse to fine, each turns the state at 0 into that at T. After measuring: errors, seconds (medians).

    drift: the largest constraint, x' + y z', at T.
    """

    name: str
    calls: list[Call]
    drift: float = 0.0
    errors: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))
    seconds: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))

    def time_at(self, error: float) -> float:
        kept = np.maximum.accumulate(self.errors[::-1])[::-1]
        if not kept[-1] <= error <= kept[0]:
            return np.nan
        return float(np.exp(np.interp(-np.log(error), -np.log(kept), np.log(self.seconds))))


def header(folder: Path) -> None:
    """DOP853's coefficients as C arrays."""
    row = lambda values: "{" + ", ".join(repr(float(value)) for value in values) + "}"  # noqa: E731
    tables = {
        "B[12]": row(dop853_coefficients.B),
        "E3[13]": row(dop853_coefficients.E3),
        "E5[13]": row(dop853_coefficients.E5),
    }
    tables["A[12][12]"] = "{" + ",\n  ".join(row(values) for values in dop853_coefficients.A[:12, :12]) + "}"
    text = "".join(f"static const double {name} = {values};\n" for name, values in tables.items())
    (folder / "dop853_table.h").write_text(text)


def bound(library: ctypes.CDLL, name: str, *arguments) -> Call:
    """The function with all its arguments but the last, the state."""
    function = getattr(library, name)
    types = {int: ctypes.c_long, float: ctypes.c_double, np.ndarray: ctypes.c_void_p}
    function.restype = ctypes.c_long
    function.argtypes = [*[types[type(a)] for a in arguments], ctypes.c_void_p]
    given = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    return lambda q: (function(*given, q.ctypes.data), arguments)[0]  # the arguments stay alive


def composition(program: str, name: str, gamma: np.ndarray, folder: Path) -> Method:
    library = built("contact_composition.c", folder, (f"-DSTAGES={len(gamma)}",))
    counts = sorted({max(1, int(n) // len(gamma)) for n in BASE_STEPS})
    return Method(f"{name}, {program}", [bound(library, program, n, len(gamma), T / n, gamma) for n in counts])


def dop853(folder: Path) -> list[Method]:
    header(folder)
    library = built("contact_dop853.c", folder, (f"-I{folder}",))
    tolerances, counts = np.geomspace(1e-2, 1e-15, 40), np.geomspace(600, 24_000, 30).astype(int)
    return [
        Method(CONTROLLED, [bound(library, "adaptive", T, float(tolerance)) for tolerance in tolerances]),
        Method(CONSTANT, [bound(library, "constant", int(n), T / int(n)) for n in counts]),
    ]


def measure(methods: list[Method], truth: np.ndarray, repeats: int) -> None:
    taken = [np.empty((repeats, len(method.calls))) for method in methods]
    for repeat in range(repeats):
        for method, times in zip(methods, taken, strict=True):
            errors = np.empty(len(method.calls))
            for i, call in enumerate(method.calls):
                q = np.array(START)
                start = time.thread_time_ns()
                call(q)
                times[repeat, i] = 1e-9 * (time.thread_time_ns() - start)
                method.drift = max(method.drift, abs(q[3] + q[1] * q[5]))
                errors[i] = np.max(np.abs(q - truth)) if np.all(np.isfinite(q)) else np.inf
            method.errors = errors
    for method, times in zip(methods, taken, strict=True):
        method.seconds = np.median(times, axis=0)


def cell(value: float, best: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"**{value:.2g}**" if value == best else f"{value:.2g}"


def print_table(rows: dict[str, Method], against: Method) -> None:
    """Speed relative to a method; the best of each error in bold."""
    values = np.array([[against.time_at(e) / method.time_at(e) for e in ERRORS] for method in rows.values()])
    best = [np.nanmax(column) if np.any(np.isfinite(column)) else np.nan for column in values.T]
    for name, row in zip(rows, values, strict=True):
        print(f"| {name} | " + " | ".join(cell(*pair) for pair in zip(row, best, strict=True)) + " |")


def main(repeats: int) -> None:
    truth = state(T)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        others = dop853(folder)
        sets = {name: coefficients(name) for name in SETS}
        found = {p: {s: composition(p, s, gamma, folder) for s, gamma in sets.items()} for p in PROGRAMS}
        measure([*others, *[method for group in found.values() for method in group.values()]], truth, repeats)
    print(f"| {T:g} time units, error | " + " | ".join(f"{e:.0e}" for e in ERRORS) + " |\n|---|" + "---|" * len(ERRORS))
    print(f"| {CONTROLLED}, ms | " + " | ".join(f"{1e3 * others[0].time_at(e):.2g}" for e in ERRORS) + " |")
    print_table({CONSTANT: others[1]}, others[0])
    for program, label in PROGRAMS.items():
        print(f"| *{label}* |" + " |" * len(ERRORS))
        print_table({name: found[program][name] for name in (SETS if program == "reduced" else SHORT)}, others[0])
    drift = {p: max(method.drift for method in group.values()) for p, group in found.items()}
    cost = {p: np.median([m.seconds[-1] / BASE_STEPS[-1] for m in group.values()]) for p, group in found.items()}
    print("\nlargest |x' + y z'| at T:", ", ".join(f"{PROGRAMS[p]} {value:.0e}" for p, value in drift.items()))
    print("ns per base step:", ", ".join(f"{PROGRAMS[p]} {1e9 * value:.1f}" for p, value in cost.items()))
    print("least error:", ", ".join(f"{PROGRAMS[p]} {group['Kahan-Li 17'].errors.min():.0e}" for p, group in found.items()),
          f"{CONTROLLED} {others[0].errors.min():.0e}, {CONSTANT} {others[1].errors.min():.0e}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS)
