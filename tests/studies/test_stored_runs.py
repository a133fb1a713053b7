"""A run in a store is bit for bit the one in memory: whole, broken off anywhere and taken up again, and never wrong."""

import dataclasses
import json
import os
import resource
import shutil
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest
import xarray
import zarr

import dalembert as da
from dalembert.native import COUNTS, threads
from dalembert.step.run import loop, machine, steps
from dalembert.store import chunked, runs
from dalembert.store.atomic import Lock
from dalembert.studies import stored_runs

STEPS = 600
ROWS = ("t", "q", "t_velocity", "v", "t_multipliers", "multipliers", "constraint_forces", "t_feedback", "feedback")


def energy(q, v, p):
    return 0.5 * v @ v - 0.5 * p["k"] * q @ q - q[0] ** 2 * q[1] ** 2


def rolling(q, v, p):
    return v[1] - q[0] * v[0]


SYSTEM = da.System(energy, da.Nonholonomic(rolling), parameters={"k": 1.0})
NODES = da.Scheme("nodes")
SUM = (lambda value, t, q, v, m: {"sum": value["sum"] + q[0], "n": value["n"] + 1}, {"sum": 0.0, "n": 0})
LAW = da.SampledFeedback(lambda q, v, p: -0.1 * v, every=5)
FORMS = {
    "nodes": {"scheme": NODES}, "stages": {"scheme": da.Scheme(order=4)},
    "reduced": {"save": da.Save(reduce=SUM, every=7), "feedback": LAW}, "jax": {"solver": da.Solver(backend="jax")},
    "varying": {"h": da.Varying(0.05, lambda q, v, p: 1.0 + p["k"] * q @ q)},
    "until": {"h": da.Varying(0.05, span=1.0), "steps": None, "until": 0.05 * STEPS, "save": da.Save(reduce=SUM)},
}  # fmt: skip


def run(form="nodes", **more):
    return da.simulate(SYSTEM, [0.3, 0.1], [1.0, 0.3], **{"h": 0.05, "steps": STEPS} | FORMS[form] | more)


def into(store, form):
    """What a form keeps, in a store."""
    return dataclasses.replace(FORMS[form].get("save", da.Save()), store=store)


def again(store, form="nodes", **more):
    given = {name: x for name, x in FORMS[form].items() if name in ("scheme", "save", "feedback")}
    given |= {"density": FORMS[form]["h"].density} if form == "varying" else {}
    return da.resume(store, SYSTEM, **given | more)


def bits(path):
    rows = {name: np.asarray(getattr(path, name)).tobytes() for name in ROWS if getattr(path, name) is not None}
    numbers = [float(getattr(path.statistics, name)) for name in ("iterations", "residual", "turns", "max_iterations")]
    numbers.append(0.0 if path.h_last is None else float(path.h_last))
    return rows, numbers, path.outcome, path.steps, str(jax.tree.map(float, path.reduced))


@pytest.fixture(scope="module")
def whole():
    return {form: bits(run(form)) for form in FORMS}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many small chunks of steps and of the store, and a commit after each."""
    monkeypatch.setattr(threads, "SECONDS", 1e-9)
    for module in (threads, machine, steps):
        monkeypatch.setattr(module, "FIRST_STEPS", 3)
    monkeypatch.setattr(threads, "next_chunk", lambda steps, seconds: 150)
    monkeypatch.setattr(machine, "next_chunk", lambda steps, seconds: 150)
    monkeypatch.setattr(loop, "next_chunk", lambda steps, seconds: 150)
    monkeypatch.setattr(chunked, "BYTES", 2**12)
    monkeypatch.setattr(stored_runs, "SECONDS", 0.0)
    monkeypatch.setattr(stored_runs, "SHARE", np.inf)


@pytest.mark.parametrize("form", FORMS)
def test_the_bits_do_not_depend_on_chunks_nor_on_where_the_rows_go(form, whole, tmp_path):
    store = tmp_path / "run.zarr"
    assert bits(run(form)) == whole[form]
    ends = run(form, save=into(store, form))
    stored = da.load(store)
    assert bits(stored) == whole[form]
    assert np.array_equal(ends.q[-1], stored.q[-1])
    assert ends.provenance == stored.provenance
    assert bits(again(store, form)) == bits(ends)  # it had ended


def test_a_run_that_ends_between_any_two_writes_goes_on_to_the_same_bits(whole, tmp_path, monkeypatch, broken):
    """The form "nodes" has velocities half a step away: from its last row alone it could not be restarted."""
    form = "nodes"
    with monkeypatch.context() as patch:
        left = broken(patch, 10**6)
        run(form, save=da.Save(store=tmp_path / "all.zarr"))
        writes = 10**6 - left[0]
    assert writes > 50
    for number in (writes // 3, 2 * writes // 3 + 2, writes - 2):
        store = tmp_path / f"{number}.zarr"
        with monkeypatch.context() as patch:
            broken(patch, number)
            with pytest.raises(SystemExit):
                run(form, save=da.Save(store=store))
        data = xarray.open_zarr(store)
        committed = int(data.committed)
        assert np.array_equal(data.q[:committed].values, np.frombuffer(whole[form][0]["q"]).reshape(-1, 2)[:committed])
        assert da.load(store).outcome is da.Outcome.INTERRUPTED
        again(store, form)
        assert bits(da.load(store)) == whole[form]


def press(done, total):
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("form", ["jax", "reduced", "varying", "until"])
def test_control_c_keeps_what_was_computed_and_the_run_goes_on(form, whole, tmp_path):
    store = tmp_path / "run.zarr"
    with pytest.raises(da.Interrupted) as error:
        run(form, save=into(store, form), progress=press)
    assert 0 < error.value.path.steps < STEPS
    data = xarray.open_zarr(store)
    rows = int(data.committed)
    assert np.isfinite(data.q[:rows]).all()
    assert np.isnan(data.q[rows:]).all()
    assert float(data.t[rows - 1]) == float(error.value.path.t[-1])
    assert form in ("varying", "until") or float(data.t[rows - 1]) == 0.05 * error.value.path.steps
    assert int(data.code) == da.Outcome.INTERRUPTED
    assert again(store, form, throw=False, progress=press).outcome is da.Outcome.INTERRUPTED
    again(store, form)
    assert bits(da.load(store)) == whole[form]


def test_a_full_disk_is_an_error_and_the_run_goes_on(whole, tmp_path):
    store, limits = tmp_path / "run.zarr", resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(done, total):
        if done > STEPS // 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))

    try:
        with pytest.raises(OSError, match=r"store: cannot be written .*resume goes on"):
            run(save=da.Save(store=store), progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert 0 < len(da.load(store).t) < STEPS
    again(store)
    assert bits(da.load(store)) == whole["nodes"]


def test_a_disk_that_is_full_from_the_beginning_leaves_nothing_to_go_on_with(tmp_path):
    store, limits = tmp_path / "run.zarr", resource.getrlimit(resource.RLIMIT_FSIZE)
    run()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
        with pytest.raises(OSError, match=r"store: cannot be written .*; nothing is there"):
            run(save=da.Save(store=store))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not store.exists()


def test_a_killed_process_leaves_a_run_that_goes_on(whole, tmp_path):
    """kill -9, at a moment that nobody chose, of a process that would write for ever."""
    store = tmp_path / "run.zarr"
    program = f"""
import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_stored_runs as t
t.stored_runs.SECONDS = 0.0; t.stored_runs.SHARE = float("inf")
t.run(store={str(store)!r}, steps=10**9, progress=lambda done, total: print(done, flush=True))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < STEPS:
            pass
        with pytest.raises(BlockingIOError, match="another process is writing"):
            again(store)
        process.kill()
    part = da.load(store)
    assert part.outcome is da.Outcome.INTERRUPTED
    number = min(len(part.t), STEPS + 1)
    assert np.asarray(part.q[:number]).tobytes() == whole["nodes"][0]["q"][: 16 * number]
    more = again(store, throw=False, progress=press)
    assert more.steps > part.steps


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A run that was interrupted."""
    store = tmp_path_factory.mktemp("half") / "run.zarr"
    with pytest.raises(da.Interrupted):
        run(save=da.Save(store=store), steps=10**5, progress=press)
    return store


def copied(half, tmp_path):
    return shutil.copytree(half, tmp_path / "run.zarr")


OTHERS = {
    "system: its parameters": {"system": SYSTEM.replace(k=2.0)},
    "system: its functions": {
        "system": da.System(lambda q, v, p: energy(q, v, p) + q[0], da.Nonholonomic(rolling), parameters={"k": 1.0})
    },
    "scheme": {"scheme": None},
    "branch": {"solver": da.Solver(branch=da.Avoid())},
    "stop": {"stop": lambda q, v, p: q[0] > 9.0},
    "reduce": {"save": da.Save(reduce=SUM)},
    "density: the run in the store has steps of one": {"density": lambda q, v, p: 1.0},
}  # fmt: skip


@pytest.mark.parametrize("message", OTHERS)
def test_another_run_is_refused(message, half):
    given = {"system": SYSTEM, "scheme": NODES} | OTHERS[message]
    with pytest.raises(ValueError, match=message):
        da.resume(half, **given)


def test_a_run_that_has_ended_is_told_to_those_alone_whose_run_it_was(tmp_path):
    run(save=da.Save(store=tmp_path / "run.zarr"), steps=20)
    assert again(tmp_path / "run.zarr").outcome is da.Outcome.SUCCESS
    with pytest.raises(ValueError, match="system: its functions"):
        da.resume(tmp_path / "run.zarr", OTHERS["system: its functions"]["system"], scheme=NODES)


def test_another_processor_is_refused_unless_rounding_is_allowed(half, tmp_path):
    store = copied(half, tmp_path)
    file = store / "zarr.json"
    found = json.loads(file.read_text())
    found["attributes"]["fingerprint"] |= {"processor": "[]", "equations": "0"}
    file.write_text(json.dumps(found))
    chunked.sign(store, [name for name in found["attributes"][chunked.SUMS] if name])
    with pytest.raises(ValueError, match="store: the run was begun on another processor"):
        again(store)
    assert again(store, allow_rounding=True, throw=False, progress=press).outcome is da.Outcome.INTERRUPTED


def test_no_damage_is_read_as_numbers(half, tmp_path):
    """Any byte of a chunk, a chunk that is cut off or gone, metadata that are none; plain readers see the sum, too."""
    random = np.random.default_rng(0)
    store = copied(half, tmp_path)
    files = sorted(file for file in store.glob("*/c/**/*") if file.is_file())
    read = [file for file in files if file.relative_to(store).parts[0] in (*ROWS, "checkpoint")]
    for file in read:
        content = file.read_bytes()
        at = int(random.integers(len(content)))
        for damaged in (content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], content[:at], content + b"0", None):
            file.unlink() if damaged is None else file.write_bytes(damaged)
            with pytest.raises(da.FileError, match=r"damaged|missing"):
                da.load(store)
        file.write_bytes(content)
    da.load(store)
    first = store / "q" / "c" / "0" / "0"
    first.write_bytes(b"1" + first.read_bytes()[1:])
    with pytest.raises(ValueError, match="checksum"):
        xarray.open_zarr(store).q.load()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"zarr_format": 2}', "[" * 10**5, '{"zarr_format": 3, "attributes": 1}'])
def test_foreign_and_hostile_stores_are_named(text, half, tmp_path):
    store = copied(half, tmp_path)
    for place in (store, store / "q", store / "checkpoint"):
        before = (place / "zarr.json").read_text()
        (place / "zarr.json").write_text(text)
        with pytest.raises(da.FileError):
            da.load(store)
        with pytest.raises(da.FileError):
            again(store)
        (place / "zarr.json").write_text(before)


CHANGES = {  # of the metadata of the store and of its arrays: each passed for the run's own
    "first node lost": ("", lambda found: found["attributes"]["lead"].update(q=0)),
    "levels swapped": ("", lambda found: found["attributes"]["levels"].reverse()),
    "names swapped": ("", lambda found: found["attributes"].update(coordinate_names=["y", "x"], named=True)),
    "other functions": ("", lambda found: found["attributes"].update(source_hash="0")),
    "other type": ("q", lambda found: found.update(data_type="int64")),
    "other axes": ("q", lambda found: found.update(dimension_names=["mid", "coordinate"])),
}


@pytest.mark.parametrize("name", CHANGES)
def test_metadata_that_are_not_those_that_were_written_are_refused(name, half, tmp_path):
    array, change = CHANGES[name]
    store = copied(half, tmp_path)
    file = store / array / "zarr.json"
    found = json.loads(file.read_text())
    change(found)
    assert found != json.loads(file.read_text())
    file.write_text(json.dumps(found))
    for read in (da.load, again):
        with pytest.raises(da.FileError, match="damaged"):
            read(store)


def test_a_store_without_sums_and_one_with_another_array_are_read(half, tmp_path):
    """Those of older versions have none, and what a user adds to a store is his own."""
    store = copied(half, tmp_path)
    document = json.loads((store / "zarr.json").read_text())
    assert document["attributes"].pop(chunked.SUMS)
    (store / "zarr.json").write_text(json.dumps(document))
    assert bits(da.load(store)) == bits(da.load(half))
    store = copied(half, tmp_path / "more")
    zarr.open_group(store, mode="r+").create_array("energy", data=np.arange(3.0))
    assert bits(da.load(store)) == bits(da.load(half))


def test_counts_that_would_lead_machine_code_astray_are_refused(half, tmp_path):
    """A sum tells accidents, not forgery: the numbers of a checkpoint are looked at before they are believed."""
    store = copied(half, tmp_path)
    state = runs.read_checkpoint(store)
    for name, value in (("k", -5), ("k", 10**9), ("known", 99), ("target", -1), ("saved", -(10**6)), ("code", 77)):
        hostile = {key: x.copy() for key, x in state.items()}
        hostile["state.count"][COUNTS.index(name)] = value
        runs.write_checkpoint(chunked.ChunkedArray(store / "checkpoint"), hostile)
        with pytest.raises(ValueError, match="checkpoint"):
            again(store)


def test_a_store_is_not_written_over_and_has_one_writer(half, tmp_path):
    with pytest.raises(FileExistsError, match="store: exists"):
        run(save=da.Save(store=half))
    store = copied(half, tmp_path)
    lock = Lock(store / stored_runs.LOCK, store)
    with pytest.raises(BlockingIOError, match="another process"):
        again(store)
    lock.close()
    with pytest.raises(TypeError, match="store"):
        run(save=da.Save(store=3))


@pytest.mark.parametrize("key", ["name", "separator", "chunk_shape", "data_type", "shape", "codecs"])
def test_an_array_whose_metadata_lack_a_name_is_named(key, half, tmp_path):
    file = copied(half, tmp_path) / "q" / "zarr.json"
    text = file.read_text()
    assert f'"{key}"' in text
    file.write_text(text.replace(f'"{key}"', f'"{key[:-1]}\\u007f"'))
    with pytest.raises(da.FileError, match="is not an array"):
        da.load(file.parents[1])
