"""A single JAX function as machine code: the graph without the run around it."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from dalembert.native.graph.graph import Graph
from dalembert.native.graph.simplify import simplify_for
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.cache import CACHE, Cache, Loaded
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.trace.elementwise import Nodes
from dalembert.native.trace.place import refusing
from dalembert.native.trace.tracer import Tracer

Written = tuple[tuple[tuple[int, ...], ...], np.ndarray, str]


@dataclasses.dataclass(frozen=True)
class CompiledFunction:
    """A function of arrays as machine code. shapes: of its results; captured: the numbers that it closes over."""

    shapes: tuple[tuple[int, ...], ...]
    captured: np.ndarray
    _code: Loaded

    def __call__(self, *values: Any) -> list[np.ndarray]:
        """The results at these values; float64 in and out."""
        result = np.empty(self.result_size)
        self.run(np.concatenate([*(np.ravel(np.asarray(v, float)) for v in values), self.captured]), result)
        parts = np.split(result, np.cumsum([math.prod(shape) for shape in self.shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def run(self, given: np.ndarray, result: np.ndarray) -> None:
        """The same with flat arrays in one piece; given: all values, then what was captured."""
        self._evaluate(given.ctypes.data, result.ctypes.data)

    @functools.cached_property
    def address(self) -> int:
        """Of void evaluate(given, result), as long as this object."""
        return self._code.address("evaluate")

    @functools.cached_property
    def result_size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    @functools.cached_property
    def _evaluate(self) -> Callable[[int, int], None]:
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.address)


@dataclasses.dataclass(frozen=True)
class GraphFunction:
    """The graph of a function of arrays; the inputs are the vectors x0, x1, … of it. results: nodes in their shapes."""

    graph: Graph
    tracer: Tracer
    sizes: tuple[int, ...]
    results: tuple[Nodes, ...]

    def compile(self, cache: Cache = CACHE) -> CompiledFunction:
        """The machine code."""
        return _load(self.written(), cache)

    def written(self) -> Written:
        """Shapes of the results, captured numbers, and the text of an LLVM module."""
        g, names = self.graph, [f"x{k}" for k in range(len(self.sizes))]
        outputs = simplify_for(g, [g.number(i) for o in self.results for i in o.ravel().tolist()], names)
        text = _function_text(g, list(self.sizes), len(self.tracer.captured), outputs)
        return tuple(o.shape for o in self.results), np.asarray(self.tracer.captured, float), text


def _load(written: Written, cache: Cache) -> CompiledFunction:
    return CompiledFunction(*written[:2], cache.load(written[2], plain=True))


def translate_function(function: Callable, *examples: Any, names: Sequence[str] = ()) -> GraphFunction:
    """The graph of function for arguments of the shapes of `examples`; names: of its inputs, if they are others."""
    shapes = tuple(np.shape(x) for x in examples)
    return CACHE.result(_translate, function, shapes, tuple(names))


def _translate(function: Callable, sizes: Sequence[tuple[int, ...]], names: Sequence[str]) -> GraphFunction:
    g = Graph()
    shapes = [jax.ShapeDtypeStruct(size, np.float64) for size in sizes]
    named = zip(names or [f"x{i}" for i in range(len(shapes))], shapes, strict=True)
    inputs = [g.vector(name, math.prod(s.shape)).reshape(s.shape) for name, s in named]
    tracer = Tracer(g)
    results = tracer.trace(function, *inputs, shapes=shapes)
    return GraphFunction(g, tracer, tuple(x.size for x in inputs), tuple(results))


@refusing
def compile_function(function: Callable, *examples: Any, cache: Cache = CACHE) -> CompiledFunction:
    """function as machine code for arguments of the shapes of `examples`; float64 in and out, as a flat list."""
    return _load(CACHE.result(_write, function, tuple(np.shape(x) for x in examples)), cache)


def _write(function: Callable, sizes: Sequence[tuple[int, ...]]) -> Written:
    return _translate(function, sizes, ()).written()


def _function_text(g: Graph, sizes: list[int], captured: int, outputs: list[int]) -> str:
    code, values, at = Code(), Values(), 0
    names = [f"x{i}" for i in range(len(sizes))] + ["captured"]
    for name, size in zip(names, [*sizes, captured], strict=True):
        for i in range(size):
            values[g.variable(name, i)] = code.argument("given")[at + i]
        at += size
    for i, value in enumerate(Emitter(g, code).emit(outputs, values)):
        code.argument("result")[i] = value
    code.line("ret void")
    head = "define void @evaluate(ptr noalias %given, ptr noalias %result) nounwind"
    return module(code.function(head), declared=code.declared)
