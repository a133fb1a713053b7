"""An equation that stands on a graph already: ẏ = f(y, t, *given), and whether it holds."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.native.assembly.function import GraphFunction
from dalembert.native.flow.choices import Choices
from dalembert.native.flow.field_code import field
from dalembert.native.flow.flow import CompiledFlow
from dalembert.native.flow.integration import FlowCodes
from dalembert.native.flow.loop_code import loop
from dalembert.native.llvm.cache import CACHE, Cache


def graph_flow(equation: GraphFunction, outputs: GraphFunction, positions: int, cache: Cache = CACHE) -> CompiledFlow:
    """equation: results (ẏ, whether it holds); where it does not, the integration ends. outputs: of the same graph;
    positions: as of `FlowFunctions`."""
    g, (slope, holds) = equation.graph, equation.results
    nothing = g.constant(float("nan"))
    only = np.array([g.apply("select", int(holds.item()), i, nothing) for i in slope.tolist()])
    whole = dataclasses.replace(equation, results=(only,))
    codes = FlowCodes(*(cache.load(text, plain=True) for text in (field(), loop())))
    choices = Choices.of(equation, cache)
    code = whole.compiled(cache), outputs.compiled(cache)
    return CompiledFlow(len(only), *code, None, None, codes, choices, positions=positions)
