"""Paths on groups, in coordinates around a path: g_i = ḡ_i·τ(η_i), where η = 0 is the first path and all that is given.

The unknowns are η; ḡ stands beside them in the blocks and is what an iteration has come to, so that η begins at 0 again.
Of a window the equations see its middle m and the coordinates y of its nodes around m, g = m τ(y/2)², in which the
derivatives at y = 0 are ξ and dξ/dt: divided differences of y are those of Rⁿ.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.boundary.data.ends import Nodes, Request, by_time, grid_nodes
from dalembert.discretize import Interpolated, Windows, window_jets
from dalembert.groups import Product, Space
from dalembert.lazy import with_fields
from dalembert.numbers import described
from dalembert.solution import CriticalPoint
from dalembert.systems import VariationalProblem
from dalembert.tracing import seldom

Stored = Float[Array, "size"]


def nodes_at(space: Product, bases: Float[Array, "numbers"], x: Sequence[Any]) -> list[Stored]:
    """The nodes at these coordinates around elements, which stay."""
    return [space.retract(g, y) for g, y in zip(jax.lax.stop_gradient(bases).reshape(len(x), -1), x, strict=True)]


class Centred(Interpolated):
    """Interpolated() with the jet at the middle of the window, a node of it where it has three."""

    def points(self, positions):
        k = len(positions) - 1
        return [((positions[k // 2] + positions[(k + 1) // 2]) / 2, (positions[-1] - positions[0]) / k)]


@dataclasses.dataclass(frozen=True)
class AroundOrigin:
    """function(q, v, …[, t][, p]) as one of (y, v, …[, t], {"origin": o, "parameters": p}): q = o + y, on groups o τ(y/2)².

    Equal for equal functions, so that compiled code is shared.
    """

    function: Callable
    space: Space
    positions: int  # how many arguments are positions
    motion: int  # and how many are positions, velocities, accelerations

    def __call__(self, *arguments):
        (*given, parameters), space = arguments, self.space
        origin, last = parameters["origin"], (parameters["parameters"],) if "parameters" in parameters else ()
        for i, y in enumerate(given[: self.positions]):
            given[i] = origin + y if space.flat else space.retract(space.retract(origin, 0.5 * y), 0.5 * y)
        shown = space.show(tuple(given[: self.motion]))
        return space.array(self.function(*shown, *given[self.motion :], *last))


def around_origin(problem: VariationalProblem, space: Space, origin: Any, nodes: bool = False) -> VariationalProblem:
    """The problem in the coordinates y around an origin, which is one of its parameters. nodes: its functions read k+1
    nodes, and not one position and its derivatives."""
    own = {} if problem.parameters is None else {"parameters": problem.parameters}
    around = lambda order, f: AroundOrigin(f, space, order + 1 if nodes else 1, order + 1)  # noqa: E731
    return with_fields(
        problem,
        lagrangian=around(problem.derivatives, problem.lagrangian),
        holonomic=tuple(around(0, f) for f in problem.holonomic),
        differential=tuple((order, around(order, f)) for order, f in problem.differential),
        parameters={"origin": jnp.asarray(origin), **own},
        coordinates=space.axes if isinstance(space, Product) else problem.coordinates,
    )  # fmt: skip


def chart(space: Product, nodes: list[Stored]) -> tuple[Stored, Float[Array, "nodes n"]]:
    """The middle of two or three neighbouring nodes, and the coordinates of the nodes around it; NaN where half a turn lies
    between neighbours."""
    if len(nodes) == 3:
        middle = nodes[1]
        y = [space.between(middle, g) for g in nodes]
    else:
        half = 0.5 * space.between(*nodes)
        middle, y = space.retract(nodes[0], half), [-half, half]
    known = [space.tells_way(x if len(nodes) == 2 else 0.5 * x) for x in y]
    return middle, jnp.stack([jnp.where(told, x, jnp.nan) for told, x in zip(known, y, strict=True)])


def group_jets(space: Product, rows, chained, x: Float[Array, "width n"], bases: Float[Array, "width size"]):
    """(m, jets): the middle of a window, and (0, ξ, …) there; rows, chained: see `Windows`."""
    one = jnp.ones(1)
    positions = jnp.concatenate([chained[1:2], one, chained[2:]]) if len(x) == 3 else jnp.concatenate([one, one])
    middle, y = chart(space, [space.retract(bases[i], positions[i] * x[i]) for i in range(len(x))])
    jets = window_jets(rows, chained, jnp.where(positions[:, None] > 0.0, y, x), 1)
    return middle, jnp.concatenate([jnp.zeros_like(jets[:, :1]), jets[:, 1:]], axis=1)


def many_jets(space: Product, w: Windows, slots: Float[np.ndarray, "batch slots n"], bases: np.ndarray) -> Array:
    """(batch, W, S, k+1, n) of paths; bases: (batch, slots, size)."""
    return _many_jets(space, w.rows, w.chained, slots[:, w.slot_places], bases[:, w.slot_places])


@seldom
def _many_jets(space: Product, rows, chained, x, bases):
    one = lambda r, c, x, g: group_jets(space, r, c, x, g)[1]  # noqa: E731
    return jax.vmap(lambda x, g: jax.vmap(one)(rows, chained, x, g))(x, bases)


@seldom
def move_elements(space: Any, bases, x):
    """ḡ τ(η) of elements (K, size) and coordinates (K, n), in the group to the last digit."""
    return jax.vmap(space.move)(bases, x)


@seldom
def _betweens(space: Product, a, b):
    """Coordinates of b around a, (K, size) each, and whether they tell the way."""
    y = jax.vmap(space.between)(a, b)
    return y, jax.vmap(space.tells_way)(0.5 * y)


def increments(space: Product, q: Float[np.ndarray, "K size"]) -> Float[np.ndarray, "K-1 n"]:
    """Coordinates of every element around the one before it."""
    return space.differences(q[:-1], q[1:])


def coordinates_of(space: Product, bases: Float[np.ndarray, "batch N+1 size"]) -> Float[np.ndarray, "batch N+1 n"]:
    """Those of paths around their first nodes, which tell how far they go."""
    return np.stack([space.differences(g[:1], g) for g in bases])


def slots_around(w: Windows, values: Float[np.ndarray, "slots n"], path: Float[np.ndarray, "N+1 n"]) -> np.ndarray:
    """The slots of a path whose nodes have these coordinates."""
    slots = values.copy()
    slots[w.nodes] = path
    return slots


def path_velocities(space: Space, t: np.ndarray, q: Float[np.ndarray, "N+1 size"]) -> Float[np.ndarray, "N+1 n"]:
    """Velocities at the nodes, by differences of second order."""
    ways = q
    if isinstance(space, Product):
        ways = np.concatenate([np.zeros((1, space.n)), np.cumsum(increments(space, q), axis=0)])
    return np.gradient(ways, t, axis=0, edge_order=2 if len(t) > 2 else 1)


def on_path(space: Product, request: Request, t: np.ndarray, derivatives: int) -> tuple[np.ndarray, Request]:
    """The first path (N+1, size), and what is given in coordinates around it."""
    known: dict[int, np.ndarray] = {}
    ends = []
    for given, name, node in ((request.initial, "initial", 0), (request.final, "final", len(t) - 1)):
        q, v = read_end(space, given, name, derivatives)
        if q is not None:
            known[node] = q
        jet = None if q is None else np.zeros(space.n), v
        ends.append(None if all(x is None for x in jet) else jet[:derivatives])
    through = None
    if request.through is not None:
        points = by_time(request.through, "through")
        places = grid_nodes(t, np.array([*points]))
        known |= {
            int(i): space.read_position(q, f"through[{s:g}]") for i, (s, q) in zip(places, points.items(), strict=True)
        }
        through = dict.fromkeys(points, np.zeros(space.n))
    bases = _geodesics(space, t, known) if request.guess is None else _read_guess(space, request.guess, t)
    for node, q in known.items():
        bases[node] = q
    bases = continuous(space, bases)
    steps, told = (np.asarray(x) for x in _betweens(space, bases[:-1], bases[1:]))
    if not (told & np.isfinite(steps).all(axis=1)).all():
        worst = int(np.argmin(told))
        raise ValueError(
            f"{'steps' if request.guess is None else 'guess'}: the first path turns by half a turn or more between t = "
            f"{t[worst]:g} and {t[worst + 1]:g}, so that its nodes do not tell which way; give more steps"
        )
    known_solution = request.guess if isinstance(request.guess, CriticalPoint) else None
    return bases, Request(ends[0], ends[1], through, known_solution)


def continuous(space: Product, q: Float[np.ndarray, "K size"]) -> Float[np.ndarray, "K size"]:
    """The same path, on which no quaternion jumps to its negative."""
    q = np.array(q)
    for g, x in zip(space.parts, space.positions(q), strict=True):
        own = x[:, : g.twofold]
        own[1:] *= np.cumprod(np.where(np.sum(own[1:] * own[:-1], axis=1) < 0.0, -1.0, 1.0))[:, None]
    return q


def read_end(space: Product, given: Any, name: str, derivatives: int) -> tuple[Any, Any]:
    """(q, v) as they are stored, None for what is free."""
    if given is None:
        return None, None
    if isinstance(given, Mapping) or not isinstance(given, tuple | list):
        raise TypeError(
            f"{name}: found {described(given)}; on groups give a tuple (q,) or (q, v), each a mapping with "
            f"{', '.join(space.names)}, or None"
        )
    if not 1 <= len(given) <= derivatives:
        raise ValueError(f"{name}: found {len(given)} items; at an end of a problem of order {derivatives} give (q,)"
                         + " or (q, v)" * (derivatives > 1))  # fmt: skip
    q, v = (*given, None)[:2]
    q = None if q is None else space.read_position(q, f"{name}[0]")
    return q, None if v is None else space.read_velocity(v, f"{name}[1]")


def _geodesics(space: Product, t: np.ndarray, known: Mapping[int, np.ndarray]) -> Float[np.ndarray, "N+1 size"]:
    """The shortest ways between neighbouring elements that are given, of constant τ; constant beyond them."""
    if not known:
        return np.tile(space.identity, (len(t), 1))
    nodes = np.array(sorted(known))
    given = np.stack([known[i] for i in nodes])
    found = given[np.maximum(np.searchsorted(nodes, np.arange(len(t)), side="right") - 1, 0)]
    for (a, b), way in zip(itertools.pairwise(nodes), increments(space, given), strict=True):
        part = (t[a : b + 1] - t[a])[:, None] / (t[b] - t[a])
        half = move_elements(space, found[[a] * len(part)], 0.5 * part * way)
        found[a : b + 1] = move_elements(space, half, 0.5 * part * way)
    return found


def _read_guess(space: Product, guess: Any, t: np.ndarray) -> Float[np.ndarray, "N+1 size"]:
    """The guess at the times t."""
    if isinstance(guess, CriticalPoint):
        return np.array(guess.interpolate(np.clip(t, float(guess.t[0]), float(guess.t[-1]))))
    found = np.array(space.read_position(guess, "guess"))
    if found.shape != (len(t), space.size):
        raise ValueError(f"guess: found shape {found.shape[:-1]}; give one element for each of the {len(t)} nodes")
    return found


def check_on_group(request: Request, scheme: Any, bounds: Any) -> None:
    """ValueError naming what is there for problems on Rⁿ only, and what to do instead."""
    if isinstance(bounds, Mapping) and "q" in bounds:
        raise ValueError(
            "bounds['q']: found some on groups, whose elements have no order; give inequalities=, functions of q"
        )
    if scheme is not None and type(scheme) not in (Interpolated, Centred):
        raise ValueError(
            f"scheme: found {type(scheme).__name__}() for a problem on groups, which has order 2 in the steps; leave it out "
            "and give more steps"
        )
    for name, end in (("initial", request.initial), ("final", request.final)):
        if end is not None and (isinstance(end, Nodes) or not isinstance(end, tuple | list | Mapping)):
            raise ValueError(
                f"{name}: found {type(end).__name__} on groups; give (q, v), or (q,). To choose q or v, minimize what is "
                "found: its slopes are momenta_final and -momenta_initial, or costates_final and costates_initial"
            )
