"""refine: solutions on finer and finer nodes, until the limit of small steps is known well enough.

Four meshes are halves of each other, a root, its halves, quarters and eighths, and their costs have order 2: the limit of
the two finest has order 4, and the four say whether it does:

    J_h = J + bh² + ch⁴ + …,   E_h = (4J_h - J_{2h})/3 = J - 4ch⁴ + …
    p = log₂((J_{2h} - J_{4h})/(J_h - J_{2h})),   q = log₂((E_{2h} - E_{4h})/(E_h - E_{2h}))

p needs three meshes, q four. With q the error of E_h is |E_h - E_{2h}|/(2^q - 1); without it nobody knows more than that the
difference is an error of E_{2h}. Steps with the larger part of the error are halved:

    S_h(j) = Σ L̃ of the windows in step j of a base mesh, on nodes that divide it into 1, 2 and 4, all along one path
    e_j = |(4S_{h/4} - S_{h/2})/3 - (4S_{h/2} - S_h)/3|

L̃ is stationary along the solution, so that a path's own error adds nothing of first order: what S differs by is what the
step itself does wrong. Smooth parts have S = a + bh² + ch⁴, which leaves e_j = O(h⁵); where a bound is reached inside a step
b depends on where, and e_j = O(h²). What the error of the path adds, of second order in d_j = |S_{h/4} - S_{h/2}|, belongs
to no step: it is shared as the d_j are.

A node is put where a bound is reached or left: with a kink inside a step the error is of order 2 without being regular, and
nothing can be extrapolated. Halves of a mesh share a node that is beside its switch, so that their limit is compared with
that of the mesh before, whose switch nodes lay elsewhere.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import one_blas_thread
from dalembert.boundary import Asked, Free, Request, TimeGrid, extremal, settings
from dalembert.boundary.data.ends import Through, at_times, read_through, read_times
from dalembert.boundary.data.free_time import fit_times
from dalembert.control.extremals import ControlSearch, control_search
from dalembert.control.problem import Lobatto, OptimalControl, check_solution_of
from dalembert.drawing import Depicted
from dalembert.numbers import as_tolerance, described, whole_number
from dalembert.options import Solver
from dalembert.outcome import Outcome
from dalembert.solution import ActiveBounds, ControlSolution, Refinement

MEASURED = 1.5  # least q: a kink inside a step leaves differences that fall slower, and by chance
EXPECTED = 4.0  # largest q that counts: what falls faster does so by chance
SAFETY = 3.0


class Limit(NamedTuple):
    """cost: E of the finest meshes; error: estimated; order: p, limit_order: q, NaN where they are unknown."""

    cost: float
    error: float
    order: float
    limit_order: float


def extrapolate(costs: Sequence[float]) -> list[float]:
    """E on all meshes but the coarsest."""
    return [(4.0 * fine - coarse) / 3.0 for fine, coarse in itertools.pairwise(costs)]


def apart(costs: Sequence[float]) -> float:
    """|E_h - E_{2h}|."""
    fine, coarse, *_ = extrapolate(costs)
    return abs(fine - coarse)


def limit_of(costs: Sequence[float], noise: float, least: float = 0.0) -> Limit:
    """costs: of three or four meshes, the finest first; noise: below which differences mean nothing; least: error where q is
    not known."""
    limits = extrapolate(costs)
    order, limit_order, difference = _observed_order(costs, noise), _observed_order(limits, noise), apart(costs)
    if limit_order >= MEASURED:
        error = SAFETY * difference / (2.0 ** min(limit_order, EXPECTED) - 1.0)
    elif order >= MEASURED or abs(costs[0] - costs[1]) <= noise:
        error = max(difference, least)
    else:  # the costs have another order, or none
        error = max(difference, least, abs(costs[0] - costs[1]))
    return Limit(limits[0], error + noise, order, limit_order)


def _observed_order(values: Sequence[float], noise: float) -> float:
    """log₂ of the ratio of the two finest differences; NaN of two, where they do not fall, or below the noise."""
    if len(values) < 3:
        return np.nan
    fine, coarse = values[0] - values[1], values[1] - values[2]
    falls = fine * coarse > 0.0 and abs(coarse) > abs(fine) > noise
    return float(np.log2(coarse / fine)) if falls else np.nan


class StepSums(NamedTuple):
    """values: (steps,), S of the steps of a base mesh, or parts of an error; sizes: (steps,), h|C| of them."""

    values: Float[np.ndarray, "steps"]
    sizes: Float[np.ndarray, "steps"]


def step_sums(ready: ControlSearch, parts: int) -> StepSums:
    """Along the first path of a problem, whose nodes divide the steps of the base mesh into so many parts each.

    What belongs to a node between two steps of the base mesh is shared as their lengths are.
    """
    inner, first, last, edges, *others = ready.kkt.assembly.values(ready.start.z)
    count = len(edges)
    nodes = np.concatenate([first[:, 0], inner[:, 0], last[:, 0]])
    lengths = np.diff(ready.start.data.t[::parts])
    values = edges[:, 0].reshape(-1, parts).sum(axis=1)
    within = np.append(nodes[:-1], 0.0)[:-1].reshape(-1, parts)
    values += within[:, 1:].sum(axis=1)
    shared = nodes[::parts]
    before = lengths / (lengths + np.append(lengths[1:], 0.0))
    values += before * shared[1:]
    values[1:] += (1.0 - before[:-1]) * shared[1:-1]
    values[0] += shared[0]
    sizes = np.abs(edges[:, 1]).reshape(-1, parts).sum(axis=1)
    sizes[-1] += sum(float(np.abs(other[:, 1]).sum()) for other in others)
    assert count == len(values) * parts
    return StepSums(values, sizes)


def local_errors(coarse: ControlSearch, middle: ControlSearch, fine: ControlSearch, error: float) -> StepSums:
    """The parts of the error, the larger one of this and Σ e_j, and h|C|, of the steps of the base mesh: with 1, 2 and 4
    parts of each."""
    one, two, four = (step_sums(ready, parts) for ready, parts in ((coarse, 1), (middle, 2), (fine, 4)))
    own = np.abs(4.0 * four.values - 5.0 * two.values + one.values) / 3.0
    apart = np.abs(four.values - two.values)
    rest = max(error - own.sum(), 0.0)
    return StepSums(own + rest * apart / max(apart.sum(), np.finfo(float).tiny), four.sizes)


NEAR = 0.3  # of a step: a node within it is moved to the switch, otherwise there is a new one
CLOSE = 1e-3  # of a step: a switch that near to a node which cannot move stays inside the step


def switch_times(solution: ControlSolution) -> Float[np.ndarray, "switches"]:
    """Of everything that has bounds, increasing."""
    found = [time for bounds in solution.bounds.values() for times in _switches(bounds) for time in times]
    return np.unique(np.array(found, dtype=float))


def _switches(bounds: ActiveBounds) -> list[np.ndarray]:
    """`ActiveBounds.switches`; where one value alone stands between opposite bounds, the time at which the jump from one
    to the other has the same integral."""
    found = bounds.switches()
    for j, times in enumerate(found):
        active, x, t = bounds.active[:, j], bounds.values[:, j], bounds.t
        alone = 1 + np.flatnonzero((active[1:-1] == 0) & (active[:-2] * active[2:] < 0))
        if len(alone):
            share = (x[alone] - x[alone + 1]) / (x[alone - 1] - x[alone + 1])
            left, right = 0.5 * (t[alone - 1] + t[alone]), 0.5 * (t[alone] + t[alone + 1])
            outside = ~np.any((times[:, None] >= t[alone - 1]) & (times[:, None] <= t[alone + 1]), axis=1)
            found[j] = np.sort(np.concatenate([times[outside], left + share * (right - left)]))
    return found


def with_switches(
    t: Float[np.ndarray, "nodes"], switches: Float[np.ndarray, "switches"], kept: Sequence[float]
) -> Float[np.ndarray, "nodes"]:
    """The nodes, with one at every switch: the nearest is moved, or there is a new one. kept: times that stay nodes."""
    still = {0, len(t) - 1, *(int(np.argmin(np.abs(t - time))) for time in kept)}
    moved, new = t.copy(), []
    for time in switches:
        k = int(np.clip(np.searchsorted(t, time) - 1, 0, len(t) - 2))
        width = t[k + 1] - t[k]
        near = k if time - t[k] < t[k + 1] - time else k + 1
        off = abs(time - t[near]) / width
        if off < NEAR and near not in still:
            moved[near] = time
            still.add(near)
        elif off > CLOSE:
            new.append(time)
    return np.unique(np.concatenate([moved, new]))


COARSEST, FEW = 2, 4  # steps of a root: the least, and of the first one
PARTS = 8  # of a step of the root in the finest mesh
SHARE = 0.5  # of the tolerance over all steps, beyond which a step is halved
MOST = 10_000_000
SOLVED = 1e-9  # the tolerance to which every mesh is solved, and nothing is known better
TINY = 1e-300
MOST_CYCLES = 40  # a cycle halves the steps with the larger errors


def refine(
    problem: OptimalControl,
    solution: ControlSolution,
    *,
    initial: Any = None,
    final: Any = None,
    through: Mapping[float, Any] | None = None,
    T: Free | None = None,
    scheme: Any = None,
    scales: Float[Array | np.ndarray, "n"] | None = None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    tolerance: float = 1e-6,
    most_steps: int = 20_000,
    max_iterations: int = 200,
) -> ControlSolution:
    """Refine the mesh of an optimal control until its cost is known to a tolerance.

    J = (4J_h - J_{2h})/3 + O(h⁴): the solution on a mesh on which its cost is known to a tolerance.

    It starts from a solution on any nodes and adds nodes where the estimated error is largest and where bounds are
    reached or left. No error is raised if a mesh is not solved or would have too many steps: see Refinement.reached.

    Args:
        problem: the OptimalControl that was solved.
        solution: its solution.
        initial: as it was given to `solve`.
        final: as it was given to `solve`.
        through: as it was given to `solve`; these times stay nodes.
        T: Free(…) if the final time was free; otherwise left out.
        scheme: the Scheme of the plant that `solve` was given.
        scales: as they were given to `solve`.
        bounds: as they were given to `solve`; not one row for each node.
        inequalities: as they were given to `solve`.
        tolerance: on the error of the extrapolated cost, relative to ∫|C|dt. The equations are solved to 1e-9.
        most_steps: the largest number of steps of a mesh.
        max_iterations: of Newton's method, on each mesh.

    Returns:
        The ControlSolution on the finest mesh that was solved, with its `refinement`: the extrapolated cost, its error and
        all meshes.

    Raises:
        ValueError: an argument does not belong to the solution, or has the wrong shape or value; the message names it.
        TypeError: an argument is of the wrong type.

    Source: Richardson 1911; the error of each step is estimated by the dual weighted residual (Becker, Rannacher 2001).

    Example:
        >>> refined = da.refine(move, plan, initial=([0.0], [0.0]), final=([1.0], [0.0]), tolerance=1e-8)
        >>> round(float(refined.refinement.cost), 7), bool(refined.refinement.error < 1e-6)
        (12.0, True)
    """
    check_solution_of(problem, solution)
    tolerance, most = float(as_tolerance(tolerance)), whole_number(most_steps, "most_steps", PARTS * COARSEST, MOST)
    options = settings(Solver(SOLVED, whole_number(max_iterations, "max_iterations")))
    if T is not None and not isinstance(T, Free):
        raise TypeError(f"T: found {described(T)}; give Free(…) where the final time was free, the solution has its times")
    if (T is None) != (solution.final_time is None):
        raise ValueError(f"T: found {described(T)}; give Free(…) where the final time was free, and only there")
    if isinstance(scheme, Lobatto):
        raise ValueError(
            "scheme: found Lobatto(); refine extrapolates costs of order 2. Solve with it on N and 2N steps: the limit is "
            "(16J_2N - J_N)/15"
        )
    _check_rows(bounds)
    asked = Asked(
        Request(initial, final, through, None), TimeGrid(), scheme, scales, options, False, bounds, inequalities
    )  # fmt: skip
    passed = read_through(through, solution.q.shape[1])
    with one_blas_thread():
        return _Meshes(problem, asked, T, passed, most).refine(solution, tolerance)


def _check_rows(bounds: Any) -> None:
    """Bounds that move with the nodes are those of one mesh alone."""
    for name, given in bounds.items() if isinstance(bounds, Mapping) else ():
        pairs = given.values() if isinstance(given, Mapping) else [given]
        if any(np.ndim(side) > 1 for pair in pairs if isinstance(pair, tuple | list) for side in pair):
            raise ValueError(
                f"bounds[{name!r}]: found a row for each node, and refine changes the nodes; give bounds that stay, or "
                "inequalities= of a plant with time_dependent=True"
            )


def _first_root(t: Float[np.ndarray, "nodes"], kept: list[float]) -> Float[np.ndarray, "nodes"]:
    """Every eighth of the nodes, of a few nodes more, with those that are to stay."""
    chosen = t[:: max(1, min(PARTS, (len(t) - 1) // FEW))]
    near = [t[np.argmin(np.abs(t - time))] for time in kept]
    return np.unique(np.concatenate([chosen, t[-1:], near]))


def _halve(t: Float[np.ndarray, "nodes"], which: Any = True) -> Float[np.ndarray, "nodes"]:
    """With the middles of the steps, or of those which are chosen."""
    middle = 0.5 * (t[1:] + t[:-1])
    return np.sort(np.concatenate([t, middle[np.broadcast_to(which, middle.shape)]]))


@dataclasses.dataclass(frozen=True)
class _Meshes:
    """A problem, to be solved on any nodes. asked: of everything but nodes and guess; T: Free(…), or None; passed: points at
    times that stay nodes; most: steps."""

    problem: OptimalControl
    asked: Asked
    T: Free | None
    passed: Through
    most: int

    def refine(self, solution: ControlSolution, tolerance: float) -> ControlSolution:
        """From a first solution to the last that is found, with what all of them tell."""
        best, root, meshes, before = solution, _first_root(solution.t, self._kept_in(solution)), [], np.inf
        report = Refinement(*map(np.asarray, (tolerance, 0.0, np.zeros(0, int), np.zeros(0), solution.cost, np.inf)))
        for _ in range(MOST_CYCLES):
            nested = self._solve_nested(root, best) if PARTS * (len(root) - 1) <= self.most else []
            meshes += [(len(s.t) - 1, float(s.cost)) for s in nested]
            if not nested:
                break
            best = nested[0]
            if len(nested) < 3:  # too few steps for a solution
                root = _halve(best.t[::PARTS])
                continue
            costs = [float(s.cost) for s in nested]
            parts = self._errors(best, apart(costs))
            size, least = float(parts.sizes.sum()), float(parts.values.sum())
            limit = limit_of(costs, SOLVED * size, least)
            alone, switches = limit.error, switch_times(best)
            if len(switches):
                limit = limit._replace(error=max(alone, SAFETY * abs(limit.cost - before)))
            report = Refinement(*map(np.asarray, (tolerance, size, *zip(*meshes, strict=True), *limit)))
            if report.reached:
                break
            before = limit.cost
            if alone <= tolerance * size:  # halves of a mesh have its misplaced switches: only others tell
                root = with_switches(best.t[::PARTS], switches, self._kept_in(best))
            else:
                root = self._next(best, parts.values * (alone / max(least, TINY)), tolerance * size)
        return dataclasses.replace(best, refinement=report, subject=Depicted(self.problem.system))

    def _on(self, t: np.ndarray, guess: ControlSolution, certify: bool = False) -> Asked:
        """From a known solution on other nodes, a free final time from that of the solution."""
        request, T, last = self.asked.request, self.T, float(guess.t[-1])
        if T is not None:
            T = dataclasses.replace(T, guess=min(max(last, T.lower or 0.0), np.inf if T.upper is None else T.upper))
        through = dict(zip(self._kept_in(guess), self.passed.points, strict=True)) or None
        return self.asked._replace(
            request=request._replace(through=through, guess=guess), grid=TimeGrid(T, None, t), certify=certify
        )

    def _kept_in(self, solution: ControlSolution) -> list[float]:
        """Times that stay nodes, where the final time is that of a solution."""
        if self.T is None:
            return self.passed.times.tolist()
        begin, last = solution.t[[0, -1]]
        return (begin + (self.passed.times - begin) * (last - begin) / (self.T.guess - begin)).tolist()

    def _solve_nested(self, root: np.ndarray, guess: ControlSolution) -> list[ControlSolution]:
        """On the eighths, the quarters, the halves and the steps of the root, as far as they are solved.

        The finest first: a coarse one may lead from the same guess to another extremal.
        """
        found, t = [], _halve(_halve(_halve(root)))
        for _ in range(min(4, int(np.log2(PARTS * (len(root) - 1))))):  # not on one step
            guess = self._solve_on(t, guess, not found)
            if guess.outcome is not Outcome.SUCCESS:
                break
            found.append(guess)
            t = guess.t[::2]
        return found

    def _solve_on(self, t: np.ndarray, guess: ControlSolution, certify: bool) -> ControlSolution:
        """From a known solution; where that leads nowhere, as with rounding in its multipliers, from path and controls."""
        asked = self._on(t, guess, certify)
        found = extremal(self.problem, asked)
        if found.outcome is Outcome.SUCCESS:
            return found
        at = read_times(asked.grid, 1, "")
        known = fit_times(guess, at)
        path = known.interpolate(np.clip(at, *known.t[[0, -1]])), at_times(known.t, known.u, at)
        again = extremal(self.problem, asked._replace(request=asked.request._replace(guess=path)))
        return again if again.outcome is Outcome.SUCCESS else found

    def _errors(self, fine: ControlSolution, error: float) -> StepSums:
        """Parts of the error by steps of which the finest mesh has quarters."""
        coarse, middle, own = (control_search(self.problem, self._on(fine.t[::part], fine)) for part in (4, 2, 1))
        return local_errors(coarse, middle, own, error)

    def _next(self, fine: ControlSolution, errors: np.ndarray, allowed: float) -> Float[np.ndarray, "nodes"]:
        """The next root: steps with more than their share of the error are halved."""
        errors = errors.reshape(-1, 2).sum(axis=1)
        share = min(SHARE * allowed / len(errors), SHARE * float(errors.max()))
        root = _halve(fine.t[::PARTS], errors >= share)
        return with_switches(root, switch_times(fine), self._kept_in(fine))
