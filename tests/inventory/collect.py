"""The public interface as a table: names, arguments, defaults, attributes, and the commands of the shell.

    python tests/inventory/collect.py

writes `public.json` beside this file. A key is a name as a user writes it after `dalembert.`, such as `simulate`,
`Path.describe` or `measure.order`, or a command with one of its options, such as `$ run --plot`. A value is the signature of
what can be called, `= name` for what the package has at its top, too, the default of an option, and "" for the rest.
`test_nothing_lost.py` compares the package with the table, which is written once, before names go.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument

import dalembert
from dalembert.cli import app

FILE = Path(__file__).parent / "public.json"
BASE = "before-halving"  # the tag of the commit that the table was written for
COMMIT = "2afb1444"  # the same commit, where tags do not travel
ROOMS = (*dalembert.ROOMS, "algebra", "gallery", "systems.manifolds")  # with a page in the reference
FROM_FILES = ("Entry", "BoundaryEntry")  # a user's file constructs them for the shell, file.py:name
PLAIN = (str, bytes, bool, int, float, complex, type(None))


def inventory() -> dict[str, str]:
    """Description by key, sorted."""
    found: dict[str, str] = {}
    for name in dalembert.__all__:
        found |= dict(entries(name, getattr(dalembert, name)))
    for room in ROOMS:
        found |= dict(room_entries(room))
    for module in pkgutil.iter_modules(importlib.import_module("dalembert.gallery").__path__, "gallery."):
        found |= dict(module_entries(module.name))
    return dict(sorted((found | dict(command_entries())).items()))


def room_entries(room: str) -> Iterator[tuple[str, str]]:
    """Names of a room; what the package has at its top, too, is described there."""
    module = importlib.import_module(f"dalembert.{room}")
    yield room, ""
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if getattr(dalembert, name, None) is value and name in dalembert.__all__:
            yield f"{room}.{name}", f"= {name}"
        else:
            yield from entries(f"{room}.{name}", value)


def module_entries(name: str) -> Iterator[tuple[str, str]]:
    """What a module of the gallery defines."""
    module = importlib.import_module(f"dalembert.{name}")
    yield name, ""
    for key, value in vars(module).items():
        own = getattr(value, "__module__", module.__name__) == module.__name__ or key == "entry"
        if not key.startswith("_") and not isinstance(value, types.ModuleType) and own and key != "annotations":
            yield from entries(f"{name}.{key}", value)


def entries(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """A name, and the attributes of a class."""
    yield key, describe(value)
    if isinstance(value, type):
        for name in members(value):
            yield f"{key}.{name}", describe(member(value, name))


def members(cls: type) -> list[str]:
    """Public fields, properties and methods that classes of the package define; `lazy` has constructors for itself."""
    own = [base for base in cls.__mro__ if base.__module__.startswith("dalembert.") and base.__module__ != "dalembert.lazy"]
    names = {name for base in own for name in (*vars(base), *inspect.get_annotations(base))}
    return sorted(name for name in names if not name.startswith("_"))


def member(cls: type, name: str) -> Any:
    """A method, or None for what is no method."""
    value = inspect.getattr_static(cls, name, None)
    return getattr(cls, name) if isinstance(value, types.FunctionType | classmethod | staticmethod) else None


def describe(value: Any) -> str:
    """The signature of a function, or of a class that users construct, "" of anything else."""
    if not isinstance(value, type | types.FunctionType | types.MethodType):
        return ""
    if isinstance(value, type) and not is_constructed_by_users(value):
        return ""  # a result may have one attribute more
    try:
        signature = inspect.signature(value)
    except ValueError:  # an enumeration or an error without a constructor of its own
        return ""
    plain = [
        parameter.replace(
            annotation=parameter.empty,
            default=parameter.default if parameter.default is parameter.empty else Default(parameter.default),
        )
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def is_constructed_by_users(cls: type) -> bool:
    """By its docstring, which then has arguments or an example; or for the shell."""
    text = inspect.getdoc(cls) or ""
    return cls.__name__ in FROM_FILES or "Args:" in text or f"{cls.__name__}(" in text


@dataclasses.dataclass(frozen=True, repr=False)
class Default:
    """Writes a default in the same way in every process: simple values as they are, others by name or class."""

    value: Any

    def __repr__(self) -> str:
        if type(self.value) in PLAIN:
            return repr(self.value)
        if isinstance(self.value, tuple):
            return f"({', '.join(repr(Default(x)) for x in self.value)})"
        return getattr(self.value, "__name__", None) or type(self.value).__name__


def command_entries() -> Iterator[tuple[str, str]]:
    """Commands of the shell, arguments by position, and options with their defaults."""
    program: Any = typer.main.get_command(app)
    for name, command in program.commands.items():
        yield f"$ {name}", ""
        position = 0
        for parameter in command.params:
            if isinstance(parameter, TyperArgument):
                yield f"$ {name} {position}", "required" if parameter.required else "optional"
                position += 1
            else:
                for option in (*parameter.opts, *parameter.secondary_opts):
                    yield f"$ {name} {option}", "required" if parameter.required else repr(parameter.default)
    for parameter in program.params:
        for option in parameter.opts:
            yield f"$ {option}", ""


if __name__ == "__main__":
    FILE.write_text(json.dumps(inventory(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
