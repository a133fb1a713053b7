"""Paper: a publication and the function that works it out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Paper:
    """One publication, and the function that works it out.

    Attributes:
        name: as on the command line.
        title: authors and title.
        run: run(folder, fast=False) writes figures, table.csv and report.md into the folder (pathlib.Path), which it makes.
            fast: fewer steps and shorter times, to see that everything works; its numbers are not those of the paper.

    Example:
        >>> from dalembert.papers import PAPERS
        >>> sorted(PAPERS)
        ['borda-fernandez-grillo', 'colombo-martin-de-diego-zuccalli', 'jimenez-scheurle']
    """

    name: str
    title: str
    run: Callable[..., None]
