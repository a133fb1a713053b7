"""A jaxpr as calls of NumPy, in order; the bodies of branches and loops are such programs of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from dalembert.numbers import is_traced
from dalembert.tracing.evaluation.rules import RULES

INNER = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
         "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr",
         "remat": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}  # fmt: skip
TYPES = frozenset(map(np.dtype, ["f8", "?", "i8", "i4", "i2", "i1", "u4", "u2", "u1"]))
LONGEST = 40_000  # operations in the turns of all loops, in all calls: beyond, XLA's code is worth its compilation
LARGEST = 5_000_000  # numbers in all arrays of a program: they are kept until it ends

Arrays = list[Any]
Run = Callable[..., Arrays]


class UnevaluableError(Exception):
    """An operation that NumPy does not do, or not in a reasonable time."""


def program(closed: Any) -> Run:
    """outputs(*arrays) of a traced function; UnevaluableError where there is no rule."""
    return _Programs().of_jaxpr(closed)


class _Programs:
    """The programs of one traced function; a jaxpr that is called in several places is one.

    operations: how many have been found so far; turned: how many the turns of loops have done, in all calls so far.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Run]] = {}
        self._size, self.operations, self.turned = 0, 0, 0

    def of_jaxpr(self, jaxpr: Any) -> Run:
        """The program of a jaxpr that may carry its own constants."""
        found = self._known.get(id(jaxpr))
        if found is None:
            bare, consts = (jaxpr.jaxpr, jaxpr.consts) if hasattr(jaxpr, "jaxpr") else (jaxpr, [])
            found = self._known[id(jaxpr)] = jaxpr, self._run(bare, consts)
        return found[1]

    def _run(self, jaxpr: Any, consts: Sequence[Any]) -> Run:
        if jaxpr.effects:
            raise UnevaluableError("an effect")
        values: list[Any] = []
        places: dict[Any, int] = {}

        def keep_value(value: Any) -> int:
            values.append(value)
            return len(values) - 1

        def place_of_atom(atom: Any) -> int:
            known: Any = atom.aval
            return keep_value(np.asarray(atom.val, known.dtype)) if isinstance(atom, Literal) else places[atom]

        places.update((v, keep_value(np.asarray(c))) for v, c in zip(jaxpr.constvars, consts, strict=True))
        given = [keep_value(None) for _ in jaxpr.invars]
        places.update(zip(jaxpr.invars, given, strict=True))
        steps = []
        for eqn in needed_equations(jaxpr):
            inputs = [place_of_atom(a) for a in eqn.invars]
            outputs = [keep_value(None) for _ in eqn.outvars]
            places.update(zip(eqn.outvars, outputs, strict=True))
            steps.append((self._function(eqn), inputs, outputs if eqn.primitive.multiple_results else outputs[0]))
        results = [place_of_atom(v) for v in jaxpr.outvars]

        def run(*arrays: Any) -> Arrays:
            held = values.copy()
            for at, x in zip(given, arrays, strict=True):
                held[at] = x
            for function, inputs, outputs in steps:
                found = function(*[held[i] for i in inputs])
                if type(outputs) is int:
                    held[outputs] = found
                else:
                    for at, x in zip(outputs, found, strict=True):
                        held[at] = x
            return [held[at] for at in results]

        return run

    def _function(self, eqn: Any) -> Callable:
        name, atoms = eqn.primitive.name, (*eqn.invars, *eqn.outvars)
        if any(getattr(v.aval, "dtype", None) not in TYPES for v in atoms):
            raise UnevaluableError(f"{name} on other types")
        self._size, self.operations = self._size + sum(v.aval.size for v in eqn.outvars), self.operations + 1
        if self._size > LARGEST:
            raise UnevaluableError("large arrays")
        if is_gaussian(eqn):
            return lambda x: [np.exp(-x * x)]
        if name in INNER:
            return self.of_jaxpr(eqn.params[INNER[name]])
        if name in CONTROL:
            return CONTROL[name](self, eqn)
        rule = RULES.get(name)
        function = None if rule is None else rule(eqn)
        return _by_jax(eqn) if function is None else function


def needed_equations(jaxpr: Any, used: Callable[[Any], Any] = lambda eqn: range(len(eqn.invars))) -> list:
    """The equations the outputs depend on, in order. used: which operands of an equation matter."""
    wanted, kept = {v for v in jaxpr.outvars if not isinstance(v, Literal)}, []
    for eqn in reversed(jaxpr.eqns):
        if any(v in wanted for v in eqn.outvars):
            kept.append(eqn)
            wanted |= {eqn.invars[k] for k in used(eqn) if not isinstance(eqn.invars[k], Literal)}
    return kept[::-1]


def _by_jax(eqn: Any) -> Callable:
    """A primitive without a rule, such as a run of machine code: a small program of XLA for it alone."""
    alone = jax.jit(lambda *x: eqn.primitive.bind(*x, **eqn.params))
    if eqn.primitive.multiple_results:
        return lambda *x: [np.asarray(y) for y in alone(*x)]
    return lambda *x: np.asarray(alone(*x))


def _body(programs: _Programs, jaxpr: Any) -> tuple[Run, int]:
    """The program of one turn of a loop, which is counted, and the number of its operations."""
    before = programs.operations
    found = programs.of_jaxpr(jaxpr)
    each = max(programs.operations - before, 1)

    def turn(*x: Any) -> Arrays:
        programs.turned += each
        if programs.turned > LONGEST:
            raise UnevaluableError(f"more than {LONGEST} operations in loops")
        return found(*x)

    return turn, each


def _cond(programs: _Programs, eqn: Any) -> Run:
    branches = [programs.of_jaxpr(b) for b in eqn.params["branches"]]
    return lambda which, *x: branches[min(max(int(which), 0), len(branches) - 1)](*x)


def _while(programs: _Programs, eqn: Any) -> Run:
    p = eqn.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    more, (body, _) = programs.of_jaxpr(p["cond_jaxpr"]), _body(programs, p["body_jaxpr"])

    def loop(*x: Any) -> Arrays:
        carry = list(x[b:])
        while (going := np.asarray(more(*x[:a], *carry)[0])).any():
            turned = body(*x[a:b], *carry)
            carry = turned if going.ndim == 0 else [_where(going, y, old) for y, old in zip(turned, carry, strict=True)]
        return carry

    return loop


def _where(going: np.ndarray, new: Any, old: Any) -> np.ndarray:
    """Of many loops side by side, those that have ended stay."""
    return np.where(going.reshape(going.shape + (1,) * (np.ndim(new) - going.ndim)), new, old)


def is_gaussian(eqn: Any) -> bool:
    """True for JAX's own exp(-x²), of the derivatives of erf and erfc: newer versions take the bits of x apart."""
    if eqn.primitive.name != "custom_jvp_call":
        return False
    jaxpr = getattr(eqn.params["call_jaxpr"], "jaxpr", eqn.params["call_jaxpr"])
    where = str(jaxpr.debug_info.func_src_info).replace("\\", "/")
    return where.startswith("exp_neg_sq at ") and "/jax/_src/lax/erf.py" in where


def scan_sizes(params: dict[str, Any]) -> list[int]:
    """The numbers of constants and of carried inputs of a scan: numbers, or trees in newer versions of JAX."""
    trees = params["ft_in"].unpack()[:2] if "ft_in" in params else ()
    return [len(x) for x in trees] or [params["num_consts"], params["num_carry"]]


def _scan(programs: _Programs, eqn: Any) -> Run:
    p, (fixed, carried) = eqn.params, scan_sizes(eqn.params)
    carries, length = fixed + carried, p["length"]
    outs, (body, each) = [v.aval for v in eqn.outvars[carried:]], _body(programs, p["jaxpr"])
    if length * each > LONGEST:
        raise UnevaluableError(f"a scan of {length} turns")
    turns = range(length)[::-1] if p["reverse"] else range(length)

    def loop(*x: Any) -> Arrays:
        carry, rows = list(x[fixed:carries]), [np.empty(v.shape, v.dtype) for v in outs]
        for i in turns:
            found = body(*x[:fixed], *carry, *(column[i] for column in x[carries:]))
            carry = found[: len(carry)]
            for row, value in zip(rows, found[len(carry) :], strict=True):
                row[i] = value
        return [*carry, *rows]

    return loop


def _custom_linear_solve(programs: _Programs, eqn: Any) -> Run:
    lengths, solve = eqn.params["const_lengths"], programs.of_jaxpr(eqn.params["jaxprs"].solve)
    before, total = lengths.matvec + lengths.vecmat, sum(lengths)
    return lambda *x: solve(*x[before : before + lengths.solve], *x[total:])


def _platform(programs: _Programs, eqn: Any) -> Callable:
    for k, names in enumerate(eqn.params["platforms"]):
        if names is None or "cpu" in names:
            chosen = np.asarray(k, eqn.outvars[0].aval.dtype)
            return lambda: chosen
    raise UnevaluableError("platform_index")


CONTROL: dict[str, Callable[[_Programs, Any], Callable]] = {
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "custom_linear_solve": _custom_linear_solve,
    "platform_index": _platform,
    "optimization_barrier": lambda programs, eqn: lambda *x: list(x),
}


FEW = 16  # calls that NumPy answers; then XLA compiles, which takes about as long as these


def few(traced: Any, compiled: Callable, count: int) -> Callable | None:
    """`compiled` through NumPy; None where there is no CPU or no rule.

    traced: its jaxpr. count: of the arrays it is called with. It reads more where a function of the user's closes over a
    value that is being traced outside, which has no number.
    """
    if jax.default_backend() != "cpu" or len(traced.jaxpr.invars) != count:
        return None
    try:
        evaluated = program(traced)
    except UnevaluableError:
        return None
    left = FEW

    def run(arrays: list) -> list:
        nonlocal left
        if left <= 0 or is_traced(arrays):
            return compiled(arrays)
        left -= 1
        try:
            with np.errstate(all="ignore"):
                found = evaluated(*map(np.asarray, arrays))
        except (UnevaluableError, np.linalg.LinAlgError):
            left = 0
            return compiled(arrays)
        return [jax.device_put(np.array(x)) for x in found]  # copies: what is returned may be what was given

    return run
