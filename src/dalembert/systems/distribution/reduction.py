"""From the differential-algebraic equation of a constrained system to an ordinary one, by an explicit formula for (λ, v̇).

`equations.acceleration` solves for (a, λ) by Newton's method and takes any constraint. Here constraints restrict (q, v), so
that their time derivative is affine in a, the mass matrix is regular, and (a, λ) is written down. Where they are affine in v
it is told whether they are integrable, that is, whether they restrict positions too: Frobenius' theorem in the space of (q,
t).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import numerical_rank, value_and_jacobian
from dalembert.lazy import on_host
from dalembert.notebook import Described
from dalembert.numbers import as_function, as_number, as_vector, check_x64, is_traced
from dalembert.systems.consistency import RankDeficientError
from dalembert.systems.constraints import Nonholonomic
from dalembert.systems.equations import Time, acceleration_equations, all_reactions, euler_lagrange, velocity_constraints
from dalembert.systems.pickling import made
from dalembert.systems.system import System, check_flat, check_shapes, check_system
from dalembert.tracing import over_rows, seldom

Vector = Float[Array, "n"]
Rows = Float[Array, "m"]
Matrix = Float[Array, "m n"]

DEGENERATE = 1e-10  # smallest singular value of C with unit vectors, below which the forces do not determine λ


class Reduction(Described, eqx.Module):
    """Acceleration and multipliers in closed form at one state.

    v̇ = f_v + m⁻¹Rᵀλ,  λ = -C⁻¹(φ_q v + φ_t + φ_v f_v),  C = φ_v m⁻¹Rᵀ, at one (q, v, t).

    For a holonomic constraint φ(q) = 0 read dφ/dt in place of φ.

    Attributes:
        a: v̇ (n,).
        multipliers: λ (m,).
        free: f_v = m⁻¹(L_q + f - L_vq v - L_vt) (n,), the acceleration without constraints.
        mass: m = L_vv (n, n).
        rows: φ_v (m, n).
        rate: φ_q v + φ_t (m,).
        reactions: R (m, n).
        coupling: C (m, m).
    """

    a: Vector
    multipliers: Rows
    free: Vector
    mass: Float[Array, "n n"]
    rows: Matrix
    rate: Rows
    reactions: Matrix
    coupling: Float[Array, "m m"]

    @property
    def cosines(self) -> Float[Array, "m m"]:
        """C with the rows of φ_v and the vectors m⁻¹Rᵀ scaled to unit length, so that the units of the constraints do
        not matter."""
        return unit_coupling(self.mass, self.rows, self.reactions)


@seldom
def unit_coupling(mass: Float[Array, "n n"], rows: Matrix, reactions: Matrix) -> Float[Array, "m m"]:
    """rows m⁻¹Rᵀ with rows, and vectors m⁻¹Rᵀ, of unit length; zero where one has no length."""
    forces = jnp.linalg.solve(mass, reactions.T)
    lengths = jnp.linalg.norm(rows, axis=1)[:, None] * jnp.linalg.norm(forces, axis=0)[None, :]
    return jnp.where(lengths > 0, (rows @ forces) / jnp.where(lengths > 0, lengths, 1.0), 0.0)


def constraint_rows(system: System, q: Vector, v: Vector, t) -> Matrix:
    """φ_v (m, n) of what restricts v; μ(q) for linear constraints."""
    return jax.jacfwd(lambda w: velocity_constraints(system, q, w, t))(v)


def violation(system: System, q: Vector, v: Vector, t) -> Float[Array, ""]:
    """Largest |φ| of what restricts v: zero on D."""
    return jnp.max(jnp.abs(velocity_constraints(system, q, v, t)), initial=0.0)


def explicit_terms(system: System, q: Vector, v: Vector, t: Time = 0.0) -> Reduction:
    """The terms of `reduction`, without any check, for use in compiled code: inf or NaN where m or C is singular."""
    rest = jnp.zeros_like(v)
    inertia, mass = value_and_jacobian(lambda a: euler_lagrange(system, q, v, a, t), rest)
    rows = constraint_rows(system, q, v, t)
    rate = acceleration_equations(system, q, v, rest, t)  # φ_q v + φ_t: at a = 0
    reactions = all_reactions(system, q, v, rest, t)
    solved = jnp.linalg.solve(mass, jnp.concatenate([-inertia[:, None], reactions.T], axis=1))
    free, forces = solved[:, 0], solved[:, 1:]
    coupling = rows @ forces
    multipliers = -jnp.linalg.solve(coupling, rate + rows @ free) if rate.shape[0] else rate
    return Reduction(free + forces @ multipliers, multipliers, free, mass, rows, rate, reactions, coupling)


_terms = seldom(explicit_terms)


@on_host
def reduction(system: System, q, v, t: Time = 0.0) -> Reduction:
    """Compute acceleration and multipliers in closed form.

    d/dt L_v - L_q = f + Rᵀλ, φ(q, v, t) = 0  ⇒  λ and v̇ in closed form, with the terms of the formula.

    L may be any Lagrangian whose mass matrix m = L_vv is nonsingular at this (q, v, t); m need not be positive definite
    and may depend on v and t. Off D the formula gives the vector field whose flow keeps the value of φ constant. Under
    jit, vmap and grad nothing is checked.

    Args:
        system: a System with constraints of order 0 and 1: linear, affine or nonlinear in v, with Chetaev's or other
            reactions.
        q: (n,).
        v: (n,).
        t: time.

    Returns:
        A Reduction.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument is wrong, or a constraint is on accelerations.
        RankDeficientError: m or C is singular; the message states the smallest singular value.

    Source: Jiménez, Scheurle, Proposition 2.1, eqs. (22, 23). What differs: forces, reactions R other than φ_v, time,
    constraints nonlinear in v. The sign of λ is that of eq. (2a), as everywhere in dalembert.

    Example:
        >>> terms = da.systems.reduction(edge, [0.0, 0.0, 0.0], [1.0, 0.0, 0.5])
        >>> terms.multipliers.shape, terms.mass.shape
        ((1,), (3, 3))
    """
    check_x64()
    check_first_order(system, "reduction")
    x = as_vector(q, "q")
    w = as_vector(v, "v", x.shape[0])
    now = jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)
    check_shapes(system, x, w, now)
    terms = _terms(system, x, w, now)
    if not is_traced(terms):
        _check_regular(terms)
    return terms


def check_first_order(system, name: str, holonomic: bool = True, instead: str = "solved by dalembert.acceleration") -> None:
    """TypeError or ValueError where a constraint restricts something else than q and v. instead: what is to be done with
    one on accelerations."""
    check_system(system)
    check_flat(system, name)
    for i, c in enumerate(system.constraints):
        if c.order == 2:
            raise ValueError(
                f"constraints[{i}] ({type(c).__name__}): {name} is for constraints on positions and velocities; one on "
                f"accelerations is {instead}"
            )
        if c.order == 0 and not holonomic:
            raise ValueError(
                f"constraints[{i}] (Holonomic): {name} is for constraints on velocities, Nonholonomic(...). Written as "
                "dφ/dt = 0, a holonomic constraint is one"
            )


def coupling_rank(cosines: np.ndarray) -> tuple[float, float]:
    """Smallest singular value and condition number of C made of unit vectors; (1, 1) without constraints."""
    if len(cosines) == 0:
        return 1.0, 1.0
    if not np.all(np.isfinite(cosines)):
        return 0.0, np.inf
    values = np.linalg.svd(cosines, compute_uv=False)
    return float(values[-1]), float(values[0] / values[-1]) if values[-1] > 0 else np.inf


def _check_regular(terms: Reduction) -> None:
    mass = np.asarray(terms.mass)
    if not np.all(np.isfinite(mass)):
        raise ValueError("lagrangian: its derivatives are not finite at (q, v)")
    found = numerical_rank(mass)
    if not found.full:
        raise RankDeficientError(
            f"lagrangian: the mass matrix ∂²L/∂v² has rank {found.rank} of {mass.shape[0]} at (q, v) (smallest singular "
            f"value {found.singular_values[-1]:.3g}, rows of unit length), and the formula needs its inverse. "
            "dalembert.acceleration does not: what must be regular there is the whole matrix of (a, λ)"
        )
    smallest, condition = coupling_rank(np.asarray(terms.cosines))
    if smallest <= DEGENERATE:
        raise RankDeficientError(
            f"reactions: the matrix C = φ_v m⁻¹Rᵀ is degenerate at (q, v): smallest singular value {smallest:.3g}, "
            f"condition {condition:.3g} (with unit vectors): the constraint forces cannot enforce the constraints, or the "
            "constraints depend on one another. dalembert.solvability says which"
        )


def deformed(system: System, g: Callable, delta: float) -> System:
    """Change a constraint by a small function.

    φ(q, v) + δ g(q, v) = 0 with forces λ ∂(φ + δ g)/∂v: the motion on D_δ, again a system with Chetaev's reactions.

    Args:
        system: a System whose constraints are all Nonholonomic, with Chetaev's reactions.
        g: `g(q, v[, t][, p])`, () or (m,): one component for each equation of the constraints, in their order.
        delta: δ. It becomes the parameter "delta" of the new system, so that `.replace(delta=...)` does not compile
            anything again; the other parameters are kept.

    Returns:
        The deformed System.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: a constraint is not Nonholonomic, or has other reactions than Chetaev's.

    Source: Jiménez, Scheurle, Remark 6.1, eqs. (101-105).

    Example:
        >>> bent = da.systems.deformed(edge, lambda q, v: v[2] ** 2, 0.1)
        >>> float(bent.replace(delta=0.2).parameters["delta"])
        0.2
    """
    check_first_order(system, "deformed", holonomic=False)
    as_function(g, "g", "g(q, v) that returns () or (m,)")
    constraints: Any = system.constraints
    if not constraints:
        raise ValueError("system: has no constraint to deform; give one with Nonholonomic(φ)")
    if not all(c.chetaev and hasattr(c, "phi") for c in constraints):
        raise ValueError("system: a constraint has reactions or virtual displacements of its own; those of φ + δ g are ∂/∂v")
    given = system.parameters
    if given is not None and (not isinstance(given, Mapping) or "delta" in given):
        raise ValueError("system: its parameters must be a mapping without the name 'delta', which the deformation takes")

    def without_parameters(function: Callable) -> Callable:
        return function if given is not None else _without_parameters(function)

    return System(
        without_parameters(system.lagrangian),
        Nonholonomic(_bent(tuple(without_parameters(c.phi) for c in constraints), without_parameters(g))),
        forces=None if system.forces is None else without_parameters(system.forces),
        coordinates=system.coordinates,
        parameters={**(given or {}), "delta": as_number(delta, "delta")},
        time_dependent=system.time_dependent,
    )


@made
def _without_parameters(function: Callable) -> Callable:
    return lambda *x: function(*x[:-1])


@made
def _bent(phis: tuple[Callable, ...], bend: Callable) -> Callable:
    """φ + δ g."""

    def phi(*x):
        rows = jnp.concatenate([jnp.atleast_1d(one(*x)) for one in phis])
        return rows + x[-1]["delta"] * jnp.reshape(jnp.asarray(bend(*x)), rows.shape)

    return phi


INTEGRABLE = 1e-9  # curvature, relative to the rate at which the constraint forms turn, that is taken as zero
AFFINE = 1e-9  # the same for φ_v at two velocities


def constraint_forms(system: System, q: Vector, v: Vector, t) -> Float[Array, "m n_plus_1"]:
    """ω = μ dq + b dt of the affine constraints μ(q, t) v + b(q, t) = 0, read off at any v."""
    rows = constraint_rows(system, q, v, t)
    return jnp.concatenate([rows, (velocity_constraints(system, q, v, t) - rows @ v)[:, None]], axis=1)


def forms_and_slopes(system: System, q: Vector, v: Vector, t):
    """ω (m, n+1) and ∂_i ω^α_j (m, n+1, n+1), j before i, at one point of (q, t) space."""
    n = q.shape[0]
    forms = lambda x: constraint_forms(system, x[:n], v, x[n])  # noqa: E731
    at = jnp.append(q, t)
    return forms(at), jax.jacfwd(forms)(at)


def affinity(system: System, q: Vector, v: Vector, w: Vector, t) -> Float[Array, ""]:
    """Largest change of φ_v from v to w, relative to φ_v: zero for constraints that are affine in v."""
    here, there = (constraint_rows(system, q, x, t) for x in (v, w))
    return jnp.max(jnp.abs(there - here), initial=0.0) / jnp.max(jnp.abs(here), initial=1e-300)


class Frobenius(NamedTuple):
    """curvature: largest |normal part of [X, Y]| over the points. reached: dimension of D + [D, D] at the first point.

    X, Y run through an orthonormal basis of D in (q, t) space; unit 1/length of the coordinates. at_point: at the first one.
    """

    curvature: float
    at_point: float
    integrable: bool
    reached: int


def brackets(omega: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, float]:
    """The normal parts of [X, Y], -ω⁺dω(X, Y), (pairs, n+1), for X, Y in D = ker ω; and how fast the forms turn, |ω⁺∂ω|.

    D is integrable where they vanish all around. In (q, t) space constraints that depend on time are like any others, and
    dφ(q, t)/dt = 0 is integrable. Neither result depends on how the constraints are written.
    """
    exterior = np.swapaxes(slopes, 1, 2) - slopes  # dω_ij = ∂_i ω_j - ∂_j ω_i
    basis = np.linalg.svd(omega, full_matrices=True)[2][omega.shape[0] :].T
    inverse = np.linalg.pinv(omega)
    on_basis = np.einsum("aij,ik,jl->kla", exterior, basis, basis)
    turning = np.abs(np.einsum("ba,aji->bji", inverse, slopes)).max(initial=0.0)
    return -(on_basis @ inverse.T).reshape(-1, omega.shape[1]), float(turning)


def judge(omega: np.ndarray, slopes: np.ndarray) -> Frobenius:
    """The verdict of the points (K, ...), the first of which is the one in question."""
    found, turning = zip(*(brackets(*one) for one in zip(omega, slopes, strict=True)), strict=True)
    sizes = np.array([np.linalg.norm(one, axis=1).max(initial=0.0) for one in found])
    zero = INTEGRABLE * (1.0 + np.array(turning))
    values = np.linalg.svd(found[0], compute_uv=False) if found[0].size else np.zeros(0)
    dimension = omega.shape[2] - omega.shape[1] + int(np.sum(values > zero[0]))
    return Frobenius(float(sizes.max()), float(sizes[0]), bool(np.all(sizes <= zero)), dimension)


WIDTH = 1e-3  # of the coordinates' sizes, of the differences by which forms are differentiated
STENCIL = ((-2.0, 1.0 / 12.0), (-1.0, -2.0 / 3.0), (1.0, 2.0 / 3.0), (2.0, -1.0 / 12.0))  # f' to order 4
CURVED = 1e-3  # dω on D, relative to its terms, below which it is an error of these differences
ROUNDING = 1e-5  # of the forms: what may be left of their slopes where they are constant
NEARBY = 0.1  # of the sizes: how far off closedness is looked at, because at single points curvature may vanish

Forms = Callable[[np.ndarray], np.ndarray]  # points x (K, n+1) → W (K, r, n+1)


def leaf_forms(system: System, x: Float[np.ndarray, "n+1"], scale: Float[np.ndarray, "n+1"]) -> Forms | None:
    """W(x) dx = 0, x = (q, t) in units of `scale`: a basis of the forms whose functions the constraints keep.

    The derived systems I ⊃ I' ⊃ …, I' = {ω ∈ I: dω = 0 on ker I}, end with the largest integrable one (E. Cartan). I is
    spanned by the constraints of orders 0 and 1, affine in v. x, scale: where, and how far about; None: nothing is kept.
    """
    random = np.random.default_rng(0)
    speeds = scale[:-1] * random.standard_normal((2, len(x) - 1))
    if not system.constraints or not float(_affinity(system, x[:-1], speeds[0], speeds[1], x[-1])) <= AFFINE:
        return None
    forms = lambda points: np.asarray(over_rows(_forms_at, (points,), system, speeds[0])) * scale  # noqa: E731
    nearby = x + NEARBY * scale * random.uniform(-1.0, 1.0, len(x))
    while True:
        rank = forms(x[None]).shape[1]
        if min(len(solved_for(forms(at[None])[0])) for at in (x, nearby)) < rank:
            return None
        values = _closed_forms(forms, nearby[None], scale)[0]
        count = rank - int(np.sum(values > CURVED))
        if count in (0, rank):
            return forms if count else None
        forms = functools.partial(_derived_system, forms, scale, count)


def _forms_at(system: System, v, x):
    return constraint_forms(system, x[:-1], v, x[-1])


_affinity: Any = seldom(affinity)


def solved_for(forms: np.ndarray, among: np.ndarray | slice = slice(-1)) -> list[int]:
    """Coordinates, as many as the rank, for which forms (r, n+1) can be solved; among: which, all without the time."""
    from scipy.linalg import qr

    places = np.arange(forms.shape[1])[among]
    factors: Any = qr(forms[:, places], pivoting=True, mode="economic")
    values = np.abs(np.diagonal(factors[1]))
    return sorted(int(places[i]) for i in factors[2][: int(np.sum(values > 1e-10 * values[:1].sum()))])


def _closed_forms(forms: Forms, points: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values of dω on the kernel of all ω, relative to its terms, (K, ·), and their forms (K, r, n+1), the last of
    which are closed there."""
    columns = solved_for(forms(points[:1])[0])

    def solved(x: np.ndarray) -> np.ndarray:  # with a unit matrix in these columns: smooth
        found = forms(x)
        return np.linalg.solve(found[:, :, columns], found)

    omega, count = solved(points), len(scale)
    steps = np.array([at for at, _ in STENCIL])[:, None, None] * WIDTH * np.diag(scale)
    around = solved((points[:, None, None] + steps).reshape(-1, count)).reshape(len(points), len(STENCIL), count, -1, count)
    slopes = np.einsum("s,ksiaj->kaij", np.array([weight for _, weight in STENCIL]) / WIDTH, around)  # ∂_i ω_j
    basis = np.swapaxes(np.linalg.svd(omega, full_matrices=True)[2][:, omega.shape[1] :], 1, 2)
    other = np.swapaxes(slopes, 2, 3)
    on_kernel = lambda x, b: np.einsum("kaij,kip,kjq->kpqa", x, b, b).reshape(len(points), -1, omega.shape[1])  # noqa: E731
    terms = on_kernel(np.abs(slopes) + np.abs(other), np.abs(basis)).max(axis=2, keepdims=True)
    least = ROUNDING * np.abs(omega).max(axis=(1, 2))[:, None, None]
    _, values, rows = np.linalg.svd(on_kernel(slopes - other, basis) / (terms + least), full_matrices=True)
    return values, rows @ omega


def _derived_system(forms: Forms, scale: np.ndarray, count: int, points: np.ndarray) -> np.ndarray:
    return _closed_forms(forms, points, scale)[1][:, -count:]
