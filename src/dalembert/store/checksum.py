"""The last line of a stored file: the SHA-256 of every byte before it, checked before anything is made of them.

HDF5 has no checksum of its own here, and its library must not be given damaged bytes: of 2000 files with one changed byte it
read 385 as other numbers, and one of them kept it busy for ever. HDF5 files may be followed by other bytes, so that every
NetCDF and HDF5 library reads a file with such a line.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import BinaryIO

MARK = b"\ndalembert sha256 "
LENGTH = len(MARK) + 64 + 1
# An attribute of the file. Where it is found without the line, the file has lost its end or was changed by another program.
HDF5 = b"\x89HDF\r\n\x1a\n"  # with which every such file begins
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
