"""The value of a reducer: its leaves as variables, and the tree that they hang on as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dalembert.path import tree_of_values
from dalembert.store.checks import attribute

if TYPE_CHECKING:
    import xarray


def reduced_to_variables(value: Any) -> tuple[str, dict[str, tuple]]:
    """The tree as JSON, with numbers for its leaves, and the leaves as variables reduced_0, reduced_1, …"""
    tree, leaves = flatten(value)
    variables = {}
    for i, leaf in enumerate(leaves):
        axes = tuple(f"reduced_{i}_{j}" for j in range(leaf.ndim))
        variables[f"reduced_{i}"] = (axes, leaf, {"long_name": "value of the reducer over all steps"})
    return json.dumps(tree), variables


def reduced_from_xarray(data: xarray.Dataset) -> Any:
    """The value again; ValueError where tree and variables do not fit."""
    return rebuilt(attribute(data, "reduced"), {str(name): x for name, x in data.variables.items()})


def rebuilt(text: str, leaves: Mapping[str, Any]) -> Any:
    """The value from its tree as JSON and its leaves, reduced_0, reduced_1, …; ValueError where they do not fit."""
    try:
        return tree_of_values(json.loads(text), lambda i: jnp.asarray(np.asarray(leaves[f"reduced_{i}"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"data: the attribute reduced, {text!r:.80}, does not describe the variables reduced_…") from error


def flatten(value: Any) -> tuple[Any, list[np.ndarray]]:
    """The reducer's value as a JSON tree of leaf numbers, and its leaves; other containers than dict, list and tuple
    become dicts of their leaves."""
    leaves: list[np.ndarray] = []

    def visit(node: Any) -> Any:
        if node is None:
            return {"none": None}
        if type(node) is dict and all(isinstance(key, str) for key in node):
            return {"dict": {key: visit(child) for key, child in node.items()}}
        if type(node) in (list, tuple):
            return {type(node).__name__: [visit(child) for child in node]}
        below = jax.tree_util.tree_leaves_with_path(node)
        if len(below) != 1 or below[0][0]:
            return {"dict": {jax.tree_util.keystr(key): visit(leaf) for key, leaf in below}}
        leaves.append(_numbers(node))
        return {"leaf": len(leaves) - 1}

    return visit(value), leaves


def _numbers(leaf: Any) -> np.ndarray:
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"path: reduced holds values of type {array.dtype}; real numbers can be stored")
    return array
