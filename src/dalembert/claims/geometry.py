"""Claims that the motion and the discrete flow exist, that constraints hold where the scheme promises it, and about the
geometry of a step: the symplectic form of T*Q, what the reactions change of it, and the way back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from dalembert.algebra import numerical_rank
from dalembert.claims.subject import Claim, Finding, Promise, Subject, restrictions_of, reversed_motion
from dalembert.discretize import OF_STATES, Scheme
from dalembert.discretize.nodes import legendre_plus
from dalembert.measure import SymplecticDefect, constraint_residual, regularity, symplectic_defect
from dalembert.measure.nodes import node_ahead, nodes_of
from dalembert.numbers import EPSILON
from dalembert.outcome import Outcome
from dalembert.step import simulate
from dalembert.step.simulation import check_interrupted
from dalembert.systems import System, momentum, motion_along, references
from dalembert.systems.consistency import onto_constraints, stacked_residuals
from dalembert.systems.equations import all_reactions, force, kkt_residual, reduce_index
from dalembert.systems.sizes import units_of

STRETCHED = 1e-5  # what differences can tell from a rank that is lost
RANK = 1e-10  # of the largest singular value, below which one counts as zero
DIGITS_LEFT = 1e3  # rounding errors of a sum, times this
WINDOWS = 12  # at which the theorem's ranks are looked at

MOTION = Promise("one motion through each state", "Jiménez, Scheurle, Prop. 2.1; (a, λ) of the reduced equations", "none")
FLOW = Promise("the discrete flow exists", "Borda, Fernández, Grillo, Thm. 5.1", "none")
DISTRIBUTION = Promise(
    "the states lie in D", "Jiménez, Scheurle, Prop. 5.3", "the states are those at which φ is discretized"
)


def motion(subject: Subject) -> Claim:
    """rank [[M, -Rᵀ], [J, 0]] = n + m at the samples."""
    q, v, t = subject.samples
    a, multipliers = subject.motion
    n = v.shape[1]
    matrices = subject.evaluate_rows(_kkt, q, v, np.concatenate([a, multipliers], axis=1), t)
    least = np.inf
    for matrix in matrices:
        units = units_of(matrix, n)
        scaled = matrix * units
        rows = np.max(np.abs(scaled), axis=1, keepdims=True)
        values = numerical_rank(scaled / np.where(rows > 0.0, rows, 1.0)).singular_values
        least = min(least, float(values[-1] / values[0]) if values[0] > 0.0 else 0.0)
    return MOTION.at_least(least, RANK, "smallest over largest singular value of the equations for (a, λ)")


def _kkt(system, q, v, z, t):
    return jax.jacfwd(lambda x: kkt_residual(system, q, v, t, x))(z)


def flow(subject: Subject) -> Claim:
    """The ranks of Theorem 5.1 at windows of nodes along the run. A step that is no map of pairs of nodes,
    as a composed one, is a map of states on the constraints: a local diffeomorphism where its derivative has full rank."""
    alone = {0} if subject.system.space.flat else set()  # pairs of nodes on groups are those of drift_kick_drift
    between = subject.form == "kick_drift_kick" and subject.orders - alone
    if subject.scheme.order > 2 or between or subject.form == "discrete_gradient":
        least = least_stretch(subject)
        if np.isnan(least):
            return FLOW.at_least(least, STRETCHED, "a step from a neighbouring state could not be solved")
        return FLOW.at_least(least, STRETCHED, "smallest singular value of variations after a step over that before it")
    found: Any = regularity(subject.system, subject.path, scheme=subject.scheme, every=max(1, subject.path.steps // WINDOWS))
    return judge_ranks(FLOW, found.conditions, found.t, "smallest singular value of five matrices")


def judge_ranks(promise: Promise, conditions, t, measured: str = "smallest singular value") -> Claim:
    """The smallest singular value of all matrices at all windows, 0 where a rank is lost."""
    least = min((float(c.smallest.min()) for c in conditions if c.wanted), default=1.0)
    wrong = [c.name for c in conditions if not c.holds]
    why = f"{wrong[0]}: fails" if wrong else f"{measured} at {t.shape[0]} windows"
    return promise.at_least(0.0 if wrong else least, RANK, why)


def constraints(subject: Subject) -> Iterator[Claim]:
    """φ where the scheme promises φ = 0, one claim for each constraint and each derivative that the scheme keeps."""
    apart = subject.scheme.state_apart(subject.system.constraints)
    for residual in constraint_residual(subject.system, subject.path, scheme=subject.scheme):
        number = int(residual.name.partition("[")[2].partition("]")[0])
        promise = Promise(f"{residual.name} = 0", "the discrete equations", "at the points where the scheme reads it")
        solved = subject.system.constraints[number].law(subject.system) is not None
        if residual.name.startswith("λ"):  # of a Lyapunov constraint: what the step solves instead
            continue
        if solved:
            yield promise.not_met("the step solves λ = -φ₀/u instead; see the decrease of V")
            continue
        allowed = _rounding(subject, number, residual.name.startswith("d/dt"))
        skipped = ""
        if apart and subject.system.constraints[number].order == 1:  # no step has led to the data on D
            residual, skipped = (
                dataclasses.replace(residual, t=residual.t[1:], values=residual.values[1:]),
                "; after the start on D",
            )
        why = f"{DIGITS_LEFT:g} rounding errors of its terms; largest at t = {residual.worst:g}{skipped}"
        yield promise.at_most(residual.largest, allowed, why)


def _rounding(subject: Subject, number: int, rate: bool) -> float:
    """DIGITS_LEFT · ε · Σ_j|∂φ/∂x_j||x_j|; velocities and accelerations are differences of q over h and h²."""
    q, v, t = subject.samples
    h, a = subject.start.h, subject.motion[0]
    large = [subject.system.space.extent(q)[0], *(np.max(np.abs(x), axis=0) for x in (v, a))]
    large[1] = large[1] + large[0] / h
    large[2] = large[2] + large[1] / h
    slopes = subject.evaluate_rows(_terms_of(number, rate), q, v, a, t)
    total = sum(float(np.max(x @ y)) for x, y in zip(slopes, large, strict=True))
    return DIGITS_LEFT * EPSILON * max(total, float(np.finfo(float).tiny))


def _terms_of(number: int, rate: bool) -> Callable:
    """|∂φ/∂q|, |∂φ/∂v|, |∂φ/∂a| of one constraint, or of its derivative by the time."""

    def term_sizes(system, q, v, a, t):
        c = system.constraints[number]

        def of(y, w, b):
            x = system.space.retract(q, y)
            return reduce_index(system, c, x, w, w, t, order=1) if rate else c.residual(system, x, w, b, t)

        return tuple(jnp.abs(x) for x in jax.jacfwd(of, (0, 1, 2))(jnp.zeros_like(v), v, a))

    return term_sizes


def distribution(subject: Subject) -> Iterator[Claim]:
    """φ(q, v) = 0 at the states of the run themselves."""
    if 1 not in subject.orders:
        return
    if not subject.scheme.claims(subject.system).keeps_distribution:
        yield DISTRIBUTION.not_met(f"the form {subject.form} with state={subject.scheme.state!r} has its states elsewhere")
        return
    q, v, t = subject.samples
    found = subject.evaluate_rows(restrictions_of, q, v, t)
    sizes = np.max(np.abs(v), axis=0) + subject.system.space.extent(q)[0] / subject.start.h
    allowed = DIGITS_LEFT * EPSILON * float(np.max(found["slopes"] @ sizes, initial=np.finfo(float).tiny))
    worst = float(np.max(np.abs(found["value"])))
    yield DISTRIBUTION.at_most(worst, allowed, f"{DIGITS_LEFT:g} rounding errors of its terms")


STATES = 3  # of the run at which a step is looked at
# Of the stencil, in sizes of the coordinates: the first errs where the step bends, the other by rounding.
WIDTHS = (2e-3, 2.5e-4)
STENCIL = ((-2.0, 1.0 / 12.0), (-1.0, -2.0 / 3.0), (1.0, 2.0 / 3.0), (2.0, -1.0 / 12.0))  # f' to order 4
KEPT = 1e-7  # of the form: the error of the better stencil, WIDTH⁴ or the rounding of its points over WIDTH, with room
IDENTITY = 1e-8  # of the form: derivatives by JAX at a step solved to rounding
TRUTH = 1e-13  # local tolerance of the continuous flow
SPAN, NODES = 8, 10  # steps over which the continuous flow is looked at, and nodes of Gauss at which its forces are

SYMPLECTIC = Promise("a step is symplectic on T*Q", "Marsden, West, Sec. 1.3.2; RATTLE: Leimkuhler, Reich",
                     "holonomic or no constraints with reactions ∂φ/∂q, no forces, a variational step")  # fmt: skip
EVOLUTION = Promise("F*Ω - Ω = dξ of the reactions", "Borda, Fernández, Grillo, Thm. 5.3",
                    "a map of pairs of nodes, or a step of states with dξ = 0")  # fmt: skip
CONTINUOUS = Promise("(Fᵗ)*Ω - Ω = dν of the reactions", "Borda, Fernández, Grillo, Thm. 2.4",
                     "a flow: one motion through each state near the first")  # fmt: skip


def symplectic(subject: Subject) -> Claim:
    """Φ*ω = ω, ω = dp∧dx, on tangent vectors of the states, by differences of single steps."""
    if subject.orders - {0}:
        return SYMPLECTIC.not_met("a constraint on velocities or accelerations")
    if not all(c.chetaev for c in subject.system.constraints):
        return SYMPLECTIC.not_met("reactions of the user's, which may have power")
    if subject.system.forces is not None:
        return SYMPLECTIC.not_met("forces act")
    if subject.form == "nodes":
        return SYMPLECTIC.not_met("a state of two nodes; see Ω on pairs of nodes")
    if subject.form == "discrete_gradient":
        return SYMPLECTIC.not_met("a step that keeps the energy, and no variational one")
    if not subject.scheme.claims(subject.system).symplectic:
        return SYMPLECTIC.not_met("the form that each stage keeps depends on its step")
    changes = [change(subject, i) for i in np.linspace(0, len(subject.at) - 1, STATES).astype(int)]
    worst = float(np.max(changes))  # nan where a step from a neighbouring state failed
    if np.isnan(worst):
        return SYMPLECTIC.at_most(worst, KEPT, "a step from a neighbouring state could not be solved")
    return SYMPLECTIC.at_most(worst, KEPT, f"largest entry of Φ*ω - ω over that of ω at {STATES} states, by differences")


def evolution(subject: Subject) -> Claim:
    """Both sides of the theorem at two nodes of the run; for a step of states, with constraints on positions only, on their
    manifold, where dξ is zero."""
    if subject.scheme.order > 2 or subject.form in OF_STATES:
        held = symplectic(subject)
        if held.finding is Finding.HYPOTHESIS_FAILS:
            return EVOLUTION.not_met(f"a step of states, whose reactions are no function of two nodes, and {held.reason}")
        return dataclasses.replace(held, **EVOLUTION._asdict())
    scheme, points, times = nodes_of(subject.path, subject.system, subject.scheme)
    k = len(points) // 2
    found = symplectic_defect(
        subject.system, points[k - 1], points[k], h=subject.start.h, t0=float(times[k - 1]), scheme=scheme
    )
    return judge_evolution(found)


def judge_evolution(found: SymplecticDefect) -> Claim:
    """Both sides of the theorem, compared at one pair of nodes."""
    why = f"both sides, up to {float(found.size):.2g}, differ by this part of Ω"
    return EVOLUTION.at_most(float(found.relative), IDENTITY, why)


def flow_evolution(subject: Subject, motion: Claim) -> Claim:
    """(Fᵗ)*Ω - Ω and dν(δ, δ') = ∫₀ᵗ (δq·δ'F - δF·δ'q) ds, F = f + Rᵀλ, of the continuous flow, by differences of motions
    from neighbouring states. motion: whether there is one, and only one."""
    if motion.finding is Finding.FAILS:
        return CONTINUOUS.not_met(f"no flow: {motion.reason}: {motion.measured:.2g}")
    try:
        defect, size = min(_evolution_defect(subject, width) for width in WIDTHS)
    except (ValueError, RuntimeError) as error:
        return CONTINUOUS.not_met(f"no flow near the first state: {' '.join(str(error).split())[:120]}")
    why = f"both sides, up to {size:.2g} of Ω after {SPAN} steps, differ by this part of Ω; by differences"
    return CONTINUOUS.at_most(defect, KEPT, why)


def _evolution_defect(subject: Subject, width: float) -> tuple[float, float]:
    """The largest entry of (Fᵗ)*Ω - Ω - dν over that of Ω, and that of dν over it."""
    points, speeds, t = _neighbours(subject, 0, width)
    n, (nodes, weights) = speeds.shape[1], np.polynomial.legendre.leggauss(NODES)
    times = t + 0.5 * SPAN * subject.start.h * np.concatenate([[0.0], 1.0 + nodes, [2.0]])
    found = references(subject.system, points, speeds, jnp.asarray(times), tolerance=TRUTH)
    if not np.all(found.succeeded):
        raise RuntimeError("a motion from a neighbouring state does not go so far")
    origins = np.broadcast_to(found.q[:1], found.q.shape)
    q, v, s, origins = (np.asarray(x).reshape(-1, *x.shape[2:]) for x in (found.q, found.v, found.t, origins))
    a, multipliers = motion_along(subject.system, q, v, s)
    rows = subject.evaluate_rows(_phases, origins, q, v, a, multipliers, s).reshape(len(points), len(times), 3 * n)
    slopes = np.stack([_stencil_slopes(rows[:, k]) for k in range(len(times))])  # of (q, p, F)
    before, after = (_form(slopes[k, :, : 2 * n]) for k in (0, -1))
    rates = [w * _form(x[:, np.r_[:n, 2 * n : 3 * n]]) for w, x in zip(weights, slopes[1:-1], strict=True)]
    forces = 0.5 * SPAN * subject.start.h * np.sum(rates, axis=0)
    size = np.max(np.abs(before))
    return float(np.max(np.abs(after - before - forces)) / size), float(np.max(np.abs(forces)) / size)


def _phases(system: System, origin, q, v, a, multipliers, t):
    forces = force(system, q, v, t) + all_reactions(system, q, v, a, t).T @ multipliers
    return jnp.concatenate(system.space.canonical(origin, q, momentum(system, q, v, t), forces))


def change(subject: Subject, sample: int) -> float:
    """The largest entry of Φ*ω - ω over that of ω at one state, in sizes of the coordinates: the least with
    two stencils, as what changes the form is seen by both."""
    return min(_change(subject, sample, width) for width in WIDTHS)


def least_stretch(subject: Subject) -> float:
    """The least ratio, at STATES of the run, of the smallest singular values of variations on the constraints after and
    before a step; nan where a step from a neighbouring state failed."""
    least = []
    for i in np.linspace(0, len(subject.at) - 1, STATES).astype(int):
        both = np.stack(_slopes_of_step(subject, i, WIDTHS[0]))
        sizes = np.max(np.abs(both), axis=(0, 1))
        values = both / np.where(sizes > 0.0, sizes, 1.0)
        before, after = np.linalg.svd(values, compute_uv=False)[:, -1] if np.all(np.isfinite(values)) else (1.0, np.nan)
        least.append(float(after / before))
    return float(np.min(least))


def _change(subject: Subject, sample: int, width: float) -> float:
    before, after = (_form(x) for x in _slopes_of_step(subject, sample, width))
    return float(np.max(np.abs(after - before)) / np.max(np.abs(before)))


def _slopes_of_step(subject: Subject, sample: int, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of (x, p) before and after a step along a basis of the tangent vectors, (d, 2n) each."""
    begin, end = _take_step(subject, *_neighbours(subject, sample, width))
    return _stencil_slopes(begin), _stencil_slopes(end)


def _neighbours(subject: Subject, sample: int, width: float) -> tuple[np.ndarray, np.ndarray, float]:
    """q (B, size) and v (B, n) of the stencil along each tangent vector, on the constraints, and their time."""
    q, v, t = (x[sample] for x in subject.samples)
    sizes = np.concatenate([subject.sizes[0], subject.sizes[1]])
    origin, x = subject.system.space.origin(q)
    center = np.concatenate([x, v])
    slopes = subject.evaluate_rows(_violations, origin[None], center[None], np.asarray(t)[None])[1][0] * sizes
    basis = np.linalg.svd(slopes, full_matrices=True)[2][len(slopes) :] * sizes
    ahead = np.array([center + width * at * b for b in basis for at, _ in STENCIL])
    origins = np.broadcast_to(origin, (len(ahead), len(origin)))
    return *subject.evaluate_rows(_on_constraints, origins, ahead, np.full(len(ahead), t)), float(t)


def _on_constraints(system: System, origin, y, t):
    """(q, v) on the manifold of the constraints near y, which depend smoothly on y."""
    space, n = system.space, y.shape[0] // 2
    return space.split_state(onto_constraints(system, jnp.concatenate([space.retract(origin, y[:n]), y[n:]]), t))


def _violations(system: System, origin, y, t):
    n = y.shape[0] // 2
    of = lambda x: stacked_residuals(system, system.space.retract(origin, x[:n]), x[n:], t)  # noqa: E731
    return of(y), jax.jacfwd(of)(y)


def _take_step(subject: Subject, points: np.ndarray, speeds: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """(x, p) at the beginning and at the end of one step from each point, (B, 2n)."""
    h = subject.start.h
    options = {"h": h, "steps": 1, "t0": t, "scheme": subject.scheme, "throw": False}
    paths = [simulate(subject.system, *x, **options) for x in zip(points, speeds, strict=True)]  # compiled for the run
    if np.any([path.code for path in paths]):
        return np.concatenate([speeds, speeds], axis=1), np.full((len(speeds), 2 * speeds.shape[1]), np.nan)
    canonical = _canonical(subject.scheme, subject.form)
    q, v = np.array([path.q for path in paths]), np.array([path.v for path in paths])

    def canonical_at(k: int, s: float) -> np.ndarray:
        times, steps = (np.full(len(q), x) for x in (s, h))
        return subject.evaluate_rows(canonical, np.broadcast_to(q[:1, k], q[:, k].shape), q[:, k], v[:, k], times, steps)

    return canonical_at(0, t), canonical_at(1, t + h)


def _canonical(scheme: Scheme, form: str) -> Callable:
    """(x, p): q and L_v of a state of OF_STATES; q₁ and D₂L_d(q₀, q₁) of the pair behind one of drift_kick_drift."""

    def canonical(system: System, origin, q, v, t, h):
        if form in OF_STATES:
            return jnp.concatenate(system.space.canonical(origin, q, momentum(system, q, v, t)))
        ahead, behind = node_ahead(scheme, system.space, q, v, t, h)
        return jnp.concatenate(system.space.canonical(origin, ahead, legendre_plus(scheme, system, behind)))

    return canonical


def _stencil_slopes(rows: Float[np.ndarray, "B two_n"]) -> Float[np.ndarray, "d two_n"]:
    """Derivatives of (x, p) along each tangent vector, by the stencil, in units of its width."""
    parts = rows.reshape(-1, len(STENCIL), rows.shape[1])
    return np.einsum("s,dsk->dk", [weight for _, weight in STENCIL], parts)


def _form(slopes: Float[np.ndarray, "d two_n"]) -> Float[np.ndarray, "d d"]:
    """ω(δ, δ') = δx·δp' - δp·δx'."""
    n = slopes.shape[1] // 2
    x, p = slopes[:, :n], slopes[:, n:]
    return x @ p.T - p @ x.T


STEPS = 50  # there and back again
ROUNDING = 1e-9  # of the way: what rounding errors grow to over so many steps

ADJOINT = Promise(
    "a step of -h undoes a step of h", "Hairer, Lubich, Wanner, Def. II.3.1", "maps that are their own adjoints"
)
REVERSIBLE = Promise(
    "with -v a run returns", "Hairer, Lubich, Wanner, Thm. V.1.5", "a(q, -v) = a(q, v), a self-adjoint step"
)


def self_adjoint(subject: Subject) -> Claim:
    """Φ(-h) after Φ(h): the distance from the start, in sizes of the coordinates."""
    if reason := _without_nodes(subject):
        return ADJOINT.not_met(reason)
    return _there_and_back(subject, ADJOINT, -1.0)


def reversible(subject: Subject) -> Claim:
    """Φ(q, -v) after Φ(q, v): the same with the velocity turned round."""
    if reason := _without_nodes(subject) or reversed_motion(subject):
        return REVERSIBLE.not_met(reason)
    return _there_and_back(subject, REVERSIBLE, 1.0)


def _without_nodes(subject: Subject) -> str | None:
    """Why a run has no way back: its start, or a map of the scheme."""
    if subject.form == "nodes":
        return "a run of nodes begins with a starter"
    return subject.scheme.claims(subject.system).not_self_adjoint


def _there_and_back(subject: Subject, promise: Promise, direction: float) -> Claim:
    """From the state after some steps with the step direction · h and the velocity direction · (-v)."""
    start, steps = subject.start, min(STEPS, subject.path.steps)
    q, v, t = (np.asarray(x)[steps] for x in (subject.path.q, subject.path.v, subject.path.t))
    back = simulate(
        subject.system, q, -direction * v, h=direction * start.h, steps=steps, t0=t if direction < 0.0 else start.t0,
        scheme=subject.scheme, throw=False, **start.given,
    )  # fmt: skip
    if (ended := Outcome(int(check_interrupted(back).code))).failed:
        return promise.at_most(float("inf"), ROUNDING, f"the run back failed: {ended.name}")
    ends = subject.system.space.differences(start.q0, np.asarray(back.q)[-1]), np.asarray(back.v)[-1] + direction * start.v0
    distance = max(float(np.max(np.abs(x) / size)) for x, size in zip(ends, subject.sizes, strict=True))
    return promise.at_most(distance, ROUNDING, f"distance from the start after {steps} steps there and back, over the way")
