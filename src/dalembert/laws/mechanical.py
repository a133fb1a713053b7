"""Simple mechanical systems, L = ½ vᵀM(q)v - U(q), with forces B(q)u; matching: the condition on a Lyapunov function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra.dense import least_norm
from dalembert.control.problem import OptimalControl, actuation, count_equations
from dalembert.numbers import as_function, as_numbers, as_vector, whole_number
from dalembert.systems.equations import euler_lagrange
from dalembert.systems.shapes import check_scalar, run_on_shapes
from dalembert.systems.system import System, check_system
from dalembert.tracing import seldom

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
    if plant.constraints or plant.time_dependent:
        found = "explicit time" if plant.time_dependent else ", ".join(type(c).__name__ for c in plant.constraints)
        raise ValueError(f"system: has {found}; a plant without constraints and without explicit time is needed")


def check_simple(plant: System, points: Float[np.ndarray, "samples n"]) -> None:
    """L = ½vᵀMv - U with M > 0, and no forces; ValueError that says what else it is."""
    if plant.forces is not None:
        raise ValueError("system: has forces; V and F are constructed for L = ½ vᵀM(q)v - U(q) alone")
    gap, masses = (np.asarray(x) for x in _simple(plant, points, np.random.default_rng(0).normal(size=points.shape)))
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


@seldom
def _simple(plant: System, points, directions):
    """|L - (½vᵀMv - U)| relative to the sizes of the terms, and M in units of its diagonal, at every point."""

    def scaled_terms(q, w):
        M, U = mass(plant, q), potential(plant, q)
        unit = 1.0 / jnp.sqrt(jnp.abs(jnp.diagonal(M)))
        v = w * unit * jnp.sqrt(1.0 + jnp.abs(U))  # both terms of a size
        kinetic = 0.5 * v @ M @ v
        gap = jnp.abs(plant.call(plant.lagrangian, q, v, t=0.0) - kinetic + U)
        return gap / (jnp.abs(kinetic) + jnp.abs(U)), M * unit * unit[:, None]

    return eqx.filter_vmap(scaled_terms)(points, directions)


HOLDS = 1e-9  # of the terms of φ₀
TURNS = 12  # of Newton's method to g = 0; for V quadratic in v one is enough


class Matching(eqx.Module):
    """φ₀ on {g = 0}, where dV/dt + F = φ₀ + g·u: what `matching` returns.

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
    """φ₀(q, v) = V_q v + V_v a₀(q, v) + F = 0 wherever g(q, v) = Bᵀ M⁻¹ V_v = 0, on samples of a region.

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
    q, v, phi, size, wrong = (np.asarray(y) for y in _project_samples(problem, V, F, *starts, fast))
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
    rows = np.concatenate([np.asarray(y).reshape(len(q), -1) for y in _terms_at(problem, V, F, q, v)], axis=1)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise ValueError(
            f"V, F: they, their derivatives or the plant's acceleration are not finite at q = {q[bad[0]]}, v = {v[bad[0]]}; "
            "give a region where all of them are numbers"
        )


@seldom
def _terms_at(problem: OptimalControl, V: Callable, F: Callable, q, v):
    return eqx.filter_vmap(lambda *x: terms(problem, V, F, *x))(q, v)


def terms(problem: OptimalControl, V: Callable, F: Callable, q, v) -> tuple[Array, Array, Array]:
    """φ₀, g and the sum of the sizes of the terms of φ₀."""
    system, rest = problem.system, jnp.zeros_like(v)
    vq, vv = jax.grad(lambda *x: system.call(V, *x, t=0.0), (0, 1))(q, v)
    motion = lambda a: euler_lagrange(system, q, v, a, 0.0)  # noqa: E731
    matrix, dissipation = jax.jacfwd(motion)(rest), system.call(F, q, v, t=0.0)
    answers = jnp.linalg.solve(matrix, jnp.concatenate([-motion(rest)[:, None], columns(problem, q)], axis=1))
    a, g = answers[:, 0], vv @ answers[:, 1:]
    size = jnp.abs(vq) @ jnp.abs(v) + jnp.abs(vv) @ jnp.abs(a) + jnp.abs(dissipation)
    return vq @ v + vv @ a + dissipation, g, size


@seldom
def _project_samples(problem: OptimalControl, V: Callable, F: Callable, q, v, speeds):
    """Every sample brought to g = 0 by the shortest way in v/speeds; there φ₀, its size, and how far g is from 0."""

    def project_sample(q, v):
        factor = lambda w: terms(problem, V, F, q, speeds * w)[1]  # noqa: E731

        def closer(_, known):
            w, _ = known
            step = least_norm(jax.jacfwd(factor)(w), factor(w))
            return w - step, jnp.linalg.norm(step) / (1.0 + jnp.linalg.norm(w))

        w, left = jax.lax.fori_loop(0, TURNS, closer, (v / speeds, jnp.asarray(jnp.inf)))
        phi, _, size = terms(problem, V, F, q, speeds * w)
        return q, speeds * w, phi, size, left

    return eqx.filter_vmap(project_sample)(q, v)
