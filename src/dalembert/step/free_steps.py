"""Steps of their own length: the flow of a variational problem on R × Q, where the energy equation gives the next time."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import Points, WindowMap, with_time
from dalembert.path import Outcome, Path, StepError
from dalembert.step.simulate import simulate
from dalembert.systems.variational import VariationalProblem, density

SCALES = (0.02, 0.1, 0.3, 0.6, 1.0, 1.5, 3.0, 10.0, 50.0)  # of the last step, where another root of a failed step is sought


def simulate_free_steps(
    problem: VariationalProblem,
    nodes: Float[Array, "2k n"],
    times: Float[Array, "2k"],
    *,
    steps: int,
    multipliers=None,
    scheme: WindowMap | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 25,
    throw: bool = True,
) -> Path:
    """Σ_j D_j L̃_d = 0 in q and in t: E_i - E_{i-1} = -(h_i + … + h_{i+k-1})/k ∂L_d/∂t, the steps h_i unknown.

    Symplectic, and energy and momentum conserving where L does not depend on time. nodes (2k, n) at times (2k,): their
    energy is the one that is kept. steps: N, with those of the given nodes. Returns a Path whose t are the times found; v
    are difference quotients between nodes. Where no positive next step exists the outcome is NO_POSITIVE_STEP, with the
    time: the equation of energy has no real solution near turning points of the motion. Go on with fixed steps:
    `simulate(problem, nodes=path.q[-2k:], h=…)`.
    Errors: ValueError naming the argument; StepError with the partial path, unless throw=False.
    Source: Colombo, Martín de Diego, Zuccalli, section 4.1; for k = 1 Kane, Marsden, Ortiz (1999).
    """
    k = problem.derivatives
    q, t = np.atleast_2d(np.asarray(nodes, dtype=float)), np.asarray(times, dtype=float)
    if q.ndim != 2 or len(q) != 2 * k or t.shape != (2 * k,):
        raise ValueError(
            f"nodes, times: found shapes {q.shape} and {t.shape}; give the first {2 * k} nodes (2k, n) and times (2k,)"
        )
    if not np.all(np.diff(t) > 0):
        raise ValueError(f"times: found {t}; they must increase")
    free = with_time(problem, scheme, forward=False)  # Newton's method may look back on its way
    raw = simulate(
        free, nodes=np.column_stack([t, q]), multipliers=multipliers, h=1.0, steps=steps, scheme=Points(),
        tolerance=tolerance, max_iterations=max_iterations, throw=False, domain=_forward,
    )  # fmt: skip
    path = _on_its_times(raw)
    outcome = Outcome(int(raw.code))
    if outcome.failed:
        last = np.asarray(raw.q[-2 * k :])
        backwards = outcome is Outcome.LEFT_DOMAIN
        sought = not backwards and not problem.differential and not problem.holonomic
        lost = backwards or (sought and not _other_root(free, last, k))
        code = Outcome.NO_POSITIVE_STEP if lost else outcome
        s = dataclasses.replace(path.statistics, failed_time=path.t[-1])
        path = dataclasses.replace(path, code=jnp.asarray(int(code)), statistics=s)
        if throw:
            raise StepError(path)
    return path


def _forward(q, v, *parameters):
    """Whether the last step went forward in time."""
    return v[0] > 0.0


def _on_its_times(raw: Path) -> Path:
    """A path on R × Q as a path on Q."""
    x, forces = np.asarray(raw.q), np.asarray(raw.constraint_forces)
    t, q = x[:, 0], x[:, 1:]
    found = {
        "t": t, "q": q, "t_velocity": 0.5 * (t[1:] + t[:-1]), "v": np.diff(q, axis=0) / np.diff(t)[:, None],
        "t_multipliers": np.interp(raw.t_multipliers, raw.t, t), "constraint_forces": forces[:, 1:], "h": t[1] - t[0],
    }  # fmt: skip
    return dataclasses.replace(raw, **jax.device_put(found), levels=("mid", raw.levels[1]))


def _other_root(free: VariationalProblem, last: np.ndarray, k: int) -> bool:
    """Whether the equations of the next node (t, q) have a solution with a later time, from steps of many lengths."""
    from scipy.optimize import root

    def action(middle, new):
        path = jnp.concatenate([jnp.asarray(last[:k]), middle[None], jnp.asarray(last[k + 1 :]), new[None]])
        return sum(density(free, tuple(path[i : i + k + 1]), path[i, 0]) for i in range(k + 1))

    equation = jax.jit(jax.grad(action))
    middle, rate = jnp.asarray(last[k]), last[-1] - last[-2]
    for scale in SCALES:
        found = root(
            lambda x: np.nan_to_num(np.asarray(equation(middle, jnp.asarray(x))), nan=1e6),
            last[-1] + scale * rate,
            tol=1e-12,
        )
        if found.success and found.x[0] > last[-1, 0] and np.max(np.abs(equation(middle, jnp.asarray(found.x)))) < 1e-9:
            return True
    return False
