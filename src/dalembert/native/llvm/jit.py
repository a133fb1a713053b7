"""LLVM through llvmlite: from assembly text to machine code in memory. llvmlite is loaded at the first use."""

from __future__ import annotations

import contextlib
import ctypes.util
import functools
from typing import Any

from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm import lapack
from dalembert.native.llvm.compilation import target

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
        if lapack.NAME.encode() in data:
            llvm.add_symbol(lapack.NAME, lapack.address())
        empty = llvm.parse_assembly("")
        self._engine = llvm.create_mcjit_compiler(empty, target(llvm, *host()))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        self._addresses: dict[str, int] = {}

    def address(self, name: str) -> int:
        """Where a function stands."""
        found = self._addresses.get(name)
        if found is None:
            found = self._addresses[name] = self._engine.get_function_address(name)
        if found == 0:
            raise Unsupported("machine code", f"holds no function {name}")
        return found

    def variable(self, name: str) -> int:
        """Where a global variable stands."""
        return self._engine.get_global_value_address(name)


@functools.cache
def lanes_of_processor() -> int:
    """Doubles in one vector register of this processor, times two where registers are few: enough to hide latencies."""
    features = host()[2].split(",")
    return 16 if "+avx512f" in features else 8
