"""The continuous reduced equations, integrated: one motion or many, and (a, λ) along states that are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dalembert.algebra import integrate
from dalembert.groups import Columns
from dalembert.lazy import Later
from dalembert.native import Accuracy, Solved, as_threads, native_first, outputs_along, travel
from dalembert.notebook import Described
from dalembert.numbers import as_choice, as_flag, as_numbers, check_x64, is_traced, outside, place_of, whole_number
from dalembert.systems.checks import check_data, check_initial_data
from dalembert.systems.compiled import LARGEST, drift, in_program, reduced_flow
from dalembert.systems.consistency import STEPS, as_numpy
from dalembert.systems.equations import acceleration
from dalembert.systems.frame import along_constraints
from dalembert.systems.proof import Runs, RunStart, check_batch, number_of_runs, proven_start, unproven
from dalembert.systems.sizes import check_times, integration_error
from dalembert.systems.system import System, at_origin, check_shapes, check_system
from dalembert.tracing import Jitted, over_many_rows, traced_once

MOST = 10_000_000  # steps of one integration

if TYPE_CHECKING:
    import diffrax


class Reference(Described, Later):
    """The continuous motion at the times asked for.

    q̇ = v, v̇ = a(q, v, t), integrated: positions, velocities and multipliers at the times asked for. Of many runs all
    arrays have a leading axis.

    Attributes:
        t: (N+1,) times.
        q: (N+1, n).
        v: (N+1, n).
        multipliers: (N+1, m).
        drift: (N+1,) the largest of |φ(q)|, |dφ/dt|, |φ(q,v)| at each time, rounding in machine code; zero if no constraint
            restricts (q, v).
        succeeded: whether the integrator reached the last time at the requested tolerance.
        integrator_steps: number of steps of the integrator.
        method: what took the steps: "Runge-Kutta", "machine code" in a traced program, or the name of a solver of diffrax.
        coordinates: the names of q, by which it is read as a `Path` is: reference["x"]; () if the system has none.
    """

    t: Float[Array, "times"]
    q: Float[Array, "times n"]
    v: Float[Array, "times n"]
    multipliers: Float[Array, "times m"]
    drift: Float[Array, "times"]
    succeeded: Array
    integrator_steps: Array
    method: str = eqx.field(static=True)
    coordinates: tuple[str, ...] = eqx.field(static=True, default=())

    def __getitem__(self, name: str) -> Any:
        """q of the coordinate with this name, at t; of a group its matrices R (…, 3, 3) or pairs (R, x)."""
        if isinstance(self.coordinates, Columns) and name not in self.coordinates:
            return self.coordinates.space.elements(name, self.q)
        return self.q[..., place_of(name, self.coordinates, "reference")]

    @classmethod
    def solved(
        cls, times: np.ndarray, found: Solved, outputs: Callable[[], np.ndarray], n=None, coordinates: Any = ()
    ) -> Self:
        """One, or many with a leading axis. outputs: (λ, drift) at the rows, for which few ask; n: numbers of a position;
        coordinates: their names, or None."""

        def fields() -> dict[str, Any]:
            known = outputs()
            return {"multipliers": known[..., :-1], "drift": known[..., -1]}

        n = found.rows.shape[-1] // 2 if n is None else n
        return cls.later(
            fields, t=np.broadcast_to(times, found.rows.shape[:-1]), q=found.rows[..., :n], v=found.rows[..., n:],
            succeeded=np.asarray(found.reached), integrator_steps=np.asarray(found.steps),
            method="Runge-Kutta", coordinates=coordinates or (),
        )  # fmt: skip


def reference(
    system: System,
    q0,
    v0,
    t: Float[Array, "times"],
    *,
    tolerance: float = 1e-11,
    max_steps: int | None = None,
    solver: diffrax.AbstractSolver | None = None,
    backend: Literal["native", "diffrax"] | None = None,
    throw: bool = True,
) -> Reference:
    """Integrate the continuous equations of motion from an initial state.

    q̇ = v, v̇ = a(q, v, t) with (a, λ) of `acceleration`, from (q0, v0) at t[0], by a method of order 8.

    In machine code steps end where a choice in the equations (where, cond, abs, maximum, …) takes the other side.
    Constraints of order 1 that are linear or affine in v hold to rounding where the equation is integrated on D. Others of
    order 0 and 1 are in the equations for (a, λ) through their time derivatives alone. So in machine code (q, v) at the end
    of every step, and at every time asked for, becomes the nearest point, in the metric of the mass matrix, of φ(q) = 0,
    dφ/dt = 0, φ(q, v) = 0. A step for which none is found is too long. diffrax does not project: with it they drift, and
    the drift is reported.

    Args:
        system: a System.
        q0: (n,) positions at t[0], or by name as in `simulate`.
        v0: (n,) velocities at t[0].
        t: (N+1,) increasing or decreasing times; the first is the initial time.
        tolerance: on the local error, relative to |q| and |v|; absolute, below the sizes of the motion, max(|q| + T|v|) and
            max(|v| + T|a|) at t[0] over the whole time T, or 1 where they are more.
        max_steps: the largest number of steps of the integrator.
        solver: a solver of diffrax; the backend is then "diffrax".
        backend: "native", machine code, the default on CPUs; if a function cannot be translated, there is one warning and
            diffrax is used. Or "diffrax", its Dopri8, which also serves for more than 24 unknowns (a, λ), and inside jit,
            vmap and grad unless "native" is given: then machine code runs there, and derivatives are those of diffrax.
        throw: raise an error if the integration fails; False returns the result up to there, with succeeded false.

    Returns:
        A Reference.

    Raises:
        RuntimeError: the integration fails, and throw is true; the message has the time that was reached.
        ValueError: as `simulate`, including InconsistentDataError and RankDeficientError.
        TypeError: an argument is of the wrong type.

    Source: Dormand and Prince; Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, II.5.

    Example:
        >>> truth = da.reference(pendulum, [1.0], [0.0], [0.0, 1.0, 2.0])
        >>> truth.q.shape, bool(truth.succeeded)
        ((3, 1), True)
    """
    check_system(system)
    check_x64()
    as_flag(throw, "throw")
    times = check_times(t, tolerance)
    chosen = chosen_backend(backend, solver)
    steps = MOST if max_steps is None else whole_number(max_steps, "max_steps")
    natively, traced = chosen == "native", backend == "native"
    local, y, w = at_origin(system, q0, v0)
    if local is not system:
        start, q, v = None, local.origin, check_initial_data(local, y, w, times[0], time_scale(times))[1]
    else:
        start = proven_start(system, q0, v0, times[0]) if natively and isinstance(times, np.ndarray) else None
        q, v = check_data(system, q0, v0, times[0], time_scale(times)) if start is None else (start.q, start.v)
    if traced and is_traced(system, q, v, times, tolerance) and small(system, q, v, times):
        return native_first(_in_program, _integrate, system, q, v, times, tolerance, solver=None, max_steps=steps)
    options = {"natively": natively, "solver": solver, "max_steps": steps, "start": start, "projected": True}
    result = integrate_motion(system, (q, v), times, tolerance, **options)
    known = start is not None or not is_traced(result)
    if throw and known and not bool(result.succeeded):
        raise integration_error("reference", times, result.q)
    return result


def integrate_motion(
    system: System, state: tuple[Any, Any], times, tolerance, *, natively: bool = True, solver=None, max_steps: int = MOST,
    start: RunStart | None = None, projected: bool = False,
) -> Reference:  # fmt: skip
    """The reference from (q, v) that need not satisfy the constraints: their values are what the flow keeps. start: these
    data, where they are proven. projected: for data that satisfy them, which machine code then keeps there."""
    otherwise = lambda *x: _integrate(*x, solver=solver, max_steps=max_steps)  # noqa: E731
    known = times if start is not None or is_traced(times) else np.asarray(times)
    if natively and (start is not None or in_machine_code(system, *state, known, tolerance)):
        by_code = lambda *x: _native(*x, max_steps=max_steps, start=start, projected=projected)  # noqa: E731
        return native_first(by_code, otherwise, system, *state, times, tolerance)
    return otherwise(system, *state, times, tolerance)


def chosen_backend(backend: str | None, solver=None) -> str:
    """Which integrates, with the choice checked."""
    if solver is not None:
        import diffrax

        if not isinstance(solver, diffrax.AbstractSolver):
            raise TypeError(f"solver: found {type(solver).__name__}; give a solver of diffrax, such as diffrax.Dopri8()")
    if backend is None:
        return "diffrax" if solver is not None or jax.default_backend() != "cpu" else "native"
    as_choice(backend, "backend", ("native", "diffrax"), "back-ends, if one is given,")
    if solver is not None and backend == "native":
        raise ValueError("solver, backend: a solver of diffrax is run by backend='diffrax'; leave one of them out")
    return backend


def in_machine_code(system: System, q, v, *others) -> bool:
    """True where all is known, and not so large that the equations are not written out."""
    return outside() and not is_traced(system, q, v, *others) and small(system, q, v, others[0])


def small(system: System, q, v, times) -> bool:
    """True for so few unknowns (a, λ) that the equations are written out."""
    return v.shape[0] + sum(check_shapes(system, q, v, times[0])) <= LARGEST


def _native(system: System, q, v, times, tolerance, *, max_steps: int, start: RunStart | None, projected: bool) -> Reference:
    """The integration in machine code; Unsupported where a function cannot be translated."""
    n, known, accuracy = v.shape[0], np.asarray(times), Accuracy(float(tolerance), max_steps)
    if start is None:
        flow = reduced_flow(system, n, sum(check_shapes(system, q, v, known[0])), projected)
        found = flow.solve(np.concatenate([np.asarray(q), np.asarray(v)]), known, accuracy)
        outputs = lambda: flow.outputs(found, known)  # noqa: E731
    else:
        found, outputs = along_constraints(system, start, known, accuracy)
    return Reference.solved(known, found, outputs, q.shape[0], system.coordinates)


@Jitted
def _in_program(system: System, q, v, times, tolerance, *, solver, max_steps: int) -> Reference:
    """The integration by machine code that XLA calls. Derivatives are those of `_integrate`, which is then what runs."""

    def again(system: System, *given) -> tuple:
        return tuple(jax.tree.leaves(by_diffrax(system, *given, max_steps=max_steps)))

    found = in_program(system, q, v, times, tolerance, max_steps, again)
    t, qs, vs, multipliers, drifts, reached, steps = found
    return Reference(t, qs, vs, multipliers, drifts, reached, steps, "machine code", system.coordinates or ())


def time_scale(times):
    """In which a motion asked for at these times moves by about its own size."""
    least = jnp.minimum if is_traced(times) else np.minimum
    return least(STEPS * abs(times[1] - times[0]), abs(times[-1] - times[0]))


def by_diffrax(system: System, q, v, times, tolerance, *, solver=None, max_steps: int = MOST) -> Reference:
    """The integration by diffrax, without checks, in a traced program."""
    n = q.shape[0]

    motion = traced_once(lambda s, y: acceleration(system, y[:n], y[n:], s))  # in all stages of the integrator

    def motion_rates(s, y, _):
        return jnp.concatenate([system.space.rate(y[:n], y[n:]), motion(s, y)[0]])

    span, start = (times[0], times[-1]), jnp.concatenate([q, v])
    sizes = jax.lax.stop_gradient(_typical_sizes(n, start, motion_rates(times[0], start, None), times[-1] - times[0]))
    found = integrate(motion_rates, None, span, start, tolerance, sizes=sizes, at=times, solver=solver, max_steps=max_steps)
    qs, vs = found.y[:, :n], found.y[:, n:]
    multipliers = jax.vmap(lambda s, y: motion(s, y)[1])(times, found.y)
    drifts = jax.vmap(lambda x, w, s: drift(system, x, w, s))(qs, vs, times)
    method, names = "Dopri8" if solver is None else type(solver).__name__, system.coordinates or ()
    return Reference(times, qs, vs, multipliers, drifts, found.reached, found.steps, method, names)


_integrate = Jitted(by_diffrax)


def _typical_sizes(n: int, y, rates, time) -> Float[Array, "2n"]:
    """Those of q and v, as `Integration.measure` finds them in machine code."""
    q, v = (jnp.max(x) for x in jnp.split(jnp.abs(y) + jnp.abs(time * rates), [n]))
    sizes = jnp.stack([jnp.where(q > 0.0, q, jnp.abs(time) * v), v])
    return jnp.repeat(
        jnp.where((sizes > 0.0) & (sizes < 1.0), sizes, 1.0), np.array([n, len(y) - n]), total_repeat_length=len(y)
    )


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
    """Integrate the continuous equations of motion for many initial states or parameters.

    q̇ = v, v̇ = a(q, v, t) as in `reference`, for B sets of initial data and parameters.

    The runs are shared out over threads, each with steps of its own. A run is the same to the last bit whatever the others
    are. No error is raised if an integration fails. Arguments are numbers; in a traced program take jax.vmap of
    `reference`.

    Args:
        system: a System.
        q0: (B, n) positions at t[0], or (n,) for all runs; by name as in `simulate`.
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
    times, chosen, workers = check_times(t, tolerance), chosen_backend(backend), as_threads(threads)
    steps = MOST if max_steps is None else whole_number(max_steps, "max_steps")
    named = zip(("q0", "v0"), system.space.read_named(q0, v0), strict=True)
    data = {name: as_numbers(x, name) for name, x in named}
    given, axes = check_batch(system, data, parameters)
    if is_traced(system, given, times):
        raise TypeError("references: works on numbers and not under jit, vmap or grad; there take jax.vmap of reference")
    times = np.asarray(times)
    runs = Runs(system, given, axes, number_of_runs(given, axes, "q0, v0", "reference"))
    _check_runs(runs, times)

    def side_by_side() -> Reference:
        own = given["parameters"], axes["parameters"]
        return _side_by_side(system, tuple(map(jnp.asarray, runs.begin)), *own, times, float(tolerance), max_steps=steps)

    if chosen == "native" and in_machine_code(system, *(x[0] for x in runs.begin), times):
        by_threads = lambda: _many_natively(runs, times, float(tolerance), steps, workers)  # noqa: E731
        return native_first(by_threads, side_by_side)
    return side_by_side()


def _check_runs(runs: Runs, times: np.ndarray) -> None:
    """The data of every run; those that are not proven to be right are looked at one by one."""
    for i in unproven(runs.solve(times[0])):
        q, v = runs.states[i]
        try:
            check_data(runs.system(i), q, v, times[0], time_scale(times))
        except ValueError as error:
            raise type(error)(f"{error} (run {i} of {len(runs.states)})") from None


def _many_natively(runs: Runs, times: np.ndarray, tolerance: float, steps: int, threads: int) -> Reference:
    """Unsupported where a function cannot be translated."""
    (q, v), system = (x[0] for x in runs.begin), runs.on_space(0)
    flow = reduced_flow(system, len(v), sum(check_shapes(system, q, v, times[0])), True)
    flows = flow.runs(np.concatenate(runs.begin, axis=1), times, tolerance, runs.given)
    found = travel(flow.code, flows, steps, threads)
    outputs = lambda: outputs_along(flow.code, flows, found, threads)  # noqa: E731
    return Reference.solved(times, found, outputs, len(q), system.coordinates)


@Jitted
def _side_by_side(system, states, parameters, axes, times, tolerance, *, max_steps: int) -> Reference:
    def integrate_run(state, own) -> Reference:
        q, v = state
        return by_diffrax(system.replace(**own) if own else system, q, v, times, tolerance, max_steps=max_steps)

    return eqx.filter_vmap(integrate_run, in_axes=(0, axes))(states, parameters)


def motion_along(system: System, q: np.ndarray, v: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a, λ), (K, n) and (K, m), of `acceleration` at states (K, n) and times (K,); NaN where there is none."""
    if jax.default_backend() == "cpu" and in_machine_code(system, jnp.asarray(q[0]), jnp.asarray(v[0]), t):
        return native_first(_native_motion, _motion_by_xla, system, q, v, t)
    return _motion_by_xla(system, q, v, t)


def _native_motion(system: System, q, v, t) -> tuple[np.ndarray, np.ndarray]:
    flow = reduced_flow(system, v.shape[1], sum(check_shapes(system, q[0], v[0], t[0])))
    rates, outputs = flow.along(np.concatenate([q, v], axis=1), t)
    return rates[:, q.shape[1] :], outputs[:, :-1]


def _motion_by_xla(system: System, q, v, t) -> tuple[np.ndarray, np.ndarray]:
    return as_numpy(over_many_rows(_solved_motion, (q, v, t), system))


def _solved_motion(system: System, q, v, t):
    a, multipliers, info = acceleration(system, q, v, t)
    return jax.tree.map(lambda y: jnp.where(info.solved, y, jnp.nan), (a, multipliers))
