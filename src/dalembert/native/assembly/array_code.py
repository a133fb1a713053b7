"""Loops over named arrays as machine code: copies, sums, totals, and the arithmetic of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dalembert.native.llvm.builder import Code


class ArrayCode:
    """What a loop like Newton's is written with. word: the addresses and counts by their names; n: length of an array."""

    c: Code
    word: dict[str, str]
    n: str

    def _plus(self, a: str, b: str) -> str:
        return self.c.let(f"fadd double {a}, {b}")

    def _minus(self, a: str, b: str) -> str:
        return self.c.let(f"fsub double {a}, {b}")

    def _times(self, a: str, b: str) -> str:
        return self.c.let(f"fmul double {a}, {b}")

    def _abs(self, x: str) -> str:
        return self.c.absolute(x)

    def _finite(self, x: str) -> str:
        return self.c.let(f"fcmp olt double {self._abs(x)}, {self.c.constant(float('inf'))}")

    def _call(self, function: str, count: str, *arguments: str, more: Sequence[str] = ()) -> None:
        given = [f"i64 {self.word[count]}", *(f"ptr {self.word[a]}" for a in arguments), *(f"ptr {m}" for m in more)]
        self.c.line(f"call void {self.word[function]}({', '.join(given)})")

    def _fill(self, pointer: str, count: str) -> None:
        self.c.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        length = self.c.let(f"shl i64 {count}, 3")
        self.c.line(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {length}, i1 false)")

    def _copy(self, to: str, source: str) -> None:
        self.c.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        length = self.c.let(f"shl i64 {self.n}, 3")
        self.c.line(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {self.word[to]}, ptr {self.word[source]}, i64 {length}, i1 false)"
        )

    def _total(self, count: str, values: Callable[[str], Sequence[str]], number: int) -> list[str]:
        """Sums over i < count, in any order."""
        c = self.c
        slots = [c.slot("total") for _ in range(number)]
        for s in slots:
            c.store(c.constant(0.0), s)
        with c.loop(0, count) as i:
            for s, value in zip(slots, values(i), strict=True):
                c.store(c.let(f"fadd reassoc contract double {c.load(s)}, {value}"), s)
        return [c.load(s) for s in slots]

    def _item(self, name: str, i: str) -> str:
        return self.c.load(self.c.at(self.word[name], i))

    def _index(self, name: str, i: str) -> str:
        return self.c.load(self.c.at(self.word[name], i, "i64"), "i64")

    def _larger(self, known: str, value: str) -> str:
        return self.c.let(f"select i1 {self.c.let(f'fcmp ogt double {value}, {known}')}, double {value}, double {known}")

    def _add(self, to: str, a: str, b: str) -> None:
        c = self.c
        with c.loop(0, self.n) as i:
            c.store(self._plus(self._item(a, i), self._item(b, i)), c.at(self.word[to], i))
