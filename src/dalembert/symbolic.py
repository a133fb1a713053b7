"""Between formulas and functions: a system from SymPy's expressions, and the equations of a system as such."""

from __future__ import annotations

import dataclasses
import fractions
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.native import Graph, Tracer, Unsupported, needed_nodes
from dalembert.numbers import check_class, check_x64, described, whole_number
from dalembert.systems import Holonomic, Nonholonomic, SecondOrder, System, check_flat, check_system, with_parameters
from dalembert.systems.equations import all_reactions, force
from dalembert.systems.pickling import made

__all__ = ["SymbolicEquations", "from_sympy", "symbolic_equations"]

MOST = 100  # coordinates


@dataclasses.dataclass(frozen=True)
class SymbolicEquations:
    """The equations of motion as SymPy expressions.

    d/dt L_v - L_q = f + Rᵀλ and φ = 0, as SymPy expressions in q(t), its derivatives, λ and the parameters.

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
        >>> da.symbolic.symbolic_equations(pendulum).motion[0]
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
    """Write the equations of motion as SymPy expressions.

    d/dt L_v - L_q = f + Rᵀλ, φ = 0 as SymPy formulas: the functions are traced and differentiated symbolically.

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
        >>> da.symbolic.symbolic_equations(knife).motion[0]
        -lambda_0(t)*sin(theta(t)) + Derivative(x(t), (t, 2))
    """
    check_x64()
    check_system(system)
    check_flat(system, "symbolic_equations")
    names = coordinate_names(system, n)
    sympy = import_sympy()
    for i, c in enumerate(system.constraints):
        if getattr(c, "virtual", None) is not None:
            raise ValueError(f"system: constraints[{i}] has virtual displacements; formulas need its reactions, reactions=")
    q, v, a = (array([sympy.Symbol(f"{x}_{name}") for name in names]) for x in "qva")
    at = Symbols(q, v, a, array(sympy.Symbol("t")))
    parts = Traced(system, at)
    try:
        lagrangian = parts.of(lambda own, q, v, a, t: own.call(own.lagrangian, q, v, t=t)).item()
        acting = parts.of(lambda own, q, v, a, t: force(own, q, v, t))
        kinematic = parts.of(_residuals)
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


def _residuals(system: System, q, v, a, t):
    found = [c.residual(system, q, v, a, t) for c in system.constraints]
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


def coordinate_names(system: System, n: int | None) -> list[str]:
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


def import_sympy() -> Any:
    """SymPy; ImportError saying how to get it."""
    try:
        import sympy
    except ImportError as error:
        raise ImportError('SymPy is not installed; pip install "dalembert[sympy]"') from error
    return sympy


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
    """Make a system from SymPy expressions.

    L(q, q̇, t), φ(q, q̇, q̈, t) = 0 as SymPy expressions: the System with d/dt L_v - L_q = f + Rᵀλ.

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
    import_sympy()
    from sympy.physics.mechanics import LagrangesMethod

    if isinstance(lagrangian, LagrangesMethod):
        if coordinates is not None or constraints or forces is not None:
            raise ValueError("coordinates, constraints, forces: belong to the LagrangesMethod; give them to it")
        lagrangian, coordinates, constraints, forces = derive_system(lagrangian)
    check_class(parameters, Mapping | None, "parameters", "a mapping from symbols to numbers")
    values = {str(symbol): value for symbol, value in (parameters or {}).items()}
    jets = _jets(_several(coordinates, "coordinates", GIVE))
    given = None if forces is None else _several(forces, "forces", "give an expression for each coordinate")
    acting = None if given is None else [_in_symbols(f, f"forces[{i}]", jets, 1, values) for i, f in enumerate(given)]
    if acting is not None and len(acting) != len(jets.q):
        raise ValueError(f"forces: found {len(acting)} expressions; one for each of n = {len(jets.q)} coordinates is right")
    action = _in_symbols(lagrangian, "lagrangian", jets, 1, values)
    given = _several(constraints, "constraints", "give expressions that vanish along the motion")
    bonds = [_in_symbols(c, f"constraints[{i}]", jets, 2, values) for i, c in enumerate(given)]
    timed = any(x.has(jets.t) for x in (action, *bonds, *(acting or ())))
    names = tuple(values)

    def expression_function(expression: Any, order: int) -> Callable:
        return _python_function(expression, jets[: order + 1], jets.t if timed else None, names)

    orders = [_highest_derivative(bond, jets, f"constraints[{i}]") for i, bond in enumerate(bonds)]
    return System(
        expression_function(action, 1),
        [KINDS[order](expression_function(bond, order)) for bond, order in zip(bonds, orders, strict=True)],
        forces=None if acting is None else expression_function(tuple(acting), 1),
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


def _in_symbols(expression: Any, name: str, jets: Jets, highest: int, values: Mapping[str, Any]) -> Any:
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


def _highest_derivative(bond: Any, jets: Jets, name: str) -> int:
    """The highest derivative of q in a constraint."""
    for order in (2, 1, 0):
        if bond.free_symbols & set(jets[order]):
            return order
    raise ValueError(f"{name}: found {bond}, without any coordinate; give an expression that vanishes along the motion")


@made
def _python_function(expression: Any, jet: tuple[tuple, ...], time: Any, names: tuple[str, ...]) -> Callable:
    """f(q, …[, t][, p]) of an expression, or of a tuple of them."""
    import sympy

    by_name = {
        str(s): s for s in (expression if isinstance(expression, sympy.Expr) else sympy.Tuple(*expression)).free_symbols
    }
    symbols = [s for part in jet for s in part] + ([] if time is None else [time])
    symbols += [by_name.get(name, sympy.Symbol(name)) for name in names]
    formula = sympy.lambdify(symbols, expression, modules="jax", cse=True)
    several = isinstance(expression, tuple)

    def evaluate_expression(*arguments):
        given, rest = arguments[: len(jet)], arguments[len(jet) :]
        numbers = [x[i] for x in given for i in range(len(jet[0]))] + ([] if time is None else [rest[0]])
        found = formula(*numbers, *(rest[-1][name] for name in names))
        return jnp.stack([jnp.asarray(x, float) for x in found]) if several else jnp.asarray(found, float)

    return evaluate_expression


LARGEST = 2000  # scalar operations: more are no formula that anybody reads
SIMPLE = 1000  # a number whose denominator is at most this is a fraction
PLAIN = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "pow": operator.pow, "exp2": lambda x: 2**x, "float": lambda x: x, "agree": lambda x: x,
}  # fmt: skip
POWERS = {"sqrt": (1, 2), "rsqrt": (-1, 2), "cbrt": (1, 3)}
SAME = {
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "exp": "exp", "log": "log", "erf": "erf",
    "erfc": "erfc",
    "lgamma": "loggamma", "atan2": "atan2", "abs": "Abs", "sign": "sign", "floor": "floor", "ceil": "ceiling",
    "max": "Max", "min": "Min", "fmod": "Mod",
}  # fmt: skip
RELATIONS = {"lt": "Lt", "le": "Le", "gt": "Gt", "ge": "Ge", "eq": "Eq", "ne": "Ne", "and": "And", "or": "Or", "not": "Not"}


def expressions(function: Callable, *symbols: np.ndarray) -> np.ndarray:
    """The entries of function(*arrays), as expressions of the arrays' entries.

    symbols: arrays of SymPy's symbols, of the shapes that the function takes. Unsupported, with the place, for what has no
    formula: loops whose length depends on values, more than LARGEST operations.
    """
    tracer = Tracer(Graph(LARGEST))
    named = [tracer.graph.vector(str(k), x.size).reshape(x.shape) for k, x in enumerate(symbols)]
    shapes = [jax.ShapeDtypeStruct(x.shape, np.float64) for x in symbols]
    (nodes,) = tracer.trace(function, *named, shapes=shapes)
    given = {str(k): x.ravel() for k, x in enumerate(symbols)}
    given["captured"] = np.array([number(x) for x in tracer.captured], dtype=object)
    values = _node_values(tracer.graph, nodes.ravel().tolist(), given)
    found = np.empty(nodes.size, dtype=object)
    found[:] = [values[i] for i in nodes.ravel().tolist()]
    return found.reshape(nodes.shape)


def number(x: float | int | bool) -> Any:
    """A number as people write it: 1/2 and 981/100, not 0.5 and 9.81; any other with all its digits."""
    import sympy

    if isinstance(x, bool | np.bool_):
        return sympy.true if x else sympy.false
    near = fractions.Fraction(x).limit_denominator(SIMPLE) if np.isfinite(x) else None
    if near is not None and float(near) == x:
        return sympy.Rational(near.numerator, near.denominator)
    return sympy.Float(x, 17)


def _node_values(g: Graph, outputs: Sequence[int], given: dict[str, np.ndarray]) -> dict[int, Any]:
    values: dict[int, Any] = {}
    for i in needed_nodes(g, outputs):
        op, *args = g.nodes[i]
        if op == "const":
            values[i] = number(args[0])
        elif op == "var":
            values[i] = given[args[0]][args[1]]
        elif op == "pick":
            _, condition, *sides = g.nodes[args[0]]
            values[i] = _apply("select", [values[condition], *(values[side[args[1]]] for side in sides)])
        elif op != "branch":  # whose sides are picked one by one
            values[i] = _apply(op, [values[j] for j in args])
    return values


def _apply(op: str, x: list[Any]) -> Any:
    import sympy

    if op in PLAIN:
        return PLAIN[op](*x)
    if op == "select":
        return sympy.Piecewise((x[1], x[0]), (x[2], True))
    if op in ("expm1", "log1p"):
        return sympy.exp(x[0]) - 1 if op == "expm1" else sympy.log(1 + x[0])
    if op in POWERS:
        return x[0] ** sympy.Rational(*POWERS[op])
    name = SAME.get(op) or RELATIONS.get(op)
    if name is None:
        raise Unsupported(op, "SymPy has no function for it")
    return getattr(sympy, name)(*x)


def derive_system(method: Any) -> tuple[Any, list[Any], list[Any], list[Any] | None]:
    """Lagrangian, coordinates, constraints and forces of a LagrangesMethod, as expressions:

    Q_i = Σ F·∂v/∂q̇_i + Σ M·∂ω/∂q̇_i for the forces F at points with velocity v and the moments M on frames with ω."""
    from sympy.physics.mechanics import Point

    frame, loads = method.inertial, list(method.forcelist)
    coordinates, positions = list(method.q), list(method._hol_coneqs)  # coneqs has their derivatives alone
    t = coordinates[0].args[0]
    forces = None
    if loads:
        rates = [(at.vel(frame) if isinstance(at, Point) else at.ang_vel_in(frame), load) for at, load in loads]
        slopes = [q.diff(t) for q in coordinates]
        forces = [sum(v.diff(u, frame, var_in_dcm=False).dot(load) for v, load in rates) for u in slopes]
    return method._L[0], coordinates, [*positions, *list(method.coneqs)[len(positions) :]], forces
