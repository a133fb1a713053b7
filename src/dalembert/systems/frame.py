"""The equation on D in machine code: (q, w) in place of (q, v), for constraints that are linear or affine in v.

    v = Σ_a w_a ψ_a(q, t) + v_b(q, t),   L = ½ u·C u - U(q, t),   u(ψ_a)·C u(ψ_b) = δ_ab

with pieces u, linear in v, such as the velocities of points and angles. A velocity that is combined of directions of D
satisfies the constraints to rounding, however large the errors of (q, w) are. The directions are found on the graph, so that
nobody has to choose coordinates; where they degenerate, the integration ends, and that of (q, v) can go on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from dalembert.native import (
    ANALYTIC,
    CONTINUOUS,
    Accuracy,
    CompiledFlow,
    CompiledFunction,
    Dependence,
    Graph,
    GraphFunction,
    Solved,
    Tracer,
    Travelled,
    Unsupported,
    directional_derivative,
    evaluate_at_states,
    gather_factors,
    graph_flow,
    jacobian,
    needed_nodes,
    operands,
    refusing,
    replace_nodes,
    with_angles,
)
from dalembert.systems.compiled import SystemFlow, reduced_flow
from dalembert.systems.equations import force, value
from dalembert.systems.proof import RunStart
from dalembert.systems.system import Rebuilt, System, parts_of
from dalembert.tracing import Pool, Remembered

Nodes = list[int]


class PiecewiseEnergy(NamedTuple):
    """pieces: u (r,). metric: C (r, r). potential: U."""

    pieces: Nodes
    metric: np.ndarray
    potential: int


def degrees(g: Graph, outputs: Sequence[int], name: str) -> dict[int, float]:
    """Of every node as a polynomial in the vector of this name, infinite where it is none."""
    found: dict[int, float] = {}
    for i in needed_nodes(g, outputs):
        op, *x = g.nodes[i]
        if op in ("const", "var"):
            found[i] = float(op == "var" and x[0] == name)
            continue
        of = [found[j] for j in operands(g.nodes[i])]
        if not any(of):
            found[i] = 0.0
        elif op in ("add", "sub", "neg"):
            found[i] = max(of)
        elif op == "mul":
            found[i] = sum(of)
        else:
            found[i] = of[0] if op == "div" and not of[1] else np.inf
    return found


def energy(g: Graph, lagrangian: int, v: Sequence[int], name: str) -> PiecewiseEnergy:
    """v: the inputs of this name. Unsupported where L is no such sum."""
    degree = degrees(g, [lagrangian], name)
    if degree[lagrangian] > 2:
        raise Unsupported("lagrangian", "it is not quadratic in the velocities")
    pieces: dict[int, int] = {}
    for i in needed_nodes(g, [lagrangian]):
        op, *x = g.nodes[i]
        if op == "mul" and all(degree[j] == 1 for j in x):
            for j in x:
                pieces.setdefault(j, g.variable("u", len(pieces)))
    u = list(pieces.values())
    (whole,) = replace_nodes(g, [lagrangian], pieces)
    slopes = jacobian(g, [whole], u)[0]
    rest = dict.fromkeys(u, g.zero)
    linear = Dependence(g).on(whole, name) or any(i != g.zero for i in replace_nodes(g, slopes, rest))
    if linear:
        raise Unsupported("lagrangian", "it has a term that is linear in the velocities")
    return PiecewiseEnergy(list(pieces), jacobian(g, slopes, u), replace_nodes(g, [whole], rest)[0])


LARGE = 0.1  # of the largest entry of its row: so large a pivot is divided by


@dataclasses.dataclass(frozen=True)
class Forbidden:
    """Direction ν that a row forbids, and the entry of the row there, its pivot."""

    row: int
    direction: Nodes
    pivot: int


class AllowedDirections:
    """free: ψ_a. offset: v_b. held: in the order of elimination; φ of a row is 0 along every later ν. pivots: all that move.

    moves: whether a node changes with the motion. sampled: values of nodes, (samples, nodes).
    """

    def __init__(
        self, g: Graph, phi: Sequence[int], v: Sequence[int], name: str, moves: Callable[[int], bool], sampled: Callable
    ):
        if any(x > 1 for x in degrees(g, phi, name).values()):
            raise Unsupported("constraints", "they are not linear in the velocities")
        self.g, self.v, self.moves, self.sampled = g, list(v), moves, sampled
        self.phi = self.simpler(phi)
        self.free = [[g.one if i == j else g.zero for i in range(len(v))] for j in range(len(v))]
        self.offset, self.held, self.pivots = [g.zero] * len(v), list[Forbidden](), Nodes()
        pattern = jacobian(g, self.phi, self.v) != g.zero
        left = set(range(len(phi)))
        while left:
            row = min(left, key=lambda r: (sum(any(pattern[r, self._support(c)]) for c in self.free), r))
            left.remove(row)
            self._eliminate(row)

    def simpler(self, nodes: Sequence[int]) -> Nodes:
        return with_angles(self.g, gather_factors(self.g, nodes, lambda i: int(self.moves(i))))

    def entry(self, row: int, direction: Nodes) -> int:
        """∂φ/∂v of this row along a direction."""
        return self.simpler(directional_derivative(self.g, [self.phi[row]], self.v, direction))[0]

    def at(self, nodes: Sequence[int], v: Nodes) -> Nodes:
        """Nodes with v in place of the velocities."""
        return replace_nodes(self.g, nodes, dict(zip(self.v, v, strict=True)))

    def _support(self, column: Nodes) -> Nodes:
        return [i for i, x in enumerate(column) if x != self.g.zero]

    def _eliminate(self, row: int) -> None:
        g = self.g
        entries = {c: x for c, column in enumerate(self.free) if (x := self.entry(row, column)) != g.zero}
        if not entries:
            raise Unsupported("constraints", "one of them follows from the others")
        while (chosen := self._pivot(entries)) is None:
            self._turn(entries)
        pivot, direction = entries.pop(chosen), self.free[chosen]
        for c, x in entries.items():
            self.free[c] = self._add_multiple(self.free[c], g.apply("neg", g.apply("div", x, pivot)), direction)
        (wrong,) = self.at([self.phi[row]], self.offset)
        if wrong != g.zero:
            self.offset = self._add_multiple(self.offset, g.apply("neg", g.apply("div", wrong, pivot)), direction)
        self.held.append(Forbidden(row, direction, pivot))
        self._watch(pivot)
        del self.free[chosen]

    def _add_multiple(self, x: Nodes, factor: int, direction: Nodes) -> Nodes:
        g = self.g
        return self.simpler([g.apply("add", a, g.apply("mul", factor, b)) for a, b in zip(x, direction, strict=True)])

    def _pivot(self, entries: dict[int, int]) -> int | None:
        """The column with an entry to divide by: one that is there alone, or is constant and not small."""
        if len(entries) == 1:
            return next(iter(entries))
        sizes = np.abs(self.sampled(list(entries.values())))
        enough = sizes >= LARGE * sizes.max(axis=1, keepdims=True)
        good = [c for (c, x), large in zip(entries.items(), enough.T, strict=True) if not self.moves(x) and large.all()]
        return min(good, key=lambda c: (len(self._support(self.free[c])), -c), default=None)

    def _turn(self, entries: dict[int, int]) -> None:
        """Two columns x, y with entries a, b: b x - a y has none, and a x + b y has a² + b², if possible a constant."""
        g = self.g
        columns = sorted(entries, key=lambda c: len(self._support(self.free[c])))
        pairs = [(i, j) for k, i in enumerate(columns) for j in columns[k + 1 :]]
        squares = {(i, j): self._square(entries[i], entries[j]) for i, j in pairs}
        i, j = min(pairs, key=lambda pair: self.moves(squares[pair]))
        a, b, (x, y) = entries.pop(i), entries[j], (self.free[c] for c in (i, j))
        mixed = lambda p, q, op: self.simpler(  # noqa: E731
            [g.apply(op, g.apply("mul", p, s), g.apply("mul", q, t)) for s, t in zip(x, y, strict=True)]
        )
        self._watch(squares[i, j])
        self.free[i], self.free[j], entries[j] = mixed(b, a, "sub"), mixed(a, b, "add"), squares[i, j]

    def _watch(self, pivot: int) -> None:
        if self.moves(pivot) and pivot not in self.pivots:
            self.pivots.append(pivot)

    def _square(self, a: int, b: int) -> int:
        g = self.g
        return self.simpler([g.apply("add", g.apply("mul", a, a), g.apply("mul", b, b))])[0]


class Along(NamedTuple):
    """A direction in D. v: its components ψ. pieces: u there. metric: C u. square: u·C u; whole: the same before the earlier
    directions were taken off."""

    v: Nodes
    pieces: Nodes
    metric: Nodes
    square: int
    whole: int


class OrthonormalEquations:
    """q, w, t, v: inputs. scale: s_a of each direction, whose velocity is in units in which it has u·C u = 1/s_a."""

    def __init__(self, d: AllowedDirections, energy: PiecewiseEnergy, q: Nodes, t: int, force: Sequence[int]):
        self.g, self.d, self.energy, self.q, self.t, self.force_given = d.g, d, energy, q, t, list(force)
        self.fixed = self._pieces_at(d.offset)
        self.directions = self._orthogonal()

    def _pieces_at(self, v: Nodes) -> Nodes:
        return self.d.simpler(self.d.at(self.energy.pieces, v))

    def _pieces_along(self, v: Nodes) -> Nodes:
        return self.d.simpler(directional_derivative(self.g, self.energy.pieces, self.d.v, v))

    def _dot(self, a: Sequence[int], b: Sequence[int]) -> int:
        g = self.g
        return g.total(x for p, q in zip(a, b, strict=True) if (x := g.apply("mul", p, q)) != g.zero)

    def _metric(self, u: Nodes) -> Nodes:
        return [self._dot(row.tolist(), u) for row in self.energy.metric]

    def _orthogonal(self) -> list[Along]:
        """Gram-Schmidt, the simplest directions first."""
        d, g, done = self.d, self.g, list[Along]()
        found = [(v, self._pieces_along(v)) for v in d.free]
        cost = lambda u: len([i for i in needed_nodes(g, u) if d.moves(i)])  # noqa: E731
        for v, u in sorted(found, key=lambda x: cost(x[1])):
            whole = self._dot(u, self._metric(u))
            square = whole
            for one in done:
                (part,) = d.simpler([g.apply("div", self._dot(one.metric, u), one.square)])
                if part != g.zero:
                    v, u = (self._less(x, part, y) for x, y in ((v, one.v), (u, one.pieces)))
                    square = self._dot(u, self._metric(u))
            done.append(Along(v, u, self._metric(u), *d.simpler([square, whole])))
        return done

    def _less(self, x: Nodes, factor: int, y: Nodes) -> Nodes:
        g = self.g
        return self.d.simpler([g.apply("sub", a, g.apply("mul", factor, b)) for a, b in zip(x, y, strict=True)])

    def velocity(self, w: Nodes, scale: Nodes) -> None:
        """Everything at velocities w."""
        g = self.g
        root = lambda a, s: g.apply("sqrt", g.apply("mul", s, a.square))  # noqa: E731
        self.scale, self.unit = scale, [g.apply("div", g.one, root(*x)) for x in zip(self.directions, scale, strict=True)]
        self.speeds = [g.apply("mul", x, h) for x, h in zip(w, self.unit, strict=True)]
        self.v = self._combine([a.v for a in self.directions], self.d.offset)
        self.u = self._combine([a.pieces for a in self.directions], self.fixed)
        self.momenta = self._metric(self.u)
        self.force = self.d.at(self.force_given, self.v)
        self._slopes = jacobian(g, [self.energy.potential], self.q)[0].tolist()
        self._rates = self._exterior()
        metric = self.energy.metric
        turned = np.array(jacobian(g, metric.ravel().tolist(), self.q)).reshape(*metric.shape, -1)
        self._turned = {j: turned[..., j] for j in range(turned.shape[-1]) if np.any(turned[..., j] != g.zero)}
        self._metric_rate = np.array(self.rate(metric.ravel().tolist())).reshape(metric.shape)
        self.slopes = [self._slope(i) for i in range(len(self.directions))]

    def _combine(self, columns: list[Nodes], start: Nodes) -> Nodes:
        g = self.g
        parts = [[g.apply("mul", x, s) for x in column] for column, s in zip(columns, self.speeds, strict=True)]
        return [g.total([x for x in terms if x != g.zero]) for terms in zip(*parts, start, strict=True)]

    def rate(self, nodes: Nodes, w: Sequence[int] = (), rates: Sequence[int] = ()) -> Nodes:
        """d/dt of nodes of (q, t), and of w with their rates."""
        return directional_derivative(self.g, nodes, [*self.q, self.t, *w], [*self.v, self.g.one, *rates])

    def _slope(self, a: int) -> int:
        """ẇ_a."""
        g, one = self.g, self.directions[a]
        terms = [self._dot(one.pieces, self.rate(self._metric(self.fixed))), self._rest(one.v, one.pieces)]
        for b, other in enumerate(self.directions):
            moved = self._dot(one.pieces, [self._dot(row.tolist(), other.pieces) for row in self._metric_rate])
            if b == a:
                change = g.apply("mul", g.constant(0.5), moved)
            elif b < a:
                change = self._dot(one.pieces, self.rate(other.metric))
            else:
                change = g.apply("sub", moved, self._dot(other.pieces, self.rate(one.metric)))
            terms.append(g.apply("mul", change, self.speeds[b]))
        whole = g.total([x for x in terms if x != g.zero])
        return g.apply("neg", g.apply("mul", g.apply("mul", self.scale[a], self.unit[a]), whole))

    def _rest(self, v: Nodes, u: Nodes) -> int:
        """π·B - ½ u·∂C u - ∂U - f along a direction v with pieces u."""
        g = self.g
        terms = [self._dot(self.momenta, self._bent(v))]
        for j, metric in self._turned.items():
            square = self._dot(self.u, [self._dot(row.tolist(), self.u) for row in metric])
            terms.append(g.apply("mul", g.constant(-0.5), g.apply("mul", square, v[j])))
        forces = [g.apply("add", x, y) for x, y in zip(self._slopes, self.force, strict=True)]
        return g.total([*terms, g.apply("neg", self._dot(forces, v))])

    def _exterior(self) -> list[dict[tuple[int, int], int]]:
        """Of every piece ∂_k ω_ij - ∂_j ω_ik for j < k, where it is not zero; k = n is the time."""
        g, found = self.g, []
        for piece, fixed in zip(self.energy.pieces, self.d.at(self.energy.pieces, [self.g.zero] * len(self.q)), strict=True):
            by_v = jacobian(g, [piece], self.d.v)[0].tolist()
            rows = jacobian(g, [*by_v, fixed], [*self.q, self.t])
            n, terms = len(self.q), {}
            for k in range(1, n + 1):
                for j in range(k):
                    (x,) = self.d.simpler([g.apply("sub", int(rows[j, k]), int(rows[k, j]))])
                    if x != g.zero:
                        terms[j, k] = x
            found.append(terms)
        return found

    def _bent(self, v: Nodes) -> Nodes:
        """B_i(v, δ) = Σ_{j<k} (∂_k ω_ij - ∂_j ω_ik)(v_k δ_j - v_j δ_k), of the time v = 1 and δ = 0."""
        g, now, then = self.g, [*self.v, self.g.one], [*v, self.g.zero]
        pair = lambda j, k: g.apply("sub", *(g.apply("mul", now[i], then[l]) for i, l in ((k, j), (j, k))))  # noqa: E731
        return [self._dot(list(terms.values()), [pair(*at) for at in terms]) for terms in self._rates]

    def multipliers(self, w: Nodes) -> Nodes:
        """λ with Rᵀλ = d/dt L_v - L_q - f: along the directions in which reactions work, the last first."""
        g, rates, held = self.g, self.rate(self.momenta, w, self.slopes), self.d.held
        found: dict[int, int] = {}
        for at, one in reversed(list(enumerate(held))):
            pieces = self._pieces_along(one.direction)
            whole = g.apply("add", self._dot(pieces, rates), self._rest(one.direction, pieces))
            for later in held[at + 1 :]:
                entry = self.d.entry(later.row, one.direction)
                whole = g.apply("sub", whole, g.apply("mul", entry, found[later.row]))
            found[one.row] = g.apply("div", whole, one.pivot)
        return [found[i] for i in range(len(found))]

    def initial_velocities(self) -> tuple[Nodes, Nodes, int]:
        """Of (q, v, t): w, the scales with which no component of ψ exceeds 1 at first, and the smallest part of a direction
        that is left beside the others."""
        g = self.g
        apart = [g.apply("sub", x, y) for x, y in zip(self.energy.pieces, self.fixed, strict=True)]
        w, scales, least = [], [], g.one
        for one in self.directions:
            size, over = self._largest([g.apply("abs", x) for x in one.v]), g.apply("div", g.one, one.square)
            w.append(g.apply("mul", g.apply("mul", size, over), self._dot(one.metric, apart)))
            scales.append(g.apply("mul", g.apply("mul", size, size), over))
            least = g.apply("min", least, g.apply("div", one.square, one.whole))
        return w, scales, least

    def near(self) -> int:
        """The largest Σ_j |∂p/∂q_j| (1 + |q_j|) / |p| of a pivot p, with the time: one over how far p = 0 is."""
        g, found = self.g, [self.g.zero]
        sizes = [g.apply("add", g.one, g.apply("abs", x)) for x in self.q] + [g.one]
        for pivot in self.d.pivots:
            slopes = jacobian(g, [pivot], [*self.q, self.t])[0].tolist()
            moved = self._dot([g.apply("abs", x) for x in slopes], sizes)
            found.append(g.apply("div", moved, g.apply("abs", pivot)))
        return self._largest(found)

    def _largest(self, numbers: Nodes) -> int:
        found = numbers[0]
        for x in numbers[1:]:
            found = self.g.apply("max", found, x)
        return found


REMEMBERED = 128
NEAR = 0.01  # how far it is to where a pivot is zero has to be a hundred times what the tolerance allows
ROOM = 0.1  # of a pivot at the beginning: where it is smaller, or has the other sign, another form has to go on
PARALLEL = 1e-6  # of u·C u: what has to be left of a direction beside the others
VANISHING = 1e-8  # of u·C u at the beginning
SHORT = 8  # operations that are not linear, for every coordinate, with which it takes less time than that of (q, v)


@dataclasses.dataclass(frozen=True)
class _Code:
    """flow: its outputs are (q, v, λ, drift). enter: of (q, v, t) what `_Written.entering` says. free: size of w; numbers:
    how many a run adds to the arrays of the system."""

    flow: CompiledFlow
    enter: CompiledFunction
    free: int
    numbers: int


_COMPILED: Remembered[_Code | None] = Remembered(REMEMBERED)


class FrameFlow:
    """The compiled equation, and the arrays that a system gives it. Safe under threads."""

    def __init__(self, code: _Code, leaves: list):
        self._code, self._leaves = code, [np.array(x, float).ravel() for x in leaves]
        extra = np.zeros(code.numbers)
        self._arrays = {clock: Pool(lambda clock=clock: code.flow.over([*leaves, extra], clock)) for clock in (1.0, -1.0)}

    def run(self, q: np.ndarray, v: np.ndarray, times: np.ndarray, accuracy: Accuracy) -> Travelled | None:
        """From (q, v) that satisfy the constraints; None where directions are parallel there, or where steps might not see a
        pivot go through zero."""
        code, k = self._code, self._code.free
        result, room = np.empty(code.enter.result_size), np.zeros(k + code.numbers)
        given = q, room[:k], times[:1], *self._leaves, room[k:], v, code.enter.captured
        code.enter.run(np.concatenate(given), result)
        near, least = result[-2:].tolist()
        if not (least > PARALLEL and near * accuracy.tolerance < NEAR and np.isfinite(result).all()):
            return None
        with self._arrays[1.0 if times[-1] > times[0] else -1.0].one() as arrays:
            arrays.refill(result[k:-2])
            return code.flow.run(np.concatenate([q, result[:k]]), times, arrays, accuracy)


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
    return _Code(flow, written.entering().compile(), written.k, written.numbers)


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
        examples = [np.zeros(self.n + self.k), np.zeros(1), *self.leaves]
        return evaluate_at_states(self.g, np.array(nodes), examples, self.tracer.captured)

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
