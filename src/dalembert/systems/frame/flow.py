"""The equation on D in machine code: (q, w) in place of (q, v), for constraints that are linear or affine in v.

The direct product of w with the directions of D satisfies the constraints, to rounding, however large the errors of (q, w) are.
Directions are found on the graph, where no one has to choose coordinates; where they degenerate, the integration ends, and
that of (q, v) may go on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from dalembert.native import Accuracy, CompiledFlow, CompiledFunction, FlowArrays, Travelled, Unsupported
from dalembert.native.assembly.function import GraphFunction
from dalembert.native.flow.flow import written_flow
from dalembert.native.graph.dependence import Dependence
from dalembert.native.graph.evaluate import evaluate
from dalembert.native.graph.graph import Graph
from dalembert.native.trace.place import refusing
from dalembert.native.trace.tracer import Tracer
from dalembert.systems.constraints import Nonholonomic
from dalembert.systems.equations import force, value
from dalembert.systems.frame.directions import Directions
from dalembert.systems.frame.equations import Equations
from dalembert.systems.frame.pieces import energy
from dalembert.systems.system import Rebuilt, System, parts_of
from dalembert.tracing import Remembered

REMEMBERED = 128
SAMPLES = 3
ROOM = 0.01  # of a pivot at the beginning: where it is smaller, or has the other sign, another form has to go on
PARALLEL = 1e-6  # of u·C u: what has to be left of a direction beside the others
VANISHING = 1e-8  # of u·C u at the beginning


@dataclasses.dataclass(frozen=True)
class _Code:
    """flow: its outputs are (q, v, λ, drift). enter: of (q, v, t) what `Equations.entered` says, and the pivots."""

    flow: CompiledFlow
    enter: CompiledFunction
    free: int
    pivots: int


class _Tried(NamedTuple):
    """code: None where it cannot be made."""

    code: _Code | None


_COMPILED: Remembered[_Tried] = Remembered(REMEMBERED)


class FrameFlow:
    """The compiled equation, and the arrays that a system gives it. Safe under threads."""

    def __init__(self, code: _Code, leaves: list):
        self._code, self._leaves = code, leaves
        self._given = np.concatenate([*(np.ravel(np.asarray(x, float)) for x in leaves), code.enter.captured])
        self._free: dict[float, list[FlowArrays]] = {1.0: [], -1.0: []}

    def run(self, q: np.ndarray, v: np.ndarray, times: np.ndarray, accuracy: Accuracy) -> Travelled | None:
        """From (q, v) that satisfy the constraints; None where there are no directions there."""
        found = self._entered(q, v, float(times[0]))
        if found is None:
            return None
        w, numbers = found
        clock = 1.0 if times[-1] > times[0] else -1.0
        try:
            arrays = self._free[clock].pop()
        except IndexError:
            arrays = self._code.flow.over([*self._leaves, numbers], clock)
        arrays.put(numbers)
        found = self._code.flow.run(np.concatenate([q, w]), times, arrays, accuracy)
        self._free[clock].append(arrays)
        return found

    def _entered(self, q: np.ndarray, v: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray] | None:
        """w, and the numbers of the run: the scales, what squares and pivots must not fall below."""
        code, k = self._code, self._code.free
        result = np.empty(code.enter.result_size)
        room = len(self._given) - len(code.enter.captured)
        numbers = np.zeros(2 * k + code.pivots)
        given = np.concatenate([q, np.zeros(k), [t], self._given[:room], numbers, v, self._given[room:]])
        code.enter.run(given, result)
        part, square, whole, size, pivots = np.split(result, [k, 2 * k, 3 * k, 4 * k])
        if not (np.all(np.isfinite(result)) and np.all(square > PARALLEL * whole) and np.all(pivots)):
            return None
        numbers[:k], numbers[k : 2 * k], numbers[2 * k :] = size**2 / square, VANISHING * square, 1.0 / pivots
        return size / square * part, numbers


def frame_flow(system: System, n: int, m: int) -> FrameFlow | None:
    """Machine code that serves all systems of this structure; None where the equation on D is not written."""
    linear = all(isinstance(c, Nonholonomic) and c.reactions is None and c.virtual is None for c in system.constraints)
    if not (linear and 0 < m < n):
        return None
    parts = parts_of(system)
    if parts.key is None:
        return None
    key = (parts.key, n, m)
    found = _COMPILED.get(key)
    if found is None:
        found = _Tried(_made(parts.rebuilt, parts.leaves, n, m))
        _COMPILED.put(key, found)
    return None if found.code is None else FrameFlow(found.code, parts.leaves)


def _made(rebuilt: Callable[..., System], leaves: list, n: int, m: int) -> _Code | None:
    try:
        return _compiled(_Written(rebuilt, [np.asarray(x, float) for x in leaves], n, m))
    except Unsupported:
        return None


@refusing
def _compiled(written: _Written) -> _Code:
    flow = written_flow(written.function(written.slope, written.holds), written.function(written.outputs))
    return _Code(flow, written.entering().compiled(), len(written.slope) - written.n, len(written.pivots))


class _Written:
    """The equation on a graph. slope: (q̇, ẇ). holds: a truth value. pivots: nodes that must not vanish."""

    def __init__(self, rebuilt: Rebuilt, leaves: list[np.ndarray], n: int, m: int):
        g = self.g = Graph()
        self.n, self.leaves = n, leaves
        self.tracer, self.k = Tracer(g), n - m
        self.extra, self.last = f"x{2 + len(leaves)}", f"x{3 + len(leaves)}"
        y, t, v = g.vector("x0", n + self.k), g.variable("x1", 0), g.vector(self.last, n)
        q, w = y[:n].tolist(), y[n:].tolist()
        lagrangian, phi, forces = self._traced(rebuilt, y[:n], t, v)
        self._depend = Dependence(g)
        d = Directions(g, phi, v.tolist(), self.last, self.moves, self._sampled)
        equations = self.equations = Equations(d, energy(g, lagrangian, v.tolist(), self.last), q, t, forces)
        equations.velocity(w, [g.variable(self.extra, i) for i in range(self.k)])
        self.pivots = [one.pivot for one in d.held if self.moves(one.pivot)]
        self.slope = [*equations.v, *equations.slopes]
        self.holds = self._holding()
        wrong = g.zero
        for x in d.at(d.phi, equations.v):
            wrong = g.apply("max", wrong, g.apply("abs", x))
        self.outputs = [*q, *equations.v, *equations.multipliers(w), wrong]

    def moves(self, i: int) -> bool:
        return self._depend.on(i, "x0", "x1")

    def _traced(self, rebuilt: Rebuilt, q: np.ndarray, t: int, v: np.ndarray) -> tuple[int, list[int], list[int]]:
        """L, φ and f."""

        def functions(q, t, v, *given):
            system = rebuilt(given)
            phi = [value(system, c, q, v, v, t) for c in system.constraints]
            return system.call(system.lagrangian, q, v, t=t), jax.numpy.concatenate(phi), force(system, q, v, t)

        given = [self.g.vector(f"x{2 + i}", x.size).reshape(x.shape) for i, x in enumerate(self.leaves)]
        inputs = [q, np.asarray(t), v, *given]
        shapes = [jax.ShapeDtypeStruct(x.shape, np.float64) for x in inputs]
        one, phi, forces = self.tracer.trace(functions, *inputs, shapes=shapes)
        if self.tracer.declared:
            raise Unsupported("custom_jvp_call", "a derivative is declared")
        return int(one.item()), phi.tolist(), forces.tolist()

    def _sampled(self, nodes: list[int]) -> np.ndarray:
        """At states that are the same for every system."""
        noise: Any = np.random.default_rng(0)
        known = {f"x{2 + i}": x.ravel() for i, x in enumerate(self.leaves)}
        known["captured"], found = np.array(self.tracer.captured, float), []
        for _ in range(SAMPLES):
            known |= {"x0": noise.uniform(0.2, 1.0, self.n + self.k), "x1": np.zeros(1)}
            with np.errstate(all="ignore"):
                found.append(evaluate(self.g, nodes, known).astype(float))
        return np.array(found)

    def _holding(self) -> int:
        g, holds = self.g, self.g.true
        number = lambda i: g.variable(self.extra, i)  # noqa: E731
        for a, one in enumerate(self.equations.directions):
            if self.moves(one.square):
                holds = g.apply("and", holds, g.apply("ge", one.square, number(self.k + a)))
            if one.whole != one.square:
                part = g.apply("mul", g.constant(PARALLEL), one.whole)
                holds = g.apply("and", holds, g.apply("ge", one.square, part))
        for i, pivot in enumerate(self.pivots):
            part = g.apply("mul", pivot, number(2 * self.k + i))
            holds = g.apply("and", holds, g.apply("ge", part, g.constant(ROOM)))
        return holds

    def function(self, nodes: list[int], *others: int, entering: bool = False) -> GraphFunction:
        sizes = [self.n + self.k, 1, *(x.size for x in self.leaves), 2 * self.k + len(self.pivots)]
        results = (np.array(nodes), *(np.asarray(x) for x in others))
        return GraphFunction(self.g, self.tracer, (*sizes, self.n) if entering else tuple(sizes), results)

    def entering(self) -> GraphFunction:
        return self.function([*self.equations.entered(), *self.pivots], entering=True)
