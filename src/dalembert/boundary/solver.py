"""solve: from a variational problem and what is given at its ends to an extremal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import one_blas_thread
from dalembert.boundary.data.drawn import onto_by_polynomials, onto_constraints, sine_waves
from dalembert.boundary.data.ends import Nodes, Request, TimeGrid, polynomial_pieces
from dalembert.boundary.data.free_time import Free
from dalembert.boundary.data.redundant import linearise
from dalembert.boundary.interior.ipopt import check_ipopt
from dalembert.boundary.kinds import Asked, S, SmoothStart, Solvable, extremal, extremals_of, prepare_once, smooth_start
from dalembert.boundary.kkt.transcription import first_values
from dalembert.boundary.newton import Settings
from dalembert.boundary.prepare import PreparedProblem, ReadyProblem, extremals, prepare_problem, ready_problem
from dalembert.drawing import Depicted
from dalembert.interrupts import Interrupted, held_back
from dalembert.lazy import with_fields
from dalembert.messages import suggesting
from dalembert.numbers import as_choice, as_flag
from dalembert.options import Solver, accept_single_options
from dalembert.outcome import Outcome
from dalembert.solution import CriticalPoint, Solution, SolveError
from dalembert.systems import VariationalProblem, with_inertia

MAX_ITERATIONS = 200  # of each attempt, unless a user says more
BOW = 0.5  # height of the second first path, in typical sizes


@accept_single_options
@suggesting(h="give T= and steps=: h = T / steps", N="their number is steps=", q0="the first end is initial=(q, v, …)")
def solve(
    problem: Solvable[S],
    *,
    initial: Sequence | Nodes | None = None,
    final: Sequence | Nodes | None = None,
    through: Mapping[float, Any] | None = None,
    T: float | Free | None = None,
    steps: int | None = None,
    times: Float[Array | np.ndarray, "N+1"] | None = None,
    scheme: Any = None,
    guess: Float[Array | np.ndarray, "N+1 n"] | CriticalPoint | Literal["homotopy"] | None = None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    solver: Solver | None = None,
    seek: Literal["minimum", "extremal"] = "minimum",
    certify: bool = True,
    throw: bool = True,
) -> S:
    """Solve a boundary problem or an optimal control problem.

    Σⱼ Dⱼ L̃_d(q_{i-j+1}, …, q_{i-j+1+k}; λ^{i-j+1}) = 0 and Φ_d = 0 between given ends: the extremals of Σ L_d under
    constraints; or the controls of least cost that move a system between these ends.

    Args:
        problem: a VariationalProblem of order k, or an OptimalControl.
        initial: (q,), (q, v), … up to k arrays (n,): q and its derivatives at the first time. One that is left out or
            None is free (natural boundary conditions); None instead of the tuple leaves all free. Or Nodes(array (k,
            n)), the first k nodes. On groups q and v are mappings, or the numbers that are stored. For an
            OptimalControl: (q, v), each an array, a mapping {coordinate: number} of the given components, or None. On
            and Periodic describe other ends.
        final: the same at the last time; Nodes are then the last k nodes.
        through: {t: q}, points to pass through; the times are those of nodes. With a free T they are nodes of the grid
            of its guess.
        T: the time of the last node, N equal steps from 0; or Free(guess): T is an unknown.
        steps: N, the number of equal steps.
        times: (N+1,) the times of all nodes, instead of T and steps; together with T=Free(…), how the nodes are
            distributed between the first of them and T.
        scheme: Interpolated() (second order, the default), Averaged() (the paper's) or Hermite() (order 2k). For an
            OptimalControl: the Scheme of its plant (order 2), or Lobatto() (order 4).
        guess: a path (N+1, n), or a solution on any nodes, whose multipliers are used too: to start from a neighbouring
            problem, or to refine a mesh; for `with_time(problem)` also one of problem itself, with its times. For an
            OptimalControl also path and controls (q, u), or "homotopy": solve without bounds and inequalities first,
            then bring them in by steps.
        bounds: {"q": (lower, upper), "v": (lower, upper)}, and for an OptimalControl {"u": (lower, upper)}: numbers,
            arrays (n,) or (r,), or one row for each node; None or infinite means no bound. {"q": {"x": (lower, upper)}}
            bounds single coordinates, by name or index.
        inequalities: `g(q, v)`, for an OptimalControl `g(q, v, u)`, with the trailing t and p of the problem's
            functions, → () or (m,): g ≤ 0 at the nodes; on the steps if g reads velocities and no controls, unless the
            scheme is Hermite().
        solver: a Solver: tolerance, max_iterations, scales and method.
        seek: "minimum", or "extremal": a critical point of any kind near the guess. Mechanical actions over long times
            have no minimum.
        certify: count the negative directions of the second variation (Solution.kind), and estimate the condition
            number of the equations.
        throw: raise an error if no solution is found; False returns the Solution all the same, and its outcome says
            why.

    Returns:
        The Solution, with q (N+1, n) at t (N+1,), multipliers and momenta at the ends; or a ControlSolution.

    Raises:
        SolveError: no extremal is found, and throw is true; it carries the last path, or the path of least violation if
            the constraints cannot be met.
        Interrupted: Ctrl-C ended the iteration, and throw is true; it carries the last path.
        ValueError: an argument has the wrong shape or value; the message names it.
        TypeError: an argument is of the wrong type, or missing.
        InconsistentDataError: the given data contradict the constraints.
        RankDeficientError: with these ends the constraints depend on each other.
        ImportError: Solver(method="ipopt") without the package ipyopt.

    Source: Colombo, Martín de Diego, Zuccalli, eq. (3.4); ends given by derivatives are windows with coinciding knots,
    which the paper does not have.

    Example:
        >>> beam = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
        >>> solution = da.solve(beam, initial=([0.0], [0.0]), final=([1.0], [0.0]), T=1.0, steps=10)
        >>> solution.kind, round(float(solution.q[5, 0]), 9)
        ('minimum', 0.5)
    """
    solver = Solver.of(solver, "solve")
    options = check_seek(settings(solver, seek), bounds, inequalities)
    as_flag(certify, "certify")
    as_flag(throw, "throw")
    asked = Asked(
        Request(initial, final, through, guess), TimeGrid(T, steps, times), scheme, solver.scales, options, certify, bounds,
        inequalities,
    )  # fmt: skip
    with held_back(keeping=False) as noted, one_blas_thread():
        solution = extremal(problem, asked)
    solution = with_fields(solution, subject=Depicted(getattr(problem, "system", problem)))
    if noted.pressed:
        solution = with_fields(solution, code=np.asarray(int(Outcome.INTERRUPTED)))
        if throw:
            raise Interrupted(solution)
    if throw and solution.outcome is not Outcome.SUCCESS:
        raise SolveError(solution)
    return solution


@extremal.register
def _(problem: VariationalProblem, asked: Asked) -> Solution:
    ready = prepare_once(_ready, problem, asked)
    found = extremals(ready, asked.certify)[0]
    if found.outcome in (Outcome.INFEASIBLE, Outcome.NOT_CONVERGED, Outcome.SINGULAR) and asked.request.guess is None:
        start = _smooth(ready)
        bent = any(order > 1 for order, _ in ready.made.problem.differential)
        if bent or not start.space.flat:  # it may be too symmetric, as a line that has to be longer
            bow = BOW * start.sizes * sine_waves(start.t, 1).T
            request = asked.request._replace(guess=start.beside(bow[None])[0])
            again = extremals(prepare_once(_ready, problem, asked._replace(request=request)), asked.certify)[0]
            found = again if again.outcome is Outcome.SUCCESS else found
    return found


@extremals_of.register
def _(
    problem: VariationalProblem, asked: Asked, requests: Sequence[Request], threads: int, continued: bool = False
) -> list[Solution]:
    if continued:
        raise ValueError("continued: is for an OptimalControl; a VariationalProblem takes guess=, a list of solutions")
    if not problem.space.flat:  # each is counted from a path of its own
        each = (_ready(problem, asked._replace(request=request)) for request in requests)
        return [extremals(ready, asked.certify)[0] for ready in each]
    return extremals(ready_problem(_prepare(problem, asked, requests), asked.settings), asked.certify, threads)


def _ready(problem: VariationalProblem, asked: Asked) -> ReadyProblem:
    return ready_problem(_prepare(problem, asked, [asked.request]), asked.settings)


def _prepare(problem: VariationalProblem, asked: Asked, requests: Sequence[Request]) -> PreparedProblem:
    limits = {"bounds": asked.bounds, "inequalities": asked.inequalities}
    return prepare_problem(problem, requests, asked.grid, asked.scheme, scales=asked.scales, **limits)


@smooth_start.register
def _(problem: VariationalProblem, asked: Asked) -> SmoothStart:
    return _smooth(_ready(problem, asked))


def _smooth(ready: ReadyProblem) -> SmoothStart:
    base, own, kkt = ready.prepared, ready.made, ready.kkt
    w, t, first = own.windows, own.t, base.values[0]
    sizes = base.positions(with_inertia(base.extents[0], base.densities.inertia, 1.0))  # what rests may move as the others
    if base.bases is not None:
        return SmoothStart(t, base.bases[0], sizes, space=own.space)
    kept, smooth = np.zeros(kkt.size, dtype=bool), first[w.nodes]
    for name in ("slots", "highest", "momentum", "multipliers", "lower", "holonomic"):
        kept[own.layout.part(name)] = True
    order = max((order for order, _ in own.problem.differential), default=0) if w.differenced else -1
    pieces, given = polynomial_pieces(t, smooth / sizes), (w.owners[own.fixed], w.orders[own.fixed])

    def onto(moved: np.ndarray) -> np.ndarray:
        x = moved - own.origin
        if order > 1:
            read = linearise(own.problem, sizes)
            return np.stack([onto_by_polynomials(read, y / sizes, pieces, order, t, given) for y in x]) * sizes + own.origin
        path = polynomial_pieces(t, np.moveaxis(x, 0, 1))
        jets = np.stack([path(t, l) for l in range(int(w.orders.max()) + 1)])
        slots = np.where(own.fixed_components, first, np.moveaxis(jets[w.orders, w.owners], 1, 0))
        found = [onto_constraints(kkt, z, kept) for z in first_values(own, slots)]
        return np.stack([own.slots(z)[w.nodes] for z in found]) + own.origin

    constrained = order > 0 or (order == 0 and own.problem.holonomic)
    return SmoothStart(t, smooth + own.origin, sizes, onto if constrained else None)


def check_seek(options: Settings, bounds: Any, inequalities: Any) -> Settings:
    """The same settings; ValueError where any extremal is sought under bounds."""
    for name, given in (("bounds", bounds), ("inequalities", inequalities)):
        if given is not None and not options.minimum:
            raise ValueError(
                f"seek: found 'extremal' together with {name}; with these only minima are sought: give seek='minimum'"
            )
    return options


def settings(solver: Solver, seek: str = "minimum") -> Settings:
    """Checked settings of the iteration."""
    as_choice(seek, "seek", ("minimum", "extremal"), "kinds to seek")
    if solver.method == "ipopt":
        check_ipopt()
        if seek != "minimum":
            raise ValueError(
                "method: found 'ipopt' together with seek='extremal'; IPOPT finds minima only: give seek='minimum'"
            )
    return Settings(solver.tolerance, solver.max_iterations or MAX_ITERATIONS, seek == "minimum", solver.method)
