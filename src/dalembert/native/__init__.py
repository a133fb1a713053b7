"""From JAX functions to machine code: jaxpr → scalar graph → LLVM. Knows no mechanics."""

from dalembert.native.accumulate import Accumulation, Places, Windowed, compile_accumulation, vanishing
from dalembert.native.cache import CACHE, Cache
from dalembert.native.compiled import CompiledStep, Sample, compile_step
from dalembert.native.descent import CONVERGED, Sum, descend
from dalembert.native.description import StepFunctions
from dalembert.native.front_plan import Summand, plan
from dalembert.native.fronts import Bound, Fronts
from dalembert.native.function import compile_function
from dalembert.native.graph import Unsupported
from dalembert.native.handles import register, run_by_xla
from dalembert.native.layout import COUNTS, counts
from dalembert.native.trace import supported

__all__ = [
    "CACHE",
    "CONVERGED",
    "COUNTS",
    "Accumulation",
    "Bound",
    "Cache",
    "CompiledStep",
    "Fronts",
    "Places",
    "Sample",
    "StepFunctions",
    "Sum",
    "Summand",
    "Unsupported",
    "Windowed",
    "compile_accumulation",
    "compile_function",
    "compile_step",
    "counts",
    "descend",
    "plan",
    "register",
    "run_by_xla",
    "supported",
    "vanishing",
]
