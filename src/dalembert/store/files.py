"""NetCDF files of what simulate and solve return: written, and read back."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path as File
from typing import TYPE_CHECKING

from dalembert.control import OptimalControl
from dalembert.numbers import as_file, as_new_file, check_class, described
from dalembert.path import Path, Study
from dalembert.solution import CriticalPoint
from dalembert.store.atomic import NOTE, FileError, last_line, read_content, verify_checksum, write
from dalembert.store.chunked import attributes_of_store
from dalembert.store.paths import attribute, check_path, in_this_format, path_from_xarray, path_to_xarray
from dalembert.store.runs import StoredRun
from dalembert.store.solutions import CONTENTS, check_solution, solution_from_xarray, solution_to_xarray
from dalembert.store.studies import STUDIES, VALUES, check_study, load_study, study_from_xarray
from dalembert.systems import Problem

if TYPE_CHECKING:
    import xarray

SUFFIXES = (".nc", ".nc4", ".h5")
PACKED = {"zlib": True, "complevel": 4, "shuffle": True}  # of a study: runs resemble each other


def to_xarray(path: Path | CriticalPoint | Study) -> xarray.Dataset:
    """A path, a solution or a study as a Dataset: q(time, coordinate), and every other variable over its own times,
    with labels and units.

    `data.q.sel(coordinate="x")` is a labelled series over its times. Statistics, step, action and outcome code are
    scalar variables; the name of the outcome, the levels and the whole Provenance are attributes. A solution has the
    jets and the multipliers over `time_mid`, and the momenta at its ends over `momentum`.

    Args:
        path: a Path, a Solution or a Study.

    Returns:
        An xarray.Dataset.

    Raises:
        TypeError: path is none of these.
        ValueError: path is traced, or a batch of solutions.

    Example:
        >>> da.store.to_xarray(path).q.dims
        ('time', 'coordinate')
    """
    if isinstance(path, Study):
        return path.data
    return solution_to_xarray(path) if isinstance(path, CriticalPoint) else path_to_xarray(path)


def from_xarray(data: xarray.Dataset) -> Path | CriticalPoint | Study:
    """The inverse of `to_xarray`, bit for bit.

    Args:
        data: an xarray.Dataset.

    Returns:
        The Path, the Solution or the Study. A selection of a single run from a study is a Path.

    Raises:
        TypeError: data is not a Dataset.
        ValueError: the data set was not made by dalembert; or a variable is missing, or has wrong dimensions, type or
            values; the message names it.

    Example:
        >>> bool((da.store.from_xarray(da.store.to_xarray(path)).q == path.q).all())
        True
    """
    if not hasattr(data, "attrs"):
        raise TypeError(f"data: found {described(data)}; give the Dataset that to_xarray returned")
    data = in_this_format(data)
    if data.attrs.get("content") in STUDIES:
        return study_from_xarray(data)
    return solution_from_xarray(data) if data.attrs.get("content") in CONTENTS else path_from_xarray(data)


def save(path: Path | CriticalPoint | Study, file: str | os.PathLike) -> None:
    """Write a path, a solution or a study to a NetCDF-4 file (.nc), which every NetCDF or HDF5 library can read.

    A study is compressed without loss.

    A file of that name is replaced in one step: at any moment a reader finds either the old file or the new one. After
    an error, such as a full disk, the old file is unchanged and the path is still in memory. The file is built in
    memory first, which takes three times its size. A symbolic link is followed; the mode, and the owner if the system
    allows it, are kept. A save that is killed may leave a temporary `.dalembert-….part` next to the file.

    Args:
        path: a Path, a Solution or a Study.
        file: name of the file, which ends in .nc, .nc4 or .h5.

    Raises:
        TypeError: as `to_xarray`.
        ValueError: as `to_xarray`; or the name has another ending.
        FileNotFoundError: the folder does not exist.
        OSError: the file cannot be written.
        MemoryError: the file does not fit into memory.

    Example:
        >>> da.save(path, "run.nc")
        >>> bool((da.load("run.nc").q == path.q).all())
        True
    """
    target = as_new_file(file, "file", SUFFIXES, "a path is stored as NetCDF")
    content = _netcdf(_check_loadable(to_xarray(path)))
    write(target, content, last_line(content))


def load(file: str | os.PathLike) -> Path | CriticalPoint | Study:
    """The path, solution or study stored by `save`, equal bit for bit, with outcome, statistics and provenance.

    The checksum in the last line of the file is verified first; files of older versions have none, and are read
    without. For a run in a store, run.zarr, it returns all that is committed, with every chunk verified; if the run has
    ended, that is the whole run. The values of a study in a store are read when they are used; runs that are still
    missing have the outcome INTERRUPTED.

    Args:
        file: name of the file or of the store.

    Returns:
        The Path, the Solution or the Study.

    Raises:
        FileError: the file is damaged, is not a NetCDF file, or was not written by `save`; or it is no regular file, but a
            pipe, a device, or a folder without a store. It is a ValueError.
        FileNotFoundError: there is no such file.
        OSError: the file cannot be read at all; PermissionError is one.

    Example:
        >>> da.save(solution, "beam.nc")
        >>> da.load("beam.nc").kind
        'minimum'
    """
    source = as_file(file, "file")
    if source.is_dir():
        return _of_store(source)
    try:
        content = read_content(source)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "file: does not exist", os.fspath(source)) from None
    data = _dataset(content, source, verify_checksum(content, source))
    try:
        return from_xarray(data)
    except ValueError as error:
        raise FileError(source, f"was not written by dalembert.save ({error})") from error


def _of_store(source: File) -> Path | CriticalPoint | Study:
    try:
        is_study = attributes_of_store(source).get("content") in (*STUDIES, VALUES)
        return load_study(source) if is_study else StoredRun(source).path()
    except FileError:
        raise
    except (ValueError, KeyError) as error:
        raise FileError(source, f"is damaged ({error})") from error


def matches(path: Path | Study | str | os.PathLike, system: Problem | OptimalControl) -> bool:
    """True if the source hash of a path (or of a file) is that of this system's functions.

    Only the source text of Lagrangian, constraints and forces is compared, not parameters and captured values.

    Args:
        path: a Path, a Study, or the name of a file.
        system: a System, a DiscreteSystem or a VariationalProblem; for a study of solutions also an OptimalControl.

    Returns:
        True if they are the same.

    Raises:
        TypeError: system is none of these.
        ValueError: the path has no provenance, because it was computed under jit, vmap or grad, or is a solution.

    Example:
        >>> da.matches(path, pendulum), da.matches(path, sphere)
        (True, False)
    """
    check_class(system, Problem | OptimalControl, "system", "a System, a DiscreteSystem or a VariationalProblem")
    run = path if isinstance(path, Path | CriticalPoint | Study) else load(path)
    if isinstance(run, Study):
        return attribute(run.data, "source_hash") == system.texts()["source_hash"]
    if isinstance(run, CriticalPoint) or run.provenance is None:
        why = "is a solution" if isinstance(run, CriticalPoint) else "was computed under jit, vmap or grad"
        raise ValueError(f"path: carries no provenance (it {why}), so nothing to compare")
    return run.provenance.source_hash == system.texts()["source_hash"]


def _check_loadable(data: xarray.Dataset) -> xarray.Dataset:
    """The same data set, if `load` will take it."""
    try:
        content = data.attrs.get("content")
        check_solution(data) if content in CONTENTS else check_study(data) if content in STUDIES else check_path(data)
    except ValueError as error:
        raise ValueError(f"path: is not a path that a run returns, and could not be loaded again ({error})") from error
    return data


def _netcdf(data: xarray.Dataset) -> memoryview:
    """The bytes of a NetCDF-4 file.

    HDF5 ends the process when a write fails, on a full disk as in a full memory: so it writes to memory, and only after as
    much of it was had. An allocation that is never touched costs nothing.
    """
    bytearray(3 * data.nbytes + 2**24)
    plain: dict[str, dict] = {str(name): {"_FillValue": None} for name, x in data.variables.items() if x.dtype.kind == "f"}
    if data.attrs.get("content") in STUDIES:
        plain = {name: way | (PACKED if data[name].ndim else {}) for name, way in plain.items()}
    content = io.BytesIO()
    data.assign_attrs(checksum=NOTE).to_netcdf(content, engine="h5netcdf", encoding=plain)
    return content.getbuffer()


def _dataset(content: bytes, source: File, checked: bool) -> xarray.Dataset:
    """The data set in the bytes of a file. What unchecked bytes make HDF5 raise is about them, whatever it is.

    HDF5 is given the bytes and not a Python file: one that was still open when the process ends, because somebody keeps the
    error and with it what was half read, would be closed by HDF5 after Python, and end the process by a segmentation fault.
    """
    import h5netcdf
    import h5py
    import xarray as xr
    from xarray.backends import H5NetCDFStore

    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fapl_core(backing_store=False)
    try:
        access.set_file_image(content)
        image = h5py.h5f.open(b"memory", h5py.h5f.ACC_RDONLY, fapl=access)
        with h5py.File(image) as file, h5netcdf.File(file, "r", decode_vlen_strings=True) as opened:
            return xr.load_dataset(H5NetCDFStore(opened), mask_and_scale=False, decode_times=False)
    except Exception as error:
        if isinstance(error, ImportError) or (checked and isinstance(error, MemoryError)):
            raise
        detail = str(error) or type(error).__name__
        raise FileError(source, f"cannot be read as a NetCDF file ({detail})") from error
