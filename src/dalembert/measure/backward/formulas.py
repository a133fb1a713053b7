"""Formulas of the terms of a modified equation: a step as a power series in h, and the logarithm of the step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from dalembert.discretize import Scheme, as_scheme
from dalembert.measure.backward.equation import powers_of
from dalembert.measure.perturbed_flow import one_step_map
from dalembert.native import Unsupported
from dalembert.notebook import Described
from dalembert.numbers import whole_number
from dalembert.step.start.prepare import program_for
from dalembert.symbolic import Symbols, Traced, array, coordinate_names, import_sympy
from dalembert.systems import System, check_shapes, check_system


@dataclasses.dataclass(frozen=True)
class ModifiedFormulas(Described):
    """The modified equation as SymPy expressions in q, v, t and the parameters: q̇ = v + Σ h^j f_j^q, v̇ = a + Σ h^j f_j^v.

    Attributes:
        field: (2n,) v and a.
        terms: j → (2n,) f_j, the parts of q̇ first.
        coordinates: the symbols of q.
        velocities: the symbols of v.
        parameters: name of the parameter → its symbol, or an array of symbols.
    """

    field: tuple[Any, ...]
    terms: dict[int, tuple[Any, ...]]
    coordinates: tuple[Any, ...]
    velocities: tuple[Any, ...]
    parameters: dict[str, Any]

    def describe(self) -> str:
        """The terms, one a line."""
        names = [f"d{x}/dt" for x in (*self.coordinates, *self.velocities)]
        rows = [f"{name}: {x}" for name, x in zip(names, self.field, strict=True)]
        return "\n".join(
            rows + [f"{name}, h^{j}: {x}" for j, term in self.terms.items() for name, x in zip(names, term, strict=True)]
        )


def modified_formulas(
    system: System, *, scheme: Scheme | None = None, order: int = 2, n: int | None = None
) -> ModifiedFormulas:
    """f_p, …, f_q of ż = f(z) + h^p f_p(z) + … + h^q f_q(z) as SymPy formulas, for small systems.

    The equations of a step are traced and solved as power series in h. With constraints the formulas hold on them.

    Args:
        system: a System.
        scheme: as for `modified`, not composed: its order is 1 or 2.
        order: q; formulas grow quickly with it.
        n: number of coordinates, if the system does not name them.

    Returns:
        A ModifiedFormulas.

    Raises:
        ValueError: the scheme has no expansion, or is a composition; a function has no formula; or the equations are not
            linear in the acceleration.
        TypeError: an argument is of the wrong type.
        ImportError: SymPy is not installed.

    Source: Hairer, Lubich, Wanner, Geometric Numerical Integration, Section IX.1; Jiménez, Scheurle, Remark 4.5.

    Example:
        >>> found = da.measure.modified_formulas(pendulum, n=1)
        >>> found.terms[2][0]  # of dq/dt, h²: the third derivative of q over 12
        -v_q_0*cos(q_q_0)/12
    """
    check_system(system)
    one_step_map(system, scheme, None, 0.0)
    sympy, chosen = import_sympy(), as_scheme(scheme)
    powers = powers_of(system, chosen, whole_number(order, "order", most=6))
    if chosen.order > 2:
        raise ValueError("scheme: formulas are for a single step of order 1 or 2; the terms of a composition are numbers")
    names = coordinate_names(system, n)
    step = _SeriesOfStep(system, chosen, names, sympy)
    z = [*step.q, *step.v]
    fields: list[list[Any]] = []
    for k, coefficients in enumerate(step.solve(powers[-1] + 1), 1):
        rest = _flow_coefficient(z, [*fields, [sympy.Integer(0)] * len(z)], k, step.t)
        fields.append([sympy.simplify(c - r) for c, r in zip(coefficients, rest, strict=True)])
    terms = {j: tuple(fields[j]) for j in powers}
    return ModifiedFormulas(tuple(fields[0]), terms, tuple(step.q), tuple(step.v), step.parameters)


class _SeriesOfStep:
    """The unknowns of a step as power series: v' = v + h w, λ; rows of constraints count from the power where w enters."""

    def __init__(self, system: System, scheme: Scheme, names: list[str], sympy: Any):
        self.q, self.v = ([sympy.Symbol(f"{x}_{name}") for name in names] for x in "qv")
        self.h, self.t, self.sympy = sympy.Symbol("h"), sympy.Symbol("t"), sympy
        size = len(names)
        sizes = check_shapes(system, jnp.zeros(size), jnp.zeros(size), jnp.zeros(()))
        own = lambda s: program_for(s, sizes, scheme, True)  # noqa: E731
        kinds = [c.order for c, m in zip(system.constraints, sizes, strict=True) for _ in range(m)]
        between = scheme.form_for(system.constraints) != "kick_drift_kick"
        speeds = self.v if between else 2 * self.v
        rows = [1 if order == 1 else 0 for order in kinds] if between else _orders_of_rows(system, sizes)
        self.orders = [1] * len(speeds) + rows
        self.unknown = [sympy.Symbol(f"z_{i}") for i in range(len(self.orders))]
        scaled = [s + self.h * u for s, u in zip(speeds, self.unknown, strict=False)] + self.unknown[len(speeds) :]
        at = Symbols(array(self.q), array(self.v), array(self.unknown), array([self.t, self.h]))
        parts = Traced(system, at)
        try:
            left = parts.of(lambda s, q, v, z, x: own(s).residual(z, q, v, x[0], x[1], jnp.zeros(size)))
            ends = parts.of(lambda s, q, v, z, x: jnp.concatenate(own(s).output_state(z, q, v, x[1])))
        except Unsupported as reason:
            raise ValueError(f"system: has no formula, because of {reason}") from reason
        put = lambda x: sympy.sympify(x).subs(dict(zip(self.unknown, scaled, strict=True)), simultaneous=True)  # noqa: E731
        self.left, self.ends = [sympy.expand(put(x)) for x in left], [put(x) for x in ends]
        self.parameters = parts.symbols

    def solve(self, last: int) -> list[list[Any]]:
        """[h^k] of (q', v'), k = 1, …, last."""
        sympy, known = self.sympy, [self.sympy.Integer(0)] * len(self.unknown)
        fresh = [sympy.Symbol(f"w_{i}") for i in range(len(self.unknown))]
        for k in range(last):
            trial = [x + self.h**k * w for x, w in zip(known, fresh, strict=True)]
            rows = [self._coefficient(x, trial, k + order) for x, order in zip(self.left, self.orders, strict=True)]
            matrix = sympy.Matrix([[sympy.diff(row, w) for w in fresh] for row in rows])
            if matrix.free_symbols & set(fresh):
                raise ValueError("system: its equations are not linear in the acceleration, and have no series of their own")
            side = -sympy.Matrix([row.subs(dict.fromkeys(fresh, 0)) for row in rows])
            found = [sympy.simplify(x) for x in matrix.LUsolve(side)]
            known = [x + self.h**k * w for x, w in zip(known, found, strict=True)]
        return [[self._coefficient(x, known, k) for x in self.ends] for k in range(1, last + 1)]

    def _coefficient(self, expression: Any, unknown: list[Any], k: int) -> Any:
        at = expression.subs(dict(zip(self.unknown, unknown, strict=True)), simultaneous=True)
        return self.sympy.diff(at, self.h, k).subs(self.h, 0) / math.factorial(k)


def _orders_of_rows(system: System, sizes: Sequence[int]) -> list[int]:
    """Of a kick-drift-kick step: φ(q₁) = 0 begins with h², its rate and constraints on velocities with h."""
    orders: list[int] = []
    for c, m in zip(system.constraints, sizes, strict=True):
        orders += {0: [2] * m + [1] * m, 1: [1] * m, 2: [0] * m}[c.order]
    return orders


def _flow_coefficient(z: list[Any], fields: list[list[Any]], k: int, t: Any) -> list[Any]:
    """[h^k] of exp(h L_F) z, F = Σ h^j fields[j], with ∂/∂t in L of fields[0]."""
    parts: dict[int, list[Any]] = {0: list(z)}
    total = [0] * len(z)
    for i in range(1, k + 1):
        new: dict[int, list[Any]] = {}
        for power, g in parts.items():
            for j, field in enumerate(fields):
                if power + j + 1 > k:
                    break
                moved = [sum(x.diff(y) * f for y, f in zip(z, field, strict=True)) + (x.diff(t) if j == 0 else 0) for x in g]
                old = new.get(power + j + 1, [0] * len(z))
                new[power + j + 1] = [a + b / i for a, b in zip(old, moved, strict=True)]
        parts = new
        total = [a + b for a, b in zip(total, parts.get(k, [0] * len(z)), strict=True)]
    return total
