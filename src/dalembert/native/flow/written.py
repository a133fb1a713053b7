"""Functions of an equation's unknowns that enter linearly, with their elimination written out.

    F(z, y, t) = F₀ + F' z = 0,   ẏ = g(-F'⁻¹F₀, y, t)

Pivots are chosen from a sample of states, and checked at every state: where the check fails the pivoted solver takes over.

Quotients a / b are continued through the zeros of b, where the division leaves no remainder.

    a = Σ_f f P_f(x),   b = c (x - r),   P_f(x) = (x - r) Q_f(x) + P_f(r),   a / b = Σ_f f Q_f(x) / c if P_f(r) = 0

in one component x of the state; f: functions that are no polynomials in x. Near b = 0 a quotient of two small numbers has
lost its digits, and takes longer: both sides of a choice are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.native.assembly.function import GraphFunction
from dalembert.native.graph.dependence import evaluate, reached
from dalembert.native.graph.elimination import GROWTH, PivotOrder, choose_order, definite_parts, eliminate
from dalembert.native.graph.graph import Graph, operands
from dalembert.native.graph.simplify import replaced
from dalembert.native.trace.elementwise import Nodes
from dalembert.native.trace.tracer import Tracer

SAMPLES = 3
Sample = dict[str, np.ndarray]
CLOSE = 1e-6  # two values that are meant to be equal
WORTH = 1.5  # times the operations of the elimination, for pivots that never fail


def write_elimination(
    functions: Sequence[Callable], equations: Callable, unknowns: int, examples: Sequence[np.ndarray]
) -> list[GraphFunction]:
    """Of each function g(z, y, t, *given): (y, t, *given) → g, and at last whether it holds, a truth value; none where no
    pivots serve the sample.

    equations: F of the same, affine in z. examples: (y, t, *given), the arrays given with the values that the system has:
    the sample is taken there, at states between 0.2 and 1.
    """
    g = Graph()
    inputs = [g.vector(f"x{i}", x.size).reshape(x.shape) for i, x in enumerate(examples)]
    tracer, shapes = Tracer(g), [jax.ShapeDtypeStruct(x.shape, np.float64) for x in examples]
    at_zero = lambda *given: value_and_jacobian(lambda z: equations(z, *given), jnp.zeros(unknowns))  # noqa: E731
    value, matrix = tracer.trace(at_zero, *inputs, shapes=shapes)
    pattern = matrix != g.zero
    order = _pivots(pattern, _sample_matrix(g, matrix, examples, tracer.captured))
    if order is None:
        return []
    found = eliminate(g, value.tolist(), matrix, order, lambda _: 1, GROWTH["linear"])
    z = np.array([g.apply("neg", found.update[j]) for j in range(unknowns)])
    good, shapes = g.apply("le", found.check, g.constant(GROWTH["linear"])), [jax.ShapeDtypeStruct(z.shape, float), *shapes]
    results = [tracer.trace(function, z, *inputs, shapes=shapes)[0] for function in functions]
    samples = _states(examples, tracer.captured)
    results, good = _continue_quotients(g, results, good, samples)
    return [GraphFunction(g, tracer, tuple(x.size for x in inputs), (found, np.asarray(good))) for found in results]


def _continue_quotients(g: Graph, results: list[Nodes], good: int, samples: list[Sample]) -> tuple[list[Nodes], int]:
    """The results with quotients divided out where a sample says that this is possible, and whether they hold."""
    outputs = [i for x in results for i in x.ravel().tolist()]
    value = lambda i: float(evaluate(g, [i], samples[0])[0])  # noqa: E731
    state = g.vector("x0", samples[0]["x0"].size).tolist()
    known = {}
    for i, quotient in without_remainder(g, outputs, state, value).items():
        if all(_serves(g, i, quotient, x) for x in samples):
            known[i], good = quotient.value, g.apply("and", good, quotient.holds)
    if not known:
        return results, good
    nodes = np.array(replaced(g, outputs, known))
    ends = np.cumsum([x.size for x in results])[:-1]
    return [part.reshape(x.shape) for part, x in zip(np.split(nodes, ends), results, strict=True)], good


def _serves(g: Graph, i: int, quotient: Quotient, sample: Sample) -> bool:
    """True if the quotient has no remainder, and equals node i, also where its denominator is zero."""
    _, name, component = g.nodes[quotient.x]
    there = sample[name].copy()
    there[component] = evaluate(g, [quotient.root], sample)[0]
    with np.errstate(all="ignore"):
        pairs = [evaluate(g, [i, quotient.value], x) for x in (sample, sample | {name: there})]
    close = all(abs(a - b) <= CLOSE * (abs(a) + abs(b)) for a, b in pairs)
    return close and bool(evaluate(g, [quotient.holds], sample)[0])


def _pivots(pattern: np.ndarray, samples: np.ndarray) -> PivotOrder | None:
    """On the diagonal where the matrix is definite, so that they never fail, unless that takes many more operations."""
    levels, parts = np.ones(pattern.shape, int), definite_parts(samples)
    least = choose_order(pattern, levels, samples)
    found = None if parts is None else choose_order(pattern, levels, samples, parts)
    return found if found and (least is None or found.operations <= WORTH * least.operations) else least


def _sample_matrix(g: Graph, matrix: Nodes, examples: Sequence[np.ndarray], captured: Sequence[float]) -> np.ndarray:
    """(s, k, k) values of F' at states that are the same for every system."""
    values = []
    for known in _states(examples, captured):
        with np.errstate(all="ignore"):  # what is not finite gives no order of pivots
            values.append(evaluate(g, matrix.ravel().tolist(), known).astype(float).reshape(matrix.shape))
    return np.array(values)


def _states(examples: Sequence[np.ndarray], captured: Sequence[float]) -> list[Sample]:
    """The inputs there."""
    noise: Any = np.random.default_rng(0)
    y, *given = (np.ravel(np.asarray(x, float)) for x in examples)
    known = {f"x{i}": x for i, x in enumerate((y, *given))} | {"captured": np.array(captured, float)}
    return [known | {"x0": noise.uniform(0.2, 1.0, y.shape)} for _ in range(SAMPLES)]


DEGREE = 6  # of a polynomial, at most
FACTORS = 8  # functions that are no polynomials, at most
REST = 1e-12  # a remainder, of the sizes of its terms, that is taken as rounding

POLYNOMIAL = frozenset(["add", "sub", "neg", "mul"])

Terms = dict[int, list[int]]  # function, or 1 → coefficients of its polynomial


class Quotient(NamedTuple):
    """value: by division of polynomials; holds: whether there is no remainder. x, root: where the denominator is 0."""

    value: int
    holds: int
    x: int
    root: int


def without_remainder(
    g: Graph, outputs: Sequence[int], state: Sequence[int], value: Callable[[int], float]
) -> dict[int, Quotient]:
    """Choices, by their nodes, of which the first side is a quotient, and both are promised to agree where they meet.

    state: nodes of its components. value: of a node that does not depend on the state.
    """
    found = {}
    for i in reached(g, outputs):
        if g.nodes[i][0] == "pick":
            _, condition, yes, _ = g.nodes[g.nodes[i][1]]
            side, negative = yes[g.nodes[i][2]], False
            if g.nodes[side][0] == "neg":
                side, negative = g.nodes[side][1], True
            if g.nodes[condition][0] == "agree" and g.nodes[side][0] == "div":
                _, a, b = g.nodes[side]
                quotient = _divide(g, g.apply("neg", a) if negative else a, b, state, value)
                if quotient is not None:
                    found[i] = quotient
    return found


def _divide(g: Graph, a: int, b: int, state: Sequence[int], value: Callable[[int], float]) -> Quotient | None:
    """By that component of the state by which b changes most."""
    moving = _dependent(g, [a, b], state)
    best, slope = None, 0.0
    for x in state:
        below = _terms(g, b, x)
        if list(below) == [g.one] and len(below[g.one]) == 2 and below[g.one][1] not in moving:
            size = abs(value(below[g.one][1]))
            if size > slope:
                best, slope = (x, below[g.one]), size
    if best is None:
        return None
    x, (c0, c1) = best
    root = g.apply("neg", g.apply("div", c0, c1))
    total, holds = g.zero, g.true
    for f, coefficients in _terms(g, a, x).items():
        *higher, rest = _synthetic(g, coefficients, root)
        size = _size(g, coefficients, root)
        small = g.apply("le", g.apply("abs", rest), g.apply("mul", g.constant(REST), size))
        holds = g.apply("and", holds, small)
        part = g.zero
        for c in higher:
            part = g.apply("add", g.apply("mul", part, x), c)
        total = g.apply("add", total, g.apply("mul", f, part))
    return Quotient(g.apply("div", total, c1), holds, x, root)


def _synthetic(g: Graph, coefficients: Sequence[int], root: int) -> list[int]:
    """The coefficients of the quotient by x - root, the highest first, and the remainder."""
    found = [coefficients[-1]]
    for c in coefficients[-2::-1]:
        found.append(g.apply("add", c, g.apply("mul", root, found[-1])))
    return found


def _size(g: Graph, coefficients: Sequence[int], root: int) -> int:
    """Σ |p_k| |root|ᵏ."""
    total, root = g.zero, g.apply("abs", root)
    for c in reversed(coefficients):
        total = g.apply("add", g.apply("mul", total, root), g.apply("abs", c))
    return total


def _dependent(g: Graph, outputs: Sequence[int], inputs: Sequence[int]) -> set[int]:
    """Of what the outputs need, what depends on the inputs."""
    found = set(inputs)
    for i in reached(g, outputs):
        if any(j in found for j in operands(g.nodes[i])):
            found.add(i)
    return found


def _terms(g: Graph, output: int, x: int) -> Terms:
    """The output as polynomials in x, times functions that are none."""
    depends, found = _dependent(g, [output], [x]), dict[int, Terms]()
    for i in reached(g, [output]):
        op, *parts = g.nodes[i]
        if i not in depends:
            found[i] = {g.one: [i]}
        elif i == x:
            found[i] = {g.one: [g.zero, g.one]}
        else:
            whole = op in POLYNOMIAL or (op == "div" and parts[1] not in depends)
            terms = _combine(g, op, [found[j] for j in parts]) if whole else {}
            short = 0 < len(terms) <= FACTORS and all(len(c) <= DEGREE + 1 for c in terms.values())
            found[i] = terms if short else {i: [g.one]}
    return found[output]


def _combine(g: Graph, op: str, parts: Sequence[Terms]) -> Terms:
    """A sum, difference, product, or quotient by what does not depend on x."""
    total: Terms = {}
    if op in ("mul", "div"):
        for f, p in parts[0].items():
            for e, q in parts[1].items():
                product = [g.zero] * (len(p) + len(q) - 1)
                for i, a in enumerate(p):
                    for j, b in enumerate(q):
                        product[i + j] = g.apply("add", product[i + j], g.apply(op, a, b))
                _add(g, total, "add", g.apply("mul", f, e), product)
        return total
    _add_all(g, total, "sub" if op == "neg" else "add", parts[0])
    for terms in parts[1:]:
        _add_all(g, total, op, terms)
    return total


def _add_all(g: Graph, total: Terms, op: str, terms: Terms) -> None:
    for f, p in terms.items():
        _add(g, total, op, f, p)


def _add(g: Graph, total: Terms, op: str, f: int, p: Sequence[int]) -> None:
    """f p to the terms, or from them."""
    mine = total.setdefault(f, [])
    mine.extend([g.zero] * (len(p) - len(mine)))
    for i, c in enumerate(p):
        mine[i] = g.apply(op, mine[i], c)
