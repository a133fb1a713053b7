"""The repository speaks of the project alone, builds anywhere, and says one version everywhere."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Joined here so that this file does not contain what it forbids.
HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("anaconda", "org"),
        ("deb", "debian", "org"),
    )
]
TOP_FOLDERS = ("root", "home", "work", "tmp", "opt", "mnt", "srv", "Users")

HOST = re.compile("|".join(map(re.escape, HOSTS)))
# A slash that begins a path: nothing that could itself be part of a path or of an address stands before it.
MACHINE_PATH = re.compile(rf"(?<![\w.~/)}}\]>-])/(?:{'|'.join(TOP_FOLDERS)})(?=/|\b(?![\w-]))|file[:]/")
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.]+")


def committed_files() -> list[Path]:
    """Files under version control, without those deleted in the working tree."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git checkout")
    files = [ROOT / name for name in listed.decode().split("\0") if name]
    return [path for path in files if path.is_file()]


def findings(pattern: re.Pattern[str]) -> list[str]:
    """Places where the pattern occurs in a committed file; read as Latin-1, which decodes any bytes."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in committed_files()
        for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), start=1)
        for match in pattern.finditer(line)
    ]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_no_committed_file_names_a_package_registry():
    assert findings(HOST) == []


def test_no_committed_file_holds_a_path_of_one_machine():
    assert findings(MACHINE_PATH) == []


@pytest.mark.parametrize("template", ["/{}/x/y.py", "cd /{} && ls", "'/{}'", "PATH=/{}/bin", "[a](/{}/b.md)"])
@pytest.mark.parametrize("folder", TOP_FOLDERS)
def test_a_machine_path_is_recognised(template, folder):
    assert MACHINE_PATH.search(template.format(folder))


@pytest.mark.parametrize(
    "text",
    [
        "and/or/home",
        "https://example.org/home/x",
        "$(VENV)/tmp",
        "~/work",
        "/rooted",
        "src/work/x",
        "/home-made",
    ],
)
def test_other_text_with_slashes_is_no_machine_path(text):
    assert not MACHINE_PATH.search(text)


def test_constraints_are_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not PIN.fullmatch(pin)] == []
    names = [pin.partition("==")[0].lower().replace("_", "-").replace(".", "-") for pin in pins]
    assert len(names) == len(set(names)), "a package is pinned twice"


def test_every_direct_dependency_is_pinned():
    data = project()
    wanted = data["dependencies"] + [name for extra in data["optional-dependencies"].values() for name in extra]
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    }
    assert {re.match(r"[A-Za-z0-9-]+", name).group() for name in wanted} - pinned == set()


@pytest.mark.parametrize("name", ["LICENSE", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md", "src/dalembert/py.typed"])
def test_a_file_every_reader_looks_for_exists(name):
    assert (ROOT / name).is_file()


def test_the_licence_is_the_declared_one():
    assert project()["license"] == "BSD-3-Clause"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("BSD 3-Clause License")


def test_the_citation_has_the_version_of_the_package():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", text, flags=re.MULTILINE) == [project()["version"]]


def test_the_changelog_ends_with_the_version_of_the_package():
    """The newest released section is the current version; before the first release there is none."""
    headings = re.findall(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1:2] in ([], [project()["version"]])


def test_the_package_states_no_other_version():
    """A literal __version__ agrees with pyproject.toml; one read from the metadata agrees by itself."""
    init = ROOT / "src" / "dalembert" / "__init__.py"
    if not init.exists():
        pytest.skip("the package has no __init__ yet")
    literals = [
        node.value.value
        for node in ast.parse(init.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        if any(getattr(target, "id", "") == "__version__" for target in node.targets)
    ]
    assert literals in ([], [project()["version"]])
