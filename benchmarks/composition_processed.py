"""Compositions with a processor, π ∘ ψ_h^N ∘ π⁻¹: searched, checked, and measured beside those without.

    python benchmarks/composition_processed.py                                the sets, their conditions, and the work
    python benchmarks/composition_processed.py ORDER STAGES PART [SECONDS [SEED]]      a search; PART: stages of π

ψ = S(γ₁h)…S(γ_s h) is symmetric; π = S(δ₁h)…S(δ_r h), Σδ = 0, so that π⁻¹ is S(-δ_r h)…S(-δ₁h) and every stage keeps the
constraints. Both are found together: the series of π ψ π⁻¹ (compositions.py) is exp(hY₁) up to the order at all words, and
the norm of its leading error is the least that was found. π is applied at the beginning, and its inverse where a state is
wanted: the work counts both once. Source of the method: Blanes, Casas, Ros, Symplectic integration with processing: a
general study, SIAM J. Sci. Comput. 21 (1999); no coefficients are taken from there.
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from compositions import SETS, exact, words
from scipy.optimize import least_squares, minimize

jax.config.update("jax_enable_x64", True)
LARGEST = 1.0  # of |γ|, |δ|


def functions(order: int, outer: int):
    """What is left of the conditions, and log‖leading term‖², of (γ from the outermost on without the middle, δ without the
    last one), with derivatives."""
    listed = words(order + 1)
    place = {word: i for i, word in enumerate(listed)}
    weight = np.array([sum(word) for word in listed])
    factorial = np.cumprod([1.0, *range(1, order + 2)])[[len(word) for word in listed]]
    splits = [(i, place[word[:k]], place[word[k:]]) for i, word in enumerate(listed) for k in range(len(word) + 1)]
    whole, left, right = (np.array(column) for column in zip(*splits, strict=True))
    target = np.array([float(exact(word)) for word in listed])
    wanted, leading = np.flatnonzero((weight > 1) & (weight <= order)), np.flatnonzero(weight == order + 1)

    def rest(x):
        def after(total, gamma):
            step = gamma**weight / factorial
            return jax.ops.segment_sum(total[left] * step[right], whole, len(listed)), None

        return jax.lax.scan(after, jnp.zeros(len(listed)).at[0].set(1.0), stages(jnp, x, outer))[0] - target

    condition = lambda x: rest(x)[wanted]  # noqa: E731
    size = lambda x: jnp.log(jnp.sum(rest(x)[leading] ** 2))  # noqa: E731
    array = lambda function: lambda x: np.asarray(function(x))  # noqa: E731
    return [array(jax.jit(f)) for f in (condition, jax.jacfwd(condition), size, jax.grad(size))]


def stages(xp, x, outer: int):
    """All stages of π ψ π⁻¹."""
    kernel, part = parts(xp, x, outer)
    return xp.concatenate([part, kernel, -part[::-1]])


def parts(xp, x, outer: int):
    """(γ, δ)."""
    half, part = x[:outer], x[outer:]
    kernel = xp.concatenate([half, xp.array([1.0 - 2.0 * xp.sum(half)]), half[::-1]])
    return kernel, xp.concatenate([part, xp.array([-xp.sum(part)])])


def search(order: int, number: int, part: int, seconds: float, seed: int) -> list[tuple[float, np.ndarray]]:
    """(‖leading term‖, x), smallest first."""
    outer = number // 2
    condition, jacobian, size, slope = functions(order, outer)
    random, found = np.random.default_rng(seed), []
    known = [np.array(list(map(float, half))) for one, half in SETS.values() if one == order and len(half) == outer]
    independent = np.linalg.matrix_rank(jacobian(random.uniform(-0.5, 0.5, outer + part - 1)), 1e-9)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        half = random.uniform(-0.5, 0.5, outer)
        if known and random.random() < 0.7:  # near one without a processor
            half = known[random.integers(len(known))] + random.normal(0.0, 0.05, outer)
        x = np.concatenate([half, random.uniform(-0.3, 0.3, part - 1)])
        x = least_squares(condition, x, jacobian, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=150).x
        if np.max(np.abs(condition(x))) > 1e-9 or np.max(np.abs(stages(np, x, outer))) > LARGEST:
            continue
        basis = np.linalg.svd(jacobian(x))[0][:, :independent]  # the equations at all words depend on each other
        under = {"type": "eq", "fun": lambda y, b=basis: b.T @ condition(y), "jac": lambda y, b=basis: b.T @ jacobian(y)}
        x = minimize(size, x, jac=slope, method="SLSQP", constraints=under, options={"maxiter": 150}).x
        x = least_squares(condition, x, jacobian, xtol=1e-15, ftol=1e-15, gtol=1e-15).x
        norm = float(np.exp(0.5 * size(x)))
        if np.max(np.abs(condition(x))) < 1e-11 and np.max(np.abs(stages(np, x, outer))) < LARGEST:
            found.append((norm, x))
            print(f"error {norm:.2e}, stages × error^(1/order) {number * norm ** (1 / order):.2f}", x.tolist(), flush=True)
    return sorted(found, key=lambda pair: pair[0])


if __name__ == "__main__":
    order, number, part, seconds, seed = [*map(float, sys.argv[1:]), *(60.0, 1.0)[len(sys.argv) - 4 :]]
    for norm, x in search(int(order), int(number), int(part), seconds, int(seed))[:3]:
        print(f"BEST error {norm:.2e}, stages × error^(1/order) {number * norm ** (1 / order):.2f}:", x.tolist())
