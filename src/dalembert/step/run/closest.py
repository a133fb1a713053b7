"""The root of a step's equations near a point, or the point where they come closest to one.

By machine code for F and F′, in a fraction of the time in which XLA would compile them; by JAX where none can be made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from dalembert.algebra.jacobian import value_and_jacobian
from dalembert.native import CompiledFunction, Unsupported, compile_function
from dalembert.step.programs.base import StepProgram
from dalembert.step.run.branch import Call
from dalembert.systems.compiled.function import LARGEST
from dalembert.tracing import Remembered, Walk, refilled, seldom, split, taken_apart

REMEMBERED = 32  # programs found again without a new trace
EXACT = 1e-6  # |F|, rows scaled, below which there is a root
STEPS = 500
METHODS: dict[Literal["lm", "trf", "dogbox"], int] = {"lm": STEPS, "trf": 100, "dogbox": 100}  # evaluations at most
FAR = 1e100  # stands for what is not finite

_COMPILED: Remembered[CompiledFunction | None] = Remembered(REMEMBERED)
Unknowns = Float[np.ndarray, "z"]
Equations = Callable[[Unknowns], Sequence[np.ndarray]]  # z → F, F′


class Closest(NamedTuple):
    """|F| at the point, the size of the gradient of ½|F|² there over that of the unknowns, and the ratio of the smallest to
    the largest singular value of F′, at the point and at the start; rows are scaled by the start."""

    residual: float
    gradient: float
    flatness: float
    flatness_at_start: float


def closest(program: StepProgram, call: Call, start: Unknowns) -> Closest:
    """min ½|F(z)|² from the start by SciPy's methods for least squares, one after the other until one finds a root.

    Where F ≠ 0 at the lowest point they converge slowly: the method of Broyden, Fletcher, Goldfarb and Shanno goes on from
    there. NaN where F or F′ is not finite at the start.
    """
    from scipy.optimize import least_squares, minimize  # slow to load, and needed only where a step fails

    given = _equations(program, call, start)
    value, matrix = given(start)
    if not (np.all(np.isfinite(value)) and np.all(np.isfinite(matrix))):
        return Closest(*[np.nan] * 4)
    rows = np.max(np.abs(matrix), axis=1)
    rows[rows == 0.0] = 1.0

    def at(z: Unknowns) -> tuple[Unknowns, Float[np.ndarray, "z z"]]:
        value, matrix = given(z)
        return np.nan_to_num(value / rows, nan=FAR, posinf=FAR, neginf=-FAR), np.nan_to_num(matrix / rows[:, None])

    def half(z: Unknowns) -> tuple[float, Unknowns]:
        value, matrix = at(z)
        return 0.5 * float(value @ value), matrix.T @ value

    def size(z: Unknowns) -> float:
        return float(np.linalg.norm(at(z)[0]))

    found, settings = start, dict[str, Any](xtol=1e-12, ftol=1e-12, gtol=1e-12)
    for method, most in METHODS.items():
        if size(found) > EXACT:
            jacobian: Any = lambda z: at(z)[1]  # noqa: E731  SciPy's stubs know it by name only
            other = least_squares(lambda z: at(z)[0], start, jacobian, method=method, max_nfev=most, **settings).x
            found = min(found, other, key=size)
    if size(found) > EXACT:
        options = {"gtol": EXACT * size(found), "maxiter": STEPS}
        found = min(found, minimize(half, found, jac=True, method="BFGS", options=options).x, key=size)
    gradient = float(np.linalg.norm(half(found)[1]) / (1.0 + np.max(np.abs(found))))
    return Closest(size(found), gradient, _flatness(at(found)[1]), _flatness(matrix / rows[:, None]))


def _flatness(matrix: Float[np.ndarray, "z z"]) -> float:
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values[-1] / values[0]) if values[0] > 0 else 0.0


def _equations(program: StepProgram, call: Call, z: Unknowns) -> Equations:
    """F and F′ as a function of z."""
    if z.size <= LARGEST:
        (tree, leaves), walk = taken_apart(program), Walk()
        key, others = (split(walk, program, []), z.shape, call.s.shape), [np.asarray(x, float) for x in (*call, *leaves)]
        code = _COMPILED.get(key) if walk.lasting else None
        if code is None:
            code = _translated(refilled(tree, leaves), z, others)
            if walk.lasting:
                _COMPILED.put(key, code)
        if code is not None:
            return lambda x: code(x, *others)
    again, _ = _by_jax.bound(program, call, z)
    return lambda x: jax.tree.map(np.asarray, again(program, call, x))


def _translated(rebuilt: Callable, z: Unknowns, others: list) -> CompiledFunction | None:
    size = len(Call._fields)

    def both(x, *given):
        program, call = rebuilt(given[size:]), given[:size]
        return value_and_jacobian(lambda y: program.residual(y, *call), x)

    try:
        return compile_function(both, z, *others)
    except Unsupported:
        return None


@seldom
def _by_jax(program: StepProgram, call: Call, z):
    return value_and_jacobian(lambda y: program.residual(y, *call), z)
