"""The numbers that Jiménez and Scheurle postpone: orders, constraint, energy, work, and which printed formulas do not hold.

    python examples/papers/jimenez_scheurle.py out/jimenez_scheurle

Takes about two minutes, most of them to compile five systems with seven integrators; a quarter of a minute with
DALEMBERT_EXAMPLES_FAST=1.
"""

import os
import sys
from pathlib import Path

from dalembert.papers import PAPERS


def main(folder: Path) -> None:
    paper = PAPERS["jimenez-scheurle"]
    print(paper.title)

    # The fast setting takes the particle alone and shorter times: it shows that everything works.
    paper.run(folder, fast=os.environ.get("DALEMBERT_EXAMPLES_FAST") == "1")

    for file in sorted(folder.iterdir()):
        print(f"  {file.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/jimenez_scheurle"))
