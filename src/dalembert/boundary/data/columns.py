"""Values in between: what a known solution gives at other times."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def at_times(
    times: Float[np.ndarray, "K"], values: Float[np.ndarray, "K m"], wanted: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "... m"]:
    """Linear between the times, constant beyond them, column by column."""
    columns = [np.interp(wanted.ravel(), times, column) for column in values.T]
    return np.stack(columns, axis=1).reshape(*wanted.shape, -1) if columns else np.zeros((*wanted.shape, 0))
