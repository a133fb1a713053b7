"""Constraints that fix a function of the ends: Σ_i (-d/dt)ⁱ(φ_{q⁽ⁱ⁾}ᵀ λ) = 0 for some λ(t) on every path with φ = 0.

Then ∫ λᵀφ dt is the same for all paths between given ends, as for v₀ - 2v₁ = d/dt (q₀ - 2q₁): what is given at one end
follows from the other, and λ is determined up to that function. Looked for on a path at random, so that what is found does
not belong to a special one; all functions are polynomials, differentiated through their values at Chebyshev's points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev, legendre

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

    def at(self, t: Float[np.ndarray, "T"], values: Float[np.ndarray, "POINTS ..."]) -> Float[np.ndarray, "T ..."]:
        """What has these values at the points, at other times."""
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


def find_integrals(t: Float[np.ndarray, "N+1"], q: Float[np.ndarray, "N+1 n"], order: int, linearised: Linearised):
    """The Integrals of constraints of orders up to this one, holonomic ones too, on paths of the size of q, or None.

    linearised(jets (POINTS, order+1, n), times): φ (POINTS, m) and its derivatives by the jet (POINTS, m, order+1, n).
    """
    curve = _on_constraints(t, q, order, linearised)
    if curve is None:
        return None
    _, slopes = linearised(curve.jets, curve.times)
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


def _on_constraints(t, q, order: int, linearised: Linearised) -> Curve | None:
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
        values, slopes = linearised(jets, curve.times)
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
