"""Redundant data, given at one end, that follow from the other: constraints that fix a function of the ends.

Their equations are dependent: with the multipliers y of the function Aᵀy = 0 on all that is free, exactly or to the order of
the scheme. Of what is given as many components are left out as there are such functions, and the solution has to meet them.

    Σ_i (-d/dt)ⁱ(φ_{q⁽ⁱ⁾}ᵀ λ) = 0 for some λ(t) on every path with φ = 0

Then ∫ λᵀφ dt is the same for all paths between given ends, as for v₀ - 2v₁ = d/dt (q₀ - 2q₁), and λ is determined up to that
function. Looked for on a path at random, so that what is found does not belong to a special one; all functions are
polynomials, differentiated through their values at Chebyshev's points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial import chebyshev, legendre

from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.window_unknowns import Transcription, slot_jets
from dalembert.systems import (
    InconsistentDataError,
    VariationalProblem,
    differential_constraints,
    holonomic_constraints,
    orders_of,
)
from dalembert.tracing import over_rows

POINTS, DEGREE = 48, 24  # of the path, and of the λ that are tried
DECAY = 4.0  # how much smoother than necessary the path is
EXACT = 1e-5  # of the left side above, relative to its terms; what is no integral is of order 1
NOT_IN = 1e-6  # of the largest term: what is less in a coordinate is rounding
SPREAD = 0.1  # of the path, relative to the size of what is given
STEPS, SOLVED, CUT = 30, 1e-11, 1e-13  # of the iteration onto φ = 0, and what is left of its terms


class Curve(NamedTuple):
    """A path: (q, q̇, …, q⁽ʲ⁾) at Chebyshev's points of a time."""

    jets: Float[np.ndarray, "POINTS j+1 n"]
    start: float
    end: float

    def place(self, t):
        return (2.0 * np.asarray(t) - self.start - self.end) / (self.end - self.start)

    def interpolate(self, t: Float[np.ndarray, "T"], values: Float[np.ndarray, "POINTS ..."]) -> Float[np.ndarray, "T ..."]:
        """Interpolant at other times, a polynomial that has these values at Chebyshev's points."""
        coefficients = np.linalg.solve(chebyshev.chebvander(_places(), POINTS - 1), values.reshape(POINTS, -1))
        return chebyshev.chebval(self.place(t), coefficients).T.reshape(len(t), *values.shape[1:])

    @property
    def times(self) -> Float[np.ndarray, "POINTS"]:
        return 0.5 * (self.start + self.end + (self.end - self.start) * _places())

    @property
    def derive(self) -> Float[np.ndarray, "POINTS POINTS"]:
        """d/dt of the polynomial through values at the points."""
        s = _places()
        slopes = chebyshev.chebval(s, chebyshev.chebder(np.eye(POINTS), axis=0)).T
        return np.linalg.solve(chebyshev.chebvander(s, POINTS - 1).T, slopes.T).T * 2.0 / (self.end - self.start)

    @property
    def integrate(self) -> Float[np.ndarray, "POINTS POINTS"]:
        """∫ from the first point of the polynomial through values at the points."""
        s = _places()
        sums = chebyshev.chebval(s, chebyshev.chebint(np.eye(POINTS), lbnd=-1, axis=0)).T
        return np.linalg.solve(chebyshev.chebvander(s, POINTS - 1).T, sums.T).T * 0.5 * (self.end - self.start)


class Integrals(NamedTuple):
    """The λ (POINTS, r, m) of the functions of the ends that are found, at the points of a curve."""

    curve: Curve
    multipliers: Float[np.ndarray, "POINTS r m"]


Linearised = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def find_integrals(t: Float[np.ndarray, "N+1"], q: Float[np.ndarray, "N+1 n"], order: int, linearise: Linearised):
    """The Integrals of constraints of orders up to this one, holonomic ones too, on paths of the size of q, or None.

    linearise(jets (POINTS, order+1, n), times): φ (POINTS, m) and its derivatives by the jet (POINTS, m, order+1, n).
    """
    curve = _on_constraints(t, q, order, linearise)
    if curve is None:
        return None
    _, slopes = linearise(curve.jets, curve.times)
    basis, derive = legendre.legvander(_places(), DEGREE) * np.sqrt(2 * np.arange(DEGREE + 1) + 1.0), -curve.derive
    shape = (POINTS, slopes.shape[3], -1)
    plain = [np.einsum("pmn,pd->pndm", slopes[:, :, i], basis).reshape(POINTS, -1) for i in range(order + 1)]
    terms = [(np.linalg.matrix_power(derive, i) @ x).reshape(shape) for i, x in enumerate(plain)]
    sizes = np.max([np.abs(x).max(axis=(0, 2)) for x in terms], axis=0)  # coordinates may have different units,
    extent = np.abs(curve.jets[:, 0]).max(axis=0) + np.finfo(float).tiny  # and that of some may not be in φ
    scale = np.maximum(sizes, NOT_IN * (sizes * extent).max() / extent)[:, None]
    left = (np.sum(terms, axis=0) / scale).reshape(POINTS * shape[1], -1)
    each = np.concatenate([x.reshape(shape) / scale for x in (*terms, *plain)]).reshape(-1, left.shape[1])
    _, upper = np.linalg.qr(each)
    _, values, right = np.linalg.svd(np.linalg.solve(upper.T, left.T).T, full_matrices=False)
    null = np.linalg.solve(upper, right[values < EXACT].T).reshape(DEGREE + 1, -1)
    if not null.size:
        return None
    found = (basis @ null).reshape(POINTS, slopes.shape[1], -1)
    return Integrals(curve, np.moveaxis(found / np.abs(found).max(axis=(0, 1)), 2, 1))


def _on_constraints(t, q, order: int, linearise: Linearised) -> Curve | None:
    """A path with φ = 0 at every point, near one chosen at random: Newton's method, by steps of least size, on its highest
    derivative and what it begins with; the others are integrals of these."""
    start, end = float(t[0]), float(t[-1])
    curve = Curve(_random_jets(start, end, q, order), start, end)
    rows = _integrals_of(curve, order)
    unknown = np.concatenate(
        [
            curve.jets[0, :order] * _scales(curve, order),
            np.linalg.solve(_smooth(), curve.jets[:, order] * (end - start) ** order),
        ]
    )
    for _ in range(STEPS):
        jets = np.einsum("ipc,cn->pin", rows, unknown)
        values, slopes = linearise(jets, curve.times)
        if not (np.all(np.isfinite(values)) and np.all(np.isfinite(slopes))):
            return None
        terms = np.abs(slopes * jets[:, None]).sum(axis=(2, 3)).max(axis=0)
        if np.all(np.abs(values).max(axis=0) <= SOLVED * terms):
            return curve._replace(jets=jets)
        matrix = np.einsum("pmin,ipc->pmcn", slopes, rows).reshape(values.size, -1)
        unknown = unknown - np.linalg.lstsq(matrix, values.ravel(), rcond=CUT)[0].reshape(unknown.shape)
    return None


def _smooth() -> Float[np.ndarray, "POINTS POINTS"]:
    """Values at the points from coefficients of Legendre's polynomials, those of higher degrees scaled down: what changes
    these least stays smooth, and so do the λ that are looked for."""
    return legendre.legvander(_places(), POINTS - 1) * (1.0 + np.arange(POINTS)) ** -DECAY


def _scales(curve: Curve, order: int) -> Float[np.ndarray, "order 1"]:
    """Tˡ, by which the l-th derivative is multiplied to have the unit of the positions."""
    return (curve.end - curve.start) ** np.arange(order)[:, None]


def _integrals_of(curve: Curve, order: int) -> Float[np.ndarray, "order+1 POINTS order+POINTS"]:
    """(q, …, q⁽ᵒʳᵈᵉʳ⁾) at the points from Tˡq⁽ˡ⁾ at the first of them, l < order, and Tᵒʳᵈᵉʳ q⁽ᵒʳᵈᵉʳ⁾ at all."""
    rows = np.zeros((order + 1, POINTS, order + POINTS))
    rows[order, :, order:] = _smooth()
    for i in range(order - 1, -1, -1):
        rows[i] = curve.integrate @ rows[i + 1]
        rows[i, :, i] += 1.0
    rows[:, :, order:] /= (curve.end - curve.start) ** order
    rows[:, :, :order] /= _scales(curve, order)[:, 0]
    return rows


def _random_jets(start: float, end: float, q, order: int) -> Float[np.ndarray, "POINTS order+1 n"]:
    """The straight line between the ends of a path, and polynomials of degree 2 to 5."""
    random = np.zeros((6, q.shape[1]))
    random[2:] = SPREAD * (np.abs(q).max() or 1.0) * np.random.default_rng(1).standard_normal((4, q.shape[1]))
    random[:2] = 0.5 * (q[-1] + q[0]), 0.5 * (q[-1] - q[0])
    rows: list[np.ndarray] = [random]
    for _ in range(order):
        rows.append(2.0 / (end - start) * legendre.legder(rows[-1], axis=0))
    return np.stack([legendre.legval(_places(), c).T for c in rows], axis=1)


def _places() -> Float[np.ndarray, "POINTS"]:
    return -np.cos(np.pi * np.arange(POINTS) / (POINTS - 1))


KEPT = 0.05  # Aᵀy on what is free, relative to what is given; what is less is an error of the discretization
RELAX, ITERATIONS = 1e-12, 4
MET = 1e-6  # distance of a component from what is given, relative to its size


def redundant(made: Transcription, q: Float[np.ndarray, "N+1 n"]) -> Bool[np.ndarray, "slots n"] | None:
    """Components of what is given that follow from the others, or None; q: a path, for its size."""
    problem, w, slots, size = made.problem, made.windows, made.layout.part("slots"), made.positions
    order = max(orders_of(problem, made.layout.n))
    found = find_integrals(w.t, q / size, order, linearise(problem, size))
    if found is None:
        return None
    z = _on_curve(made, found.curve)
    inner = np.count_nonzero(made.kkt.fixed[:, slots].reshape(len(w.orders), -1)[w.nodes[1:-1]].all(axis=1))
    weights = made.kkt.units.copy()
    weights[~made.kkt.fixed] *= np.sqrt(len(z))  # forces, per time; what is given has momenta
    plain, primal = made.kkt.raw_gradient(z), made.kkt.primal
    columns = [
        ((made.kkt.raw_gradient(z + y) - plain) * weights * primal).ravel()
        for y in _dependent(made, z, found.multipliers.shape[1] * (1 + inner))
    ]
    left_out = _left_out(np.stack(columns, axis=1), made.kkt.fixed.ravel())
    return None if left_out is None else left_out.reshape(z.shape)[:, slots].reshape(len(w.orders), -1)


def _left_out(matrix: np.ndarray, fixed: np.ndarray) -> np.ndarray | None:
    """Rows of what is fixed, as many as combinations of columns vanish on what is free."""
    from scipy.linalg import qr  # slow to load

    _, upper = np.linalg.qr(matrix)
    scaled = np.linalg.solve(upper.T, matrix.T).T
    _, values, right = np.linalg.svd(scaled[~fixed], full_matrices=False)
    null = right[values < KEPT]
    if not len(null):
        return None
    given = np.flatnonzero(fixed)
    later = 1.0 + np.arange(len(given)) / len(given)  # of two components that do as well the one at the end
    pivots = qr((scaled[given] @ null.T * later[:, None]).T, pivoting=True, mode="economic")[-1]
    out = np.zeros(len(fixed), dtype=bool)
    out[given[pivots[: len(null)]]] = True
    return out


def check_met(
    made: Transcription, left_out: Bool[np.ndarray, "slots n"], z: np.ndarray, given: Float[np.ndarray, "slots n"]
) -> None:
    """InconsistentDataError naming a component that was left out and that the solution z does not meet."""
    w = made.windows
    slots, size = (x[:, made.layout.part("slots")].reshape(given.shape) for x in (z, made.kkt.units))
    for slot, i in np.argwhere(left_out):
        if not abs(slots[slot, i] - given[slot, i]) <= MET * (size[slot, i] + abs(slots[slot, i])):
            node = int(w.owners[slot])
            where = {0: "initial", len(w.t) - 1: "final"}.get(node, f"through: the point at t = {w.t[node]:g}")
            raise InconsistentDataError(
                f"{where}: component {i} of derivative {w.orders[slot]} is {given[slot, i]:.9g}, where the constraints and "
                f"the other given data lead to {slots[slot, i]:.9g}: a constraint fixes a function of what both ends give. "
                "Correct the data, or leave a component free. If they agree, the discrete constraint keeps the function to "
                "the order of the scheme only: give the function itself, as Holonomic(…) or a constraint of lower order"
            )


def linearise(problem: VariationalProblem, size: Float[np.ndarray, "n"]) -> Callable:
    """φ and its slopes, for positions in units of their sizes."""

    def call(jets, times):
        values, slopes = over_rows(_constraint_slopes, (jets * size, times), problem)
        return np.asarray(values), np.asarray(slopes) * size

    return call


def _constraint_slopes(problem: VariationalProblem, jet, t):
    """φ of all constraints and its derivatives by the jet."""

    def phi(x):
        return jnp.concatenate([holonomic_constraints(problem, x[0], t), differential_constraints(problem, tuple(x), t)])

    return phi(jet), jax.jacfwd(phi)(jet)


def _dependent(made: Transcription, z: np.ndarray, count: int) -> list[np.ndarray]:
    """Multipliers y (blocks, b) with the smallest Aᵀy: inverse iteration with A W⁻¹ Aᵀ + δ."""
    kkt = made.kkt
    multipliers = (~kkt.fixed & ~kkt.primal).ravel()
    factors = LinearSolver(kkt, z).factor(z, 1.0, RELAX, plain=True)
    found, units = np.random.default_rng(0).standard_normal((z.size, count)) * multipliers[:, None], kkt.units
    for _ in range(ITERATIONS):
        solved = [(factors.solve(column.reshape(z.shape) / units) / units).ravel() * multipliers for column in found.T]
        found, _ = np.linalg.qr(np.stack(solved, axis=1))
    return [column.reshape(z.shape) * units for column in found.T]


def _on_curve(made: Transcription, curve: Curve) -> np.ndarray:
    """The slots of a curve, and the highest derivatives as these have them; all multipliers zero."""
    w, layout = made.windows, made.layout
    z, rates = np.zeros(made.kkt.fixed.shape), [curve.jets[:, 0]]
    for _ in range(int(w.orders.max())):
        rates.append(curve.derive @ rates[-1])
    slots = made.positions * curve.interpolate(w.t, np.stack(rates, axis=1))[w.owners, w.orders]
    z[:, layout.part("slots")] = slots.reshape(len(z), -1)
    if layout.highest:
        jets = slot_jets(w, slots)
        z[made.carriers, layout.part("highest")] = jets[:, -1].reshape(len(w.times), -1)
    return z
