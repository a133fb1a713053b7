"""What can be said of the words of a command line before JAX is there: which names exist, and whether a word is right.

`tests/cli/test_words.py` compares the names with the rooms that they come from.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from pathlib import Path as File
from typing import Any

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
    """Whether a name is that of a file: file.py:name."""
    return ":" in word or word.endswith(".py")


def file_and_name(reference: str) -> tuple[File, str]:
    """The file, which exists, and the name in it."""
    file, _, name = reference.rpartition(":")
    if not file or not name:
        raise ValueError(f"{reference}: give the file and the name in it, file.py:name")
    if not File(file).is_file():
        raise FileNotFoundError(f"{file}: no such file")
    return File(file), name


def check_words(given: dict[str, str | None]) -> None:
    """ValueError for the first word that stands for nothing. given: by option, as in CHECKS; None where it was not given."""
    for option, word in given.items():
        if word is not None:
            CHECKS[option](word)


def check_system(name: str) -> None:
    if not in_file(name) and _plain(name) in PROBLEMS:
        raise ValueError(f"{name}: is a boundary problem; dalembert solve {name} solves it")
    _check_known(name, SYSTEMS, f"{name}: no system of the gallery")


def check_boundary_problem(name: str) -> None:
    if not in_file(name) and _plain(name) in SYSTEMS:
        raise ValueError(f"{name}: is a system and not a boundary problem; dalembert run {name} runs it")
    _check_known(name, PROBLEMS, f"{name}: no boundary problem of the gallery")


def check_either(name: str) -> None:
    _check_known(name, (*SYSTEMS, *PROBLEMS), f"{name}: neither a system nor a boundary problem of the gallery")


def is_problem(name: str) -> bool:
    """Whether it is a boundary problem of the gallery; what a file holds is seen when it is read."""
    return not in_file(name) and _plain(name) in PROBLEMS


def check_left_out(given: dict[str, Any], why: str) -> None:
    """ValueError for an option that was given; None where it was not."""
    for option, value in given.items():
        if value is not None:
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
    """How many steps a time is. whole: it must be a multiple of h, for a run that ended elsewhere would be another."""
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


def check_numbers(option: str, text: str | None) -> None:
    if text is not None:
        numbers_of(text, option)


def numbers_of(text: str, option: str) -> list[float]:
    try:
        return [float(x) for x in text.split(",")]
    except ValueError:
        raise ValueError(f"{option}: found {text!r}; give numbers separated by commas, such as 0,1.5") from None


def parameters_of(texts: Iterable[str] | None) -> list[tuple[str, str, float | list[float]]]:
    """(text, name, value) of every --set."""
    found: list[tuple[str, str, float | list[float]]] = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set {text}: give name=value, such as m=2")
        numbers = numbers_of(value, f"--set {name}")
        found.append((text, name.strip(), numbers if "," in value else numbers[0]))
    return found


def swept_of(texts: Iterable[str] | None) -> tuple[list[str], dict[str, list[float]]]:
    """The texts of every --set of one value, and name → values of the others: m=0.5:2:7 for 7 of them from 0.5 to 2, or
    m=1,2,4."""
    fixed, swept = [], {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--set {text}: give name=from:to:count or name=1,2,4 for values, name=2 for one that is fixed")
        if name.strip() in swept:
            raise ValueError(f"--set {text}: {name.strip()} was given before; give each name once")
        if ":" in value:
            swept[name.strip()] = _between(value, f"--set {text}")
        elif "," in value:
            swept[name.strip()] = numbers_of(value, f"--set {name}")
        else:
            fixed.append(text)
    parameters_of(fixed)
    if not swept:
        raise ValueError("--set: nothing is swept; give --set name=from:to:count, or take dalembert run")
    return fixed, swept


def _between(value: str, option: str) -> list[float]:
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


CHECKS: dict[str, Callable[[str], None]] = {
    "system": check_system,
    "problem": check_boundary_problem,
    "either": check_either,
    "scheme": check_scheme,
    "windows": check_windows,
    "starter": check_starter,
    "branch": check_branch,
    "backend": check_backend,
    "--q0": lambda text: check_numbers("--q0", text),
    "--v0": lambda text: check_numbers("--v0", text),
}


def system_names(incomplete: str) -> list[str]:
    """For the completion of a shell."""
    return [name for name in SYSTEMS if name.startswith(incomplete)]


def problem_names(incomplete: str) -> list[str]:
    return [name for name in PROBLEMS if name.startswith(incomplete)]


def all_names(incomplete: str) -> list[str]:
    return [*system_names(incomplete), *problem_names(incomplete)]


def scheme_names(incomplete: str) -> list[str]:
    return [name for name in SCHEMES if name.startswith(incomplete)]
