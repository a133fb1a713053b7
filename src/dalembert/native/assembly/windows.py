"""A loop over windows of an array: a function of a few of its entries, added to places of other arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from dalembert.native.graph.dependence import Dependence
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.simplify import gather_factors, share_reciprocals
from dalembert.native.llvm.builder import Code, module
from dalembert.native.llvm.cache import CACHE, Cache
from dalembert.native.llvm.emit import Emitter, Values
from dalembert.native.llvm.jit import Loaded
from dalembert.native.trace.place import refusing
from dalembert.native.trace.tracer import Tracer


@dataclass(frozen=True)
class Places:
    """Entry l of window i stands at words[l] + i·stride of an array."""

    words: tuple[int, ...]
    stride: int


@dataclass(frozen=True)
class Windowed:
    """The inputs of a function of a window: arrays read at places, then data of its own, then data all windows share.

    row, shared: shapes of the arrays. function(*read, *row, *shared) returns one array for each output.
    """

    function: Callable
    read: tuple[Places, ...]
    row: tuple[tuple[int, ...], ...]
    shared: tuple[tuple[int, ...], ...]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [*((len(p.words),) for p in self.read), *self.row, *self.shared]


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
    g, _, outputs, _ = _trace(windowed)
    zero = g.constant(0.0)
    return [o == zero for o in outputs]


@refusing
def compile_accumulation(
    windowed: Windowed, write: Sequence[Places], cache: Cache = CACHE
) -> Callable[[np.ndarray, np.ndarray], Accumulation]:
    """for i < count: array_w[write_w + i stride] += output_w of window i, for every output w.

    The result takes data of the windows' own, rows (count, size), and shared (size,), and returns a function of (count,
    addresses that are read, addresses that are written to): float64 in one piece; places are counted from the addresses.
    """
    g, inputs, roots, captured = simplified(windowed)
    if sum(len(w.words) for w in write) != len(roots):
        raise ValueError(f"write: {sum(len(w.words) for w in write)} places for {len(roots)} results")
    loaded = cache.load(_text(g, windowed, [x.size for x in inputs], len(captured), roots, write), plain=True)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(windowed.read) + 2 + len(write)))(
        loaded.address("windows")
    )
    constants = np.asarray(captured, float)

    return lambda rows, shared: Accumulation(run, loaded, rows, np.concatenate([shared, constants]))


def simplified(windowed: Windowed) -> tuple[Graph, list, list[int], list[float]]:
    """(graph, its inputs, the entries of all outputs, the numbers it closes over)."""
    g, inputs, outputs, captured = _trace(windowed)
    depend = Dependence(g)
    level = lambda i: int(depend.on(i, *(f"x{k}" for k in range(len(inputs)))))  # noqa: E731
    roots = [i for o in outputs for i in o.ravel().tolist()]
    return g, inputs, share_reciprocals(g, gather_factors(g, roots, level), level), captured


def _trace(windowed: Windowed) -> tuple[Graph, list, list, list[float]]:
    g = Graph()
    shapes = [jax.ShapeDtypeStruct(s, np.float64) for s in windowed.shapes]
    inputs = [g.vector(f"x{i}", int(np.prod(s.shape, initial=1))).reshape(s.shape) for i, s in enumerate(shapes)]
    tracer = Tracer(g)
    return g, inputs, tracer.trace(windowed.function, *inputs, shapes=shapes), tracer.captured


def _text(g: Graph, windowed: Windowed, sizes: list[int], captured: int, roots: list[int], write: Sequence[Places]) -> str:
    code, values = Code(), Values()
    reads, rows = len(windowed.read), len(windowed.row)
    at = 0
    for k, size in [*list(enumerate(sizes))[reads + rows :], (-1, captured)]:
        for i in range(size):
            values[g.variable("captured" if k < 0 else f"x{k}", i)] = code.load(code.at("%shared", at + i))
        at += size
    with code.loop(0, "%count") as i:
        for k, places in enumerate(windowed.read):
            base = code.at(f"%read{k}", code.let(f"mul i64 {i}, {places.stride}"))
            for l, word in enumerate(places.words):
                values[g.variable(f"x{k}", l)] = code.load(code.at(base, word))
        base, at = code.at("%rows", code.let(f"mul i64 {i}, {sum(sizes[reads : reads + rows])}")), 0
        for k in range(reads, reads + rows):
            for l in range(sizes[k]):
                values[g.variable(f"x{k}", l)] = code.load(code.at(base, at + l))
            at += sizes[k]
        results = iter(Emitter(g, code).emit(roots, values))
        for k, places in enumerate(write):
            base = code.at(f"%write{k}", code.let(f"mul i64 {i}, {places.stride}"))
            for word in places.words:
                place = code.at(base, word)
                code.store(code.let(f"fadd double {code.load(place)}, {next(results)}"), place)
    code.line("ret void")
    arguments = (
        [f"ptr %read{k}" for k in range(reads)]
        + ["ptr %rows", "ptr %shared"]
        + [f"ptr %write{k}" for k in range(len(write))]
    )
    return module(
        code.function(f"define void @windows(i64 %count, {', '.join(arguments)}) nounwind"), declared=code.declared
    )
