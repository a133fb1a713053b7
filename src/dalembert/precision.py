"""Double precision: JAX's 64 bit mode, on from the first moment of JAX, whoever loads it."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


def doubled() -> None:
    """Turns the 64 bit mode on, of a JAX that is there now and of one that is loaded later."""
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        sys.meta_path.insert(0, DoublePrecision())


class DoublePrecision(MetaPathFinder):
    """Finds JAX as the finders behind it do, and turns its 64 bit mode on right after it has loaded.

    $JAX_ENABLE_X64 would do the same for every program that this one starts; that is not ours to decide.
    """

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "jax":
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in behind)
        spec = next((found for found in specs if found is not None), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                module.config.update("jax_enable_x64", True)

            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010, of this loader alone: it was made for this spec
        return spec
