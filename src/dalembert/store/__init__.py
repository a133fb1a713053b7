"""Paths and solutions as labelled data sets and as NetCDF files."""

from dalembert.store.atomic import FileError
from dalembert.store.files import from_xarray, load, matches, save, to_xarray

__all__ = ["FileError", "from_xarray", "load", "matches", "save", "to_xarray"]
