"""Machine code kept on disk, keyed by its content: text, processor and compiler version."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from pathlib import Path

from dalembert.native.machine import OPTIMIZATION, Loaded, binding, compile_object, host

MAGIC = b"dalembert object 1\n"


def default_folder() -> Path | None:
    """$DALEMBERT_CACHE, or dalembert/ in the user's cache folder; an empty $DALEMBERT_CACHE means: keep nothing."""
    chosen = os.environ.get("DALEMBERT_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "dalembert"
    except RuntimeError:  # no home folder
        return None


class Cache:
    """Machine code by the text it was compiled from: in memory, then on disk, then by compiling.

    compilations, reads: how often code was compiled, and how often taken from disk. A damaged file is ignored and
    written again; a folder that cannot be read or written costs nothing but the compilation.
    """

    def __init__(self, folder: Path | str | None = ""):
        self.folder = default_folder() if folder == "" else None if folder is None else Path(folder)
        self.compilations = 0
        self.reads = 0
        self._loaded: dict[str, Loaded] = {}
        self._lock = threading.Lock()

    def load(self, text: str, plain: bool) -> Loaded:
        """The machine code of an LLVM module, in memory. plain: as in compile_object."""
        key = self.key(text, plain)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = self._load(key, text, plain)
            return self._loaded[key]

    @staticmethod
    def key(text: str, plain: bool) -> str:
        """Hash of all that the machine code depends on."""
        parts = (text, str(plain), *host(), str(binding().llvm_version_info), str(OPTIMIZATION))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _load(self, key: str, text: str, plain: bool) -> Loaded:
        data = self._read(key)
        if data is not None:
            self.reads += 1
            return Loaded(data)
        data = compile_object(text, plain)
        self.compilations += 1
        self._write(key, data)
        return Loaded(data)

    def _read(self, key: str) -> bytes | None:
        """The stored object; None if there is none, or if its checksum is wrong."""
        if self.folder is None:
            return None
        try:
            stored = (self.folder / f"{key}.o").read_bytes()
        except OSError:
            return None
        head, data = stored[: len(MAGIC) + 32], stored[len(MAGIC) + 32 :]
        return data if head == MAGIC + hashlib.sha256(data).digest() else None

    def _write(self, key: str, data: bytes) -> None:
        """Store under a temporary name, then rename: other processes see the whole file or none."""
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=f"{key}.", suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(MAGIC + hashlib.sha256(data).digest() + data)
                os.replace(temporary, self.folder / f"{key}.o")
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)


CACHE = Cache()  # the one all compilations share
