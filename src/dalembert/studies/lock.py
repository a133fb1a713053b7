"""One writer: a lock that the operating system takes back when its process ends, however it ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path as File


class Lock:
    """Held from when it is made until `close`, or the end of the process. OSError where another one holds it."""

    def __init__(self, place: File, store: File):
        import fcntl  # of Unix

        self._handle: int | None = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise BlockingIOError(errno.EAGAIN, "store: another process is writing this run", os.fspath(store)) from None

    def close(self) -> None:
        """Once or more."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
