"""How the tests compile and compute: XLA's quick way, and programs shared by the test processes; one thread for each
process; and that Ctrl-C can be pressed."""

import contextlib
import gc
import os
import runpy
import signal
import threading
from importlib.metadata import version
from pathlib import Path

# Most of the suite's time is XLA's: many programs, each run a few times. The emitters without MLIR and level 0 compile in
# a third of the time. Results differ from those of XLA's defaults in the last bits; `XLA_FLAGS= make test` runs the
# suite with the defaults. XLA reads the variable when JAX starts, in subprocesses too.
#
# Of what is left, up to a fifth goes into a search for what loops compute alike at every turn, and into XLA's checks of
# itself: runs of a few steps do not earn it.
IDLE = "while-loop-invariant-code-motion,hlo-verifier"
FAST = f"--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 --xla_disable_hlo_passes={IDLE}"
if tuple(map(int, version("jaxlib").split(".")[:2])) < (
    0,
    11,
):  # newer ones end the process for a flag that they do not know
    FAST += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", FAST)

# There is a test process for every core. With threads of its own for small matrices each, they wait for one another at
# full speed: tests of boundary problems took twice the processor time. OpenBLAS reads the variable when NumPy starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax  # noqa: E402
import pytest  # noqa: E402
from jax._src import lru_cache  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jax._src.lib.mlir import ir  # noqa: E402

from dalembert.native.llvm import compilation  # noqa: E402

# What one process has compiled is read by the others and by later runs: a third less time. JAX writes into the file that
# others read; here it is written beside and renamed, since reading a part of it would be a warning, and fail a test.
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "jax"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def _put_whole(cache: lru_cache.LRUCache, key: str, value: bytes) -> None:
    temporary = cache.path / f"{key}.{os.getpid()}.tmp"
    temporary.write_bytes(value)
    temporary.replace(cache.path / f"{key}-cache")


lru_cache.LRUCache.put = _put_whole

# LLVM has a quick way of assigning registers, which the library takes for very long texts: a third of the time, and less
# for longer texts. Here it takes it for all that it compiles in a process apart. Shorter texts stay as they are: runs of
# small systems are compared to the bit, and to rounding. With other flags for XLA all machine code is that of users.
if os.environ["XLA_FLAGS"] == FAST:
    compilation.LONG = compilation.APART

# NATIVE_CPU=generic, or another name that LLVM knows: machine code as on that processor, in subprocesses too. A result
# that depends on the processor's rounding is a test's fault; `make processors` runs the suite as on several.
if os.environ.get("NATIVE_CPU"):
    folder = str(Path(__file__).parent / "processor")
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    runpy.run_path(f"{folder}/sitecustomize.py")

_make_context, _made, TURNS = mlir.make_ir_context, threading.local(), 200


def _context_used_again():
    """JAX loads all dialects of MLIR into a new context for each of thousands of programs, a sixth of a small one's time.

    Not while another program is lowered: what is cloned would go into that one, if the context were the same.
    """
    with contextlib.suppress(ValueError):  # which older versions raise where there is none
        if ir.Context.current is not None:
            return _make_context()
    turn, context = getattr(_made, "last", (TURNS, None))
    _made.last = (1, _make_context()) if turn >= TURNS else (turn + 1, context)
    return _made.last[1]


mlir.make_ir_context = _context_used_again

# JAX makes hundreds of thousands of objects for a program, few of them garbage: Python searches them less often.
gc.set_threshold(100_000, 30, 50)

# In the background of a shell Ctrl-C is ignored, by its children too: the tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MAPS = Path("/proc/self/maps")
MANY = 30_000


@pytest.fixture(autouse=True, scope="module")
def _what_stays_is_not_searched():
    """JAX keeps millions of objects of what it has traced; searching them for garbage takes seconds each time."""
    yield
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _not_too_many_programs():
    """XLA maps memory for every program it holds; a process may have 65530 maps, and the suite in one process has more."""
    yield
    if MAPS.exists() and len(MAPS.read_text().splitlines()) > MANY:
        jax.clear_caches()
