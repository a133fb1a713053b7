"""symbolic_equations: what a system obeys, as formulas."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.native import Unsupported
from dalembert.numbers import described, whole_number
from dalembert.symbolic.expressions import expressions
from dalembert.systems import System, check_x64
from dalembert.systems.equations import all_reactions, force, value
from dalembert.systems.higher.variational import with_parameters
from dalembert.systems.system import check_system

MOST = 100  # coordinates


@dataclasses.dataclass(frozen=True)
class SymbolicEquations:
    """d/dt L_v - L_q = f + Rᵀλ and φ = 0, as SymPy expressions in q(t), its derivatives, λ and the parameters.

    Attributes:
        lagrangian: L.
        motion: (n,) d/dt L_v - L_q - f - Rᵀλ, one for each coordinate: zero along the motion.
        constraints: φ, zero along the motion, in the order of the system's constraints.
        reactions: (m, n) R.
        coordinates: q(t), functions of t.
        multipliers: λ(t), one for each row of R.
        parameters: name of the parameter → its symbol, or an array of symbols.

    Example:
        >>> pendulum = da.System(lambda q, v, p: 0.5 * v @ v + p["g"] * jnp.cos(q[0]), coordinates=("theta",),
        ...                      parameters={"g": 9.81})
        >>> da.symbolic_equations(pendulum).motion[0]
        g*sin(theta(t)) + Derivative(theta(t), (t, 2))
    """

    lagrangian: Any
    motion: tuple[Any, ...]
    constraints: tuple[Any, ...]
    reactions: Any
    coordinates: tuple[Any, ...]
    multipliers: tuple[Any, ...]
    parameters: dict[str, Any]

    def __str__(self) -> str:
        lines = [f"L = {self.lagrangian}", *(f"0 = {x}" for x in self.motion), *(f"0 = {x}" for x in self.constraints)]
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        from sympy.physics.vector import vlatex

        rows = [rf"L &= {vlatex(self.lagrangian)}", *(rf"0 &= {vlatex(x)}" for x in (*self.motion, *self.constraints))]
        return r"$$\begin{aligned}" + r"\\ ".join(rows) + r"\end{aligned}$$"


def symbolic_equations(system: System, n: int | None = None) -> SymbolicEquations:
    """d/dt L_v - L_q = f + Rᵀλ, φ = 0 as SymPy formulas: the functions are traced and differentiated symbolically.

    For small systems: functions of more than 2000 scalar operations are refused. Nothing is simplified.

    Args:
        system: a System.
        n: number of coordinates, if the system does not name them.

    Returns:
        A SymbolicEquations, which a notebook typesets.

    Raises:
        TypeError: system is not a System.
        ValueError: n is missing, or differs from the number of names; a constraint has virtual displacements instead of
            reactions; or a function has no formula, because of a loop whose length depends on values or too many
            operations.
        ImportError: SymPy is not installed.

    Example:
        >>> blade = da.Nonholonomic(lambda q, v: jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1])
        >>> knife = da.System(lambda q, v: 0.5 * v @ v, blade, coordinates=("x", "y", "theta"))
        >>> da.symbolic_equations(knife).motion[0]
        -lambda_0(t)*sin(theta(t)) + Derivative(x(t), (t, 2))
    """
    check_x64()
    check_system(system)
    names = _names(system, n)
    sympy = imported()
    for i, c in enumerate(system.constraints):
        if getattr(c, "virtual", None) is not None:
            raise ValueError(f"system: constraints[{i}] has virtual displacements; formulas need its reactions, reactions=")
    q, v, a = (array([sympy.Symbol(f"{x}_{name}") for name in names]) for x in "qva")
    at = Symbols(q, v, a, array(sympy.Symbol("t")))
    parts = Traced(system, at)
    try:
        lagrangian = parts.of(lambda own, q, v, a, t: own.call(own.lagrangian, q, v, t=t)).item()
        acting = parts.of(lambda own, q, v, a, t: force(own, q, v, t))
        kinematic = parts.of(_values)
        rows = parts.of(lambda own, q, v, a, t: all_reactions(own, q, v, a, t))
    except Unsupported as reason:
        raise ValueError(f"system: has no formula, because of {reason}") from reason
    multipliers = [sympy.Function(f"lambda_{j}")(at.t.item()) for j in range(len(rows))]
    motion = _euler_lagrange(lagrangian, at) - acting - rows.T.dot(array(multipliers))
    functions = [sympy.Function(name)(at.t.item()) for name in names]
    moving = {x: f.diff(at.t.item(), j) for j, xs in enumerate(at[:3]) for x, f in zip(xs, functions, strict=True)}
    put = np.frompyfunc(lambda expression: sympy.sympify(expression).subs(moving), 1, 1)
    return SymbolicEquations(
        put(lagrangian), tuple(put(motion)), tuple(put(kinematic)), put(rows), tuple(functions), tuple(multipliers),
        parts.symbols,
    )  # fmt: skip


class Symbols(NamedTuple):
    """Arrays of symbols, (n,) each and ()."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    t: np.ndarray


class Traced:
    """The functions of a system at symbols, also its parameters'. symbols: those of the parameters, by name."""

    def __init__(self, system: System, at: Symbols):
        named, self._tree = jax.tree_util.tree_flatten_with_path(system.parameters)
        self._system, self._at = system, at
        self._leaves = [_parameter(path, np.shape(x)) for path, x in named]
        whole = jax.tree.unflatten(self._tree, [x if x.ndim else x.item() for x in self._leaves])
        self.symbols = dict(whole) if isinstance(whole, Mapping) else {} if whole is None else {"p": whole}

    def of(self, function: Callable) -> np.ndarray:
        """function(system, q, v, a, t), as expressions."""

        def called(q, v, a, t, *leaves):
            parameters = jax.tree.unflatten(self._tree, leaves)
            return function(with_parameters(self._system, parameters), q, v, a, t)

        return expressions(called, *self._at, *self._leaves)


def _parameter(path: tuple, shape: tuple[int, ...]) -> np.ndarray:
    """Symbols for one array of parameters: m, or m_0, m_1, …"""
    import sympy

    name = "_".join(re.findall(r"\w+", jax.tree_util.keystr(path))) or "p"
    names = [f"{name}_{'_'.join(map(str, i))}" if shape else name for i in np.ndindex(shape)]
    return array([sympy.Symbol(x) for x in names]).reshape(shape)


def _values(system: System, q, v, a, t):
    found = [value(system, c, q, v, a, t) for c in system.constraints]
    return jnp.concatenate(found) if found else jnp.zeros(0)


def _euler_lagrange(lagrangian: Any, at: Symbols) -> np.ndarray:
    """d/dt L_v - L_q along (v, a)."""
    import sympy

    t, rows = at.t.item(), []
    for q, v in zip(at.q, at.v, strict=True):
        p = sympy.diff(lagrangian, v)
        rate = sum(sympy.diff(p, x) * y for x, y in zip((*at.q, *at.v), (*at.v, *at.a), strict=True))
        rows.append(rate + sympy.diff(p, t) - sympy.diff(lagrangian, q))
    return array(rows)


def _names(system: System, n: int | None) -> list[str]:
    names = system.coordinates
    if names is None:
        if n is None:
            raise ValueError("n: the system has no names of coordinates; say how many there are, or name them")
        return [f"q_{i}" for i in range(whole_number(n, "n", 1, MOST))]
    if n is not None and n != len(names):
        raise ValueError(f"n: found {described(n)}; the system names {len(names)} coordinates")
    return list(names)


def array(items: Any) -> np.ndarray:
    """An array of expressions: NumPy would look into them for rows."""
    found = np.empty(len(items) if isinstance(items, list) else (), dtype=object)
    found[...] = items
    return found


def imported() -> Any:
    """SymPy; ImportError saying how to get it."""
    try:
        import sympy
    except ImportError as error:
        raise ImportError('SymPy is not installed; pip install "dalembert[sympy]"') from error
    return sympy
