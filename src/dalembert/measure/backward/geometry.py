"""The geometry of a modified equation: whether it is Lagrangian, the energy that the scheme keeps, and the drift of E.

A variational scheme keeps the two-form ω_h = -dθ_h of its discrete Lagrangian on the states (q, v). If f_h preserves it,
then i_{f_h}ω_h = dE_h, and the scheme keeps E_h = E + O(h^p) up to the first power that is left out.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import GAUSS_NODES, GAUSS_WEIGHTS
from dalembert.discretize import Interval
from dalembert.discretize.nodes import legendre_plus
from dalembert.measure.backward.equation import (
    Modified,
    as_step_size,
    check_modified,
    essentials,
    expand_at,
    in_batches,
    inertial_units,
)
from dalembert.measure.nodes import kernel, states_of
from dalembert.measure.symplectic import exterior_derivative
from dalembert.notebook import Described
from dalembert.path import Path
from dalembert.systems import check_flat, energy, momentum
from dalembert.systems.consistency import onto_constraints, stacked_residuals
from dalembert.tracing import over_many_rows

CLOSED, CLOSED_BY_FIT = 1e-5, 3e-3  # of its terms: what differences leave of the condition, of f and of its terms
BY_SLOPE, UNCLEAR = 10.0, 0.05  # times the doubt about a term: that about its derivatives, at most
WIDTH = 0.15  # of the way of a step: over so much they are taken
STENCIL = tuple(
    (s * k, s * w / 60.0) for s in (-1.0, 1.0) for k, w in ((1.0, 45.0), (2.0, -9.0), (3.0, 1.0))
)  # f' to order 6
PIECES = 4  # of the way along which dE_h is summed
NOTHING = 1e-6  # of |f_j||∇E|: a change of the energy that is none


@dataclasses.dataclass(frozen=True)
class Helmholtz(Described):
    """L_f ω = 0 by powers of h: Σ_{a+b=j} L_{f_a} ω_b + ∂_t ω_j = 0, f₀ = f, ω₀ = d(L_v dq) up to its sign.

    These are Helmholtz's conditions for the two-form of the scheme (Crampin): it is closed, and of full rank where the mass
    matrix is.

    Attributes:
        powers: j, 0 for the motion itself.
        residual: (J+1,) largest entry of the sum over the largest of its terms, on variations tangent to the constraints.
        allowed: the residuals that errors of the terms and of their differences explain.
    """

    powers: tuple[int, ...]
    residual: Float[np.ndarray, "J_plus_1"]
    allowed: tuple[float, ...]

    @property
    def lagrangian(self) -> bool:
        """True if the modified equation is that of a Lagrangian, up to the last of its powers."""
        return self.broken is None

    @property
    def broken(self) -> int | None:
        """The first power whose condition fails; None where all hold."""
        rows = zip(self.powers, self.residual, self.allowed, strict=True)
        return next((j for j, residual, allowed in rows if not residual <= allowed), None)

    def describe(self) -> str:
        """The result in words, and the residuals."""
        said = {None: "Lagrangian", 0: "not Lagrangian, since the motion itself is not"}
        first = said.get(self.broken, f"not Lagrangian: the condition of h^{self.broken} fails")
        rows = zip(self.powers, self.residual, strict=True)
        return "\n".join([first, *(f"  h^{j}: residual {x:.1e} of its terms" for j, x in rows)])


def helmholtz(made: Modified) -> Helmholtz:
    """L_{f_h} ω_h = 0, power by power, at the states of a modified equation: whether it is Lagrangian.

    Args:
        made: a Modified.

    Returns:
        A Helmholtz, which prints the residuals.

    Raises:
        TypeError: made is no Modified.

    Source: Jiménez, Scheurle, Section 7, which leaves the relation of the perturbation to the principle open; Crampin, On
    the differential geometry of the Euler-Lagrange equations and the inverse problem (1981); the form is that of Borda,
    Fernández, Grillo, Theorem 5.3.

    Example:
        >>> found = da.measure.helmholtz(da.measure.modified(pendulum, [1.0], [0.3], h=0.1, order=2))
        >>> found.lagrangian
        True
    """
    check_modified(made)
    check_flat(made.system, "helmholtz")
    powers, z = (0, *made.powers), np.asarray(made.states)
    fields, forms = _fields_and_forms(made, z, float(made.t0))
    by_z, turned, moved = _derivatives(made, z, fields)
    basis = np.asarray(in_batches(_tangents, made, z))
    on = lambda x: np.swapaxes(basis, 1, 2) @ x @ basis  # noqa: E731
    residual = []
    for j, power in enumerate(powers):
        terms = [moved[:, j]]
        for a, b in ((a, powers.index(power - x)) for a, x in enumerate(powers) if power - x in powers):
            slope = np.swapaxes(by_z[:, a], 1, 2) @ forms[:, b]
            terms += [np.einsum("kabc,kc->kab", turned[:, b], fields[:, a]), slope, -np.swapaxes(slope, 1, 2)]
        size = max(float(np.max(np.abs(on(x)), initial=0.0)) for x in terms)
        residual.append(float(np.max(np.abs(on(sum(terms))), initial=0.0)) / (size or 1.0))
    return Helmholtz(powers, np.array(residual), (CLOSED, *(min(CLOSED_BY_FIT + BY_SLOPE * x, UNCLEAR) for x in made.doubt)))


def _fields_and_forms(made: Modified, states: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """f and f_j, (K, J+1, 2n); ω₀ and ω_j, from forms at the steps of the stencil, (K, J+1, 2n, 2n)."""
    stencil, count, times = made.stencil, len(made.powers), np.full(len(states), t)
    found = expand_at(made, states, times)
    limit, *sampled = (form_at(made, h, states, times) for h in (None, *(float(made.step) * stencil.parts)))
    units = (float(made.step) ** stencil.powers)[:, None, None, None]
    rest = np.tensordot(stencil.fit, np.stack(sampled) - limit, 1) / units
    forms = np.stack([limit, *rest[:count]], axis=1)
    return np.concatenate([found.field[:, None], found.terms[:, :count]], axis=1), forms


def _derivatives(made: Modified, z: np.ndarray, fields: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∂f_j/∂z, ∂ω_j/∂z, and ∂ω_j/∂t, by differences over a part of the way of one step."""
    n, step, t0 = z.shape[1] // 2, float(made.step), float(made.t0)
    units = np.asarray(inertial_units(essentials(made)))
    v, a = (np.max(np.abs(x)) for x in np.split(fields[:, 0] / units, 2, axis=1))
    speed = v + step * a
    widths = WIDTH * units * np.repeat([step * (speed or 1.0), speed or 1.0], n)
    slopes = [np.zeros((*fields.shape, 2 * n)), np.zeros((*fields.shape, 2 * n, 2 * n)), np.zeros((*fields.shape, 2 * n))]
    for share, weight in STENCIL:
        for i, width in enumerate(widths):
            moved = _fields_and_forms(made, z + share * width * np.eye(2 * n)[i], t0)
            for slope, x in zip(slopes, moved, strict=False):
                slope[..., i] += weight / width * x
        if made.system.time_dependent:
            slopes[2] += weight / (WIDTH * step) * _fields_and_forms(made, z, t0 + share * WIDTH * step)[1]
    return slopes[0], slopes[1], slopes[2]


def _tangents(made: Modified, z):
    """A basis of the variations tangent to the constraints at a state, (2n, d)."""
    units, rows = inertial_units(made), jax.jacfwd(lambda y: stacked_residuals(made.system, *_halves(y), made.t0))(z)
    return units[:, None] * kernel(rows * units)


def _halves(z) -> tuple[Array, Array]:
    n = z.shape[0] // 2
    return z[:n], z[n:]


def form_at(made: Modified, h: float | None, states: np.ndarray, times: np.ndarray) -> np.ndarray:
    """ω = -dθ at each state, θ = D₂L_d·dq₁ at the node q₁ after it, or L_v dq where states are nodes, and for h None."""
    scheme = made.scheme
    between = scheme.order == 2 and scheme.form_for(made.system.constraints) == "drift_kick_drift"
    if h is None or not between:
        return in_batches(_node_form, made, states, times, over=over_many_rows)
    return in_batches(_form_between, made, states, times, np.full(len(states), h), over=over_many_rows)


def _node_form(made: Modified, z, t):
    def theta(y):
        q, v = _halves(y)
        return jnp.concatenate([momentum(made.system, q, v, t), jnp.zeros_like(v)])

    return -exterior_derivative(theta, z)


def _form_between(made: Modified, z, t, h):
    def theta(y):
        (q, v), ahead = _halves(y), (1.0 - made.scheme.state.weight) * h
        p = legendre_plus(made.scheme, made.system, Interval(q + (ahead - h) * v, h * v, t + ahead - h, h))
        return jnp.concatenate([p, ahead * p])

    return -exterior_derivative(theta, z)


class KeptEnergy(Described, eqx.Module):
    """The energy that the scheme keeps, for steps h: E_h(q, v) = E(q₀, v₀) + ∫ i_{f_h}ω_h along the way from (q₀, v₀).

    Attributes:
        made: the Modified.
        h: the step.
        exact: True if every term keeps E itself, which then is E_h.
    """

    made: Modified
    h: Float[Array, ""]
    exact: bool = eqx.field(static=True)

    def __call__(self, q, v) -> Any:
        """E_h.

        Args:
            q: (n,) position, or (K, n) of several states.
            v: (n,) velocity, or (K, n).

        Returns:
            A number, or (K,).
        """
        states = np.concatenate([np.atleast_2d(q), np.atleast_2d(v)], axis=1)
        found = _along_ways(self.made, float(self.h), states) if not self.exact else in_batches(_energy, self.made, states)
        return found if np.ndim(q) > 1 else float(found[0])


def kept_energy(made: Modified, h) -> KeptEnergy:
    """The energy that a scheme with steps h keeps, as a function of the state: dE_h = i_{f_h} ω_h.

    It is E itself where every term keeps it; otherwise the modified equation must be Lagrangian.

    Args:
        made: a Modified of an autonomous system.
        h: the step.

    Returns:
        A KeptEnergy: call it with (q, v).

    Raises:
        ValueError: the system depends on time; or the equation is not Lagrangian and E is not kept: then no such function is
            known, and `energy_drift` says how E changes.
        TypeError: made is no Modified.

    Source: Hairer, Lubich, Wanner, Geometric Numerical Integration, Theorem IX.3.1.

    Example:
        >>> kept = da.measure.kept_energy(da.measure.modified(pendulum, [1.0], [0.0], h=0.1), 0.1)
        >>> run = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=100)
        >>> values = kept(run.q, run.v)
        >>> bool(np.ptp(values) < 1e-7), bool(da.measure.energy(pendulum, run).range > 1e-4)
        (True, True)
    """
    check_modified(made)
    check_flat(made.system, "kept_energy")
    if made.system.time_dependent:
        raise ValueError("made: its system depends on time, and no energy is kept; energy_drift says how E changes")
    states, step = np.asarray(made.states), as_step_size(h)
    rates, sizes = _energy_rates(made, float(step), states, np.full(len(states), float(made.t0)))
    exact = bool(np.all(np.abs(rates[:, 1:]) <= NOTHING * sizes[:, 1:]))
    if not exact and (found := helmholtz(made)).broken is not None:
        raise ValueError(
            f"made: {found.describe().splitlines()[0]}, and its terms change E: no energy is known that the scheme keeps; "
            "energy_drift says how E changes"
        )
    return KeptEnergy(made, step, exact)


def _along_ways(made: Modified, h: float, states: np.ndarray) -> np.ndarray:
    """E(z₀) + ∫ i_{f_h}ω_h along straight ways from z₀, bent onto the constraints, by Gauss's rule."""
    shares = (np.arange(PIECES)[:, None] + GAUSS_NODES).ravel() / PIECES
    weights = np.tile(GAUSS_WEIGHTS, PIECES) / PIECES
    at, direction = in_batches(_way, made, np.repeat(states, len(shares), axis=0), np.tile(shares, len(states)))
    times = np.full(len(at), float(made.t0))
    found = expand_at(made, at, times)
    field = found.field + h ** np.array(made.powers) @ found.terms[:, : len(made.powers)]
    slopes = np.einsum("ka,kab,kb->k", field, form_at(made, h, at, times), direction)
    base = in_batches(_energy, made, np.asarray(made.states[:1]))
    return base + slopes.reshape(len(states), -1) @ weights


def _way(made: Modified, z, share):
    """The point at a share of the way from the first state given, and the derivative by the share."""
    point = lambda s: onto_constraints(made.system, made.states[0] + s * (z - made.states[0]), made.t0)  # noqa: E731
    return jax.jvp(point, (share,), (jnp.ones_like(share),))


def _energy(made: Modified, z):
    return energy(made.system, *_halves(z), made.t0)


@dataclasses.dataclass(frozen=True)
class EnergyDrift(Described):
    """The change of E along a run, by the motion and by each term of the scheme: dE/dt = f·∇E + ∂E/∂t + Σ_j h^j f_j·∇E.

    Attributes:
        t: (K,) times.
        powers: j, 0 for the motion itself.
        rates: (K, J+1) the parts of dE/dt.
    """

    t: Float[np.ndarray, "K"]
    powers: tuple[int, ...]
    rates: Float[np.ndarray, "K J_plus_1"]

    @property
    def mean(self) -> Float[np.ndarray, "J_plus_1"]:
        """The mean of each part over the run: its drift per time."""
        return np.trapezoid(self.rates, self.t, axis=0) / (self.t[-1] - self.t[0])

    def describe(self) -> str:
        """The parts, their means and their largest values."""
        rows = zip(self.powers, self.mean, np.max(np.abs(self.rates), axis=0), strict=True)
        lines = [f"  h^{j}: mean {x:10.3e}, at most {y:9.3e}" for j, x, y in rows]
        return "\n".join(["dE/dt along the run, h^0 by the motion itself", *lines])


def energy_drift(made: Modified, path: Path) -> EnergyDrift:
    """How fast each term of the modified equation changes the energy: dE/dt = f·∇E + ∂E/∂t + Σ_j h^j f_j·∇E.

    Args:
        made: a Modified, of the system and the scheme of the run.
        path: a Path.

    Returns:
        An EnergyDrift, which prints the mean of each part.

    Raises:
        TypeError: an argument is of the wrong type.

    Example:
        >>> run = da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=200)
        >>> found = da.measure.energy_drift(da.measure.modified(pendulum, [1.0], [0.0], h=0.1), run)
        >>> found.powers, bool(abs(found.mean[1]) < 1e-4)  # E comes and goes
        ((0, 2, 4), True)
    """
    check_modified(made)
    q, v, t = (np.asarray(x) for x in states_of(made.system, path))
    rates, _ = _energy_rates(made, float(path.h), np.concatenate([q, v], axis=1), t)
    return EnergyDrift(t, (0, *made.powers), rates)


def _energy_rates(made: Modified, h: float, states: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parts of dE/dt, and their sizes, (K, J+1)."""
    found, (slope, by_t) = expand_at(made, states, times), in_batches(_energy_slopes, made, states, times)
    powers, count = h ** np.array(made.powers)[:, None], len(made.powers)
    fields = np.concatenate([found.field[:, None], powers * found.terms[:, :count]], axis=1)
    rates = np.einsum("kja,ka->kj", fields, slope)
    rates[:, 0] += by_t
    return rates, np.einsum("kja,ka->kj", np.abs(fields), np.abs(slope))


def _energy_slopes(made: Modified, z, t):
    """∇E and ∂E/∂t."""
    q, v = made.system.space.split_state(z)
    n = v.shape[0]
    of = lambda x, s: energy(made.system, made.system.space.retract(q, x[:n]), x[n:], s)  # noqa: E731
    return jax.grad(of, (0, 1))(jnp.concatenate([jnp.zeros_like(v), v]), t)
