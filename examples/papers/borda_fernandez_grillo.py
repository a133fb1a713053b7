"""Figures 1-6 of Borda, Fernández, Grillo, the corrected ones beside them, table.csv and report.md.

    python examples/papers/borda_fernandez_grillo.py out/borda_fernandez_grillo

Takes two to three minutes, most of them for the continuous solution that the pendulum is compared with; about half a minute
with DALEMBERT_EXAMPLES_FAST=1.
"""

import os
import sys
from pathlib import Path

from dalembert.papers import PAPERS


def main(folder: Path) -> None:
    paper = PAPERS["borda-fernandez-grillo"]
    print(paper.title)

    # The fast setting leaves out the start on the solution and the other rules for the root, which compile for long.
    paper.run(folder, fast=os.environ.get("DALEMBERT_EXAMPLES_FAST") == "1")

    for file in sorted(folder.iterdir()):
        print(f"  {file.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/borda_fernandez_grillo"))
