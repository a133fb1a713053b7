"""What determines the bits of a run besides its record: equations as they are computed, what they read, the processor."""

from __future__ import annotations

import hashlib
import json
import platform

import numpy as np

from dalembert.native.llvm.jit import host


def determined(native: bool, equations: str, inputs: np.ndarray) -> dict[str, str]:
    """equations: hash of the machine code, or of what JAX reads; inputs: the numbers that they read."""
    return {
        "backend": "native" if native else "jax", "equations": equations,
        "inputs": hashlib.sha256(np.ascontiguousarray(inputs).tobytes()).hexdigest(),
        "processor": processor(),
    }  # fmt: skip


def processor() -> str:
    """By what it rounds: the features of this one, and the C library."""
    return json.dumps([*host(), *platform.libc_ver()])
