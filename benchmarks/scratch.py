"""Where a benchmark may leave what it writes: a folder of its own, gone at the end."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """The working folder becomes an empty one, where CasADi compiles and fatrop writes what it failed with."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield Path(folder)
