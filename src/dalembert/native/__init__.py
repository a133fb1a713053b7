"""From JAX functions to machine code: jaxpr → scalar graph → LLVM. Knows no mechanics."""

from dalembert.native.graph import Unsupported

__all__ = ["Unsupported"]
