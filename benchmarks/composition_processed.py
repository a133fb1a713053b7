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

import ctypes
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from build import built
from composition_search import compiled, series_of
from composition_work import ERRORS, FINE, PROBLEMS, WORK, Problem, end
from composition_work import work as single
from compositions import SETS, coefficients
from scipy.optimize import least_squares, minimize

jax.config.update("jax_enable_x64", True)
LARGEST = 1.0  # of |γ|, |δ|
# Order, how many of the numbers are γ from the outermost on (the middle one is what is missing to 1); the others are δ
# without the last one.
PROCESSED: dict[str, tuple[int, int, tuple[float, ...]]] = {
    "processed 7, order 6": (
        6,
        3,
        (
            0.4314624231476424,
            0.43088888036244727,
            -0.8341610586016209,
            -0.666104770362092,
            -0.3524809086223281,
            -0.09777642400156523,
            0.3467337958956943,
            0.13665271849301808,
            0.666501183004421,
        ),
    ),
    "processed 9, order 6": (
        6,
        4,
        (
            0.2462296260456228,
            0.2456121770814981,
            0.2463019407423255,
            -0.5514109947184703,
            0.07926807743874785,
            -0.4793950852000869,
            -0.09064868741925951,
            -0.5018243803685304,
            0.5049266492275138,
            0.12735813744427052,
            0.475523125415703,
        ),
    ),
    "processed 15, order 8": (
        8,
        7,
        (
            0.7113077299882579,
            -0.4564076621692637,
            0.22562912651548275,
            -0.5326575629448084,
            0.2706952962573259,
            0.275313757465598,
            0.38917423562696934,
            -0.033247587799331145,
            -0.42868442836783954,
            0.15800246809558993,
            -0.16623357055480098,
            -0.2328905502758144,
            0.21490151866485768,
            -0.02373626523266952,
            0.39886070189221207,
            -0.08874085209862399,
            0.14234037362208662,
            0.001870520299063285,
            0.42395308477306654,
            0.0243689331203635,
        ),
    ),
    "processed 17, order 8": (
        8,
        8,
        (
            0.18133349398436532,
            0.5565479129309339,
            -0.3877008700355713,
            0.1537717678644249,
            -0.40700444293752913,
            0.1789655131300083,
            0.3409473281669516,
            0.18293231839781063,
            0.018271364261018115,
            -0.06500668129074254,
            0.050792154060478586,
            0.4035544104244952,
            0.24733357814698417,
            -0.028573595135780776,
            0.08212945559558414,
            -0.06934549100292776,
            -0.2702134940940913,
            -0.41814145060151636,
            -0.3804778055385314,
            0.1733051326610114,
            -0.1454491965568478,
        ),
    ),
    "processed 11, order 6": (
        6,
        5,
        (
            0.1703735737861513,
            0.171304977947482,
            0.17059694872524567,
            0.17003375808235566,
            -0.4233699059553061,
            -0.2965694658935932,
            0.35732786027738317,
            0.30744576315241584,
            0.3035048987145539,
            -0.3145144238125143,
            -0.23636070728345518,
            -0.3566049112599511,
        ),
    ),
    "processed 13, order 6": (
        6,
        6,
        (
            0.09151856967285674,
            0.1970764871627748,
            0.6806003167404407,
            -0.5390435723798526,
            0.14925686479240632,
            0.2849755898261207,
            0.11443105219661924,
            -0.1861269728085464,
            -0.3763167436641056,
            -0.1468671052748925,
            0.23031871938753637,
            0.36380894667919594,
            0.6789938919383838,
        ),
    ),
    "processed 13, order 8": (
        8,
        6,
        (
            0.15921232969074142,
            0.17681786470247224,
            0.5863210105363115,
            -0.46072842804604885,
            0.17422276699556194,
            0.17855096977308763,
            0.3465053941535183,
            -0.25184137310740207,
            0.5216086464407094,
            -0.3272407087278463,
            -0.49053561061259465,
            0.4943895819545746,
            0.12721026115343226,
            0.26677229436908245,
            0.4730921980156696,
            0.17048482339711418,
            -0.22464056519955,
            -0.4952510746125264,
            -0.09959909908480871,
        ),
    ),
}


def functions(order: int, outer: int):
    """What is left of the conditions, and log‖leading term‖², of (γ from the outermost on without the middle, δ without the
    last one), with derivatives."""
    _, weight, rest = series_of(order)
    wanted = np.flatnonzero((weight > 1) & (weight <= order))
    return compiled(lambda x: rest(stages(jnp, x, outer)), wanted, np.flatnonzero(weight == order + 1))


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
    known += [np.array(x[:n]) for _, n, x in PROCESSED.values() if n == outer]
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


def work(function, problem: Problem, kernel: np.ndarray, part: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Base steps per unit of time for ERRORS, those of π and π⁻¹ among them; as `work` of composition_work.py."""
    counts = np.unique(np.maximum(1, np.round(WORK * problem.time / len(kernel)).astype(int)))
    errors = []
    for n in map(int, counts):
        state = np.array(problem.start)
        for steps, weights in ((1, part), (n, kernel), (1, -part[::-1])):
            weights = np.ascontiguousarray(weights)
            h = problem.time / n
            function(problem.number, problem.epsilon, steps, len(weights), h, weights.ctypes.data, state.ctypes.data)
        errors.append(np.max(np.abs(state - truth)))
    kept = np.maximum.accumulate(np.nan_to_num(errors, nan=np.inf, posinf=1e9)[::-1])[::-1]
    needed = np.interp(-np.log(ERRORS), -np.log(kept), np.log((counts * len(kernel) + 2 * len(part)) / problem.time))
    return np.where((np.array(ERRORS) < kept[-1]) | (np.array(ERRORS) > kept[0]), np.nan, np.exp(needed))


def main() -> None:
    without = {name: coefficients(name) for name, (order, _) in SETS.items() if order > 2}
    processed = {}
    for name, (order, outer, text) in PROCESSED.items():
        condition, jacobian, size, _ = functions(order, outer)
        x = least_squares(condition, np.array(text), jacobian, xtol=1e-15, ftol=1e-15, gtol=1e-15).x
        processed[name] = parts(np, x, outer)
        number, norm = 2 * outer + 1, float(np.exp(0.5 * size(x)))
        left, sum_ = np.max(np.abs(condition(x))), np.sum(np.abs(processed[name][0]))
        print(f"{name}: {number} and {len(processed[name][1])} stages, conditions {left:.0e}, error {norm:.2e}", end=", ")
        print(f"stages × error^(1/order) {number * norm ** (1 / order):.2f}, Σ|γ| {sum_:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        function = built("composition_problems.c", Path(folder)).composed
        function.argtypes = [ctypes.c_long, ctypes.c_double, *[ctypes.c_long] * 2, ctypes.c_double, *[ctypes.c_void_p] * 2]
        function.restype = None
        rows = {"| base steps per unit of time |": [f"{e:.0e}" for e in ERRORS]}
        for problem in PROBLEMS:
            truth = end(function, problem, without["Kahan-Li 17"], int(FINE * problem.time))
            one = {name: single(function, problem, gamma, truth) for name, gamma in without.items()}
            with_one = {name: work(function, problem, *found, truth) for name, found in processed.items()}
            for title, group in (("without", one), ("processed", with_one)):
                table = np.where(np.isnan(list(group.values())), np.inf, list(group.values()))
                best = [f"{row.min():.1f}, {list(group)[row.argmin()]}" for row in table.T]
                rows[f"{problem.name}, {title}"] = best
            ratio = np.nanmin(list(one.values()), axis=0) / np.nanmin(list(with_one.values()), axis=0)
            rows[f"{problem.name}, ratio"] = [f"{x:.2f}" for x in ratio]
    for name, row in rows.items():
        print(name, "|", " | ".join(row))


if __name__ == "__main__" and len(sys.argv) > 1:
    order, number, part, seconds, seed = [*map(float, sys.argv[1:]), *(60.0, 1.0)[len(sys.argv) - 4 :]]
    for norm, x in search(int(order), int(number), int(part), seconds, int(seed))[:3]:
        print(f"BEST error {norm:.2e}, stages × error^(1/order) {number * norm ** (1 / order):.2f}:", x.tolist())
elif __name__ == "__main__":
    main()
