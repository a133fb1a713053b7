"""One thread for BLAS while small matrices are factorized: more of them wait for one another at full speed."""

from __future__ import annotations

import contextlib
import functools
from typing import Any


def one_blas_thread() -> contextlib.AbstractContextManager[Any]:
    """Inside, NumPy's and SciPy's BLAS compute with one thread; afterwards with as many as before."""
    return _controller().limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  loads its BLAS, which is found once
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
