"""A file written whole or not at all: the old content is there until the new one is on the disk, then the new one is. The
folder of a store: made whole under another name, then given its own; and its one writer.

The last line of a stored file is the SHA-256 of every byte before it, checked before anything is made of them. HDF5 has no
checksum of its own here, and its library must not be given damaged bytes: of 2000 files with one changed byte it read 385 as
other numbers, and one of them kept it busy for ever. HDF5 files may be followed by other bytes: every library of NetCDF or
HDF5 reads a file with such a line.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as File
from typing import IO, Any, BinaryIO

from dalembert.numbers import as_new_file

MARK = b"\ndalembert sha256 "
LENGTH = len(MARK) + 64 + 1
HDF5 = b"\x89HDF\r\n\x1a\n"  # with which every such file begins
# An attribute of the file. Where it is found without the line, the file has lost its end or was changed by another program.
NOTE = "the last line of this file is the SHA-256 of all bytes before it"


class FileError(ValueError):
    """SHA-256 ≠ last line of the file, or not a NetCDF file at all: a stored file is damaged, or was not written by
    `save`.

    Args:
        file: name of the file.
        problem: what was found, and what would be right.

    Example:
        >>> str(da.FileError("run.nc", "is damaged"))
        'file: run.nc is damaged'
    """

    def __init__(self, file: str | os.PathLike, problem: str):
        self.file, self.problem = os.fspath(file), problem
        super().__init__(self.file, problem)

    def __str__(self) -> str:
        return f"file: {self.file} {self.problem}"


def open_regular(file: str | os.PathLike) -> BinaryIO:
    """A file for reading; FileError for a folder, a pipe or a device, from which reading may never end."""
    if not stat.S_ISREG(os.stat(file).st_mode):
        raise FileError(file, "is not a regular file, but a folder, a pipe or a device")
    return open(file, "rb")


def read_content(file: str | os.PathLike) -> bytes:
    """The bytes of a file that ends in such a line or begins like HDF5; others are refused before they are read."""
    with open_regular(file) as stream:  # at once, so that a save meanwhile does not matter
        begin = stream.read(len(HDF5))
        stream.seek(max(stream.seek(0, os.SEEK_END) - LENGTH, 0))
        if begin != HDF5 and not stream.read(LENGTH).startswith(MARK):
            raise FileError(file, "cannot be read as a NetCDF file: it does not begin as HDF5 does")
        stream.seek(0)
        return stream.read()


def last_line(content: bytes | memoryview) -> bytes:
    """The line that vouches for the content."""
    return MARK + hashlib.sha256(content).hexdigest().encode() + b"\n"


def verify_checksum(content: bytes, file: str | os.PathLike) -> bool:
    """True where the last line is the sum of the bytes before it; False for a file made without one.

    FileError where the line is wrong, or missing though the file says that it has one.
    """
    whole = memoryview(content)
    body, line = whole[:-LENGTH], bytes(whole[-LENGTH:])
    if line.startswith(MARK):
        if line != last_line(body):
            raise FileError(file, "is damaged: its SHA-256 is not that in its last line; restore it from a copy")
        return True
    if NOTE.encode() in content:
        raise FileError(
            file,
            "was cut off, or changed by another program after dalembert.save: its last line is not the SHA-256 of the rest. "
            "Restore it from a copy; what another program has changed on purpose, "
            "dalembert.from_xarray(xarray.load_dataset(file)) reads unchecked",
        )
    return False


# What a file system answers that cannot reserve space, or flush a folder: both are kindnesses, and writing goes on without.
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)

_UNCHANGED = ("file: not written", "what was there before is unchanged")

FEW, TOGETHER = 4, 16  # files that are flushed one after the other; threads that flush more of them


def write(target: str | os.PathLike, *content: bytes | memoryview, flushed: bool = True) -> None:
    """The pieces of content as the file `target`, in one step: a reader finds the old file or the new one, never half.

    They go to a temporary of a new name beside the target, `.dalembert-….part`, whose space is reserved first; it is flushed
    to the disk and renamed. A symbolic link is followed, as by `open`: the file it points to is replaced, the link stays.
    A file that is replaced keeps its mode, and its owner and group where the system allows that; a new one has what `open`
    gives. Another hard link to it keeps the old content. Not flushed, it may be lost with the power until `flush`.
    Errors: OSError with the target as file name (PermissionError, IsADirectoryError, …); then nothing has changed.
    """
    with explain_errors(target, *_UNCHANGED):
        place = File(os.path.realpath(target))
        _write(place, _existing_entry(place), content, flushed)


def check_replaceable(target: str | os.PathLike) -> None:
    """Raises OSError where `write` would refuse to replace what stands at the target: before the content is computed."""
    with explain_errors(target, *_UNCHANGED):
        _existing_entry(File(os.path.realpath(target)))


@contextlib.contextmanager
def explain_errors(target: str | os.PathLike, what: str, then: str, own: tuple[type[OSError], ...] = ()) -> Iterator[None]:
    """Errors of the system with the name that was asked for, and not that of the temporary. what: failed; then: what is
    there now, in words; own: those that say themselves what is wrong."""
    try:
        yield
    except own:
        raise
    except OSError as error:
        reason = f"{what} ({error.strerror or error}); {then}"
        raise OSError(error.errno or errno.EIO, reason, os.fspath(target)) from error


def _write(place: File, old: os.stat_result | None, content: tuple[bytes | memoryview, ...], flushed: bool) -> None:
    partial = place.with_name(f".dalembert-{secrets.token_hex(8)}.part")
    # Until it has the mode of the old file, nobody else may read what will perhaps be private.
    mode = 0o666 if old is None else 0o600
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with open(handle, "wb") as stream:
            _reserve(stream, sum(len(piece) for piece in content))
            for piece in content:
                stream.write(piece)
            stream.flush()
            if old is not None:
                _inherit(stream, old)
            if flushed:
                os.fsync(stream.fileno())
        os.replace(partial, place)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    if flushed:
        flush_one(place.parent)


def flush(*places: File) -> None:
    """Files that were written without, and their folders. Many at a time: a disk that is told of them together answers for
    all with one commit of its journal, 25 files in 0.01 s that took 0.2 s one after the other."""
    folders = {place.parent for place in places}
    with contextlib.ExitStack() as stack:
        each: Callable = map if len(places) < FEW else stack.enter_context(ThreadPoolExecutor(TOGETHER)).map
        for entries in (places, folders):
            list(each(flush_one, entries))


def _existing_entry(place: File) -> os.stat_result | None:
    """The entry at the place, None if there is none; OSError where it must not be replaced."""
    try:
        found = os.stat(place)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and no file")
    if not os.access(place, os.W_OK):  # renaming asks only the folder; a file made read-only shall stay what it is
        raise PermissionError(errno.EACCES, "the file there is read-only")
    return found


def _reserve(stream: IO[bytes], size: int) -> None:
    """A disk that is too full says so here, before anything is written."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(stream.fileno(), 0, size)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise


def _inherit(stream: IO[bytes], old: os.stat_result) -> None:
    """Owner and group as far as the system allows, each for itself; then the mode, which a change of owner may cut."""
    if os.name != "posix":
        return
    new = os.fstat(stream.fileno())
    for wanted, found, owner in ((old.st_uid, new.st_uid, (old.st_uid, -1)), (old.st_gid, new.st_gid, (-1, old.st_gid))):
        if wanted != found:
            with contextlib.suppress(PermissionError):
                os.fchown(stream.fileno(), *owner)
    os.fchmod(stream.fileno(), stat.S_IMODE(old.st_mode))


def flush_one(place: File) -> None:
    """A file, or a folder, whose new names then survive a power failure, too; one that may not be read cannot be flushed."""
    folder = place.is_dir()
    if folder and (os.name != "posix" or not os.access(place, os.R_OK)):
        return
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not folder or error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(handle)


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
