"""Machine code by its content, and what was traced for it: in memory as long as it is used, and on disk where only its
owner can write.

LLVM is used through llvmlite, which is loaded at the first use.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import functools
import hashlib
import os
import pickle
import secrets
import stat
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dalembert.messages import warn
from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.compilation import code_level, object_file, target
from dalembert.native.llvm.dense import LAPACK_SOLVE, lapack_address
from dalembert.tracing import Remembered, lasting_key

CODE, VALUE = ".o", ".value"  # endings of files
VECTOR_LIBRARY = "libmvec.so.1"  # of the GNU C library on x86-64; errors of at most 4 units in the last place


@functools.cache
def binding() -> Any:
    """llvmlite.binding, ready for this processor; Unsupported if it is missing or refuses the processor."""
    try:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        library = ctypes.util.find_library("m")
        if library is not None:
            llvm.load_library_permanently(library)
        with contextlib.suppress(RuntimeError):  # not everywhere; mathematics.py uses it only where it is found here
            llvm.load_library_permanently(VECTOR_LIBRARY)
    except Exception as error:
        raise Unsupported("llvmlite", f"cannot be used here: {error}") from error
    return llvm


@functools.cache
def host() -> tuple[str, str, str]:
    """Triple, processor and features code is made for."""
    llvm = binding()
    return llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


class Loaded:
    """An object file in memory, and its functions; it stays as long as this object."""

    def __init__(self, data: bytes):
        llvm = binding()
        if LAPACK_SOLVE.encode() in data:
            llvm.add_symbol(LAPACK_SOLVE, lapack_address())
        empty = llvm.parse_assembly("")
        self._engine = llvm.create_mcjit_compiler(empty, target(llvm, *host()))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        self._addresses: dict[str, int] = {}

    def address(self, name: str) -> int:
        """Address of a function."""
        found = self._addresses.get(name)
        if found is None:
            found = self._addresses[name] = self._engine.get_function_address(name)
        if found == 0:
            raise Unsupported("machine code", f"holds no function {name}")
        return found

    def variable(self, name: str) -> int:
        """Address of a global variable."""
        return self._engine.get_global_value_address(name)


@functools.cache
def lanes_of_processor() -> int:
    """Doubles in one vector register of this processor, times two where registers are few: enough to hide latencies."""
    features = host()[2].split(",")
    return 16 if "+avx512f" in features else 8


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
    """Machine code by the text it was compiled from: in memory, then on disk, then by compiling; and values on disk by what
    decides them.

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
        parts = (text, str(plain), *host(), str(binding().llvm_version_info), str(code_level(text)))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def result(self, function: Callable[..., T], *arguments: Any) -> T:
        """function(*arguments), or what it returned in an earlier process for arguments that do the same.

        It is pickled, since what lies in this folder is executed anyway.
        """
        key = None if self.folder is None else lasting_key(function, *arguments)
        if key is None:
            return function(*arguments)
        data = self._read(key + VALUE)
        if data is not None:
            return pickle.loads(data)
        found = function(*arguments)
        self._write(key + VALUE, pickle.dumps(found))
        return found

    def _load(self, key: str, text: str, plain: bool) -> Loaded:
        data = self._read(key + CODE)
        if data is not None:
            self.reads += 1
            return Loaded(data)
        data = object_file(text, plain, *host())
        self.compilations += 1
        self._write(key + CODE, data)
        return Loaded(data)

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


CACHE = Cache()  # the one all compilations share
