"""Symmetric compositions with the least leading error, from random starts.

    python benchmarks/composition_search.py ORDER STAGES [SECONDS [SEED]]

Order conditions and errors are those of compositions.py, here as arrays over all words, so that JAX can differentiate
them. A random start is brought onto the conditions by least squares, and from there the norm of the leading term is made
small under the conditions by SLSQP. Order 8 needs minutes, for few starts arrive.
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from compositions import conditions, exact, words
from scipy.optimize import least_squares, minimize

jax.config.update("jax_enable_x64", True)
LARGEST = 1.2  # of |γ|: sets with larger ones have large errors


def series_of(order: int):
    """Words of weight ≤ order + 1, their weights, and γ of all stages → by what the product differs from exp(Y₁) at them."""
    listed = words(order + 1)
    place = {word: i for i, word in enumerate(listed)}
    weight = np.array([sum(word) for word in listed])
    factorial = np.cumprod([1.0, *range(1, order + 2)])[[len(word) for word in listed]]
    splits = [(i, place[word[:k]], place[word[k:]]) for i, word in enumerate(listed) for k in range(len(word) + 1)]
    whole, left, right = (np.array(column) for column in zip(*splits, strict=True))
    target = np.array([float(exact(word)) for word in listed])

    def rest(gammas):
        def after(total, gamma):
            step = gamma**weight / factorial
            return jax.ops.segment_sum(total[left] * step[right], whole, len(listed)), None

        return jax.lax.scan(after, jnp.zeros(len(listed)).at[0].set(1.0), gammas)[0] - target

    return listed, weight, rest


def compiled(rest, wanted, leading):
    """The conditions, at the words `wanted`, and log‖leading term‖², with their derivatives, as functions of NumPy."""
    condition = lambda x: rest(x)[wanted]  # noqa: E731
    size = lambda x: jnp.log(jnp.sum(rest(x)[leading] ** 2))  # noqa: E731
    array = lambda function: lambda x: np.asarray(function(x))  # noqa: E731
    return [array(jax.jit(f)) for f in (condition, jax.jacfwd(condition), size, jax.grad(size))]


def functions(order: int):
    """What is left of the conditions, and log‖leading term‖², of γ from the outermost to the middle, with derivatives."""
    listed, weight, rest = series_of(order)
    wanted = np.array([listed.index(word) for word in ((1,), *conditions(order))])
    whole = lambda outer: rest(jnp.concatenate([outer, outer[:-1][::-1]]))  # noqa: E731
    return compiled(whole, wanted, np.flatnonzero(weight == order + 1))


def search(order: int, stages: int, seconds: float, seed: int) -> list[tuple[float, np.ndarray]]:
    """(‖leading term‖, γ from the outermost to the middle), smallest first."""
    condition, jacobian, size, slope = functions(order)
    random, found, unknowns = np.random.default_rng(seed), [], (stages + 1) // 2
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        outer = random.uniform(-0.7, 0.7, unknowns)
        outer[-1] = 1 - 2 * outer[:-1].sum()
        if abs(outer[-1]) > LARGEST:
            continue
        outer = least_squares(condition, outer, jacobian, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=200).x
        if np.max(np.abs(condition(outer))) > 1e-9 or np.max(np.abs(outer)) > LARGEST:
            continue
        under = {"type": "eq", "fun": condition, "jac": jacobian}
        if unknowns > len(condition(outer)):
            outer = minimize(size, outer, jac=slope, method="SLSQP", constraints=under, options={"maxiter": 200}).x
        outer = least_squares(condition, outer, jacobian, xtol=1e-15, ftol=1e-15, gtol=1e-15).x
        norm = float(np.exp(0.5 * size(outer)))
        if np.max(np.abs(condition(outer))) < 1e-11 and all(abs(norm / other - 1) > 1e-3 for other, _ in found):
            found.append((norm, outer))
    return sorted(found, key=lambda pair: pair[0])


if __name__ == "__main__":
    numbers = [float(argument) for argument in sys.argv[1:]]
    order, stages, seconds, seed = [*numbers, *(8.0, 17.0, 60.0, 1.0)[len(numbers) :]]
    for norm, outer in search(int(order), int(stages), seconds, int(seed))[:8]:
        print(f"error {norm:.2e}, stages × error^(1/order) {stages * norm ** (1 / order):.2f}:", outer.tolist())
