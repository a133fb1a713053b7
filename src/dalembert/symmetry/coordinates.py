"""Coordinates of reduced systems: frames of the admissible velocities, and charts in which a group shifts.

**A frame**: v = B(q)ẋ + c(q), x = (r, s): r the shape, s quasi-coordinates of what the group still may do. Where B, c, L and
the forces do not change along the group, the motion of r and ṡ is that of Chaplygin's equations, with gyroscopic forces in
place of constraints:

    L_c(r, ẋ) = L(q̂(r), Bẋ + c),    f_c = p·[X_ẋ, X_a] + Bᵀf,    p = L_v,   X_w = B w + c,

[X_w, X_a] = (DX_a)X_w - (DX_w)X_a with w held, on a section q̂(r). Without c the bracket's force does no work. The
quotient of the full discretization by translations is a discrete system in x, with forces.

**A chart**: q = e^{gξ} q̂(r), r on a slice across a group of planar rotations and translations. The flow of ξ = A q + b is a
rotation, by several frequencies at once, and a shift where A has imaginary eigenvalues and is diagonalizable, P_j the
projection onto the part of frequency w_j, P_0 that onto ker A, c with A c + b = P_0 b:

    e^{gξ} q = c + P_0(q - c) + Σ_j [cos(w_j g) + sin(w_j g)/w_j A] P_j (q - c) + g P_0 b.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import inverse
from dalembert.discretize import DiscreteSystem, Interval, Scheme, incoming, outgoing
from dalembert.numbers import as_function, coordinate_index, described
from dalembert.symmetry.search import read_generators
from dalembert.systems import Holonomic, RankDeficientError, System, velocity_constraints, with_parameters
from dalembert.systems import momentum as momentum_at
from dalembert.systems.constraints import annihilator
from dalembert.systems.distribution.reduction import constraint_rows
from dalembert.systems.equations import force
from dalembert.systems.pickling import made
from dalembert.tracing import Jitted, seldom

Vector = Float[Array, "n"]


@dataclasses.dataclass(frozen=True, eq=False)
class VelocityFrame:
    """B (n, d) and c (n,) at a point, over the shape coordinates r; w = (ṙ, ṡ).

    q0: (n,), the values of the group's coordinates on the section q̂(r). given: functions (B, c), None where they come from
    the constraints; c may be None. translations: whether the group is one of shifts of its coordinates.
    """

    shape: tuple[int, ...]
    group: tuple[int, ...]
    extra: int
    q0: tuple[float, ...]
    given: tuple[Callable, Callable | None] | None = None
    translations: bool = True

    @property
    def size(self) -> int:
        """d, the number of reduced coordinates."""
        return len(self.shape) + self.extra

    def position(self, x) -> Vector:
        """q̂(r), the place on the section."""
        return jnp.asarray(self.q0).at[np.array(self.shape, dtype=int)].set(x[: len(self.shape)])

    def basis_and_drift(self, system: System, q: Vector, t) -> tuple[Float[Array, "n d"], Vector]:
        """(B, c)."""
        return _parts(system, self, q, jnp.asarray(t, dtype=float))

    def written_out(self, system: System, q: Vector, t) -> tuple[Float[Array, "n d"], Vector]:
        """(B, c), with all its operations."""
        if self.given is not None:
            basis, drift = self.given
            ahead = jnp.zeros_like(q) if drift is None else system.call(drift, q, t=t)
            return system.call(basis, q, t=t).reshape(q.shape[0], -1), ahead
        shape, group = (np.array(x, dtype=int) for x in (self.shape, self.group))
        rest = jnp.zeros_like(q)
        rows, left = constraint_rows(system, q, rest, t), velocity_constraints(system, q, rest, t)
        lift = lift_columns(rows[:, group], jnp.concatenate([rows[:, shape], left[:, None]], axis=1))
        basis = jnp.zeros((q.shape[0], self.size)).at[shape, np.arange(len(shape))].set(1.0)
        basis = basis.at[np.ix_(group, np.arange(len(shape)))].set(-lift[:, :-1])
        if self.extra:
            free = annihilator(rows[:, group].T).T
            basis = basis.at[np.ix_(group, np.arange(len(shape), self.size))].set(free)
        return basis, rest.at[group].set(-lift[:, -1])

    def basis(self, system: System, q: Vector, t) -> Float[Array, "n d"]:
        """B."""
        return self.basis_and_drift(system, q, t)[0]

    def velocity(self, system: System, q: Vector, w: Float[Array, "d"], t) -> Vector:
        """B w + c."""
        basis, ahead = self.basis_and_drift(system, q, t)
        return basis @ w + ahead

    def lagrangian(self, system: System, x, w, t) -> Float[Array, ""]:
        """L_c."""
        q = self.position(x)
        return system.call(system.lagrangian, q, self.velocity(system, q, w, t), t=t)

    def force(self, system: System, x, w, t) -> Float[Array, "d"]:
        """f_c."""
        return reduced_force(system, self, self.position(x), w, t)

    def has_forces(self, system: System) -> bool:
        """True where the reduced system has forces: gyroscopic ones always."""
        return True


@Jitted  # traced once, however often the equations ask for it; the name is part of the key of stored runs
def _parts(system: System, frame: VelocityFrame, q: Vector, t):
    return frame.written_out(system, q, t)


def pull_back(constraint: Any, position: Callable) -> Holonomic:
    """A holonomic constraint in coordinates x with q = position(x)."""
    reactions = None if constraint.reactions is None else _rows_at(constraint.reactions, position)
    return Holonomic(_phi_at(constraint.phi, position), reactions=reactions)


@made
def _phi_at(phi: Callable, position: Callable) -> Callable:
    return lambda x, *trailing: phi(position(x), *trailing)


@made
def _rows_at(reactions: Callable, position: Callable) -> Callable:
    return lambda x, *trailing: jnp.atleast_2d(reactions(position(x), *trailing)) @ jax.jacfwd(position)(x)


def lift_columns(across: Float[Array, "m k"], sides: Float[Array, "m d"]) -> Float[Array, "k d"]:
    """The shortest ġ with μ_g ġ = each of the sides: smooth as long as μ_g has full rank."""
    if across.shape[0] == across.shape[1]:
        return inverse(across) @ sides
    return across.T @ (inverse(across @ across.T) @ sides)


def own_parts(value: Any, name: str) -> tuple[Callable, Callable | None]:
    """(B, c) as the user gives them: a function, or a pair of which the second may be None."""
    pair = (value, None) if callable(value) else value
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{name}: found {described(value)}; give a function B(q) that returns (n, d), or a pair (B, c)")
    basis = as_function(pair[0], name, "B(q) that returns (n, d)")
    drift = None if pair[1] is None else as_function(pair[1], f"{name}[1]", "c(q) that returns (n,)")
    return basis, drift


def indices_of(system: System, group: Any, n: int) -> tuple[int, ...]:
    """The group's coordinates, by name or by number."""
    given = (group,) if isinstance(group, str | int) else group
    if not isinstance(given, tuple | list) or not given:
        raise TypeError(f"group: found {described(group)}; give names or numbers of coordinates, such as ('x', 'y')")
    out = tuple(coordinate_index(one, f"group: found {described(one)}", n, system.coordinates) for one in given)
    if len(set(out)) < len(out) or len(out) >= n:
        raise ValueError(f"group: found {given}; give different coordinates, and leave one at least for the shape")
    return out


def reduced_system(system: System, coordinates: Any, names: Sequence[str] | None, constraints: Iterable = ()) -> System:
    """The system in the coordinates of a frame or a chart, with its parameters and with these holonomic constraints."""
    return System(
        _in_coordinates(system, coordinates, "lagrangian"), [pull_back(c, coordinates.position) for c in constraints],
        forces=_in_coordinates(system, coordinates, "force") if coordinates.has_forces(system) else None, coordinates=names,
        parameters=system.parameters, time_dependent=system.time_dependent,
    )  # fmt: skip


@made
def _in_coordinates(system: System, coordinates: Any, method: str) -> Callable:
    """A function of (x, ẋ[, t][, p]), which the coordinates have as a method."""
    function = getattr(coordinates, method)

    def in_coordinates(x, w, *trailing):
        own, t = with_own(system, trailing)
        return function(own, x, w, t)

    return in_coordinates


def with_own(system: System, trailing: tuple) -> tuple[System, Any]:
    """The system with the parameters of this call, and the time."""
    t = trailing[0] if system.time_dependent else 0.0
    return (with_parameters(system, trailing[-1]) if system.parameters is not None else system), t


def reduced_force(system: System, frame: VelocityFrame, q, w, t):
    """p·[X_w, X_a] + Bᵀf at q, which may lie beside the section."""
    now = jnp.asarray(t, dtype=float)
    v = frame.velocity(system, q, w, t)
    p = momentum_at(system, q, v, t)
    rate = jax.jvp(lambda y, s: frame.basis(system, y, s).T @ p, (q, now), (v, jnp.ones_like(now)))[1]
    slope = jax.grad(lambda y: p @ frame.velocity(system, y, w, t))(q)
    return rate + frame.basis(system, q, t).T @ (force(system, q, v, t) - slope)


def discrete_quotient(original: System, reduced: System, frame: VelocityFrame, scheme: Scheme, h: float) -> DiscreteSystem:
    """L_d = h L_c∘ρ with f_d^± = B(r_±)ᵀ D_±(full L_d) - D_± L_d: the sum is B(r_k)ᵀ of the equation at a node.

    Reactions are in the annihilator of B at the node, where the central map of the variational constraints reads them, and
    the constraints hold where `distribution` reads them: so nothing of the full equations is left out.
    """
    action = _action(reduced, scheme, h)
    return DiscreteSystem(
        action, forces=_impulses(original, frame, scheme, action, h), coordinates=reduced.coordinates,
        parameters=reduced.parameters,
    )  # fmt: skip


@made
def _action(reduced: System, scheme: Scheme, h: float) -> Callable:
    rho = scheme.distribution

    def action(x0, x1, *p):
        x, w = rho(x0, x1 - x0, h)
        return h * reduced.lagrangian(x, w, *p)

    return action


@made
def _impulses(original: System, frame: VelocityFrame, scheme: Scheme, action: Callable, h: float) -> Callable:
    rho = scheme.distribution

    def impulses(x0, x1, *p):
        own, t = with_own(original, p)
        x, w = rho(x0, x1 - x0, h)
        q0 = frame.position(x0)
        interval = Interval(q0, h * frame.velocity(own, frame.position(x), w, t), t, jnp.asarray(h))
        left, right = (frame.basis(own, frame.position(y), t) for y in (x0, x1))
        slopes = jax.grad(action, (0, 1))(x0, x1, *p)
        return left.T @ outgoing(scheme, own, interval) - slopes[0], right.T @ incoming(scheme, own, interval) - slopes[1]

    return impulses


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

    def fields_at(self, q: Any) -> Any:
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
            slopes = self.fields_at(on)[rows]
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

    def lagrangian(self, system: System, x, w, t):
        """L in the coordinates (r, g)."""
        return system.call(system.lagrangian, *jax.jvp(self.position, (x,), (w,)), t=t)

    def force(self, system: System, x, w, t):
        """f in the coordinates (r, g)."""
        q, v = jax.jvp(self.position, (x,), (w,))
        return jax.vjp(self.position, x)[1](force(system, q, v, t))[0]

    def has_forces(self, system: System) -> bool:
        return system.forces is not None

    def velocity(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """ẋ of v at x."""
        return np.linalg.solve(np.asarray(_basis(self, jnp.asarray(x))), v)

    def coordinate_sizes(self, q: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Those of x where q has these: g so that no coordinate moves further."""
        rates = np.abs(self.fields_at(q)) / size[:, None]
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


@seldom
def _basis(chart: GroupChart, x):
    """∂q/∂x, (n, n)."""
    return jax.jacfwd(chart.position)(x)


def chart_of(generators: Any, q0: np.ndarray, inertia: np.ndarray) -> GroupChart:
    """The chart of commuting generators around q0. inertia: (n,) of the coordinates, by which lengths are compared."""
    import scipy.linalg

    pairs = read_generators(generators, len(q0))
    flows = tuple(_flow(*pair, f"generators[{i}]") for i, pair in enumerate(pairs))
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


def _flow(matrix: np.ndarray, shift: np.ndarray, name: str) -> AffineFlow:
    values = np.linalg.eigvals(matrix)
    largest = float(np.max(np.abs(values), initial=0.0))
    frequencies: list[float] = []
    for w in sorted(float(x) for x in values.imag if x > SAME * largest):
        if not frequencies or w - frequencies[-1] > np.sqrt(SAME) * largest:
            frequencies.append(w)
    square, one = matrix @ matrix, np.eye(len(matrix))
    still = _multiply_all([(square + w**2 * one) / w**2 for w in frequencies], one)
    planes = []
    for w in frequencies:
        others = [(square + u**2 * one) / (u**2 - w**2) for u in frequencies if u != w]
        planes.append(_multiply_all(others, -square / w**2))
    left = [matrix @ still, *((square + w**2 * one) @ p / w**2 for w, p in zip(frequencies, planes, strict=True))]
    sizes = [np.abs(matrix), *(np.abs(square) @ np.abs(p) / w**2 + 1.0 for w, p in zip(frequencies, planes, strict=True))]
    if any(np.any(np.abs(x) > np.sqrt(SAME) * np.max(y, initial=0.0)) for x, y in zip(left, sizes, strict=True)):
        raise ValueError(
            f"{name}: its matrix has eigenvalues {values}; the group has to be one of planar rotations and translations: "
            "imaginary ones, and a diagonalizable matrix"
        )
    return AffineFlow(matrix, tuple(frequencies), still, tuple(planes), shift)


def _multiply_all(factors: Sequence[np.ndarray], last: np.ndarray) -> np.ndarray:
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
