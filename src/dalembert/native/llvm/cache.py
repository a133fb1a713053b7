"""Machine code by its content: in memory as long as it is used, and on disk where only its owner can write."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import weakref
from pathlib import Path

from dalembert.messages import warn
from dalembert.native.llvm.compilation import LONG, OPTIMIZATION, object_file
from dalembert.native.llvm.folder import PrivateFolder
from dalembert.native.llvm.jit import Loaded, binding, host
from dalembert.tracing import Remembered

MAGIC = b"dalembert object 1\n"
KEPT = 512  # codes that stay in memory though nothing uses them at the moment


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
    written again; a folder that cannot be read or written costs nothing but the compilation, and so does one that others can
    write to, with a warning: what lies on disk is executed. Code that somebody holds on to stays in memory; of the rest,
    what was used last.
    """

    def __init__(self, folder: Path | str | None = "", kept: int = KEPT):
        self.folder = default_folder() if folder == "" else None if folder is None else Path(folder)
        self.compilations = 0
        self.reads = 0
        self._kept: Remembered[Loaded] = Remembered(kept)
        self._loaded: weakref.WeakValueDictionary[str, Loaded] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def load(self, text: str, plain: bool) -> Loaded:
        """The machine code of an LLVM module, in memory. plain: as in `object_file`."""
        key = self.key(text, plain)
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                found = self._loaded[key] = self._load(key, text, plain)
            return self._kept.put(key, found)

    @staticmethod
    def key(text: str, plain: bool) -> str:
        """Hash of all that the machine code depends on."""
        parts = (text, str(plain), *host(), str(binding().llvm_version_info), str(OPTIMIZATION), str(LONG))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _load(self, key: str, text: str, plain: bool) -> Loaded:
        data = self._read(key)
        if data is not None:
            self.reads += 1
            return Loaded(data)
        data = object_file(text, plain, *host())
        self.compilations += 1
        self._write(key, data)
        return Loaded(data)

    def size(self) -> tuple[int, int]:
        """Files on disk and their bytes."""
        folder = self._folder() if self.folder is not None and self.folder.is_dir() else None
        if folder is None:
            return 0, 0
        with folder:
            return folder.size()

    def clear(self) -> int:
        """Remove the files on disk; how many there were. Code in memory stays."""
        folder = self._folder() if self.folder is not None and self.folder.is_dir() else None
        if folder is None:
            return 0
        with folder:
            return folder.clear()

    def _folder(self) -> PrivateFolder | None:
        """The folder, opened; None if there is none that can be trusted."""
        if self.folder is None:
            return None
        try:
            return PrivateFolder(self.folder)
        except PermissionError as reason:
            warn(f"DALEMBERT_CACHE: machine code is not kept, because {reason}")
            self.folder = None
        except OSError:
            pass
        return None

    def _read(self, key: str) -> bytes | None:
        """The stored object; None if there is none, if another user could have written it, or if its checksum is wrong."""
        folder = self._folder()
        if folder is None:
            return None
        with folder, contextlib.suppress(OSError):
            stored = folder.read(f"{key}.o")
            head, data = stored[: len(MAGIC) + 32], stored[len(MAGIC) + 32 :]
            return data if head == MAGIC + hashlib.sha256(data).digest() else None
        return None

    def _write(self, key: str, data: bytes) -> None:
        folder = self._folder()
        if folder is None:
            return
        with folder, contextlib.suppress(OSError):
            folder.write(f"{key}.o", MAGIC + hashlib.sha256(data).digest() + data)


CACHE = Cache()  # the one all compilations share
