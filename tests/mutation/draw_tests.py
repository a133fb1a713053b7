"""Tests drawn at random, to be read with the question: can it fail? What was found is in AUDIT.md.

    python tests/mutation/draw_tests.py              the names
    python tests/mutation/draw_tests.py --text       the tests themselves
    python tests/mutation/draw_tests.py --seed 7     others

The draw is among the functions that pytest collects, as they stand today: it changes with the tests.
"""

from __future__ import annotations

import argparse
import ast
import random
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SEED, COUNT = 2026, 60


def every() -> list[tuple[str, ast.FunctionDef]]:
    """Test functions and methods of test classes, each with its name for pytest."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        file = f"tests/{path.relative_to(TESTS).as_posix()}"
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            inside = isinstance(node, ast.ClassDef) and node.name.startswith("Test")
            for one in node.body if inside else [node]:
                if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
                    found.append((f"{file}::{node.name}::{one.name}" if inside else f"{file}::{one.name}", one))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--text", action="store_true", help="print the tests, not their names alone")
    options = parser.parse_args()
    for name, node in sorted(random.Random(options.seed).sample(every(), COUNT), key=lambda one: one[0]):
        print(name)
        if options.text:
            print(ast.unparse(node), end="\n\n")


if __name__ == "__main__":
    main()
