"""Varying: how long each step is, as the user chooses it; and what a run of such steps begins with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from dalembert.numbers import as_function, as_positive, is_traced
from dalembert.step.programs.density import Density, span_of
from dalembert.step.programs.varying import VaryingSteps
from dalembert.step.run.state import Prepared
from dalembert.systems import System
from dalembert.systems.consistency import STEPS
from dalembert.systems.pickling import reduced
from dalembert.systems.sizes import as_step
from dalembert.tracing import Jitted

OF_NODES = (
    "a step of the form 'nodes' is an equation of three nodes, and with two lengths between them it is neither of "
    "order 2 nor its own adjoint. Give a number, or use another form"
)


class Varying(eqx.Module):
    """1/h_{k+1/2} = 1/h_{k-1/2} + G(q_k, v_k), G = d/dt log σ along the motion: steps whose density is proportional to
    σ, and reversible.

    For `h=` of `simulate`, `ensemble` and `prepare`. If σ and the scheme are reversible, a run back from (q_N, -v_N),
    whose first step has the length `path.h_last`, passes through the same nodes, as with constant steps: energy does not
    drift. Step control by an error estimate would destroy this. The stages of a composed scheme share the length of their
    step, so that its order is kept. `statistics.leaps` counts the steps that do not follow σ, and a warning is given.

    Args:
        first: length of the first step; negative for a run backwards in time. All other steps are proportional to it.
        density: `density(q, v[, t][, p])` → σ > 0, proportional to the number of steps per unit of time. None: the
            speed along the curve (q, τv), σ² = |v|² + τ²|a|² in the kinetic metric, with the acceleration a.
        span: τ, a time, for the default density; None takes the time in which velocity and acceleration change at the
            start, 1/ω for an oscillator.

    Raises:
        ValueError: first is 0 or not finite, span is not positive, or span is given together with a density.
        TypeError: density is not a function, or first or span is not a number.

    Source: Hairer, Söderlind, Explicit, time reversible, adaptive step size control, SIAM J. Sci. Comput. 26 (2005),
    where the density of a step is ε/h. The default σ: Huang, Leimkuhler, SIAM J. Sci. Comput. 18 (1997).

    Example:
        >>> path = da.simulate(pendulum, [1.0], [0.0], h=da.Varying(0.1), until=2.0)
        >>> float(path.t[-1]), path.outcome.name
        (2.0, 'SUCCESS')
    """

    first: Any
    density: Callable | None = eqx.field(static=True)
    span: Any

    __reduce__ = reduced

    def __init__(self, first: Any, density: Callable | None = None, span: float | None = None):
        self.first = as_step(first, "first")
        right = "of (q, v) that returns a positive number"
        self.density = None if density is None else as_function(density, "density", right)
        self.span = None if span is None else as_positive(span, "span", "a positive time")
        if span is not None and density is not None:
            raise ValueError("span: found together with density; it belongs to the default density. Leave one of them out")

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers for the provenance, which has the density among its functions."""
        return {"first": self.first} | ({} if self.span is None else {"span": self.span})


def varied(prepared: Prepared, varying: Varying, h: Any, t0: Any, until: Any = None) -> Prepared:
    """The same start with steps of varying length. h: of the first; until: the time at or after which the run ends, or None.

    h is ε: the first step has the density 1.
    """
    base = prepared.program
    if base.system.why_equal_steps or base.starting_nodes:
        raise ValueError(f"h: found Varying; {base.system.why_equal_steps or OF_NODES}")
    # By NumPy where the values are known: each small operation of JAX takes longer than a short run.
    xp: Any = jnp if is_traced(prepared, h, t0, until, varying.span) else np
    own_span = None if varying.span is None else xp.asarray(varying.span, dtype=float)
    start = (prepared.q, base.velocity(prepared.s), xp.asarray(t0, dtype=float))
    found = _at_start(base.system, Density(varying.density, own_span), *start, STEPS * xp.abs(h))
    if not is_traced(found):
        found = tuple(map(np.asarray, found))
        _check_start(float(found[1]), float(found[2]), varying)
    sign = xp.sign(h)
    limit = xp.stack([xp.inf * xp.ones(()) if until is None else sign * until, sign * xp.ones(())])
    steps: Any = VaryingSteps  # pyright takes `system` for one of its fields
    unit = found[1] / (1.0 - 0.5 * h * found[2])  # over ρ at the start, half a step before 1
    program = steps(base, Density(varying.density, found[0]), unit, xp.asarray(limit, dtype=float))
    own = [0.0, 0.0, 1.0, t0, 0.0]  # no stage is done; the first step has the density 1, and the length ε
    s = xp.concatenate([xp.asarray(prepared.s), xp.stack([xp.asarray(x, dtype=float) for x in own])])
    return prepared._replace(program=program, s=s)


@Jitted
def _at_start(system: System, density: Density, q, v, t, otherwise):
    """(τ, σ, d/dt log σ)."""
    if density.function is not None:
        density = Density(density.function, jnp.zeros(()))
    elif density.span is None:
        density = Density(None, span_of(system, q, v, t, otherwise))
    return density.span, *density.value_and_rate(system, q, v, t)


def _check_start(value: float, rate: float, varying: Varying) -> None:
    if value > 0 and np.isfinite(value) and np.isfinite(rate):
        return
    if varying.density is not None:
        raise ValueError(
            f"density: is {value:g} at the start, and its logarithm changes at the rate {rate:g}; it must be positive and "
            "smooth"
        )
    raise ValueError(
        f"h: found Varying without a density; the speed on the curve (q, τv) is {value:g} at the start, where the motion is "
        "at rest in an equilibrium or the kinetic energy is not positive. Give density=, a function of (q, v)"
    )
