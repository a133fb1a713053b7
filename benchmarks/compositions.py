"""Symmetric compositions of a self-adjoint step, S(γ₁h)…S(γ_s h), γ_i = γ_{s+1-i}: coefficients and order conditions.

    log S(h) = hY₁ + h³Y₃ + h⁵Y₅ + …,  exp(γhY₁ + γ³h³Y₃ + …) … = exp(hY₁) + O(h^{p+1}).

Both sides are series in words of the letters 1, 3, 5, …; γ takes a letter i with γ^i, so that the exponential of one
step has γ^{|w|}/(length of w)! at the word w, and a product splits words. Such a series is fixed by its values at Lyndon
words, which generate the shuffle algebra freely (Radford's theorem), and for symmetric γ even weights follow from odd ones:
with Σγ = 1 these are 2, 4 and 8 conditions for the orders 4, 6 and 8 (Hairer, Lubich, Wanner, Geometric Numerical
Integration, section V.3.2).

    python benchmarks/compositions.py      the sets, solved again to 50 digits, what is left, and the sizes of their errors
"""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np

getcontext().prec = 60
Word = tuple[int, ...]

# name and stages: (order, γ from the outermost on; the middle one is what is missing to 1). "least error": the least
# norm of the leading term that a search from random starts found.
SETS: dict[str, tuple[int, tuple[str, ...]]] = {
    "base step": (2, ()),
    "triple jump": (4, ("1.351207191959657634047687808971460826922",)),
    "Suzuki 5": (4, ("0.414490771794375737142354062861",) * 2),
    "McLachlan 5": (4, ("0.28", "0.62546642846767004501")),
    "least error 7": (4, ("0.22615352123491694", "0.24444291941962798", "0.2470798509673857")),
    "Yoshida A 7": (6, ("0.78451361047755726381949763", "0.23557321335935813368479318", "-1.17767998417887100694641568")),
    "Kahan-Li 9": (
        6,
        ("0.39216144400731413927925056", "0.33259913678935943859974864", "-0.70624617255763935980996482",
         "0.08221359629355080023149045"),
    ),
    "least error 11": (
        6,
        ("0.20858248610229077", "0.1863676502469259", "0.18266013319648483", "-0.44370082642461106", "0.11379740165140088"),
    ),
    "least error 13": (
        6,
        ("0.13121047176332606", "0.13378804639147046", "0.13583399738051913", "0.13768810484064278", "-0.35088639241790814",
         "0.11233718916993492"),
    ),
    "Suzuki-Umeno 15": (
        8,
        ("0.74167036435061295344822780", "-0.40910082580003159399730010", "0.19075471029623837995387626",
         "-0.57386247111608226665638773", "0.29906418130365592384446354", "0.33462491824529818378495798",
         "0.31529309239676659663205666"),
    ),
    "Kahan-Li 17": (
        8,
        ("0.13020248308889008087881763", "0.56116298177510838456196441", "-0.38947496264484728640807860",
         "0.15884190655515560089621075", "-0.39590389413323757733623154", "0.18453964097831570709183254",
         "0.25837438768632204729397911", "0.29501172360931029887096624"),
    ),
    "least error 17": (
        8,
        ("0.31568668380825476", "-0.3532676751672303", "0.21712497039465237", "0.14152716540506163", "0.5760835941263766",
         "-0.4393153829119661", "0.14099943091717665", "0.21106135887869495"),
    ),
    "Sofroniou-Spaletta 35": (
        10,
        ("0.07879572252168641926390768", "0.31309610341510852776481247", "0.02791838323507806610952027",
         "-0.22959284159390709415121340", "0.13096206107716486317465686", "-0.26973340565451071434460973",
         "0.07497334315589143566613711", "0.11199342399020980488957508", "0.36613344954622675119314812",
         "-0.39910563013603589787862981", "0.10308739852747107731580277", "0.41143087395589023782070412",
         "-0.00486636058313526176219566", "-0.39203335370863990644808194", "0.05194250296244964703718290",
         "0.05066509075992449633587434", "0.04967437063972987905456880"),
    ),
}  # fmt: skip


def words(most: int) -> list[Word]:
    """All words of odd letters with weight at most `most`, the empty one first."""
    found: list[Word] = [()]
    for word in found:  # grows while it is read
        found += [(*word, letter) for letter in range(1, most - sum(word) + 1, 2)]
    return sorted(found, key=lambda word: (sum(word), word))


def is_lyndon(word: Word) -> bool:
    return bool(word) and all(word < word[k:] for k in range(1, len(word)))


def series(gammas, most: int) -> dict[Word, Decimal]:
    """The product of exponentials, at all words of weight at most `most`."""
    all_words = words(most)
    total = {word: gammas[0] * 0 + (not word) for word in all_words}
    for gamma in gammas:
        step = {word: gamma ** sum(word) / math.factorial(len(word)) if word else gamma * 0 + 1 for word in all_words}
        total = {w: sum(total[w[:k]] * step[w[k:]] for k in range(len(w) + 1)) for w in all_words}
    return total


def exact(word: Word) -> Decimal:
    """The coefficient of exp(Y₁)."""
    return Decimal(1) / math.factorial(len(word)) if set(word) <= {1} else Decimal(0)


def whole(outer) -> list:
    """All γ from those before the middle."""
    outer = list(outer)
    return [*outer, 1 - 2 * sum(outer, Decimal(0)), *outer[::-1]]


def conditions(order: int) -> list[Word]:
    """The words at which a symmetric composition with Σγ = 1 must vanish."""
    return [word for word in words(order - 1) if sum(word) % 2 and word != (1,) and is_lyndon(word)]


def polished(order: int, outer) -> list[Decimal]:
    """The outer γ nearest to those given that satisfy the conditions, by Newton's iteration with a Jacobian in doubles."""
    wanted, outer = conditions(order), [Decimal(text) for text in outer]
    left = lambda gammas: [series(whole(gammas), order - 1)[word] for word in wanted]  # noqa: E731
    if not wanted:
        return outer
    tiny = Decimal(10) ** -25
    base = left(outer)
    columns = [left([*outer[:i], outer[i] + tiny, *outer[i + 1 :]]) for i in range(len(outer))]
    jacobian = np.array([[float((a - b) / tiny) for a, b in zip(column, base, strict=True)] for column in columns]).T
    inverse = np.linalg.pinv(jacobian)
    for _ in range(12):
        scale = max(max(abs(value) for value in base), Decimal(10) ** -80)
        change = inverse @ np.array([float(value / scale) for value in base])
        outer = [gamma - Decimal(float(d)) * scale for gamma, d in zip(outer, change, strict=True)]
        base = left(outer)
    return outer


def error(order: int, gammas) -> float:
    """‖leading term of the error‖: over the words of weight order + 1."""
    found = series(gammas, order + 1)
    return math.sqrt(sum(float(a - exact(word)) ** 2 for word, a in found.items() if sum(word) == order + 1))


def coefficients(name: str) -> np.ndarray:
    """All γ of a set, (s,), in doubles."""
    order, outer = SETS[name]
    return np.array([float(gamma) for gamma in whole(polished(order, outer))])


def main() -> None:
    for name, (order, outer) in SETS.items():
        gammas = whole(polished(order, outer))
        found = series(gammas, order)
        left = max(abs(a - exact(word)) for word, a in found.items())
        size = error(order, gammas)
        print(f"{name}: order {order}, {len(gammas)} stages, conditions {left:.0e}, error {size:.2e}", end=", ")
        print(f"stages × error^(1/order) {len(gammas) * size ** (1 / order):.2f}, Σ|γ| {float(sum(map(abs, gammas))):.2f}")
        for gamma in gammas[: len(gammas) // 2 + 1]:
            print(f"    {gamma:+.30f}")


if __name__ == "__main__":
    main()
