"""The equation on D in machine code: (q, w) in place of (q, v), for constraints that are linear or affine in v.

    v = Σ_a w_a ψ_a(q, t) + v_b(q, t),   L = ½ u·C u - U(q, t),   u(ψ_a)·C u(ψ_b) = δ_ab

with pieces u, linear in v, such as the velocities of points and angles. A velocity that is combined of directions of D
satisfies the constraints to rounding, however large the errors of (q, w) are. The directions are found on the graph, so that
nobody has to choose coordinates; where they degenerate, the integration ends, and that of (q, v) can go on.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

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
    express,
    gather_factors,
    graph_flow,
    jacobian,
    needed_nodes,
    operands,
    refusing,
    replace_nodes,
    with_angles,
)
from dalembert.systems.compiled import REMEMBERED, SystemFlow, reduced_flow
from dalembert.systems.equations import force
from dalembert.systems.proof import RunStart
from dalembert.systems.system import Rebuilt, System, parts_of
from dalembert.tracing import Pool, Remembered

Nodes = list[int]
Numbers = Any  # an array of nodes with the operators of numbers


class Algebra:
    """Numbers on a graph, in arrays, with their derivatives. moves: whether a node changes with the motion."""

    def __init__(self, g: Graph, moves: Callable[[int], bool]):
        self.g, self.moves = g, moves

    def numbers(self, nodes: Any) -> Numbers:
        """Nodes, in an array of the same shape."""
        found = np.empty(np.shape(nodes), object)
        found.ravel()[:] = express(self.g, np.ravel(nodes))
        return found

    def acts(self, x: Any) -> bool:
        """True if a number is not zero by structure."""
        return x.node != self.g.zero

    def total(self, terms: Iterable[Any]) -> Any:
        return express(self.g, [self.g.total(x.node for x in terms if self.acts(x))])[0]

    def dot(self, a: Numbers, b: Numbers) -> Any:
        return self.total(a * b)

    def simpler(self, x: Numbers) -> Numbers:
        gathered = gather_factors(self.g, nodes_of(x), lambda i: int(self.moves(i)))
        return self.numbers(with_angles(self.g, gathered))

    def substitute(self, x: Numbers, before: Numbers, after: Numbers) -> Numbers:
        """x with other numbers in the place of these."""
        return self.numbers(replace_nodes(self.g, nodes_of(x), dict(zip(nodes_of(before), nodes_of(after), strict=True))))

    def jacobian_of(self, x: Numbers, by: Numbers) -> Numbers:
        """∂x/∂by, (x, by)."""
        return self.numbers(jacobian(self.g, nodes_of(x), nodes_of(by)))

    def derivative_along(self, x: Numbers, by: Numbers, direction: Numbers) -> Numbers:
        """The slopes times a direction."""
        return self.numbers(directional_derivative(self.g, nodes_of(x), nodes_of(by), nodes_of(direction)))


def nodes_of(x: Numbers) -> Nodes:
    return [one.node for one in np.ravel(x)]


class PiecewiseEnergy(NamedTuple):
    """pieces: u (r,). metric: C (r, r). potential: U."""

    pieces: Numbers
    metric: Numbers
    potential: Any


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


def piecewise_energy(on: Algebra, lagrangian: int, name: str) -> PiecewiseEnergy:
    """name: of the velocities. Unsupported where L is no such sum."""
    g = on.g
    degree = degrees(g, [lagrangian], name)
    if degree[lagrangian] > 2:
        raise Unsupported("lagrangian", "it is not quadratic in the velocities")
    pieces: dict[int, int] = {}
    for i in needed_nodes(g, [lagrangian]):
        op, *x = g.nodes[i]
        if op == "mul" and all(degree[j] == 1 for j in x):
            for j in x:
                pieces.setdefault(j, g.variable("u", len(pieces)))
    own, u = on.numbers(list(pieces)), on.numbers(list(pieces.values()))
    whole = on.substitute(on.numbers([lagrangian]), own, u)
    slopes, rest = on.jacobian_of(whole, u)[0], on.numbers([g.zero] * len(u))
    if Dependence(g).on(whole[0].node, name) or any(map(on.acts, on.substitute(slopes, u, rest))):
        raise Unsupported("lagrangian", "it has a term that is linear in the velocities")
    return PiecewiseEnergy(own, on.jacobian_of(slopes, u), on.substitute(whole, u, rest)[0])


LARGE = 0.1  # of the largest entry of its row: so large a pivot is divided by


@dataclasses.dataclass(frozen=True)
class Forbidden:
    """Direction ν that a row forbids, and the entry of the row there, its pivot."""

    row: int
    direction: Numbers
    pivot: Any


class AllowedDirections:
    """free: ψ_a. offset: v_b. held: in the order of elimination; φ of a row is 0 along every later ν. pivots: all that move.

    sampled: values of nodes, (samples, nodes).
    """

    def __init__(self, on: Algebra, phi: Sequence[int], v: Sequence[int], name: str, sampled: Callable):
        g = on.g
        if any(x > 1 for x in degrees(g, phi, name).values()):
            raise Unsupported("constraints", "they are not linear in the velocities")
        self.on, self.v, self.sampled, self.phi = on, on.numbers(v), sampled, on.simpler(on.numbers(phi))
        self.free = list(on.numbers(np.where(np.eye(len(v)) > 0, g.one, g.zero)))
        self.offset, self.held, self.pivots = on.numbers([g.zero] * len(v)), list[Forbidden](), list[Any]()
        pattern, left = np.vectorize(on.acts, otypes=[bool])(on.jacobian_of(self.phi, self.v)), set(range(len(phi)))
        while left:
            row = min(left, key=lambda r: (sum(any(pattern[r, self._support(c)]) for c in self.free), r))
            left.remove(row)
            self._eliminate(row)

    def entry(self, row: int, direction: Numbers) -> Any:
        """∂φ/∂v of this row along a direction."""
        return self.on.simpler(self.on.derivative_along(self.phi[row], self.v, direction))[0]

    def with_velocity(self, x: Numbers, v: Numbers) -> Numbers:
        """x with v in place of the velocities."""
        return self.on.substitute(x, self.v, v)

    def _support(self, column: Numbers) -> Nodes:
        return [i for i, x in enumerate(column) if self.on.acts(x)]

    def _eliminate(self, row: int) -> None:
        on = self.on
        entries = {c: x for c, column in enumerate(self.free) if on.acts(x := self.entry(row, column))}
        if not entries:
            raise Unsupported("constraints", "one of them follows from the others")
        while (chosen := self._pivot(entries)) is None:
            self._turn(entries)
        pivot, direction = entries.pop(chosen), self.free[chosen]
        for c, x in entries.items():
            self.free[c] = on.simpler(self.free[c] + direction * -(x / pivot))
        (wrong,) = self.with_velocity(self.phi[row], self.offset)
        if on.acts(wrong):
            self.offset = on.simpler(self.offset + direction * -(wrong / pivot))
        self.held.append(Forbidden(row, direction, pivot))
        self._watch(pivot)
        del self.free[chosen]

    def _pivot(self, entries: dict[int, Any]) -> int | None:
        """The column with an entry to divide by: one that is there alone, or is constant and not small."""
        if len(entries) == 1:
            return next(iter(entries))
        sizes = np.abs(self.sampled(nodes_of(list(entries.values()))))
        enough = sizes >= LARGE * sizes.max(axis=1, keepdims=True)
        fixed = [not self.on.moves(x.node) for x in entries.values()]
        good = [c for c, still, large in zip(entries, fixed, enough.T, strict=True) if still and large.all()]
        return min(good, key=lambda c: (len(self._support(self.free[c])), -c), default=None)

    def _turn(self, entries: dict[int, Any]) -> None:
        """Two columns x, y with entries a, b: b x - a y has none, and a x + b y has a² + b², if possible a constant."""
        simpler = self.on.simpler
        columns = sorted(entries, key=lambda c: len(self._support(self.free[c])))
        pairs = [(i, j) for k, i in enumerate(columns) for j in columns[k + 1 :]]
        squares = {(i, j): simpler([entries[i] * entries[i] + entries[j] * entries[j]])[0] for i, j in pairs}
        i, j = min(pairs, key=lambda pair: self.on.moves(squares[pair].node))
        a, b, x, y = entries.pop(i), entries[j], self.free[i], self.free[j]
        self._watch(squares[i, j])
        self.free[i], self.free[j], entries[j] = simpler(x * b - y * a), simpler(x * a + y * b), squares[i, j]

    def _watch(self, pivot: Any) -> None:
        if self.on.moves(pivot.node) and pivot.node not in nodes_of(self.pivots):
            self.pivots.append(pivot)


class Along(NamedTuple):
    """A direction in D. v: its components ψ. pieces: u there. metric: C u. square: u·C u; whole: the same before the earlier
    directions were taken off."""

    v: Numbers
    pieces: Numbers
    metric: Numbers
    square: Any
    whole: Any


class OrthonormalEquations:
    """q, t, forces: inputs. scale: s_a of each direction, whose velocity is in units in which it has u·C u = 1/s_a."""

    def __init__(self, d: AllowedDirections, energy: PiecewiseEnergy, q: Nodes, t: int, forces: Sequence[int]):
        self.d, self.on, self.energy = d, d.on, energy
        self.q, self.place, self.given_force = d.on.numbers(q), d.on.numbers([*q, t]), d.on.numbers(forces)
        self.fixed = self.on.simpler(d.with_velocity(energy.pieces, d.offset))
        self.directions = self._orthogonal()

    def _pieces_along(self, v: Numbers) -> Numbers:
        return self.on.simpler(self.on.derivative_along(self.energy.pieces, self.d.v, v))

    def _metric(self, u: Numbers) -> Numbers:
        return self._product(self.energy.metric, u)

    def _product(self, matrix: Numbers, u: Numbers) -> Numbers:
        return np.array([self.on.dot(row, u) for row in matrix], object)

    def _orthogonal(self) -> list[Along]:
        """Gram-Schmidt, the simplest directions first."""
        on, done = self.on, list[Along]()
        found = [(v, self._pieces_along(v)) for v in self.d.free]
        cost = lambda u: len([i for i in needed_nodes(on.g, nodes_of(u)) if on.moves(i)])  # noqa: E731
        for v, u in sorted(found, key=lambda x: cost(x[1])):
            whole = square = on.dot(u, self._metric(u))
            for one in done:
                (part,) = on.simpler([on.dot(one.metric, u) / one.square])
                if on.acts(part):
                    v, u = on.simpler(v - one.v * part), on.simpler(u - one.pieces * part)
                    square = on.dot(u, self._metric(u))
            done.append(Along(v, u, self._metric(u), *on.simpler([square, whole])))
        return done

    def velocity(self, w: Nodes, scale: Nodes) -> None:
        """Everything at velocities w."""
        on, d, own, metric = self.on, self.d, self.directions, self.energy.metric
        self.scale = on.numbers(scale)
        self.unit = np.array([1.0 / (s * a.square).apply("sqrt") for s, a in zip(self.scale, own, strict=True)], object)
        self.speeds = on.numbers(w) * self.unit
        self.v = self._combine([a.v for a in own], d.offset)
        self.u = self._combine([a.pieces for a in own], self.fixed)
        self.momenta = self._metric(self.u)
        self.force = d.with_velocity(self.given_force, self.v)
        self._slopes = on.jacobian_of([self.energy.potential], self.q)[0]
        self._rates = self._exterior()
        turned = on.jacobian_of(metric, self.q).reshape(*metric.shape, len(self.q))
        self._turned = {j: turned[..., j] for j in range(len(self.q)) if any(map(on.acts, turned[..., j].flat))}
        self._metric_rate = self.rate(metric).reshape(metric.shape)
        self.slopes = [self._slope(i) for i in range(len(own))]

    def _combine(self, columns: list[Numbers], start: Numbers) -> Numbers:
        parts = [column * s for column, s in zip(columns, self.speeds, strict=True)]
        return np.array([self.on.total(terms) for terms in zip(*parts, start, strict=True)], object)

    def rate(self, x: Numbers, w: Sequence[Any] = (), rates: Sequence[Any] = ()) -> Numbers:
        """d/dt of numbers of (q, t), and of w with their rates."""
        one = express(self.on.g, [self.on.g.one])
        return self.on.derivative_along(x, [*self.place, *w], [*self.v, *one, *rates])

    def _slope(self, a: int) -> Any:
        """ẇ_a."""
        on, one = self.on, self.directions[a]
        terms = [on.dot(one.pieces, self.rate(self._metric(self.fixed))), self._rest(one.v)]
        for b, other in enumerate(self.directions):
            moved = on.dot(one.pieces, self._product(self._metric_rate, other.pieces))
            if b == a:
                change = 0.5 * moved
            elif b < a:
                change = on.dot(one.pieces, self.rate(other.metric))
            else:
                change = moved - on.dot(other.pieces, self.rate(one.metric))
            terms.append(change * self.speeds[b])
        return -(self.scale[a] * self.unit[a] * on.total(terms))

    def _rest(self, v: Numbers) -> Any:
        """π·B - ½ u·∂C u - ∂U - f along a direction v."""
        on = self.on
        turned = [-0.5 * (on.dot(self.u, self._product(metric, self.u)) * v[j]) for j, metric in self._turned.items()]
        pushed = on.dot(self._slopes + self.force, v)
        return on.total([on.dot(self.momenta, self._bent(v)), *turned, -pushed])

    def _exterior(self) -> list[dict[tuple[int, int], Any]]:
        """Of every piece ∂_k ω_ij - ∂_j ω_ik for j < k, where it is not zero; k = n is the time."""
        on, n, found = self.on, len(self.q), []
        for piece, fixed in zip(self.energy.pieces, self.d.with_velocity(self.energy.pieces, self._still), strict=True):
            rows = on.jacobian_of([*on.jacobian_of([piece], self.d.v)[0], fixed], self.place)
            terms = {(j, k): on.simpler([rows[j, k] - rows[k, j]])[0] for k in range(1, n + 1) for j in range(k)}
            found.append({at: x for at, x in terms.items() if on.acts(x)})
        return found

    @property
    def _still(self) -> Numbers:
        return self.on.numbers([self.on.g.zero] * len(self.q))

    def _bent(self, v: Numbers) -> Numbers:
        """B_i(v, δ) = Σ_{j<k} (∂_k ω_ij - ∂_j ω_ik)(v_k δ_j - v_j δ_k), of the time v = 1 and δ = 0."""
        now, then = [*self.v, *express(self.on.g, [self.on.g.one])], [*v, *express(self.on.g, [self.on.g.zero])]
        bent = [[x * (now[k] * then[j] - now[j] * then[k]) for (j, k), x in terms.items()] for terms in self._rates]
        return np.array([self.on.total(terms) for terms in bent], object)

    def multipliers(self, w: Nodes) -> list[Any]:
        """λ with Rᵀλ = d/dt L_v - L_q - f: along the directions in which reactions work, the last first."""
        on, held = self.on, self.d.held
        rates, found = self.rate(self.momenta, on.numbers(w), self.slopes), dict[int, Any]()
        for at, one in reversed(list(enumerate(held))):
            pieces = self._pieces_along(one.direction)
            whole = on.dot(pieces, rates) + self._rest(one.direction)
            for later in held[at + 1 :]:
                whole = whole - self.d.entry(later.row, one.direction) * found[later.row]
            found[one.row] = whole / one.pivot
        return [found[i] for i in range(len(found))]

    def initial_velocities(self) -> tuple[list[Any], list[Any], Any]:
        """Of (q, v, t): w, the scales with which no component of ψ exceeds 1 at first, and the smallest part of a direction
        that is left beside the others."""
        w, scales, (least,) = [], [], express(self.on.g, [self.on.g.one])
        for one in self.directions:
            size, over = largest(map(abs, one.v)), 1.0 / one.square
            w.append(size * over * self.on.dot(one.metric, self.energy.pieces - self.fixed))
            scales.append(size * size * over)
            least = least.apply("min", one.square / one.whole)
        return w, scales, least

    def near(self) -> Any:
        """The largest Σ_j |∂p/∂q_j| (1 + |q_j|) / |p| of a pivot p, with the time: one over how far p = 0 is."""
        on = self.on
        sizes = np.array([*(1.0 + abs(self.q)), *express(on.g, [on.g.one])], object)
        slopes = [on.jacobian_of([pivot], self.place)[0] for pivot in self.d.pivots]
        moved = [on.dot(abs(x), sizes) / abs(pivot) for x, pivot in zip(slopes, self.d.pivots, strict=True)]
        return largest([*express(on.g, [on.g.zero]), *moved])


def largest(numbers: Iterable[Any]) -> Any:
    return functools.reduce(lambda x, y: x.apply("max", y), numbers)


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
        on = Algebra(g, self.moves)
        d = AllowedDirections(on, phi, v.tolist(), self.last, self._sample)
        kinetic = piecewise_energy(on, lagrangian, self.last)
        self._continuous([*phi, *nodes_of(kinetic.pieces), *nodes_of(kinetic.metric)])
        equations = self.equations = OrthonormalEquations(d, kinetic, q, t, forces)
        equations.velocity(w, [g.variable(self.extra, i) for i in range(self.k)])
        self.pivots = d.pivots
        self.slope = nodes_of([*equations.v, *equations.slopes])
        self.holds = self._holding()

    def moves(self, i: int) -> bool:
        return self._depend.on(i, "x0", "x1")

    def _trace_functions(self, rebuilt: Rebuilt, q: np.ndarray, t: int, v: np.ndarray) -> tuple[int, Nodes, Nodes]:
        """L, φ and f."""

        def functions(q, t, v, *given):
            system = rebuilt(given)
            phi = [c.residual(system, q, v, v, t) for c in system.constraints]
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
        n, d, v = self.n, self.equations.d, self.equations.v
        wrong = largest([*express(self.g, [self.g.zero]), *map(abs, d.with_velocity(d.phi, v))])
        q, w = np.split(self.g.vector("x0", n + self.k), [n])
        return [*q.tolist(), *nodes_of([*v, *self.equations.multipliers(w.tolist()), wrong])]

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
        numbers = express(self.g, self.g.vector(self.extra, self.numbers))
        (holds,) = express(self.g, [self.g.true])
        for one, least in zip(self.equations.directions, numbers[self.k :], strict=False):
            if self.moves(one.square.node):
                holds = holds & (one.square >= least)
            if one.whole.node != one.square.node:
                holds = holds & (one.square >= PARALLEL * one.whole)
        for pivot, over in zip(self.pivots, numbers[2 * self.k :], strict=True):
            holds = holds & (pivot * over >= ROOM)
        return holds.node

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
        w, scales, least = self.equations.initial_velocities()
        squares, pivots = [VANISHING * one.square for one in self.equations.directions], [1.0 / x for x in self.pivots]
        found = nodes_of([*w, *scales, *squares, *pivots, self.equations.near(), least])
        return self.function(found, entering=True)


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
