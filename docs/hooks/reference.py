"""The reference is whole: no page is empty, every public name is on one, and every equation is shown as it was written."""

from __future__ import annotations

from mkdocs.exceptions import PluginError
from whole import PUBLIC, faults, names_on

FOLDER, OVERVIEW = "reference/", "reference/index.md"

on_pages: set[str] = set()


def on_page_content(content: str, *, page, **_) -> str:
    """mkdocs calls this with the HTML of every page."""
    if page.file.src_uri.startswith(FOLDER) and page.file.src_uri != OVERVIEW:
        on_pages.update(names_on(content))
        if wrong := faults(content):
            raise PluginError(f"{page.file.src_uri}: " + "; ".join(wrong))
    return content


def on_post_build(**_) -> None:
    """mkdocs calls this at the end."""
    if missing := sorted(PUBLIC.keys() - on_pages):
        raise PluginError(f"public names on no page of the reference: {', '.join(missing)}")
