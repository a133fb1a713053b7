"""A traced function as records that another process can read: a jaxpr with what `program` reads of it, and nothing else."""

from __future__ import annotations

import io
import pickle
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive

from dalembert.tracing.evaluation.program import CONTROL, INNER, needed_equations, scan_sizes
from dalembert.tracing.evaluation.rules import RULES


def as_record(things: Any) -> bytes | None:
    """Pickled; None where something in them belongs to this process."""
    file = io.BytesIO()
    try:
        _RecordPickler(file).dump(things)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return file.getvalue()


class _RecordPickler(pickle.Pickler):
    def reducer_override(self, x: Any) -> Any:
        if isinstance(x, jax.Array):
            return np.asarray(x).__reduce__()
        if isinstance(x, ShapedArray):
            return jax.ShapeDtypeStruct, (x.shape, x.dtype)
        if isinstance(x, type) and issubclass(x, eqx.Module):  # its tree holds an object of this process for what is missing
            raise pickle.PicklingError(f"{x.__name__} is a tree of Equinox")
        record = _record(x)
        return NotImplemented if record is None else (SimpleNamespace, (), record)


def _record(x: Any) -> dict[str, Any] | None:
    if isinstance(x, ClosedJaxpr):
        return {"jaxpr": x.jaxpr, "consts": list(x.consts)}
    if isinstance(x, Jaxpr):
        source = SimpleNamespace(func_src_info=str(x.debug_info.func_src_info))
        variables = {"constvars": x.constvars, "invars": x.invars, "outvars": x.outvars}
        return {**variables, "eqns": needed_equations(x), "effects": bool(x.effects), "debug_info": source}
    if isinstance(x, JaxprEqn):
        return {"primitive": x.primitive, "invars": x.invars, "outvars": x.outvars, "params": _parameters(x)}
    if isinstance(x, Primitive):
        return {"name": x.name, "multiple_results": x.multiple_results}
    return None


def _parameters(eqn: JaxprEqn) -> dict[str, Any]:
    """Those that a rule reads."""
    name, own = eqn.primitive.name, eqn.params
    if name in INNER:
        return {INNER[name]: own[INNER[name]]}
    if name == "scan":
        fixed, carried = scan_sizes(own)
        return {**{key: own[key] for key in ("jaxpr", "length", "reverse")}, "num_consts": fixed, "num_carry": carried}
    if name == "custom_linear_solve":
        return {"const_lengths": own["const_lengths"], "jaxprs": SimpleNamespace(solve=own["jaxprs"].solve)}
    if name not in CONTROL and (name not in RULES or RULES[name](eqn) is None):
        raise pickle.PicklingError(f"{name} is a program of XLA")
    return own
