"""A step of a scheme as a map of T*Q, (q, p) → (q, p), whatever the form of the step."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from dalembert.discretize import Scheme
from dalembert.discretize.nodes import Interval, incoming
from dalembert.measure.nodes import own_scheme
from dalembert.numbers import EPSILON, as_number, as_vector
from dalembert.step import simulate
from dalembert.systems import System, check_x64, is_traced, momentum
from dalembert.systems.sizes import as_step
from dalembert.systems.system import check_system
from dalembert.tracing import seldom

ITERATIONS, HALVINGS = 100, 40


class PhasePoint(NamedTuple):
    """A point of T*Q.

    Attributes:
        q: (n,) positions.
        p: (n,) momenta.
    """

    q: Float[np.ndarray, "n"]
    p: Float[np.ndarray, "n"]


def phase_step(system: System, q, p, *, h: float, t0: float = 0.0, scheme: Scheme | None = None) -> PhasePoint:
    """(q₀, p₀) → (q₁, p₁): the step of a scheme between points of T*Q.

    In the form kick_drift_kick, p = L_v(q, v) at the states. In the forms drift_kick_drift and nodes, (q, p) = F⁺L_d of
    the pair of nodes that belongs to a state: q is the second node, p = D₂L_d + f_d⁺ its momentum before the forces of
    the next interval. Without constraints and forces both maps are symplectic. A composed step of drift_kick_drift has
    no such pair: there p = L_v(q, v) at its states, and the map is not symplectic.

    Args:
        system: a System.
        q: (n,) positions.
        p: (n,) momenta.
        h: time step, negative for a step backwards in time.
        t0: time of (q, p).
        scheme: as for `simulate`.

    Returns:
        The PhasePoint one step later.

    Raises:
        ValueError: an argument has the wrong shape, no velocity has the momentum p, or it is called under jit, vmap or
            grad.
        TypeError: an argument is of the wrong type.
        InconsistentDataError: the state that belongs to (q, p) violates the constraints.
        StepError: the step cannot be solved.

    Source: Marsden, West, Discrete mechanics and variational integrators, Section 1.5.1.

    Example:
        >>> after = da.measure.phase_step(pendulum, [0.0], [1.0], h=0.1)
        >>> bool(abs(0.5 * after.p[0] ** 2 - jnp.cos(after.q[0]) + 0.5) < 1e-4)  # the energy
        True
    """
    check_x64()
    check_system(system)
    chosen = Scheme() if scheme is None else own_scheme(scheme)
    given = as_vector(q, "q")
    given = given, as_vector(p, "p", given.shape[0]), as_step(h), as_number(t0, "t0", "a finite time")
    if is_traced(system, given):
        raise ValueError("phase_step: works on numbers and not under jit, vmap or grad")
    (x, y), (step, t) = map(np.asarray, given[:2]), map(float, given[2:])
    pairs = chosen.order == 2 and chosen.form_for(system.constraints) != "kick_drift_kick"
    if not pairs:
        v = _velocity(lambda w: _conjugate(system, x, w, t), y, x)
        path = simulate(system, x, v, h=step, steps=1, t0=t, scheme=chosen)
        after, w = np.asarray(path.q)[-1], np.asarray(path.v)[-1]
        return PhasePoint(after, np.asarray(_conjugate(system, after, w, t + step)[0]))
    state = Scheme("drift_kick_drift", **_maps(chosen))
    ahead = (1.0 - state.state.weight) * step
    v = _velocity(lambda w: _incoming(system, state, x, w, t, step), y, x)
    path = simulate(system, x - ahead * v, v, h=step, steps=1, t0=t - ahead, scheme=state)
    middle, w = np.asarray(path.q)[-1], np.asarray(path.v)[-1]
    after = middle + ahead * w
    return PhasePoint(after, np.asarray(_incoming(system, state, after, w, t + step, step)[0]))


def _maps(scheme: Scheme) -> dict:
    """Of the step whose nodes are those of the scheme."""
    return {name: getattr(scheme, name) for name in ("action", "kinematic", "variational", "distribution", "state")}


@seldom
def _conjugate(system: System, q, v, t):
    """L_v(q, v) and its derivative by v."""
    of = lambda w: momentum(system, q, w, t)  # noqa: E731
    return of(v), jax.jacfwd(of)(v)


@seldom
def _incoming(system: System, scheme: Scheme, q, v, t, h):
    """D₂L_d(q - hv, q) + f_d⁺ and its derivative by v; t is the time of q."""
    of = lambda w: incoming(scheme, system, Interval(q, h * w, t - h, h, 1.0))  # noqa: E731
    return of(v), jax.jacfwd(of)(v)


def _velocity(of, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """v with of(v) = p: Newton's iteration from rest, its steps halved until they reduce |of(v) - p|; else ValueError."""
    v, (value, slope) = np.zeros_like(p), (np.asarray(x) for x in of(np.zeros_like(p)))
    for _ in range(ITERATIONS):
        if not np.all(np.isfinite(slope)) or np.linalg.cond(slope) * EPSILON > 1.0:
            break
        change = np.linalg.solve(slope, p - value)
        rounding = 8 * EPSILON * (np.max(np.abs(p)) + np.max(np.abs(slope) @ np.abs(v), initial=0.0))
        if np.max(np.abs(p - value)) <= rounding or np.max(np.abs(change)) <= 8 * EPSILON * np.max(np.abs(v)):
            return v + change
        found = _shortened(of, p, v, change, float(np.linalg.norm(p - value)))
        if found is None:
            break
        v, value, slope = found
    raise ValueError(f"p: found {p}; no velocity at q = {q} has this momentum, or the Legendre transform is singular there")


def _shortened(of, p: np.ndarray, v: np.ndarray, change: np.ndarray, before: float):
    """The longest of the step and its halves that reduces the residual, with what is there."""
    for _ in range(HALVINGS):
        value, slope = (np.asarray(x) for x in of(v + change))
        if np.all(np.isfinite(value)) and np.linalg.norm(p - value) < before:
            return v + change, value, slope
        change = 0.5 * change
    return None
