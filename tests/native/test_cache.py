"""Machine code on disk: kept, found again, never trusted blindly, never in the way."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from dalembert.native import Cache, Sample, StepFunctions, Unsupported, compile_function, compile_step, machine


def compiled(folder, shift=1.5):
    """A cache on a folder, after a function was compiled with it, and the function's value at (1, 2)."""
    cache = Cache(folder)
    return cache, compile_function(lambda x: jnp.sin(x) * shift, np.ones(2), cache=cache)(np.array([1.0, 2.0]))[0]


def test_code_is_found_again(tmp_path):
    first, a = compiled(tmp_path)
    second, b = compiled(tmp_path)
    assert (first.compilations, first.reads) == (1, 0)
    assert (second.compilations, second.reads) == (0, 1)
    np.testing.assert_array_equal(a, b)


def test_other_values_of_captured_numbers_share_the_code(tmp_path):
    compiled(tmp_path)
    _, values = compiled(tmp_path, shift=np.full(2, 2.5))
    again, values = compiled(tmp_path, shift=np.full(2, 3.5))
    assert (again.compilations, again.reads) == (0, 1)
    np.testing.assert_allclose(values, 3.5 * np.sin([1.0, 2.0]))


def test_a_hundred_fresh_identical_lambdas_compile_once():
    cache = Cache(None)
    for _ in range(100):
        compile_function(lambda x: x * x + 1.0, np.ones(1), cache=cache)
    assert cache.compilations == 1


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_is_written_again(tmp_path, damage):
    _, a = compiled(tmp_path)
    (file,) = tmp_path.iterdir()
    stored = file.read_bytes()
    file.write_bytes(stored[:-1] if damage is None else damage)
    cache, b = compiled(tmp_path)
    assert (cache.compilations, cache.reads) == (1, 0)
    np.testing.assert_array_equal(a, b)
    assert file.read_bytes() == stored


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    cache, _ = compiled(tmp_path)
    assert cache.compilations == 1


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache, _ = compiled(tmp_path / "file" / "folder")
    assert cache.compilations == 1


def _in_another_process(folder):
    _, values = compiled(folder)
    return values.tolist()


def test_processes_at_the_same_time(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.map(_in_another_process, [tmp_path] * 4)
    assert all(r == results[0] for r in results)
    assert [f.suffix for f in tmp_path.iterdir()] == [".o"]


def test_the_folder_is_chosen_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("DALEMBERT_CACHE", str(tmp_path))
    assert Cache().folder == tmp_path
    monkeypatch.setenv("DALEMBERT_CACHE", "")
    assert Cache().folder is None


def test_a_missing_or_refusing_llvmlite_is_named():
    program = (
        "import sys; sys.modules['llvmlite'] = None; sys.modules['llvmlite.binding'] = None\n"
        "import dalembert, numpy\n"
        "from dalembert.native import compile_function, Unsupported\n"
        "try: compile_function(lambda x: x + 1, numpy.ones(1))\n"
        "except Unsupported as error: print(error.what)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["llvmlite"], done.stderr


class Texts(Cache):
    """A cache that also keeps the texts it is given."""

    def __init__(self):
        super().__init__(None)
        self.texts = []

    def load(self, text, plain):
        self.texts.append((text, plain))
        return super().load(text, plain)


def test_the_run_is_generated_for_arm():
    """Only generated, the whole run and the pivoted solver: there is no such processor here to run them."""
    llvm, cache = machine.binding(), Texts()
    try:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        llvm.Target.from_triple("aarch64-linux-gnu")
    except (AttributeError, RuntimeError):
        pytest.skip("this llvmlite holds no ARM target")
    step = StepFunctions(
        n=2, k=2, shapes=((),),
        residual=lambda z, q, s, t, h, held, p: z - s + h * p[0] * jnp.sin(q + h * z) + h * held,
        guess=lambda q, s, t, h, p: s, scale=lambda z, q, s, h, p: 1.0 + jnp.abs(z),
        advance=lambda z, q, s, t, h, p: (h * z, z),
        outputs=lambda z, q, s, t, h, held, p: (z[:1], z), velocity=lambda s, p: s,
        stop=lambda q, v, t, p: q[0] > 9.0, domain=lambda q, v, t, p: t < 9.0, law=lambda q, v, t, p: -v,
        reduce=lambda r, w, t, q, v, m, p: (r + jnp.sum(q), w + 1), reduced=(1, 1),
    )  # fmt: skip
    compile_step(step, Sample(np.ones(2), np.ones(2), 0.0, 0.1, np.ones(1)), cache)
    assert ["@run(" in text for text, _ in cache.texts].count(True) == 1
    for text, plain in cache.texts:
        data = machine.compile_object(text, plain, "aarch64-linux-gnu", "generic", "")
        assert data[:4] == b"\x7fELF"
        assert int.from_bytes(data[18:20], "little") == 183  # EM_AARCH64


def test_unsupported_is_told_in_words():
    assert str(Unsupported("sort", "no translation")) == "sort: no translation"
