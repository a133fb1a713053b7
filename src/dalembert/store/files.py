"""What simulate and solve return as NetCDF files, and back."""

from __future__ import annotations

import os
from pathlib import Path as File
from typing import TYPE_CHECKING

from dalembert.discretize import DiscreteSystem
from dalembert.numbers import described
from dalembert.path import Path
from dalembert.solution import Solution
from dalembert.step.provenance import provenance
from dalembert.store.paths import FORMAT, path_from_xarray, path_to_xarray
from dalembert.store.solutions import CONTENT, solution_from_xarray, solution_to_xarray
from dalembert.systems import System, VariationalProblem

if TYPE_CHECKING:
    import xarray

SUFFIXES = (".nc", ".nc4", ".h5")


def to_xarray(path: Path | Solution) -> xarray.Dataset:
    """A path or a solution as a Dataset: q(node, coordinate) and all else on its own level, with labels and units.

    `data.q.sel(coordinate="x")` is a labelled series over its times. Statistics, step, action and outcome are scalar
    variables; outcome, levels and the whole Provenance are attributes. A solution has the jets and the multipliers over
    `window`, its momenta at the ends over `momentum`, and no names of coordinates.
    Raises TypeError for anything else, ValueError for a traced path and for a batch of solutions.
    """
    return solution_to_xarray(path) if isinstance(path, Solution) else path_to_xarray(path)


def from_xarray(data: xarray.Dataset) -> Path | Solution:
    """What `to_xarray` was given, bit for bit. ValueError where the data set was not made by dalembert."""
    if not hasattr(data, "attrs"):
        raise TypeError(f"data: found {described(data)}; give the Dataset that to_xarray returned")
    version = data.attrs.get("dalembert_format")
    if version is None:
        raise ValueError("data: no dalembert path: the attribute dalembert_format is missing")
    if int(version) > FORMAT:
        raise ValueError(f"data: written in format {int(version)}, this dalembert reads up to {FORMAT}; update it")
    return solution_from_xarray(data) if data.attrs.get("content") == CONTENT else path_from_xarray(data)


def save(path: Path | Solution, file: str | os.PathLike) -> None:
    """Write a path or a solution to a NetCDF-4 file (.nc), which every NetCDF or HDF5 library can read.

    A file of that name is replaced once the new one is complete. Raises TypeError and ValueError as `to_xarray`,
    ValueError for another ending, FileNotFoundError where the folder does not exist.
    """
    target = _named(file)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"file: the folder {target.parent} does not exist; make it first")
    data = to_xarray(path)
    plain = {str(name): {"_FillValue": None} for name, x in data.variables.items() if x.dtype.kind == "f"}
    partial = target.with_name(target.name + ".part")
    try:
        data.to_netcdf(partial, engine="h5netcdf", encoding=plain)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def load(file: str | os.PathLike) -> Path | Solution:
    """The path or solution stored by `save`, equal bit for bit, with outcome, statistics and provenance.

    Raises FileNotFoundError, and ValueError for a file that is no NetCDF file or was not written by dalembert.
    """
    import xarray as xr

    source = _as_file(file)
    if not source.is_file():
        raise FileNotFoundError(f"file: {source} does not exist")
    try:
        data = xr.load_dataset(source, engine="h5netcdf", mask_and_scale=False, decode_times=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"file: {source} cannot be read as a NetCDF file ({error})") from error
    try:
        return from_xarray(data)
    except (ValueError, KeyError) as error:
        detail = error.args[0] if isinstance(error, ValueError) else f"{error} is missing"
        raise ValueError(f"file: {source} was not written by dalembert.save ({detail})") from error


def matches(path: Path | str | os.PathLike, system: System | DiscreteSystem) -> bool:
    """Whether the source hash stored with a path (or in a file) is that of this system's functions.

    Compares the source text of Lagrangian, constraints and forces; parameters and captured values are not part of it.
    ValueError where the path carries no provenance, because it was computed under jit, vmap or grad, or is a solution.
    """
    if not isinstance(system, System | DiscreteSystem | VariationalProblem):
        raise TypeError(f"system: found {described(system)}; give a System, a DiscreteSystem or a VariationalProblem")
    run = path if isinstance(path, Path | Solution) else load(path)
    if isinstance(run, Solution) or run.provenance is None:
        why = "is a solution" if isinstance(run, Solution) else "was computed under jit, vmap or grad"
        raise ValueError(f"path: carries no provenance (it {why}), so nothing to compare")
    return run.provenance.source_hash == provenance(system, None, "", None).source_hash


def _as_file(file: str | os.PathLike) -> File:
    if not isinstance(file, str | os.PathLike):
        raise TypeError(f"file: found {described(file)}; give the name of a file")
    return File(file)


def _named(file: str | os.PathLike) -> File:
    target = _as_file(file)
    if target.suffix not in SUFFIXES:
        raise ValueError(f"file: found '{target}'; a path is stored as NetCDF, give a name that ends in {SUFFIXES[0]}")
    return target
