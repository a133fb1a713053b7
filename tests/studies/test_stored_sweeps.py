"""A sweep in a store is bit for bit the one in memory: whole, broken off anywhere and begun again, and never another one."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import dalembert as da
from dalembert.store import chunked
from dalembert.studies.job import Blocks
from dalembert.studies.results import MergeTree
from dalembert.studies.sweeps import _runs_of_block


def oscillator(q, v, p):
    return 0.5 * p["m"] * v @ v - 0.5 * p["k"] * q @ q


def largest(value, t, q, v, multipliers):
    return {"reach": jnp.maximum(value["reach"], jnp.abs(q[0])), "n": value["n"] + 1}


def beyond(q, v, p):
    """A wall that heavy or soft oscillators reach, between two saved times."""
    return q[0] > -0.9


SYSTEM = da.System(oscillator, coordinates=("x",), parameters={"m": 1.0, "k": 1.0})
VALUES = {"m": np.array([0.5, 1.0, 2.0]), "k": np.array([1.0, 2.0, 3.0, 4.0, 5.0])}
REDUCE = (largest, {"reach": 0.0, "n": 0})
FIXED = ("q0", "v0", "h", "steps", "save", "stop", "scheme")
RUN = {
    "q0": [1.0],
    "v0": [0.0],
    "h": 0.05,
    "steps": 60,
    "save": da.Save(every=7),
    "reduce": REDUCE,
    "stop": da.Stop(domain=beyond),
}


def sweep(store=None, values=VALUES, **more):
    given = RUN | ({} if store is None else {"store": store, "block": 3}) | more
    return da.sweep(SYSTEM, values, {name: given.pop(name) for name in FIXED if name in given}, **given)


@pytest.fixture(scope="module")
def whole():
    return sweep().data


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    store = tmp_path_factory.mktemp("complete") / "study.zarr"
    sweep(store)
    return store


def same(found, wanted):
    """All variables to the bit; a store has all times, and says NaN where no run has come."""
    assert found.data_vars.keys() == wanted.data_vars.keys()
    for name, x in wanted.variables.items():
        values = found[name].values[tuple(map(slice, x.shape))]
        np.testing.assert_array_equal(values, x.values, err_msg=str(name))
        assert found[name].dims == x.dims


def test_a_store_has_the_bits_of_memory(complete, whole):
    study = da.load(complete)
    same(study.data, whole)
    assert len(set(study.outcomes.values.ravel())) == 2
    path = study.sel(m=2.0, k=1.0)
    one = {name: x for name, x in RUN.items() if name != "reduce"} | {"save": da.Save(every=7, reduce=REDUCE)}
    assert path.provenance == da.simulate(SYSTEM.replace(m=2.0, k=1.0), throw=False, **one).provenance
    assert da.matches(complete, SYSTEM)
    plain = xarray.open_zarr(complete)
    assert plain.q.dims == ("m", "k", "time", "coordinate")
    assert plain.q.sel(m=2.0).shape == (5, 10, 1)
    assert plain.committed.values.tolist() == [1] * 6


def test_rows_of_values_go_into_a_store_too(whole, tmp_path):
    rows = {"v0": np.zeros((4, 1)), "m": np.array([0.5, 1.0, 2.0, 1.0]), "k": np.array([4.0, 2.0, 3.0, 5.0])}
    study = sweep(tmp_path / "rows.zarr", rows, combine="zip", v0=None)
    for i, path in enumerate(study):
        single = whole.sel(m=rows["m"][i], k=rows["k"][i])
        np.testing.assert_array_equal(path.reduced["reach"], single.reduced_1)
        np.testing.assert_array_equal(path.q[-1], single.last_q)
    da.save(study, tmp_path / "rows.nc")
    assert da.load(tmp_path / "rows.nc").data.equals(study.data)


def test_a_sweep_that_ends_between_any_two_writes_goes_on_to_the_same_bits(whole, tmp_path, monkeypatch, broken):
    for number in (3, 50, 83):
        store = tmp_path / f"{number}.zarr"
        with monkeypatch.context() as patch:
            broken(patch, number)
            with pytest.raises(SystemExit):
                sweep(store)
        if not store.exists():
            continue
        data = xarray.open_zarr(store)
        done = int(data.committed.sum())
        assert 0 < done < 6
        np.testing.assert_array_equal(data.q[0].values[: 3 * done], whole.q[0].values[: 3 * done])
        assert np.isnan(data.q[2].values).all()
        study = da.load(store)
        assert str(study.outcomes[-1, -1].values) == "interrupted"
        assert study.sel(m=2.0, k=5.0).steps == 0
        kept = {file: file.stat().st_mtime_ns for file in store.glob("*/c.0.0*")}
        sweep(store)
        assert {file: file.stat().st_mtime_ns for file in kept} == kept  # nothing twice
        same(da.load(store).data, whole)
    assert not list(tmp_path.glob(".dalembert*"))


def test_control_c_keeps_the_blocks_and_the_sweep_goes_on(whole, tmp_path):
    store, told = tmp_path / "study.zarr", []

    def press(done, total):
        told.append((done, total))
        if done > 200:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(da.Interrupted) as error:
        sweep(store, progress=press)
    assert told[-1] == (300, 900)
    codes = error.value.path.data.code.values
    assert np.count_nonzero(codes == da.Outcome.INTERRUPTED) == 10
    same(sweep(store, progress=lambda *x: told.append(x)).data, whole)
    assert told[-1] == (600, 600)


def test_a_full_disk_is_an_error_and_the_sweep_goes_on(whole, tmp_path):
    store, limits = tmp_path / "study.zarr", resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(OSError, match=r"store: cannot be written .*the same sweep goes on"):
            sweep(store, progress=lambda *x: resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1])))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert int(xarray.open_zarr(store).committed.sum()) == 1
    same(sweep(store).data, whole)


def test_a_killed_process_leaves_a_sweep_that_goes_on(whole, tmp_path):
    """kill -9, while it writes."""
    store = tmp_path / "study.zarr"
    program = f"""
import sys, time; sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_stored_sweeps as t
def slow(done, total):
    print(done, flush=True)
    time.sleep(0.05 if done < 400 else 600)  # until it is killed, however busy the machine is
t.sweep({str(store)!r}, progress=slow)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 400:
            pass
        try:
            with pytest.raises(BlockingIOError, match="another process is writing"):
                sweep(store)
        finally:
            process.kill()
    same(sweep(store).data, whole)


OTHERS = {
    r"values\['m'\]: the sweep in the store has others": {"values": VALUES | {"m": np.array([0.5, 1.0, 2.5])}},
    r"values, store: found 2 m, 5 k; the sweep in the store has 3 m, 5 k": {"values": VALUES | {"m": np.array([0.5, 1.0])}},
    r"h: found 0.06; the sweep in the store has 0.05": {"h": 0.06},
    "reduce: the run in the store has one; give it": {"reduce": None},
    "domain": {"stop": da.Stop(domain=lambda q, v, p: q[0] > -0.8)},
    "scheme": {"scheme": da.Scheme("nodes")},
}  # fmt: skip


@pytest.mark.parametrize("message", OTHERS)
def test_another_sweep_is_refused(message, complete):
    with pytest.raises(ValueError, match=message):
        sweep(complete, **OTHERS[message])


WALL = np.full(5000, -0.9)


def test_other_numbers_that_a_function_reads_are_another_sweep(tmp_path, monkeypatch, broken):
    """One number in the middle of many."""

    def domain(q, v, p):
        return q[0] > WALL[2500]

    with monkeypatch.context() as patch:
        broken(patch, 60)
        with pytest.raises(SystemExit):
            sweep(tmp_path / "study.zarr", stop=da.Stop(domain=domain))
    monkeypatch.setitem(globals(), "WALL", np.where(np.arange(5000) == 2500, -0.8, WALL))
    with pytest.raises(ValueError, match="domain: differs from that of the sweep in the store, or reads"):
        sweep(tmp_path / "study.zarr", stop=da.Stop(domain=domain))


def test_another_processor_is_refused(complete, tmp_path):
    store = shutil.copytree(complete, tmp_path / "study.zarr")
    (store / "committed" / "c.3").unlink()
    text = (store / "zarr.json").read_text()
    attributes = json.loads(text)["attributes"]
    told = json.loads(attributes["fingerprint"]) | {"processor": "[]"}
    (store / "zarr.json").write_text(text.replace(json.dumps(attributes["fingerprint"]), json.dumps(json.dumps(told))))
    chunked.sign(store, [name for name in attributes[chunked.SUMS] if name])
    with pytest.raises(ValueError, match="store: the sweep was begun on another processor"):
        sweep(store)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"zarr_format": 2}', "[" * 10**5, '{"zarr_format": 3, "attributes": 1}'])
def test_foreign_and_hostile_stores_are_named(text, complete, tmp_path):
    store = shutil.copytree(complete, tmp_path / "study.zarr")
    for place in (store, store / "q", store / "code"):
        before = (place / "zarr.json").read_text()
        (place / "zarr.json").write_text(text)
        for what in (da.load, sweep):
            with pytest.raises(da.FileError):
                what(store)
        (place / "zarr.json").write_text(before)
    hostile = (store / "q" / "zarr.json").read_text().replace('"crc32c"', '"numcodecs.pickle"')
    (store / "q" / "zarr.json").write_text(hostile)
    with pytest.raises(da.FileError, match="not an array that dalembert writes"):
        da.load(store)


def test_metadata_that_are_not_those_that_were_written_are_refused(complete, tmp_path):
    store = shutil.copytree(complete, tmp_path / "study.zarr")
    for place, key, value in (
        (store, "source_hash", "0"),
        (store / "q", "data_type", "int64"),
        (store / "h", "data_type", "int64"),
    ):
        before = (place / "zarr.json").read_text()
        found = json.loads(before)
        inner = found if key in found else found["attributes"]
        assert inner[key] != value
        inner[key] = value
        (place / "zarr.json").write_text(json.dumps(found))
        for what in (da.load, sweep):
            with pytest.raises(da.FileError, match="damaged"):
                what(store)
        (place / "zarr.json").write_text(before)
    da.load(store)


def test_damage_is_not_read_as_numbers(complete, tmp_path):
    store = shutil.copytree(complete, tmp_path / "study.zarr")
    file = store / "q" / "c.0.0.0.0"
    file.write_bytes(b"1" + file.read_bytes()[1:])
    with pytest.raises(ValueError, match="checksum"):
        da.load(store)["x"].load()


def test_blocks_cover_all_runs_once():
    """Whatever the axes and the number: boxes of the axes, whose runs follow each other."""
    random = np.random.default_rng(1)
    for _ in range(60):
        shape = tuple(int(x) for x in random.integers(1, 7, random.integers(1, 4)))
        blocks = Blocks.of(shape, int(random.integers(1, 40)))
        seen = []
        for i in range(blocks.number):
            number = blocks.runs(i)
            flat = np.ravel_multi_index(blocks.places(i), shape)
            assert flat.shape == (blocks.size,)
            assert flat[0] == blocks.first(i)
            assert (flat[number:] == flat[number - 1]).all()
            seen.append(flat[:number])
        np.testing.assert_array_equal(np.concatenate(seen), np.arange(np.prod(shape)))
    assert _runs_of_block(10, 100) == 2**16
    assert _runs_of_block(10, 10**9) == 64
    assert _runs_of_block(10**9, 10) == 1


def reach(study):
    return study.reduced["reach"]


def parts(study):
    """Of the runs of a block, whatever its axes."""
    return {"first": study.data.m.values.min(), "text": [float(study["x"].isel(time=1).sum()), study.data.code.size]}


def joined(a, b):
    return {"first": min(a["first"], b["first"]), "text": [a["text"][0] + b["text"][0], a["text"][1] + b["text"][1]]}


def test_statistics_over_the_runs_are_those_of_the_runs():
    """By NumPy, of the runs that did not fail; and a merge of one's own."""
    whole = sweep(steps=20).data
    fine = whole.code.values.ravel() == da.Outcome.SUCCESS
    ends = whole.q.values[..., -1, 0].ravel()[fine]
    assert 1 < len(ends) < 15
    edges = np.linspace(ends.min() + 0.01, ends.max() - 0.01, 4)
    pair = da.studies.run_statistics(lambda study: study["x"].isel(time=-1), bins=edges)
    found = sweep(over_runs=pair, block=3, steps=20)
    assert (int(found["runs"]), int(found["failed"]), int(found["count"])) == (15, 15 - len(ends), len(ends))
    wanted = {"mean": ends.mean(), "variance": ends.var(), "minimum": ends.min(), "maximum": ends.max()}
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-14, err_msg=name)
    np.testing.assert_array_equal(found["histogram"], np.histogram(ends, edges)[0])
    assert (int(found["below"]), int(found["above"])) == ((ends < edges[0]).sum(), (ends > edges[-1]).sum())
    own = sweep(over_runs=(parts, joined), block=3, steps=20)
    assert float(own["first"]) == 0.5
    assert int(own["text"][1]) == 15
    np.testing.assert_allclose(own["text"][0], whole.q.values[..., 1, 0].sum(), rtol=1e-14)


def test_statistics_go_on_from_a_store(tmp_path):
    pair, store = da.studies.run_statistics(reach), tmp_path / "totals.zarr"
    with pytest.raises(da.Interrupted) as error:
        sweep(store, over_runs=pair, progress=lambda done, total: done > 200 and signal.raise_signal(signal.SIGINT))
    assert int(error.value.path["runs"]) == 5
    found, kept = sweep(store, over_runs=pair), xarray.open_zarr(store)
    assert kept.committed.values.all()
    for name, x in sweep(over_runs=pair, block=3).items():
        np.testing.assert_array_equal(found[name], x, err_msg=name)
    assert sweep(store, over_runs=pair)["mean"] == found["mean"]
    with pytest.raises(ValueError, match="over_runs: the sweep in the store has others"):
        sweep(store, over_runs=(parts, joined))
    with pytest.raises(da.FileError, match="holds values of over_runs="):
        da.load(store)


def test_the_tree_does_not_know_the_order():
    """Any order of completion gives the same tree of the leaves 0, 1, 2, …, and in their order few values wait."""
    random = np.random.default_rng(0)
    for count in (1, 2, 3, 7, 16, 37):
        found = set()
        for order in (range(count), *(random.permutation(count) for _ in range(5))):
            tree = MergeTree(count, lambda a, b: f"({a} {b})")
            for n, i in enumerate(order):
                tree.add(int(i), str(i))
                if isinstance(order, range) and n + 1 < count:
                    assert tree.waiting == (n + 1).bit_count()
            assert tree.waiting == 1
            found.add(tree.total)
        (shape,) = found
        assert shape.replace("(", "").replace(")", "").split() == [str(i) for i in range(count)]
    part = MergeTree(4, lambda a, b: a + b)
    for i in (2, 0, 3):
        part.add(i, str(i))
    assert part.total == "023"


@pytest.mark.parametrize("numbers", [np.full(8, np.nan), np.arange(8.0), np.array([np.inf, 1e9, 1e9 + 1, 2e9] * 2)])
def test_statistics_merge_as_those_of_the_whole(numbers):
    """Blocks without any number, and numbers far from 0, whose squares would cancel."""

    def one(x):
        codes = xarray.Dataset({"code": ("run", np.zeros(len(x), int)), "x": ("run", x)}, attrs={"swept": "{}"})
        return pair.of(da.Study(codes))

    pair = da.studies.run_statistics(lambda study: study.data.x)
    found = pair.merge(pair.merge(one(numbers[:1]), one(numbers[1:4])), one(numbers[4:]))
    wanted = numbers[np.isfinite(numbers)]
    assert int(found["count"]) == len(wanted)
    for name in ("mean", "var", "min", "max"):
        own = found[{"var": "variance", "min": "minimum", "max": "maximum"}.get(name, name)]
        np.testing.assert_allclose(own, getattr(wanted, name)() if len(wanted) else np.nan, rtol=1e-13)


def test_runs_with_no_step_to_make_are_stored(tmp_path):
    system = da.DiscreteSystem(lambda a, b: 0.5 * (b - a) @ (b - a) / 0.1 - 0.1 * jnp.cos(0.5 * (a + b)).sum())
    nodes = np.array([[[0.0], [0.01]], [[0.0], [0.02]]])
    study = da.sweep(system, {"nodes": nodes}, {"h": 0.1, "steps": 1, "save": da.Save(every=3)}, store=tmp_path / "s.zarr")
    for i, own in enumerate(nodes):
        run = study.sel(nodes=i)
        np.testing.assert_array_equal(run.q, own)
        assert (run.steps, len(run.t_multipliers)) == (0, 0)
