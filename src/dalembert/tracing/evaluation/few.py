"""A traced function that is called a few times: by NumPy at first, by XLA from when its compilation pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dalembert.numbers import is_traced
from dalembert.tracing.evaluation.program import Run, UnevaluableError, program

FEW = 16  # calls that NumPy answers; then XLA compiles, which takes about as long as these


class Few:
    """arrays → arrays, by NumPy for the first calls; the two differ by rounding."""

    def __init__(self, evaluated: Run, compiled: Callable):
        self._evaluated, self._compiled, self._left = evaluated, compiled, FEW

    def __call__(self, arrays: list) -> list:
        if self._left <= 0 or is_traced(arrays):
            return self._compiled(arrays)
        self._left -= 1
        try:
            with np.errstate(all="ignore"):
                found = self._evaluated(*map(np.asarray, arrays))
        except (UnevaluableError, np.linalg.LinAlgError):
            self._left = 0
            return self._compiled(arrays)
        return [jax.device_put(np.array(x)) for x in found]  # copies: what is returned may be what was given


def few(traced: Any, compiled: Callable, count: int) -> Callable | None:
    """`compiled` through NumPy; None where there is no CPU or no rule.

    traced: its jaxpr. count: of the arrays it is called with. It reads more where a function of the user's closes over a
    value that is being traced outside, which has no number.
    """
    if jax.default_backend() != "cpu" or len(traced.jaxpr.invars) != count:
        return None
    try:
        return Few(program(traced), compiled)
    except UnevaluableError:
        return None
