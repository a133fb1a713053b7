"""What griffe, which reads the sources for mkdocstrings, does with a docstring: see `formulas`."""

from __future__ import annotations

from formulas import as_markdown  # known to Python since the hook `reference` was loaded
from griffe import Extension


class Formulas(Extension):
    """Every docstring of the package as Markdown."""

    def on_object(self, *, obj, **_) -> None:
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
