"""Mutants of meaning: signs, indices, nodes, times and orders changed one at a time; does a test fail?

    python tests/mutation/mutate.py                  the known and the drawn mutants
    python tests/mutation/mutate.py --list           what is drawn, without running a test
    python tests/mutation/mutate.py m04 17           only these

A mutant that lives is a missing test, or means the same as the original: it is then in EXPLAINED with the reason.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "dalembert"
SEED, COUNT = 2026, 40
PLACES = ("discretize", "step/programs", "measure", "claims", "boundary/kkt", "control")
TESTS = {
    "discretize": [
        "tests/step/test_explicit_time.py",
        "tests/step/test_lower_order_flow.py",
        "tests/discretize",
        "tests/measure",
        "tests/step",
        "tests/boundary",
    ],
    "step": ["tests/step/test_explicit_time.py", "tests/step"],
    "measure": ["tests/measure/test_explicit_time.py", "tests/measure", "tests/claims"],
    "claims": ["tests/claims"],
    "boundary": ["tests/boundary", "tests/control"],
    "control": ["tests/control/test_eliminated.py", "tests/control", "tests/boundary"],
}
PAIRS = {  # nodes, ends, times and orders that stand for one another
    "q0": "q1", "q1": "q0", "before": "after", "after": "before", "left": "right", "right": "left", "first": "last",
    "last": "first", "start": "end", "end": "start", "minus": "plus", "plus": "minus", "incoming": "outgoing",
    "outgoing": "incoming", "d0": "d1", "d1": "d0", "kinematic": "variational", "variational": "kinematic",
    "legendre_minus": "legendre_plus", "legendre_plus": "legendre_minus", "forward": "backward", "backward": "forward",
}  # fmt: skip


class Mutant(NamedTuple):
    """One change of a text: at `at`, `old` becomes `new`."""

    name: str
    path: str
    at: int
    old: str
    new: str

    def applied(self, text: str) -> str:
        assert text[self.at : self.at + len(self.old)] == self.old, f"{self.name}: {self.path} has changed"
        return text[: self.at] + self.new + text[self.at + len(self.old) :]

    def told(self) -> str:
        text = (SOURCE / self.path).read_text()
        line = text.count("\n", 0, self.at)
        return f"{self.name} {self.path}:{line + 1}: {self.old!r} → {self.new!r} in {text.splitlines()[line].strip()}"


def known() -> list[Mutant]:
    """Those that once lived, by the text around them."""
    found = []
    for name, path, context, old, new in KNOWN:
        text = (SOURCE / path).read_text()
        assert text.count(context) == 1, f"{name}: {context!r} stands {text.count(context)} times in {path}"
        found.append(Mutant(name, path, text.index(context) + context.index(old), old, new))
    return found


KNOWN = (
    ("m02", "discretize/nodes.py", "scheme.action_for(system)[end]", "[end]", "[0]"),
    ("m04", "discretize/nodes.py", "reactions(system, c, q1, v1, a, t + h)", "t + h", "t"),
    ("m05", "discretize/nodes.py", "_second_order(system, c, (middle, mean, a), t + 0.5 * h", "t + 0.5 * h", "t"),
    ("m07", "measure/exact/pair.py", "momentum(system, q[0], v[0], t[0])", "t[0]", "t[-1]"),
    ("m08", "measure/symplectic.py", "theta(y, now), jnp", "now", "t"),
    ("m09", "measure/regularity.py", "on_components]), on_components @ tangent", "on_components @ tangent", "on_components"),
    ("m10", "measure/regularity.py", "both[:, :n]", ":n", "2 * n :"),
    ("m11", "measure/regularity.py", "view.equations(a, b, c, multipliers, t)", "multipliers", "0 * multipliers"),
    ("m12", "discretize/higher.py", "multipliers, t + h * begin)", "t + h * begin", "t + 0 * begin"),
    ("m15", "control/eliminated.py", "(2 * h), t + h, -impulse", "t + h", "t"),
    ("m16", "control/eliminated.py", "Interval(q1, q2 - q1, t + h, h)", "t + h", "t"),
    ("m17", "measure/higher.py", "index = k - order + jnp", "k - order", "0 * (k - order)"),
    ("m18", "measure/cotangent/phase_step.py", "t - ahead, scheme=state)", "t - ahead", "t"),
    ("m25", "measure/nodes.py", "value(system, c, q, v, v, t + self.scheme", "t + self", "t + 0 * self"),
    ("m26", "measure/cotangent/phase_step.py", "_incoming(system, state, after, w, t + step", "t + step", "t"),
)  # fmt: skip

# Drawn mutants that live because they mean the same, or reach only what no result depends on: the reason for each.
EXPLAINED: dict[str, str] = {}


def sites(path: Path) -> Iterator[tuple[int, str, str]]:
    """Places of a module with what stands there and what it may become."""
    text = path.read_text()
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    raw = text.encode()

    def span(node):
        begin, end = lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset
        return len(raw[:begin].decode()), raw[begin:end].decode()

    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            (at, left), (right_at, _) = span(node.left), span(node.right)
            between = text[at + len(left) : right_at]
            sign = "+" if isinstance(node.op, ast.Add) else "-"
            if sign in between:
                yield at + len(left) + between.index(sign), sign, "-+"[sign == "-"]
            if isinstance(node.op, ast.Add) and left == "t" and text[right_at : right_at + 1] not in "\"'":
                yield at, span(node)[1], "t"  # a time that is not moved on
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            at, all_of_it = span(node)
            yield at, all_of_it, all_of_it[1:]
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.UnaryOp):
            at, index = span(node.slice)
            changed = {"0": "-1", "-1": "0", "1": "0", "2": "1"}.get(index)
            if changed:
                yield at, index, changed
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in PAIRS:
                at, all_of_it = span(node)
                yield at + len(all_of_it) - len(name), name, PAIRS[name]
        elif isinstance(node, ast.Compare) and isinstance(node.comparators[0], ast.Constant):
            at, number = span(node.comparators[0])
            if number in ("0", "1", "2") and "order" in (span(node.left)[1]):
                yield at, number, str(int(number) + 1)


def drawn(seed: int, count: int) -> list[Mutant]:
    """A random choice among the sites of PLACES, found anew when the sources change."""
    every = []
    for place in PLACES:
        for path in sorted((SOURCE / place).rglob("*.py") if (SOURCE / place).is_dir() else [SOURCE / f"{place}.py"]):
            every += [(str(path.relative_to(SOURCE)), *site) for site in sites(path)]
    chosen = random.Random(seed).sample(every, count)
    return [Mutant(str(i), *one) for i, one in enumerate(chosen)]


def lives(mutant: Mutant) -> tuple[bool, str]:
    """Whether all tests of the room pass with the mutant, and the first that does not."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        changed = copy / "dalembert" / mutant.path
        changed.write_text(mutant.applied(changed.read_text()))
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        tests = [test for test in TESTS[mutant.path.split("/")[0]] if (ROOT / test).exists()]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return ran.returncode == 0, failed[0] if failed else ran.stdout[-300:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()
    mutants = [m for m in known() + drawn(SEED, COUNT) if not options.names or m.name in options.names]
    alive = []
    for mutant in mutants:
        print(mutant.told(), flush=True)
        if options.list:
            continue
        began = time.monotonic()
        survived, what = lives(mutant)
        if survived and mutant.told() not in EXPLAINED:
            alive.append(mutant.name)
        print(
            f"    {'LIVES' if survived else 'killed'} ({time.monotonic() - began:.0f} s) {'' if survived else what}",
            flush=True,
        )
    if alive:
        print(f"{len(alive)} of {len(mutants)} mutants live: {', '.join(alive)}")
    return bool(alive)


if __name__ == "__main__":
    sys.exit(main())
