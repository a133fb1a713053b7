"""The notebooks of this folder as .ipynb files with their results: every cell is run in a kernel of its own.

    python examples/notebooks/_build.py out/notebooks     what `make notebooks` calls

A notebook is a Python file here, so that changes can be read and the checks of the code see it: cells begin with "# %%",
text with "# %% [markdown]", as editors and Jupyter (with jupytext) read them. A cell that fails ends the build.
"""

import os
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)
SECONDS = 120  # for one cell


def notebook_of(source: str) -> nbformat.NotebookNode:
    """Cells of text and of code, in their order."""
    _, *parts = CELL.split(source)
    cells = []
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        if "markdown" in kind:
            text = re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE)
            cells.append(nbformat.v4.new_markdown_cell(text))
        else:
            cells.append(nbformat.v4.new_code_cell(body.strip()))
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i}"  # the same in every build
    return nbformat.v4.new_notebook(cells=cells)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # figures are results, whoever calls
    for file in sorted(Path(__file__).parent.glob("[!_]*.py")):
        began = time.monotonic()
        notebook = notebook_of(file.read_text(encoding="utf-8"))
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
        )
        client.execute()
        target = folder / f"{file.stem}.ipynb"
        nbformat.write(notebook, target)
        outputs = [set(out.get("data", ())) for cell in notebook.cells for out in cell.get("outputs", ())]
        shown = sum(bool(kinds & {"text/html", "image/png"}) for kinds in outputs)
        print(
            f"{target.name}: {time.monotonic() - began:.0f} s, {target.stat().st_size / 1000:.0f} kB, {shown} results shown"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/notebooks"))
