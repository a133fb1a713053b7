"""The nodes a run evaluates, in their final form: factors gathered, the linear systems eliminated, reciprocals shared."""

from __future__ import annotations

import dataclasses

import numpy as np

from dalembert.native.graph.dependence import needed_nodes
from dalembert.native.graph.elimination import GROWTH, PivotOrder, choose_order, eliminate, parity, within
from dalembert.native.graph.graph import Graph, combine_pairs
from dalembert.native.graph.simplify import gather_factors, replace_nodes, share_reciprocals
from dalembert.native.stepper.step import StepNodes, Translated
from dalembert.native.trace.partition import Part, split_unknowns

LARGEST_WRITTEN = 12_000  # operations of an elimination that is written out; beyond it the loops of the pivoted solver


@dataclasses.dataclass(frozen=True)
class Plan:
    """Plan for solving the linear systems: the pivots of the unknowns that are iterated, and of those that then follow.

    nonlinear: what Newton's method iterates. affine: what one linear solution gives after it. once: the equations of the
    first are proven to be affine in them, too, and one solution is enough. judged: they may jump, or their Jacobian is not
    proven: the update from the result must be small, too. cofactors: of three equations, which an iteration corrects.
    """

    nonlinear: PivotOrder
    affine: PivotOrder
    once: bool
    judged: bool
    cofactors: bool

    @property
    def growth(self) -> float:
        """Largest value that the check of the pivots may have."""
        return GROWTH["linear" if self.once else "iterated"]

    @property
    def parity(self) -> int:
        """Of the permutation of all pivots."""
        return parity([self.nonlinear, self.affine])

    @property
    def operations(self) -> int:
        return self.nonlinear.operations + self.affine.operations


def choose_plan(step: Translated, samples: np.ndarray, cofactors: bool = False) -> Plan | None:
    """The plan for a step whose Jacobian has the values `samples` (s, n, n); None where no pivots are good at them."""
    entries = step.matrix
    levels = np.array([step.level(int(i)) for i in entries.ravel()]).reshape(entries.shape)
    parts = split_unknowns(step.graph, step.equations)
    orders = [_order_of(part, entries != step.graph.zero, levels, samples) for part in parts]
    if orders[0] is None or orders[1] is None:
        return None
    iterated = parts[0].rows, parts[0].columns
    once = step.equations.affine(*iterated)
    return Plan(orders[0], orders[1], once, not once and step.equations.may_jump(*iterated), cofactors and not once)


def _order_of(part: Part, pattern: np.ndarray, levels: np.ndarray, samples: np.ndarray) -> PivotOrder | None:
    if not part.rows:
        return PivotOrder((), (), (), 0)
    block = np.ix_(part.rows, part.columns)
    found = choose_order(pattern[block], levels[block], samples[(slice(None), *block)])
    return found and within(found, part.rows, part.columns)


@dataclasses.dataclass
class GraphOutputs(StepNodes):
    """update, check, pivots: the written-out solution of the nonlinear unknowns; empty if there is none; affine_…: that of
    the others, with the first in z. Updates are in the order of the plan's sorted columns.

    size: largest scaled residual of what is iterated. following: its update from another point, with this Jacobian, of F
    there, `again`; empty where no update is judged by the one that follows.
    """

    update: list[int]
    check: list[int]
    pivots: list[int]
    affine_update: list[int]
    affine_check: list[int]
    affine_pivots: list[int]
    size: list[int]
    following: list[int]

    def compensated_unknowns(self, g: Graph) -> list[int]:
        """The unknowns of which is kept what rounding cuts off."""
        nodes = (g.nodes[i] for i in needed_nodes(g, [*self.new_s, *self.new_s_compensation]))
        return sorted(node[2] for node in nodes if node[:2] == ("var", "w_compensation"))

    @property
    def nodes_of_step(self) -> list[int]:
        """Nodes that are computed in every step, apart from conditions and laws."""
        return [*self.f, *self.jacobian, *self.update, *self.check, *self.affine_update, *self.affine_check, *self.size,
                *self.following, *self.new_q, *self.new_s, *self.scale, *self.multipliers, *self.force,
                *self.new_velocity]  # fmt: skip


def graph_outputs(step: Translated, plan: Plan | None) -> GraphOutputs:
    """All outputs of a step; without a plan the elimination is left to loops."""
    g, n = step.graph, len(step.f)
    gathered = gather_factors(g, [*step.f, *step.jacobian], step.level, step.length)
    f = gathered[:n]
    jacobian = np.array(gathered[n:], np.int64).reshape(n, n)
    none = [], [], []
    update, check, pivots = _solve_blocks(step, f, jacobian, plan, plan.nonlinear) if plan else none
    affine = _solve_blocks(step, f, jacobian, plan, plan.affine) if plan and plan.affine.rows else none
    rows = sorted(plan.nonlinear.rows) if plan else range(n)
    size = scaled_residual(g, [f[i] for i in rows], jacobian[list(rows)])
    lists = {field.name: getattr(step, field.name) for field in dataclasses.fields(StepNodes)}
    lists |= {"f": f, "jacobian": jacobian.ravel().tolist()}
    lists |= dict(zip(("update", "check", "pivots"), (update, check, pivots), strict=True))
    lists |= dict(zip(("affine_update", "affine_check", "affine_pivots"), affine, strict=True))
    lists |= {"size": [size], "following": _following(step, jacobian, plan)}
    flat = iter(share_reciprocals(g, [i for part in lists.values() for i in part], step.level))
    return GraphOutputs(**{name: [next(flat) for _ in part] for name, part in lists.items()})


def _solve_blocks(
    step: Translated, f: list[int], jacobian: np.ndarray, plan: Plan, order: PivotOrder
) -> tuple[list[int], list[int], list[int]]:
    """update by unknown, check and pivots of one of the two linear systems.

    Where one solution is enough it is written at the guess, so that more of it is constant.
    """
    g = step.graph
    if plan.once:
        known = {g.variable("z", j): step.guess[j] for j in order.columns}
        every = replace_nodes(g, [*f, *jacobian.ravel().tolist()], known)
        f, jacobian = every[: len(f)], np.array(every[len(f) :], np.int64).reshape(jacobian.shape)
    found = eliminate(g, f, jacobian, order, step.level, plan.growth, cofactors=plan.cofactors)
    return [found.update[j] for j in sorted(found.update)], [found.check], found.pivots


def _following(step: Translated, jacobian: np.ndarray, plan: Plan | None) -> list[int]:
    if plan is None or not plan.judged:
        return []
    again = step.graph.vector("again", len(step.f)).tolist()
    found = eliminate(step.graph, again, jacobian, plan.nonlinear, step.level, plan.growth, cofactors=plan.cofactors)
    return [found.update[j] for j in sorted(found.update)]


def scaled_residual(g: Graph, f: list[int], jacobian: np.ndarray) -> int:
    """Node of max_i |F_i| / max_j |F′_ij|, by comparisons of products: one division for all rows."""
    larger = lambda a, b: g.apply("max", a, b)  # noqa: E731

    def winner(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        more = g.apply("gt", g.apply("mul", a[0], b[1]), g.apply("mul", b[0], a[1]))
        return g.apply("select", more, a[0], b[0]), g.apply("select", more, a[1], b[1])

    rows = [[g.apply("abs", x) for x in row if x != g.zero] for row in jacobian.tolist()]
    pairs = [(g.apply("abs", value), combine_pairs(larger, row, g.one)) for value, row in zip(f, rows, strict=True)]
    return g.apply("div", *combine_pairs(winner, pairs, (g.zero, g.one)))
