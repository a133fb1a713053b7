"""Coordinates in which a group of planar rotations and translations shifts: q = e^{gξ} q̂(r), r on a slice across the group.

The flow of ξ = A q + b is a rotation, by several frequencies at once, and a shift where A has imaginary eigenvalues and is
diagonalizable, P_j the projection onto the part of frequency w_j, P_0 that onto ker A, c with A c + b = P_0 b:

    e^{gξ} q = c + P_0(q - c) + Σ_j [cos(w_j g) + sin(w_j g)/w_j A] P_j (q - c) + g P_0 b.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.numbers import described
from dalembert.symmetry.frames import pull_back, with_own
from dalembert.symmetry.search import Symmetry, as_generator
from dalembert.systems import System
from dalembert.systems.consistency import RankDeficientError
from dalembert.systems.equations import force
from dalembert.systems.pickling import made

SAME = 1e-9  # relative, of frequencies and of products of matrices that should be equal
ACROSS = 1e-6  # the least angle, as a sine, between the slice and the group
ITERATIONS = 30  # of Newton's method for g


class AffineFlow(NamedTuple):
    """ξ = A q + b: A, the frequencies w_j (p,), P_0 and the P_j (n, n) each, and b."""

    matrix: np.ndarray
    frequencies: tuple[float, ...]
    still: np.ndarray
    planes: tuple[np.ndarray, ...]
    shift: np.ndarray

    def move(self, centre: np.ndarray, g: Any, q: Any) -> Any:
        """e^{gξ} q."""
        xp = np if isinstance(q, np.ndarray) and isinstance(g, float | np.floating) else jnp
        away = q - centre
        out = centre + self.still @ away + g * (self.still @ self.shift)
        for w, plane in zip(self.frequencies, self.planes, strict=True):
            out = out + xp.cos(w * g) * (plane @ away) + xp.sin(w * g) * ((self.matrix @ plane / w) @ away)
        return out


@dataclasses.dataclass(frozen=True, eq=False)
class GroupChart:
    """x = (r, g) ↦ q = e^{gξ} q̂(r): r the coordinates with numbers `shape`, the others on the slice as at `centre`.

    signs: of ξ in the left out coordinates, which tell the two places where a circle meets the slice apart.
    """

    flows: tuple[AffineFlow, ...]
    shape: tuple[int, ...]
    group: tuple[int, ...]
    centre: np.ndarray
    signs: tuple[float, ...]

    def section(self, r: Any) -> Any:
        """q̂(r)."""
        if isinstance(r, np.ndarray):
            out = np.array(self.centre)
            out[list(self.shape)] = r
            return out
        return jnp.asarray(self.centre).at[np.array(self.shape, dtype=int)].set(r)

    def move(self, g: Any, q: Any) -> Any:
        """e^{gξ} q, g (k,)."""
        for each, flow in enumerate(self.flows):
            q = flow.move(self.centre, g[each], q)
        return q

    def position(self, x: Any) -> Any:
        """q of x = (r, g)."""
        d = len(self.shape)
        return self.move(x[d:], self.section(x[:d]))

    def along(self, q: Any) -> Any:
        """ξ(q), (n, k)."""
        xp = np if isinstance(q, np.ndarray) else jnp
        return xp.stack([flow.matrix @ (q - self.centre) + flow.still @ flow.shift for flow in self.flows], axis=1)

    def coordinates(self, q: np.ndarray) -> np.ndarray:
        """x of q; RankDeficientError where the group does not bring q to the slice, as at the centre of a rotation."""
        g, rows = np.zeros(len(self.flows)), list(self.group)
        for each, flow in enumerate(self.flows):
            g[each] = self._angle(flow, each, self._back(g, q) - self.centre)
        for _ in range(ITERATIONS):
            on = self._back(g, q)
            slopes = self.along(on)[rows]
            if not abs(np.linalg.det(slopes)) > 0.0:
                break
            change = np.linalg.solve(slopes, on[rows] - self.centre[rows])
            g = g + change
            if np.all(np.abs(change) <= 1e-14 * (1.0 + np.abs(g))):
                return np.concatenate([self._back(g, q)[list(self.shape)], g])
        raise RankDeficientError(
            f"generators: the group does not bring q = {q} to where coordinates {rows} are {self.centre[rows]}; it does not "
            "act freely there"
        )

    def velocity(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """ẋ of v at x."""
        slope = np.asarray(jax.jacfwd(self.position)(jnp.asarray(x)))
        return np.linalg.solve(slope, v)

    def sizes(self, q: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Those of x where q has these: g so that no coordinate moves further."""
        rates = np.abs(self.along(q)) / size[:, None]
        return np.concatenate([size[list(self.shape)], 1.0 / np.max(rates, axis=0)])

    def _back(self, g: np.ndarray, q: np.ndarray) -> np.ndarray:
        for each, flow in enumerate(self.flows):
            q = flow.move(self.centre, -float(g[each]), q)
        return q

    def _angle(self, flow: AffineFlow, each: int, away: np.ndarray) -> float:
        """g of one flow alone that brings its coordinate back to the slice: of its largest plane, or of its shift."""
        row, parts = self.group[each], []
        for w, plane in zip(flow.frequencies, flow.planes, strict=True):
            parts.append((w, (plane @ away)[row], (flow.matrix @ plane @ away)[row] / w))
        w, here, across = max(parts, key=lambda part: abs(part[1]) + abs(part[2]), default=(1.0, 0.0, 0.0))
        if here or across:
            return float(np.arctan2(self.signs[each] * here, self.signs[each] * across) / w)
        drift = (flow.still @ flow.shift)[row]
        return float(away[row] / drift) if drift else 0.0


def chart_of(generators: Any, q0: np.ndarray, inertia: np.ndarray) -> GroupChart:
    """The chart of commuting generators around q0. inertia: (n,) of the coordinates, by which lengths are compared."""
    import scipy.linalg

    given = [generators] if isinstance(generators, Symmetry) else generators
    if not isinstance(given, list | tuple) or not given:
        raise TypeError(
            f"generators: found {described(generators)}; give a Symmetry, or a list of these and of pairs (A, b)"
        )
    flows = tuple(_flow(one, f"generators[{i}]", len(q0)) for i, one in enumerate(given))
    _check_commuting(flows)
    if len(flows) >= len(q0):
        raise ValueError(f"generators: found {len(flows)} for {len(q0)} coordinates; leave one at least for the shape")
    centre = np.zeros(len(q0))
    for flow in flows:
        left = flow.matrix @ centre + flow.shift
        for w, plane in zip(flow.frequencies, flow.planes, strict=True):
            centre = centre + flow.matrix @ plane @ left / w**2
    along = np.stack([flow.matrix @ q0 + flow.shift for flow in flows])
    lengths = along * np.sqrt(np.where(inertia > 0.0, inertia, np.max(inertia, initial=0.0) or 1.0))
    lengths = lengths / np.where((size := np.linalg.norm(lengths, axis=1)) > 0.0, size, 1.0)[:, None]
    found: Any = scipy.linalg.qr(lengths, pivoting=True, mode="economic")
    _, triangle, order = found
    if not abs(triangle[-1, len(flows) - 1]) > ACROSS:
        raise RankDeficientError(
            f"generators: their fields at q0 are {along.tolist()}; reduction needs a group that acts freely there, with "
            "fields that do not vanish and are independent"
        )
    group = tuple(int(i) for i in order[: len(flows)])
    shape = tuple(i for i in range(len(q0)) if i not in group)
    return GroupChart(flows, shape, group, centre, tuple(float(np.sign(along[a, j])) or 1.0 for a, j in enumerate(group)))


def _flow(value: Any, name: str, n: int) -> AffineFlow:
    pair = (value.matrix, value.shift) if isinstance(value, Symmetry) else value
    if callable(pair) or (isinstance(value, Symmetry) and value.matrix is None):
        raise ValueError(f"{name}: is a function; its flow is known for affine fields only, give (A, b) of ξ = A q + b")
    matrix, shift = (np.asarray(x, dtype=float) for x in as_generator(pair, name, n)[1] or ())
    values = np.linalg.eigvals(matrix)
    largest = float(np.max(np.abs(values), initial=0.0))
    frequencies: list[float] = []
    for w in sorted(float(x) for x in values.imag if x > SAME * largest):
        if not frequencies or w - frequencies[-1] > np.sqrt(SAME) * largest:
            frequencies.append(w)
    square, one = matrix @ matrix, np.eye(n)
    still = _product([(square + w**2 * one) / w**2 for w in frequencies], one)
    planes = []
    for w in frequencies:
        others = [(square + u**2 * one) / (u**2 - w**2) for u in frequencies if u != w]
        planes.append(_product(others, -square / w**2))
    left = [matrix @ still, *((square + w**2 * one) @ p / w**2 for w, p in zip(frequencies, planes, strict=True))]
    sizes = [np.abs(matrix), *(np.abs(square) @ np.abs(p) / w**2 + 1.0 for w, p in zip(frequencies, planes, strict=True))]
    if any(np.any(np.abs(x) > np.sqrt(SAME) * np.max(y, initial=0.0)) for x, y in zip(left, sizes, strict=True)):
        raise ValueError(
            f"{name}: its matrix has eigenvalues {values}; the group has to be one of planar rotations and translations: "
            "imaginary ones, and a diagonalizable matrix"
        )
    return AffineFlow(matrix, tuple(frequencies), still, tuple(planes), shift)


def _product(factors: Sequence[np.ndarray], last: np.ndarray) -> np.ndarray:
    for one in reversed(factors):
        last = one @ last
    return last


def _check_commuting(flows: Sequence[AffineFlow]) -> None:
    """ValueError for generators that do not commute: their momenta are no constants of each other's flows."""
    for i, one in enumerate(flows):
        for j, other in enumerate(flows[:i]):
            there, back = one.matrix @ other.matrix, other.matrix @ one.matrix
            ahead, behind = one.matrix @ other.shift, other.matrix @ one.shift
            apart = max(np.max(np.abs(there - back)), np.max(np.abs(ahead - behind)))
            if apart > SAME * max(np.max(np.abs(x)) for x in (there, back, ahead, behind)):
                raise ValueError(
                    f"generators: {j} and {i} do not commute, so that both momenta cannot be left out at once; reduce by "
                    "one, and the reduced system by another"
                )


def in_chart(system: System, chart: GroupChart, names: Sequence[str]) -> System:
    """The system in the coordinates x = (r, g)."""
    return System(
        _lagrangian(system, chart), [pull_back(c, chart.position) for c in system.constraints],
        forces=None if system.forces is None else _forces(system, chart), coordinates=names,
        parameters=system.parameters, time_dependent=system.time_dependent,
    )  # fmt: skip


@made
def _lagrangian(system: System, chart: GroupChart) -> Callable:
    def lagrangian(x, w, *trailing):
        return system.lagrangian(*jax.jvp(chart.position, (x,), (w,)), *trailing)

    return lagrangian


@made
def _forces(system: System, chart: GroupChart) -> Callable:
    def forces(x, w, *trailing):
        own, t = with_own(system, trailing)
        q, v = jax.jvp(chart.position, (x,), (w,))
        return jax.vjp(chart.position, x)[1](force(own, q, v, t))[0]

    return forces
