"""Functions of an equation's unknowns that enter linearly, with their elimination written out.

    F(z, y, t) = F₀ + F' z = 0,   ẏ = g(-F'⁻¹F₀, y, t)

Pivots are chosen from a sample of states, and checked at every state: where the check fails the pivoted solver takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.algebra import value_and_jacobian
from dalembert.native.assembly.function import GraphFunction
from dalembert.native.graph.dependence import evaluate_at_states
from dalembert.native.graph.elimination import GROWTH, PivotOrder, choose_order, definite_parts, eliminate
from dalembert.native.graph.graph import Graph
from dalembert.native.trace.tracer import Tracer

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
    order = _pivots(pattern, evaluate_at_states(g, matrix, examples, tracer.captured))
    if order is None:
        return []
    found = eliminate(g, value.tolist(), matrix, order, lambda _: 1, GROWTH["linear"])
    z = np.array([g.apply("neg", found.update[j]) for j in range(unknowns)])
    good, shapes = g.apply("le", found.check, g.constant(GROWTH["linear"])), [jax.ShapeDtypeStruct(z.shape, float), *shapes]
    results = [tracer.trace(function, z, *inputs, shapes=shapes)[0] for function in functions]
    return [GraphFunction(g, tracer, tuple(x.size for x in inputs), (found, np.asarray(good))) for found in results]


def _pivots(pattern: np.ndarray, samples: np.ndarray) -> PivotOrder | None:
    """On the diagonal where the matrix is definite, so that they never fail, unless that takes many more operations."""
    levels, parts = np.ones(pattern.shape, int), definite_parts(samples)
    least = choose_order(pattern, levels, samples)
    found = None if parts is None else choose_order(pattern, levels, samples, parts)
    return found if found and (least is None or found.operations <= WORTH * least.operations) else least
