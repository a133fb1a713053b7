"""From a JAX function to nodes of a graph: an interpreter of jaxprs on arrays of nodes.

Only what the wanted outputs need is visited, so that an untranslatable primitive matters only where its result is used.
Numbers that a function closes over become inputs, "captured", so that other values do not change the program; their
zeros and ones, and whole numbers, are part of the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from dalembert.algebra import left_to_the_reader, spelled_out
from dalembert.native.graph.dependence import needed_nodes
from dalembert.native.graph.derivative import jacobian
from dalembert.native.graph.graph import Graph, Unsupported
from dalembert.native.graph.simplify import replace_nodes
from dalembert.native.trace.elementwise import ELEMENTWISE, Nodes, check_type, constants, elementwise, narrow
from dalembert.native.trace.indexing import STRUCTURE
from dalembert.native.trace.linear_algebra import LINEAR, Samples, linear_solve
from dalembert.native.trace.place import describe_error, place_of
from dalembert.tracing import reading
from dalembert.tracing.evaluation.program import INNER, is_gaussian, needed_equations, scan_sizes

CUSTOM = frozenset(["stop_gradient", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"])
SOLVING = frozenset(["custom_linear_solve", "lu", "triangular_solve", "cholesky"])
LONGEST_LOOP = 10_000
LARGEST_CAPTURE = 100_000


class Tracer:
    """Translates functions into one graph, and collects the values of captured arrays in the order they are met.

    declared: nodes whose effect on a derivative is what somebody says, by stop_gradient or a rule of their own.
    samples: nodes ↦ numbers they may have, for the choice of pivots; None where nobody knows.
    """

    samples: Samples = None

    def __init__(self, graph: Graph):
        self.graph = graph
        self.captured: list[float] = []
        self.declared: set[int] = set()
        self._seen: dict[int, tuple[Any, Nodes]] = {}
        self._inside: list[Any] = []  # the equations that are being translated, one within the other
        self._read: dict[int, tuple[Any, list]] = {}  # a jaxpr, which a solve or a loop runs many times, and its equations

    def __getstate__(self) -> dict[str, Any]:
        """What was found, without the objects in which it was."""
        return {"graph": self.graph, "captured": self.captured, "declared": self.declared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["graph"])
        self.__dict__.update(state)

    def trace(self, function: Callable, *inputs: Nodes, shapes: Sequence[jax.ShapeDtypeStruct]) -> list[Nodes]:
        """The outputs of function at arrays of nodes; `shapes` are the shapes and types it is traced with."""
        with reading(function):  # rules of the user's for derivatives are traced as late as in `run`
            with left_to_the_reader():
                jaxpr = jax.make_jaxpr(function)(*shapes)
            return self.run(jaxpr.jaxpr, jaxpr.consts, list(inputs))

    def lift(self, value: Any) -> Nodes:
        """Nodes of a captured array."""
        array = np.asarray(value)
        if array.dtype != np.float64 or array.size == 0:
            return constants(self.graph, array)
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        if array.size > LARGEST_CAPTURE:
            raise Unsupported("constant", f"a function closes over an array of {array.size} numbers")
        fixed = (array == 0) | (np.abs(array) == 1)
        nodes = [
            self.graph.constant(x) if keep else self._capture(x)
            for x, keep in zip(array.ravel().tolist(), fixed.ravel().tolist(), strict=True)
        ]
        result = np.array(nodes, dtype=np.int64).reshape(array.shape)
        self._seen[id(value)] = (value, result)
        return result

    def _capture(self, value: float) -> int:
        self.captured.append(value)
        return self.graph.variable("captured", len(self.captured) - 1)

    def run(self, jaxpr, consts: Sequence[Any], args: Sequence[Nodes]) -> list[Nodes]:
        """Outputs of an open jaxpr at `args`."""
        values: dict[Any, Nodes] = {}

        def read_atom(atom) -> Nodes:
            if isinstance(atom, Literal):
                aval: Any = atom.aval
                return constants(self.graph, np.asarray(atom.val, aval.dtype))
            return values[atom]

        values.update(zip(jaxpr.constvars, (self.lift(c) for c in consts), strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))
        if id(jaxpr) not in self._read:
            operands = lambda eqn: [a if k in _operands_used(eqn) else None for k, a in enumerate(eqn.invars)]  # noqa: E731
            self._read[id(jaxpr)] = jaxpr, [(eqn, operands(eqn)) for eqn in needed_equations(jaxpr, _operands_used)]
        for eqn, used in self._read[id(jaxpr)][1]:
            outputs = self._translate(eqn, [None if a is None else read_atom(a) for a in used])
            values.update(zip(eqn.outvars, outputs, strict=True))
        return [read_atom(v) for v in jaxpr.outvars]

    def run_closed(self, jaxpr: ClosedJaxpr | Any, args: Sequence[Nodes]) -> list[Nodes]:
        """Outputs of a jaxpr that may carry its own constants."""
        return self.run(jaxpr.jaxpr, jaxpr.consts, args) if hasattr(jaxpr, "jaxpr") else self.run(jaxpr, [], args)

    def _translate(self, eqn, x: list[Any]) -> list[Nodes]:
        """The outputs of an equation; Unsupported, with its place, where that fails for whatever reason."""
        self._inside.append(eqn)
        try:
            return self._apply(eqn, x)
        except Exception as error:
            found = error if isinstance(error, Unsupported) else Unsupported(eqn.primitive.name, describe_error(error))
            found.place = found.place or place_of(self._inside)
            raise found from error
        finally:
            self._inside.pop()

    def _apply(self, eqn, x: list[Any]) -> list[Nodes]:
        name, g = eqn.primitive.name, self.graph
        for v in (*eqn.outvars, *eqn.invars):
            if hasattr(v.aval, "dtype"):
                check_type(name, v.aval.dtype)
        if is_gaussian(eqn):
            return [elementwise(g, "exp", elementwise(g, "neg", elementwise(g, "mul", x[0], x[0])))]
        if name in CUSTOM:
            self.declared.update(i for a in x for i in a.ravel().tolist())
        if name in INNER:
            return self.run_closed(eqn.params[INNER[name]], x)
        if name in _CONTROL:
            return _CONTROL[name](self, eqn, x)
        if name in ELEMENTWISE:
            result: Any = ELEMENTWISE[name](g, eqn.params, *x)
        elif name in STRUCTURE or name in LINEAR:
            result = (STRUCTURE if name in STRUCTURE else LINEAR)[name](g, eqn, *x)
        else:
            raise Unsupported(name, "there is no translation of it")
        results = result if eqn.primitive.multiple_results else [result]
        return [narrow(g, y, v.aval.dtype) for y, v in zip(results, eqn.outvars, strict=True)]


def _operands_used(eqn) -> range | list[int]:
    """Which operands of an equation matter: a linear solve is done from its matrix and right-hand side alone."""
    if eqn.primitive.name != "custom_linear_solve":
        return range(len(eqn.invars))
    lengths = eqn.params["const_lengths"]
    before = sum(lengths)
    return [*range(lengths.matvec), *range(before, len(eqn.invars))]


def _mentions(jaxpr, names: frozenset[str]) -> bool:
    """True if one of these primitives occurs."""
    for eqn in jaxpr.eqns:
        parts = (p if isinstance(p, tuple | list) else (p,) for p in eqn.params.values())
        inner = [getattr(p, "jaxpr", p) for part in parts for p in part]
        if eqn.primitive.name in names or any(hasattr(j, "eqns") and _mentions(j, names) for j in inner):
            return True
    return False


def _cond(tracer: Tracer, eqn, x: list[Nodes]) -> list[Nodes]:
    """A branch whose sides are evaluated only where they are taken."""
    g, branches = tracer.graph, eqn.params["branches"]
    which, args = int(x[0]), x[1:]
    known = g.value(which)
    if known is not None:
        return tracer.run_closed(branches[min(max(int(known), 0), len(branches) - 1)], args)
    outputs = tracer.run_closed(branches[0], args)
    for k, branch in enumerate(branches[1:], start=1):
        taken = tracer.run_closed(branch, args)
        if len(branches) == 2:
            here = _truth(g, which)
        else:
            here = g.apply("ge" if k == len(branches) - 1 else "eq", which, g.constant(k))
        outputs = _choose(g, here, taken, outputs)
    return outputs


def _truth(g: Graph, index: int) -> int:
    """The condition behind an index that was a truth value."""
    node = g.nodes[index]
    if g.kind[index] == "b":
        return index
    return node[1] if node[0] == "int" and g.kind[node[1]] == "b" else g.apply("gt", index, g.constant(0))


def _choose(g: Graph, condition: int, if_true: list[Nodes], if_false: list[Nodes]) -> list[Nodes]:
    flat = [np.concatenate([a.ravel() for a in side]).tolist() if side else [] for side in (if_true, if_false)]
    chosen = np.array(g.choose(condition, *flat), dtype=np.int64)
    parts = np.split(chosen, np.cumsum([a.size for a in if_true])[:-1])
    return [p.reshape(a.shape) for p, a in zip(parts, if_true, strict=True)]


def _while(tracer: Tracer, eqn, x: list[Nodes]) -> list[Nodes]:
    """A loop whose number of turns does not depend on the state, unrolled."""
    p = eqn.params
    a, b = p["cond_nconsts"], p["body_nconsts"]
    carry = x[a + b :]
    for _ in range(LONGEST_LOOP):
        (more,) = tracer.run_closed(p["cond_jaxpr"], [*x[:a], *carry])
        known = tracer.graph.value(int(more))
        if known is None:
            raise Unsupported("while", "the number of turns depends on the state")
        if not known:
            return carry
        carry = tracer.run_closed(p["body_jaxpr"], [*x[a : a + b], *carry])
    raise Unsupported("while", f"more than {LONGEST_LOOP} turns")


def _scan(tracer: Tracer, eqn, x: list[Nodes]) -> list[Nodes]:
    """A scan, unrolled."""
    p, (consts, carries) = eqn.params, scan_sizes(eqn.params)
    if p["length"] > LONGEST_LOOP:
        raise Unsupported("scan", f"more than {LONGEST_LOOP} turns")
    fixed, carry, columns = x[:consts], x[consts : consts + carries], x[consts + carries :]
    rows: list[list[Nodes]] = []
    turns = reversed(range(p["length"])) if p["reverse"] else range(p["length"])
    for i in turns:
        out = tracer.run_closed(p["jaxpr"], [*fixed, *carry, *(c[i] for c in columns)])
        carry = out[:carries]
        rows.append(out[carries:])
    rows = rows[::-1] if p["reverse"] else rows
    shapes = [v.aval.shape for v in eqn.outvars[carries:]]
    return [*carry, *(np.array([r[k] for r in rows], np.int64).reshape(s) for k, s in enumerate(shapes))]


def _custom_linear_solve(tracer: Tracer, eqn, x: list[Nodes]) -> list[Nodes]:
    lengths = eqn.params["const_lengths"]
    fixed, right = x[: lengths.matvec], x[sum(lengths) :]
    image = lambda y: tracer.run_closed(eqn.params["jaxprs"].matvec, [*fixed, *y])  # noqa: E731
    return linear_solve(tracer.graph, image, right, tracer.samples)


def _jacobian(tracer: Tracer, eqn, x: list[Nodes]) -> list[Nodes]:
    """F and F′ by the rules of the graph; by JAX where a derivative is what somebody declares it to be, and where a system
    of equations is solved inside F, whose derivative needs no other elimination."""
    jaxpr, others = eqn.params["jaxpr"], x[:-1]
    if _mentions(jaxpr, CUSTOM):
        tracer.run(jaxpr, [], x)  # for what is declared in F itself: the derivative may not show it
    elif not _mentions(jaxpr, SOLVING):
        try:
            return _by_the_graph(tracer, jaxpr, others, x[-1])
        except Unsupported:  # an operation without a rule: JAX may write its derivative with others
            pass
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    spelled = jax.make_jaxpr(functools.partial(spelled_out, jaxpr=jaxpr))(*shapes)
    return tracer.run(spelled.jaxpr, spelled.consts, x)


def _by_the_graph(tracer: Tracer, jaxpr: Any, others: Sequence[Nodes], z: Nodes) -> list[Nodes]:
    g = tracer.graph
    at = z.tolist()
    known = needed_nodes(g, (i for a in others for i in a.ravel().tolist()))
    plain = all(g.nodes[i][0] == "var" for i in at) and len(set(at)) == len(at) and set(at).isdisjoint(known)
    # Where z is no input of its own, F is differentiated at inputs that are, and those are replaced.
    inputs = z if plain else g.vector(f"z of {len(g.nodes)}", len(at))
    values = tracer.run(jaxpr, [], [*others, inputs])
    flat = [i for v in values for i in v.ravel().tolist()]
    slopes = jacobian(g, flat, inputs.tolist())
    parts = [*values, *np.split(slopes, np.cumsum([v.size for v in values])[:-1])]
    shapes = [v.shape for v in values]
    if not plain:
        sizes = np.cumsum([p.size for p in parts])[:-1]
        every = [i for p in parts for i in p.ravel().tolist()]
        parts = np.split(np.array(replace_nodes(g, every, dict(zip(inputs.tolist(), at, strict=True))), np.int64), sizes)
    return [p.reshape(s) for p, s in zip(parts, [*shapes, *((*s, len(at)) for s in shapes)], strict=True)]


def _platform(tracer: Tracer, eqn, x: list[Nodes]) -> list[Nodes]:
    """Which of several implementations is meant for this platform: the CPU's, or the one for all."""
    for k, names in enumerate(eqn.params["platforms"]):
        if names is None or "cpu" in names:
            return [np.asarray(tracer.graph.constant(k))]
    raise Unsupported("platform_index", "no implementation for the CPU")


_CONTROL: dict[str, Callable[[Tracer, Any, list[Nodes]], list[Nodes]]] = {
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "custom_linear_solve": _custom_linear_solve,
    "platform_index": _platform,
    "jacobian": _jacobian,
    "optimization_barrier": lambda tracer, eqn, x: x,
}


def supported() -> list[str]:
    """Names of all primitives that have a translation."""
    return sorted({*ELEMENTWISE, *STRUCTURE, *LINEAR, *INNER, *_CONTROL})
