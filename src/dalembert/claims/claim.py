"""Claim and Verdict: what a theorem promises, whether its hypothesis is met here, and what was measured."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

from dalembert.notebook import Described


class Finding(enum.StrEnum):
    """The result for one claim.

    Attributes:
        HOLDS: its hypothesis is met, and what was measured is within the tolerance.
        FAILS: its hypothesis is met, and what was measured is not within the tolerance.
        HYPOTHESIS_FAILS: its hypothesis is not met: nothing is claimed for this system and this scheme.
    """

    HOLDS = "holds"
    FAILS = "does not hold"
    HYPOTHESIS_FAILS = "hypothesis fails"


@dataclasses.dataclass(frozen=True)
class Claim:
    """One claim of the theory, for one system and one scheme.

    Attributes:
        claim: what is claimed, in words.
        source: the paper, with the number of the theorem or equation.
        hypothesis: the condition under which it is claimed.
        finding: the result, a Finding.
        measured: the measured number; nan where nothing was measured: the hypothesis fails, or errors are rounding at every
            step, so that the scheme is exact here and shows no order.
        tolerance: the largest number with which the claim holds; for an order, the smallest. nan as above.
        reason: why the tolerance has this value; or what contradicts the hypothesis.
    """

    claim: str
    source: str
    hypothesis: str
    finding: Finding
    measured: float
    tolerance: float
    reason: str


@dataclasses.dataclass(frozen=True)
class Promise:
    """A claim before it is measured: what, from where, and under which hypothesis."""

    claim: str
    source: str
    hypothesis: str

    def not_met(self, why: str) -> Claim:
        """It is not claimed here."""
        return Claim(self.claim, self.source, self.hypothesis, Finding.HYPOTHESIS_FAILS, math.nan, math.nan, why)

    def exact(self, why: str) -> Claim:
        """It holds without a number."""
        return Claim(self.claim, self.source, self.hypothesis, Finding.HOLDS, math.nan, math.nan, why)

    def at_most(self, measured: float, tolerance: float, why: str) -> Claim:
        """measured ≤ tolerance; what is not finite is no promise kept."""
        return self._judge_claim(bool(measured <= tolerance), measured, tolerance, why)

    def at_least(self, measured: float, tolerance: float, why: str) -> Claim:
        """measured ≥ tolerance."""
        return self._judge_claim(bool(measured >= tolerance), measured, tolerance, why)

    def _judge_claim(self, holds: bool, measured: float, tolerance: float, why: str) -> Claim:
        finding = Finding.HOLDS if holds else Finding.FAILS
        return Claim(self.claim, self.source, self.hypothesis, finding, float(measured), float(tolerance), why)


@dataclasses.dataclass(frozen=True)
class Verdict(Described):
    """Which claims hold for a system, a scheme and a start. `str(verdict)` is a table.

    Attributes:
        claims: the Claims, in the order of the table.
        system: the constraints, in words.
        scheme: as text.
        h: time step.
        steps: number of steps of the run that was checked.
        sampled: which states were checked, in words.
    """

    claims: tuple[Claim, ...]
    system: str
    scheme: str
    h: float
    steps: int
    sampled: str

    @property
    def holds(self) -> bool:
        """Whether every claim whose hypothesis is met holds."""
        return not self.broken

    @property
    def broken(self) -> tuple[Claim, ...]:
        """The claims that do not hold although their hypotheses do."""
        return tuple(c for c in self.claims if c.finding is Finding.FAILS)

    def __getitem__(self, claim: str) -> Claim:
        """The claim whose words begin so."""
        for one in self.claims:
            if one.claim.startswith(claim):
                return one
        raise KeyError(f"{claim!r}: no claim begins so; there are {', '.join(repr(c.claim) for c in self.claims)}")

    def to_dict(self) -> dict[str, Any]:
        """The verdict as text and numbers, for JSON; None for values that were not measured."""
        rows = [dataclasses.asdict(c) | {"finding": str(c.finding)} for c in self.claims]
        rows = [{name: _number(value) for name, value in row.items()} for row in rows]
        about = {name: getattr(self, name) for name in ("system", "scheme", "h", "steps", "sampled")}
        return {**about, "holds": self.holds, "claims": rows}

    def __str__(self) -> str:
        width = max(len(c.claim) for c in self.claims)
        lines = [f"{self.system}; {self.scheme}, h = {self.h:g}", self.sampled]
        for c in self.claims:
            number = "" if math.isnan(c.measured) else f"{c.measured:9.2e}"
            lines.append(f"  {c.claim:<{width}}  {c.finding:<16}  {number:>9}  {c.reason}  [{c.source}]")
        return "\n".join(lines)


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
