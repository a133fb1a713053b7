"""Functions of a plant at the nodes of a path, evaluated row by row."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from dalembert.control.problem import OptimalControl, with_plant_parameters
from dalembert.native import Accumulation, Places, Unsupported, Windowed, compile_accumulation
from dalembert.tracing import remember, seldom


@dataclasses.dataclass(frozen=True)
class RowFunction:
    """function(problem, n, row) → (n,) at rows of `width` numbers, in machine code; by JAX where the plant has none. Its
    code is kept for problems that differ in the parameters of the plant alone."""

    function: Callable
    problem: OptimalControl
    n: int
    width: int

    def __call__(self, rows: Float[np.ndarray, "rows width"]) -> Float[np.ndarray, "rows n"]:
        compiled, one, parameters, shared = self._parts
        if compiled is None:
            return np.asarray(_evaluate(one, rows, parameters))
        found, rows = np.zeros((len(rows), self.n)), np.ascontiguousarray(rows)
        compiled(rows, shared)(len(rows), (), (found.ctypes.data,))
        return found

    @functools.cached_property
    def _parts(self) -> tuple[Callable[[np.ndarray, np.ndarray], Accumulation] | None, _OfOneRow, list, np.ndarray]:
        parameters, tree = jax.tree.flatten(self.problem.parameters)
        one = _OfOneRow(self.function, with_plant_parameters(self.problem, None), self.n, tree)
        compiled = _compile(one, self.width, tuple(np.shape(x) for x in parameters))
        shared = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(x, float)) for x in parameters)])
        return compiled, one, parameters, shared


@dataclasses.dataclass(frozen=True)
class _OfOneRow:
    """The function with the parameters of the plant as arguments; problem: without them."""

    function: Callable
    problem: OptimalControl
    n: int
    tree: Any

    def __call__(self, row, *parameters):
        return (self.function(with_plant_parameters(self.problem, jax.tree.unflatten(self.tree, parameters)), self.n, row),)


@remember(32)
def _compile(one: _OfOneRow, width: int, parameters: tuple[tuple[int, ...], ...]) -> Callable | None:
    try:
        return compile_accumulation(Windowed(one, (), ((width,),), parameters), (Places(tuple(range(one.n)), one.n),))
    except Unsupported:
        return None


@seldom
def _evaluate(one: _OfOneRow, rows, parameters):
    return jax.vmap(lambda row: one(row, *parameters)[0])(rows)
