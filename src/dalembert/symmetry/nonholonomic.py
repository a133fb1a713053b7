"""chaplygin: a nonholonomic system with a group that carries the constraints along, reduced to its shape."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.symmetry.conditions import Samples, place_of_search, sample
from dalembert.symmetry.frames import VelocityFrame, indices_of, own_parts, reduced_force, reduced_system
from dalembert.symmetry.reduced import Reduced
from dalembert.systems import System, check_x64
from dalembert.systems.consistency import InconsistentDataError, RankDeficientError
from dalembert.systems.distribution.reduction import check_first_order
from dalembert.systems.equations import all_reactions
from dalembert.systems.shapes import output_shape
from dalembert.systems.system import check_shapes
from dalembert.tracing import seldom

POINTS = 24  # states at which it is looked whether the group is one of symmetries
SAME = 1e-8  # relative difference of what should be equal


def chaplygin(system: System, q0, v0, *, group: Any, frame: Any = None, t0: float = 0.0, size=None) -> Reduced:
    """d/dt L_c,ẋ - L_c,x = p·[X_ẋ, X_a] + Bᵀf, v = B(q)ẋ + c(q): a system without constraints in coordinates x = (r, s)
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
    check_first_order(system, "chaplygin", holonomic=frame is not None)
    place = place_of_search("chaplygin", system, q0, v0, t0, size)
    q, v, now, _ = place
    m = sum(check_shapes(system, q, v, np.asarray(now)))
    chosen = indices_of(system, group, len(q))
    own = _frame(system, q, v, now, chosen, m) if frame is None else _read_frame(system, q, now, chosen, frame, m)
    _check(system, own, sample(system, place, POINTS))
    basis, ahead = map(np.asarray, _parts(system, own, q[None], np.array([now])))
    w0, residual = _speeds(basis, ahead, v[None])
    if residual > SAME:
        raise InconsistentDataError(f"v0: {residual:.2g} of it is not admissible; da.project finds the nearest that is")
    x0 = np.concatenate([q[list(own.shape)], np.zeros(own.extra)])
    return Reduced(reduced_system(system, own, _names(system, own)), x0, w0[0], system, own, "gyroscopic")


def _names(system: System, frame: VelocityFrame) -> tuple[str, ...]:
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
    rows = np.asarray(_rows(system, q, v, t))[:, list(group)]
    values = np.linalg.svd(rows, compute_uv=False)
    if values[-1] <= SAME * max(values[0], 1e-300):
        raise RankDeficientError(
            f"group: the constraints have rank {int(np.sum(values > SAME * values[0]))} of {m} in its velocities at q0; it "
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


def _check(system: System, frame: VelocityFrame, samples: Samples) -> None:
    """ValueError where the frame does not span the admissible velocities, or L_c and f_c change along the group."""
    q, v, t = samples.jets[:, 0], samples.jets[:, 1], samples.times
    basis, ahead = map(np.asarray, _parts(system, frame, q, t))
    if not (np.all(np.isfinite(basis)) and np.all(np.isfinite(ahead))):
        raise ValueError(
            "group: its velocities are not determined by the constraints at all states that were drawn: these are not "
            "affine in v, or dependent there. Give a size in which they are independent"
        )
    block = np.eye(len(frame.shape), frame.size)
    if np.max(np.abs(basis[:, list(frame.shape)] - block)) > SAME or np.max(np.abs(ahead[:, list(frame.shape)])) > SAME:
        raise ValueError("frame: its rows of the shape are not (1, 0), or c is not 0 there, so that ẋ is not (ṙ, ṡ)")
    w, residual = _speeds(basis, ahead, v)
    if residual > SAME:
        raise ValueError(
            f"frame: velocities that satisfy the constraints are no B w + c, by {residual:.2g} of their size: the "
            "constraints are not affine in v, or B and c do not span them"
        )
    work, here, there = (tuple(map(np.asarray, x)) for x in _values(system, frame, q, w, t))
    if np.max(work[0], initial=0.0) > SAME * np.max(work[1], initial=0.0):
        raise ValueError("system: its reactions do work on admissible velocities; Chaplygin's equations need Chetaev's")
    largest = np.max(np.abs(here[2]), initial=0.0)
    change = [np.max(np.abs(a - b), initial=0.0) / max(size, 1e-300) for a, b, size in (
        (here[0], there[0], np.max(np.abs(here[0]))), (here[1], there[1], largest))]  # fmt: skip
    if max(change) > SAME:
        what = "L" if change[0] > SAME else "the forces of the frame"
        raise ValueError(f"group: {what} changes along it, by {max(change):.2g}; da.symmetries finds what does not change")


def _speeds(basis: np.ndarray, ahead: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
    """w with B w + c = v, and the largest miss, relative to v in each row."""
    w = (np.linalg.pinv(basis) @ (v - ahead)[:, :, None])[:, :, 0]
    left = np.einsum("kid,kd->ki", basis, w) + ahead - v
    size = np.einsum("kid,kd->ki", np.abs(basis), np.abs(w)) + np.abs(ahead) + np.abs(v)
    return w, float(np.max(np.abs(left) / np.where(size > 0.0, size, 1.0), initial=0.0))


@seldom
def _rows(system: System, q, v, t):
    return all_reactions(system, q, v, jnp.zeros_like(v), t)


@seldom
def _parts(system: System, frame: VelocityFrame, q, t):
    return jax.vmap(lambda y, s: frame.parts(system, y, s))(q, t)


@seldom
def _values(system: System, frame: VelocityFrame, q, w, t):
    """(|R B| and the sizes of its terms), and (L_c, f_c, their sizes) at q and on the section."""

    def at(y, rate, t):
        v, force = frame.velocity(system, y, rate, t), reduced_force(system, frame, y, rate, t)
        p = jax.grad(lambda u: system.call(system.lagrangian, y, u, t=t))(v)
        return (
            system.call(system.lagrangian, y, v, t=t),
            force,
            jnp.abs(force) + jnp.abs(frame.basis(system, y, t)).T @ jnp.abs(p),
        )

    def work(y, rate, t):
        basis = frame.basis(system, y, t)
        rows = all_reactions(system, y, frame.velocity(system, y, rate, t), jnp.zeros_like(y), t)
        return jnp.abs(rows @ basis), jnp.abs(rows) @ jnp.abs(basis)

    section = lambda y: frame.section(y[np.array(frame.shape, dtype=int)])  # noqa: E731
    on = lambda y, rate, s: at(section(y), rate, s)  # noqa: E731
    return jax.vmap(work)(q, w, t), jax.vmap(at)(q, w, t), jax.vmap(on)(q, w, t)
