"""From an optimal control problem and what is given to a KKT system: which unknowns a node has, and what is fixed.

Blocks 0 … N+2 for N steps: the velocity of the first node, the nodes 0 … N, the velocity of the last node; what stands in a
block says `terms.ControlLayout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.data.end_sets import NO_SETS, EndSets, EndState, sizes_of_set
from dalembert.boundary.data.free_time import Horizon
from dalembert.boundary.data.limits import Level, PathInequalities, nodes_of
from dalembert.boundary.kkt.assembly import Elements, Term
from dalembert.boundary.kkt.path_terms import (
    PathTerm,
    path_blocks,
    plant_parameters,
)
from dalembert.boundary.kkt.shared_unknowns import (
    EndCondition,
    OnSet,
    Tie,
    TimedParts,
    timed_elements,
    with_ends,
    with_free_time,
)
from dalembert.boundary.kkt.system import Components, KKTSystem, Monitored, Scales
from dalembert.control.ends import Ends
from dalembert.control.given_states import SharedLeaf
from dalembert.control.lobatto import parabola_terms
from dalembert.control.problem import Lobatto, OptimalControl, with_plant_parameters
from dalembert.control.sizes import ControlSizes
from dalembert.control.terms import (
    ControlLayout,
    EndNode,
    EndPosition,
    EndVelocity,
    InnerNode,
    TerminalCost,
    edge_term,
    path_windows,
    term_of,
)
from dalembert.discretize import Scheme
from dalembert.systems.roles import role_of
from dalembert.systems.sizes import power_of_two


class ControlData(NamedTuple):
    """A checked problem. t: (N+1,); given: which positions of the nodes are, (N+1, n); ends: what is given there; origin:
    from where positions are counted; holonomic: which of the constraints are, (m,); bounds: (2, N+1, ·) of "q" and "u";
    paths: of what is no unknown; horizon: a free final time, or None; sets: what holds at the ends besides what is given;
    scheme_name: as a solution has it; settled_ends: (2, 2, m), equations of the plant's constraints at both ends, see
    `check_states`; leaf: see `shared_leaf`."""

    problem: OptimalControl
    scheme: Scheme | Lobatto
    layout: ControlLayout
    t: Float[np.ndarray, "N+1"]
    given: Bool[np.ndarray, "N+1 n"]
    ends: Ends
    origin: Float[np.ndarray, "n"]
    holonomic: Bool[np.ndarray, "m"]
    bounds: dict[str, np.ndarray]
    paths: tuple[PathInequalities, ...] = ()
    horizon: Horizon | None = None
    sets: EndSets = NO_SETS
    scheme_name: str = ""
    settled_ends: Bool[np.ndarray, "2 2 m"] = np.zeros((2, 2, 1), dtype=bool)  # of ends that are free: none
    leaf: SharedLeaf | None = None

    def at(self, z: np.ndarray) -> ControlData:
        """With the times at the final time of a path z (blocks, b), where that is free."""
        if self.horizon is None:
            return self
        t = self.horizon.times(self.t, float(np.exp(z.ravel()[self.time_place])))
        return self._replace(t=t, paths=tuple(path.at_times(t) for path in self.paths))

    @property
    def nodes(self) -> Level:
        """The nodes, with the weights of integrals over them."""
        return nodes_of(self.t)._replace(parabolas=isinstance(self.scheme, Lobatto))

    @property
    def time_place(self) -> int:
        """Where one θ of a free final time stands in the flat path."""
        return self.layout.part("time").start

    def places(self, name: str) -> np.ndarray:
        """(N+1, m): where "q" or "u" of the nodes stand in the flat path."""
        part = self.layout.part({"q": "state", "u": "controls"}[name])
        return np.arange(1, len(self.t) + 1)[:, None] * self.layout.size + np.arange(part.start, part.stop)

    def path_places(self, name: str) -> list[np.ndarray]:
        """(K, m) each: where "values" or "inequalities" of path inequalities stand in the flat path."""
        begin, found = self.layout.part(name).start, []
        for path in self.paths:
            found.append(path_blocks(path.level, 1)[:, None] * self.layout.size + begin + np.arange(path.size))
            begin += path.size
        return found

    def end_places(self, end: int) -> list[list[tuple[int, int]]]:
        """Where q and v of the first (0) or the last (-1) end stand in a path (blocks, b)."""
        state = self.layout.part("state")
        blocks = (1, 0) if end == 0 else (len(self.t), len(self.t) + 1)
        return [[(block, c) for c in range(state.start, state.stop)] for block in blocks]

    @property
    def tie(self) -> Tie | None:
        """What is the same at both ends."""
        tied = self.sets.tied
        if not tied.any():
            return None
        chosen = [tuple(x) for x in np.argwhere(tied)]
        first, last = ([self.end_places(end)[level][j] for level, j in chosen] for end in (0, -1))
        return Tie(first, last, self.sets.shift[tied])

    def end_state(self, z: np.ndarray, end: int, positions: np.ndarray) -> EndState:
        """(q, v) of an end of a path (blocks, b); positions: their sizes."""
        places, t = self.end_places(end), self.t
        jet = np.array([[z[place] for place in level] for level in places])
        sizes = np.array([positions, positions / np.ptp(t)])
        name = "initial" if end == 0 else "final"
        return EndState(name, jet + np.array([self.origin, 0.0 * self.origin]), ~self.ends[end].given, sizes, float(t[end]))

    def settled(self, path: PathInequalities) -> Bool[np.ndarray, "K m"]:
        """Where nothing that is free changes G."""
        rates = np.zeros_like(self.given)
        rates[1:-1] = self.given[:-2] & self.given[1:-1] & self.given[2:]
        rates[0], rates[-1] = (end.given[1] for end in self.ends)
        both = path.level.both(self.given, rates)
        return path.settled(np.concatenate([both, np.zeros((len(both), self.layout.r), dtype=bool)], axis=1))


def transcribed(data: ControlData, z: np.ndarray, sizes: ControlSizes, tolerance: float) -> KKTSystem:
    """The KKT system; z: (blocks, b), a first path; tolerance: to which its equations will be solved."""
    layout, t = data.layout, data.t
    fixed = _fixed(data)
    primal = np.zeros(layout.size, dtype=bool)
    for name in ("state", "controls", "reactions", "values"):
        primal[layout.part(name)] = True
    scales = _control_scales(data, sizes, tolerance)
    random = np.random.default_rng(0)
    near = z + 0.1 * random.standard_normal((3, *z.shape)) * scales.units
    parts = TimedParts(
        elements_of(data), Components(fixed, primal, ~primal), Monitored(data.places("q"), np.ones(len(t))), scales
    )
    if data.sets.size:
        parts = with_ends(parts, layout.part("ends").start, _conditions(data, z, sizes), data.tie)
    if data.horizon is not None:
        parts = with_free_time(parts, [None] * len(parts.elements.terms), data.horizon.begin, data.time_place)
    return KKTSystem(*parts, near, role=lambda codes: role_of(codes, data.problem, {}))


def _conditions(data: ControlData, z: np.ndarray, sizes: ControlSizes) -> list[EndCondition]:
    """ψ = 0 at the ends. A multiplier stands with the position of its end."""
    found, n = [], data.layout.n
    for end, function, equations in zip((0, -1), data.sets.on, data.sets.equations, strict=True):
        if function is not None:
            places = [place for level in data.end_places(end) for place in level]
            state = data.end_state(z, end, sizes.positions)
            own = sizes_of_set(function, data.problem.system, state, equations)
            term = OnSet(function, n, 2, plant_parameters)
            found.append(EndCondition(term, places, (data.t[[end]],), own, max(places)[0]))
    return found


def _fixed(data: ControlData) -> np.ndarray:
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
    if data.sets.carried:  # a tied end meets the constraints because the other one does
        same = (data.sets.tied[0] | data.ends[1].given[0]).all()  # and not two positions on one leaf
        fixed[0, steps], fixed[1, steps] = True, ~data.holonomic | same
    fixed[:, layout.part("ends")] = True
    for name in ("values", "inequalities"):
        fixed[:, layout.part(name)] = True
        for path, places in zip(data.paths, data.path_places(name), strict=True):
            fixed.ravel()[places] = data.settled(path)
    return fixed


def _terms(data: ControlData, fixed: np.ndarray) -> tuple[tuple[Term, ...], list]:
    layout, t, h = data.layout, data.t, np.diff(data.t)
    bare, count = with_plant_parameters(data.problem, None), len(h)
    at, weights = layout.places, data.nodes.weights
    inner = [*at(0, "state"), *at(1, "state", "controls"), *at(2, "state", "reactions")]
    terms = [
        term_of(InnerNode(bare, layout), inner, at(2, "adjoints"), 1, count - 1),
        term_of(
            EndNode(bare, layout),
            [*at(0, "state"), *at(1, "state", "controls"), *at(2, "reactions")],
            at(2, "adjoints"),
            0,
            1,
        ),
        term_of(
            EndNode(bare, layout),
            [*at(1, "state"), *at(0, "state", "controls"), *at(1, "reactions")],
            at(1, "adjoints"),
            count + 1,
            1,
        ),
    ]
    plus = np.ones(1)
    arrays: list = [
        (h[:-1], h[1:], weights[1:-1], t[1:-1]), (plus, weights[:1], t[:1]), (-plus, weights[-1:], t[-1:])
    ]  # fmt: skip
    if isinstance(data.scheme, Scheme):
        steps = [edge_term(bare, data.scheme, layout, t)]
    else:
        steps = parabola_terms(bare, layout, t, weights)
    for term, given in steps:
        terms.append(term)
        arrays.append(given)
    if data.problem.terminal is not None:
        terms.append(term_of(TerminalCost(bare, layout), [*at(0, "state"), *at(1, "state")], [], count + 1, 1))
        arrays.append((t[-1:],))
    length, own = float(t[-1] - t[0]), fixed[:, layout.part("steps")]
    if not own[1].all():
        kept = [p for p, holonomic in zip(at(0, "steps"), data.holonomic, strict=True) if holonomic]
        terms.append(term_of(EndPosition(bare, layout), at(0, "state"), kept, 1, 1))
        arrays.append((np.array([length]), t[:1]))
    for start, velocity, node, time in ((0, 0, 1, t[:1]), (count + 1, 1, 0, t[-1:])):
        if not own[start + velocity].all():
            read = [*at(node, "state"), *at(velocity, "state")]
            terms.append(term_of(EndVelocity(bare, layout), read, at(velocity, "steps"), start, 1))
            arrays.append((np.array([length]), time))
    for term, given in _path_terms(data):
        terms.append(term)
        arrays.append(given)
    return tuple(terms), arrays


def _path_terms(data: ControlData) -> Iterator[tuple[Term, tuple]]:
    """Path inequalities, with their data."""
    layout, state = data.layout, data.layout.part("state").start
    values, own = layout.places(0, "values"), layout.places(0, "inequalities")
    begin = 0
    for path in data.paths:
        level, part = path.level, slice(begin, begin + path.size)
        begin += path.size
        for windows, controls in path_windows(path, layout.n):
            function = PathTerm(
                path.function, layout.n, layout.r, controls, len(windows.slots), plant_parameters, windows.power
            )
            read = [(o, state + i) for o, _ in windows.slots for i in range(layout.n)]
            read += layout.places(windows.own, "controls") if controls else []
            read += [(windows.own, c) for _, c in values[part]]
            term = term_of(function, read, [(windows.own, c) for _, c in own[part]], windows.start, len(windows.means))
            yield term, (windows.means, windows.rates, level.weights[windows.at], level.times[windows.at])


def _control_scales(data: ControlData, sizes: ControlSizes, tolerance: float) -> Scales:
    """The units of the components: s, u, ν of the unknowns, σ/φ and σ/γ of the multipliers; v is s/T.

    An impulse is small against φT, and against what the rounding ε s of positions makes of momenta M d/h at all nodes.
    """
    layout, blocks = data.layout, len(data.t) + 2
    units, residuals = np.ones((blocks, layout.size)), np.zeros((blocks, layout.size))
    for name, unit in (
        ("state", sizes.positions), ("controls", sizes.controls), ("reactions", sizes.reactions),
        ("adjoints", sizes.cost / sizes.forces), ("steps", sizes.cost / sizes.constraints),
        ("values", sizes.values), ("inequalities", sizes.cost / sizes.values),
    ):  # fmt: skip
        units[:, layout.part(name)] = power_of_two(unit)
    units[[0, -1], layout.part("state")] = power_of_two(sizes.positions / sizes.time)
    h = np.diff(data.t)
    rounding = 4.0 * np.finfo(float).eps * len(h) * sizes.inertia * sizes.positions / h.min()
    residuals[:, layout.part("adjoints")] = 1.0 / np.maximum(sizes.forces * sizes.time, rounding / tolerance)
    residuals[:, layout.part("steps")] = 1.0 / (sizes.constraints * sizes.time)
    residuals[:, layout.part("inequalities")] = 1.0 / (sizes.values * sizes.time)
    return Scales(sizes.positions, units, residuals, sizes.cost * sizes.time)


def elements_of(data: ControlData) -> Elements:
    """Cost and equations as a sum over windows."""
    terms, arrays = _terms(data, _fixed(data))
    return Elements(terms, arrays, {"origin": data.origin, "parameters": data.problem.parameters})


def timed_elements_of(data: ControlData) -> Elements:
    """The same with a free final time, where there is one."""
    found = elements_of(data)
    if data.horizon is None:
        return found
    return timed_elements(found, len(data.t) + 2, [None] * len(found.terms), data.horizon.begin, data.time_place)
