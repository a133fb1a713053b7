"""The options of a call in groups: what a group refuses, and single options, which give the same run with a warning."""

import pickle
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da

PENDULUM = da.System(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]))
PAIR = da.DiscreteSystem(lambda a, b: 0.5 * (b - a) @ (b - a))
BEAM = da.VariationalProblem(lambda q, v, a: 0.5 * a @ a, derivatives=2)
PUSH = da.OptimalControl(PENDULUM, cost=lambda q, v, u: u @ u, actuated=0)
STATE = (PENDULUM, [1.0], [0.0])
GRID = {"h": 0.1, "steps": 20}
SIZE = np.array([2.0])
ENDS = {"initial": ([0.0], [0.0]), "final": ([1.0], [0.0]), "T": 1.0, "steps": 10}
MANY = {**ENDS, "initial": (np.zeros((2, 1)),) * 2, "final": (np.ones((2, 1)), np.zeros((2, 1)))}
LARGEST = (lambda most, t, q, v, multipliers: jnp.maximum(most, q[0]), 0.0)


def low(q, v):
    return q[0] < 0.5


def near(q, v):
    return q[0] > 0.2


# call: its arguments, single options as they were, and the same in groups
SAME = {
    "simulate": (da.simulate, STATE, GRID,
        {"tolerance": 1e-6, "max_iterations": 9, "backend": "jax", "save_every": 5, "reduce": LARGEST},
        {"solver": da.Solver(1e-6, 9, backend="jax"), "save": da.Save(5, LARGEST)}),
    "stop and domain": (da.simulate, STATE, GRID | {"throw": False}, {"stop": low, "domain": near},
        {"stop": da.Stop(low, near)}),
    "domain": (da.simulate, STATE, GRID | {"throw": False}, {"domain": near}, {"stop": da.Stop(domain=near)}),
    "starter": (da.simulate, STATE, GRID | {"scheme": da.Scheme("nodes")}, {"starter": "first_order"},
        {"start": da.Start(starter="first_order")}),
    "nodes": (da.simulate, (PAIR,), {"steps": 3}, {"nodes": [[0.0], [1.0]]}, {"start": da.Start([[0.0], [1.0]])}),
    "ensemble": (da.ensemble, (PENDULUM, [[1.0], [0.5]], [0.0]), GRID, {"threads": 1, "branch": None, "save_every": None},
        {"solver": da.Solver(threads=1), "save": da.Save(None)}),
    "prepare": (lambda *given, **named: da.prepare(*given, **named)([1.0], [0.0], 20), (PENDULUM,), {"h": 0.1},
        {"tolerance": 1e-5, "save_every": 4}, {"solver": da.Solver(1e-5), "save": da.Save(4)}),
    "solve": (da.solve, (BEAM,), ENDS, {"tolerance": 1e-7, "scales": SIZE}, {"solver": da.Solver(1e-7, scales=SIZE)}),
    "solve_batch": (lambda *given, **named: da.solve_batch(*given, **named)[1], (BEAM,), MANY, {"threads": 1},
        {"solver": da.Solver(threads=1)}),
    "multistart": (lambda *given, **named: da.multistart(*given, **named).solutions[0], (BEAM, 2), ENDS,
        {"threads": 1, "max_iterations": 30}, {"solver": da.Solver(threads=1, max_iterations=30)}),
    "spline": (da.spline, (da.manifolds.sphere(), {0.0: [1.0, 0.0, 0.0], 1.0: [0.0, 1.0, 0.0]}), {"steps": 6},
        {"tolerance": 1e-7}, {"solver": da.Solver(1e-7)}),
    "optimum": (da.optimum, (PUSH,), ENDS, {"tolerance": 1e-7}, {"solver": da.Solver(1e-7)}),
    "order": (lambda *given, **named: da.measure.order(*given, **named).paths[0], STATE, {"time": 0.4, "h": [0.2, 0.1]},
        {"tolerance": 1e-5, "branch": None}, {"solver": da.Solver(1e-5)}),
}  # fmt: skip


@pytest.mark.parametrize(("call", "data", "given", "single", "grouped"), SAME.values(), ids=SAME.keys())
def test_single_options_warn_and_give_the_same_bit_for_bit(call, data, given, single, grouped):
    named = "|".join(rf"{group}=da\.{type(value).__name__}\(" for group, value in grouped.items())
    with pytest.warns(DeprecationWarning, match=f"({named}).*instead of") as seen:
        old = call(*data, **given, **single)
    assert all(x.filename == __file__ for x in seen if x.category is DeprecationWarning)
    new = call(*data, **given, **grouped)
    for name in ("t", "q", "v", "multipliers", "reduced", "code"):
        np.testing.assert_array_equal(getattr(old, name, None), getattr(new, name, None), err_msg=name)
    if getattr(new, "provenance", None) is not None:
        assert old.provenance.run == new.provenance.run


def test_records_have_the_keys_that_they_had():
    path = da.simulate(*STATE, **GRID, solver=da.Solver(1e-6), save=da.Save(every=5))
    for part in ('"tolerance": 1e-06', '"max_iterations": 25', '"save_every": 5'):
        assert path.provenance is not None
        assert part in path.provenance.run


def test_the_fixed_arguments_of_a_sweep_are_grouped_too():
    values, data = {"q0": [0.5, 1.0]}, {"v0": [0.0], **GRID}
    new = da.sweep(PENDULUM, values, data | {"solver": da.Solver(1e-6), "save": da.Save(every=5)})
    with pytest.warns(
        DeprecationWarning, match=r"sweep, fixed: give solver=da.Solver\(tolerance=…\), save=da.Save\(every=…\)"
    ):
        old = da.sweep(PENDULUM, values, data | {"tolerance": 1e-6, "save_every": 5})
    with pytest.warns(DeprecationWarning, match="fixed") as seen:
        oldest = da.sweep(PENDULUM, values, **data, tolerance=1e-6)  # pyright: ignore[reportCallIssue]
    assert [str(x.message) for x in seen] == [
        "sweep: give fixed={'v0': …, 'h': …, 'steps': …, 'tolerance': …}",
        "sweep, fixed: give solver=da.Solver(tolerance=…) instead of tolerance=",
    ]
    assert new.data.q.shape == (2, 5, 1)
    np.testing.assert_array_equal(old.data.q, new.data.q)
    np.testing.assert_array_equal(oldest.data.q[:, ::5], new.data.q)
    ends = {**ENDS, "final": ([1.0], [0.0])}
    new = da.sweep(BEAM, {"final.0": [0.5, 1.0]}, ends | {"solver": da.Solver(scales=SIZE)})
    with pytest.warns(DeprecationWarning, match=r"scales="):
        old = da.sweep(BEAM, {"final.0": [0.5, 1.0]}, ends | {"scales": SIZE})
    np.testing.assert_array_equal(old.data.q, new.data.q)


def test_a_run_in_a_store_is_resumed_with_groups(tmp_path):
    solver, stop = da.Solver(1e-6, branch=da.Nearest("previous")), da.Stop(domain=near)
    old: Any = {"store": tmp_path / "run.zarr"}
    with pytest.warns(DeprecationWarning, match="save=da.Save"):
        da.simulate(*STATE, **GRID, throw=False, solver=solver, stop=stop, **old)
    for again in (solver, da.Solver(branch=solver.branch)):  # numbers that are left out are those of the store
        path = da.resume(tmp_path / "run.zarr", PENDULUM, solver=again, stop=stop, throw=False)
        assert path.outcome is da.Outcome.LEFT_DOMAIN
    with pytest.raises(ValueError, match="tolerance"):
        da.resume(tmp_path / "run.zarr", PENDULUM, solver=da.Solver(1e-5, branch=solver.branch), stop=stop)


REFUSED = {
    "threads of one run": (lambda: da.simulate(*STATE, **GRID, solver=da.Solver(threads=2)), ValueError,
        "solver: simulate does not use threads, which is for ensemble, solve_batch, multistart; leave it out"),
    "scales of a run": (lambda: da.prepare(PENDULUM, h=0.1, solver=da.Solver(scales=SIZE)), ValueError,
        "solver: prepare does not use scales, which is for solve,"),
    "a branch between ends": (lambda: da.solve(BEAM, **ENDS, solver=da.Solver(branch=da.Avoid())), ValueError,
        "solver: solve does not use branch"),
    "a store of many": (lambda: da.ensemble(*STATE, **GRID, save=da.Save(store="run.zarr")), ValueError,
        "save: ensemble does not use store, which is for simulate; leave it out"),
    "nodes in a sweep of a System": (
        lambda: da.sweep(PENDULUM, {"q0": [1.0]}, {"start": da.Start(nodes=[[1.0]] * 2), **GRID}), ValueError,
        "nodes: a sweep"),
    "threads in a sweep": (lambda: da.sweep(PENDULUM, {"q0": [1.0]}, {"v0": [0.0], "solver": da.Solver(threads=2), **GRID}),
        ValueError, "solver: a sweep of runs does not use threads"),
    "another group": (
        lambda: da.simulate(*STATE, **GRID, save=cast(Any, da.Solver())), TypeError, r"save: found .*; give da.Save\("),
    "a word": (
        lambda: da.simulate(*STATE, **GRID, start=cast(Any, "reference")), TypeError, r"start: found .*; give da.Start\("),
    "no function": (lambda: da.simulate(*STATE, **GRID, stop=cast(Any, 3)), TypeError, r"stop: found .*; give da.Stop\("),
    "both": (lambda: da.simulate(*STATE, **GRID, solver=da.Solver(), **cast(Any, {"tolerance": 1e-6})), TypeError,
        r"solver, tolerance: found both; give solver=da.Solver\(...\) with all of it"),
    "both in a sweep": (
        lambda: da.sweep(PENDULUM, {"q0": [1.0]}, {"v0": [0.0], "save": da.Save(), "save_every": 2, **GRID}), TypeError,
        "save, save_every: found both"),
    "no starter": (lambda: da.Start(starter=cast(Any, "exact")), ValueError, "starter: found 'exact'"),
    "no tolerance": (lambda: da.Solver(tolerance=2.0), ValueError, "tolerance: found 2.0"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*give s:DeprecationWarning")
@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_says_what_is_right(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()


def test_groups_are_values():
    assert da.Solver(1e-6) == da.Solver(tolerance=1e-6) != da.Solver()
    assert pickle.loads(pickle.dumps(da.Save(every=None))) == da.Save(every=None)
    with pytest.raises(AttributeError):
        da.Solver().tolerance = 1.0  # pyright: ignore[reportAttributeAccessIssue]
