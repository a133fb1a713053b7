"""The equation on D in machine code: (q, w) in place of (q, v), for constraints that are linear or affine in v.

A velocity that is combined of directions of D satisfies the constraints to rounding, however large the errors of (q, w) are.
The directions are found on the graph, so that nobody has to choose coordinates; where they degenerate, the integration ends,
and that of (q, v) can go on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dalembert.native import Accuracy, CompiledFlow, CompiledFunction, Solved, Travelled, Unsupported
from dalembert.native.assembly.function import GraphFunction
from dalembert.native.flow.flow import graph_flow
from dalembert.native.graph.dependence import Dependence, evaluate, needed_nodes
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.simplify import gather_factors
from dalembert.native.trace.place import refusing
from dalembert.native.trace.proof import ANALYTIC, CONTINUOUS
from dalembert.native.trace.tracer import Tracer
from dalembert.systems.compiled.flow import SystemFlow, reduced_flow
from dalembert.systems.equations import force, value
from dalembert.systems.frame.equations import AllowedDirections, Nodes, OrthonormalEquations, energy
from dalembert.systems.proof import RunStart
from dalembert.systems.system import Rebuilt, System, parts_of
from dalembert.tracing import Pool, Remembered

REMEMBERED = 128
SAMPLES = 3
NEAR = 0.01  # how far it is to where a pivot is zero has to be a hundred times what the tolerance allows
ROOM = 0.1  # of a pivot at the beginning: where it is smaller, or has the other sign, another form has to go on
PARALLEL = 1e-6  # of u·C u: what has to be left of a direction beside the others
VANISHING = 1e-8  # of u·C u at the beginning
SHORT = 8  # operations that are not linear, for every coordinate, with which it takes less time than that of (q, v)


@dataclasses.dataclass(frozen=True)
class _Code:
    """flow: its outputs are (q, v, λ, drift). enter: of (q, v, t) what `_Written.entering` says. sizes: of q and w; numbers:
    how many a run adds to the arrays of the system."""

    flow: CompiledFlow
    enter: CompiledFunction
    sizes: tuple[int, int]
    numbers: int


_COMPILED: Remembered[_Code | None] = Remembered(REMEMBERED)


class FrameFlow:
    """The compiled equation, and the arrays that a system gives it. Safe under threads."""

    def __init__(self, code: _Code, leaves: list):
        self._code = code
        self._arrays = {clock: Pool(lambda clock=clock: _Arrays(code, leaves, clock)) for clock in (1.0, -1.0)}

    def run(self, q: np.ndarray, v: np.ndarray, times: np.ndarray, accuracy: Accuracy) -> Travelled | None:
        """From (q, v) that satisfy the constraints; None where there are no directions there."""
        with self._arrays[1.0 if times[-1] > times[0] else -1.0].one() as arrays:
            y = arrays.enter(q, v, times[0], accuracy.tolerance)
            return None if y is None else self._code.flow.run(y, times, arrays.flow, accuracy)


class _Arrays:
    """Of one run at a time. clock: the direction of time."""

    def __init__(self, code: _Code, leaves: list, clock: float):
        self._code, (n, k) = code, code.sizes
        extra = np.zeros(code.numbers)
        self.flow = code.flow.over([*leaves, extra], clock)
        parts = [np.zeros(n + k), np.zeros(1), *(np.ravel(np.asarray(x, float)) for x in leaves), extra, np.zeros(n)]
        self._given, self._result = np.concatenate([*parts, code.enter.captured]), np.empty(code.enter.result_size)
        at = sum(map(len, parts)) - n
        self._q, self._t, self._v = self._given[:n], self._given[n + k : n + k + 1], self._given[at : at + n]
        self._w, self._extra, self._judged = self._result[:k], self._result[k:-2], self._result[-2:]

    def enter(self, q: np.ndarray, v: np.ndarray, t: float, tolerance: float) -> np.ndarray | None:
        """(q, w); None where directions are parallel, or where steps might not see a pivot go through zero."""
        self._q[:], self._v[:], self._t[0] = q, v, t
        self._code.enter.run(self._given, self._result)
        near, least = self._judged.tolist()
        if not (least > PARALLEL and near * tolerance < NEAR and np.isfinite(self._result).all()):
            return None
        self.flow.refill(self._extra)
        return np.concatenate([q, self._w])


def frame_flow(system: System, n: int, m: int) -> FrameFlow | None:
    """Machine code that serves all systems of this structure; None where the equation on D is not written."""
    if not (all(c.order == 1 and c.chetaev for c in system.constraints) and 0 < m < n):
        return None
    parts = parts_of(system)
    if parts.key is None:
        return None
    code = _COMPILED.of((parts.key, n, m), lambda: _try_compile(parts.rebuilt, parts.leaves, n, m))
    return None if code is None else FrameFlow(code, parts.leaves)


def _try_compile(rebuilt: Callable[..., System], leaves: list, n: int, m: int) -> _Code | None:
    try:
        return _compile(rebuilt, [np.asarray(x, float) for x in leaves], n, m)
    except Unsupported:
        return None


@refusing
def _compile(rebuilt: Callable[..., System], leaves: list, n: int, m: int) -> _Code:
    written = _Written(rebuilt, leaves, n, m)
    if written.work > max(SHORT * written.n, (2 * written.n - written.k) ** 2 / 2):
        raise Unsupported("frame", "the equation of (q, v) is shorter")
    flow = graph_flow(written.function(written.slope, written.holds), written.function(written.outputs), n)
    return _Code(flow, written.entering().compile(), (written.n, written.k), written.numbers)


class _Written:
    """The equation on a graph. slope: (q̇, ẇ). holds: a truth value. pivots: nodes that must not vanish."""

    def __init__(self, rebuilt: Rebuilt, leaves: list[np.ndarray], n: int, m: int):
        g = self.g = Graph()
        self.n, self.leaves = n, leaves
        self.tracer, self.k = Tracer(g), n - m
        self.extra, self.last = f"x{2 + len(leaves)}", f"x{3 + len(leaves)}"
        y, t, v = g.vector("x0", n + self.k), g.variable("x1", 0), g.vector(self.last, n)
        q, w = y[:n].tolist(), y[n:].tolist()
        lagrangian, phi, forces = self._trace_functions(rebuilt, y[:n], t, v)
        self._depend = Dependence(g)
        d = AllowedDirections(g, phi, v.tolist(), self.last, self.moves, self._sample)
        kinetic = energy(g, lagrangian, v.tolist(), self.last)
        self._continuous([*phi, *kinetic.pieces, *kinetic.metric.ravel().tolist()])
        equations = self.equations = OrthonormalEquations(d, kinetic, q, t, forces)
        equations.velocity(w, [g.variable(self.extra, i) for i in range(self.k)])
        self.pivots = d.pivots
        self.slope = [*equations.v, *equations.slopes]
        self.holds = self._holding()

    def moves(self, i: int) -> bool:
        return self._depend.on(i, "x0", "x1")

    def _trace_functions(self, rebuilt: Rebuilt, q: np.ndarray, t: int, v: np.ndarray) -> tuple[int, Nodes, Nodes]:
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

    def _continuous(self, nodes: list[int]) -> None:
        """Unsupported where directions or masses jump: there v stays in (q, v), and w here."""
        for i in needed_nodes(self.g, nodes):
            op = self.g.nodes[i][0]
            if self.moves(i) and op != "var" and op not in ANALYTIC | CONTINUOUS:
                raise Unsupported(op, "the velocities that are allowed, or masses, may jump")

    def _sample(self, nodes: list[int]) -> np.ndarray:
        """At states that are the same for every system."""
        noise: Any = np.random.default_rng(0)
        known = {f"x{2 + i}": x.ravel() for i, x in enumerate(self.leaves)}
        known["captured"], found = np.array(self.tracer.captured, float), []
        for _ in range(SAMPLES):
            known |= {"x0": noise.uniform(0.2, 1.0, self.n + self.k), "x1": np.zeros(1)}
            with np.errstate(all="ignore"):
                found.append(evaluate(self.g, nodes, known).astype(float))
        return np.array(found)

    @property
    def outputs(self) -> list[int]:
        """(q, v, λ, drift)."""
        g, wrong, n, (d, v) = self.g, self.g.zero, self.n, (self.equations.d, self.equations.v)
        for x in d.at(d.phi, v):
            wrong = g.apply("max", wrong, g.apply("abs", x))
        q, w = (g.vector("x0", n + self.k)[part].tolist() for part in (slice(n), slice(n, None)))
        return [*q, *v, *self.equations.multipliers(w), wrong]

    @property
    def work(self) -> int:
        """Operations of the slope that are not linear in what moves."""
        g, found = self.g, 0
        for i in needed_nodes(g, gather_factors(g, self.slope, lambda i: int(self.moves(i)))):
            op, *x = g.nodes[i]
            if self.moves(i) and op not in ("var", "add", "sub", "neg"):
                found += op not in ("mul", "div") or (self.moves(x[1]) and (op == "div" or self.moves(x[0])))
        return found

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

    @property
    def numbers(self) -> int:
        """Of a run: the scales, and what the squares and the pivots are compared with."""
        return 2 * self.k + len(self.pivots)

    def function(self, nodes: list[int], *others: int, entering: bool = False) -> GraphFunction:
        sizes = [self.n + self.k, 1, *(x.size for x in self.leaves), self.numbers]
        results = (np.array(nodes), *(np.asarray(x) for x in others))
        return GraphFunction(self.g, self.tracer, (*sizes, self.n) if entering else tuple(sizes), results)

    def entering(self) -> GraphFunction:
        """(q, v, t) → w, the numbers of the run, how near pivots are to zero, and what is left of directions at least."""
        g, (w, scales, least) = self.g, self.equations.initial_velocities()
        squares = [g.apply("mul", g.constant(VANISHING), one.square) for one in self.equations.directions]
        pivots = [g.apply("div", g.one, x) for x in self.pivots]
        return self.function([*w, *scales, *squares, *pivots, self.equations.near(), least], entering=True)


def along_constraints(
    system: System, start: RunStart, times: np.ndarray, accuracy: Accuracy
) -> tuple[Solved, Callable[[], np.ndarray]]:
    """Rows (q, v) at the times, which increase or decrease, and the outputs (λ, drift) when they are asked for."""
    assert start.read is not None
    n, m, y, once = len(start.q), sum(start.sizes), np.concatenate([start.q, start.v]), start.read.once
    (frame,) = once(("frame", n), lambda: (frame_flow(system, n, m),))
    reduced = lambda: once(("flow", n), lambda: reduced_flow(system, n, m, projected=True))  # noqa: E731
    found = None if frame is None else frame.run(start.q, start.v, times, accuracy)
    if found is None:
        flow: SystemFlow = reduced()
        solved = flow.solve(y, times, accuracy)
        return solved, lambda: flow.outputs(solved, times)
    rows, outputs, end = found.outputs[:, : 2 * n], found.outputs[:, 2 * n :], found.end[2 * n :]
    rows[0] = y  # its velocities went through w
    done = found._replace(rows=rows, outputs=outputs, end=end)
    if found.reached or found.steps >= accuracy.steps:
        return _solution_of(done)
    left = np.concatenate([[found.t], times[found.saved :]])
    rest = reduced().run(found.end[: 2 * n], left, accuracy._replace(steps=accuracy.steps - found.steps))
    return _solution_of(_join(done, rest))


def _solution_of(found: Travelled) -> tuple[Solved, Callable[[], np.ndarray]]:
    rows = np.where(np.arange(len(found.rows))[:, None] < found.saved, found.rows, np.inf)
    return Solved(rows, found.saved, found.reached, found.steps), lambda: found.outputs


def _join(one: Travelled, other: Travelled) -> Travelled:
    """One after the other, which begins where the first ended."""
    both = lambda a, b: np.concatenate([a[: one.saved], b[1:]])  # noqa: E731
    rows, outputs = both(one.rows, other.rows), both(one.outputs, other.outputs)
    saved, steps = one.saved + other.saved - 1, one.steps + other.steps
    return other._replace(rows=rows, outputs=outputs, saved=saved, steps=steps)
