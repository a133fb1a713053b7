"""Checks that a run goes on as the one that was begun: the same functions and numbers, and arithmetic of the same bits."""

from __future__ import annotations

import json

from dalembert.path import Provenance
from dalembert.store.runs import StoredRun

ROUNDING = "give allow_rounding=True to go on all the same, to a path whose last digits may differ"

OTHER = "system: its functions, or what they read, are not those of the run in the store; give the system that began it"

FUNCTIONS = ("reduce", "stop", "domain", "feedback", "density", "inequalities")
NUMBERS = ("tolerance", "max_iterations", "save_every")


def check_record(then: Provenance, now: Provenance) -> None:
    """ValueError naming the argument that is not that of the run. Functions are compared by what is computed, later."""
    for argument, field in (("system", "parameters"), ("scheme", "scheme"), ("branch", "branch")):
        old, new = getattr(then, field), getattr(now, field)
        if old != new:
            what = "it is" if argument == field else "its parameters are"
            raise ValueError(f"{argument}: {what} {new or 'none'}; the run in the store has {old or 'none'}")
    old, new = (json.loads(record.run) for record in (then, now))
    for name in FUNCTIONS:
        if (name in old) != (name in new):
            has, asked = ("has one", "give it") if name in old else ("has none", "leave it out")
            raise ValueError(f"{name}: the run in the store {has}; {asked}")
    for name in NUMBERS:
        if old.get(name) != new.get(name):
            raise ValueError(f"{name}: found {new.get(name)}; the run in the store has {old.get(name)}")


def check_bits(stored: StoredRun, now: dict[str, str], record: Provenance, allow_rounding: bool) -> None:
    """ValueError where the next steps would not be, bit for bit, those of the run."""
    then, versions = stored.attributes["fingerprint"], stored.record.versions
    here = then.get("processor") == now["processor"] and versions == record.versions
    same = then.get("equations") == now["equations"] and then.get("inputs") == now["inputs"]
    if here and same:
        return
    if here or record.source_hash != stored.record.source_hash:
        raise ValueError(OTHER)
    if not allow_rounding:
        raise ValueError(f"store: the run was begun {_elsewhere(then, now, versions, record.versions)}; {ROUNDING}")


def _elsewhere(then: dict[str, str], now: dict[str, str], old: str, new: str) -> str:
    """The difference, in words."""
    if then.get("processor") != now["processor"]:
        return "on another processor, or with another C library"
    before, after = json.loads(old), json.loads(new)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return "with " + ", ".join(f"{name} {before.get(name)} (here {after.get(name)})" for name in names)


def check_same(then: Provenance, now: Provenance, old: dict[str, str], new: dict[str, str]) -> None:
    """ValueError where the runs of a sweep would not be, bit for bit, those of the store. old, new: fingerprints, of the new
    one what is known."""
    check_record(then, now)
    before, after = (json.loads(record.run) for record in (then, now))
    for name in (name for name in {**before, **after} if before.get(name) != after.get(name)):
        if name in FUNCTIONS:
            raise ValueError(
                f"{name}: differs from that of the sweep in the store, or reads other values; give the same function"
            )
        raise ValueError(f"{name}: found {after.get(name)}; the sweep in the store has {before.get(name)}")
    for name in (name for name in new if name.startswith(("values", "over_runs"))):
        if old.get(name) != new[name]:
            raise ValueError(
                f"{name}: the sweep in the store has {'others' if name in old else 'none'}; give the same, or another store"
            )
    if then.source_hash != now.source_hash:
        raise ValueError(OTHER)
    here = {"processor": new.get("processor", old.get("processor", ""))}
    if then.versions != now.versions or here["processor"] != old.get("processor"):
        where = _elsewhere({"processor": old.get("processor", "")}, here, then.versions, now.versions)
        raise ValueError(f"store: the sweep was begun {where}; its runs would have other last digits")
    if any(old.get(name) != x for name, x in new.items()):
        raise ValueError(OTHER)
