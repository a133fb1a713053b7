"""Machine code on disk: kept, found again, never trusted blindly, never in the way."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.native import (
    CACHE,
    Cache,
    Sample,
    StepFunctions,
    Unsupported,
    compile_function,
    compile_step,
    object_file,
    xla,
)
from dalembert.native.llvm import cache as module
from dalembert.step.run import machine as native_run
from dalembert.tracing import disk, jitted


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
    llvm, cache = module.binding(), Texts()
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
        data = object_file(text, plain, "aarch64-linux-gnu", "generic", "")
        assert data[:4] == b"\x7fELF"
        assert int.from_bytes(data[18:20], "little") == 183  # EM_AARCH64


def test_unsupported_is_told_in_words():
    assert str(Unsupported("sort", "no translation")) == "sort: no translation"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path, mode):
    """What lies there is executed: whoever can write there could run code as this user."""
    tmp_path.chmod(mode)
    with pytest.warns(UserWarning, match=r"DALEMBERT_CACHE: machine code is not kept.*can be written by others"):
        cache, _ = compiled(tmp_path)
    assert cache.compilations == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("what", ["folder", "entry"])
def test_what_another_user_has_put_there_is_not_executed(tmp_path, what):
    compiled(tmp_path)
    (entry,) = tmp_path.iterdir()
    os.chown(tmp_path if what == "folder" else entry, 12345, 12345)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        cache, _ = compiled(tmp_path)
    assert (cache.compilations, cache.reads) == (1, 0)
    assert [w for w in told if "belongs to another user" in str(w.message)] != [] or what == "entry"


def test_entries_that_others_can_write_and_links_are_not_read(tmp_path):
    compiled(tmp_path)
    (entry,) = tmp_path.iterdir()
    entry.chmod(0o666)
    assert compiled(tmp_path)[0].reads == 0
    assert entry.stat().st_mode & 0o777 == 0o600  # written again
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert compiled(tmp_path)[0].reads == 0
    assert not entry.is_symlink()


def test_a_relative_folder_is_not_used(tmp_path, monkeypatch):
    """Or the working folder would be a source of code."""
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="'here' is a relative path"):
        cache, _ = compiled("here")
    assert cache.compilations == 1
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_is_the_owners_alone(tmp_path):
    compiled(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert [f.stat().st_mode & 0o777 for f in (tmp_path / "new").iterdir()] == [0o600]


def test_the_files_used_least_recently_go_when_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "LARGEST", 3500)
    kept = disk.PrivateFolder(tmp_path)
    with kept:
        for i, name in enumerate(("a.o", "b.o", "c.o.1.tmp")):
            kept.write(name, bytes(1000))
            os.utime(tmp_path / name, (i, i))
        assert len(kept.read("a.o")) == 1000  # now the one used last
        kept.write("d.o", bytes(900))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.o", "d.o"]


def test_code_in_memory_stays_while_it_is_used():
    cache = Cache(None, kept=2)
    functions = [compile_function(lambda x, i=i: x + i, np.ones(1), cache=cache) for i in range(5)]
    assert [f(np.ones(1))[0][0] for f in functions] == [1.0, 2.0, 3.0, 4.0, 5.0]
    compile_function(lambda x: x + 0, np.ones(1), cache=cache)
    assert cache.compilations == 5  # found again, because it is still in use
    del functions
    gc.collect()
    compile_function(lambda x: x + 1, np.ones(1), cache=cache)
    assert cache.compilations == 6


def test_programs_of_xla_hold_on_to_their_code():
    """And let it go with themselves; one that asks for code that is gone gets an error."""
    system = da.System(lambda q, v, p: 0.5 * v @ v - p["k"] * jnp.cos(q[0]) ** 3, parameters={"k": 1.0})
    before = set(xla._HANDLES)
    run = jax.jit(lambda k: da.simulate(system.replace(k=k), [1.0], [0.1], h=0.1, steps=20).q).lower(2.0).compile()
    (key,) = set(xla._HANDLES) - before
    expected = da.simulate(system.replace(k=2.0), [1.0], [0.1], h=0.1, steps=20).q
    for memory in (native_run._COMPILED, jitted.PROGRAMS, jitted.TEXTS, CACHE._kept):
        memory.clear()
    jax.clear_caches()
    gc.collect()
    np.testing.assert_array_equal(run(2.0), expected)
    del run
    gc.collect()
    assert key not in xla._HANDLES
    lost = xla.Handle.__new__(xla.Handle)
    lost.key, lost.row_size = key, 4
    with pytest.raises(jax.errors.JaxRuntimeError, match="is no longer loaded"):
        jax.jit(lambda x: xla.run_by_xla(lost, x, jnp.zeros(30, int), x, 3))(jnp.zeros(50)).block_until_ready()
