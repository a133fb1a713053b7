"""The symbolic plan of the elimination of one block: which entries there are, which fill in, what it changes in others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from dalembert.native.assembly.windows import Windowed

Pair = tuple[int, int]
T = TypeVar("T")


class Summand(NamedTuple):
    """One of the functions of a window. windowed: reads the path at Places, returns the entries of K_i that are not zero.

    entries: their (row, column), row ≤ column, counted from the first component of the window's first block.
    """

    windowed: Windowed
    entries: tuple[Pair, ...]


class SymbolicPlan(NamedTuple):
    """The elimination of one block, after a change of basis.

        z_c = σ_c + z_{c+b},   z_{c+2b} = z_{c+b} - σ_{c+2b}   for the components c in `differences`, b being the size

    A component of which two successive blocks are coupled to what is eliminated has entries of 1/h² there, and those of size
    1 are what they differ by. In σ these are entries, and nothing of them is lost.

    pivots: groups of one or two components of the block, in their order. below: for every group the components that are
    coupled to it and eliminated later; entries: those of the windows; update: the pattern of the update matrix, pairs of
    components counted from the first of the next block, in the basis of that block. All but `entries` are in the new basis.
    """

    size: int
    pivots: tuple[tuple[int, ...], ...]
    below: tuple[tuple[int, ...], ...]
    entries: tuple[Pair, ...]
    update: tuple[Pair, ...]
    differences: tuple[int, ...] = ()

    @property
    def stored(self) -> int:
        """Numbers of a block that are kept: D⁻¹ and L."""
        return sum((1, 3)[len(p) - 1] + len(p) * len(q) for p, q in zip(self.pivots, self.below, strict=True))

    @property
    def carried(self) -> tuple[int, ...]:
        """Components after those of a block, counted from its first, that its elimination changes; with those that these
        become in the blocks that follow."""
        found, b = {q - self.size for near in self.below for q in near if q >= self.size}, self.size
        while not {q - b for q in found if q >= b} <= found:
            found |= {q - b for q in found if q >= b}
        return tuple(sorted(found))

    def next_place(self, q: int) -> int:
        """Where a component after those of the block stands in the next block, which takes σ_{c+2b} as its own."""
        c = q % self.size
        return (c, c + self.size)[q < 2 * self.size] if c in self.differences else q - self.size


def symbolic_plan(
    entries: Sequence[Pair], size: int, pivots: Sequence[tuple[int, ...]], wanted: Sequence[int] = ()
) -> SymbolicPlan:
    """The elimination of every block, once the pattern of the update matrix does not change any more.

    wanted: components that become differences where two successive blocks of them, and not three, are coupled to what is
    eliminated.
    """
    plain = _closed(entries, size, pivots, ())
    left = {q for pair in plain.update for q in pair}
    differences = tuple(c for c in wanted if c in left and c + size in left and c + 2 * size not in left)
    return _closed(entries, size, pivots, differences) if differences else plain


def _closed(
    entries: Sequence[Pair], size: int, pivots: Sequence[tuple[int, ...]], differences: tuple[int, ...]
) -> SymbolicPlan:
    of_windows = set(entries) | {(i, i) for i in range(size)}
    plan = SymbolicPlan(size, tuple(pivots), (), tuple(sorted(of_windows)), (), differences)
    once = dict.fromkeys(of_windows, True)
    own = {(min(g), max(g)) for g in pivots} | set(into_differences(once, plan, _both, bool))
    update: set[Pair] = set()
    while True:
        left_over, below = own | update, []
        for group in pivots:
            near = sorted({q for pair in left_over for p in group if p in pair for q in pair if q not in group})
            below.append(tuple(near))
            left_over = {pair for pair in left_over if not set(pair) & set(group)}
            left_over |= {(p, q) for p in near for q in near if p <= q}
        left = set(into_next(dict.fromkeys(left_over, True), plan, _both))
        for c in differences:  # where z_c is fixed, σ_c is -z_{c+b}
            coupled = {q for pair in left if c in pair for q in pair} - {c}
            left |= {(min(q, c + size), max(q, c + size)) for q in coupled}
        if left == update:
            return plan._replace(below=tuple(below), update=tuple(sorted(update)))
        update |= left


def _both(a: bool, b: bool) -> bool:
    return a or b


def into_differences(
    value: Mapping[Pair, T], plan: SymbolicPlan, plus: Callable[[T, T], T], minus: Callable[[T], T]
) -> dict[Pair, T]:
    """The entries of windows in the basis of the elimination."""
    found = dict(value)
    for c in plan.differences:
        first, second = c + plan.size, c + 2 * plan.size
        found = joined(joined(found, c, first, plus), second, first, plus)
        found = {pair: minus(x) if second in pair and pair[0] != pair[1] else x for pair, x in found.items()}
    return found


def into_next(value: Mapping[Pair, T], plan: SymbolicPlan, plus: Callable[[T, T], T]) -> dict[Pair, T]:
    """What is left of the elimination, in the basis of the next block and with its places."""
    found = dict(value)
    for c in plan.differences:
        found = joined(found, c + plan.size, c + 2 * plan.size, plus)
    places = ((plan.next_place(p), plan.next_place(q), x) for (p, q), x in found.items())
    return {(min(p, q), max(p, q)): x for p, q, x in places}


def joined(value: Mapping[Pair, T], a: int, into: int, plus: Callable[[T, T], T]) -> dict[Pair, T]:
    """The entries of SᵀKS where S replaces z_a by z_a + z_into: row and column a are added to those of `into`."""
    found = dict(value)

    def add(p: int, q: int, x: T) -> None:
        pair = min(p, q), max(p, q)
        found[pair] = plus(found[pair], x) if pair in found else x

    for (p, q), x in value.items():
        if a not in (p, q):
            continue
        other = q if p == a else p
        add(other if other != a else into, into, plus(x, x) if other == into else x)
        if other == a:
            add(a, into, x)
    return found
