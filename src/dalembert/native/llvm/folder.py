"""A folder on disk for files that are trusted as the program itself is: its owner alone can write there."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import threading
import time
from pathlib import Path

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
            total = self._total() if known is None else known + len(content)
            _WRITTEN[str(self.path)] = self._cleaned() if total > LARGEST else total

    def _files(self) -> list[tuple[float, int, str]]:
        """(time of last use, bytes, name) of the files, in this order."""
        found = []
        with os.scandir(self._at) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode) and entry.name.endswith((".o", ".tmp")):
                        found.append((about.st_mtime, about.st_size, entry.name))
        return sorted(found)

    def size(self) -> tuple[int, int]:
        """How many files there are, and their bytes."""
        files = self._files()
        return len(files), sum(size for _, size, _ in files)

    def clear(self) -> int:
        """Remove the files that are machine code, and no others; how many went."""
        removed = 0
        for _, _, name in self._files():
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._at)
                removed += 1
        with _LOCK:
            _WRITTEN.pop(str(self.path), None)
        return removed

    def _total(self) -> int:
        return sum(size for _, size, _ in self._files())

    def _cleaned(self) -> int:
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
