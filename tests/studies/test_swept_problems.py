"""Problems between ends in a sweep: each is the solution that solve gives, under its name, whatever stops the sweep."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import distributed
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import dalembert as da
from dalembert.boundary.kkt import linear

REST, N = ([0.0], [0.0]), 40
ENDS = {"initial": REST, "final": ([1.0], [0.0]), "steps": N}
VALUES = {"T": np.array([1.0, 2.0]), "bounds.u": np.array([3.0, 7.0, 30.0])}
BLOCKS = 3


def lagrangian(q, v, p):
    return 0.5 * p["m"] * v @ v + p["g"] * jnp.cos(q[0])


def effort(q, v, u, p):
    return u @ u


PENDULUM = da.System(lagrangian, coordinates=("angle",), parameters={"m": 1.0, "g": 2.0})
TASK = da.OptimalControl(PENDULUM, cost=effort, actuated=0)
MASS = TASK.replace(g=0.0)


def sweep(store=None, values=VALUES, **more):
    """A pendulum that 3 cannot move in the time 1: one of six has no solution."""
    kept = {} if store is None else {"store": store, "block": 2}
    given = ENDS | {"threads": 1} | kept | more
    own = ("reduce", "store", "block", "threads", "client", "progress", "over_runs", "combine")
    return da.sweep(
        TASK,
        values,
        {name: given[name] for name in given if name not in own},
        **{name: given[name] for name in own if name in given},
    )


def exact(x, T, m=1.0):
    """Σ h u² of ½mv² from rest to rest: 12 m²x²/T³ in the limit of small steps."""
    return 12 * m**2 * x**2 / T**3 / (1 + 2 / N**2)


def same(found, wanted):
    assert found.data_vars.keys() == wanted.data_vars.keys()
    for name, x in wanted.variables.items():
        np.testing.assert_array_equal(found[name].values, x.values, err_msg=str(name))
        assert found[name].dims == x.dims


@pytest.fixture(scope="module")
def whole():
    return sweep()


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    store = tmp_path_factory.mktemp("complete") / "study.zarr"
    sweep(store)
    return store


def test_costs_are_those_of_the_closed_form_at_their_names():
    study = da.sweep(MASS, {"final.angle": [0.5, 2.0], "T": [1.0, 3.0], "m": [1.0, 4.0]}, ENDS)
    assert study.data.q.dims == ("final_angle", "T", "m", "time", "coordinate")
    x, T, m = (study.data[name] for name in ("final_angle", "T", "m"))
    np.testing.assert_allclose(study.data.cost, exact(x, T, m).transpose(*study.axes), rtol=1e-10)
    np.testing.assert_allclose(study["angle"].isel(time=-1), x + 0 * T + 0 * m)
    np.testing.assert_allclose(study.data.t.isel(time=-1), (0 * x + T + 0 * m))
    assert study.sel(T=3.0).data.cost.dims == ("final_angle", "m")
    single = study.sel(**{"final.angle": 2.0, "T": 3.0, "m": 4.0})
    assert float(single.cost) == float(study.data.cost[1, 1, 1])
    assert float(single.subject.problem.parameters["m"]) == 4.0


def test_each_is_what_solve_finds_to_the_bit(whole):
    for i, T in enumerate(VALUES["T"]):
        for j, u in enumerate(VALUES["bounds.u"]):
            with linear.own_pivots():
                alone = da.solve(TASK, **ENDS, T=T, bounds={"u": (-u, u)}, throw=False)
            found, row = whole.sel(T=T, **{"bounds.u": u}), whole.data.isel(T=i, bounds_u=j)
            assert found.outcome is alone.outcome
            assert int(row.iterations) == int(alone.statistics.iterations)
            if alone.outcome is not da.Outcome.SUCCESS:
                assert (T, u) == (1.0, 3.0)
                assert str(whole.outcomes[i, j].values) == alone.outcome.name.lower()
                assert alone.describe().splitlines()[1].partition(": ")[2] in whole.describe()
                for name in ("q", "v", "u", "cost", "adjoints", "u_multipliers"):
                    assert np.isnan(row[name]).all(), name
                np.testing.assert_array_equal(row.u_upper, alone.bounds["u"].upper)
                assert not row.u_active.any()
                continue
            alone, found = (da.store.to_xarray(dataclasses.replace(x, subject=None)) for x in (alone, found))
            assert alone.identical(found.assign_attrs(alone.attrs))
    assert int((whole.data.code != 0).sum()) == 1


def test_what_was_solved_before_changes_no_bit(whole, monkeypatch):
    """Pivots of another problem of this kind and size, in another order."""
    known = linear._PIVOTS
    met = []
    monkeypatch.setattr(known, "of", lambda key, make: (met.append(key), make())[1])
    da.solve(TASK, **ENDS, T=2.0, bounds={"u": (-7.0, 7.0)})
    assert met
    monkeypatch.setattr(known, "of", lambda key, make: pytest.fail("took the pivots of another problem"))
    same(sweep().data, whole.data)


def test_rows_of_whole_arguments_have_their_numbers_as_names(tmp_path):
    rows = {
        "final": [([x], [v]) for x, v in ((0.5, 0.0), (1.0, 0.0), (1.5, 0.5))],
        "bounds": [{"u": (None, upper), "q": {"angle": (-1.0, 9.0)}} for upper in (30.0, 20.0, 10.0)],
        "m": [1.0, 2.0, 1.0],
    }
    study = da.sweep(MASS, rows, {"initial": REST, "T": 2.0, "steps": N}, combine="zip")
    assert study.data.cost.dims == ("run",)
    assert study.data.final_v_angle.values.tolist() == [0.0, 0.0, 0.5]
    assert study.data.bounds_u_upper.values.tolist() == [30.0, 20.0, 10.0]
    assert study.data.bounds_q_angle_lower.values.tolist() == [-1.0] * 3
    np.testing.assert_allclose(study.data.cost[:2], exact(np.array([0.5, 1.0]), 2.0, np.array([1.0, 2.0])), rtol=1e-7)
    with linear.own_pivots():
        last = da.solve(MASS, initial=REST, final=rows["final"][2], bounds=rows["bounds"][2], T=2.0, steps=N)
    assert float(study.sel(final=2).cost) == float(last.cost)
    da.save(study, tmp_path / "rows.nc")
    assert da.load(tmp_path / "rows.nc").data.equals(study.data)


def test_a_free_final_time_has_times_of_its_own():
    """min ∫ 1 + u² dt: T = √(6x)."""
    quick = da.OptimalControl(PENDULUM, cost=lambda q, v, u, p: 1.0 + u @ u, actuated=0).replace(g=0.0)
    study = da.sweep(quick, {"final.angle": [1.0, 2.0]}, {**ENDS, "T": da.Free(2.0)})
    np.testing.assert_allclose(study.data.t[:, -1], np.sqrt(6 * np.array([1.0, 2.0])), rtol=2e-3)
    assert abs(float(study.sel(final_angle=2.0).final_time.slope)) < 1e-6


def test_splines_are_those_of_spline():
    """Great circles: the action of an arc α in the time T is ½ α²/T."""
    globe, angles = da.manifolds.sphere(), np.array([0.5, 1.5, 2.5])
    points = [[np.cos(a), np.sin(a), 0.0] for a in angles]
    problem = da.manifolds.riemannian_spline(globe, 1)
    given = {"initial": ([1.0, 0.0, 0.0],), "steps": 20}
    study = da.sweep(problem, {"final": [(q,) for q in points], "T": [1.0, 2.0]}, given)
    np.testing.assert_allclose(study.data.action, 0.5 * angles[:, None] ** 2 / np.array([1.0, 2.0]), rtol=3e-3)
    curve = da.spline(globe, {0.0: [1.0, 0.0, 0.0], 2.0: points[1]}, derivatives=1, steps=20)
    np.testing.assert_allclose(study.sel(final=1, T=2.0).q, curve.q, rtol=0, atol=1e-12)
    middle = da.sweep(problem, {"through": [{1.0: q} for q in points]}, {**given, "final": ([-0.8, 0.6, 0.0],), "T": 2.0})
    np.testing.assert_allclose(middle.data.q.isel(time=10), points, rtol=0, atol=1e-12)
    assert middle.data["through_1.0_1"].values.tolist() == [q[1] for q in points]


def test_a_store_has_the_bits_of_memory(complete, whole, tmp_path):
    study = da.load(complete)
    same(study.data, whole.data)
    assert da.matches(complete, TASK)
    assert not da.matches(study, dataclasses.replace(TASK, cost=lambda q, v, u, p: u @ u))
    plain = xarray.open_zarr(complete)
    assert plain.committed.values.tolist() == [1] * 4
    assert plain.cost.dims == ("T", "bounds_u")
    da.save(study, tmp_path / "study.nc")
    assert da.load(tmp_path / "study.nc").data.equals(study.data.load())
    record = json.loads(study.data.attrs["run"])
    assert (record["steps"], record["tolerance"], record["certify"]) == (N, 1e-9, True)
    assert json.loads(study.data.attrs["parameters"]) == {"g": 2.0, "m": 1.0}


def test_a_killed_process_leaves_a_sweep_that_goes_on(whole, tmp_path):
    """kill -9 after two of four blocks."""
    store = tmp_path / "study.zarr"
    program = f"""
import sys, time; sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_swept_problems as t
def slow(done, total):
    print(done, flush=True)
    time.sleep(600 if done > 4 else 0)  # until it is killed, however busy the machine is
t.sweep({str(store)!r}, progress=slow)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) <= 4:
            pass
        process.kill()
    half = da.load(store)
    assert xarray.open_zarr(store).committed.values.tolist() == [1, 1, 0, 0]
    assert (half.data.code.values == da.Outcome.INTERRUPTED).tolist() == [[False] * 3, [True] * 3]
    kept = {file: file.stat().st_mtime_ns for file in store.glob("*/c.0.*")}
    same(sweep(store).data.load(), whole.data)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept  # nothing twice


def test_control_c_keeps_the_blocks_and_the_sweep_goes_on(whole, tmp_path):
    store, told = tmp_path / "study.zarr", []

    def press(done, total):
        told.append((done, total))
        if done == 4:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(da.Interrupted) as error:
        sweep(store, progress=press, threads=2)
    assert 0 < (error.value.path.data.code.values != da.Outcome.INTERRUPTED).sum() < 6
    same(sweep(store, progress=lambda *x: told.append(x)).data.load(), whole.data)
    assert told[-1][0] == told[-1][1]
    with pytest.raises(da.Interrupted) as error:
        sweep(block=2, progress=press)
    assert np.isnan(error.value.path.data.cost[1, 2])


def test_workers_have_the_bits_of_one_process(whole, tmp_path):
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    pair = da.studies.run_statistics(lambda study: study.data.cost)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        same(sweep(tmp_path / "study.zarr", client=client).data.load(), whole.data)
        found = sweep(client=client, over_runs=pair, block=2)
    assert repr(found) == repr(sweep(over_runs=pair, block=2))
    costs = whole.data.cost.values.ravel()
    assert (int(found["runs"]), int(found["failed"]), int(found["count"])) == (6, 1, 5)
    np.testing.assert_allclose(found["mean"], np.nanmean(costs), rtol=1e-14)
    np.testing.assert_allclose(found["variance"], np.nanvar(costs), rtol=1e-13)


OTHERS = {
    r"values\['T'\]: the sweep in the store has others": {"values": VALUES | {"T": np.array([1.0, 2.5])}},
    r"values, store: found 1 T, 3 bounds_u; the sweep in the store has 2 T, 3 bounds_u": {
        "values": VALUES | {"T": np.array([1.0])}
    },
    "steps: found 20; the sweep in the store has 40": {"steps": 20},
    "final: found .*2.0.*; the sweep in the store has": {"final": ([2.0], [0.0])},
    "inequalities: the run in the store has none; leave it out": {"inequalities": lambda q, v, u, p: u[0] - 99.0},
    "certify: found False; the sweep in the store has True": {"certify": False},
    "scheme": {"scheme": da.Lobatto()},
}  # fmt: skip


@pytest.mark.parametrize("message", OTHERS)
def test_another_sweep_is_refused(message, complete):
    with pytest.raises(ValueError, match=message):
        sweep(complete, **OTHERS[message])


def test_other_functions_are_another_sweep(complete):
    other = da.OptimalControl(PENDULUM, cost=lambda q, v, u, p: 2.0 * u @ u, actuated=0)
    with pytest.raises(ValueError, match="system: its functions, or what they read, are not those"):
        da.sweep(other, VALUES, ENDS, store=complete)
    with pytest.raises(ValueError, match="parameters are"):
        da.sweep(TASK.replace(m=2.0), VALUES, ENDS, store=complete)


def test_what_a_solution_is_reduced_to_has_the_axes(whole):
    study = sweep(reduce=lambda s: {"force": np.abs(s.u).max(), "u": s.u[:, 0]})
    np.testing.assert_array_equal(study.reduced["force"], np.abs(whole.data.u).max(("time", "control"), skipna=False))
    assert study.reduced["u"].dims[:2] == ("T", "bounds_u")
    assert np.isnan(study.reduced["u"][0, 0]).all()


def test_what_contradicts_itself_is_an_outcome_that_is_told():
    room = {"bounds.q": [(-0.5, 0.4), (-0.5, 1.5)]}
    with pytest.warns(
        UserWarning, match=r"infeasible, is that with bounds.q = \[-0.5  0.4\]: bounds\['q'\]: found angle = 1"
    ):
        study = da.sweep(MASS, room, {**ENDS, "T": 1.0})
    assert study.outcomes.values.tolist() == ["infeasible", "success"]
    assert np.isnan(study.data.q[0]).all()
    np.testing.assert_allclose(study.data.cost[1], exact(1.0, 1.0), rtol=1e-9)
    with pytest.raises(da.InconsistentDataError, match="found angle = 1 given") as error:
        da.sweep(MASS, {"bounds.q": [(-0.5, 0.4), (-0.5, 0.5)]}, {**ENDS, "T": 1.0})
    assert error.value.__notes__[0].startswith("this is the problem of the sweep with bounds.q = [-0.5  0.4]")


def test_the_map_is_drawn_over_what_was_swept(whole):
    axes = da.plot(whole).axes
    assert (axes[0].get_xlabel(), axes[0].get_ylabel(), axes[1].get_ylabel()) == ("T", "bounds.u", "cost")
    drawn = axes[0].collections[0].get_array()
    np.testing.assert_array_equal(np.ma.filled(drawn, np.nan), whole.data.cost.values.T)
    assert axes[0].get_legend_handles_labels()[1] == ["infeasible"]
    assert da.plot(whole, value="iterations").axes[1].get_ylabel() == "iterations"
    pairs = da.sweep(MASS, {"bounds.u": [(-9.0, 8.0), (-10.0, 9.0)]}, {**ENDS, "T": 1.0})
    assert da.plot(pairs).axes[0].get_xlabel() == "bounds_u_upper"


RUNS_ONLY = {
    "save": da.Save(every=2),
    "h": 0.1,
    "q0": [0.0],
    "t0": 1.0,
    "stop": effort,
}
WRONG = {
    **{rf"{name}: is for runs from initial data": {name: x} for name, x in RUNS_ONLY.items()},
    "solver: a sweep of solutions does not use branch": {"solver": da.Solver(branch=da.Avoid())},
    "solver: a sweep of solutions does not use backend": {"solver": da.Solver(backend="jax")},
    r"values\['T'\], T: found both": {"values": {"T": [1.0]}, "T": 2.0},
    r"values\['T'\]: found .*positive": {"values": {"T": [-1.0, 1.0]}},
    r"values\['final.x'\]: found 'x'; the coordinates are angle": {"values": {"final.x": [1.0]}},
    r"values\['final.a.angle'\]: needs final=": {"values": {"final.a.angle": [1.0]}},
    r"values\['final'\], final: found both": {"values": {"final": [REST]}},
    r"values\['initial'\]\[1\]: has another form": {"values": {"initial": [REST, ([0.0], None)]}, "initial": None},
    r"values\['bounds.u'\]: .*above 0": {"values": {"bounds.u": [-1.0, 1.0]}, "T": 1.0},
    r"values\['steps'\]: is the same for all": {"values": {"steps": [10, 20]}, "T": 1.0},
    r"values\['k'\]: is no parameter and no argument that can be swept; there are g, m, initial": {"values": {"k": [1.0]}},
    "values: found 'bounds.u' and 'bounds.u.upper', which are about the same": {
        "values": {"bounds.u": [1.0], "bounds.u.upper": [1.0]}
    },
    "bounds: found 'w'": {"values": {"bounds.w": [1.0]}, "T": 1.0},
    "T, steps, times: are missing|T: ": {"values": {"m": [1.0]}},
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_what_makes_no_sense_is_refused_by_name(message):
    with pytest.raises((ValueError, TypeError), match=message):
        sweep(**WRONG[message])


def test_what_is_no_problem_between_ends_is_refused():
    with pytest.raises(TypeError, match="system: found System"):
        da.sweep(PENDULUM, {"m": [1.0]}, {**ENDS, "T": 1.0})
    with pytest.raises(ValueError, match="seek: is for problems between ends"):
        da.sweep(PENDULUM, {"m": [1.0]}, {"q0": [0.0], "v0": [0.0], "h": 0.1, "steps": 2, "seek": "extremal"})
