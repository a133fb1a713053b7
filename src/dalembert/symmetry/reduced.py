"""Reduced: a system in fewer coordinates, and the way back to the full motion; chaplygin: a nonholonomic system with a group
that carries the constraints along, reduced to its shape."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize import OF_STATES, DiscreteSystem, Scheme, as_scheme
from dalembert.measure import check_neighbours
from dalembert.notebook import Described, described_by_fields
from dalembert.numbers import as_number, as_positive, as_vector
from dalembert.path import Path
from dalembert.step import simulate
from dalembert.symmetry.conditions import Samples, place_of_search, sample
from dalembert.symmetry.coordinates import (
    VelocityFrame,
    discrete_quotient,
    indices_of,
    own_parts,
    reduced_force,
    reduced_system,
)
from dalembert.systems import InconsistentDataError, RankDeficientError, System, check_shapes, check_x64, output_shape
from dalembert.systems.distribution.reduction import check_first_order
from dalembert.systems.equations import all_reactions
from dalembert.tracing import Jitted, over_rows, seldom

SAME = 1e-7  # of the longest step: by how much stages may miss the next state
TURNS, NEAR = 7, 1e-12  # of Newton's method for a step of the group, which begins at 0; what it leaves


@described_by_fields
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
            (2, d), for Start(nodes=…) of `simulate`.

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
        now = jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)
        return _velocity(self.frame, self.original, place, rate, now)

    def reconstruct(self, path: Path, *, scheme: Scheme | None = None, q0=None) -> FullMotion:
        """ġ = (B(q)ẋ + c(q))_g along a path of the reduced system: the motion of all coordinates.

        For translations it is the same sum of velocities that the scheme of order 2 forms: with the velocity at the
        mid-point of a step for nodes and in the form kick_drift_kick, and with those of the two states of a step in the
        other forms. With a frame that was given, whose group need not consist of translations, it is a symmetric
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
        chosen = as_scheme(scheme)
        if chosen.form in OF_STATES or chosen.order > 2:
            raise ValueError("scheme: the quotient is one of nodes; give a scheme of order 2 of drift_kick_drift or nodes")
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
    chosen = as_scheme(scheme)
    if text and "".join(text.split()) != "".join(repr(chosen).split()):
        raise ValueError(f"scheme: the path was made with {' '.join(text.split())}; give that scheme")
    return chosen


def _stages(system: System, scheme: Scheme, path: Path) -> tuple[np.ndarray, ...]:
    """(x, w, t) at the beginning of every stage of the steps and at the end of the last, and the lengths of the stages."""
    known, lengths = tuple(map(np.asarray, (path.q, path.v, path.t))), np.asarray(scheme.weights) * np.asarray(path.h)
    if scheme.order == 2:
        return (*known, np.diff(path.t))
    base, now, rows = dataclasses.replace(scheme, order=2), [x[:-1] for x in known], []
    for h in lengths:
        rows.append(now)
        now = list(map(np.asarray, _end_stage(system, base, *map(jnp.asarray, (h, *now)))))
    rounding, step = 1e-12 * np.max(np.abs(path.q), axis=0), np.max(np.abs(np.diff(path.q, axis=0)), axis=0)
    if not np.all(np.abs(now[0] - path.q[1:]) <= rounding + SAME * step):
        raise ValueError("path: its states are no steps of this scheme and system; give the scheme of the run")
    stacked = (np.stack(one, axis=1).reshape(-1, *one[0].shape[1:]) for one in zip(*rows, strict=True))
    every = (np.concatenate([one, last[-1:]]) for one, last in zip(stacked, known, strict=True))
    return (*every, np.tile(lengths, len(path.q) - 1))


@seldom
def _velocity(frame: VelocityFrame, system: System, x, w, t):
    return frame.velocity(system, frame.position(x), w, t)


@Jitted
def _end_stage(system: System, scheme: Scheme, h, x, w, t) -> tuple[Any, ...]:
    """(x, w, t) a stage after each of these states: one program for the stages of all lengths and schemes."""
    path = jax.vmap(lambda x, w, t: simulate(system, x, w, h=h, steps=1, scheme=scheme, t0=t, throw=False))(x, w, t)
    return path.q[:, 1], path.v[:, 1], t + h


@seldom
def _follow(reduced: Reduced, form: str, beta: float, states: tuple, start):
    """(q, v) of all coordinates, v at the times of the path's. beta: where nonholonomic constraints are read in a step."""
    frame, (x, w, t, h) = reduced.frame, states
    group = np.array(frame.group, dtype=int)

    def full(y, rate, g, s):
        q = frame.position(y).at[group].set(g)
        return q, frame.velocity(reduced.original, q, rate, s)

    rest = start[group]
    between = (x[:-1] + beta * jnp.diff(x, axis=0), jnp.diff(x, axis=0) / h[:, None], t[:-1] + beta * h)
    at = jax.vmap(lambda y, rate, s: full(y, rate, rest, s)[1])
    if not frame.translations:
        moves = _carry(lambda *y: full(*y)[1][group], x, w, t, h, rest)
    elif form in ("drift_kick_drift", "discrete_gradient"):
        every = at(x, w, t)[:, group]
        moves = 0.5 * h[:, None] * (every[1:] + every[:-1])
    else:
        moves = h[:, None] * at(*between)[:, group]
    g = rest + jnp.concatenate([jnp.zeros((1, len(group))), jnp.cumsum(moves, axis=0)])
    q = jax.vmap(lambda y, z: frame.position(y).at[group].set(z))(x, g)
    return q, at(*between) if form == "nodes" else jax.vmap(lambda *y: full(*y)[1])(x, w, g, t)


def _carry(speed, x, w, t, h, rest):
    """The steps of ġ = speed(x, ẋ, g, t) by Lobatto's method IIIA of order 4, x within a step by cubic interpolation.

    It is its own adjoint, as the stages of x are, so that the composed step has its order in g too.
    """
    width = h[:, None]
    middle = 0.5 * (x[1:] + x[:-1]) + 0.125 * width * (w[:-1] - w[1:])
    rate = 1.5 * jnp.diff(x, axis=0) / width - 0.25 * (w[1:] + w[:-1])

    def group_step(g, given):
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
    return jax.lax.scan(group_step, rest, (*ends, h))[1]


POINTS = 24  # states at which it is looked whether the group is one of symmetries
EQUAL = 1e-8  # relative difference of what should be equal


def chaplygin(system: System, q0, v0, *, group: Any, frame: Any = None, t0: float = 0.0, size=None) -> Reduced:
    """Reduce a system by a symmetry that its nonholonomic constraints share.

    d/dt L_c,ẋ - L_c,x = p·[X_ẋ, X_a] + Bᵀf, v = B(q)ẋ + c(q): a system without constraints in coordinates x = (r, s)
    of D.

    The group acts by translations of its coordinates; the other coordinates are the shape r. If it complements the
    constraints, with as many coordinates as constraints, x = r (Chaplygin's case). If it has one more coordinate, s is
    a quasi-coordinate, and ṡ is the velocity along the one group direction that the constraints admit, such as the
    speed of a blade. Any other group, rotations above all, needs a frame: B, whose columns span the admissible
    velocities, with B = (1, 0) in the rows of the shape, and c for affine constraints, both equivariant under the
    group.

    It is checked at random states that L_c, the forces and the constraints do not change along the group.

    Args:
        system: a System with Nonholonomic constraints, linear or affine in v, with Chetaev's reactions; with a frame
            also Holonomic constraints.
        q0: (n,) initial positions; their group coordinates are those of the section q̂(r).
        v0: (n,) initial velocities, consistent with the constraints.
        group: names or indices of the coordinates that the group shifts.
        frame: None, or B(q[, t][, p]) that returns (n, d), or a pair (B, c), c(q[, t][, p]) → (n,).
        t0: time of (q0, v0).
        size: (n,) how far from q0 states are drawn, as for `symmetries`.

    Returns:
        A Reduced: simulate its `system` from `x0`, `w0`; `reconstruct` returns the full motion; `discrete` is the
        quotient of the full scheme.

    Raises:
        ValueError: the group is not a group of symmetries, a constraint or the frame is not as above, or an argument
            has the wrong shape.
        RankDeficientError: the group does not complement the constraints at q0.
        InconsistentDataError: v0 violates the constraints.
        TypeError: an argument is of the wrong type, or traced.

    Source: Bloch, Krishnaprasad, Marsden, Murray, Nonholonomic mechanical systems with symmetry, Section 5.3; in
    quasi-velocities Hamel. The discrete quotient, with forces, is new here.

    Example:
        >>> small = da.chaplygin(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5], group=(0, 1))  # to (θ, s), s along the blade
        >>> path = da.simulate(small.system, small.x0, small.w0, h=0.1, steps=10)
        >>> full = da.simulate(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5], h=0.1, steps=10)
        >>> bool(abs(small.reconstruct(path).q - full.q).max() < 1e-3)
        True
    """
    check_x64()
    check_first_order(system, "chaplygin", holonomic=frame is not None, instead="reduced by dalembert.symmetry.quotient")
    place = place_of_search("chaplygin", system, q0, v0, t0, size)
    q, v, now, _ = place
    m = sum(check_shapes(system, q, v, np.asarray(now)))
    chosen = indices_of(system, group, len(q))
    own = _frame(system, q, v, now, chosen, m) if frame is None else _read_frame(system, q, now, chosen, frame, m)
    _check_frame(system, own, sample(system, place, POINTS))
    basis, ahead = map(np.asarray, over_rows(_frame_parts, (q[None], np.array([now])), system, own))
    w0, residual = _speeds(basis, ahead, v[None])
    if residual > EQUAL:
        raise InconsistentDataError(f"v0: {residual:.2g} of it is not admissible; da.project finds the nearest that is")
    x0 = np.concatenate([q[list(own.shape)], np.zeros(own.extra)])
    return Reduced(reduced_system(system, own, _coordinate_names(system, own)), x0, w0[0], system, own, "gyroscopic")


def _coordinate_names(system: System, frame: VelocityFrame) -> tuple[str, ...]:
    names = system.coordinates or tuple(f"q{i}" for i in range(len(frame.q0)))
    extra = ["s"] if frame.extra == 1 else [f"s{i + 1}" for i in range(frame.extra)]
    taken = [names[i] for i in frame.shape]
    return (*taken, *(name if name not in taken else f"{name}_" for name in extra))


def _frame(system: System, q: np.ndarray, v: np.ndarray, t: float, group: tuple[int, ...], m: int) -> VelocityFrame:
    """That of the constraints, where the group is large enough and not too large."""
    if not m <= len(group) <= m + 1 or not m:
        raise ValueError(
            f"group: has {len(group)} coordinates for {m} equations of constraints; give as many, or one more, or a frame"
        )
    rows = np.asarray(_reactions_at(system, q, v, jnp.zeros_like(v), t))[:, list(group)]
    values = np.linalg.svd(rows, compute_uv=False)
    if values[-1] <= EQUAL * max(values[0], 1e-300):
        raise RankDeficientError(
            f"group: the constraints have rank {int(np.sum(values > EQUAL * values[0]))} of {m} in its velocities at q0; it "
            "does not complement them, and the shape does not determine how it moves"
        )
    shape = tuple(i for i in range(len(q)) if i not in group)
    return VelocityFrame(shape, group, len(group) - m, tuple(q.tolist()))


def _read_frame(system: System, q: np.ndarray, t: float, group: tuple[int, ...], frame: Any, m: int) -> VelocityFrame:
    """The user's, if it has the shape that the constraints leave."""
    basis, drift = own_parts(frame, "frame")
    n = len(q)
    shape = output_shape(lambda: system.call(basis, q, t=t), "frame", "q" + system.trailing)
    if len(shape) != 2 or shape[0] != n or shape[1] != n - m:
        raise ValueError(f"frame: returns shape {shape}; a basis of the admissible velocities has shape ({n}, {n - m})")
    if drift is not None and output_shape(lambda: system.call(drift, q, t=t), "frame[1]", "q" + system.trailing) != (n,):
        raise ValueError(f"frame[1]: returns another shape; c has shape ({n},)")
    rest = tuple(i for i in range(n) if i not in group)
    if shape[1] < len(rest):
        raise ValueError(f"frame: has {shape[1]} columns for {len(rest)} coordinates of the shape; give a smaller shape")
    return VelocityFrame(rest, group, shape[1] - len(rest), tuple(q.tolist()), (basis, drift), False)


def _check_frame(system: System, frame: VelocityFrame, samples: Samples) -> None:
    """ValueError where the frame does not span the admissible velocities, or L_c and f_c change along the group."""
    q, v, t = samples.jets[:, 0], samples.jets[:, 1], samples.times
    basis, ahead = map(np.asarray, over_rows(_frame_parts, (q, t), system, frame))
    if not (np.all(np.isfinite(basis)) and np.all(np.isfinite(ahead))):
        raise ValueError(
            "group: its velocities are not determined by the constraints at all states that were drawn: these are not "
            "affine in v, or dependent there. Give a size in which they are independent"
        )
    block = np.eye(len(frame.shape), frame.size)
    if np.max(np.abs(basis[:, list(frame.shape)] - block)) > EQUAL or np.max(np.abs(ahead[:, list(frame.shape)])) > EQUAL:
        raise ValueError("frame: its rows of the shape are not (1, 0), or c is not 0 there, so that ẋ is not (ṙ, ṡ)")
    w, residual = _speeds(basis, ahead, v)
    if residual > EQUAL:
        raise ValueError(
            f"frame: velocities that satisfy the constraints are no B w + c, by {residual:.2g} of their size: the "
            "constraints are not affine in v, or B and c do not span them"
        )
    work, here, there = (tuple(map(np.asarray, x)) for x in over_rows(_reduced_values, (q, w, t), system, frame))
    if np.max(work[0], initial=0.0) > EQUAL * np.max(work[1], initial=0.0):
        raise ValueError("system: its reactions do work on admissible velocities; Chaplygin's equations need Chetaev's")
    largest = np.max(np.abs(here[2]), initial=0.0)
    change = [np.max(np.abs(a - b), initial=0.0) / max(size, 1e-300) for a, b, size in (
        (here[0], there[0], np.max(np.abs(here[0]))), (here[1], there[1], largest))]  # fmt: skip
    if max(change) > EQUAL:
        what = "L" if change[0] > EQUAL else "the forces of the frame"
        raise ValueError(f"group: {what} changes along it, by {max(change):.2g}; da.symmetries finds what does not change")


def _speeds(basis: np.ndarray, ahead: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
    """w with B w + c = v, and the largest miss, relative to v in each row."""
    w = (np.linalg.pinv(basis) @ (v - ahead)[:, :, None])[:, :, 0]
    left = np.einsum("kid,kd->ki", basis, w) + ahead - v
    size = np.einsum("kid,kd->ki", np.abs(basis), np.abs(w)) + np.abs(ahead) + np.abs(v)
    return w, float(np.max(np.abs(left) / np.where(size > 0.0, size, 1.0), initial=0.0))


_reactions_at: Any = seldom(all_reactions)


def _frame_parts(system: System, frame: VelocityFrame, q, t):
    return frame.basis_and_drift(system, q, t)


def _reduced_values(system: System, frame: VelocityFrame, q, w, t):
    """(|R B| and the sizes of its terms), and (L_c, f_c, their sizes) at q and on the section."""

    def values_at(y):
        v, force = frame.velocity(system, y, w, t), reduced_force(system, frame, y, w, t)
        p = jax.grad(lambda u: system.call(system.lagrangian, y, u, t=t))(v)
        size = jnp.abs(force) + jnp.abs(frame.basis(system, y, t)).T @ jnp.abs(p)
        return system.call(system.lagrangian, y, v, t=t), force, size

    basis, v = frame.basis(system, q, t), frame.velocity(system, q, w, t)
    rows = all_reactions(system, q, v, jnp.zeros_like(q), t)
    work = jnp.abs(rows @ basis), jnp.abs(rows) @ jnp.abs(basis)
    return work, values_at(q), values_at(frame.position(q[np.array(frame.shape, dtype=int)]))
