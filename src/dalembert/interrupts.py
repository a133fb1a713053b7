"""Ctrl-C that is noted and answered where the work can be left: what has been computed stays whole."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any


class Leaving(Exception):
    """Work is left where it stands, inside of what holds Ctrl-C back: what it has come to is whole."""


class Noted:
    """A record of Ctrl-C while it is held back. keeping: whether there is already something to keep."""

    pressed = False

    def __init__(self, keeping: bool = True):
        self.keeping = keeping


_HELD: list[Noted] = []
_LIMIT = threading.local()  # time: by time.perf_counter, at which the work of this thread has to end


def wanted() -> bool:
    """True if Ctrl-C was pressed inside `held_back`, in any thread, or the time of `until` has passed: whoever asks has to
    come to an end."""
    return (bool(_HELD) and _HELD[0].pressed) or (is_timed() and time.perf_counter() > _LIMIT.time)


def is_timed() -> bool:
    """True inside `until`: whoever works has to ask `wanted` often."""
    return getattr(_LIMIT, "time", None) is not None


@contextlib.contextmanager
def until(end: float | None) -> Iterator[None]:
    """What is inside comes to an end at this time of time.perf_counter, as after Ctrl-C; None: it takes what it takes."""
    before, _LIMIT.time = getattr(_LIMIT, "time", None), end
    try:
        yield
    finally:
        _LIMIT.time = before


def keep() -> None:
    """From here on something is there that Ctrl-C shall not lose."""
    for noted in _HELD:
        noted.keeping = True


def leave_if_wanted() -> None:
    """Leaving where Ctrl-C was pressed."""
    if wanted():
        raise Leaving


@contextlib.contextmanager
def held_back(keeping: bool = True) -> Iterator[Noted]:
    """Ctrl-C does not break off what is inside, which asks `wanted` now and then; who holds it back answers it at the end.

    keeping: False until `keep` is called, as long as nothing is lost by breaking off. Pressed again it breaks off. Where
    another handler than Python's own answers it, and in other threads than the first, nothing changes.
    """
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not plain or threading.current_thread() is not threading.main_thread():
        yield Noted()
        return
    noted = Noted(keeping)
    _HELD.append(noted)
    signal.signal(signal.SIGINT, _note)
    try:
        yield noted
    finally:
        _HELD.remove(noted)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _note(number: int, frame: Any) -> None:
    if any(noted.pressed or not noted.keeping for noted in _HELD):
        raise KeyboardInterrupt
    if _HELD:
        _HELD[0].pressed = True


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """Ctrl-C is answered after what is inside, such as an import: a library that is broken off while it loads stays half
    loaded, and cannot be loaded again."""
    with held_back() as noted:
        yield
    if noted.pressed:
        raise KeyboardInterrupt


def hear_in_collections() -> None:
    """JAX releases its garbage in a function of Python's that Python's own collector calls, and in which Python ignores
    whatever is raised: a press of Ctrl-C that arrives on entering it is lost. JAX releases it with its next calls, too."""
    gc.callbacks[:] = [one for one in gc.callbacks if getattr(one, "__name__", "") != "_xla_gc_callback"]


def keep_compilation(error: BaseException) -> None:
    """Leave XLA for good what it reads: after Ctrl-C it goes on compiling in threads of its own, while Python releases the
    MLIR module that is compiled, and a process that ends would destroy the client and then the tables of LLVM."""
    import jax

    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    modules = [x for frame in frames for x in frame.f_locals.values() if type(x).__module__.startswith("jaxlib.")]
    for used in (jax.local_devices()[0].client, *modules):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(used))
    _end_without_destructors()


@functools.cache
def _end_without_destructors() -> None:
    """When Python has come to its end, the process ends as it is, with its exit status, once the streams of C are written.
    The last handler that is registered is the first one that is called; only glibc's are given the status."""
    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):
        for handler in (library._exit, library.fcloseall):
            library.on_exit(handler, None)


class Interrupted(KeyboardInterrupt):
    """N′ < N steps: Ctrl-C ended a run, an ensemble or a solution, and this error carries the results up to then.

    It is a KeyboardInterrupt: if it is not caught, the program ends as with any Ctrl-C. If it is caught, the process
    can be used further.

    Attributes:
        path: the results up to then: a Path, a Study, a ClosedLoop, or a Solution whose iteration had not converged.

    Example:
        >>> try:
        ...     raise da.Interrupted(path)  # as Ctrl-C does in a run
        ... except KeyboardInterrupt as error:
        ...     error.path.steps
        20
    """

    def __init__(self, path: Any):
        super().__init__(path)

    @classmethod
    def later(cls, made: Callable[[], Any]) -> Interrupted:
        """An Interrupted whose path is built when it is first read: to build long arrays at once would delay the answer
        to Ctrl-C."""
        return cls(_Later(made))

    @property
    def path(self) -> Any:
        if type(self.args[0]) is _Later:  # isinstance would ask a path, which then makes its arrays
            self.args = (self.args[0].made(),)
        return self.args[0]

    def __str__(self) -> str:
        path = self.args[0]
        return str(path.describe()) if hasattr(path, "describe") else ""

    def __reduce__(self) -> tuple:
        return Interrupted, (self.path,), vars(self)


class _Later:
    """Deferred path: the function that makes it."""

    def __init__(self, made: Callable[[], Any]):
        self.made = made

    def __repr__(self) -> str:
        return "not yet made"
