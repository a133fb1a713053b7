"""Which names are public, and whether a page of the reference shows them as they are written."""

from __future__ import annotations

import html
import importlib
import inspect
import pkgutil
import re

from formulas import shown

import dalembert

NOT_PUBLIC = ("native", "numbers", "tracing", "cli")  # rooms that other rooms, or a terminal, call
HEADING = re.compile(r'<h\d id="(dalembert\.[\w.]+)" class="doc doc-heading"')


def public() -> dict[str, object]:
    """Functions and classes by the place of their definition, each once, whatever rooms export them."""
    modules = pkgutil.walk_packages(dalembert.__path__, "dalembert.")
    rooms = [
        "dalembert",
        *(m.name for m in modules if (m.ispkg or m.name.count(".") == 1) and m.name.split(".")[1] not in NOT_PUBLIC),
    ]
    found = {}
    for module in map(importlib.import_module, rooms):
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


PUBLIC = public()


def visible(content: str) -> str:
    """The text of a page, without spaces."""
    return re.sub(r"\s", "", html.unescape(re.sub(r"<[^>]+>", "", content)))


def names_on(content: str) -> list[str]:
    """The public names that have a heading on a page."""
    return [name for name in HEADING.findall(content) if name in PUBLIC]


def faults(content: str) -> list[str]:
    """What is wrong with a page of the reference."""
    names = names_on(content)
    if not names:
        return ["shows no name: it is empty"]
    text = visible(content)
    garbled = [name for name in names if any(shown(part) not in text for part in opening(PUBLIC[name], name))]
    return [f"does not show the first paragraphs of {name} as they are written" for name in garbled]


def opening(thing: object, name: str) -> list[str]:
    """The sentence with which a docstring begins, and the paragraph after it where that has indices, as an equation has."""
    first, *others = (inspect.getdoc(thing) or name).split("\n\n")
    return [first, *(part for part in others[:1] if "_{" in part and not re.match(r"\w+:\n", part))]
