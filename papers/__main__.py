"""Writes the figures, table.csv and report.md of each paper into a folder of its own.

    python -m papers                               all of them into out/papers, as `make papers` does; some minutes
    python -m papers jimenez-scheurle --fast       one, smaller, to see that everything works

It runs at the root of a checkout: papers are no part of the package.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from papers import PAPERS


def main(words: Sequence[str] | None = None) -> None:
    """Run the papers that are named, or all."""
    parser = argparse.ArgumentParser("python -m papers", description="Write the figures and tables of papers.")
    parser.add_argument("name", nargs="*", help=f"{', '.join(PAPERS)}; without a name all")
    parser.add_argument("--fast", action="store_true", help="smaller, to see that everything works")
    parser.add_argument("--out", type=Path, default=Path("out/papers"), help="each paper has a folder there; out/papers")
    asked = parser.parse_args(words)
    names = [name.replace("_", "-") for name in asked.name] or list(PAPERS)
    for name in names:
        if name not in PAPERS:
            parser.error(f"{name}: no paper of the collection; there are {', '.join(PAPERS)}")
    for name in names:
        PAPERS[name].run(asked.out / name, fast=asked.fast)
        print(f"{PAPERS[name].title}: {asked.out / name}", flush=True)


if __name__ == "__main__":
    main()
