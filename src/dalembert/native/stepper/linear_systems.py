"""The nodes a run evaluates, in their final form: factors gathered, the linear systems eliminated, reciprocals shared."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.native.graph.collect import collect_terms
from dalembert.native.graph.dependence import reached
from dalembert.native.graph.graph import Graph
from dalembert.native.graph.nodes import paired
from dalembert.native.graph.simplify import gather_factors, rebuilt, share_reciprocals
from dalembert.native.stepper.elimination import GROWTH, Elimination, PivotOrder, choose_order, eliminate, parity, within
from dalembert.native.stepper.step import Translated
from dalembert.native.trace.partition import Part, split

LARGEST_WRITTEN = 12_000  # operations of an elimination that is written out; beyond it the loops of the pivoted solver


@dataclasses.dataclass(frozen=True)
class Plan:
    """How the linear systems are solved: the pivots of the head, which is iterated, and of the tail, solved once after.

    affine: the head's equations are proven to be affine in its unknowns, and one solution of it is enough, too.
    judged: they may jump, or their Jacobian is not proven: the update from the result must be small, too.
    """

    head: PivotOrder
    tail: PivotOrder
    affine: bool
    judged: bool

    @property
    def growth(self) -> float:
        """What the check of the pivots may be."""
        return GROWTH["linear" if self.affine else "iterated"]

    @property
    def parity(self) -> int:
        """Of the permutation of all pivots."""
        return parity([self.head, self.tail])

    @property
    def operations(self) -> int:
        return self.head.operations + self.tail.operations


def choose_plan(step: Translated, samples: np.ndarray) -> Plan | None:
    """The plan for a step whose Jacobian has the values `samples` (s, n, n); None where loops are to do it."""
    entries = step.jacobian
    levels = np.array([step.level(int(i)) for i in entries.ravel()]).reshape(entries.shape)
    parts = split(step.graph, step.equations)
    orders = [_order_of(part, entries != step.graph.zero, levels, samples) for part in parts]
    if orders[0] is None or orders[1] is None:
        return None
    head = parts[0].rows, parts[0].columns
    affine = step.equations.affine(*head)
    plan = Plan(orders[0], orders[1], affine, not affine and step.equations.judged(*head))
    return plan if plan.operations <= LARGEST_WRITTEN else None


def _order_of(part: Part, pattern: np.ndarray, levels: np.ndarray, samples: np.ndarray) -> PivotOrder | None:
    if not part.rows:
        return PivotOrder((), (), (), 0)
    block = np.ix_(part.rows, part.columns)
    found = choose_order(pattern[block], levels[block], samples[(slice(None), *block)])
    return found and within(found, part.rows, part.columns)


@dataclasses.dataclass
class Roots:
    """f, jacobian (by rows): the system. update, check, pivots: the head's written-out solution; empty if there is none;
    tail_…: the tail's, with the head's solution in z. Updates are in the order of the plan's sorted columns.

    size: largest scaled residual of the head. following: the head's update from another point, with this Jacobian, of F
    there, `again`; empty if it is not asked for. The others are as in Translated.
    """

    f: list[int]
    jacobian: list[int]
    update: list[int]
    check: list[int]
    pivots: list[int]
    tail_update: list[int]
    tail_check: list[int]
    tail_pivots: list[int]
    size: list[int]
    following: list[int]
    guess: list[int]
    scale: list[int]
    new_q: list[int]
    new_lost: list[int]
    new_s: list[int]
    new_low: list[int]
    multipliers: list[int]
    force: list[int]
    new_velocity: list[int]
    turned: list[int]
    factor: list[int]
    overlap: list[int]
    inside: list[int]
    stop: list[int]
    law: list[int]
    new_reduced: list[int]

    def compensated(self, g: Graph) -> list[int]:
        """The unknowns of which is kept what rounding cuts off."""
        return self._summed(g, "cut")

    def moved(self, g: Graph) -> dict[int, int]:
        """The unknowns that start at a component of s, and which: their increments are summed, and not their values."""
        return {j: g.nodes[self.guess[j]][2] for j in self._summed(g, "moved")}

    def _summed(self, g: Graph, name: str) -> list[int]:
        nodes = (g.nodes[i] for i in reached(g, [*self.new_s, *self.new_low]))
        return sorted(node[2] for node in nodes if node[:2] == ("var", name))

    @property
    def stepped(self) -> list[int]:
        """What is computed in every step, apart from conditions and laws."""
        return [*self.f, *self.jacobian, *self.update, *self.check, *self.tail_update, *self.tail_check, *self.size,
                *self.following, *self.new_q, *self.new_s, *self.scale, *self.multipliers, *self.force,
                *self.new_velocity]  # fmt: skip


def roots_of(step: Translated, plan: Plan | None) -> Roots:
    """All roots of a step; without a plan the elimination is left to loops."""
    g, n = step.graph, len(step.f)
    gathered = gather_factors(g, [*step.f, *step.jacobian.ravel().tolist()], step.level)
    f = gathered[:n]
    jacobian = np.array(collect_terms(g, gathered[n:], f, step.level), np.int64).reshape(n, n)
    head, tail = (
        [_eliminated(step, f, jacobian, plan, order) for order in (plan.head, plan.tail)] if plan else [_NOTHING] * 2
    )
    new_s, new_low = _increments(step) if plan and plan.affine else (step.new_s, step.new_low)
    after = dict(zip(step.new_s, new_s, strict=True))
    iterated = sorted(plan.head.rows) if plan else range(n)
    size = scaled_residual(g, [f[i] for i in iterated], jacobian[list(iterated)])
    one = lambda x: [] if x is None else [x]  # noqa: E731
    parts = Roots(
        f, jacobian.ravel().tolist(), *_nodes(head, bool(plan)), *_nodes(tail, bool(plan and plan.tail.rows)), [size],
        _following(step, jacobian, plan), step.guess, step.scale, step.new_q, step.new_lost, new_s, new_low,
        step.multipliers, step.force, _replaced(g, step.new_velocity, after), _replaced(g, [step.turned], after),
        one(step.factor), _replaced(g, one(step.overlap), after), _replaced(g, one(step.inside), after),
        _replaced(g, one(step.stop), after), step.law or [], _replaced(g, step.new_reduced or [], after),
    )  # fmt: skip
    names = [field.name for field in dataclasses.fields(Roots)]
    lists = [getattr(parts, name) for name in names]
    flat = iter(share_reciprocals(g, [i for part in lists for i in part], step.level))
    return Roots(**{name: [next(flat) for _ in part] for name, part in zip(names, lists, strict=True)})


_NOTHING = Elimination({}, 0, [])


def _eliminated(step: Translated, f: list[int], jacobian: np.ndarray, plan: Plan, order: PivotOrder) -> Elimination:
    """One of the two linear systems; where one solution is enough, written at the guess, so that more of it is constant."""
    g = step.graph
    if plan.affine:
        known = {g.variable("z", j): step.guess[j] for j in order.columns}
        every = _replaced(g, [*f, *jacobian.ravel().tolist()], known)
        f, jacobian = every[: len(f)], np.array(every[len(f) :], np.int64).reshape(jacobian.shape)
    return eliminate(g, f, jacobian, order, step.level, plan.growth)


def _following(step: Translated, jacobian: np.ndarray, plan: Plan | None) -> list[int]:
    if plan is None or not plan.judged:
        return []
    again = step.graph.vector("again", len(step.f)).tolist()
    found = eliminate(step.graph, again, jacobian, plan.head, step.level, plan.growth)
    return [found.update[j] for j in sorted(found.update)]


def _replaced(g: Graph, roots: list[int], known: dict[int, int]) -> list[int]:
    """The roots with other nodes in place of some."""
    new: dict[int, int] = dict(known)
    for i in reached(g, roots):
        if i not in new:
            node = g.nodes[i]
            new[i] = i if node[0] in ("const", "var") else rebuilt(g, node, new.__getitem__)
    return [new[i] for i in roots]


def _increments(step: Translated) -> tuple[list[int], list[int]]:
    """new s and what rounding cuts off: s + (moved + low) where an unknown starts at s; as given elsewhere."""
    g, sums, lows = step.graph, [], []
    start = {step.guess[j]: j for j in range(len(step.guess))}
    for k, (new, low) in enumerate(zip(step.new_s, step.new_low, strict=True)):
        s = g.variable("s", k)
        j = start.get(s)
        if j is None or not any(g.nodes[i] == ("var", "cut", j) for i in reached(g, [new])):
            sums.append(new)
            lows.append(low)
            continue
        part = g.raw("add", g.variable("moved", j), g.variable("low", k))
        sums.append(g.raw("add", s, part))
        lows.append(g.raw("sub", part, g.raw("sub", sums[-1], s)))
    return sums, lows


def _nodes(found: Elimination, used: bool) -> tuple[list[int], list[int], list[int]]:
    """update by unknown, check, pivots; empty if there is nothing to solve."""
    return ([found.update[j] for j in sorted(found.update)], [found.check], found.pivots) if used else ([], [], [])


def scaled_residual(g: Graph, f: list[int], jacobian: np.ndarray) -> int:
    """Node of max_i |F_i| / max_j |F′_ij|, by comparisons of products: one division for all rows."""
    larger = lambda a, b: g.apply("max", a, b)  # noqa: E731

    def winner(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        more = g.apply("gt", g.apply("mul", a[0], b[1]), g.apply("mul", b[0], a[1]))
        return g.apply("select", more, a[0], b[0]), g.apply("select", more, a[1], b[1])

    rows = [[g.apply("abs", x) for x in row if x != g.zero] for row in jacobian.tolist()]
    pairs = [(g.apply("abs", value), paired(larger, row, g.one)) for value, row in zip(f, rows, strict=True)]
    return g.apply("div", *paired(winner, pairs, (g.zero, g.one)))
