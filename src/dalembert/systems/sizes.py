"""Typical sizes: a number is small only against the size that belongs to it, in all units and for all origins; and times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from dalembert.numbers import as_array, as_number, as_numbers, as_tolerance, holds_tracer

DIGITS = 3  # to which neighbouring times differ by the step
ROUNDING = 32 * float(np.finfo(float).eps)  # of the terms of a function, that is taken for no residual
CONSISTENT = 1e-8  # a residual relative to the terms of its equation that is taken for zero
LIGHT = 1e-3  # of the size at which a coordinate has the inertia of the others: no coordinate is taken for smaller


def with_inertia(
    sizes: Float[np.ndarray, "n"], inertia: Float[np.ndarray, "n"], part: float = LIGHT
) -> Float[np.ndarray, "n"]:
    """s_j, and at least a thousandth of max_i(s_i √M_i)/√M_j: what is far smaller is rounding of a coordinate at rest.

    inertia: M, |∂²L/∂v_j²| or that of the highest derivative; where it is 0 and s_j too, s_j = max s.
    """
    weight = np.sqrt(np.where(np.isfinite(inertia), np.abs(inertia), 0.0))
    largest = np.max(sizes * weight, initial=0.0)
    least = part * largest / np.where(weight > 0.0, weight, np.inf)
    found = np.maximum(sizes, least)
    return np.where(found > 0.0, found, np.max(found, initial=0.0))


def units_of(matrix: Any, n: int, xp=np) -> Any:
    """1/√|M_jj| for each of n accelerations, and for the multipliers what brings their columns to 1 in rows of size 1.

    matrix: [[M, -Rᵀ], [J, 0]] of (a, λ), an array of NumPy or of xp = jax.numpy. In these units its rank and the pivots
    of its elimination say the same in all units of the coordinates, of the Lagrangian and of the constraints. Powers of
    two: nothing is rounded by them.
    """
    inertia = xp.abs(xp.diagonal(matrix)[:n])
    least = xp.min(xp.where(inertia > 0.0, inertia, np.inf), initial=np.inf)
    inertia = xp.where(inertia > 0.0, inertia, xp.where(xp.isfinite(least), least, 1.0))
    own = inertia**-0.5
    scaled = xp.abs(matrix) * xp.concatenate([own, xp.ones(len(matrix) - n)])
    motion = xp.max(scaled[:n, :n], axis=1, initial=0.0)
    columns = xp.max(scaled[:n, n:] / xp.where(motion > 0.0, motion, 1.0)[:, None], axis=0, initial=0.0)
    return power_of_two(xp.concatenate([own, 1.0 / xp.where(columns > 0.0, columns, 1.0)]), xp=xp)


def power_of_two(x, upwards: bool = False, xp=np):
    """The nearest power of two, or the next one that is not smaller: by these nothing is rounded."""
    exponent = xp.log2(x)
    return xp.exp2(xp.ceil(exponent) if upwards else xp.round(exponent))


def residual_limit(slopes: Float[np.ndarray, "... m n"], sizes, values) -> Float[np.ndarray, "... m"]:
    """The residual of φ that counts as zero: 10⁻⁸ Σ_j|∂φ/∂x_j| s_j, and rounding, 32 ε Σ_j|∂φ/∂x_j||x_j|.

    sizes: s, values: x, both (…, n).
    """
    amounts = CONSISTENT * np.asarray(sizes) + ROUNDING * np.abs(values)
    return np.einsum("...mn,...n->...m", np.abs(slopes), amounts)


def as_scales(scales, n: int) -> Float[np.ndarray, "n"] | None:
    """The user's typical sizes of the coordinates, (n,), positive."""
    if scales is None:
        return None
    found = as_numbers(scales, "scales")
    if found.shape != (n,):
        raise ValueError(f"scales: found {scales!r}; give the typical size of each of the {n} coordinates, shape ({n},)")
    if not np.all(found > 0):
        raise ValueError(f"scales: found {found}; typical sizes are positive and finite")
    return found


def as_step(value: Any, name: str = "h") -> Any:
    """A step of time, not 0."""
    return as_number(value, name, "a finite step that is not 0: positive, or negative for a run backwards in time", bool)


def check_resolved(name: str, largest: float, step: float) -> None:
    """ValueError where the distance of double numbers near `largest` is more than 10⁻³ of the step."""
    apart = math.ulp(float(largest))
    if not apart <= 10.0**-DIGITS * float(step):
        raise ValueError(
            f"{name}: found steps of {float(step):g} at times up to {float(largest):g}, where double numbers are {apart:g} "
            f"apart; the times must resolve the steps to {DIGITS} digits. Count the time from nearer, or use longer steps"
        )


def integration_error(name: str, times: Any, q: Any, why: str = "") -> RuntimeError:
    """The error of a motion that did not reach the last of the times. q: rows, of which the last are not finite."""
    reached = int(np.sum(np.all(np.isfinite(q), axis=1)))
    return RuntimeError(
        f"{name}: the integration failed after t = {float(times[max(reached - 1, 0)]):g} (the solution may cease to exist,"
        f"{why} or raise max_steps or the tolerance); throw=False returns what there is"
    )


def check_times(t: Any, tolerance: Any) -> Any:
    """The times of a reference solution as an array, of NumPy where they are numbers, and its tolerance checked."""
    as_tolerance(tolerance)
    traced = holds_tracer(t)
    times = as_array(t, "t") if traced else as_numbers(t, "t")
    if times.ndim != 1 or times.shape[0] < 2:
        raise ValueError(f"t: found shape {times.shape}; give at least two times in order, the first the initial one")
    if not traced:
        apart = np.diff(times)
        if not (np.all(apart > 0) or np.all(apart < 0)):
            raise ValueError(f"t: found {times}; the times must increase, or decrease for a motion backwards")
    return times
