"""Bounds as the user writes them, {"u": (lower, upper), "v": (-1, 1), "q": {"x": (None, 1.3)}}, path inequalities g(q, v, u)
≤ 0 and bounds on velocities: functions of a path whose values have bounds.

    lower ≤ G ≤ upper,   G = g or v:   at the nodes, G(q_i, v_i, u_i), or on the steps, G((q_i+q_{i+1})/2, d_i/h)

What reads velocities and no controls holds on the steps, and at ends whose velocity is an unknown: with velocities of nodes,
(q_{i+1}-q_{i-1})/2h, even and odd nodes would know nothing of each other, and multipliers would alternate. All else holds at
the nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dalembert.boundary.data.ends import at_times
from dalembert.groups import FLAT, Space
from dalembert.native import Places, Unsupported, Windowed, vanishing
from dalembert.numbers import as_function, described, real_numbers, whole_number
from dalembert.solution import ActiveBounds
from dalembert.systems import InconsistentDataError, Problem, output_shape, run_on_shapes, with_parameters
from dalembert.tracing import over_rows

SLACK = 1e-9  # by how much what is given may be outside, relative to its size: rounding


class Bounded(NamedTuple):
    """Quantity that can have bounds: `size` numbers a node, with names or None."""

    size: int
    names: tuple[str, ...] | None = None


def read_bounds(bounds: Any, known: Mapping[str, Bounded], nodes: int) -> dict[str, Float[np.ndarray, "2 nodes m"]]:
    """Lower and upper bounds of everything that has some, infinite where there is none."""
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        right = ", ".join(f'"{name}": (lower, upper)' for name in known)
        raise TypeError(f"bounds: found {described(bounds)}; give a mapping {{{right}}}")
    for name in bounds:
        if name not in known:
            coordinate = name in (known["q"].names or ()) if "q" in known else False
            right = f': {{"q": {{{name!r}: (lower, upper)}}}} for a coordinate' if coordinate else ""
            raise ValueError(f"bounds: found {name!r}; bounds are on {', '.join(map(repr, known))}{right}")
    found = {}
    for name in known:
        both = np.full((2, nodes, known[name].size), [[[-np.inf]], [[np.inf]]])
        for place, at, pair in _pairs(bounds.get(name, (None, None)), f"bounds[{name!r}]", known[name]):
            _fill(both[:, :, at], pair, place)
        if np.isfinite(both).any():
            found[name] = both
    return found


def _pairs(given: Any, place: str, of: Bounded):
    """(place, components, pair) of everything that is given."""
    if not isinstance(given, Mapping):
        yield place, slice(None), given
        return
    seen = set()
    for key, pair in given.items():
        if isinstance(key, str):
            if key not in (of.names or ()):
                known = ", ".join(of.names) if of.names else f"given by their index, 0 to {of.size - 1}"
                raise ValueError(f"{place}: found {key!r}; there are {known}")
            at = (of.names or ()).index(key)
        else:
            at = whole_number(key, f"{place}: an index", 0, of.size - 1)
        if at in seen:
            raise ValueError(f"{place}: found {key!r} twice, by name and by index; give it once")
        seen.add(at)
        yield f"{place}[{key!r}]", slice(at, at + 1), pair


def _fill(both: np.ndarray, pair: Any, place: str) -> None:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{place}: found {described(pair)}; give a pair (lower, upper), None where there is no bound")
    for side, (given, values) in enumerate(zip(pair, both, strict=True)):
        if given is None:
            continue
        numbers = real_numbers(given, f"{place}[{side}]", "numbers, infinite where there is no bound")
        if np.isnan(numbers).any():
            raise ValueError(f"{place}[{side}]: found nan; give None or an infinite number where there is no bound")
        if numbers.shape not in ((), (values.shape[1],), values.shape):
            raise ValueError(
                f"{place}[{side}]: found shape {numbers.shape}; give a number, {values.shape[1]} numbers, or a row for each "
                f"node, shape {values.shape}"
            )
        values[:] = numbers
    lower, upper = both
    wrong = np.argwhere(~(lower < upper))
    if len(wrong):
        node, i = wrong[0]
        raise ValueError(
            f"{place}: found {lower[node, i]:g} as lower and {upper[node, i]:g} as upper bound; lower < upper is needed"
        )


def check_given(
    both: np.ndarray, values: np.ndarray, given: np.ndarray, t: np.ndarray, names: tuple[str, ...] | None
) -> None:
    """InconsistentDataError where a position that is given, (nodes, n), is outside its bounds."""
    wrong = _first_outside(both, values, given, np.ptp(values, axis=0), t)
    if wrong is not None:
        i, found, at, limits = wrong
        name = names[i] if names else f"q[{i}]"
        raise InconsistentDataError(f"bounds['q']: found {name} = {found} {at}, {limits}")


def _first_outside(
    both: np.ndarray, values: np.ndarray, given: np.ndarray, sizes: np.ndarray, t: np.ndarray
) -> tuple[int, str, str, str] | None:
    """Of a given value that is outside its bounds the component, the value, where it is, and between what it should be."""
    slack = SLACK * np.maximum(sizes, np.abs(values))
    wrong = np.argwhere(given & ((values < both[0] - slack) | (values > both[1] + slack)))
    if not len(wrong):
        return None
    place, i = wrong[0]
    where = "initial" if place == 0 else "final" if place == len(t) - 1 else "through"
    limits = f"outside [{both[0, place, i]:g}, {both[1, place, i]:g}]; move the end or the bound"
    return int(i), f"{values[place, i]:g}", f"given at t = {t[place]:g} ({where})", limits


SAMPLES = 7
ACROSS = np.geomspace(2e-3, 2.0, 40)  # how far what is kept out is looked through, in typical sizes


@dataclasses.dataclass(frozen=True)
class PathFunction:
    """G(q, v, u, t): g(q, v[, u][, t][, p]), or some components of v.

    problem: without its parameters, whose functions g is called like; controlled: whether g takes u.
    """

    problem: Problem
    inequalities: Callable | None
    velocities: tuple[int, ...]
    controlled: bool

    def __call__(self, q, v, u, t, parameters) -> Float[Array, "m"]:
        if self.inequalities is None:
            return v[np.array(self.velocities, dtype=int)]
        controls = u if self.controlled else None
        return jnp.atleast_1d(with_parameters(self.problem, parameters).call(self.inequalities, q, v, t=t, u=controls))


class Level(NamedTuple):
    """Places where G is taken. steps: on the steps, else at the nodes; ends: of steps, whether the first and the last node
    have velocities of their own, so that G is taken there too; t: (N+1,) of the nodes; parabolas: integrals over the nodes
    are those of Simpson's rule on every two steps."""

    steps: bool
    ends: tuple[bool, bool]
    t: Float[np.ndarray, "nodes"]
    parabolas: bool = False

    @property
    def times(self) -> Float[np.ndarray, "K"]:
        return self.on(self.t[:, None])[:, 0]

    @property
    def weights(self) -> Float[np.ndarray, "K"]:
        """The time that every G stands for."""
        h = np.diff(self.t)
        if self.parabolas:
            both = h[::2] / 3.0
            found = np.zeros(len(self.t))
            found[:-1:2] += both
            found[1::2] += 4.0 * both
            found[2::2] += both
            return found
        if not self.steps:
            return 0.5 * (np.append(h, 0.0) + np.append(0.0, h))
        return self._with_ends(0.5 * h, h)

    def _with_ends(self, nodes: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """What is taken on the steps, and at ends with velocities of their own."""
        first, last = self.ends
        return np.concatenate([nodes[:1][:first], steps, nodes[-1:][:last]])

    def on(self, x: Float[np.ndarray, "nodes m"], space: Space = FLAT) -> Float[np.ndarray, "K m"]:
        """From the nodes: the middles of two, and the ends."""
        if not self.steps:
            return x
        a, b = x[:-1], x[1:]
        return self._with_ends(x, 0.5 * (a + b) if space.flat else space.along(a, 0.5 * space.differences(a, b)))

    def rates(self, d: Float[np.ndarray, "N n"], v: Float[np.ndarray, "nodes n"]) -> Float[np.ndarray, "K n"]:
        """Velocities, from increments of the steps and velocities of the nodes."""
        return self._with_ends(v, d / np.diff(self.t)[:, None]) if self.steps else v

    def both(self, given: Bool[np.ndarray, "nodes n"], rates: Bool[np.ndarray, "nodes n"]) -> Bool[np.ndarray, "K 2n"]:
        """Which of (q, v) are given, from those of the nodes."""
        if self.steps:
            steps = given[:-1] & given[1:]
            given, rates = self._with_ends(given, steps), self._with_ends(rates, steps)
        return np.concatenate([given, rates], axis=1)


def nodes_of(t: Float[np.ndarray, "nodes"]) -> Level:
    """The nodes themselves."""
    return Level(False, (False, False), t)


def continued_forces(known: ActiveBounds, level: Level) -> Float[np.ndarray, "K m"]:
    """Bound-multiplier gradient of a solution at other places: the densities of its multipliers, interpolated in between."""
    return at_times(known.t, known.multipliers, level.times) * level.weights[:, None]


class PathInequalities(NamedTuple):
    """lower ≤ G ≤ upper. name: "inequalities" or "v"; limits: (2, K, m); reads: (m, 2n+r), which of (q, v, u) every one may
    depend on."""

    name: str
    function: PathFunction
    level: Level
    limits: Float[np.ndarray, "2 K m"]
    reads: Bool[np.ndarray, "m inputs"]

    @property
    def size(self) -> int:
        return self.limits.shape[2]

    def at_times(self, t: Float[np.ndarray, "nodes"]) -> PathInequalities:
        """With other times of the nodes."""
        return self._replace(level=self.level._replace(t=t))

    def known_forces(self, known: ActiveBounds) -> Float[np.ndarray, "K m"]:
        """From the bounds of a solution, see `continued_forces`."""
        found = continued_forces(known, self.level)
        return found[:, list(self.function.velocities)] if self.name == "v" else found

    def ignores_free(self, given: Bool[np.ndarray, "K inputs"]) -> Bool[np.ndarray, "K m"]:
        """True where nothing that is free changes G, (K, m). given: which of (q, v, u) are."""
        return ~((~given).astype(int) @ self.reads.T.astype(int)).astype(bool)

    def values(self, parameters: Any, at: PathPoints) -> Float[np.ndarray, "K m"]:
        return np.asarray(over_rows(_path_values, at, self.function, parameters))

    def value_sizes(self, parameters: Any, at: PathPoints, sizes: tuple) -> Float[np.ndarray, "m"]:
        """Changes of every component of G, (m,), where q, v and u change by their sizes."""
        chosen = np.unique(np.linspace(0, len(at.t) - 1, SAMPLES).astype(int))
        random = np.random.default_rng(0)
        apart = [0.1 * s * random.standard_normal((len(chosen), len(s))) for s in sizes]
        moved = self.function.problem.space.along, np.add, np.add
        near = [move(x[chosen], d) for move, x, d in zip(moved, at[:3], apart, strict=True)]
        found: Any = over_rows(_path_slopes, (*near, at.t[chosen]), self.function, parameters)
        slopes = [np.abs(np.nan_to_num(d)) for d in found]
        rows = np.array(sum(d @ s for d, s in zip(slopes, sizes, strict=True)))
        middle, largest = np.median(rows, axis=0), rows.max(axis=0)
        positive = np.where(middle > 0.0, middle, largest)
        return np.where(positive > 0.0, positive, 1.0)

    def across(
        self, parameters: Any, at: PathPoints, sizes: Float[np.ndarray, "n"], touched: Bool[np.ndarray, "K m"]
    ) -> Float[np.ndarray, "K m n"]:
        """Changes of q from where G_i is touched along its slope, in units of sizes, through what it keeps out, to where
        G_i ≤ 0 again; zero elsewhere, and where that is not."""
        found, along = np.zeros((*touched.shape, len(sizes))), self.function.problem.space.along
        nodes, which = np.nonzero(touched)
        near = PathPoints(*(x[nodes] for x in at))
        slopes = over_rows(_path_slopes, near, self.function, parameters)[0]
        slopes = np.nan_to_num(np.asarray(slopes)[np.arange(len(nodes)), which]) * sizes
        lengths = np.linalg.norm(slopes, axis=1, keepdims=True)
        ways = sizes * np.divide(slopes, lengths, out=np.zeros_like(slopes), where=lengths > 0.0)
        many = PathPoints(*(np.repeat(x, len(ACROSS), axis=0) for x in near))
        many = many._replace(q=along(many.q, (ways[:, None] * ACROSS[:, None]).reshape(-1, len(sizes))))
        values = self.values(parameters, many).reshape(len(nodes), len(ACROSS), -1)
        kept = values[np.arange(len(nodes)), :, which] <= 0.0
        found[nodes, which] = np.where(kept.any(axis=1), ACROSS[kept.argmax(axis=1)], 0.0)[:, None] * ways
        return found

    def check_settled(self, values: np.ndarray, settled: np.ndarray, sizes: np.ndarray) -> None:
        """ValueError where what is given violates a bound whatever the rest does."""
        wrong = _first_outside(self.limits, values, settled, sizes, self.level.times)
        if wrong is None:
            return
        i, found, at, limits = wrong
        if self.name == "inequalities":
            raise ValueError(f"inequalities: g[{i}] = {found} > 0 for the data {at}; move the data, or the inequality")
        raise ValueError(f"bounds['v']: found v[{self.function.velocities[i]}] = {found} {at}, {limits}")


class PathPoints(NamedTuple):
    """Arguments of G, (K, ·)."""

    q: Float[np.ndarray, "K n"]
    v: Float[np.ndarray, "K n"]
    u: Float[np.ndarray, "K r"]
    t: Float[np.ndarray, "K"]


class Asking(NamedTuple):
    """Of which problem, with n coordinates and r controls, None where there are none; t: (N+1,); ends: see `Level`; held:
    whether all velocities are unknowns of nodes."""

    problem: Any
    n: int
    r: int | None
    t: Float[np.ndarray, "nodes"]
    ends: tuple[bool, bool]
    held: bool = False


def read_inequalities(
    asking: Asking, given: Any, velocities: Float[np.ndarray, "2 nodes n"] | None
) -> tuple[PathInequalities, ...]:
    """given: g or None; velocities: bounds on v or None."""
    found, bare, controlled = [], with_parameters(asking.problem, None), asking.r is not None
    if given is not None:
        as_function(given, "inequalities", "g(q, v, u)" if controlled else "g(q, v)")
        sizes = asking.problem.space.stored_size(asking.n), asking.n, asking.r or 0
        count = run_on_shapes(_number_of_values, asking.problem, Wrapped(given), *map(np.zeros, sizes))
        both = np.stack([np.full((len(asking.t), count), -np.inf), np.zeros((len(asking.t), count))])
        found.append(_place("inequalities", PathFunction(bare, given, (), controlled), both, asking))
    if velocities is not None:
        which = tuple(np.flatnonzero(np.isfinite(velocities).any(axis=(0, 1))).tolist())
        found.append(_place("v", PathFunction(bare, None, which, False), velocities[:, :, list(which)], asking))
    return tuple(found)


def _place(name: str, function: PathFunction, both: np.ndarray, asking: Asking) -> PathInequalities:
    """both: (2, N+1, m), the bounds at the nodes."""
    n, r = asking.n, asking.r or 0
    reads = _reads(function, asking.problem.parameters, n, r, both.shape[2])
    rates, controls = reads[:, n : 2 * n].any(), reads[:, 2 * n :].any()
    level = Level(bool(rates and not controls and not asking.held), asking.ends, asking.t)
    return PathInequalities(name, function, level, np.stack([level.on(side) for side in both]), reads)


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """g, as an argument of what is traced."""

    function: Callable


def _number_of_values(problem: Problem, given: Wrapped, q, v, u) -> int:
    """Number of values that g returns."""
    controls = u if u.shape[0] else None
    names = ("q, v, u" if u.shape[0] else "q, v") + problem.trailing
    shape = output_shape(lambda: problem.call(given.function, q, v, t=jnp.zeros(()), u=controls), "inequalities", names)
    if len(shape) > 1:
        raise ValueError(f"inequalities: returns shape {shape}; give () or (m,), each of which is ≤ 0")
    return shape[0] if shape else 1


def _reads(function: PathFunction, parameters: Any, n: int, r: int, m: int) -> np.ndarray:
    """(m, 2n+r), from the graph of the slopes; everything where it cannot be seen."""
    (leaves, tree), space = jax.tree.flatten(parameters), function.problem.space

    def by_inputs(x, origin, t, *p):
        at = lambda y: function(space.retract(origin, y[:n]), y[n : 2 * n], y[2 * n :], t, jax.tree.unflatten(tree, p))  # noqa: E731
        return (jax.jacfwd(at)(x),)

    places = tuple(Places(tuple(range(count)), 0) for count in (2 * n + r, space.stored_size(n)))
    try:
        zero = vanishing(Windowed(by_inputs, places, (), ((), *(jnp.shape(x) for x in leaves))))[0]
    except Unsupported:
        return np.ones((m, 2 * n + r), dtype=bool)
    return ~np.asarray(zero).reshape(m, 2 * n + r)


def _path_values(function: PathFunction, parameters, q, v, u, t):
    return function(q, v, u, t, parameters)


def _path_slopes(function: PathFunction, parameters, q, v, u, t):
    moved = lambda y, v, u: function(function.problem.space.retract(q, y), v, u, t, parameters)  # noqa: E731
    return jax.jacfwd(moved, (0, 1, 2))(jnp.zeros_like(v), v, u)


def parabola_rates(t: Float[np.ndarray, "nodes"]) -> Float[np.ndarray, "inner 3"]:
    """v_i = Σ_j weights[i, j] q_{i+j-1} at the inner nodes, for the parabola through three of them."""
    a, b = np.diff(t)[:-1], np.diff(t)[1:]
    return np.stack([-b / (a * (a + b)), (b - a) / (a * b), a / (b * (a + b))], axis=1)
