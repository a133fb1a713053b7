"""Energy shaping with one degree of underactuation: V = ½ vᵀM̂(q)v + Û(q) that solves the matching conditions.

With b(q) the direction of no actuator, Bᵀb = 0, controls leave dV/dt alone where v is parallel to w = M̂⁻¹Mb. There
dV/dt = 0 asks for the kinetic and the potential condition,

    ½ (∂_w M̂)(w, w) = b·C(w, w),    ∂_w Û = b·U_q,    C(w, w) = (∂_w M)w - ½ ∂_q(wᵀMw).

The first contains w alone. With w = σ(q)w̄ of constant direction it is linear along the lines q = y + τw̄:
∂_w̄ ln π = (2 w̄ᵀM ∂_w̄b + ∂_b M(w̄, w̄))/m, π = σm, m = w̄ᵀMb. So σ and Û are integrals along lines, with a Û that is free
across them; and M̂ = (Mb)(Mb)ᵀ/π + P with any constant P ≥ 0, Pw̄ = 0.

The plants are simple mechanical systems, L = ½ vᵀM(q)v - U(q), with forces B(q)u. `matching` is the condition on any V.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dalembert.algebra import least_norm
from dalembert.control import OptimalControl
from dalembert.control.problem import actuation, count_equations, with_plant_parameters
from dalembert.laws.law import Law, Value, force_of
from dalembert.notebook import Described
from dalembert.numbers import as_function, as_numbers, as_vector, whole_number
from dalembert.systems import Lyapunov, System, check_flat, check_shapes, check_system, run_on_shapes
from dalembert.systems.equations import forced_motion
from dalembert.systems.shapes import check_scalar
from dalembert.tracing import over_rows, seldom

Actuated = int | Sequence[int] | Callable
ROUNDED = 1e-9  # relative to the terms of L


def _no_cost(q, v, u, *_):
    return u @ u


def actuators(plant: System, actuated: Actuated, n: int) -> OptimalControl:
    """Plant and B(q), with the checks that optimal control makes of both."""
    problem = OptimalControl(plant, cost=_no_cost, actuated=actuated)
    count_equations(problem, n)
    return problem


def mass(plant: System, q: Float[Array, "n"]) -> Float[Array, "n n"]:
    """M = ∂²L/∂v² at v = 0."""
    return jax.hessian(lambda v: plant.call(plant.lagrangian, q, v, t=0.0))(jnp.zeros_like(q))


def potential(plant: System, q: Float[Array, "n"]) -> Float[Array, ""]:
    """U = -L at v = 0."""
    return -plant.call(plant.lagrangian, q, jnp.zeros_like(q), t=0.0)


def columns(problem: OptimalControl, q: Float[Array, "n"]) -> Float[Array, "n r"]:
    """B(q)."""
    return actuation(problem, q, 0.0)


def unactuated_direction(B: Any, xp: Any = jnp) -> Any:
    """b (…, n) with Bᵀb = 0, of B (…, n, n - 1): the minors of B with alternating signs, as smooth as B is."""
    n = B.shape[-2]
    minors = [xp.linalg.det(B[..., np.delete(np.arange(n), i), :]) for i in range(n)]
    return (-1.0) ** np.arange(n) * xp.stack(minors, axis=-1)


def check_plant(plant: Any) -> None:
    """A System without constraints and explicit time."""
    check_system(plant)
    check_flat(plant, "energy shaping")
    if plant.constraints or plant.time_dependent:
        found = "explicit time" if plant.time_dependent else ", ".join(type(c).__name__ for c in plant.constraints)
        raise ValueError(f"system: has {found}; a plant without constraints and without explicit time is needed")


def check_simple(plant: System, points: Float[np.ndarray, "samples n"]) -> None:
    """L = ½vᵀMv - U with M > 0, and no forces; ValueError that says what else it is."""
    if plant.forces is not None:
        raise ValueError("system: has forces; V and F are constructed for L = ½ vᵀM(q)v - U(q) alone")
    directions = np.random.default_rng(0).normal(size=points.shape)
    gap, masses = (np.asarray(x) for x in over_rows(_scaled_terms, (points, directions), plant))
    if not np.all(np.isfinite(gap)):
        raise ValueError(f"lagrangian: is not finite near {points[0]}; give another equilibrium, or a smaller reach")
    if gap.max() > ROUNDED:
        raise ValueError(
            f"lagrangian: is not ½ vᵀM(q)v - U(q), by {gap.max():.1e} of its terms at q = {points[gap.argmax()]}; V and F "
            "are constructed for simple mechanical systems"
        )
    least = np.linalg.eigvalsh(masses)[:, 0]
    if least.min() <= 0.0:
        raise ValueError(
            f"lagrangian: the mass matrix is not positive definite at q = {points[least.argmin()]}; correct it, or give a "
            "smaller reach"
        )


def _scaled_terms(plant: System, q, direction):
    """|L - (½vᵀMv - U)| relative to the sizes of the terms, and M in units of its diagonal."""
    M, U = mass(plant, q), potential(plant, q)
    unit = 1.0 / jnp.sqrt(jnp.abs(jnp.diagonal(M)))
    v = direction * unit * jnp.sqrt(1.0 + jnp.abs(U))  # both terms of a size
    kinetic = 0.5 * v @ M @ v
    gap = jnp.abs(plant.call(plant.lagrangian, q, v, t=0.0) - kinetic + U)
    return gap / (jnp.abs(kinetic) + jnp.abs(U)), M * unit * unit[:, None]


HOLDS = 1e-9  # of the terms of φ₀
TURNS = 12  # of Newton's method to g = 0; for V quadratic in v one is enough


class Matching(Described, eqx.Module):
    """The matching condition of a Lyapunov function, measured on samples.

    φ₀ on {g = 0}, where dV/dt + F = φ₀ + g·u: what `matching` returns.

    Attributes:
        residual: the largest |φ₀| over all samples, relative to the sum of the absolute values of its terms.
        q: (n,) positions of that sample.
        v: (n,) velocities of that sample.
        phi: φ₀ at that sample.
        points: (B, 2n) all samples, (q, v) with g(q, v) = 0.
        residuals: (B,) the residuals of all samples.

    Example:
        >>> free = da.System(lambda q, v: 0.5 * v @ v)
        >>> V, F = lambda q, v: 0.5 * v @ v + 0.5 * q[0] ** 2, lambda q, v: v[0] ** 2
        >>> region = {"at": [0.0, 0.0], "reach": [1.0, 1.0], "speeds": [1.0, 1.0]}
        >>> found = da.laws.matching(free, V, F, actuated=0, **region)
        >>> found.holds, da.laws.matching(free, V, F, actuated=1, **region).holds
        (True, False)
    """

    residual: float
    q: Float[np.ndarray, "n"]
    v: Float[np.ndarray, "n"]
    phi: float
    points: Float[np.ndarray, "B 2n"]
    residuals: Float[np.ndarray, "B"]

    @property
    def holds(self) -> bool:
        """True if φ₀ vanishes where g does, up to rounding: the law is then smooth through g = 0."""
        return self.residual <= HOLDS


def matching(
    system: System,
    V: Callable,
    F: Callable,
    *,
    actuated: Actuated,
    at,
    reach,
    speeds,
    samples: int = 500,
    seed: int = 0,
) -> Matching:
    """Measure whether a Lyapunov function can be made to decrease by the actuators.

    φ₀(q, v) = V_q v + V_v a₀(q, v) + F = 0 wherever g(q, v) = Bᵀ M⁻¹ V_v = 0, on samples of a region.

    a₀ is the acceleration without controls, so that dV/dt + F = φ₀ + g·u: where g vanishes no control changes dV/dt, and the
    Lyapunov constraint can be kept only if φ₀ vanishes there, too. With r controls g has r components, and u is a smooth
    function where the condition holds and the derivative of g has rank r.

    Args:
        system: the plant, a System without constraints and explicit time; it may have forces.
        V: `V(q, v)`, with the trailing p of the system if it has parameters.
        F: `F(q, v)`, likewise.
        actuated: the index of the actuated coordinate, several indices, or `actuated(q)` that returns B (n, r).
        at: (n,) the centre of the region in q; in v it is 0.
        reach: (n,) half-widths of the region in q.
        speeds: (n,) half-widths in v, from which the samples are moved to g = 0.
        samples: number of samples.
        seed: of the random samples.

    Returns:
        A Matching, with the residual and the worst point.

    Raises:
        ValueError: an argument has the wrong shape, the system has constraints, V or F is not finite in the region, or
            no sample with g = 0 was found.
        TypeError: an argument is of the wrong type.

    Source: Borda, Fernández, Grillo, Section 4.2, where V satisfies a partial differential equation that depends on the
    actuators.

    Example:
        >>> V = lambda q, v: 0.5 * v @ v + 0.5 * q @ q
        >>> da.laws.matching(pendulum, V, lambda q, v: v @ v, actuated=0, at=[0.0], reach=[1.0], speeds=[1.0]).holds
        True
    """
    check_plant(system)
    centre = np.asarray(as_vector(at, "at"))
    n = len(centre)
    widths, fast = (positive_widths(x, name, n) for x, name in ((reach, "reach"), (speeds, "speeds")))
    as_function(V, "V", "V(q, v)")
    as_function(F, "F", "F(q, v)")
    problem = actuators(system, actuated, n)
    run_on_shapes(_check_scalars, system, V, F, centre)
    random = np.random.default_rng(whole_number(seed, "seed", 0))
    x = random.uniform(-1.0, 1.0, (whole_number(samples, "samples"), 2, n))
    starts = centre + widths * x[:, 0], fast * x[:, 1]
    q, v, phi, size, wrong = (np.asarray(y) for y in over_rows(_project_sample, starts, problem, V, F, fast))
    finite = np.isfinite(phi) & np.isfinite(size)
    if not finite.all():
        _check_finite(problem, V, F, *(y[~finite] for y in starts))
    good = (wrong <= HOLDS) & finite
    if not good.any():
        raise ValueError("V: no sample could be moved to g = BᵀM⁻¹V_v = 0; give another region")
    q, v, phi, size = q[good], v[good], phi[good], size[good]
    residuals = np.abs(phi) / np.where(size > 0.0, size, 1.0)
    worst = int(residuals.argmax())
    return Matching(
        float(residuals[worst]), q[worst], v[worst], float(phi[worst]), np.concatenate([q, v], axis=1), residuals
    )


def positive_widths(value, name: str, n: int) -> np.ndarray:
    """(n,) positive numbers; ValueError that names the argument."""
    found = np.asarray(as_vector(value, name, n, as_numbers))
    if not np.all(found > 0.0):
        raise ValueError(f"{name}: found {found}; every length is positive")
    return found


def _check_scalars(system: System, V: Callable, F: Callable, q) -> None:
    for name, function in (("V", V), ("F", F)):
        check_scalar(lambda f=function: system.call(f, q, q, t=0.0), name, "q, v" + system.trailing)


def _check_finite(problem: OptimalControl, V: Callable, F: Callable, q, v) -> None:
    """ValueError where V, F or their derivatives are no numbers at a sample of the region, not only on the way to g = 0."""
    rows = np.concatenate([np.asarray(y).reshape(len(q), -1) for y in over_rows(terms, (q, v), problem, V, F)], axis=1)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise ValueError(
            f"V, F: they, their derivatives or the plant's acceleration are not finite at q = {q[bad[0]]}, v = {v[bad[0]]}; "
            "give a region where all of them are numbers"
        )


def terms(problem: OptimalControl, V: Callable, F: Callable, q, v) -> tuple[Array, Array, Array]:
    """φ₀, g and the sum of the sizes of the terms of φ₀."""
    system = problem.system
    vq, vv = jax.grad(lambda *x: system.call(V, *x, t=0.0), (0, 1))(q, v)
    dissipation = system.call(F, q, v, t=0.0)
    a, responses = forced_motion(system, (), columns(problem, q).T, q, v, 0.0)
    g = vv @ responses
    size = jnp.abs(vq) @ jnp.abs(v) + jnp.abs(vv) @ jnp.abs(a) + jnp.abs(dissipation)
    return vq @ v + vv @ a + dissipation, g, size


def _project_sample(problem: OptimalControl, V: Callable, F: Callable, speeds, q, v):
    """A sample brought to g = 0 by the shortest way in v/speeds; there φ₀, its size, and how far g is from 0."""
    factor = lambda w: terms(problem, V, F, q, speeds * w)[1]  # noqa: E731

    def closer(_, known):
        w, _ = known
        step = least_norm(jax.jacfwd(factor)(w), factor(w))
        return w - step, jnp.linalg.norm(step) / (1.0 + jnp.linalg.norm(w))

    w, left = jax.lax.fori_loop(0, TURNS, closer, (v / speeds, jnp.asarray(jnp.inf)))
    phi, _, size = terms(problem, V, F, q, speeds * w)
    return q, speeds * w, phi, size, left


PLACES = 60  # at which a straight way from the equilibrium is looked at
TWO = (0.5 - np.sqrt(1 / 12), 0.5 + np.sqrt(1 / 12))  # Gauss's nodes: a cubic's derivative is integrated exactly


class Line(NamedTuple):
    """At a point of a line along w̄: m, the rate of ln π, and b·U_q."""

    m: Array
    rate: Array
    pull: Array


@final
class Shaped(Described, eqx.Module):
    """The numbers that select one solution of the matching conditions: w̄, P, the stiffness transverse to w̄, the
    damping.

    Attributes:
        at: (n,) the equilibrium q*.
        direction: (n,) w̄, with w̄ᵀMb > 0 and ∂_w̄(b·U_q) > 0 there.
        level: (n,) ℓ with ℓ·w̄ = 1; the integrals along w̄ begin on ℓ·(q - q*) = 0.
        P: (n, n) ≥ 0, P w̄ = 0.
        stiffness: (n, n) K ≥ 0, K w̄ = 0: transverse to w̄, Û is ½ (q - q*)ᵀK(q - q*).
        damping: (r, r) D > 0, with F = gᵀDg.
        nodes: number of Gauss points along w̄.

    Example:
        >>> bool(design.shaped.damping[0, 0] > 0.0), design.shaped.nodes
        (True, 10)
    """

    at: Float[Array, "n"]
    direction: Float[Array, "n"]
    level: Float[Array, "n"]
    P: Float[Array, "n n"]
    stiffness: Float[Array, "n n"]
    damping: Float[Array, "r r"]
    nodes: int = eqx.field(static=True, default=10)


def collocation(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """c, A, β of Gauss's implicit Runge-Kutta method, of order 2·nodes: Σ_j A_ij f(c_j) is the integral up to c_i."""
    x, weights = np.polynomial.legendre.leggauss(nodes)
    c = 0.5 * (x + 1.0)
    powers = np.arange(1, nodes + 1)
    return c, (c[:, None] ** powers / powers) @ np.linalg.inv(c[:, None] ** (powers - 1)), 0.5 * weights


def terms_along(problem: OptimalControl, shaped: Shaped, q: Float[Array, "n"]) -> Line:
    """m, (2 w̄ᵀM ∂_w̄b + ∂_bM(w̄, w̄))/m and b·U_q at a point."""
    plant, w = problem.system, shaped.direction
    b, turned = jax.jvp(lambda x: unactuated_direction(columns(problem, x)), (q,), (w,))
    M, changed = jax.jvp(lambda x: mass(plant, x), (q,), (b,))
    m = w @ M @ b
    return Line(m, (2.0 * w @ M @ turned + w @ changed @ w) / m, jax.grad(lambda x: potential(plant, x))(q) @ b)


def integrate_line(problem: OptimalControl, shaped: Shaped, q: Float[Array, "n"]) -> tuple[Array, Array, Array]:
    """π(q) and Û(q), from the line through q along w̄: one step of Gauss's method for both; and the least m on the way."""
    c, A, weights = collocation(shaped.nodes)
    d = q - shaped.at
    s = shaped.level @ d
    start = q - s * shaped.direction
    here = jax.vmap(lambda tau: terms_along(problem, shaped, start + tau * s * shaped.direction))(jnp.asarray(c))
    m = terms_along(problem, shaped, start).m  # = π there: σ = 1
    logs = s * (A @ here.rate)
    work = s * weights @ (here.pull * here.m / (m * jnp.exp(logs)))
    return m * jnp.exp(s * weights @ here.rate), work + 0.5 * d @ shaped.stiffness @ d, jnp.min(here.m)


def shaped_mass(problem: OptimalControl, shaped: Shaped, q: Float[Array, "n"], pi: Array) -> Float[Array, "n n"]:
    """M̂ = (Mb)(Mb)ᵀ/π + P."""
    row = mass(problem.system, q) @ unactuated_direction(columns(problem, q))
    return jnp.outer(row, row) / pi + shaped.P


@seldom
def _on_the_way(problem: OptimalControl, shaped: Shaped, q, v) -> tuple[Array, Array]:
    """Û at places from the equilibrium straight to q, infinite where m > 0 does not hold, and V at (q, v)."""
    away = q - shaped.at
    ways = jnp.arange(1, PLACES + 1)[:, None] / PLACES * away
    pi, heights, least = jax.vmap(lambda x: integrate_line(problem, shaped, shaped.at + x))(ways)
    energy = 0.5 * v @ shaped_mass(problem, shaped, q, pi[-1]) @ v + heights[-1]
    return jnp.where((least > 0.0) & (pi > 0.0), heights, jnp.inf), energy


class Parts(NamedTuple):
    """M, M̂, U and Û at a point with their slopes, (…, n); B there, and whether m > 0 all the way from where σ = 1."""

    M: Array
    shaped: Array
    height: Array
    positive: Array
    B: Array
    by_q: tuple[Array, Array, Array, Array]


def parts_at(problem: OptimalControl, shaped: Shaped, q: Float[Array, "n"]) -> Parts:
    """All that the law and dV/dt are made of, so that the user's functions are differentiated once."""

    def energy_terms(x):
        pi, height, least = integrate_line(problem, shaped, x)
        found = mass(problem.system, x), shaped_mass(problem, shaped, x, pi), potential(problem.system, x), height
        return found, (*found, (least > 0.0) & (pi > 0.0))

    by_q, (M, hat, _, height, positive) = jax.jacfwd(energy_terms, has_aux=True)(q)
    return Parts(M, hat, height, positive, columns(problem, q), by_q)


def free_rate(parts: Parts, v: Any, xp: Any = jnp) -> tuple[Any, Any]:
    """dV/dt without controls, ½(∂_vM̂)(v, v) + Û_q v - vᵀM̂M⁻¹(C(v, v) + U_q), and the sum of the sizes of its terms.

    At one state by JAX, or by xp = numpy at many, along the first axis of everything.
    """
    inertia, hat, pull, slope = parts.by_q
    times = lambda a, x: xp.einsum("...ij,...j->...i", a, x)  # noqa: E731
    cubes = lambda a: xp.einsum("...ijk,...i,...j->...k", a, v, v)  # noqa: E731
    coriolis = times(xp.einsum("...ijk,...k->...ij", inertia, v), v) - 0.5 * cubes(inertia)
    a = xp.linalg.solve(parts.M, (coriolis + pull)[..., None])[..., 0]
    p, shape = times(parts.shaped, v), 0.5 * (cubes(hat) * v).sum(-1)
    size = xp.abs(shape) + (xp.abs(slope) * xp.abs(v)).sum(-1) + (xp.abs(p) * xp.abs(a)).sum(-1)
    return shape + (slope * v).sum(-1) - (p * a).sum(-1), size


def law_at(parts: Parts, damping: Float[Array, "r r"], v: Float[Array, "n"]) -> tuple[Array, Array]:
    """u = -Dg - G⁻¹BᵀM⁻¹∫₀¹ ∂φ/∂v(v₀ + sδ) ds, and g = BᵀM⁻¹M̂v: φ = dV/dt without controls, v₀ = v - δ where g vanishes.

    φ vanishes at v₀, so that φ(v) = ∫∂φ/∂v ds·δ, δ = M⁻¹BG⁻¹g, is a multiple of g by a smooth factor (Hadamard's lemma).
    """
    spread = jnp.linalg.solve(parts.M, parts.B)
    g = spread.T @ parts.shaped @ v
    gram = spread.T @ parts.shaped @ spread
    delta = spread @ jnp.linalg.solve(gram, g)
    slope = jax.grad(lambda w: free_rate(parts, w)[0])
    mean = sum(slope(v - (1.0 - s) * delta) for s in TWO) / 2.0
    return -damping @ g - jnp.linalg.solve(gram, spread.T @ mean), g


@final
class EnergyShaping(Law):
    """V, F and the control law u of energy shaping: what `energy_shaping` returns. It is used as a law of `control_law`
    is.

    Attributes:
        problem: the plant with B(q).
        shaped: the numbers that define V, F and u.
        poles: (2n,) poles of the closed loop, linearised at the equilibrium.
        cost: mean cost of the linearised loop from random states, divided by that of the linear-quadratic regulator
            with Q and R.
        region: a Region, the sublevel set of V inside which all conditions were found to hold.
        lower: lower bounds of u; None if there are none.
        upper: upper bounds of u; None if there are none.

    Example:
        >>> bool(np.all(design.poles.real < 0.0)), design(design.shaped.at, jnp.zeros(2)).shape
        (True, (1,))
    """

    problem: OptimalControl
    shaped: Shaped
    poles: np.ndarray
    cost: float
    region: Any
    lower: Any
    upper: Any

    @property
    def plant(self) -> System:
        """The system on which the law acts."""
        return self.problem.system

    @property
    def constrained(self) -> System:
        """The plant with the constraint Lyapunov(V, F), whose multiplier is the law. For one actuator only."""
        plant, actuated = self.plant, self.problem.actuated
        if self.shaped.damping.shape != (1, 1):
            raise ValueError(
                f"constrained: a Lyapunov constraint has one actuator, this plant {self.shaped.damping.shape[0]}; use "
                "the law itself"
            )
        along_q = actuated[0] if isinstance(actuated, tuple) else lambda *x: jnp.reshape(actuated(*x), -1)
        law = Lyapunov(self.V, self.F, along_q)
        return plant.with_constraints([law])

    @property
    def V(self) -> Callable:
        """½ vᵀM̂v + Û, a function (q, v[, p])."""
        return lambda q, v, p=None: self._energy(q, v, p)

    def inside(self, q, v) -> Bool[Array, ""]:
        """True if a state is in the region: within the reach, with V below the level and M̂ positive definite, at the
        state and on the straight line from the equilibrium to it.

        The line matters: beyond a ridge V may be low again, but the motion does not return to the equilibrium.

        Args:
            q: (n,).
            v: (n,).

        Returns:
            A boolean; under jit and vmap too.

        Raises:
            ValueError: q or v does not have one number for each coordinate.
        """
        n = len(self.shaped.at)
        q, v = as_vector(q, "q", n), as_vector(v, "v", n)
        heights, energy = _on_the_way(self.problem, self.shaped, q, v)
        near = jnp.all(jnp.abs(q - self.shaped.at) <= self.region.reach)
        return near & (jnp.max(heights) < self.region.level) & (energy < self.region.level)

    @property
    def F(self) -> Callable:
        """gᵀDg, a function (q, v[, p])."""
        return lambda q, v, p=None: self._fall(q, v, p)

    def _energy(self, q: Float[Array, "n"], v: Float[Array, "n"], p: Any) -> Float[Array, ""]:
        problem, shaped = self._problem(p), self.shaped
        pi, height, _ = integrate_line(problem, shaped, q)
        return 0.5 * v @ shaped_mass(problem, shaped, q, pi) @ v + height

    def _fall(self, q: Float[Array, "n"], v: Float[Array, "n"], p: Any) -> Float[Array, ""]:
        problem, shaped = self._problem(p), self.shaped
        hat = shaped_mass(problem, shaped, q, integrate_line(problem, shaped, q)[0])
        g = columns(problem, q).T @ jnp.linalg.solve(mass(problem.system, q), hat @ v)
        return g @ shaped.damping @ g

    def _problem(self, p: Any) -> OptimalControl:
        return self.problem if p is None else with_plant_parameters(self.problem, p)

    def with_parameters(self, p: Any) -> EnergyShaping:
        """The law with the same numbers for a plant with other parameters; poles and region are not computed again."""
        return dataclasses.replace(self, problem=with_plant_parameters(self.problem, p))

    def bare(self) -> EnergyShaping:
        return dataclasses.replace(self, poles=None, cost=None, region=None)

    def check(self, q, v, t) -> None:
        check_shapes(self.plant, q, v, t)

    def unbounded(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> tuple[Value, Float[Array, "r n"]]:
        parts = parts_at(self.problem, self.shaped, q)
        u, _ = law_at(parts, self.shaped.damping, v)
        defined = parts.positive & jnp.all(jnp.isfinite(u))
        u = jnp.where(defined, u, jnp.inf)
        return Value(u, force_of(parts.B.T, u), jnp.asarray(False), defined), parts.B.T

    def rows(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> Float[Array, "r n"]:
        return columns(self.problem, q).T
