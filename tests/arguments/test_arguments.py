"""Every argument of every public function, given what it cannot be: an error whose message begins with the argument's name.

CALLS has one call of each function that would succeed, KINDS what an argument of some name is, and WRONG what is no such
thing. An argument that has no kind fails.
"""

import collections
import datetime
import functools
import inspect
import re
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from sympy.physics.mechanics import dynamicsymbols

import dalembert as da
from dalembert.options import GROUPS, PLACES, USED

NAMED = (ValueError, TypeError, OSError, RuntimeError)


def free(q, v):
    return 0.5 * (v @ v)


def turn(q):
    return jnp.array([-q[1], q[0]])


FREE = da.System(free)
NAMES = da.System(lambda q, v, p: 0.5 * p["m"] * (v @ v), parameters={"m": 1.0, "on": True}, coordinates=("x", "y"))
ROLLING = da.System(free, da.Nonholonomic(lambda q, v: v[1] - q[0] * v[0]))
DISCRETE = da.DiscreteSystem(lambda q0, q1: 0.5 * (q1 - q0) @ (q1 - q0))
STRAIGHT = da.VariationalProblem(free)
BENT = da.VariationalProblem(lambda q, v, a: 0.5 * (a @ a), derivatives=2)
VAKONOMIC = da.VariationalProblem(free, da.Nonholonomic(lambda q, v: v[1] - q[0] * v[0]))
PUSHED = da.DiscreteSystem(lambda q0, q1, p: 0.5 * p["m"] * (q1 - q0) @ (q1 - q0), parameters={"m": 1.0})
WEIGHED = da.VariationalProblem(
    lambda q, v, p: 0.5 * p["m"] * v @ v, da.Nonholonomic(lambda q, v, p: v[1] - q[0] * v[0]), parameters={"m": 1.0}
)
MOVE = da.OptimalControl(FREE, cost=lambda q, v, u: u @ u, actuated=(0, 1))
SERVO = da.System(free, da.SecondOrder(lambda q, v, a: a + q))
SADDLE = da.System(lambda q, v: 0.5 * (v @ v) - q[0] * q[1])
REGION = {"system": FREE, "actuated": 0, "at": [0.0, 0.0], "reach": [1.0, 1.0]}
SPHERE = da.manifolds.sphere()
NODES = da.Scheme("nodes")


FIELDS = {field: group for group, field in PLACES.values()}


def in_groups(given, own=()):
    """The arguments with fields of groups in these, but its own; a group that is given itself is what the call gets."""
    groups, fields = {}, FIELDS.keys() - set(own)
    for field in fields & given.keys():
        groups.setdefault(FIELDS[field], {})[field] = given[field]
    others = {name: x for name, x in given.items() if name not in fields}
    return {name: GROUPS[name](**fields) for name, fields in groups.items() if name not in others} | others


@functools.cache
def by_field(function, call=None):
    """A function whose arguments are also the fields of its groups, each of which is checked like them."""
    own = inspect.signature(function).parameters
    found = functools.wraps(function)(lambda **given: function(**in_groups(given, own)))
    fields = [field for field in FIELDS if field in USED[call or function.__name__]]
    names = dict.fromkeys([*own, *fields])
    found.whole = function
    found.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names])
    return found


@functools.cache
def path():
    return da.simulate(FREE, [0.0, 0.0], [1.0, 1.0], h=0.1, steps=4, scheme=NODES, solver=da.Solver(backend="jax"))


@functools.cache
def stored():
    name = f"{tempfile.mkdtemp()}/run.zarr"
    da.simulate(FREE, [0.0, 0.0], [1.0, 1.0], h=0.1, steps=4, save=da.Save(store=name))
    return name


@functools.cache
def batch():
    return jax.tree.map(lambda x: jnp.stack([x, x]), path())


@functools.cache
def solution():
    return da.solve(STRAIGHT, initial=([0.0, 0.0],), final=([1.0, 1.0],), T=1.0, steps=5, certify=False)


@functools.cache
def study():
    return da.sweep(NAMES, {"m": [1.0, 2.0]}, {"q0": PLACE, "v0": [1.0, 1.0], "h": 0.1, "steps": 4})


@functools.cache
def plan():
    return da.solve(MOVE, initial=(PLACE, PLACE), final=([1.0, 1.0], PLACE), T=1.0, steps=5, certify=False)


@functools.cache
def chart():
    return da.systems.connection(ROLLING, PLACE, [1.0, 0.0])


@functools.cache
def rolled():
    return da.chaplygin(ROLLING, PLACE, [1.0, 0.0], group=(1,))


@functools.cache
def rolled_path():
    return da.simulate(rolled().system, rolled().x0, rolled().w0, h=0.1, steps=4, solver=da.Solver(backend="jax"))


@functools.cache
def divided():
    return da.symmetry.quotient(FREE, PLACE, [1.0, 0.5], generators=[(np.zeros((2, 2)), [0.0, 1.0])])


@functools.cache
def perturbed():
    return da.measure.perturbation(ROLLING, PLACE, [1.0, 0.0])


@functools.cache
def expansion():
    return da.measure.modified(FREE, PLACE, [1.0, 1.0], h=0.1)


@functools.cache
def equal_run():
    return da.simulate(FREE, PLACE, [1.0, 1.0], h=0.1, steps=4, solver=da.Solver(backend="jax"))


def generator():
    yield 1.0


ITSELF = [1.0]
ITSELF.append(ITSELF)
MASKED = np.ma.array([1.0, 1.0], mask=[False, True])
DATE = datetime.datetime(2020, 1, 1)
ANYTHING = {"text": "1.0", "dict": {}, "function": free, "complex": 1j, "date": DATE, "object": object()}
NO_DATA = {
    **ANYTHING, "None": None, "bool": True, "generator": generator(), "complex array": np.array([1j, 0.0]),
    "a bool in a list": [1.0, True], "bool array": np.array([True, False]), "texts": ["1.0", "2.0"],
    "None in a list": [1.0, None], "dates": np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
    "masked": MASKED, "masked in a list": [1.0, np.ma.masked], "objects": np.array([1.0, 2.0], dtype=object),
    "huge integers": [10**400, 1], "huge long floats": np.array([np.longdouble("1e400"), 0.0]),
    "bools in a deque": collections.deque([1.0, True]),
    "a list in itself": ITSELF, "ragged": [[1.0], [1.0, 2.0]], "nan": [1.0, np.nan], "inf": np.array([np.inf, 1.0]),
    "nan of JAX": jnp.array([1.0, jnp.nan]), "empty": [], "five axes": np.zeros((1, 1, 1, 1, 1)),
}  # fmt: skip
NO_NUMBER = {
    **ANYTHING, "None": None, "bool": True, "nan": np.nan, "inf": np.inf, "array": [0.1], "masked": np.ma.masked,
    "huge": 10**400, "time": np.timedelta64(1, "s"), "nan of JAX": jnp.array(jnp.nan),
}  # fmt: skip
NO_COUNT = {
    **ANYTHING, "None": None, "bool": True, "float": 2.0, "nan": np.nan, "array": [3], "negative": -1, "huge": 2**63,
}  # fmt: skip
NO_CLASS = {**ANYTHING, "None": None, "number": 3, "path": path, "system": FREE, "problem": BENT, "discrete": DISCRETE}
POINT, OTHER = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]  # of the sphere
PLACE = [0.0, 0.0]
WRONG = {
    "vector": NO_DATA | {"number": 1.0, "matrix": np.zeros((2, 2)), "longer": [1.0, 1.0, 1.0]},
    "several": NO_DATA | {"number": 1.0, "longer": [1.0, 1.0, 1.0]},
    "rows": NO_DATA | {"number": 1.0, "vector": [1.0, 2.0], "a nan inside": [[0.0, 0.0], [1.0, np.nan]]},
    "times": NO_DATA | {"number": 1.0, "matrix": np.zeros((2, 2)), "falling": [1.0, 0.0], "standing": [0.0, 0.0]},
    "steps": NO_DATA | {"number": 1.0, "growing": [0.1, 0.2], "one": [0.1], "negative": [0.1, -0.1]},
    "number": NO_NUMBER,
    "positive": NO_NUMBER | {"zero": 0.0, "negative": -0.1},
    "step": NO_NUMBER | {"zero": 0.0},
    "fraction": NO_NUMBER | {"zero": 0.0, "negative": -0.1, "one": 1.0},
    "part": NO_NUMBER | {"negative": -0.1, "two": 2.0},
    "count": NO_COUNT | {"zero": 0},
    "way": {label: x for label, x in NO_COUNT.items() if label != "negative"} | {"two": 2},
    "index": NO_COUNT | {"beyond": 7, "negative": -7},
    "small": NO_COUNT | {"zero": 0, "large": 9},
    "symmetries": {
        "number": 3.0, "list": [turn], "a number inside": {"x": 3.0}, "text": "x",
        "a longer row": {"x": lambda q: jnp.zeros(3)},
    },
    "fields": {
        "number": 3.0, "list": [turn], "a number inside": {"x": 3.0}, "text": "x", "three": {"x": (1, 2, 3)},
        "a longer row": {"x": lambda q: jnp.zeros(3)}, "a shift alone": {"x": [1.0, 0.0]},
        "a nan": {"x": (np.eye(2), [np.nan, 0.0])},
    },
    "flows": {
        **ANYTHING, "None": None, "number": 3.0, "empty": [], "function": turn, "texts": ["x"], "three": [(1, 2, 3)],
        "a pair alone": (np.eye(2), PLACE), "a longer shift": [(np.zeros((2, 2)), [0.0, 1.0, 0.0])],
        "growth": [(np.eye(2), PLACE)],
        "all": [(np.zeros((2, 2)), [0.0, 1.0]), (np.zeros((2, 2)), [1.0, 0.0])], "a function inside": [turn],
        "a nan": [(np.zeros((2, 2)), [np.nan, 0.0])], "nothing": [(np.zeros((2, 2)), PLACE)],
    },
    "sizes": NO_DATA | {"number": 1.0, "zero": [1.0, 0.0], "negative": [1.0, -1.0], "longer": [1.0, 1.0, 1.0]},
    "single": NO_DATA | {"number": 1.0, "longer": [1.0, 1.0]},
    "group": {**ANYTHING, "None": None, "float": 1.0, "beyond": (7,), "negative": (-1,), "twice": (0, 0), "all": (0, 1),
              "bool": True, "a bool": (True,), "a name": ("z",), "none": ()},
    "frame": {"number": 3.0, "text": "x", "dict": {}, "one": (free,), "wrong shape": lambda q: jnp.zeros((2, 2)),
              "no function": (3.0, None)},
    "seed": NO_COUNT,
    "flag": ANYTHING | {"None": None, "one": 1, "no": "no"},
    "function": {"None": None, "number": 3.0, "text": "f", "dict": {}, "list": [free]},
    "word": ANYTHING | {"None": None, "number": 3, "list": ["a"], "array": np.zeros(2)},
    "names": {"text": "xy", "number": 3, "numbers": (1, 2), "twice": ("x", "x"), "function": free},
    "which": {"number": 3, "function": free, "beyond": (7,), "negative": (-7,), "name": ("z",), "float": (0.5,),
              "None in it": (None,)},
    "end": ANYTHING | {
        "number": 1.0, "numbers": [0.0, 0.0, 0.0], "one number": (0.0,), "array": np.zeros((1, 2)), "none": (),
        "nan": ([0.0, np.nan],), "texts": (["a", "b"],), "four": (PLACE,) * 4, "different": (PLACE, [0.0]),
        "matrix": (np.zeros((2, 2)),), "bool": ([True, False],), "complex": ([1j, 0.0],), "masked": (MASKED,),
        "nodes": da.Nodes(np.zeros((9, 2)))},
    "ends": ANYTHING | {
        "number": 1.0, "numbers": [0.0, 0.0], "array": np.zeros((2, 2)), "nan": ([[0.0, np.nan]] * 2,),
        "texts": (["a", "b"],), "bool": ([[True, False]] * 2,), "masked": (MASKED,), "vector": (PLACE,)},
    "through": {label: x for label, x in ANYTHING.items() if label != "dict"} | {
        "list": [0.5], "number": 1.0, "text as time": {"0.5": PLACE}, "nan as time": {np.nan: PLACE},
        "bool as time": {True: PLACE}, "no node": {0.123: PLACE}, "outside": {7.0: PLACE}, "none": {0.4: None},
        "nan": {0.4: [0.0, np.nan]}, "number as point": {0.4: 1.0}, "texts": {0.4: ["a", "b"]},
        "bool": {0.4: [True, False]}},
    "bounds": ANYTHING | {
        "number": 1.0, "pair": (0.0, 1.0), "array": np.zeros((2, 2)), "a control": {"u": (-1.0, 1.0)},
        "outside of v": {"v": {7: (0.0, 1.0)}}, "one": {"q": 1.0}, "three": {"q": (0.0, 1.0, 2.0)},
        "crossed": {"q": (1.0, -1.0)}, "nan": {"q": (np.nan, 1.0)}, "texts": {"q": ("a", "b")},
        "complex": {"q": (1j, None)}, "masked": {"q": (MASKED, None)}, "beyond": {"q": {7: (0.0, 1.0)}},
        "no name": {"q": {"z": (0.0, 1.0)}}, "wrong length": {"q": ([0.0] * 3, None)}, "outside": {"q": (2.0, 3.0)}},
    "points": ANYTHING | {
        "None": None, "list": [0.5], "one": {0.0: POINT}, "text as time": {"0": POINT, 1.0: OTHER},
        "nan": {0.0: [1.0, 0.0, np.nan], 1.0: OTHER}, "off": {0.0: [2.0, 0.0, 0.0], 1.0: OTHER},
        "ragged": {0.0: [1.0, 0.0], 1.0: OTHER}, "numbers": {0.0: 1.0, 1.0: 2.0},
        "opposite": {0.0: POINT, 1.0: [-1.0, 0.0, 0.0]}},
    "pair": ANYTHING | {"None": None, "number": 1.0, "one": (PLACE,), "three": (PLACE,) * 3, "numbers": (0.0, 1.0),
                        "nan": ([0.0, np.nan], PLACE), "different": (PLACE, [0.0])},
    "system": {label: x for label, x in NO_CLASS.items() if label != "system"} | {"class": da.System},
    "any system": ANYTHING | {"None": None, "number": 3, "path": path, "class": da.System},
    "problem": {label: x for label, x in NO_CLASS.items() if label != "problem"} | {"class": da.VariationalProblem},
    "terms of a scheme": NO_CLASS | {"class": da.measure.Modified},
    "manifold": NO_CLASS | {"class": da.manifolds.Embedded},
    "path": ANYTHING | {"None": None, "number": 3, "array": np.zeros((3, 2)), "system": FREE, "list": [1]},
    "scheme": ANYTHING | {"number": 3, "map": da.Beta(), "class": da.Scheme, "name": "nodes", "list": [da.Scheme()]},
    "windows": ANYTHING | {"number": 3, "scheme": da.Scheme(), "class": da.Hermite, "name": "hermite",
                           "base": da.WindowMap},
    "map": ANYTHING | {"number": 3, "scheme": da.Scheme(), "class": da.Beta},
    "triple": ANYTHING | {"number": 3, "pair": da.Beta(), "class": da.Central},
    "constraints": ANYTHING | {"None": None, "number": 3, "numbers": [3], "class": da.Holonomic, "system": FREE},
    "tree": {"text": "m", "function": free, "None": {"m": None}, "object": {"m": object()}, "complex": {"m": 1j},
             "nan": {"m": np.nan}, "masked": {"m": MASKED}, "date": {"m": DATE}, "text inside": {"m": "1.0"},
             "deep": {"m": {"k": [1.0, "a"]}}, "in itself": {"m": ITSELF},
             "huge": {"m": 10**400}, "mixed": {"m": [1.0, True]}},
    "branch": ANYTHING | {"number": 3, "name": "avoid", "class": da.Avoid, "base": da.Branch(), "plain": da.Avoid(),
                          "beyond": da.Nearest(coordinates=(7,)), "no row": da.Avoid(lambda q, v: q[0])},
    "feedback": ANYTHING | {"number": 3, "class": da.SampledFeedback},
    "reduce": ANYTHING | {"number": 3, "one": (free,), "three": (free, 0.0, 0.0), "turned": (0.0, free),
                          **{f"{label} in it": (lambda value, *_: value, x) for label, x in
                             (("text", "a"), ("None", None), ("complex", 1j), ("masked", MASKED))}},
    "options": ANYTHING | {"number": 3, "word": "reference", "class": da.Start, "another": da.Solver()},
    "solver": ANYTHING | {"number": 3, "name": "Dopri8"},
    "file": {"None": None, "number": 3, "function": free, "dict": {}, "nowhere": "no/such/folder/run.nc"},
    "store": {"number": 3, "function": free, "dict": {}, "nowhere": "no/such/folder/run.zarr", "a file": "run.nc"},
    "progress": {"None": None, "number": 3, "text": "yes", "list": [True]},
    "over_runs": ANYTHING | {"number": 3, "one": (free,), "three": (free,) * 3, "numbers": (1, 2)},
    "client": ANYTHING | {"number": 3, "address": "tcp://127.0.0.1:8786"},
    "bins": NO_DATA | {"number": 1.0, "one": [1.0], "falling": [1.0, 0.0], "twice": [0.0, 0.0], "matrix": np.eye(2)},
    "data": ANYTHING | {"None": None, "number": 3, "array": np.zeros(3)},
    "guess of a time": ANYTHING | {"number": 1.0, "class": da.Free},
    "drawn": {"number": 3, "unknown": "z", "function": free, "array": np.ones(2), "list": ["x"]},
    "title": {"number": 3, "function": free, "dict": {}},
    "axes": ANYTHING | {"number": 3, "list": [None]},
    "keywords": {"unknown": 3},
    "expression": {"None": None, "text": "a b (", "list": [1], "function": free, "dict": {}, "unknown": sympy.Symbol("k")},
    "expressions": {"number": 3, "text": "x", "dict": {}, "numbers": [1.0, 2.0, 3.0], "function": free, "texts": ["a b ("]},
    "functions of time": {"None": None, "number": 3, "text": "x", "texts": ["x"], "symbols": [sympy.Symbol("x")],
                          "none": []},
    "values": {"number": 3, "list": [1.0], "text": "m", "complex": {"m": 1j}, "nan": {"m": np.nan}},
    "swept": ANYTHING | {
        "None": None, "number": 3, "list": [1.0], "numbers as names": {1: [1.0]}, "unknown": {"M": [1.0]}, "none": {"m": []},
        "one": {"m": 1.0}, "nan": {"m": [1.0, np.nan]}, "texts": {"m": ["a"]}, "bools": {"m": [True, False]},
        "masked": {"m": MASKED}, "matrix": {"m": np.ones((2, 2))}, "step": {"h": [0.1]}, "complex": {"m": [1j]},
        "in itself": {"m": ITSELF}, "given as well": {"v0": np.ones((2, 2))}},
    "same": ANYTHING | {
        "number": 3, "list": [1.0], "numbers as names": {1: 0.1}, "unknown": {"speed": 0.1}, "scheme": da.Scheme()
    },
    "size": {"zero": 0, "text": "a", "half": 1.5, "other": 7},
}  # fmt: skip

KINDS = {
    "vector": "q0 v0 q1 q v w xi g_q g_v", "vector or None": "scales",
    "rows": "nodes jets x jet", "rows or None": "multipliers guess Q R Q_T", "times": "times",
    "number": "t0 t delta m on", "number or None": "hold",
    "positive": "h T time duration spread radius tube inertia", "part": "beta",
    "fraction": "tolerance reference_tolerance", "count": "steps most_steps max_iterations max_steps starts every phases",
    "count or None": "threads block", "seed": "seed delay", "small": "derivatives order",
    "small or None": "factor",
    "flag": "dark throw continued certify ambient forward redefined velocities time_dependent timed allow_rounding",
    "flag or None": "curve",
    "function": "g generator lagrangian phi V F constraint law function metric",
    "function or None": "draw stop domain step exact forces kinematic reactions virtual initial inequalities",
    "word": "starter seek method to model combine", "word or None": "backend form", "names": "coordinates",
    "which": "dependent",
    "pair": "first second", "end": "final", "through": "through", "points": "points", "bounds or None": "bounds",
    "system": "system", "terms of a scheme": "made",
    "problem": "problem", "manifold": "manifold", "path": "path solution", "scheme": "scheme",
    "map": "rho action distribution state",
    "triple": "variational", "constraints": "constraints", "tree": "parameters", "branch": "branch", "options": "start save",
    "feedback": "feedback controller", "reduce": "reduce", "solver": "solver", "file": "file", "data": "data",
    "store or None": "store", "progress": "progress", "over_runs or None": "over_runs", "client or None": "client",
    "bins or None": "bins",
    "title": "title", "axes": "ax", "keywords": "style",
    "index": "i",
}  # fmt: skip
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names.split()}
ELSEWHERE = None  # the argument belongs to another call of the same function

TURNING = dynamicsymbols("theta")
PLANE = da.System(lambda q, v: 0.5 * v @ v, coordinates=("x", "y"))
STATE = {"system": FREE, "q0": PLACE, "v0": [1.0, 1.0]}
PAIRS = {"system": DISCRETE, "nodes": [PLACE, [0.1, 0.1]]}
JETS = {"system": VAKONOMIC, "jets": [PLACE, [1.0, 0.0]], "multipliers": [[0.5]]}
SWEPT_PAIRS = {"system": PUSHED, "nodes": PAIRS["nodes"], "values": {"m": [1.0, 2.0]}}
SWEPT_JETS = {"system": WEIGHED, "jets": JETS["jets"], "multipliers": [[0.5]], "values": {"m": [1.0, 2.0]}}
BETWEEN_ENDS = {"system": STRAIGHT, "initial": (PLACE,), "final": ([1.0, 1.0],), "values": {"final.0": [0.5]}, "T": 1.0,
                "steps": 5}  # fmt: skip
BETWEEN = {"initial": "end", "final": "end", "through": "through", "T": "positive", "bounds": "bounds or None",
           "inequalities": "function or None", "guess": "rows or None", "scales": "vector or None", "seek": "word",
           "method": "word", "max_iterations": "count or None", "certify": "flag", "times": ELSEWHERE}  # fmt: skip
ROLLS = {"system": ROLLING, "q0": PLACE, "v0": [1.0, 0.0]}
AT = {"system": FREE, "q": PLACE, "v": [1.0, 1.0]}
RUN = {"h": 0.1, "steps": 4, "backend": "jax"}
ENDS = {"problem": STRAIGHT, "initial": (PLACE,), "final": ([1.0, 1.0],)}
MANY = {"problem": STRAIGHT, "initial": ([PLACE] * 2,), "final": ([PLACE] * 2,)}
GRID, TIMES = {"T": 1.0, "steps": 5}, {"times": np.linspace(0.0, 1.0, 6)}
SAME = {"q0": PLACE, "v0": [1.0, 1.0], "h": 0.1, "steps": 4}
READY = da.prepare(FREE, h=0.1)
XI, POINT_AND_SPEED = [0.0, 0.0, 1.0], {"q": PLACE, "v": [1.0, 0.0]}  # of the chart
EVERY = {"every": "count or None", "max_iterations": "count or None"}
NONE_OF_THEM = dict.fromkeys(("nodes", "jets", "multipliers"), ELSEWHERE) | EVERY | {"h": "step"}
SOLVED = {"initial": "end", "max_iterations": "count or None", "scheme": "windows", "times": ELSEWHERE}
FLOW = {"problem": VAKONOMIC, "multipliers": [[0.5]], "h": 0.1}
LANDS = {"problem": MOVE, "solution": plan, "final": ([1.0, 1.0], PLACE)}
CONTROL = {"problem": "manifold", "initial": "end"}  # any other class is wrong
M, F = da.measure, da.manifolds

OF_ALL = ("values", "combine", "reduce", "store", "over_runs", "block", "threads", "client", "progress")  # of a sweep


def sweep_with(**given):
    """`sweep` with what is the same for all named like its own arguments: each of them is checked, too."""
    own = {name: given.pop(name) for name in OF_ALL if name in given}
    return da.sweep(given.pop("system"), own.pop("values"), in_groups(given), **own)


SWEPT = {
    *inspect.signature(by_field(da.simulate, "a sweep of runs")).parameters,
    *inspect.signature(by_field(da.solve, "a sweep of solutions")).parameters,
} - {"problem", "throw", "continued"}
sweep_with.__signature__ = inspect.Signature(
    [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in dict.fromkeys([*OF_ALL, *sorted(SWEPT)])]
)

# name: function, arguments with which it succeeds, and what an argument is where its name does not tell
CALLS = {
    "simulate": (by_field(da.simulate), STATE | RUN, NONE_OF_THEM | {"until": ELSEWHERE}),
    "simulate until": (by_field(da.simulate), STATE | {"h": da.Varying(0.1), "until": 1.0}, {"until": "number"}),
    "prepare": (by_field(da.prepare), {"system": FREE, "h": 0.1, "backend": "jax"}, EVERY | {"h": "step"}),
    "PreparedRun": (lambda q0, v0, steps, t0, throw: READY(q0, v0, steps, t0=t0, throw=throw),
                    {"q0": PLACE, "v0": [1.0, 1.0], "steps": 4, "t0": 0.0, "throw": True}, {}),
    "simulate a discrete system": (by_field(da.simulate), PAIRS | RUN, {"nodes": "rows"}),
    "simulate a flow": (by_field(da.simulate), JETS | RUN, {"jets": "rows", "multipliers": "rows", "scheme": "windows"}),
    "ensemble": (by_field(da.ensemble), STATE | {"q0": [PLACE] * 3, **RUN},
                 NONE_OF_THEM | {"q0": "several", "v0": "several", "until": ELSEWHERE}),
    "ensemble until": (
        by_field(da.ensemble), STATE | {"h": da.Varying(0.1), "until": 1.0, "every": None}, {"until": "number"}),
    "ensemble of parameters": (by_field(da.ensemble), STATE | {"system": NAMES, **RUN}, {"parameters": "tree"}),
    "ensemble of a discrete system": (
        by_field(da.ensemble), PAIRS | {"nodes": [PAIRS["nodes"]] * 2, **RUN}, {"nodes": "rows"}),
    "ensemble of a flow": (
        by_field(da.ensemble), JETS | {"jets": [JETS["jets"]] * 2, **RUN}, {"jets": "rows", "multipliers": "rows"}),
    "sweep": (sweep_with, STATE | {"system": NAMES, "q0": PLACE, "values": {"m": [1.0, 2.0]}, **RUN},
              NONE_OF_THEM | {"max_iterations": "count or None", "until": ELSEWHERE}
              | dict.fromkeys([*BETWEEN, *OF_ALL], ELSEWHERE)),
    "sweep until": (sweep_with, STATE | {"system": NAMES, "values": {"m": [1.0, 2.0]}, "h": da.Varying(0.1), "until": 1.0,
                                       "every": None}, {"until": "number"}),
    "sweep of problems": (sweep_with, BETWEEN_ENDS, BETWEEN),
    "sweep at times": (sweep_with, BETWEEN_ENDS | {"T": None, "steps": None, "times": [0.0, 0.5, 1.0]},
                       {"times": "times or None"}),
    "sweep of a discrete system": (sweep_with, SWEPT_PAIRS | RUN, {"nodes": "rows"}),
    "sweep of a flow": (sweep_with, SWEPT_JETS | RUN, {"jets": "rows", "multipliers": "rows"}),
    "sweep with the same for all": (da.sweep, {"system": NAMES, "values": {"m": [1.0, 2.0]}, "fixed": SAME},
                                    {"values": "swept", "fixed": "same"}),
    "run_statistics": (da.studies.run_statistics, {"value": lambda study: study.reduced}, {"value": "function"}),
    "free steps": (da.step.simulate_free_steps, {"problem": STRAIGHT, "nodes": np.eye(2), "times": [0.0, 0.1], "steps": 4},
                   {"scheme": "windows"}),
    "roots": (da.roots, AT | {"h": 0.1}, {"h": "step"}),
    "reference": (da.reference, STATE | {"t": [0.0, 1.0]}, {"t": "times", "max_steps": "count or None"}),
    "references": (da.references, STATE | {"q0": [PLACE] * 3, "t": [0.0, 1.0]},
                   {"q0": "several", "v0": "several", "t": "times", "max_steps": "count or None"}),
    "references of parameters": (da.references, STATE | {"system": NAMES, "t": [0.0, 1.0]},
                                 {"parameters": "tree", "t": "times", "max_steps": "count or None"}),
    "adapted_reference": (da.systems.adapted_reference, ROLLS | {"t": [0.0, 1.0]}, {"t": "times"}),
    "project": (da.project, STATE, {}),
    "solvability": (da.solvability, STATE, {}),
    "independent": (da.systems.independent, STATE, {}),
    "Independent.complete": (lambda path: da.systems.independent(**STATE).complete(path), {"path": path}, {}),
    "verdict": (by_field(da.verdict), STATE | {"scheme": NODES, "h": 0.1, "steps": 8},
                {"symmetries": "symmetries"} | dict.fromkeys(("nodes", "jets", "multipliers"), ELSEWHERE)),
    "verdict of a discrete system": (by_field(da.verdict), PAIRS | {"h": 0.1, "steps": 8}, {"nodes": "rows"}),
    "verdict of a flow": (by_field(da.verdict), JETS | {"h": 0.1, "steps": 8}, {"jets": "rows", "multipliers": "rows"}),
    "symmetries": (da.symmetries, STATE | {"v0": [1.0, 0.5]}, {
        "generators": "fields or None", "kind": "word", "size": "sizes or None"}),
    "chaplygin": (da.chaplygin, ROLLS | {"v0": [1.0, 0.0], "group": (1,)},
                  {"group": "group", "frame": "frame or None", "size": "sizes or None"}),
    "routh": (da.routh, STATE | {"group": (1,)}, {"group": "group", "generators": ELSEWHERE, "size": "sizes or None"}),
    "routh by generators": (da.routh, STATE | {"generators": [(np.zeros((2, 2)), [0.0, 1.0])]}, {"generators": "flows"}),
    "quotient": (da.symmetry.quotient, STATE | {"v0": [1.0, 0.5], "generators": [(np.zeros((2, 2)), [0.0, 1.0])]},
                 {"generators": "flows", "nodes": ELSEWHERE, "size": "sizes or None"}),
    "quotient of a discrete system": (
        da.symmetry.quotient, PAIRS | {"generators": [(np.zeros((2, 2)), [0.0, 1.0])]},
        {"generators": "flows", "nodes": "rows"},
    ),
    "Quotient.simulate": (lambda h, steps, scheme: divided().simulate(h=h, steps=steps, scheme=scheme),
                          {"h": 0.1, "steps": 2, "scheme": None}, {}),
    "Quotient.split": (lambda q, v: divided().split(q, v), {"q": PLACE, "v": PLACE}, {}),
    "Quotient.rates": (lambda x, t: divided().rates(x, t), {"x": [0.1, 0.2, 0.3], "t": 0.0}, {"x": "vector"}),
    "Reduced.discrete": (lambda h, scheme: rolled().discrete(h, scheme), {"h": 0.1, "scheme": NODES}, {}),
    "Reduced.nodes": (lambda h, scheme: rolled().nodes(h, scheme), {"h": 0.1, "scheme": NODES}, {}),
    "Reduced.velocity": (lambda x, w, t: rolled().velocity(x, w, t), {"x": [0.0], "w": [1.0], "t": 0.0},
                         {"x": "single", "w": "single"}),
    "Reduced.reconstruct": (lambda path, scheme, q0: rolled().reconstruct(path, scheme=scheme, q0=q0),
                            {"path": rolled_path, "scheme": None, "q0": PLACE}, {"q0": "vector or None"}),
    "reduction": (da.systems.reduction, AT, {}),
    "from_sympy": (da.from_sympy, {"lagrangian": TURNING.diff() ** 2, "coordinates": [TURNING]},
                   {"lagrangian": "expression", "coordinates": "functions of time", "constraints": "expressions",
                    "forces": "expressions", "parameters": "values"}),
    "symbolic_equations": (da.symbolic.symbolic_equations, {"system": PLANE}, {"n": "size"}),
    "acceleration": (da.acceleration, AT, {}),
    "energy": (da.energy, AT, {}),
    "momentum": (da.momentum, AT, {}),
    "connection": (da.systems.connection, AT | {"system": ROLLING}, {"q": "several", "v": "several"}),
    "interpolant": (da.systems.interpolant, {"system": ROLLING, "first": (PLACE, PLACE), "second": (PLACE, PLACE)}, {}),
    "deformed": (da.systems.deformed, {"system": ROLLING, "g": free, "delta": 0.1}, {}),
    "ostrogradsky": (da.systems.ostrogradsky, {"problem": STRAIGHT, "derivatives": [PLACE, PLACE], "t": [0.0, 1.0]},
                     {"derivatives": "rows", "t": "times"}),
    "with_time": (da.with_time, {"problem": STRAIGHT}, {"scheme": "windows"}),
    "energies": (da.energies, {"problem": da.with_time(STRAIGHT), "x": np.arange(9.0).reshape(3, 3)}, {}),
    "redefined": (
        da.discretize.redefined,
        {"path": path, "rho": da.Beta()},
        {"first": "pair or None", "last": "pair or None"},
    ),
    "solve": (by_field(da.solve), ENDS | GRID, SOLVED),
    "solve at times": (by_field(da.solve), ENDS | TIMES, {"times": "times or None"}),
    "solve_batch": (by_field(da.solve_batch), MANY | GRID, SOLVED | {"initial": "ends", "final": "ends"}),
    "solve_batch at times": (by_field(da.solve_batch), MANY | TIMES, {"times": "times or None"}),
    "multistart": (by_field(da.multistart), ENDS | GRID | {"starts": 2}, SOLVED | {"starts": "seed"}),
    "multistart at times": (by_field(da.multistart), ENDS | TIMES | {"starts": 2}, {"times": "times or None"}),
    "spline": (by_field(da.spline), {"manifold": SPHERE, "points": {0.0: POINT, 1.0: OTHER}, "steps": 6},
               {"initial": "end", "scheme": "windows", "max_iterations": "count or None"}),
    "plot": (da.plot, {"path": path}, {"exact": ELSEWHERE, "value": ELSEWHERE}),
    "animate": (da.animate, {"path": path, "fps": 4},
                {"speed": "positive or None", "fps": "count", "system": "any system or None"}),
    "page": (da.page, {"path": path, "file": "run.html"}, {"system": "any system or None"}),
    "Dots": (da.Dots, {"at": np.eye(2)}, {"at": ELSEWHERE, "trail": "flag"}),
    "Rod": (da.Rod, {"at": np.eye(2)}, {"at": "rows"}),
    "Body": (
        da.Body,
        {"corners": np.eye(2), "x": np.zeros(2), "shape": np.ones((3, 2))},
        {"corners": "rows", "x": "vector or None", "shape": "rows or None"},
    ),
    "Wheel": (da.Wheel, {"centre": PLACE, "radius": 1.0},
              {"centre": ELSEWHERE, "radius": "number", "angle": "number", "axle": ELSEWHERE}),
    "Ball": (da.Ball, {"centre": POINT, "radius": 1.0}, {"centre": ELSEWHERE, "radius": "number"}),
    "plot a study": (da.plot, {"path": study}, {"value": "drawn or None"}),
    "plot a solution": (da.plot, {"path": solution}, {"exact": "function or None"}),
    "save": (da.save, {"path": path, "file": "run.nc"}, {}),
    "load": (da.load, {"file": "run.nc"}, {}),
    "resume": (by_field(da.resume), {"store": stored, "system": FREE},
               EVERY | {"store": "store", "scheme": "scheme", "density": "function or None"}),
    "matches": (da.matches, {"path": path, "system": FREE}, {"path": ELSEWHERE, "system": "any system"}),
    "to_xarray": (da.store.to_xarray, {"path": path}, {}),
    "from_xarray": (da.store.from_xarray, {"data": None}, {}),
    "System": (da.System, {"lagrangian": free}, {}),
    "System.replace": (NAMES.replace, {"m": 2.0, "on": False}, {"values": ELSEWHERE}),
    "VariationalProblem": (da.VariationalProblem, {"lagrangian": free}, {"constraints": ELSEWHERE}),
    "OptimalControl": (da.OptimalControl, {"system": FREE, "cost": free, "actuated": 0},
                       {"cost": "function", "terminal": "function or None", "actuated": ELSEWHERE}),
    "DiscreteSystem": (da.DiscreteSystem, {"lagrangian": free}, {"order": "count"}),
    "DiscreteSystem.nonholonomic": (
        da.DiscreteSystem.nonholonomic, {"lagrangian": free, "constraint": free, "reactions": free},
        {"reactions": "function", "options": ELSEWHERE}),
    "DiscreteSystem.holonomic": (
        da.DiscreteSystem.holonomic, {"lagrangian": free, "constraint": free}, {"options": ELSEWHERE}),
    "Holonomic": (da.Holonomic, {"phi": free}, {}),
    "Nonholonomic": (da.Nonholonomic, {"phi": free}, {}),
    "SecondOrder": (da.SecondOrder, {"phi": free}, {}),
    "Lyapunov": (da.Lyapunov, {"V": free, "F": free, "actuated": 0}, {"actuated": "rows"}),
    "Scheme": (da.Scheme, {}, {"kinematic": "triple"}),
    "Scheme.jimenez_scheurle": (da.Scheme.jimenez_scheurle, {}, {}),
    "Beta": (da.Beta, {}, {}),
    "Nearest": (da.Nearest, {"within": 0.1, "least": free},
                {"coordinates": "which", "within": "positive", "least": "function"}),
    "Least": (da.Least, {"function": free}, {}),
    "Avoid": (da.Avoid, {}, {"factor": "function or None"}),
    "feedback": (da.feedback, LANDS, CONTROL | dict.fromkeys(("Q", "R", "Q_T"), ELSEWHERE)),
    "feedback of a regulator": (
        da.feedback, {"problem": MOVE, "solution": plan, "Q": np.eye(4), "R": np.eye(2), "Q_T": np.eye(4)},
        {"Q": "rows", "R": "rows", "Q_T": "rows"}),
    "sensitivity": (da.sensitivity, LANDS | {"initial": (PLACE, PLACE)}, CONTROL),
    "optimum": (by_field(da.optimum), {"problem": MOVE, "initial": (PLACE, PLACE), "final": ([1.0, 1.0], PLACE)} | GRID,
                CONTROL | {"T": "positive", "times": ELSEWHERE, "steps": "count", "max_iterations": "count or None"}),
    "optimum at times": (
        by_field(da.optimum), {"problem": MOVE, "initial": (PLACE, PLACE), "final": ([1.0, 1.0], PLACE)} | TIMES,
        CONTROL | {"times": "times or None"}),
    "refine": (da.refine, LANDS | {"initial": (PLACE, PLACE)}, CONTROL | {"T": "guess of a time or None"}),
    "controllability": (da.guidance.controllability, {"problem": MOVE, "solution": plan}, CONTROL),
    "mpc": (da.mpc, {"problem": MOVE, "final": ([1.0, 1.0], PLACE), "T": 1.0, "steps": 5},
            CONTROL | {"steps": "count", "deadline": "positive or None"}),
    "closed_loop": (
        da.closed_loop,
        STATE | {"controller": da.mpc(MOVE, final=([1.0, 1.0], PLACE), T=1.0, steps=5), "h": 0.1, "steps": 1},
        {"disturbance": "vector or None", "noise": "vector or None"}),
    "control_law": (da.control_law, {"system": SERVO}, {}),
    "Law.saturated": (
        da.control_law(SERVO).saturated, {"lower": -1.0, "upper": 1.0}, {"lower": "number", "upper": "number"}),
    "Law.sampled": (da.control_law(SERVO).sampled, {"every": 1}, {}),
    "matching": (
        da.laws.matching, REGION | {"V": free, "F": lambda q, v: v[0] ** 2, "speeds": [1.0, 1.0]},
        {"actuated": "rows", "at": "vector", "reach": "vector", "speeds": "vector", "samples": "count", "seed": "seed"}),
    "energy_shaping": (
        da.laws.energy_shaping, REGION | {"system": SADDLE, "Q": np.eye(4), "R": [[1.0]]},
        {"actuated": "rows", "at": "vector", "reach": "vector", "Q": "rows", "R": "rows", "nodes": "count"}),
    "SampledFeedback": (da.SampledFeedback, {"law": free}, {}),
    "Varying": (da.Varying, {"first": 0.1}, {"first": "step", "density": "function or None", "span": "positive or None"}),
    "Nodes": (da.Nodes, {"q": [PLACE]}, {"q": "rows"}),
    "On": (da.On, {"psi": free}, {"psi": "function"}),
    "Periodic": (da.Periodic, {"shift": PLACE}, {"shift": ELSEWHERE}),
    "eliminate": (da.control.eliminate, {"problem": MOVE, "step": 0.1}, CONTROL | {"step": "positive or None"}),
    "singular_arcs": (da.control.singular_arcs, {"problem": MOVE, "solution": plan}, CONTROL),
    "Lobatto": (da.Lobatto, {}, {}),
    "Start": (da.Start, {}, dict.fromkeys(("nodes", "jets", "multipliers"), ELSEWHERE)),
    "Solver": (da.Solver, {}, dict.fromkeys(("branch", "scales"), ELSEWHERE) | EVERY),
    "Stop": (da.Stop, {}, {"when": "function or None"}),
    "Save": (da.Save, {}, {"every": "count or None", "store": ELSEWHERE}),
    "Free": (da.Free, {"guess": 1.0}, {"guess": "positive", "lower": "part or None", "upper": "positive or None"}),
    "Path.interpolate": (lambda t, order=3: path().interpolate(t, order), {"t": 0.1}, {"order": "count"}),
    "Path.lane": (lambda i: batch().lane(i), {"i": 0}, {}),
    "Solution.interpolate": (lambda t: solution().interpolate(t), {"t": 0.1}, {}),
    "measure.order": (by_field(M.order), STATE | {"time": 1.0, "h": [0.5, 0.25]}, {"h": "steps", "coordinates": "which"}),
    "measure.consistency": (M.consistency, ROLLS | {"h": [0.2, 0.1]}, {"h": "steps", "q0": "several", "v0": "several"}),
    "measure.embedding": (M.embedding, ROLLS | {"h": [0.2, 0.1]},
                          {"h": "steps", "q0": "several", "v0": "several", "order": "count or None"}),
    "measure.perturbation": (M.perturbation, ROLLS, {"q0": "several", "v0": "several"}),
    "measure.modified": (M.modified, STATE | {"h": 0.1},
                         {"h": "positive", "q0": "several", "v0": "several", "order": "count"}),
    "measure.modified_formulas": (M.modified_formulas, {"system": PLANE}, {"n": "size", "order": "count"}),
    "measure.error_bound": (M.error_bound, {"made": expansion, "path": equal_run}, {}),
    "measure.energy_drift": (M.energy_drift, {"made": expansion, "path": equal_run}, {}),
    "measure.helmholtz": (M.helmholtz, {"made": expansion}, {}),
    "measure.kept_energy": (M.kept_energy, {"made": expansion, "h": 0.1}, {"h": "positive"}),
    "measure.projected_perturbation": (
        M.projected_perturbation, AT | {"system": ROLLING, "g_q": PLACE, "g_v": PLACE}, {}),
    "measure.energy": (M.energy, {"system": FREE, "path": path}, {"scheme": ELSEWHERE}),
    "measure.energy of a flow": (M.energy, {"system": STRAIGHT, "path": path}, {"scheme": "windows"}),
    "measure.momentum": (M.momentum, {"system": FREE, "path": path, "generator": turn, "scheme": NODES},
                         {"system": "any system"}),
    "measure.momentum_balance": (
        M.momentum_balance, {"system": FREE, "path": path, "generator": turn, "scheme": NODES}, {"system": "any system"}),
    "measure.multipliers": (M.multipliers, {"system": FREE, "path": path}, {}),
    "measure.events": (M.events, {"system": FREE, "path": path, "g": lambda q, v: q[0] - 0.15, "scheme": NODES},
                       {"system": "any system", "direction": "way"}),
    "measure.constraint_residual": (M.constraint_residual, {"system": FREE, "path": path, "scheme": NODES},
                                    {"system": "any system"}),
    "measure.regularity": (M.regularity, {"system": FREE, "nodes": np.eye(3, 2), "h": 0.1},
                           {"system": "any system", "h": "step or None"}),
    "measure.symplectic_defect": (M.symplectic_defect, {"system": FREE, "q0": PLACE, "q1": [0.1, 0.1], "h": 0.1},
                                  {"system": "any system", "h": "step", "nodes": ELSEWHERE, "multipliers": ELSEWHERE}),
    "measure.symplectic_defect of a flow": (
        M.symplectic_defect, {"system": VAKONOMIC, "nodes": [PLACE, [0.1, 0.0]], "multipliers": [[0.5]], "h": 0.1},
        {"nodes": "rows", "multipliers": "rows", "scheme": "windows"}),
    "measure.legendre": (M.legendre, {"system": FREE, "q0": PLACE, "q1": [0.1, 0.1], "h": 0.1},
                         {"system": "any system", "h": "step"}),
    "measure.balance": (M.balance, {"system": FREE, "q0": PLACE, "q1": [0.1, 0.1], "q2": [0.2, 0.2], "h": 0.1},
                        {"system": "any system", "q2": "vector", "h": "step"}),
    "measure.exact_discrete": (M.exact_discrete, {"system": FREE, "q0": PLACE, "q1": [0.1, 0.1], "h": 0.1}, {"h": "step"}),
    "measure.discrete_consistency": (M.discrete_consistency, STATE | {"h": [0.2, 0.1]}, {"h": "steps"}),
    "measure.phase_step": (M.phase_step, {"system": FREE, "q": PLACE, "p": [1.0, 0.0], "h": 0.1},
                           {"p": "vector", "h": "step"}),
    "measure.flow_symplectic_defect": (M.flow_symplectic_defect, STATE | {"t": 1.0}, {"t": "positive"}),
    "measure.poincare_cartan": (M.poincare_cartan, FLOW | {"nodes": np.eye(2)},
                                {"scheme": "windows", "multipliers": "rows"}),
    "measure.euler_lagrange_operator": (
        M.euler_lagrange_operator, FLOW | {"nodes": np.eye(3, 2), "multipliers": [[0.5]] * 2},
        {"scheme": "windows", "multipliers": "rows"}),
    "Connection.coordinates": (lambda q, v: chart().coordinates(q, v), POINT_AND_SPEED, {}),
    "Connection.point": (lambda xi, t: chart().point(xi, t), {"xi": XI, "t": 0.0}, {}),
    "Connection.quality": (lambda q, v, t: chart().quality(q, v, t), POINT_AND_SPEED | {"t": 0.0}, {}),
    "Connection.vertical": (lambda q, v, w: chart().vertical(q, v, w), POINT_AND_SPEED | {"w": PLACE}, {}),
    "Perturbation": (lambda h, tau, xi: perturbed()(h, tau, xi), {"h": 0.1, "tau": 0.5, "xi": XI},
                     {"h": "number", "tau": "number"}),
    "Perturbation.pushed": (lambda h, tau, q, v: perturbed().pushed(h, tau, q, v),
                            POINT_AND_SPEED | {"h": 0.1, "tau": 0.5}, {"h": "number", "tau": "number"}),
    "Perturbation.period": (lambda h, q, v: perturbed().period(h, q, v), POINT_AND_SPEED | {"h": 0.1}, {}),
    "manifolds.sphere": (F.sphere, {}, {}),
    "manifolds.ellipsoid": (F.ellipsoid, {"axes": [1.0, 2.0]}, {"axes": "rows"}),
    "manifolds.torus": (F.torus, {}, {}),
    "manifolds.hyperbolic_plane": (F.hyperbolic_plane, {}, {}),
    "manifolds.rotations": (F.rotations, {}, {}),
    "manifolds.rotation": (F.rotation, {"q": [1.0, 0.0, 0.0, 0.0]}, {}),
    "manifolds.Chart": (F.Chart, {"metric": free}, {}),
    "manifolds.Embedded": (F.Embedded, {"phi": free}, {"metric": "positive"}),
    "manifolds.LeftInvariant": (F.LeftInvariant, {"group": da.groups.SO3()}, {"group": "manifold", "metric": "rows"}),
    "manifolds.riemannian_spline": (F.riemannian_spline, {"manifold": SPHERE}, {}),
    "manifolds.ambient_spline": (F.ambient_spline, {"manifold": SPHERE}, {}),
    "manifolds.euler_lagrange": (F.euler_lagrange, {"manifold": SPHERE, "jet": np.eye(3)}, {}),
    "Embedded.project": (SPHERE.project, {"q": POINT}, {"q": "rows"}),
    "Embedded.distance": (SPHERE.distance, {"q": POINT}, {"q": "rows"}),
}  # fmt: skip

# What is wrong in general, and not there, or not by itself. With three numbers in q0 it is v0 that has too few.
RIGHT = {
    ("simulate", "system"): {"problem", "discrete"},
    ("resume", "system"): {"problem", "discrete"},
    ("resume", "branch"): {"beyond", "no row"},  # seen as another branch than that of the run
    ("ensemble", "system"): {"problem", "discrete"},
    ("sweep", "system"): {"problem", "discrete"},
    ("sweep with the same for all", "system"): {"problem", "discrete"},
    ("sweep with the same for all", "fixed"): {"dict"},  # in which h is missing
    ("verdict", "system"): {"problem", "discrete"},
    ("symmetries", "system"): {"problem", "discrete"},
    ("prepare", "branch"): {"plain", "beyond", "no row"},  # seen with the first initial data
    ("System.replace", "on"): {"bool"},
    ("quotient", "generators"): {"all"},
    ("quotient of a discrete system", "generators"): {"all"},
    ("Quotient.rates", "x"): {"longer"},
    ("Save", "reduce"): {f"{x} in it" for x in ("text", "None", "complex", "masked")},  # seen with the system
    ("Lyapunov", "actuated"): {"function", "vector", "text"},  # a name, which is looked up in the system
    ("Nearest", "coordinates"): {"beyond"},
    ("Law.saturated", "lower"): {"array"},
    ("Law.saturated", "upper"): {"array"},
    ("reference", "t"): {"falling"},
    ("references", "t"): {"falling"},
    ("references of parameters", "t"): {"falling"},
    ("ostrogradsky", "t"): {"falling"},
    ("matching", "at"): {"longer"},  # it is reach that has too few then
    ("energy_shaping", "at"): {"longer"},
    ("Path.interpolate", "t"): {"array"},
    ("Solution.interpolate", "t"): {"array"},
    ("measure.energy", "system"): {"problem"},
    ("manifolds.ellipsoid", "axes"): {"vector"},
    ("solve", "bounds"): {"dict"},  # none at all
    ("sweep of problems", "bounds"): {"dict"},
    ("mpc", "bounds"): {"dict", "a control"},
    ("solve_batch", "bounds"): {"dict"},
    ("multistart", "bounds"): {"dict"},
    ("refine", "bounds"): {"dict", "a control"},
    ("optimum", "bounds"): {"dict", "a control"},
    ("spline", "bounds"): {"dict", "wrong length"},  # n = 3
    ("spline", "scales"): {"longer"},  # three, as many as the sphere's space has
    ("manifolds.Embedded", "metric"): {"function"},
    ("manifolds.LeftInvariant", "metric"): {"number"},
    ("Embedded.project", "q"): {"vector", "five axes"},
    ("Embedded.distance", "q"): {"vector", "five axes"},
}


def arguments_of(name: str) -> dict[str, str | None]:
    """What each argument of a call is; of a second call of a function those that are named."""
    function, given, special = CALLS[name]
    known = {
        argument: special.get(argument, KIND_OF.get(argument, "unknown"))
        for argument in inspect.signature(function).parameters
    }
    if name == "System.replace":
        known = {argument: KIND_OF[argument] for argument in given}
    first = next(other for other, (f, *_) in CALLS.items() if f is function) == name
    return known if first else {argument: kind for argument, kind in known.items() if argument in special}


ROWS = [(name, argument) for name in CALLS for argument, kind in arguments_of(name).items() if kind is not ELSEWHERE]


def wrong_values(name: str, argument: str) -> dict:
    """Wrong values of an argument by label."""
    kind = arguments_of(name)[argument]
    right = RIGHT.get((name, argument), set()) | ({"longer"} if argument in ("q0", "q") else set())
    if name.startswith(("Connection.", "Perturbation")):  # what was computed may be NaN
        right = right | {"nan of JAX"} | ({"longer"} if argument == "xi" else set())
    right = right | ({"None"} if kind.endswith(" or None") else set())
    return {label: x for label, x in WRONG[kind.removesuffix(" or None")].items() if label not in right}


def mistake(call, argument: str) -> str | None:
    """What is wrong with the error of a call: it raises none, or its message does not begin with the argument's name."""
    try:
        call()
    except NAMED as error:
        head = str(error).partition(": ")[0]
        return None if re.search(rf"\b{re.escape(argument)}\b", head) else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@pytest.mark.parametrize(("name", "argument"), ROWS, ids=map("-".join, ROWS))
def test_wrong_arguments_are_named(name, argument):
    function, given, _ = CALLS[name]
    made = (path, solution, plan, stored, study, rolled_path, expansion, equal_run)
    ready = {key: x() if any(x is one for one in made) else x for key, x in given.items()}
    found = {}
    for label, value in wrong_values(name, argument).items():
        wrong = value() if value is path else value
        if (what := mistake(lambda wrong=wrong: function(**ready | {argument: wrong}), argument)) is not None:
            found[label] = what
    assert not found


def test_every_argument_of_every_function_has_a_kind():
    """In one of the calls of the function."""
    public = [getattr(room, name) for room in (da, da.measure, da.manifolds) for name in room.__all__]
    covered = {}
    for name, (function, *_) in CALLS.items():
        whole = getattr(function, "whole", function)
        covered.setdefault(id(whole), set()).update(a for a, kind in arguments_of(name).items() if kind is not ELSEWHERE)
    for function in public:
        if inspect.isclass(function) or inspect.ismodule(function):  # a Jitted is no function for inspect
            continue
        missing = set(inspect.signature(function).parameters) - covered.get(id(function), set())
        assert missing <= ({"path"} if function is da.matches else set()), f"{function.__name__}: {missing}"


def test_every_class_that_a_user_builds_is_in_the_table():
    """The others are made by the library, are bases of the user's classes, or take no argument."""
    made = (
        "ActiveBounds", "AdaptedReference", "Animation", "Balance", "BoundaryStatistics", "Claim", "ClosedLoop", "Condition",
        "Connection", "Consistency", "ControlLaw", "ControlSolution", "Controllability", "Convergence", "Derivatives",
        "DiscreteConsistency", "ExactPair",
        "Embedding", "EnergyDrift", "EnergyShaping", "ErrorBound", "Helmholtz", "KeptEnergy",
        "SymbolicEquations", "Events", "Extremals", "Feedback", "FinalTime", "Finding",
        "FlowRegularity", "FullMotion",
        "Independent", "Interpolant", "Invariant", "LegendreMaps", "Matching", "Modified", "ModifiedFormulas",
        "MomentumBalance", "Multipliers",
        "Optimum", "Order",
        "Ostrogradsky", "Outcome", "Path", "Perturbation", "PhasePoint", "PoincareCartan", "PredictiveController",
        "PreparedRun", "Projection", "Provenance", "Redefined", "Reduced",
        "Reduction", "Reference", "Refinement", "Regularity",
        "Replanned", "Residual", "Root", "SchemeClaims", "Sensitivity", "Solution", "Solvability", "Statistics", "Study",
        "Symmetries", "Symmetry", "SymplecticDefect", "TurnedReduction", "Verdict",
    )  # fmt: skip
    public = {name: getattr(room, name) for room in (da, da.measure, da.manifolds) for name in room.__all__}
    for name, kind in public.items():
        if (
            inspect.isclass(kind)
            and not issubclass(kind, BaseException)
            and name not in made
            and inspect.signature(kind).parameters
        ):
            assert any(function is kind for function, *_ in CALLS.values()), name


def test_there_are_many_cases():
    assert sum(len(wrong_values(*row)) for row in ROWS) > 4000
