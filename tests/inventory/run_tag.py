"""What was written for the tag, run with the code as it is: pages, examples, and the tests that use public names only.

    python tests/inventory/run_tag.py [pages] [tests] [examples] [calls]

unpacks the commit of `collect.COMMIT` into out/tag. pages: the code of every page runs against both versions, and leaves
the same numbers, to 1e-10 of their scale. tests: those that import nothing from inside a room, unchanged. examples:
unchanged. calls: whole calls of both versions in turn, with the ratio of their processor times. The exit status is 1 where
something fails.
"""

from __future__ import annotations

import ast
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAG = ROOT / "out" / "tag"
COMMIT = "2afb1444"  # as in collect.py, which needs the package to import
AGREE = 1e-10
# Tests of the sources themselves, not of what the library does.
OF_SOURCES = ("tests/test_house.py", "tests/test_house_walk.py", "tests/test_imports.py", "tests/test_repository.py")
NEW_WORDS = "the message says the same with the argument's new name or group, or a printed value instead of its type"
ONE_MORE = "the deprecated keyword of the call brings a warning of its own"
NEW_OUTCOME = "13 and 14 are the numbers of Outcome.SADDLE and Outcome.HALF_TURN"
NEW_CLAIM = "verdict measures claims that it did not measure then"
ARRAYS = "results hold arrays of NumPy outside of tracing"
NEW_PAGE = "the page of the truth table has another form"
SAME_LABEL = "an axis of a figure has the name that it has on the page, 'control u'"
TIMES = "the dimensions of times in data sets are called time, time_mid, …: format 2, decisions.md"
NOW_DONE = "what the test expects to be refused is done now: impulses of a discrete system"
INSIDE = "the test imports what is inside a room by way of a helper"
# Tests of the tag that fail, each with the reason for which it may.
EXPECTED = {
    "tests/arguments/test_arguments.py": INSIDE,
    "tests/claims/test_truth.py::test_a_part_of_it_is_found_again[heisenberg-order 4]": NEW_CLAIM,
    "tests/claims/test_truth.py::test_every_system_and_every_scheme_stands_in_it": NEW_PAGE,
    "tests/control/test_problems.py::test_a_solution_is_stored_pickled_and_drawn": SAME_LABEL,
    "tests/measure/test_symplectic.py::test_the_result_is_a_frozen_tree_of_arrays": ARRAYS,
    "tests/claims/test_truth.py::test_a_part_of_it_is_found_again[pendulum-default]": NEW_CLAIM,
    "tests/control/test_eliminated.py::test_what_is_wrong_is_named[given0-TypeError-problem: found float]": NEW_WORDS,
    "tests/measure/test_regularity.py::test_a_run_between_nodes_with_nonholonomic_data_that_restrict_both_pairs": NEW_WORDS,
    "tests/step/test_bad_input.py::test_run_arguments[options18-ValueError-save_every: found 0]": NEW_WORDS,
    "tests/step/test_singularities.py::test_steps_that_do_not_resolve_an_oscillation_are_told[jax]": ONE_MORE,
    "tests/step/test_singularities.py::test_steps_that_do_not_resolve_an_oscillation_are_told[native]": ONE_MORE,
    "tests/step/test_varying.py::test_a_study_ends_at_a_time_as_an_ensemble_does": NEW_WORDS,
    "tests/step/test_varying.py::test_runs_in_lanes_end_at_a_time_as_each_does_alone": NEW_WORDS,
    "tests/step/test_velocity_integrators.py::test_redefined_nodes": NEW_WORDS,
    "tests/store/test_damage.py::test_malformed_data_are_refused[a solution with code 13]": NEW_OUTCOME,
    "tests/store/test_damage.py::test_malformed_data_are_refused[code 99]": NEW_OUTCOME,
    "tests/symmetry/test_symmetries.py::test_symmetries_of_a_discrete_system": NOW_DONE,
    "tests/systems/test_independent.py::test_everything_else_takes_the_chosen_system_and_names_the_other": NEW_WORDS,
    "tests/test_default_compilation.py::test_back_ends_agree_under_xlas_defaults": INSIDE,
    "tests/store/test_damage.py::test_malformed_data_are_refused[no times]": TIMES,
    "tests/store/test_damage.py::test_malformed_data_are_refused[transposed]": TIMES,
    "tests/store/test_damage.py::test_malformed_data_are_refused[too long]": TIMES,
    "tests/store/test_damage.py::test_malformed_data_are_refused[several steps]": TIMES,
    "tests/store/test_damage.py::test_malformed_data_are_refused[lanes of another name]": TIMES,
    "tests/store/test_damage.py::test_malformed_data_are_refused[format 99]": TIMES,
    "tests/store/test_damage.py::test_malformed_data_are_refused[nodes]": TIMES,
    "tests/store/test_damage.py::test_malformed_data_are_refused[an action per node]": TIMES,
}
# What pages of the tag call by a name that ended, TIMES, and its name now.
RENAMED = {"docs/sweeps.md": {".t_node": ".t", '"node"': '"time"', "isel(node=": "isel(time="}}
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Executes the code of a page and writes the numbers of its names: arguments are the page and the file.
NUMBERS = """
import json, re, sys, warnings
import jax, numpy as np
warnings.simplefilter("ignore", DeprecationWarning)
page, target = sys.argv[1:]
names, failed = {"__name__": "page"}, None
module = sys.modules["page"] = type(sys)("page")
names = vars(module)
try:
    for block in re.findall(r"^```python\\n(.*?)^```", open(page, encoding="utf-8").read(), re.M | re.S):
        exec(compile(block, page, "exec"), names)
except Exception as error:
    failed = f"{type(error).__name__}: {error}"
numbers = {}
for name, value in list(names.items()):
    if name.startswith("_") or callable(value) and not hasattr(value, "q"):
        continue
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        x = leaf if isinstance(leaf, (float, np.ndarray, jax.Array)) else None
        if x is not None and np.issubdtype(np.asarray(x).dtype, np.floating) and np.size(x) < 10**6:
            numbers[name + jax.tree_util.keystr(path)] = np.asarray(x, float).tolist()
json.dump({"failed": failed, "numbers": numbers}, open(target, "w"))
"""

# A typical call of each entry of the gallery, and the processor time of the same call again.
CALLS = """
import json, sys, time
import dalembert as da
from dalembert.gallery import ENTRIES, PROBLEMS

def lines():
    for name, e in ENTRIES.items():
        yield name, lambda e=e: da.simulate(e.system, e.q0, e.v0, h=e.h, steps=300)
    for name, e in PROBLEMS.items():
        guess = e.first_guess(e.steps)
        more = {} if guess is None else {"guess": guess}
        yield name, lambda e=e, more=more: da.solve(e.problem, **e.boundary, steps=e.steps, **more)

calls = dict(lines())
for name in calls:
    calls[name]()
print("ready", flush=True)
for line in sys.stdin:
    times = {}
    for name, call in calls.items():
        call()  # what is kept of calls is of a few problems
        began = time.process_time()
        call()
        times[name] = time.process_time() - began
    print(json.dumps(times), flush=True)
"""


def main() -> None:
    chosen = sys.argv[1:] or ["pages", "tests", "examples", "calls"]
    unpack()
    faults = sum(WAYS[name]() for name in chosen)
    sys.exit(bool(faults))


def unpack() -> None:
    if not TAG.exists():
        TAG.mkdir(parents=True)
        archive = subprocess.Popen(["git", "archive", COMMIT], cwd=ROOT, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", TAG], stdin=archive.stdout, check=True)


def environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source / "src"), "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}


def compare_pages() -> int:
    """Number of pages that fail, or whose numbers are others."""
    pages = [TAG / "README.md", *sorted((TAG / "docs").rglob("*.md"))]
    pages = [p for p in pages if "docs/reference" not in p.as_posix() and BLOCK.search(p.read_text(encoding="utf-8"))]
    return sum(not compare_page(page) for page in pages)


def compare_page(page: Path) -> bool:
    found = []
    for source in (TAG, ROOT):
        folder = TAG / "out" / "pages" / source.name / page.stem
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / "numbers.json"
        text = page.read_text(encoding="utf-8")
        for name, now in RENAMED.get(page.relative_to(TAG).as_posix(), {}).items() if source is ROOT else ():
            text = text.replace(name, now)
        (folder / page.name).write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", NUMBERS, page.name, str(target)]
        done = subprocess.run(command, cwd=folder, env=environment(source), capture_output=True, text=True, check=False)
        if not target.exists():
            print(f"{page.name}: {source.name}: the process ended with {done.returncode}: {done.stderr[-400:]}")
            return False
        found.append(json.loads(target.read_text(encoding="utf-8")))
    before, now = found
    faults = [f"{now['failed']}"] if now["failed"] != before["failed"] else []
    faults += differences(before["numbers"], now["numbers"])
    print(f"{page.relative_to(TAG)}: {len(before['numbers'])} arrays, {'; '.join(faults[:5]) or 'the same'}", flush=True)
    return not faults


def differences(before: dict, now: dict) -> list[str]:
    """Arrays that are missing, or differ by more than AGREE of their largest entry."""
    import numpy as np

    faults = []
    for name, value in before.items():
        x, y = np.asarray(value, float), np.asarray(now.get(name, np.nan), float)
        scale = max(1.0, float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0)))
        if x.shape != y.shape:
            faults.append(f"{name}: {x.shape} and {y.shape}")
        elif not np.allclose(x, y, rtol=0, atol=AGREE * scale, equal_nan=True):
            faults.append(f"{name}: {np.nanmax(np.abs(x - y)):.1e}")
    return faults


def run_tests() -> int:
    files = [file for file in sorted((TAG / "tests").rglob("test_*.py")) if uses_public_names_only(file)]
    print(f"{len(files)} files of tests that import no module of a room")
    options = ["-q", "-n", "2", "--dist", "worksteal", "-W", "ignore::DeprecationWarning", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(command, cwd=TAG, env=environment(ROOT), stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    failed = set(FAILED.findall(done.stdout))
    for name in sorted(failed):
        print(f"{name}: {EXPECTED.get(name, 'NO REASON KNOWN')}")
    return len(failed - set(EXPECTED)) or int(done.returncode > 1)


def uses_public_names_only(file: Path) -> bool:
    """Whether a test imports the package, its measurements or its gallery, and patches nothing."""
    text = file.read_text(encoding="utf-8")
    if file.relative_to(TAG).as_posix() in OF_SOURCES or "monkeypatch" in text or re.search(r"[\"']dalembert\.", text):
        return False
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [f"{node.module}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
            names = names or [a.name for a in node.names]
            own = [name for name in names if name.split(".")[0] == "dalembert" and name != "dalembert"]
            if any(name.split(".")[1] not in ("measure", "gallery") for name in own):
                return False
    return True


def run_examples() -> int:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "examples/_run.py", "out/examples", "2"]
    fast = {"DALEMBERT_EXAMPLES_FAST": "1", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    return subprocess.run(command, cwd=TAG, env=environment(ROOT) | fast).returncode


def time_calls(rounds: int = 7) -> int:
    """Number of whole calls that take more than 1.25 of the processor time of the tag."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CALLS], env=environment(s), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for s in (TAG, ROOT)
    ]
    times: list[list[dict]] = [[], []]
    for process in processes:
        process.stdout.readline()
    for _ in range(rounds):
        for process, found in zip(processes, times, strict=True):
            process.stdin.write("\n")
            process.stdin.flush()
            found.append(json.loads(process.stdout.readline()))
    for process in processes:
        process.stdin.close()
    slower = 0
    for name in times[0][0]:
        before, now = (statistics.median(x[name] for x in found) for found in times)
        mark = "  slower" if now > 1.25 * before else ""
        slower += bool(mark)
        print(f"{name:28s} {1e3 * before:9.3f} {1e3 * now:9.3f} ms  {now / before:5.2f}{mark}")
    return slower


WAYS = {"pages": compare_pages, "tests": run_tests, "examples": run_examples, "calls": time_calls}

if __name__ == "__main__":
    main()
