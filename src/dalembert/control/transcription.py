"""From an optimal control problem and what is given to a KKT system: which unknowns a node has, and what is fixed.

Blocks 0 … N+2 for N steps: the velocity of the first node, the nodes 0 … N, the velocity of the last node; what stands in a
block says `terms.ControlLayout`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from dalembert.boundary.data.free_time import Horizon
from dalembert.boundary.kkt.assembly import Elements, Term
from dalembert.boundary.kkt.free_time import TimedParts, with_free_time
from dalembert.boundary.kkt.system import Components, KKTSystem, Monitored, Scales
from dalembert.control.ends import Ends
from dalembert.control.problem import OptimalControl, with_plant_parameters
from dalembert.control.sizes import ControlSizes
from dalembert.control.terms import ControlLayout, Edge, EndNode, EndPosition, EndVelocity, InnerNode, TerminalCost
from dalembert.discretize import Scheme
from dalembert.systems.roles import role_of
from dalembert.systems.sizes import power_of_two


class ControlData(NamedTuple):
    """A checked problem. t: (N+1,); given: which positions of the nodes are, (N+1, n); ends: what is given there; origin:
    from where positions are counted; holonomic: which of the constraints are, (m,); bounds: (2, N+1, ·) of "q" and "u";
    horizon: a free final time, or None."""

    problem: OptimalControl
    scheme: Scheme
    layout: ControlLayout
    t: Float[np.ndarray, "N+1"]
    given: Bool[np.ndarray, "N+1 n"]
    ends: Ends
    origin: Float[np.ndarray, "n"]
    holonomic: Bool[np.ndarray, "m"]
    bounds: dict[str, np.ndarray]
    horizon: Horizon | None = None

    def at(self, z: np.ndarray) -> ControlData:
        """With the times at the final time of a path z (blocks, b), where that is free."""
        if self.horizon is None:
            return self
        return self._replace(t=self.horizon.times(self.t, float(np.exp(z.ravel()[self.time_place]))))

    @property
    def time_place(self) -> int:
        """Where one θ of a free final time stands in the flat path."""
        return self.layout.part("time").start

    def places(self, name: str) -> np.ndarray:
        """(N+1, m): where "q" or "u" of the nodes stand in the flat path."""
        part = self.layout.part({"q": "state", "u": "controls"}[name])
        return np.arange(1, len(self.t) + 1)[:, None] * self.layout.size + np.arange(part.start, part.stop)


def transcribed(data: ControlData, z: np.ndarray, sizes: ControlSizes, tolerance: float) -> KKTSystem:
    """The KKT system; z: (blocks, b), a first path; tolerance: to which its equations will be solved."""
    layout, t = data.layout, data.t
    fixed = _fixed(data)
    primal = np.zeros(layout.size, dtype=bool)
    for name in ("state", "controls", "reactions"):
        primal[layout.part(name)] = True
    scales = _control_scales(data, sizes, tolerance)
    random = np.random.default_rng(0)
    near = z + 0.1 * random.standard_normal((3, *z.shape)) * scales.units
    parts = TimedParts(
        elements_of(data), Components(fixed, primal, ~primal), Monitored(data.places("q"), np.ones(len(t))), scales
    )
    if data.horizon is not None:
        parts = with_free_time(parts, [None] * len(parts.elements.terms), data.horizon.begin, data.time_place)
    return KKTSystem(*parts, near, role=lambda codes: role_of(codes, data.problem, {}))


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
    for block, end in zip((0, last), data.ends, strict=True):
        fixed[block, steps] = end.given[1].all()
    return fixed


def _terms(data: ControlData, fixed: np.ndarray) -> tuple[tuple[Term, ...], list]:
    layout, t, h = data.layout, data.t, np.diff(data.t)
    bare, scheme, count = with_plant_parameters(data.problem, None), data.scheme, len(h)
    at = layout.places
    inner = [*at(0, "state"), *at(1, "state", "controls"), *at(2, "state", "reactions")]
    terms = [
        _term(
            Edge(bare, scheme, layout),
            [*at(0, "state", "controls"), *at(1, "state", "controls")],
            [*at(1, "adjoints"), *at(2, "adjoints"), *at(1, "steps")],
            1,
            count,
        ),
        _term(InnerNode(bare, layout), inner, at(2, "adjoints"), 1, count - 1),
        _term(
            EndNode(bare, layout),
            [*at(0, "state"), *at(1, "state", "controls"), *at(2, "reactions")],
            at(2, "adjoints"),
            0,
            1,
        ),
        _term(
            EndNode(bare, layout),
            [*at(1, "state"), *at(0, "state", "controls"), *at(1, "reactions")],
            at(1, "adjoints"),
            count + 1,
            1,
        ),
    ]
    plus, half = np.ones(1), 0.5 * h
    arrays: list = [(h, t[:-1]), (h[:-1], h[1:], t[1:-1]), (plus, half[:1], t[:1]), (-plus, half[-1:], t[-1:])]
    if data.problem.terminal is not None:
        terms.append(_term(TerminalCost(bare, layout), [*at(0, "state"), *at(1, "state")], [], count + 1, 1))
        arrays.append((t[-1:],))
    length, own = float(t[-1] - t[0]), fixed[:, layout.part("steps")]
    if not own[1].all():
        kept = [p for p, holonomic in zip(at(0, "steps"), data.holonomic, strict=True) if holonomic]
        terms.append(_term(EndPosition(bare, layout), at(0, "state"), kept, 1, 1))
        arrays.append((np.array([length]), t[:1]))
    for start, velocity, node, time in ((0, 0, 1, t[:1]), (count + 1, 1, 0, t[-1:])):
        if not own[start + velocity].all():
            read = [*at(node, "state"), *at(velocity, "state")]
            terms.append(_term(EndVelocity(bare, layout), read, at(velocity, "steps"), start, 1))
            arrays.append((np.array([length]), time))
    return tuple(terms), arrays


def _term(function, places: list[tuple[int, int]], multipliers: list[tuple[int, int]], start: int, number: int) -> Term:
    every = [*places, *multipliers]
    offsets, components = tuple(o for o, _ in every), tuple(c for _, c in every)
    return Term(function, offsets, components, tuple(range(len(places), len(every))), start, number)


def _control_scales(data: ControlData, sizes: ControlSizes, tolerance: float) -> Scales:
    """The units of the components: s, u, ν of the unknowns, σ/φ and σ/γ of the multipliers; v is s/T.

    An impulse is small against φT, and against what the rounding ε s of positions makes of momenta M d/h at all nodes.
    """
    layout, blocks = data.layout, len(data.t) + 2
    units, residuals = np.ones((blocks, layout.size)), np.zeros((blocks, layout.size))
    for name, unit in (
        ("state", sizes.positions), ("controls", sizes.controls), ("reactions", sizes.reactions),
        ("adjoints", sizes.cost / sizes.forces), ("steps", sizes.cost / sizes.constraints),
    ):  # fmt: skip
        units[:, layout.part(name)] = power_of_two(unit)
    units[[0, -1], layout.part("state")] = power_of_two(sizes.positions / sizes.time)
    h = np.diff(data.t)
    rounding = 4.0 * np.finfo(float).eps * len(h) * sizes.inertia * sizes.positions / h.min()
    residuals[:, layout.part("adjoints")] = 1.0 / np.maximum(sizes.forces * sizes.time, rounding / tolerance)
    residuals[:, layout.part("steps")] = 1.0 / (sizes.constraints * sizes.time)
    return Scales(sizes.positions, units, residuals, sizes.cost * sizes.time)


def elements_of(data: ControlData) -> Elements:
    """Cost and equations as a sum over windows."""
    terms, arrays = _terms(data, _fixed(data))
    return Elements(terms, arrays, {"origin": data.origin, "parameters": data.problem.parameters})
