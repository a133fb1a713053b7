"""The repository speaks of the project alone, builds anywhere, and says one version everywhere."""

from __future__ import annotations

import ast
import os
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


@pytest.mark.parametrize("file", ["constraints.txt", ".ci/lowest.txt"])
def test_constraints_are_names_and_versions_only(file):
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in found if not PIN.fullmatch(pin)] == []
    names = [pin.partition("==")[0].lower().replace("_", "-").replace(".", "-") for pin in found]
    assert len(names) == len(set(names)), "a package is pinned twice"


def pins(file: str) -> dict[str, str]:
    """Versions by name, written as in pyproject.toml."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, _, version in found}


def readme_of_the_package() -> str:
    """README.md after the substitutions that building makes: what an index of packages shows."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["metadata"]["hooks"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for change in settings["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    return text


def test_the_readme_of_the_package_has_no_relative_link():
    """Outside the repository `docs/control.md` leads nowhere, and a picture beside it is not found."""
    text = readme_of_the_package()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\]\((?!https?:)[^)]*\)|<(?:img|a) ", prose) == []
    assert "optimal control" in prose, "the words of a link stay"
    assert "](docs/control.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_of_the_package_is_drawn_as_a_page():
    """As an index draws it, if its renderer is installed, or by Python-Markdown."""
    html = render(readme_of_the_package())
    assert html.count("<h2") >= 8
    assert html.count("<table") == 1
    assert html.count("<pre") >= 10
    assert re.findall(r"(?:src|href)=\"(?!https?:|#)[^\"]*\"", html) == []


def render(text: str) -> str:
    try:
        from readme_renderer.markdown import render as draw
    except ImportError:
        markdown = pytest.importorskip("markdown")
        return markdown.markdown(text, extensions=["tables", "fenced_code"])
    return draw(text) or ""


def test_relative_links_of_the_readme_lead_somewhere():
    targets = re.findall(r"\]\((?!https?:|#)([^)]*)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert targets
    assert [name for name in targets if not (ROOT / name).is_file()] == []


def bounds(requirements: list[str]) -> dict[str, str]:
    """Lower bounds by name; the empty string where there is none, or something else."""
    found = (re.fullmatch(r"([A-Za-z0-9-]+)(?:\[[a-z0-9,]+\])?(?:>=([0-9.]+))?.*", text) for text in requirements)
    return {match[1].lower(): match[2] or "" for match in found if match}


def test_the_lowest_versions_are_those_that_are_tested():
    """`make lowest` runs with .ci/lowest.txt; the tools have no other test than the checks, with constraints.txt."""
    extras = {name: bounds(texts) for name, texts in project()["optional-dependencies"].items()}
    for bound, tested in (
        ({**bounds(project()["dependencies"]), **extras.pop("test")}, pins(".ci/lowest.txt")),
        ({name: version for extra in extras.values() for name, version in extra.items()}, pins("constraints.txt")),
    ):
        assert bound
        assert bound == {name: tested.get(name) for name in bound}


def test_every_direct_dependency_is_pinned():
    data = project()
    wanted = bounds([*data["dependencies"], *(name for extra in data["optional-dependencies"].values() for name in extra)])
    assert wanted.keys() - pins("constraints.txt").keys() == set()


def imported_names(folder: str) -> set[str]:
    """Of every module that a file below the folder imports, the first name."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py"))
    nodes = [node for tree in trees for node in ast.walk(tree)]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.partition(".")[0] for name in plain | {getattr(node, "module", None) or "" for node in nodes}}


def test_every_dependency_is_used():
    """Imported in the package, or a back-end of what is: jaxlib of JAX, h5netcdf of xarray."""
    used = imported_names("src") | {"jaxlib", "h5netcdf"}
    assert {name.replace("-", "_") for name in bounds(project()["dependencies"])} - used == set()


ROOT_FILES = {
    ".editorconfig", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
    "SECURITY.md", "constraints.txt", "mkdocs.yml", "pyproject.toml",
}  # fmt: skip
ROOT_FOLDERS = {".ci", "benchmarks", "docs", "examples", "papers", "src", "tests"}


def test_nothing_else_stands_at_the_root():
    """A new file at the root has to be worth a line here; what a program writes belongs into a folder that git ignores."""
    parts = [path.relative_to(ROOT).parts for path in committed_files()]
    assert {name[0] for name in parts if len(name) == 1} == ROOT_FILES
    assert {name[0] for name in parts if len(name) > 1} == ROOT_FOLDERS


@pytest.mark.parametrize("pattern", ["*.mtx", "*.log", "*.tmp", "*.so", "*.o", "jit_tmp*", "tmp_*"])
def test_no_trace_of_a_benchmark_is_committed(pattern):
    assert [path for path in committed_files() if path.match(pattern)] == []


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


# A Python whose environments hold one that always fails, as pip does where it reaches no registry.
OFFLINE = """#!/bin/sh
[ "$2" = venv ] || exit 0
mkdir -p "$3/bin" && printf '#!/bin/sh\\nexit 1\\n' > "$3/bin/python" && chmod +x "$3/bin/python"
"""


@pytest.mark.parametrize(("name", "reason"), [("none", "none of "), ("offline", "no package registry can be reached")])
def test_the_newest_versions_say_why_they_were_skipped(name, reason, tmp_path):
    (tmp_path / "offline").write_text(OFFLINE)
    (tmp_path / "offline").chmod(0o755)
    command = [ROOT / ".ci" / "newest", tmp_path / "newest", "1"]
    environment = os.environ | {"NEWEST_PYTHON": str(tmp_path / name)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert found.stdout.startswith(f"newest: skipped: {reason}")
