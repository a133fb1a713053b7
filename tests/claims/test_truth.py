"""The page of the truth table has every system with every scheme, and is what the library finds."""

import html
import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "truth.md").read_text(encoding="utf-8")
COLUMN = re.compile(r"<th>(?!claim<)(.*?)</th>")
CELL = re.compile(r"<td>(.*?)</td>")
REFUSED = re.compile(r"^Refused: (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def truth():
    return importlib.import_module("benchmarks.truth")


@pytest.fixture(scope="module")
def sections(truth):
    """The text of each row of the table on the page, in order."""
    places = [PAGE.index(truth._title(name)) for name in truth.ROWS]
    assert places == sorted(places)
    return {name: PAGE[i:j] for name, i, j in zip(truth.ROWS, places, [*places[1:], len(PAGE)], strict=True)}


def signs(row: str) -> list[str]:
    """The sign in each column of a row; "" where the claim is not made."""
    return [re.sub("<.*?>", "", cell)[:1] for cell in CELL.findall(row)]


def columns(section: str) -> tuple[list[str], list[str]]:
    """The schemes of a table, and those that are refused."""
    refused = [name for names in REFUSED.findall(section) for name in re.findall(r"\*(.*?)\*", names)]
    return [name.replace("<wbr>", "") for name in COLUMN.findall(section)], refused


def test_every_system_and_every_scheme_stands_in_it(truth, sections):
    for name, section in sections.items():
        measured, refused = columns(section)
        assert sorted([*measured, *refused]) == sorted(truth.columns_of(name)), name
    assert PAGE.startswith(truth.HEAD.format(steps=truth.STEPS))


@pytest.mark.parametrize(("name", "scheme"), [
    ("pendulum", "default"), ("heisenberg", "order 4"), ("minimum_jerk", "Averaged()"), ("pendulum, discrete", "on nodes"),
    ("elastica, between its ends", "Hermite()"),
])  # fmt: skip
def test_a_part_of_it_is_found_again(truth, sections, name, scheme):
    """The cells of one column, by claim: what a page of the claims that are found has, in the order of the page."""
    found = truth.verdict_of(name, scheme)
    expected = {truth._family(c["claim"]): truth.SIGNS[c["finding"]] for c in found["claims"]}
    at, kept = columns(sections[name])[0].index(scheme), {}
    for row in re.findall(r"<tr><td>.*?</tr>", sections[name]):
        claim, _, cells = row.removeprefix("<tr><td>").partition("</td>")
        if sign := signs(cells)[at]:
            kept[html.unescape(claim)] = sign
    assert kept == expected
    fresh, notes = truth.page({name: {scheme: found}}), truth.notes_of({name: {scheme: found}})
    assert truth._title(name) in fresh
    assert all(f"<td>{truth._cell(claim, notes)}</td>" in fresh for claim in found["claims"])
