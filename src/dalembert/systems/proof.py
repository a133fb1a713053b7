"""(a, λ) at initial data in one call of machine code, with a proof that no check would find anything wrong; of many runs
too: which data every run has of its own, and the system of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dalembert.algebra import value_and_jacobian
from dalembert.native import ROOT_FOUND, CompiledRoot, Unsupported, compile_root
from dalembert.numbers import as_array, as_numbers, as_state, check_class, described, holds_tracer, outside
from dalembert.systems.compiled import LARGEST, REMEMBERED
from dalembert.systems.consistency import restrictions
from dalembert.systems.equations import EXACT, first_guess, force, kkt_residual
from dalembert.systems.sizes import units_of
from dalembert.systems.system import LocalSystem, System, as_parameter, check_shapes, group_space
from dalembert.tracing import Content, Pool, Remembered, content, rebuilder, taken_apart

INDEPENDENT = 1e-12  # the least Gram determinant of rows of unit length that leaves no doubt about their rank
REGULAR = 1e-6  # the least determinant, or singular value, of a matrix with such rows


class InitialValues(NamedTuple):
    """Values that the checks look at, computed in one compiled call at z = (a, λ). residual, matrix: of `kkt_residual`."""

    residual: Array
    matrix: Array
    lagrangian: Array
    forces: Array
    values: list
    virtual: dict
    restrictions: dict


def evaluate_start(system: System, q, v, t, z, rest) -> InitialValues:
    """Everything that the checks look at, at one point. rest: zeros (n,), the accelerations at which φ(q, v, a) is read."""
    return InitialValues(
        *value_and_jacobian(lambda x: kkt_residual(system, q, v, t, x), z),
        system.call(system.lagrangian, q, v, t=t),
        force(system, q, v, t),
        [c.residual(system, q, v, rest, t) for c in system.constraints],
        {
            i: basis
            for i, c in enumerate(system.constraints)
            if (basis := c.virtual_basis(system, q, v, rest, t)) is not None
        },
        restrictions(system, q, v, t),
    )


class InitialRoot(NamedTuple):
    """The compiled equations of one system. start: z where the iteration begins, then room for what is given. n: number of
    velocities. leaves: how many arrays the system has. origin: numbers of a position on a group, around which the equations
    are written in coordinates; 0 on Rⁿ."""

    code: CompiledRoot
    start: Float[np.ndarray, "given"]
    n: int
    leaves: int
    origin: int = 0


class InitialMotion:
    """(a, λ) at (q, v, t), call after call in the same arrays, its own: for one thread at a time. leaves: of the system.

    a, multipliers, units: of the last call, views of these arrays.
    """

    def __init__(self, root: InitialRoot, leaves: Sequence[Any]):
        k, n, given = root.code.k, root.n, root.start.copy()
        numbers = np.concatenate([*(np.ravel(np.asarray(x, float)) for x in leaves), np.zeros(root.origin)])
        self._origin = root.origin
        parts = np.split(given, np.cumsum([k, n, n, 1, n, len(numbers)]))
        self._z, self._q, self._v, self._t, _, self._given, _ = parts
        self._guess, self._given[:] = root.start[:k], numbers
        self.a, self.multipliers = self._z[:n], self._z[n:]
        self._call, self._result, self._report = root.code.over(given, EXACT.tolerance, EXACT.max_iterations)
        self._matrix = self._result[k : k + k * k].reshape(k, k)
        self.units = self._result[k + k * k : 2 * k + k * k]

    def refill(self, leaves: Float[np.ndarray, "G"]) -> None:
        """Other arrays of the system, flat."""
        self._given[:] = leaves

    def solve(self, q: Float[np.ndarray, "n"], v: Float[np.ndarray, "n"], t: float) -> float:
        """Newton's iteration from near 0: how far the units of the unknowns are apart, their largest ratio; infinity where
        it is not solved, or not proven that no check finds anything."""
        self._z[:] = self._guess
        if self._origin:
            self._given[-self._origin :], q = q, np.zeros(len(v))
        self._q[:], self._v[:], self._t[0] = q, v, t
        proven = self._call() == ROOT_FOUND and self._result[-2] != 0.0 and self._is_regular()
        return float(self._result[-1]) if proven else math.inf

    def _is_regular(self) -> bool:
        """The determinant is known already, but it is small where many rows are at angles to one another."""
        return abs(self._report[2]) >= REGULAR or np.linalg.svd(self._matrix, compute_uv=False)[-1] >= REGULAR


_KNOWN: Remembered[InitialRoot | None] = Remembered(REMEMBERED)


def _compile_root(system: System, n: int, m: int) -> InitialRoot | None:
    if n + m > LARGEST:
        return None
    own = len(taken_apart(system)[1])
    space = group_space(system)
    if space is not None:
        system = LocalSystem(system, jnp.zeros(space.size))
    tree, leaves = taken_apart(system)
    rebuilt = rebuilder(tree, leaves)

    def start_equations(z, q, v, t, rest, *given):
        found = rebuilt(given)
        values = evaluate_start(found, q, v, t, z, rest)
        units = units_of(values.matrix, n, jnp)
        matrix = values.matrix * units
        length = jnp.linalg.norm(matrix, axis=1)
        length = jnp.where(length > 0.0, length, 1.0)
        plain = _is_regular(values, units[:n], found.magnitudes(q), v, t) & _finite((q, v, t, given))
        return values.residual / length, matrix / length[:, None], units, plain.astype(float), _apart(units, n)

    examples = [np.zeros(n), np.zeros(n), np.zeros(()), np.zeros(n), *(np.zeros(x.shape) for x in leaves)]
    try:
        code = compile_root(start_equations, n + m, examples)
    except Unsupported:
        return None
    length = 3 * n + 1 + sum(x.size for x in leaves)
    return InitialRoot(
        code,
        np.concatenate([first_guess(n, m), np.zeros(length), code.function.captured]),
        n,
        own,
        0 if space is None else space.size,
    )


def _finite(trees: Any) -> Bool[Array, ""]:
    return jnp.all(jnp.stack([jnp.asarray(True), *(jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(trees))]))


def _is_regular(values: InitialValues, own: Float[Array, "n"], size, v, t) -> Bool[Array, ""]:
    """Everything is finite, the restrictions hold to rounding, and the rows of the reactions and the columns of virtual
    displacements are far from dependent: for less the checks look on their own."""
    n = own.shape[0]
    rows = -values.matrix[:n, n:].T * own
    exact = [jnp.all(jnp.abs(r.value) <= r.rounding(size, v, t)) for r in values.restrictions.values()]
    independent = [_independent(x) for x in (rows, *(basis.T for basis in values.virtual.values())) if x.shape[0]]
    return _finite(values) & jnp.all(jnp.stack([jnp.asarray(True), *exact, *independent]))


def _independent(rows: Float[Array, "m n"]) -> Bool[Array, ""]:
    """det(R Rᵀ) of rows of unit length: with Σσ² = m the smallest σ² is at least det / e."""
    unit = rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
    return jnp.prod(jnp.diagonal(jnp.linalg.cholesky(unit @ unit.T))) ** 2 >= INDEPENDENT


def _apart(units: Float[Array, "z"], n: int) -> Float[Array, ""]:
    """The largest ratio of the units of the unknowns: of accelerations, and of multipliers against them."""
    own = units[:n]
    across = jnp.concatenate([units[n:] / jnp.max(own), jnp.min(own) / units[n:]])
    return jnp.maximum(jnp.max(own) / jnp.min(own), jnp.max(across, initial=0.0))


Vector = Float[np.ndarray, "n"]


class RunStart(NamedTuple):
    """The beginning of a motion. units: of (a, λ); None where values are traced. sizes: how many equations each constraint
    has. read: the system, where machine code has proven that the data pass every check."""

    q: Any  # of NumPy, where they are proven
    v: Any
    a: Any  # of NumPy, except where values are traced
    multipliers: Any
    units: Float[np.ndarray, "n_plus_m"] | None
    sizes: list[int]
    read: Content | None = None


class SystemRoot(NamedTuple):
    """The equations of (a, λ), the sizes of the constraints, and arrays to solve in."""

    code: InitialRoot
    sizes: list[int]
    motions: Pool[InitialMotion]


def root_of(read: Content, system: System, n: int) -> SystemRoot | None:
    """The equations of a system of n velocities, compiled once for all that differ in numbers alone; None where they are
    left to XLA. read: its content, or that of a run of it."""

    def make() -> tuple[SystemRoot | None]:
        space = group_space(system)
        sizes = check_shapes(system, np.zeros(n if space is None else space.size), np.zeros(n), 0.0)
        code = _KNOWN.of((read.key[0], n), lambda: _compile_root(system, n, sum(sizes)))
        return (code and SystemRoot(code, sizes, Pool(lambda: InitialMotion(code, read.arrays[: code.leaves]))),)

    return read.once(("root", n), make)[0]


def proven_start(system: System, q0: Any, v0: Any, t0: Any) -> RunStart | None:
    """The data as numbers of NumPy; None where the checks must look on their own.

    That is so under tracing, where the system cannot be compared with what it was, and where the data are not exact to
    rounding or not regular beyond doubt.
    """
    if not outside() or any(x is None or holds_tracer(x) for x in (q0, v0, t0)):
        return None
    read = content(system)
    if read is None:
        return None
    q, v = as_state(q0, v0, system.coordinates, as_numbers)
    root = root_of(read, system, len(q))
    if root is None:
        return None
    with root.motions.one() as motion:
        proven = np.isfinite(motion.solve(q, v, float(t0)))
        found = motion.a.copy(), motion.multipliers.copy(), motion.units.copy()
    return RunStart(q, v, *found, root.sizes, read) if proven else None


def solve_runs(system: System, states: np.ndarray, t0: float, given: np.ndarray | None) -> Float[np.ndarray, "B n_plus_m"]:
    """(a, λ) of many data; NaN where machine code has not proven that they pass every check, no columns where there is no
    machine code. states: (B, 2, n) of (q, v); given: (B, G) the arrays of each run's system, flat, if they differ."""
    read = content(system)
    root = None if read is None else root_of(read, system, states.shape[2])
    if read is None or root is None:
        return np.empty((len(states), 0))
    motion, found = InitialMotion(root.code, read.arrays), np.full((len(states), root.code.code.k), np.nan)
    for i, (q, v) in enumerate(states):
        if given is not None:
            motion.refill(given[i])
        if np.isfinite(motion.solve(q, v, t0)):
            found[i] = np.concatenate([motion.a, motion.multipliers])
    return found


PIECE = 512  # runs; XLA divides among threads what has more


def check_batch(system, data: dict, parameters: Mapping[str, Any] | None) -> tuple[dict, dict]:
    """The data of many runs as float arrays, and for each 0 where it has an axis of runs, None where it is shared."""
    check_class(parameters, Mapping | None, "parameters", "a mapping from names to values (B, …)")
    wanted = {"q0": 1, "v0": 1, "nodes": 2, "jets": 2, "multipliers": 2, "motion": 1}
    given: dict = {name: None if x is None else as_array(x, name) for name, x in data.items()}
    axes: dict = {name: _axis(given[name], wanted[name], name) for name in data}
    known, parameters = system.parameters, parameters or {}
    if parameters and not isinstance(known, dict):
        raise TypeError("parameters: this system has none by name; build it with parameters={...}")
    unknown = sorted(str(name) for name in set(parameters) - set(known or {}))
    if unknown:
        raise ValueError(f"parameters: found {', '.join(unknown)}; the parameters are {', '.join(map(str, known))}")
    given["parameters"] = {name: as_parameter(x, f"parameters[{name!r}]") for name, x in parameters.items()}
    axes["parameters"] = {name: _parameter_axis(x, known[name], name) for name, x in given["parameters"].items()}
    return given, axes


def _parameter_axis(x, one, name: str) -> int | None:
    if not eqx.is_array(one):
        raise TypeError(f"parameters[{name!r}]: the system has several arrays under this name; a batch needs one")
    axis = _axis(x, one.ndim, f"parameters[{name!r}]")
    if x.shape[0 if axis is None else 1 :] != one.shape or (x.dtype == bool) != (one.dtype == bool):
        raise ValueError(
            f"parameters[{name!r}]: found {described(x)}; the system was built with {described(one)}, to which an axis of "
            "runs may be added in front"
        )
    return axis


def number_of_runs(given: dict, axes: dict, names: str, alone: str) -> int:
    """The common length of all axes of runs. names: of the data that one has; alone: the function for a single run."""
    flat = {**given, **given["parameters"]}
    found = {name: flat[name].shape[0] for name, axis in {**axes, **axes["parameters"]}.items() if axis == 0}
    lengths = set(found.values())
    if not lengths:
        raise ValueError(
            f"{names}, parameters: none has an axis of runs; give one of them an axis of B in front, or use {alone}"
        )
    if len(lengths) > 1:
        raise ValueError(f"q0, v0, parameters: found axes of different lengths, {found}; all must have B runs")
    if 0 in lengths:
        raise ValueError("q0, v0, parameters: found no run, the axis of runs has length 0")
    return lengths.pop()


def shared_size(size: int) -> int:
    """The number of lanes of a program that `size` runs share with others: a power of two, or at most an eighth more."""
    unit = 1 << ((size - 1).bit_length() - 4 if size > PIECE else (size - 1).bit_length())
    return -(-size // unit) * unit


def pieces(given: dict, axes: dict, runs: Int[np.ndarray, "K"]) -> Iterator[tuple[dict, np.ndarray]]:
    """The data of these runs, some at a time, and which they are; copies of the last one follow up to a power of two, the
    same for all pieces: XLA compiles and keeps a program for each number of runs."""
    number = min(shared_size(len(runs)), PIECE)
    for begin in range(0, len(runs), PIECE):
        rows = runs[np.minimum(np.arange(begin, begin + number), len(runs) - 1)]
        take = lambda axis, x: x if axis is None else np.asarray(x)[rows]  # noqa: B023, E731
        yield jax.tree.map(take, axes, given, is_leaf=lambda x: x is None), runs[begin : begin + number]


def _axis(x, ndim: int, name: str) -> int | None:
    if x is None or x.ndim == ndim:
        return None
    if x.ndim == ndim + 1:
        return 0
    raise ValueError(f"{name}: found shape {x.shape}; {ndim} axes are needed, or {ndim + 1} with one of runs in front")


class Runs:
    """Initial data and systems of many runs, from `check_batch`.

    begin: q (B, size) and v (B, n) as they are stored. given: (B, G) the arrays of each run's system, flat, None where they
    are the same. states, arrays: (B, 2, n) of (q, v) and the arrays in coordinates around each q, on Rⁿ the same.
    """

    def __init__(self, system: System, given: dict, axes: dict, number: int):
        self._parameters = {name: np.asarray(x) for name, x in given["parameters"].items()}
        self._system, self._axes = system, axes["parameters"]
        q, v = (_run_of(given[name], axes[name], 0) for name in ("q0", "v0"))
        sizes = map(len, system.space.read_state(q, v, system.coordinates, as_numbers))
        q, v = (np.broadcast_to(given[name], (number, n)) for name, n in zip(("q0", "v0"), sizes, strict=True))
        self.begin = q, v
        self._origins: np.ndarray | None = None if system.space.flat else q
        self.states = np.stack([q if system.space.flat else np.zeros_like(v), v], axis=1)
        self.given = self._stack_arrays(self.on_space(0), number) if self._parameters else None
        self.arrays = self.given if system.space.flat else self._stack_arrays(self.system(0), number)

    def _stack_arrays(self, first: System, number: int) -> Float[np.ndarray, "B G"]:
        names, columns = {id(first.parameters[name]): self._parameters[name] for name in self._parameters}, []
        if isinstance(first, LocalSystem) and self._origins is not None:
            names[id(first.origin)] = self._origins
        for leaf in taken_apart(first)[1]:
            own = names.get(id(leaf), leaf)
            columns.append(np.broadcast_to(np.reshape(np.asarray(own, float), (-1, leaf.size)), (number, leaf.size)))
        return np.concatenate(columns, axis=1)

    def on_space(self, i: int) -> System:
        """The system of run i."""
        own = {name: _run_of(x, self._axes[name], i) for name, x in self._parameters.items()}
        return self._system.replace(**own) if own else self._system

    def system(self, i: int) -> System:
        """The same; on a group in coordinates around its own q0."""
        system = self.on_space(i)
        return system if self._origins is None else LocalSystem(system, jnp.asarray(self._origins[i]))

    def solve(self, t0: float) -> Float[np.ndarray, "B n_plus_m"]:
        """(a, λ) of every run, from `solve_runs`."""
        return solve_runs(self.system(0), self.states, t0, self.arrays)


def unproven(motions: Float[np.ndarray, "B n_plus_m"]) -> np.ndarray:
    """The runs of whose data machine code has not proven that they pass every check."""
    return np.flatnonzero(~np.isfinite(motions).any(axis=1))


def _run_of(x: Array | np.ndarray, axis: int | None, i: int) -> np.ndarray:
    return np.asarray(x) if axis is None else np.asarray(x)[i]  # a slice of an array of JAX is a program for every shape
