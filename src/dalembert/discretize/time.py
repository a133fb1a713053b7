"""Time as a variable: the discrete problem on R × Q, whose nodes are (t_i, q_i)."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.discretize.windows import Averaged, Hermite, Interpolated, WindowMap
from dalembert.systems.constraints import Holonomic
from dalembert.systems.variational import VariationalProblem, density, differential_constraints, holonomic_constraints
from dalembert.tracing import Jitted


def with_time(
    problem: VariationalProblem,
    scheme: WindowMap | None = None,
    *,
    step: Callable | None = None,
    forward: bool = True,
) -> VariationalProblem:
    """L_d((t₀, q₀), …, (t_k, q_k)) = (t_k - t₀)/k · L(jet of the points on their own times): t is varied like q.

    The equation of t_i is that of the discrete energy, E_i - E_{i-1} = -(h_i + … + h_{i+k-1})/k ∂L_d/∂t: where L does not
    depend on t the energy is conserved, and the method is symplectic and keeps energy and momentum; the steps are unknowns.
    Returns the problem on (t, q), to be solved with scheme=Points(). scheme: Interpolated (the default) or Averaged; with
    Hermite the nodes are (t, q, q̇, …, q⁽ᵏ⁻¹⁾), the windows have two of them and 2k+1 Gauss points: more than a fixed mesh
    needs, so that the nodes move to where the action is approximated best and not to where the quadrature errs. step(q₀, …,
    q_k): the prescribed t_{1} - t_{0}, as a constraint: the q equations then contain its derivative.
    forward: the action is infinite where time does not increase, so that no path is accepted that goes back.
    Source: Colombo, Martín de Diego, Zuccalli, section 4.1, eq. (4.1), divided by k; end of section 4.2.
    """
    scheme = Interpolated() if scheme is None else scheme
    k = problem.derivatives
    hermite = isinstance(scheme, Hermite) and k > 1
    nodes = 1 if hermite else k

    def parts(x: tuple, p) -> tuple[Float[Array, ""], Float[Array, "m"]]:
        given = problem if p is None else _with_parameters(problem, p)
        points = (
            _hermite(x, k) if hermite else [_window(jnp.stack([y[0] for y in x]), jnp.stack([y[1:] for y in x]), scheme)]
        )
        action = sum((w * density(given, jet, t) for jet, t, w in points), jnp.zeros(()))
        if forward:
            later = jnp.stack([y[0] for y in x])
            action = jnp.where(jnp.all(later[1:] > later[:-1]), action, jnp.inf)
        return action, jnp.concatenate([w * differential_constraints(given, jet, t) for jet, t, w in points])

    def split(arguments):
        return (arguments[:-1], arguments[-1]) if problem.parameters is not None else (arguments, None)

    def lagrangian(*arguments):
        return parts(*split(arguments))[0]

    def differential(*arguments):
        return parts(*split(arguments))[1]

    def holonomic(x, *p):
        given = _with_parameters(problem, p[0]) if p else problem
        return holonomic_constraints(given, x[1 : 1 + (x.shape[0] - 1) // (k if hermite else 1)], x[0])

    def prescribed(*arguments):
        x, p = split(arguments)
        assert step is not None
        return x[1][0] - x[0][0] - step(*(y[1:] for y in x), *(() if p is None else (p,)))

    constraints = [differential] if problem.differential else []
    constraints += [prescribed] if step is not None else []
    constraints += [Holonomic(holonomic)] if problem.holonomic else []
    names = None if problem.coordinates is None or hermite else ("t", *problem.coordinates)
    return VariationalProblem(lagrangian, constraints, derivatives=nodes, coordinates=names, parameters=problem.parameters)


def _with_parameters(problem: VariationalProblem, p) -> VariationalProblem:
    return eqx.tree_at(lambda s: s.parameters, problem, p)


def _window(t: Float[Array, "k+1"], q: Float[Array, "k+1 n"], scheme: WindowMap):
    """(jet, time, weight) of a window whose knots are all different."""
    k = t.shape[0] - 1
    table = [q]
    for j in range(1, k + 1):
        table.append((table[-1][1:] - table[-1][:-1]) / (t[j:] - t[:-j])[:, None])
    centre = jnp.mean(t)
    if isinstance(scheme, Averaged):
        jet = [factorial(j) * jnp.mean(table[j], axis=0) for j in range(k + 1)]
    else:
        jet = _newton(table, t, centre, k)
    return tuple(jet), centre, (t[-1] - t[0]) / k


def _newton(table: list, t, point, k: int) -> list:
    """Derivatives 0 … k at a point of the polynomial through the knots."""
    jet = [jnp.zeros_like(table[0][0]) for _ in range(k + 1)]
    product = [jnp.ones(())] + [jnp.zeros(())] * k
    for m in range(k + 1):
        jet = [have + factorial(j) * product[j] * table[m][0] for j, have in enumerate(jet)]
        distance = point - t[m]
        product = [distance * product[0], *(distance * product[j] + product[j - 1] for j in range(1, k + 1))]
    return jet


def _hermite(x: tuple, k: int) -> list:
    """(jet, time, weight) at the Gauss points between two nodes (t, q, …, q⁽ᵏ⁻¹⁾)."""
    t0, t1 = x[0][0], x[1][0]
    h = t1 - t0
    a, b = (y[1:].reshape(k, -1) for y in x)
    knots = np.array([0.0] * k + [1.0] * k)
    scaled = [a[0] * 0.0 + a[0]] * k + [b[0]] * k
    table = [scaled]
    for j in range(1, 2 * k):
        last = table[-1]
        row = []
        for l in range(2 * k - j):
            if knots[l] == knots[l + j]:
                row.append((a if knots[l] == 0.0 else b)[j] * h**j / factorial(j))
            else:
                row.append(last[l + 1] - last[l])
        table.append(row)
    places, weights = np.polynomial.legendre.leggauss(2 * k + 1)
    points = []
    for place, weight in zip(0.5 * (1 + places), 0.5 * weights, strict=True):
        jet = [jnp.zeros_like(a[0]) for _ in range(k + 1)]
        product = [1.0] + [0.0] * k
        for m in range(2 * k):
            jet = [have + factorial(j) * product[j] * table[m][0] for j, have in enumerate(jet)]
            distance = place - knots[m]
            product = [distance * product[0], *(distance * product[j] + product[j - 1] for j in range(1, k + 1))]
        points.append((tuple(y / h**j for j, y in enumerate(jet)), t0 + place * h, weight * h))
    return points


@Jitted
def energies(problem: VariationalProblem, x: Float[Array | np.ndarray, "N+1 n+1"]) -> Float[Array, "N-k"]:
    """E_i = -∂/∂h_i Σ_j L_d of the windows that contain the step h_i, at i = k-1 … N-k, of nodes (t, q) of `with_time`.

    Moving all later nodes by the same time changes h_i alone: E_i = -Σ_{l>i} ∂(Σ L_d)/∂t_l, over the windows that contain
    both i and i+1. Source: the same, the display after (4.1); its E is k times this one.
    """
    k = problem.derivatives

    def energy(nodes):
        def moved(shift):
            total = 0.0
            for first in range(k):
                window = nodes[first : first + k + 1]
                later = np.arange(first, first + k + 1) >= k
                window = window.at[:, 0].add(shift * later)
                total = total + density(problem, tuple(window), window[0, 0])
            return total

        return -jax.grad(moved)(0.0)

    index = np.arange(x.shape[0] - 2 * k + 1)[:, None] + np.arange(2 * k)
    return jax.vmap(energy)(jnp.asarray(x)[index])
