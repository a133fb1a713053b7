"""Names that a command line may contain, and checks of its words, before JAX is imported.

`tests/cli/test_words.py` compares the names with the rooms that they come from.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from pathlib import Path as File
from typing import Any, NamedTuple

GALLERY = File(__file__).parents[1] / "gallery"

_TEXTS = {file.stem: file.read_text("utf-8") for file in sorted(GALLERY.glob("*.py"))}  # read, not run
SYSTEMS = tuple(name for name, text in _TEXTS.items() if "\nentry = Entry(" in text)
PROBLEMS = tuple(name for name, text in _TEXTS.items() if "\nentry = BoundaryEntry(" in text)
SCHEMES = (
    "default", "borda-fernandez-grillo", "jimenez-scheurle-explicit", "jimenez-scheurle-implicit", "nodes",
    "drift-kick-drift", "kick-drift-kick",
)  # fmt: skip
WINDOWS = ("interpolated", "averaged", "hermite", "points")  # of boundary problems
STARTERS = ("second_order", "first_order", "reference")
BRANCHES = ("avoid", "nearest-prediction", "nearest-previous")
BACKENDS = ("native", "jax")
MOST = 2**53  # steps
MOST_VALUES = 10**7  # of one swept name


def in_file(word: str) -> bool:
    """True for the name of a file: file.py:name."""
    return ":" in word or word.endswith(".py")


def file_and_name(reference: str) -> tuple[File, str]:
    """The file, which exists, and the name in it."""
    file, _, name = reference.rpartition(":")
    if not file or not name:
        raise ValueError(f"{reference}: give the file and the name in it, file.py:name")
    if not File(file).is_file():
        raise FileNotFoundError(f"{file}: no such file")
    return File(file), name


def is_problem(name: str) -> bool:
    """True for a boundary problem of the gallery; what a file holds is seen when it is read."""
    return not in_file(name) and _plain(name) in PROBLEMS


def check_system(name: str) -> None:
    if is_problem(name):
        raise ValueError(f"{name}: is a boundary problem; dalembert solve {name} solves it")
    _check_known(name, SYSTEMS, f"{name}: no system of the gallery")


def check_runnable(name: str) -> None:
    """A system; or a boundary problem, which is swept."""
    if not is_problem(name):
        check_system(name)


def check_problem(name: str) -> None:
    if not in_file(name) and _plain(name) in SYSTEMS:
        raise ValueError(f"{name}: is a system and not a boundary problem; dalembert run {name} runs it")
    _check_known(name, PROBLEMS, f"{name}: no boundary problem of the gallery")


def check_either(name: str) -> None:
    _check_known(name, (*SYSTEMS, *PROBLEMS), f"{name}: neither a system nor a boundary problem of the gallery")


def check_left_out(given: dict[str, Any], why: str) -> None:
    """ValueError for an option that was given; None or False where it was not."""
    for option, value in given.items():
        if value not in (None, False):
            raise ValueError(f"{option}: {why}; leave it out")


def check_scheme(name: str) -> None:
    _check_known(name, SCHEMES, f"--scheme: found {name}", dashes=True)


def check_windows(name: str) -> None:
    """Of a boundary problem: its windows, or of optimal control the scheme of the plant."""
    _check_known(name, (*WINDOWS, *SCHEMES), f"--scheme: found {name}", dashes=True)


def check_starter(name: str) -> None:
    _check_listed(name, STARTERS, f"--starter: found {name!r}", "")


def check_backend(name: str) -> None:
    _check_listed(name, BACKENDS, f"--backend: found {name!r}", "; without the option the run chooses")


def check_branch(name: str) -> None:
    kind, _, components = name.partition(":")
    if kind not in BRANCHES:
        _check_known(name, BRANCHES, f"--branch: found {name}")
    elif components:
        coordinates_of(name)


def coordinates_of(branch: str) -> list[int]:
    """0, 1 of nearest-previous:0,1."""
    try:
        return [int(x) for x in branch.partition(":")[2].split(",")]
    except ValueError:
        raise ValueError(
            f"--branch: found {branch}; the coordinates after the colon are whole numbers, such as 0,1"
        ) from None


def check_grid(h: float | None, steps: int | None, time: float | None) -> None:
    """h is known only where it is given."""
    if steps is not None and time is not None:
        raise ValueError("--steps, --time: found both; give one of them")
    if h is not None and (not math.isfinite(h) or h == 0):
        raise ValueError(f"--h: found {h:g}; give a finite step that is not 0, negative for a run backwards in time")
    if time is not None and not (math.isfinite(time) and time > 0):
        raise ValueError(f"--time: found {time:g}; give a positive, finite time")
    if h is not None and time is not None:
        count_of(time, h)


def count_of(time: float, h: float, whole: bool = True) -> int:
    """The number of steps of a time. whole: it must be a multiple of h, for a run that ended elsewhere would be another."""
    number = time / abs(h)
    if not number <= MOST:
        raise ValueError(f"--time, --h: found {time:g} and {h:g}, which are {number:g} steps; give a longer step")
    count = max(1, round(number))
    if whole and abs(count * abs(h) - time) > 1e-9 * time:
        below = max(1, math.floor(number))
        raise ValueError(
            f"--time: found {time:g}, which is {number:.10g} steps of h = {h:g} and no whole number of them; give a "
            f"multiple of h, such as {below * abs(h):.10g} or {(below + 1) * abs(h):.10g}, or --steps"
        )
    return count


def numbers_of(text: str, option: str) -> list[float]:
    try:
        return [float(x) for x in text.split(",")]
    except ValueError:
        raise ValueError(f"{option}: found {text!r}; give numbers separated by commas, such as 0,1.5") from None


class Setting(NamedTuple):
    """One --set. text: as it was typed; spread: whether it is from:to:count, several values whatever they belong to."""

    text: str
    name: str
    values: list[float]
    spread: bool

    @property
    def value(self) -> float | list[float]:
        """One number, or those of an array."""
        return self.values if len(self.values) > 1 else self.values[0]

    @property
    def many(self) -> bool:
        """True where it may stand for several values."""
        return self.spread or len(self.values) > 1


def setting_of(text: str) -> Setting:
    """One --set: m=2, m=1,2,4, or m=0.5:2:7 for 7 values from 0.5 to 2."""
    name, _, value = text.partition("=")
    name, spread = name.strip(), ":" in value
    if not name or not value:
        raise ValueError(f"--set {text}: give name=value, such as m=2, or several values, m=1,2,4 or m=from:to:count")
    return Setting(
        text, name, _space_evenly(value, f"--set {text}") if spread else numbers_of(value, f"--set {name}"), spread
    )


def check_apart(settings: Iterable[Setting]) -> None:
    """ValueError where a name that has several values was given before."""
    found: dict[str, Setting] = {}
    for one in settings:
        if one.name in found and (one.many or found[one.name].many):
            raise ValueError(f"--set {one.text}: {one.name} was given before; give each name once")
        found[one.name] = one


def _space_evenly(value: str, option: str) -> list[float]:
    """Equally spaced values, both ends among them."""
    ends = value.split(":")
    if len(ends) != 3 or not ends[2].strip().isdecimal() or int(ends[2]) < 1:
        raise ValueError(f"{option}: found {value}; give from:to:count, such as 0.5:2:7, with a count of 1 or more")
    first, last = (numbers_of(end, option)[0] for end in ends[:2])
    count = int(ends[2])
    if count > MOST_VALUES:
        raise ValueError(f"{option}: found {count} values; at most {MOST_VALUES} can be swept on one axis")
    if count == 1 and first != last:
        raise ValueError(f"{option}: found one value from {first:g} to {last:g}; give a count of 2 or more")
    return [first + (last - first) * i / (count - 1) for i in range(count - 1)] + [last]


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _check_known(word: str, names: tuple[str, ...], found: str, dashes: bool = False) -> None:
    """A name of the collection, or file.py:name of a file that is there."""
    if in_file(word):
        file_and_name(word)
    else:
        _check_listed(word.replace("_", "-") if dashes else _plain(word), names, found, ", or give file.py:name")


def _check_listed(word: str, names: tuple[str, ...], found: str, otherwise: str) -> None:
    if word not in names:
        close = difflib.get_close_matches(word, names, 1)
        meant = f". Did you mean {close[0]}?" if close else ""
        raise ValueError(f"{found}; there are {', '.join(names)}{otherwise}{meant}")
