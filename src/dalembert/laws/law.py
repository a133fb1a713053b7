"""Law: a control as a function of the state, the plant it acts on, and how both are put together; control_law: the
multipliers of servo- and Lyapunov constraints as such a function.

φ + S λ = 0 of the constraints that actuators realise, φ of the motion without them, S of what their forces change; and
λ = -S⁻¹φ, continued through states where S is singular and φ vanishes with it.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dalembert.algebra import agree, depends, value_and_jacobian
from dalembert.notebook import Described, described_by_fields
from dalembert.numbers import EPSILON, as_number, as_numbers, is_traced
from dalembert.step import SampledFeedback
from dalembert.systems import Constraint, System, acceleration, check_shapes, check_system
from dalembert.systems.equations import force, forced_motion, reduce_index
from dalembert.systems.pickling import reduced
from dalembert.systems.system import group_space
from dalembert.tracing import seldom, traced_once


@described_by_fields
class Value(NamedTuple):
    """The law at one state.

    Attributes:
        u: (r,) the controls; infinite if the law is not defined there.
        force: (n,) their generalised force Rᵀu.
        extended: whether the constraint does not determine u at this state, so that u is the limit from neighbouring
            states.
        defined: whether u has a value: there is no pole, and Newton's iteration has converged.

    Example:
        >>> bool(controlled.at([0.5], [0.0]).defined)
        True
    """

    u: Float[Array, "r"]
    force: Float[Array, "n"]
    extended: Bool[Array, ""]
    defined: Bool[Array, ""]


class Law(Described, eqx.Module):
    """u(q, v[, t][, p]): base class of the control laws.

    Attributes:
        lower: lower bounds of u; None if there are none.
        upper: upper bounds of u; None if there are none.
    """

    lower: eqx.AbstractVar[Any]
    upper: eqx.AbstractVar[Any]

    __reduce__ = reduced
    __hash__ = object.__hash__  # whoever compiles a law asks for it, and arrays have none

    @property
    @abc.abstractmethod
    def plant(self) -> System:
        """The system without the control."""

    @abc.abstractmethod
    def unbounded(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> tuple[Value, Float[Array, "r n"]]:
        """The law without its bounds, and the rows R that turn u into a force."""

    @abc.abstractmethod
    def rows(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> Float[Array, "r n"]:
        """R of the force Rᵀu."""

    @abc.abstractmethod
    def with_parameters(self, p: Any) -> Self:
        """The same law for other parameters of the same structure."""

    @abc.abstractmethod
    def bare(self) -> Self:
        """The same law without the fields that `unbounded` does not read: the inputs of a compiled program of it."""

    @abc.abstractmethod
    def check(self, q, v, t) -> None:
        """Raise ValueError for wrong shapes."""

    def __call__(self, q, v, t=0.0, p: Any = None) -> Float[Array, "r"]:
        """u at a state; a plain function for jit, vmap and grad.

        At a state where the law is not defined it raises ValueError; under jit, vmap and grad u is infinite there, and
        never NaN.
        """
        found = self.at(q, v, t, p)
        if not is_traced(found) and not bool(found.defined):
            raise ValueError(
                f"q, v: the law has no value at {np.asarray(q)}, {np.asarray(v)}: the actuators cannot keep the constraint "
                "there, and the law has no limit there. law.at(q, v) reports this without an error"
            )
        return found.u

    def at(self, q, v, t=0.0, p: Any = None) -> Value:
        """u with its generalised force, whether u is defined, and whether it is a limit.

        Args:
            q: (n,); on groups also a mapping, as `simulate` takes it.
            v: (n,), or a mapping.
            t: time.
            p: parameters in place of those of the system.

        Returns:
            A Value.

        Raises:
            ValueError: wrong shapes.
            TypeError: an argument does not hold numbers.
        """
        q, v = self.plant.space.read_point(q, v)
        t = jnp.asarray(as_number(t, "t", "a finite time"), dtype=float)
        law = self if p is None else self.with_parameters(p)
        law.check(q, v, t)
        return _value_at(law.bare(), q, v, t)

    def value(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> Value:
        """u and its force without checks, for traced code."""
        found, rows = self.unbounded(q, v, t)
        if self.lower is None:
            return found
        u = jnp.where(found.defined, jnp.clip(found.u, self.lower, self.upper), jnp.inf)  # no bound makes a value of none
        return found._replace(u=u, force=force_of(rows, u))

    def replace(self, **values) -> Self:
        """The same law with other values of these parameters."""
        return self.with_parameters(self.plant.replace(**values).parameters)

    def saturated(self, lower, upper) -> Self:
        """The law clipped to bounds.

        Args:
            lower: a number, or (r,).
            upper: a number, or (r,).

        Returns:
            min(max(u, lower), upper) as a law.

        Raises:
            ValueError: a bound is not finite, or lower is above upper.
            TypeError: a bound is not a number.
        """
        low, high = (jnp.asarray(as_numbers(x, name)) for x, name in ((lower, "lower"), (upper, "upper")))
        if low.ndim > 1 or high.ndim > 1 or not bool(jnp.all(low <= high)):
            raise ValueError(f"lower, upper: found {low}, {high}; give numbers or (r,), lower ≤ upper")
        is_leaf = lambda x: x is None  # noqa: E731
        return eqx.tree_at(lambda law: (law.lower, law.upper), self, (low, high), is_leaf=is_leaf)

    @property
    def closed(self) -> System:
        """The plant with the law acting at every instant: a System without the constraints that the law enforces.

        Its forces are those of the plant plus Rᵀu, discretized together; its parameters include those of the law.
        """
        plant, own = self.plant, self.bare()

        def forces(q, v, *trailing):
            t, p = _time_and_parameters(plant, trailing)
            law, q, v = own if p is None else own.with_parameters(p), jnp.asarray(q), jnp.asarray(v)
            return force(law.plant, q, v, t) + _value_at(law, q, v, jnp.asarray(t, dtype=float)).force

        return dataclasses.replace(plant, forces=forces)

    def sampled(self, every: int = 1) -> SampledFeedback:
        """The law for `simulate(feedback=…)`, sampled every `every` steps and held in between: accurate to order 1 in
        the sampling time.

        It keeps its own parameters; those of the plant may differ.

        Args:
            every: number of steps between two samples.

        Returns:
            A SampledFeedback, which runs on both back-ends.

        Raises:
            ValueError: every is less than 1.
            TypeError: every is not a whole number.
        """
        own = self.bare()

        def law(q, v, t, *_):
            return _value_at(own, jnp.asarray(q), jnp.asarray(v), jnp.asarray(t, dtype=float)).force

        return SampledFeedback(law, every=every, timed=not self.plant.time_dependent)

    def control(self, t: float, q: np.ndarray, v: np.ndarray, ahead: float) -> np.ndarray:
        """Called by `closed_loop`: u of the state at t, evaluated at the time t + ahead."""
        return np.asarray(_value_at(self.bare(), jnp.asarray(q), jnp.asarray(v), jnp.asarray(t + ahead)).u)

    def push(self, t: float, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Called by `closed_loop`: the generalised force (n,) of the controls u at a state."""
        return np.asarray(_force_at(self.bare(), jnp.asarray(q), jnp.asarray(v), jnp.asarray(t), jnp.asarray(u)))


def force_of(rows: Float[Array, "r n"], u: Float[Array, "r"]) -> Float[Array, "n"]:
    """Rᵀu, and where u is infinite infinite too, or 0 along what no control moves, but never NaN."""
    found = jnp.sum(jnp.where(rows == 0.0, 0.0, rows * u[:, None]), axis=0)
    return jnp.where(jnp.isnan(found), jnp.inf, found)


@seldom
def _value_at(law: Law, q, v, t) -> Value:
    return law.value(q, v, t)


@seldom
def _force_at(law: Law, q, v, t, u):
    return force_of(law.rows(q, v, t), u)


def _time_and_parameters(plant: System, trailing: tuple) -> tuple[Any, Any]:
    """t and p of a user's function's trailing arguments."""
    t = trailing[0] if plant.time_dependent else 0.0
    return t, None if plant.parameters is None else trailing[-1]


def is_realised(constraint: Constraint) -> bool:
    """True if an actuator realises it: one on accelerations, or another with forces of the user's own."""
    return constraint.order == 2 or not constraint.chetaev


def split(system: System) -> tuple[list[Constraint], list[Constraint]]:
    """Those that actuators realise, and those of the plant."""
    realised = [c for c in system.constraints if is_realised(c)]
    return realised, [c for c in system.constraints if not is_realised(c)]


class Affine(NamedTuple):
    """φ (m,) and S (m, m) of φ + S λ = 0, with the sizes of the terms they are sums of; a = drift + responses λ."""

    phi: Float[Array, "m"]
    S: Float[Array, "m m"]
    size_phi: Float[Array, "m"]
    size_S: Float[Array, "m m"]
    drift: Float[Array, "n"]
    responses: Float[Array, "n m"]


def affine(system: System, q: Float[Array, "n"], v: Float[Array, "n"], t) -> Affine:
    """The index-reduced constraints along the motion under forces Rᵀλ: C_a(drift + responses λ) + C_0, at a = 0."""
    rest, (own, others) = jnp.zeros_like(v), split(system)
    wanted = lambda a: jnp.concatenate([reduce_index(system, c, q, v, a, t, order=2) for c in own])  # noqa: E731
    rows = jnp.concatenate([c.force_rows(system, q, v, rest, t) for c in own])
    drift, responses = forced_motion(system, others, rows, q, v, t)
    known, by_a = value_and_jacobian(wanted, rest)
    size = jnp.abs(known) + jnp.abs(by_a) @ jnp.abs(drift)
    return Affine(known + by_a @ drift, by_a @ responses, size, jnp.abs(by_a) @ jnp.abs(responses), drift, responses)


def is_affine(system: System, q: Float[Array, "n"], v: Float[Array, "n"], t) -> bool:
    """True if no constraint bends in the accelerations and no reaction reads them, from their operations."""
    own, others = split(system)

    def acceleration_slopes(a):
        by_a = [jax.jacfwd(lambda x, c=c: reduce_index(system, c, q, v, x, t, order=2))(a).ravel() for c in own]
        return jnp.concatenate(by_a + [c.force_rows(system, q, v, a, t).ravel() for c in (*own, *others)])

    return not depends(acceleration_slopes, jnp.zeros_like(v))


TRUSTED = 1e-12  # relative error of the acceleration up to which the quotient of two small numbers is used as it is
VANISHES = 1e-9  # numerator at the zero of the determinant, relative to its terms
USABLE = 1e-3  # the same, beyond which a quotient that has no limit is no number
# Newton's method to that zero, two turns, for its distance is below 1e-4 of typical sizes, the root of TRUSTED/EPSILON; then
# Gauss's nodes between, four for terms that bend on the way (two err by 1e-5); then the zero itself.
NODES, WEIGHTS = (np.polynomial.legendre.leggauss(4) + np.array([[1.0], [0.0]])) * 0.5
PLACES, SHARES = (1.0, 1.0, *NODES, 1.0), (0.0, 0.0, *WEIGHTS, 0.0)


class Continued(NamedTuple):
    """λ; extended: S is singular there up to rounding, and λ the limit; defined: not so, or there is a limit."""

    u: Float[Array, "m"]
    extended: Bool[Array, ""]
    defined: Bool[Array, ""]


def continue_quotient(function: Callable[[Array], Affine], x: Float[Array, "2n"], size: Float[Array, "2n"]) -> Continued:
    """λ_i = N_i/d by Cramer's rule, d = det S; near d = 0 it is ⟨N_i′⟩/⟨d′⟩, with mean values along x + s ∂d/∂x over
    [s*, 0], where d(s*) = 0: no cancellation. x = (q, v), on groups (η, v). Where N(s*) ≠ 0 the law has a pole. size:
    of the stored numbers.
    """
    function = traced_once(function)
    w, here = jax.grad(lambda y: (_cramer(found := function(y))[0], found), has_aux=True)(x)
    quotient, wrong = _quotient(here)
    blur = EPSILON * jnp.abs(w) @ size  # of d, by rounding of the state: where φ vanishes with d, it moves with it
    certain = (blur <= USABLE * jnp.abs(_cramer(here)[0])) | jnp.all(here.phi == 0.0)
    trusted = (wrong <= TRUSTED) & certain
    steep = jnp.max(jnp.abs(w)) > 0.0
    w = jnp.where(steep, w, 1.0)  # the other side of a choice must not be NaN: derivatives would be

    def terms(s):
        d, over = _cramer(function(x + s * w))
        return jnp.concatenate([d[None], over])

    def near(_):
        def look(s, at):
            place, share = at
            (value, slope), towards = jax.jvp(terms, (s * place,), (jnp.asarray(1.0),)), share == 0.0
            step = value[0] / jnp.where(slope[0] == 0.0, 1.0, slope[0])
            return s - jnp.where(towards & (place == 1.0), step, 0.0), (value, slope * share)

        # One loop over all places, so that the constraints are compiled once.
        _, (values, slopes) = jax.lax.scan(look, jnp.asarray(0.0), (jnp.asarray(PLACES), jnp.asarray(SHARES)))
        means, left = jnp.sum(slopes, axis=0), values[-1]
        zero = jnp.all(jnp.abs(left[1:]) <= VANISHES * _numerator_bound(here)) & steep & (means[0] != 0.0)
        limit = means[1:] / jnp.where(means[0] == 0.0, 1.0, means[0])
        known = (wrong <= USABLE) & certain
        otherwise = jnp.where(known, quotient, jnp.inf)
        return Continued(jnp.where(agree(zero), limit, otherwise), zero, zero | known)

    def far(_):
        return Continued(quotient, jnp.asarray(False), jnp.asarray(True))

    return jax.lax.cond(agree(trusted), far, near, None)


def _cramer(a: Affine) -> tuple[Float[Array, ""], Float[Array, "m"]]:
    """det S, and det S with -φ in the place of each column."""
    m = a.phi.shape[0]
    if m == 1:
        return a.S[0, 0], -a.phi
    replaced = [a.S.at[:, i].set(-a.phi) for i in range(m)]
    return _det(a.S), jnp.stack([_det(x) for x in replaced])


def _det(a: Float[Array, "m m"]) -> Float[Array, ""]:
    """By the first row: its derivative exists where the matrix is singular, which that by LU does not."""
    if a.shape[0] == 1:
        return a[0, 0]
    rest = [_det(jnp.asarray(a[1:][:, np.delete(np.arange(a.shape[0]), i)])) for i in range(a.shape[0])]
    signs = (-1.0) ** np.arange(a.shape[0])
    return jnp.sum(signs * a[0] * jnp.stack(rest))


def _numerator_bound(a: Affine) -> Float[Array, ""]:
    """A bound of the terms of the numerators."""
    if a.phi.shape[0] == 1:
        return a.size_phi[0]
    lengths = jnp.sum(a.size_S, axis=1)
    others = [jnp.prod(jnp.asarray(jnp.delete(lengths, i))) for i in range(lengths.shape[0])]
    return a.size_phi @ jnp.stack(others)


def _quotient(a: Affine) -> tuple[Float[Array, "m"], Float[Array, ""]]:
    """-S⁻¹φ and how far rounding in φ and S changes the acceleration, relatively; infinite at det S = 0."""
    regular = _cramer(a)[0] != 0.0
    S = jnp.where(regular, a.S, jnp.eye(a.phi.shape[0]))  # the other side of a choice must not be NaN
    inverse = 1.0 / S if a.phi.shape[0] == 1 else jnp.linalg.inv(S)
    u = -inverse @ a.phi
    wrong = jnp.linalg.norm(jnp.abs(a.responses @ inverse) @ (EPSILON * (a.size_phi + a.size_S @ jnp.abs(u))))
    size = jnp.linalg.norm(a.drift) + jnp.linalg.norm(a.responses @ u)
    ratio = jnp.where(wrong == 0.0, 0.0, wrong / jnp.where(size > 0.0, size, EPSILON * wrong))
    finite = regular & jnp.isfinite(ratio)
    return u, jax.lax.stop_gradient(jnp.where(finite, ratio, jnp.inf))


@final
class ControlLaw(Law):
    """The law that enforces servo- and Lyapunov constraints.

    u = λ(q, v), with which the servo- and Lyapunov constraints hold: what `control_law` returns.

    Attributes:
        system: the System with the constraints that the law enforces.
        lower: lower bounds of u; None if there are none.
        upper: upper bounds of u; None if there are none.

    Example:
        >>> controlled(jnp.array([0.5]), jnp.array([0.0])).round(6).tolist()  # sin q - q
        [-0.020574]
    """

    system: System
    lower: Any
    upper: Any

    @property
    def plant(self) -> System:
        """The system without the constraints that the law enforces; other constraints, and forces, are kept."""
        return self.system.with_constraints(split(self.system)[1])

    def with_parameters(self, p: Any) -> ControlLaw:
        """The same law of a system with other parameters, of the same structure."""
        return eqx.tree_at(lambda law: law.system.parameters, self, p)

    def bare(self) -> ControlLaw:
        return self

    def check(self, q, v, t) -> None:
        check_shapes(self.system, q, v, t)

    def unbounded(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> tuple[Value, Float[Array, "r n"]]:
        n, system, space = v.shape[0], self.system, group_space(self.system)
        if is_affine(system, q, v, t):
            near, size, move = q, q, lambda x: x
            if space is not None:
                near, size, move = jnp.zeros(n), space.magnitudes(q), functools.partial(space.retract, q)
            terms = lambda x: affine(system, move(x[:n]), x[n:], t)  # noqa: E731
            found = continue_quotient(terms, jnp.concatenate([near, v]), jnp.abs(jnp.concatenate([size, v])))
            rows, u, extended, defined = self._own_rows(q, v, jnp.zeros_like(v), t), found.u, found.extended, found.defined
        else:
            a, every, report = acceleration(system, q, v, t)
            u = jnp.where(report.solved, every[jnp.asarray(_multiplier_places(system, q, v, t))], jnp.inf)
            rows, extended, defined = self._own_rows(q, v, a, t), jnp.asarray(False), report.solved
        return Value(u, force_of(rows, u), extended, defined), rows

    def rows(self, q: Float[Array, "n"], v: Float[Array, "n"], t) -> Float[Array, "r n"]:
        affine = is_affine(self.system, q, v, t)  # then no row reads the acceleration
        return self._own_rows(q, v, jnp.zeros_like(v), t) if affine else self.unbounded(q, v, t)[1]

    def _own_rows(self, q: Float[Array, "n"], v: Float[Array, "n"], a: Float[Array, "n"], t) -> Float[Array, "r n"]:
        return jnp.concatenate([c.force_rows(self.system, q, v, a, t) for c in split(self.system)[0]])


def _multiplier_places(system: System, q, v, t) -> list[int]:
    """The places of the multipliers of the law among those of all constraints."""
    realised, at, found = split(system)[0], 0, []
    for c, m in zip(system.constraints, check_shapes(system, q, v, t), strict=True):
        found += range(at, at + m) if any(c is x for x in realised) else []
        at += m
    return found


def control_law(system: System) -> ControlLaw:
    """Make the control law that enforces servo- and Lyapunov constraints.

    u(q, v) = λ with d/dt L_v - L_q = f + Rᵀλ and the servo- and Lyapunov constraints: the control law that enforces
    them.

    The law enforces these constraints: Lyapunov, SecondOrder, and Nonholonomic and Holonomic ones with reactions= or
    virtual=. The last two are enforced through their time derivatives, from initial data that satisfy them. All other
    constraints belong to the plant.

    If the constraints are affine in the accelerations, φ + S(q, v)λ = 0 is solved. Where det S = 0 and λ = -S⁻¹φ has a
    limit, the law returns the limit: a quotient of two functions that vanish together, computed from mean values of
    their derivatives, without cancellation. For poles see `ControlLaw.at`. Constraints that are not affine are solved
    by Newton's method, as in `acceleration`, without such limits.

    Args:
        system: a System with at least one such constraint.

    Returns:
        A ControlLaw: a function of (q, v[, t][, p]), usable under jit, vmap and grad, with its plant.

    Raises:
        TypeError: system is not a System.
        ValueError: the system has no constraint that a control can enforce.

    Source: Borda, Fernández, Grillo, Section 4.2: the constraint force is the control law.

    Example:
        >>> servo = da.SecondOrder(lambda q, v, a: a + 2.0 * v + q)  # the multiplier is the torque
        >>> law = da.control_law(da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), servo))
        >>> law([0.5], [0.0]).round(6).tolist()  # sin q - q
        [-0.020574]
        >>> da.simulate(law.plant, [0.5], [0.0], h=0.1, steps=10, feedback=law.sampled()).outcome.name
        'SUCCESS'
    """
    check_system(system)
    if not split(system)[0]:
        kinds = ", ".join(type(c).__name__ for c in system.constraints) or "none"
        raise ValueError(
            f"system: its constraints are {kinds}; a control law enforces Lyapunov, SecondOrder, or Nonholonomic and "
            "Holonomic with reactions= or virtual="
        )
    return ControlLaw(system=system, lower=None, upper=None)
