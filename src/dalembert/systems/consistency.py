"""Whether initial data satisfy the constraints, whatever the units and the origin: φ(q) = 0, dφ/dt = 0, φ(q, v) = 0.

An equation r(x) = 0, x one of q and v, with derivative J, counts as satisfied where |r_i| ≤ 10⁻⁸ Σ_j |J_ij| s_j and the
least correction d of x leaves J as it is: |Σ_j (J(x + d) - J(x))_ij d_j| ≤ 10⁻⁸ Σ_j |J_ij d_j|, so that a curved constraint
brings its own length. What the rounding of q, v and t explains is no violation.
The size s_j of a position is how far it moves in a time τ, τ|v_j| + ½τ²|a_j|; where nothing moves by 10⁻⁹ of |q|, or τ is
not known, it is |q_j|. That of a velocity is s_j/τ, or |v_j| where τ is not known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.systems.equations import acceleration, first_derivative, momentum, value
from dalembert.systems.sizes import CONSISTENT, ROUNDING, with_inertia
from dalembert.systems.system import System
from dalembert.tracing import seldom

STEPS = 100  # in which a motion that they resolve has moved by about its own size
STILL = 1e-9  # of |q|


class Restriction(NamedTuple):
    """r(q, v, t) and its derivatives, (m,), (m, n), (m, n), (m,). In many runs each has an axis in front."""

    value: Float[Array, "m"]
    by_q: Float[Array, "m n"]
    by_v: Float[Array, "m n"]
    by_t: Float[Array, "m"]


class Violation(NamedTuple):
    """name: of the restriction; residuals: (B, m), those of all runs; runs: (B,), whether it is violated there."""

    name: str
    residuals: np.ndarray
    runs: np.ndarray


def velocity_residuals(system: System, q, v, t) -> dict[str, Array]:
    """What (q, v) must satisfy by themselves: φ(q) and dφ/dt of holonomic, φ(q, v) of nonholonomic constraints."""
    out = {}
    for i, c in enumerate(system.constraints):
        name = f"constraints[{i}] ({type(c).__name__})"
        if c.order == 0:
            out[f"{name} at q0"] = value(system, c, q, v, v, t)
            out[f"d/dt of {name} at (q0, v0)"] = first_derivative(system, c, q, v, t)
        elif c.order == 1:
            out[f"{name} at (q0, v0)"] = value(system, c, q, v, v, t)
    return out


def restrictions(system: System, q, v, t) -> dict[str, Restriction]:
    """The residuals with their derivatives, by name."""
    n, all_of_it = q.shape[0], jnp.concatenate([q, v, jnp.asarray(t, dtype=float)[None]])
    of = lambda x: velocity_residuals(system, x[:n], x[n : 2 * n], x[2 * n])  # noqa: E731
    values, slopes = value_and_jacobian(of, all_of_it)
    return {name: Restriction(r, slopes[name][:, :n], slopes[name][:, n : 2 * n], slopes[name][:, 2 * n])
            for name, r in values.items()}  # fmt: skip


class Runs(NamedTuple):
    """given: q0, v0 and parameters, arrays with an axis of runs where `axes` has 0. t: when all begin."""

    system: System
    given: dict
    axes: dict
    t: Any

    @classmethod
    def one(cls, system: System, q, v, t) -> Runs:
        given = {"q0": np.asarray(q)[None], "v0": np.asarray(v)[None], "parameters": {}}
        return cls(system, given, {"q0": 0, "v0": 0, "parameters": {}}, t)

    def restrictions(self, **changes) -> dict[str, Restriction]:
        axes = self.axes | dict.fromkeys(changes, 0)
        return jax.tree.map(np.asarray, _restrictions(self.system, _arrays(self.given | changes), axes, self.t))

    def motions(self) -> tuple[np.ndarray, np.ndarray]:
        """Accelerations and |∂²L/∂v_j²|, (B, n) each."""
        a, inertia = _motions(self.system, _arrays(self.given), self.axes, self.t)
        return np.asarray(a), np.asarray(inertia)

    def states(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """q and v, (B, n) each."""
        q, v = (np.asarray(self.given[name], dtype=float) for name in ("q0", "v0"))
        return np.broadcast_to(q, (number, q.shape[-1])), np.broadcast_to(v, (number, v.shape[-1]))


def _arrays(given: dict) -> dict:
    return jax.tree.map(jnp.asarray, given)


@seldom
def _restrictions(system: System, given: dict, axes: dict, t):
    return _every(restrictions, system, given, axes, t)


@seldom
def _motions(system: System, given: dict, axes: dict, t):
    def motion(system: System, q, v, t):
        inertia = jnp.diagonal(jax.jacfwd(lambda w: momentum(system, q, w, t))(v))
        return acceleration(system, q, v, t)[0], jnp.abs(inertia)

    return _every(motion, system, given, axes, t)


def _every(function, system: System, given: dict, axes: dict, t):
    def one(given: dict):
        system_ = system.replace(**given["parameters"]) if given["parameters"] else system
        return function(system_, given["q0"], given["v0"], t)

    return eqx.filter_vmap(one, in_axes=(axes,))(given)


def violation_of(runs: Runs, time: float | None, found: dict[str, Restriction] | None = None) -> Violation | None:
    """The first restriction that some run violates, None where there is none. time: τ; found: the restrictions, if known."""
    found = runs.restrictions() if found is None else found
    if not found:
        return None
    q, v = runs.states(len(next(iter(found.values())).value))
    inexact = {name: ~(np.abs(r.value) <= _rounding(r, q, v, float(runs.t))) for name, r in found.items()}
    if not any(np.any(off) for off in inexact.values()):  # nearly always: nothing else is looked at
        return None
    positions, speeds = _sizes(q, v, *runs.motions(), time)
    for name, slope, x, size in (("q0", "by_q", q, positions), ("v0", "by_v", v, speeds)):
        chosen = [key for key in found if _reads_velocity(key) == (name == "v0")]
        if not chosen:
            continue
        values, slopes, off = ([part[key] for key in chosen] for part in (
            {key: r.value for key, r in found.items()}, {key: getattr(r, slope) for key, r in found.items()}, inexact,
        ))  # fmt: skip
        rows, wrong = np.concatenate(slopes, axis=1), np.concatenate(values, axis=1)
        d = _correction(rows, np.where(np.concatenate(off, axis=1), wrong, 0.0), size)
        there = runs.restrictions(**{name: x + d})
        turned = np.concatenate([getattr(there[key], slope) for key in chosen], axis=1) - rows
        bad = ~(np.abs(wrong) <= CONSISTENT * _times(np.abs(rows), size))
        bad |= ~(np.abs(_times(turned, d)) <= CONSISTENT * _times(np.abs(rows), np.abs(d)))
        bad &= np.concatenate(off, axis=1)
        for key, of in zip(chosen, np.split(bad, np.cumsum([r.shape[1] for r in values])[:-1], axis=1), strict=True):
            if np.any(of):
                return Violation(key, np.asarray(found[key].value), np.any(of, axis=1))
    return None


def _reads_velocity(name: str) -> bool:
    return name.endswith("v0)")


def _times(rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("bmn,bn->bm", rows, x)


def _rounding(r: Restriction, q: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
    """What the last digits of q, v and t do to r."""
    return ROUNDING * (_times(np.abs(r.by_q), np.abs(q)) + _times(np.abs(r.by_v), np.abs(v)) + np.abs(r.by_t * t))


def _sizes(q, v, a, inertia, time: float | None) -> tuple[np.ndarray, np.ndarray]:
    """(B, n) each: the sizes of positions and of velocities."""
    reach = np.zeros_like(q) if time is None else time * np.abs(v) + 0.5 * time**2 * np.abs(np.where(np.isfinite(a), a, 0.0))
    weight = np.where(inertia.max(axis=1, keepdims=True, initial=0.0) > 0.0, inertia, 1.0)
    weighted_norm = lambda x: np.sqrt((weight * x**2).sum(axis=1, keepdims=True))  # noqa: E731
    moves = weighted_norm(reach) > STILL * weighted_norm(q)
    positions = _filled(np.where(moves, reach, np.abs(q)), weight)
    return positions, _filled(np.abs(v), weight) if time is None else positions / time


def _filled(sizes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.stack([with_inertia(s, w) for s, w in zip(sizes, weight, strict=True)])


def _correction(rows: np.ndarray, wrong: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The least d, each component in units of its size, with rows d = -wrong; (B, n)."""
    scaled = np.where(np.isfinite(rows), rows, 0.0) * size[:, None, :]
    length = np.linalg.norm(scaled, axis=2)
    length = np.where(length > 0.0, length, 1.0)
    side = np.where(np.isfinite(wrong), wrong, 0.0) / length
    return -size * _times(np.linalg.pinv(scaled / length[..., None]), side)
