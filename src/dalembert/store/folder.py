"""The folder of a store: made whole under another name, then given its own; and its one writer."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

from dalembert.numbers import as_new_file
from dalembert.store.atomic import flush


@contextlib.contextmanager
def create_folder(place: File) -> Iterator[File]:
    """A folder beside the place, which is renamed when all that a reader needs is in it; FileExistsError where somebody else
    was first."""
    partial = place.with_name(f".dalembert-{secrets.token_hex(8)}.part")
    try:
        yield partial
        flush(*partial.rglob("zarr.json"))
        try:
            os.rename(partial, place)
        except OSError as error:
            if place.exists():
                raise refusal(place) from error
            raise
        flush(place / "zarr.json")
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def refusal(place: File) -> FileExistsError:
    """The error of a store that is there, and is not replaced."""
    how = "exists; dalembert.resume goes on with a run, the same call with a sweep; give another name, or delete it"
    return FileExistsError(errno.EEXIST, f"store: {how}", os.fspath(place))


def as_new_store(store: Any, what: str) -> File:
    """The name of a store that can be made. what: is in it, in words."""
    return as_new_file(store, "store", (".zarr",), f"{what} is stored in Zarr")


def drop_partial(place: File) -> None:
    """Remove the files that a killed writer has left in the folders of the arrays."""
    for file in place.glob("*/**/.dalembert-*.part"):
        file.unlink(missing_ok=True)


class Lock:
    """Held from when it is made until `close`; the operating system takes it back when the process ends, however it ends.
    OSError where another one holds it."""

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
