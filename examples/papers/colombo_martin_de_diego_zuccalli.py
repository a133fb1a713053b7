"""The examples of Colombo, Martín de Diego and Zuccalli in numbers, and the printed formulas that do not hold.

    python examples/papers/colombo_martin_de_diego_zuccalli.py out/colombo_martin_de_diego_zuccalli

Takes two to three minutes, most of them to compile; about one minute with DALEMBERT_EXAMPLES_FAST=1 and the flags that
`make examples` gives to XLA.
"""

import os
import sys
from pathlib import Path

from dalembert.papers import PAPERS


def main(folder: Path) -> None:
    paper = PAPERS["colombo-martin-de-diego-zuccalli"]
    print(paper.title)

    # The fast setting takes fewer steps: it shows that everything works.
    paper.run(folder, fast=os.environ.get("DALEMBERT_EXAMPLES_FAST") == "1")

    for file in sorted(folder.iterdir()):
        print(f"  {file.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/colombo_martin_de_diego_zuccalli"))
