"""Law: a control as a function of the state, the plant it acts on, and how both are put together."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dalembert.numbers import as_number, as_numbers, as_vector, is_traced
from dalembert.step import SampledFeedback
from dalembert.systems.equations import force
from dalembert.systems.pickling import reduced
from dalembert.systems.system import System
from dalembert.tracing import seldom


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


class Law(eqx.Module):
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
            q: (n,).
            v: (n,).
            t: time.
            p: parameters in place of those of the system.

        Returns:
            A Value.

        Raises:
            ValueError: wrong shapes.
            TypeError: an argument does not hold numbers.
        """
        q = as_vector(q, "q")
        v = as_vector(v, "v", q.shape[0])
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
            law = own if p is None else own.with_parameters(p)
            return force(law.plant, q, v, t) + _value_at(law, q, v, jnp.asarray(t, dtype=float)).force

        return System(
            plant.lagrangian, plant.constraints, forces=forces, coordinates=plant.coordinates, parameters=plant.parameters,
            time_dependent=plant.time_dependent,
        )  # fmt: skip

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
            return _value_at(own, q, v, jnp.asarray(t, dtype=float)).force

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
