"""Hand-written C as a library."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")


def built(source: str, folder: Path, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """The C file as a library."""
    library = folder / ("".join([source, *flags]).replace("/", "_") + ".so")
    subprocess.run(["gcc", *FLAGS, *flags, str(HERE / "c" / source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))
