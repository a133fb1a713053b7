"""Time and error of dalembert and of other packages on six systems, in one run.

    python -m benchmarks.peers [--systems chain …] [--packages heyoka …] [--out folder] [--quick]  from the repository's root

Prints one table per system and writes one work-precision figure each. A package that is not installed is skipped.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# Both before JAX is imported. The first is for diffrax: XLA then compiles a loop with few variables into one function.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=65536")
os.environ["DALEMBERT_CACHE"] = ""  # the first use is measured too
os.environ.setdefault("MPLBACKEND", "Agg")

from benchmarks.peers import figure, report
from benchmarks.peers.compiled import extension_for
from benchmarks.peers.measure import SLOWEST, Method, measure
from benchmarks.peers.packages import c_code, casadi_ode, diffrax_ode, heyoka_ode, library, scipy_ode, sundials
from benchmarks.peers.problems import Problem, problems
from benchmarks.peers.reference import reference

PACKAGES = {
    "dalembert": library, "C": c_code, "SciPy": scipy_ode, "diffrax": diffrax_ode, "scikit-sundae": sundials,
    "casadi": casadi_ode, "heyoka": heyoka_ode,
}  # fmt: skip


def collected(problem: Problem, extension, chosen: list[str] | None) -> list[Method]:
    """The methods of all packages that are there, or of those that are named."""
    found = []
    for name in chosen or PACKAGES:
        package = PACKAGES[name]
        try:
            found += package.methods(problem, extension)
        except ImportError as missing:
            print(f"  {name}: {missing.name or missing} not installed: skipped")
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--systems", nargs="*", help="names of problems; all if not given")
    arguments.add_argument("--packages", nargs="*", choices=list(PACKAGES), help="all if not given")
    arguments.add_argument("--out", type=Path, help="folder for the figures; none are drawn without it")
    arguments.add_argument("--quick", action="store_true", help="two repeats, nothing that takes more than 0.2 s")
    arguments.add_argument("--slowest", type=float, default=SLOWEST, help="seconds; no finer runs of a method after one")
    chosen = arguments.parse_args()
    options = {"repeats": 2, "slowest": 0.2} if chosen.quick else {"slowest": chosen.slowest}
    with tempfile.TemporaryDirectory() as folder:
        for problem in problems():
            if chosen.systems and problem.name not in chosen.systems:
                continue
            start = time.perf_counter()
            extension = extension_for(problem, Path(folder))
            built = time.perf_counter() - start
            truth, agreement, derived = reference(problem, extension)
            print(f"\n### {problem.title}, T = {problem.time:g}\n")
            print(f"    references differ by {agreement:.0e}, the library's own equations by {derived:.0e}", flush=True)
            print(f"    extension module by gcc, for SciPy and SUNDIALS: {built:.2f} s")
            results = measure(collected(problem, extension, chosen.packages), truth, problem.drift, **options)
            report.print_tables(problem, results, agreement)
            if chosen.out:
                figure.draw(problem, results, agreement, chosen.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
