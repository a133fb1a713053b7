"""references: one continuous equation, many initial states and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.native import native_first, outputs_along, travel
from dalembert.native.threads import as_threads
from dalembert.numbers import as_numbers, as_state, described, is_traced, whole_number
from dalembert.systems.checks import check_x64, checked_data
from dalembert.systems.compiled.flow import reduced_flow
from dalembert.systems.initial.batch import check_batch, number_of_runs
from dalembert.systems.initial.proven import proven_runs, read_system
from dalembert.systems.reference import (
    MOST,
    Reference,
    by_diffrax,
    check_times,
    chosen_backend,
    in_machine_code,
    time_scale,
)
from dalembert.systems.system import System, check_shapes, check_system
from dalembert.tracing import Jitted, taken_apart


def references(
    system: System,
    q0,
    v0,
    t: Float[Array, "times"],
    *,
    parameters: Mapping[str, Any] | None = None,
    tolerance: float = 1e-11,
    max_steps: int | None = None,
    backend: Literal["native", "diffrax"] | None = None,
    threads: int | None = None,
) -> Reference:
    """q̇ = v, v̇ = a(q, v, t) as in `reference`, for B sets of initial data and parameters.

    The runs are shared out over threads, each with steps of its own. A run is the same to the last bit whatever the others
    are. No error is raised if an integration fails. Arguments are numbers; in a traced program take jax.vmap of
    `reference`.

    Args:
        system: a System.
        q0: (B, n) positions at t[0], or (n,) for all runs.
        v0: (B, n) velocities at t[0], or (n,) for all runs.
        t: (N+1,) increasing or decreasing times, the same for all runs; the first is the initial time.
        parameters: name → (B, …), in place of the system's values.
        tolerance: on the local error, as in `reference`.
        max_steps: the largest number of steps of the integrator, in each run.
        backend: as in `reference`; "diffrax" integrates all runs side by side, each as long as the longest takes.
        threads: number of threads in machine code; as many as there are processors if None.

    Returns:
        A Reference whose arrays have a leading axis of length B. Where the integration of a run fails, succeeded is
        False, and positions and velocities after the time that it reached are infinite.

    Raises:
        ValueError: an argument has the wrong shape or value; as `reference`, and the message names the run, if only one
            is wrong.
        TypeError: an argument is of the wrong type, or traced.

    Example:
        >>> truth = da.references(pendulum, np.linspace(0.5, 1.5, 4)[:, None], [0.0], [0.0, 1.0, 2.0])
        >>> truth.q.shape, truth.succeeded.tolist()
        ((4, 3, 1), [True, True, True, True])
    """
    check_system(system)
    check_x64()
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters: found {described(parameters)}; give a mapping from names to values (B, …)")
    times, chosen, workers = check_times(t, tolerance), chosen_backend(backend), as_threads(threads)
    steps = MOST if max_steps is None else whole_number(max_steps, "max_steps")
    data = {name: as_numbers(x, name) for name, x in (("q0", q0), ("v0", v0))}
    given, axes = check_batch(system, data, dict(parameters or {}))
    if is_traced(system, given, times):
        raise TypeError("references: works on numbers and not under jit, vmap or grad; there take jax.vmap of reference")
    times = np.asarray(times)
    many = _Many(system, given, axes, number_of_runs(given, axes, "q0, v0", "reference"))
    many.check(times)
    arguments = (many, times, float(tolerance), steps, workers)
    if chosen == "native" and in_machine_code(system, *many.states[0], times):
        return native_first(_native, _diffrax, *arguments)
    return _diffrax(*arguments)


class _Many:
    """states: (B, 2, n) of (q, v); given: (B, G) the arrays of each run's system, flat, None where they are the same."""

    def __init__(self, system: System, given: dict, axes: dict, number: int):
        self.system = system
        q0, v0 = (_first(given[name], axes[name]) for name in ("q0", "v0"))
        sizes = as_state(q0, v0, system.coordinates, as_numbers)
        parts = [np.broadcast_to(given[name], (number, len(x))) for name, x in zip(("q0", "v0"), sizes, strict=True)]
        self.states = np.stack(parts, axis=1)
        self.parameters, self.axes = given["parameters"], axes["parameters"]
        self.given = np.asarray(_arrays(system, self.parameters, self.axes, number)) if self.parameters else None

    def one(self, i: int) -> System:
        """The system of run i."""
        own = {name: x if self.axes[name] is None else x[i] for name, x in self.parameters.items()}
        return self.system.replace(**own) if own else self.system

    def check(self, times: np.ndarray) -> None:
        """The data of every run; those that are not proven to be right are looked at one by one."""
        read = read_system(self.one(0))
        proven = np.zeros(len(self.states), bool) if read is None else proven_runs(read, self.states, times[0], self.given)
        for i in np.flatnonzero(~proven).tolist():
            q, v = self.states[i]
            try:
                checked_data(self.one(i), q, v, times[0], time_scale(times))
            except ValueError as error:
                raise type(error)(f"{error} (run {i} of {len(proven)})") from None


def _first(x: Array, axis: int | None) -> np.ndarray:
    return np.asarray(x if axis is None else x[0])


@Jitted
def _arrays(system: System, parameters: dict, axes: dict, number: int) -> Float[Array, "B G"]:
    def one(own: dict) -> Float[Array, "G"]:
        leaves = taken_apart(system.replace(**own))[1]
        return jnp.concatenate([jnp.ravel(x).astype(float) for x in leaves])

    return eqx.filter_vmap(one, in_axes=(axes,), axis_size=number)(parameters)


def _native(many: _Many, times: np.ndarray, tolerance: float, steps: int, threads: int) -> Reference:
    """Unsupported where a function cannot be translated."""
    q, v = many.states[0]
    flow = reduced_flow(many.one(0), len(q), sum(check_shapes(many.system, q, v, times[0])), True)
    runs = flow.runs(many.states.reshape(len(many.states), -1), times, tolerance, many.given)
    found = travel(flow.code, runs, steps, threads)
    return Reference.solved(times, found, lambda: outputs_along(flow.code, runs, found, threads))


def _diffrax(many: _Many, times: np.ndarray, tolerance: float, steps: int, threads: int) -> Reference:
    given = jnp.asarray(many.states), many.parameters, many.axes
    return _side_by_side(many.system, *given, times, tolerance, max_steps=steps)


@Jitted
def _side_by_side(system, states, parameters, axes, times, tolerance, *, max_steps: int) -> Reference:
    def one(state, own) -> Reference:
        q, v = state
        return by_diffrax(system.replace(**own) if own else system, q, v, times, tolerance, max_steps=max_steps)

    return eqx.filter_vmap(one, in_axes=(0, axes))(states, parameters)
