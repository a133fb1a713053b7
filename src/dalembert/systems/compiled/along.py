"""(a, λ) along states that are given."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.native import native_first
from dalembert.systems.compiled.flow import reduced_flow
from dalembert.systems.equations import acceleration
from dalembert.systems.reference import in_machine_code
from dalembert.systems.system import System, check_shapes
from dalembert.tracing import Jitted


def multipliers_along(system: System, q: np.ndarray, v: np.ndarray, t: np.ndarray) -> np.ndarray:
    """λ (K, m) of `acceleration` at states (K, n) and times (K,)."""
    return motion_along(system, q, v, t)[1]


def motion_along(system: System, q: np.ndarray, v: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a, λ), (K, n) and (K, m), of `acceleration` at states (K, n) and times (K,); NaN where there is none."""
    if jax.default_backend() == "cpu" and in_machine_code(system, jnp.asarray(q[0]), jnp.asarray(v[0]), t):
        return native_first(_native_motion, _motion_by_xla, system, q, v, t)
    return _motion_by_xla(system, q, v, t)


def _native_motion(system: System, q, v, t) -> tuple[np.ndarray, np.ndarray]:
    flow = reduced_flow(system, q.shape[1], sum(check_shapes(system, q[0], v[0], t[0])))
    rates, outputs = flow.along(np.concatenate([q, v], axis=1), t)
    return rates[:, q.shape[1] :], outputs[:, :-1]


def _motion_by_xla(system: System, q, v, t) -> tuple[np.ndarray, np.ndarray]:
    a, multipliers = _motion(system, q, v, t)
    return np.asarray(a), np.asarray(multipliers)


@Jitted
def _motion(system: System, q, v, t):
    def one(x, w, s):
        a, multipliers, info = acceleration(system, x, w, s)
        failed = info.singular | info.not_finite | info.not_converged
        return jax.tree.map(lambda y: jnp.where(failed, jnp.nan, y), (a, multipliers))

    return jax.vmap(one)(q, v, t)
