"""Paper: a publication and the function that works it out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Paper:
    """One publication, and the function that works it out.

    Attributes:
        name: the name for `python -m papers`.
        title: the authors and the title.
        run: run(folder, fast=False) makes the folder (a pathlib.Path) and writes figures, table.csv and report.md into
            it. fast=True takes fewer steps and shorter times, to see that everything works; its numbers are not those
            of the paper.

    Example:
        >>> from papers import PAPERS
        >>> sorted(PAPERS)
        ['borda-fernandez-grillo', 'colombo-martin-de-diego-zuccalli', 'jimenez-scheurle']
    """

    name: str
    title: str
    run: Callable[..., None]
