"""Programs that XLA compiles, kept for as long as everything that their functions read stays the same.

jax.jit compiles a function object once and does not see what changes behind it: a global, a closure, an array changed in
place. Here a program is found by fingerprint. A changed fingerprint means tracing again; XLA compiles again only where the
traced program differs. The programs used least recently go when there are too many.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from dalembert.interrupts import keep_compilation
from dalembert.numbers import is_traced
from dalembert.tracing.arguments import Tree, split, taken_apart
from dalembert.tracing.cache import Remembered
from dalembert.tracing.disk import DISK
from dalembert.tracing.evaluation.program import few
from dalembert.tracing.evaluation.records import as_record
from dalembert.tracing.fingerprint import Same, Walk
from dalembert.tracing.lasting import lasting_hash

MOST = 512  # programs that are kept
CONTEXTS = 512  # after which JAX's own memory is emptied
# JAX keeps what it has traced of inner functions, as of the body of a scan or a jitted helper, by the function alone. Under
# another value of this context it traces them again.
_context = jax.make_user_context(default_value=None)
_numbers = itertools.count(1)
_NUMBERS: Remembered[int] = Remembered(4 * MOST)


def _context_number(walk: Walk, key: Hashable) -> int | None:
    """The number that stands for what was read in this context; None where inner functions of these cannot have changed."""
    if not walk.hands_on or (walk.lasting and not walk.reads_data):
        return None
    return _NUMBERS.of(key if walk.lasting else None, _new_number)


def _new_number() -> int:
    found = next(_numbers)
    if found % CONTEXTS == 0:
        jax.clear_caches()  # JAX keeps what it has traced in each context without limit
    return found


def reading(*things: Any):
    """Context in which JAX traces the inner functions of `things` anew, if they read data that have changed."""
    walk = Walk()
    key = tuple([walk.of(thing) for thing in things])
    return _context(_context_number(walk, key))


class _Entry(NamedTuple):
    """run: arrays → arrays, in this context. out: the tree that is returned. bound: the objects of the arguments that
    can change, where some are in that tree, so that others of equal content do not serve."""

    run: Callable
    context: int | None
    out: Tree
    bound: tuple[Same, ...]


class _Call(threading.local):
    """Arguments of the present call of this thread, and what its trace returned."""

    given: Any = None
    out: Any = None


P = ParamSpec("P")
R = TypeVar("R")

PROGRAMS: Remembered[_Entry] = Remembered(MOST)
TEXTS: Remembered[_Entry] = Remembered(MOST)


class Jitted(Generic[P, R]):
    """function(*arguments) as a program of XLA: arrays in the arguments are its inputs, all else belongs to its fingerprint.

    Under tracing it becomes a part of the outer program. seldom: that NumPy evaluates the first calls, see `few`.
    """

    def __init__(self, function: Callable[P, R], seldom: bool = False):
        functools.update_wrapper(self, function)
        self.function, self.name, self._call = function, getattr(function, "__name__", "program"), _Call()
        self._seldom = seldom

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        return self._find((arguments, named))[1]

    def bound(self, *arguments: Any) -> tuple[Callable[..., Any], Any]:
        """(again, result): `again` is this program for other arrays in the same places, and looks at nothing else anew."""
        entry, result = self._find((arguments, {}))

        def again(*others: Any) -> Any:
            given = others, {}
            return entry.out.fill(self._run(entry.run, entry.context, given, taken_apart(given)[1]))

        return again, result

    def _find(self, given: Any) -> tuple[_Entry, Any]:
        """The program for these arguments, and its result."""
        arrays, walk = [], Walk()
        key = self, split(walk, given, arrays)
        if not walk.lasting:
            return self._new(given, arrays, walk, key)
        entry = PROGRAMS.get(key)
        if entry is not None and entry.bound:
            key = *key, tuple(walk.objects)
            entry = PROGRAMS.get(key)
        if entry is None:
            entry, result = self._new(given, arrays, walk, key)
            PROGRAMS.put(key, entry)
            if entry.bound and len(key) == 2:
                PROGRAMS.put((*key, entry.bound), entry)
            return entry, result
        return entry, entry.out.fill(self._run(entry.run, entry.context, given, arrays))

    def _run(self, run: Callable, context: int | None, given: Any, arrays: list) -> Any:
        outer = self._call.given  # of the same function, where it calls itself
        self._call.given = given
        try:
            with _context(context):
                return run(arrays)
        except KeyboardInterrupt as pressed:
            keep_compilation(pressed)
            raise
        finally:
            self._call.given = outer

    def _new(self, given: Any, arrays: list, walk: Walk, key: Hashable) -> tuple[_Entry, Any]:
        """The program for new arguments, and its result: one that is there already, if only the fingerprint is new."""
        if [id(x) for x in taken_apart(given)[1]] != [id(x) for x in arrays]:
            raise TypeError(f"{self.name}: an argument holds arrays in an order that is not that of its tree")
        run: Any = self._jit()
        context, text = _context_number(walk, key), None
        known = not is_traced(arrays)
        evaluated = None
        if known and self._seldom:
            evaluated = self._numpy_program(run, context, given, arrays, lasting_hash(walk, key))
        if evaluated is not None:
            run = evaluated
        elif known:
            lowered = self._run(run.lower, context, given, arrays).as_text()
            text = self, hashlib.sha256(lowered.encode()).digest()
            same = TEXTS.get(text)
            run, context = (run, context) if same is None else (same.run, same.context)
        found = self._run(run, context, given, arrays)
        out, changeable = self._call.out
        entry = _Entry(run, context, out, tuple(walk.objects) if changeable else ())
        if text is not None:
            TEXTS.put(text, entry)
        return entry, out.fill(found)

    def _numpy_program(self, run: Any, context: int | None, given: Any, arrays: list, key: str | None) -> Callable | None:
        """The program through NumPy, as an earlier process has traced it or as it is traced here; None as in `few`."""
        known = DISK.recall(key)
        if known is not None:
            traced, out = known
            self._call.out = out, False
            return few(traced, run, len(arrays))
        traced = self._run(run.trace, context, given, arrays).jaxpr
        found, (out, changeable) = few(traced, run, len(arrays)), self._call.out
        if found is not None and not changeable:
            DISK.keep(key, as_record((traced, out)))
        return found

    def _jit(self) -> Callable:
        def traced(arrays: list) -> list:
            arguments, named = taken_apart(self._call.given)[0].fill(arrays)
            function: Callable[..., Any] = self.function
            result, walk = function(*arguments, **named), Walk()
            split(walk, result, [])
            out, found = taken_apart(result)
            self._call.out = out, bool(walk.objects)
            return found

        traced.__name__ = traced.__qualname__ = self.name
        # Arrays that are not read stay inputs: without them programs that read different arrays have the same text.
        return jax.jit(traced, keep_unused=True)


def seldom(function: Callable[P, R]) -> Jitted[P, R]:
    """Jitted, for what is called a few times: measurements and checks. Most of their time would be XLA's compilation."""
    return Jitted(function, seldom=True)


@seldom
def over_rows(function: Callable[..., Any], rows: tuple[Any, ...], *given: Any) -> Any:
    """function(*given, *row) at each row of arrays with a leading axis. function: by name, or what closes over values; a
    lambda that reads nothing is another one in every call."""
    return jax.vmap(lambda *row: function(*given, *row))(*rows)


over_many_rows = Jitted(over_rows.function)  # for what is called often, or for so many rows that XLA compiles at once


def traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for a program that calls it in several places: its operations are found, and lowered, once.

    It is made anew whenever the program is, so that nothing that it reads can be out of date.
    """
    return jax.jit(function)


_PASSED: Remembered[Any] = Remembered(256)


class OnShapes(Generic[P, R]):
    """function(*arguments) with traced arguments; what it returns is plain data (shapes, counts).

    Shapes depend on functions and shapes alone: a check that has passed is not made again while what the functions read
    stays the same.
    """

    def __init__(self, function: Callable[P, R]):
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        walk, given = Walk(), (arguments, named)
        key = walk.of(self.function), split(walk, given, [])
        return _PASSED.of(key if walk.lasting else None, lambda: self._trace(given))

    def _trace(self, given: tuple) -> R:
        found, function = [], cast(Callable[..., R], self.function)

        def look(given: tuple):
            found.append(function(*given[0], **given[1]))
            return jnp.zeros(())

        with reading(self.function, given):
            eqx.filter_eval_shape(look, given)
        return found[0]
