"""Files of pictures and pages: written beside their place and put there whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path as File
from typing import Any

from dalembert.numbers import described


def check_new(file: Any, endings: tuple[str, ...], what: str) -> File:
    """The file, if its ending and its folder are right."""
    if not isinstance(file, str | os.PathLike):
        raise TypeError(f"file: found {described(file)}; give the name of a file")
    target = File(file)
    if target.suffix not in endings:
        raise ValueError(f"file: found '{target}'; {what}, give a name that ends in {', '.join(endings)}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"file: the folder {target.parent} does not exist; make it first")
    if target.is_dir():
        raise IsADirectoryError(f"file: {target} is a folder; give the name of a file")
    return target


def written(target: File, writing: Callable[[File], Any]) -> None:
    """The file that `writing` makes at another place of the same folder, put where it belongs when it is complete."""
    with tempfile.TemporaryDirectory(prefix=".dalembert-", dir=target.parent) as folder:
        place = File(folder) / target.name
        writing(place)
        os.replace(place, target)
