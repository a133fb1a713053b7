"""From JAX functions to machine code: jaxpr → scalar graph → LLVM. Knows no mechanics."""

from dalembert.native.compiled import CompiledStep, Sample, compile_step
from dalembert.native.description import StepFunctions
from dalembert.native.graph import Unsupported

__all__ = ["CompiledStep", "Sample", "StepFunctions", "Unsupported", "compile_step"]
