"""spline: a curve on a manifold through given points that minimises the square of its k-th (covariant) derivative."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.boundary.data.ends import at_times, by_time
from dalembert.boundary.solver import solve
from dalembert.discretize import WindowMap
from dalembert.groups import Group
from dalembert.numbers import MOST_NODES, as_flag, as_numbers, called, check_class, check_x64, whole_number
from dalembert.options import Solver, accept_single_options
from dalembert.solution import Solution
from dalembert.systems import lift
from dalembert.systems.manifolds import Embedded, LeftInvariant, Manifold, ambient_spline, riemannian_spline
from dalembert.systems.manifolds.manifold import check_functions
from dalembert.systems.manifolds.splines import check_manifold, warn_of_scalar_last

ON = 1e-8  # distance from the manifold, relative to the point's size, that is taken as rounding
SAMPLES = 1001  # of the straight line between two points; an odd number, so that its middle is one of them
JUMP = 0.5  # part of a projected line that lies between two neighbouring samples where the projection jumps


@accept_single_options
def spline(
    manifold: Manifold | LeftInvariant | Group,
    points: Mapping[float, Any],
    *,
    derivatives: int = 2,
    initial: Sequence | None = None,
    final: Sequence | None = None,
    steps: int = 100,
    ambient: bool = False,
    scheme: WindowMap | None = None,
    guess: Callable | Float[Array, "N+1 n"] | Solution | None = None,
    bounds: Mapping[str, Any] | None = None,
    inequalities: Callable | None = None,
    solver: Solver | None = None,
    throw: bool = True,
) -> Solution:
    """Find the smoothest curve through points of a manifold.

    min ½∫ |Dᵏ⁻¹q̇/dtᵏ⁻¹|² dt through points {t: q} of a manifold, k = derivatives: geodesics, Riemannian cubics,
    quintics.

    A spline is a critical point, in general one of several; the guess decides which one is found, and Solution.kind
    says whether it is a local minimum. For points between nodes use manifold.project(solution.interpolate(t)).

    Args:
        manifold: one of `dalembert.manifolds`, or a Chart or an Embedded of your own; or one of `dalembert.groups`, SO3(),
            or a LeftInvariant metric on it.
        points: {t: q}, times and points (n,) on the manifold, or elements of the group: rotation matrices, pairs (R, x).
        derivatives: k, 1 to 4.
        initial: (q̇,), (q̇, q̈), … up to k-1 derivatives at the first time; those left out are free (natural boundary
            condition: Dq̇/dt = 0 for k = 2). On a group (ξ,), in the body's axes.
        final: the same at the last time.
        steps: N, from the first time to the last. If the times of the points are not nodes of N equal steps, each
            interval between two points has equal steps of its own.
        ambient: min ½∫ |q⁽ᵏ⁾|² dt instead, with the derivatives in Rⁿ: a different curve.
        scheme: Interpolated() (order 2, the default), Averaged() or Hermite() (order 2k).
        guess: a function of the times (N+1,), a path (N+1, n) on the nodes, or a Solution; by default the straight lines
            between the points, projected: great circles on a sphere, and the shortest turns between rotations.
        bounds: on q and v as in `solve`.
        inequalities: `g(q, v)` to () or (m,), g ≤ 0, as in `solve`: zones to keep out of, speeds to keep below.
        solver: a Solver, as in `solve`: tolerance, max_iterations and scales.
        throw: raise an error if no spline is found; False returns the Solution all the same.

    Returns:
        The Solution, with q (N+1, n) at t (N+1,).

    Raises:
        TypeError: an argument is of the wrong type; the message names it.
        ValueError: a point is off the manifold; a derivative is one that no curve on it has; or two neighbouring points
            are joined by several shortest curves.
        SolveError: no spline is found, and throw is true.

    Source: Colombo, Martín de Diego, Zuccalli, sections 2.2 and 4.4.

    Example:
        >>> globe = da.manifolds.sphere()
        >>> curve = da.spline(globe, {0.0: [1.0, 0.0, 0.0], 1.0: [0.0, 1.0, 0.0]}, derivatives=1, steps=10)
        >>> bool(abs(curve.q[5] - np.sqrt([0.5, 0.5, 0.0])).max() < 1e-9)  # half way on a great circle
        True
    """
    check_x64()
    given = by_time(points, "points")
    times = np.array([*given])
    if len(times) < 2:
        raise ValueError(f"points: found {len(times)}; a curve needs at least two, at its ends")
    if isinstance(manifold, Group | LeftInvariant):
        if ambient or callable(guess):
            raise ValueError(f"{'ambient' if ambient else 'guess'}: is for manifolds; on a group give guess= as a path")
        problem = riemannian_spline(manifold, derivatives)
        places = [{"g": x} for x in given.values()]
        ends = [(place, *({"g": x} for x in jet or ())) for place, jet in ((places[0], initial), (places[-1], final))]
        between = dict(zip(times[1:-1], places[1:-1], strict=True))
        return solve(
            problem, initial=ends[0], final=ends[1], through=between, times=grid(times, steps), scheme=scheme,
            guess=guess, bounds=bounds, inequalities=inequalities, solver=solver, throw=throw,
        )  # fmt: skip
    check_manifold(manifold)
    as_flag(ambient, "ambient")
    problem = ambient_spline(manifold, derivatives) if ambient else riemannian_spline(manifold, derivatives)
    places = _read_points(manifold, given)
    warn_of_scalar_last(manifold, places)
    boundary_data = [_read_end(manifold, jet, name, place, derivatives)
            for jet, name, place in ((initial, "initial", places[0]), (final, "final", places[-1]))]  # fmt: skip
    t = grid(times, steps)
    path = _projected_lines(manifold, t, times, places) if guess is None else guess
    if callable(path):
        path = called(path, "guess", "the times (N+1,), and returns a path (N+1, n)", t)
    return solve(
        problem, initial=boundary_data[0], final=boundary_data[1],
        through=dict(zip(times[1:-1].tolist(), places[1:-1], strict=True)),
        times=jnp.asarray(t), scheme=scheme, guess=path, bounds=bounds,
        inequalities=inequalities, solver=Solver.of(solver, "spline"), throw=throw,
    )  # fmt: skip


def grid(times: Float[np.ndarray, "p"], steps: int) -> Float[np.ndarray, "N+1"]:
    """N+1 nodes, those times among them: equal steps where that is possible, otherwise in every stretch for itself."""
    whole_number(steps, "steps", most=MOST_NODES)
    stretches = np.diff(times)
    if steps < len(stretches):
        raise ValueError(f"steps: found {steps}; {len(times)} points have {len(stretches)} stretches between them")
    wanted = stretches / (times[-1] - times[0]) * steps
    counts = np.maximum(np.floor(wanted).astype(int), 1)
    while counts.sum() < steps:
        counts[np.argmax(wanted / counts)] += 1
    while counts.sum() > steps:
        counts[np.argmax(np.where(counts > 1, counts / wanted, 0.0))] -= 1
    if np.all(np.abs(wanted - counts) < 1e-9 * steps):
        return times[0] + (times[-1] - times[0]) * np.arange(steps + 1) / steps
    parts = [np.linspace(a, b, count, endpoint=False) for a, b, count in zip(times, times[1:], counts, strict=False)]
    return np.concatenate([*parts, times[-1:]])


def _read_points(manifold: Manifold, points: dict[float, Any]) -> Float[np.ndarray, "p n"]:
    """Points of the manifold, in the order of their times."""
    places = [as_numbers(q, f"points[{t}]") for t, q in points.items()]
    if any(q.ndim != 1 or not q.size or q.shape != places[0].shape for q in places):
        raise ValueError(f"points: found shapes {[q.shape for q in places]}; every one is (n,)")
    check_functions(manifold, places[0].shape[0])
    return _on_manifold(manifold, np.array([*points]), np.array(places))


def _on_manifold(manifold: Manifold, times, places):
    if not isinstance(manifold, Embedded):
        for t, q in zip(times, places, strict=True):
            metric = np.asarray(manifold.gram(jnp.asarray(q)))
            if not (np.all(np.isfinite(metric)) and np.all(np.linalg.eigvalsh(metric) > 0)):
                raise ValueError(f"points: at t = {t:g} the metric is not positive definite: {q} is outside the chart")
        return places
    distance = manifold.distance(places)
    off = ~(distance <= ON * (1.0 + np.abs(places).max()))
    if np.any(off):
        found = ", ".join(f"{d:.3g} at t = {t:g}" for t, d in zip(times[off], distance[off], strict=True))
        raise ValueError(f"points: not on the manifold, in distance {found}; manifold.project(q) moves a point onto it")
    return places


def _read_end(manifold: Manifold, given, name: str, q: Float[np.ndarray, "n"], k: int) -> tuple:
    """(q, q̇, …) at an end, with derivatives that a curve on the manifold can have."""
    if given is None:
        return (q,)
    check_class(given, tuple | list, name, "a tuple of derivatives, (v,) or (v, a)")
    jet = [q, *(as_numbers(x, f"{name}[{i}]") for i, x in enumerate(given))]
    if not 2 <= len(jet) <= k:
        raise ValueError(
            f"{name}: found {len(jet) - 1} derivatives; a spline with derivatives={k} is given 1 to {k - 1}, or none"
        )
    if any(x.shape != q.shape for x in jet):
        raise ValueError(f"{name}: found shapes {[x.shape for x in jet[1:]]}; the points have {q.shape}")
    if isinstance(manifold, Embedded):
        slope = float(jnp.linalg.norm(manifold.normals(jnp.asarray(q))))
        for order in range(1, len(jet)):
            off = float(jnp.linalg.norm(jnp.ravel(lift(manifold.phi, order)([*map(jnp.asarray, jet)])[order]))) / slope
            if not off <= ON * (1.0 + max(np.abs(x).max() for x in jet) ** 2):
                what = (
                    "is not tangent to the manifold: its normal part is" if order == 1 else "misses that of curves on it by"
                )
                raise ValueError(f"{name}: derivative {order} {what} {off:.3g}")
    return tuple(jet)


def _projected_lines(manifold: Manifold, t, times, places) -> Float[np.ndarray, "N+1 n"]:
    """The straight lines between neighbouring points, projected to the manifold."""
    if not isinstance(manifold, Embedded):
        return at_times(times, places, t)
    for i in range(len(times) - 1):
        _check_one_way(manifold, times[i : i + 2], places[i : i + 2])
    return np.asarray(manifold.project(jnp.asarray(at_times(times, places, t))))


def _check_one_way(manifold: Embedded, times, places) -> None:
    """The projection of a straight line breaks where the shortest way changes from one side to another."""
    sampled = at_times(times, places, np.linspace(times[0], times[1], SAMPLES))
    line = np.asarray(manifold.project(jnp.asarray(sampled)))
    gaps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    if not np.all(np.isfinite(gaps)) or gaps.max() > JUMP * gaps.sum() > 0:
        raise ValueError(
            f"points: those at t = {times[0]:g} and {times[1]:g} are opposite: several shortest curves join them, and as "
            "many splines minimise. Choose one by guess=, a function t → q that goes its way, or by a point between"
        )
