"""From an optimal control problem and its data to a KKT system: unknowns of a node, what is fixed, and typical sizes.

Blocks 0 … N+2 for N steps: the velocity of the first node, the nodes 0 … N, the velocity of the last node; what stands in a
block says `terms.ControlLayout`.

With sizes s of positions and the time T forces have the size φ = max(|L_q + f|, |∂²L/∂v²| s/T²), a control the size that
makes such forces, u = min_i φ_i/|B_ia|, and the cost the size σ = max |∂²C/∂u²| u². What is small is small against these.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary import Elements, KKTSystem, Term
from dalembert.boundary.data.around import coordinates_of, move_elements, path_velocities
from dalembert.boundary.data.ends import at_times
from dalembert.boundary.data.limits import Level, PathInequalities, parabola_rates
from dalembert.boundary.data.sizes import median_size, positive
from dalembert.boundary.kkt.assembly import Place, term_of
from dalembert.boundary.kkt.path_terms import PathWindows, node_windows, step_windows, with_origin
from dalembert.boundary.kkt.shared_unknowns import TimedParts, carry, timed_elements, with_ends, with_free_time
from dalembert.boundary.kkt.system import Components, Monitored, Scales
from dalembert.boundary.kkt.unknowns import PathUnknowns
from dalembert.control.given import Ends, GivenPath, SharedLeaf, node_rows
from dalembert.control.problem import Lobatto, OptimalControl, actuation, with_plant_parameters
from dalembert.control.resolution import acceleration
from dalembert.control.rows import RowFunction
from dalembert.control.terms import (
    ControlLayout,
    EndNode,
    EndPosition,
    EndVelocity,
    InnerNode,
    TerminalCost,
    edge_term,
    parabola_terms,
)
from dalembert.discretize import Scheme
from dalembert.groups import Product
from dalembert.solution import ControlSolution
from dalembert.systems import System, with_inertia
from dalembert.systems.equations import all_reactions, force
from dalembert.systems.sizes import LIGHT
from dalembert.tracing import seldom

SAMPLES = 7
APART = 0.1  # how far from the first path the other sample points are, in typical sizes
SINGULAR = 1e-10


class Sampled(NamedTuple):
    """At sample points of the first path: ∂²L/∂v², L_q + f, B, R, ∂²C/∂u², |∂φ/∂q|, |∂φ/∂v| of the constraints, and
    C."""

    mass: Any
    forces: Any
    actuation: Any
    reactions: Any
    curvature: Any
    by_position: Any
    by_velocity: Any
    cost: Any


class ControlSizes(NamedTuple):
    """positions: s (n,). inertia: |∂²L/∂v²| (n,). time: T. forces: φ (n,). controls: u (r,). reactions: ν (m,).
    constraints: γ (m,). cost: σ. values: those of path inequalities."""

    positions: Float[np.ndarray, "n"]
    inertia: Float[np.ndarray, "n"]
    time: float
    forces: Float[np.ndarray, "n"]
    controls: Float[np.ndarray, "r"]
    reactions: Float[np.ndarray, "m"]
    constraints: Float[np.ndarray, "m"]
    cost: float
    values: Float[np.ndarray, "watched"]


@seldom
def _sample(problem: OptimalControl, q, v, u, t) -> Sampled:
    system = problem.system

    def sample_at(q, v, u, t):
        phi = lambda x, w: jnp.concatenate(  # noqa: E731
            [jnp.zeros(0), *(c.residual(system, x, w, w, t) for c in system.constraints)]
        )
        cost = lambda x: system.call(problem.cost, q, v, t=t, u=x)  # noqa: E731

        def slopes(w):
            by_position, by_velocity = system.space.gradients(lambda x, w: system.call(system.lagrangian, x, w, t=t), q, w)
            return by_velocity, by_position

        mass, by_position = jax.jacfwd(slopes, has_aux=True)(v)
        return Sampled(
            mass, by_position + force(system, q, v, t), actuation(problem, q, t),
            all_reactions(system, q, v, jnp.zeros_like(v), t), jax.jacfwd(jax.grad(cost))(u),
            system.space.jacobian(lambda x: phi(x, v), q), jax.jacfwd(phi, 1)(q, v), cost(jnp.zeros_like(u)),
        )  # fmt: skip

    return jax.vmap(sample_at)(q, v, u, t)


def sample_path(problem: OptimalControl, q, v, r: int, t) -> Sampled:
    """At some nodes of a path q, v (N+1, n), and a little beside it."""
    chosen = np.unique(np.linspace(0, len(t) - 1, SAMPLES).astype(int))
    random, shape, space = np.random.default_rng(0), (len(chosen), v.shape[1]), problem.system.space
    spread = APART * np.ptp(coordinates_of(space, q[None])[0] if isinstance(space, Product) else q, axis=0)
    apart = random.standard_normal(shape) * spread, random.standard_normal(shape) * spread / np.ptp(t)
    u = random.standard_normal((len(chosen), r))
    near = move_elements(space, q[chosen], apart[0]) if isinstance(space, Product) else q[chosen] + apart[0]
    found = _sample(problem, near, v[chosen] + apart[1], u, t[chosen])
    return jax.tree.map(np.asarray, found)


def control_sizes(
    found: Sampled, extents: Float[np.ndarray, "n"], time: float, timed: bool, part: float = LIGHT
) -> ControlSizes:
    """From medians over the sample points; 1 where nothing tells. part: of the size of equal energy, which a coordinate has
    at least: one that rests at both ends, a cart or the angle of a rotor, moves as the others do between. timed: with a free
    T the cost is at least that without controls."""
    middle = Sampled(*(median_size(x) for x in found))
    inertia = np.diagonal(middle.mass)
    s = positive(with_inertia(extents, inertia, part))
    forces = np.maximum(middle.forces, inertia * s / time**2)
    forces = np.where(forces > 0.0, forces, positive(np.max(forces)))
    u, reactions = (_reach(forces, x) for x in (middle.actuation, middle.reactions.T))
    constraints = positive(np.max(np.maximum(middle.by_position * s, middle.by_velocity * s / time), axis=1, initial=0.0))
    cost = float(positive(np.max(np.diagonal(middle.curvature) * u**2, initial=middle.cost if timed else 0.0)))
    return ControlSizes(s, inertia, time, forces, u, reactions, constraints, cost, np.zeros(0))


def check_controls(found: Sampled, bounded: Bool[np.ndarray, "r"], minimum: bool) -> None:
    """ValueError where nothing determines a control: ∂²C/∂u² singular at every sample point along one without bounds on both
    sides; or negative, where a minimum is sought."""
    curvature = found.curvature
    if not np.all(np.isfinite(curvature)):
        raise ValueError("cost: its second derivatives by u are not finite near the first path; write u @ u and not a norm")
    scale = np.sqrt(np.abs(np.diagonal(curvature, axis1=1, axis2=2)))
    scaled = curvature / np.where(scale > 0.0, scale, 1.0)[:, :, None] / np.where(scale > 0.0, scale, 1.0)[:, None, :]
    own = np.ix_(*[np.flatnonzero(~bounded)] * 2)
    if minimum and not bounded.all() and all(np.linalg.eigvalsh(x[own]).min() < -SINGULAR for x in scaled):
        values, directions = np.linalg.eigh(scaled[0][own])
        falling = np.abs(directions[:, values < -SINGULAR]).max(axis=1) > 0.1
        which = ", ".join(f"u[{i}]" for i in np.flatnonzero(~bounded)[falling])
        raise ValueError(
            f"cost: has no minimum: ∂²C/∂u² is negative along {which}, so that it falls without end. Look at its sign, give "
            "bounds on both sides, or seek='extremal'"
        )
    smallest = np.abs(np.linalg.eigvalsh(scaled)).min(axis=1)
    if smallest.max() < SINGULAR:
        flat = np.linalg.eigh(scaled[0])[1][:, np.argmin(np.abs(np.linalg.eigvalsh(scaled[0])))]
        free = [i for i, w in enumerate(flat) if abs(w) > 0.1 and not bounded[i]]
        if not free:
            return
        which = ", ".join(f"u[{i}]" for i in free)
        raise ValueError(
            f"cost: is singular: ∂²C/∂u² vanishes along {which}, so that nothing determines it. Add a small cost of it, "
            "such as 1e-3 * u @ u, or bounds on both sides"
        )


def _reach(forces: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The size of the control of every column (n, r) that makes the forces (n,)."""
    with np.errstate(divide="ignore"):
        found = np.min(np.where(columns > 0.0, forces[:, None] / columns, np.inf), axis=0, initial=np.inf)
    return positive(found)


def constraint_force(problem: OptimalControl, n: int, row):
    """Rᵀν of a row (q, v, ν, t)."""
    q, v, multipliers = jnp.split(row[:-1], np.cumsum([stored_size(problem, n), n]))
    return all_reactions(problem.system, q, v, jnp.zeros_like(v), row[-1]).T @ multipliers


def stored_size(problem: OptimalControl, n: int) -> int:
    """How many numbers a position has."""
    return problem.system.space.stored_size(n)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ControlData(PathUnknowns):
    """A checked problem. given: which positions of the nodes are, (N+1, n); ends: what is given there; holonomic: which of
    the constraints are, (m,); scheme_name: as a solution has it; settled_ends: (2, 2, m), equations of the plant's
    constraints at both ends, see `check_states`, none of ends that are free; leaf: see `shared_leaf`."""

    problem: OptimalControl
    scheme: Scheme | Lobatto
    layout: ControlLayout
    given: Bool[np.ndarray, "N+1 n"]
    ends: Ends
    holonomic: Bool[np.ndarray, "m"]
    scheme_name: str = ""
    settled_ends: Bool[np.ndarray, "2 2 m"] = dataclasses.field(default_factory=lambda: np.zeros((2, 2, 1), dtype=bool))
    leaf: SharedLeaf | None = None

    @property
    def _width(self) -> int:
        return stored_size(self.problem, self.layout.n) + self.layout.n + 1

    @functools.cached_property
    def accelerations(self) -> RowFunction:
        """At rows (q, v, u, t)."""
        return RowFunction(acceleration, self.problem, self.layout.n, self._width + self.layout.r)

    @functools.cached_property
    def constraint_forces(self) -> RowFunction:
        """At rows (q, v, ν, t)."""
        return RowFunction(constraint_force, self.problem, self.layout.n, self._width + self.layout.m)

    @property
    def first_block(self) -> int:
        return 1

    @property
    def owner(self) -> System:
        return self.problem.system

    @property
    def read_shared(self) -> Callable:
        return with_origin

    @property
    def nodes(self) -> Level:
        return super().nodes._replace(parabolas=isinstance(self.scheme, Lobatto))

    def places(self, name: str) -> np.ndarray:
        part = self.layout.part({"q": "state", "u": "controls"}[name])
        return np.arange(1, len(self.t) + 1)[:, None] * self.layout.size + np.arange(part.start, part.stop)

    def end_places(self, end: int) -> list[list[Place]]:
        return [self.layout.places(block, "state") for block in ((1, 0) if end == 0 else (len(self.t), len(self.t) + 1))]

    def free_at(self, end: int) -> Bool[np.ndarray, "2 n"]:
        return ~self.ends[end].given

    @property
    def given_motion(self) -> tuple[Bool[np.ndarray, "N+1 n"], Bool[np.ndarray, "N+1 n"]]:
        rates = np.zeros_like(self.given)
        rates[1:-1] = self.given[:-2] & self.given[1:-1] & self.given[2:]
        rates[0], rates[-1] = (end.given[1] for end in self.ends)
        return self.given, rates

    def magnitudes(self, z: np.ndarray) -> Float[np.ndarray, "n"]:
        """How large the numbers are from which positions are counted, or by which they are stored on groups."""
        return self.space.magnitudes(self.elements(z)) if isinstance(self.space, Product) else np.abs(self.origin)

    def motion(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q = self.elements(z)
        v = path_velocities(self.space, self.t, q)
        v[[0, -1]] = z[[0, -1], self.layout.part("state")]
        return q, v, z[1:-1, self.layout.part("controls")]

    def path_windows(self, path: PathInequalities) -> Iterator[tuple[PathWindows, bool]]:
        """The first node stands in block 1, its velocity before it."""
        level, n = path.level, self.layout.n
        controls = bool(path.reads[:, 2 * n :].any())
        if level.steps:
            yield from ((windows, False) for windows in step_windows(level, 1))
        elif not path.reads[:, n : 2 * n].any():
            yield node_windows(level, 1), controls
        else:
            rates = parabola_rates(level.t)
            ends = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])  # the velocity of an end is an unknown
            middle = np.broadcast_to([0.0, 1.0, 0.0], rates.shape)
            yield PathWindows(((0, 0), (1, 0), (2, 0)), 1, 1, slice(1, -1), middle, rates, -1), controls
            yield PathWindows(((0, 0), (1, 0)), 1, 0, slice(0, 1), *ends, 0), controls
            yield PathWindows(((1, 0), (0, 0)), 0, len(level.t), slice(-1, None), *ends, 0), controls


class ControlStart(NamedTuple):
    """A checked problem, its first path (blocks, b), and sizes. smooth: the first path without the guess."""

    data: ControlData
    z: np.ndarray
    sizes: ControlSizes
    smooth: np.ndarray | None = None
    guess: Any = None

    def nearer(self, share: float) -> np.ndarray:
        """A path that much nearer to the smooth one, with neither controls nor multipliers."""
        assert self.smooth is not None
        state, z, space = self.data.layout.part("state"), np.zeros(self.z.shape), self.data.space
        z[:, state] = (1.0 - share) * self.z[:, state] + share * self.smooth[:, state]
        if not space.flat:
            q = self.data.elements(self.z)
            half = 0.5 * share * space.differences(q, self.data.elements(self.smooth))
            z = self.data.counted_from(z, space.nearest(space.along(space.along(q, half), half)))
        self.data.place_values(z)
        return z


def transcribe(data: ControlData, z: np.ndarray, sizes: ControlSizes, tolerance: float) -> KKTSystem:
    """The KKT system; z: (blocks, b), a first path; tolerance: to which its equations will be solved."""
    layout, t = data.layout, data.t
    fixed = _fixed_components(data)
    primal = np.zeros(layout.size, dtype=bool)
    for name in ("state", "controls", "reactions", "values", "base"):
        primal[layout.part(name)] = True
    far = 0.0 if data.space.flat else data.magnitudes(z)  # elsewhere differences of positions are unknowns
    scales = _control_scales(data, sizes, tolerance, far)
    random = np.random.default_rng(0)
    near = z + 0.1 * random.standard_normal((3, *z.shape)) * scales.units
    parts = TimedParts(
        elements_of(data), Components(fixed, primal, ~primal), Monitored(data.places("q"), np.ones(len(t))), scales
    )
    if data.sets.size:
        parts = with_ends(parts, layout.part("ends").start, data.end_conditions(z, sizes.positions), data.tie)
    if data.horizon is not None:
        parts = with_free_time(parts, [None] * len(parts.elements.terms), data.horizon.begin, data.time_place)
    return KKTSystem(*parts, near, data.problem, recentre=None if data.space.flat else data.recentre)


def _fixed_components(data: ControlData) -> np.ndarray:
    """(blocks, b): what is given, what the end blocks do not have, and the multipliers of constraints on what is given."""
    layout, last = data.layout, len(data.t) + 1
    fixed = np.zeros((last + 1, layout.size), dtype=bool)
    state, steps = layout.part("state"), layout.part("steps")
    fixed[1:last, state] = data.given
    fixed[0, state], fixed[last, state] = (end.given[1] for end in data.ends)
    for name in ("controls", "reactions", "adjoints"):
        fixed[0, layout.part(name)] = True
    for name in ("reactions", "adjoints"):
        fixed[1, layout.part(name)] = True
    fixed[last, layout.part("controls")] = True
    whole = np.asarray(data.given.all(axis=1))
    fixed[1:last, steps] = whole[:, None] & data.holonomic
    fixed[1, steps] |= ~data.holonomic  # there is no step before the first node
    for (velocity, node), settled in zip(((0, 1), (last, last - 1)), data.settled_ends, strict=True):
        fixed[velocity, steps] = settled[1]
        fixed[node, steps] |= settled[0] & data.holonomic
    if data.sets.copies:  # a tied end meets the constraints because the other one does
        same = (data.sets.tied[0] | data.ends[1].given[0]).all()  # and not two positions on one leaf
        fixed[0, steps], fixed[1, steps] = True, ~data.holonomic | same
    fixed[:, layout.part("ends")] = fixed[:, layout.part("base")] = True
    for name in ("values", "inequalities"):
        fixed[:, layout.part(name)] = True
        for path, places in zip(data.paths, data.path_places(name), strict=True):
            fixed.ravel()[places] = data.settled_values(path)
    return fixed


def _terms(data: ControlData, fixed: np.ndarray) -> Iterator[tuple[Term, tuple]]:
    """All windows, with their data: inner nodes, the first one, the last one, steps, and others."""
    layout, t, h, weights = data.layout, data.t, np.diff(data.t), data.nodes.weights
    bare, count, at = with_plant_parameters(data.problem, None), len(h), layout.places
    inner = [place for offset in range(3) for place in at(offset, "base")]
    inner += [*at(0, "state"), *at(1, "state", "controls"), *at(2, "state", "reactions")]
    yield (
        term_of(InnerNode(bare, layout), inner, at(2, "adjoints"), 1, count - 1),
        (h[:-1], h[1:], weights[1:-1], t[1:-1]),
    )
    ends = (0, (0, 1, 2), 0), (count + 1, (1, 0, 1), -1)  # the first block; those of velocity, node, and multipliers
    for (start, (velocity, node, after), k), sign in zip(ends, (1.0, -1.0), strict=True):
        read = [*at(node, "base"), *at(velocity, "state"), *at(node, "state", "controls"), *at(after, "reactions")]
        yield (
            term_of(EndNode(bare, layout), read, at(after, "adjoints"), start, 1),
            (np.array([sign]), weights[[k]], t[[k]]),
        )
    if isinstance(data.scheme, Scheme):
        yield edge_term(bare, data.scheme, layout, t)
    else:
        yield from parabola_terms(bare, layout, t, weights)
    if data.problem.terminal is not None:
        yield (
            term_of(TerminalCost(bare, layout), [*at(0, "base"), *at(0, "state"), *at(1, "state")], [], count + 1, 1),
            (t[-1:],),
        )
    length, own = np.array([float(t[-1] - t[0])]), fixed[:, layout.part("steps")]
    if not own[1].all():
        kept = [p for p, holonomic in zip(at(0, "steps"), data.holonomic, strict=True) if holonomic]
        yield term_of(EndPosition(bare, layout), at(0, "base", "state"), kept, 1, 1), (length, t[:1])
    for start, (velocity, node, _), k in ends:
        if not own[start + velocity].all():
            read = [*at(node, "base"), *at(node, "state"), *at(velocity, "state")]
            yield term_of(EndVelocity(bare, layout), read, at(velocity, "steps"), start, 1), (length, t[[k]])
    yield from data.path_terms()


def _control_scales(data: ControlData, sizes: ControlSizes, tolerance: float, far: np.ndarray | float) -> Scales:
    """The units of the components: s, u, ν of the unknowns, σ/φ and σ/γ of the multipliers; v is s/T.

    An impulse is small against φT, and against what the rounding ε s, or ε far, of positions makes of momenta M d/h.
    """
    layout, blocks = data.layout, len(data.t) + 2
    units, residuals = np.ones((blocks, layout.size)), np.zeros((blocks, layout.size))
    for name, unit in (
        ("state", sizes.positions), ("controls", sizes.controls), ("reactions", sizes.reactions),
        ("adjoints", sizes.cost / sizes.forces), ("steps", sizes.cost / sizes.constraints),
        ("values", sizes.values), ("inequalities", sizes.cost / sizes.values),
    ):  # fmt: skip
        units[:, layout.part(name)] = unit
    units[[0, -1], layout.part("state")] = sizes.positions / sizes.time
    h = np.diff(data.t)
    rounding = 4.0 * np.finfo(float).eps * len(h) * sizes.inertia * np.maximum(sizes.positions, far) / h.min()
    residuals[:, layout.part("adjoints")] = 1.0 / np.maximum(sizes.forces * sizes.time, rounding / tolerance)
    residuals[:, layout.part("steps")] = 1.0 / (sizes.constraints * sizes.time)
    residuals[:, layout.part("inequalities")] = 1.0 / (sizes.values * sizes.time)
    return Scales(sizes.positions, units, residuals, sizes.cost * sizes.time)


def elements_of(data: ControlData) -> Elements:
    """Cost and equations as a sum over windows."""
    terms, arrays = zip(*_terms(data, _fixed_components(data)), strict=True)
    return Elements(terms, list(arrays), {"origin": data.origin, "parameters": data.problem.parameters})


def timed_elements_of(data: ControlData) -> Elements:
    """The same with a free final time, where there is one."""
    found = elements_of(data)
    if data.horizon is None:
        return found
    return timed_elements(found, len(data.t) + 2, [None] * len(found.terms), data.horizon.begin, data.time_place)


def path_values(data: ControlData, q: Float[np.ndarray, "N+1 size"], v: Float[np.ndarray, "N+1 n"]) -> np.ndarray:
    """(blocks, b): a path and its velocities at the ends, all else zero."""
    z = data.counted_from(np.zeros((len(data.t) + 2, data.layout.size)), q)
    z[[0, -1], data.layout.part("state")] = v[[0, -1]]
    return z


TINY = 1e-10  # of AᵀA: what no control does is done by none


def balance_controls(data: ControlData, kkt: KKTSystem, z: np.ndarray) -> np.ndarray:
    """The path z with the controls and reactions of least squares that the motion along it needs,

        min |B(q_i)u_i + Rᵀν_i - (d/dt L_v - L_q - f)_i| at every node,

    in their units. Without any, Newton's first steps would change the motion to one that needs none.
    """
    layout, count = data.layout, len(data.t)
    part = {name: np.arange(layout.size)[layout.part(name)] for name in ("adjoints", "controls", "reactions")}
    node = np.arange(1, count + 1)[:, None] * layout.size
    rows = node + layout.size + part["adjoints"]
    columns = np.concatenate([node + part["controls"], node + layout.size + part["reactions"]], axis=1)
    acting = kkt.entries(kkt.matrix(z), rows, columns)
    missing = (kkt.evaluate(z).gradient * kkt.units).ravel()[rows]
    square = np.swapaxes(acting, 1, 2) @ acting
    own = TINY * np.trace(square, axis1=1, axis2=2) + np.finfo(float).tiny
    square += own[:, None, None] * np.eye(square.shape[1])
    found = np.linalg.solve(square, -np.einsum("kij,ki->kj", acting, missing)[..., None])[..., 0]
    balanced = z.copy()
    balanced.ravel()[columns] += found * kkt.flat_units[columns]
    return balanced if np.all(np.isfinite(found)) else z


def first_values(data: ControlData, first: GivenPath, guess: Any) -> np.ndarray:
    """(blocks, b): the path and its velocities at the ends; controls and multipliers zero, or those of a known solution."""
    layout, t, z = data.layout, data.t, path_values(data, first.path, first.v)
    if data.tie is not None:
        carry(z, layout.part("ends").start, data.tie)
    if isinstance(guess, tuple):
        z[1:-1, layout.part("controls")] = node_rows(guess[1], "guess[1]", (len(t), layout.r))
    if isinstance(guess, ControlSolution):
        own = (guess.u.shape[1], guess.multipliers.shape[1])
        if own != (layout.r, layout.m):
            raise ValueError(
                f"guess: found a ControlSolution with {own[0]} controls and {own[1]} constraints; the problem has "
                f"{layout.r} and {layout.m}"
            )
        middle = 0.5 * (guess.t[1:] + guess.t[:-1])
        z[1:-1, layout.part("controls")] = at_times(guess.t, guess.u, t)
        z[2:, layout.part("reactions")] = at_times(guess.t, guess.multipliers, t)
        z[2:, layout.part("adjoints")] = at_times(guess.t, guess.adjoints, t)
        z[2:-1, layout.part("steps")] = at_times(middle, guess.step_multipliers, 0.5 * (t[1:] + t[:-1]))
    return z
