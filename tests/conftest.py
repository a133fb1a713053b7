"""Compiled programs are shared by the test processes: XLA finds a program that another test has compiled already."""

from pathlib import Path

import jax

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "jax"

jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
