"""refine: solutions on finer and finer nodes, until the limit of small steps is known well enough.

Four meshes are halves of each other, a root, its halves, quarters and eighths, and their costs have order 2: the limit of
the two finest has order 4, and the four say whether it does, see `extrapolation`. Where its error comes from say
`local_errors`: steps with the larger part of it are halved. A node is put where a bound is reached or left: with a kink
inside a step the error is of order 2 without being regular, and nothing can be extrapolated. Halves of a mesh share a node
that is beside its switch, so that their limit is compared with that of the mesh before, whose switch nodes lay elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra.blas import one_blas_thread
from dalembert.boundary.data.ends import Through, TimeGrid, at_times, read_through, read_times
from dalembert.boundary.data.free_time import Free, fitted
from dalembert.boundary.prepare import Request
from dalembert.boundary.solve import Asked, extremal, settings
from dalembert.control.mesh.extrapolation import SAFETY, apart, limit_of
from dalembert.control.mesh.local_errors import StepSums, local_errors
from dalembert.control.mesh.switching import switch_times, with_switches
from dalembert.control.problem import Lobatto, OptimalControl, check_solution_of
from dalembert.control.solve import control_search
from dalembert.drawing import Depicted
from dalembert.numbers import as_tolerance, described, whole_number
from dalembert.outcome import Outcome
from dalembert.solution import ControlSolution, Refinement

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
    """J = (4J_h - J_{2h})/3 + O(h⁴): the solution on a mesh on which its cost is known to a tolerance.

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
    options = settings(SOLVED, max_iterations, "minimum")
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
        return _Meshes(problem, asked, T, passed, most).refined(solution, tolerance)


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


def _halved(t: Float[np.ndarray, "nodes"], which: Any = True) -> Float[np.ndarray, "nodes"]:
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

    def refined(self, solution: ControlSolution, tolerance: float) -> ControlSolution:
        """From a first solution to the last that is found, with what all of them tell."""
        best, root, meshes, before = solution, _first_root(solution.t, self._kept_in(solution)), [], np.inf
        told = Refinement(*map(np.asarray, (tolerance, 0.0, np.zeros(0, int), np.zeros(0), solution.cost, np.inf)))
        for _ in range(MOST_CYCLES):
            nested = self._nested(root, best) if PARTS * (len(root) - 1) <= self.most else []
            meshes += [(len(s.t) - 1, float(s.cost)) for s in nested]
            if not nested:
                break
            best = nested[0]
            if len(nested) < 3:  # too few steps for a solution
                root = _halved(best.t[::PARTS])
                continue
            costs = [float(s.cost) for s in nested]
            parts = self._errors(best, apart(costs))
            size, least = float(parts.sizes.sum()), float(parts.values.sum())
            limit = limit_of(costs, SOLVED * size, least)
            alone, switches = limit.error, switch_times(best)
            if len(switches):
                limit = limit._replace(error=max(alone, SAFETY * abs(limit.cost - before)))
            told = Refinement(*map(np.asarray, (tolerance, size, *zip(*meshes, strict=True), *limit)))
            if told.reached:
                break
            before = limit.cost
            if alone <= tolerance * size:  # halves of a mesh have its misplaced switches: only others tell
                root = with_switches(best.t[::PARTS], switches, self._kept_in(best))
            else:
                root = self._next(best, parts.values * (alone / max(least, TINY)), tolerance * size)
        return dataclasses.replace(best, refinement=told, subject=Depicted(self.problem.system))

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

    def _nested(self, root: np.ndarray, guess: ControlSolution) -> list[ControlSolution]:
        """On the eighths, the quarters, the halves and the steps of the root, as far as they are solved.

        The finest first: a coarse one may lead from the same guess to another extremal.
        """
        found, t = [], _halved(_halved(_halved(root)))
        for _ in range(min(4, int(np.log2(PARTS * (len(root) - 1))))):  # not on one step
            guess = self._solved(t, guess, not found)
            if guess.outcome is not Outcome.SUCCESS:
                break
            found.append(guess)
            t = guess.t[::2]
        return found

    def _solved(self, t: np.ndarray, guess: ControlSolution, certify: bool) -> ControlSolution:
        """From a known solution; where that leads nowhere, as with rounding in its multipliers, from path and controls."""
        asked = self._on(t, guess, certify)
        found = extremal(self.problem, asked)
        if found.outcome is Outcome.SUCCESS:
            return found
        at = read_times(asked.grid, 1, "")
        known = fitted(guess, at)
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
        root = _halved(fine.t[::PARTS], errors >= share)
        return with_switches(root, switch_times(fine), self._kept_in(fine))
