"""Nothing that a user can write goes without a reason: `public.json` against the package as it is.

Each entry of the table is there, is accepted with a DeprecationWarning, or begins with a key of ENDED.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import collect

sys.path.pop(0)

# What went, with the sentence that allows it. A key ends everything that begins with it.
PAPERS_MOVE = "Papers move beside the tests (`papers/`, run by `make papers`; `dalembert reproduce` goes or calls them)."
MODULES_JOIN = "≤ 320 modules, as long as their subject."  # these two were modules, and no function of theirs was exported
ENDED: dict[str, str] = {
    "control.batch": MODULES_JOIN,
    "control.solve": MODULES_JOIN,
    "papers": PAPERS_MOVE,
    "$ reproduce": PAPERS_MOVE,
}

TABLE: dict[str, str] = json.loads(collect.FILE.read_text(encoding="utf-8"))
COMMANDS = dict(collect.command_entries())
MISSING = object()


def losses(table: dict[str, str]) -> dict[str, str]:
    """What is wrong with each entry that is lost."""
    kept = {key: text for key, text in table.items() if not ended(key)}
    return {key: reason for key, text in kept.items() if (reason := loss(key, text))}


def ended(key: str) -> bool:
    return any(key == name or key.startswith((f"{name}.", f"{name} ")) for name in ENDED)


def loss(key: str, text: str) -> str | None:
    """Why an entry counts as lost, or None."""
    if key.startswith("$"):
        return command_loss(key, text)
    if text.startswith("= "):
        value = find(key)
        return None if value is not MISSING and value is find(text[2:]) else "is not the name at the top"
    value = find(key)
    if value is MISSING:
        return "is missing"
    return signature_loss(value, text) if text else None


def command_loss(key: str, text: str) -> str | None:
    if key not in COMMANDS:
        return "is missing"
    harmless = COMMANDS[key] == text or (text, COMMANDS[key]) == ("required", "optional") or text == "required"
    return None if harmless else f"was {text} and is {COMMANDS[key]}"


def find(key: str) -> Any:
    """What a user gets for a name; None for a field that only objects have, MISSING for nothing."""
    value: Any = importlib.import_module("dalembert")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for part in key.split("."):
            owner, value = value, getattr(value, part, MISSING)
            if value is MISSING and isinstance(owner, types.ModuleType):
                value = submodule(f"{owner.__name__}.{part}")
            if value is MISSING and isinstance(owner, type) and part in collect.members(owner):
                value = None
            if value is MISSING:
                return MISSING
    return value


def submodule(name: str) -> Any:
    """A module that users import by its name; a function of that name may hide it in its room."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return MISSING


def signature_loss(value: Any, text: str) -> str | None:
    """The first argument that is no longer taken as it was."""
    before, now = parse(text), collect.describe(value)
    after = parse(now)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in after.values()) and len(after) < len(before):
        return f"hides its arguments: {now}"
    for place, (name, parameter) in enumerate(before.items()):
        same = after.get(name)
        if same is None:
            if not accepted(lambda name=name: value(**{name: None})):
                return f"does not take {name}: {now}"
        elif same.default != parameter.default and parameter.default is not parameter.empty:
            return f"{name} was {parameter.default} and is {same.default}"
        elif same.kind is same.KEYWORD_ONLY and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            return f"takes {name} by name only: {now}"
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD and list(after).index(name) != place:
            return f"takes {name} at another place: {now}"
    extra = [name for name, p in after.items() if name not in before and p.default is p.empty and p.kind in NAMED]
    return f"asks for {extra[0]}: {now}" if extra else None


NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def parse(text: str) -> dict[str, inspect.Parameter]:
    """Parameters of a signature as it is written in the table; defaults stay text."""
    (function,) = ast.parse(f"def f{text or '()'}: ...").body
    assert isinstance(function, ast.FunctionDef)
    found, kind = function.args, inspect.Parameter
    positional = [*found.posonlyargs, *found.args]
    defaults = [None] * (len(positional) - len(found.defaults)) + found.defaults
    rows = [(a, kind.POSITIONAL_OR_KEYWORD, d) for a, d in zip(positional, defaults, strict=True)]
    rows += [(found.vararg, kind.VAR_POSITIONAL, None)] if found.vararg else []
    rows += [(a, kind.KEYWORD_ONLY, d) for a, d in zip(found.kwonlyargs, found.kw_defaults, strict=True)]
    rows += [(found.kwarg, kind.VAR_KEYWORD, None)] if found.kwarg else []
    return {a.arg: kind(a.arg, k, default=kind.empty if d is None else ast.unparse(d)) for a, k, d in rows}


def accepted(call: Any) -> bool:
    """Whether it says that it is deprecated, before anything else goes wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            call()
        except DeprecationWarning:
            return True
        except Exception:
            return False
    return False


def test_every_entry_is_there_or_ended():
    assert losses(TABLE) == {}


def test_ended_entries_have_gone_and_have_a_reason():
    assert [name for name, reason in ENDED.items() if not reason or not any(map(ended, TABLE))] == []
    assert [key for key in TABLE if ended(key) and not key.startswith("$") and find(key) is not MISSING] == []
    assert [key for key in COMMANDS if ended(key)] == []


def test_the_table_covers_the_package():
    import dalembert

    assert len(TABLE) > 1500
    assert {"simulate", "Path.describe", "measure.order", "$ run --plot", "gallery.pendulum.entry"} <= TABLE.keys()
    assert len([name for name in TABLE if name in dalembert.__all__]) > 80


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("simulation", "", "is missing"),
        ("Path.descriptions", "", "is missing"),
        ("measure.orders", "", "is missing"),
        ("$ run --picture", "None", "is missing"),
        ("$ run --scheme", "'other'", "was 'other'"),
        ("store.simulate", "= simulate", "is not the name"),
        ("prepare", "(system, speed, *, h)", "does not take speed"),
        ("reference", "(system, q0, v0, t0, t)", "does not take t0"),
        ("Rod.colour", "", "is missing"),
        ("Rod", "(start, to, colour=None)", "does not take"),
    ],
)
def test_a_loss_is_seen(key, text, reason):
    assert reason in losses({key: text})[key]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(a, b=1, *, c=(0, 1))", None),
        ("(a, b=2, *, c=(0, 1))", "b was 2"),
        ("(a, c=(0, 1))", "c by name only"),
        ("(b=1, a=2)", "b at another place"),
        ("(b=1)", "b at another place"),
        ("(a, b=1, *, c=(0, 1), old=None)", None),
        ("(a, b=1, *, c=(0, 1), gone=None)", "does not take gone"),
        ("(a, b=1, *, c=(1, 1))", "c was (1, 1)"),
    ],
)
def test_arguments_are_compared(text, reason):
    def function(a, b=1, *, c=(0, 1)):
        return a, b, c

    def deprecated(*values, **named):
        if "old" in named:
            warnings.warn("old", DeprecationWarning, stacklevel=2)
        return function(*values, **named)

    deprecated.__signature__ = inspect.signature(function)
    found = signature_loss(deprecated, text)
    assert found is None if reason is None else reason in found
