"""The gallery: one system or boundary problem per file, with formula, parameters, reference, and closed form.

A file of this folder belongs to it by its `entry`; nothing else names it.
"""

import importlib
import pkgutil

from dalembert.gallery.entry import BoundaryEntry, Entry

_FOUND = [
    importlib.import_module(f"{__name__}.{module.name}").entry
    for module in pkgutil.iter_modules(__path__)
    if module.name != "entry"
]
ENTRIES: dict[str, Entry] = {entry.name: entry for entry in _FOUND if isinstance(entry, Entry)}
PROBLEMS: dict[str, BoundaryEntry] = {entry.name: entry for entry in _FOUND if isinstance(entry, BoundaryEntry)}

__all__ = ["ENTRIES", "PROBLEMS", "BoundaryEntry", "Entry"]
