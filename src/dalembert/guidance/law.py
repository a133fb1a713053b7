"""Feedback: the control near a plan, as gains at its nodes, as a function of time and state, and as a law for `simulate`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.control.problem import OptimalControl, actuation
from dalembert.numbers import as_number, as_positive, as_vector, described, whole_number
from dalembert.solution import ControlSolution
from dalembert.step import SampledFeedback
from dalembert.systems.equations import all_reactions, force
from dalembert.systems.pickling import reduced
from dalembert.tracing import seldom

LARGEST = 1e300  # stands for an infinite bound where bounds are interpolated


class Feedback(eqx.Module):
    """u(t, q, v) = ū(t) - K(t) (q - q̄(t), v - v̄(t)), clipped to the bounds of the plan: what `feedback` returns.

    Between nodes all of it is interpolated linearly in t. After the last node the law holds the plan's last state, with
    the last gains and the controls that best balance the forces there, or with those of another law (see `then`).

    Attributes:
        problem: the OptimalControl of the plan; the control forces are B(q)u of its plant.
        t: (N+1,) times of the nodes.
        q: (N+1, n) positions q̄ of the plan.
        v: (N+1, n) its velocities v̄.
        u: (N+1, r) its controls ū.
        K: (N+1, r, 2n) gains with respect to q and v; 0 in directions that the constraints of the plant exclude.
        rest: (r,) the controls after the last node.
        after: (r, 2n) the gains after the last node.
        lower: (N+1, r) lower bounds of the controls, infinite if there are none.
        upper: (N+1, r) upper bounds of the controls, likewise.
        held: the time from which the gains are held constant, because they grow without bound towards a given end; the
            time of the last node if they are not held.

    Example:
        >>> law = da.feedback(move, plan, final=([1.0], [0.0]))
        >>> law.K.shape, law(0.0, [0.01], [0.0]).shape
        ((101, 1, 2), (1,))
    """

    problem: OptimalControl
    t: Float[np.ndarray, "nodes"]
    q: Float[np.ndarray, "nodes n"]
    v: Float[np.ndarray, "nodes n"]
    u: Float[np.ndarray, "nodes r"]
    K: Float[np.ndarray, "nodes r 2n"]
    rest: Float[np.ndarray, "r"]
    after: Float[np.ndarray, "r 2n"]
    lower: Float[np.ndarray, "nodes r"]
    upper: Float[np.ndarray, "nodes r"]
    held: float = eqx.field(static=True)

    __reduce__ = reduced
    __hash__ = object.__hash__  # whoever compiles a law asks for it, and arrays have none

    def __call__(self, t, q: Float[Array, "n"], v: Float[Array, "n"]) -> Float[Array, "r"]:
        """The control at a time and a state; traceable by JAX."""
        n, nodes = self.q.shape[1], jnp.asarray(self.t)
        t, q, v = as_number(t, "t", "a finite time"), as_vector(q, "q", n), as_vector(v, "v", n)
        i = jnp.clip(jnp.searchsorted(nodes, t, side="right") - 1, 0, len(self.t) - 2)
        w = jnp.clip((t - nodes[i]) / (nodes[i + 1] - nodes[i]), 0.0, 1.0)

        def at(values, later=None):
            both = jnp.asarray(values)
            found = (1.0 - w) * both[i] + w * both[i + 1]
            return found if later is None else jnp.where(t > nodes[-1], later, found)

        u, gains = at(self.u, self.rest), at(self.K, self.after)
        x = jnp.concatenate([q - at(self.q), v - at(self.v)])
        lower, upper = (at(jnp.clip(jnp.asarray(b), -LARGEST, LARGEST)) for b in (self.lower, self.upper))
        return jnp.clip(u - gains @ x, lower, upper)

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        """Called by `closed_loop`: ū of t + ahead, corrected by the state at t."""
        row = self._last() if t > self.t[-1] else self._rows(np.array([t]), ahead)[0]
        return np.asarray(self._control(row, q, v))

    def sampled(self, h: float, every: int = 1) -> SampledFeedback:
        """The law for `simulate(feedback=…)` with step h, sampled every so many steps and held in between.

        ū is taken at the middle of the interval over which it is held, so that sampling alone changes the motion of the
        plan only to second order.

        Args:
            h: step of the simulation, in the unit of time of the plan.
            every: number of steps between two samples.

        Returns:
            A SampledFeedback, which runs on both back-ends. The first sample should be taken within the time of the
            plan.

        Raises:
            ValueError: h is not positive, or every is below 1.
            TypeError: h is not a number, or every is not a whole number.
        """
        held = as_positive(h, "h") * whole_number(every, "every")
        t = np.asarray(self.t)
        grid = max(held, float(np.diff(t).min()))
        count = math.ceil((t[-1] - t[0]) / grid * (1.0 - 1e-12))
        rows = self._rows(np.minimum(t[0] + grid * np.arange(count + 1), t[-1]), 0.5 * held)
        rows = np.concatenate([rows[:-1], self._last()[None]])
        table, start = np.concatenate([rows[:-1], np.diff(rows, axis=0)], axis=1), float(t[0])
        width, problem, control = rows.shape[1], self.problem, self._control

        def law(q, v, t, *_):
            s = jnp.clip((t - start) / grid, 0.0, float(count))
            i = jnp.minimum(jnp.floor(s + 1e-9), count - 1.0)
            both = jnp.asarray(table)[i.astype(int)]
            return actuation(problem, q, t) @ control(both[:width] + (s - i) * both[width:], q, v)

        return SampledFeedback(law, every=int(every), timed=True)

    def then(self, other: Feedback) -> Feedback:
        """The same law, but after the last node with the gains and the control that another law has at its first node:
        a regulator that holds the plan's last state.

        Args:
            other: a Feedback along a motion that rests where this one ends.

        Returns:
            The combined Feedback.

        Raises:
            TypeError: other is not a Feedback.
            ValueError: other has a different number of controls or coordinates, or starts from another state.
        """
        if not isinstance(other, Feedback):
            raise TypeError(f"other: found {described(other)}; give a Feedback")
        if other.K.shape[1:] != self.K.shape[1:]:
            raise ValueError(f"other: found gains {other.K.shape[1:]}; those of this law are {self.K.shape[1:]}")
        here, there = (np.concatenate([x.q[i], x.v[i]]) for x, i in ((self, -1), (other, 0)))
        if not np.allclose(here, there, rtol=1e-6, atol=1e-6):
            raise ValueError(f"other: begins at (q, v) = {there}; this law ends at {here}")
        return dataclasses.replace(self, rest=other.u[0], after=other.K[0])

    def _rows(self, times: np.ndarray, ahead: float) -> np.ndarray:
        """(q̄, v̄, ū, lower, upper, K) at times, (times, …); ū that much later."""

        def at(values, t=times):
            flat = np.asarray(values).reshape(len(self.t), -1)
            return np.stack([np.interp(t, self.t, column) for column in flat.T], axis=1)

        later = times + ahead
        u = np.where((later > self.t[-1])[:, None], self.rest, at(self.u, later))
        limits = [at(np.clip(x, -LARGEST, LARGEST)) for x in (self.lower, self.upper)]
        return np.concatenate([at(self.q), at(self.v), u, *limits, at(self.K)], axis=1)

    def _last(self) -> np.ndarray:
        """The row after the last node."""
        row = self._rows(np.asarray(self.t[-1:]), 0.0)[0]
        n, r = self.q.shape[1], self.u.shape[1]
        row[2 * n : 2 * n + r], row[2 * n + 3 * r :] = self.rest, self.after.ravel()
        return row

    def _control(self, row, q, v):
        n, r = self.q.shape[1], self.u.shape[1]
        x, u, lower, upper, gains = jnp.split(row, np.cumsum([2 * n, r, r, r]))
        wanted = u - gains.reshape(r, 2 * n) @ (jnp.concatenate([q, v]) - x)
        bounded = np.any(np.isfinite(self.lower)) or np.any(np.isfinite(self.upper))
        return jnp.clip(wanted, lower, upper) if bounded else wanted


def law_along(problem: OptimalControl, solution: ControlSolution, gains: np.ndarray, hold: float) -> Feedback:
    """The law with these gains, those of the last time `hold` being held."""
    t = np.asarray(solution.t)
    last = int(np.searchsorted(t, t[-1] - hold * (1.0 - 1e-12), side="right")) - 1 if hold else len(t) - 1
    gains = np.concatenate([gains[: last + 1], np.repeat(gains[last : last + 1], len(t) - 1 - last, axis=0)])
    free = np.full_like(np.asarray(solution.u), np.inf)
    bounds = solution.bounds.get("u")
    lower, upper = (-free, free) if bounds is None else (bounds.lower, bounds.upper)
    rest = np.clip(np.asarray(_balance_forces(problem, solution.q[-1], solution.v[-1], t[-1])), lower[-1], upper[-1])
    q, v, u, lower, upper = (np.asarray(x) for x in (solution.q, solution.v, solution.u, lower, upper))
    return Feedback(problem, t, q, v, u, gains, rest, gains[-1], lower, upper, float(t[last]))


@seldom
def _balance_forces(problem: OptimalControl, q, v, t):
    """u of the least-squares solution of B u + Rᵀν + L_q + f - d/dt L_v = 0 without acceleration."""
    system: Any = problem.system
    lagrangian = lambda x, w, s: system.call(system.lagrangian, x, w, t=s)  # noqa: E731
    inertial = jax.jvp(lambda x, s: jax.grad(lagrangian, 1)(x, v, s), (q, t), (v, jnp.ones_like(t)))[1]
    known = jax.grad(lagrangian)(q, v, t) + force(system, q, v, t) - inertial
    columns = actuation(problem, q, t)
    every = jnp.concatenate([columns, all_reactions(system, q, v, jnp.zeros_like(v), t).T], axis=1)
    return -jnp.linalg.pinv(every, rtol=1e-10)[: columns.shape[1]] @ known
