"""The unknowns of a problem: where they stand in the blocks of a path, and what holds them at the ends and along it.

The same for a variational problem and for optimal control: a kind of problem says of which parts its blocks are made, and
where positions, velocities and controls of the nodes stand.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.data.around import move_elements
from dalembert.boundary.data.end_sets import NO_SETS, EndFunction, EndSets, EndState, check_rank, sizes_of_set, state_of
from dalembert.boundary.data.free_time import Horizon
from dalembert.boundary.data.limits import Level, PathInequalities, PathPoints, continued_forces, nodes_of
from dalembert.boundary.kkt.assembly import Place, Term, term_of
from dalembert.boundary.kkt.path_terms import PathTerm, PathWindows, path_blocks
from dalembert.boundary.kkt.shared_unknowns import EndCondition, OnSet, Tie
from dalembert.groups import Space
from dalembert.solution import ActiveBounds

U = TypeVar("U", bound="PathUnknowns")


@dataclasses.dataclass(frozen=True)
class BlockParts(abc.ABC):
    """The parts of a block, the last of which belongs to a free final time."""

    @property
    @abc.abstractmethod
    def sizes(self) -> dict[str, int]:
        """Numbers of components by name, in their order."""

    def part(self, name: str) -> slice:
        return _part_slices(self)[name]

    @property
    def size(self) -> int:
        return self.part("time").stop

    def places(self, offset: int, *names: str) -> list[Place]:
        """(block, component) of parts of the block `offset` blocks on."""
        return [(offset, c) for name in names for c in range(*self.part(name).indices(self.size))]


@functools.lru_cache(64)
def _part_slices(layout: BlockParts) -> dict[str, slice]:
    """All of them: a batch asks for some twenty an entry."""
    sizes = layout.sizes
    ends = itertools.accumulate(sizes.values(), initial=0)
    return {name: slice(*pair) for name, pair in zip(sizes, itertools.pairwise(ends), strict=True)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PathUnknowns(abc.ABC):
    """The unknowns of a path (blocks, b). t: (N+1,); origin: from where positions are counted; bounds: (2, N+1, ·) of "q"
    and "u"; paths: what else has bounds; horizon: a free final time, or None; sets: what holds at the ends besides what is
    given."""

    layout: Any
    t: Float[np.ndarray, "N+1"]
    origin: Float[np.ndarray, "n"]
    bounds: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    paths: tuple[PathInequalities, ...] = ()
    horizon: Horizon | None = None
    sets: EndSets = NO_SETS

    # What a kind of problem says of itself.

    @property
    @abc.abstractmethod
    def owner(self) -> Any:
        """The problem, with its parameters, like whose functions G and ψ are called."""

    @property
    @abc.abstractmethod
    def read_shared(self) -> Callable:
        """shared ↦ (origin, parameters)."""

    @property
    @abc.abstractmethod
    def first_block(self) -> int:
        """The block of the first node."""

    @abc.abstractmethod
    def places(self, name: str) -> np.ndarray:
        """(N+1, m): where "q" or "u" of the nodes stand in the flat path."""

    @abc.abstractmethod
    def end_places(self, end: int) -> list[list[Place]]:
        """Places of q, q̇, … of the first (0) or the last (-1) end in a path (blocks, b)."""

    @abc.abstractmethod
    def free_at(self, end: int) -> Bool[np.ndarray, "levels n"]:
        """Which of q, q̇, … of an end are not given."""

    @property
    @abc.abstractmethod
    def given_motion(self) -> tuple[Bool[np.ndarray, "N+1 n"], Bool[np.ndarray, "N+1 n"]]:
        """Which positions and which velocities of the nodes are given."""

    @abc.abstractmethod
    def motion(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(q, v, u) of the nodes of a path z (blocks, b)."""

    @abc.abstractmethod
    def path_windows(self, path: PathInequalities) -> Iterator[tuple[PathWindows, bool]]:
        """The windows at which G is taken, each with whether it reads controls."""

    @property
    def nodes(self) -> Level:
        """The nodes, with the weights of integrals over them."""
        return nodes_of(self.t)

    def at(self: U, z: np.ndarray) -> U:
        """With the times at the final time of a path z (blocks, b), where that is free."""
        if self.horizon is None:
            return self
        return self.with_times(self.horizon.times(self.t, float(np.exp(z.ravel()[self.time_place]))))

    def with_times(self: U, t: Float[np.ndarray, "N+1"], **changed: Any) -> U:
        """With other times of the nodes."""
        return dataclasses.replace(self, t=t, paths=tuple(path.at_times(t) for path in self.paths), **changed)

    # Positions; on groups the blocks have the elements around which these are counted.

    @property
    def space(self) -> Space:
        """The configuration space."""
        return self.owner.space

    def elements(self, z: np.ndarray) -> Float[np.ndarray, "N+1 size"]:
        """The nodes of a path (blocks, b)."""
        x, nodes = z.ravel()[self.places("q")], slice(self.first_block, self.first_block + len(self.t))
        if self.space.flat:
            return x + self.origin
        return np.array(move_elements(self.space, z[nodes, self.layout.part("base")], x))

    def counted_from(self, z: np.ndarray, q: Float[np.ndarray, "N+1 size"]) -> np.ndarray:
        """The path with its nodes at q, on groups counted from there."""
        z = z.copy()
        if self.space.flat:
            z.ravel()[self.places("q")] = q - self.origin
            return z
        z[:, self.layout.part("base")] = q[np.clip(np.arange(len(z)) - self.first_block, 0, len(q) - 1)]
        z.ravel()[self.places("q")] = 0.0
        return z

    def recentre(self, z: np.ndarray) -> np.ndarray:
        """The same path, counted from where it is."""
        return self.counted_from(z, self.elements(z))

    def increments(self, q: np.ndarray) -> Float[np.ndarray, "N n"]:
        """From each node to the next."""
        return self.space.differences(q[:-1], q[1:])

    @property
    def time_place(self) -> int:
        """Place of one θ of a free final time in the flat path."""
        return self.layout.part("time").start

    # Bounds.

    def path_places(self, name: str) -> list[np.ndarray]:
        """(K, m) each: where "values" or "inequalities" of path inequalities stand in the flat path."""
        begin, found = self.layout.part(name).start, []
        for path in self.paths:
            found.append(
                path_blocks(path.level, self.first_block)[:, None] * self.layout.size + begin + np.arange(path.size)
            )
            begin += path.size
        return found

    def path_points(self, path: PathInequalities, z: np.ndarray) -> PathPoints:
        """Arguments of G on a path z (blocks, b)."""
        (q, v, u), level = self.motion(z), path.level
        u = np.zeros((len(level.times), u.shape[1])) if level.steps else u
        return PathPoints(level.on(q, self.space), level.rates(self.increments(q), v), u, level.times)

    def place_values(self, z: np.ndarray) -> list[PathPoints]:
        """The values of path inequalities on a path, put where they belong; and where they are taken."""
        found = [self.path_points(path, z) for path in self.paths]
        for path, at, places in zip(self.paths, found, self.path_places("values"), strict=True):
            z.ravel()[places] = path.values(self.owner.parameters, at)
        return found

    def value_sizes(self, points: list[PathPoints], sizes: tuple[np.ndarray, ...]) -> Float[np.ndarray, "watched"]:
        """Of the values of path inequalities, where q, v and u change by their sizes."""
        found = [path.value_sizes(self.owner.parameters, at, sizes) for path, at in zip(self.paths, points, strict=True)]
        return np.concatenate([np.zeros(0), *found])

    def settled_values(self, path: PathInequalities) -> Bool[np.ndarray, "K m"]:
        """True where nothing that is free changes G."""
        both = path.level.both(*self.given_motion)
        return path.ignores_free(np.pad(both, ((0, 0), (0, path.reads.shape[1] - both.shape[1]))))

    def check_values(self, z: np.ndarray, sizes: Float[np.ndarray, "watched"]) -> None:
        """ValueError where what is given is outside a bound, whatever the rest does."""
        begin = 0
        for path, places in zip(self.paths, self.path_places("values"), strict=True):
            path.check_settled(z.ravel()[places], self.settled_values(path), sizes[begin : begin + path.size])
            begin += path.size

    def path_terms(self) -> Iterator[tuple[Term, tuple]]:
        """Path inequalities, with their data."""
        layout, n, begin = self.layout, len(self.origin), 0
        for path in self.paths:
            level, part = path.level, slice(begin, begin + path.size)
            begin += path.size
            for windows, controls in self.path_windows(path):
                r = len(layout.places(0, "controls")) if "controls" in layout.sizes else 0
                function = PathTerm(path.function, n, r, controls, len(windows.slots), self.read_shared, windows.power)
                read = [(o, c + i) for o, c in windows.slots for i in range(n)]
                read += layout.places(windows.own, "controls") if controls else []
                if not self.space.flat:
                    read += [place for offset, _ in windows.slots for place in layout.places(offset, "base")]
                read += layout.places(windows.own, "values")[part]
                own = layout.places(windows.own, "inequalities")[part]
                data = (windows.means, windows.rates, level.weights[windows.at], level.times[windows.at])
                yield term_of(function, read, own, windows.start, len(windows.means)), data

    def bounded_places(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Places in the flat path, and the bounds of what stands there."""
        origins = {"q": self.origin, "u": 0.0}
        parts = [(self.places(name), both - origins[name]) for name, both in self.bounds.items()]
        parts += [(at, path.limits) for at, path in zip(self.path_places("values"), self.paths, strict=True)]
        if self.horizon is not None and self.horizon.has_bounds:
            parts.append((np.array([self.time_place]), self.horizon.bounds))
        return parts

    def known_forces(self, z: np.ndarray, known: Mapping[str, ActiveBounds]) -> Float[np.ndarray, "blocks b"] | None:
        """Bound-multiplier gradient on a known solution of the same bounds, or None; multipliers of path inequalities go
        into the path z, too."""
        if not {*self.bounds, *(path.name for path in self.paths)} <= known.keys():
            return None
        forces = np.zeros(z.shape)
        for name in self.bounds:
            forces.ravel()[self.places(name)] = continued_forces(known[name], self.nodes)
        places = self.path_places("values"), self.path_places("inequalities")
        for path, values, own in zip(self.paths, *places, strict=True):
            found = path.known_forces(known[path.name])
            forces.ravel()[values] = found
            z.ravel()[own] = found / path.level.weights[:, None]
        return forces

    # Ends.

    @property
    def tie(self) -> Tie | None:
        """Components that are the same at both ends."""
        if not self.sets.tied.any():
            return None
        first, last = ([self.end_places(end)[level][j] for level, j in np.argwhere(self.sets.tied)] for end in (0, -1))
        return Tie(first, last, self.sets.shift[self.sets.tied])

    def _ends_on_sets(self) -> Iterator[tuple[int, EndFunction, int, list[Place]]]:
        """(end, ψ, its number of equations, places that it reads)."""
        for end, function, number in zip((0, -1), self.sets.on, self.sets.equations, strict=True):
            if function is not None:
                yield end, function, number, [place for level in self.end_places(end) for place in level]

    def end_state(self, z: np.ndarray, end: int, positions: Float[np.ndarray, "n"]) -> EndState:
        """State of an end of a path z (blocks, b); positions: their sizes."""
        jet = np.array([[z[place] for place in level] for level in self.end_places(end)])
        jet[0] += self.origin
        return state_of(end, jet, self.free_at(end), self.t, positions)

    def end_conditions(self, z: np.ndarray, positions: Float[np.ndarray, "n"]) -> list[EndCondition]:
        """ψ = 0 at the ends; z: a first path, positions: their sizes. A multiplier stands in the last block that ψ reads."""
        found = []
        for end, function, number, places in self._ends_on_sets():
            own = sizes_of_set(function, self.owner, self.end_state(z, end, positions), number)
            term = OnSet(function, len(self.origin), len(places) // len(self.origin), self.read_shared)
            found.append(EndCondition(term, places, (self.t[[end]],), own, max(places)[0]))
        return found

    def end_multipliers(self, z: np.ndarray) -> list[np.ndarray | None]:
        """ν of ψ = 0 at the first and at the last end, None where these lie on no set: L̃ has -νᵀψ."""
        found: list[np.ndarray | None] = [None, None]
        for end, _, number, places in self._ends_on_sets():
            found[end] = -z[max(places)[0], self.layout.part("ends")][2 * self.sets.copies :][:number]
        return found

    def without_end_multipliers(self, z: np.ndarray) -> np.ndarray:
        """The path, at which the gradient is that of all else than what holds at the ends."""
        free = z.copy()
        free[:, self.layout.part("ends")] = 0.0
        return free

    def check_ranks(self, z: np.ndarray, positions: Float[np.ndarray, "n"]) -> None:
        """RankDeficientError where gradients of ψ depend on each other at the end of the iteration."""
        for end, function, *_ in self._ends_on_sets():
            check_rank(function, self.owner, self.at(z).end_state(z, end, positions), "at the end of the iteration")
