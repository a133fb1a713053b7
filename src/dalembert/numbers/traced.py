"""Whether JAX is tracing: inside jit, vmap and grad values cannot be looked at."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.core import Tracer

try:
    from jax.extend.core import get_opaque_trace_state
except ImportError:  # where it stands in the lowest version that is allowed
    from jax.core import get_opaque_trace_state

with jax.ensure_compile_time_eval():
    _OUTSIDE = get_opaque_trace_state()


def outside() -> bool:
    """Whether operations give values here, by a look that costs less than an operation: True outside of jit, vmap, grad."""
    return get_opaque_trace_state() == _OUTSIDE


def is_traced(*trees) -> bool:
    """Whether values are being traced, inside jit, vmap or grad: they have shapes but no numbers yet.

    Under vmap and grad only arguments that depend on the traced ones are tracers; under jit every operation is traced,
    even on constants.

    Args:
        *trees: pytrees whose leaves are examined.

    Returns:
        Whether one of the leaves, or the surrounding program, is being traced.
    """
    # The first operation that is carried out compiles a program, and a cold start waits for it.
    probe = () if outside() else (jnp.add(0.0, 0.0),)
    return any(isinstance(leaf, Tracer) for leaf in (*probe, *jax.tree.leaves(trees)))
