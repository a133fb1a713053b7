"""From JAX functions to machine code: jaxpr → scalar graph → LLVM. Knows no mechanics."""

from dalembert.native.assembly.frontal import BoundFactorization, FrontalFactorization, Summand, symbolic_plan
from dalembert.native.assembly.function import CompiledFunction, compile_function
from dalembert.native.assembly.windows import (
    Accumulation,
    Chosen,
    OnceTraced,
    Places,
    Windowed,
    compile_accumulation,
    vanishing,
)
from dalembert.native.flow.flow import (
    Accuracy,
    CompiledFlow,
    FlowArrays,
    FlowFunctions,
    FlowRuns,
    ImplicitPart,
    Integration,
    Solved,
    Travelled,
    compile_flow,
    outputs_along,
    travel,
)
from dalembert.native.flow.projection import compile_projection
from dalembert.native.graph.graph import Unsupported
from dalembert.native.llvm.cache import CACHE, Cache
from dalembert.native.llvm.dense import CONVERGED as ROOT_FOUND
from dalembert.native.root import CompiledRoot, compile_root
from dalembert.native.stepper.arrays import COUNTED, COUNTS, counts
from dalembert.native.stepper.compiled import CompiledStep, compile_step
from dalembert.native.stepper.step import Sample, StepFunctions
from dalembert.native.threads import processors
from dalembert.native.trace.elementwise import check_type
from dalembert.native.trace.place import native_first
from dalembert.native.trace.tracer import supported
from dalembert.native.xla import register, run_by_xla, travel_by_xla

__all__ = [
    "CACHE",
    "COUNTED",
    "COUNTS",
    "ROOT_FOUND",
    "Accumulation",
    "Accuracy",
    "BoundFactorization",
    "Cache",
    "Chosen",
    "CompiledFlow",
    "CompiledFunction",
    "CompiledRoot",
    "CompiledStep",
    "FlowArrays",
    "FlowFunctions",
    "FlowRuns",
    "FrontalFactorization",
    "ImplicitPart",
    "Integration",
    "OnceTraced",
    "Places",
    "Sample",
    "Solved",
    "StepFunctions",
    "Summand",
    "Travelled",
    "Unsupported",
    "Windowed",
    "check_type",
    "compile_accumulation",
    "compile_flow",
    "compile_function",
    "compile_projection",
    "compile_root",
    "compile_step",
    "counts",
    "native_first",
    "outputs_along",
    "processors",
    "register",
    "run_by_xla",
    "supported",
    "symbolic_plan",
    "travel",
    "travel_by_xla",
    "vanishing",
]
