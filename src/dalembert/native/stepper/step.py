"""A step as plain functions of flat arrays, and its translation into one graph."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra import value_and_jacobian
from dalembert.native.graph.dependence import Dependence, evaluate
from dalembert.native.graph.graph import Graph
from dalembert.native.trace.proof import Equations
from dalembert.native.trace.tracer import Tracer

_CUBIC = np.array([[[0, 0, 0, 0], [1, 0, 0, 0], [2, -1, 0, 0], [3, -3, 1, 0], [4, -6, 4, -1]]], float)


@dataclasses.dataclass(frozen=True)
class StepFunctions:
    """A step  F(z; q, s, t, h, held_force) = 0,  q ← q + increment,  s ← new, as functions that JAX can trace.

    n, d, k: lengths of q, of velocities, of s. residual(z, q, s, t, h, held_force, p) → (z,). guess(q, s, t, h, p) → (z,).
    scale(z, q, s, h, p) → (z,), infinite where an unknown is not tested. advance(z, q, s, t, h, p) → (increment
    (n,), new s (k,)). outputs(z, q, s, t, h, held_force, p) → (multipliers (m,), force (d,)). velocity(s, p) → (d,).
    factor(z, q, s, t, h, p) → (): its sign is watched; None: the determinant's. ends: a change of the sign ends the run,
    otherwise it is counted. overlap(z, q, s, t, h, p) → (): ends the run where it is negative. stop, domain (q, v, t, p) →
    truth value. law(q, v, t, p) → held (n,), a zero-order-hold force.
    reduce(r, w, t, q, v, multipliers, p) → (r, w), of numbers r and integers w, with `reduced` their lengths. clock(s, p) →
    (t, …), kept with every row: the time of a state where steps differ in length; None: it is t0 + k h. astray(q, s before a
    whole step, q, s after it, p) → truth value: is counted as a leap. length(s, h, p) → (), that of a step if it is not h.
    p: the arrays of the program, of shapes `shapes`. weights: a step is made of stages, each a step with weights[i] h.
    extrapolation: (stages, 5, 4), the weights of the last solutions, newest first, in the prediction, by how many are known.
    costly: iterations take long: a stage is predicted from its differences in the last steps, and three equations are solved
    by cofactors; rows have no held force without a law.
    """

    n: int
    k: int
    shapes: tuple[tuple[int, ...], ...]
    residual: Callable
    guess: Callable
    scale: Callable
    advance: Callable
    outputs: Callable
    velocity: Callable
    factor: Callable | None = None
    ends: bool = False
    overlap: Callable | None = None
    stop: Callable | None = None
    domain: Callable | None = None
    law: Callable | None = None
    reduce: Callable | None = None
    clock: Callable | None = None
    astray: Callable | None = None
    length: Callable | None = None
    reduced: tuple[int, int] = (0, 0)
    weights: tuple[float, ...] = (1.0,)
    extrapolation: np.ndarray = dataclasses.field(default_factory=lambda: _CUBIC)
    costly: bool = False
    velocities: int | None = None

    @property
    def d(self) -> int:
        """The number of velocities: that of positions, if nothing else is said."""
        return self.n if self.velocities is None else self.velocities


@dataclasses.dataclass
class StepNodes:
    """Nodes of what a step computes; empty where there is no such thing.

    f, jacobian (by rows): at z. scale, and all that follows the solution, at w: new_q, new_s and their compensations;
    multipliers, force; velocity of new_s; turned: the scalar product of the velocities before and after the whole step,
    which begins at (q, s), with stages at `since`; astray: of the whole step, whose end is `after`; factor, overlap,
    inside, stop, new_reduced; clock, empty where steps are equal. law: at the state before it.
    """

    f: list[int]
    jacobian: list[int]
    guess: list[int]
    scale: list[int]
    new_q: list[int]
    new_q_compensation: list[int]
    new_s: list[int]
    new_s_compensation: list[int]
    multipliers: list[int]
    force: list[int]
    new_velocity: list[int]
    turned: list[int]
    factor: list[int]
    overlap: list[int]
    inside: list[int]
    stop: list[int]
    astray: list[int]
    law: list[int]
    new_reduced: list[int]
    clock: list[int]

    @property
    def matrix(self) -> np.ndarray:
        """The Jacobian, (z, z)."""
        return np.array(self.jacobian, np.int64).reshape(len(self.f), len(self.f))


@dataclasses.dataclass
class Translated(StepNodes):
    """A step as nodes of a graph. Inputs: z (the iterate), w (the accepted z), q, s, t, h, held_force, reduced, p, captured;
    the rounding compensations of q, s and w; and again, F at another point than the Jacobian.

    declared: nodes whose part in the Jacobian is what somebody says. length: of the step, if it is not h.
    """

    graph: Graph
    depend: Dependence
    captured: np.ndarray
    declared: set[int]
    ends: bool
    length: int | None
    weights: tuple[float, ...]
    extrapolation: np.ndarray

    _levels: dict[int, int] = dataclasses.field(default_factory=dict)

    def level(self, i: int) -> int:
        """Level of node i: 0 if it changes once per run (for each stage), 1 once per step or stage, 2 once per iteration."""
        found = self._levels.get(i)
        if found is None:
            found = self._levels[i] = self._level(i)
        return found

    def _level(self, i: int) -> int:
        if self.depend.on(i, "z", "w", "w_compensation", "again", "after_q", "after_s"):
            return 2
        before = ("q", "s", "s_compensation", "t", "held_force", "q_compensation", "reduced", "since_q", "since_s")
        return 1 if self.depend.on(i, *before) else 0

    @functools.cached_property
    def equations(self) -> Equations:
        """Equations F with what is proven of them."""
        return Equations(self.graph, self.f, self.matrix, self.declared)

    @property
    def everything(self) -> range:
        """Indices of all equations, and of all unknowns."""
        return range(len(self.f))

    @property
    def linear(self) -> bool:
        """True if F is proven to be affine in z."""
        return self.equations.affine(self.everything, self.everything)


def translate(step: StepFunctions, sample: Sample | None = None) -> Translated:
    """Trace every function of the step once, into one graph. sample: a state at which pivots are chosen."""
    graph = Graph()
    tracer, n, k = Tracer(graph), step.n, step.k
    q, s, t, h = (graph.vector(*x) for x in (("q", n), ("s", k), ("t", 1), ("h", 1)))
    held_force, q_rest = (graph.vector(*x) for x in (("held_force", step.d), ("q_compensation", n)))
    reduced = graph.vector("reduced", sum(step.reduced), step.reduced[1])
    t, h = t.reshape(()), h.reshape(())
    held_force = held_force if step.law else np.full(step.d, graph.zero)  # without a law nothing is ever held
    flat = graph.vector("p", sum(int(np.prod(x, initial=1)) for x in step.shapes))
    p = [a.reshape(x) for a, x in zip(np.split(flat, np.cumsum([np.prod(x, dtype=int) for x in step.shapes])[:-1]),
                                      step.shapes, strict=False)] if step.shapes else []  # fmt: skip

    def trace(function: Callable, *inputs: np.ndarray) -> Any:
        shapes = [jax.ShapeDtypeStruct(a.shape, "int64" if _whole(graph, a) else "float64") for a in inputs]
        leaves = tuple(jax.ShapeDtypeStruct(a.shape, jnp.float64) for a in p)
        call = lambda *x: function(*x[: len(inputs)], x[len(inputs) :])  # noqa: E731
        return tracer.trace(call, *inputs, *p, shapes=[*shapes, *leaves])

    (guess,) = trace(step.guess, q, s, t, h)
    z, w = graph.vector("z", guess.size), graph.vector("w", guess.size)
    tracer.samples = sample and sample.near(graph, guess, tracer.captured)
    s_rest, w_rest = graph.vector("s_compensation", k), graph.vector("w_compensation", guess.size)
    f, jacobian = trace(_with_jacobian(step.residual), z, q, s, t, h, held_force)
    (scale,) = trace(step.scale, w, q, s, h)
    increment, new_s = trace(step.advance, w, q, s, t, h)
    new_s, new_s_compensation = _compensate(graph, new_s, s, s_rest, w_rest)
    total = [_less(graph, int(a), int(b)) for a, b in zip(increment, q_rest, strict=True)]
    new_q = np.array([graph.raw("add", int(a), b) for a, b in zip(q, total, strict=True)], np.int64)
    new_q_compensation = [
        graph.raw("sub", graph.raw("sub", int(a), int(b)), c) for a, b, c in zip(new_q, q, total, strict=True)
    ]
    multipliers, force = trace(step.outputs, w, q, s, t, h, held_force)
    (velocity,) = trace(step.velocity, s)
    (new_velocity,) = trace(step.velocity, new_s)
    since = (q, s) if len(step.weights) == 1 else (graph.vector("since_q", n), graph.vector("since_s", k))
    (start,) = trace(step.velocity, since[1])
    turned = [graph.total(graph.apply("mul", int(a), int(b)) for a, b in zip(start, new_velocity, strict=True))]
    (clock,) = trace(step.clock, new_s) if step.clock else (np.zeros(0, np.int64),)
    begin, end = t, np.asarray(graph.apply("add", int(t), int(h)))
    if step.clock:
        begin, end = trace(step.clock, s)[0][0].reshape(()), clock[0].reshape(())

    def condition(function: Callable | None) -> list[int]:
        if function is None:
            return []
        (answer,) = trace(function, new_q, new_velocity, end)
        every = graph.true
        for i in answer.ravel().tolist():
            every = graph.apply("and", every, i)
        return [every]

    def optional(function: Callable | None, *inputs: np.ndarray) -> list[np.ndarray]:
        return trace(function, *inputs) if function else []

    factor, overlap = (optional(function, w, q, s, t, h) for function in (step.factor, step.overlap))
    after = [graph.vector(*x) for x in (("after_q", n), ("after_s", k))] if step.astray else []
    astray, length = optional(step.astray, *since, *after), optional(step.length, s, h)
    law = optional(step.law, q, velocity, begin)
    values = np.split(reduced, [step.reduced[0]])
    new_reduced = optional(step.reduce, *values, end, new_q, new_velocity, multipliers)
    inside, stop = condition(step.domain), condition(step.stop)
    nodes: dict[str, Any] = {
        "f": f, "jacobian": jacobian, "guess": guess, "scale": scale, "new_q": new_q,
        "new_q_compensation": new_q_compensation, "new_s": new_s, "new_s_compensation": new_s_compensation,
        "multipliers": multipliers, "force": force, "new_velocity": new_velocity, "turned": turned, "factor": factor,
        "overlap": overlap, "inside": inside, "stop": stop, "astray": astray, "law": law, "new_reduced": new_reduced,
        "clock": clock,
    }  # fmt: skip
    lists: dict[str, Any] = {name: [int(i) for part in x for i in np.ravel(part)] for name, x in nodes.items()}
    return Translated(
        **lists,
        graph=graph, depend=Dependence(graph), captured=np.array(tracer.captured), declared=tracer.declared, ends=step.ends,
        length=int(length[0]) if length else None, weights=step.weights, extrapolation=step.extrapolation,
    )  # fmt: skip


def _whole(graph: Graph, nodes: np.ndarray) -> bool:
    return nodes.size > 0 and graph.kind[int(nodes.flat[0])] == "i"


def _with_jacobian(residual: Callable) -> Callable:
    """z, … ↦ (F, ∂F/∂z)."""
    return lambda z, *rest: value_and_jacobian(lambda x: residual(x, *rest), z)


def _less(g: Graph, increment: int, rest: int) -> int:
    """increment - rest, formed first where the increment's first term is: that is known before the step is solved."""
    op, *terms = g.nodes[increment]
    if op != "add":
        return g.apply("sub", increment, rest)
    return g.apply("add", g.apply("sub", terms[0], rest), terms[1])


def _compensate(g: Graph, new_s: np.ndarray, s: np.ndarray, s_rest: np.ndarray, w_rest: np.ndarray) -> tuple[Any, Any]:
    """(new s, its compensation): where s becomes an unknown w_j, or itself and something, it is summed with what rounding
    cut off before.

    s + ((w_j - s) + (rest of w_j + rest of s)): a solution near s differs from it by a number that is known exactly, and
    the update of Newton's last iteration is known to more digits than z - update. Source: Hairer, Lubich, Wanner, Geometric
    Numerical Integration, Section VIII.5, for increments of any one step method.
    """
    sums, rests = [], []
    for new, old, rest in zip(new_s.tolist(), s.tolist(), s_rest.tolist(), strict=True):
        node = g.nodes[new]
        if node[:2] == ("var", "w"):
            part = g.raw("add", g.raw("sub", new, old), g.raw("add", int(w_rest[node[2]]), rest))
        elif node[0] == "add" and old in node[1:]:
            part = g.raw("add", node[1] if node[2] == old else node[2], rest)
        else:
            sums.append(new)
            rests.append(g.zero)
            continue
        sums.append(g.raw("add", old, part))
        rests.append(g.raw("sub", part, g.raw("sub", sums[-1], old)))
    return np.array(sums, np.int64), np.array(rests, np.int64)


@dataclasses.dataclass
class Sample:
    """A state at which the pivots are chosen: q, s, t, h, and p (the program's arrays, flat)."""

    q: np.ndarray
    s: np.ndarray
    t: float
    h: float
    p: np.ndarray

    def near(
        self, graph: Graph, guess: np.ndarray, captured: Sequence[float] | np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Nodes (…) ↦ their values (s, …) at a few points near the guess of the unknowns, z and w alike."""
        still = np.zeros(len(self.q))
        inputs = {
            "q": self.q, "s": self.s, "t": np.array([self.t]), "h": np.array([self.h]), "p": self.p, "held_force": still,
        }  # fmt: skip

        def values_near(nodes: np.ndarray) -> np.ndarray:
            known, entries = {**inputs, "captured": np.array(captured)}, [int(i) for i in nodes.ravel()]
            points = _around(evaluate(graph, guess.tolist(), known).astype(float))
            values = [evaluate(graph, entries, {**known, "z": z, "w": z}).astype(float) for z in points]
            return np.stack(values).reshape(-1, *nodes.shape)

        return values_near


def _around(z: np.ndarray) -> Sequence[np.ndarray]:
    """Points near z, the same at every call, so that the same program gives the same code."""
    noise: Any = np.random.default_rng(0)
    size = 1e-2 * (np.max(np.abs(z), initial=0.0) or 1.0)
    return [z + size * noise.standard_normal(z.shape) for _ in range(2)]
