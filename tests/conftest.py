"""Compiled programs are shared by the test processes: XLA finds a program that another test has compiled already."""

from pathlib import Path

import jax
import pytest

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "jax"

jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


MAPS = Path("/proc/self/maps")
MANY = 30_000


@pytest.fixture(autouse=True, scope="module")
def _not_too_many_programs():
    """XLA maps memory for every program it holds; a process may have 65530 maps, and the suite in one process has more."""
    yield
    if MAPS.exists() and len(MAPS.read_text().splitlines()) > MANY:
        jax.clear_caches()
