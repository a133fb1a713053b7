"""Output of `dalembert list`, without JAX: the files of the gallery are run with placeholders for what they import."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Iterator
from typing import Any

from dalembert.cli.words import GALLERY, PROBLEMS, SYSTEMS

OWN = "dalembert.gallery."


class Placeholder:
    """Stands for an imported module, function or class, or for a number. A call gives another one, with its arguments."""

    def __init__(self, *positional: Any, **named: Any):
        self.positional, self.named = positional, named

    def __call__(self, *positional: Any, **named: Any) -> Placeholder:
        return Placeholder(*positional, **named)

    def __getattr__(self, name: str) -> Placeholder:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder()

    def __float__(self) -> float:
        return 1.0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __index__(self) -> int:
        return 0

    __getitem__ = __setitem__ = __neg__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __call__
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __matmul__ = __call__

    def replace(self, **parameters: Any) -> Placeholder:
        return Placeholder(self, parameters={**self.find("parameters"), **parameters})

    def find(self, name: str) -> Any:
        """A named argument of the call that made this, or of one that made its first argument."""
        if name in self.named:
            return self.named[name]
        first = self.positional[0] if self.positional else None
        return first.find(name) if isinstance(first, Placeholder) else None


@functools.cache
def namespace(name: str) -> types.SimpleNamespace:
    """The names that a file of the gallery defines."""
    file = GALLERY / f"{name}.py"
    names = {"__name__": OWN + name, "__builtins__": {**vars(builtins), "__import__": _import}}
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), names)
    return types.SimpleNamespace(**names)


def _import(name: str, *given: Any) -> Any:
    return namespace(name.removeprefix(OWN)) if name.startswith(OWN) and name != f"{OWN}entry" else Placeholder()


def gallery_record() -> dict[str, Any]:
    """Systems and boundary problems with formula, parameters and source."""
    return {"systems": [*map(_row, SYSTEMS)], "problems": [*map(_row, PROBLEMS)]}


def _row(name: str) -> dict[str, Any]:
    entry = namespace(name).entry
    problem = entry.find("system") or entry.find("problem")
    coordinates, parameters = problem.find("coordinates") or (), problem.find("parameters") or {}
    texts = {field: entry.find(field) for field in ("name", "title", "formula", "source")}
    values = {name: _plain(value) for name, value in sorted(parameters.items())}
    return {**texts, "coordinates": list(coordinates), "parameters": values}


def _plain(value: Any) -> Any:
    if isinstance(value, Placeholder):  # of np.asarray(value)
        return _plain(value.positional[0])
    return [*map(_plain, value)] if isinstance(value, list | tuple) else float(value)
