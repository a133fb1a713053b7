"""The truth table: gallery × schemes × claims, as `da.verdict` finds them; and flows and systems on nodes, `truth_flows`.

    python -m benchmarks.truth [docs] [--systems "pendulum;elastica"]

Writes truth.md, the page, into the folder, and truth.json, every number, which is not committed. Of systems that are not
named the rows of truth.json stay. Minutes of processor time for all of them.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import truth_boundary, truth_flows, truth_starts
from benchmarks.truth_flows import STEPS as FLOW_STEPS

import dalembert as da
from dalembert.gallery import ENTRIES, PROBLEMS

STEPS = 500
SCHEMES: dict[str, da.Scheme] = {
    "default": da.Scheme(),
    "kick_drift_kick": da.Scheme("kick_drift_kick"),
    "nodes": da.Scheme("nodes"),
    "jimenez_scheurle(0)": da.Scheme.jimenez_scheurle(0.0),
    "jimenez_scheurle(½), original nodes": da.Scheme.jimenez_scheurle(0.5, redefined=False),
    "order 4": da.Scheme(order=4),
    "order 6": da.Scheme(order=6),
    "order 8": da.Scheme(order=8),
    "order 10": da.Scheme(order=10),
    "discrete_gradient": da.Scheme("discrete_gradient"),
}
# On groups, where a verdict takes a minute, orders 2 and 4.
LOWER = {title: scheme for title, scheme in SCHEMES.items() if scheme.order <= 4}
MORE: dict[str, truth_flows.Flow] = {
    **truth_flows.flows(), **truth_flows.discrete(), **truth_flows.integrable(SCHEMES), **truth_flows.on_groups(LOWER)
}  # fmt: skip
ENDS = truth_boundary.problems()
STARTS = [*truth_starts.STARTERS, *truth_starts.FREE]
ROWS = [*ENTRIES, *MORE, *ENDS, *STARTS]
SIGNS = {"holds": "✓", "does not hold": "✗", "hypothesis fails": "–"}
FAMILY = {
    "q of order": "order of q",
    "v of order": "order of v",
    "multipliers of order": "order of λ",
    "the action or cost of order": "order of the value",
    "one step in (q, v) of order": "order of (q, v) in one step",
    "one step in λ of order": "order of λ in one step",
    "positions leave their leaf": "order off the leaf",
}
PLAIN = (  # numbers and particulars of a reason, and what stands for them on the page
    (r"[-+]?\d[\d.e+-]*", "…"),
    (r"(action|state): (Beta\(weight=…\) is not symmetric)", r"\2"),
    (r"the form \w+ (with state=)", r"a form \1"),
    (r": saturated(, saturated)*", ""),
    (r" at \(q, v\) \(smallest singular value.*", ""),
)
HEAD = """# The truth table

Which promises hold for which system and scheme of the [gallery](gallery.md), as [`da.verdict`](claims.md) finds them on
a run of {steps} steps. `make truth` writes this page, and every number into `docs/truth.json`.

✓ holds, ✗ does not hold, – is not promised; the small number says why,
[below](#why-a-claim-is-not-made-or-a-scheme-refused). A number beside ✓ is a measured order; *exact* means that errors
are rounding at every step and show no order.

"""


FLOWS = """## Flows of variational problems, systems on nodes, and two more systems

[Flows](higher.md) run from derivatives, systems as `DiscreteSystem` takes them, a bead that has to stay on a leaf, and
a ball on a slope; {steps} steps each.

"""


BETWEEN = """## Boundary problems and optimal control

Each problem is solved on four meshes that halve each other. The orders are those of the differences at the coarsest nodes.

"""


STARTED = """## Starters, and steps that are unknowns

Orders of runs on nodes with each [starter](choose.md), and what [free steps](higher.md) keep.

"""


def columns_of(name: str) -> Iterable[str]:
    """The schemes with which a row is measured, by their names."""
    return truth_starts.columns_of(name) if name in STARTS else _schemes(name)


def _schemes(name: str) -> dict[str, Any]:
    if name in ENDS:
        return truth_boundary.columns_of(ENDS[name])
    if name in ENTRIES:
        return SCHEMES if ENTRIES[name].system.space.flat else LOWER
    return MORE[name].columns


def verdict_of(name: str, column: str) -> dict[str, Any]:
    """The verdict as data, or why there is none."""
    if name in STARTS:
        return truth_starts.verdict_of(name, column)
    scheme = _schemes(name)[column]
    try:
        if name in ENDS:
            return truth_boundary.orders_of(ENDS[name], column)
        if name in ENTRIES:
            entry = ENTRIES[name]
            return da.verdict(entry.system, scheme, entry.q0, entry.v0, h=entry.h, steps=STEPS).to_dict()
        flow = MORE[name]
        data = {key: value() if callable(value) and key == "start" else value for key, value in flow.data.items()}
        return da.verdict(flow.problem, scheme, h=flow.h, steps=FLOW_STEPS, **data).to_dict()
    except (ValueError, da.StepError) as error:
        return {"refused": " ".join(str(error).split())[:300]}


def page(table: dict[str, dict[str, Any]]) -> str:
    """The page from the data."""
    notes = notes_of(table)
    parts = [HEAD.format(steps=STEPS), _failures(table), _reasons(notes)]
    for name, row in table.items():
        if name == next(iter(MORE)):
            parts.append(FLOWS.format(steps=FLOW_STEPS))
        if name == next(iter(ENDS)):
            parts.append(BETWEEN)
        if name == STARTS[0]:
            parts.append(STARTED)
        parts.append(_title(name))
        parts.append(_table(row, notes))
        parts.append(_refusals(row, notes))
    return "".join(parts)


def _refusals(row: dict[str, Any], notes: dict[str, int]) -> str:
    """The schemes that have no run."""
    reasons = {scheme: notes[_refusal(found["refused"])] for scheme, found in row.items() if "refused" in found}
    names = ", ".join(f"*{scheme}*<sup>{number}</sup>" for scheme, number in reasons.items())
    return f"Refused: {names}\n\n" if names else ""


def _claims(table: dict[str, dict[str, Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    """Every claim with its system and its scheme."""
    columns = [(name, scheme, found) for name, row in table.items() for scheme, found in row.items()]
    return [(name, scheme, claim) for name, scheme, found in columns for claim in found.get("claims", ())]


def notes_of(table: dict[str, dict[str, Any]]) -> dict[str, int]:
    """The number of each reason why a claim is not made or, after those, a scheme refused; the most frequent first."""
    why = Counter(_plain(c["reason"]) for _, _, c in _claims(table) if c["finding"] == "hypothesis fails")
    refused = Counter(_refusal(found["refused"]) for row in table.values() for found in row.values() if "refused" in found)
    return {reason: number for number, (reason, _) in enumerate((*why.most_common(), *refused.most_common()), start=1)}


def _failures(table: dict[str, dict[str, Any]]) -> str:
    every = _claims(table)
    kinds = Counter(claim["finding"] for _, _, claim in every)
    head = f"{len(every)} claims: " + ", ".join(f"{kinds[finding]} × {SIGNS[finding]}" for finding in SIGNS)
    failed: dict[tuple[str, str, str], list[str]] = {}
    for name, scheme, claim in every:
        if claim["finding"] == "does not hold":
            number = "" if claim["measured"] is None else f" ({claim['measured']:.3g})"
            failed.setdefault((name, claim["claim"], _plain(claim["reason"])), []).append(scheme + number)
    rows = "".join(
        f"| `{name}` | {html.escape(claim)} | {'; '.join(schemes)} | {html.escape(reason)} |\n"
        for (name, claim, reason), schemes in failed.items()
    )
    table = f"| system | claim | schemes, with the number found | what it is |\n|---|---|---|---|\n{rows}"
    return f"## What does not hold\n\n{head}.\n\n{table}\n"


def _reasons(notes: dict[str, int]) -> str:
    """Why a claim is not made, or a scheme refused."""
    rows = "".join(f"{number}. {html.escape(reason)}\n" for reason, number in notes.items())
    return f"## Why a claim is not made, or a scheme refused\n\n{rows}\n"


def _plain(reason: str) -> str:
    """A reason without numbers and particulars."""
    for pattern, text in PLAIN:
        reason = re.sub(pattern, text, reason)
    return reason


def _refusal(message: str) -> str:
    """Why a scheme is refused, without the scheme."""
    return re.sub(r"^scheme: (found (Scheme\(.*\)|the form '\w+'); )?", "", message)


def _title(name: str) -> str:
    if name in STARTS:
        title, formula = truth_starts.title_of(name)
        return f"### {title}\n\n`{name}`: {formula}\n\n"
    if name in ENDS:
        entry = PROBLEMS[ENDS[name]]
        return f"### {entry.title}: between its ends\n\n`{ENDS[name]}`: {entry.formula}\n\n"
    entry, level = (ENTRIES[name], "##") if name in ENTRIES else (MORE[name], "###")
    return f"{level} {entry.title}\n\n`{name}`: {entry.formula}, h = {entry.h:g}\n\n"


def _table(row: dict[str, Any], notes: dict[str, int]) -> str:
    schemes = [scheme for scheme, found in row.items() if "refused" not in found]
    cells: dict[str, dict[str, str]] = {}
    for scheme in schemes:
        for claim in row[scheme]["claims"]:
            cells.setdefault(_family(claim["claim"]), {})[scheme] = _cell(claim, notes)
    head = "".join(f"<th>{scheme.replace('_', '_<wbr>')}</th>" for scheme in schemes)  # long names break there
    body = "".join(
        f"<tr><td>{html.escape(claim)}</td>" + "".join(f"<td>{found.get(s, '')}</td>" for s in schemes) + "</tr>\n"
        for claim, found in cells.items()
    )
    table = f'<table class="truth"><thead><tr><th>claim</th>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>'
    return f'<details class="truth"><summary>{_counts(row)}</summary>\n{table}</details>\n\n'


def _counts(row: dict[str, Any]) -> str:
    kinds = Counter(claim["finding"] for found in row.values() for claim in found.get("claims", ()))
    return ", ".join(f"{kinds[finding]}&nbsp;×&nbsp;{SIGNS[finding]}" for finding in SIGNS if kinds[finding])


def _family(claim: str) -> str:
    return next((family for begin, family in FAMILY.items() if claim.startswith(begin)), claim)


def _cell(claim: dict[str, Any], notes: dict[str, int]) -> str:
    finding = claim["finding"]
    if finding == "does not hold":
        return f"<b>{SIGNS[finding]}</b>"
    if finding == "hypothesis fails":
        return f"<i>{SIGNS[finding]}<sup>{notes[_plain(claim['reason'])]}</sup></i>"
    order = (
        f"&nbsp;{claim['measured']:.2f}"
        if claim["claim"].startswith(tuple(FAMILY)) and claim["measured"] is not None
        else ""
    )
    return SIGNS[finding] + ("&nbsp;exact" if claim["reason"].startswith("exact: ") else order)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs"))
    parser.add_argument("--systems", default=";".join(ROWS))
    given = parser.parse_args(arguments)
    file = given.folder / "truth.json"
    if given.systems != ";".join(ROWS) and not file.exists():
        parser.error(f"--systems: the other rows of the page are read from {file}, which is written without --systems")
    table = json.loads(file.read_text()) if file.exists() else {}
    for name in given.systems.split(";"):
        table[name] = {}
        for title in columns_of(name):
            table[name][title] = verdict_of(name, title)
            print(name, title, table[name][title].get("holds", "refused"), flush=True)
    table = {name: table[name] for name in ROWS if name in table}
    file.write_text(json.dumps(table, ensure_ascii=False, indent=1) + "\n")
    (given.folder / "truth.md").write_text(page(table))


if __name__ == "__main__":
    main(sys.argv[1:])
