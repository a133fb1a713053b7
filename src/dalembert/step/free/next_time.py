"""The next step of unknown length: the equations of the positions at every trial step, then that of the energy alone."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from dalembert.algebra import Newton, newton
from dalembert.numbers import EPSILON
from dalembert.outcome import Outcome
from dalembert.step.programs.higher import HigherProgram

# log of the trial steps over the last one, outwards in both directions; finest where a step follows from the last one.
DISTANCES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.55, 0.8, 1.2)
REFINEMENTS = 90  # trials in all, of which 16 at most before there is a bracket


class Trial(NamedTuple):
    """A step h, the unknowns z that solve all equations but the energy's, and what is left of that; NaN if they do not."""

    h: Float[Array, ""]
    z: Float[Array, "z"]
    defect: Float[Array, ""]


class Search(NamedTuple):
    """up, down: the outermost trials; a, b: the last two of opposite signs, once there are such; weight: Illinois' of a."""

    trials: Int[Array, ""]
    up: Trial
    down: Trial
    a: Trial
    b: Trial
    weight: Float[Array, ""]
    bracketed: Bool[Array, ""]
    done: Bool[Array, ""]
    iterations: Int[Array, ""]


class Found(NamedTuple):
    z: Float[Array, "z"]
    code: Int[Array, ""]
    iterations: Int[Array, ""]
    residual: Float[Array, ""]


def next_step(program: HigherProgram, q, s, z, options: Newton) -> Found:
    """r(h) = 0 for the h > 0 nearest to the last step, in log h; z(h) solves the other equations.

    q = (t, …), z: the unknowns of the window before. At a given h the other equations are those of a fixed step, which are
    regular; r is small, of the size of the discretization error of the energy, so that Newton's method on all equations
    together is led far away by it, also to the root h < 0 which lies opposite. r is therefore bracketed from the last step
    outwards, between the DISTANCES, each trial starting from its neighbour, and refined by regula falsi (Illinois).
    NO_POSITIVE_STEP where r keeps its sign on e^±1.2 times the last step; two roots between neighbouring trials are missed.
    """
    last = s[0]
    rest = program.new_differences(jnp.zeros_like(z), q, s, 1.0)[0][0]
    same = 4 * EPSILON * jnp.abs(program.state(q, s, 1.0).momenta[0, 0])

    def trial(h, near: Trial) -> tuple[Trial, Int[Array, ""]]:
        b = program.new_differences(near.z, q, s, 1.0)[0]
        start = near.z.at[: q.shape[0]].add((h / near.h - 1.0) * b).at[0].set(h - rest)
        full = lambda x: jnp.concatenate([start[:1], x])  # noqa: E731
        residual = lambda x: program.residual(full(x), q, s, 0.0, 1.0, jnp.zeros_like(q))  # noqa: E731
        size = lambda x: program.scale(full(x), q, s, 1.0)[1:]  # noqa: E731
        x, info = newton(lambda x: residual(x)[1:], start[1:], size, options)
        bad = info.singular | info.not_finite | info.not_converged
        return Trial(h, full(x), jnp.where(bad, jnp.nan, residual(x)[0])), info.iterations

    def advance(search: Search) -> Search:
        h, near = _next_trial(search, last)
        new, iterations = trial(h, near)
        return _updated(search, new, same)._replace(iterations=search.iterations + iterations)

    here = Trial(last, z.at[0].set(last - rest), jnp.asarray(jnp.nan))
    no, zero = jnp.asarray(False), jnp.asarray(0)
    search = lax.while_loop(lambda c: ~c.done, advance, Search(zero, here, here, here, here, jnp.asarray(1.0), no, no, zero))
    best = _choose(jnp.abs(search.a.defect) < jnp.abs(search.b.defect), search.a, search.b)
    ends = jnp.abs(search.up.defect - search.down.defect)
    root = search.bracketed & (jnp.abs(best.defect) <= ends + same)  # else it changes its sign at a pole
    unsolved = search.bracketed | jnp.isnan(search.b.defect)
    code = jnp.where(unsolved, int(Outcome.NOT_CONVERGED), int(Outcome.NO_POSITIVE_STEP))
    return Found(best.z, jnp.where(root, int(Outcome.SUCCESS), code).astype(int), search.iterations, jnp.abs(best.defect))


def _next_trial(search: Search, last) -> tuple[Float[Array, ""], Trial]:
    """(h, where to start from): the last step, then larger and smaller ones in turn; between a and b once they are known."""
    outwards = jnp.exp(jnp.asarray(DISTANCES))[(search.trials + 1) // 2]
    larger = search.trials % 2 == 1
    near = _choose(larger, search.up, search.down)
    a, b = search.a, search.b
    between = jnp.clip(
        b.h - b.defect * (b.h - a.h) / (b.defect - search.weight * a.defect), jnp.minimum(a.h, b.h), jnp.maximum(a.h, b.h)
    )
    h = jnp.where(search.bracketed, between, jnp.where(larger, last * outwards, last / outwards))
    return h, _choose(search.bracketed, b, near)


def _updated(search: Search, new: Trial, same) -> Search:
    """What a trial has shown. b is the newest one while a bracket is refined, and the first before, to see if it failed."""
    first, larger = search.trials == 0, search.trials % 2 == 1
    before = _choose(search.bracketed, search.b, _choose(larger, search.up, search.down))
    crossed = new.defect * before.defect <= 0.0  # false for NaN
    exact = first & (jnp.abs(new.defect) <= same)
    bracketed = search.bracketed | crossed | exact
    a = _choose(first, new, _choose(crossed, before, search.a))
    weight = jnp.where(crossed, 1.0, 0.5 * search.weight)
    b = _choose(first | bracketed, new, search.b)
    good, searching = ~jnp.isnan(new.defect), ~search.bracketed
    up = _choose(first | (good & searching & larger & ~crossed), new, search.up)
    down = _choose(first | (good & searching & ~larger & ~crossed), new, search.down)
    up, down = (_choose(searching & crossed, x, y) for x, y in ((new, up), (before, down)))  # the bracket, for its size
    narrow = jnp.abs(a.h - b.h) <= 4 * np.finfo(float).eps * b.h
    done = exact | (bracketed & (narrow | (b.defect == 0.0))) | (first & ~good)
    last = jnp.where(bracketed, REFINEMENTS, 2 * len(DISTANCES) - 2)
    return Search(
        search.trials + 1, up, down, a, b, weight, bracketed, done | (search.trials >= last), search.iterations
    )  # fmt: skip


def _choose(condition, a: Trial, b: Trial) -> Trial:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)
