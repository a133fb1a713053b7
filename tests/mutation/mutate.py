"""Mutants of meaning: signs, indices, nodes, times and orders changed one at a time; does a test fail?

    python tests/mutation/mutate.py                  the known mutants and those that were drawn once
    python tests/mutation/mutate.py --list           what they are, without running a test
    python tests/mutation/mutate.py m04 d17          only these
    python tests/mutation/mutate.py --seed 7         as many others, drawn from the sources as they stand
    python tests/mutation/mutate.py m04 --tests FILE [FILE ...]    by these tests only

A mutant that lives is a missing test, or means the same as the original: it is then in EXPLAINED with the reason,
and is not run.
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
COUNT = 40  # of a draw
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
        number, _, line, _ = self._line()
        return f"{self.name} {self.path}:{number}: {self.old!r} → {self.new!r} in {line}"

    def change(self) -> tuple[str, str, str]:
        """The module, its line, and what the line becomes: they stay when other lines move."""
        return self._line()[1:]

    def _line(self) -> tuple[int, str, str, str]:
        """The number of the line, the module, the line, and what it becomes."""
        text = (SOURCE / self.path).read_text()
        i = text.count("\n", 0, self.at)
        return i + 1, self.path, text.splitlines()[i].strip(), self.applied(text).splitlines()[i].strip()


def written(table: tuple[tuple[str, str, str, str, str], ...]) -> list[Mutant]:
    """Mutants told by the text around them: the first `old` in `context`, which stands once in its module."""
    found = []
    for name, path, context, old, new in table:
        text = (SOURCE / path).read_text()
        assert text.count(context) == 1, f"{name}: {context!r} stands {text.count(context)} times in {path}"
        found.append(Mutant(name, path, text.index(context) + context.index(old), old, new))
    return found


KNOWN = (
    ("m02", "discretize/nodes.py", "scheme.action_for(system)[end]", "[end]", "[0]"),
    ("m04", "discretize/nodes.py", "c.force_rows(system, q1, v1, a, t + h)", "t + h", "t"),
    ("m05", "discretize/nodes.py", "_second_order(system, c, (middle, mean, a), t + 0.5 * h", "t + 0.5 * h", "t"),
    ("m07", "measure/exact.py", "momentum(system, q[0], v[0], t[0])", "t[0]", "t[-1]"),
    ("m08", "measure/symplectic.py", "theta(view.later(), y, now), jnp", "now", "t"),
    ("m09", "measure/ranks.py", "on_components @ kernel(on_kinematic)", " @ kernel(on_kinematic)", ""),
    ("m10", "measure/ranks.py", "both[:, :n]", ":n", "2 * n :"),
    ("m11", "measure/ranks.py", "view.equations(a, b, c, multipliers, t)", "multipliers", "0 * multipliers"),
    ("m12", "discretize/higher.py", "multipliers, t + h * begin)", "t + h * begin", "t + 0 * begin"),
    ("m15", "control/eliminated.py", "(2 * h), t + h, -impulse", "t + h", "t"),
    ("m16", "control/eliminated.py", "Interval(q1, q2 - q1, t + h, h)", "t + h", "t"),
    ("m17", "measure/higher.py", "index = k - order + jnp", "k - order", "0 * (k - order)"),
    ("m18", "measure/cotangent.py", "t - ahead, scheme=state)", "t - ahead", "t"),
    ("m25", "measure/nodes.py", "c.residual(system, q, v, v, t + self.scheme", "t + self", "t + 0 * self"),
    ("m26", "measure/cotangent.py", "_incoming(system, state, after, w, t + step", "t + step", "t"),
)  # fmt: skip

# What random.Random(2026).sample took from the 2600 sites of PLACES when they were first drawn. They stand here, so that
# they stay those that were run.
DRAWN = (
    ("d00", "discretize/window_maps.py", "product[j - 1] for j in range(1, k + 1))]", "+", "-"),
    ("d01", "measure/nodes.py", "incoming(self.scheme, self.system, self.interval(0, q0, q1", "q1", "q0"),
    ("d02", "boundary/kkt/system.py", "at = self.lower + column - row", "+", "-"),
    ("d03", "boundary/kkt/terms.py", "if last + 1 < len(fixed)", "+", "-"),
    ("d04", "discretize/time.py", "b[0] - a[0]", "-", "+"),
    ("d05", "measure/cotangent.py", "state, after, w, t + step", "after", "x"),
    ("d06", "control/refinement.py", "share * (right - left)])", "-", "+"),
    ("d07", "control/resolution.py", "s * (u1 - u0), t", "-", "+"),
    ("d08", "boundary/data/end_sets.py", "EndSets((start, end), (first", "end", "start"),
    ("d09", "claims/geometry.py", "differences(start.q0,", "start", "end"),
    ("d10", "control/given.py", "states[0].sizes", "0", "-1"),
    ("d11", "control/eliminated.py", "Interval(q1, q2 - q1, t + h, h)", "+", "-"),
    ("d12", "boundary/kkt/multipliers.py", "values.shape[1]), np.nan)", "1", "0"),
    ("d13", "control/refinement.py", "abs(costs[0] - costs[1]))", "1", "0"),
    ("d14", "boundary/kkt/assembly.py", "self.terms, self.size = terms, fixed.shape[1]", "1", "0"),
    ("d15", "measure/exact.py", "np.full_like(straight, 1e100)", "straight", "q0"),
    ("d16", "discretize/scheme.py", "phi(q, -d1, -d0, -0.1)", "-d0", "d0"),
    ("d17", "control/extremals.py", "data = start.data", "start", "end"),
    ("d18", "discretize/nodes.py", "d1, t + h))", "d1", "d0"),
    ("d19", "discretize/window_maps.py", "(after - before)", "-", "+"),
    ("d20", "measure/invariants.py", ") - jnp.min(self.values)", "-", "+"),
    ("d21", "discretize/time.py", "free.shape[1]", "1", "0"),
    ("d22", "boundary/kkt/shared_unknowns.py", "- 2", "-", "+"),
    ("d23", "discretize/discrete.py", "q0, q1, t=t)", "q1", "q0"),
    ("d24", "boundary/kkt/multipliers.py", "near = start[:, None]", "start", "end"),
    ("d25", "measure/nodes.py", "discrete_impulses(self.system, q1, q2, t)", "q1", "q0"),
    ("d26", "measure/cotangent.py", "Interval(q0, d, s, h)", "q0", "q1"),
    ("d27", "claims/geometry.py", "+ large[0] / h", "0", "-1"),
    ("d28", "measure/exact.py", "np.asarray(d) - (q[-2]", "-", "+"),
    ("d29", "measure/ranks.py", 'found["kinematic"].shape[1]', "1", "0"),
    ("d30", "measure/symplectic.py", "read_node(system, q0,", "q0", "q1"),
    ("d31", "claims/balance.py", "(t[-1] - t[0]) +", "-1", "0"),
    ("d32", "boundary/kkt/terms.py", "begin + (k - j) * m]", "+", "-"),
    ("d33", "boundary/kkt/unknowns.py", "self.free_at(end), self.t, positions", "end", "0"),
    ("d34", "discretize/nodes.py", "c.force_rows(system, q0, v0", "q0", "q1"),
    ("d35", "measure/perturbed_flow.py", "], speeds[0])", "0", "-1"),
    ("d36", "discretize/scheme.py", "(parts - 1)])", "-", "+"),
    ("d37", "control/given.py", "and rows[0][0] else", "0", "-1"),
    ("d38", "control/extremals.py", "self.ready.start.sizes.positions", "start", "end"),
    ("d39", "measure/invariants.py", "- back * v", "-", "+"),
)  # fmt: skip

# Mutants that mean the same, or reach only what no result depends on: Mutant.change() and the reason for each.
EXPLAINED: dict[tuple[str, str, str], str] = {
    (
        "boundary/kkt/terms.py",
        "if last + 1 < len(fixed) and not self.fixed_slots[last + 1 :].all():",
        "if last - 1 < len(fixed) and not self.fixed_slots[last + 1 :].all():",
    ): "the slice after the last slot is empty exactly where the first condition is false, and `all` of nothing is True",
    (
        "control/given.py",
        "sizes, free = states[0].sizes, np.array([[False], [True]]) & np.ones_like(states[0].free)",
        "sizes, free = states[-1].sizes, np.array([[False], [True]]) & np.ones_like(states[0].free)",
    ): "`_states`, which alone makes them for this function, gives both ends the same sizes",
    (
        "measure/exact.py",
        "return system.space.differences(q1, q) / h if np.all(np.isfinite(q)) else np.full_like(straight, 1e100)",
        "return system.space.differences(q1, q) / h if np.all(np.isfinite(q)) else np.full_like(q0, 1e100)",
    ): "only the shape of the way is read, which in Rⁿ is that of q0",
    (
        "discretize/nodes.py",
        "rows.append(c.residual(system, q + system.space.cross_interval(q, d1), d1, d1, t + h))",
        "rows.append(c.residual(system, q + system.space.cross_interval(q, d1), d1, d0, t + h))",
    ): "a constraint of order 0 reads q and t alone: `value` passes on neither velocity nor acceleration",
    (
        "measure/perturbed_flow.py",
        "_check_step(made, points[0], speeds[0])",
        "_check_step(made, points[0], speeds[-1])",
    ): "the map is traced with shapes, and every point has the same",
}


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
    return [Mutant(f"s{i:02d}", *one) for i, one in enumerate(chosen)]


def lives(mutant: Mutant, tests: list[str]) -> tuple[bool, str]:
    """Whether all tests pass with the mutant, and the first that does not."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        changed = copy / "dalembert" / mutant.path
        changed.write_text(mutant.applied(changed.read_text()))
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
        ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ran.returncode < 0:  # machine code that reads beyond its arrays
        return False, f"signal {-ran.returncode}"
    if ran.returncode > 1 and not failed:
        raise RuntimeError(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}")
    return ran.returncode == 0, failed[0] if failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--seed", type=int, help="draw other mutants instead of those written here")
    parser.add_argument("--tests", nargs="+", help="in place of all tests of the part that is changed")
    options = parser.parse_args()
    every = written(KNOWN + DRAWN) if options.seed is None else drawn(options.seed, COUNT)
    mutants = [m for m in every if not options.names or m.name in options.names]
    alive = []
    for mutant in mutants:
        print(mutant.told(), flush=True)
        if reason := EXPLAINED.get(mutant.change()):
            print(f"    means the same: {reason}")
        elif not options.list:
            began = time.monotonic()
            survived, what = lives(mutant, options.tests or TESTS[mutant.path.split("/")[0]])
            alive += [mutant.name] * survived
            print(f"    {'LIVES' if survived else 'killed'} ({time.monotonic() - began:.0f} s) {what}", flush=True)
    if alive:
        print(f"{len(alive)} of {len(mutants)} mutants live: {', '.join(alive)}")
    return bool(alive)


if __name__ == "__main__":
    sys.exit(main())
