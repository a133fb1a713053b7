"""Runs the examples in a few processes, one after the other in each: to import and to compile takes longer than to compute.

    python examples/_run.py out/examples 2     what `make examples` calls: every example, two processes

Each example has a namespace, arguments, settings of Matplotlib and an output.txt of its own, and a folder to write into,
as if it were started alone; one that changes a setting of JAX fails. The first that fails ends the run.
"""

import gc
import multiprocessing
import os
import runpy
import sys
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

HERE = Path(__file__).resolve().parent


def examples() -> list[Path]:
    """All but the notebooks, which `make notebooks` runs."""
    files = [path for path in HERE.rglob("[!_]*.py") if path.parent.name != "notebooks"]
    return sorted(files)


def begin() -> None:
    # JAX makes hundreds of thousands of objects for a program, few of them garbage: Python searches them less often.
    gc.set_threshold(100_000, 30, 50)


def run(example: Path, folder: Path) -> tuple[float, bool]:
    """Processor time, and whether it ended well; all that it prints goes to output.txt."""
    import jax
    import matplotlib.pyplot as plt

    import dalembert  # noqa: F401  sets JAX's precision

    settings = dict(jax.config.values)
    began = time.process_time()
    folder.mkdir(parents=True, exist_ok=True)
    sys.argv, sys.path[0] = [str(example), str(folder)], str(example.parent)
    with (folder / "output.txt").open("w") as output, plt.rc_context(), warnings.catch_warnings():
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        try:
            runpy.run_path(str(example), run_name="__main__")
            well = jax.config.values == settings
            if not well:
                print("it changed a setting of JAX")
        except SystemExit as end:
            well = not end.code
        except Exception:
            traceback.print_exc()
            well = False
        sys.stdout.flush(), sys.stderr.flush()
    plt.close("all")
    gc.freeze()
    return time.process_time() - began, well


def main(target: Path, workers: int) -> int:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=begin) as pool:
        folders = {example: target / example.relative_to(HERE).with_suffix("") for example in examples()}
        runs = {pool.submit(run, example, folder.resolve()): example for example, folder in folders.items()}
        for done in as_completed(runs):
            example = runs[done]
            seconds, well = done.result()
            if not well:
                pool.shutdown(cancel_futures=True)
                print(*(folders[example] / "output.txt").read_text().splitlines()[-40:], sep="\n")
                print(f"{example.relative_to(HERE)} failed")
                return 1
            print(f"{example.relative_to(HERE)}: {seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
