"""The nodes a run evaluates, in their final form: factors gathered, the linear system eliminated, reciprocals shared."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.native.description import Translated
from dalembert.native.eliminate import Order, eliminate
from dalembert.native.graph import Graph, paired
from dalembert.native.simplify import gather_factors, share_reciprocals

LARGEST_WRITTEN = 12_000  # operations of an elimination that is written out; beyond it the loops of the pivoted solver


@dataclasses.dataclass
class Roots:
    """f, jacobian (by rows): the system. update, check, pivots: its written-out solution; empty if there is none.

    size: largest scaled residual. The others are as in Translated.
    """

    f: list[int]
    jacobian: list[int]
    update: list[int]
    check: list[int]
    pivots: list[int]
    size: list[int]
    guess: list[int]
    scale: list[int]
    new_q: list[int]
    new_lost: list[int]
    new_s: list[int]
    new_low: list[int]
    multipliers: list[int]
    force: list[int]
    new_velocity: list[int]
    factor: list[int]
    inside: list[int]
    stop: list[int]
    law: list[int]
    new_reduced: list[int]

    @property
    def stepped(self) -> list[int]:
        """What is computed in every step, apart from conditions and laws."""
        return [*self.f, *self.jacobian, *self.update, *self.check, *self.size, *self.new_q, *self.new_s, *self.scale,
                *self.multipliers, *self.force, *self.new_velocity]  # fmt: skip


def roots_of(step: Translated, order: Order | None) -> tuple[Roots, Order | None]:
    """All roots of a step, and the order that is used: None where the elimination is left to loops."""
    g, n = step.graph, len(step.f)
    if order is not None and order.operations > LARGEST_WRITTEN:
        order = None
    gathered = gather_factors(g, [*step.f, *step.jacobian.ravel().tolist()], step.level)
    f, jacobian = gathered[:n], np.array(gathered[n:], np.int64).reshape(n, n)
    update, check, pivots = [], [], []
    if order is not None:
        found = eliminate(g, f, jacobian, order, step.level, step.growth)
        update, check, pivots = found.update, [found.check], found.pivots
    one = lambda x: [] if x is None else [x]  # noqa: E731
    parts = Roots(
        f, jacobian.ravel().tolist(), update, check, pivots, [scaled_residual(g, f, jacobian)], step.guess, step.scale,
        step.new_q, step.new_lost, step.new_s, step.new_low, step.multipliers, step.force, step.new_velocity,
        one(step.factor), one(step.inside), one(step.stop), step.law or [], step.new_reduced or [],
    )  # fmt: skip
    names = [field.name for field in dataclasses.fields(Roots)]
    lists = [getattr(parts, name) for name in names]
    flat = iter(share_reciprocals(g, [i for part in lists for i in part], step.level))
    return Roots(**{name: [next(flat) for _ in part] for name, part in zip(names, lists, strict=True)}), order


def scaled_residual(g: Graph, f: list[int], jacobian: np.ndarray) -> int:
    """Node of max_i |F_i| / max_j |F′_ij|."""
    sizes = []
    larger = lambda a, b: g.apply("max", a, b)  # noqa: E731
    for value, row in zip(f, jacobian.tolist(), strict=True):
        largest = paired(larger, [g.apply("abs", x) for x in row if x != g.zero], g.one)
        sizes.append(g.apply("div", g.apply("abs", value), largest))
    return paired(larger, sizes, g.zero)
