"""What a stored data set must look like. Every fault is a ValueError: the variable, what was found, what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.outcome import Outcome

if TYPE_CHECKING:
    import xarray

FORMAT = 1
REAL, WHOLE = "real numbers of 64 bits", "whole numbers"


def check_format(data: xarray.Dataset) -> None:
    """Whether it is a data set of ours, of a format that this version reads."""
    version = data.attrs.get("dalembert_format")
    if version is None:
        raise ValueError("data: is not a dalembert path: the attribute dalembert_format is missing")
    if not isinstance(version, int | np.integer) or version < 1:
        raise ValueError(f"data: the attribute dalembert_format is {version!r}; formats are numbered from 1")
    if version > FORMAT:
        raise ValueError(f"data: written in format {int(version)}, this dalembert reads up to {FORMAT}; update it")


def attribute(data: xarray.Dataset, name: str) -> str:
    """A text that the data set carries."""
    found = data.attrs.get(name)
    if not isinstance(found, str):
        raise ValueError(f"data: the attribute {name} is {'missing' if found is None else found}; text is right")
    return found


def variable(data: xarray.Dataset, name: str) -> Any:
    """A variable or a coordinate; ValueError where there is none of that name."""
    if name not in data.variables:
        raise ValueError(f"data: {name} is missing")
    return data.variables[name]


def check_variables(data: xarray.Dataset, layout: Mapping[str, tuple[tuple[str, ...], str]]) -> None:
    """Whether every variable of the layout is there, with these dimensions and of this kind, REAL or WHOLE."""
    for name, (dimensions, kind) in layout.items():
        found = variable(data, name)
        if found.dims != dimensions:
            raise ValueError(
                f"data: {name} has the dimensions {_dimension_text(found.dims)}; {_dimension_text(dimensions)} is right"
            )
        if not (found.dtype == np.float64 if kind is REAL else found.dtype.kind in "iu"):
            raise ValueError(f"data: {name} holds {found.dtype}; {kind} are right")


def check_outcomes(data: xarray.Dataset) -> None:
    """Whether each code is one of the outcomes that there are."""
    unknown = sorted(set(np.ravel(data["code"].values).tolist()) - {int(outcome) for outcome in Outcome})
    if unknown:
        raise ValueError(f"data: code holds {unknown[0]}; outcomes are numbered from 0 to {int(max(Outcome))}")


def _dimension_text(dimensions: tuple) -> str:
    return f"({', '.join(map(str, dimensions))})"
