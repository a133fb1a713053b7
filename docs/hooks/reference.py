"""The reference is whole: no page is empty, every public name is on one, and every equation is shown as it was written."""

from __future__ import annotations

import html
import importlib
import inspect
import pkgutil
import re

from formulas import shown
from mkdocs.exceptions import PluginError

import dalembert

FOLDER, OVERVIEW = "reference/", "reference/index.md"
NOT_PUBLIC = ("native", "tracing", "cli")  # rooms that other rooms, or a terminal, call
HEADING = re.compile(r'<h\d id="(dalembert\.[\w.]+)" class="doc doc-heading"')

on_pages: set[str] = set()


def public() -> dict[str, object]:
    """Functions and classes by the place of their definition, each once, whatever rooms export them."""
    modules = pkgutil.walk_packages(dalembert.__path__, "dalembert.")
    rooms = ["dalembert", *(m.name for m in modules if m.ispkg and m.name.split(".")[1] not in NOT_PUBLIC)]
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


def faults(content: str, names: list[str]) -> list[str]:
    """What is wrong with a page on these names."""
    if not names:
        return ["shows no name: it is empty"]
    text = visible(content)
    garbled = [name for name in names if shown(inspect.getdoc(PUBLIC[name]) or name) not in text]
    return [f"does not show the first paragraph of {name} as it is written" for name in garbled]


def on_page_content(content: str, *, page, **_) -> str:
    """mkdocs calls this with the HTML of every page."""
    if page.file.src_uri.startswith(FOLDER) and page.file.src_uri != OVERVIEW:
        names = [name for name in HEADING.findall(content) if name in PUBLIC]
        on_pages.update(names)
        if wrong := faults(content, names):
            raise PluginError(f"{page.file.src_uri}: " + "; ".join(wrong))
    return content


def on_post_build(**_) -> None:
    """mkdocs calls this at the end."""
    if missing := sorted(PUBLIC.keys() - on_pages):
        raise PluginError(f"public names on no page of the reference: {', '.join(missing)}")
