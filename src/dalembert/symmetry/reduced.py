"""Reduced: a system in fewer coordinates, and the way back to the full motion."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import DiscreteSystem, Scheme
from dalembert.measure.nodes import check_neighbours, own_scheme
from dalembert.notebook import Described
from dalembert.numbers import as_number, as_positive, as_vector
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.symmetry.frames import VelocityFrame, discrete_quotient
from dalembert.systems import System
from dalembert.tracing import seldom

SAME = 1e-7  # of the longest step: by how much stages may miss the next state
TURNS, NEAR = 7, 1e-12  # of Newton's method for a step of the group, which begins at 0; what it leaves


class FullMotion(NamedTuple):
    """The motion of all coordinates.

    Attributes:
        t: (K,) times of q.
        q: (K, n).
        t_velocity: (L,) times of v.
        v: (L, n).
    """

    t: Float[np.ndarray, "K"]
    q: Float[np.ndarray, "K n"]
    t_velocity: Float[np.ndarray, "L"]
    v: Float[np.ndarray, "L n"]


@dataclasses.dataclass(frozen=True, eq=False)
class Reduced(Described):
    """A reduced system in x = (r, s) with v = B(q)ẋ + c(q), and the maps to and from the full system.

    Attributes:
        system: the reduced System: simulate it from (x0, w0) with any scheme.
        x0: (d,) initial positions: the shape, and 0 for quasi-coordinates.
        w0: (d,) initial velocities ẋ.
        original: the System that was reduced.
        frame: the frame, B and c.
        law: "gyroscopic" for a Chaplygin system, "Routh" for a system with a conserved momentum.
    """

    system: System
    x0: Float[np.ndarray, "d"]
    w0: Float[np.ndarray, "d"]
    original: System
    frame: VelocityFrame
    law: str

    def discrete(self, h: float, scheme: Scheme | None = None) -> DiscreteSystem:
        """B(r_k)ᵀ[D₁L_d(q_k,q_{k+1}) + D₂L_d(q_{k-1},q_k)] = 0, q_{k+1} - q_k = h(B ẋ + c): the quotient of the full scheme.

        Its nodes agree to rounding with those of the full system, discretized by the same maps; runs of `system` agree
        with them up to the order of the scheme. It is the discrete Chaplygin system: L_d of L_c with discrete
        gyroscopic forces.

        Args:
            h: time step.
            scheme: the scheme of the full run; that of `simulate` by default.

        Returns:
            A DiscreteSystem in x, whose first nodes are `nodes`.

        Raises:
            ValueError: a frame was given, the system depends on time or comes from `routh`, or the scheme is
                kick_drift_kick or composed.
        """
        step, chosen = float(as_positive(h, "h")), self._maps(scheme)
        return discrete_quotient(self.original, self.system, self.frame, chosen, step)

    def nodes(self, h: float, scheme: Scheme | None = None) -> Float[np.ndarray, "2 d"]:
        """The first two nodes, (x0 - βhw0, x0 + (1-β)hw0): those of a full run from the same data.

        Args:
            h: time step.
            scheme: as for `discrete`.

        Returns:
            (2, d), for simulate(…, nodes=).

        Raises:
            ValueError: as `discrete`.
        """
        step, beta = float(as_positive(h, "h")), self._maps(scheme).state.weight
        return np.stack([self.x0 - beta * step * self.w0, self.x0 + (1.0 - beta) * step * self.w0])

    def velocity(self, x: Any, w: Any, t: float = 0.0) -> Float[Array, "n"]:
        """v = B(q̂(r))w + c(q̂(r)), on the section.

        Args:
            x: (d,).
            w: (d,) ẋ.
            t: time.

        Returns:
            v (n,).

        Raises:
            ValueError: an argument has the wrong shape.
            TypeError: an argument is of the wrong type.
        """
        place, rate = (as_vector(y, name, self.frame.size) for y, name in ((x, "x"), (w, "w")))
        return self.frame.velocity(self.original, self.frame.section(place), rate, as_number(t, "t", "a finite time"))

    def reconstruct(self, path: Path, *, scheme: Scheme | None = None, q0=None) -> FullMotion:
        """ġ = (B(q)ẋ + c(q))_g along a path of the reduced system: the motion of all coordinates.

        For translations it is the same sum of velocities that the scheme of order 2 forms: with the velocity at the
        mid-point of a step for nodes and in the form kick_drift_kick, and with those of the two states of a step in the
        form drift_kick_drift. With a frame that was given, whose group need not consist of translations, it is a symmetric
        method of order 4. The stages of a composed scheme are computed again from each state, so that g has the order of
        the scheme.

        Args:
            path: a path of `system` or of `discrete`, with every state saved.
            scheme: as it was given to simulate or to `discrete`; None: the one in the path's record, if its maps are the
                default ones.
            q0: (n,) initial positions of the full motion, at the first time of the path; by default the q0 of the
                reduction.

        Returns:
            A FullMotion.

        Raises:
            ValueError: states were left out, the path has other coordinates, it was made with another scheme, or it
                consists of nodes and a frame was given.
            TypeError: path is not a Path.
        """
        check_neighbours(path)
        if path.q.shape[1] != self.frame.size:
            raise ValueError(f"path: has {path.q.shape[1]} coordinates; the reduced system has {self.frame.size}")
        chosen, nodes = scheme_of(path, scheme), path.levels[0] == "mid"
        if nodes and not self.frame.translations:
            raise ValueError("path: is one of nodes, and the frame is the user's; simulate `system` in another form")
        start = jnp.asarray(self.frame.q0) if q0 is None else as_vector(q0, "q0", len(self.frame.q0))
        beta, form = chosen.state.weight, "nodes" if nodes else chosen.form_for(self.system.constraints)
        if q0 is None and nodes and np.allclose(path.q[0], self.x0 - beta * path.h * self.w0, rtol=1e-12, atol=1e-300):
            start = start - beta * path.h * self.velocity(self.x0, self.w0, float(path.t[0]))
        states, every = _stages(self.system, chosen, path), slice(None, None, len(chosen.weights))
        q, v = (np.asarray(y)[every] for y in _follow(self, form, chosen.distribution.weight, states, start))
        return FullMotion(np.asarray(path.t), q, np.asarray(path.t_velocity), v)

    def describe(self) -> str:
        """The coordinates before and after the reduction."""
        names = self.original.coordinates or tuple(f"q{i}" for i in range(len(self.frame.q0)))
        return (
            f"{self.law}: {len(names)} coordinates ({', '.join(names)}) to {self.frame.size} "
            f"({', '.join(self.system.coordinates or ())})"
        )

    def _maps(self, scheme: Scheme | None) -> Scheme:
        """The maps of a scheme of nodes."""
        chosen = Scheme() if scheme is None else own_scheme(scheme)
        if chosen.form == "kick_drift_kick" or chosen.order > 2:
            raise ValueError("scheme: the quotient is one of nodes; give a scheme of order 2 in one of the other two forms")
        if not self.frame.translations or self.law != "gyroscopic" or self.original.time_dependent:
            raise ValueError(
                "scheme: the discrete quotient is for translations of a Chaplygin system without time. A Routh system is "
                "its own quotient, and a frame of the user's has none: simulate `system`"
            )
        return chosen


def scheme_of(path: Path, scheme: Scheme | None) -> Scheme:
    """The scheme that made a path: the one given, which the path's record may contradict, or one with the default maps."""
    text = "" if path.provenance is None else path.provenance.scheme
    if scheme is None:
        order, form = (re.search(pattern, text) for pattern in (r"order=(\d+)", r"form='(\w+)'"))
        scheme = Scheme(form and form[1], order=int(order[1]) if order else 2)  # type: ignore[arg-type]
    if text and "".join(text.split()) != "".join(repr(own_scheme(scheme)).split()):
        raise ValueError(f"scheme: the path was made with {' '.join(text.split())}; give that scheme")
    return own_scheme(scheme)


def _stages(system: System, scheme: Scheme, path: Path) -> tuple[Array, ...]:
    """(x, w, t) at the beginning of every stage of the steps and at the end of the last, and the lengths of the stages."""
    known, lengths = (path.q, path.v, path.t), jnp.asarray(scheme.weights) * path.h
    if scheme.order == 2:
        return (*known, jnp.diff(path.t))
    base, now, rows = dataclasses.replace(scheme, order=2), [x[:-1] for x in known], []
    stage = jax.vmap(lambda h, x, w, t: simulate(system, x, w, h=h, steps=1, scheme=base, t0=t), (None, 0, 0, 0))
    for h in lengths:
        rows.append(now)
        ends = stage(h, *now)
        now = [ends.q[:, 1], ends.v[:, 1], now[2] + h]
    rounding, step = 1e-12 * jnp.max(jnp.abs(path.q), axis=0), jnp.max(jnp.abs(jnp.diff(path.q, axis=0)), axis=0)
    if not bool(jnp.all(jnp.abs(now[0] - path.q[1:]) <= rounding + SAME * step)):
        raise ValueError("path: its states are no steps of this scheme and system; give the scheme of the run")
    stacked = (jnp.stack(one, axis=1).reshape(-1, *one[0].shape[1:]) for one in zip(*rows, strict=True))
    every = (jnp.concatenate([one, last[-1:]]) for one, last in zip(stacked, known, strict=True))
    return (*every, jnp.tile(lengths, len(path.q) - 1))


@seldom
def _follow(reduced: Reduced, form: str, beta: float, states: tuple, start):
    """(q, v) of all coordinates, v at the times of the path's. beta: where nonholonomic constraints are read in a step."""
    frame, (x, w, t, h) = reduced.frame, states
    group = np.array(frame.group, dtype=int)

    def full(y, rate, g, s):
        q = frame.section(y).at[group].set(g)
        return q, frame.velocity(reduced.original, q, rate, s)

    rest = start[group]
    between = (x[:-1] + beta * jnp.diff(x, axis=0), jnp.diff(x, axis=0) / h[:, None], t[:-1] + beta * h)
    at = jax.vmap(lambda y, rate, s: full(y, rate, rest, s)[1])
    if not frame.translations:
        moves = _carry(lambda *y: full(*y)[1][group], x, w, t, h, rest)
    elif form == "drift_kick_drift":
        every = at(x, w, t)[:, group]
        moves = 0.5 * h[:, None] * (every[1:] + every[:-1])
    else:
        moves = h[:, None] * at(*between)[:, group]
    g = rest + jnp.concatenate([jnp.zeros((1, len(group))), jnp.cumsum(moves, axis=0)])
    q = jax.vmap(lambda y, z: frame.section(y).at[group].set(z))(x, g)
    return q, at(*between) if form == "nodes" else jax.vmap(lambda *y: full(*y)[1])(x, w, g, t)


def _carry(speed, x, w, t, h, rest):
    """The steps of ġ = speed(x, ẋ, g, t) by Lobatto's method IIIA of order 4, x within a step by cubic interpolation.

    It is its own adjoint, as the stages of x are, so that the composed step has its order in g too.
    """
    width = h[:, None]
    middle = 0.5 * (x[1:] + x[:-1]) + 0.125 * width * (w[:-1] - w[1:])
    rate = 1.5 * jnp.diff(x, axis=0) / width - 0.25 * (w[1:] + w[:-1])

    def step(g, given):
        first, between, last, h = given

        def miss(d):
            f0, f1 = speed(*first[:2], g, first[2]), speed(*last[:2], g + d, last[2])
            half = speed(*between[:2], g + 0.5 * d + 0.125 * h * (f0 - f1), between[2])
            return d - h / 6.0 * (f0 + 4.0 * half + f1)

        corrected = lambda _, d: d - jnp.linalg.solve(jax.jacfwd(miss)(d), miss(d))  # noqa: E731
        d = jax.lax.fori_loop(0, TURNS, corrected, jnp.zeros_like(g))
        d = jnp.where(jnp.all(jnp.abs(miss(d)) <= NEAR * (1.0 + jnp.abs(d))), d, jnp.nan)
        return g + d, d

    ends = ((x[:-1], w[:-1], t[:-1]), (middle, rate, t[:-1] + 0.5 * h), (x[1:], w[1:], t[1:]))
    return jax.lax.scan(step, rest, (*ends, h))[1]
