"""function(system, *arrays) as machine code: in a fraction of the time that XLA takes to compile it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from dalembert.native import CompiledFunction, Unsupported, compile_function
from dalembert.numbers import outside
from dalembert.systems.system import System, parts_of
from dalembert.tracing import Remembered

LARGEST = 24  # unknowns (a, λ) up to which equations are written out: beyond, XLA compiles loops in less time
REMEMBERED = 128  # programs found again without a new trace


class _Program(NamedTuple):
    """code: None where it cannot be made. tree: of its results."""

    code: CompiledFunction | None
    tree: Any


class SystemFunction:
    """function(system, *arrays) → a tree of float64 arrays."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self._known: Remembered[_Program] = Remembered(REMEMBERED)

    def bound(self, system: System, *arguments: Any) -> Callable[..., Any] | None:
        """Machine code for arrays of the shapes of `arguments`, in NumPy; None where it cannot be made, and under tracing.

        Derivatives of functions that are not finite may be finite here: 0·x is 0 whatever x is.
        """
        if not outside():
            return None
        parts, shapes = parts_of(system), tuple(np.shape(x) for x in arguments)
        key = None if parts.key is None else (parts.key, shapes)
        code, tree = self._known.of(key, lambda: self._compile(parts.rebuilt, shapes, parts.leaves))
        if code is None:
            return None
        return lambda *values: jax.tree.unflatten(tree, code(*values, *parts.leaves))

    def _compile(self, rebuilt: Callable, shapes: tuple, leaves: list) -> _Program:
        function, trees = self.function, []  # what is traced is looked at whole: without the programs that self knows

        def flat(*values):
            own = len(shapes)
            found, tree = jax.tree.flatten(function(rebuilt(values[own:]), *values[:own]))
            trees.append(tree)
            return found

        examples = [np.zeros(shape) for shape in (*shapes, *(np.shape(x) for x in leaves))]
        try:
            return _Program(compile_function(flat, *examples), trees[-1])
        except Unsupported:
            return _Program(None, None)
