"""Scheme: which maps discretize the action, the kinematic and the variational constraints, and in which form to step.

Difference maps lead from neighbouring points to (q, v) or (q, v, a). They are written in increments d = q₁ - q₀ and not in
points, so that a difference of large positions is never formed. To add one, subclass PairMap or TripleMap; a scheme takes
any instance. Orders above two are symmetric compositions of the step, which has to be self-adjoint.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import numerical_rank
from dalembert.notebook import Described
from dalembert.numbers import as_choice, as_flag, as_number, described, is_traced, outside, whole_number
from dalembert.systems import Constraint, System, output_shape, run_on_shapes
from dalembert.tracing import remember, seldom


@dataclasses.dataclass(frozen=True)
class SchemeClaims(Described):
    """The orders and the structure that a scheme declares for a system; `verdict` measures each of them.

    Attributes:
        order: order of q and v at their own times.
        multipliers: order of the multipliers at their own times.
        not_self_adjoint: why the step is not self-adjoint; None if it is.
        keeps_distribution: whether constraints on velocities hold at the states of the run.
        symplectic: whether the step is symplectic on T*Q, for a system without forces and with no other constraints
            than holonomic ones.
        source: the paper, with the number of the theorem or equation.
        consistency: the orders (p, s) of one step from exact data on D: p of (q, v), s of λ at the end of the step.
            None if there are constraints other than those on velocities, or if the step is not a map of (q, v).

    Example:
        >>> da.Scheme(order=4).claims(pendulum).order
        4
    """

    order: int
    multipliers: int
    not_self_adjoint: str | None
    keeps_distribution: bool
    symplectic: bool
    source: str
    consistency: tuple[int, int] | None = None


Vector = Float[Array, "n"]


class PairMap(eqx.Module):
    """Base class of difference maps of two points.

    ρ: Q×Q → TQ near the diagonal, ρ(q, q) = (q, 0). The base class of difference maps of two points.

    Attributes:
        weight: w; the time of the point is t0 + w h.
        __call__: (q0, d, h) → (q, v): q0 (n,), d = q1 - q0 (n,), step h.

    Source: Jiménez, Scheurle, Definition 5.5.

    Example:
        >>> class Later(da.PairMap):  # (q₁, (q₁-q₀)/h)
        ...     weight: float = 1.0
        ...     def __call__(self, q0, d, h):
        ...         return q0 + d, d / h
        >>> q, v = Later()(jnp.array([1.0]), jnp.array([0.5]), 0.1)
        >>> q.tolist(), v.tolist()
        ([1.5], [5.0])
    """

    weight: eqx.AbstractVar[float]

    @abc.abstractmethod
    def __call__(self, q0: Vector, d: Vector, h) -> tuple[Vector, Vector]:
        """ρ(q₀, q₀ + d)."""


class Beta(PairMap):
    """Difference map of two points, with a weight β between them.

    ρ_β(q₀, q₁) = ((1-β) q₀ + β q₁, (q₁-q₀)/h): second order for β = ½, first order otherwise.

    Args:
        beta: β, from 0 to 1.

    Raises:
        ValueError: beta is not between 0 and 1.

    Source: Jiménez, Scheurle, eq. (74). β = 0 is the φ_L of Borda, Fernández, Grillo, Section 4.1.2.

    Example:
        >>> q, v = da.Beta(0.5)(jnp.array([1.0]), jnp.array([0.5]), 0.25)
        >>> q.tolist(), v.tolist()
        ([1.25], [2.0])
    """

    weight: float = eqx.field(static=True)

    def __init__(self, beta: float = 0.5):
        self.weight = as_number(beta, "beta", "a number from 0 to 1", lambda x: 0.0 <= x <= 1.0)

    def __call__(self, q0, d, h):
        return q0 + self.weight * d, d / h

    def inverse(self, q: Vector, v: Vector, h) -> tuple[Vector, Vector]:
        """ρ_β⁻¹(q̃, v) = (q̃ - βhv, q̃ + (1-β)hv), the two nodes (n,) that belong to a point of TQ.

        A point on D gives nodes exactly in D_d = {φ∘ρ_β = 0}: use them as the first nodes of a DiscreteSystem that is
        made with ρ_β.
        """
        return q - self.weight * h * v, q + (1.0 - self.weight) * h * v


class TripleMap(eqx.Module):
    """Base class of difference maps of three points.

    φ⁻¹: Q³ → T⁽²⁾Q near the diagonal, at the time of the middle point. The base class of difference maps of three
    points.

    Attributes:
        __call__: (q1, d0, d1, h) → (q, v, a): q1 (n,), d0 = q1 - q0, d1 = q2 - q1 (n,), step h.

    Example:
        >>> isinstance(da.Central(), da.TripleMap)
        True
    """

    @abc.abstractmethod
    def __call__(self, q1: Vector, d0: Vector, d1: Vector, h) -> tuple[Vector, Vector, Vector]:
        """φ⁻¹(q₁ - d₀, q₁, q₁ + d₁)."""


class Central(TripleMap):
    """Difference map of three points, central and of second order.

    (q₀, q₁, q₂) → (q₁, (q₂-q₀)/2h, (q₂-2q₁+q₀)/h²): second order.

    Attributes:
        __call__: (q1, d0, d1, h) → (q, v, a), as for a TripleMap.

    Source: Borda, Fernández, Grillo, Section 4.1.2.

    Example:
        >>> q, v, a = da.Central()(jnp.array([1.0]), jnp.array([1.0]), jnp.array([2.0]), 1.0)
        >>> v.tolist(), a.tolist()
        ([1.5], [1.0])
    """

    def __call__(self, q1, d0, d1, h):
        return q1, (d0 + d1) / (2 * h), (d1 - d0) / (h * h)


ORDERS = (2, 4, 6, 8, 10)

# The first half of each palindrome; the middle weight is 1 - 2·(their sum).
_HALF = {
    2: (),
    4: (0.414490771794375737142354062861, 0.414490771794375737142354062861),
    6: (
        0.131210471763326394868399564162, 0.133788046391470717921589313462, 0.135833997380519320117908351949,
        0.137688104840642888122737407570, -0.350886392417913674673296270517, 0.112337189169936526946704300815,
    ),
    8: (
        0.130202483088890080878817632097, 0.561162981775108384561964407700, -0.389474962644847286408078598235,
        0.158841906555155600896210745707, -0.395903894133237577336231539348, 0.184539640978315707091832541533,
        0.258374387686322047293979109995, 0.295011723609310298870966240218,
    ),
    10: (
        0.078795722521686417294723304044, 0.313096103415108547739673052134, 0.027918383235078096156594934450,
        -0.229592841593907079447786477455, 0.130962061077164822829611839291, -0.269733405654510736282937541915,
        0.074973343155891443191697130520, 0.111993423999810202153341261598, 0.366133449546226733045952037304,
        -0.399105630136035895917720719068, 0.103087398527471139073967899383, 0.411430873955890233324698091584,
        -0.004866360583135268942917091660, -0.392033353708639893993368706833, 0.051942502962447197131167067829,
        0.050665090759928711311191933656, 0.049674370639731457923302276424,
    ),
}  # fmt: skip


def composition(order: int) -> tuple[float, ...]:
    """γ₁, …, γ_s with Φ_h = φ_{γ_s h} ∘ … ∘ φ_{γ₁ h} of this order, for every self-adjoint φ of order 2.

    Order 4: Suzuki's five stages; 8: seventeen of Kahan and Li (Hairer, Lubich, Wanner, Geometric Numerical Integration,
    Section V.3.2); 10: thirty-five of Sofroniou and Spaletta (Optim. Methods Softw. 20, 2005), solved again to 50 digits.
    Order 6: thirteen stages whose leading error has the least norm found by a search of ours: a quarter less work than nine
    stages of Kahan and Li (benchmarks/compositions.py). The conditions of the order hold to round-off.
    """
    half = _HALF[order]
    return (*half, 1.0 - 2.0 * sum(half), *half[::-1])


@remember(64)
def not_self_adjoint(
    action: Sequence[PairMap] | None, kinematic: TripleMap, variational: TripleMap, distribution: PairMap, state: PairMap
) -> str | None:
    """Why the step with these maps is not its own adjoint; None if it is, to round-off on a few random points.

    Adjoint of ρ: ρ*(q₀, q₁; h) = ρ(q₁, q₀; -h), of φ likewise; the list of the action is reversed as well. The state has to
    be that of its own adjoint too, or the step would end at another point of the interval than it begins at.
    """
    with jax.ensure_compile_time_eval():  # a scheme may be made inside a traced function
        return _asymmetry(action, kinematic, variational, distribution, state)


def _asymmetry(action, kinematic, variational, distribution, state) -> str | None:
    pairs = [("action", rho, sigma) for rho, sigma in zip(action or (), (action or ())[::-1], strict=True)]
    pairs += [("distribution", distribution, distribution), ("state", state, state)]
    for name, rho, sigma in pairs:
        if not _same(_pair(rho, False), _pair(sigma, True)):
            return f"{name}: {rho!r} is not symmetric, ρ(q₁, q₀; -h) ≠ ρ(q₀, q₁; h)"
    for name, phi in (("kinematic", kinematic), ("variational", variational)):
        if not _same(_triple(phi, False), _triple(phi, True)):
            return f"{name}: {phi!r} is not symmetric, φ(q₂, q₁, q₀; -h) ≠ φ(q₀, q₁, q₂; h)"
    return None


_POINTS = np.random.default_rng(0).standard_normal((3, 4))


def _pair(rho: PairMap, reverse: bool) -> list:
    q, d, h = _POINTS[0], 0.1 * _POINTS[1], 0.1
    weight = 1.0 - rho.weight if reverse else rho.weight
    return [*(rho(jnp.asarray(q + d), jnp.asarray(-d), -h) if reverse else rho(jnp.asarray(q), jnp.asarray(d), h)), weight]


def _triple(phi: TripleMap, reverse: bool) -> list:
    q, d0, d1 = (jnp.asarray(x) for x in (_POINTS[0], 0.1 * _POINTS[1], 0.1 * _POINTS[2]))
    return list(phi(q, -d1, -d0, -0.1) if reverse else phi(q, d0, d1, 0.1))


def _same(one: list, other: list) -> bool:
    if is_traced(one, other):  # maps with parameters of their own, which are not known yet
        return True
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(one, other, strict=True))


Form = Literal["drift_kick_drift", "kick_drift_kick", "nodes", "discrete_gradient"]
AT_REST = 1e-10  # rounding of q + d - q, over h or h²
H = 0.5  # the step with which a user's own map is looked at
FORMS: tuple[str, ...] = ("drift_kick_drift", "kick_drift_kick", "nodes", "discrete_gradient")
OF_STATES = ("kick_drift_kick", "discrete_gradient")  # forms whose states are no pairs of nodes: their momenta are L_v


class Scheme(eqx.Module):
    """How a system is discretized: its action, its constraints and the form of a step.

    L_d = h L∘action, D_K = kinematic(C_K) (order 2) or distribution(C_K) (order 1), D_V = C_V at variational.

    The form "nodes": the state is (q_{k-1}, q_k), as in the papers; the second node comes from a starter.

    The form "drift_kick_drift": the same equations on (q̃, v) = state(q_{k-1}, q_k), by default q̃ = (q_{k-1}+q_k)/2
    and v = (q_k-q_{k-1})/h; starts from (q₀, v₀) itself; self-adjoint with the default maps. It is the default without
    holonomic constraints. If state and distribution are the same map, (q̃, v) stays on D exactly: a velocity
    nonholonomic integrator, Jiménez, Scheurle, Definition 5.6, Proposition 5.3.

    The form "kick_drift_kick": nodes and velocities on the manifold of holonomic constraints (RATTLE), other
    constraints at the end of the step. It is the default with holonomic constraints.

    The form "discrete_gradient": states (q, v) on D; L is read along the straight way between two of them. It keeps the
    energy to rounding where L is quadratic in v and reactions do no work, also where the motion is not reversible, and
    L + dS(q, t)/dt gives the states of L. It has no discrete Lagrangian, takes constraints on velocities alone, and costs
    1.5 to 5 times the default.

    Multipliers and constraint forces of orders above 2 are those of the continuous equations at the state after the
    step, which have the order of (q, v) (Jiménez, Scheurle, Remark 4.3); the discrete multipliers belong to the single
    stages.

    Args:
        form: one of these four; None chooses the default for the system's constraints.
        action: one PairMap, or several whose Lagrangians are averaged: (Beta(0), Beta(1)) is the trapezoidal rule.
            Forces of an interval act at its left end through the first map, at its right end through the last. None
            chooses Beta(½), and the trapezoidal rule for a system with a Lyapunov constraint: its forces are then those
            at the node, where the constraint is evaluated, so that for constant mass dV/dt = -F holds there exactly.
        kinematic: the TripleMap of constraints on accelerations, Central() by default.
        variational: the TripleMap of their virtual displacements, Central() by default.
        distribution: the PairMap of constraints on velocities, Beta(½) by default.
        state: the Beta that maps two nodes to the state (q̃, v) of drift_kick_drift; by default the distribution's map
            if that is a Beta.
        order: 2, or 4, 6, 8, 10 by symmetric composition of the step with itself, which has to be self-adjoint.

    Raises:
        TypeError: an argument is not a difference map.
        ValueError: the form or the order is none of those above, the step that is to be composed is not self-adjoint, or
            maps are given with the form discrete_gradient.

    Source: Borda, Fernández, Grillo, eq. (4) and Section 4.1.2; Jiménez, Scheurle, Definition 5.6.

    Example:
        >>> da.simulate(pendulum, [1.0], [0.0], h=0.1, steps=5, scheme=da.Scheme.borda_fernandez_grillo()).levels
        ('mid', 'interior')
    """

    form: Form | None = eqx.field(static=True)
    action: tuple[PairMap, ...] | None
    kinematic: TripleMap
    variational: TripleMap
    distribution: PairMap
    state: Beta
    order: int = eqx.field(static=True)

    def __init__(
        self,
        form: Form | None = None,
        *,
        action: PairMap | Sequence[PairMap] | None = None,
        kinematic: TripleMap | None = None,
        variational: TripleMap | None = None,
        distribution: PairMap | None = None,
        state: Beta | None = None,
        order: int = 2,
    ):
        self.form = None if form is None else as_choice(form, "form", FORMS, "forms")
        maps = action if action is None or isinstance(action, list | tuple) else (action,)
        self.action = None if maps is None else tuple(_map("action", one, None, PairMap) for one in maps)
        if self.action == ():
            raise ValueError("action: found no map; give one PairMap, or several to be averaged")
        self.kinematic = _map("kinematic", kinematic, Central(), TripleMap)
        self.variational = _map("variational", variational, Central(), TripleMap)
        self.distribution = _map("distribution", distribution, Beta(0.5), PairMap)
        self.state = _map("state", state, self.distribution if isinstance(self.distribution, Beta) else Beta(0.5), Beta)
        if whole_number(order, "order") not in ORDERS:
            raise ValueError(f"order: found {order!r}; the orders are {', '.join(map(str, ORDERS))}")
        self.order = int(order)
        if self.form == "discrete_gradient" and not self.has_default_maps:
            raise ValueError(
                "form: found 'discrete_gradient' with maps of the action, the constraints or the state; it has none"
            )
        self._check_composition()

    @property
    def has_default_maps(self) -> bool:
        """True if all maps are those of the default scheme."""
        middle, pairs = Beta(0.5), (self.action or (Beta(0.5),), self.distribution, self.state)
        return pairs == ((middle,), middle, middle) and (self.kinematic, self.variational) == (Central(), Central())

    def _check_composition(self) -> None:
        if self.order == 2:
            return
        reason = not_self_adjoint(self.action, self.kinematic, self.variational, self.distribution, self.state)
        if self.form == "nodes":
            reason = (
                "form: the two nodes of the state are one step apart, and the stages of a composition have different steps"
            )
        if reason:
            raise ValueError(
                f"order: found {self.order}, which composes the step with itself and needs a self-adjoint one of order 2. "
                f"{reason}. Use the forms drift_kick_drift or kick_drift_kick with symmetric maps (the default), or order=2"
            )

    @property
    def weights(self) -> tuple[float, ...]:
        """γ₁, …, γ_s: the step is composed of stages with steps γᵢh."""
        return composition(self.order)

    @classmethod
    def borda_fernandez_grillo(cls) -> Self:
        """The paper's choice: φ_L⁻¹ = (q₀, (q₁-q₀)/h), φ_K⁻¹ = φ_V⁻¹ central, on nodes. Section 4.1.2."""
        return cls("nodes", action=Beta(0.0))

    @classmethod
    def jimenez_scheurle(cls, beta: float = 0.5, *, redefined: bool = True) -> Self:
        """L_d = h L∘ρ_β, D_d: μ∘ρ_β = 0, on (q̃, v) = ρ_β(q_{k-1}, q_k), Definition 5.6.

        β = 0: the (1,0) integrator, linearly explicit for constant mass, eqs. (81, 82); β = ½: the (2,0) integrator, eq.
        (86); β = 1: eqs. (91, 92). They keep D exactly at (q̃, v).

        Args:
            beta: β, from 0 to 1.
            redefined: False: the state is (q_k, (q_k-q_{k-1})/h) instead, eqs. (97, 100b): of order 1 for every β, and with
                β ≠ 1 on a deformed constraint, eq. (98).

        Returns:
            A Scheme.
        """
        state = Beta(beta if as_flag(redefined, "redefined") else 1.0)
        return cls("drift_kick_drift", action=Beta(beta), distribution=Beta(beta), state=state)

    def action_for(self, system: System) -> tuple[PairMap, ...]:
        """The maps of the action that are used for this system; ValueError where the form has no action."""
        if self.form == "discrete_gradient":
            raise ValueError(
                "scheme: the form 'discrete_gradient' has no discrete Lagrangian, which is read here; give another form"
            )
        if self.action is not None:
            return self.action
        controlled = any(c.is_control for c in system.constraints)
        return (Beta(0.0), Beta(1.0)) if controlled and system.space.flat else (Beta(0.5),)

    def form_for(self, constraints: Sequence[Constraint]) -> Form:
        """The form that is used for a system with these constraints; ValueError if the given form cannot satisfy
        them."""
        holonomic = any(c.order == 0 for c in constraints)
        if self.form is None:
            return "kick_drift_kick" if holonomic else "drift_kick_drift"
        if self.form == "drift_kick_drift" and holonomic:
            raise ValueError(
                "scheme: drift_kick_drift has its state between the nodes, off the manifold of a holonomic constraint; "
                "use kick_drift_kick (the default) or nodes"
            )
        if self.form == "discrete_gradient" and any(c.order != 1 for c in constraints):
            raise ValueError(
                "scheme: discrete_gradient takes constraints on velocities alone (Nonholonomic); with constraints on "
                "positions use kick_drift_kick (the default), with those on accelerations drift_kick_drift"
            )
        return self.form

    def state_apart(self, constraints: Sequence[Constraint]) -> float:
        """δ, the part of the step by which the state lies after the place where constraints on velocities are read; 0 where
        it is the same place."""
        if not any(c.order == 1 for c in constraints) or self.form_for(constraints) != "drift_kick_drift" or self.order > 2:
            return 0.0
        return self.state.weight - self.distribution.weight

    def claims(self, system: System) -> SchemeClaims:
        """The orders and the structure that this scheme declares for the system.

        Args:
            system: a System.

        Returns:
            SchemeClaims.
        """
        form = self.form_for(system.constraints)
        reason = not_self_adjoint(self.action, self.kinematic, self.variational, self.distribution, self.state)
        order = 1 if reason else self.order
        between, kinds = form == "drift_kick_drift", {c.order for c in system.constraints}
        one_step = (order, order if order > 2 else 0) if kinds == {1} and form != "nodes" else None
        return SchemeClaims(
            order,
            order,
            reason,
            keeps_distribution=form in OF_STATES or (between and self.state == self.distribution),
            symplectic=form == "kick_drift_kick" or (between and self.order == 2),
            source="Jiménez, Scheurle, Def. 5.6" if between else "the discrete equations",
            consistency=one_step,
        )


def _map(name: str, given, default, kind: type):
    if given is None and default is not None:
        return default
    if not isinstance(given, kind):
        raise TypeError(f"{name}: found {described(given)}; give a {kind.__name__}, such as {default or Beta(0.5)!r}")
    return given


def check_group_scheme(scheme: Scheme, constraints: Sequence[Constraint]) -> None:
    """ValueError for a scheme that a system on groups cannot have: the maps are those of the default scheme."""
    if not scheme.has_default_maps:
        raise ValueError(f"scheme: found {scheme!r}; on groups the maps are those of the default scheme, Beta(0.5)")
    if (form := scheme.form_for(constraints)) in ("nodes", "discrete_gradient"):
        raise ValueError(f"scheme: found the form {form!r}; on groups take drift_kick_drift or kick_drift_kick")


def check_maps(scheme: Scheme, n: int) -> None:
    """Errors in maps of the user's own: what they return for points of n coordinates."""
    named = [("action", one) for one in scheme.action or ()]
    named += [(name, getattr(scheme, name)) for name in ("kinematic", "variational", "distribution")]
    for name, one in named:
        if type(one) not in (Beta, Central):
            check_map(one, f"scheme: {name}", n)


def check_map(one: PairMap | TripleMap, name: str, n: int) -> None:
    """A map returns (q, v), or (q, v, a), of shape (n,) each; equal points are rest, near them it is invertible."""
    shape = run_on_shapes(_shape_of, one, name, np.zeros(n))
    wanted = (2 if isinstance(one, PairMap) else 3, n)
    if shape != wanted:
        raise ValueError(f"{name}: returns shapes {shape}; {wanted[0]} arrays ({n},) are needed")
    if isinstance(one, PairMap):
        as_number(one.weight, f"{name}: its weight")
    if outside() and not is_traced(one):
        _check_diagonal(one, name, np.cos(1.0 + np.arange(n)))


def _check_diagonal(one: PairMap | TripleMap, name: str, q: np.ndarray) -> None:
    """ρ(q, q) = (q, 0), and ∂(q, v)/∂(q₀, d) regular there: Definition 5.5 of Jiménez and Scheurle, at one point q.

    Where the map has no value at this point nothing is said.
    """
    parts = 2 if isinstance(one, PairMap) else 3
    x = np.concatenate([q, *[np.zeros_like(q)] * (parts - 1)])
    found, slopes = (np.asarray(y) for y in _on_diagonal(one, parts, x))
    if not (np.all(np.isfinite(found)) and np.all(np.isfinite(slopes))):
        return
    points, rest = (("(q, q)", "(q, 0)"), ("(q, q, q)", "(q, 0, 0)"))[parts - 2]
    wrong = np.abs(found - x)
    if np.max(wrong) > AT_REST:
        part = int(np.argmax(wrong)) // len(q)
        value = found.reshape(parts, -1)[part]
        raise ValueError(
            f"{name}: {points} goes to {'qva'[part]} = {value} at q = {q}, h = {H}; a difference map takes equal points to "
            f"rest, {rest}, or D_d does not contain the diagonal and L_d tends to no action"
        )
    rank = numerical_rank(slopes).rank
    if rank < len(x):
        raise ValueError(
            f"{name}: its derivative at {points} has rank {rank} of {len(x)}; a difference map is a diffeomorphism near "
            "equal points, so that velocities tell the points apart"
        )


@seldom
def _on_diagonal(one: PairMap | TripleMap, parts: int, x):
    """The map and its derivative at (q, 0) or (q, 0, 0), in points and increments."""

    def of(y):
        arguments: Any = (*jnp.split(y, parts), jnp.full((), H))
        return jnp.concatenate([jnp.asarray(z) for z in one(*arguments)])

    return of(x), jax.jacfwd(of)(x)


def _shape_of(one: PairMap | TripleMap, name: str, q) -> tuple[int, ...]:
    h = jnp.ones(())

    def result():
        found = one(q, q, h) if isinstance(one, PairMap) else one(q, q, q, h)
        return jnp.stack([jnp.asarray(x) for x in found])

    return output_shape(result, name, "q0, d, h" if isinstance(one, PairMap) else "q1, d0, d1, h")
