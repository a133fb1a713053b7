"""The order of a constraint: the highest derivative that its equation depends on, whatever its function is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.native import Places, Unsupported, Windowed, vanishing
from dalembert.systems.higher.variational import VariationalProblem, with_fields, with_parameters
from dalembert.systems.shapes import traced


@dataclasses.dataclass(frozen=True)
class Lowered:
    """Some equations of a constraint that was given q and `given` derivatives, and depends on `order` of them."""

    function: Callable
    given: int
    order: int
    equations: tuple[int, ...]

    def __call__(self, *arguments):
        jet, rest = arguments[: self.order + 1], arguments[self.order + 1 :]
        unread = [jnp.zeros_like(jet[0])] * (self.given - self.order)
        return jnp.atleast_1d(self.function(*jet, *unread, *rest))[np.array(self.equations)]


def true_orders(problem: VariationalProblem, n: int) -> VariationalProblem:
    """The same problem, every differential constraint as a function of the derivatives its equations depend on.

    φ(q, v, a) that ignores a, say, is a constraint of order 1, and has to be discretized as such. Where it cannot be seen
    what a function depends on, it keeps the order it was given. Errors: ValueError for an equation that depends on
    positions alone.
    """
    if not problem.differential:
        return problem
    found, seen = [], 0
    for (given, f), orders in zip(problem.differential, traced(_orders, problem, np.zeros(n)), strict=True):
        if not orders:  # no equation at all
            continue
        if min(orders) == 0:
            raise ValueError(
                f"constraints: component {seen + orders.index(0)} of those with derivatives depends on no derivative; give "
                "it as Holonomic(φ(q))"
            )
        found += [(given, f)] if set(orders) == {given} else _split(given, f, orders)
        seen += len(orders)
    if tuple(found) == problem.differential:
        return problem
    return with_fields(problem, differential=tuple(found))


def _split(given: int, function: Callable, orders: list[int]) -> list[tuple[int, Callable]]:
    """Neighbouring equations of one order together, so that the order of the multipliers is kept."""
    starts = [i for i, order in enumerate(orders) if i == 0 or orders[i - 1] != order]
    return [
        (orders[a], Lowered(function, given, orders[a], tuple(range(a, b))))
        for a, b in zip(starts, [*starts[1:], len(orders)], strict=True)
    ]


def _orders(problem: VariationalProblem, q) -> list[list[int]]:
    return [_dependence(problem, given, f, q.shape[0]) for given, f in problem.differential]


def _dependence(problem: VariationalProblem, given: int, function: Callable, n: int) -> list[int]:
    """Of every equation the highest derivative on which it depends, from the graph of its slopes."""
    leaves, tree = jax.tree.flatten(problem.parameters)

    def slopes(x, t, *p):
        own = with_parameters(problem, jax.tree.unflatten(tree, p))
        return (jax.jacfwd(lambda y: jnp.atleast_1d(own.call(function, *y, t=t)))(x.reshape(given + 1, n)),)

    place = Places(tuple(range((given + 1) * n)), 0)
    try:
        zero = vanishing(Windowed(slopes, (place,), (), ((), *(jnp.shape(x) for x in leaves))))[0]
    except Unsupported:
        return [given] * jnp.size(problem.call(function, *[jnp.zeros(n)] * (given + 1), t=jnp.zeros(())))
    dependent = np.any(~zero.reshape(-1, given + 1, n), axis=2)
    return [given if not row.any() else int(np.max(np.flatnonzero(row))) for row in dependent]
