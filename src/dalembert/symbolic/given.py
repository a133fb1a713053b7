"""from_sympy: a system from SymPy's expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from dalembert.numbers import described
from dalembert.symbolic.equations import imported
from dalembert.symbolic.mechanics import derived
from dalembert.systems import Holonomic, Nonholonomic, SecondOrder, System
from dalembert.systems.pickling import made

KINDS = (Holonomic, Nonholonomic, SecondOrder)
GIVE = "give functions of time, q1, q2 = sympy.physics.mechanics.dynamicsymbols('q1 q2')"


def from_sympy(
    lagrangian: Any,
    coordinates: Sequence[Any] | None = None,
    constraints: Sequence[Any] = (),
    *,
    forces: Sequence[Any] | None = None,
    parameters: Mapping[Any, float] | None = None,
) -> System:
    """L(q, q̇, t), φ(q, q̇, q̈, t) = 0 as SymPy expressions: the System with d/dt L_v - L_q = f + Rᵀλ.

    The highest derivative in a constraint decides whether it is Holonomic, Nonholonomic or SecondOrder; its reactions
    are ∂φ/∂(highest derivative). The lagrangian may come from `sympy.physics.mechanics.Lagrangian(frame, *bodies)`. A
    `LagrangesMethod` in its place also supplies coordinates, constraints and generalised forces.

    Args:
        lagrangian: an expression in q(t), its first derivatives, t and the parameters; or a LagrangesMethod.
        coordinates: q(t), (n,) functions of time, such as `dynamicsymbols` makes; they give the coordinates their
            names.
        constraints: expressions that are zero along the motion.
        forces: (n,) expressions in q(t), its first derivatives and t: generalised forces.
        parameters: symbol or name → value, for every other symbol in the expressions.

    Returns:
        A System, whose functions are made by `sympy.lambdify` for JAX.

    Raises:
        TypeError: an argument is not an expression, or a coordinate is not a function of time.
        ValueError: a symbol has no value, a derivative is of too high an order, or a constraint contains no coordinate.
        ImportError: SymPy is not installed.

    Example:
        >>> from sympy import cos, symbols
        >>> from sympy.physics.mechanics import dynamicsymbols
        >>> theta, g = dynamicsymbols("theta"), symbols("g")
        >>> pendulum = da.from_sympy(theta.diff() ** 2 / 2 + g * cos(theta), [theta], parameters={g: 9.81})
        >>> path = da.simulate(pendulum, [0.3], [0.0], h=0.01, steps=10)
        >>> path["theta"].shape
        (11,)
    """
    imported()
    from sympy.physics.mechanics import LagrangesMethod

    if isinstance(lagrangian, LagrangesMethod):
        if coordinates is not None or constraints or forces is not None:
            raise ValueError("coordinates, constraints, forces: belong to the LagrangesMethod; give them to it")
        lagrangian, coordinates, constraints, forces = derived(lagrangian)
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters: found {described(parameters)}; give a mapping from symbols to numbers")
    values = {str(symbol): value for symbol, value in (parameters or {}).items()}
    jets = _jets(_several(coordinates, "coordinates", GIVE))
    given = None if forces is None else _several(forces, "forces", "give an expression for each coordinate")
    acting = None if given is None else [_plain(f, f"forces[{i}]", jets, 1, values) for i, f in enumerate(given)]
    if acting is not None and len(acting) != len(jets.q):
        raise ValueError(f"forces: found {len(acting)} expressions; one for each of n = {len(jets.q)} coordinates is right")
    action = _plain(lagrangian, "lagrangian", jets, 1, values)
    given = _several(constraints, "constraints", "give expressions that vanish along the motion")
    bonds = [_plain(c, f"constraints[{i}]", jets, 2, values) for i, c in enumerate(given)]
    timed = any(x.has(jets.t) for x in (action, *bonds, *(acting or ())))
    names = tuple(values)

    def function(expression: Any, order: int) -> Callable:
        return _function(expression, jets[: order + 1], jets.t if timed else None, names)

    orders = [_order(bond, jets, f"constraints[{i}]") for i, bond in enumerate(bonds)]
    return System(
        function(action, 1),
        [KINDS[order](function(bond, order)) for bond, order in zip(bonds, orders, strict=True)],
        forces=None if acting is None else function(tuple(acting), 1),
        coordinates=[x.func.__name__ for x in jets.functions],
        parameters=values or None,
        time_dependent=timed,
    )


class Jets(NamedTuple):
    """Symbols in the place of q(t), q̇(t), q̈(t), in tuples; functions: q(t); t: the time."""

    q: tuple
    v: tuple
    a: tuple
    functions: tuple
    t: Any


def _several(items: Any, name: str, right: str) -> list[Any]:
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise TypeError(f"{name}: found {described(items)}; {right}, in a list")
    return list(items)


def _jets(functions: list[Any]) -> Jets:
    import sympy
    from sympy.core.function import AppliedUndef

    if not functions:
        raise ValueError(f"coordinates: found none; {GIVE}")
    for x in functions:
        if not isinstance(x, AppliedUndef) or len(x.args) != 1 or x.args != functions[0].args:
            raise TypeError(f"coordinates: found {described(x)}; {GIVE}")
    names = [x.func.__name__ for x in functions]
    q, v, a = (tuple(sympy.Symbol(f"{j}_{name}") for name in names) for j in "qva")
    return Jets(q, v, a, tuple(functions), functions[0].args[0])


def _plain(expression: Any, name: str, jets: Jets, highest: int, values: Mapping[str, Any]) -> Any:
    """The expression in symbols instead of functions of time."""
    import sympy

    try:
        found = sympy.sympify(expression)
    except (sympy.SympifyError, TypeError) as error:
        raise TypeError(f"{name}: found {described(expression)}; give a SymPy expression") from error
    if not isinstance(found, sympy.Expr):
        raise TypeError(f"{name}: found {described(expression)}; give a SymPy expression, for an equation left - right")
    found = found.doit()
    for order in (2, 1, 0):  # the derivatives first: they contain the functions
        found = found.subs({x.diff(jets.t, order): s for x, s in zip(jets.functions, jets[order], strict=True)})
    above = found.atoms(sympy.Derivative)
    if highest < 2:
        above |= {x.diff(jets.t, 2) for x, a in zip(jets.functions, jets.a, strict=True) if found.has(a)}
    if above:
        raise ValueError(f"{name}: contains {min(map(str, above))}; derivatives up to order {highest} of q are right")
    unknown = found.free_symbols - {jets.t, *jets.q, *jets.v, *jets.a} - set(map(sympy.Symbol, values))
    unknown = {x for x in unknown if str(x) not in values} | found.atoms(sympy.core.function.AppliedUndef)
    if unknown:
        raise ValueError(
            f"{name}: {', '.join(sorted(map(str, unknown)))} has no value; give it in parameters=, or among the coordinates"
        )
    return found


def _order(bond: Any, jets: Jets, name: str) -> int:
    """The highest derivative of q in a constraint."""
    for order in (2, 1, 0):
        if bond.free_symbols & set(jets[order]):
            return order
    raise ValueError(f"{name}: found {bond}, without any coordinate; give an expression that vanishes along the motion")


@made
def _function(expression: Any, jet: tuple[tuple, ...], time: Any, names: tuple[str, ...]) -> Callable:
    """f(q, …[, t][, p]) of an expression, or of a tuple of them."""
    import sympy

    by_name = {
        str(s): s for s in (expression if isinstance(expression, sympy.Expr) else sympy.Tuple(*expression)).free_symbols
    }
    symbols = [s for part in jet for s in part] + ([] if time is None else [time])
    symbols += [by_name.get(name, sympy.Symbol(name)) for name in names]
    formula = sympy.lambdify(symbols, expression, modules="jax", cse=True)
    several = isinstance(expression, tuple)

    def function(*arguments):
        given, rest = arguments[: len(jet)], arguments[len(jet) :]
        numbers = [x[i] for x in given for i in range(len(jet[0]))] + ([] if time is None else [rest[0]])
        found = formula(*numbers, *(rest[-1][name] for name in names))
        return jnp.stack([jnp.asarray(x, float) for x in found]) if several else jnp.asarray(found, float)

    return function
