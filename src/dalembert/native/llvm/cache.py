"""Machine code by its content: in memory as long as it is used, and on disk.

LLVM is used through llvmlite, which is loaded at the first use.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import functools
import hashlib
import threading
import weakref
from pathlib import Path
from typing import Any

from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.compilation import code_level, object_file, target
from dalembert.native.llvm.dense import LAPACK_SOLVE, lapack_address
from dalembert.tracing import CODE, Disk, Remembered

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


KEPT = 512  # codes that stay in memory though nothing uses them at the moment


class Cache(Disk):
    """Machine code by the text it was compiled from: in memory, then on disk, then by compiling.

    compilations, reads: how often code was compiled, and how often taken from disk. Code that somebody holds on to stays in
    memory; of the rest, what was used last.
    """

    def __init__(self, folder: Path | str | None = "", kept: int = KEPT):
        super().__init__(folder)
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

    def _load(self, key: str, text: str, plain: bool) -> Loaded:
        data = self._read(key + CODE)
        if data is not None:
            self.reads += 1
            return Loaded(data)
        data = object_file(text, plain, *host())
        self.compilations += 1
        self._write(key + CODE, data)
        return Loaded(data)


CACHE = Cache()  # the one all compilations share
