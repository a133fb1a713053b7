"""The code of a flow that is the same for all equations, as functions of Python."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from dalembert.native.llvm.jit import Loaded


@dataclasses.dataclass(frozen=True)
class FlowCodes:
    """The code that is the same for all equations."""

    field: Loaded
    loop: Loaded

    @functools.cached_property
    def address(self) -> int:
        return self.field.address("field")

    @functools.cached_property
    def project(self) -> int:
        return self.field.address("project")

    @functools.cached_property
    def value(self) -> Callable[..., int]:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)
        return kind(self.address)

    @functools.cached_property
    def along(self) -> Callable[..., None]:
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)(self.field.address("along"))

    @functools.cached_property
    def integrate(self) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 12)(self.loop.address("integrate"))

    def slope(self, told: int, t: float, y: np.ndarray) -> np.ndarray:
        """ẏ, NaN where it has no value."""
        found = np.full_like(y, np.nan)
        return found if not self.value(told, t, y.ctypes.data, found.ctypes.data) else np.full_like(y, np.nan)

    @np.errstate(all="ignore")  # what is too large gives no number, and then a short step
    def first_step(self, told: int, y: np.ndarray, times: np.ndarray, tolerance: float) -> float:
        """A step whose error is about the tolerance: from the sizes of y, ẏ and ÿ; Hairer, Norsett, Wanner, II.4."""
        size = lambda x: float(np.sqrt(np.mean((x / (tolerance * (1.0 + np.abs(y)))) ** 2)))  # noqa: E731
        t, whole, slope = float(times[0]), float(times[-1] - times[0]), self.slope(told, float(times[0]), y)
        state, speed = size(y), size(slope)
        if not np.isfinite(state + speed):
            return min(1e-6, whole)
        short = min(1e-6 if not min(state, speed) >= 1e-5 else 0.01 * state / speed, whole)
        bend = max(speed, size(self.slope(told, t + short, y + short * slope) - slope) / short)
        step = (0.01 / bend) ** 0.125 if bend > 1e-15 else max(1e-6, 1e-3 * short)
        return min(100.0 * short, step, whole) if np.isfinite(step) else short
