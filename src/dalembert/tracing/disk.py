"""Files that later processes read again, machine code and what was traced, where only their owner can write."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import secrets
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dalembert.messages import warn
from dalembert.tracing.lasting import lasting_key

CODE, VALUE = ".o", ".value"  # endings of files
LARGEST = 512 * 2**20  # bytes of all files together
AFTER_CLEANING = 0.8
ABANDONED = 3600.0  # seconds after which a file that was not finished is removed

_WRITTEN: dict[str, int] = {}  # bytes in a folder, as far as this process knows
_LOCK = threading.Lock()


class PrivateFolder:
    """A folder, opened once, so that nobody can put another in its place between a check and its use.

    PermissionError, with the reason, where others could have written to it; other OSErrors where it cannot be used. Use it
    in a `with` statement.
    """

    def __init__(self, path: Path):
        if not path.is_absolute():
            raise PermissionError(
                f"{str(path)!r} is a relative path, which any working folder could stand for; give an absolute one"
            )
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._at = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        reason = _open_to_others(os.fstat(self._at))
        if reason:
            os.close(self._at)
            raise PermissionError(f"{str(path)!r} {reason}; give a folder of your own with mode 0700")

    def __enter__(self) -> PrivateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._at)

    def read(self, name: str) -> bytes:
        """A file's content, noted as used; PermissionError where others could have written to it."""
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._at)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or _open_to_others(found):
                raise PermissionError(f"{name!r} may have been written by others")
            with contextlib.suppress(OSError):
                os.utime(handle)
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """A file, under a temporary name first: other processes see all of it or nothing. The files used least recently go
        when all together are too large."""
        temporary = f"{name}.{secrets.token_hex(8)}.tmp"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=self._at)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, name, src_dir_fd=self._at, dst_dir_fd=self._at)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self._at)
            raise
        with _LOCK:
            known = _WRITTEN.get(str(self.path))
            total = self.size()[1] if known is None else known + len(content)
            _WRITTEN[str(self.path)] = self._clean() if total > LARGEST else total

    def _files(self) -> list[tuple[float, int, str]]:
        """(time of last use, bytes, name) of the files, in this order."""
        found = []
        with os.scandir(self._at) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode) and entry.name.endswith((CODE, VALUE, ".tmp")):
                        found.append((about.st_mtime, about.st_size, entry.name))
        return sorted(found)

    def size(self) -> tuple[int, int]:
        """Number of files, and their bytes."""
        files = self._files()
        return len(files), sum(size for _, size, _ in files)

    def clear(self) -> int:
        """Remove the files that a cache has written, and no others; how many went."""
        removed = 0
        for _, _, name in self._files():
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._at)
                removed += 1
        with _LOCK:
            _WRITTEN.pop(str(self.path), None)
        return removed

    def _clean(self) -> int:
        """Remove what was used least recently; how many bytes are left."""
        files, now = self._files(), time.time()
        total = sum(size for _, size, _ in files)
        for used, size, name in files:
            unfinished = name.endswith(".tmp")
            if (not unfinished and total > AFTER_CLEANING * LARGEST) or (unfinished and now - used > ABANDONED):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._at)
                total -= size
        return total


def _open_to_others(about: os.stat_result) -> str:
    """Why a file or folder cannot be trusted; empty if it can."""
    if about.st_uid != os.geteuid():
        return f"belongs to another user ({about.st_uid})"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(about.st_mode):04o})"
    return ""


MAGIC = b"dalembert object 1\n"
T = TypeVar("T")


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


class Disk:
    """Files in a folder, and values by what decides them.

    A damaged file is ignored and written again. A folder that cannot be read or written keeps nothing, and so does one that
    others can write to, with a warning: what lies on disk is executed.
    """

    def __init__(self, folder: Path | str | None = ""):
        self.folder = default_folder() if folder == "" else None if folder is None else Path(folder)

    def result(self, function: Callable[..., T], *arguments: Any) -> T:
        """function(*arguments), or what it returned in an earlier process for arguments that do the same.

        It is pickled, since what lies in this folder is executed anyway.
        """
        key = None if self.folder is None else lasting_key(function, *arguments)
        found = self.recall(key)
        if found is None:
            found = function(*arguments)
            self.keep(key, None if key is None else pickle.dumps(found))
        return found

    def recall(self, key: str | None) -> Any:
        """The value of a key; None if there is none."""
        data = None if key is None else self._read(key + VALUE)
        return None if data is None else pickle.loads(data)

    def keep(self, key: str | None, pickled: bytes | None) -> None:
        """Keep a value, where it has a key and could be pickled."""
        if key is not None and pickled is not None:
            self._write(key + VALUE, pickled)

    def size(self) -> tuple[int, int]:
        """Files on disk and their bytes."""
        with self._present() as folder:
            return folder.size() if folder else (0, 0)

    def clear(self) -> int:
        """Remove the files on disk; how many there were. Code in memory stays."""
        with self._present() as folder:
            return folder.clear() if folder else 0

    def _present(self) -> contextlib.AbstractContextManager[PrivateFolder | None]:
        """The folder, where there is one already."""
        there = self.folder is not None and self.folder.is_dir()
        return (self._folder() if there else None) or contextlib.nullcontext()

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

    def _read(self, name: str) -> bytes | None:
        """The stored object; None if there is none, if another user could have written it, or if its checksum is wrong."""
        folder = self._folder()
        if folder is None:
            return None
        with folder, contextlib.suppress(OSError):
            stored = folder.read(name)
            head, data = stored[: len(MAGIC) + 32], stored[len(MAGIC) + 32 :]
            return data if head == MAGIC + hashlib.sha256(data).digest() else None
        return None

    def _write(self, name: str, data: bytes) -> None:
        folder = self._folder()
        if folder is None:
            return
        with folder, contextlib.suppress(OSError):
            folder.write(name, MAGIC + hashlib.sha256(data).digest() + data)


DISK = Disk()
