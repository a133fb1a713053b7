"""From JAX functions to machine code: jaxpr → scalar graph → LLVM. Knows no mechanics."""

from dalembert.native.assembly.frontal import BoundFactorization, FrontalFactorization, Summand, symbolic_plan
from dalembert.native.assembly.function import CompiledFunction, GraphFunction, compile_function, translate_function
from dalembert.native.assembly.windows import (
    Accumulation,
    Chosen,
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
    graph_flow,
    outputs_along,
    travel,
)
from dalembert.native.flow.loop_code import DENSE, ERROR_3, ERROR_5, NODES, STAGES
from dalembert.native.flow.projection import compile_projection
from dalembert.native.graph.dependence import Dependence, evaluate, evaluate_at_states, needed_nodes
from dalembert.native.graph.derivative import SLOPES, directional_derivative, jacobian
from dalembert.native.graph.elimination import choose_order, definite_parts, eliminate, parity
from dalembert.native.graph.graph import Graph, Unsupported, express, operands
from dalembert.native.graph.simplify import gather_factors, replace_nodes, with_angles
from dalembert.native.llvm.cache import CACHE, Cache, host
from dalembert.native.llvm.compilation import object_file
from dalembert.native.llvm.dense import CONVERGED as ROOT_FOUND
from dalembert.native.llvm.dense import EXACT, NOT_CONVERGED, NOT_FINITE, SINGULAR, SOLVED, pivoted_solver
from dalembert.native.llvm.packing import Packing
from dalembert.native.root import CompiledRoot, compile_root
from dalembert.native.stepper.arrays import (
    COUNTED,
    COUNTS,
    HISTORY,
    LEAP,
    OF_STAGE,
    REFINEMENT,
    SINCE,
    SMOOTH,
    STAGE_HISTORY,
    counts,
    history_length,
)
from dalembert.native.stepper.compiled import CompiledStep, compile_step
from dalembert.native.stepper.linear_systems import choose_plan
from dalembert.native.stepper.step import Sample, StepFunctions, translate
from dalembert.native.threads import FIRST_STEPS, as_threads, next_chunk, on_threads, processors, run_watched
from dalembert.native.trace.elementwise import check_type
from dalembert.native.trace.linear_algebra import LARGEST_DENSE, solve_large
from dalembert.native.trace.partition import cycles, matching, split_unknowns
from dalembert.native.trace.place import TOLD, native_first, refusing
from dalembert.native.trace.proof import ANALYTIC, CONTINUOUS
from dalembert.native.trace.tracer import Tracer, supported
from dalembert.native.xla import register, run_by_xla, travel_by_xla
