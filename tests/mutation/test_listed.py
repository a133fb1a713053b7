"""The mutants that are listed can be made: what they change stands in the sources."""

import runpy
from pathlib import Path

LIST = runpy.run_path(str(Path(__file__).with_name("mutate.py")), run_name="mutate")


def test_every_listed_mutant_changes_a_line_that_stands_once():
    found = LIST["written"](LIST["KNOWN"] + LIST["DRAWN"])
    assert len(found) == len(LIST["KNOWN"]) + len(LIST["DRAWN"])
    for mutant in found:
        _, before, after = mutant.change()
        assert before != after


def test_every_mutant_that_is_explained_is_one_of_them():
    listed = {mutant.change() for mutant in LIST["written"](LIST["KNOWN"] + LIST["DRAWN"])}
    assert set(LIST["EXPLAINED"]) <= listed
