"""feedback: from a solution to the gains of its neighbours, or to those of a quadratic cost around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.control.problem import OptimalControl, check_solution_of
from dalembert.discretize import Scheme
from dalembert.guidance.law import Feedback, law_along
from dalembert.guidance.linearisation import active_paths, along, fixed_components, linearised, read_given
from dalembert.guidance.sweep import gains_of, neighbours
from dalembert.numbers import as_number, as_numbers
from dalembert.solution import ControlSolution

HELD = 0.1  # of the time, before an end that is given


def feedback(
    problem: OptimalControl,
    solution: ControlSolution,
    *,
    final: Any = None,
    through: Any = None,
    inequalities: Callable | None = None,
    Q: Float[Array | np.ndarray, "2n 2n"] | None = None,
    R: Float[Array | np.ndarray, "r r"] | None = None,
    Q_T: Float[Array | np.ndarray, "2n 2n"] | None = None,
    hold: float | None = None,
    scheme: Scheme | None = None,
) -> Feedback:
    """δu_i = -K_i (δq_i, δv_i): the change of the optimal control with the state, to first order, along a solution.

    Neighbouring extremals: a backward sweep through the second variation of the discrete problem, with all second
    derivatives of its Lagrangian. Controls, positions, velocities and path inequalities that are at a bound stay there.
    If Q, R and Q_T are given, the gains are those of the linear-quadratic regulator: min ∫ xᵀQx + uᵀRu dt + x(T)ᵀQ_T
    x(T), x = (δq, δv), for the plant linearised along the solution.

    Args:
        problem: the OptimalControl that was solved.
        solution: the plan.
        final: as it was given to `solve`; the gains grow without bound towards a given end. Not together with Q, R,
            Q_T.
        through: as it was given to `solve`.
        inequalities: as they were given to `solve`; needed if some are active along the solution.
        Q: (2n, 2n) weights of the deviation of (q, v) from the plan; symmetric, positive semidefinite.
        R: (r, r) weights of the deviation of the controls; symmetric, positive definite.
        Q_T: (2n, 2n) weights of the deviation at the last node; symmetric, positive semidefinite.
        hold: time before the last node over which the gains are held constant; by default a tenth of the duration if
            something is given at the end, otherwise 0.
        scheme: the Scheme that was given to `solve`.

    Returns:
        The law, a Feedback: u(t, q, v), gains K (N+1, r, 2n), and `sampled(h, every)` for `simulate(feedback=…)`.

    Raises:
        ValueError: an argument does not belong to the solution, or weights have a wrong shape or sign.
        TypeError: an argument is of the wrong type, or one of Q, R, Q_T is missing.

    Source: Bryson, Ho, Applied Optimal Control, chapters 5 and 6; here for the discrete problem.

    Example:
        >>> law = da.feedback(move, plan, final=([1.0], [0.0]))
        >>> [round(float(k), 1) for k in law.K[0, 0]]  # 6/T² and 4/T of the double integrator
        [6.0, 4.0]
    """
    check_solution_of(problem, solution)
    weights = {"Q": Q, "R": R, "Q_T": Q_T}
    missing = [name for name, weight in weights.items() if weight is None]
    length = float(solution.t[-1] - solution.t[0])
    if len(missing) == 3:
        paths = active_paths(problem, solution, inequalities)
        gains, given = _neighbouring(problem, solution, (final, through), paths, scheme)
    elif missing:
        raise TypeError(f"{missing[0]}: is missing; give all of Q, R and Q_T for a regulator, or none of them")
    elif not (final is None and through is None and inequalities is None):
        name = "final" if final is not None else "through" if through is not None else "inequalities"
        raise ValueError(f"{name}: found together with Q, R and Q_T; the end of a regulator is free. Leave {name} out")
    else:
        gains, given = _regulator(problem, solution, weights, scheme), False
    held = as_number(hold, "hold") if hold is not None else HELD * length * given
    if not 0.0 <= held < length:
        raise ValueError(f"hold: found {held:g}; give a time from 0 to the length of the plan, {length:g}")
    return law_along(problem, solution, gains, held)


def _neighbouring(problem, solution, asked: tuple, paths: tuple, scheme) -> tuple[np.ndarray, bool]:
    """asked: what `solve` was given at the end and between."""
    given = read_given(problem, solution, {"final": asked[0]}, asked[1])
    start = along(problem, solution, scheme, paths)
    lin = linearised(start, fixed_components(start, given, solution))
    return gains_of(lin, neighbours(lin))[0], bool(given.final.given.any())


def _regulator(problem: OptimalControl, solution: ControlSolution, weights: dict, scheme) -> np.ndarray:
    """With no multipliers of the plan's own problem, what is left of the second variation is the quadratic cost."""
    n, r = solution.q.shape[1], solution.u.shape[1]
    Q, R, Q_T = (_weight(weights[name], name, size) for name, size in (("Q", 2 * n), ("R", r), ("Q_T", 2 * n)))
    if np.linalg.eigvalsh(R)[0] <= 0.0:
        raise ValueError("R: found a matrix that is not positive definite; every control needs a positive weight")
    own = OptimalControl(
        problem.system, cost=lambda q, v, u, *_: _square(Q, q, v) + u @ R @ u, actuated=problem.actuated,
        terminal=lambda q, v, *_: _square(Q_T, q, v),
    )  # fmt: skip
    start = along(own, solution, scheme)
    for name in ("adjoints", "steps"):
        start.z[:, start.data.layout.part(name)] = 0.0
    fixed = np.zeros(start.z.shape, dtype=bool)
    lin = linearised(start, fixed)
    return gains_of(lin, neighbours(lin))[0]


def _square(weight: np.ndarray, q, v):
    x = jnp.concatenate([q, v])
    return x @ weight @ x


def _weight(given: Any, name: str, size: int) -> np.ndarray:
    found = np.asarray(as_numbers(given, name))
    if found.shape != (size, size):
        raise ValueError(f"{name}: found shape {found.shape}; a matrix ({size}, {size}) is needed")
    if not np.allclose(found, found.T, rtol=1e-12, atol=1e-12 * np.abs(found).max()):
        raise ValueError(f"{name}: found a matrix that is not symmetric; give a symmetric one")
    if np.linalg.eigvalsh(found)[0] < -1e-12 * np.abs(found).max():
        raise ValueError(f"{name}: found a matrix with a negative eigenvalue; give a positive semidefinite one")
    return 0.5 * (found + found.T)
