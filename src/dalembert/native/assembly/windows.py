"""A loop over windows of an array: a function of a few of its entries, added to places of other arrays."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dalembert.native.assembly.function import GraphFunction, translate_function
from dalembert.native.graph.derivative import directional_derivative
from dalembert.native.graph.graph import Graph, Unsupported
from dalembert.native.graph.simplify import simplify_for
from dalembert.native.llvm.builder import Code, Operand, module
from dalembert.native.llvm.cache import CACHE, Loaded
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.trace.elementwise import Nodes, elementwise
from dalembert.native.trace.place import refusing
from dalembert.tracing import Walk, key_of


@dataclass(frozen=True)
class Places:
    """Entry l of window i stands at offsets[l] + i·stride of an array."""

    offsets: tuple[int, ...]
    stride: int


@dataclass(frozen=True)
class Windowed:
    """The inputs of a function of a window: arrays read at places, then data of its own, then data all windows share.

    row, shared: shapes of the arrays. function(*read, *row, *shared) returns one array for each output, or is a choice from
    what was traced before.
    """

    function: Callable | Chosen
    read: tuple[Places, ...]
    row: tuple[tuple[int, ...], ...]
    shared: tuple[tuple[int, ...], ...]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [*((len(p.offsets),) for p in self.read), *self.row, *self.shared]

    @property
    def names(self) -> list[str]:
        """Of the input vectors of the graph, in this order."""
        parts = {"read": self.read, "row": self.row, "shared": self.shared}
        return [f"{part}{k}" for part, given in parts.items() for k in range(len(given))]

    @functools.cached_property
    def trace(self) -> GraphFunction:
        """The graph of the function, which JAX traces once for all codes that need it or parts of its results."""
        if isinstance(self.function, Chosen):
            return self.function.trace(self)
        return translate_function(self.function, *map(np.empty, self.shapes), names=self.names)


@key_of.register(Windowed)
def _key_of_windows(x: Windowed, walk: Walk) -> Any:
    """By its fields: the trace is no part of it."""
    return walk.of((x.function, x.read, x.row, x.shared))


class Formed:
    """Products and derivatives that are formed of nodes traced before."""

    def __init__(self, graph: Graph, declared: bool):
        self._graph, self._declared = graph, declared

    def times(self, a: Nodes, b: Nodes) -> Nodes:
        """The product of two arrays, entry by entry."""
        return elementwise(self._graph, "mul", a, b)

    def directional_derivative(self, outputs: Nodes, inputs: Nodes, direction: Nodes) -> Nodes:
        """Σ_k ∂output/∂input_k direction_k; Unsupported where the graph does not know the derivative."""
        if self._declared:
            raise Unsupported("derivative", "is what somebody declares it to be")
        found = directional_derivative(self._graph, outputs.ravel().tolist(), inputs.tolist(), direction.tolist())
        return np.array(found, dtype=np.int64).reshape(outputs.shape)


@dataclass(frozen=True)
class Chosen:
    """choose(formed, read, *results) → arrays of nodes. once: the window with these results; read: all that the window
    reads, also what the function does not."""

    once: Windowed
    choose: Callable[..., Sequence[Nodes]]

    def trace(self, windowed: Windowed) -> GraphFunction:
        known = self.once.trace
        g = known.graph.copy()
        read = [g.vector(f"read{k}", len(p.offsets)) for k, p in enumerate(windowed.read)]
        chosen = self.choose(Formed(g, bool(known.tracer.declared)), read, *known.results)
        return replace(known, graph=g, results=tuple(chosen))


class Accumulation:
    """The loop with its data. addresses: of the machine code, of the rows and of what all windows share."""

    def __init__(self, run: Callable, loaded: Loaded, rows: np.ndarray, shared: np.ndarray):
        self._run, self._kept = run, (loaded, rows, shared)
        self.addresses = loaded.address("windows"), rows.ctypes.data, shared.ctypes.data

    def __call__(self, count: int, read: Sequence[int], written: Sequence[int]) -> None:
        self._run(count, *read, *self.addresses[1:], *written)


@refusing
def vanishing(windowed: Windowed) -> list[np.ndarray]:
    """For every output, which of its entries are identically zero, as the graph of the function shows it."""
    traced = windowed.trace
    return [o == traced.graph.zero for o in traced.results]


@refusing
def compile_accumulation(windowed: Windowed, write: Sequence[Places]) -> Callable[[np.ndarray, np.ndarray], Accumulation]:
    """for i < count: array_w[write_w + i stride] += output_w of window i, for every output w.

    The result takes data of the windows' own, rows (count, size), and shared (size,), and returns a function of (count,
    addresses that are read, addresses that are written to): float64 in one piece; places are counted from the addresses.
    """
    text, captured = CACHE.result(_window_text, windowed, tuple(write))
    loaded = CACHE.load(text, plain=True)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(windowed.read) + 2 + len(write)))(
        loaded.address("windows")
    )
    return lambda rows, shared: Accumulation(run, loaded, rows, np.concatenate([shared, captured]))


@dataclass(frozen=True)
class TracedWindow:
    """The graph of a function of a window, simplified. outputs: the entries of all its results; captured: numbers that it
    closes over, which stand after the data that all windows share."""

    windowed: Windowed
    graph: Graph
    outputs: list[int]
    captured: np.ndarray

    @classmethod
    def of(cls, windowed: Windowed) -> TracedWindow:
        made = windowed.trace
        outputs = simplify_for(made.graph, [i for o in made.results for i in o.ravel().tolist()], windowed.names)
        return cls(windowed, made.graph, outputs, np.asarray(made.tracer.captured, float))

    def _bound(self, base: Operand, names: Sequence[tuple[str, int]]) -> Values:
        """Inputs of these names and lengths that stand one after the other."""
        places = [self.graph.variable(name, i) for name, length in names for i in range(length)]
        return {node: base[at] for at, node in enumerate(places)}

    def shared_values(self, shared: Operand) -> Values:
        """Values that do not change from window to window, read before the loop."""
        w = self.windowed
        lengths = [(f"shared{k}", math.prod(s)) for k, s in enumerate(w.shared)]
        return self._bound(shared, [*lengths, ("captured", len(self.captured))])

    def emit(self, common: Values, bases: Sequence[Operand], rows: Operand, i: Operand) -> list[Operand]:
        """The outputs of window i. common: of `shared_values`; bases: where what is read stands for this window; rows: the
        data of all windows."""
        w, values = self.windowed, dict(common)
        for k, (places, base) in enumerate(zip(w.read, bases, strict=True)):
            for l, offset in enumerate(places.offsets):
                values[self.graph.variable(f"read{k}", l)] = base[offset]
        lengths = [(f"row{k}", math.prod(s)) for k, s in enumerate(w.row)]
        own = rows[i * sum(length for _, length in lengths) :]
        return Emitter(self.graph, rows.code).emit(self.outputs, values | self._bound(own, lengths))


def _window_text(windowed: Windowed, write: Sequence[Places]) -> tuple[str, np.ndarray]:
    """The loop, and the numbers that it reads after the shared ones."""
    traced = TracedWindow.of(windowed)
    if sum(len(w.offsets) for w in write) != len(traced.outputs):
        raise ValueError(f"write: {sum(len(w.offsets) for w in write)} places for {len(traced.outputs)} results")
    code, reads = Code(), windowed.read
    common = traced.shared_values(code.argument("shared"))
    with code.loop(0, code.argument("count", "i64")) as i:
        bases = [code.argument(f"read{k}")[i * p.stride :] for k, p in enumerate(reads)]
        results = iter(traced.emit(common, bases, code.argument("rows"), i))
        for k, places in enumerate(write):
            base = code.argument(f"write{k}")[i * places.stride :]
            for offset in places.offsets:
                base[offset] = base[offset] + next(results)
    code.line("ret void")
    arguments = (
        [f"ptr %read{k}" for k in range(len(reads))]
        + ["ptr %rows", "ptr %shared"]
        + [f"ptr %write{k}" for k in range(len(write))]
    )
    text = code.function(f"define void @windows(i64 %count, {', '.join(arguments)}) nounwind")
    return module(text, declared=code.declared), traced.captured
