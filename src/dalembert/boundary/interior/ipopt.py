"""The very same KKT problem handed to IPOPT: a second opinion.

    min f(Ux)/κ  such that  U_ν c(Ux)/κ = 0,  bounds,   x = z/U of what is free,   λ = ν/U_ν

Objective, constraints, first and second derivatives are those of the KKT system, in its units and divided by its curvature
κ: the matrix U K U/κ holds the Hessian of IPOPT's Lagrangian and the Jacobian of its constraints. IPOPT comes with ipyopt.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np

from dalembert.boundary.interior.path import Barrier, Bounds, Filter, InteriorPath, barrier_of
from dalembert.boundary.kkt.linear import LinearSolver
from dalembert.boundary.kkt.system import KKTSystem
from dalembert.boundary.newton import Iterate, Settings, Termination

ENDS = {
    0: Termination.CONVERGED, 2: Termination.INFEASIBLE, -10: Termination.SINGULAR, -13: Termination.NOT_FINITE,
}  # fmt: skip
OPTIONS = {
    "print_level": 0, "sb": "yes", "nlp_scaling_method": "none", "acceptable_iter": 0, "bound_relax_factor": 0.0,
    "honor_original_bounds": "yes",
}  # fmt: skip
LEAST = 1e-30  # slack of a path that IPOPT leaves on a bound
INFINITE = 2e19  # IPOPT's


def check_ipopt() -> Any:
    """The module ipyopt; ImportError that says how to install it."""
    try:
        return importlib.import_module("ipyopt")
    except ImportError as error:
        raise ImportError(
            "method: found 'ipopt', but the package ipyopt is not installed; pip install 'dalembert[ipopt]'"
        ) from error


class Entries(NamedTuple):
    """Of a sparse matrix: rows, columns, and where they stand in the band."""

    rows: np.ndarray
    columns: np.ndarray
    places: np.ndarray


class IpoptSearch:
    """IPOPT on one KKT system with bounds, see `InteriorPoint`."""

    def __init__(self, kkt: KKTSystem, z: np.ndarray, settings: Settings, bounds: Bounds):
        self._ipyopt = check_ipopt()
        self.kkt, self.settings, self.barrier = kkt, settings, barrier_of(kkt, bounds)
        self._linear = LinearSolver(kkt, z)
        free = ~kkt.fixed
        self._unknowns, self._rows = (np.flatnonzero(free & kind) for kind in (kkt.primal, ~kkt.primal))
        self._jacobian, self._hessian = _entries(kkt, self._unknowns, self._rows)

    def minimise(self, z: np.ndarray, sizes: np.ndarray, forces: np.ndarray | None = None) -> InteriorPath:
        """From the path z (blocks, b), whose multipliers IPOPT replaces by those of least squares."""
        kkt, settings = self.kkt, self.settings
        work = _Functions(self, z)
        lower, upper = self._limits(self.barrier)
        count = len(self._rows)
        problem = self._ipyopt.Problem(
            len(self._unknowns), lower, upper, count, np.zeros(count), np.zeros(count),
            (self._jacobian.rows, self._jacobian.columns), (self._hessian.rows, self._hessian.columns),
            work.objective, work.gradient, work.constraints, work.jacobian, work.hessian, work.watch,
            ipopt_options=OPTIONS | {"tol": settings.tolerance, "max_iter": settings.max_iterations},
        )  # fmt: skip
        multipliers, below, above = np.zeros(count), np.zeros(len(lower)), np.zeros(len(lower))
        start = z.ravel()[self._unknowns] / kkt.flat_units[self._unknowns]
        x, _, status = problem.solve(start, mult_g=multipliers, mult_x_L=below, mult_x_U=above)
        z = work.path(x, multipliers)
        it = Iterate(kkt, self._linear.fresh(), z, kkt.evaluate(z), sizes, 0.0, method="ipopt")
        it.iterations = it.factorizations = work.iterations
        it.update, it.end = work.update, ENDS.get(status, Termination.NOT_CONVERGED)
        return self._end(it, below, above)

    def _end(self, it: Iterate, below: np.ndarray, above: np.ndarray) -> InteriorPath:
        barrier, places = self.barrier, np.searchsorted(self._unknowns, self.barrier.places)
        here = barrier.snapshot(it.z)
        here = here._replace(slacks=np.maximum(here.slacks, LEAST))
        own = np.where(barrier.signs > 0.0, below[places], above[places]) if len(places) else np.zeros(0)
        none = Filter(0.0, self.settings.tolerance)
        return InteriorPath(it, barrier, here, own, none, self.settings.max_iterations, self.settings.tolerance)

    def _limits(self, barrier: Barrier) -> tuple[np.ndarray, np.ndarray]:
        """Of the unknowns in their units."""
        units = self.kkt.flat_units[self._unknowns]
        lower, upper = (np.clip(b.ravel()[self._unknowns] / units, -INFINITE, INFINITE) for b in barrier.bounds)
        return lower, upper


class _Functions:
    """Functions that IPOPT calls, with the number of iterations and the update that it reported last."""

    def __init__(self, search: IpoptSearch, z: np.ndarray):
        self.search, self.kkt, self._z = search, search.kkt, z.copy()
        kkt = self.kkt
        self._own, self._rows = kkt.flat_units[search._unknowns], kkt.flat_units[search._rows]
        self.iterations, self.update = 0, np.inf

    def path(self, x: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        z = self._z.copy()
        z.flat[self.search._unknowns], z.flat[self.search._rows] = x * self._own, multipliers * self._rows
        return z

    def _plain_path(self, x: np.ndarray) -> np.ndarray:
        """Without multipliers."""
        return self.path(x, np.zeros(len(self._rows)))

    def objective(self, x: np.ndarray) -> float:
        return self.kkt.evaluate(self._plain_path(x)).objective / self.kkt.curvature

    def gradient(self, x: np.ndarray, out: np.ndarray) -> None:
        out[:] = self.kkt.evaluate(self._plain_path(x)).gradient.flat[self.search._unknowns] * self._own / self.kkt.curvature

    def constraints(self, x: np.ndarray, out: np.ndarray) -> None:
        out[:] = self.kkt.evaluate(self._plain_path(x)).gradient.flat[self.search._rows] * self._rows / self.kkt.curvature

    def jacobian(self, x: np.ndarray, out: np.ndarray) -> None:
        out[:] = self._matrix(self._plain_path(x), self.search._jacobian)

    def hessian(self, x: np.ndarray, multipliers: np.ndarray, factor: float, out: np.ndarray) -> None:
        """σ ∇²f + Σ λ ∇²c, linear in λ."""
        entries = self.search._hessian
        out[:] = self._matrix(self.path(x, multipliers), entries)
        if factor != 1.0:
            out += (factor - 1.0) * self._matrix(self._plain_path(x), entries)

    def _matrix(self, z: np.ndarray, entries: Entries) -> np.ndarray:
        return self.kkt.matrix(z).ravel()[entries.places] / self.kkt.curvature

    def watch(self, *told) -> bool:
        """mode, iteration, objective, two infeasibilities, μ, length of the step, …"""
        iteration, step = told[1], told[6]
        self.iterations, self.update = iteration, step if iteration else np.inf
        return True


def _entries(kkt: KKTSystem, unknowns: np.ndarray, rows: np.ndarray) -> tuple[Entries, Entries]:
    """The Jacobian of the constraints, and the lower half of the second derivatives."""
    size, total, pairs = kkt.size, kkt.blocks * kkt.size, []
    for term, (first, second) in zip(kkt.assembly.terms, kkt.assembly.patterns, strict=True):
        flat = term.places(size)
        pairs.append((flat[:, list(first)] * total + flat[:, list(second)]).ravel())
    row, column = np.divmod(np.unique(np.concatenate(pairs)), total)
    number = np.full(total, -1)
    number[unknowns], number[rows] = np.arange(len(unknowns)), np.arange(len(rows))
    primal, free = np.tile(kkt.primal, kkt.blocks), ~kkt.fixed.ravel()
    place = kkt.rows
    kept = free[row] & free[column]

    def select(where: np.ndarray) -> Entries:
        r, c = row[where], column[where]
        return Entries(number[r], number[c], place[r] * kkt.width + kkt.lower + place[c] - place[r])

    return select(kept & ~primal[row] & primal[column]), select(kept & primal[row] & primal[column] & (row >= column))
