"""A sweep is its single runs, with names: values, axes, times, outcomes; and what is saved of it comes back."""

import dataclasses
import json
import pickle
import signal
import sys
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import dalembert as da

H, STEPS = 0.05, 60


def oscillator(q, v, p):
    return 0.5 * p["m"] * v @ v - 0.5 * p["k"] * q @ q


def largest(value, t, q, v, multipliers):
    return {"reach": jnp.maximum(value["reach"], jnp.abs(q[0])), "end": q}


def beyond(q, v, p):
    """A wall that heavy or soft oscillators reach."""
    return q[0] > -0.9


SYSTEM = da.System(oscillator, coordinates=("x",), parameters={"m": 1.0, "k": 1.0})
MASSES, SPRINGS = np.array([0.5, 1.0, 2.0]), np.array([1.0, 2.0, 3.0, 4.0])
REDUCE = (largest, {"reach": 0.0, "end": np.zeros(1)})
FIXED = {"v0": [0.0], "h": H, "steps": STEPS, "save": da.Save(every=7)}
RUN = {**FIXED, "save": da.Save(every=7, reduce=REDUCE)}


@pytest.fixture(scope="module")
def study():
    return da.sweep(SYSTEM, {"m": MASSES, "k": SPRINGS}, {"q0": [1.0], **FIXED}, reduce=REDUCE)


@pytest.fixture(scope="module")
def ended():
    """Some runs leave the domain between two saved times, in different steps."""
    return da.sweep(
        SYSTEM, {"m": MASSES, "k": SPRINGS}, {"q0": [1.0], "stop": da.Stop(domain=beyond), **FIXED}, reduce=REDUCE
    )


def same(a: da.Path, b: da.Path) -> None:
    """Equal bits in all arrays; statistics that machine code in lanes may round otherwise, to rounding."""
    left, right = ({f.name: getattr(x, f.name) for f in dataclasses.fields(x)} for x in (a, b))
    for name in left.keys() - {"provenance", "statistics", "reduced"}:
        if left[name] is not None and name != "levels":
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)
    assert left["levels"] == right["levels"]
    for x, y in zip(jax.tree.leaves(a.reduced), jax.tree.leaves(b.reduced), strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(jax.tree.leaves(a.statistics), jax.tree.leaves(b.statistics), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("ends", [False, True], ids=["all steps", "ended early"])
def test_every_run_is_the_single_run(study, ended, ends):
    """To the bit: this system has no elementary function, whose rounding differs between lanes and a single run."""
    domain = beyond if ends else None
    found = set()
    for m, k in ((0.5, 4.0), (2.0, 1.0), (1.0, 3.0)):
        path = (ended if ends else study).sel(m=m, k=k)
        single = da.simulate(SYSTEM.replace(m=m, k=k), [1.0], stop=da.Stop(domain=domain), throw=False, **RUN)
        same(path, single)
        found.add(path.outcome)
        assert path.provenance == single.provenance
    assert found == ({da.Outcome.LEFT_DOMAIN, da.Outcome.SUCCESS} if ends else {da.Outcome.SUCCESS})


def test_the_runs_oscillate_with_the_frequency_of_the_discrete_oscillator(study):
    """The midpoint rule keeps the circle and turns by 2 atan(ω h/2) in each step, ω² = k/m: that over both axes."""
    omega = np.sqrt(study.data.k / study.data.m)
    angle = 2 * np.arctan(0.5 * H * omega) * np.round(study.data.time / H)
    assert angle.dims == ("k", "m", "time")
    assert float(abs(np.cos(angle) - study["x"]).max()) < 1e-12
    period = 2 * np.pi / omega  # second order: of the continuous one it is the angle to h²
    assert float(abs(angle / (2 * np.pi) * period - study.data.time).max()) < 8 * H**2 / 12 * STEPS * H


def test_axes_coordinates_and_times_have_their_names(study):
    assert study.axes == ("m", "k")
    assert study["x"].dims == ("m", "k", "time")
    np.testing.assert_array_equal(study.data.m, MASSES)
    np.testing.assert_array_equal(study.data.time, H * np.append(np.arange(0, STEPS, 7), STEPS))
    assert study.data.residual.dims == study.data.steps_done.dims == ("m", "k")
    assert study.reduced["reach"].dims == ("m", "k")
    np.testing.assert_array_equal(study.reduced["end"][..., 0], study["x"].isel(time=-1))
    assert len(study) == 12 == len(list(study))
    assert "3 m × 4 k" in study.describe()
    assert "success: 12" in study.describe()


def test_runs_are_chosen_by_name(study):
    some = study.sel(m=[0.5, 2.0], k=slice(2, 3))
    assert some.axes == ("m", "k")
    np.testing.assert_array_equal(some.data.k, [2.0, 3.0])
    np.testing.assert_array_equal(some["x"], study["x"].values[[0, 2]][:, 1:3])
    line = study.sel(m=0.5 * (1 + 1e-12))  # in spite of rounding
    assert line.axes == ("k",)
    assert float(line.data.m) == 0.5
    with pytest.raises(ValueError, match=r"m: found 0\.6; the runs have 0\.5, 1, 2"):
        study.sel(m=0.6)
    for wrong in (np.inf, np.nan, [0.5, 0.6], []):
        with pytest.raises(ValueError, match=r"m: found .*; the runs have 0\.5, 1, 2"):
            study.sel(m=wrong)
    with pytest.raises(ValueError, match="m: was chosen before"):
        line.sel(m=0.5)
    with pytest.raises(KeyError, match="is not a swept name; there are m, k"):
        study.sel(l=1.0)
    with pytest.raises(TypeError, match="m: found str 'one'"):
        study.sel(m="one")


def test_zip_is_the_diagonal_of_the_product(study):
    rows = da.sweep(SYSTEM, {"m": MASSES, "k": SPRINGS[:3]}, {"q0": [1.0], **FIXED}, combine="zip", reduce=REDUCE)
    assert rows.axes == ("run",)
    for i, (m, k) in enumerate(zip(MASSES, SPRINGS, strict=False)):
        same(rows.sel(m=m), study.sel(m=m, k=k))
        same(rows.sel(run=i), rows.sel(k=k))
    assert "3 run (m, k together)" in rows.describe()


def test_initial_data_are_swept_by_number_and_by_place():
    plane = da.System(lambda q, v, p: 0.5 * v @ v - p["q"] * q[1], coordinates=("x", "y"), parameters={"q": 9.81})
    speeds = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 2.0]])
    study = da.sweep(plane, {"v0": speeds, "q": [1.0, 2.0]}, {"q0": [0.0, 0.0], "h": 0.1, "steps": 5})
    assert study.axes == ("v0", "swept_q")  # q is the name of the positions
    np.testing.assert_array_equal(study.data.v0_y, speeds[:, 1])
    path = study.sel(v0=1, q=2.0)
    np.testing.assert_allclose(path["x"][-1], 3.0 * 0.5, rtol=1e-14)
    assert json.loads(path.provenance.run)["v0"] == [3.0, 4.0]
    assert json.loads(path.provenance.parameters) == {"q": 2.0}
    assert study.sel(v0_y=2.0).axes == ("v0", "swept_q")  # two runs have it
    assert study.sel(v0_x=5.0, q=1.0).v[0, 0] == 5.0
    assert path.provenance.subject.problem.parameters["q"] == 2.0  # which pictures draw


def test_a_run_that_fails_is_an_outcome_in_the_map(ended):
    outcomes = ended.outcomes
    reached = np.sqrt(SPRINGS / MASSES[:, None]) * H * STEPS > np.arccos(-0.9)
    np.testing.assert_array_equal(outcomes == "left_domain", reached)
    assert 0 < reached.sum() < reached.size
    kept = ended.data.nodes_kept
    assert "constraint_forces" not in ended.data  # the system has no constraints
    assert not ended.sel(m=0.5, k=1.0).constraint_forces.any()
    for one in ("q", "v"):
        values = ended.data[one]
        level = values.dims[2]
        lead = ended.data.sizes["time"] - ended.data.sizes[level]
        there = np.arange(ended.data.sizes[level]) < (kept.values - lead)[..., None]
        np.testing.assert_array_equal(np.isfinite(values[..., 0]), there, err_msg=one)
    assert float(abs(ended.data.last_time - ended.data.steps_done * H).max()) < 1e-12
    nodes = da.Scheme("nodes")  # begins with two nodes, of which one is between the saved times
    nothing = da.sweep(
        SYSTEM,
        {"k": SPRINGS},
        {"q0": [1.0], "stop": da.Stop(domain=lambda q, v, p: q[0] > 1), "scheme": nodes, **FIXED},
        reduce=REDUCE,
    )
    assert set(nothing.outcomes.values) == {"left_domain"}
    assert [path.steps for path in nothing] == [0] * 4
    assert all(path.q.shape == (1, 1) and path.multipliers.shape == (0, 0) for path in nothing)


def test_what_is_saved_comes_back(study, ended, tmp_path):
    for one in (study, ended):
        da.save(one, tmp_path / "study.nc")
        again = da.load(tmp_path / "study.nc")
        assert again.data.equals(one.data)
        assert again.swept == one.swept
        same(again.sel(m=2.0, k=4.0), one.sel(m=2.0, k=4.0))
        assert da.matches(tmp_path / "study.nc", SYSTEM)
        sent = pickle.loads(pickle.dumps(one))
        assert sent.data.identical(one.data)
    with xr.open_dataset(tmp_path / "study.nc") as plain:
        assert plain.q.encoding["zlib"]
        assert plain.q.sel(m=2.0, coordinate="x").dims == ("k", "time")
    assert da.store.from_xarray(study.sel(m=2.0).to_xarray()).axes == ("k",)


BROKEN = {
    "no swept": lambda d: d.attrs.pop("swept"),
    "swept is no JSON": lambda d: d.attrs.update(swept="__import__('os')"),
    "swept names another": lambda d: d.attrs.update(swept=d.attrs["swept"].replace('"k"', '"z"')),
    "no times": lambda d: d.update({"nodes_kept": d.nodes_kept * 0}),
    "unknown outcome": lambda d: d.update({"code": d.code + 70}),
    "single precision": lambda d: d.update({"q": d.q.astype(np.float32)}),
    "other axes": lambda d: d.update({"v": d.v.transpose("k", "m", ...)}),
    "no tree": lambda d: d.attrs.update(reduced='{"leaf": 9}'),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_another_data_set_is_refused(study, fault):
    data = study.data.copy()
    BROKEN[fault](data)
    with pytest.raises(ValueError, match=r"^data: "):
        da.store.from_xarray(data)


@pytest.mark.parametrize(
    ("values", "more", "words"),
    [
        ({"mass": [1.0]}, {}, r"values\['mass'\]: is no parameter and no initial datum; there are k, m, q0"),
        ({"h": [0.1, 0.2]}, {}, r"values\['h'\]: is the same for all runs"),
        ({"m": []}, {}, r"values\['m'\]: found none"),
        ({"m": [1.0, np.nan]}, {}, r"values\['m'\]: found nan at index 1"),
        ({"m": [1.0], "k": [1.0, 2.0]}, {"combine": "zip"}, "values: found {'m': 1, 'k': 2}; with combine='zip'"),
        ({"q0": [1.0]}, {"q0": [1.0]}, r"values\['q0'\], q0: found both"),
        ({"m": [1.0, 2.0]}, {"q0": [[1.0], [2.0]]}, r"q0: found shape \(2, 1\); \(n,\) is needed"),
        ({"m": np.ones(10**5), "k": np.ones(10**5)}, {}, "= 10000000000 runs with 10 saved states of each are 6e"),
    ],
)
def test_bad_input_is_named(values, more, words):
    fixed = {"q0": None if "q0" in values else [1.0], **FIXED} | {name: more[name] for name in more if name == "q0"}
    with pytest.raises(ValueError, match=words):
        da.sweep(SYSTEM, values, fixed, combine=more.get("combine", "product"))


def test_initial_data_beside_a_control_problem_are_refused_by_name():
    plan = da.OptimalControl(da.System(lambda q, v: 0.5 * v @ v), cost=lambda q, v, u: u @ u, actuated=0)
    with pytest.raises(ValueError, match="v0: is for runs from initial data"):
        da.sweep(plan, {"q0": [0.0]}, {"v0": [0.0], "h": 0.1, "steps": 2})
    with pytest.raises(ValueError, match=r"values\['q0'\]: is no parameter and no argument that can be swept"):
        da.sweep(plan, {"q0": [0.0]}, {"steps": 2})


def test_ctrl_c_keeps_the_study():
    with pytest.raises(da.Interrupted) as error:
        da.sweep(
            SYSTEM,
            {"m": MASSES},
            {"q0": [1.0], "v0": [0.0], "h": H, "steps": 10**10, "save": da.Save(every=None)},
            progress=lambda *x: signal.raise_signal(signal.SIGINT),
        )
    study = error.value.path
    assert set(study.outcomes.values) == {"interrupted"}
    assert all(path.steps > 0 for path in study)
    assert study.data.sizes["time"] == 1
    assert all(path.q.shape == (2, 1) for path in study)  # the last state was between two saved times


def test_ctrl_c_while_the_study_is_made_keeps_it(monkeypatch):
    """Pressed when all runs are done, while the arrays of the study are made: they are made again when it is looked at."""
    room = sys.modules["dalembert.studies.job"]
    given = {"q0": [1.0], "v0": [0.0], "h": H, "steps": 5}
    whole, real = da.sweep(SYSTEM, {"m": MASSES}, given), room.study_to_xarray

    def pressed(*arguments, **named):
        monkeypatch.setattr(room, "study_to_xarray", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "study_to_xarray", pressed)
    with pytest.raises(da.Interrupted) as error:
        da.sweep(SYSTEM, {"m": MASSES}, given)
    again = pickle.loads(pickle.dumps(error.value)).path
    assert again.data.drop_attrs().identical(whole.data.drop_attrs())


def test_the_rows_of_runs_are_kept_once():
    """8 runs with 50 000 states: 5 numbers of each (q, v, force, held force, k) and no copies; times once for all runs."""
    tracemalloc.start()
    try:
        study = da.sweep(SYSTEM, {"m": np.linspace(1, 2, 8)}, {"q0": [1.0], "v0": [0.0], "h": H, "steps": 50_000})
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert study.data.q.shape == (8, 50_001, 1)
    assert most < 8 * 8 * 50_000 * (5 + 1.5)
    with pytest.raises(ValueError, match="read-only"):
        study.data.q.values[0, 0, 0] = 1.0


def test_a_big_sweep_keeps_what_is_asked_for(monkeypatch):
    """10⁴ runs, of which the reducer's value and the last state stay: 300 bytes of each, whatever the number of steps."""
    size = 100
    given = {"m": np.linspace(1, 2, size), "k": np.linspace(1, 2, size)}
    study = da.sweep(
        SYSTEM, given, {"q0": [1.0], "v0": [0.0], "h": H, "steps": STEPS, "save": da.Save(every=None)}, reduce=REDUCE
    )
    assert study.data.nbytes < 300 * size**2
    turned = 2 * np.arctan(0.5 * H * np.sqrt(study.data.k / study.data.m)) * xr.DataArray(1 + np.arange(STEPS), dims="step")
    assert float(abs(abs(np.cos(turned)).max("step") - study.reduced["reach"]).max()) < 1e-12
    monkeypatch.setattr(sys.modules["dalembert.studies.sweeps"], "_memory", lambda: 2**24)
    with pytest.raises(ValueError, match="save: 100 × 100 = 10000 runs with 61 saved states of each are 3"):
        da.sweep(SYSTEM, given, {"q0": [1.0], "v0": [0.0], "h": H, "steps": STEPS})


def test_the_figure_of_a_study(study, ended, tmp_path):
    figure = da.plot(study, value="reach", title="Reach")
    heat, _ = figure.axes
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("m", "k")
    np.testing.assert_array_equal(np.ravel(heat.collections[0].get_array()), study.reduced["reach"].values.T.ravel())
    figure.savefig(tmp_path / "study.png")
    failed = da.plot(ended, value="x", dark=True).axes[0]
    shown = np.ma.getmaskarray(np.ma.masked_invalid(failed.collections[0].get_array())).reshape(4, 3)
    np.testing.assert_array_equal(shown, (ended.outcomes == "left_domain").values.T)
    assert [text.get_text() for text in failed.get_legend().get_texts()] == ["left domain"]
    (line,) = da.plot(study.sel(k=1.0), value=study["x"].sel(k=1.0).max("time").rename("most")).axes[0].lines
    np.testing.assert_array_equal(line.get_xdata(), MASSES)
    with pytest.raises(ValueError, match="value: found str 'z'; give one of reach, steps_done"):
        da.plot(study, value="z")
    with pytest.raises(ValueError, match="path: the study has 3 swept axes, l, m, k; draw it over one or two"):
        da.plot(dataclasses.replace(study, data=study.data.expand_dims("l")))


@pytest.mark.filterwarnings("ignore:sweep, fixed:DeprecationWarning")
def test_old_arguments_come_with_a_warning(study):
    single = {"q0": [1.0], "v0": [0.0], "h": H, "steps": STEPS, "save_every": 7}
    with pytest.warns(DeprecationWarning, match="sweep: give fixed={'q0': …, 'v0': …, 'h': …, 'steps': …") as found:
        old = da.sweep(SYSTEM, {"m": MASSES, "k": SPRINGS}, **single, reduce=REDUCE)
    assert found[0].filename == __file__
    assert old.data.identical(study.data)


def test_a_prepared_run_is_swept(study):
    prepared = da.prepare(SYSTEM, h=H, save=da.Save(every=7))
    data = {"q0": [1.0], "v0": [0.0], "steps": STEPS}
    assert da.sweep(prepared, {"m": MASSES, "k": SPRINGS}, data, reduce=REDUCE).data.identical(study.data)
    with pytest.raises(ValueError, match="h: is that of the prepared run; leave it out"):
        da.sweep(prepared, {"m": MASSES}, data | {"h": 0.1})
    with pytest.raises(TypeError, match=r"fixed\['step'\]: is no argument .* did you mean 'steps'"):
        da.sweep(prepared, {"m": MASSES}, {"step": 3})
    with pytest.raises(TypeError, match="fixed: found list"):
        da.sweep(prepared, {"m": MASSES}, [1.0])


def test_the_nearest_run_is_selected():
    system = da.System(lambda q, v, p: 0.5 * p["m"] * v @ v, parameters={"m": 1.0})
    study = da.sweep(system, {"m": [1.0, 2.0, 4.0]}, {"q0": [0.0], "v0": [1.0], "h": 0.1, "steps": 2})
    assert float(study.sel(m=2.9, method="nearest").provenance.subject.problem.parameters["m"]) == 2.0
    assert study.sel(m=[0.0, 3.5], method="nearest").data["m"].values.tolist() == [1.0, 4.0]
    with pytest.raises(ValueError, match=r"m: found 2\.9; the runs have 1, 2, 4"):
        study.sel(m=2.9)
    with pytest.raises(ValueError, match="m: found nan"):
        study.sel(m=float("nan"), method="nearest")
    with pytest.raises(ValueError, match="method: found str 'pad'; give 'nearest'"):
        study.sel(m=2.9, method="pad")
