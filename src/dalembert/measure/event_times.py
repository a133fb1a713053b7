"""Events: where a function of the state changes its sign along a path, between the steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dalembert.discretize import DiscreteSystem, Scheme, WindowMap
from dalembert.measure.nodes import check_neighbours, check_single, form_of
from dalembert.notebook import described_by_fields
from dalembert.numbers import EPSILON, as_function, is_traced, whole_number
from dalembert.outcome import Outcome
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.systems import System, VariationalProblem, run_on_shapes
from dalembert.systems.shapes import check_scalar
from dalembert.tracing import Jitted, over_rows

PARTS = 4  # of a step, between which g is looked at
ROUNDING = 1e-14  # of the step: how closely an event is located in it
UNRESOLVED = 2e3  # rounding errors of the time: a shorter step is none


@described_by_fields
class Events(NamedTuple):
    """The events of a path, in the order of the run.

    g(q, v) = 0: the events of a path, in the order of the run.

    Attributes:
        t: (K,) their times.
        q: (K, n) positions there.
        v: (K, n) velocities there.
        direction: (K,) 1 where g rises along the run, -1 where it falls.
        step: (K,) index of the step in which the event lies.
    """

    t: Float[np.ndarray, "K"]
    q: Float[np.ndarray, "K n"]
    v: Float[np.ndarray, "K n"]
    direction: Int[np.ndarray, "K"]
    step: Int[np.ndarray, "K"]


def events(
    system: System | DiscreteSystem | VariationalProblem,
    path: Path,
    g: Callable,
    *,
    direction: int = 0,
    scheme: Scheme | WindowMap | None = None,
) -> Events:
    """Find the times at which a function changes its sign along a path.

    g(q, v, t) = 0 with a change of sign, at t_k + θh, where (q, v) is the result of a step of length θh from (q_k,
    v_k).

    θ is found by Brent's method. The state at an event is computed by the same scheme: it has the order of the scheme,
    satisfies the constraints as the nodes do, and can be the initial state of a further run. No shorter step exists if
    velocities lie between the nodes (form "nodes", discrete systems, flows of variational problems), with a sampled
    law, or with a branch rule: then the state is that of `path.interpolate`, of order 2 in v.

    g is evaluated at four points in each step; two changes of sign within a quarter of a step are not detected. A zero
    at a node is an event if g changes sign across it, or if it is at the end of the path. A zero at the start is not an
    event, so that a run can go on from an event. To end a run at an event, give `simulate` stop=lambda q, v: g(q, v) <=
    0 and locate it in the last step.

    Args:
        system: the system of the path.
        path: its Path, with every state saved.
        g: `g(q, v[, t][, p])`, (n,), (n,) → ().
        direction: 1 for events at which g rises along the run, -1 for those at which it falls, 0 for both.
        scheme: as given to simulate.

    Returns:
        Events.

    Raises:
        ValueError: an argument has the wrong value; g is not finite on the path.
        TypeError: an argument is of the wrong type.
        RuntimeError: a shortened step cannot be solved.

    Example:
        >>> swing = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=40)
        >>> low = da.measure.events(pendulum, swing, lambda q, v: q[0])
        >>> low.t.round(2).tolist(), low.direction.tolist()  # a quarter of the period, 6.7
        ([1.68], [-1])
    """
    chosen = _scheme_of(system, path, scheme)
    as_function(g, "g", "of (q, v) that returns a number")
    wanted = whole_number(direction, "direction", -1, 1)
    if is_traced(system, path):
        raise TypeError("path: found traced values; events are found on numbers and not under jit, vmap or grad")
    check_neighbours(path)
    point = np.zeros(path.q.shape[1])
    run_on_shapes(lambda s, x, t: check_scalar(lambda: s.call(g, x, x, t=t), "g", "q, v" + s.trailing), system, point, 0.0)
    curve = _Curve(system, path, g, chosen if _has_steps(path) else None)
    found = [event for k, a, b, rises in _brackets(curve) if wanted in (0, rises) for event in [curve.event(k, a, b, rises)]]
    n = path.q.shape[1]
    t, q, v, ways, steps = (np.array([e[i] for e in found]) for i in range(5))
    return Events(t, q.reshape(-1, n), v.reshape(-1, n), ways.astype(int), steps.astype(int))


@functools.singledispatch
def _scheme_of(system: System | DiscreteSystem, path: Path, scheme: Any) -> Scheme | None:
    """The scheme that made the path; None where steps of another length are not a scheme's."""
    return form_of(path, system, scheme)[0]


@_scheme_of.register(VariationalProblem)
def _no_scheme(system: VariationalProblem, path: Path, scheme: Any) -> None:
    check_single(path)


def _has_steps(path: Path) -> bool:
    """True if steps of another length from the states of the path are those of its scheme, and nothing else."""
    ruled = path.provenance is not None and bool(path.provenance.branch)
    return path.levels[0] == "node" and path.feedback is None and not ruled


def _event_value(system, g: Callable, q, v, t):
    return system.call(g, q, v, t=t)


@Jitted
def _rounding(system, g: Callable, q, v, t):
    """The error of g by rounding of q, v and t."""
    slopes = jax.grad(lambda x, w, s: system.call(g, x, w, t=s), (0, 1, 2))(q, v, t)
    return EPSILON * sum(jnp.sum(jnp.abs(slope * at)) for slope, at in zip(slopes, (q, v, t), strict=True))


class _Curve:
    """(q, v) and g at t_k + θh; scheme: of the step that leads there, None for the interpolant."""

    def __init__(self, system, path: Path, g: Callable, scheme: Scheme | None):
        self.system, self.path, self.g, self.scheme = system, path, g, scheme
        self.t, self.h = np.asarray(path.t), float(path.h)
        self.nodes = np.asarray(path.q), np.asarray(path.v)
        if scheme is None:
            q, v = path.interpolate(path.t)
            self.nodes = np.asarray(q), np.asarray(v)

    def between(self, theta: float) -> np.ndarray:
        """g at θ in every step, by interpolation: where to look."""
        t = jnp.asarray(self.t[:-1] + theta * self.h)
        return self.g_values(*self.path.interpolate(t), t)

    def g_values(self, q, v, t) -> np.ndarray:
        found = np.asarray(over_rows(_event_value, (q, v, t), self.system, self.g))
        if not np.all(np.isfinite(found)):
            bad = np.asarray(t)[np.argmin(np.isfinite(found))]
            raise ValueError(f"g: is {found[np.argmin(np.isfinite(found))]} on the path, at t = {bad:g}; it must be finite")
        return found

    def state_at(self, k: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) at θ in the step k."""
        if theta == 1.0 or abs(theta * self.h) <= UNRESOLVED * np.spacing(abs(self.t[k])):
            q, v = (np.asarray(x)[k + int(theta)] for x in self.nodes)
        elif self.scheme is None:
            q, v = self.path.interpolate(self.t[k] + theta * self.h)
        else:
            part = {"h": theta * self.h, "t0": float(self.t[k]), "steps": 1, "scheme": self.scheme, "throw": False}
            path = simulate(self.system, *(x[k] for x in self.nodes), **part)
            outcome = Outcome(int(path.code))
            if outcome.failed:
                raise RuntimeError(
                    f"events: the step of length {part['h']:g} from t = {part['t0']:g} cannot be solved: {outcome.message}"
                )
            q, v = path.q[-1], path.v[-1]
        return np.asarray(q), np.asarray(v)

    def g_at(self, k: int, theta: float) -> float:
        """g there."""
        q, v = self.state_at(k, theta)
        return float(self.g_values(q[None], v[None], np.array([self.t[k] + theta * self.h]))[0])

    def begins_at_zero(self) -> bool:
        """True if g is zero at the start but for rounding, as where a run goes on from an event."""
        q, v, t = (jnp.asarray(x[0], dtype=float) for x in (*self.nodes, self.t))
        first, later = self.g_at(0, 0.0), self.g_at(0, 1.0 / PARTS)
        located = ROUNDING * PARTS * abs(later - first)
        return bool(abs(first) <= 4.0 * (located + _rounding(self.system, self.g, q, v, t)))

    def event(self, k: int, a: float, b: float, rises: int) -> tuple:
        """Of the row of `Events`: the zero of g between θ = a and θ = b, the ends of a change of sign, or a zero a = b."""
        from scipy.optimize import brentq  # slow to load

        found: Any = a if a == b else brentq(lambda x: self.g_at(k, x), a, b, xtol=ROUNDING)
        theta = float(found)
        return self.t[k] + theta * self.h, *self.state_at(k, theta), rises, k


Place = tuple[int, float]  # a step, and θ in it, 0 ≤ θ < 1


def _looked_at(curve: _Curve) -> list[tuple[Place, float]]:
    """The places where the sign of g is known, in order: all nodes, and parts of the steps in which it may change."""
    nodes, count = np.sign(curve.g_values(*curve.nodes, curve.t)), len(curve.t) - 1
    thetas = np.arange(PARTS) / PARTS
    unsure = np.ones(count, bool)  # with two nodes there is no interpolant
    if count > 1:
        inside = np.stack([np.sign(curve.between(theta)) for theta in thetas[1:]])
        unsure = (nodes[:-1] != nodes[1:]) | (nodes[:-1] == 0) | np.any(inside != nodes[:-1], axis=0)
    found: list[tuple[Place, float]] = []
    for k in range(count):
        found.append(((k, 0.0), nodes[k]))
        found += [((k, theta), np.sign(curve.g_at(k, theta))) for theta in thetas[1:] if unsure[k]]
        if k == 0 and len(found) > 1 and found[0][1] != found[1][1] and curve.begins_at_zero():
            found[0] = (found[0][0], 0.0)
    return [*found, ((count, 0.0), nodes[count])]


def _brackets(curve: _Curve) -> Iterator[tuple[int, float, float, int]]:
    """(step, a, b, ±1): g changes its sign between the parts θ = a and θ = b of the step, or is zero at a = b."""
    places, last = _looked_at(curve), None
    end = len(places) - 1
    for j, ((k, theta), sign) in enumerate(places):
        if sign == 0.0 and j < end:
            continue
        if last is not None and sign * places[last][1] < 0 and j == last + 1:
            before, a = places[last][0]
            yield before, a, theta if k == before else 1.0, int(sign)
        elif last is not None and (sign * places[last][1] < 0 or sign == 0.0):
            (before, a), rises = places[last + 1][0], -int(places[last][1])
            yield (before, a, a, rises) if before < len(curve.t) - 1 else (before - 1, 1.0, 1.0, rises)
        last = j if sign else last
