"""Typical sizes: a number is small only against the size that belongs to it, whatever the units and the origin."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

DIGITS = 3  # to which neighbouring times differ by the step
ROUNDING = 32 * float(np.finfo(float).eps)  # of the terms of a function, that is taken for no residual
CONSISTENT = 1e-8  # a residual relative to the terms of its equation that is taken for zero
LIGHT = 1e-3  # of the size at which a coordinate has the inertia of the others: no coordinate is taken for smaller


def with_inertia(sizes: Float[np.ndarray, "n"], inertia: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """s_j, and at least a thousandth of max_i(s_i √M_i)/√M_j: what is far smaller is rounding of a coordinate at rest.

    inertia: M, |∂²L/∂v_j²| or that of the highest derivative; where it is 0 and s_j too, s_j = max s.
    """
    weight = np.sqrt(np.where(np.isfinite(inertia), np.abs(inertia), 0.0))
    largest = np.max(sizes * weight, initial=0.0)
    least = LIGHT * largest / np.where(weight > 0.0, weight, np.inf)
    found = np.maximum(sizes, least)
    return np.where(found > 0.0, found, np.max(found, initial=0.0))


def allowed(
    slopes: Float[np.ndarray, "... m n"], sizes, values, tolerance: float = CONSISTENT
) -> Float[np.ndarray, "... m"]:
    """The residual of φ that counts as zero: 10⁻⁸ Σ_j|∂φ/∂x_j| s_j, and rounding, 32 ε Σ_j|∂φ/∂x_j||x_j|.

    sizes: s, values: x, both (…, n).
    """
    amounts = tolerance * np.asarray(sizes) + ROUNDING * np.abs(values)
    return np.einsum("...mn,...n->...m", np.abs(slopes), amounts)


def as_scales(scales, n: int) -> Float[np.ndarray, "n"] | None:
    """The user's typical sizes of the coordinates, (n,), positive."""
    if scales is None:
        return None
    found = np.asarray(scales)
    if found.dtype.kind not in "iuf" or found.shape != (n,):
        raise ValueError(f"scales: found {scales!r}; give the typical size of each of the {n} coordinates, shape ({n},)")
    if not (np.all(np.isfinite(found)) and np.all(found > 0)):
        raise ValueError(f"scales: found {found}; typical sizes are positive and finite")
    return found.astype(float)


def check_resolved(name: str, largest: float, step: float) -> None:
    """ValueError where the distance of double numbers near `largest` is more than 10⁻³ of the step."""
    apart = float(np.spacing(float(largest)))
    if not apart <= 10.0**-DIGITS * float(step):
        raise ValueError(
            f"{name}: found steps of {float(step):g} at times up to {float(largest):g}, where double numbers are {apart:g} "
            f"apart; the times must resolve the steps to {DIGITS} digits. Count the time from nearer, or use longer steps"
        )
