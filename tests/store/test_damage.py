"""A file that is damaged, cut off, malformed or of another kind is refused by name; what loads is what was saved."""

import dataclasses
import gc
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.io
import xarray as xr

import dalembert as da
from dalembert.gallery import ENTRIES, PROBLEMS

SKATER = ENTRIES["nonholonomic_particle"]
JERK = PROBLEMS["minimum_jerk"]
EARLIER = Path(__file__).parent / "earlier"  # files of the version before the checksum, of `run` and `solution` below
LAST_LINE = 83


@pytest.fixture(scope="module")
def run():
    return da.simulate(SKATER.system, SKATER.q0, SKATER.v0, h=0.1, steps=5)


@pytest.fixture(scope="module")
def solution():
    return da.solve(JERK.problem, **JERK.boundary, steps=10)


@pytest.fixture(scope="module")
def saved(run, solution, tmp_path_factory):
    """The bytes of a stored path and of a stored solution."""
    folder = tmp_path_factory.mktemp("saved")
    da.save(run, folder / "run.nc")
    da.save(solution, folder / "solution.nc")
    return {name: (folder / f"{name}.nc").read_bytes() for name in ("run", "solution")}


def same(a, b) -> bool:
    left, right = jax.tree.flatten(a), jax.tree.flatten(b)
    bits = [[(np.asarray(x).dtype, np.shape(x), np.asarray(x).tobytes()) for x in leaves] for leaves, _ in (left, right)]
    return left[1] == right[1] and bits[0] == bits[1]


def refused(file: Path, content: bytes, match: str | None = None) -> da.FileError:
    file.write_bytes(content)
    with pytest.raises(da.FileError, match=match) as found:
        da.load(file)
    assert found.value.file == str(file)
    assert str(found.value).startswith(f"file: {file} ")
    return found.value


@pytest.mark.filterwarnings("ignore:The 'phony_dims' kwarg")
@pytest.mark.filterwarnings("ignore:Exception ignored in. <function File.close")  # of h5netcdf, which it has half made
def test_what_cannot_be_read_is_closed_though_its_error_is_kept(tmp_path):
    """A Python file that HDF5 still has open at the end of the process ends it by a segmentation fault."""
    content, random = (EARLIER / "path.nc").read_bytes(), np.random.default_rng(0)
    kept = []
    for _ in range(20):
        changed = bytearray(content)
        changed[int(random.integers(len(content)))] ^= 1 << int(random.integers(8))
        (tmp_path / "run.nc").write_bytes(bytes(changed))
        try:
            da.load(tmp_path / "run.nc")
        except da.FileError as error:
            kept.append(error)
    assert len(kept) > 5
    assert h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE) == 0
    kept.clear()
    gc.collect()


@pytest.mark.parametrize("kind", ["run", "solution"])
def test_no_changed_byte_is_read_as_other_numbers(kind, saved, tmp_path):
    """At 400 random places, and at every place of the line that holds the checksum itself."""
    content, random = saved[kind], np.random.default_rng(8)
    places = [*random.integers(0, len(content), 400), *range(len(content) - LAST_LINE, len(content))]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= random.integers(1, 256)
        refused(tmp_path / "run.nc", bytes(damaged), "is damaged|was cut off, or changed")


def test_files_that_are_cut_off_longer_or_have_lost_a_block_are_refused(saved, tmp_path):
    content = saved["run"]
    for length in (0, 1, 8, 512, *np.random.default_rng(9).integers(0, len(content), 40), len(content) - 1):
        refused(tmp_path / "run.nc", content[:length])
    for more in (b"\n", b"\0" * 512, content):
        refused(tmp_path / "run.nc", content + more)
    for begin in range(0, len(content) - 512, 1024):
        block = content[begin : begin + 512]
        if block != bytes(512):
            refused(tmp_path / "run.nc", content[:begin] + bytes(512) + content[begin + 512 :], "is damaged")


def test_a_file_with_its_last_line_is_one_that_others_read(saved, run, tmp_path):
    file = tmp_path / "run.nc"
    file.write_bytes(saved["run"])
    for engine in ("h5netcdf", None):
        with xr.open_dataset(file, engine=engine) as data:
            np.testing.assert_array_equal(data.q, run.q)
    with h5py.File(file) as data:
        np.testing.assert_array_equal(data["q"], run.q)


def test_what_another_program_has_changed_is_said_and_can_be_read_unchecked(saved, run, tmp_path):
    file = tmp_path / "run.nc"
    file.write_bytes(saved["run"])
    with h5py.File(file, "a") as data:
        data.attrs["comment"] = "looks good"
    refused(file, file.read_bytes(), "changed by another program")
    assert same(da.store.from_xarray(xr.load_dataset(file)), run)


def test_a_data_set_written_by_hand_loads(run, tmp_path):
    da.store.to_xarray(run).to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    assert same(da.load(tmp_path / "run.nc"), run)


def test_files_of_the_version_before_load_without_a_checksum(run, solution):
    path, extremal = da.load(EARLIER / "path.nc"), da.load(EARLIER / "solution.nc")
    for found, wanted in ((path, run), (extremal, solution)):
        assert [x.shape for x in jax.tree.leaves(found)] == [x.shape for x in jax.tree.leaves(wanted)]
        assert found.describe().splitlines()[:2] == wanted.describe().splitlines()[:2]
        np.testing.assert_allclose(found.q, wanted.q, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(found.v, wanted.v, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.multipliers, wanted.multipliers, rtol=1e-10)
    assert path.provenance.coordinates == run.provenance.coordinates
    assert "return 0.5" in path.provenance.source


def foreign() -> dict[str, bytes]:
    hdf5, older = io.BytesIO(), io.BytesIO()
    with h5py.File(hdf5, "w") as file:
        file["x"] = np.arange(3.0)
    with scipy.io.netcdf_file(older, "w") as file:
        file.createDimension("x", 2)
        content = None
        file.flush()
        content = older.getvalue()
    random = np.random.default_rng(1).bytes(3000)
    return {"empty": b"", "text": b"t x\n0 1\n", "random": random, "zeros": bytes(4096), "HDF5": hdf5.getvalue(),
            "NetCDF 3": content, "signature": b"\x89HDF\r\n\x1a\n" + random}  # fmt: skip


@pytest.mark.parametrize(("name", "content"), foreign().items(), ids=list(foreign()))
def test_files_of_others_are_refused(name, content, tmp_path):
    refused(tmp_path / "run.nc", content, "cannot be read as a NetCDF file|was not written by dalembert")


def test_errors_of_the_system_stay_themselves(tmp_path, saved):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        da.load(tmp_path / "none.nc")
    (tmp_path / "run.nc").write_bytes(saved["run"])
    (tmp_path / "run.nc").chmod(0)
    if not os.access(tmp_path / "run.nc", os.R_OK):  # root may read everything
        with pytest.raises(PermissionError):
            da.load(tmp_path / "run.nc")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_only_regular_files_are_read(tmp_path):
    """A device or a pipe never ends; in processes of their own, which are ended where they read on."""
    os.mkfifo(tmp_path / "pipe.nc")
    for name in ("folder.nc", "folder.zarr", "folder"):
        (tmp_path / name).mkdir()
    for name in ("zarr.json", "folder.zarr"):
        (tmp_path / f"of {name}.zarr").mkdir()
    os.mkfifo(tmp_path / "of zarr.json.zarr" / "zarr.json")
    (tmp_path / "of folder.zarr.zarr" / "zarr.json").mkdir()
    names = ["/dev/zero", *(str(file) for file in sorted(tmp_path.iterdir()))]
    script = (
        "import resource, sys, dalembert as da\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        da.load(name)\n"
        "    except da.FileError as error:\n"
        "        print(error.file)\n"
    )
    found = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, timeout=600, check=True)
    assert [line.removesuffix("/zarr.json") for line in found.stdout.splitlines()] == names


def test_the_last_line_is_looked_at_before_the_rest_is_read(tmp_path):
    """A file of 1 TiB, of which nothing is on the disk, is no file of ours."""
    with open(tmp_path / "run.nc", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(da.FileError, match="cannot be read as a NetCDF file"):
        da.load(tmp_path / "run.nc")


def changed(name: str, change):
    """A data set with a variable whose values are changed, on the same dimensions."""
    return lambda data: data.assign({name: (data[name].dims, change(data[name].values))})


def without(name: str):
    return lambda data: data.drop_vars(name)


MALFORMED = {
    "complex": ("run", changed("q", lambda x: x + 0j), "q holds complex128; real numbers of 64 bits are right"),
    "single precision": ("run", changed("v", np.float32), "v holds float32"),
    "integers": ("run", changed("constraint_forces", np.int64), "constraint_forces holds int64"),
    "texts": ("run", changed("h", lambda x: np.asarray("0.1", dtype=object)), "h holds"),
    "code 3.7": ("run", changed("code", lambda x: np.asarray(3.7)), "code holds float64; whole numbers are right"),
    "code 99": ("run", changed("code", lambda x: x + 99), "code holds 99; outcomes are numbered from 0 to 14"),
    "code -1": ("run", changed("code", lambda x: x - 1), "code holds -1"),
    "no code": ("run", without("code"), "code is missing"),
    "no multipliers": ("run", without("multipliers"), "multipliers is missing"),
    "no times": ("run", without("time_mid"), "time_mid is missing"),
    "no statistics": ("run", without("crossings"), "crossings is missing"),
    "transposed": ("run", lambda d: d.assign(q=d.q.T), r"q has the dimensions \(coordinate, time\); \(time, coord"),
    "another axis": ("run", lambda d: d.assign(v=(("time", "other"), d.v.values[:, :2])), r"v has the dimensions \(time, o"),
    "a number": ("run", lambda d: d.assign(q=1.0), r"q has the dimensions \(\)"),
    "too long": ("run", lambda d: d.isel(time=slice(0, 3)), "multipliers has 5 times and q has 3"),
    "several steps": ("run", lambda d: d.assign(h=("time", d.time.values)), r"h has the dimensions \(time\); \(\) is right"),
    "lanes of another name": ("run", lambda d: d.assign(code=("run", [0])), r"q has the dimensions .*\(lane, time, coord"),
    "a level that is no text": ("run", lambda d: d.assign_attrs(level_of_velocities=2), "level_of_velocities is 2"),
    "no level": ("run", lambda d: d.assign_attrs({"level_of_multipliers": None}), "level_of_multipliers is missing"),
    "no tree": ("run", lambda d: d.assign_attrs(reduced="{"), "the attribute reduced"),
    "a tree without leaves": ("run", lambda d: d.assign_attrs(reduced='{"leaf": 0}'), "the attribute reduced"),
    "half a provenance": ("run", lambda d: d.assign_attrs(versions=3), "the attribute versions is 3; text is right"),
    "names": ("run", lambda d: d.assign_attrs(coordinate_names="x, y"), "a list of names is right"),
    "format 0": ("run", lambda d: d.assign_attrs(dalembert_format=0), "formats are numbered from 1"),
    "format one": ("run", lambda d: d.assign_attrs(dalembert_format="one"), "dalembert_format is 'one'"),
    "format 99": ("run", lambda d: d.assign_attrs(dalembert_format=99), "format 99, this dalembert reads up to 2"),
    "jets": ("solution", without("jets"), "jets is missing"),
    "nodes": ("solution", without("time"), "time is missing"),
    "complex jets": ("solution", changed("jets", lambda x: x + 0j), "jets holds complex128"),
    "an action per node": ("solution", lambda d: d.assign(action=("time", d.time.values)), "action has the dimensions"),
    "a solution with code 3.7": ("solution", changed("code", lambda x: np.asarray(3.7)), "code holds float64"),
    "a solution with code 15": ("solution", changed("code", lambda x: x + 15), "code holds 15"),
    "windows": ("solution", lambda d: d.assign_attrs(windows=1), "the attribute windows is 1"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_data_are_refused(kind, change, message, run, solution, tmp_path):
    data = change(da.store.to_xarray(run if kind == "run" else solution))
    with pytest.raises(ValueError, match=message):
        da.store.from_xarray(data)
    data.attrs = {name: value for name, value in data.attrs.items() if value is not None}
    if not any(x.dtype.kind == "c" for x in data.variables.values()):  # NetCDF has no complex numbers
        data.to_netcdf(tmp_path / "made.nc", engine="h5netcdf")
        refused(tmp_path / "made.nc", (tmp_path / "made.nc").read_bytes(), message)


def test_what_could_not_be_loaded_is_not_saved(run, tmp_path):
    da.save(run, tmp_path / "run.nc")
    for changes in ({"q": run.q + 0j}, {"q": run.q[:3], "t": run.t[:3]}, {"h": jnp.float32(run.h)}):
        with pytest.raises(ValueError, match="path: is not a path that a run returns"):
            da.save(dataclasses.replace(run, **changes), tmp_path / "run.nc")
    assert same(da.load(tmp_path / "run.nc"), run)


@pytest.mark.parametrize("outcome", da.Outcome)
def test_every_outcome_comes_back(outcome, run, solution, tmp_path):
    for value in (run, solution):
        ended = dataclasses.replace(value, code=np.asarray(int(outcome)))
        da.save(ended, tmp_path / "ended.nc")
        found = da.load(tmp_path / "ended.nc")
        assert found.outcome is outcome
        assert found.describe() == ended.describe()


def test_a_file_error_says_which_file_and_travels(tmp_path):
    error = refused(tmp_path / "run.nc", b"no", "cannot be read as a NetCDF file")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.problem) == (str(error), error.file, error.problem)
    assert isinstance(error, ValueError)
