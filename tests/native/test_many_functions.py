"""What the two back-ends make of 250 functions: the machine code agrees with XLA, or there is none, for a reason that names
what was written; and NumPy, which evaluates what is called a few times, agrees with XLA."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.native import Graph, Tracer, Unsupported, compile_function
from dalembert.systems.shapes import index_outside
from dalembert.tracing.evaluation.program import program

from . import many_functions
from .many_functions import CONTINUOUS, JUMPING

SHAPE = jax.ShapeDtypeStruct((4,), jnp.float64)
POINTS = {
    "generic": [0.3, -0.8, 1.4, 0.55], "another": [-1.3, 0.7, 0.1, -0.45], "zeros": [0.0, -0.0, 1.0, -1.0],
    "equal": [0.5, 0.5, -0.5, 0.5], "large": [40.0, -70.0, 3e3, 1e2], "nan": [0.3, np.nan, 1.4, 0.2],
    "first nan": [np.nan, 0.2, np.nan, 1.0], "infinite": [np.inf, -np.inf, 0.2, 1.0],
}  # fmt: skip
FALLING_BACK = frozenset([
    "i0", "ldexp", "erfinv", "gammaln", "digamma", "gammainc", "betainc", "i0e", "i1e", "convolve", "eigh", "qr",
    "svd", "pinv", "expm", "reduce_window", "sort", "median", "quantile", "top_k", "interp", "fft", "signbit",
    "argsort", "frexp", "copysign", "nextafter", "digitize", "searchsorted", "searchsorted all", "histogram",
    "unique", "two indices", "dynamic_update_slice", "scatter apply", "while of the state", "uint64", "bitwise",
    "shift", "population_count", "pure_callback", "float32", "float16", "complex", "normal", "random by state",
    "bitcast",
])  # fmt: skip
# docs/native.md: 0·x is 0 also where x is infinite or NaN; and LAPACK leaves what it found of a matrix with NaN.
ZERO_TIMES_INFINITY = {("zeros", "vander"), ("nan", "vander"), ("first nan", "vander"), ("infinite", "polyval")}
PARTLY = {("nan", "cholesky"), ("first nan", "cholesky"), ("infinite", "cholesky")}


if hasattr(jax.lax, "polynomial"):  # newer versions of JAX have an operation of its own for it, which no rule translates
    FALLING_BACK |= {"nonzero"}


def flat(value):
    return jnp.concatenate([jnp.ravel(x).astype(float) for x in jax.tree.leaves(value)])


def with_slope(function):
    """The values, and of a function of real numbers the derivative in one direction, too."""
    way = jnp.array([1.0, -0.7, 0.4, 0.3])
    return lambda x: jnp.concatenate(jax.jvp(lambda y: flat(function(y)), (x,), (way,)))


FUNCTIONS = {
    **{name: with_slope(f) for name, f in CONTINUOUS.items()},
    **{name: lambda x, f=f: flat(f(x)) for name, f in JUMPING.items()},
}


def refusal(function) -> Unsupported | None:
    graph = Graph()
    try:
        Tracer(graph).trace(function, graph.vector("x0", 4), shapes=[SHAPE])
    except Unsupported as reason:
        return reason
    return None


def quietly(function, x):
    with np.errstate(all="ignore"):
        return function(x)


class Both(NamedTuple):
    """refused: functions without machine code. machine, xla, numpy: point → a list of the values of all others, `names`."""

    refused: dict[str, Unsupported]
    names: list[str]
    machine: dict[str, list[np.ndarray]]
    xla: dict[str, list[np.ndarray]]
    numpy: dict[str, list[np.ndarray]]


@pytest.fixture(scope="module")
def both() -> Both:
    """One program for each, since a program for each function would take minutes."""
    found = {name: refusal(f) for name, f in FUNCTIONS.items()}
    names = [name for name, reason in found.items() if reason is None]
    together = lambda x: [FUNCTIONS[name](x) for name in names]  # noqa: E731
    machine = compile_function(together, np.zeros(4))
    quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # a third less to compile
    traced = jax.jit(together).trace(SHAPE)
    xla, evaluated = traced.lower().compile(compiler_options=quick), program(traced.jaxpr)
    points = {name: np.array(x) for name, x in POINTS.items()}
    return Both(
        {name: reason for name, reason in found.items() if reason is not None}, names,
        {name: machine(x) for name, x in points.items()},
        {name: [np.asarray(y) for y in xla(jnp.asarray(x))] for name, x in points.items()},
        {name: quietly(evaluated, x) for name, x in points.items()},
    )  # fmt: skip


def test_what_is_translated_stays_translated(both):
    assert set(both.refused) <= FALLING_BACK
    assert len(both.names) >= 210
    assert len(FUNCTIONS) >= 140


@pytest.mark.parametrize("point", POINTS)
def test_machine_code_and_xla_agree(both, point):
    apart = set()
    for name, a, b in zip(both.names, both.machine[point], both.xla[point], strict=True):
        same = np.isclose(a, b, rtol=1e-11, atol=1e-11, equal_nan=True)
        if (point, name) in PARTLY:
            same |= np.isnan(a) & np.isnan(b).any()
        if not same.all():
            apart.add((point, name))
    assert apart <= ZERO_TIMES_INFINITY
    assert sum(np.isfinite(b).any() for b in both.xla[point]) > 150  # not NaN against NaN everywhere


@pytest.mark.parametrize("point", POINTS)
def test_numpy_and_xla_agree(both, point):
    for name, a, b in zip(both.names, both.numpy[point], both.xla[point], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11, err_msg=name)


def test_a_refusal_names_what_was_written(both):
    """The words of the file; a function of JAX's that is given as it is has been called by this file."""
    source = " ".join(inspect.getsource(many_functions).split())
    there = 0
    for name, reason in both.refused.items():
        words, file = reason.place.words.removesuffix("…"), Path(reason.place.file)
        if file == Path(__file__):
            assert words in ("function(y)", "f(x)")
            assert {**CONTINUOUS, **JUMPING}[name].__module__.startswith("jax"), name
        else:
            assert words in source
            assert f"`{reason.place.words}` (many_functions.py, line " in str(reason)
            there += 1
    assert there > 35
    assert both.refused["interp"].place.words == "jnp.interp(x, jnp.arange(5.0), T)"


def _reads_outside(function) -> bool:
    """An index outside of an array, which a reducer refuses by name."""
    program = jax.make_jaxpr(function)(jnp.zeros(4))
    return index_outside(program.jaxpr, program.consts) is not None


def test_lanes_agree_with_one_run(both):
    """The same instructions on vectors: a free particle at rest, whose reduced values are those of the last state."""
    points = [name for name, x in POINTS.items() if np.isfinite(x).all()]
    names = [name for name in both.names if name in JUMPING and not _reads_outside(FUNCTIONS[name])]
    assert len(names) > 20
    start = {name: np.zeros(x.size) for name, x in zip(both.names, both.xla["generic"], strict=True) if name in names}
    last = lambda r, t, q, v, m: {name: FUNCTIONS[name](q) for name in names}  # noqa: E731
    q0 = np.array([POINTS[name] for name in points] * 4)
    many = da.ensemble(
        da.System(lambda q, v: 0.5 * v @ v), q0, np.zeros(4), h=0.1, steps=1, save=da.Save(reduce=(last, start))
    )
    for k, point in enumerate(points * 4):
        for name, alone in zip(both.names, both.machine[point], strict=True):
            if name in names:
                np.testing.assert_allclose(many.reduced[name][k], alone, rtol=1e-12, err_msg=f"{name} at {point}")
