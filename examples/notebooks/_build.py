"""The notebooks of this folder as .ipynb files with their results: every cell is run in a kernel of its own.

    python examples/notebooks/_build.py out/notebooks     what `make notebooks` calls
    python examples/notebooks/_build.py docs/notebooks    those that are committed: `make notebooks NOTEBOOKS=docs/notebooks`

A notebook is a Python file here, so that changes can be read and the checks of the code see it: cells begin with "# %%",
text with "# %% [markdown]", as editors and Jupyter (with jupytext) read them. A cell that fails ends the build.
"""

import os
import re
import sys
import time
from pathlib import Path

CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)
SECONDS = 120  # for one cell


def cells_of(source: str) -> list[tuple[str, str]]:
    """Kind, "markdown" or "code", and text of every cell, in their order."""
    _, *parts = CELL.split(source)
    cells = []
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        text = body.strip()
        if "markdown" in kind:
            cells.append(("markdown", re.sub(r"^# ?", "", text, flags=re.MULTILINE)))
        else:
            cells.append(("code", text))
    return cells


def notebook_of(source: str):
    """The cells without results; names, kernel and language are the same in every build."""
    from nbformat import v4

    new_cell = {"markdown": v4.new_markdown_cell, "code": v4.new_code_cell}
    cells = [new_cell[kind](text, id=f"cell-{i}") for i, (kind, text) in enumerate(cells_of(source))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def main(folder: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # figures are results, whoever calls
    for file in sorted(Path(__file__).parent.glob("[!_]*.py")):
        began = time.monotonic()
        notebook = notebook_of(file.read_text(encoding="utf-8"))
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            record_timing=False,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
        )
        client.execute()
        notebook.metadata.language_info = {"name": "python"}  # without the version of this Python
        target = folder / f"{file.stem}.ipynb"
        nbformat.write(notebook, target)
        outputs = [set(out.get("data", ())) for cell in notebook.cells for out in cell.get("outputs", ())]
        shown = sum(bool(kinds & {"text/html", "image/png"}) for kinds in outputs)
        print(
            f"{target.name}: {time.monotonic() - began:.0f} s, {target.stat().st_size / 1000:.0f} kB, {shown} results shown"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/notebooks"))
