"""Functions of an equation's unknowns that enter linearly, with their elimination written out.

    F(z, y, t) = F₀ + F' z = 0,   ẏ = g(-F'⁻¹F₀, y, t)

Pivots are chosen from a sample of states, and checked at every state: where the check fails the pivoted solver takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.native.assembly.function import GraphFunction
from dalembert.native.graph.elimination import GROWTH, PivotOrder, choose_order, definite_parts, eliminate
from dalembert.native.graph.evaluate import evaluate
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.quotients import Quotient, without_remainder
from dalembert.native.graph.simplify import replaced
from dalembert.native.trace.elementwise import Nodes
from dalembert.native.trace.tracer import Tracer

SAMPLES = 3
Sample = dict[str, np.ndarray]
CLOSE = 1e-6  # two values that are meant to be equal
WORTH = 1.5  # times the operations of the elimination, for pivots that never fail


def written(
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
    order = _pivots(pattern, _sampled(g, matrix, examples, tracer.captured))
    if order is None:
        return []
    found = eliminate(g, value.tolist(), matrix, order, lambda _: 1, GROWTH["linear"])
    z = np.array([g.apply("neg", found.update[j]) for j in range(unknowns)])
    good, shapes = g.apply("le", found.check, g.constant(GROWTH["linear"])), [jax.ShapeDtypeStruct(z.shape, float), *shapes]
    results = [tracer.trace(function, z, *inputs, shapes=shapes)[0] for function in functions]
    samples = _states(examples, tracer.captured)
    results, good = _continued(g, results, good, samples)
    return [GraphFunction(g, tracer, tuple(x.size for x in inputs), (found, np.asarray(good))) for found in results]


def _continued(g: Graph, results: list[Nodes], good: int, samples: list[Sample]) -> tuple[list[Nodes], int]:
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
    """Whether the quotient has no remainder, and is what node i is, also where its denominator is zero."""
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


def _sampled(g: Graph, matrix: Nodes, examples: Sequence[np.ndarray], captured: Sequence[float]) -> np.ndarray:
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
